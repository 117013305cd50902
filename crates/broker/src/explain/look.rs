//! The data that is gathered for an explanation, and the explanation of one subject from it.

use std::sync::Arc;

use super::{
    ConnectionFacts, Explanation, Facts, LinkId, LinkInPlace, LogFacts, Pace, QueueFacts, Role, ShardFacts,
    Subject,
};
use crate::ids::Where;
use catalog::ids::QueueId;
use catalog::{Catalog, CatalogError, QueueRecord};

/// Selects the connections that matter for a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    Connection(String),
    /// Connections with a link of this name, in one virtual host or in all.
    Link {
        vhost: Option<String>,
        name: String,
    },
    /// Connections that consume from this queue.
    Consumers(QueueId),
}

/// Everything about a subject at one time. Comparing two of them shows whether something has moved in
/// between.
#[derive(Clone, Debug, Default)]
pub struct Look {
    pub connections: Vec<ConnectionFacts>,
    /// The subject itself, or the queues at the other ends of the links.
    pub queues: Vec<QueueFacts>,
    pub log: LogFacts,
    /// All shards of the node, in the order of their numbers.
    pub shards: Vec<ShardFacts>,
}

impl Look {
    /// Adds connections. If they consume from a queue with a single active consumer, only that one explains anything. The others
    /// are left out, so that however many wait for their turn, it is found.
    pub fn add(&mut self, connections: Vec<ConnectionFacts>, active: Option<u64>) {
        let is_kept =
            |connection: &ConnectionFacts| active.is_none_or(|active| connection.has_consumer(active));
        self.connections.extend(connections.into_iter().filter(is_kept));
    }

    /// Sets the homes of the queues, in their order. Call it when the shards are known.
    pub fn set_homes(&mut self, homes: &[Where]) {
        for (queue, home) in self.queues.iter_mut().zip(homes) {
            queue.home = home.here().and_then(|home| self.shards.get(usize::from(home)).copied());
        }
    }

    /// Returns the queues at the other ends of the links.
    pub fn ends(&self) -> Vec<End> {
        let links = self.connections.iter().flat_map(|c| c.links.iter().map(move |l| (&c.vhost, l)));
        let ends = links.filter_map(|(vhost, link)| match &link.role {
            Role::Publishing { queue: Some(name), .. } => Some(End::Named(vhost.clone(), name.clone())),
            Role::Consuming { queue, .. } => Some(End::Id(*queue)),
            _ => None,
        });
        ends.collect()
    }

    /// Explains the subject. `before` is an earlier look at the same subject.
    ///
    /// # Errors
    /// The subject does not exist, or several links have this name.
    pub fn explain(&self, before: &Self, subject: &Subject) -> Result<Explanation, CatalogError> {
        self.explain_with(before, subject, |_| None)
    }

    /// Explains the subject, and says how fast clients acknowledge or give back. `later` is another look at it, `ms` milliseconds after
    /// `before`.
    ///
    /// # Errors
    /// Those of [`Look::explain`].
    pub fn explain_with_pace(
        &self,
        before: &Self,
        subject: &Subject,
        later: &Self,
        ms: u64,
    ) -> Result<Explanation, CatalogError> {
        self.explain_with(before, subject, |place| {
            let [(acknowledged, returned), before] = [later.settled(place)?, before.settled(place)?];
            let (acknowledged, returned) =
                (acknowledged.saturating_sub(before.0), returned.saturating_sub(before.1));
            Some(Pace { acknowledged, returned, ms })
        })
    }

    /// Returns how many deliveries a consumer has acknowledged so far, and how many it has given back.
    fn settled(&self, place: &LinkId) -> Option<(u64, u64)> {
        let connection = self.connections.iter().find(|connection| connection.name == place.connection)?;
        match connection.links.iter().find(|link| link.place == *place)?.role {
            Role::Consuming { acknowledged, returned, .. } => Some((acknowledged, returned.total())),
            _ => None,
        }
    }

    fn explain_with(
        &self,
        before: &Self,
        subject: &Subject,
        pace: impl Fn(&LinkId) -> Option<Pace>,
    ) -> Result<Explanation, CatalogError> {
        let not_found = |reason: String| CatalogError::NotFound { reason };
        let links = |connection| self.links(before, connection);
        match subject {
            Subject::Link { vhost, name, connection } => {
                let mut wanted = self.connections.iter().collect::<Vec<_>>();
                wanted.retain(|c| connection.as_ref().is_none_or(|connection| *c.name == **connection));
                let mut found: Vec<_> = wanted.into_iter().flat_map(links).collect();
                found.retain(|l| l.link.place.name == *name);
                match found.as_slice() {
                    [] => Err(not_found(match vhost {
                        Some(vhost) => format!("no link '{name}' in vhost '{vhost}'"),
                        None => format!("no link '{name}'"),
                    })),
                    [link] => Ok(Explanation::of(Facts::Link(*link), self.log, pace)),
                    more => Err(ambiguous(name, more)),
                }
            }
            Subject::Queue { vhost, name } => {
                let queue = self.queue(vhost, name).ok_or_else(|| CatalogError::no_queue(vhost, name))?;
                let moved = before.queue(vhost, name).is_some_and(|before| queue.has_moved_since(before));
                let mut consumers: Vec<_> = self.connections.iter().flat_map(links).collect();
                consumers
                    .retain(|l| matches!(l.link.role, Role::Consuming { queue: of, .. } if of == queue.id));
                let blocked = self.shards.iter().any(|shard| shard.is_blocked);
                let facts = Facts::Queue { queue, consumers: &consumers, moved, blocked };
                Ok(Explanation::of(facts, self.log, pace))
            }
            Subject::Connection { name } => {
                let connection = self.connections.iter().find(|c| *c.name == **name);
                let connection = connection.ok_or_else(|| not_found(format!("no connection '{name}'")))?;
                let links: Vec<_> = links(connection).collect();
                Ok(Explanation::of(Facts::Connection { connection, links: &links }, self.log, pace))
            }
        }
    }

    fn queue(&self, vhost: &str, name: &str) -> Option<&QueueFacts> {
        self.queues.iter().find(|q| *q.vhost == *vhost && *q.name == *name)
    }

    fn links<'a>(
        &'a self,
        before: &'a Self,
        connection: &'a ConnectionFacts,
    ) -> impl Iterator<Item = LinkInPlace<'a>> {
        let old = before.connections.iter().find(|c| c.name == connection.name);
        connection.links.iter().map(move |link| {
            let known = old.and_then(|c| c.links.iter().find(|l| l.place == link.place));
            let queue = self.queues.iter().find(|q| match &link.role {
                Role::Publishing { queue, .. } => {
                    q.vhost == connection.vhost && queue.as_ref() == Some(&q.name)
                }
                Role::Consuming { queue, .. } => *queue == q.id,
                Role::Replies | Role::Management => false,
            });
            let moved = known.is_some_and(|l| l.delivery_count != link.delivery_count);
            LinkInPlace { connection, link, queue, moved }
        })
    }
}

/// A queue at the other end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The queue's virtual host and name.
    Named(Arc<str>, Arc<str>),
    Id(QueueId),
}

impl End {
    /// Returns the queue at this end.
    pub fn queue(&self, catalog: &Catalog) -> Option<Arc<QueueRecord>> {
        match self {
            Self::Named(vhost, name) => catalog.listed_queue(vhost, name),
            Self::Id(id) => catalog.queue_by_id(*id),
        }
    }
}

/// The maximum number of links that an error message names.
const NAMED_MAX: usize = 5;

fn ambiguous(name: &str, links: &[LinkInPlace<'_>]) -> CatalogError {
    let named = links.iter().take(NAMED_MAX).map(|l| {
        let LinkId { connection, session, handle, .. } = &l.link.place;
        format!("'{connection}' session {session} handle {handle}")
    });
    let more = if links.len() > NAMED_MAX { ", ..." } else { "" };
    let named = named.collect::<Vec<_>>().join(", ");
    CatalogError::PreconditionFailed {
        reason: format!(
            "{} links have the name '{name}': {named}{more}; specify the connection",
            links.len()
        ),
    }
}
