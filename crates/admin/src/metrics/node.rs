//! Metrics of the node: what it has opened and closed, what it uses, and its alarms.

use broker::admin_api::{Alarms, BudgetRow, Overview};
use broker::counters::{Deprecated, RaftSums};

use crate::exposition::{Exposition, Kind};
use crate::process::Process;

const QUORUM_QUEUES: (&str, &str) = ("ra_system", "quorum_queues");

/// Adds all metrics of the node.
pub(super) fn add(page: &mut Exposition, overview: &Overview, alarms: &Alarms) {
    churn(page, "rabbitmq_", overview);
    let evicted = "Connections closed before they logged in, to make room for others";
    let unclaimed = "Bytes of data of unknown queues that the start has kept";
    page.own_family(Kind::Gauge, "unclaimed_bytes", unclaimed).sample(&[], overview.unclaimed.bytes);
    page.own_family(Kind::Counter, "handshakes_evicted_total", evicted)
        .sample(&[], overview.handshakes_evicted);
    let uses = "Uses of features that clients should no longer use";
    let mut family = page.own_family(Kind::Counter, "deprecated_feature_uses_total", uses);
    for feature in Deprecated::ALL {
        family.sample(&[("feature", feature.as_str())], overview.counters.deprecated.of(feature));
    }
    let gauges = [
        ("connections", "Connections currently open", overview.connections),
        ("channels", "Channels and sessions currently open", overview.sessions + overview.channels),
        ("consumers", "Consumers currently connected", overview.consumers),
        ("queues", "Queues available", overview.queues),
    ];
    for (name, help, value) in gauges {
        page.family(Kind::Gauge, name, help).sample(&[], value);
    }
    shards(page, overview);
    memory(page, overview);
    raft(page, overview);
    resources(page, "rabbitmq_", overview);
    let limited = "1 if connections are not accepted because file descriptors run short";
    page.family(Kind::Gauge, "alarms_file_descriptor_limit", limited)
        .sample(&[], overview.accepting_paused.into());
    for (name, help, kind) in [
        ("alarms_memory_used_watermark", "1 if the memory alarm is in effect", "memory"),
        ("alarms_free_disk_space_watermark", "1 if the disk alarm is in effect", "disk"),
    ] {
        let on = alarms.iter().any(|(alarm, node)| *alarm == kind && *node == overview.node);
        page.family(Kind::Gauge, name, help).sample(&[], on.into());
    }
}

/// Adds what was opened, declared and closed.
pub(super) fn churn(page: &mut Exposition, prefix: &str, overview: &Overview) {
    let c = &overview.counters;
    for (name, help, value) in [
        ("connections_opened_total", "Connections opened", c.connections_opened),
        ("connections_closed_total", "Connections closed or terminated", c.connections_closed),
        ("channels_opened_total", "Channels and sessions opened", c.channels_opened),
        ("channels_closed_total", "Channels and sessions closed", c.channels_closed),
        ("queues_declared_total", "Queues declared", c.queues_declared),
        ("queues_created_total", "Queues created", c.queues_created),
        ("queues_deleted_total", "Queues deleted", c.queues_deleted),
    ] {
        page.named(Kind::Counter, format!("{prefix}{name}"), help).sample(&[], value);
    }
}

/// Adds what the process uses, and the limits at which publishers are stopped.
pub(super) fn resources(page: &mut Exposition, prefix: &str, overview: &Overview) {
    let (process, limits) = (Process::read(), &overview.limits);
    for (name, help, value) in [
        ("process_resident_memory_bytes", "Memory used in bytes", process.resident_bytes),
        ("process_open_fds", "Open file descriptors", process.open_fds),
        ("process_max_fds", "Open file descriptors limit", process.max_fds),
        ("resident_memory_limit_bytes", "Memory alarm limit in bytes", Some(limits.memory_limit)),
        ("disk_space_available_bytes", "Disk space available in bytes", Some(limits.disk_free)),
        ("disk_space_available_limit_bytes", "Disk alarm limit in bytes", Some(limits.disk_free_limit)),
    ] {
        if let Some(value) = value {
            page.named(Kind::Gauge, format!("{prefix}{name}"), help).sample(&[], value);
        }
    }
    // The name that RabbitMQ's dashboards read.
    page.named(Kind::Gauge, format!("{prefix}erlang_uptime_seconds"), "Time since the node started")
        .sample_ms(&[], overview.uptime_ms);
}

/// Adds how busy the shards are.
fn shards(page: &mut Exposition, overview: &Overview) {
    let help = "Time in which the thread of a shard was awake";
    let mut family = page.own_family(Kind::Counter, "shard_busy_seconds_total", help);
    for row in &overview.shards {
        family.sample_ns(&[("shard", &row.number.to_string())], row.busy.busy_ns);
    }
}

/// A figure of a budget: name, help, and how to read it.
type BudgetFigure = (&'static str, &'static str, fn(&BudgetRow) -> u64);

/// The figures of every memory budget.
const BUDGETS: &[BudgetFigure] = &[
    ("budget_used_bytes", "Memory that the node uses for clients, by kind", |row| row.used),
    ("budget_limit_bytes", "Limit of the memory that the node uses for clients, by kind", |row| row.limit),
];

/// Adds the memory that clients can make the node use.
pub(super) fn memory(page: &mut Exposition, overview: &Overview) {
    for (name, help, of) in BUDGETS {
        let mut family = page.own_family(Kind::Gauge, name, help);
        for row in &overview.budgets {
            family.sample(&[("budget", row.name)], of(row));
        }
    }
}

/// A sum over Raft groups: kind, name, help, and how to read it.
type RaftSum = (Kind, &'static str, &'static str, fn(&RaftSums) -> u64);

/// The sums that RabbitMQ's dashboard RabbitMQ-Quorum-Queues-Raft reads. RabbitMQ 4.2 has renamed them, and its dashboard asks for
/// both names.
const RAFT_SUMS: &[RaftSum] = {
    use Kind::{Counter, Gauge};
    const TERM: &str = "Sum of the terms of Raft groups";
    const WRITTEN: &str = "Sum of the indices of the last entries that are synced";
    const COMMITTED: &str = "Sum of the indices of the last committed entries";
    const APPLIED: &str = "Sum of the indices of the last applied entries";
    const BASE: &str = "Sum of the indices of the newest bases of logs";
    &[
        (Gauge, "raft_term", TERM, |sums| sums.term),
        (Counter, "raft_term_total", TERM, |sums| sums.term),
        (Gauge, "raft_last_written_index", WRITTEN, |sums| sums.written_index),
        (Gauge, "raft_log_last_written_index", WRITTEN, |sums| sums.written_index),
        (Gauge, "raft_commit_index", COMMITTED, |sums| sums.commit_index),
        (Gauge, "raft_log_commit_index", COMMITTED, |sums| sums.commit_index),
        (Gauge, "raft_last_applied", APPLIED, |sums| sums.applied_index),
        (Gauge, "raft_log_last_applied_index", APPLIED, |sums| sums.applied_index),
        (Gauge, "raft_snapshot_index", BASE, |sums| sums.base_index),
        (Gauge, "raft_log_snapshot_index", BASE, |sums| sums.base_index),
    ]
};

/// Adds what rows of queues show on other pages, as sums over all Raft groups. Of latencies it is the longest.
pub(super) fn raft_sums(page: &mut Exposition, overview: &Overview) {
    for (kind, name, help, of) in RAFT_SUMS {
        page.family(*kind, name, help).sample(&[QUORUM_QUEUES], of(&overview.counters.raft));
    }
    for name in ["raft_commit_latency_seconds", "raft_entry_commit_latency_seconds"] {
        longest_commit(page, name, overview);
    }
}

fn longest_commit(page: &mut Exposition, name: &str, overview: &Overview) {
    let help = "Longest time until an entry was committed, during the last seconds";
    page.family(Kind::Gauge, name, help).sample_ms(&[QUORUM_QUEUES], overview.commit_latency_ms);
}

/// What all Raft groups have handed to the log. RabbitMQ's names of these counters have no suffix.
fn raft(page: &mut Exposition, overview: &Overview) {
    let c = &overview.counters;
    for (name, help, value) in [
        ("raft_entries", "Entries handed to the log", c.raft_entries),
        ("raft_bytes_written", "Size of the entries handed to the log", c.raft_bytes),
    ] {
        page.family(Kind::Counter, name, help).sample(&[QUORUM_QUEUES], value);
    }
    longest_commit(page, "raft_max_commit_latency_seconds", overview);
}
