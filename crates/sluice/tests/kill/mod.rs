//! Nothing confirmed is lost: the broker is killed with SIGKILL under load, started again, and drained.
//!
//! In a round, publishers send numbered durable messages without waiting for outcomes, each on its own
//! connection. Every other publisher speaks AMQP 0.9.1, and the others AMQP 1.0. The broker is killed at a moment
//! that the seed determines. It is started with another number of shards, the publishers send the rest, and two
//! consumers per queue drain it, one with each protocol. Then [`verdict`] compares
//! the messages received with those sent and confirmed. At last the broker is stopped with SIGTERM and
//! started again: no accepted message may come back.
//!
//! Rounds differ in these ways:
//!
//! - The broker is killed again during recovery.
//! - A consumer accepts messages before the kill.
//! - An exchange sends each message to two queues.
//! - Nearly all messages are paged out, every message is synced, or messages arrive by dead-lettering.
//! - Messages climb a ladder of three to five queues: in each they expire, and are dead-lettered to the next one.
//! - The kill comes when the log begins a file or releases one, or when a pack is begun.
//! - The kill comes while a copy and its original are both on the disk ([`copies`]). Two kinds are repeated
//!   until it does.
//! - One of sixteen rounds uses quorum queues, two use streams (see [`stream`]), and one moves messages in transactions (see
//!   [`transactions`]).
//!
//! ```text
//! KILL_ROUNDS=16 KILL_MESSAGES=50000 KILL_SEED=.. cargo test --profile ci -p sluice --test program a_killed_broker -- --nocapture
//! ```
//!
//! With `KILL_KIND=10`, all rounds are of the tenth kind.
pub(crate) mod content;
mod copies;
mod moment;
pub(crate) mod reading;
mod round;
mod stream;
pub(crate) mod traffic;
mod traffic091;
mod transactions;
mod verdict;

use std::io::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use random::Random;
use round::Round;
use stream::StreamRound;
use transactions::TransactionRound;

/// The number of kinds of rounds. The rounds take the kinds in turn. The last three kinds use streams, transactions, and streams.
const KINDS: u64 = 16;

/// The time limit of a round. A round that takes longer counts as hung.
const ROUND_TIME_MAX: Duration = Duration::from_secs(600);

#[test]
fn a_killed_broker_keeps_what_it_confirmed() {
    let rounds = number("KILL_ROUNDS").unwrap_or(KINDS);
    let messages = number("KILL_MESSAGES").unwrap_or(50_000);
    let only = number("KILL_KIND");
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seed = number("KILL_SEED").unwrap_or(since_epoch.as_secs());
    say(&format!("kill: {rounds} rounds of {messages} messages, KILL_SEED={seed}"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut seeds = Random(seed);
    let mut failed = 0;
    for number in 1..=rounds {
        let (kind, seed) = (only.unwrap_or(number) % KINDS, seeds.next());
        let result = runtime.block_on(async {
            if kind == 0 || kind == KINDS - 1 {
                let round = StreamRound::plan(kind == 0, seed, messages);
                bounded(round.run()).await.map_err(|why| format!("{why} ({round:?})"))
            } else if kind == KINDS - 2 {
                let round = TransactionRound::plan(seed, messages);
                bounded(round.run()).await.map_err(|why| format!("{why} ({round:?})"))
            } else {
                let round = Round::plan(kind, seed, messages);
                bounded(round.run()).await.map_err(|why| format!("{why} ({round:?})"))
            }
        });
        match result {
            Ok(report) => say(&format!("round {number}: ok: {report}")),
            Err(why) => {
                failed += 1;
                say(&format!("round {number}: FAILED: {why}"));
            }
        }
    }
    say(&format!("kill: {} passed, {failed} failed", rounds - failed));
    assert_eq!(failed, 0);
}

/// Runs a round whose queues survive a loss of power; see [`crate::forget`].
pub(crate) async fn power_round(number: u64, seed: u64, messages: u64) -> Result<String, String> {
    /// The kinds of [`Round::plan`] with `x-fsync`, and with quorum queues.
    const SYNCED: [u64; 2] = [8, 12];
    match number % 6 {
        kind @ 0..2 => bounded(Round::plan(SYNCED[kind as usize], seed, messages).run()).await,
        2 => bounded(TransactionRound::plan(seed, messages).run()).await,
        3 => bounded(TransactionRound::plan_synced(seed, messages).run()).await,
        kind => bounded(StreamRound::plan(kind == 4, seed, messages).run()).await,
    }
}

/// Runs a round with a time limit. Returns its report as text.
async fn bounded<T: ToString>(round: impl Future<Output = Result<T, String>>) -> Result<String, String> {
    let result = tokio::time::timeout(ROUND_TIME_MAX, round).await;
    result.unwrap_or_else(|_| Err("the round hangs".to_owned())).map(|report| report.to_string())
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not '{text}'")))
}

fn say(line: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "{line}").and_then(|()| out.flush()).unwrap();
}
