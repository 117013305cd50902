//! How many connections and sessions are open: on the node, in each virtual host, and of each user. Only a connection that
//! opens or closes, and a session that begins or ends, asks here.
//!
//! The limits of virtual hosts and users count what other nodes of the cluster have said last about theirs, too ([`LimitedCounts`]).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;

use super::Authority;
use crate::ids::NodeNumber;

/// The most of something that may exist. `None` means any number; 0 allows nothing.
pub type Maximum = Option<u32>;

/// The limits of a user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserLimits {
    /// The most connections of the user (`max-connections`).
    pub max_connections: Maximum,
    /// The most sessions of all connections of the user together (`max-channels`, as in AMQP 0.9.1).
    pub max_channels: Maximum,
}

/// The most connections, for each of the three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionLimits {
    pub node: Maximum,
    pub vhost: Maximum,
    pub user: Maximum,
}

/// The most sessions of all connections together, for both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionLimits {
    pub node: Maximum,
    pub user: Maximum,
}

/// The limit that a connection would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    Node(u32),
    Vhost(u32),
    User(u32),
}

/// The limit that a session would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionsFull {
    Node(u32),
    User(u32),
}

/// All open connections of a node.
#[derive(Clone, Debug, Default)]
pub struct ConnectionCounts(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    node: u32,
    sessions: u32,
    vhosts: HashMap<Arc<str>, u32>,
    users: HashMap<User, OfUser>,
    /// Counts each connection and session that begins or ends.
    changes: u64,
    /// What other nodes have said last.
    others: BTreeMap<NodeNumber, OfOther>,
}

#[derive(Debug, Default)]
struct OfOther {
    vhosts: HashMap<Arc<str>, u32>,
    /// Users of the catalog.
    users: HashMap<Arc<str>, OfUser>,
}

/// A user, and the backend whose user it is: the catalog, or else the one that says what the user may do.
type User = (Authority, Arc<str>);

#[derive(Clone, Copy, Debug, Default)]
struct OfUser {
    connections: u32,
    sessions: u32,
}

/// The connections and sessions of a node that count for limits of the whole cluster, in the order of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitedCounts {
    /// Virtual hosts, with their connections.
    pub vhosts: Vec<(Arc<str>, u32)>,
    /// Users of the catalog, with their connections and sessions. Only they have limits.
    pub users: Vec<(Arc<str>, u32, u32)>,
}

impl LimitedCounts {
    /// Returns the number of virtual hosts and users.
    pub fn len(&self) -> usize {
        self.vhosts.len() + self.users.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An open connection that is counted until this is dropped.
pub struct CountedConnection {
    of: ConnectionCounts,
    vhost: Arc<str>,
    user: User,
    /// The sessions of the connection.
    sessions: u32,
}

impl ConnectionCounts {
    /// Counts a connection that opens.
    ///
    /// # Errors
    /// The first limit that the connection would exceed.
    pub fn open(
        &self,
        vhost: &Arc<str>,
        (authority, name): (Authority, &Arc<str>),
        limits: ConnectionLimits,
    ) -> Result<CountedConnection, Full> {
        let user = (authority, name.clone());
        let mut counts = self.counts();
        let of_vhost = counts.of_vhost(vhost);
        let of_user = counts.of_user(&user).connections;
        exceeded(counts.node, limits.node).map_or(Ok(()), |max| Err(Full::Node(max)))?;
        exceeded(of_vhost, limits.vhost).map_or(Ok(()), |max| Err(Full::Vhost(max)))?;
        exceeded(of_user, limits.user).map_or(Ok(()), |max| Err(Full::User(max)))?;
        counts.node += 1;
        counts.changes += 1;
        *counts.vhosts.entry(vhost.clone()).or_default() += 1;
        counts.users.entry(user.clone()).or_default().connections += 1;
        drop(counts);
        Ok(CountedConnection { of: self.clone(), vhost: vhost.clone(), user, sessions: 0 })
    }

    /// Returns the number of open connections of the node.
    pub fn connections(&self) -> u32 {
        self.counts().node
    }

    /// Returns a number that is another one after each connection and session that begins or ends.
    pub fn changes(&self) -> u64 {
        self.counts().changes
    }

    /// Returns the counts of this node of the virtual hosts and users that have a limit, at most `max`. The others are left out.
    pub fn limited(
        &self,
        max: usize,
        has_limit: impl Fn(&str) -> bool,
        user_has_limit: impl Fn(&str) -> bool,
    ) -> LimitedCounts {
        let counts = self.counts();
        let vhosts = counts.vhosts.iter().filter(|(name, _)| has_limit(name));
        let vhosts = vhosts.map(|(name, connections)| (name.clone(), *connections));
        let users = counts
            .users
            .iter()
            .filter(|((authority, name), _)| *authority == Authority::Internal && user_has_limit(name));
        let users = users.map(|((_, name), of)| (name.clone(), of.connections, of.sessions));
        let mut limited = LimitedCounts { vhosts: vhosts.collect(), users: users.collect() };
        drop(counts);
        limited.vhosts.sort();
        limited.users.sort();
        limited.vhosts.truncate(max);
        limited.users.truncate(max - limited.vhosts.len());
        limited
    }

    /// Takes in what another node has said. `None` forgets what it had said before.
    pub fn set_other(&self, node: NodeNumber, said: Option<LimitedCounts>) {
        let mut counts = self.counts();
        match said.filter(|said| !said.is_empty()) {
            Some(LimitedCounts { vhosts, users }) => {
                let users = users.into_iter();
                let users =
                    users.map(|(name, connections, sessions)| (name, OfUser { connections, sessions }));
                let other = OfOther { vhosts: vhosts.into_iter().collect(), users: users.collect() };
                counts.others.insert(node, other);
            }
            None => _ = counts.others.remove(&node),
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    /// Returns the connections of a virtual host on all nodes.
    fn of_vhost(&self, vhost: &str) -> u32 {
        let own = self.vhosts.get(vhost).copied().unwrap_or_default();
        let others = self.others.values().filter_map(|other| other.vhosts.get(vhost));
        others.fold(own, |sum, more| sum.saturating_add(*more))
    }

    /// Returns the connections and sessions of a user on all nodes.
    fn of_user(&self, user: &User) -> OfUser {
        let own = self.users.get(user).copied().unwrap_or_default();
        if user.0 != Authority::Internal {
            return own;
        }
        let others = self.others.values().filter_map(|other| other.users.get(&user.1));
        others.fold(own, |sum, more| OfUser {
            connections: sum.connections.saturating_add(more.connections),
            sessions: sum.sessions.saturating_add(more.sessions),
        })
    }
}

impl CountedConnection {
    /// Counts a session that begins.
    ///
    /// # Errors
    /// The first limit that the session exceeds. It is counted all the same, until it ends.
    pub fn begin_session(&mut self, limits: SessionLimits) -> Result<(), SessionsFull> {
        self.sessions += 1;
        let mut counts = self.of.counts();
        counts.sessions += 1;
        counts.changes += 1;
        let of_node = counts.sessions - 1;
        let of_user = counts.of_user(&self.user).sessions;
        let Some(user) = counts.users.get_mut(&self.user) else { return Ok(()) };
        user.sessions += 1;
        exceeded(of_user, limits.user).map_or(Ok(()), |max| Err(SessionsFull::User(max)))?;
        exceeded(of_node, limits.node).map_or(Ok(()), |max| Err(SessionsFull::Node(max)))
    }

    /// Called when a session has ended.
    pub fn end_session(&mut self) {
        if let Some(left) = self.sessions.checked_sub(1) {
            self.sessions = left;
            let mut counts = self.of.counts();
            counts.sessions -= 1;
            counts.changes += 1;
            if let Some(user) = counts.users.get_mut(&self.user) {
                user.sessions -= 1;
            }
        }
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let mut counts = self.of.counts();
        counts.node -= 1;
        counts.changes += 1;
        counts.sessions -= self.sessions;
        if let Some(vhost) = counts.vhosts.get_mut(&self.vhost) {
            *vhost -= 1;
            if *vhost == 0 {
                counts.vhosts.remove(&self.vhost);
            }
        }
        if let Some(user) = counts.users.get_mut(&self.user) {
            user.connections -= 1;
            user.sessions -= self.sessions;
            if user.connections == 0 {
                counts.users.remove(&self.user);
            }
        }
    }
}

impl fmt::Debug for CountedConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (authority, name) = (self.user.0.as_str(), &self.user.1);
        write!(f, "CountedConnection({name} of {authority} in {}, {} sessions)", self.vhost, self.sessions)
    }
}

fn exceeded(count: u32, max: Maximum) -> Option<u32> {
    max.filter(|max| count >= *max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_counts_for_itself() {
        let counts = ConnectionCounts::default();
        let limits = ConnectionLimits { node: Some(3), vhost: Some(2), user: Some(1) };
        let take =
            |vhost: &str, user: &str| counts.open(&vhost.into(), (Authority::Internal, &user.into()), limits);
        let first = take("a", "ann").unwrap();
        assert_eq!(take("b", "ann").unwrap_err(), Full::User(1));
        let _second = take("a", "bob").unwrap();
        assert_eq!(take("a", "carl").unwrap_err(), Full::Vhost(2));
        let _third = take("b", "carl").unwrap();
        assert_eq!(take("c", "dora").unwrap_err(), Full::Node(3));
        // A table by name alone would refuse: the limit of its namesake is reached.
        let limit_of_user = ConnectionLimits { user: Some(1), ..ConnectionLimits::default() };
        let namesake = counts.open(&"b".into(), (Authority::OAuth2, &"ann".into()), limit_of_user);
        assert_eq!(
            counts.open(&"b".into(), (Authority::OAuth2, &"ann".into()), limit_of_user).unwrap_err(),
            Full::User(1)
        );
        assert_eq!(counts.connections(), 4, "another user than the one of the catalog");
        drop(namesake);
        drop(first);
        assert_eq!(counts.connections(), 2);
        drop(take("a", "ann").unwrap());
        let none = ConnectionLimits { user: Some(0), ..ConnectionLimits::default() };
        assert_eq!(
            counts.open(&"c".into(), (Authority::Internal, &"ann".into()), none).unwrap_err(),
            Full::User(0)
        );
    }

    #[test]
    fn what_other_nodes_have_said_counts_for_limits_of_the_cluster() {
        let counts = ConnectionCounts::default();
        let limits = ConnectionLimits { node: Some(3), vhost: Some(4), user: Some(3) };
        let take =
            |vhost: &str, user: &str| counts.open(&vhost.into(), (Authority::Internal, &user.into()), limits);
        let mut ann = take("a", "ann").unwrap();
        let of_a = |connections, of_ann, sessions| LimitedCounts {
            vhosts: vec![("a".into(), connections)],
            users: vec![("ann".into(), of_ann, sessions)],
        };
        counts.set_other(2, Some(of_a(1, 1, 1)));
        counts.set_other(3, Some(of_a(1, 1, 0)));
        assert_eq!(take("b", "ann").unwrap_err(), Full::User(3));
        let bob = take("a", "bob").unwrap();
        assert_eq!(take("a", "bob").unwrap_err(), Full::Vhost(4));
        // A user of the same name whose backend is another one.
        let namesake = counts.open(&"b".into(), (Authority::OAuth2, &"ann".into()), limits);
        assert!(namesake.is_ok());
        assert_eq!(take("b", "carl").unwrap_err(), Full::Node(3), "this limit is that of the node alone");
        drop(namesake);
        let sessions = SessionLimits { node: Some(9), user: Some(2) };
        assert_eq!(ann.begin_session(sessions), Ok(()));
        assert_eq!(ann.begin_session(sessions), Err(SessionsFull::User(2)));

        // What was said before does not count besides what is said now.
        counts.set_other(2, Some(of_a(1, 0, 0)));
        assert_eq!(take("a", "carl").unwrap_err(), Full::Vhost(4));
        counts.set_other(3, None);
        drop(take("a", "carl").unwrap());
        counts.set_other(2, Some(LimitedCounts::default()));
        assert!(counts.counts().others.is_empty());
        drop((ann, bob));
    }

    #[test]
    fn a_node_says_what_has_a_limit() {
        let counts = ConnectionCounts::default();
        let take = |vhost: &str, authority, user: &str| {
            counts.open(&vhost.into(), (authority, &user.into()), ConnectionLimits::default()).unwrap()
        };
        let before = counts.changes();
        let mut open = [("a", "ann"), ("b", "ann"), ("c", "bob")]
            .map(|(vhost, user)| take(vhost, Authority::Internal, user));
        let namesake = take("c", Authority::Http, "ann");
        open[0].begin_session(SessionLimits::default()).unwrap();
        assert_ne!(counts.changes(), before);
        let limited = |max| counts.limited(max, |vhost| vhost != "b", |user| user == "ann");
        let all = LimitedCounts {
            vhosts: vec![("a".into(), 1), ("c".into(), 2)],
            users: vec![("ann".into(), 2, 1)],
        };
        assert_eq!((limited(3), limited(9)), (all.clone(), all.clone()));
        assert_eq!(limited(2), LimitedCounts { users: Vec::new(), ..all });
        assert_eq!(limited(1).len(), 1);
        let before = counts.changes();
        drop((open, namesake));
        assert_ne!(counts.changes(), before);
        assert!(limited(9).is_empty());
    }

    #[test]
    fn the_sessions_of_a_user_are_counted_over_connections() {
        let counts = ConnectionCounts::default();
        let take = || {
            counts
                .open(&"v".into(), (Authority::Internal, &"ann".into()), ConnectionLimits::default())
                .unwrap()
        };
        let limits = SessionLimits { user: Some(2), ..SessionLimits::default() };
        let (mut first, mut second) = (take(), take());
        assert_eq!(first.begin_session(limits), Ok(()));
        assert_eq!(second.begin_session(limits), Ok(()));
        assert_eq!(second.begin_session(limits), Err(SessionsFull::User(2)));
        second.end_session();
        drop(first);
        assert_eq!(second.begin_session(limits), Ok(()));
        drop(second);
        assert!(counts.counts().users.is_empty() && counts.counts().vhosts.is_empty());
    }

    #[test]
    fn the_sessions_of_the_node_are_counted_over_users() {
        let counts = ConnectionCounts::default();
        let take = |user: &str| {
            counts
                .open(&"v".into(), (Authority::Internal, &user.into()), ConnectionLimits::default())
                .unwrap()
        };
        let limits = SessionLimits { node: Some(2), user: Some(2) };
        let (mut ann, mut bob) = (take("ann"), take("bob"));
        assert_eq!(ann.begin_session(limits), Ok(()));
        assert_eq!(bob.begin_session(limits), Ok(()));
        assert_eq!(bob.begin_session(limits), Err(SessionsFull::Node(2)));
        bob.end_session();
        assert_eq!(ann.begin_session(limits), Err(SessionsFull::Node(2)));
        drop(ann);
        assert_eq!(bob.begin_session(limits), Ok(()));
        drop(bob);
        assert_eq!(counts.counts().sessions, 0);
    }
}
