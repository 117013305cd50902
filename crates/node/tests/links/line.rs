//! Compares the gate of the line protocol with a naive model. Random publishers, consumers and fetches
//! settle, give back, cancel and lose their connections. A confirmed message is delivered until it is
//! settled, to one consumer at a time, in order, and within its credit.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use broker::settings::Settings;
use bytes::BytesMut;
use catalog::ids::ShardId;
use wal_testing::Random;

use super::house::House;
use crate::world::take;

const QUEUES: u64 = 3;
const STEPS: usize = 250;

/// The commands that the broker sends.
const WORDS: [&str; 10] =
    ["OK", "DECLARED", "CREDIT", "DONE", "SUBBED", "CANCELLED", "MSG", "GOT", "DRAINED", "SETTLED"];

/// What a number of a client is used for.
enum Role {
    Publisher { queue: Option<u64>, credit: u64, tag: u64, unanswered: BTreeMap<u64, u64> },
    Consumer(Consumer),
}

/// A consumer, or a number that is used for fetching.
#[derive(Default)]
struct Consumer {
    queue: u64,
    fetches: bool,
    /// True if the queue has accepted the consumer and the client has not cancelled it.
    subscribed: bool,
    cancelled: bool,
    credit: u64,
    /// The numbers of messages that unanswered fetches have requested.
    fetching: VecDeque<u64>,
    got: u64,
    drains: bool,
    /// The bodies of held messages, by delivery number.
    held: BTreeMap<u64, u64>,
    /// The newest message of each publisher that was delivered for the first time.
    newest: BTreeMap<u64, u64>,
    settling: VecDeque<(u64, u64)>,
}

struct Client {
    shard: usize,
    key: usize,
    input: Vec<u8>,
    roles: BTreeMap<u64, Role>,
}

/// A message. Its body is its number.
struct Sent {
    queue: u64,
    publisher: u64,
    confirmed: bool,
    settled: bool,
}

struct Model {
    random: Random,
    house: House,
    clients: Vec<Client>,
    sent: BTreeMap<u64, Sent>,
    /// The messages that a client holds unsettled.
    held: BTreeSet<u64>,
    numbers: u64,
    /// The most deliveries that a consumer may leave unsettled.
    unsettled_max: u64,
    counts: BTreeMap<&'static str, u64>,
}

impl Model {
    fn new(seed: u64) -> Self {
        let settings = Settings {
            max_link_credit: 1 + (seed % 20) as u32,
            max_queue_credit: 1 + (seed % 7) as u32,
            max_unsettled_per_consumer: if seed.is_multiple_of(3) { 4 } else { 0 },
            ..Settings::default()
        };
        let unsettled_max = if settings.max_unsettled_per_consumer == 0 { u64::MAX } else { 4 };
        let house = House::new(1 + (seed % 2) as ShardId, settings);
        let (clients, sent, held, counts) = (Vec::new(), BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        let (random, numbers) = (Random(seed), 0);
        let mut model = Self { random, house, clients, sent, held, numbers, unsettled_max, counts };
        let client = model.connect();
        (0..QUEUES).for_each(|queue| model.say(client, &format!("DECLARE q{queue}")));
        model.listen();
        model
    }

    fn connect(&mut self) -> usize {
        let shard = self.random.below(self.house.shards.len() as u64) as usize;
        let local: SocketAddr = ([127, 0, 0, 1], 9).into();
        let key = self.house.shards[shard].connect(local, local);
        self.clients.push(Client { shard, key, input: Vec::new(), roles: BTreeMap::new() });
        let client = self.clients.len() - 1;
        self.say(client, "LINE 1\r\nLOGIN /");
        client
    }

    /// Sends a line, sometimes in two reads.
    fn say(&mut self, client: usize, line: &str) {
        let Client { shard, key, .. } = self.clients[client];
        let line = format!("{line}\n");
        let cut = if self.random.one_in(8) { self.random.below(line.len() as u64) as usize } else { 0 };
        for part in [&line.as_bytes()[..cut], &line.as_bytes()[cut..]] {
            self.house.shards[shard].handle_input(key, &mut BytesMut::from(part));
        }
    }

    fn fresh(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Lets every client read everything, and checks that all requests are answered.
    fn listen(&mut self) {
        loop {
            self.house.settle();
            let mut quiet = true;
            for client in 0..self.clients.len() {
                let Client { shard, key, .. } = self.clients[client];
                let Some(conn) = self.house.shards[shard].conn(key) else { continue };
                take(conn.gate.output(), &mut self.clients[client].input);
                let input = String::from_utf8(std::mem::take(&mut self.clients[client].input)).unwrap();
                quiet &= input.is_empty();
                input.lines().for_each(|line| self.hear(client, line));
            }
            if quiet {
                break;
            }
        }
        for role in self.clients.iter().flat_map(|client| client.roles.values()) {
            match role {
                Role::Publisher { unanswered, .. } => assert!(unanswered.is_empty(), "{unanswered:?}"),
                Role::Consumer(c) => {
                    assert!(!c.drains && c.settling.is_empty() && c.fetching.is_empty(), "unanswered");
                }
            }
        }
        self.check_served();
    }

    /// Asserts that no message waits while a consumer of its queue has credit and may hold more.
    fn check_served(&self) {
        let waits = |(body, sent): (&u64, &Sent)| {
            (sent.confirmed && !sent.settled && !self.held.contains(body)).then_some(sent.queue)
        };
        let waiting: BTreeSet<u64> = self.sent.iter().filter_map(waits).collect();
        for role in self.clients.iter().flat_map(|client| client.roles.values()) {
            let Role::Consumer(c) = role else { continue };
            let hungry = c.subscribed && c.credit > 0 && (c.held.len() as u64) < self.unsettled_max;
            assert!(
                !(hungry && waiting.contains(&c.queue)),
                "queue q{} does not deliver its messages",
                c.queue
            );
        }
    }

    fn hear(&mut self, client: usize, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().unwrap_or_else(|_| panic!("{line}"));
        *self.counts.entry(WORDS.iter().find(|word| **word == words[0]).expect(line)).or_default() += 1;
        if matches!(words[0], "OK" | "DECLARED") {
            return;
        }
        let role = self.clients[client].roles.get_mut(&number(1)).expect("a number that is in use");
        match (words[0], role) {
            ("CREDIT", Role::Publisher { credit, .. }) => *credit = number(2),
            ("DONE", Role::Publisher { unanswered, .. }) => {
                for tag in number(2)..=number(3) {
                    let body = unanswered.remove(&tag).expect("one answer for each publish");
                    assert_eq!(words[4], "Accepted");
                    self.sent.get_mut(&body).unwrap().confirmed = true;
                }
            }
            ("SUBBED", Role::Consumer(c)) => c.subscribed = true,
            ("CANCELLED", Role::Consumer(c)) => c.cancelled = true,
            ("MSG", Role::Consumer(c)) => {
                let (place, body) = (number(2), number(4));
                if c.fetches {
                    c.got += 1;
                } else {
                    c.credit = c.credit.checked_sub(1).expect("credit is never exceeded");
                    assert!(!c.cancelled, "nothing comes after CANCELLED");
                }
                let sent = &self.sent[&body];
                assert_eq!(sent.queue, c.queue);
                assert!(!sent.settled && self.held.insert(body), "{body} is held by another consumer");
                if words[3] == "0" {
                    let newest = c.newest.insert(sent.publisher, body);
                    assert!(newest.is_none_or(|newest| newest < body), "out of order");
                }
                assert!(c.held.insert(place, body).is_none());
            }
            ("GOT", Role::Consumer(c)) => {
                let asked = c.fetching.pop_front().expect("one answer for each fetch");
                assert_eq!(std::mem::take(&mut c.got), number(2));
                assert!(number(2) == asked || number(2) < asked && number(3) == 0, "{line}");
            }
            ("DRAINED", Role::Consumer(c)) => {
                assert!(std::mem::take(&mut c.drains));
                c.credit = 0;
            }
            ("SETTLED", Role::Consumer(c)) => {
                assert_eq!(c.settling.pop_front(), Some((number(2), number(3))));
            }
            _ => panic!("{line}"),
        }
    }

    /// Lets a random client do one thing.
    fn step(&mut self) {
        if self.clients.len() < 2 || self.random.one_in(40) {
            self.connect();
            return;
        }
        let client = self.random.below(self.clients.len() as u64) as usize;
        if self.random.one_in(60) {
            return self.vanish(client);
        }
        let roles = &self.clients[client].roles;
        let chosen = self.random.below(roles.len() as u64 + 2) as usize;
        let Some(&place) = roles.keys().nth(chosen) else { return self.open(client) };
        if self.random.one_in(25) {
            self.say(client, &format!("CLOSE {place}"));
            return self.drop_role(client, place);
        }
        let random = &mut self.random;
        match self.clients[client].roles.get_mut(&place).unwrap() {
            Role::Publisher { queue, credit, tag, unanswered } if *credit > 0 => {
                *credit -= 1;
                *tag += 1 + u64::from(random.one_in(10));
                self.numbers += 1;
                let (body, to) = (self.numbers, queue.unwrap_or_else(|| random.below(QUEUES)));
                unanswered.insert(*tag, body);
                let named = if queue.is_none() { format!(" q{to}") } else { String::new() };
                let line = format!("PUB {place} {tag}{named} {body}");
                let sent = Sent { queue: to, publisher: place, confirmed: false, settled: false };
                self.sent.insert(body, sent);
                self.say(client, &line);
            }
            Role::Publisher { .. } => {}
            Role::Consumer(c) if !c.held.is_empty() && random.one_in(2) => {
                let first = *c.held.keys().nth(random.below(c.held.len() as u64) as usize).unwrap();
                let last = (first..).take_while(|n| c.held.contains_key(n)).last().unwrap();
                let last = first + random.below(last - first + 1);
                let command = ["ACK", "BACK", "SETTLE"][random.below(3) as usize];
                if command == "SETTLE" {
                    c.settling.push_back((first, last));
                }
                for body in (first..=last).filter_map(|n| c.held.remove(&n)) {
                    self.held.remove(&body);
                    self.sent.get_mut(&body).unwrap().settled = command != "BACK";
                }
                self.say(client, &format!("{command} {place} {first} {last}"));
            }
            Role::Consumer(c) if c.fetches => {
                let n = 1 + random.below(5);
                c.fetching.push_back(n);
                let line = format!("GET {place} q{} {n}", c.queue);
                self.say(client, &line);
            }
            Role::Consumer(c) if !c.subscribed => {}
            Role::Consumer(c) if random.one_in(20) => {
                (c.subscribed, c.drains) = (false, false);
                self.say(client, &format!("CANCEL {place}"));
            }
            Role::Consumer(c) => {
                let more = 1 + random.below(9);
                c.credit += more;
                c.drains = random.one_in(4);
                let command = if c.drains { "DRAIN" } else { "CREDIT" };
                self.say(client, &format!("{command} {place} {more}"));
            }
        }
    }

    /// Opens a publisher or a consumer, or begins to fetch.
    fn open(&mut self, client: usize) {
        let (place, queue) = (self.fresh(), self.random.below(QUEUES));
        let consumer = Consumer { queue, ..Consumer::default() };
        let (role, line) = match self.random.below(4) {
            0 => {
                let queue = (!self.random.one_in(3)).then_some(queue);
                let to = queue.map_or_else(String::new, |queue| format!(" q{queue}"));
                let role = Role::Publisher { queue, credit: 0, tag: 0, unanswered: BTreeMap::new() };
                (role, format!("OPEN {place}{to}"))
            }
            1 | 2 => (Role::Consumer(consumer), format!("SUB {place} q{queue}")),
            _ => {
                let fetching = VecDeque::from([1]);
                let consumer = Consumer { fetches: true, fetching, ..consumer };
                (Role::Consumer(consumer), format!("GET {place} q{queue} 1"))
            }
        };
        self.clients[client].roles.insert(place, role);
        self.say(client, &line);
    }

    /// Ends the use of a number. Its unsettled messages are requeued.
    fn drop_role(&mut self, client: usize, place: u64) {
        if let Some(Role::Consumer(c)) = self.clients[client].roles.remove(&place) {
            c.held.values().for_each(|body| assert!(self.held.remove(body)));
        }
    }

    /// Breaks the connection of a client.
    fn vanish(&mut self, client: usize) {
        let places: Vec<u64> = self.clients[client].roles.keys().copied().collect();
        places.into_iter().for_each(|place| self.drop_role(client, place));
        let Client { shard, key, .. } = self.clients.swap_remove(client);
        self.house.shards[shard].disconnect(key);
    }

    /// Disconnects all clients. A last one then takes all messages and compares them with what was sent.
    fn finish(mut self) -> BTreeMap<&'static str, u64> {
        self.listen();
        (0..self.clients.len()).rev().for_each(|client| self.vanish(client));
        self.house.settle();
        let last = self.connect();
        for queue in 0..QUEUES {
            let place = self.fresh();
            let fetching = VecDeque::from([1_000_000]);
            let role = Consumer { queue, fetches: true, fetching, ..Consumer::default() };
            self.clients[last].roles.insert(place, Role::Consumer(role));
            self.say(last, &format!("GET {place} q{queue} 1000000"));
        }
        self.listen();
        for (body, sent) in &self.sent {
            let is_there = self.held.contains(body);
            assert!(!(is_there && sent.settled), "message {body} was settled");
            assert!(is_there || sent.settled || !sent.confirmed, "message {body} is lost");
        }
        self.counts
    }
}

#[test]
fn another_protocol_lives_in_the_same_rooms() {
    let seed = std::env::var("SLUICE_SEED").ok().and_then(|seed| seed.parse().ok());
    let soak: u64 = std::env::var("SLUICE_SOAK").ok().and_then(|soak| soak.parse().ok()).unwrap_or(1);
    let mut counts = BTreeMap::new();
    for seed in seed.map_or(1..1 + 60 * soak, |seed| seed..seed + 1) {
        let mut model = Model::new(seed);
        for _ in 0..STEPS {
            model.step();
            if model.random.one_in(3) {
                model.listen();
            }
        }
        model.finish().into_iter().for_each(|(word, n)| *counts.entry(word).or_default() += n);
    }
    if seed.is_none() {
        let unheard: Vec<_> =
            WORDS.iter().filter(|word| counts.get(*word).is_none_or(|n: &u64| *n < 20)).collect();
        assert!(unheard.is_empty(), "received too seldom or never: {unheard:?}");
    }
}

#[test]
fn closing_a_connection_waits_for_its_own_queues() {
    let mut house = House::new(2, Settings::default());
    let local: SocketAddr = ([127, 0, 0, 1], 9).into();
    let keys = [house.shards[0].connect(local, local), house.shards[1].connect(local, local)];
    let mut say = |client: usize, line: &str| {
        let mut input = BytesMut::from(format!("{line}\n").as_bytes());
        house.shards[client].handle_input(keys[client], &mut input);
        house.settle();
        let mut heard = [Vec::new(), Vec::new()];
        for (shard, heard) in heard.iter_mut().enumerate() {
            take(house.shards[shard].conn(keys[shard]).expect("it is there").gate.output(), heard);
        }
        heard.map(|heard| String::from_utf8(heard).unwrap())
    };
    assert_eq!(say(0, "LINE 1\r\nLOGIN /"), ["OK\n", ""]);
    assert_eq!(say(1, "LINE 1\r\nLOGIN /"), ["", "OK\n"]);
    assert_eq!(say(0, "OWN mine"), ["DECLARED mine\n", ""]);
    assert_eq!(say(1, "OPEN 1 mine"), ["", "CREDIT 1 170\n"]);
    assert_eq!(say(1, "PUB 1 5 hello"), ["", "DONE 1 5 5 Accepted\n"]);
    assert_eq!(say(1, "OPEN 2"), ["", "CREDIT 2 170\n"]);
    assert_eq!(say(1, "PUB 2 1 nobody hello"), ["", "DONE 2 1 1 Released\n"]);
    assert_eq!(say(0, "QUIT"), ["BYE\n", "GONE 1\n"]);
    assert_eq!(say(1, "PUB 1 6 hello"), ["", "BAD no publisher\n"]);
}
