//! States of a session that were found by attacking it.

use std::collections::VecDeque;

use bytes::Bytes;
use queue::{ConsumerId, Effect, Publish, Request, Ticket};

use super::{Pipe, QUEUE, Somebody, World, attach, publish};
use crate::codec::put_answer;
use crate::{Answer, Frame, LOST_MS, REFUSE_MS, Said};

fn told(world: &World, somebody: Somebody) -> Vec<String> {
    world.heard.0.get(&somebody).cloned().unwrap_or_default()
}

/// A consumer with credit that waits at an empty queue.
fn with_idle_consumer() -> World {
    let mut world = World::new(1);
    world.near.handle_request(QUEUE, attach(1));
    let grant =
        Request::Grant { consumer: ConsumerId(1), delivery_count: 0, credit: 10, drain: false, echo: false };
    world.near.handle_request(QUEUE, grant);
    world.settle();
    world
}

/// Steps like the shard: both sides and their timers.
fn run(world: &mut World, ms: u64) {
    for _ in 0..ms / 500 {
        for _ in 0..20 {
            world.step(Pipe::Perfect);
        }
        world.pass(500);
    }
}

#[test]
fn the_link_from_the_queue_may_be_lost_alone() {
    let mut world = with_idle_consumer();
    // The connection of the far shard is reset and dialed again. That of the near shard is well.
    let far = world.far.far.as_mut().expect("a session");
    far.handle_link(false);
    world.answers.clear();
    world.far.far.as_mut().expect("a session").handle_link(true);
    // Another client of the node of the queue publishes.
    world.far.apply(publish(99, 1, 1, 0));
    run(&mut world, 10 * LOST_MS);
    assert!(
        told(&world, Somebody::Consumer(1))
            .iter()
            .any(|told| told.contains("delivery") || told.contains("Gone"))
    );
}

#[test]
fn the_clients_are_told_that_the_other_side_has_ended() {
    let mut world = with_idle_consumer();
    world.far.lose_far();
    world.far.apply(publish(99, 1, 1, 0));
    run(&mut world, 10 * LOST_MS);
    assert!(
        told(&world, Somebody::Consumer(1))
            .iter()
            .any(|told| told.contains("delivery") || told.contains("Gone"))
    );
}

#[test]
fn a_queue_that_the_catalog_has_forgotten_first_is_forgotten() {
    let mut world = with_idle_consumer();

    world.far.apply(Request::Delete { ticket: Ticket(1), if_unused: false, if_empty: false });
    world.settle();
    world.near.forget_queues(|_| false);
    assert!(format!("{:?}", world.near).contains("deleted: {}"), "it is kept for ever");
}

/// A long message needs 12 s on its way. Nothing is lost.
#[test]
fn a_node_that_a_long_message_is_on_its_way_to_is_not_away() {
    let mut world = with_idle_consumer();
    world.near.handle_request(QUEUE, publish(1, 1, 1, 40_000_000));
    world.near.handle_request(QUEUE, Request::Purge { ticket: Ticket(7) });
    let mut way = VecDeque::new();
    for _ in 0..24 {
        world.pass(500);
        while let Some(frame) = world.near.poll_frame(0) {
            world.asks.push_back(frame);
        }
        way.append(&mut world.asks);
        world.hear();
    }
    world.near.handle_request(QUEUE, publish(1, 2, 2, 0));
    world.hear();
    world.asks = way;
    for _ in 0..100 {
        world.step(Pipe::Perfect);
    }
    world.settle();
    assert_eq!(told(&world, Somebody::Publisher(1)), ["1 Accepted", "2 Accepted"]);
    assert!(told(&world, Somebody::Ticket(7))[0].contains("Done"));
}

/// The other way: a long delivery needs 12 s.
#[test]
fn a_long_delivery_is_sent_once() {
    let mut world = with_idle_consumer();
    world.far.apply(publish(99, 1, 1, 40_000_000));
    let mut sent = 0;
    for _ in 0..24 {
        let far = world.far.far.as_mut().expect("a session");
        world.now_ms += 500;
        far.set_now(world.now_ms);
        if far.next_timeout().is_some_and(|at_ms| at_ms <= world.now_ms) {
            far.handle_timeout();
        }
        while let Some(frame) = far.poll_frame() {
            sent += frame.len();
        }
    }
    assert!(sent < 50_000_000, "{sent}");
}

/// An answer with numbers at the end of their range, for a ticket that was refused meanwhile.
#[test]
fn numbers_at_the_end_of_their_range_break_nothing() {
    let mut world = with_idle_consumer();
    let Request::Publish(Publish { message, .. }) = publish(1, 1, 1, 0) else { unreachable!() };
    let delivery = |number| queue::Delivery {
        consumer: ConsumerId(1),
        number,
        seq: 1,
        message: message.clone(),
        delivery_count: 0,
        acquired_count: 0,
    };
    let deliveries = vec![delivery(u64::MAX - 1), delivery(1), delivery(2)];
    let mut items = Vec::new();
    put_answer(
        &Answer::Effect(Effect::Fetched {
            ticket: Ticket(77),
            deliveries: deliveries.into_iter().collect(),
            ready: 0,
        }),
        &mut items,
    );
    let id = world.far.far.as_ref().expect("a session").id();
    let number = 2;
    for number in number..5 {
        let said = Said::Answers { number, items: items.clone().into() };
        world.near.handle_frame(Frame { id, said });
    }
}

#[test]
fn a_publish_that_is_sent_again_ends_in_time() {
    let mut world = with_idle_consumer();
    world.link(false);
    // The first publish is in doubt at a restart, and is sent again; then the node is away for long.
    world.link(true);
    world.settle();
    world.near.handle_request(QUEUE, publish(1, 1, 1, 0));
    let frames: Vec<Bytes> = std::iter::from_fn(|| world.near.poll_frame(0)).collect();
    for frame in frames {
        world.far.handle(frame, world.now_ms);
    }
    world.link(false);
    world.far.start_again();
    world.link(true);
    for _ in 0..6 {
        world.step(Pipe::Perfect);
    }
    world.link(false);
    world.near.handle_request(QUEUE, publish(1, 2, 2, 0));
    world.pass(REFUSE_MS);
    world.pass(LOST_MS);
    assert_eq!(world.near.next_timeout(), None);
}

#[test]
fn a_deletion_that_was_sent_may_have_been_carried_out() {
    let mut world = with_idle_consumer();
    let delete = |ticket| Request::Delete { ticket: Ticket(ticket), if_unused: false, if_empty: false };
    world.near.handle_request(QUEUE, delete(7));
    while world.near.poll_frame(0).is_some() {}
    world.link(false);
    world.near.handle_request(QUEUE, delete(8));
    world.pass(REFUSE_MS);
    assert_eq!(told(&world, Somebody::Ticket(7)), ["away, sent"]);
    assert_eq!(told(&world, Somebody::Ticket(8)), ["away"]);
}
