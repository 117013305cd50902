//! Declarations that are not on the disk yet.

use std::sync::{Arc, Mutex};

use broker::settings::Settings;
use catalog::ids::ConnectionId;
use catalog::{
    Answer, Arguments, Binding, Caller, CatalogError, Command, DeclareExchange, DeclareQueue, Destination,
};

use super::house::House;
use crate::asks::Asks;

type Answers = Arc<Mutex<Vec<(&'static str, Result<Answer, CatalogError>)>>>;

/// Proposes a command on a shard. Its answer is added to `answers` under this name.
fn propose(house: &mut House, shard: usize, command: Command, name: &'static str, answers: &Answers) {
    let into = answers.clone();
    house.shards[shard].propose(command, Box::new(move |answer| into.lock().unwrap().push((name, answer))));
}

fn answered(answers: &Answers) -> Vec<&'static str> {
    let answers = answers.lock().unwrap();
    assert!(answers.iter().all(|(_, answer)| answer.is_ok()), "{answers:?}");
    answers.iter().map(|(name, _)| *name).collect()
}

fn declare(name: &str) -> Command {
    Command::DeclareQueue(DeclareQueue::new("/", name, Arguments::new()))
}

/// Nothing is confirmed in a queue whose declaration is not synced. If the process were killed then, the
/// queue would be lost, and with it what was confirmed in it.
#[test]
fn no_client_sees_a_queue_that_may_be_lost() {
    let mut house = House::new(2, Settings::default());
    let answers = Answers::default();
    (house.log_stopped, house.at_once) = (true, true);
    propose(&mut house, 0, declare("q"), "q", &answers);
    house.settle();
    // Another client must not see the queue while the declaration waits. Its shard can write, but the
    // deciding shard cannot.
    let peer = house.connect(1);
    house.sender(peer, "/queues/q");
    assert_eq!(house.peers[peer].detached, ["amqp:not-found"]);
    assert_eq!(answered(&answers), [""; 0]);

    house.log_stopped = false;
    house.settle();
    let sender = house.sender(peer, "/queues/q");
    house.send(peer, sender, b"x");
    assert_eq!(
        (answered(&answers), &house.peers[peer].outcomes[..]),
        (vec!["q"], &["Accepted".to_owned()][..])
    );
}

#[test]
fn a_deleted_queue_exists_until_its_deletion_is_synced() {
    let mut house = House::new(2, Settings::default());
    let queue = house.declare("q", Arguments::new());
    let answers = Answers::default();
    house.log_stopped = true;
    propose(&mut house, 1, Command::ForgetQueue { queue }, "gone", &answers);
    propose(&mut house, 1, declare("q"), "again", &answers);
    house.settle();
    assert!(house.shards.iter().all(|shard| shard.catalog().queue_by_id(queue).is_some()));
    assert_eq!(answered(&answers), [""; 0]);
    house.log_stopped = false;
    house.settle();
    assert_eq!(answered(&answers), ["gone", "again"]);
    let again = house.shards.iter().map(|shard| shard.catalog().listed_queue("/", "q").unwrap().id);
    assert!(again.into_iter().all(|id| id.slot() == queue.slot() && id != queue), "its place is free");
}

/// The commands are proposed without waiting for the answers.
#[test]
fn commands_that_depend_on_declarations_wait_for_them() {
    let mut house = House::new(2, Settings::default());
    let answers = Answers::default();
    // Before that, the start is written.
    house.settle();
    house.now_ms += 30;
    house.settle();
    house.log_stopped = true;
    let exchange = Command::DeclareExchange(DeclareExchange {
        vhost: "/".into(),
        name: "x".into(),
        kind: "direct".into(),
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: Arguments::new(),
    });
    let bind = Command::Bind(
        Binding {
            vhost: "/".into(),
            source: "x".into(),
            destination: Destination::Queue("q".into()),
            key: "k".into(),
            arguments: Arguments::new(),
        },
        Caller::Management,
    );
    propose(&mut house, 1, exchange, "x", &answers);
    propose(&mut house, 1, declare("q"), "q", &answers);
    propose(&mut house, 1, bind, "bound", &answers);
    propose(&mut house, 1, declare("other"), "other", &answers);
    // Its declaration is an entry like all others, although nothing of this queue survives a restart.
    let own = DeclareQueue { durable: false, exclusive: true, ..DeclareQueue::new("/", "own", [].into()) };
    let own = DeclareQueue { connection: Some(ConnectionId::default()), ..own };
    propose(&mut house, 1, Command::DeclareQueue(own), "own", &answers);
    house.settle();
    assert_eq!(answered(&answers), [""; 0]);
    let handovers = house.take_handovers();
    assert_eq!(handovers.iter().map(|h| (h.records.len(), h.sync)).collect::<Vec<_>>(), [(4, true)]);
    house.give_back(handovers);
    house.log_stopped = false;
    house.settle();
    assert_eq!(answered(&answers), ["x", "q", "other", "own", "bound"]);
}
