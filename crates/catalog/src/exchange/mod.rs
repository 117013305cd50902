//! Exchanges: one file per type, behind one enum (docs/compatibility.md, Exchanges).
//!
//! [`Table::by_key_alone`] is false for a type that uses more than the routing keys, or chooses at random.
//! Routes of such an exchange must not be cached.

mod bindings;
mod consistent;
mod direct;
mod fanout;
mod hash;
mod headers;
mod history;
mod modulus;
mod random;
mod routable;
#[cfg(test)]
mod tests;
pub(super) mod topic;

use std::borrow::Cow;
use std::sync::Arc;

use amqp10::Value;

use self::bindings::Bindings;
use self::consistent::Ring;
use self::direct::Direct;
use self::fanout::Destinations;
use self::headers::Headers;
use self::modulus::Modulus;
use self::random::Random;
use self::topic::{Steps, Trie};
use super::policy::{Policies, Policy, Subject};
use super::{Arguments, Binding, CatalogError, Destination, QueueRecord};
use crate::ids::Members;

pub use self::history::{Histories, history_length};
pub(super) use self::routable::{Facts, PausedFacts};
pub use self::routable::{Routable, has_headers};

/// The exchange that gets events.
pub const EVENT_EXCHANGE: &str = "amq.rabbitmq.event";

/// The exchange that gets the lines of the log.
pub const LOG_EXCHANGE: &str = "amq.rabbitmq.log";

/// The exchange that gets copies of traced messages. Every virtual host has it.
pub const TRACE_EXCHANGE: &str = "amq.rabbitmq.trace";

/// Identifies an exchange from its declaration to its deletion. An exchange that is declared again has another id. A node uses the id
/// to count the messages of the exchange.
///
/// The id is the same on every shard of a node. It depends on all changes since the start of the node. So after a restart, and on
/// another node, the same exchange has another id. No [`Change`](crate::Change) contains an id, and an id is never stored or sent to
/// another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExchangeId {
    /// The place of the exchange among all exchanges of the catalog. A later exchange may have the same place.
    pub place: u32,
    /// The version of the catalog in which it was declared.
    pub since: u64,
}

/// The argument and the policy key for the alternate exchange.
pub(super) const ALTERNATE: &str = "alternate-exchange";

/// The type of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeKind {
    Direct,
    Fanout,
    Topic,
    Headers,
    LocalRandom,
    Random,
    ModulusHash,
    ConsistentHash,
    RecentHistory,
}

impl ExchangeKind {
    pub const ALL: [Self; 9] = [
        Self::Direct,
        Self::Fanout,
        Self::Topic,
        Self::Headers,
        Self::LocalRandom,
        Self::Random,
        Self::ModulusHash,
        Self::ConsistentHash,
        Self::RecentHistory,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Fanout => "fanout",
            Self::Topic => "topic",
            Self::Headers => "headers",
            Self::LocalRandom => "x-local-random",
            Self::Random => "x-random",
            Self::ModulusHash => "x-modulus-hash",
            Self::ConsistentHash => "x-consistent-hash",
            Self::RecentHistory => "x-recent-history",
        }
    }

    pub fn parse(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|k| k.as_str() == kind)
    }

    /// Returns true if routing depends on the order in which the bindings were made.
    pub(super) fn order_counts(self) -> bool {
        self == Self::ConsistentHash
    }

    /// Returns the arguments of a declaration that the broker reads.
    pub(super) fn known_arguments(self) -> &'static [&'static str] {
        match self {
            Self::ConsistentHash => &[ALTERNATE, consistent::HASH_HEADER, consistent::HASH_PROPERTY],
            Self::RecentHistory => &[ALTERNATE, history::LENGTH],
            _ => &[ALTERNATE],
        }
    }

    /// Checks the arguments of a declaration.
    ///
    /// # Errors
    /// The type does not take these arguments.
    pub(super) fn check_arguments(self, name: &str, arguments: &Arguments) -> Result<(), CatalogError> {
        match self {
            Self::ConsistentHash => consistent::check_arguments(name, arguments),
            Self::RecentHistory => history::check_arguments(name, arguments),
            _ => Ok(()),
        }
    }

    /// Checks a binding.
    ///
    /// # Errors
    /// The type does not take this key, these arguments or this destination.
    pub(super) fn check_binding(self, binding: &Binding) -> Result<(), CatalogError> {
        match self {
            Self::Topic => topic::check_binding(binding),
            Self::Headers => headers::check_binding(binding),
            Self::LocalRandom => random::check_local_binding(binding),
            Self::ConsistentHash => consistent::check_binding(binding),
            _ => Ok(()),
        }
    }

    /// Checks a queue that is to be bound.
    ///
    /// # Errors
    /// The type cannot lead to queues of this type.
    pub(super) fn check_queue(self, queue: &QueueRecord) -> Result<(), CatalogError> {
        match self {
            Self::LocalRandom => random::check_local_queue(queue),
            _ => Ok(()),
        }
    }
}

/// An exchange as it was declared.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    pub vhost: Arc<str>,
    /// The name of the exchange. It is empty for the default exchange.
    pub name: Arc<str>,
    pub kind: ExchangeKind,
    pub durable: bool,
    /// True if the exchange is deleted when its last binding as a source is removed.
    pub auto_delete: bool,
    /// True if clients cannot publish to the exchange.
    pub internal: bool,
    pub arguments: Arguments,
    /// The exchange that receives messages which match no binding (`alternate-exchange`). The argument takes
    /// precedence over the policy.
    pub alternate: Option<Arc<str>>,
    /// The policy that applies to the exchange. It follows from the name, so it is never stored with the
    /// exchange.
    pub policy: Option<Arc<Policy>>,
    /// The nodes that there were when the exchange was declared. One that is not durable is gone when all of them have started again. They
    /// are not stored for a durable exchange, which has the default.
    pub nodes: Members,
}

impl Exchange {
    /// Returns a durable exchange that clients may publish to.
    pub fn new(vhost: Arc<str>, name: Arc<str>, kind: ExchangeKind, arguments: Arguments) -> Self {
        let alternate = arguments.get(ALTERNATE).and_then(Value::as_str).map(Arc::from);
        let policy = None;
        Self {
            vhost,
            name,
            kind,
            durable: true,
            auto_delete: false,
            internal: false,
            arguments,
            alternate,
            policy,
            nodes: Members::default(),
        }
    }

    pub(super) fn predeclared(vhost: &Arc<str>) -> impl Iterator<Item = Exchange> {
        let all = [
            ("", ExchangeKind::Direct),
            ("amq.direct", ExchangeKind::Direct),
            ("amq.fanout", ExchangeKind::Fanout),
            ("amq.topic", ExchangeKind::Topic),
            ("amq.headers", ExchangeKind::Headers),
            ("amq.match", ExchangeKind::Headers),
        ];
        let new = |name: &str, kind| Exchange::new(vhost.clone(), name.into(), kind, Arguments::default());
        let traced = Exchange { internal: true, ..new(TRACE_EXCHANGE, ExchangeKind::Topic) };
        all.into_iter().map(move |(name, kind)| new(name, kind)).chain([traced])
    }
}

impl Exchange {
    /// Finds the policy of the exchange, and the alternate exchange that follows from the policy and the
    /// argument.
    fn refresh(self: &mut Arc<Self>, policies: &Policies) {
        let policy = policies.best(false, Subject::Exchange, &self.name);
        if policy == self.policy.as_ref() {
            return;
        }
        let exchange = Arc::make_mut(self);
        exchange.policy = policy.cloned();
        let argument = exchange.arguments.get(ALTERNATE);
        let alternate = argument.or_else(|| policy?.definition.get(ALTERNATE));
        exchange.alternate = alternate.and_then(Value::as_str).map(Arc::from);
    }
}

/// An exchange and its bindings.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// The fields that policies change may be outdated: read them from [`Table::current`].
    pub exchange: Arc<Exchange>,
    pub id: ExchangeId,
    /// The version of the policies for which the exchange was computed.
    policies: u64,
    pub bindings: Bindings,
    routes: Routes,
}

/// How the bindings of an exchange route. A search that takes several turns keeps a clone. A clone shares its memory until a
/// binding is made or removed, which copies all of them once.
#[derive(Clone, Debug)]
pub(super) struct Routes(Arc<Index>);

#[derive(Clone, Debug)]
enum Index {
    Direct(Direct),
    Fanout(Destinations),
    Topic(Trie),
    Headers(Headers),
    Random(Random),
    Modulus(Modulus),
    Consistent(Ring),
}

impl Table {
    /// Creates a table without bindings. It has no version of the policies yet, so it must be refreshed.
    pub(super) fn new(exchange: Arc<Exchange>, id: ExchangeId) -> Self {
        let index = match exchange.kind {
            ExchangeKind::Direct => Index::Direct(Direct::default()),
            ExchangeKind::Fanout | ExchangeKind::RecentHistory => Index::Fanout(Destinations::default()),
            ExchangeKind::Topic => Index::Topic(Trie::default()),
            ExchangeKind::Headers => Index::Headers(Headers::default()),
            ExchangeKind::LocalRandom | ExchangeKind::Random => Index::Random(Random::default()),
            ExchangeKind::ModulusHash => Index::Modulus(Modulus::default()),
            ExchangeKind::ConsistentHash => Index::Consistent(Ring::new(&exchange.arguments)),
        };
        Self { exchange, id, policies: 0, bindings: Bindings::default(), routes: Routes(Arc::new(index)) }
    }

    /// Returns the number of words that the keys of further bindings may have, if the type limits it.
    pub(super) fn room(&self) -> Option<usize> {
        match &*self.routes.0 {
            Index::Topic(trie) => Some(trie.room()),
            _ => None,
        }
    }

    /// Checks that there is room for a binding that is new.
    ///
    /// # Errors
    /// The bindings of the exchange would take too much memory, and a message too many steps.
    pub(super) fn check_room(&self, binding: &Binding) -> Result<(), CatalogError> {
        match &*self.routes.0 {
            Index::Topic(trie) => trie.check_room(binding),
            _ => Ok(()),
        }
    }

    /// Returns the exchange with the current policies, which have this version.
    pub(super) fn current(&self, policies: &Policies, version: u64) -> Cow<'_, Arc<Exchange>> {
        let mut exchange = Cow::Borrowed(&self.exchange);
        if self.policies != version {
            exchange.to_mut().refresh(policies);
        }
        exchange
    }

    /// Updates the exchange to the current policies, which have this version.
    pub(super) fn refresh(&mut self, policies: &Policies, version: u64) {
        self.exchange.refresh(policies);
        self.policies = version;
    }

    pub(super) fn bind(&mut self, binding: Arc<Binding>) {
        if self.bindings.has(&binding) {
            return;
        }
        let is_first = matches!(&*self.routes.0, Index::Consistent(_))
            && self.bindings.to(&binding.destination).next().is_none();
        let age = self.bindings.insert(binding.clone());
        match Arc::make_mut(&mut self.routes.0) {
            Index::Direct(direct) => direct.bind(&binding),
            Index::Fanout(all) => all.insert(binding.destination.clone()),
            Index::Topic(trie) => trie.insert(&binding.key, binding.destination.clone()),
            Index::Headers(headers) => headers.bind(binding),
            Index::Random(random) => random.bind(binding),
            Index::Modulus(modulus) => modulus.bind(&binding),
            Index::Consistent(ring) => ring.bind(age, &binding, is_first),
        }
    }

    pub(super) fn unbind(&mut self, binding: &Binding) {
        let Some((age, removed)) = self.bindings.remove(binding) else { return };
        // Bindings that differ only in arguments that the type ignores share one entry.
        let place_is_empty = self.bindings.beside(binding).next().is_none();
        match Arc::make_mut(&mut self.routes.0) {
            Index::Direct(direct) if place_is_empty => direct.unbind(binding),
            Index::Topic(trie) if place_is_empty => trie.remove(&binding.key, &binding.destination),
            Index::Direct(_) | Index::Topic(_) => {}
            Index::Fanout(all) => {
                if self.bindings.to(&binding.destination).next().is_none() {
                    all.remove(&binding.destination);
                }
            }
            Index::Headers(headers) => headers.unbind(&removed),
            Index::Random(random) => random.unbind(&removed),
            Index::Modulus(modulus) => modulus.unbind(binding),
            Index::Consistent(ring) => ring.unbind(age),
        }
    }

    /// Returns true if the routing keys alone decide where a message goes.
    pub(super) fn by_key_alone(&self) -> bool {
        match &*self.routes.0 {
            Index::Direct(_) | Index::Topic(_) | Index::Modulus(_) => true,
            Index::Fanout(_) => self.exchange.kind != ExchangeKind::RecentHistory,
            Index::Consistent(ring) => ring.by_key_alone(),
            Index::Headers(_) | Index::Random(_) => false,
        }
    }

    pub(super) fn routes(&self) -> &Routes {
        &self.routes
    }

    /// Returns the exchanges that are bound to this one as destinations.
    pub(super) fn exchanges(&self) -> impl Iterator<Item = &Arc<str>> {
        self.bindings.exchanges()
    }
}

impl Exchange {
    /// Returns true if the exchange keeps the message for later bindings.
    pub(super) fn remembers(&self, facts: &Facts<'_>) -> bool {
        self.kind == ExchangeKind::RecentHistory && history::is_wanted(facts)
    }
}

impl Routes {
    /// Calls `found` for every destination of the message, possibly more than once for the same one. Counts the steps of
    /// the search, without those of the caller for the destinations that it finds.
    ///
    /// The search begins at place `from`: 0, or the place that the call before has returned, because its steps were used up
    /// ([`Facts::is_used_up`]). In a search, each call gets at least one place further. A place is a key, or a binding of a headers
    /// exchange. Other types take few steps, so they do not pause.
    pub(super) fn route<'a>(
        &'a self,
        facts: &Facts<'_>,
        from: usize,
        found: &mut dyn FnMut(&'a Destination),
    ) -> Option<usize> {
        match &*self.0 {
            Index::Direct(direct) => each_key(facts, from, |key| {
                direct.route(key, found);
                true
            }),
            Index::Topic(trie) => each_key(facts, from, |key| {
                let mut steps = Steps::new(facts.steps_for_key());
                trie.matches(key, &mut steps, found);
                facts.count(steps.taken);
                !steps.is_cut
            }),
            Index::Headers(headers) => headers.route(facts, from, found),
            Index::Fanout(all) => {
                all.iter().for_each(found);
                None
            }
            Index::Random(random) => {
                random.route(facts, found);
                None
            }
            Index::Modulus(modulus) => {
                modulus.route(facts, found);
                None
            }
            Index::Consistent(ring) => {
                ring.route(facts, found);
                None
            }
        }
    }
}

/// Handles the keys of a message from this place on. Returns the place of the next one if the steps are used up, and the place of a
/// key that `handle` could not finish.
fn each_key(facts: &Facts<'_>, from: usize, mut handle: impl FnMut(&str) -> bool) -> Option<usize> {
    for (at, key) in facts.routable.keys.iter().enumerate().skip(from) {
        if at > from && facts.is_used_up() || !handle(key) {
            return Some(at);
        }
    }
    None
}
