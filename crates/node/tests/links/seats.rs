//! A seat of another node against a gate. Both are told the same, in two brokers that are equal otherwise. After each step both were
//! sent the same in the same order, and the queues are in the same state.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use broker::intake::{Arrived, Body};
use broker::mail::{SeatKey, SeatMail};
use broker::settings::Settings;
use bytes::{Bytes, BytesMut};
use catalog::Arguments;
use catalog::ids::{NodeId, Origin, QueueId, ShardId};
use message::{Message, Route};
use queue::{
    Attach, ConsumerId, ConsumerTimeout, Delivery, Effect, GoneReason, Mode, Outcome, Publish, PublisherId,
    Refusal, Replay, Request, Requester, SettleAnswer, Start, Ticket, Verdict,
};
use wal_testing::Random;

use super::house::House;
use crate::world::take;

const STEPS: usize = 200;

/// A classic queue, a quorum queue, and one with a single active consumer.
const QUEUES: [(&str, &[(&str, &str)]); 3] =
    [("classic", &[]), ("quorum", &[("x-queue-type", "quorum")]), ("single", &[])];

/// What both are sent.
const WORDS: [&str; 7] = ["DONE", "SUBBED", "CANCELLED", "MSG", "GOT", "DRAINED", "SETTLED"];

/// More credit than this may be asked for in parts.
const CREDIT_MAX: u32 = 10;

/// Returns the key of a link of the other node.
fn link(number: u32) -> SeatKey {
    SeatKey { origin: Origin { node: NodeId(7), boot: 2 }, link: number }
}

fn id(house: &House, queue: &str) -> QueueId {
    house.shards[0].catalog().listed_queue("/", queue).expect("it was declared").id
}

fn message(queue: &str, body: &str) -> Message {
    let bytes = Bytes::from([&[0x00, 0x53, 0x75, 0xa0, body.len() as u8], body.as_bytes()].concat());
    let found = amqp10::sections::scan(&bytes).expect("a data section");
    let arrived = Arrived::with_sections(Body::Owned(&bytes), &found);
    arrived.to_message(&Arc::new(Route::simple("", queue)), true)
}

fn body(message: &Message) -> String {
    String::from_utf8_lossy(&message.body()[5..]).into_owned()
}

fn attach(consumer: ConsumerId, mode: Mode, exclusive: bool) -> Request {
    let timeout = ConsumerTimeout { own_ms: None, default_ms: Some(Settings::default().consumer_timeout_ms) };
    Request::Attach(Attach {
        consumer,
        mode,
        priority: 0,
        exclusive,
        settled: false,
        delivery_count: 0,
        message_bytes_max: None,
        timeout,
    })
}

fn grant(consumer: ConsumerId, delivery_count: u32, credit: u32, drain: bool) -> Request {
    Request::Grant { consumer, delivery_count, credit, drain, echo: true }
}

/// A client that speaks the line protocol ([`broker::gate::line`]).
struct Client {
    shard: usize,
    key: usize,
}

impl Client {
    fn connect(house: &mut House, shard: usize) -> Self {
        let local: SocketAddr = ([127, 0, 0, 1], 9).into();
        let client = Self { shard, key: house.shards[shard].connect(local, local) };
        client.say(house, "LINE 1\r\nLOGIN /");
        assert_eq!(client.hear(house), ["OK"]);
        client
    }

    fn say(&self, house: &mut House, line: &str) {
        let mut input = BytesMut::from(format!("{line}\n").as_bytes());
        house.shards[self.shard].handle_input(self.key, &mut input);
        house.settle();
    }

    /// Returns what the client was sent, without the credit of publishers. That is the gate's own.
    fn hear(&self, house: &mut House) -> Vec<String> {
        let mut heard = Vec::new();
        let conn = house.shards[self.shard].conn(self.key).expect("it is there");
        take(conn.gate.output(), &mut heard);
        let heard = String::from_utf8(heard).expect("lines");
        heard.lines().filter(|line| !line.starts_with("CREDIT ")).flat_map(one_by_one).collect()
    }
}

/// Splits receipts, which may be merged.
fn one_by_one(line: &str) -> Vec<String> {
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        ["DONE", p, first, last, verdict] => {
            let tags = first.parse::<u64>().unwrap()..=last.parse().unwrap();
            tags.map(|tag| format!("DONE {p} {tag} {tag} {verdict}")).collect()
        }
        _ => vec![line.to_owned()],
    }
}

/// What a number of the other node's client stands for.
enum Role {
    Publisher(PublisherId, &'static str),
    Consumer { consumer: ConsumerId, queue: QueueId, delivery_count: u32, credit: u32 },
    Holder(ConsumerId, QueueId),
}

/// The other node. Its client speaks the line protocol, and the node does for it what a gate does.
struct Node {
    shard: usize,
    seat: SeatKey,
    roles: BTreeMap<u64, Role>,
    closed: Vec<PublisherId>,
    fetches: BTreeMap<Ticket, u64>,
}

impl Node {
    fn connect(house: &mut House, shard: usize, number: u32) -> Self {
        let seat = link(number);
        house.shards[shard].open_seat(seat);
        Self { shard, seat, roles: BTreeMap::new(), closed: Vec::new(), fetches: BTreeMap::new() }
    }

    fn say(&mut self, house: &mut House, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        let (place, seat) = (number(1), self.seat);
        let found = words
            .get(2)
            .and_then(|name| QUEUES.iter().find(|(queue, _)| queue == name))
            .map(|(name, _)| *name);
        let queue = found.map(|name| (name, id(house, name)));
        let shard = &mut house.shards[self.shard];
        let request = match (words[0], self.roles.get_mut(&place), queue) {
            ("OPEN", None, Some((name, _))) => {
                let publisher = shard.add_seat_publisher(seat).expect("the seat is there");
                self.roles.insert(place, Role::Publisher(publisher, name));
                None
            }
            ("SUB", None, Some((_, queue))) => {
                let consumer = shard.add_seat_consumer(seat, queue).expect("the seat is there");
                let role = Role::Consumer { consumer, queue, delivery_count: 0, credit: 0 };
                self.roles.insert(place, role);
                Some((queue, attach(consumer, Mode::Take, false)))
            }
            ("GET", role, Some((_, queue))) => {
                let holder = match role {
                    Some(Role::Holder(holder, _)) => *holder,
                    _ => shard.add_seat_consumer(seat, queue).expect("the seat is there"),
                };
                let ticket = shard.add_seat_ticket(seat).expect("the seat is there");
                self.roles.insert(place, Role::Holder(holder, queue));
                self.fetches.insert(ticket, place);
                Some((queue, Request::Fetch { ticket, holder, n: number(3) as u32, settled: false }))
            }
            ("PUB", Some(&mut Role::Publisher(publisher, name)), _) => {
                let (seq, message) = (number(2), message(name, words[3]));
                let publish = Publish { publisher, seq, message, pipelines: false };
                Some((id(house, name), Request::Publish(publish)))
            }
            (word, Some(Role::Consumer { consumer, queue, delivery_count, credit }), _)
                if matches!(word, "CREDIT" | "DRAIN") =>
            {
                *credit += number(2) as u32;
                Some((*queue, grant(*consumer, *delivery_count, *credit, word == "DRAIN")))
            }
            ("CANCEL", Some(&mut Role::Consumer { consumer, queue, .. }), _) => {
                Some((queue, Request::Cancel { consumer }))
            }
            (
                word @ ("ACK" | "BACK" | "SETTLE"),
                Some(&mut (Role::Consumer { consumer, queue, .. } | Role::Holder(consumer, queue))),
                _,
            ) => {
                let outcome = if word == "BACK" { Outcome::Released } else { Outcome::Accepted };
                let answer = if word == "SETTLE" { SettleAnswer::Made } else { SettleAnswer::Never };
                let (first, last) = (number(2), number(3));
                Some((queue, Request::Settle { consumer, first, last, outcome, answer }))
            }
            ("CLOSE", _, _) => {
                self.close(house, place);
                None
            }
            _ => panic!("{line}"),
        };
        house.shards[self.shard].handle_seat_requests(request);
        house.settle();
    }

    fn close(&mut self, house: &mut House, place: u64) {
        let shard = &mut house.shards[self.shard];
        match self.roles.remove(&place) {
            // What it has published is answered to the session, which knows that nobody waits for it.
            Some(Role::Publisher(publisher, _)) => self.closed.push(publisher),
            Some(Role::Consumer { consumer, queue, .. } | Role::Holder(consumer, queue)) => {
                shard.handle_seat_requests([(queue, Request::Detach { consumer, failed: true })]);
                shard.forget_seat_consumer(self.seat, consumer);
            }
            None => {}
        }
    }

    /// Returns what the mail for the seat means for the client.
    fn hear(&mut self, house: &mut House) -> Vec<String> {
        let mut heard = Vec::new();
        for mail in house.shards[self.shard].poll_seat(self.seat) {
            match mail {
                SeatMail::Receipts { publisher, .. } if self.closed.contains(&publisher) => {}
                SeatMail::Receipts { publisher, first, last, verdict, .. } => {
                    let is_it = |role: &Role| matches!(role, Role::Publisher(id, _) if *id == publisher);
                    let place = self.roles.iter().find(|(_, role)| is_it(role)).expect("it is open").0;
                    heard.extend((first..=last).map(|seq| format!("DONE {place} {seq} {seq} {verdict:?}")));
                }
                SeatMail::Effect(effect) => self.hear_effect(effect, &mut heard),
            }
        }
        heard
    }

    fn hear_effect(&mut self, effect: Effect, heard: &mut Vec<String>) {
        let show = |place: u64, delivery: &Delivery| {
            let Delivery { number, message, .. } = delivery;
            format!("MSG {place} {number} {} {}", u8::from(delivery.lend().redelivered()), body(message))
        };
        match effect {
            Effect::Fetched { ticket, deliveries, ready } => {
                let place = self.fetches.remove(&ticket).expect("it was asked for");
                heard.extend(deliveries.iter().map(|delivery| show(place, delivery)));
                heard.push(format!("GOT {place} {} {ready}", deliveries.len()));
            }
            Effect::Attached { consumer } => heard.push(format!("SUBBED {}", self.consumer(consumer).0)),
            Effect::Gone { consumer, reason: GoneReason::Cancelled } => {
                heard.push(format!("CANCELLED {}", self.consumer(consumer).0));
            }
            Effect::Delivery(delivery) => {
                let (place, delivery_count, credit) = self.consumer(delivery.consumer);
                (*delivery_count, *credit) = (*delivery_count + 1, *credit - 1);
                heard.push(show(place, &delivery));
            }
            Effect::CreditState { consumer, state } => {
                let (place, delivery_count, credit) = self.consumer(consumer);
                (*delivery_count, *credit) = (state.delivery_count, state.credit);
                if state.drained {
                    heard.push(format!("DRAINED {place} {}", state.available));
                }
            }
            Effect::Settled { consumer, first, last, .. } => {
                let holds = |role: &Role| match role {
                    Role::Consumer { consumer: id, .. } | Role::Holder(id, _) => *id == consumer,
                    Role::Publisher(..) => false,
                };
                let place = self.roles.iter().find(|(_, role)| holds(role)).expect("it is open").0;
                heard.push(format!("SETTLED {place} {first} {last}"));
            }
            // The client of the line protocol is not told either.
            Effect::Active { .. } => {}
            other => panic!("{other:?}"),
        }
    }

    fn consumer(&mut self, wanted: ConsumerId) -> (u64, &mut u32, &mut u32) {
        let found = self.roles.iter_mut().find_map(|(place, role)| match role {
            Role::Consumer { consumer, delivery_count, credit, .. } if *consumer == wanted => {
                Some((*place, delivery_count, credit))
            }
            _ => None,
        });
        found.expect("it is open")
    }
}

/// Who is compared.
enum Subject {
    Client(Client),
    Node(Node),
}

/// A broker with a client and the subject.
struct Broker {
    house: House,
    subject: Subject,
    client: Client,
}

impl Broker {
    fn say(&mut self, to_subject: bool, line: &str) {
        match &mut self.subject {
            Subject::Client(client) if to_subject => client.say(&mut self.house, line),
            Subject::Node(node) if to_subject => node.say(&mut self.house, line),
            _ => self.client.say(&mut self.house, line),
        }
    }

    /// Returns what the subject and the client were sent.
    fn hear(&mut self) -> [Vec<String>; 2] {
        let subject = match &mut self.subject {
            Subject::Client(client) => client.hear(&mut self.house),
            Subject::Node(node) => node.hear(&mut self.house),
        };
        [subject, self.client.hear(&mut self.house)]
    }

    /// Breaks the connection of the subject, or its link. Then it connects again.
    fn lose(&mut self) {
        let Self { house, subject, .. } = self;
        match subject {
            Subject::Client(Client { shard, key }) => {
                let shard = *shard;
                house.shards[shard].disconnect(*key);
                house.settle();
                *subject = Subject::Client(Client::connect(house, shard));
            }
            Subject::Node(Node { shard, seat, .. }) => {
                let (shard, number) = (*shard, seat.link + 1);
                house.shards[shard].end_seat(*seat, true);
                house.settle();
                assert!(house.shards[shard].poll_seat(*seat).is_empty(), "it has ended");
                *subject = Subject::Node(Node::connect(house, shard, number));
            }
        }
    }

    /// Returns the home and the state of each queue.
    fn queues(&self) -> Vec<String> {
        let report = |name: &str| {
            let queue = id(&self.house, name);
            let reports = self.house.shards.iter().map(|shard| shard.queue_report(queue));
            format!("{:?}", reports.collect::<Vec<_>>())
        };
        QUEUES.iter().map(|(name, _)| report(name)).collect()
    }
}

/// What a number of the subject or of the client is used for.
#[derive(Default)]
struct Use {
    publishes: bool,
    fetches: bool,
    is_cancelled: bool,
    queue: &'static str,
    credit: u32,
    held: BTreeSet<u64>,
}

/// Two brokers that are told the same, one through a gate and the other through a seat.
struct Pair {
    random: Random,
    brokers: [Broker; 2],
    /// The numbers of the subject, and of the client.
    uses: [BTreeMap<u64, Use>; 2],
    numbers: u64,
    counts: BTreeMap<String, u64>,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let shards = 1 + (seed % 2) as ShardId;
        let subject_on = (seed / 2 % u64::from(shards)) as usize;
        let brokers = [false, true].map(|is_node| {
            let mut house = House::new(shards, Settings::default());
            for (name, arguments) in QUEUES {
                let mut arguments: Arguments =
                    arguments.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect();
                if name == "single" {
                    arguments.insert("x-single-active-consumer".to_owned(), true.into());
                }
                house.declare(name, arguments);
            }
            let client = Client::connect(&mut house, usize::from(shards) - 1 - subject_on);
            let subject = match is_node {
                true => Subject::Node(Node::connect(&mut house, subject_on, 1)),
                false => Subject::Client(Client::connect(&mut house, subject_on)),
            };
            Broker { house, subject, client }
        });
        Self { random: Random(seed), brokers, uses: Default::default(), numbers: 0, counts: BTreeMap::new() }
    }

    fn fresh(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Tells the subject (0) or the client (1) the same in both brokers.
    fn say(&mut self, who: usize, line: &str) {
        self.brokers.iter_mut().for_each(|broker| broker.say(who == 0, line));
        self.compare(line);
    }

    fn compare(&mut self, step: &str) {
        let [gate, seat] = &mut self.brokers;
        let (heard, of_seat) = (gate.hear(), seat.hear());
        assert_eq!(heard, of_seat, "after {step}: left is sent to the gate, right to the seat");
        assert_eq!(gate.queues(), seat.queues(), "after {step}");
        for (who, lines) in heard.iter().enumerate() {
            lines.iter().for_each(|line| self.note(who, line));
        }
    }

    fn note(&mut self, who: usize, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        if who == 0 {
            *self.counts.entry(words[0].to_owned()).or_default() += 1;
        }
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        let used = self.uses[who].get_mut(&number(1)).expect("a number that is in use");
        match words[0] {
            "MSG" => {
                used.credit = used.credit.saturating_sub(1);
                used.held.insert(number(2));
            }
            "DRAINED" => used.credit = 0,
            "DONE" => assert_eq!(words[4], "Accepted"),
            _ => {}
        }
    }

    fn step(&mut self) {
        if self.random.one_in(50) {
            self.brokers.iter_mut().for_each(Broker::lose);
            self.uses[0].clear();
            *self.counts.entry("lost".to_owned()).or_default() += 1;
            return self.compare("the loss of the subject");
        }
        let who = usize::from(self.random.one_in(3));
        let chosen = self.random.below(self.uses[who].len() as u64 + 2) as usize;
        let Some(&place) = self.uses[who].keys().nth(chosen) else { return self.open(who) };
        if self.random.one_in(25) {
            self.uses[who].remove(&place);
            return self.say(who, &format!("CLOSE {place}"));
        }
        let (fresh, random) = (self.fresh(), &mut self.random);
        let used = self.uses[who].get_mut(&place).expect("it was found");
        let line = if used.publishes {
            format!("PUB {place} {fresh} {fresh}")
        } else if !used.held.is_empty() && random.one_in(2) {
            let first = *used.held.iter().nth(random.below(used.held.len() as u64) as usize).expect("one");
            let last = (first..).take_while(|number| used.held.contains(number)).last().expect("the first");
            let last = first + random.below(last - first + 1);
            used.held.retain(|number| !(first..=last).contains(number));
            let word = ["ACK", "BACK", "SETTLE"][random.below(3) as usize];
            format!("{word} {place} {first} {last}")
        } else if used.fetches {
            format!("GET {place} {} {}", used.queue, 1 + random.below(4))
        } else if used.is_cancelled {
            return;
        } else if random.one_in(15) {
            used.is_cancelled = true;
            format!("CANCEL {place}")
        } else {
            let more = 1 + random.below(5) as u32;
            if used.credit + more > CREDIT_MAX {
                return;
            }
            used.credit += more;
            format!("{} {place} {more}", if random.one_in(3) { "DRAIN" } else { "CREDIT" })
        };
        self.say(who, &line);
    }

    /// Opens a publisher or a consumer, or begins to fetch.
    fn open(&mut self, who: usize) {
        let place = self.fresh();
        let (queue, _) = QUEUES[self.random.below(QUEUES.len() as u64) as usize];
        let (word, publishes, fetches) = match self.random.below(4) {
            0 => ("OPEN", true, false),
            1 => ("GET", false, true),
            _ => ("SUB", false, false),
        };
        self.uses[who].insert(place, Use { publishes, fetches, queue, ..Use::default() });
        let n = if fetches { " 1" } else { "" };
        self.say(who, &format!("{word} {place} {queue}{n}"));
    }

    /// Ends the subject. The client takes everything that is left.
    fn finish(mut self) -> BTreeMap<String, u64> {
        self.brokers.iter_mut().for_each(Broker::lose);
        self.compare("the loss of the subject");
        while let Some((place, _)) = self.uses[1].pop_first() {
            self.say(1, &format!("CLOSE {place}"));
        }
        for (queue, _) in QUEUES {
            let place = self.fresh();
            self.uses[1].insert(place, Use::default());
            self.say(1, &format!("GET {place} {queue} 1000000"));
        }
        self.counts
    }
}

#[test]
fn a_seat_is_sent_what_a_gate_is_sent() {
    let seed = std::env::var("SLUICE_SEED").ok().and_then(|seed| seed.parse().ok());
    let soak: u64 = std::env::var("SLUICE_SOAK").ok().and_then(|soak| soak.parse().ok()).unwrap_or(1);
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for seed in seed.map_or(1..1 + 40 * soak, |seed| seed..seed + 1) {
        let mut pair = Pair::new(seed);
        for _ in 0..STEPS {
            pair.step();
        }
        pair.finish().into_iter().for_each(|(word, n)| *counts.entry(word).or_default() += n);
    }
    if seed.is_none() {
        let of = |word: &str| counts.get(word).copied().unwrap_or_default();
        let unheard: Vec<_> = WORDS.into_iter().chain(["lost"]).filter(|word| of(word) < 20).collect();
        assert!(unheard.is_empty(), "too seldom or never: {unheard:?} of {counts:?}");
    }
}

/// Returns the effects that a seat was sent.
fn effects(house: &mut House, seat: SeatKey) -> Vec<Effect> {
    house.settle();
    let effect = |mail| match mail {
        SeatMail::Effect(effect) => effect,
        SeatMail::Receipts { .. } => panic!("{mail:?}"),
    };
    house.shards[0].poll_seat(seat).into_iter().map(effect).collect()
}

#[test]
fn the_end_of_a_seat_ends_its_exclusive_consumer() {
    let mut house = House::new(2, Settings::default());
    let queue = house.declare("q", Arguments::new());
    let client = Client::connect(&mut house, 1);
    client.say(&mut house, "OPEN 1 q");
    client.say(&mut house, "PUB 1 1 hello");
    house.shards[0].open_seat(link(1));
    let consumer = house.shards[0].add_seat_consumer(link(1), queue).expect("the seat is there");
    let requests = [attach(consumer, Mode::Take, true), grant(consumer, 0, 1, false)];
    house.shards[0].handle_seat_requests(requests.map(|request| (queue, request)));
    let sent = effects(&mut house, link(1));
    assert!(
        matches!(&sent[..], [Effect::Attached { .. }, Effect::Delivery(_), Effect::CreditState { .. }]),
        "{sent:?}"
    );
    client.say(&mut house, "SUB 2 q");
    assert_eq!(client.hear(&mut house), ["DONE 1 1 1 Accepted", "REFUSED 2 ExclusiveConsumer"]);
    house.shards[0].end_seat(link(1), true);
    house.settle();
    client.say(&mut house, "SUB 3 q");
    client.say(&mut house, "CREDIT 3 1");
    assert_eq!(client.hear(&mut house), ["SUBBED 3", "MSG 3 1 1 hello"]);
    let shard = &mut house.shards[0];
    assert_eq!(shard.add_seat_consumer(link(1), queue), None, "the seat has ended");
    assert_eq!((shard.add_seat_publisher(link(1)), shard.add_seat_ticket(link(1))), (None, None));

    client.say(&mut house, "BACK 3 1 1");
    client.say(&mut house, "CANCEL 3");
    house.shards[0].open_seat(link(2));
    let consumer = house.shards[0].add_seat_consumer(link(2), queue).expect("the seat is there");
    let requests = [attach(consumer, Mode::Take, false), grant(consumer, 0, 1, false)];
    house.shards[0].handle_seat_requests(requests.map(|request| (queue, request)));
    let sent = effects(&mut house, link(2));
    let delivery = sent.iter().find_map(|effect| match effect {
        Effect::Delivery(delivery) => Some(delivery),
        _ => None,
    });
    assert_eq!(
        delivery.expect("it is back").delivery_count,
        1,
        "the lost link counts as a failure, the release does not"
    );
}

/// The next link gets nothing of what was on its way over the last one.
#[test]
fn what_is_on_its_way_to_a_seat_that_ends_goes_nowhere() {
    let mut house = House::new(1, Settings::default());
    let arguments = [("x-queue-type".to_owned(), "quorum".into())];
    let queue = house.declare("q", arguments.into_iter().collect());
    house.shards[0].open_seat(link(1));
    let publish = |house: &mut House, seq: u64, body: &str| {
        let publisher = house.shards[0].add_seat_publisher(link(1)).expect("the seat is there");
        let publish = Publish { publisher, seq, message: message("q", body), pipelines: false };
        house.shards[0].handle_seat_requests([(queue, Request::Publish(publish))]);
        house.settle();
        publisher
    };
    let publisher = publish(&mut house, 7, "a");
    let mail = house.shards[0].poll_seat(link(1));
    let [SeatMail::Receipts { publisher: of, first: 7, last: 7, verdict: Verdict::Accepted, .. }] = mail[..]
    else {
        panic!("{mail:?}");
    };
    assert_eq!(of, publisher);
    house.log_stopped = true;
    publish(&mut house, 8, "b");
    let holder = house.shards[0].add_seat_consumer(link(1), queue).expect("the seat is there");
    let ticket = house.shards[0].add_seat_ticket(link(1)).expect("the seat is there");
    let fetch = Request::Fetch { ticket, holder, n: 1, settled: false };
    house.shards[0].handle_seat_requests([(queue, fetch)]);
    house.settle();
    let report = house.shards[0].queue_report(queue).expect("it is here");
    assert_eq!(
        (report.staged, report.unsettled),
        (1, 1),
        "one has no receipt yet, one was fetched and not taken"
    );
    house.shards[0].end_seat(link(1), true);
    house.shards[0].open_seat(link(2));
    house.log_stopped = false;
    house.settle();
    assert!([1, 2].iter().all(|number| house.shards[0].poll_seat(link(*number)).is_empty()));
    let report = house.shards[0].queue_report(queue).expect("it is here");
    assert_eq!((report.ready, report.unsettled), (2, 0));
}

#[test]
fn a_seat_is_answered_and_told_of_deleted_queues() {
    let mut house = House::new(2, Settings::default());
    let queue = house.declare("q", Arguments::new());
    let client = Client::connect(&mut house, 1);
    client.say(&mut house, "OPEN 1 q");
    client.say(&mut house, "PUB 1 1 hello");
    house.shards[0].open_seat(link(1));
    let consumer = house.shards[0].add_seat_consumer(link(1), queue).expect("the seat is there");
    house.shards[0].handle_seat_requests([(queue, attach(consumer, Mode::Take, false))]);
    assert!(matches!(effects(&mut house, link(1))[..], [Effect::Attached { .. }]));
    let ask = |house: &mut House, request: fn(Ticket) -> Request| {
        let ticket = house.shards[0].add_seat_ticket(link(1)).expect("the seat is there");
        house.shards[0].handle_seat_requests([(queue, request(ticket))]);
        (ticket, effects(house, link(1)))
    };
    let (asked, answer) = ask(&mut house, |ticket| Request::Report { ticket });
    let [Effect::Report { ticket, report }] = &answer[..] else { panic!("{answer:?}") };
    assert_eq!((*ticket, report.ready, report.consumers), (asked, 1, 1));
    let (asked, answer) = ask(&mut house, |ticket| Request::Purge { ticket });
    let [Effect::Done { ticket, messages: 1, .. }] = answer[..] else { panic!("{answer:?}") };
    assert_eq!(ticket, asked);
    let delete = |ticket| Request::Delete { ticket, if_unused: false, if_empty: false };
    let (asked, answer) = ask(&mut house, delete);
    let [Effect::Gone { reason: GoneReason::QueueDeleted, consumer: gone }, Effect::Done { ticket, .. }] =
        answer[..]
    else {
        panic!("{answer:?}");
    };
    assert_eq!((gone, ticket), (consumer, asked));
    let (asked, answer) = ask(&mut house, delete);
    let [Effect::Refused { requester, why: Refusal::NotFound }] = answer[..] else { panic!("{answer:?}") };
    assert_eq!(requester, Requester::Ticket(asked));
}

/// Unlike a queue, the reader of a stream offers what was not taken only after the next grant.
#[test]
fn a_seat_reads_a_stream() {
    let mut house = House::new(1, Settings::default());
    let arguments = [("x-queue-type".to_owned(), "stream".into())];
    let stream = house.declare("s", arguments.into_iter().collect());
    let peer = house.connect(0);
    let sender = house.sender(peer, "/queues/s");
    (0..3).for_each(|number| house.send(peer, sender, &[number]));
    house.shards[0].open_seat(link(1));
    let consumer = house.shards[0].add_seat_consumer(link(1), stream).expect("the seat is there");
    let replay = Mode::Replay(Box::new(Replay { start: Start::First, ..Replay::default() }));
    let requests = [attach(consumer, replay, false), grant(consumer, 0, 2, false)];
    house.shards[0].handle_seat_requests(requests.map(|request| (stream, request)));
    let offsets = |house: &mut House| {
        let sent = effects(house, link(1));
        let offset = |effect: &Effect| match effect {
            Effect::Delivery(delivery) => Some(delivery.seq),
            _ => None,
        };
        sent.iter().filter_map(offset).collect::<Vec<_>>()
    };
    assert_eq!(offsets(&mut house), [0, 1]);
    house.shards[0].handle_seat_requests([(stream, grant(consumer, 2, 5, false))]);
    assert_eq!(offsets(&mut house), [2]);
}
