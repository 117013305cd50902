//! Random clients, queues and orders of events against the strict client: 100 runs of 1,000 steps.
//! `SLUICE_SOAK` multiplies the runs, `SLUICE_SEED` is the first seed.

use amqp10::{DeliveryState, Modified, Value};
use broker::settings::{LinkCredit, Settings};
use queue::Report;
use wal_testing::Random;

use super::client::{Client, Consumer, End, Hello, STREAM, State};
use super::world::World;

const RUNS: u64 = 100;
const STEPS: u64 = 1_000;
/// The number of clients. In some steps a client acts, in the others the broker does.
const CLIENTS: usize = 3;
/// The links with handles below this publish.
const PUBLISHERS: u32 = 2;
const LINKS: u32 = 5;

/// The queues. `plain` is deleted and declared again. Messages of `short` expire. `group` and `single-group` are quorum queues. `single`
/// and `single-group` have a single active consumer. The last one is a stream.
const QUEUES: [&str; 6] = ["plain", "single", "short", "group", "single-group", STREAM];

struct Run {
    random: Random,
    world: World,
    clients: Vec<Client>,
    settings: Settings,
    alarm: bool,
    /// The number of times that certain events occurred. Each must occur once per run on average.
    pub seen: Seen,
}

#[derive(Debug, Default)]
struct Seen {
    deliveries: u64,
    answers: u64,
    drains: u64,
    wraps: u64,
    confirmed: u64,
    deleted: u64,
    checks: u64,
    from_streams: u64,
    stream_drains: u64,
    stream_answers: u64,
    from_groups: u64,
    group_drains: u64,
    group_answers: u64,
}

#[test]
fn credit_windows_and_drains_keep_the_formulas_in_any_order() {
    let number =
        |name: &str, default| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let (base, factor) = (number("SLUICE_SEED", 1), number("SLUICE_SOAK", 1));
    let mut seen = Seen::default();
    for seed in base..base + if factor == 0 { 1 } else { RUNS * factor } {
        let run = std::panic::catch_unwind(|| Run::new(seed).play());
        match run {
            Ok(of_run) => seen.add(&of_run),
            Err(_) => panic!("SLUICE_SEED={seed} SLUICE_SOAK=0 repeats it"),
        }
    }
    // The counts are checked, because a test that delivers nothing, drains nothing or never wraps proves
    // nothing.
    let of_queues =
        [seen.deliveries, seen.answers, seen.drains, seen.wraps, seen.confirmed, seen.deleted, seen.checks];
    let of_streams = [seen.from_streams, seen.stream_drains, seen.stream_answers];
    let of_groups = [seen.from_groups, seen.group_drains, seen.group_answers];
    let all = [&of_queues[..], &of_streams, &of_groups].concat();
    assert!(factor == 0 || all.iter().all(|n| *n >= RUNS), "{seen:?}");
}

impl Seen {
    fn add(&mut self, other: &Self) {
        self.deliveries += other.deliveries;
        self.answers += other.answers;
        self.drains += other.drains;
        self.wraps += other.wraps;
        self.confirmed += other.confirmed;
        self.deleted += other.deleted;
        self.checks += other.checks;
        self.from_streams += other.from_streams;
        self.stream_drains += other.stream_drains;
        self.stream_answers += other.stream_answers;
        self.from_groups += other.from_groups;
        self.group_drains += other.group_drains;
        self.group_answers += other.group_answers;
    }
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let pick = |random: &mut Random, from: &[u32]| from[random.below(from.len() as u64) as usize];
        let settings = Settings {
            heartbeat_s: 0,
            max_queue_credit: pick(&mut random, &[1, 2, 7, 256]),
            max_link_credit: pick(&mut random, &[2, 9, 170]),
            link_credit: if seed.is_multiple_of(2) { LinkCredit::Adaptive } else { LinkCredit::Fixed },
            max_incoming_window: pick(&mut random, &[4, 30, 400]),
            max_unsettled_per_consumer: pick(&mut random, &[0, 3, 100_000]),
            ..Settings::default()
        };
        let mut world = World::new(1 + (seed % 3) as u8, settings.clone());
        QUEUES.iter().for_each(|queue| declare(&mut world, queue));
        world.settle();
        let shards = world.shards.len();
        let clients = (0..CLIENTS)
            .map(|n| {
                let hello = Hello {
                    max_frame_size: pick(&mut random, &[512, 100_000]),
                    window: pick(&mut random, &[0, 3, 5_000]),
                    start: u32::MAX - random.below(20) as u32,
                };
                Client::connect(&mut world, n % shards, hello)
            })
            .collect();
        Self { random, world, clients, settings, alarm: false, seen: Seen::default() }
    }

    fn play(mut self) -> Seen {
        for step in 1..=STEPS {
            self.step();
            if step % 200 == 0 || step == STEPS {
                self.check();
            }
        }
        self.seen
    }

    fn step(&mut self) {
        self.world.now_ms += self.random.below(3);
        match self.random.below(20) {
            0..9 => self.client_acts(),
            9..12 => self.client_reads(),
            12..19 => self.broker_moves(),
            _ => self.operator_acts(),
        }
    }

    fn broker_moves(&mut self) {
        let n = self.world.shards.len() as u64;
        let (a, b) = (self.random.below(n) as usize, self.random.below(n) as usize);
        match self.random.below(6) {
            0..=2 => _ = self.world.turn(a),
            3 => _ = self.world.deliver_mail(a, b),
            4 => _ = self.world.answer_log(a),
            _ if self.random.one_in(2) => _ = self.world.write_stream(a),
            _ => _ = self.world.read_stream(a),
        }
    }

    fn operator_acts(&mut self) {
        match self.random.below(12) {
            0 => {
                self.world.delete(QUEUES[0]);
                self.seen.deleted += 1;
            }
            1..6 => declare(&mut self.world, QUEUES[0]),
            6 => {
                self.alarm = !self.alarm;
                self.world.alarm(self.alarm);
            }
            7 => self.world.now_ms += 60,
            _ => {}
        }
    }

    fn client_reads(&mut self) {
        let client = &mut self.clients[self.random.below(CLIENTS as u64) as usize];
        let max = if self.random.one_in(3) { self.random.below(200) as usize } else { usize::MAX };
        client.read(&mut self.world, max);
    }

    fn client_acts(&mut self) {
        let Self { random, world, clients, .. } = self;
        let client = &mut clients[random.below(CLIENTS as u64) as usize];
        if !client.push(world) || !world.takes_input(client.at) {
            return;
        }
        let handle = random.below(LINKS.into()) as u32;
        let Some(link) = client.links.get(&handle).filter(|link| link.state != State::Gone) else {
            let queue = QUEUES[random.below(QUEUES.len() as u64) as usize];
            return match handle < PUBLISHERS {
                true => client.publisher(world, handle, queue),
                false => {
                    client.consumer(world, handle, queue, random.one_in(3), random.below(3) as i32);
                }
            };
        };
        if link.state != State::Attached {
            return;
        }
        if random.one_in(60) {
            return client.detach(world, handle);
        }
        match &link.end {
            End::Publisher(_) => {
                for _ in 0..random.below(12) {
                    let size = if random.one_in(8) { 300 + random.below(1500) as usize } else { 4 };
                    let parts = if size > 4 { 1 + random.below(4) as usize } else { 1 };
                    client.publish(world, handle, (random.one_in(2), random.one_in(2)), size, parts);
                }
            }
            End::Consumer(consumer) => {
                let held = consumer.unsettled.len();
                if held > 0 && random.one_in(2) {
                    let n = 1 + random.below(held as u64) as usize;
                    return client.settle(world, handle, n, &outcome(random));
                }
                let credit = match random.below(12) {
                    0 => 0,
                    1 => u32::MAX,
                    2 => u32::MAX - random.below(10) as u32,
                    3 => 1 << 31,
                    4..7 => 200,
                    _ => random.below(8) as u32,
                };
                let window = match random.below(6) {
                    0 => 0,
                    1 => 1,
                    2 => u32::MAX,
                    _ => 5_000,
                };
                client.flow(world, Some((handle, credit)), window, random.one_in(5), random.one_in(4));
            }
        }
    }

    /// Lets everyone read, and moves everything that can move.
    fn quiet(&mut self) {
        loop {
            self.world.settle();
            let mut read = 0;
            for client in &mut self.clients {
                read += client.read(&mut self.world, usize::MAX);
                client.push(&mut self.world);
            }
            // Time passes, because a receipt may wait this long for a consumer to settle.
            let waits = self.world.shards.iter().any(|shard| shard.has_held_receipts());
            if read == 0 && !waits {
                return;
            }
            self.world.now_ms += 20 * u64::from(waits);
        }
    }

    fn check(&mut self) {
        self.seen.checks += 1;
        if self.alarm {
            self.alarm = false;
            self.world.alarm(false);
        }
        self.quiet();
        for client in &mut self.clients {
            client.flow(&mut self.world, None, 1_000_000, false, false);
        }
        self.quiet();
        self.clients.iter().for_each(Client::check_settled);
        self.one_is_active();
        self.nobody_waits();
        self.answers_are_exact();
    }

    /// Asserts that exactly one consumer of a queue with a single active consumer has been told that it is
    /// active.
    fn one_is_active(&self) {
        let links = self.clients.iter().flat_map(|c| c.links.values());
        let links: Vec<_> = links.filter(|l| l.state == State::Attached).collect();
        for queue in QUEUES.into_iter().filter(|queue| has_one_active(queue)) {
            let of_queue = links.iter().filter(|l| l.queue == queue);
            let told: Vec<Option<bool>> = of_queue
                .filter_map(|l| match &l.end {
                    End::Consumer(consumer) => Some(consumer.active),
                    End::Publisher(_) => None,
                })
                .collect();
            let active = told.iter().filter(|active| **active == Some(true)).count();
            assert_eq!(active, usize::from(!told.is_empty()), "{queue}: {told:?}");
        }
    }

    /// Asserts that a message is ready only if no consumer can take it.
    fn nobody_waits(&mut self) {
        let max = match self.settings.max_unsettled_per_consumer {
            0 => usize::MAX,
            max => max as usize,
        };
        for queue in QUEUES {
            let Some(report) = self.world.report(queue).filter(|r| r.ready > 0) else { continue };
            let links = self.clients.iter().flat_map(|c| c.links.values());
            let hungry = links.filter(|l| l.queue == queue && l.state == State::Attached).filter(|l| {
                matches!(&l.end, End::Consumer(c) if c.credit() > 0 && (c.settled || c.unsettled.len() < max))
            });
            // A reader that has read all of a stream waits for new messages, so it is left out.
            let hungry =
                hungry.filter(|l| matches!(&l.end, End::Consumer(c) if ready_for(queue, c, &report) > 0));
            // The other consumers of a single-active queue wait, and have been told so.
            let hungry = hungry.filter(|l| matches!(&l.end, End::Consumer(c) if c.active != Some(false)));
            assert_eq!(hungry.count(), 0, "{queue} stalls: {report:?}");
        }
    }

    /// Asserts that the broker's answer equals the client's own count when nothing moves.
    fn answers_are_exact(&mut self) {
        for n in 0..CLIENTS {
            let handles: Vec<u32> = self.clients[n].links.keys().copied().collect();
            for handle in handles {
                let link = &self.clients[n].links[&handle];
                let queue = link.queue.clone();
                let (State::Attached, End::Consumer(consumer)) = (link.state, &link.end) else { continue };
                let (count, credit) = (consumer.count, consumer.credit());
                self.clients[n].flow(&mut self.world, Some((handle, credit as u32)), 1_000_000, false, true);
                self.quiet();
                self.clients[n].check_settled();
                let End::Consumer(consumer) = &self.clients[n].links[&handle].end else { continue };
                let answer = consumer.last_answer().expect("an answer");
                assert_eq!((answer.count, answer.credit, answer.drain), (count, credit, false));
                let report = self.world.report(&queue).expect("a queue with a consumer");
                assert_eq!(consumer.active.is_some(), has_one_active(&queue));
                let ready = ready_for(&queue, consumer, &report);
                assert_eq!(u64::from(answer.available), ready, "{queue} {answer:?} {report:?}");
                self.seen.answers += 1;
                self.seen.stream_answers += u64::from(queue == STREAM);
                self.seen.group_answers += u64::from(is_group(&queue));
            }
        }
        self.count_up();
    }

    fn count_up(&mut self) {
        self.seen.deliveries = self.clients.iter().map(|c| c.deliveries_got).sum();
        self.seen.confirmed = self.clients.iter().map(|c| c.confirmed).sum();
        (self.seen.from_streams, self.seen.stream_drains) = (0, 0);
        (self.seen.from_groups, self.seen.group_drains) = (0, 0);
        let consumers = self.clients.iter().flat_map(|c| c.links.values()).filter_map(|l| match &l.end {
            End::Consumer(consumer) => Some((&l.queue, consumer)),
            End::Publisher(_) => None,
        });
        for (queue, consumer) in consumers {
            if is_group(queue) {
                self.seen.from_groups += consumer.got;
                self.seen.group_drains += u64::from(consumer.count > consumer.got);
            }
            if queue == STREAM {
                self.seen.from_streams += consumer.got;
                self.seen.stream_drains += u64::from(consumer.count > consumer.got);
            }
            self.seen.drains += u64::from(consumer.count > consumer.got);
            self.seen.wraps += u64::from(consumer.count > u64::from(u32::MAX));
        }
    }
}

/// Returns how many of a queue's ready messages this consumer may have. Every reader of a stream has its own. A consumer of a
/// quorum queue that yields to another one gets nothing more before it has settled what it holds.
fn ready_for(queue: &str, consumer: &Consumer, report: &Report) -> u64 {
    match consumer.active {
        Some(false) => 0,
        Some(true) if report.yielding && !consumer.unsettled.is_empty() => 0,
        _ if queue == STREAM => report.ready - consumer.got,
        _ => report.ready,
    }
}

/// Returns true for a quorum queue.
fn is_group(queue: &str) -> bool {
    queue.ends_with("group")
}

/// Returns true for a queue with a single active consumer.
fn has_one_active(queue: &str) -> bool {
    queue.starts_with("single")
}

fn declare(world: &mut World, queue: &str) {
    let quorum = ("x-queue-type", Value::String("quorum".into()));
    let single = ("x-single-active-consumer", Value::Boolean(true));
    match queue {
        "group" => world.declare(queue, &[quorum]),
        "single-group" => world.declare(queue, &[quorum, single]),
        STREAM => world.declare(queue, &[("x-queue-type", Value::String("stream".into()))]),
        "single" => world.declare(queue, &[single]),
        "short" => world.declare(queue, &[("x-message-ttl", Value::Int(50))]),
        _ => world.declare(queue, &[]),
    }
}

fn outcome(random: &mut Random) -> DeliveryState {
    let modified = |failed, here| {
        DeliveryState::Modified(Modified {
            delivery_failed: Some(failed),
            undeliverable_here: Some(here),
            message_annotations: None,
        })
    };
    match random.below(8) {
        0 => DeliveryState::Released,
        1 => DeliveryState::Rejected(None),
        2 => modified(true, false),
        3 => modified(false, true),
        _ => DeliveryState::Accepted,
    }
}
