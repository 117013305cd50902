//! Authentication and authorization. Every verb of every protocol and every HTTP route is decided by [`permit`].

mod connection_counts;
mod grants;
mod guesses;
mod login;
mod password;
mod permissions;
mod remembered;
mod remote;
mod renewal;
mod sources;
mod topics;
mod users;
mod verbs;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::{HashMap, HashSet};

pub use self::connection_counts::{
    ConnectionCounts, ConnectionLimits, CountedConnection, Full, LimitedCounts, Maximum, SessionLimits,
    SessionsFull, UserLimits,
};
pub use self::grants::{Grants, matches_wildcard};
use self::guesses::Guesses;
pub use self::guesses::{Failed, Guessing, network};
pub use self::login::{
    Backend, BackendPair, Checking, Credentials, ExternalBackend, Login, LoginRefused, Refusal, Standing,
};
pub use self::password::{Hashing, PasswordHash, Salt};
pub use self::permissions::Permissions;
use self::remembered::Remembered;
pub use self::remembered::{Keyed, RememberKey, keyed};
pub use self::remote::{About, Answering, Authorizer, Question, Remote};
pub use self::renewal::Renewal;
pub use self::sources::{AuthAttempts, Protocol, Source, Sources};
pub(crate) use self::topics::TOPICS_MAX;
pub use self::topics::{TopicPermissions, Topics};
pub use self::users::{UserRecord, Users};
pub use self::verbs::{
    Need, TAGS, Verb, permit, permit_binding, permit_exchange, permit_policy, permit_queue,
};
use crate::categories::{CONNECTION, PEER};
use crate::names::cut;

/// The name of the default exchange in texts, where its real name (empty) would not be visible.
pub const DEFAULT_EXCHANGE_ALIAS: &str = "amq.default";

/// What to do if nobody may log in from other machines.
pub const MAKE_A_USER: &str = "to make a user who can connect from other machines: sluice add user NAME, and sluice set permission NAME '.*' '.*' '.*'";

/// What a user may do in one virtual host.
#[derive(Clone, Copy, Debug)]
pub enum Rights<'a> {
    /// A user of the catalog.
    User {
        /// `None` if the user may not use the virtual host.
        permissions: Option<&'a Permissions>,
        /// `None` if the user may use all keys of all topic exchanges.
        topics: Option<&'a Topics>,
    },
    /// A client with a token.
    Token { grants: &'a Grants, vhost: &'a str },
    /// A client whose permissions somebody else decides.
    Remote { remote: &'a Remote, vhost: &'a str },
}

/// Whether something is allowed, or the question that must be asked to know it.
type Asked = Result<bool, Box<Question>>;

impl Rights<'_> {
    pub const NONE: Self = Self::User { permissions: None, topics: None };

    /// Returns true if the user may use the virtual host.
    fn are_any(self) -> Asked {
        match self {
            Self::User { permissions, .. } => Ok(permissions.is_some()),
            Self::Token { grants, vhost } => Ok(grants.opens(vhost)),
            Self::Remote { remote, vhost } => remote.knows(vhost, About::Vhost),
        }
    }

    fn permit(self, permission: Permission, resource: Resource<'_>) -> Asked {
        match self {
            Self::User { permissions, .. } => {
                Ok(permissions.is_some_and(|permissions| permissions.grants(permission, resource)))
            }
            Self::Token { grants, vhost } => Ok(grants.permits(permission, vhost, resource)),
            Self::Remote { remote, vhost } => remote.knows_resource(vhost, permission, resource),
        }
    }

    fn permit_key(self, permission: Permission, exchange: &str, key: &str) -> Asked {
        match self {
            Self::User { topics, .. } => Ok(topics
                .and_then(|topics| topics.get(exchange))
                .is_none_or(|topics| topics.grants(permission, key))),
            Self::Token { grants, vhost } => Ok(grants.permits_key(permission, vhost, exchange, key)),
            Self::Remote { remote, vhost } => {
                let (exchange, key) = (exchange.to_owned(), key.to_owned());
                remote.knows(vhost, About::Key { exchange, key, permission })
            }
        }
    }

    /// Returns true if the user may not use all keys of this exchange, if it is a topic exchange.
    pub fn limit_keys(self, exchange: &str) -> bool {
        match self {
            Self::User { topics, .. } => topics.is_some_and(|topics| topics.contains_key(exchange)),
            Self::Token { grants, vhost } => grants.limits_keys(vhost, exchange),
            Self::Remote { .. } => true,
        }
    }
}

impl UserRecord {
    pub(super) fn identity(&self) -> Identity {
        let (user, tags) = (self.name.clone(), self.tags.clone());
        Identity { user, tags, is_of_catalog: true, token: None, remote: None }
    }
}

/// A user that a new node starts with.
#[derive(Clone, Debug)]
pub struct User {
    pub name: Arc<str>,
    pub hash: PasswordHash,
    pub tags: Vec<String>,
    /// True if the user may log in from this machine only (`loopback_users`).
    pub loopback_only: bool,
    pub permissions: HashMap<Arc<str>, Permissions>,
}

/// The backend that says what a user may do. The backend `cache` counts as the one that it asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Authority {
    /// The users of the catalog.
    #[default]
    Internal,
    /// A token.
    OAuth2,
    /// An HTTP server.
    Http,
}

impl Authority {
    /// The name in listings and in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Internal => "internal",
            Self::OAuth2 => "oauth2",
            Self::Http => "http",
        }
    }
}

/// Who a user is, where that is decided: two backends may know different users by one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UserRef<'a> {
    pub authority: Authority,
    pub name: &'a str,
}

impl<'a> UserRef<'a> {
    /// Returns a user of the catalog.
    pub const fn internal(name: &'a str) -> Self {
        Self { authority: Authority::Internal, name }
    }
}

/// An authenticated user.
#[derive(Clone, Debug)]
pub struct Identity {
    pub user: Arc<str>,
    pub tags: Arc<[String]>,
    /// True if the catalog must know the user: a connection ends when its user is deleted there.
    pub is_of_catalog: bool,
    /// Who decides the permissions, if neither the catalog nor a token does.
    pub remote: Option<Arc<Remote>>,
    /// What the token of the client grants. `None` for a client without one.
    pub token: Option<Arc<Grants>>,
}

impl Identity {
    /// The identity of a part of the broker itself.
    pub fn internal(name: &str, tag: &str) -> Self {
        let (user, tags) = (name.into(), [tag.to_owned()].into());
        Self { user, tags, is_of_catalog: true, token: None, remote: None }
    }

    /// The identity of a user whose permissions somebody else decides.
    pub fn remote(user: Arc<str>, tags: Arc<[String]>, authorizer: Arc<dyn Authorizer>) -> Self {
        let remote = Remote::new(authorizer, user.clone());
        Self { user, tags, is_of_catalog: false, token: None, remote: Some(Arc::new(remote)) }
    }

    /// Returns the backend that says what the user may do.
    pub fn authority(&self) -> Authority {
        match (&self.token, &self.remote) {
            (Some(_), _) => Authority::OAuth2,
            (None, Some(_)) => Authority::Http,
            (None, None) => Authority::Internal,
        }
    }

    /// Returns who the user is.
    pub fn owner(&self) -> UserRef<'_> {
        UserRef { authority: self.authority(), name: &self.user }
    }

    /// Returns the user in whose limits the connections of this client count. A user of the catalog is one user there, whichever
    /// backend says what the user may do.
    pub fn counted_as(&self) -> (Authority, &Arc<str>) {
        let authority = if self.is_of_catalog { Authority::Internal } else { self.authority() };
        (authority, &self.user)
    }

    /// Returns how much memory this takes, in bytes, without the answers of [`Remote`], which has a bound of its own.
    pub fn bytes(&self) -> usize {
        let tags: usize = self.tags.iter().map(|tag| size_of::<String>() + tag.len()).sum();
        size_of::<Self>() + self.user.len() + tags + self.token.as_ref().map_or(0, |token| token.bytes())
    }

    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.iter().any(|t| t == tag)
    }

    /// The identity of a client of the metrics port. It is not a user: the operator decides who can reach the port.
    pub fn metrics_reader() -> Self {
        Self::internal("", "monitoring")
    }
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        let remote = |who: &Self| who.remote.as_ref().map(Arc::as_ptr);
        (&self.user, &self.tags, self.is_of_catalog, &self.token, remote(self))
            == (&other.user, &other.tags, other.is_of_catalog, &other.token, remote(other))
    }
}

impl Eq for Identity {}

/// A permission that a user can have on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Permission {
    Configure,
    Write,
    Read,
}

impl Permission {
    pub const ALL: [Self; 3] = [Self::Configure, Self::Write, Self::Read];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Configure => "configure",
            Self::Write => "write",
            Self::Read => "read",
        }
    }
}

/// The resource that a verb acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource<'a> {
    Exchange(&'a str),
    Queue(&'a str),
    /// A routing key of a topic exchange.
    Topic {
        exchange: &'a str,
        key: &'a str,
    },
    Policy(&'a str),
    OperatorPolicy(&'a str),
    /// A connection, identified by its user.
    Connection(UserRef<'a>),
}

impl<'a> Resource<'a> {
    /// Returns the name that patterns are matched with.
    fn name(self) -> &'a str {
        match self {
            Self::Exchange("") => DEFAULT_EXCHANGE_ALIAS,
            Self::Topic { key, .. } => key,
            Self::Exchange(name) | Self::Queue(name) | Self::Policy(name) | Self::OperatorPolicy(name) => {
                name
            }
            Self::Connection(owner) => owner.name,
        }
    }
}

/// A refusal, in RabbitMQ's words (docs/compatibility.md, Security).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRefused {
    pub reason: String,
    /// The question that must be asked to know it, if it is not known yet. Then this is no refusal.
    pub question: Option<Box<Question>>,
}

impl AccessRefused {
    /// A refusal for this reason, with nothing to ask.
    pub fn because(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), question: None }
    }
}

impl From<Box<Question>> for AccessRefused {
    fn from(question: Box<Question>) -> Self {
        Self { reason: "it is not known yet whether this is allowed".to_owned(), question: Some(question) }
    }
}

impl fmt::Display for AccessRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// The state that all entry points of a node share: the current users, and the recent failed logins by address. Gates
/// do not use it for permissions. They ask the catalog of their own shard.
#[derive(Debug, Default)]
pub struct Access {
    users: Mutex<Arc<Users>>,
    /// Users who may log in from this machine only (`loopback_users`).
    loopback_users: HashSet<Arc<str>>,
    guesses: Guesses,
    remembered: Remembered,
    /// The algorithm of new passwords (`password_hashing`).
    hashing: Hashing,
    connection_counts: ConnectionCounts,
    sources: Sources,
    /// See [`Access::set_refusing`].
    is_refusing: AtomicBool,
}

/// Tells a client why it cannot log in.
const IN_MINORITY: &str =
    "this node sees no majority of its cluster, and refuses logins until it does: connect to another node";

impl Access {
    /// Creates the state with the first users. They count only while the catalog has never had a user.
    pub fn new(first: impl IntoIterator<Item = User>) -> Self {
        let (mut users, mut loopback_users) = (Users::default(), HashSet::new());
        for User { name, hash, tags, loopback_only, permissions } in first {
            users.set(&name, hash, &tags.into());
            for (vhost, permissions) in permissions {
                users.set_permissions(&name, &vhost, Some(permissions));
            }
            loopback_users.extend(loopback_only.then_some(name));
        }
        Self { users: Mutex::new(Arc::new(users)), loopback_users, ..Self::default() }
    }

    /// Sets the algorithm of new passwords.
    #[must_use]
    pub fn with_hashing(mut self, hashing: Hashing) -> Self {
        self.hashing = hashing;
        self
    }

    /// Counts logins by their source, if `tracks` is true (`track_auth_attempt_source`).
    #[must_use]
    pub fn tracking_sources(mut self, tracks: bool) -> Self {
        self.sources = Sources::new(tracks);
        self
    }

    /// Returns the counts of logins by source.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Refuses all logins, or accepts them again. Returns true if that is news.
    pub fn set_refusing(&self, is_refusing: bool) -> bool {
        self.is_refusing.swap(is_refusing, Ordering::Relaxed) != is_refusing
    }

    /// Returns why all logins are refused now, whoever asks. `None` while they are not.
    pub fn refuses_all(&self) -> Option<&'static str> {
        self.is_refusing.load(Ordering::Relaxed).then_some(IN_MINORITY)
    }

    /// Returns the open connections of the node.
    pub fn connection_counts(&self) -> &ConnectionCounts {
        &self.connection_counts
    }

    /// Returns the algorithm of new passwords.
    pub fn hashing(&self) -> Hashing {
        self.hashing
    }

    /// Lets a login that was checked count for a minute. The key must be random.
    #[must_use]
    pub fn remembering(mut self, key: RememberKey) -> Self {
        self.remembered = Remembered::new(key);
        self
    }

    /// Adds users who may log in from this machine only.
    #[must_use]
    pub fn with_loopback_users(mut self, names: impl IntoIterator<Item = Arc<str>>) -> Self {
        self.loopback_users.extend(names);
        self
    }

    /// Returns the current users.
    pub fn users(&self) -> Arc<Users> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the users after the catalog has changed them.
    pub fn publish(&self, users: Arc<Users>) {
        *self.users.lock().unwrap_or_else(PoisonError::into_inner) = users;
    }

    /// Checks a login with the users of the catalog alone. This may be slow: no shard waits for it.
    ///
    /// # Errors
    /// Those of [`Access::find`].
    pub fn check(&self, login: &Login) -> Result<Identity, LoginRefused> {
        self.find(login).inspect(|_| self.note_success(login)).inspect_err(|_| self.note_failure(login))
    }

    /// Returns what is known about a login before it is checked.
    pub fn standing(&self, login: &Login) -> Standing {
        let Login { credentials: Credentials::Plain { user, password }, from, at_ms } = login else {
            return Standing::Calm;
        };
        let users = self.users();
        let known = users.get(user);
        if known.is_some_and(|known| self.remembered.knows(user, &known.hash, password, *at_ms)) {
            return Standing::Known;
        }
        let name = self.guesses.name_of(user, password);
        match self.guesses.is_suspect(*from, &name, *at_ms) {
            true => Standing::Suspect { is_proven: self.guesses.is_proven(*from, &name, *at_ms) },
            false => Standing::Calm,
        }
    }

    /// Returns the name by which logins that may be guesses take turns.
    pub fn name_of<'a>(&self, login: &'a Login) -> Cow<'a, str> {
        match &login.credentials {
            Credentials::Plain { user, password } => self.guesses.name_of(user, password),
            other => cut(other.user()).into(),
        }
    }

    /// Counts a login with a wrong password.
    pub fn note_failure(&self, login: &Login) {
        if let Credentials::Plain { user, password } = &login.credentials {
            let name = self.guesses.name_of(user, password);
            self.guesses.record_failure(login.from, &name, login.at_ms);
        }
    }

    /// Notes a login with a right password.
    pub fn note_success(&self, login: &Login) {
        if let Credentials::Plain { user, password } = &login.credentials {
            let name = self.guesses.name_of(user, password);
            self.guesses.note_success(login.from, &name, login.at_ms);
        }
    }

    /// Returns what happens to a refused login of this address with this user. It is usually answered after `usual_ms`. Only
    /// guesses wait for the failures of others.
    pub fn fail(&self, from: IpAddr, user: &str, refusal: &Refusal, now_ms: u64, usual_ms: u64) -> Failed {
        match refusal.is_guess {
            true => self.guesses.fail(from, user, now_ms, usual_ms),
            false => Failed::Refused,
        }
    }

    /// Returns what is known about the failed logins of an address.
    pub fn guessing(&self, from: IpAddr, now_ms: u64) -> Guessing {
        self.guesses.of_address(from, now_ms)
    }

    /// Looks a client up among the users of the catalog. Calculates the hash of the password.
    ///
    /// # Errors
    /// The user is unknown or the password is wrong, or the user for anonymous logins does not exist.
    pub fn find(&self, login: &Login) -> Result<Identity, LoginRefused> {
        let Login { credentials, at_ms, .. } = login;
        match credentials {
            Credentials::Plain { user, password } => {
                let users = self.users();
                let right = match users.get(user) {
                    Some(known) => {
                        Some(known).filter(|known| self.remembered.check(user, &known.hash, password, *at_ms))
                    }
                    // The password is hashed although the user is unknown, so that the time does not reveal
                    // whether the user exists.
                    None => {
                        let _ = std::hint::black_box(self.hashing.of_nobody().is_of(password));
                        None
                    }
                };
                right.map(UserRecord::identity).ok_or(LoginRefused::UnknownUserOrPassword)
            }
            Credentials::Anonymous { user } => {
                self.users().get(user).map(UserRecord::identity).ok_or(LoginRefused::AnonymousDisabled)
            }
            Credentials::Certificate { user } => {
                self.users().get(user).map(UserRecord::identity).ok_or(LoginRefused::UnknownCertificate)
            }
            Credentials::Authenticated { user, tags } => {
                let users = self.users();
                let unknown = || LoginRefused::External(format!("internal: there is no user '{user}'"));
                let known = users.get(user).ok_or_else(unknown)?;
                let all: BTreeSet<&String> = known.tags.iter().chain(&**tags).collect();
                Ok(Identity { tags: all.into_iter().cloned().collect(), ..known.identity() })
            }
        }
    }

    /// Checks whether the user may log in from this address. If not, the log says what to do, which is not for the client.
    ///
    /// # Errors
    /// The user may log in from this machine only, and the address is not a loopback address.
    pub fn check_origin(&self, identity: &Identity, peer: IpAddr) -> Result<(), AccessRefused> {
        if self.loopback_users.contains(&identity.user) && !peer.to_canonical().is_loopback() {
            let reason = format!("user '{}' can only connect via localhost", identity.user);
            tracing::warn!(name: PEER, target: CONNECTION, %peer, "{reason}; {MAKE_A_USER}");
            return Err(AccessRefused::because(reason));
        }
        Ok(())
    }

    /// Decides by the table of verbs whether the user may do this. For callers that have no catalog.
    ///
    /// # Errors
    /// A condition of the verb is not met.
    pub fn permit(
        &self,
        identity: &Identity,
        vhost: &str,
        verb: Verb,
        on: &[Resource<'_>],
    ) -> Result<(), AccessRefused> {
        self.users().permit(identity, vhost, verb, on)
    }
}

fn refused(
    identity: &Identity,
    vhost: &str,
    resource: Resource<'_>,
    permission: Permission,
) -> AccessRefused {
    let kind = match resource {
        Resource::Exchange(_) => "exchange",
        Resource::Queue(_) => "queue",
        Resource::Topic { .. } => "topic",
        Resource::Policy(_) => "policy",
        Resource::OperatorPolicy(_) => "operator policy",
        Resource::Connection(_) => "connection of user",
    };
    let (verb, name, user) = (permission.as_str(), resource.name(), &identity.user);
    let within = match resource {
        Resource::Topic { exchange, .. } => format!("exchange '{exchange}' in "),
        _ => String::new(),
    };
    AccessRefused::because(format!(
        "{verb} access to {kind} '{name}' in {within}vhost '{vhost}' refused for user '{user}'"
    ))
}

#[cfg(test)]
mod tests {
    use amqp10::sasl::Secret;

    use super::*;
    use crate::pattern::Pattern;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn login(access: &Access, user: &str, password: &str, at_ms: u64) -> Result<Identity, LoginRefused> {
        let password = Secret::new(password.to_owned());
        let credentials = Credentials::Plain { user: user.to_owned(), password };
        access.check(&Login { credentials, from: HERE, at_ms })
    }

    fn access(permissions: Permissions) -> (Access, Identity) {
        let user = User {
            name: "u".into(),
            hash: Hashing::Sha256.hash([1; 16], &Secret::new("p")),
            tags: vec!["administrator".into()],
            loopback_only: true,
            permissions: [("/".into(), permissions)].into_iter().collect(),
        };
        let access = Access::new([user]);
        let identity = login(&access, "u", "p", 0).unwrap();
        (access, identity)
    }

    #[test]
    fn a_wrong_password_and_a_wrong_user_look_the_same() {
        let (access, _) = access(Permissions::ALL);
        assert_eq!(login(&access, "u", "q", 0), Err(LoginRefused::UnknownUserOrPassword));
        assert_eq!(login(&access, "v", "p", 0), Err(LoginRefused::UnknownUserOrPassword));
    }

    #[test]
    fn a_right_password_is_right_however_many_were_wrong() {
        let (access, _) = access(Permissions::ALL);
        let wrong = Refusal::from(&LoginRefused::UnknownUserOrPassword);
        let fail = |user| access.fail(HERE, user, &wrong, 0, 0);
        assert!(matches!(fail("u"), Failed::Refused));
        for n in 0..1000 {
            let user = if n % 2 == 0 { "u" } else { "v" };
            assert_eq!(login(&access, user, "q", 0), Err(LoginRefused::UnknownUserOrPassword));
        }
        assert!(matches!(fail("u"), Failed::Waits { .. }) && matches!(fail("w"), Failed::Waits { .. }));
        assert!(login(&access, "u", "p", 0).is_ok());
        (0..1000).for_each(|_| assert!(login(&access, "u", "p", 1_000_000).is_ok()));
        assert!(
            matches!(access.fail(HERE, "u", &wrong, 1_000_000, 0), Failed::Refused),
            "right logins are not counted"
        );
        for no_guess in [LoginRefused::Unavailable(String::new()), LoginRefused::AnonymousDisabled] {
            assert_eq!(access.fail(HERE, "u", &(&no_guess).into(), 0, 0), Failed::Refused, "{no_guess:?}");
        }
        assert_eq!(access.fail(HERE, "u", &Refusal::other("malformed"), 0, 0), Failed::Refused);
    }

    #[test]
    fn each_permission_is_asked_for_by_its_name() {
        let (access, identity) = access(Permissions { write: Pattern::Nothing, ..Permissions::ALL });
        let ask = |vhost, verb, resource| access.permit(&identity, vhost, verb, &[resource]);
        assert_eq!(ask("/", Verb::Consume, Resource::Queue("q")), Ok(()));
        assert_eq!(
            ask("/", Verb::Publish, Resource::Exchange("")).unwrap_err().reason,
            "write access to exchange 'amq.default' in vhost '/' refused for user 'u'"
        );
        assert_eq!(
            ask("other", Verb::OpenVhost, Resource::Queue("q")).unwrap_err().reason,
            "access to vhost 'other' refused for user 'u'"
        );
    }

    #[test]
    fn a_permission_covers_the_names_that_it_matches() {
        let (access, identity) = access(Permissions::new(["", "^orders|amq.default", "^(?!amq)"]).unwrap());
        let may = |verb, resource| access.permit(&identity, "/", verb, &[resource]).is_ok();
        assert!(may(Verb::Publish, Resource::Exchange("orders.eu")));
        assert!(may(Verb::Publish, Resource::Exchange("")), "the default exchange has a name for patterns");
        assert!(!may(Verb::Publish, Resource::Exchange("bills")));
        assert!(
            may(Verb::Consume, Resource::Queue("orders")) && !may(Verb::Consume, Resource::Queue("amq.1"))
        );
        assert!(!may(Verb::DeclareQueue, Resource::Queue("orders")));
        let wrong = Permissions::new(["", "(", ""]).unwrap_err();
        assert!(wrong.starts_with("write: the pattern is not a regular expression"), "{wrong}");
    }

    #[test]
    fn loopback_users_log_in_from_this_machine_only() {
        let (access, identity) = access(Permissions::ALL);
        assert!(access.check_origin(&identity, "127.0.0.1".parse().unwrap()).is_ok());
        assert!(access.check_origin(&identity, "::ffff:127.0.0.1".parse().unwrap()).is_ok());
        assert!(access.check_origin(&identity, "10.0.0.1".parse().unwrap()).is_err());
    }
}
