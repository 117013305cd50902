//! What the start of a node ends, and what it leaves.

use super::*;
use crate::ids::{FIRST_NODE, Members, NodeNumber};
use crate::{At, Pending};

/// Two nodes: number 1 with the id 10, and number 2 with the id 20.
fn origin(node: NodeNumber, boot: u32) -> Origin {
    Origin { node: NodeId(node * 10), boot }
}

fn start(catalog: &mut Catalog, node: NodeNumber, boot: u32) {
    catalog.apply(&Change::NodeStarted { node, origin: origin(node, boot) });
}

/// Declares an exclusive queue of a connection.
fn own(catalog: &mut Catalog, name: &str, node: NodeNumber, boot: u32) {
    let connection = Some(ConnectionId { origin: origin(node, boot), number: 1 });
    let declare = DeclareQueue::new("/", name, Arguments::new());
    declare_on(catalog, DeclareQueue { exclusive: true, connection, ..declare }, node);
}

/// Declares a queue that is not durable, and lives on this node.
fn transient(catalog: &mut Catalog, name: &str, node: NodeNumber) {
    let declare = DeclareQueue { durable: false, ..DeclareQueue::new("/", name, Arguments::new()) };
    declare_on(catalog, declare, node);
}

fn declare_on(catalog: &mut Catalog, declare: DeclareQueue, node: NodeNumber) {
    for change in decide(catalog, Command::DeclareQueue(declare)).unwrap().changes {
        let Change::QueueDeclared(record) = change else { continue };
        let members = Members::new(&[node]);
        catalog.apply(&Change::QueueDeclared(Arc::new(QueueRecord { members, ..(*record).clone() })));
    }
}

fn exchange(catalog: &mut Catalog, name: &str, durable: bool, nodes: &[NodeNumber]) {
    let exchange = Exchange::new("/".into(), name.into(), ExchangeKind::Fanout, Arguments::new());
    let nodes = Members::new(nodes);
    catalog.apply(&Change::ExchangeDeclared(Arc::new(Exchange {
        durable,
        auto_delete: true,
        nodes,
        ..exchange
    })));
}

fn bind(catalog: &mut Catalog, source: &str, destination: Destination) {
    let (vhost, source, key) = ("/".into(), source.into(), "".into());
    let binding = Binding { vhost, source, destination, key, arguments: Arguments::new() };
    catalog.apply(&Change::Bound(Arc::new(binding)));
}

fn to_queue(name: &str) -> Destination {
    Destination::Queue(name.into())
}

fn names(catalog: &Catalog) -> Vec<Arc<str>> {
    let mut names: Vec<_> = catalog.queues().map(|queue| queue.name.clone()).collect();
    names.sort();
    names
}

fn destinations(catalog: &Catalog, source: &str) -> Vec<Destination> {
    let all = catalog.bindings().into_iter().filter(|binding| &*binding.source == source);
    all.map(|binding| binding.destination.clone()).collect()
}

#[test]
fn queues_end_with_the_node_of_their_connection_or_their_own() {
    let mut catalog = Catalog::default();
    run(&mut catalog, queue("durable", &[]));
    own(&mut catalog, "of-1", 1, 1);
    // Whatever its number of starts says: it may have been lost, with the identity of the node.
    own(&mut catalog, "of-1-later", 1, 9);
    own(&mut catalog, "of-2", 2, 1);
    transient(&mut catalog, "on-1", 1);
    transient(&mut catalog, "on-2", 2);
    exchange(&mut catalog, "x", true, &[1]);
    for name in names(&catalog) {
        bind(&mut catalog, "x", Destination::Queue(name));
    }
    let mut again = catalog.clone();
    start(&mut catalog, 1, 2);
    assert_eq!(names(&catalog).join(" "), "durable of-2 on-2");
    assert_eq!(destinations(&catalog, "x"), ["durable", "of-2", "on-2"].map(to_queue));
    start(&mut catalog, 2, 2);
    assert_eq!(names(&catalog).join(" "), "durable");
    assert_eq!(catalog.queue_count(), 1);
    // Starts of two nodes can come in any order.
    start(&mut again, 2, 2);
    start(&mut again, 1, 2);
    assert_eq!(names(&again), names(&catalog));
}

/// An exchange that is not durable is gone when all nodes that there were have started again. One whose last binding has ended with its
/// queue stays, even if it deletes itself with its last binding.
#[test]
fn exchanges_end_with_their_last_node() {
    let mut catalog = Catalog::default();
    own(&mut catalog, "own", 1, 1);
    exchange(&mut catalog, "durable", true, &[1]);
    exchange(&mut catalog, "of-both", false, &[1, 2]);
    exchange(&mut catalog, "of-1", false, &[1]);
    exchange(&mut catalog, "of-2", false, &[2]);
    for name in ["durable", "of-both", "of-1", "of-2"] {
        bind(&mut catalog, name, to_queue("own"));
        bind(&mut catalog, "amq.fanout", Destination::Exchange(name.into()));
    }
    let count = catalog.exchange_count();
    start(&mut catalog, 1, 2);
    let has = |catalog: &Catalog| {
        ["durable", "of-both", "of-1", "of-2"].map(|name| catalog.exchange("/", name).is_some())
    };
    assert_eq!(has(&catalog), [true, true, false, true]);
    assert_eq!(
        (catalog.exchange_count(), catalog.exchange("/", "of-both").unwrap().nodes.nodes()),
        (count - 1, &[2][..])
    );
    assert!(destinations(&catalog, "durable").is_empty(), "its queue is gone");
    let left = ["durable", "of-both", "of-2"].map(|name| Destination::Exchange(name.into()));
    assert_eq!(destinations(&catalog, "amq.fanout"), left);
    // Node 1 has been struck out.
    start(&mut catalog, 1, 3);
    assert_eq!(has(&catalog), [true, true, false, true]);
    start(&mut catalog, 2, 2);
    assert_eq!(has(&catalog), [true, false, false, false]);
    assert_eq!(destinations(&catalog, "amq.fanout"), left[..1]);
}

/// The places of queues that have ended are free, but their ids are not given again.
#[test]
fn what_has_ended_leaves_its_place_but_not_its_id() {
    let mut catalog = Catalog::default();
    for name in ["a", "b", "c"] {
        own(&mut catalog, name, 1, 1);
    }
    let before: Vec<_> = catalog.queues().map(|queue| queue.id).collect();
    start(&mut catalog, 1, 2);
    let mut pending = Pending::new(&catalog);
    for at in 0..3_u64 {
        let at_entry = At { index: at, node: FIRST_NODE };
        let Offered::Decided { changes, .. } =
            pending.offer(&catalog, queue(&format!("q{at}"), &[]), (), at_entry)
        else {
            panic!("not decided")
        };
        pending.handle_committed().unwrap();
        changes.iter().for_each(|change| catalog.apply(change));
    }
    let after: Vec<_> = catalog.queues().map(|queue| queue.id).collect();
    let slots = |ids: &[QueueId]| ids.iter().map(|id| id.slot()).collect::<Vec<_>>();
    assert_eq!(slots(&after), slots(&before));
    assert!(after.iter().all(|id| before.iter().all(|old| old.incarnation() < id.incarnation())));
    assert!(before.iter().all(|id| catalog.queue_by_id(*id).is_none() && !catalog.is_to_come(*id)));
}

/// Admits two nodes. The first has started twice, the second once.
fn cluster() -> Catalog {
    let mut catalog = Catalog::default();
    for number in [1, 2] {
        let mut identity = [0; 16];
        identity[..4].copy_from_slice(&(number * 10_u32).to_be_bytes());
        let known = KnownNode { identity, name: format!("n{number}@h").into() };
        catalog.apply(&Change::NodeJoined { node: number, known });
    }
    start(&mut catalog, 1, 1);
    start(&mut catalog, 1, 2);
    start(&mut catalog, 2, 1);
    catalog
}

fn lose(catalog: &mut Catalog, node: NodeNumber, boot: u32) -> bool {
    let decision = decide(catalog, Command::LoseNode { node, boot }).unwrap();
    decision.changes.iter().for_each(|change| catalog.apply(change));
    decision.answer == Answer::Done { changed: true }
}

#[test]
fn a_lost_start_ends_what_a_later_one_would_end() {
    let mut catalog = cluster();
    own(&mut catalog, "own", 1, 2);
    transient(&mut catalog, "transient", 1);
    own(&mut catalog, "of the other", 2, 1);
    run(&mut catalog, queue("durable", &[]));
    exchange(&mut catalog, "shared", false, &[1, 2]);
    exchange(&mut catalog, "here", false, &[1]);
    bind(&mut catalog, "shared", to_queue("own"));
    let mut started = catalog.clone();
    start(&mut started, 1, 3);
    assert!(!lose(&mut catalog, 1, 1), "a later start is known");
    assert!(!lose(&mut catalog, 3, 0), "there is no such node");
    assert!(lose(&mut catalog, 1, 2));
    assert_eq!(names(&catalog), ["durable", "of the other"].map(Arc::from));
    assert_eq!(names(&catalog), names(&started));
    for name in ["shared", "here"] {
        assert_eq!(catalog.exchange("/", name), started.exchange("/", name), "{name}");
    }
    assert!(catalog.bindings_between("/", "shared", &to_queue("own")).is_empty());
    assert!(!lose(&mut catalog, 1, 2), "nothing is left to end");
}

#[test]
fn a_node_whose_start_was_lost_goes_on_with_it() {
    let mut catalog = cluster();
    let asker = |number| Asker { origin: origin(1, 2), number, ..Asker::default() };
    catalog.note_proposal(&asker(7));
    own(&mut catalog, "own", 1, 2);
    assert!(lose(&mut catalog, 1, 2));
    assert!(catalog.has_proposal(origin(1, 2), 7) && !catalog.has_proposal(origin(1, 2), 8));
    own(&mut catalog, "own", 1, 2);
    assert_eq!(names(&catalog), ["own"].map(Arc::from), "its name is free, and what comes later stays");
    assert!(lose(&mut catalog, 1, 2), "it may be lost again");
}
