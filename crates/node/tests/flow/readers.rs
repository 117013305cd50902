//! Links of one session that read a stream and wait for room: each continues when there is room again.

use amqp10::Value;
use broker::settings::Settings;

use super::client::{Client, End, Hello, STREAM};
use super::world::World;

const HELLO: Hello = Hello { max_frame_size: 65_536, window: 1_000_000, start: u32::MAX - 9 };
const MESSAGES: u64 = 20;
const CREDIT: u32 = 100;
const OPEN: u32 = 1_000_000;
/// The links that read the stream, all on one session.
const READERS: [u32; 3] = [0, 1, 2];

/// Makes a stream with messages, and a client whose links read it. Their session has no window, so all of them wait for room, in
/// the order of their handles.
fn readers_that_wait() -> (World, Client) {
    let mut world = World::new(1, Settings { heartbeat_s: 0, ..Settings::default() });
    world.declare(STREAM, &[("x-queue-type", Value::String("stream".into()))]);
    world.settle();
    let mut publisher = Client::connect(&mut world, 0, HELLO);
    publisher.publisher(&mut world, 0, STREAM);
    settle(&mut world, &mut publisher);
    for _ in 0..MESSAGES {
        assert!(publisher.publish(&mut world, 0, (true, true), 12, 1));
    }
    settle(&mut world, &mut publisher);
    let mut client = Client::connect(&mut world, 0, HELLO);
    for handle in READERS {
        client.consumer(&mut world, handle, STREAM, true, 0);
        settle(&mut world, &mut client);
        client.flow(&mut world, Some((handle, CREDIT)), 0, false, false);
        settle(&mut world, &mut client);
    }
    assert_eq!((READERS.map(|handle| got(&client, handle)), pending(&mut world, &client)), ([0; 3], 3));
    (world, client)
}

fn settle(world: &mut World, client: &mut Client) {
    loop {
        world.settle();
        if client.read(world, usize::MAX) == 0 {
            return;
        }
    }
}

fn got(client: &Client, handle: u32) -> u64 {
    match &client.links[&handle].end {
        End::Consumer(consumer) => consumer.got,
        End::Publisher(_) => 0,
    }
}

/// Returns the number of links that wait for room.
fn pending(world: &mut World, client: &Client) -> u64 {
    world.session(client.at).outgoing_pending
}

#[test]
fn links_that_withdraw_their_credit_let_the_next_one_continue() {
    let (mut world, mut client) = readers_that_wait();
    for handle in [0, 1] {
        client.flow(&mut world, Some((handle, 0)), 0, false, false);
    }
    settle(&mut world, &mut client);
    client.flow(&mut world, None, OPEN, false, false);
    settle(&mut world, &mut client);
    assert_eq!(READERS.map(|handle| got(&client, handle)), [0, 0, MESSAGES]);
    assert_eq!(pending(&mut world, &client), 0);
    for handle in [0, 1] {
        client.flow(&mut world, Some((handle, CREDIT)), OPEN, false, false);
    }
    settle(&mut world, &mut client);
    assert_eq!(READERS.map(|handle| got(&client, handle)), [MESSAGES; 3]);
}

#[test]
fn links_that_end_let_the_next_one_continue() {
    let (mut world, mut client) = readers_that_wait();
    for handle in [0, 1] {
        client.detach(&mut world, handle);
    }
    client.flow(&mut world, None, OPEN, false, false);
    settle(&mut world, &mut client);
    assert_eq!((got(&client, 2), pending(&mut world, &client)), (MESSAGES, 0));
}

#[test]
fn links_take_turns() {
    let (mut world, mut client) = readers_that_wait();
    for turn in 1..=MESSAGES {
        for _ in READERS {
            client.flow(&mut world, None, 1, false, false);
            settle(&mut world, &mut client);
        }
        assert_eq!(READERS.map(|handle| got(&client, handle)), [turn; 3]);
    }
}
