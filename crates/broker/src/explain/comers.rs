//! Clients that connect again and again.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use catalog::access::{Authority, UserRef};
use queue::Lately;

use super::trouble::{Kind, Object, Trouble, Troubles};

/// A connection that has ended before this time is brief. Few clients have done their work in it.
const BRIEF_MS: u64 = 10_000;

/// So many brief connections within a minute are a loop. Somebody who tries a command now and then stays below it.
const AGAIN_MIN: u64 = 10;

/// The most clients that a shard remembers: about 200 KB. When there are more, it forgets those that have not come within a
/// minute. If there are still more, further ones are not counted: the list names ten of them.
const COMERS_MAX: usize = 1000;

/// How often a shard looks for clients to forget, in milliseconds, so that a flood of them costs little.
const FORGET_MS: u64 = 10_000;

/// The user and the address of clients, and the virtual host that they open.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Comer {
    pub vhost: Arc<str>,
    pub authority: Authority,
    pub user: Arc<str>,
    pub address: IpAddr,
}

impl Comer {
    /// Returns whose connections they are.
    pub fn owner(&self) -> UserRef<'_> {
        UserRef { authority: self.authority, name: &self.user }
    }
}

/// The brief connections of a shard. A connection that lives longer costs nothing here.
#[derive(Debug, Default)]
pub struct Comers {
    counts: HashMap<Comer, Lately>,
    forgotten_ms: u64,
}

impl Comers {
    /// Returns true if a connection that closes now was brief.
    pub fn is_brief(connected_at_ms: u64, now_ms: u64) -> bool {
        now_ms.saturating_sub(connected_at_ms) < BRIEF_MS
    }

    /// Called when a brief connection of a client has closed.
    pub fn count(&mut self, comer: Comer, now_ms: u64) {
        if let Some(count) = self.counts.get_mut(&comer) {
            return count.count(now_ms);
        }
        if self.counts.len() >= COMERS_MAX && now_ms >= self.forgotten_ms.saturating_add(FORGET_MS) {
            self.forgotten_ms = now_ms;
            self.counts.retain(|_, count| count.within_a_minute(now_ms) > 0);
        }
        if self.counts.len() < COMERS_MAX {
            self.counts.entry(comer).or_default().count(now_ms);
        }
    }

    /// Returns the clients of this user, or of all, that have come within the last minute, and how often.
    pub fn within_a_minute(&self, of: Option<UserRef<'_>>, now_ms: u64) -> Vec<(Comer, u64)> {
        let rows = self.counts.iter().filter(|(comer, _)| of.is_none_or(|of| of == comer.owner()));
        let rows = rows.map(|(comer, count)| (comer.clone(), count.within_a_minute(now_ms)));
        rows.filter(|(_, count)| *count > 0).collect()
    }
}

impl Troubles {
    /// Adds clients that have come so often within a minute, on all shards together.
    pub fn add_comer(&mut self, comer: &Comer, count: u64) {
        if count >= AGAIN_MIN {
            let (vhost, name) = (Some(comer.vhost.clone()), comer.address.to_string().into());
            let numbers = vec![("connections_a_minute", count)];
            self.add(
                Trouble::ClientsReconnect,
                Object { kind: Kind::Address, vhost, name, numbers, weight: count },
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn comer(number: u32) -> Comer {
        let address = Ipv4Addr::from(number).into();
        Comer { vhost: "/".into(), authority: Authority::Internal, user: "ann".into(), address }
    }

    #[test]
    fn clients_are_counted_for_a_minute() {
        let mut comers = Comers::default();
        (0..AGAIN_MIN).for_each(|_| comers.count(comer(1), 1_000));
        comers.count(comer(2), 1_000);
        let mut rows = comers.within_a_minute(None, 50_000);
        rows.sort_by_key(|(comer, _)| comer.address);
        assert_eq!(rows, [(comer(1), AGAIN_MIN), (comer(2), 1)]);
        let mut troubles = Troubles::default();
        rows.iter().for_each(|(comer, count)| troubles.add_comer(comer, *count));
        assert_eq!(troubles.groups[&Trouble::ClientsReconnect].count, 1);
        assert_eq!(&*troubles.groups[&Trouble::ClientsReconnect].objects[0].name, "0.0.0.1");
        assert_eq!(comers.within_a_minute(Some(UserRef::internal("bob")), 50_000), []);
        assert_eq!(comers.within_a_minute(None, 61_000), []);
    }

    #[test]
    fn a_flood_of_clients_takes_bounded_memory() {
        let mut comers = Comers::default();
        (0..2 * COMERS_MAX as u32).for_each(|number| comers.count(comer(number), 1_000));
        assert_eq!(comers.counts.len(), COMERS_MAX);
        comers.count(comer(u32::MAX), 120_000);
        assert_eq!(comers.within_a_minute(None, 120_000), [(comer(u32::MAX), 1)]);
        assert_eq!(comers.counts.len(), 1);
    }
}
