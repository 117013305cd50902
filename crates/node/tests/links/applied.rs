//! What follows from a change, on a node that has applied it but not decided it.

use std::sync::Arc;

use amqp10::{Role, Source, Symbol, Target};
use broker::ids::Where;
use broker::mail::Mail;
use broker::settings::Settings;
use catalog::ids::{ConnectionId, NodeId, Origin};
use catalog::{
    Answer, Arguments, Asker, Binding, Catalog, Change, Command, DeclareExchange, DeclareQueue, DeclareRules,
    Destination, Entry,
};

use super::house::House;
use crate::asks::Asks;

/// A node besides ours.
const OTHER: Origin = Origin { node: NodeId(7), boot: 1 };

/// Two nodes. The first decides what clients of the second ask on shard 1, and both apply it.
pub(super) struct Nodes {
    decides: House,
    pub follows: House,
    /// The number of entries that the second has applied.
    entries: u64,
}

impl Nodes {
    pub(super) fn new() -> Self {
        let declare_rules = DeclareRules { event_vhost: Some("/".into()), ..DeclareRules::default() };
        let settings = Settings { declare_rules: declare_rules.clone(), ..Settings::default() };
        let (mut decides, mut follows) = (House::new(2, settings.clone()), House::new(2, settings));
        decides.is_lost = |mail| matches!(mail, Mail::Entry(_));
        follows.is_lost = |mail| matches!(mail, Mail::Propose(_));
        // Entries of other nodes come after those of the start.
        let mut nodes = Self { decides, follows, entries: 100 };
        let mut catalog = Catalog::default();
        catalog.set_rules(declare_rules);
        nodes.apply(OTHER, catalog.begin_exchanges());
        nodes
    }

    /// Has the second node apply changes that this node has asked for.
    fn apply(&mut self, origin: Origin, changes: Vec<Change>) {
        let asker = Asker { origin, ..Asker::default() };
        let answer = Answer::Done { changed: true };
        self.pass(Entry { index: 0, asker, changes: changes.into(), answer });
    }

    fn pass(&mut self, entry: Entry) {
        self.entries += 1;
        let entry = Arc::new(Entry { index: self.entries, ..entry });
        self.follows.shards.iter_mut().for_each(|shard| shard.handle_mail(vec![Mail::Entry(entry.clone())]));
        self.follows.settle();
    }

    /// Has the first node decide a command of its own. The second applies it.
    fn decide(&mut self, command: Command) {
        self.decides.shards[0].propose(command, Box::new(|answer| drop(answer.unwrap())));
        self.settle(Some(OTHER));
    }

    /// Passes what clients of the second node ask to the first, and back, until nothing moves.
    pub(super) fn settle(&mut self, origin: Option<Origin>) {
        loop {
            self.decides.settle();
            self.follows.settle();
            let entries = std::mem::take(&mut self.decides.lost);
            let proposals = std::mem::take(&mut self.follows.lost);
            if entries.is_empty() && proposals.is_empty() {
                return;
            }
            for entry in entries {
                let Mail::Entry(entry) = entry else { continue };
                self.decides.shards[1].handle_mail(vec![Mail::Entry(entry.clone())]);
                let mut entry = Entry::clone(&entry);
                entry.asker.origin = origin.unwrap_or_default();
                self.pass(entry);
            }
            self.decides.shards[0].handle_mail(proposals);
        }
    }

    /// Returns the numbers of declared and of created queues that the second node has counted.
    pub(super) fn counted(&self) -> (u64, u64) {
        let shards = self.follows.shards.iter();
        shards.fold((0, 0), |(declared, created), shard| {
            (declared + shard.counters.queues_declared, created + shard.counters.queues_created)
        })
    }
}

fn declare(name: &str) -> Command {
    Command::DeclareQueue(DeclareQueue::new("/", name, Arguments::new()))
}

fn binding(source: &str, queue: &str) -> Change {
    Change::Bound(Arc::new(Binding {
        vhost: "/".into(),
        source: source.into(),
        destination: Destination::Queue(queue.into()),
        key: "#".into(),
        arguments: Arguments::new(),
    }))
}

#[test]
fn a_node_does_for_another_only_what_concerns_its_own_state() {
    let mut nodes = Nodes::new();
    nodes.decide(declare("events"));
    nodes.apply(OTHER, vec![binding("amq.rabbitmq.event", "events")]);
    let own = DeclareQueue::new("/", "own", Arguments::new());
    let connection = Some(ConnectionId { origin: OTHER, number: 1 << 56 | 1 });
    nodes.decide(Command::DeclareQueue(DeclareQueue { exclusive: true, connection, ..own }));
    for shard in &nodes.follows.shards {
        assert!(shard.catalog().listed_queue("/", "own").is_some(), "it is applied");
    }
    let own = nodes.follows.shards[0].catalog().listed_queue("/", "own").unwrap().id;
    assert_eq!(
        nodes.follows.shards[0].placements().home(own),
        Where::Unplaced,
        "it lives with its connection"
    );
    assert_eq!(nodes.counted(), (0, 0));
    assert_eq!(nodes.follows.messages("events"), 0);
    // The event exchange works: this node has asked for the next change.
    nodes.apply(Origin::default(), vec![binding("amq.fanout", "events")]);
    assert_eq!(nodes.follows.messages("events"), 1);
}

#[test]
fn a_node_that_has_asked_does_what_follows_although_another_has_decided() {
    let mut nodes = Nodes::new();
    nodes.decide(declare("events"));
    nodes.apply(OTHER, vec![binding("amq.rabbitmq.event", "events")]);
    let peer = nodes.follows.connect(1);
    let capabilities = vec![Symbol::from_static("temporary-queue")];
    let source = Source { dynamic: true, capabilities, ..Source::default() };
    let before = nodes.follows.messages("events");
    nodes.follows.begin_attach(peer, Role::Receiver, source, Target::default());
    nodes.settle(None);
    assert_eq!(nodes.follows.peers[peer].sources.len(), 1, "the client is answered");
    assert_eq!(nodes.counted(), (1, 1));
    assert_eq!(nodes.follows.messages("events"), before + 2, "of the queue and of its consumer");
    let catalog = nodes.follows.shards[0].catalog();
    let own = catalog.queues().find(|queue| queue.exclusive.is_some()).expect("a queue of the link").id;
    let homes = nodes.follows.shards.iter().map(|shard| shard.placements().home(own));
    assert_eq!(homes.collect::<Vec<_>>(), [Where::Here(1); 2]);

    nodes.follows.peers[peer].conn.close(None, false);
    nodes.follows.settle();
    assert!(!nodes.follows.peers[peer].is_closed, "CLOSE waits until the queue is deleted");
    nodes.settle(None);
    assert!(nodes.follows.peers[peer].is_closed);
    for house in [&nodes.decides, &nodes.follows] {
        assert!(house.shards.iter().all(|shard| shard.catalog().queue_by_id(own).is_none()));
    }
}

#[test]
fn a_new_binding_gets_the_history_wherever_it_was_decided() {
    let mut nodes = Nodes::new();
    nodes.decide(Command::DeclareExchange(DeclareExchange {
        vhost: "/".into(),
        name: "recent".into(),
        kind: "x-recent-history".into(),
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: Arguments::new(),
    }));
    nodes.decide(declare("late"));
    let peer = nodes.follows.connect(1);
    let link = nodes.follows.sender(peer, "/exchanges/recent/k");
    nodes.follows.send(peer, link, b"x");
    nodes.apply(OTHER, vec![binding("recent", "late")]);
    assert_eq!(nodes.follows.messages("late"), 1);
}
