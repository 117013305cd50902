//! Memory and disk alarms (docs/compatibility.md, Definitions and alarms). They stop publishers before the
//! node runs out of memory or disk. Consuming, settling and management continue, so that the node can
//! recover.

use std::fs;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use broker::explain::Resources;

use crate::incoming::{Incoming, Shards};

/// The longest time between two measurements.
const INTERVAL: Duration = Duration::from_millis(1000);

/// The shortest time between two measurements, used when a limit is near.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// The number of bytes of disk or memory that all publishers together can fill within a second.
const FILLED_PER_S: u64 = 1 << 30;

/// A limit, in bytes or as a part of the machine's memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    Absolute(u64),
    /// A multiple of the memory that this process may use.
    Relative(f64),
}

impl Limit {
    fn bytes(self, total_memory: u64) -> u64 {
        match self {
            Self::Absolute(bytes) => bytes,
            Self::Relative(part) => (total_memory as f64 * part) as u64,
        }
    }
}

/// The limits at which publishers are stopped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlarmLimits {
    /// The alarm is raised if resident memory exceeds this (`vm_memory_high_watermark`).
    pub memory: Limit,
    /// The alarm is raised if free space in the data directory's file system is below this
    /// (`disk_free_limit`).
    pub disk_free: Limit,
}

impl AlarmLimits {
    /// Returns the limits of memory and of free disk space, in bytes.
    pub fn in_bytes(&self) -> (u64, u64) {
        let total = memory_total();
        (self.memory.bytes(total), self.disk_free.bytes(total))
    }
}

impl Default for AlarmLimits {
    fn default() -> Self {
        Self { memory: Limit::Relative(0.6), disk_free: Limit::Absolute(50_000_000) }
    }
}

/// Returns the time until the next measurement. No limit can be crossed sooner, except within [`INTERVAL_MIN`].
fn next_look(now: &Resources) -> Duration {
    if now.any_alarm() {
        return INTERVAL;
    }
    let left_on_disk = now.disk_free.saturating_sub(now.disk_free_limit);
    let left = left_on_disk.min(now.memory_limit.saturating_sub(now.memory_used));
    Duration::from_millis(left.saturating_mul(1000) / FILLED_PER_S).clamp(INTERVAL_MIN, INTERVAL)
}

/// A change that others must hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AlarmChange {
    /// Publishers must stop because of this node, or may continue.
    Publishers { stop: bool },
    /// The alarm of this resource, `memory` or `disk`, is set or cleared.
    Alarm { source: &'static str, is_set: bool },
}

/// Stops publishers on all shards while this node or another one of its cluster has an alarm.
#[derive(Debug)]
pub(crate) struct Publishers {
    shards: Shards,
    /// Shards are told under the lock, so that they hear of changes in their order.
    stopped: Mutex<Stopped>,
}

/// What stops publishers.
#[derive(Clone, Copy, Debug, Default)]
struct Stopped {
    by_own_alarm: bool,
    by_others: bool,
    /// The node stops: its shards stop publishers themselves, and nothing lets them continue.
    for_good: bool,
}

impl Stopped {
    fn by_alarms(self) -> bool {
        self.by_own_alarm || self.by_others
    }
}

impl Publishers {
    pub(crate) fn new(shards: Shards) -> Self {
        Self { shards, stopped: Mutex::default() }
    }

    /// Sets whether this node has an alarm.
    pub(crate) fn set_own(&self, has_alarm: bool) {
        self.set(|stopped| stopped.by_own_alarm = has_alarm);
    }

    /// Sets whether another node has an alarm.
    pub(crate) fn set_others(&self, have_alarms: bool) {
        self.set(|stopped| stopped.by_others = have_alarms);
    }

    /// Called before the shards are stopped. From now on alarms change nothing.
    pub(crate) fn end(&self) {
        self.set(|stopped| stopped.for_good = true);
    }

    fn set(&self, change: impl FnOnce(&mut Stopped)) {
        let mut stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let before = stopped.by_alarms();
        change(&mut stopped);
        let now = stopped.by_alarms();
        if now != before && !stopped.for_good {
            for shard in &self.shards {
                // A shard that has ended stops nobody.
                drop(shard.send(Incoming::Blocked(now)));
            }
        }
    }
}

/// The watch over memory and disk. It has its own thread, because a file system may be slow to answer.
#[derive(Debug)]
pub(crate) struct Watch {
    measured: Arc<Mutex<Resources>>,
    /// New limits. The watch stops when it is closed.
    limits: Sender<AlarmLimits>,
    thread: JoinHandle<()>,
}

impl Watch {
    /// Measures at once and then repeatedly. `on_change` receives every change. `on_second` is called about once a second, for other periodic checks.
    pub(crate) fn start(
        limits: AlarmLimits,
        data_dir: &Path,
        on_change: impl FnMut(AlarmChange) + Send + 'static,
        on_second: impl FnMut() + Send + 'static,
    ) -> std::io::Result<Self> {
        let measured = Arc::new(Mutex::new(Resources::default()));
        let (send_limits, new_limits) = channel();
        let (shared, data_dir) = (measured.clone(), data_dir.to_owned());
        let thread = std::thread::Builder::new()
            .name("alarms".into())
            .spawn(move || watch(limits, &data_dir, &shared, &new_limits, on_change, on_second))?;
        Ok(Self { measured, limits: send_limits, thread })
    }

    pub(crate) fn measured(&self) -> Arc<Mutex<Resources>> {
        self.measured.clone()
    }

    /// Measures again at once, with other limits.
    pub(crate) fn set_limits(&self, limits: AlarmLimits) {
        // The receiver is gone only if the watch has panicked, which `stop` reports.
        let _ = self.limits.send(limits);
    }

    pub(crate) fn stop(self) {
        drop(self.limits);
        if self.thread.join().is_err() {
            tracing::error!("the watch over memory and disk has panicked");
        }
    }
}

fn watch(
    mut limits: AlarmLimits,
    data_dir: &Path,
    shared: &Mutex<Resources>,
    new_limits: &Receiver<AlarmLimits>,
    mut on_change: impl FnMut(AlarmChange),
    mut on_second: impl FnMut(),
) {
    let mut before = Resources::default();
    let mut second = Instant::now();
    loop {
        if second.elapsed() >= INTERVAL {
            on_second();
            second = Instant::now();
        }
        let now = measure(limits, data_dir);
        log_changes(&before, &now);
        *shared.lock().unwrap_or_else(PoisonError::into_inner) = now;
        if before.any_alarm() != now.any_alarm() {
            on_change(AlarmChange::Publishers { stop: now.any_alarm() });
        }
        for (source, was_set, is_set) in
            [("memory", before.memory_alarm, now.memory_alarm), ("disk", before.disk_alarm, now.disk_alarm)]
        {
            if was_set != is_set {
                on_change(AlarmChange::Alarm { source, is_set });
            }
        }
        before = now;
        match new_limits.recv_timeout(next_look(&now)) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(new) => limits = new,
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn measure(limits: AlarmLimits, data_dir: &Path) -> Resources {
    let (memory_limit, disk_free_limit) = limits.in_bytes();
    let memory_used = memory_used().unwrap_or(0);
    // A value that cannot be measured raises no alarm: a broker that refuses all publishers is of no use.
    let disk = rustix::fs::statvfs(data_dir).ok();
    let disk_free = disk.as_ref().map_or(u64::MAX, |s| s.f_bavail * s.f_frsize);
    // Without the blocks that only root may use.
    let usable = |s: &rustix::fs::StatVfs| s.f_blocks.saturating_sub(s.f_bfree.saturating_sub(s.f_bavail));
    let disk_total = disk.as_ref().map_or(0, |s| usable(s) * s.f_frsize);
    Resources {
        memory_used,
        memory_limit,
        disk_free,
        disk_free_limit,
        disk_total,
        memory_alarm: memory_used > memory_limit,
        disk_alarm: disk_free < disk_free_limit,
    }
}

fn log_changes(before: &Resources, now: &Resources) {
    match (before.memory_alarm, now.memory_alarm) {
        (false, true) => tracing::warn!(
            used = now.memory_used,
            limit = now.memory_limit,
            "memory alarm: publishers are stopped"
        ),
        (true, false) => tracing::info!(used = now.memory_used, "memory alarm cleared"),
        _ => {}
    }
    match (before.disk_alarm, now.disk_alarm) {
        (false, true) => tracing::warn!(
            free = now.disk_free,
            limit = now.disk_free_limit,
            "disk alarm: publishers are stopped"
        ),
        (true, false) => tracing::info!(free = now.disk_free, "disk alarm cleared"),
        _ => {}
    }
}

/// Returns the resident memory of this process, in bytes.
fn memory_used() -> Option<u64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Returns the memory that this process may use, in bytes: the lower of its control group's limit and the
/// machine's memory.
fn memory_total() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let kib: u64 = text
            .lines()
            .find_map(|l| l.strip_prefix("MemTotal:"))?
            .trim()
            .strip_suffix(" kB")?
            .parse()
            .ok()?;
        Some(kib * 1024)
    });
    let groups = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let group = groups.iter().find_map(|file| fs::read_to_string(file).ok()?.trim().parse::<u64>().ok());
    match (machine, group) {
        (Some(machine), Some(group)) => machine.min(group),
        (machine, group) => machine.or(group).unwrap_or(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_absolute_or_relative() {
        assert_eq!(Limit::Absolute(7).bytes(1000), 7);
        assert_eq!(Limit::Relative(0.6).bytes(1000), 600);
    }

    #[test]
    fn one_alarm_of_two_is_enough() {
        let here = std::env::temp_dir();
        let quiet = AlarmLimits { memory: Limit::Absolute(u64::MAX), disk_free: Limit::Absolute(0) };
        assert!(!measure(quiet, &here).any_alarm());
        let memory = AlarmLimits { memory: Limit::Absolute(1), ..quiet };
        assert!(measure(memory, &here).memory_alarm && measure(memory, &here).any_alarm());
        let disk = AlarmLimits { disk_free: Limit::Absolute(u64::MAX), ..quiet };
        assert!(measure(disk, &here).disk_alarm && measure(disk, &here).any_alarm());
    }

    #[test]
    fn publishers_are_stopped_while_any_node_has_an_alarm() {
        let (shard, mut told) = tokio::sync::mpsc::unbounded_channel();
        let publishers = Publishers::new(vec![shard]);
        let mut told = move || match told.try_recv() {
            Ok(Incoming::Blocked(blocked)) => Some(blocked),
            _ => None,
        };
        let (mut own, mut others, mut blocked) = (false, false, false);
        // Each change of each of the two, in both states of the other.
        for step in [0, 1, 0, 1, 1, 0, 0, 1, 0, 0] {
            if step == 0 {
                own = !own;
                publishers.set_own(own);
            } else {
                others = !others;
                publishers.set_others(others);
            }
            blocked = told().unwrap_or(blocked);
            assert_eq!(blocked, own || others);
            assert_eq!(told(), None, "it is told once");
        }
        publishers.end();
        publishers.set_own(!own);
        publishers.set_others(false);
        assert_eq!(told(), None, "the shards stop");
    }

    #[test]
    fn measurements_are_more_frequent_near_a_limit() {
        let memory_limit = u64::MAX;
        let roomy =
            Resources { disk_free: u64::MAX, disk_free_limit: 1000, memory_limit, ..Resources::default() };
        assert_eq!(next_look(&roomy), INTERVAL);
        let disk = |disk_free| next_look(&Resources { disk_free, ..roomy });
        assert_eq!(disk(1000 + FILLED_PER_S / 2), INTERVAL / 2);
        assert_eq!(disk(1001), INTERVAL_MIN);
        let memory = |memory_used| next_look(&Resources { memory_used, ..roomy });
        assert_eq!(memory(memory_limit - FILLED_PER_S / 2), INTERVAL / 2);
        assert_eq!(memory(memory_limit), INTERVAL_MIN);
        // When usage falls, the next measurement may come late, because there is no hurry to let publishers
        // continue.
        assert_eq!(
            next_look(&Resources { memory_used: memory_limit, memory_alarm: true, ..roomy }),
            INTERVAL
        );
    }

    #[test]
    fn the_watch_notifies_and_stops() {
        let limits = AlarmLimits { memory: Limit::Absolute(1), disk_free: Limit::Absolute(0) };
        let (told, heard) = channel();
        let watch =
            Watch::start(limits, &std::env::temp_dir(), move |on| told.send(on).unwrap(), || {}).unwrap();
        assert_eq!(heard.recv(), Ok(AlarmChange::Publishers { stop: true }));
        assert_eq!(heard.recv(), Ok(AlarmChange::Alarm { source: "memory", is_set: true }));
        assert!(watch.measured().lock().unwrap().memory_alarm);
        watch.set_limits(AlarmLimits { memory: Limit::Absolute(u64::MAX), ..limits });
        assert_eq!(heard.recv(), Ok(AlarmChange::Publishers { stop: false }));
        assert_eq!(heard.recv(), Ok(AlarmChange::Alarm { source: "memory", is_set: false }));
        watch.stop();
    }
}
