//! A slow peer slows down nobody else. Each run with a slow neighbour is compared with the same run without
//! it. It must have the same deliveries in the same number of turns. What is held for the slow peer is
//! bounded, in bytes and entries.

use amqp10::DeliveryState;
use amqp10::Value;
use amqp10::session::OUTPUT_HIGH_WATER;
use broker::settings::Settings;

use super::client::{Client, End, Hello};
use super::world::World;

/// The number of messages of one measured run.
const MESSAGES: u64 = 5_000;
const FOUR_BILLION: u32 = u32::MAX;
/// The most messages that a publisher can have in flight: link credit, granted again at half.
const UNCONFIRMED_MAX: u64 = 255;
/// The time for which receipts wait for consumers to settle, in milliseconds.
const PATIENCE_MS: u64 = 20;
/// The number of messages that are published at a time. With this number, a publisher is granted credit again
/// before it is stopped.
const HALF: u64 = 85;

/// The credit of a receiver, and the number of messages that a sender wants to send at once.
const CREDIT: u32 = 200;
const BATCH: u64 = 10_000;
/// The messages that a publisher has in flight if it uses all of its credit at once: no more is granted before outcomes arrive.
const LINK_CREDIT: u64 = 170;

const HELLO: Hello = Hello { max_frame_size: 65_536, window: 1_000_000, start: u32::MAX - 9 };
const DURABLE: (bool, bool) = (false, true);
const TRANSIENT: (bool, bool) = (false, false);
const SETTLED: (bool, bool) = (true, true);

/// The types of the queues that the tests use.
const TYPES: [&str; 2] = ["classic", "quorum"];

/// Makes two shards, each the home of a queue of this type.
fn world(settings: Settings, kind: &str) -> World {
    world_with(settings, kind, kind)
}

/// Makes two shards. The fast queue is on the first, the slow one on the second. The arguments are the types of both.
fn world_with(settings: Settings, fast: &str, slow: &str) -> World {
    let mut world = World::new(2, Settings { heartbeat_s: 0, ..settings });
    world.declare("fast", &[("x-queue-type", Value::String(fast.into()))]);
    world.declare("slow", &[("x-queue-type", Value::String(slow.into()))]);
    world.place("fast", 0);
    world.place("slow", 1);
    world
}

/// Publishes as many messages as credit and window allow, up to `max`.
fn publish(
    world: &mut World,
    client: &mut Client,
    handle: u32,
    how: (bool, bool),
    size: usize,
    max: u64,
) -> u64 {
    (0..max).take_while(|_| client.publish(world, handle, how, size, 1)).count() as u64
}

fn sent(client: &Client, handle: u32) -> u64 {
    match &client.links[&handle].end {
        End::Publisher(publisher) => publisher.sent,
        End::Consumer(_) => 0,
    }
}

fn got(client: &Client, handle: u32) -> u64 {
    match &client.links[&handle].end {
        End::Consumer(consumer) => consumer.got,
        End::Publisher(_) => 0,
    }
}

/// Returns the turns of the first shard until all messages published on link 0 are confirmed. If there is a
/// consumer on link 1, they must also be received and settled. `meanwhile` runs before each turn.
fn turns(
    world: &mut World,
    client: &mut Client,
    how: (bool, bool),
    mut meanwhile: impl FnMut(&mut World, &mut Client),
) -> u64 {
    let consumes = client.links.contains_key(&1);
    let (mut turns, mut received) = (0, 0);
    while sent(client, 0) < MESSAGES
        || client.unconfirmed.values().any(|handle| *handle == 0)
        || (consumes && received < MESSAGES)
    {
        let left = MESSAGES - sent(client, 0);
        publish(world, client, 0, how, 12, left);
        meanwhile(world, client);
        turns += 1;
        assert!(turns < MESSAGES, "it stalls: {} sent, {received} received", sent(client, 0));
        world.turn(0);
        world.answer_log(0);
        world.turn(0);
        client.read(world, usize::MAX);
        if consumes {
            received = got(client, 1);
            let held = match &client.links[&1].end {
                End::Consumer(consumer) => consumer.unsettled.len(),
                End::Publisher(_) => 0,
            };
            client.settle(world, 1, held, &DeliveryState::Accepted);
            client.flow(world, Some((1, 200)), 1_000_000, false, false);
        }
    }
    turns
}

/// Makes a client with a publisher to `fast` and, if asked, a consumer of it.
fn fast_client(world: &mut World, consumes: bool) -> Client {
    let mut client = Client::connect(world, 0, HELLO);
    client.publisher(world, 0, "fast");
    if consumes {
        client.consumer(world, 1, "fast", false, 0);
    }
    settle(world, &mut [&mut client]);
    client
}

fn settle(world: &mut World, clients: &mut [&mut Client]) {
    loop {
        world.settle();
        let read: usize = clients.iter_mut().map(|client| client.read(world, usize::MAX)).sum();
        if read == 0 {
            return;
        }
    }
}

/// Returns the turns that the fast queue takes without a neighbour. `kind` is its type.
fn alone(kind: &str, how: (bool, bool), consumes: bool) -> u64 {
    let mut world = world(Settings::default(), kind);
    let mut client = fast_client(&mut world, consumes);
    turns(&mut world, &mut client, how, |_, _| {})
}

#[test]
fn a_stalled_queue_slows_only_its_own_link() {
    let hows = [DURABLE, TRANSIENT, SETTLED];
    for (kind, how) in TYPES.into_iter().flat_map(|kind| hows.map(|how| (kind, how))) {
        let mut world = world(Settings::default(), kind);
        let mut client = fast_client(&mut world, true);
        client.publisher(&mut world, 2, "slow");
        settle(&mut world, &mut [&mut client]);
        world.stalled[1] = true;
        let turns = turns(&mut world, &mut client, DURABLE, |world, client| {
            publish(world, client, 2, how, 12, HALF);
        });
        assert_eq!(turns, alone(kind, DURABLE, true), "turns for {MESSAGES} messages, {kind}");
        assert_eq!((sent(&client, 2), client.credit(2)), (UNCONFIRMED_MAX, 0));
        let session = world.session(client.at);
        let unconfirmed: Vec<u64> = session.links.iter().map(|link| link.unsettled).collect();
        assert_eq!(unconfirmed, [0, 0, UNCONFIRMED_MAX], "fast, its consumer, slow");
        assert_eq!((session.outgoing_pending, world.waiting(client.at)), (0, 0));
        assert_eq!(world.mail_len(0, 1), UNCONFIRMED_MAX as usize);
        // The link continues where it stopped before its shard was stalled.
        world.stalled[1] = false;
        settle(&mut world, &mut [&mut client]);
        assert_eq!((client.unconfirmed.len(), client.credit(2)), (0, 170));
        assert_eq!(world.report("slow").unwrap().ready, UNCONFIRMED_MAX);
    }
}

#[test]
fn a_stalled_log_delays_only_what_waits_for_it() {
    for kind in TYPES {
        let mut world = world_with(Settings::default(), "classic", kind);
        let mut client = fast_client(&mut world, true);
        client.publisher(&mut world, 2, "slow");
        settle(&mut world, &mut [&mut client]);
        world.log_stalled = vec![true; 2];
        let turns = turns(&mut world, &mut client, TRANSIENT, |world, client| {
            publish(world, client, 2, DURABLE, 12, HALF);
            world.deliver_mail(0, 1);
            world.turn(1);
            world.deliver_mail(1, 0);
        });
        assert_eq!(turns, alone("classic", TRANSIENT, true));
        assert_eq!((sent(&client, 2), client.credit(2)), (UNCONFIRMED_MAX, 0));
    }
}

#[test]
fn a_sync_in_flight_delays_only_what_waits_for_it() {
    // The slow queue is first on the shard of the fast queue, where both share each handover, and then on
    // another shard.
    let synced = [("x-fsync", Value::Boolean(true)), ("x-queue-type", Value::String("quorum".into()))];
    for (shard, argument) in
        [0, 1].into_iter().flat_map(|shard| synced.clone().map(|argument| (shard, argument)))
    {
        let mut world = world(Settings::default(), "classic");
        world.declare("synced", &[argument]);
        world.place("synced", shard);
        let mut client = fast_client(&mut world, true);
        client.publisher(&mut world, 2, "synced");
        settle(&mut world, &mut [&mut client]);
        world.syncs_stalled = true;
        let turns = turns(&mut world, &mut client, DURABLE, |world, client| {
            publish(world, client, 2, DURABLE, 12, HALF);
            world.deliver_mail(0, 1);
            world.turn(1);
            world.answer_log(1);
            world.deliver_mail(1, 0);
        });
        assert_eq!(turns, alone("classic", DURABLE, true), "turns for {MESSAGES} messages");
        assert_eq!((sent(&client, 2), client.credit(2)), (UNCONFIRMED_MAX, 0));
        assert_eq!(client.unconfirmed.len() as u64, UNCONFIRMED_MAX, "nothing unsynced is confirmed");
        world.syncs_stalled = false;
        settle(&mut world, &mut [&mut client]);
        assert_eq!((client.unconfirmed.len(), client.credit(2)), (0, 170));
    }
}

/// Receives a backlog with a credit of 200, topped up at half, on link 1. Returns the turns of the first shard. `meanwhile` runs
/// before each turn.
fn turns_to_receive(
    world: &mut World,
    client: &mut Client,
    mut meanwhile: impl FnMut(&mut World, &mut Client),
) -> u64 {
    let (mut turns, mut credit) = (0, 0);
    while got(client, 1) < MESSAGES {
        if credit <= CREDIT / 2 {
            client.flow(world, Some((1, CREDIT)), 1_000_000, false, false);
        }
        meanwhile(world, client);
        turns += 1;
        assert!(turns < MESSAGES, "it stalls: {} received", got(client, 1));
        world.turn(0);
        world.answer_log(0);
        world.turn(0);
        client.read(world, usize::MAX);
        if let End::Consumer(consumer) = &client.links[&1].end {
            credit = consumer.credit() as u32;
            let held = consumer.unsettled.len();
            client.settle(world, 1, held, &DeliveryState::Accepted);
        }
    }
    turns
}

/// Makes a client that has published a backlog to the fast queue, and consumes it on link 1.
fn client_with_backlog(world: &mut World) -> Client {
    let mut client = fast_client(world, true);
    while sent(&client, 0) < MESSAGES {
        let left = MESSAGES - sent(&client, 0);
        publish(world, &mut client, 0, DURABLE, 12, left);
        settle(world, &mut [&mut client]);
        world.now_ms += PATIENCE_MS;
        settle(world, &mut [&mut client]);
    }
    client
}

#[test]
fn a_receiver_is_as_fast_beside_a_sender_whose_queue_is_overloaded() {
    let mut without = world(Settings::default(), "classic");
    let mut client = client_with_backlog(&mut without);
    let alone = turns_to_receive(&mut without, &mut client, |_, _| {});
    // The quorum queue is first on the shard of the receiver's queue, and then on another shard.
    for shard in [0, 1] {
        let mut world = world(Settings::default(), "classic");
        world.declare("group", &[("x-queue-type", Value::String("quorum".into()))]);
        world.place("group", shard);
        let mut client = client_with_backlog(&mut world);
        client.publisher(&mut world, 2, "group");
        settle(&mut world, &mut [&mut client]);
        // The sender is on the receiver's session, and always has a batch to send. No sync of its queue ends before the
        // receiver has everything.
        world.syncs_stalled = true;
        let beside = turns_to_receive(&mut world, &mut client, |world, client| {
            publish(world, client, 2, DURABLE, 12, BATCH);
            world.deliver_mail(0, 1);
            world.turn(1);
            world.answer_log(1);
            world.deliver_mail(1, 0);
        });
        assert_eq!(beside, alone, "turns for {MESSAGES} messages");
        assert_eq!((sent(&client, 2), client.credit(2)), (LINK_CREDIT, 0));
        assert_eq!(client.unconfirmed.len() as u64, LINK_CREDIT, "nothing unsynced is confirmed");
        world.syncs_stalled = false;
        settle(&mut world, &mut [&mut client]);
        assert_eq!((client.unconfirmed.len(), client.credit(2)), (0, LINK_CREDIT));
    }
}

#[test]
fn a_consumer_that_never_settles_delays_no_other() {
    for kind in TYPES {
        let max = 1_000;
        let settings = Settings { max_unsettled_per_consumer: max, ..Settings::default() };
        let mut world = world(settings, kind);
        let mut client = fast_client(&mut world, true);
        client.publisher(&mut world, 2, "slow");
        client.consumer(&mut world, 3, "slow", false, 0);
        settle(&mut world, &mut [&mut client]);
        client.flow(&mut world, Some((3, FOUR_BILLION)), 1_000_000, false, false);
        let mut kept = Vec::new();
        for _ in 0..20 {
            publish(&mut world, &mut client, 2, SETTLED, 100, u64::MAX);
            settle(&mut world, &mut [&mut client]);
            world.now_ms += PATIENCE_MS;
            settle(&mut world, &mut [&mut client]);
            if got(&client, 3) == u64::from(max) {
                kept.push(kept_for(&mut world, &client));
            }
        }
        assert!(kept.len() > 5, "the consumer holds as much as it may");
        assert!(kept.iter().all(|k| *k == kept[0]), "{kept:?}");
        assert_eq!(kept[0], Kept { unsettled: max.into(), pending: 0, output: 0 });
        let turns = turns(&mut world, &mut client, DURABLE, |_, _| {});
        assert_eq!(turns, alone(kind, DURABLE, true));
        assert_eq!(got(&client, 3), max.into());
    }
}

/// What the broker holds for a connection, in entries and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept {
    unsettled: u64,
    pending: u64,
    output: usize,
}

fn kept_for(world: &mut World, client: &Client) -> Kept {
    let session = world.session(client.at);
    let (unsettled, pending) = (session.outgoing_unsettled, session.outgoing_pending);
    Kept { unsettled, pending, output: world.waiting(client.at) }
}

#[test]
fn a_consumer_with_four_billion_that_stops_reading_is_flat_in_memory() {
    for (kind, settled) in TYPES.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let mut world = world(Settings::default(), kind);
        let mut stalled = Client::connect(&mut world, 1, HELLO);
        stalled.consumer(&mut world, 0, "slow", settled, 0);
        settle(&mut world, &mut [&mut stalled]);
        stalled.flow(&mut world, Some((0, FOUR_BILLION)), FOUR_BILLION, false, false);

        let mut client = fast_client(&mut world, true);
        client.publisher(&mut world, 2, "slow");
        settle(&mut world, &mut [&mut client]);
        let mut kept = Vec::new();
        for _ in 0..40 {
            publish(&mut world, &mut client, 2, SETTLED, 1_000, u64::MAX);
            settle(&mut world, &mut [&mut client]);
            world.now_ms += PATIENCE_MS;
            settle(&mut world, &mut [&mut client]);
            kept.push(kept_for(&mut world, &stalled));
        }
        // The socket takes nothing. So first the output fills, then the session's batch, and then the queue
        // keeps the rest.
        let full = kept[kept.len() / 2..].to_vec();
        assert!(full.iter().all(|k| *k == full[0]), "{kept:?}");
        assert!(full[0].pending <= 256 && full[0].output < OUTPUT_HIGH_WATER + 1_200, "{:?}", full[0]);
        assert!(world.report("slow").unwrap().ready > 1_000);
        let turns = turns(&mut world, &mut client, DURABLE, |_, _| {});
        assert_eq!(turns, alone(kind, DURABLE, true));
        // The consumer reads again and receives everything.
        let total = sent(&client, 2);
        while got(&stalled, 0) < total {
            let before = got(&stalled, 0);
            settle(&mut world, &mut [&mut stalled]);
            assert!(got(&stalled, 0) > before);
        }
    }
}

#[test]
fn a_closed_window_is_flat_in_memory_whatever_is_asked() {
    for kind in TYPES {
        let mut world = world(Settings::default(), kind);
        let mut client = fast_client(&mut world, false);
        publish(&mut world, &mut client, 0, SETTLED, 100, 100);
        settle(&mut world, &mut [&mut client]);
        let mut flood = Client::connect(&mut world, 0, HELLO);
        flood.consumer(&mut world, 0, "fast", false, 0);
        settle(&mut world, &mut [&mut flood]);
        for n in 0..10_000 {
            flood.flow(&mut world, Some((0, 2 + n % 7)), 0, n % 5 == 0, true);
            world.settle();
            let kept = kept_for(&mut world, &flood);
            // The broker holds only what the first FLOWs fetched, and one report after it.
            assert!(kept.pending <= 9 && kept.output == 0, "{kept:?} after {n} FLOWs");
        }
        flood.flow(&mut world, Some((0, 0)), 1_000_000, false, true);
        settle(&mut world, &mut [&mut flood]);
        flood.check_settled();
    }
}

#[test]
fn a_flood_of_flows_ends_at_its_own_socket() {
    for kind in TYPES {
        flood_with_flows(kind);
    }
}

fn flood_with_flows(kind: &str) {
    let bound = 1024 * 1024;
    let mut world = world(Settings::default(), kind);
    let mut client = fast_client(&mut world, true);
    let mut flood = Client::connect(&mut world, 0, HELLO);
    flood.consumer(&mut world, 0, "slow", false, 0);
    settle(&mut world, &mut [&mut flood]);
    let turns = turns(&mut world, &mut client, DURABLE, |world, _| {
        for n in 0..2_000 {
            if !world.takes_input(flood.at) {
                break;
            }
            flood.flow(world, (n % 2 == 0).then_some((0, n)), 1_000_000, false, true);
            flood.ask(world);
        }
        assert!(world.waiting(flood.at) < bound + 100);
    });
    assert_eq!(turns, alone(kind, DURABLE, true));
    assert!(!world.takes_input(flood.at), "its socket is not read any more: {}", world.waiting(flood.at));
    settle(&mut world, &mut [&mut flood]);
    assert!(world.takes_input(flood.at), "it has read");
    flood.check_settled();
}

#[test]
fn a_queue_that_settles_in_one_batch_is_confirmed_in_one_frame() {
    for kind in TYPES {
        let mut world = world(Settings::default(), kind);
        let mut client = fast_client(&mut world, false);
        assert_eq!(publish(&mut world, &mut client, 0, DURABLE, 12, 170), 170);
        settle(&mut world, &mut [&mut client]);
        assert_eq!((client.confirmed, client.dispositions_got), (170, 1));
    }
}

/// Makes a shard with a fast and a slow queue of this type, which are asked for one message at a time.
fn one_at_a_time(kind: &str) -> World {
    let mut world = World::new(1, Settings { max_queue_credit: 1, ..Settings::default() });
    for queue in ["fast", "slow"] {
        world.declare(queue, &[("x-queue-type", Value::String(kind.into()))]);
    }
    world.settle();
    world
}

#[test]
fn a_turn_that_ends_at_its_bound_leaves_nothing_undone() {
    for (kind, settled) in TYPES.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let mut world = one_at_a_time(kind);
        let mut client = fast_client(&mut world, false);
        client.consumer(&mut world, 1, "fast", settled, 0);
        settle(&mut world, &mut [&mut client]);
        publish(&mut world, &mut client, 0, SETTLED, 12, 100);
        settle(&mut world, &mut [&mut client]);
        world.now_ms += PATIENCE_MS;
        settle(&mut world, &mut [&mut client]);
        client.flow(&mut world, Some((1, 100)), 1_000, false, false);
        // Two rounds of a turn are needed for each delivery, so the turn is repeated until nothing is left.
        while world.turn(0) | world.answer_log(0) {}
        client.read(&mut world, usize::MAX);
        assert_eq!(got(&client, 1), 100, "{kind}, settled {settled}");
    }
}

#[test]
fn a_detached_link_unblocks_the_links_that_waited_for_it() {
    for kind in TYPES {
        let mut world = one_at_a_time(kind);
        let mut client = fast_client(&mut world, true);
        client.publisher(&mut world, 2, "slow");
        client.consumer(&mut world, 3, "slow", false, 0);
        client.flow(&mut world, Some((1, 10)), 1_000_000, false, false);
        settle(&mut world, &mut [&mut client]);
        client.flow(&mut world, Some((3, 10)), 1_000_000, false, false);
        settle(&mut world, &mut [&mut client]);
        // In one turn a small delivery is sent and a large one fills the output. The small one's link then
        // requests no more from its queue.
        publish(&mut world, &mut client, 0, SETTLED, 12, 1);
        assert!(client.publish(&mut world, 2, SETTLED, 1_000_000, 10));
        world.settle();
        publish(&mut world, &mut client, 0, SETTLED, 12, 3);
        world.settle();
        assert_eq!(kept_for(&mut world, &client).pending, 1, "{kind}");
        client.detach(&mut world, 3);
        settle(&mut world, &mut [&mut client]);
        assert_eq!(got(&client, 1), 4, "{kind}");
    }
}
