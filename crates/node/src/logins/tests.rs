use std::time::Duration;

use catalog::access::{Checking, ExternalBackend, Failed, Users};
use tokio::runtime::Handle as Runtime;

use super::*;
use crate::clock::Clock;

fn login(user: &str) -> Login {
    let credentials = Credentials::Plain { user: user.to_owned(), password: Secret::new("p") };
    Login { credentials, from: [192, 0, 2, 1].into(), at_ms: 1_000 }
}

/// A backend that never answers or cannot be asked.
#[derive(Debug)]
struct Down {
    answers: bool,
}

impl ExternalBackend for Down {
    fn check<'a>(self: Arc<Self>, _: &'a Login) -> Checking<'a> {
        Box::pin(async move {
            match self.answers {
                true => Err(LoginRefused::Unavailable("it is down".into())),
                false => std::future::pending().await,
            }
        })
    }
}

/// A backend that knows nobody.
#[derive(Debug)]
struct Refuses;

impl ExternalBackend for Refuses {
    fn check<'a>(self: Arc<Self>, _: &'a Login) -> Checking<'a> {
        Box::pin(async { Err(LoginRefused::External("it knows nobody".into())) })
    }
}

fn logins(access: &Arc<Access>, backends: Vec<Backend>) -> Logins {
    let chain = backends.into_iter().map(BackendPair::from).collect();
    let backends = Backends::new(chain, Runtime::current(), Duration::from_secs(600));
    Logins::start(Vec::new(), access.clone(), Some(backends), Clock::start()).expect("it starts")
}

fn is_suspect(access: &Access, user: &str) -> bool {
    matches!(access.standing(&login(user)), Standing::Suspect { .. })
}

/// Passwords of the catalog cannot be guessed without being counted while another backend is out of order.
#[tokio::test]
async fn wrong_passwords_are_counted_while_a_backend_is_down() {
    let access = Arc::new(Access::default());
    let mut users = Users::default();
    users.set(&"u".into(), Hashing::Sha256.hash([1; 16], &Secret::new("another")), &Vec::new().into());
    access.publish(Arc::new(users));
    let down = Backend::External(Arc::new(Down { answers: true }));
    let both = logins(&access, vec![down.clone(), Backend::Internal]);
    for user in ["u", "of the other"] {
        for _ in 0..21 {
            let answer = both.ask_for_admin_api(login(user)).await.expect("an answer");
            assert!(matches!(answer, Err(LoginRefused::Unavailable(_))), "{answer:?}");
        }
    }
    assert!(is_suspect(&access, "u"));
    // The users of the backend that is down try again and again, and guess nothing.
    assert!(!is_suspect(&access, "of the other"));
    // Nothing is known about these.
    let alone = logins(&access, vec![down]);
    for _ in 0..21 {
        assert!(alone.ask_for_admin_api(login("v")).await.expect("an answer").is_err());
    }
    assert!(!is_suspect(&access, "v"));
}

/// Whoever sends no password guesses none: such a login neither counts nor waits among the guesses of its address.
#[tokio::test]
async fn logins_without_a_password_are_no_guesses() {
    let access = Arc::new(Access::default());
    let chains = [vec![Backend::Internal], vec![Backend::External(Arc::new(Refuses)), Backend::Internal]];
    let (user, at_ms) = ("nobody".to_owned(), 1_000);
    for backends in chains {
        let logins = logins(&access, backends);
        for credentials in
            [Credentials::Anonymous { user: user.clone() }, Credentials::Certificate { user: user.clone() }]
        {
            let login = Login { credentials, ..login("") };
            for _ in 0..100 {
                let answer = logins.ask_for_admin_api(login.clone()).await.expect("an answer");
                let refusal = Refusal::from(&answer.expect_err("nobody has this name"));
                assert!(!refusal.is_guess, "{refusal:?}");
            }
        }
    }
    assert!(!is_suspect(&access, &user), "nothing was counted");
    (0..100).for_each(|n| access.note_failure(&login(&n.to_string())));
    assert!(is_suspect(&access, &user));
    let refusal = Refusal::from(&LoginRefused::NoPassword(String::new()));
    let failed = access.fail([192, 0, 2, 1].into(), &user, &refusal, at_ms, 0);
    assert_eq!(failed, Failed::Refused, "it does not wait among them");
}

/// Logins that may be guesses wait for one of a few places, and those who hang up wait no longer.
#[tokio::test]
async fn guesses_for_other_backends_wait_in_turn_and_leave_when_they_hang_up() {
    let access = Arc::new(Access::default());
    (0..100).for_each(|n| access.note_failure(&login(&n.to_string())));
    let silent = logins(&access, vec![Backend::External(Arc::new(Down { answers: false }))]);
    let backends = silent.backends.clone().expect("there are some");
    let mut askers: Vec<_> =
        (0..SUSPECTS_IN_FLIGHT_MAX).map(|n| silent.ask_for_admin_api(login(&format!("first-{n}")))).collect();
    tokio::task::yield_now().await;
    assert_eq!(backends.suspects().in_flight, SUSPECTS_IN_FLIGHT_MAX);
    for n in 0..10_000 {
        drop(silent.ask_for_admin_api(login(&format!("gone-{n}"))));
    }
    askers.push(silent.ask_for_admin_api(login("stays")));
    let waiting = format!("{:?}", backends.suspects().waiting).matches("at_ms").count();
    assert!(waiting < 1_000, "{waiting} wait");
    assert_eq!(backends.suspects().in_flight, SUSPECTS_IN_FLIGHT_MAX);
}
