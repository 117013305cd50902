//! Checks logins on two separate threads: a slow check delays only other logins, and a client that asks for many delays
//! mostly its own.
//!
//! ```text
//!   shards, admin API ──> Line: right within the last minute ──────────────────first──────────> two threads ──> shard, admin API
//!                ├─> a queue per network of clients ──one of each network in turn─────────> two threads
//!                └─> what may be a guess: a queue per network and user ──in turn──────────> one of the two
//! ```
//!
//! A login may be a guess if many logins of its address have failed lately, and if it was not right within the last minute
//! (`catalog::access::Access::standing`). It is checked like any other, because only that tells a right password from a wrong one.
//!
//! If the configuration names other backends than the catalog, each login is a task that asks one after the other. The two threads
//! are then the backend `internal`. Logins that may be guesses wait in a line of their own for one of a few places.

mod line;

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use amqp10::sasl::Secret;
use catalog::access::{
    Access, Authority, Backend, BackendPair, Credentials, Hashing, Identity, Login, LoginRefused,
    PasswordHash, Question as RemoteQuestion, Refusal, Remote, Salt, Standing,
};
use catalog::ids::ShardId;
use hashbrown::HashSet;
use queue::Ticket;
use tokio::runtime;
use tokio::sync::{Semaphore, oneshot};

use self::line::{Entry, Line, Waiting};
use crate::clock::Clock;
use crate::incoming::{Checked, Incoming, Shards};
use crate::renewal::renew_hash;

/// The number of passwords that are hashed at the same time. Each hash takes a core and [7 MiB](catalog::access::Hashing), so they
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
    /// Those of them that may be guesses.
    suspects: Arc<Mutex<Suspects>>,
}

/// The logins that external backends check and that may be guesses.
#[derive(Debug, Default)]
struct Suspects {
    waiting: Waiting,
    /// At most [`SUSPECTS_IN_FLIGHT_MAX`].
    in_flight: usize,
}

impl Backends {
    /// Tasks that ask external backends run on `runtime`. A login that takes longer than `patience` is refused.
    pub fn new(chain: Vec<BackendPair>, runtime: runtime::Handle, patience: Duration) -> Self {
        let room = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
        Self { chain, over_http: None, runtime, patience, room, suspects: Arc::default() }
    }

    /// Sets the backends that check logins over HTTP. `None`: those of other clients.
    #[must_use]
    pub fn with_http_chain(mut self, chain: Option<Vec<BackendPair>>) -> Self {
        self.over_http = chain;
        self
    }

    fn suspects(&self) -> MutexGuard<'_, Suspects> {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the backends that check logins of clients.
    fn of_clients(&self) -> &[BackendPair] {
        &self.chain
    }

    /// Returns the backends that check logins over HTTP.
    fn of_admin_api(&self) -> &[BackendPair] {
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
    /// The last part tells whether the connection is still there.
    Shard(ShardId, Ticket, Login, Weak<()>),
    AdminApi(Login, oneshot::Sender<Checked>),
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
            Self::Shard(_, _, login, _) | Self::AdminApi(login, _) | Self::Internal(login, _) => Some(login),
            Self::Hash(..) => None,
        }
    }

    /// Returns true if nobody waits for the answer any more.
    fn is_gone(&self) -> bool {
        match self {
            Self::Shard(.., alive) => alive.strong_count() == 0,
            Self::AdminApi(_, reply) | Self::Internal(_, reply) => reply.is_closed(),
            Self::Hash(_, reply) => reply.is_closed(),
        }
    }
}

/// Ends the line when the last handle is dropped.
#[derive(Debug)]
struct Handle(Arc<Line>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Logins {
    /// Starts the threads. They end when the last handle is dropped.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn start(
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
                while let Some(entry) = line.next(takes_suspects, last_was_suspect, &access) {
                    if entry.question.is_gone() {
                        give_up(&shards, entry.question);
                        continue;
                    }
                    last_was_suspect = matches!(entry.standing, Standing::Suspect { .. });
                    match entry.question {
                        Question::Shard(shard, ticket, login, _) => {
                            send(&shards, shard, ticket, renewing(&login, access.check(&login)));
                        }
                        Question::AdminApi(login, reply) => {
                            drop(reply.send(renewing(&login, access.check(&login))))
                        }
                        Question::Internal(login, reply) => {
                            drop(reply.send(renewing(&login, access.find(&login))))
                        }
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

    /// Checks the login of a connection, unless `alive` is gone before. The shard receives the result as [`Incoming::Login`].
    pub(crate) fn ask(&self, shard: ShardId, ticket: Ticket, login: Login, alive: Weak<()>) {
        self.begin(Question::Shard(shard, ticket, login, alive));
    }

    /// Begins a login, or lets it wait for its turn.
    fn begin(&self, question: Question) {
        let entry = Entry::new(question, &self.access);
        let Some(backends) = &self.backends else { return self.push(entry) };
        if !matches!(entry.standing, Standing::Suspect { .. }) {
            let logins = self.clone();
            backends.runtime.spawn(async move { logins.answer_external(entry.question).await });
            return;
        }
        let mut suspects = backends.suspects();
        let gone = suspects.waiting.push(entry);
        let has_place = suspects.in_flight < SUSPECTS_IN_FLIGHT_MAX;
        suspects.in_flight += usize::from(has_place);
        drop(suspects);
        gone.into_iter().for_each(|question| give_up(&self.shards, question));
        if has_place {
            let mut place = SuspectPlace { logins: self.clone(), is_held: true };
            backends.runtime.spawn(async move {
                while let Some(question) = place.next() {
                    place.logins.answer_external(question).await;
                }
            });
        }
    }

    /// Returns true if nobody but the catalog is asked about logins.
    pub(crate) fn asks_catalog_only(&self) -> bool {
        self.backends.is_none()
    }

    /// Returns the number of logins of an address that wait to be checked. For IPv6, it is that of the first 64 bits.
    pub(crate) fn unchecked(&self, from: IpAddr) -> usize {
        let elsewhere = self.backends.as_ref().map_or(0, |backends| backends.suspects().waiting.count(from));
        self.line.0.count(from) + elsewhere
    }

    /// Puts a question into the line of the threads.
    fn push(&self, entry: Entry) {
        let gone = self.line.0.push(entry);
        gone.into_iter().for_each(|question| give_up(&self.shards, question));
    }

    /// Asks the backends about a login of a connection or of the admin API, and answers it.
    async fn answer_external(&self, question: Question) {
        match question {
            Question::Shard(shard, ticket, login, _) => {
                let checked = self.check_external(&login, Backends::of_clients).await;
                send(&self.shards, shard, ticket, checked);
            }
            // If the caller has given up, nobody needs the result.
            Question::AdminApi(login, reply) => {
                drop(reply.send(self.check_external(&login, Backends::of_admin_api).await));
            }
            // These are for the threads.
            Question::Internal(..) | Question::Hash(..) => {}
        }
    }

    /// Asks somebody else about a permission. The shard receives [`Incoming::Permission`].
    pub(crate) fn ask_permission(
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
        let (mut refusals, mut is_known, mut is_guess, mut is_wrong) = (Vec::new(), true, false, false);
        for (at, pair) in chain.iter().enumerate() {
            match self.ask_pair(pair, login).await {
                Ok(identity) => {
                    self.access.note_success(login);
                    self.warn_of_namesake(&identity, &chain[..at]);
                    return Ok(self.by_own_clock(identity));
                }
                Err(refused) => {
                    let refuses_password = Refusal::from(&refused).is_guess;
                    is_known &= !matches!(refused, LoginRefused::Unavailable(_));
                    is_guess |= refuses_password;
                    is_wrong |= refuses_password && !self.is_of_others(&pair.authn, login);
                    refusals.push(refused.to_string());
                }
            }
        }
        let why = refusals.join("; ");
        // While a backend is out of order, its users are refused by the others. They guess nothing. But passwords of users whom
        // another backend knows could be guessed then.
        if is_wrong || is_known && is_guess {
            self.access.note_failure(login);
        }
        if !is_known {
            return Err(LoginRefused::Unavailable(why));
        }
        match login.credentials.has_password() {
            true => Err(LoginRefused::External(why)),
            false => Err(LoginRefused::NoPassword(why)),
        }
    }

    /// Returns true if this backend does not know the user of a login, so that others may.
    fn is_of_others(&self, backend: &Backend, login: &Login) -> bool {
        matches!(backend, Backend::Internal) && self.access.users().get(login.credentials.user()).is_none()
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
    pub(crate) fn namesakes(&self) -> usize {
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
                self.push(Entry::new(Question::Internal(login.clone(), reply), &self.access));
                // Without an answer, the node is stopping.
                answer.await.unwrap_or_else(|_| Err(LoginRefused::Unavailable("the node stops".into())))
            }
            Backend::External(backend) => backend.clone().check(login).await,
        }
    }

    /// Hashes a new password for the admin API.
    pub(crate) fn hash(&self, new: NewHash) -> oneshot::Receiver<PasswordHash> {
        let (reply, answer) = oneshot::channel();
        self.push(Entry::new(Question::Hash(new, reply), &self.access));
        answer
    }

    /// Checks a login at the admin API.
    pub(crate) fn ask_for_admin_api(&self, login: Login) -> oneshot::Receiver<Checked> {
        let (reply, answer) = oneshot::channel();
        self.begin(Question::AdminApi(login, reply));
        answer
    }
}

/// One of the [`SUSPECTS_IN_FLIGHT_MAX`] places. It is free again when this is dropped.
struct SuspectPlace {
    logins: Logins,
    is_held: bool,
}

impl SuspectPlace {
    /// Returns the next login that waits for the place. If there is none, gives the place up.
    fn next(&mut self) -> Option<Question> {
        let backends = self.logins.backends.as_ref()?;
        let mut gone = Vec::new();
        let mut suspects = backends.suspects();
        let next = loop {
            match suspects.waiting.pop_suspect() {
                Some(entry) if entry.question.is_gone() => gone.push(entry.question),
                Some(entry) => break Some(entry.question),
                None => break None,
            }
        };
        if next.is_none() {
            (suspects.in_flight, self.is_held) = (suspects.in_flight - 1, false);
        }
        drop(suspects);
        gone.into_iter().for_each(|question| give_up(&self.logins.shards, question));
        next
    }
}

impl Drop for SuspectPlace {
    fn drop(&mut self) {
        if let Some(backends) = self.logins.backends.as_ref().filter(|_| self.is_held) {
            backends.suspects().in_flight -= 1;
        }
    }
}

/// Drops a question whose asker has gone. Its ticket is free again when the shard gets an answer.
fn give_up(shards: &Shards, question: Question) {
    if let Question::Shard(shard, ticket, ..) = question {
        send(shards, shard, ticket, Err(LoginRefused::Unavailable("the client has gone".into())));
    }
}

/// Sends the result of a login to the shard of the connection. Sending fails if the shard has ended; then it needs none.
fn send(shards: &Shards, shard: ShardId, ticket: Ticket, checked: Checked) {
    if let Some(to) = shards.get(usize::from(shard)) {
        drop(to.send(Incoming::Login(ticket, checked)));
    }
}

#[cfg(test)]
mod tests;
