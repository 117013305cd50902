//! Tests [`Pending`] against a naive model that carries out one command after the other.

mod entries;
mod mistakes;
mod order;
mod queries;
mod same;

use std::collections::{BTreeMap, BTreeSet};

use amqp10::sasl::Secret;
use proptest::prelude::*;

use super::*;
use crate::access::{Hashing, Permissions, TopicPermissions};
use crate::exchange::topic::NODES_MAX;
use crate::ids::{ConnectionId, FIRST_NODE, NodeId, Origin, QueueId};
use crate::{
    AccountChange, Arguments, Binding, Caller, DeclareExchange, DeclareQueue, Destination, KnownNode,
    Mutation, ParameterKey, SetPolicy, VhostPatch,
};

/// A command, or an event of the log or of a queue.
#[derive(Clone, Debug)]
enum Step {
    Command(Command),
    /// The queue of this virtual host and name ends, if it exists.
    Forget(&'static str, &'static str),
    /// The log syncs a part of what it has received.
    Sync(u8),
}

/// A catalog with a log that syncs on request. A command is identified by its position in the order of proposals.
struct World {
    catalog: Catalog,
    pending: Pending<usize>,
    /// The number of entries that the log has received.
    received: u64,
    /// The number of these that are not synced.
    unsynced: usize,
    answers: BTreeMap<usize, Result<String, CatalogError>>,
    proposed: usize,
    declared: Declared,
}

/// The number of declarations of each queue, by virtual host and name.
type Declared = BTreeMap<(Arc<str>, Arc<str>), usize>;

fn count_declared(declared: &mut Declared, changes: &[Change]) {
    for change in changes {
        if let Change::QueueDeclared(queue) = change {
            *declared.entry((queue.vhost.clone(), queue.name.clone())).or_default() += 1;
        }
    }
}

impl World {
    fn new(catalog: Catalog) -> Self {
        let pending = Pending::new(&catalog);
        Self {
            catalog,
            pending,
            received: 0,
            unsynced: 0,
            answers: BTreeMap::new(),
            proposed: 0,
            declared: Declared::new(),
        }
    }

    fn propose(&mut self, command: Command) {
        self.proposed += 1;
        self.offer(command, self.proposed);
    }

    fn offer(&mut self, command: Command, who: usize) {
        match self.pending.offer(
            &self.catalog,
            command,
            who,
            At { index: self.received + 1, node: FIRST_NODE },
        ) {
            Offered::Waits | Offered::Repeated => {}
            Offered::Decided { .. } => {
                self.received += 1;
                self.unsynced += 1;
            }
            Offered::Ended { who, result } => self.answer(who, result),
        }
    }

    fn answer(&mut self, who: usize, result: Result<Answer, CatalogError>) {
        assert!(self.answers.insert(who, result.map(told)).is_none(), "{who} is answered twice");
    }

    fn sync(&mut self, part: u8) {
        let count = self.unsynced.min(usize::from(part) + 1);
        self.unsynced -= count;
        for _ in 0..count {
            let Committed { who, changes, answer } = self.pending.handle_committed().expect("it was decided");
            changes.iter().for_each(|change| self.catalog.apply(change));
            count_declared(&mut self.declared, &changes);
            self.answer(who, Ok(answer));
        }
        for (command, who) in self.pending.take_line() {
            self.offer(command, who);
        }
    }

    fn settle(&mut self) {
        while self.unsynced > 0 {
            self.sync(u8::MAX);
        }
        assert!(
            self.pending.claimed.is_empty()
                && self.pending.waiting.is_empty()
                && self.pending.ends.is_empty()
        );
    }
}

/// Formats an answer without the ids of queues, which depend on the order of decisions.
fn told(answer: Answer) -> String {
    match answer {
        Answer::Queue { record, created } => format!("{} {created}", record.name),
        other => format!("{other:?}"),
    }
}

/// Returns everything in the catalog, without ids.
fn contents(catalog: &Catalog) -> Vec<String> {
    let vhosts = catalog.vhosts().map(|name| format!("vhost {name}"));
    let queues = catalog.queues().map(|q| {
        let policy = q.policy.as_ref().map(|policy| &policy.name);
        format!("queue {} {} {} {:?} {policy:?}", q.vhost, q.name, q.durable, q.exclusive)
    });
    let exchanges = catalog.exchanges().map(|x| format!("exchange {} {} {}", x.vhost, x.name, x.auto_delete));
    let bindings = catalog.bindings().into_iter().map(|binding| format!("{binding:?}"));
    let policies = catalog.policies(false).map(|policy| format!("{policy:?}"));
    let users = catalog.users().iter().map(|user| {
        let permissions: BTreeMap<_, _> = user.permissions.iter().collect();
        format!("user {} {:?} {:?} {permissions:?}", user.name, user.hash.expose(), user.tags)
    });
    let nodes = catalog.nodes().iter().map(|node| format!("node {node:?}"));
    let mut all: Vec<String> = nodes
        .chain(vhosts)
        .chain(queues)
        .chain(exchanges)
        .chain(bindings)
        .chain(policies)
        .chain(users)
        .collect();
    all.sort();
    all
}

fn run_one(catalog: &mut Catalog, command: Command) -> Result<String, CatalogError> {
    run_counted(catalog, command, &mut Declared::new())
}

fn run_counted(
    catalog: &mut Catalog,
    command: Command,
    declared: &mut Declared,
) -> Result<String, CatalogError> {
    let mut decision = catalog.decide(command, &mut catalog.queue_ids())?;
    decision.declare_at(At { index: 0, node: FIRST_NODE }, catalog);
    decision.changes.iter().for_each(|change| catalog.apply(change));
    count_declared(declared, &decision.changes);
    Ok(told(decision.answer))
}

const VHOSTS: [&str; 2] = ["/", "v"];
const NAMES: [&str; 3] = ["a", "b", "c"];

fn declare(vhost: &str, name: &str, durable: bool) -> Command {
    let connection = (!durable).then_some(connections()[0]);
    let declare = DeclareQueue::new(vhost, name, Arguments::new());
    Command::DeclareQueue(DeclareQueue { durable, exclusive: !durable, connection, ..declare })
}

fn exchange(vhost: &str, name: &str, durable: bool, auto_delete: bool) -> Command {
    Command::DeclareExchange(DeclareExchange {
        vhost: vhost.into(),
        name: name.into(),
        kind: "fanout".into(),
        durable,
        auto_delete,
        internal: false,
        arguments: Arguments::new(),
    })
}

fn binding(vhost: &str, source: &str, destination: Destination, key: &str) -> Binding {
    let (vhost, source, key) = (vhost.into(), source.into(), key.into());
    Binding { vhost, source, destination, key, arguments: Arguments::new() }
}

fn policy(vhost: &str, name: &str, operator: bool) -> Command {
    Command::SetPolicy(SetPolicy {
        vhost: vhost.into(),
        name: name.into(),
        operator,
        pattern: format!("^{name}"),
        priority: 0,
        apply_to: "queues".into(),
        definition: [("max-length".to_owned(), amqp10::Value::Int(1))].into(),
    })
}

fn set_user(name: &str) -> Command {
    let hash = Hashing::Sha256.hash([1; 16], &Secret::new("p"));
    Command::Account(AccountChange::SetUser { name: name.into(), hash, tags: [].into() })
}

fn set_password(name: &str, password: &'static str) -> Command {
    let hash = Some(Hashing::Sha256.hash([1; 16], &Secret::new(password)));
    Command::Account(AccountChange::PatchUser { name: name.into(), hash, tags: None })
}

fn set_tags(name: &str, tag: &str) -> Command {
    let tags = Some([tag.to_owned()].into());
    Command::Account(AccountChange::PatchUser { name: name.into(), hash: None, tags })
}

fn add_user(name: &str) -> Command {
    let hash = Hashing::Sha256.hash([1; 16], &Secret::new("added"));
    Command::Account(AccountChange::AddUser { name: name.into(), hash, tags: [].into() })
}

fn set_permissions(user: &str, vhost: &str) -> Command {
    Command::Account(AccountChange::SetPermissions {
        user: user.into(),
        vhost: vhost.into(),
        permissions: Permissions::ALL,
    })
}

/// Two connections that own queues. They are of two nodes.
fn connections() -> [ConnectionId; 2] {
    NODES.map(|node| ConnectionId { origin: Origin { node, boot: 0 }, number: 1 })
}

/// The ids of the nodes 1 and 2.
const NODES: [NodeId; 2] = [NodeId(0), NodeId(7)];

fn callers() -> [Caller; 3] {
    let [one, two] = connections();
    [Caller::Management, Caller::Connection(one), Caller::Connection(two)]
}

fn command() -> impl Strategy<Value = Command> {
    let place = (prop::sample::select(&VHOSTS[..]), prop::sample::select(&NAMES[..]));
    let destination = (prop::sample::select(&NAMES[..]), any::<bool>()).prop_map(|(name, is_queue)| {
        if is_queue { Destination::Queue(name.into()) } else { Destination::Exchange(name.into()) }
    });
    let source = prop::sample::select(&["a", "b", "c", "amq.topic"][..]);
    let bound = (place.clone(), source, destination, prop::sample::select(&["", "k", "2"][..]))
        .prop_map(|((vhost, _), source, to, key)| binding(vhost, source, to, key));
    let kind = prop::sample::select(
        &[
            "fanout",
            "fanout",
            "fanout",
            "direct",
            "direct",
            "topic",
            "topic",
            "x-modulus-hash",
            "x-consistent-hash",
        ][..],
    );
    let owner = prop::sample::select(vec![None, None, Some(0_usize), Some(1)]);
    let caller = prop::sample::select(callers().to_vec());
    let account = |change| Command::Account(change);
    prop_oneof![
        4 => (place.clone(), any::<bool>(), owner).prop_map(|((vhost, name), durable, owner)| {
            let connection = owner.map(|number| connections()[number]);
            let declare = DeclareQueue::new(vhost, name, Arguments::new());
            Command::DeclareQueue(DeclareQueue { durable, exclusive: owner.is_some(), connection, ..declare })
        }),
        4 => (place.clone(), any::<bool>(), any::<bool>(), kind).prop_map(|((vhost, name), durable, auto_delete, kind)| {
            match exchange(vhost, name, durable, auto_delete) {
                Command::DeclareExchange(declare) => {
                    Command::DeclareExchange(DeclareExchange { kind: kind.to_owned(), ..declare })
                }
                other => other,
            }
        }),
        8 => (bound.clone(), caller.clone()).prop_map(|(binding, caller)| Command::Bind(binding, caller)),
        3 => (bound, caller).prop_map(|(binding, caller)| Command::Unbind(binding, caller)),
        2 => (place.clone(), any::<bool>()).prop_map(|((vhost, name), if_unused)| {
            Command::DeleteExchange { vhost: vhost.into(), name: name.into(), if_unused }
        }),
        1 => (place.clone(), any::<bool>()).prop_map(|((vhost, name), operator)| policy(vhost, name, operator)),
        1 => (place.clone(), any::<bool>()).prop_map(|((vhost, name), operator)| {
            Command::ClearPolicy { vhost: vhost.into(), name: name.into(), operator }
        }),
        1 => (prop::option::of(0_u32..4), place.clone(), any::<bool>()).prop_map(move |(max_queues, place, is_new)| {
            let (name, creator) = (if is_new { "w" } else { "v" }.into(), Some(place.1.into()));
            let patch = VhostPatch { max_queues: Some(max_queues), ..VhostPatch::default() };
            account(AccountChange::SetVhost { name, patch, creator })
        }),
        1 => any::<bool>().prop_map(move |is_new| {
            account(AccountChange::DeleteVhost { name: if is_new { "w" } else { "v" }.into() })
        }),
        1 => place.clone().prop_map(|(_, name)| set_user(name)),
        1 => place.clone().prop_map(|(_, name)| add_user(name)),
        1 => place.clone().prop_map(|(vhost, name)| set_password(name, vhost)),
        1 => place.clone().prop_map(|(vhost, name)| set_tags(name, vhost)),
        1 => place.clone().prop_map(move |(_, name)| account(AccountChange::DeleteUser { name: name.into() })),
        1 => place.clone().prop_map(|(vhost, name)| set_permissions(name, vhost)),
        1 => place.clone().prop_map(move |(vhost, user)| {
            account(AccountChange::ClearPermissions { user: user.into(), vhost: vhost.into() })
        }),
        1 => (place.clone(), prop::option::of(0_u32..4)).prop_map(move |((_, user), most)| {
            account(AccountChange::SetUserLimits { user: user.into(), max_connections: Some(most), max_channels: None })
        }),
        1 => place.clone().prop_map(move |(vhost, user)| {
            let permissions = TopicPermissions::new(["^k", ".*"], user, vhost).unwrap();
            account(AccountChange::SetTopicPermissions { user: user.into(), vhost: vhost.into(), exchange: "amq.topic".into(), permissions })
        }),
        1 => (place.clone(), any::<bool>()).prop_map(move |((vhost, user), of_all)| {
            let exchange = (!of_all).then(|| "amq.topic".into());
            account(AccountChange::ClearTopicPermissions { user: user.into(), vhost: vhost.into(), exchange })
        }),
        1 => (parameter(), 0..3_u8).prop_map(|(key, value)| Command::SetParameter { key, value: value.to_string().into() }),
        1 => parameter().prop_map(|key| Command::ClearParameter { key }),
    ]
}

fn parameter() -> impl Strategy<Value = ParameterKey> {
    let vhost = prop::sample::select(vec![None, Some("/"), Some("v")]);
    vhost.prop_map(|vhost| match vhost {
        Some(vhost) => {
            ParameterKey { vhost: Some(vhost.into()), component: "shovel".into(), name: "s".into() }
        }
        None => ParameterKey::global("p"),
    })
}

/// Returns the node that has this id, under this name.
fn known_node(id: NodeId, name: &str) -> KnownNode {
    let mut identity = [9; 16];
    identity[..4].copy_from_slice(&id.0.to_be_bytes());
    KnownNode { identity, name: name.into() }
}

/// A node joins or starts. Some of the nodes have the name or the identity of others, and some starts are earlier than those before.
fn of_nodes() -> impl Strategy<Value = Command> {
    let name = prop::sample::select(&["one", "two", "three", ""][..]);
    let id = prop::sample::select(vec![NODES[0], NODES[1], NodeId(8)]);
    let admit = (id, name).prop_map(|(id, name)| Command::AdmitNode(known_node(id, name)));
    let start = (0..NODES.len(), 1..4_u32).prop_map(|(at, boot)| Command::StartNode {
        node: at as u32 + 1,
        origin: Origin { node: NODES[at], boot },
    });
    let lose =
        (0..=NODES.len(), 0..4_u32).prop_map(|(at, boot)| Command::LoseNode { node: at as u32 + 1, boot });
    prop_oneof![admit, start, lose]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 0..80)
}

fn step() -> impl Strategy<Value = Step> {
    let place = (prop::sample::select(&VHOSTS[..]), prop::sample::select(&NAMES[..]));
    let batch = prop::collection::vec(command(), 0..4).prop_map(Command::Batch);
    let command = prop_oneof![38 => command(), 2 => batch, 3 => of_nodes()];
    prop_oneof![
        20 => command.prop_map(Step::Command),
        3 => place.prop_map(|(vhost, name)| Step::Forget(vhost, name)),
        4 => (0..4_u8).prop_map(Step::Sync),
    ]
}

/// Every command gets the same answer as if each command were carried out before the next one is decided. The
/// resulting catalog is the same too.
fn one_by_one(steps: Vec<Step>, mutation: Option<Mutation>) -> Result<(), TestCaseError> {
    let mut model = Catalog::default();
    run_one(&mut model, Command::Account(AccountChange::add_vhost("v"))).unwrap();
    let mut world = World::new(model.clone().with_mutation(mutation));
    let (mut expected, mut ended, mut declared) = (BTreeMap::new(), BTreeSet::new(), Declared::new());
    for step in steps {
        let (asked, of_model) = match step {
            Step::Command(command) => (command.clone(), command),
            Step::Forget(vhost, name) => {
                // Only a committed queue has a machine that can end, and it ends once. In the model the
                // queue has another id, so it is looked up by name.
                let Some(queue) = world.catalog.listed_queue(vhost, name).map(|q| q.id) else { continue };
                if !ended.insert(queue) {
                    // Its shard proposes the end again. The answer to the first proposal is the only one.
                    world.propose(Command::ForgetQueue { queue });
                    continue;
                }
                // The start of its node may come first: then there is none in the model, or a later one.
                let named = (vhost.into(), name.into());
                let is_same = declared.get(&named) == world.declared.get(&named);
                let in_model = model.listed_queue(vhost, name).map(|queue| queue.id);
                let Some(in_model) = in_model.filter(|_| is_same) else {
                    world.propose(Command::ForgetQueue { queue });
                    expected.insert(world.proposed, Ok(told(Answer::Done { changed: false })));
                    continue;
                };
                (Command::ForgetQueue { queue }, Command::ForgetQueue { queue: in_model })
            }
            Step::Sync(part) => {
                world.sync(part);
                continue;
            }
        };
        world.propose(asked);
        expected.insert(world.proposed, run_counted(&mut model, of_model, &mut declared));
    }
    world.settle();
    prop_assert_eq!(world.answers, expected);
    prop_assert_eq!(contents(&world.catalog), contents(&model));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn answers_are_as_if_commands_ran_one_by_one(steps in steps()) {
        one_by_one(steps, None)?;
    }
}

#[test]
fn commands_without_conflicts_share_a_sync() {
    let mut world = World::new(Catalog::default());
    for name in NAMES {
        world.propose(declare("/", name, true));
        world.propose(exchange("/", name, true, false));
    }
    for name in NAMES {
        let to = |key| binding("/", "amq.fanout", Destination::Queue(name.into()), key);
        world.propose(Command::Bind(to("1"), Caller::Management));
        world.propose(Command::Bind(to("2"), Caller::Management));
    }
    assert_eq!((world.unsynced, world.pending.waiting.len()), (6, 6), "bindings wait for their queues");
    assert!(world.answers.is_empty() && world.catalog.queues().count() == 0);
    world.sync(u8::MAX);
    assert_eq!((world.unsynced, world.pending.waiting.len()), (6, 0), "bindings wait for nothing else");
    world.sync(u8::MAX);
    assert!(world.answers.values().all(Result::is_ok) && world.answers.len() == 12);
}

/// What is not durable is an entry as everything else, and has its place in the order of decisions.
#[test]
fn changes_that_are_not_durable_wait_for_the_log_too() {
    let mut world = World::new(Catalog::default());
    world.propose(exchange("/", "x", true, false));
    world.propose(declare("/", "durable", true));
    world.propose(declare("/", "own", false));
    let bind = |source: &str, to: &str| {
        Command::Bind(
            binding("/", source, Destination::Queue(to.into()), ""),
            Caller::Connection(connections()[0]),
        )
    };
    world.propose(bind("x", "own"));
    assert_eq!((world.unsynced, world.pending.waiting.len(), world.answers.len()), (3, 1, 0));
    world.sync(1);
    assert_eq!((world.unsynced, world.pending.waiting.len(), world.answers.len()), (1, 1, 2));
    let durable = world.catalog.listed_queue("/", "durable").unwrap();
    assert_eq!(durable.declared, 2, "the index of its entry");
    let own = QueueId::new(durable.id.incarnation() + 1, durable.id.slot() as u32 + 1);
    assert!(world.catalog.is_to_come(own) && !world.catalog.is_to_come(durable.id));
    world.settle();
    assert!(world.answers.values().all(Result::is_ok) && world.answers.len() == 4);
    let of_own = world.catalog.listed_queue("/", "own").unwrap();
    assert_eq!((of_own.id, of_own.declared), (own, 3));
    world.propose(Command::ForgetQueue { queue: own });
    world.propose(declare("/", "next", false));
    world.settle();
    world.propose(declare("/", "last", false));
    world.settle();
    let [next, last] = ["next", "last"].map(|name| world.catalog.listed_queue("/", name).unwrap().id);
    assert_ne!(next.slot(), own.slot(), "the place is free when its queue is forgotten, and not before");
    assert_eq!(last.slot(), own.slot());
    assert!(own.incarnation() < next.incarnation() && next.incarnation() < last.incarnation());
    let to_come = QueueId::new(last.incarnation() + 1, own.slot() as u32);
    assert!(world.catalog.is_to_come(to_come) && !world.catalog.is_to_come(own), "it has been there");
}

/// Two administrators who change a user at the same time do not know of each other.
#[test]
fn of_two_changes_of_a_user_at_the_same_time_none_is_lost() {
    let mut world = World::new(Catalog::default());
    world.propose(set_user("anna"));
    world.settle();
    let permissions = set_permissions("anna", "/");
    for change in [set_password("anna", "new"), set_tags("anna", "management"), permissions] {
        world.propose(change);
    }
    assert!(world.answers.len() == 1 && world.unsynced == 1, "the second waits for the first");
    world.settle();
    assert!(world.answers.values().all(Result::is_ok), "{:?}", world.answers);
    let anna = world.catalog.users().get("anna").unwrap();
    assert!(anna.hash.is_of(&Secret::new("new")) && *anna.tags == ["management"], "{anna:?}");
    assert_eq!(anna.permissions.len(), 1);

    world.propose(set_password("nobody", "p"));
    assert!(matches!(world.answers[&5], Err(CatalogError::NotFound { .. })));
}

/// A shard that gets no answer for a while proposes the end of a queue again.
#[test]
fn an_end_that_is_proposed_again_holds_nothing_back() {
    let mut world = World::new(Catalog::default());
    for name in ["a", "b"] {
        world.propose(declare("/", name, true));
    }
    world.settle();
    let queue = |name: &str| world.catalog.listed_queue("/", name).unwrap().id;
    let [a, b] = ["a", "b"].map(queue);
    world.propose(Command::ForgetQueue { queue: a });
    world.propose(Command::ForgetQueue { queue: a });
    assert_eq!(world.unsynced, 1);
    // Nothing of this concerns the queue.
    let to_b = binding("/", "amq.fanout", Destination::Queue("b".into()), "");
    world.propose(Command::Bind(to_b.clone(), Caller::Management));
    world.propose(exchange("/", "x", true, false));
    assert_eq!((world.unsynced, world.pending.waiting.len()), (3, 0));
    // This end waits for the binding. Its repetition is dropped as well.
    world.propose(Command::ForgetQueue { queue: b });
    world.propose(Command::ForgetQueue { queue: b });
    assert_eq!(world.pending.waiting.len(), 1);
    world.settle();
    assert_eq!(world.answers.keys().copied().collect::<Vec<_>>(), [1, 2, 3, 5, 6, 7]);
    // A repetition that arrives late is answered: there is nothing to do.
    world.propose(Command::ForgetQueue { queue: a });
    assert!(world.answers[&9].is_ok());
}

#[test]
fn of_two_users_who_are_added_with_one_name_the_second_is_refused() {
    let mut world = World::new(Catalog::default());
    world.propose(add_user("anna"));
    world.propose(set_tags("anna", "management"));
    world.propose(add_user("anna"));
    world.settle();
    assert!(world.answers[&1].is_ok() && world.answers[&2].is_ok(), "{:?}", world.answers);
    let reason = "user 'anna' exists already".to_owned();
    assert_eq!(world.answers[&3], Err(CatalogError::PreconditionFailed { reason }));
    assert_eq!(*world.catalog.users().get("anna").unwrap().tags, ["management"]);
}

#[test]
fn too_many_waiting_commands_are_refused_except_ends_of_queues() {
    let mut world = World::new(Catalog::default());
    world.propose(declare("/", "a", true));
    world.sync(0);
    let queue = world.catalog.listed_queue("/", "a").unwrap().id;
    world.propose(policy("/", "a", false));
    for _ in 0..WAITING_MAX {
        world.propose(declare("/", "a", true));
    }
    assert_eq!(world.answers.len(), 1);
    world.propose(declare("/", "a", true));
    assert!(matches!(world.answers.last_key_value(), Some((_, Err(CatalogError::Busy { .. })))));
    world.propose(Command::ForgetQueue { queue });
    assert_eq!(world.answers.len(), 2);
    world.settle();
    assert!(world.catalog.listed_queue("/", "a").is_none());
}

/// Bindings share the room of a topic exchange as long as it suffices for all of them, and none of them gets more than is left.
#[test]
fn bindings_that_wait_for_the_log_do_not_exceed_the_room_of_their_exchange() {
    const WORDS: usize = 250;
    let mut catalog = Catalog::default();
    run_one(&mut catalog, declare("/", "a", true)).unwrap();
    let bind = |n: usize| {
        let key = format!("{n}{}", ".".repeat(WORDS - 1));
        Command::Bind(binding("/", "amq.topic", Destination::Queue("a".into()), &key), Caller::Management)
    };
    let most = NODES_MAX / WORDS;
    for n in 0..most - 3 {
        run_one(&mut catalog, bind(n)).unwrap();
    }
    let mut world = World::new(catalog);
    (0..5).for_each(|n| world.propose(bind(most + n)));
    assert_eq!((world.unsynced, world.pending.waiting.len()), (3, 2), "three have room");
    world.propose(bind(0));
    world.sync(u8::MAX);
    let refused = |answer: &Result<_, _>| matches!(answer, Err(CatalogError::LimitReached { .. }));
    assert_eq!(
        world.answers.values().map(refused).collect::<Vec<_>>(),
        [false, false, false, true, true, false]
    );
    // What a removal frees is there for the next command, but not before the log has it.
    let Command::Bind(first, _) = bind(0) else { unreachable!() };
    world.propose(Command::Unbind(first, Caller::Management));
    world.propose(bind(most + 3));
    assert_eq!((world.unsynced, world.pending.waiting.len()), (1, 1));
    world.settle();
    assert_eq!(world.answers.values().filter(|answer| refused(answer)).count(), 2);
    assert_eq!(world.catalog.binding_room("/", "amq.topic"), Some(0));
}

/// A batch that waits may delete exchanges that it does not name, as each of its commands may.
#[test]
fn a_batch_that_waits_holds_back_what_its_commands_hold_back() {
    let mut world = World::new(Catalog::default());
    world.propose(exchange("/", "b", true, false));
    world.propose(exchange("/", "c", false, true));
    let last = binding("/", "c", Destination::Exchange("b".into()), "");
    world.propose(Command::Bind(last, Caller::Management));
    let delete = Command::DeleteExchange { vhost: "/".into(), name: "b".into(), if_unused: false };
    world.propose(Command::Batch(vec![delete]));
    // The deletion of `b` deletes `c`, too. So this declares a new exchange.
    world.propose(exchange("/", "c", false, false));
    world.settle();
    assert!(world.answers.values().all(Result::is_ok), "{:?}", world.answers);
    assert!(world.catalog.exchange("/", "c").is_some_and(|exchange| !exchange.auto_delete));
}
