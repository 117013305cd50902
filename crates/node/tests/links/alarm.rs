//! Alarms, and publishers that are ahead in bytes. While an alarm lasts, no message of a client reaches a queue, whatever clients do
//! and in whatever order they do it. Everything else goes on. After the alarm, the messages arrive.

use std::collections::{BTreeMap, BTreeSet};

use amqp10::{Attach, DeliveryState, Role, SenderSettleMode, Source, Target, TargetArchetype, TransferHead};
use broker::settings::{LinkCredit, Settings};
use wal_testing::Random;

use super::client091::Client091;
use super::house::{House, message};

/// A connection that has more unanswered bytes than this must wait.
const UNANSWERED_MAX: u64 = 32 * 1024 * 1024;

/// The bytes that may arrive before the broker notices that it is too much: the input of one turn.
const TURN_BYTES: u64 = 2 * 1024 * 1024;

const MIB: usize = 1024 * 1024;

// ---- back-pressure in bytes -----------------------------------------------------------------------------------------------

#[test]
fn a_client_gets_no_more_memory_by_opening_and_closing_channels() {
    let mut house = House::new(1, Settings::default());
    house.declare("q", Default::default());
    let mut client = Client091::open(&mut house, &[]);
    let mut beside = Client091::open(&mut house, &[1]);
    house.log_stopped = true;
    let (mut sent, mut channel) = (0, 0);
    while client.is_read(&mut house) {
        channel += 1;
        client.open_channel(&mut house, channel);
        client.publish_large(&mut house, channel, "q", MIB, 2);
        client.close_channel(&mut house, channel);
        sent += 2 * MIB as u64;
        assert!(sent <= UNANSWERED_MAX + TURN_BYTES, "{sent} bytes were taken");
    }
    assert!(sent > UNANSWERED_MAX - TURN_BYTES, "{sent} bytes were taken");
    assert!(beside.is_read(&mut house), "others go on");
    beside.publish(&mut house, 1, "q", 10);
    house.log_stopped = false;
    house.settle();
    client.settle(&mut house);
    assert!(client.is_read(&mut house));
    assert_eq!(house.messages("q"), sent / MIB as u64 + 10);
}

/// Sends as many transfers of `bytes` bytes as the session's window and the link's credit allow. Returns their number.
fn send_all(house: &mut House, peer: usize, session: u16, link: u32, bytes: usize) -> u64 {
    let conn = &mut house.peers[peer].conn;
    let body = message(&vec![b'm'; bytes]);
    let mut sent = 0;
    let may_send = |conn: &amqp10::Connection| {
        let session = conn.session(session).unwrap();
        session.remote_incoming_window() > session.pending_len() as u32
            && session.link(link).unwrap().sender_credit().credit() > 0
    };
    while may_send(conn) {
        let delivery = amqp10::Outgoing::whole(amqp10::Tag::from_number(sent), false, &body, sent);
        assert!(conn.send(session, link, &delivery));
        sent += 1;
    }
    house.settle();
    sent
}

/// Attaches a sender to a queue on any session.
fn attach(house: &mut House, peer: usize, session: u16, role: Role, queue: &str) -> u32 {
    let links = house.peers[peer].conn.session(session).unwrap().links().count();
    let address = Some(format!("/queues/{queue}"));
    let attach = Attach {
        snd_settle_mode: SenderSettleMode::Mixed,
        source: Some(Source { address: address.clone(), ..Source::default() }),
        target: Some(TargetArchetype::Target(Target { address, ..Target::default() })),
        initial_delivery_count: (role == Role::Sender).then_some(0),
        ..Attach::new(format!("link-{peer}-{session}-{links}"), 0, role)
    };
    let link = house.peers[peer].conn.attach(session, None, attach).expect("a free handle");
    house.settle();
    link
}

#[test]
fn a_client_gets_no_more_memory_by_opening_sessions_and_detaching_links() {
    // Adaptive credit begins with the fixed one.
    for credit in [LinkCredit::Fixed, LinkCredit::Auto, LinkCredit::Adaptive] {
        open_sessions_and_detach_links(credit);
    }
}

/// Every new link has its credit without a timer, whatever its connection has unanswered: no time passes here.
fn open_sessions_and_detach_links(link_credit: LinkCredit) {
    const BYTES: usize = 60_000;
    let settings = Settings { link_credit, max_incoming_window: 40, ..Settings::default() };
    let mut house = House::new(1, settings);
    house.declare("q", Default::default());
    let peer = house.connect(0);
    house.log_stopped = true;
    let (mut sent, mut session) = (0, 0);
    loop {
        let link = attach(&mut house, peer, session, Role::Sender, "q");
        let credit =
            house.peers[peer].conn.session(session).unwrap().link(link).unwrap().sender_credit().credit();
        assert_eq!(credit, 170, "every link gets its credit at once");
        let more = send_all(&mut house, peer, session, link, BYTES);
        if more == 0 {
            break;
        }
        sent += more;
        assert!(
            sent * BYTES as u64 <= UNANSWERED_MAX + TURN_BYTES + 40 * BYTES as u64,
            "{sent} messages were taken"
        );
        if session % 2 == 0 {
            house.peers[peer].conn.detach(session, link, None);
            house.settle();
        }
        session = house.peers[peer].conn.begin(None, true).expect("a free channel");
        house.settle();
    }
    assert!(sent * BYTES as u64 > UNANSWERED_MAX, "{sent} messages were taken");
    house.log_stopped = false;
    house.settle();
    assert_eq!(house.messages("q"), sent);
    for session in 0..=session {
        let window = house.peers[peer].conn.session(session).unwrap().remote_incoming_window();
        assert!(window > 20, "the window of session {session} is {window}");
    }
}

// ---- the property -----------------------------------------------------------------------------------------------------------

/// The messages that are there to be consumed.
const WORK: u64 = 3_000;

/// What clients of AMQP 0.9.1 do. What follows a message during an alarm waits with it.
#[derive(Clone, Copy, Debug)]
enum Step {
    Open { channel: u16 },
    Publish { channel: u16, messages: u32 },
    SelectTx { channel: u16 },
    Commit { channel: u16 },
    Ack { tag: u64 },
}

/// A client of AMQP 0.9.1, and what the model knows of it. It consumes on channel 1.
struct Old {
    client: Client091,
    channels: u16,
    /// The channels on which the client has asked for transactions.
    tx_sent: BTreeSet<u16>,
    /// For each channel that has transactions: the messages that wait for a commit.
    uncommitted: BTreeMap<u16, u32>,
    acked: u64,
    /// The tag of the last acknowledgement that was sent.
    ack_sent: u64,
    /// What waits for the end of the alarm.
    waiting: Vec<Step>,
}

/// A client of AMQP 1.0 that keeps to its windows, and what the model knows of it.
struct New {
    peer: usize,
    /// The links that publish to `q`, with their sessions.
    senders: Vec<(u16, u32)>,
    receiver: Option<u32>,
    /// The messages that wait for the client's window.
    waiting: u64,
    accepted: u64,
}

struct Run {
    random: Random,
    house: House,
    old: Vec<Old>,
    new: Vec<New>,
    /// Clients that send transfers beyond their windows, with the number of their next delivery.
    rude: Vec<(usize, u32)>,
    is_alarm: bool,
    /// The messages that are in `q` by now.
    expected: u64,
    /// How often something was held.
    held: u64,
}

#[test]
fn no_message_of_a_client_passes_an_alarm_in_any_order_of_steps() {
    let number =
        |name: &str, default| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let (base, factor) = (number("SLUICE_SEED", 1), number("SLUICE_SOAK", 1));
    let mut held = 0;
    for seed in base..base + if factor == 0 { 1 } else { 40 * factor } {
        match std::panic::catch_unwind(|| Run::new(seed).play()) {
            Ok(of_run) => held += of_run,
            Err(_) => panic!("SLUICE_SEED={seed} SLUICE_SOAK=0 repeats it"),
        }
    }
    assert!(factor == 0 || held > 40, "something is held in most runs: {held}");
}

impl Run {
    fn new(seed: u64) -> Self {
        let settings = Settings { link_credit: LinkCredit::Fixed, heartbeat_s: 0, ..Settings::default() };
        let mut house = House::new(1 + (seed % 2) as u8, settings);
        for queue in ["work", "q", "rude"] {
            house.declare(queue, Default::default());
        }
        let mut filler = Client091::open(&mut house, &[1]);
        for _ in 0..WORK / 100 {
            filler.publish(&mut house, 1, "work", 100);
        }
        let (old, new, rude) = (Vec::new(), Vec::new(), Vec::new());
        Self { random: Random(seed), house, old, new, rude, is_alarm: false, expected: 0, held: 0 }
    }

    fn play(mut self) -> u64 {
        for _ in 0..150 {
            match self.random.below(16) {
                0 => self.set_alarm(!self.is_alarm),
                1 if self.old.len() < 4 => self.connect_old(),
                2 if self.new.len() < 4 => self.connect_new(),
                3 if self.rude.len() < 2 => self.connect_rude(),
                4..10 if !self.old.is_empty() => self.old_acts(),
                10..15 if !self.new.is_empty() => self.new_acts(),
                15 if !self.rude.is_empty() => self.rude_acts(),
                _ => {}
            }
            self.check();
        }
        self.set_alarm(false);
        self.check();
        self.held
    }

    fn set_alarm(&mut self, is_on: bool) {
        let rude = self.house.messages("rude");
        self.house.alarm(is_on);
        self.is_alarm = is_on;
        for n in 0..self.old.len() {
            self.old[n].client.settle(&mut self.house);
            if !is_on {
                let waiting = std::mem::take(&mut self.old[n].waiting);
                self.held += u64::from(!waiting.is_empty());
                waiting.into_iter().for_each(|step| self.apply(n, step));
            }
        }
        if !is_on {
            let waiting = self.new.iter_mut().map(|new| std::mem::take(&mut new.waiting));
            self.expected += waiting.sum::<u64>();
        }
        assert!(!is_on || self.house.messages("rude") == rude);
    }

    /// Does in the model what the broker does with a step that it reads.
    fn apply(&mut self, n: usize, step: Step) {
        let old = &mut self.old[n];
        let publishes = match step {
            Step::Publish { .. } => true,
            Step::Commit { channel } => old.uncommitted.get(&channel).is_some_and(|messages| *messages > 0),
            _ => false,
        };
        if !old.waiting.is_empty() || (self.is_alarm && publishes) {
            return old.waiting.push(step);
        }
        match step {
            Step::Publish { channel, messages } => match old.uncommitted.get_mut(&channel) {
                Some(uncommitted) => *uncommitted += messages,
                None => self.expected += u64::from(messages),
            },
            Step::Commit { channel } => {
                self.expected += u64::from(old.uncommitted.insert(channel, 0).unwrap_or_default());
            }
            Step::Ack { tag } => old.acked = old.acked.max(tag),
            Step::SelectTx { channel } => _ = old.uncommitted.insert(channel, 0),
            Step::Open { .. } => {}
        }
    }

    fn connect_old(&mut self) {
        let mut client = Client091::open(&mut self.house, &[1]);
        client.share_prefetch(&mut self.house, 1, 5);
        client.consume(&mut self.house, 1, "work");
        let (tx_sent, uncommitted, waiting) = (BTreeSet::new(), BTreeMap::new(), Vec::new());
        self.old.push(Old { client, channels: 1, tx_sent, uncommitted, acked: 0, ack_sent: 0, waiting });
    }

    fn old_acts(&mut self) {
        let n = self.random.below(self.old.len() as u64) as usize;
        let (house, old) = (&mut self.house, &mut self.old[n]);
        let channel = 1 + self.random.below(old.channels.into()) as u16;
        let is_tx = old.tx_sent.contains(&channel);
        let step = match self.random.below(7) {
            0 if old.channels < 10 && old.waiting.is_empty() => Step::Open { channel: old.channels + 1 },
            1 if channel > 1 && !is_tx => Step::SelectTx { channel },
            2 if is_tx => Step::Commit { channel },
            0..3 => return,
            3 | 4 => Step::Publish { channel, messages: 1 + self.random.below(20) as u32 },
            _ => Step::Ack { tag: old.client.last_tag() },
        };
        match step {
            Step::Open { channel } => {
                old.client.open_channel(house, channel);
                old.channels = channel;
            }
            Step::Publish { channel, messages } => old.client.publish(house, channel, "q", messages),
            Step::SelectTx { channel } => {
                old.client.select_tx(house, channel);
                old.tx_sent.insert(channel);
            }
            Step::Commit { channel } => old.client.commit(house, channel),
            Step::Ack { tag } if tag > old.ack_sent => {
                old.ack_sent = tag;
                old.client.ack(house, 1, tag);
            }
            Step::Ack { .. } => return,
        }
        self.apply(n, step);
    }

    fn connect_new(&mut self) {
        let shard = self.random.below(self.house.shards.len() as u64) as usize;
        let peer = self.house.connect(shard);
        self.new.push(New { peer, senders: Vec::new(), receiver: None, waiting: 0, accepted: 0 });
    }

    fn new_acts(&mut self) {
        let n = self.random.below(self.new.len() as u64) as usize;
        let (house, new) = (&mut self.house, &mut self.new[n]);
        match self.random.below(8) {
            0 => {
                if house.peers[new.peer].conn.sessions().count() < 5 {
                    house.peers[new.peer].conn.begin(None, true).expect("a free channel");
                    house.settle();
                }
            }
            1 => {
                let sessions = house.peers[new.peer].conn.sessions().count() as u64;
                let session = self.random.below(sessions) as u16;
                new.senders.push((session, attach(house, new.peer, session, Role::Sender, "q")));
            }
            2 if new.receiver.is_none() => {
                let link = attach(house, new.peer, 0, Role::Receiver, "work");
                house.grant(new.peer, link, 7);
                new.receiver = Some(link);
            }
            3 | 4 => {
                let Some(link) = new.receiver else { return };
                let got = house.peers[new.peer].got.len() as u64;
                if got > new.accepted {
                    let ids = (new.accepted as u32, got as u32 - 1);
                    house.peers[new.peer].conn.disposition(
                        0,
                        Role::Receiver,
                        ids,
                        true,
                        &DeliveryState::Accepted,
                    );
                    new.accepted = got;
                }
                house.grant(new.peer, link, 7);
            }
            _ => {
                let Some(at) = self.random.below(8).checked_rem(new.senders.len() as u64) else { return };
                let (session, link) = new.senders[at as usize];
                let conn = &mut house.peers[new.peer].conn;
                let credit = conn.session(session).unwrap().link(link).unwrap().sender_credit().credit();
                let messages = self.random.below(30).min(credit.into());
                for number in 0..messages {
                    let tag = amqp10::Tag::from_number(number);
                    assert!(conn.send(
                        session,
                        link,
                        &amqp10::Outgoing::whole(tag, false, &message(b"m"), 0)
                    ));
                }
                house.settle();
                if self.is_alarm {
                    new.waiting += messages;
                    self.held += u64::from(messages > 0);
                } else {
                    self.expected += messages;
                }
            }
        }
    }

    fn connect_rude(&mut self) {
        let peer = self.house.connect(0);
        self.house.peers[peer].doomed = true;
        assert_eq!(attach(&mut self.house, peer, 0, Role::Sender, "rude"), 0);
        self.rude.push((peer, 0));
    }

    /// Sends transfers, whatever the window is. The broker may detach the link or end the session.
    fn rude_acts(&mut self) {
        let n = self.random.below(self.rude.len() as u64) as usize;
        let (peer, next) = self.rude[n];
        if !self.house.peers[peer].detached.is_empty() {
            self.rude.swap_remove(n);
            return;
        }
        let before = self.house.messages("rude");
        let messages = 1 + self.random.below(50) as u32;
        for id in next..next + messages {
            let head = TransferHead {
                handle: 0,
                delivery_id: Some(id),
                delivery_tag: Some(b"t"),
                message_format: Some(0),
                settled: Some(true),
                more: false,
                aborted: false,
            };
            self.house.transfer(peer, &head, &message(b"m"));
        }
        self.rude[n].1 += messages;
        let more = self.house.messages("rude") - before;
        let (is_alarm, detached) = (self.is_alarm, &self.house.peers[peer].detached);
        assert!(
            if is_alarm { more == 0 } else { more == u64::from(messages) || !detached.is_empty() },
            "{more}"
        );
    }

    fn check(&mut self) {
        for old in &mut self.old {
            old.client.settle(&mut self.house);
            let is_stopped = !old.waiting.is_empty();
            assert_eq!(
                (old.client.is_blocked(), !old.client.is_read(&mut self.house)),
                (is_stopped, is_stopped)
            );
        }
        assert_eq!(self.house.messages("q"), self.expected, "alarm: {}", self.is_alarm);
        let consumed = self.old.iter().map(|old| old.acked).chain(self.new.iter().map(|new| new.accepted));
        assert_eq!(self.house.messages("work"), WORK - consumed.sum::<u64>());
    }
}
