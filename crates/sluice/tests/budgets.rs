//! Memory that clients can make the broker use, seen from outside: its resident memory, and its own figures.

use crate::broker;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use amqp10::connection::Config;
use amqp10::sasl::Secret;
use amqp10::{
    Attach, Chunk, Connection, Described, Event, Map, Open, Role, SaslInit, SessionConfig, Source, Symbol,
    Target, TargetArchetype, TransferHead, Value, put_transfer_frame,
};
use broker::{Broker, Directory, Starting};
use bytes::{BufMut as _, Bytes};

/// The size of one transfer, in bytes.
const PART: usize = 100_000;

/// The time within which a condition must be met. After it, the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

const MIB: u64 = 1 << 20;

/// A client that handles frames itself and does what no library allows.
struct Raw {
    socket: TcpStream,
    conn: Connection,
    input: Vec<u8>,
    /// The condition and description of the broker's CLOSE.
    closed: Option<String>,
    /// The number of links that the broker has answered.
    attached: u32,
}

impl Raw {
    /// Connects, logs in and begins a session.
    fn connect(broker: &Broker) -> Self {
        let config = Config {
            max_frame_size: 128 * 1024,
            channel_max: 0,
            idle_time_out_ms: 0,
            initial_max_frame_size: amqp10::frame::INITIAL_MAX_FRAME_SIZE,
            incomplete_bytes_max: usize::MAX,
            session: SessionConfig { incoming_window: 1_000_000, handle_max: 1000 },
        };
        let socket = TcpStream::connect(("127.0.0.1", broker.amqp_port)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let conn = Connection::client(config, 0);
        let mut raw = Self { socket, conn, input: Vec::new(), closed: None, attached: 0 };
        raw.read_until(|raw| {
            raw.conn.session(0).is_some_and(|s| s.state() == amqp10::session::SessionState::Mapped)
        });
        raw
    }

    /// Writes pending output. Returns false if the broker has closed its side.
    fn write(&mut self) -> bool {
        let mut up = Vec::new();
        let output = self.conn.output();
        while !output.is_empty() {
            let mut slices = [std::io::IoSlice::new(&[])];
            output.slices(&mut slices);
            let len = slices[0].len();
            up.extend_from_slice(&slices[0]);
            output.advance(len);
        }
        self.socket.write_all(&up).is_ok()
    }

    fn read_until(&mut self, done: impl Fn(&Self) -> bool) {
        while !done(self) {
            self.write();
            let mut more = [0; 65_536];
            match self.socket.read(&mut more) {
                Ok(n) if n > 0 => self.input.extend_from_slice(&more[..n]),
                end => panic!("the broker says no more: {end:?}, {:?}", self.closed),
            }
            self.handle();
        }
    }

    fn handle(&mut self) {
        while let Ok(Some(len)) = self.conn.frame_len(&self.input)
            && self.input.len() >= len
        {
            let frame: Vec<u8> = self.input.drain(..len).collect();
            match self.conn.handle_frame(Chunk::Owned(Bytes::from(frame)), 0).unwrap() {
                Some(Event::SaslMechanisms(_)) => {
                    let mut init = SaslInit::new(Symbol::from_static("ANONYMOUS"));
                    init.initial_response = Some(Secret::new(""));
                    self.conn.sasl_init(init);
                }
                Some(Event::HeaderExchanged) => {
                    self.conn.open(Open { container_id: "raw".into(), ..Open::default() });
                }
                Some(Event::Open(_)) => _ = self.conn.begin(None, true),
                Some(Event::Attach { .. }) => self.attached += 1,
                Some(Event::Close(error)) => self.closed = Some(format!("{error:?}")),
                _ => {}
            }
        }
    }

    fn sender(&mut self, address: &str) -> u32 {
        let target = Target { address: Some(address.to_owned()), ..Target::default() };
        let attach = Attach {
            source: Some(Source::default()),
            target: Some(TargetArchetype::Target(target)),
            initial_delivery_count: Some(0),
            ..Attach::new("out".to_owned(), 0, Role::Sender)
        };
        let link = self.conn.attach(0, None, attach).unwrap();
        self.read_until(|raw| {
            raw.conn.session(0).and_then(|s| s.link(link)).is_some_and(|l| l.sender_credit().credit() > 0)
        });
        link
    }

    /// Sends this many bytes of a delivery, but not its end. Returns false if the broker has closed the
    /// connection.
    fn begin_delivery(&mut self, handle: u32, bytes: usize) -> bool {
        let mut head = TransferHead {
            handle,
            delivery_id: Some(0),
            delivery_tag: Some(b"t"),
            more: true,
            ..TransferHead::default()
        };
        for _ in 0..bytes / PART {
            put_transfer_frame(self.conn.output().buffer(), 0, &head, PART);
            self.conn.output().buffer().put_bytes(0, PART);
            if !self.write() {
                return false;
            }
            head = TransferHead { handle, more: true, ..TransferHead::default() };
        }
        true
    }
}

/// Waits until the condition is met.
fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !so() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn status_shows_every_budget() {
    let directory = Directory::new("budgets");
    let broker = Starting::spawn(&directory, &["amqp10.unfinished_memory=64MiB"]).finish();
    let mut raw = Raw::connect(&broker);
    broker.verb(&["declare", "queue", "q"]).done();
    let link = raw.sender("/queues/q");
    raw.begin_delivery(link, 3 * PART);
    let expected = (3 * PART as u64, 64 * MIB);
    wait_until("it is counted", || broker.budget("unfinished_deliveries") == expected);
    let (_, nodes) = broker.get("/api/nodes");
    let status = broker.verb(&["status"]).done();
    for budget in nodes[0]["budgets"].as_array().unwrap() {
        let line = status.lines().find(|line| line.starts_with(budget["name"].as_str().unwrap()));
        assert!(line.is_some_and(|line| line.contains(&budget["limit"].to_string())), "{budget}\n{status}");
    }
    let json = broker.verb(&["status", "--json"]).done();
    assert!(json.contains("unfinished_deliveries"), "{json}");
}

/// 40 connections each send 15 MB of a delivery that they never finish: 600 MB in total.
#[test]
fn unfinished_deliveries_take_no_more_memory_than_their_budget() {
    let directory = Directory::new("budgets");
    let broker = Starting::spawn_giving_back(&directory, &["amqp10.unfinished_memory=64MiB"]).finish();
    broker.verb(&["declare", "queue", "q"]).done();
    let before = broker.resident_bytes();
    let mut flood: Vec<Raw> = (0..40)
        .map(|_| {
            let mut raw = Raw::connect(&broker);
            let link = raw.sender("/queues/q");
            raw.begin_delivery(link, 15_000_000);
            raw
        })
        .collect();
    let (mut used, mut limit) = (0, 0);
    wait_until("most of them are closed", || {
        (used, limit) = broker.budget("unfinished_deliveries");
        // Each remaining connection holds exactly the transfers that it has sent, except for bytes in flight.
        used > 0 && used <= limit && used % PART as u64 == 0
    });
    assert_eq!(limit, 64 * MIB);
    let grown = broker.resident_bytes().saturating_sub(before);
    assert!(grown < 64 * MIB + 64 * MIB, "{} MiB more are resident", grown / MIB);
    // The first connections were closed as well, because they held as much as the others when the budget was
    // exceeded.
    let reasons = flood.iter_mut().filter_map(|raw| {
        raw.socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let mut rest = Vec::new();
        drop(raw.socket.read_to_end(&mut rest));
        raw.input.extend(rest);
        raw.handle();
        raw.closed.clone()
    });
    let reasons: Vec<String> = reasons.collect();
    assert!(reasons.len() >= 30, "{} were told why", reasons.len());
    assert!(reasons.iter().all(|why| why.contains("amqp10.unfinished_memory")), "{reasons:?}");
    // Other clients are not affected.
    broker.verb(&["send", "q", "body"]).done();
}

/// Makes a stream with this many messages of 100 kB.
async fn stream(broker: &Broker, messages: usize) {
    broker.verb(&["declare", "queue", "s", "--type", "stream"]).done();
    let options = client::Options::default();
    let connection = client::Connection::open(&broker.amqp_url().parse().unwrap(), options).await.unwrap();
    let session = connection.session().await.unwrap();
    let sender = session.sender(Some("/queues/s"), client::SenderOptions::default()).await.unwrap();
    let mut message = b"\x00\x53\x75\xb0".to_vec();
    message.put_u32(PART as u32);
    message.resize(message.len() + PART, b'x');
    let message = Bytes::from(message);
    for _ in 0..messages {
        sender.send(message.clone()).await.unwrap();
    }
}

/// Waits until the broker's memory stays constant, and returns it in bytes.
fn settled_memory(broker: &Broker) -> u64 {
    let mut samples = Vec::new();
    wait_until("the broker's memory stays constant", || {
        samples.push(broker.resident_bytes());
        let last = samples.iter().rev().take(25);
        let (least, most) = (last.clone().min().unwrap(), last.clone().max().unwrap());
        last.len() == 25 && most - least < MIB
    });
    broker.resident_bytes()
}

/// Reads the whole stream on a new connection.
async fn read_all(broker: &Broker, messages: usize) {
    let url = broker.amqp_url().parse().unwrap();
    let connection = client::Connection::open(&url, client::Options::default()).await.unwrap();
    let session = connection.session().await.unwrap();
    let filter = Map(vec![(OFFSET.into(), first())]);
    let options = client::ReceiverOptions { filter: Some(filter), ..client::ReceiverOptions::default() };
    let receiver = session.receiver(Some("/queues/s"), options).await.unwrap();
    for number in 0..messages {
        let delivery = tokio::time::timeout(PATIENCE, receiver.recv()).await;
        let delivery = delivery.unwrap_or_else(|_| panic!("nothing arrives after message {number}")).unwrap();
        delivery.accept().unwrap();
    }
}

const OFFSET: Symbol = Symbol::from_static("rabbitmq:stream-offset-spec");

/// A filter that starts at the first message.
fn first() -> Value {
    Value::Described(Box::new(Described { descriptor: OFFSET.into(), value: "first".into() }))
}

impl Raw {
    /// Attaches links that read the stream from its first message, and grants credit to all of them. From
    /// then on it reads nothing from the socket.
    fn readers(&mut self, links: u32, credit: u32) {
        for number in 0..links {
            let source = Source {
                address: Some("/queues/s".to_owned()),
                filter: Some(Map(vec![(OFFSET.into(), first())])),
                ..Source::default()
            };
            let attach = Attach {
                source: Some(source),
                target: Some(TargetArchetype::Target(Target::default())),
                ..Attach::new(format!("in-{number}"), 0, Role::Receiver)
            };
            self.conn.attach(0, None, attach).unwrap();
        }
        self.read_until(|raw| raw.attached == links);
        for link in 0..links {
            self.conn.grant(0, link, credit, false, false);
        }
        self.write();
    }
}

const MESSAGES: usize = 300;

#[tokio::test]
async fn readers_of_a_stream_take_no_more_memory_than_their_budget() {
    let directory = Directory::new("budgets");
    let broker = Broker::start(&directory);
    stream(&broker, MESSAGES).await;
    let before = settled_memory(&broker);
    let mut one = Raw::connect(&broker);
    one.readers(200, 1000);
    let grown = settled_memory(&broker).saturating_sub(before);
    assert!(grown < 80 * MIB, "{} MiB more for 200 links of one connection", grown / MIB);
    let (used, limit) = broker.budget("stream_readers");
    assert!(used > 0 && used <= 32 * MIB, "{used} bytes for one connection");
    let mut many: Vec<Raw> = (0..50).map(|_| Raw::connect(&broker)).collect();
    many.iter_mut().for_each(|raw| raw.readers(1, 1000));
    let grown = settled_memory(&broker).saturating_sub(before);
    assert!(grown < 160 * MIB, "{} MiB more with 50 connections beside", grown / MIB);
    let (used, _) = broker.budget("stream_readers");
    assert!(used <= 32 * MIB + 50 * MIB && used <= limit, "{used} bytes for all");
    // Other clients are not affected, and a reader that reads makes progress.
    read_all(&broker, MESSAGES).await;
    drop((one, many));
    wait_until("the memory for their reads is released", || broker.budget("stream_readers").0 == 0);
}
