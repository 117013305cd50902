//! Explains why nothing moves, from two observations of all shards. A third one tells how fast clients acknowledge.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::admin_api::{AdminError, ConnectionRow, ProtocolRow, Seen};
use broker::explain::{
    AddressFacts, Cause, ConnectionFacts, Explanation, LinkId, Look, QueueFacts, Subject, Wanted,
};
use catalog::access::{Identity, Resource, Verb};
use catalog::{CatalogError, QueueRecord};

use super::AdminApi;
use super::reports::{Asks, Found};
use crate::shard::looks::{Links, LinksSeen};
use crate::shard::questions::PLACES_PER_PART;

/// The time between the two observations: long enough to see progress if there is any.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The further time until the third observation, if one is needed: after a second, what a slow consumer does can be counted.
const LOOK_LATER: Duration = Duration::from_millis(900);

/// The number of connections after which an observation of a shard ends. Some of its consumers are enough to
/// explain a queue.
const LOOK_MAX: usize = 1000;

impl AdminApi {
    /// Returns what is known about the logins of an address.
    pub async fn explain_address(&self, who: &Identity, address: IpAddr) -> Result<AddressFacts, AdminError> {
        self.permit_by_tag(who, Verb::ReadNodes)?;
        let guessing = self.inner.access.guessing(address, self.inner.clock.now_ms());
        Ok(AddressFacts { guessing, unchecked: self.inner.checker.unchecked(address) })
    }

    /// Explains why nothing moves: one cause, and the numbers that support it. The admin API inspects the subject
    /// twice, with a pause between.
    pub async fn explain(&self, who: &Identity, subject: Subject) -> Result<Explanation, AdminError> {
        let subject = &subject;
        if let Subject::Queue { vhost, name } = subject {
            self.permit(who, vhost, Verb::ExplainQueue, &[Resource::Queue(name)]).await?;
        }
        let begin = Instant::now();
        let (before, _) = self.observe(who, subject).await?;
        tokio::time::sleep(LOOK_AGAIN).await;
        let (now, notes) = self.observe(who, subject).await?;
        let mut explanation = match now.explain(&before, subject) {
            Err(missed @ CatalogError::NotFound { .. }) => {
                return Err(match self.place_of(who, subject).await? {
                    Some(place) => AdminError::Refused(place),
                    None => AdminError::Catalog(missed),
                });
            }
            explained => explained.map_err(AdminError::Catalog)?,
        };
        if explanation.wants_pace() {
            tokio::time::sleep(LOOK_LATER).await;
            let ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
            // The subject may have gone meanwhile. What was seen before is still an answer.
            if let Ok((later, _)) = self.observe(who, subject).await {
                explanation =
                    now.explain_with_pace(&before, subject, &later, ms).map_err(AdminError::Catalog)?;
            }
        }
        if explanation.causes.iter().any(|reason| reason.cause == Cause::Alarm) {
            let alarms = self.raised_alarms().into_iter();
            explanation.notes.extend(alarms.map(|(what, node)| format!("{what} alarm of node '{node}'")));
        }
        explanation.notes.extend(notes);
        // A cause may have been found at another user's link. Then the cause is shown, but not the place.
        explanation.at = self.place_seen(who, &now, explanation.at.take()).await;
        for reason in &mut explanation.causes {
            reason.at = self.place_seen(who, &now, reason.at.take()).await;
        }
        Ok(explanation)
    }

    /// Returns the place if the user may see its connection.
    async fn place_seen(&self, who: &Identity, look: &Look, at: Option<LinkId>) -> Option<LinkId> {
        let at = at?;
        let found = look.connections.iter().find(|c| c.name == at.connection)?;
        self.may_see(who, found).await.is_ok().then_some(at)
    }

    async fn may_see(&self, who: &Identity, connection: &ConnectionFacts) -> Result<(), AdminError> {
        let resource = Resource::Connection(connection.owner());
        self.permit(who, &connection.vhost, Verb::ExplainConnection, &[resource]).await
    }

    /// Says on which other node a connection or a link is, if the user may see it.
    async fn place_of(&self, who: &Identity, subject: &Subject) -> Result<Option<String>, AdminError> {
        let (what, link, connection, in_vhost) = match subject {
            Subject::Connection { name } => (format!("connection '{name}'"), None, Some(name), None),
            Subject::Link { vhost, name, connection } => {
                (format!("link '{name}'"), Some(name), connection.as_ref(), vhost.as_ref())
            }
            Subject::Queue { .. } => return Ok(None),
        };
        let names: Option<Vec<Arc<str>>> = connection.map(|name| vec![name.as_str().into()]);
        let mut rows = self.connections_of_others(names.as_deref()).await?;
        rows.retain(|row| in_vhost.is_none_or(|vhost| *row.vhost == **vhost));
        rows.retain(|row| link.is_none_or(|link| has_link(row, link)));
        for row in rows {
            let resource = Resource::Connection(row.owner());
            if self.permit(who, &row.vhost, Verb::ReadVhost, &[]).await.is_ok()
                && self.permit(who, &row.vhost, Verb::ExplainConnection, &[resource]).await.is_ok()
            {
                return Ok(Some(format!("{what} is on node '{}': ask that node", row.node)));
            }
        }
        Ok(None)
    }

    /// Collects everything that may stop the subject, as it is now, with notes about what this node cannot see.
    async fn observe(&self, who: &Identity, subject: &Subject) -> Result<(Look, Vec<String>), AdminError> {
        let (mut look, mut notes) = (Look::default(), Vec::new());
        let mut active = None;
        let wanted = match subject {
            Subject::Link { vhost, name, .. } => Wanted::Link { vhost: vhost.clone(), name: name.clone() },
            Subject::Connection { name } => Wanted::Connection(name.clone()),
            Subject::Queue { vhost, name } => {
                let record = self.listed(self.inner.deadlines.numbers, vhost, name).await?;
                let mut found = self.reports(Asks::AllNodes, std::slice::from_ref(&record)).await?;
                let Found { numbers, seen, node } = found.remove(0);
                match seen {
                    Seen::Here => {}
                    Seen::Elsewhere => {
                        notes.push(format!("the queue is on node '{node}', which sees more of it"))
                    }
                    Seen::Unknown => return Err(AdminError::Impossible(silent(&record, &node))),
                }
                active = numbers.report.active_consumer;
                let wanted = Wanted::Consumers(record.id);
                look.queues.push(QueueFacts::new(&record, numbers.report, self.inner.clock.now_ms()));
                wanted
            }
        };
        for shard in 0..self.inner.shards.len() {
            let mut from = Some(0);
            while let Some(place) = from {
                let links = Links { wanted: wanted.clone(), from: place };
                let LinksSeen { part, log, shard: facts } = self.look(shard, links).await?;
                look.add(part.rows, active);
                from = part.next.filter(|_| look.connections.len() < LOOK_MAX);
                // Every part of a shard's answer repeats its state and that of its log, so only the last one is
                // counted.
                if from.is_none() {
                    look.log.add(log);
                    look.shards.push(facts);
                }
            }
        }
        if let Subject::Queue { .. } = subject {
            self.find_homes(&mut look).await?;
            return Ok((look, notes));
        }
        let mut first_refused = None;
        for connection in std::mem::take(&mut look.connections) {
            // Who does not see the virtual host is not told that the connection exists.
            if self.permit(who, &connection.vhost, Verb::ReadVhost, &[]).await.is_err() {
                continue;
            }
            match self.may_see(who, &connection).await {
                Ok(()) => look.connections.push(connection),
                Err(refused) => first_refused = first_refused.or(Some(refused)),
            }
        }
        if let (true, Some(refused)) = (look.connections.is_empty(), first_refused) {
            return Err(refused);
        }
        let mut records = Vec::new();
        for ends in look.ends().chunks(PLACES_PER_PART) {
            let ends = ends.to_vec();
            let found = self.read(ends.len(), move |catalog, _| {
                ends.iter().filter_map(|end| end.queue(catalog)).collect::<Vec<_>>()
            });
            records.extend(found.await?);
        }
        records.sort_unstable_by_key(|record| record.id);
        records.dedup_by_key(|record| record.id);
        let reports = self.reports(Asks::AllNodes, &records).await?;
        let now_ms = self.inner.clock.now_ms();
        for (record, Found { numbers, seen, node }) in records.iter().zip(reports) {
            match seen {
                // Without numbers, the queue would look empty.
                Seen::Unknown => notes.push(silent(record, &node)),
                Seen::Here | Seen::Elsewhere => {
                    look.queues.push(QueueFacts::new(record, numbers.report, now_ms));
                }
            }
        }
        self.find_homes(&mut look).await?;
        Ok((look, notes))
    }

    async fn find_homes(&self, look: &mut Look) -> Result<(), AdminError> {
        let homes = self.homes(look.queues.iter().map(|queue| queue.id)).await?;
        look.set_homes(&homes);
        Ok(())
    }
}

/// Says that nothing is known of a queue.
fn silent(record: &QueueRecord, node: &str) -> String {
    format!("queue '{}' in vhost '{}' is on node '{node}', which does not answer", record.name, record.vhost)
}

/// Returns true if the connection has a link or a consumer of this name.
fn has_link(row: &ConnectionRow, name: &str) -> bool {
    match &row.protocol {
        ProtocolRow::Amqp10(ours) => {
            ours.sessions.iter().flat_map(|session| &session.links).any(|link| *link.name == *name)
        }
        ProtocolRow::Amqp091(ours) => {
            ours.channels.iter().flat_map(|channel| &channel.consumers).any(|consumer| *consumer.tag == *name)
        }
    }
}
