use broker::admin_api::AttemptsRow;
use broker::admin_api::UnclaimedSums;
use broker::explain::Subject;
use std::time::Duration;

use catalog::access::{
    AuthAttempts, Authority, Backend, BackendPair, Checking, ExternalBackend, Failed, Hashing, LoginRefused,
    Permissions, User,
};
use catalog::ids::ConnectionId;
use catalog::{Arguments, Catalog, CatalogError, Destination};
use tokio::sync::mpsc;

use super::super::ask::{DEADLINES, Deadlines};
use super::super::*;
use super::*;
use crate::Backends;
use crate::clock::Clock;
use crate::facts::Restored;
use crate::handshakes::Handshakes;
use crate::incoming::Incoming;
use crate::node::make_shards;

use crate::shard::{Occupancy, StorageLimits};

fn admission() -> Arc<Admission> {
    let occupancy = Arc::new(Occupancy::new(1));
    Arc::new(Admission::new(0, Handshakes::new(1, 1), occupancy, Vec::new()))
}

#[test]
fn pages_are_parts_of_the_sorted_list() {
    let mut catalog = Catalog::default();
    for name in (0..20).map(|i| format!("q{:02}", i * 7 % 20)) {
        let declare = DeclareQueue::new("/", name, Arguments::new());
        let decision = catalog.decide(Command::DeclareQueue(declare), &mut catalog.queue_ids()).unwrap();
        decision.changes.iter().for_each(|change| catalog.apply(change));
    }
    let all: Vec<_> = catalog.queues().collect();
    let sorted: Vec<String> = (0..20).map(|i| format!("q{i:02}")).collect();
    for (offset, limit) in [(0, 20), (0, 7), (7, 7), (14, 7), (19, 1), (20, 5), (99, 5), (3, 0), (0, 99)] {
        let page = page_of(all.clone(), offset, limit);
        let names: Vec<&str> = page.iter().map(|q| &*q.name).collect();
        let expected: Vec<&String> = sorted.iter().skip(offset).take(limit).collect();
        assert_eq!(names, expected, "{limit} from {offset} on");
    }
}

fn run() -> Run {
    let (identity, unclaimed) = (wal::Identity::default(), UnclaimedSums::default());
    Run { clock: Clock::start(), identity, unclaimed, nodes: SeenNodes::default() }
}

fn ways(shards: Shards) -> Ways {
    Ways { notices: NoticeWay::new(shards.clone()), shards }
}

/// Returns an admin API that has only these shards.
fn api(shards: Shards, access: Arc<Access>) -> AdminApi {
    let logins = Logins::start(shards.clone(), access.clone(), None, Clock::start()).unwrap();
    AdminApi::new(ways(shards), Arc::default(), access, logins, run(), Arc::default(), admission())
}

/// A time that is so long that no test waits for it, and one that has passed soon.
const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(1);

/// Changes wait for the log and for a shard that a slow disk delays, so they must be given more time than questions about numbers.
const _: () = assert!(DEADLINES.numbers.as_millis() < DEADLINES.change.as_millis());

/// Returns an admin API with other deadlines.
fn with_deadlines(mut api: AdminApi, deadlines: Deadlines) -> AdminApi {
    Arc::get_mut(&mut api.inner).expect("nobody else has the api").deadlines = deadlines;
    api
}

fn administrator() -> Identity {
    Identity::internal("guest", "administrator")
}

fn guest() -> User {
    User {
        name: "guest".into(),
        hash: Hashing::Sha256.hash([1; 16], &Secret::new("guest")),
        tags: vec!["administrator".into()],
        loopback_only: false,
        permissions: [("/".into(), Permissions::ALL)].into(),
    }
}

/// The log shows why a login over HTTP was refused. The client is not told.
#[tokio::test]
async fn the_reason_of_a_refused_login_is_known() {
    let api = api(Vec::new(), Arc::new(Access::new([guest()])));
    let ask = async |password: &str| {
        api.login("guest", &Secret::new(password.to_owned()), [127, 0, 0, 1].into()).await
    };
    let because = |why: &str| Err(AdminError::LoginRefused(why.into()));
    assert_eq!(ask("wrong").await, because("unknown user or wrong password"));
}

/// Failures of an address that guesses passwords wait, and above a number of them the socket is closed. A right password is let in
/// at once.
#[tokio::test]
async fn a_guesser_over_http_waits() {
    let access = Arc::new(Access::new([guest()]));
    let api = api(Vec::new(), access.clone());
    let ask = async |password: &'static str| {
        api.login("guest", &Secret::new(password), [127, 0, 0, 1].into()).await
    };
    for _ in 0..20 {
        assert!(matches!(ask("wrong").await, Err(AdminError::LoginRefused(_))));
    }
    // The caller waits, after it has logged the failure: a client that hangs up meanwhile is counted and logged like any other.
    let Err(AdminError::LoginWaits { why, ms: 100 }) = ask("wrong").await else { panic!("it is wrong") };
    assert!(why.contains("so the answer waits for"), "{why}");
    assert_eq!(api.inner.logins.over_http(), AuthAttempts { all: 21, succeeded: 0, failed: 21 });
    let wrong = Refusal::from(&LoginRefused::UnknownUserOrPassword);
    let fail = || access.fail([127, 0, 0, 1].into(), "guest", &wrong, api.inner.clock.now_ms(), 60_000);
    while fail() != Failed::Closed {}
    let Err(AdminError::LoginClosed(why)) = ask("wrong").await else { panic!("no place is free") };
    assert!(why.contains("64 failed logins of its address wait"), "{why}");
    assert!(ask("guest").await.is_ok());
}

/// The check of this login never ends. The caller gets an answer in time, and other requests are not delayed.
#[tokio::test]
async fn a_login_that_nobody_checks_is_given_up() {
    let silent = || api_with(vec![Backend::External(Arc::new(Elsewhere { answers: false })).into()]);
    let password = Secret::new("guest");
    let api = with_deadlines(silent(), Deadlines { login: LONG, numbers: SHORT, change: SHORT });
    let login = api.login("guest", &password, [127, 0, 0, 1].into());
    let mut login = std::pin::pin!(login);
    tokio::select! {
        biased;
        given_up = &mut login => panic!("it was given up before its deadline: {given_up:?}"),
        () = tokio::time::sleep(20 * SHORT) => {}
    }
    assert_eq!(api.alarms(&administrator()), Ok(Vec::new()), "others go on");

    let api = with_deadlines(silent(), Deadlines { login: SHORT, numbers: LONG, change: LONG });
    assert_eq!(api.login("guest", &password, [127, 0, 0, 1].into()).await, Err(AdminError::TimedOut));
}

/// A backend that knows ann, if it answers.
#[derive(Debug)]
struct Elsewhere {
    answers: bool,
}

impl ExternalBackend for Elsewhere {
    fn check<'a>(self: Arc<Self>, login: &'a Login) -> Checking<'a> {
        Box::pin(async move {
            match &login.credentials {
                _ if !self.answers => std::future::pending().await,
                Credentials::Plain { user, .. } if user == "ann" => {
                    Ok(Identity::internal("ann", "monitoring"))
                }
                _ => Err(LoginRefused::External("elsewhere: not ann".into())),
            }
        })
    }
}

fn api_with(chain: Vec<BackendPair>) -> AdminApi {
    let access = Arc::new(Access::new([guest()]));
    let backends = Backends::new(chain, tokio::runtime::Handle::current(), 2 * LONG);
    let logins = Logins::start(Vec::new(), access.clone(), Some(backends), Clock::start()).unwrap();
    AdminApi::new(ways(Vec::new()), Arc::default(), access, logins, run(), Arc::default(), admission())
}

#[tokio::test]
async fn backends_are_asked_in_their_order_until_one_knows_the_client() {
    let external = Backend::External(Arc::new(Elsewhere { answers: true }));
    for chain in [[Backend::Internal, external.clone()], [external, Backend::Internal]] {
        let api = api_with(chain.map(BackendPair::from).to_vec());
        let ask = async |user: &str| api.login(user, &Secret::new("guest"), [127, 0, 0, 1].into()).await;
        for _ in 0..100 {
            assert_eq!(ask("ann").await.map(|who| who.user), Ok("ann".into()), "not a failed login");
            assert_eq!(ask("guest").await.map(|who| who.user), Ok("guest".into()));
        }
        let Err(AdminError::LoginRefused(why)) = ask("bob").await else { panic!("bob is known") };
        assert!(
            why.contains("elsewhere: not ann") && why.contains("unknown user or wrong password"),
            "{why}"
        );
    }
}

/// A user of a token with the name of a user of the catalog is another one.
#[tokio::test]
async fn users_of_two_backends_are_told_apart() {
    #[derive(Debug)]
    struct Tokens;
    impl ExternalBackend for Tokens {
        fn check<'a>(self: Arc<Self>, login: &'a Login) -> Checking<'a> {
            Box::pin(async move {
                let user = login.credentials.user().into();
                let token = Some(Arc::default());
                Ok(Identity { user, tags: [].into(), is_of_catalog: false, remote: None, token })
            })
        }
    }
    let chain = [Backend::Internal, Backend::External(Arc::new(Tokens))];
    let api = api_with(chain.map(BackendPair::from).to_vec());
    let ask =
        async |password| api.login("guest", &Secret::new(password), [127, 0, 0, 1].into()).await.unwrap();
    let (internal, other) = (ask("guest").await, ask("a token").await);
    assert_eq!((internal.owner().name, other.owner().name), ("guest", "guest"));
    assert_eq!((internal.authority(), other.authority()), (Authority::Internal, Authority::OAuth2));
    let namesakes = || api.inner.checker.namesakes();
    assert_eq!(namesakes(), 1, "the log has warned");
    ask("a token").await;
    assert_eq!(namesakes(), 1, "once");
}

#[tokio::test]
async fn logins_are_counted_by_protocol_and_by_source() {
    let guest_at_home = User { loopback_only: true, ..guest() };
    let api = api(Vec::new(), Arc::new(Access::new([guest_at_home]).tracking_sources(true)));
    for (user, password, from) in [
        ("guest", "guest", [127, 0, 0, 1]),
        ("guest", "wrong", [127, 0, 0, 1]),
        ("guest", "guest", [127, 0, 0, 1]),
        ("guest", "guest", [192, 0, 2, 1]),
    ] {
        let _ = api.login(user, &Secret::new(password), from.into()).await;
    }
    let who = administrator();
    let node = api.inner.node.to_string();
    let attempts = |all, succeeded, failed| AuthAttempts { all, succeeded, failed };
    let row = |protocol, address: Option<&str>, attempts| AttemptsRow {
        protocol,
        source: address.map(|address| (address.to_owned(), "guest".into())),
        attempts,
    };
    let rows = api.auth_attempts(&who, &node, false).await.unwrap();
    let none = AuthAttempts::default();
    assert_eq!(
        rows,
        [
            row(Protocol::Amqp10, None, none),
            row(Protocol::Amqp091, None, none),
            row(Protocol::Http, None, attempts(4, 2, 2)),
        ],
        "a user who may not come from there has failed"
    );
    let rows = api.auth_attempts(&who, &node, true).await.unwrap();
    assert_eq!(
        rows,
        [
            row(Protocol::Http, Some("127.0.0.1"), attempts(3, 2, 1)),
            row(Protocol::Http, Some("192.0.2.1"), attempts(1, 0, 1)),
        ]
    );

    // A reset does not change the metrics, which only grow.
    api.reset_auth_attempts(&who, &node).await.unwrap();
    assert_eq!(api.inner.logins.over_http(), attempts(4, 2, 2));
    let _ = api.login("guest", &Secret::new("guest"), [127, 0, 0, 1].into()).await;
    let rows = api.auth_attempts(&who, &node, false).await.unwrap();
    assert_eq!(rows[2], row(Protocol::Http, None, attempts(1, 1, 0)));
    assert_eq!(api.auth_attempts(&who, &node, true).await.unwrap().len(), 1);

    // Monitoring users see the numbers. Only administrators reset them.
    let monitor = Identity::internal("m", "monitoring");
    assert!(api.auth_attempts(&monitor, &node, true).await.is_ok());
    assert!(matches!(api.reset_auth_attempts(&monitor, &node).await, Err(AdminError::AccessRefused(_))));
    let other = api.auth_attempts(&who, "other@h", false).await;
    assert_eq!(other, Err(AdminError::no_node("other@h")));
}

/// A purge may take longer than a second, because a stalled disk blocks its shard. It used to be refused
/// after a second, although nothing was wrong with it.
#[tokio::test]
async fn a_change_waits_for_a_blocked_shard_and_numbers_do_not() {
    let who = administrator();
    let (shard, _held_up) = mpsc::unbounded_channel();
    let blocked =
        |deadlines| with_deadlines(api(vec![shard.clone()], Arc::new(Access::new([guest()]))), deadlines);

    let api = blocked(Deadlines { change: LONG, numbers: SHORT, login: SHORT });
    let changes = async {
        tokio::select! {
            purged = api.purge_queue(&who, "/", "q") => panic!("a purge was given up: {purged:?}"),
            deleted = api.delete_queue(&who, "/", "q", false, false) => {
                panic!("a deletion was given up: {deleted:?}")
            }
            closed = api.close_connection(&who, "c", "why") => panic!("a close was given up: {closed:?}"),
        }
    };
    let numbers = async {
        let numbers = api.overview(&who).await;
        assert!(matches!(numbers, Err(AdminError::TimedOut)), "{numbers:?}");
        let numbers = api.queue(&who, "/", "q").await;
        assert!(matches!(numbers, Err(AdminError::TimedOut)), "those of one queue, too: {numbers:?}");
        let subject = Subject::Queue { vhost: "/".into(), name: "q".into() };
        let explained = api.explain(&who, subject).await;
        assert!(matches!(explained, Err(AdminError::TimedOut)), "so is a look at it: {explained:?}");
    };
    tokio::select! {
        () = changes => unreachable!("each of them panics when it ends"),
        () = numbers => {}
    }

    let api = blocked(Deadlines { change: SHORT, numbers: LONG, login: LONG });
    let purged = api.purge_queue(&who, "/", "q").await;
    assert!(matches!(purged, Err(AdminError::TimedOut)), "{purged:?}");
}

/// An HTTP client is not a connection, so it cannot own an exclusive queue.
#[tokio::test]
async fn an_exclusive_queue_cannot_be_bound_over_http() {
    let mut restored = Restored::default();
    let (exclusive, connection) = (true, Some(ConnectionId::default()));
    let declare = DeclareQueue { exclusive, connection, ..DeclareQueue::new("/", "own", Arguments::new()) };
    let access = Arc::new(Access::new([guest()]));
    // A start ends what is exclusive.
    drop(restored.begin(&access).unwrap());
    let decision =
        restored.catalog.decide(Command::DeclareQueue(declare), &mut restored.catalog.queue_ids()).unwrap();
    decision.changes.into_iter().for_each(|change| restored.change(change));
    let who = administrator();
    let mut shards = make_shards(restored, 1, &Arc::default(), &access, StorageLimits::default(), 0);
    let (calls, mut called) = mpsc::unbounded_channel();
    let api = api(vec![calls], access);
    tokio::spawn(async move {
        while let Some(Incoming::Question(question)) = called.recv().await {
            shards[0].handle_question(question);
            while shards[0].turn() {}
        }
    });

    let (vhost, source, key) = ("/".into(), "amq.direct".into(), "k".into());
    let destination = Destination::Queue("own".into());
    let binding = Binding { vhost, source, destination, key, arguments: Arguments::new() };
    let locked = AdminError::Catalog(CatalogError::locked("/", "own"));
    assert_eq!(api.bind(&who, binding.clone()).await, Err(locked.clone()));
    assert_eq!(api.unbind(&who, binding.clone()).await, Err(locked));
    let error = Box::new(CatalogError::locked("/", "own"));
    let imported = api.import(&who, vec![Command::Bind(binding, Caller::Management)]).await;
    assert_eq!(imported, Err(AdminError::Catalog(CatalogError::InBatch { at: 0, error })));
}
