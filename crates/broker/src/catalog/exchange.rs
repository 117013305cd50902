//! Exchanges and what each kind does with a routing key (behaviour D.3).

use std::sync::Arc;

use hashbrown::HashMap;
use message::Message;

use super::topic::Trie;
use super::{Arguments, Binding, Destination};

/// How an exchange routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeKind {
    Direct,
    Fanout,
    Topic,
}

impl ExchangeKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Fanout => "fanout",
            Self::Topic => "topic",
        }
    }

    pub fn parse(kind: &str) -> Option<Self> {
        [Self::Direct, Self::Fanout, Self::Topic].into_iter().find(|k| k.as_str() == kind)
    }
}

/// An exchange as it was declared.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    pub vhost: Arc<str>,
    /// Empty for the default exchange.
    pub name: Arc<str>,
    pub kind: ExchangeKind,
    pub durable: bool,
    /// Deleted when its last binding as a source goes.
    pub auto_delete: bool,
    /// Clients cannot publish to it.
    pub internal: bool,
    pub arguments: Arguments,
    /// Where messages go that no binding wants (`alternate-exchange`).
    pub alternate: Option<Arc<str>>,
}

impl Exchange {
    pub(super) fn predeclared(vhost: &Arc<str>) -> impl Iterator<Item = Exchange> {
        let all = [
            ("", ExchangeKind::Direct),
            ("amq.direct", ExchangeKind::Direct),
            ("amq.fanout", ExchangeKind::Fanout),
            ("amq.topic", ExchangeKind::Topic),
        ];
        all.into_iter().map(|(name, kind)| Exchange {
            vhost: vhost.clone(),
            name: name.into(),
            kind,
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: Arguments::default(),
            alternate: None,
        })
    }
}

/// An exchange and its bindings.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub exchange: Arc<Exchange>,
    bindings: Vec<Arc<Binding>>,
    index: Index,
}

#[derive(Clone, Debug)]
enum Index {
    Direct(HashMap<Arc<str>, Vec<Destination>>),
    Fanout(Vec<Destination>),
    Topic(Trie),
}

impl Table {
    pub fn new(exchange: Arc<Exchange>) -> Self {
        let index = match exchange.kind {
            ExchangeKind::Direct => Index::Direct(HashMap::new()),
            ExchangeKind::Fanout => Index::Fanout(Vec::new()),
            ExchangeKind::Topic => Index::Topic(Trie::default()),
        };
        Self { exchange, bindings: Vec::new(), index }
    }

    pub fn bindings(&self) -> impl ExactSizeIterator<Item = &Arc<Binding>> {
        self.bindings.iter()
    }

    pub fn has(&self, binding: &Binding) -> bool {
        self.bindings.iter().any(|b| **b == *binding)
    }

    pub fn bind(&mut self, binding: Arc<Binding>) {
        if self.has(&binding) {
            return;
        }
        let destination = binding.destination.clone();
        match &mut self.index {
            Index::Direct(keys) => insert_once(keys.entry(binding.key.clone()).or_default(), destination),
            Index::Fanout(all) => insert_once(all, destination),
            Index::Topic(trie) => trie.insert(&binding.key, destination),
        }
        self.bindings.push(binding);
    }

    pub fn unbind(&mut self, binding: &Binding) {
        let before = self.bindings.len();
        self.bindings.retain(|b| **b != *binding);
        if self.bindings.len() == before {
            return;
        }
        // Bindings that differ only in their arguments share one place in the index.
        let destination = &binding.destination;
        let same_key = |b: &Arc<Binding>| b.destination == *destination && b.key == binding.key;
        match &mut self.index {
            Index::Direct(keys) if !self.bindings.iter().any(same_key) => {
                if let Some(destinations) = keys.get_mut(&binding.key) {
                    destinations.retain(|d| d != destination);
                    if destinations.is_empty() {
                        keys.remove(&binding.key);
                    }
                }
            }
            Index::Topic(trie) if !self.bindings.iter().any(same_key) => {
                trie.remove(&binding.key, destination)
            }
            Index::Fanout(all) if !self.bindings.iter().any(|b| b.destination == *destination) => {
                all.retain(|d| d != destination);
            }
            _ => {}
        }
    }

    pub fn route<'a>(&'a self, key: &str, _message: &Message, found: &mut dyn FnMut(&'a Destination)) {
        match &self.index {
            Index::Direct(keys) => keys.get(key).into_iter().flatten().for_each(found),
            Index::Fanout(all) => all.iter().for_each(found),
            Index::Topic(trie) => trie.matches(key, found),
        }
    }
}

fn insert_once(all: &mut Vec<Destination>, destination: Destination) {
    if !all.contains(&destination) {
        all.push(destination);
    }
}
