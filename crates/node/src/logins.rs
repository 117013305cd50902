//! Checks logins on two separate threads: a slow check delays only other logins, and a client that asks for many delays
//! mostly its own.
//!
//! ```text
//!   shards, desk ──> Line: a queue per network of clients ──one of each network in turn──> two threads ──> shard, desk
//! ```
//!
//! If the configuration names other backends than the catalog, each login is a task that asks one after the other. The two threads
//! are then the backend `internal`.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use amqp10::sasl::Secret;
use broker::access::{
    Access, Backend, BackendPair, Credentials, Hashing, Identity, Login, LoginRefused, PasswordHash,
    Question as RemoteQuestion, Remote, Salt, network,
};
use broker::ids::ShardId;
use hashbrown::HashMap;
use queue::Ticket;
use tokio::runtime;
use tokio::sync::{Semaphore, oneshot};

use crate::clock::Clock;
use crate::incoming::{Checked, Incoming, Shards};
use crate::renewal::renew_hash;

/// The number of passwords that are hashed at the same time. Each hash takes a core and [7 MiB](broker::access::Hashing), so they
/// never take more than two cores and 14 MiB. The hash of an imported user may ask for up to 64 MiB.
const THREADS: usize = 2;

/// The most logins that external backends check at the same time, each a task with a name and a password. Further ones are refused at
/// once. It is more than a server can answer, so that only a flood or an outage reaches it.
const IN_FLIGHT_MAX: usize = 4096;

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
}

impl Backends {
    /// Tasks that ask external backends run on `runtime`. A login that takes longer than `patience` is refused.
    pub fn new(chain: Vec<BackendPair>, runtime: runtime::Handle, patience: Duration) -> Self {
        Self { chain, over_http: None, runtime, patience, room: Arc::new(Semaphore::new(IN_FLIGHT_MAX)) }
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
    /// Returns the network whose turn it takes. New passwords share one of their own.
    fn network(&self) -> IpAddr {
        match self {
            Self::Shard(_, _, login) | Self::Desk(login, _) | Self::Internal(login, _) => network(login.from),
            Self::Hash(..) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        }
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
    by_network: HashMap<IpAddr, VecDeque<Question>>,
    /// The networks in `by_network`, the next one first.
    turns: VecDeque<IpAddr>,
    has_ended: bool,
}

impl Waiting {
    fn push(&mut self, question: Question) {
        let from = question.network();
        let own = self.by_network.entry(from).or_default();
        if own.is_empty() {
            self.turns.push_back(from);
        }
        own.push_back(question);
    }

    /// Removes the first question of the network whose turn it is.
    fn pop(&mut self) -> Option<Question> {
        let from = self.turns.pop_front()?;
        let own = self.by_network.get_mut(&from)?;
        let question = own.pop_front();
        if own.is_empty() {
            self.by_network.remove(&from);
        } else {
            self.turns.push_back(from);
        }
        question
    }
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, question: Question) {
        self.lock().push(question);
        self.bell.notify_one();
    }

    /// Waits for the next question. Returns `None` when the line has ended.
    fn next(&self) -> Option<Question> {
        let mut waiting = self.lock();
        loop {
            if waiting.has_ended {
                return None;
            }
            if let Some(question) = waiting.pop() {
                return Some(question);
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
                while let Some(question) = line.next() {
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
                            drop(reply.send(renewing(
                                &login,
                                access.admit(&login).and_then(|()| access.find(&login)),
                            )))
                        }
                        Question::Hash(_, reply) if reply.is_closed() => {}
                        Question::Hash(NewHash { hashing, salt, password }, reply) => {
                            drop(reply.send(hashing.hash(salt, &password)));
                        }
                    }
                }
            })?;
        }
        Ok(Self { line: handle, shards, access, backends, clock })
    }

    /// Checks the login of a connection. The shard receives the result as [`Incoming::Login`].
    pub fn ask(&self, shard: ShardId, ticket: Ticket, login: Login) {
        let Some(Backends { runtime, .. }) = &self.backends else {
            return self.line.0.push(Question::Shard(shard, ticket, login));
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
        self.access.admit(login)?;
        let Some(backends) = &self.backends else { return self.access.check(login) };
        let Ok(_place) = backends.room.try_acquire() else {
            return Err(LoginRefused::Unavailable("too many logins are being checked".into()));
        };
        let checked = tokio::time::timeout(backends.patience, self.ask_all(login, chain(backends))).await;
        checked
            .unwrap_or_else(|_| Err(LoginRefused::Unavailable("the backends did not answer in time".into())))
    }

    /// Asks the backends one after the other, until one accepts the login.
    async fn ask_all(&self, login: &Login, chain: &[BackendPair]) -> Checked {
        let (mut refusals, mut is_known) = (Vec::new(), true);
        for pair in chain {
            match self.ask_pair(pair, login).await {
                Ok(identity) => return Ok(self.by_own_clock(identity)),
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
                self.line.0.push(Question::Internal(login.clone(), reply));
                // Without an answer, the node is stopping.
                answer.await.unwrap_or_else(|_| Err(LoginRefused::Unavailable("the node stops".into())))
            }
            Backend::External(backend) => backend.clone().check(login).await,
        }
    }

    /// Hashes a new password for the desk.
    pub fn hash(&self, new: NewHash) -> oneshot::Receiver<PasswordHash> {
        let (reply, answer) = oneshot::channel();
        self.line.0.push(Question::Hash(new, reply));
        answer
    }

    /// Checks a login at the desk.
    pub fn ask_for_desk(&self, login: Login) -> oneshot::Receiver<Checked> {
        let (reply, answer) = oneshot::channel();
        let Some(Backends { runtime, .. }) = &self.backends else {
            self.line.0.push(Question::Desk(login, reply));
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
        let credentials = Credentials::Anonymous { user: number.to_string() };
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
            waiting.push(question("192.0.2.1", number));
        }
        waiting.push(question("192.0.2.2", 10));
        waiting.push(question("2001:db8::1", 20));
        waiting.push(question("2001:db8::2", 21));
        let order: Vec<u64> = std::iter::from_fn(|| waiting.pop()).map(number).collect();
        assert_eq!(order, [0, 10, 20, 1, 21, 2, 3]);
        assert!(waiting.by_network.is_empty() && waiting.turns.is_empty());
    }
}
