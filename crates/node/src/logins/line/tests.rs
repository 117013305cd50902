use std::sync::Arc;

use amqp10::sasl::Secret;
use catalog::access::{Credentials, Hashing, Login, User};
use queue::Ticket;
use tokio::sync::{mpsc, oneshot};

use super::*;
use crate::clock::Clock;
use crate::incoming::{Checked, Incoming};
use crate::logins::Logins;

/// The askers, who keep their questions in the line.
type Askers = Vec<oneshot::Receiver<Checked>>;

/// Returns an entry whose login has a number as its time.
fn entry(from: &str, user: &str, number: u64, standing: Standing, askers: &mut Askers) -> Entry {
    let credentials = Credentials::Plain { user: user.to_owned(), password: Secret::new("p") };
    let from = from.parse().expect("an address");
    let (reply, asker) = oneshot::channel();
    askers.push(asker);
    let question = Question::AdminApi(Login { credentials, from, at_ms: number }, reply);
    Entry { question, standing, network: network(from), name: user.into() }
}

fn number(entry: &Entry) -> u64 {
    entry.question.login().expect("a login").at_ms
}

/// Returns the order in which a thread takes what waits.
fn order(waiting: &mut Waiting, takes_suspects: bool, access: &Access) -> Vec<u64> {
    let mut last_was_suspect = false;
    let next = || {
        let entry = waiting.pop(takes_suspects, last_was_suspect, access)?;
        last_was_suspect = matches!(entry.standing, Standing::Suspect { .. });
        Some(number(&entry))
    };
    std::iter::from_fn(next).collect()
}

const GUESS: Standing = Standing::Suspect { is_proven: false };
const PROVEN: Standing = Standing::Suspect { is_proven: true };

#[test]
fn networks_take_turns() {
    let (mut waiting, access, mut askers) = (Waiting::default(), Access::default(), Askers::new());
    let mut push = |waiting: &mut Waiting, from, number| {
        waiting.push(entry(from, "u", number, Standing::Calm, &mut askers));
    };
    for number in 0..4 {
        push(&mut waiting, "192.0.2.1", number);
    }
    push(&mut waiting, "192.0.2.2", 10);
    push(&mut waiting, "2001:db8::1", 20);
    push(&mut waiting, "2001:db8::2", 21);
    assert_eq!(order(&mut waiting, false, &access), [0, 10, 20, 1, 21, 2, 3]);
    assert!(waiting.calm.by_key.is_empty() && waiting.calm.next.is_empty() && waiting.len == 0);
}

#[test]
fn guesses_take_turns_by_user_and_leave_a_thread_to_others() {
    let (access, mut askers) = (Access::default(), Askers::new());
    let mut fill = |waiting: &mut Waiting| {
        for (number, user) in [(0, "a"), (2, "a"), (4, "a"), (6, "a"), (1, "b")] {
            waiting.push(entry("192.0.2.1", user, number, GUESS, &mut askers));
        }
        waiting.push(entry("192.0.2.2", "a", 10, GUESS, &mut askers));
        for number in 20..23 {
            waiting.push(entry("192.0.2.3", "a", number, Standing::Calm, &mut askers));
        }
    };
    let mut waiting = Waiting::default();
    fill(&mut waiting);
    // The one of another user waits for one guess of each network.
    assert_eq!(order(&mut waiting, true, &access), [0, 20, 10, 21, 1, 22, 2, 4, 6]);
    fill(&mut waiting);
    assert_eq!(order(&mut waiting, false, &access), [20, 21, 22], "nobody waits for a guess there");
    assert_eq!(order(&mut waiting, true, &access), [0, 10, 1, 2, 4, 6]);
    assert!(waiting.suspect.by_key.is_empty() && waiting.suspect.next.is_empty() && waiting.len == 0);
}

/// However many names somebody invents, a user who has logged in from the address lately waits for one of them.
#[test]
fn invented_names_do_not_take_the_turns_of_users_who_are_known_at_the_address() {
    let (mut waiting, access, mut askers) = (Waiting::default(), Access::default(), Askers::new());
    for number in 0..2_000 {
        waiting.push(entry("192.0.2.1", &format!("invented-{number}"), number, GUESS, &mut askers));
    }
    waiting.push(entry("192.0.2.1", "anna", 5_000, PROVEN, &mut askers));
    waiting.push(entry("192.0.2.1", "bob", 5_001, PROVEN, &mut askers));
    assert_eq!(order(&mut waiting, true, &access)[..5], [0, 5_000, 1, 5_001, 2]);
}

/// However often each name is guessed, a user who is new at the address waits for one guess of each (`docs/operations/limits.md`,
/// Failed logins).
#[test]
fn a_new_user_waits_for_one_guess_of_each_name() {
    const NAMES: u64 = 50;
    let (mut waiting, access, mut askers) = (Waiting::default(), Access::default(), Askers::new());
    for number in 0..10 * NAMES {
        let name = format!("invented-{}", number % NAMES);
        waiting.push(entry("192.0.2.1", &name, number, GUESS, &mut askers));
    }
    waiting.push(entry("192.0.2.1", "new", 5_000, GUESS, &mut askers));
    assert_eq!(order(&mut waiting, true, &access).iter().position(|n| *n == 5_000), Some(NAMES as usize));
}

#[test]
fn logins_that_were_right_lately_wait_for_nobody() {
    let (mut waiting, access, mut askers) = (Waiting::default(), Access::default(), Askers::new());
    waiting.push(entry("192.0.2.1", "u", 0, Standing::Calm, &mut askers));
    waiting.push(entry("192.0.2.1", "u", 1, GUESS, &mut askers));
    waiting.push(entry("192.0.2.1", "anna", 2, Standing::Known, &mut askers));
    waiting.push(entry("192.0.2.1", "anna", 3, Standing::Known, &mut askers));
    assert_eq!(order(&mut waiting, true, &access), [2, 3, 1, 0]);
}

/// A burst arrives before its first failures are counted. Its rest is for the thread of guesses as soon as they are.
#[test]
fn a_burst_of_guesses_leaves_the_calm_line_when_its_first_ones_have_failed() {
    let (mut waiting, access, mut askers) = (Waiting::default(), access_of(&["u"]), Askers::new());
    for n in 0..2_000 {
        waiting.push(entry("192.0.2.1", &format!("u-{n}"), n + 1, Standing::Calm, &mut askers));
    }
    let mut checked = 0;
    while let Some(entry) = waiting.pop(false, false, &access) {
        assert!(access.check(entry.question.login().unwrap()).is_err());
        checked += 1;
    }
    assert!((60..70).contains(&checked), "{checked} took the turns of others");
    assert_eq!(waiting.len, 2_000 - checked);
    waiting.push(entry("192.0.2.1", "u", 1, Standing::Calm, &mut askers));
    assert!(waiting.pop(false, false, &access).is_none(), "it may be a guess, too");
    assert_eq!(order(&mut waiting, true, &access).len(), 2_001 - checked);
}

/// Who sends logins and hangs up keeps no memory of the broker.
#[test]
fn logins_of_askers_who_have_gone_are_removed() {
    let (mut waiting, mut staying, mut gone) = (Waiting::default(), Askers::new(), 0);
    for n in 0..10_000 {
        let standing = [Standing::Known, Standing::Calm, GUESS, PROVEN][n as usize % 4];
        let from = format!("192.0.2.{}", n % 7);
        let mut askers = Askers::new();
        let mut user = format!("u-{}", n % 11);
        if n % 100 == 0 {
            user = "stays".to_owned();
        }
        let entry = entry(&from, &user, n, standing, &mut askers);
        if n % 100 == 0 {
            staying.append(&mut askers);
        }
        drop(askers);
        gone += waiting.push(entry).len();
        assert!(waiting.len <= SWEEP_MIN.max(4 * staying.len()) + 1, "{} wait", waiting.len);
        assert_eq!(waiting.len + gone, n as usize + 1);
    }
    let access = Access::default();
    let left = order(&mut waiting, true, &access);
    assert_eq!(left.iter().filter(|n| *n % 100 == 0).count(), staying.len(), "the others still wait");
}

/// Users with the password `right`.
fn access_of(users: &[&str]) -> Access {
    let user = |name: &&str| User {
        name: (*name).into(),
        hash: Hashing::Sha256.hash([1; 16], &Secret::new("right")),
        tags: Vec::new(),
        loopback_only: false,
        permissions: [].into(),
    };
    Access::new(users.iter().map(user))
}

/// The threads themselves work while an address guesses. What they answer is counted in its order.
#[test]
fn threads_answer_right_passwords_while_most_guesses_wait() {
    /// The guesses that wait, and the names that are guessed with.
    const GUESSES: u64 = 60;
    const NAMES: u64 = 3;
    const NOW_MS: u64 = 1_000_000_000;
    let access = Arc::new(access_of(&["lately", "today", "never", "elsewhere"]).remembering([1; 32]));
    let login = |user: &str, password: &'static str, from: [u8; 4], at_ms| Login {
        credentials: Credentials::Plain { user: user.to_owned(), password: Secret::new(password) },
        from: from.into(),
        at_ms,
    };
    let (guesser, other) = ([192, 0, 2, 1], [198, 51, 100, 1]);
    for (user, at_ms) in [("lately", NOW_MS - 1_000), ("today", NOW_MS - 3_600_000)] {
        access.check(&login(user, "right", guesser, at_ms)).expect("it is right");
    }
    (0..200)
        .for_each(|n| access.note_failure(&login(&format!("guess-{}", n % NAMES), "wrong", guesser, NOW_MS)));

    let (shard, mut answers) = mpsc::unbounded_channel();
    let logins = Logins::start(vec![shard], access.clone(), None, Clock::start()).expect("it starts");
    let alive = Arc::new(());
    let mut tickets = 0;
    let mut entry = |login| {
        tickets += 1;
        Entry::new(Question::Shard(0, Ticket(tickets), login, Arc::downgrade(&alive)), &access)
    };
    // No thread gets one of them before all wait.
    let mut waiting = logins.line.0.lock();
    for n in 0..GUESSES {
        waiting.push(entry(login(&format!("guess-{}", n % NAMES), "wrong", guesser, NOW_MS)));
    }
    let rights = [("lately", guesser), ("today", guesser), ("never", guesser), ("elsewhere", other)];
    for (user, from) in rights {
        waiting.push(entry(login(user, "right", from, NOW_MS)));
    }
    assert_eq!(
        waiting.count(guesser.into()),
        GUESSES as usize + 2,
        "the guesses, and two who may be guessers"
    );
    drop(waiting);
    logins.line.0.bell.notify_all();

    let (mut guesses, mut before) = (0, Vec::new());
    while before.len() < rights.len() {
        let Some(Incoming::Login(Ticket(number), checked)) = answers.blocking_recv() else { continue };
        match number.checked_sub(GUESSES + 1) {
            Some(right) => {
                assert!(checked.is_ok(), "{checked:?}");
                before.push((rights[right as usize].0, guesses));
            }
            None => guesses += 1,
        }
    }
    // The rest is given up.
    drop(alive);
    // A guess takes as long as its hash. So few are answered while another thread answers.
    assert!(
        before.iter().all(|(_, guesses)| *guesses < GUESSES / 2),
        "guesses that were answered before: {before:?}"
    );
}
