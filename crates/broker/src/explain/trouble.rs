//! What is not well on a node, for a list of all of it. The same trouble of many objects is one entry.

use std::collections::BTreeMap;
use std::sync::Arc;

use catalog::QueueRecord;

/// The most objects that an entry names. It counts the others. Ten names fit on a screen, and show what the objects have in
/// common.
pub const OBJECTS_MAX: usize = 10;

/// A queue without a consumer that got a message within this time grows. Otherwise its messages only wait.
const GROWS_MS: u64 = 60_000;

/// A consumer that holds a delivery for longer than this is not just slow. Work that takes minutes is rare.
pub const HELD_LONG_MS: u64 = 5 * 60_000;

/// So many returns within a minute, while no message leaves the queue, are a loop. A client that tries again now and then stays below it.
const LOOPED_MIN: u64 = 10;

/// An alarm is near from this part of the way to its limit on, in percent.
const NEAR_PERCENT: u64 = 90;

/// How urgent a trouble is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Something is refused or stands still.
    Critical,
    /// Something will be refused or stand still if nobody acts.
    Warning,
    /// It may be meant to be so.
    Notice,
}

impl Severity {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
            Self::Notice => "notice",
        }
    }
}

/// What is not well. The variants are ordered from the worst to the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// Too few nodes of the cluster are in sight: definitions cannot be changed.
    ClusterMinority,
    /// A node of the cluster does not count as alive.
    NodeMissing,
    /// A node of the cluster can be reached in one direction only.
    LinkOneWay,
    /// The log of a shard cannot write.
    LogFailed,
    /// Messages of a queue or stream are damaged on the disk.
    QueueDamaged,
    /// The Raft group of a quorum queue has no leader.
    GroupWithoutLeader,
    /// Memory or disk is short: publishers are stopped.
    Alarm,
    /// A queue at its length limit has refused messages within the last minute.
    QueueRejects,
    /// A certificate has ended.
    CertificateEnded,
    /// The clocks of two nodes of the cluster differ.
    ClocksApart,
    /// A queue gets messages, and has no consumer.
    QueueWithoutConsumer,
    /// Consumers of a queue give its messages back again and again, and none leaves it.
    RequeueLoop,
    /// Consumers of a connection hold all that they may, for minutes.
    ConsumerHoldsAll,
    /// A shard has no time left for more work.
    ShardAtLimit,
    /// Memory or disk is near the limit of its alarm.
    AlarmNear,
    /// Clients connect again and again.
    ClientsReconnect,
    /// A certificate ends within two weeks.
    CertificateEndsSoon,
    /// The files of a certificate have changed, and the new ones cannot be used.
    CertificateUnusable,
    /// Filters that consumers asked for are not in effect.
    FilterLeftOut,
    /// A queue is at its length limit and would refuse the next message.
    QueueFull,
    /// Messages wait in a queue without a consumer, and nobody publishes to it.
    MessagesWithoutConsumer,
}

impl Trouble {
    pub const ALL: [Self; 21] = [
        Self::ClusterMinority,
        Self::NodeMissing,
        Self::LinkOneWay,
        Self::LogFailed,
        Self::QueueDamaged,
        Self::GroupWithoutLeader,
        Self::Alarm,
        Self::QueueRejects,
        Self::CertificateEnded,
        Self::ClocksApart,
        Self::QueueWithoutConsumer,
        Self::RequeueLoop,
        Self::ConsumerHoldsAll,
        Self::ShardAtLimit,
        Self::AlarmNear,
        Self::ClientsReconnect,
        Self::CertificateEndsSoon,
        Self::CertificateUnusable,
        Self::FilterLeftOut,
        Self::QueueFull,
        Self::MessagesWithoutConsumer,
    ];

    pub const fn severity(self) -> Severity {
        match self {
            Self::ClusterMinority
            | Self::NodeMissing
            | Self::LinkOneWay
            | Self::LogFailed
            | Self::QueueDamaged
            | Self::GroupWithoutLeader
            | Self::Alarm
            | Self::QueueRejects
            | Self::CertificateEnded => Severity::Critical,
            Self::ClocksApart
            | Self::QueueWithoutConsumer
            | Self::RequeueLoop
            | Self::ConsumerHoldsAll
            | Self::ShardAtLimit
            | Self::AlarmNear
            | Self::ClientsReconnect
            | Self::CertificateEndsSoon
            | Self::CertificateUnusable
            | Self::FilterLeftOut => Severity::Warning,
            Self::QueueFull | Self::MessagesWithoutConsumer => Severity::Notice,
        }
    }
}

/// What kind of object has a trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Queue,
    Stream,
    Node,
    Connection,
    Certificate,
    Address,
    Shard,
}

impl Kind {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Stream => "stream",
            Self::Node => "node",
            Self::Connection => "connection",
            Self::Certificate => "certificate",
            Self::Address => "address",
            Self::Shard => "shard",
        }
    }
}

/// An object that has a trouble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub kind: Kind,
    /// The virtual host that it is in, if it is in one.
    pub vhost: Option<Arc<str>>,
    pub name: Arc<str>,
    /// The names and values of the numbers that show the trouble. A name ends with its unit, unless the value is a count.
    pub numbers: Vec<(&'static str, u64)>,
    /// How bad it is, compared with other objects that have the same trouble.
    pub weight: u64,
}

/// The objects that have the same trouble.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    pub count: u64,
    /// At most [`OBJECTS_MAX`], the worst first.
    pub objects: Vec<Object>,
}

impl Group {
    fn add(&mut self, object: Object) {
        self.count += 1;
        self.name(object);
    }

    fn merge(&mut self, other: Self) {
        self.count += other.count;
        other.objects.into_iter().for_each(|object| self.name(object));
    }

    /// Names an object, unless there are enough that are worse.
    fn name(&mut self, object: Object) {
        let order = |a: &Object, b: &Object| {
            b.weight.cmp(&a.weight).then_with(|| (&a.vhost, &a.name).cmp(&(&b.vhost, &b.name)))
        };
        let place = self.objects.partition_point(|known| order(known, &object).is_le());
        if place < OBJECTS_MAX {
            self.objects.truncate(OBJECTS_MAX - 1);
            self.objects.insert(place, object);
        }
    }
}

/// All troubles of a part of the node, or of the whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Troubles {
    /// The worst first.
    pub groups: BTreeMap<Trouble, Group>,
    /// The numbers of queues and of connections that were looked at.
    pub queues: u64,
    pub connections: u64,
}

impl Troubles {
    pub fn add(&mut self, trouble: Trouble, object: Object) {
        self.groups.entry(trouble).or_default().add(object);
    }

    pub fn merge(&mut self, other: Self) {
        let Self { groups, queues, connections } = other;
        groups.into_iter().for_each(|(trouble, group)| self.groups.entry(trouble).or_default().merge(group));
        self.queues += queues;
        self.connections += connections;
    }

    /// Adds the troubles of a queue or stream. `is_led` is false for a quorum queue whose Raft group works for nobody. The queue
    /// is not counted here.
    pub fn add_queue(&mut self, queue: &QueueRecord, report: &queue::Report, is_led: bool, now_ms: u64) {
        let rejected = report.rejected.within_a_minute(now_ms);
        let mut add = |trouble, weight, numbers: &[(&'static str, u64)]| {
            let kind = if queue.is_stream() { Kind::Stream } else { Kind::Queue };
            let (vhost, name) = (Some(queue.vhost.clone()), queue.name.clone());
            self.add(trouble, Object { kind, vhost, name, numbers: numbers.to_vec(), weight });
        };
        let ready = ("queue_ready", report.ready);
        let consumers = ("queue_consumers", u64::from(report.consumers));
        if report.damaged {
            return add(Trouble::QueueDamaged, report.ready, &[ready, consumers]);
        }
        if !is_led {
            add(Trouble::GroupWithoutLeader, report.messages(), &[ready, consumers]);
        }
        let counts =
            [ready, ("queue_rejected_a_minute", rejected), ("queue_rejected", report.rejected.total())];
        if rejected > 0 {
            add(Trouble::QueueRejects, rejected, &counts);
        } else if report.full {
            add(Trouble::QueueFull, report.ready, &counts);
        }
        let looped = looped_a_minute(report, now_ms);
        if looped > 0 {
            let unsettled = ("queue_unsettled", report.unsettled);
            add(
                Trouble::RequeueLoop,
                looped,
                &[("queue_looped_a_minute", looped), ready, unsettled, consumers],
            );
        }
        let waits_for_consumer = report.ready > 0 && report.consumers == 0 && report.stream.is_none();
        if waits_for_consumer && !is_delay(&queue.config, report) {
            let age_ms = report.head_at_ms.map(|at_ms| now_ms.saturating_sub(at_ms));
            let mut numbers = vec![ready, ("queue_ready_bytes", report.ready_bytes)];
            numbers.extend(age_ms.map(|age_ms| ("queue_oldest_ms", age_ms)));
            let grows = report.tail_at_ms.is_some_and(|at_ms| now_ms.saturating_sub(at_ms) < GROWS_MS);
            // Clients may take its messages one by one, with basic.get.
            let trouble = match grows && report.fetched == 0 {
                true => Trouble::QueueWithoutConsumer,
                false => Trouble::MessagesWithoutConsumer,
            };
            add(trouble, report.ready, &numbers);
        }
    }

    /// Adds a connection whose consumers hold all that they may for too long.
    pub fn add_holder(&mut self, vhost: &Arc<str>, name: &Arc<str>, held: &HeldLong) {
        let HeldLong { consumers, unsettled, oldest_ms } = *held;
        if consumers == 0 {
            return;
        }
        let numbers = vec![
            ("connection_consumers", consumers),
            ("connection_unsettled", unsettled),
            ("connection_oldest_ms", oldest_ms),
        ];
        let (vhost, name) = (Some(vhost.clone()), name.clone());
        let object = Object { kind: Kind::Connection, vhost, name, numbers, weight: oldest_ms };
        self.add(Trouble::ConsumerHoldsAll, object);
    }

    /// Adds a connection whose consumers asked for `filters` filters that are not in effect.
    pub fn add_left_out(&mut self, vhost: &Arc<str>, name: &Arc<str>, filters: u64) {
        if filters > 0 {
            let numbers = vec![("connection_filters_left_out", filters)];
            let (vhost, name) = (Some(vhost.clone()), name.clone());
            let object = Object { kind: Kind::Connection, vhost, name, numbers, weight: filters };
            self.add(Trouble::FilterLeftOut, object);
        }
    }
}

/// The consumers of one connection that hold all that they may, and something of it for longer than [`HELD_LONG_MS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldLong {
    pub consumers: u64,
    /// The number of deliveries that they hold.
    pub unsettled: u64,
    /// The age of the oldest one, in milliseconds.
    pub oldest_ms: u64,
}

impl HeldLong {
    /// Adds a consumer that may get no more. `oldest_ms` is the age of its oldest unsettled delivery.
    pub fn add(&mut self, unsettled: u64, oldest_ms: Option<u64>) {
        if let Some(oldest_ms) = oldest_ms.filter(|age_ms| *age_ms >= HELD_LONG_MS) {
            self.consumers += 1;
            self.unsettled += unsettled;
            self.oldest_ms = self.oldest_ms.max(oldest_ms);
        }
    }
}

/// Returns how many messages the consumers of the queue have given back again and again within the last minute, while none left it. 0 if
/// it has no consumers or no messages (somebody has purged it), or if they are too few to be a loop.
pub(super) fn looped_a_minute(report: &queue::Report, now_ms: u64) -> u64 {
    let looped = report.returned_again.within_a_minute(now_ms);
    if report.consumers > 0 && report.messages() > 0 && looped >= LOOPED_MIN { looped } else { 0 }
}

/// Returns true if messages wait in the queue until they expire, and go to another queue then. Such a queue has no consumer, and
/// never had one.
pub(super) fn is_delay(config: &queue::Config, report: &queue::Report) -> bool {
    let expires = config.message_ttl_ms.is_some() || report.expired > 0;
    config.dead_letter.is_some() && expires && report.delivered == 0
}

/// The memory and the disk of a node as they were measured last, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    pub memory_used: u64,
    pub memory_limit: u64,
    pub disk_free: u64,
    pub disk_free_limit: u64,
    /// The size of the file system. 0 if it is not known.
    pub disk_total: u64,
    pub memory_alarm: bool,
    pub disk_alarm: bool,
}

impl Resources {
    /// Returns true if publishers must stop. They stay stopped until both alarms are cleared.
    pub fn any_alarm(&self) -> bool {
        self.memory_alarm || self.disk_alarm
    }

    /// Adds the alarms that are raised.
    pub fn add_alarms(&self, node: &Arc<str>, troubles: &mut Troubles) {
        if self.memory_alarm {
            troubles.add(Trouble::Alarm, self.object(node, self.memory()));
        }
        if self.disk_alarm {
            troubles.add(Trouble::Alarm, self.object(node, self.disk()));
        }
    }

    /// Adds the alarms that are near, and not raised.
    pub fn add_near(&self, node: &Arc<str>, troubles: &mut Troubles) {
        let is_near = |way: u64, whole: u64| {
            whole > 0 && u128::from(way) * 100 >= u128::from(whole) * u128::from(NEAR_PERCENT)
        };
        if !self.memory_alarm && is_near(self.memory_used, self.memory_limit) {
            troubles.add(Trouble::AlarmNear, self.object(node, self.memory()));
        }
        // The alarm is raised when all is used but the limit.
        let used = self.disk_total.saturating_sub(self.disk_free);
        let usable = self.disk_total.saturating_sub(self.disk_free_limit);
        if !self.disk_alarm && is_near(used, usable) {
            troubles.add(Trouble::AlarmNear, self.object(node, self.disk()));
        }
    }

    fn memory(&self) -> [(&'static str, u64); 2] {
        [("memory_used_bytes", self.memory_used), ("memory_limit_bytes", self.memory_limit)]
    }

    fn disk(&self) -> [(&'static str, u64); 2] {
        [("disk_free_bytes", self.disk_free), ("disk_free_limit_bytes", self.disk_free_limit)]
    }

    fn object(&self, node: &Arc<str>, numbers: [(&'static str, u64); 2]) -> Object {
        Object { kind: Kind::Node, vhost: None, name: node.clone(), numbers: numbers.to_vec(), weight: 0 }
    }
}
