//! Checks logins on two separate threads: a slow check delays only other logins, and a client that asks for many delays
//! mostly its own.
//!
//! ```text
//!   shards, desk ──> Line: a queue per network of clients ──one of each network in turn──> two threads ──> shard, desk
//!                └─> what may be a guess: a queue per network and user ──in turn──────────> one of the two
//! ```
//!
//! A login may be a guess if many logins of its address have failed lately, and if it was not right within the last minute
//! (`broker::access::Access::is_suspect`). It is checked like any other, because only that tells a right password from a wrong one.
//!
//! If the configuration names other backends than the catalog, each login is a task that asks one after the other. The two threads
//! are then the backend `internal`.

use std::collections::VecDeque;
use std::hash::Hash;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use amqp10::sasl::Secret;
use broker::access::{
    Access, Authority, Backend, BackendPair, Credentials, Hashing, Identity, Login, LoginRefused,
    PasswordHash, Question as RemoteQuestion, Remote, Salt, network,
};
use broker::ids::ShardId;
use broker::names::cut;
use hashbrown::{HashMap, HashSet};
use queue::Ticket;
use tokio::runtime;
use tokio::sync::{Semaphore, oneshot};

use crate::clock::Clock;
use crate::incoming::{Checked, Incoming, Shards};
use crate::renewal::renew_hash;

/// The number of passwords that are hashed at the same time. Each hash takes a core and [7 MiB](broker::access::Hashing), so they
/// never take more than two cores and 14 MiB. The hash of an imported user may ask for up to 64 MiB.
const THREADS: usize = 2;

/// The number of threads that check logins which may be guesses, besides others. All guessers together never take more than half of
/// what hashing may take.
const SUSPECT_THREADS: usize = 1;

/// The most logins that external backends check at the same time and that may be guesses.
const SUSPECTS_IN_FLIGHT_MAX: usize = 64;

/// The most logins that external backends check at the same time, each a task with a name and a password. Further ones are refused at
/// once. It is more than a server can answer, so that only a flood or an outage reaches it.
const IN_FLIGHT_MAX: usize = 4096;

/// The most names about which the log warns because two backends know them.
const NAMESAKES_MAX: usize = 100;

/// The backends that check logins, in their order.
#[derive(Clone, Debug)]
pub struct Backends {
    /// Those of clients (`auth_backends`).
    chain: Vec<BackendPair>,
    /// Those of the HTTP API (`http_dispatch.auth_backends`). `None`: the same.
    over_http: Option<Vec<BackendPair>>,
    /// Runs the tasks that ask external backends.
    runtime: runtime::Handle,
    /// How long a login may take.
    patience: Duration,
    /// The places for logins in flight.
    room: Arc<Semaphore>,
    /// The places for those of them that may be guesses.
    suspects: Arc<Semaphore>,
}

impl Backends {
    /// Tasks that ask external backends run on `runtime`. A login that takes longer than `patience` is refused.
    pub fn new(chain: Vec<BackendPair>, runtime: runtime::Handle, patience: Duration) -> Self {
        let places = |max| Arc::new(Semaphore::new(max));
        let (room, suspects) = (places(IN_FLIGHT_MAX), places(SUSPECTS_IN_FLIGHT_MAX));
        Self { chain, over_http: None, runtime, patience, room, suspects }
    }

    /// Sets the backends that check logins over HTTP. `None`: those of other clients.
    #[must_use]
    pub fn with_http_chain(mut self, chain: Option<Vec<BackendPair>>) -> Self {
        self.over_http = chain;
        self
    }

    /// Returns the backends that check logins of clients.
    fn of_clients(&self) -> &[BackendPair] {
        &self.chain
    }

    /// Returns the backends that check logins over HTTP.
    fn of_desk(&self) -> &[BackendPair] {
        self.over_http.as_ref().unwrap_or(&self.chain)
    }
}

/// The handle to the threads that check logins.
#[derive(Clone, Debug)]
pub(crate) struct Logins {
    line: Arc<Handle>,
    shards: Shards,
    access: Arc<Access>,
    /// `None` if only the catalog is asked.
    backends: Option<Backends>,
    clock: Clock,
    /// The users of other backends about whose names the log has warned.
    namesakes: Arc<Mutex<HashSet<Arc<str>>>>,
}

#[derive(Debug)]
enum Question {
    Shard(ShardId, Ticket, Login),
    Desk(Login, oneshot::Sender<Checked>),
    /// The part of the catalog in a login that several backends check.
    Internal(Login, oneshot::Sender<Checked>),
    Hash(NewHash, oneshot::Sender<PasswordHash>),
}

/// A password to be hashed.
#[derive(Debug)]
pub(crate) struct NewHash {
    pub hashing: Hashing,
    pub salt: Salt,
    pub password: Secret,
}

impl Question {
    /// Returns the login that is checked.
    fn login(&self) -> Option<&Login> {
        match self {
            Self::Shard(_, _, login) | Self::Desk(login, _) | Self::Internal(login, _) => Some(login),
            Self::Hash(..) => None,
        }
    }

    /// Returns the network whose turn it takes. New passwords share one of their own.
    fn network(&self) -> IpAddr {
        self.login().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |login| network(login.from))
    }
}

/// Ends the line when the last handle is dropped.
#[derive(Debug)]
struct Handle(Arc<Line>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.lock().has_ended = true;
        self.0.bell.notify_all();
    }
}

/// The logins that wait for a thread. Each connection and each HTTP request in flight has at most one, so their bounds are the bound
/// of the line.
#[derive(Debug, Default)]
struct Line {
    waiting: Mutex<Waiting>,
    bell: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    /// By network.
    calm: Turns<IpAddr, VecDeque<Question>>,
    /// Logins that may be guesses, by network, and within a network by user.
    suspect: Turns<IpAddr, Turns<Box<str>, VecDeque<Question>>>,
    has_ended: bool,
}

/// A queue of questions.
trait Queue: Default {
    fn push(&mut self, question: Question);
    fn pop(&mut self) -> Option<Question>;
    fn is_empty(&self) -> bool;
}

impl Queue for VecDeque<Question> {
    fn push(&mut self, question: Question) {
        self.push_back(question);
    }

    fn pop(&mut self) -> Option<Question> {
        self.pop_front()
    }

    fn is_empty(&self) -> bool {
        Self::is_empty(self)
    }
}

/// Queues that take turns, by their keys.
#[derive(Debug)]
struct Turns<K, Q> {
    by_key: HashMap<K, Q>,
    /// The keys in `by_key`, the next one first.
    next: VecDeque<K>,
}

impl<K, Q> Default for Turns<K, Q> {
    fn default() -> Self {
        Self { by_key: HashMap::new(), next: VecDeque::new() }
    }
}

impl<K: Key, Q: Queue> Queue for Turns<K, Q> {
    fn push(&mut self, question: Question) {
        let key = K::of(&question);
        let own = self.by_key.entry(key.clone()).or_default();
        if own.is_empty() {
            self.next.push_back(key);
        }
        own.push(question);
    }

    /// Removes the first question of the queue whose turn it is.
    fn pop(&mut self) -> Option<Question> {
        let key = self.next.pop_front()?;
        let own = self.by_key.get_mut(&key)?;
        let question = own.pop();
        if own.is_empty() {
            self.by_key.remove(&key);
        } else {
            self.next.push_back(key);
        }
        question
    }

    fn is_empty(&self) -> bool {
        self.next.is_empty()
    }
}

/// What questions take turns by.
trait Key: Clone + Eq + Hash {
    fn of(question: &Question) -> Self;
}

impl Key for IpAddr {
    fn of(question: &Question) -> Self {
        question.network()
    }
}

impl Key for Box<str> {
    fn of(question: &Question) -> Self {
        cut(question.login().map_or("", |login| login.credentials.user())).into()
    }
}

impl Waiting {
    fn push(&mut self, question: Question, is_suspect: bool) {
        match is_suspect {
            true => self.suspect.push(question),
            false => self.calm.push(question),
        }
    }

    /// Removes the next question. Only the thread that `takes_suspects` is for gets those that may be guesses, each after one of
    /// the others.
    fn pop(&mut self, takes_suspects: bool, last_was_suspect: bool) -> Option<(Question, bool)> {
        let calm = |waiting: &mut Self| waiting.calm.pop().map(|question| (question, false));
        let suspect = |waiting: &mut Self| waiting.suspect.pop().map(|question| (question, true));
        match (takes_suspects, last_was_suspect) {
            (false, _) => calm(self),
            (true, true) => calm(self).or_else(|| suspect(self)),
            (true, false) => suspect(self).or_else(|| calm(self)),
        }
    }
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, question: Question, is_suspect: bool) {
        self.lock().push(question, is_suspect);
        // A thread that takes no suspects may be the one that wakes up.
        if is_suspect {
            self.bell.notify_all();
        } else {
            self.bell.notify_one();
        }
    }

    /// Waits for the next question of a thread. Returns `None` when the line has ended.
    fn next(&self, takes_suspects: bool, last_was_suspect: bool) -> Option<(Question, bool)> {
        let mut waiting = self.lock();
        loop {
            if waiting.has_ended {
                return None;
            }
            if let Some(next) = waiting.pop(takes_suspects, last_was_suspect) {
                return Some(next);
            }
            waiting = self.bell.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Logins {
    /// Starts the threads. They end when the last handle is dropped.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(
        shards: Shards,
        access: Arc<Access>,
        backends: Option<Backends>,
        clock: Clock,
    ) -> io::Result<Self> {
        let line = Arc::new(Line::default());
        let handle = Arc::new(Handle(line.clone()));
        for number in 0..THREADS {
            let (line, shards, access) = (line.clone(), shards.clone(), access.clone());
            std::thread::Builder::new().name(format!("logins-{number}")).spawn(move || {
                let renewing = |login: &Login, checked: Checked| {
                    checked.inspect(|_| renew_hash(&access, login, &shards))
                };
                let (takes_suspects, mut last_was_suspect) = (number < SUSPECT_THREADS, false);
                while let Some((question, is_suspect)) = line.next(takes_suspects, last_was_suspect) {
                    last_was_suspect = is_suspect;
                    match question {
                        Question::Shard(shard, ticket, login) => {
                            send(&shards, shard, ticket, renewing(&login, access.check(&login)));
                        }
                        // The caller has given up, so the login is not checked.
                        Question::Desk(_, reply) | Question::Internal(_, reply) if reply.is_closed() => {}
                        Question::Desk(login, reply) => {
                            drop(reply.send(renewing(&login, access.check(&login))))
                        }
                        Question::Internal(login, reply) => {
                            drop(reply.send(renewing(&login, access.find(&login))))
                        }
                        Question::Hash(_, reply) if reply.is_closed() => {}
                        Question::Hash(NewHash { hashing, salt, password }, reply) => {
                            drop(reply.send(hashing.hash(salt, &password)));
                        }
                    }
                }
            })?;
        }
        let namesakes = Arc::default();
        Ok(Self { line: handle, shards, access, backends, clock, namesakes })
    }

    /// Checks the login of a connection. The shard receives the result as [`Incoming::Login`].
    pub fn ask(&self, shard: ShardId, ticket: Ticket, login: Login) {
        let Some(Backends { runtime, .. }) = &self.backends else {
            let is_suspect = self.access.is_suspect(&login);
            return self.line.0.push(Question::Shard(shard, ticket, login), is_suspect);
        };
        let logins = self.clone();
        runtime.spawn(async move {
            let checked = logins.check_external(&login, Backends::of_clients).await;
            send(&logins.shards, shard, ticket, checked);
        });
    }

    /// Asks somebody else about a permission. The shard receives [`Incoming::Permission`].
    pub fn ask_permission(
        &self,
        shard: ShardId,
        ticket: Ticket,
        remote: Arc<Remote>,
        question: Box<RemoteQuestion>,
    ) {
        let Some(Backends { runtime, .. }) = &self.backends else { return };
        let shards = self.shards.clone();
        runtime.spawn(async move {
            remote.ask(&question).await;
            if let Some(to) = shards.get(usize::from(shard)) {
                drop(to.send(Incoming::Permission(ticket)));
            }
        });
    }

    /// Checks a login in time, with the backends that `chain` chooses.
    async fn check_external(&self, login: &Login, chain: fn(&Backends) -> &[BackendPair]) -> Checked {
        let Some(backends) = &self.backends else { return self.access.check(login) };
        let in_time = async {
            // Those that may be guesses wait for each other, and leave the other places alone.
            let _turn = match self.access.is_suspect(login) {
                true => backends.suspects.acquire().await.ok(),
                false => None,
            };
            let Ok(_place) = backends.room.try_acquire() else {
                return Err(LoginRefused::Unavailable("too many logins are being checked".into()));
            };
            self.ask_all(login, chain(backends)).await
        };
        let checked = tokio::time::timeout(backends.patience, in_time).await;
        checked
            .unwrap_or_else(|_| Err(LoginRefused::Unavailable("the backends did not answer in time".into())))
    }

    /// Asks the backends one after the other, until one accepts the login.
    async fn ask_all(&self, login: &Login, chain: &[BackendPair]) -> Checked {
        let (mut refusals, mut is_known) = (Vec::new(), true);
        for (at, pair) in chain.iter().enumerate() {
            match self.ask_pair(pair, login).await {
                Ok(identity) => {
                    self.warn_of_namesake(&identity, &chain[..at]);
                    return Ok(self.by_own_clock(identity));
                }
                Err(refused) => {
                    is_known &= !matches!(refused, LoginRefused::Unavailable(_));
                    refusals.push(refused.to_string());
                }
            }
        }
        let why = refusals.join("; ");
        if !is_known {
            return Err(LoginRefused::Unavailable(why));
        }
        self.access.note_failure(login);
        Err(LoginRefused::External(why))
    }

    /// Warns once if an earlier backend knows another user by this name: people easily take the two for one.
    fn warn_of_namesake(&self, who: &Identity, earlier: &[BackendPair]) {
        let is_internal =
            |pair: &BackendPair| matches!(pair.authz.as_ref().unwrap_or(&pair.authn), Backend::Internal);
        let (authority, user) = (who.authority(), &who.user);
        if authority == Authority::Internal
            || !earlier.iter().any(is_internal)
            || self.access.users().get(user).is_none()
        {
            return;
        }
        let mut known = self.namesakes.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < NAMESAKES_MAX && known.insert(user.clone()) {
            let backend = authority.as_str();
            tracing::warn!(
                %user, backend,
                "two users have this name: one of an earlier backend (internal), and one whom {backend} has let in. They have \
                 their own permissions, limits and connections"
            );
        }
    }

    /// Returns the number of names about which the log has warned.
    #[cfg(test)]
    pub fn namesakes(&self) -> usize {
        self.namesakes.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Says by the broker's clock when the token of the client expires. Backends say it by the system's clock, as the token
    /// does. The check may have taken long, so both clocks are read now.
    fn by_own_clock(&self, mut who: Identity) -> Identity {
        if let Some(token) = who.token.take() {
            let expires_ms = self.clock.when_system_shows(token.expires_ms);
            who.token = Some(Arc::new(Arc::unwrap_or_clone(token).expiring_at(expires_ms)));
        }
        who
    }

    /// Asks who the client is, and then what it may do.
    async fn ask_pair(&self, BackendPair { authn, authz }: &BackendPair, login: &Login) -> Checked {
        let who = self.ask_one(authn, login).await?;
        let Some(authz) = authz else { return Ok(who) };
        let Identity { user, tags, is_of_catalog, .. } = who;
        let credentials = Credentials::Authenticated { user, tags };
        let mut allowed = self.ask_one(authz, &Login { credentials, ..*login }).await?;
        allowed.is_of_catalog |= is_of_catalog;
        Ok(allowed)
    }

    async fn ask_one(&self, backend: &Backend, login: &Login) -> Checked {
        match backend {
            Backend::Internal => {
                let (reply, answer) = oneshot::channel();
                let is_suspect = self.access.is_suspect(login);
                self.line.0.push(Question::Internal(login.clone(), reply), is_suspect);
                // Without an answer, the node is stopping.
                answer.await.unwrap_or_else(|_| Err(LoginRefused::Unavailable("the node stops".into())))
            }
            Backend::External(backend) => backend.clone().check(login).await,
        }
    }

    /// Hashes a new password for the desk.
    pub fn hash(&self, new: NewHash) -> oneshot::Receiver<PasswordHash> {
        let (reply, answer) = oneshot::channel();
        self.line.0.push(Question::Hash(new, reply), false);
        answer
    }

    /// Checks a login at the desk.
    pub fn ask_for_desk(&self, login: Login) -> oneshot::Receiver<Checked> {
        let (reply, answer) = oneshot::channel();
        let Some(Backends { runtime, .. }) = &self.backends else {
            let is_suspect = self.access.is_suspect(&login);
            self.line.0.push(Question::Desk(login, reply), is_suspect);
            return answer;
        };
        let logins = self.clone();
        // If the caller has given up, nobody needs the result.
        runtime
            .spawn(async move { drop(reply.send(logins.check_external(&login, Backends::of_desk).await)) });
        answer
    }
}

/// Sends the result of a login to the shard of the connection. Sending fails if the shard has ended; then it needs none.
fn send(shards: &Shards, shard: ShardId, ticket: Ticket, checked: Checked) {
    if let Some(to) = shards.get(usize::from(shard)) {
        drop(to.send(Incoming::Login(ticket, checked)));
    }
}

#[cfg(test)]
mod tests {
    use broker::access::Credentials;

    use super::*;

    fn question(from: &str, number: u64) -> Question {
        let credentials = Credentials::Anonymous { user: (number % 2).to_string() };
        let from = from.parse().expect("an address");
        let (reply, _) = oneshot::channel();
        Question::Desk(Login { credentials, from, at_ms: number }, reply)
    }

    fn number(question: Question) -> u64 {
        match question {
            Question::Desk(login, _) => login.at_ms,
            other => panic!("{other:?} was never asked"),
        }
    }

    #[test]
    fn networks_take_turns() {
        let mut waiting = Waiting::default();
        for number in 0..4 {
            waiting.push(question("192.0.2.1", number), false);
        }
        waiting.push(question("192.0.2.2", 10), false);
        waiting.push(question("2001:db8::1", 20), false);
        waiting.push(question("2001:db8::2", 21), false);
        assert_eq!(order(&mut waiting, false), [0, 10, 20, 1, 21, 2, 3]);
        assert!(waiting.calm.by_key.is_empty() && waiting.calm.next.is_empty());
    }

    /// Returns the order in which a thread takes what waits.
    fn order(waiting: &mut Waiting, takes_suspects: bool) -> Vec<u64> {
        let mut last_was_suspect = false;
        let next = || {
            let (question, is_suspect) = waiting.pop(takes_suspects, last_was_suspect)?;
            last_was_suspect = is_suspect;
            Some(number(question))
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn guesses_take_turns_by_user_and_leave_a_thread_to_others() {
        let mut waiting = Waiting::default();
        let fill = |waiting: &mut Waiting| {
            for number in [0, 2, 4, 6, 1] {
                waiting.push(question("192.0.2.1", number), true);
            }
            waiting.push(question("192.0.2.2", 10), true);
            (20..23).for_each(|number| waiting.push(question("192.0.2.3", number), false));
        };
        fill(&mut waiting);
        // The one of another user waits for one guess of each network.
        assert_eq!(order(&mut waiting, true), [0, 20, 10, 21, 1, 22, 2, 4, 6]);
        fill(&mut waiting);
        assert_eq!(order(&mut waiting, false), [20, 21, 22], "nobody waits for a guess there");
        assert_eq!(order(&mut waiting, true), [0, 10, 1, 2, 4, 6]);
        assert!(waiting.suspect.by_key.is_empty() && waiting.suspect.next.is_empty());
    }
}
