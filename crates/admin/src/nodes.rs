//! `/api/nodes`: this node with its figures, and of the other nodes of the cluster what this node knows of them.

use broker::admin_api::{BudgetRow, Overview, ShardRow};
use node::{ClusterNode, ClusterView, NodeState};
use serde_json::{Value, json};

use crate::call::Call;
use crate::parts;
use crate::process::Process;
use crate::reply::{Failure, Reply};
use crate::samples::{NodeRow, Part, Ranges};
use crate::shape;

/// How memory is measured: the resident set of the process.
pub(crate) const MEMORY_STRATEGY: &str = "rss";

/// Lists all nodes of the cluster, in the order of their names.
pub(crate) async fn list(call: &Call<'_>) -> Result<Reply, Failure> {
    let cluster = call.api.cluster(&call.who).await?;
    let mut rows = vec![node(call, call.ports.overview(call.api, &call.who).await?, &cluster)?];
    let others = cluster.nodes.iter().filter(|node| node.state != NodeState::Here);
    rows.extend(others.map(|node| other(node, &cluster)));
    Ok(Reply::Json(shape::list(rows, &call.query, &["name"]).await?))
}

pub(crate) async fn get(call: &Call<'_>) -> Result<Reply, Failure> {
    let cluster = call.api.cluster(&call.who).await?;
    let wanted = cluster.node(call.param(0)).filter(|node| node.state != NodeState::Here);
    let row = match wanted {
        Some(wanted) => other(wanted, &cluster),
        None => {
            let overview = call.ports.overview(call.api, &call.who).await?;
            require_node(&overview, call.param(0))?;
            node(call, overview, &cluster)?
        }
    };
    Ok(Reply::Json(shape::columns(row, &call.query)))
}

/// Checks that the name is that of the node.
///
/// # Errors
/// 404.
pub(crate) fn require_node(overview: &Overview, name: &str) -> Result<(), Failure> {
    if overview.node == name {
        return Ok(());
    }
    Err(Failure::not_found(format!("no node '{name}'")))
}

fn node(call: &Call<'_>, overview: Overview, cluster: &ClusterView) -> Result<Value, Failure> {
    let ranges = Ranges::of(&call.query)?;
    let row = NodeRow::new(overview, Process::read());
    let (overview, process) = (row.overview(), row.process());
    let alarms = call.api.alarms(&call.who)?;
    let sockets_max = process.max_fds;
    let alarm = |what: &str| alarms.iter().any(|(kind, node)| *kind == what && *node == overview.node);
    let mut body = json!({
        "name": overview.node,
        "type": "disc",
        "running": true,
        "rabbitmq_version": overview.product_version,
        // Nodes are never drained. RabbitMQ's programs refuse a node without this field.
        "being_drained": false,
        "partitions": cluster.out_of_reach().map(|node| &*node.name).collect::<Vec<_>>(),
        "cluster_links": cluster.nodes.iter().filter_map(link).collect::<Vec<_>>(),
        "cluster": {
            "id": cluster.cluster,
            "leader": cluster.leader_name().map(|name| &**name),
            "majority": cluster.has_majority,
            "minority_ms": cluster.minority_ms(),
            "applied_index": cluster.applied,
        },
        "rates_mode": "basic",
        "mem_calculation_strategy": MEMORY_STRATEGY,
        "platform": format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
        "os_pid": std::process::id().to_string(),
        "uptime": overview.uptime_ms,
        "node_id": overview.node_id,
        "boots": overview.boots,
        "unclaimed": { "owners": overview.unclaimed.owners, "bytes": overview.unclaimed.bytes },
        "processors": std::thread::available_parallelism().map_or(1, usize::from),
        "mem_used": process.resident_bytes,
        "mem_alarm": alarm("memory"),
        "disk_free_alarm": alarm("disk"),
        "certificate_alarm": call.ports.certificates().iter().any(|tls| tls.problem().is_some()),
        "mem_limit": overview.limits.memory_limit,
        "disk_free_limit": overview.limits.disk_free_limit,
        "fd_used": process.open_fds,
        "fd_total": process.max_fds,
        "budgets": overview.budgets.iter().map(budget).collect::<Vec<_>>(),
    });
    if let Some(here) = cluster.node(&overview.node) {
        add_place(&mut body, here, cluster);
    }
    shape::add(&mut body, parts::of_node(overview, sockets_max));
    let stats = !call.query.flag("disable_stats");
    body["shards"] = overview.shards.iter().map(|row| shard(call, row, stats)).collect();
    if stats {
        shape::add(&mut body, call.ports.samples().node(Part::Node, &row, &ranges));
    }
    Ok(body)
}

/// Shows what is known of another node. Its figures are not: it shows them itself.
fn other(node: &ClusterNode, cluster: &ClusterView) -> Value {
    let mut body = json!({ "name": *node.name, "type": "disc", "running": node.state.is_alive() });
    add_place(&mut body, node, cluster);
    let known = [
        ("node_id", node.node_id.as_deref().map(Value::from)),
        ("boots", node.boots.map(Value::from)),
        ("round_trip_ms", node.round_trip_ms.map(Value::from)),
        ("waiting_bytes", node.waiting_bytes.map(Value::from)),
        ("clock_ahead_ms", node.clock_ahead_ms.map(Value::from)),
        ("clocks_apart", node.clock_ahead_ms.map(|_| node.clocks_apart.into())),
        ("mem_alarm", node.state.is_alive().then_some(node.memory_alarm.into())),
        ("disk_free_alarm", node.state.is_alive().then_some(node.disk_alarm.into())),
    ];
    for (name, value) in known {
        if let Some(value) = value {
            body[name] = value;
        }
    }
    body
}

/// Adds the place of a node in the cluster.
fn add_place(body: &mut Value, node: &ClusterNode, cluster: &ClusterView) {
    body["state"] = node.state.word().into();
    body["state_text"] = node.why.as_str().into();
    body["votes"] = node.votes.into();
    body["leads"] = (node.number.is_some() && node.number == cluster.leader).into();
    if let Some(number) = node.number {
        body["number"] = number.into();
    }
    if let Some((host, port)) = &node.address {
        body["address"] = format!("{host}:{port}").into();
    }
    if let Some(ms) = node.since_ms {
        body["state_ms"] = ms.into();
    }
}

/// Returns the link to another node, if there is a connection in at least one direction.
fn link(node: &ClusterNode) -> Option<Value> {
    let (to, from) = node.is_linked;
    let (host, port) = node.address.as_ref().filter(|_| to || from)?;
    Some(json!({ "name": *node.name, "peer_addr": **host, "peer_port": port, "to": to, "from": from }))
}

fn shard(call: &Call<'_>, row: &ShardRow, stats: bool) -> Value {
    let ShardRow { number, is_at_limit, connections, queues, .. } = *row;
    let mut shown =
        json!({ "number": number, "at_limit": is_at_limit, "connections": connections, "queues": queues });
    if stats {
        shown["busy"] = call.ports.samples().busy(row).into();
    }
    shown
}

fn budget(row: &BudgetRow) -> Value {
    json!({ "name": row.name, "used": row.used, "limit": row.limit })
}
