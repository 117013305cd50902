//! Arguments and policies of queues, and exchanges that remember messages, on whole shards: from the command
//! to the messages that leave the queue. The tests use one thread, a simulated clock, and a log that writes
//! at once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crate::asks::Asks;
use crate::asks_queues::AsksQueues;
use amqp10::Value;
use broker::mail::Mail;
use broker::settings::Settings;
use bytes::Bytes;
use catalog::access::Access;
use catalog::ids::{QueueId, ShardId};
use catalog::{
    Answer, Binding, Caller, CatalogError, Command, DeclareExchange, DeclareQueue, Destination, SetPolicy,
};
use message::{Message, Parts, Route};
use node::facts::Restored;
use node::shard::Shard;
use node::{StorageLimits, make_shards};
use queue::{ConsumerId, Effect, Publish, PublisherId, Request, Ticket};
use wal::{Completion, Step};

struct World {
    shards: Vec<Shard>,
    now_ms: u64,
    seq: u64,
}

impl World {
    fn new(count: ShardId) -> Self {
        let (settings, access) = (Arc::new(Settings::default()), Arc::new(Access::default()));
        let shards =
            make_shards(Restored::default(), count, &settings, &access, StorageLimits::default(), 1000);
        Self { shards, now_ms: 1000, seq: 0 }
    }

    /// Runs all shards until no work is left.
    fn settle(&mut self) {
        let mut mail: VecDeque<(usize, Vec<Mail>)> = VecDeque::new();
        loop {
            for (from, shard) in self.shards.iter_mut().enumerate() {
                shard.set_now(self.now_ms);
                shard.handle_timeout();
                while shard.turn() {}
                shard.take_replies();
                while let Some(handover) = shard.poll_handover() {
                    for step in [Step::Written, Step::Synced] {
                        shard.handle_logged(Completion {
                            shard: from as u32,
                            ticket: handover.ticket,
                            step,
                            file: 0,
                            size: Default::default(),
                            result: Ok(()),
                        });
                    }
                }
                while shard.turn() {}
                shard.take_replies();
            }
            for from in 0..self.shards.len() {
                for to in 0..self.shards.len() {
                    let batch = self.shards[from].poll_mail(to as ShardId);
                    if !batch.is_empty() {
                        mail.push_back((to, batch));
                    }
                }
            }
            let Some((to, batch)) = mail.pop_front() else { return };
            self.shards[to].handle_mail(batch);
            mail.drain(..).for_each(|(to, batch)| self.shards[to].handle_mail(batch));
        }
    }

    fn change(&mut self, command: Command) -> Result<Answer, CatalogError> {
        let answer = Arc::new(Mutex::new(None));
        let seen = answer.clone();
        self.shards[0].propose(command, Box::new(move |result| *seen.lock().unwrap() = Some(result)));
        self.settle();
        let answer = answer.lock().unwrap().take();
        answer.expect("every proposal is answered")
    }

    fn declare(&mut self, name: &str, arguments: &[(&str, Value)]) -> QueueId {
        let declare = DeclareQueue::new(
            "/",
            name,
            arguments.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect(),
        );
        match self.change(Command::DeclareQueue(declare)) {
            Ok(Answer::Queue { record, .. }) => record.id,
            other => panic!("{other:?}"),
        }
    }

    fn policy(&mut self, name: &str, definition: &[(&str, Value)]) {
        let set = SetPolicy {
            vhost: "/".into(),
            name: name.into(),
            operator: false,
            pattern: "^q".into(),
            priority: 0,
            apply_to: "queues".into(),
            definition: definition.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect(),
        };
        self.change(Command::SetPolicy(set)).unwrap();
    }

    fn clear_policy(&mut self, name: &str) {
        self.change(Command::ClearPolicy { vhost: "/".into(), name: name.into(), operator: false }).unwrap();
    }

    fn ask(&mut self, shard: usize, queue: QueueId, request: impl FnOnce(Ticket) -> Request) -> Effect {
        let answer = Arc::new(Mutex::new(None));
        let seen = answer.clone();
        self.shards[shard].ask(queue, request, Box::new(move |effect| *seen.lock().unwrap() = Some(effect)));
        self.settle();
        let answer = answer.lock().unwrap().take();
        answer.expect("every request is answered")
    }

    fn publish(&mut self, shard: usize, queue: QueueId, body: &str, priority: Option<u8>) {
        self.seq += 1;
        let (publisher, seq) = (PublisherId((shard as u64) << 56), self.seq);
        let publish = Publish { publisher, seq, message: message(body, priority), pipelines: false };
        let home = self.shards[0].placements().home(queue).here().expect("placed");
        self.shards[usize::from(home)]
            .handle_mail(vec![Mail::Requests(vec![(queue, Request::Publish(publish))])]);
        self.settle();
    }

    /// Places the queue on this shard, by asking for a report.
    fn place(&mut self, shard: usize, queue: QueueId) {
        self.ask(shard, queue, |ticket| Request::Report { ticket });
    }

    /// Takes all ready messages.
    fn take(&mut self, queue: QueueId) -> Vec<String> {
        let holder = ConsumerId(u64::MAX);
        let fetch = |ticket| Request::Fetch { ticket, holder, n: 1000, settled: true };
        match self.ask(0, queue, fetch) {
            Effect::Fetched { deliveries, .. } => {
                deliveries.iter().map(|d| String::from_utf8_lossy(&d.message.bare()).into_owned()).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    fn exists(&self, queue: QueueId) -> bool {
        self.shards.iter().all(|shard| shard.catalog().queue_by_id(queue).is_some())
    }
}

fn message(body: &str, priority: Option<u8>) -> Message {
    let parts =
        Parts { wire: Bytes::copy_from_slice(body.as_bytes()), durable: true, priority, ..Parts::default() };
    Message::new(parts, Arc::new(Route::simple("h", "k")))
}

#[test]
fn a_queue_that_nobody_uses_expires() {
    let mut world = World::new(2);
    let queue = world.declare("q", &[("x-expires", Value::Int(1000))]);
    world.place(1, queue);
    world.publish(1, queue, "m", None);
    world.now_ms += 900;
    world.settle();
    assert!(world.exists(queue));
    // Fetching counts as use of the queue. Publishing does not.
    assert_eq!(world.take(queue), ["m"]);
    world.now_ms += 900;
    world.publish(1, queue, "n", None);
    assert!(world.exists(queue));
    world.now_ms += 200;
    world.settle();
    assert!(!world.exists(queue), "gone from every shard");
}

#[test]
fn priorities_go_first() {
    let mut world = World::new(1);
    let queue = world.declare("q", &[("x-max-priority", Value::Int(5))]);
    world.place(0, queue);
    for (body, priority) in [
        ("none", None),
        ("one", Some(1)),
        ("five", Some(5)),
        ("nine", Some(9)),
        ("zero", Some(0)),
        ("uno", Some(1)),
    ] {
        world.publish(0, queue, body, priority);
    }
    assert_eq!(world.take(queue), ["five", "nine", "one", "uno", "none", "zero"]);
}

#[test]
fn full_queues_dead_letter_what_they_reject() {
    let mut world = World::new(2);
    let dead = world.declare("dead", &[]);
    let queue = world.declare(
        "q",
        &[
            ("x-max-length", Value::Int(1)),
            ("x-overflow", "reject-publish-dlx".into()),
            ("x-dead-letter-exchange", "".into()),
            ("x-dead-letter-routing-key", "dead".into()),
        ],
    );
    world.place(0, dead);
    world.place(1, queue);
    world.publish(0, queue, "kept", None);
    world.publish(0, queue, "refused", None);
    assert_eq!(world.take(queue), ["kept"]);
    assert_eq!(world.take(dead), ["refused"]);
}

/// A policy applies to existing queues on every shard, and no longer after it is cleared.
#[test]
fn policies_are_applied_live() {
    let mut world = World::new(2);
    let queues = [world.declare("q0", &[]), world.declare("q1", &[("x-max-length", Value::Int(3))])];
    for (shard, queue) in queues.into_iter().enumerate() {
        world.place(shard, queue);
        (0..5).for_each(|i| world.publish(shard, queue, &i.to_string(), None));
    }
    world.policy("p", &[("max-length", Value::Int(2))]);
    assert_eq!(world.take(queues[0]), ["3", "4"], "surplus messages are dropped at once");
    assert_eq!(world.take(queues[1]), ["3", "4"]);

    world.policy("p", &[("max-length", Value::Int(1)), ("overflow", "reject-publish".into())]);
    for queue in queues {
        (0..3).for_each(|i| world.publish(0, queue, &i.to_string(), None));
        assert_eq!(world.take(queue), ["0"]);
    }
    world.clear_policy("p");
    for (queue, expected) in queues.into_iter().zip([&["0", "1", "2", "3"][..], &["1", "2", "3"]]) {
        (0..4).for_each(|i| world.publish(1, queue, &i.to_string(), None));
        assert_eq!(world.take(queue), expected);
    }
    world.policy("short", &[("expires", Value::Int(10)), ("message-ttl", Value::Int(5))]);
    world.publish(0, queues[0], "old", None);
    world.now_ms += 5;
    world.settle();
    assert_eq!(world.take(queues[0]), Vec::<String>::new());
    world.now_ms += 1000;
    world.settle();
    assert!(!queues.iter().any(|q| world.exists(*q)));
}

#[test]
fn a_later_binding_gets_the_recent_history() {
    give_recent_history(false);
}

#[test]
fn a_later_binding_gets_the_recent_history_whose_routes_take_several_turns() {
    give_recent_history(true);
}

fn give_recent_history(searches: bool) {
    let mut world = World::new(2);
    if searches {
        world.shards.iter_mut().for_each(|shard| shard.search_all(1));
    }
    let exchange = DeclareExchange {
        vhost: "/".into(),
        name: "h".into(),
        kind: "x-recent-history".into(),
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: [("x-recent-history-length".to_owned(), Value::Int(2))].into(),
    };
    world.change(Command::DeclareExchange(exchange)).unwrap();
    // The exchange is looked up on the other shard, as the gate there does it.
    let exchange = world.shards[1].catalog().exchange("/", "h").unwrap().clone();
    for body in ["1", "2", "3"] {
        let messages = vec![message(body, None)];
        let remember = Mail::Remember { exchange: exchange.clone(), messages };
        world.shards[0].handle_mail(vec![remember]);
    }
    world.settle();
    let queue = world.declare("late", &[]);
    world.place(1, queue);
    let binding = |source: &str, destination| Binding {
        vhost: "/".into(),
        source: source.into(),
        destination,
        key: "".into(),
        arguments: [].into(),
    };
    let late = Destination::Queue("late".into());
    world.change(Command::Bind(binding("h", late.clone()), Caller::Management)).unwrap();
    assert_eq!(world.take(queue), ["2", "3"]);
    world.change(Command::Bind(binding("h", late.clone()), Caller::Management)).unwrap();
    assert_eq!(world.take(queue), Vec::<String>::new(), "bound already");
    // Messages also reach the exchange through another exchange.
    world.change(Command::Bind(binding("amq.fanout", late), Caller::Management)).unwrap();
    world
        .change(Command::Bind(binding("h", Destination::Exchange("amq.fanout".into())), Caller::Management))
        .unwrap();
    assert_eq!(world.take(queue), ["2", "3"]);
}

#[test]
fn requests_from_before_a_queue_had_a_home_come_first() {
    let mut world = World::new(3);
    let queue = world.declare("q", &[]);
    world.shards[0].handle_mail(vec![Mail::Place { queue, home: 2 }]);
    while world.shards[0].turn() {}
    let mut placed = world.shards[0].poll_mail(2);
    assert!(matches!(placed[..], [Mail::Placed { .. }]));
    // The publisher's shard has received the change earlier than the shard that owns the queue.
    let publish = |seq, body| {
        let publish =
            Publish { publisher: PublisherId(1 << 56), seq, message: message(body, None), pipelines: false };
        Mail::Requests(vec![(queue, Request::Publish(publish))])
    };
    world.shards[2].handle_mail(vec![publish(1, "first")]);
    while world.shards[2].turn() {}
    placed.push(publish(2, "second"));
    world.shards[2].handle_mail(placed);
    while world.shards[2].turn() {}
    world.settle();
    assert_eq!(world.take(queue), ["first", "second"]);
}
