//! Damage is never silent. The broker is killed with SIGKILL, one of its files is damaged, and it is started
//! again.
//!
//! A round has four steps:
//!
//! - It fills two classic queues, a quorum queue and two streams, the first half of the messages with AMQP 1.0 and the
//!   second half with AMQP 0.9.1. One classic queue and one stream have `x-fsync`. It waits until the broker has noted how far the log and the streams were written.
//! - It kills the broker and makes one fault: see [`fault`].
//! - It starts the broker. If definitions may be lost, the broker must refuse to start and name the damaged
//!   file. Then the round starts it with `accept_lost_definitions`.
//! - It checks these rules:
//!
//! 1. Every confirmed message is there, synced or not, or else its queue is damaged. A consumer of a stream may reach the
//!    damage first.
//! 2. Every message received was sent, with the same octets, and is received once.
//! 3. A stream shows at each offset what it showed there before. No new message is stored at such an offset.
//! 4. Every queue that is not closed still works: it accepts another message and delivers it.
//! 5. `sluice doctor`, run before the start, has found damage if a queue is closed or the broker is refused, and none if
//!    nothing was damaged.
//!
//! ```text
//! DAMAGE_ROUNDS=50 DAMAGE_SEED=.. cargo test --profile ci -p sluice --test program damage:: -- --nocapture
//! ```
mod fault;
mod round;
mod streams;

use std::io::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use random::Random;
use round::Round;

/// A round that takes longer counts as hung.
const ROUND_TIME_MAX: Duration = Duration::from_secs(300);

#[test]
fn a_damaged_broker_names_what_it_has_lost() {
    let rounds = number("DAMAGE_ROUNDS").unwrap_or(50);
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seed = number("DAMAGE_SEED").unwrap_or(since_epoch.as_secs());
    say(&format!("damage: {rounds} rounds, DAMAGE_SEED={seed}"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut seeds = Random(seed);
    let mut failed = 0;
    for number in 1..=rounds {
        let round = Round::plan(seeds.next());
        let result = runtime.block_on(async { tokio::time::timeout(ROUND_TIME_MAX, round.run()).await });
        match result.unwrap_or_else(|_| Err("the round hangs".to_owned())) {
            Ok(report) => say(&format!("round {number}: ok: {report}")),
            Err(why) => {
                failed += 1;
                say(&format!("round {number}: FAILED: {why} ({round:?})"));
            }
        }
    }
    say(&format!("damage: {} passed, {failed} failed", rounds - failed));
    assert_eq!(failed, 0);
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not '{text}'")))
}

fn say(line: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "{line}").and_then(|()| out.flush()).unwrap();
}
