//! Transactions move messages from one queue to another. The broker is killed after every step. What its answers have promised is
//! there after the restart, and nothing is lost.

use amqp091::{
    BasicAck, BasicGet, BasicNack, BasicReject, ConfirmSelect, Method, TxCommit, TxRollback, TxSelect,
};
use wal_testing::Crash;

use super::broker::{Broker, Killed, Kind, Seen};

const FROM: &str = "from";
const TO: &str = "to";
const DEAD: &str = "dead";

/// The messages that are moved.
const MOVED: [u64; 4] = [1, 2, 3, 4];

/// A message that takes the place of another.
fn moved(number: u64) -> u64 {
    10 * number
}

/// What the clients were promised.
#[derive(Debug, Default)]
struct Promised {
    confirmed: Vec<u64>,
    /// The number of transactions that are committed.
    committed: usize,
}

/// Publishes messages, and moves them in three transactions. The second one is rolled back, and done in another way.
fn play(broker: &mut Broker, kinds: [Kind; 2], promised: &mut Promised) -> Result<(), Killed> {
    let other = broker.connect(0, "guest")?;
    broker.declare(other, (FROM, kinds[0]), &[])?;
    broker.declare(other, (TO, kinds[1]), &[])?;
    broker.declare(other, (DEAD, kinds[0]), &[])?;
    broker.ask(other, &Method::ConfirmSelect(ConfirmSelect { nowait: false }))?;
    for number in MOVED {
        broker.clients[other].publish(("", FROM), false, number);
        broker.settle()?;
        assert_eq!(broker.take_seen(other), [Seen::Confirmed]);
        promised.confirmed.push(number);
    }
    let last = broker.shards.len() - 1;
    let tx = broker.connect(last, "tx")?;
    broker.ask(tx, &Method::TxSelect(TxSelect))?;
    let get = Method::BasicGet(BasicGet { queue: FROM, ..BasicGet::default() });
    for _ in MOVED {
        broker.ask(tx, &get)?;
    }
    let mut commit = |broker: &mut Broker| {
        let told = broker.ask(tx, &Method::TxCommit(TxCommit));
        // The answer may have arrived before the kill.
        let seen = told.as_ref().map_or_else(|_| broker.take_seen(tx), Vec::clone);
        promised.committed += usize::from(seen.contains(&Seen::Answer("tx.commit-ok")));
        told.map(|told| assert_eq!(told, [Seen::Answer("tx.commit-ok")]))
    };
    broker.clients[tx].publish(("", TO), true, moved(1));
    broker.clients[tx].publish(("", TO), true, moved(2));
    broker.ask(tx, &Method::BasicAck(BasicAck { delivery_tag: 2, multiple: true }))?;
    commit(broker)?;
    broker.clients[tx].publish(("", TO), true, moved(3));
    broker.ask(tx, &Method::BasicAck(BasicAck { delivery_tag: 3, multiple: false }))?;
    broker.ask(tx, &Method::TxRollback(TxRollback))?;
    broker.ask(tx, &Method::BasicReject(BasicReject { delivery_tag: 3, requeue: false }))?;
    commit(broker)?;
    broker.clients[tx].publish(("", TO), true, moved(4));
    broker.ask(tx, &Method::BasicNack(BasicNack { delivery_tag: 4, multiple: true, requeue: true }))?;
    broker.ask(tx, &Method::TxRollback(TxRollback))?;
    broker.clients[tx].publish(("", TO), true, moved(4));
    broker.ask(tx, &Method::BasicAck(BasicAck { delivery_tag: 4, multiple: true }))?;
    commit(broker)
}

/// Returns everything that is in a queue.
fn drain(broker: &mut Broker, client: usize, queue: &str) -> Vec<u64> {
    let get = Method::BasicGet(BasicGet { queue, no_ack: true });
    let mut got = Vec::new();
    while let Ok([Seen::Delivery { number, .. }]) = broker.ask(client, &get).as_deref() {
        got.push(*number);
    }
    got
}

/// Kills the broker after this step, and checks what is there afterwards. Returns true if the broker has done everything before.
fn kill_after(step: u64, (count, kinds): (u8, [Kind; 2]), crash: Crash) -> bool {
    let (mut broker, mut promised) = (Broker::new(count, step), Promised::default());
    broker.last_step = step;
    let is_done = play(&mut broker, kinds, &mut promised).is_ok();
    let mut broker = broker.crash(crash);
    let Ok(client) = broker.connect(0, "guest") else { panic!("nobody kills the broker") };
    let names: Vec<_> = [FROM, TO, DEAD].into_iter().filter(|name| broker.has(name)).collect();
    let [from, to, dead] = [FROM, TO, DEAD]
        .map(|name| if names.contains(&name) { drain(&mut broker, client, name) } else { Vec::new() });
    let what =
        format!("step {step}, {kinds:?}, {crash:?}: {promised:?}, from {from:?}, to {to:?}, dead {dead:?}");
    for number in &promised.confirmed {
        let is_here = from.contains(number) || dead.contains(number) || to.contains(&moved(*number));
        assert!(is_here, "message {number} is lost: {what}");
    }
    // The first and the last transaction settle only when what they publish is there.
    assert!(from.contains(&1) || promised.confirmed.len() < 2 || to.contains(&moved(2)), "{what}");
    let [first, second, third] = [1, 2, 3].map(|n| promised.committed >= n);
    if first {
        assert!(!from.contains(&1) && !from.contains(&2), "a settlement has come back: {what}");
        assert!(to.contains(&moved(1)) && to.contains(&moved(2)), "{what}");
    }
    assert!(!to.contains(&moved(3)), "it was rolled back: {what}");
    // A message that was rejected may die again: a dead letter has no answer before it has arrived.
    assert!(!second || from.contains(&3) || dead.contains(&3), "{what}");
    if third {
        assert!(!from.contains(&4) && to.contains(&moved(4)), "{what}");
    }
    for (queue, got) in [(FROM, &from), (TO, &to), (DEAD, &dead)] {
        let mut unique = got.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), got.len(), "{queue} has a message twice: {what}");
    }
    is_done
}

fn kill_after_every_step(kinds: [Kind; 2], crash: Crash) {
    for count in [1, 2] {
        let steps = (1..).take_while(|step| !kill_after(*step, (count, kinds), crash)).count();
        assert!(steps > 100, "there are {steps} steps");
    }
}

#[test]
fn a_killed_process_loses_nothing_of_a_transaction() {
    use Kind::{Classic, Quorum, Synced};
    for kinds in [[Classic, Classic], [Classic, Quorum], [Quorum, Classic], [Synced, Classic]] {
        kill_after_every_step(kinds, Crash::Process);
    }
}

#[test]
fn a_power_cut_loses_nothing_of_a_transaction() {
    use Kind::{Quorum, Synced};
    for kinds in [[Synced, Synced], [Synced, Quorum], [Quorum, Synced], [Quorum, Quorum]] {
        kill_after_every_step(kinds, Crash::Power);
    }
}
