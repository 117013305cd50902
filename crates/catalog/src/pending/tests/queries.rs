//! Everything that anybody can ask of a catalog, as texts that can be compared.

use super::*;
use crate::ids::{Members, NodeNumber};
use crate::{Catalog, DefinitionsCursor, Exchange, QueueRecord, Routable, decode_change, encode_change};

/// Returns the change as a log or another node reads it.
pub(super) fn sent(change: &Change) -> Change {
    let mut stored = bytes::BytesMut::new();
    encode_change(change, &mut stored);
    decode_change(&stored).expect("what was encoded")
}

/// Returns the changes that rebuild a catalog, told in parts of so many rows, as they are stored.
pub(super) fn definitions(catalog: &Catalog, rows: usize) -> Vec<String> {
    let mut cursor = DefinitionsCursor::default();
    let mut all = Vec::new();
    let mut each = |change: Change| all.push(format!("{:?}", sent(&change)));
    while catalog.walk_definitions(&mut cursor, rows, &mut each) > 0 {}
    all
}

/// Returns the answers to all questions about what exists, which are equal on all nodes: the records of queues and exchanges have also where
/// they live and the entries that declared them. The numbers that a node gives to its own copy are in [`numbers`]. Nobody may rely on the
/// order of lists, except that of the bindings of an exchange whose order counts, so everything else is sorted.
pub(super) fn answers(catalog: &Catalog) -> Vec<String> {
    let mut all = contents(catalog);
    all.extend(definitions(catalog, usize::MAX));
    all.push(format!("{} queues, {} exchanges", catalog.queue_count(), catalog.exchange_count()));
    all.extend(catalog.exchanges().map(|exchange| format!("{exchange:?}")));
    for exchange in catalog.exchanges().filter(|exchange| exchange.kind.order_counts()) {
        let of_exchange =
            |binding: &Arc<Binding>| binding.vhost == exchange.vhost && binding.source == exchange.name;
        let in_order: Vec<_> = catalog.bindings().into_iter().filter(of_exchange).collect();
        all.push(format!("{in_order:?}"));
    }
    // Also of queues that are gone, and of the next one.
    let next = catalog.next_incarnation();
    let ids = (1..=next).flat_map(|incarnation| (0..4).map(move |slot| QueueId::new(incarnation, slot)));
    all.push(format!("{next} {:?}", ids.filter(|id| catalog.is_to_come(*id)).collect::<Vec<_>>()));
    for queue in catalog.queues() {
        let id = queue.id;
        let named = (catalog.names_of(id), catalog.is_stream(id), catalog.queue_id_at(id.slot()));
        all.push(format!(
            "{queue:?} {named:?} {:?} {:?}",
            catalog.queue_by_id(id),
            catalog.queue_at(id.slot())
        ));
    }
    all.push(proposals(catalog));
    all.extend(catalog.policies(true).map(|policy| format!("{policy:?}")));
    all.push(format!("{:?}", catalog.parameters()));
    all.push(format!("{:?}", catalog.users().have_begun()));
    for user in catalog.users().iter() {
        let topics: BTreeMap<_, _> = user.topics.iter().collect();
        all.push(format!("{} {topics:?} {:?}", user.name, user.limits));
    }
    for vhost in VHOSTS.into_iter().chain(["w"]) {
        let mut queues: Vec<_> = catalog.queues_in(vhost).collect();
        queues.sort();
        let of_vhost = (catalog.has_vhost(vhost), catalog.vhost_settings(vhost), queues);
        all.push(format!("{vhost} {of_vhost:?}"));
        for name in NAMES.into_iter().chain(["amq.topic", "amq.rabbitmq.event", "amq.rabbitmq.log"]) {
            let exchange = (catalog.exchange(vhost, name), catalog.is_topic(vhost, name));
            let usable = callers().map(|caller| catalog.usable_queue(vhost, name, caller));
            let policies = [false, true].map(|operator| catalog.policy(vhost, name, operator));
            all.push(format!("{vhost} {name} {exchange:?} {usable:?} {policies:?}"));
            all.push(format!("{vhost} {name} {:?}", routes(catalog, vhost, name)));
            for to in NAMES {
                for to in [Destination::Queue(to.into()), Destination::Exchange(to.into())] {
                    let between = catalog.bindings_between(vhost, name, &to);
                    let mut between: Vec<_> = between.iter().map(|binding| format!("{binding:?}")).collect();
                    between.sort();
                    all.push(format!("{vhost} {name} {between:?}"));
                }
            }
        }
    }
    all.sort();
    all
}

/// Returns which proposals of the nodes are known, of each start.
fn proposals(catalog: &Catalog) -> String {
    let all = NODES.into_iter().flat_map(|node| (0..12).map(move |boot| Origin { node, boot }));
    let known = all.map(|origin| {
        // A step makes one proposal at most, and a case has some 80.
        let numbers = (0..200).chain([u64::MAX]).filter(|number| catalog.has_proposal(origin, *number));
        (origin, numbers.collect::<Vec<_>>())
    });
    format!("{:?}", known.filter(|(_, numbers)| !numbers.is_empty()).collect::<Vec<_>>())
}

/// Returns where messages to an exchange go.
fn routes(catalog: &Catalog, vhost: &str, exchange: &str) -> Vec<String> {
    let route = |key: &str| {
        let keys = [key.into()];
        let routed = catalog.route(vhost, exchange, &Routable { keys: &keys, ..Routable::default() });
        let mut targets = routed.map(|routed| routed.targets.to_vec()).unwrap_or_default();
        targets.sort_by_key(|target| format!("{target:?}"));
        format!("{targets:?}")
    };
    ["", "k", "a"].into_iter().map(route).collect()
}

/// Returns the numbers that a node gives to its own copy of the catalog: they follow from the order of changes since its start. No change
/// that is stored or sent has them.
pub(super) fn numbers(catalog: &Catalog) -> Vec<String> {
    // The number of places is at least what is needed. How much more it is depends on the memory that was reserved.
    let places =
        (0..catalog.exchange_places()).filter_map(|place| Some((place, catalog.exchange_at(place)?)));
    let places = places.map(|at| format!("{at:?}"));
    let versions = format!("{} {}", catalog.version(), catalog.policies_version());
    let queues = format!("{} {:?}", catalog.queue_places(), catalog.queue_ids());
    places.chain([versions, queues]).collect()
}

/// Returns what is left of a catalog when all nodes have started again: what is durable.
pub(super) fn kept(catalog: &Catalog) -> Catalog {
    without(
        catalog,
        |queue| !queue.outlives_restart(),
        |exchange| (!exchange.durable).then(|| Members::new(&[])),
    )
}

/// Returns what the start of a node leaves: what is not durable, or exclusive, ends with its node, and an exchange with its last one. In a
/// cluster, the proposals of its earlier starts are forgotten.
pub(super) fn left_by(catalog: &Catalog, node: NodeNumber, origin: Origin) -> Catalog {
    let ends = |queue: &QueueRecord| {
        (!queue.durable || queue.exclusive.is_some()) && queue.members.nodes().contains(&node)
    };
    let strike = |exchange: &Exchange| {
        let others = exchange.nodes.nodes().iter().copied().filter(|of| *of != node);
        (!exchange.durable).then(|| Members::new(&others.collect::<Vec<_>>()))
    };
    let mut left = without(catalog, ends, strike);
    // The first start of a later number, and nobody waits for the proposals of earlier ones.
    let before = Origin { boot: origin.boot - 1, ..origin };
    if !left.nodes().is_empty() && !left.has_proposal(before, u64::MAX) {
        left.apply(&Change::Asked { origin, low: 0, numbers: [].into() });
    }
    left
}

/// Builds a catalog from the definitions, without these queues, and without the exchanges that have lost their last node.
/// `nodes` returns the nodes that remain, for an exchange that is not durable.
fn without(
    catalog: &Catalog,
    ends: impl Fn(&QueueRecord) -> bool,
    nodes: impl Fn(&Exchange) -> Option<Members>,
) -> Catalog {
    let ends_exchange = |exchange: &Exchange| nodes(exchange).is_some_and(|nodes| nodes.nodes().is_empty());
    let mut left = Catalog::default();
    for change in catalog.clone().with_mutation(None).definitions() {
        match &change {
            Change::QueueDeclared(queue) if ends(queue) => {}
            Change::ExchangeDeclared(exchange) if ends_exchange(exchange) => {}
            Change::ExchangeDeclared(exchange) => {
                let nodes = nodes(exchange).unwrap_or_default();
                left.apply(&Change::ExchangeDeclared(Arc::new(Exchange { nodes, ..(**exchange).clone() })));
            }
            Change::Bound(binding) => {
                let ends_to = match &binding.destination {
                    Destination::Queue(name) => {
                        catalog.listed_queue(&binding.vhost, name).is_none_or(|q| ends(&q))
                    }
                    Destination::Exchange(name) => {
                        catalog.exchange(&binding.vhost, name).is_none_or(|exchange| ends_exchange(&exchange))
                    }
                };
                if !ends_to {
                    left.apply(&change);
                }
            }
            change => left.apply(change),
        }
    }
    left
}

/// Checks that two catalogs have given the same answers. The error has those that differ.
pub(super) fn same(left: &[String], right: &[String]) -> Result<(), TestCaseError> {
    let only = |these: &[String], others: &[String]| -> Vec<String> {
        these.iter().filter(|line| !others.contains(line)).cloned().collect()
    };
    prop_assert_eq!(only(left, right), only(right, left));
    prop_assert_eq!(left, right);
    Ok(())
}
