//! AMQP 0.9.1 as a client that does unusual things sees it. What usual clients see is in `tests/interop`.

use crate::broker;

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use amqp091::{
    BasicAck, BasicCancel, BasicConsume, BasicGet, BasicPublish, BasicQos, Config, ConfirmSelect, Connection,
    ConnectionStartOk, Event, ExchangeDeclare, Method, QueueDeclare, Secret, Table, TableWriter, Value,
};
use bytes::{Bytes, BytesMut};

use self::broker::{Broker, Directory, Starting};

/// Longer than any answer takes. A test that waits for this long has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the client wants to be told: that it is blocked, that a consumer is cancelled, and why a login is refused.
const CAPABILITIES: [&str; 3] =
    ["connection.blocked", "consumer_cancel_notify", "authentication_failure_close"];

/// A connection of a client.
pub(crate) struct Client {
    pub conn: Connection,
    stream: TcpStream,
    input: Vec<u8>,
    /// The mechanism of the login, and the response.
    login: (&'static str, Vec<u8>),
    /// The code and the text with which the broker closed a channel or the connection last.
    pub refused: Option<(u16, String)>,
}

impl Client {
    /// Opens a connection.
    fn open(broker: &Broker) -> Self {
        Self::open_as(broker, "guest", "guest")
    }

    /// Opens a connection of a user.
    pub(crate) fn open_as(broker: &Broker, user: &str, password: &str) -> Self {
        let mut client = Self::log_in(broker, "PLAIN", format!("\0{user}\0{password}").into_bytes());
        client.wait_for("open");
        client
    }

    /// Connects, and answers with this response when the broker asks for a login.
    pub(crate) fn log_in(broker: &Broker, mechanism: &'static str, response: Vec<u8>) -> Self {
        let config = Config {
            channel_max: 0,
            frame_max: 0,
            initial_frame_max: 8192,
            heartbeat_s: 0,
            max_message_size: 1 << 20,
            incomplete_bytes_max: 1 << 20,
        };
        let stream = TcpStream::connect(("127.0.0.1", broker.amqp_port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let login = (mechanism, response);
        Self { conn: Connection::client(config, 0), stream, input: Vec::new(), login, refused: None }
    }

    /// Writes what was put in the output.
    fn flush(&mut self) {
        let output = self.conn.output();
        while !output.is_empty() {
            let mut slices = [std::io::IoSlice::new(&[])];
            let n = output.slices(&mut slices);
            let written = self.stream.write(&slices[..n][0]).unwrap();
            output.advance(written);
        }
    }

    /// Writes as much of the output as the socket takes.
    fn flush_some(&mut self) {
        self.stream.set_nonblocking(true).unwrap();
        let output = self.conn.output();
        while !output.is_empty() {
            let mut slices = [std::io::IoSlice::new(&[])];
            let n = output.slices(&mut slices);
            match self.stream.write(&slices[..n][0]) {
                Ok(written) => output.advance(written),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        let left = output.len();
        output.advance(left);
        self.stream.set_nonblocking(false).unwrap();
    }

    /// Writes the header, and answers the question for a login. Does not wait for the result.
    pub(crate) fn send_login(&mut self) {
        self.wait_for("connection.start");
        self.flush();
    }

    /// Reads until the broker closes the socket, and takes note of why.
    pub(crate) fn read_to_the_end(&mut self) {
        let mut is_answered = false;
        loop {
            while self.next_event().is_some() {}
            if self.refused.is_some() && !is_answered {
                self.conn.close_ok();
                self.flush();
                is_answered = true;
            }
            let mut more = [0; 4096];
            match self.stream.read(&mut more) {
                Ok(0) => return,
                Ok(n) => self.input.extend_from_slice(&more[..n]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return,
                Err(error) => panic!("waiting for the end: {error}"),
            }
        }
    }

    /// Reads until something of this name arrives: a method, or `open` for the connection.
    pub(crate) fn wait_for(&mut self, name: &str) {
        loop {
            self.flush();
            while let Some(arrived) = self.next_event() {
                if arrived == name {
                    return;
                }
                assert!(!arrived.ends_with(".close"), "{arrived} instead of {name}: {:?}", self.refused);
            }
            self.flush();
            let mut more = [0; 4096];
            let n = self.stream.read(&mut more).unwrap_or_else(|error| panic!("waiting for {name}: {error}"));
            assert!(n > 0, "the broker closed the socket instead of {name}");
            self.input.extend_from_slice(&more[..n]);
        }
    }

    /// Handles the next event that has arrived. Returns its name.
    fn next_event(&mut self) -> Option<&'static str> {
        let input = std::mem::take(&mut self.input);
        let (used, event) = self.conn.handle_input(&input, usize::MAX, 0);
        let name = match event.unwrap() {
            None => (used > 0).then_some("nothing"),
            Some(Event::Start(_)) => {
                let mut table = BytesMut::new();
                let mut properties = TableWriter::new(&mut table);
                let mut capabilities = properties.table("capabilities");
                CAPABILITIES.iter().for_each(|name| capabilities.put(name, &Value::Bool(true)));
                drop(capabilities);
                drop(properties);
                self.conn.start_ok(ConnectionStartOk {
                    client_properties: Table::from_entries(&table[4..]),
                    mechanism: self.login.0,
                    response: Secret::new(&self.login.1),
                    locale: "en_US",
                });
                Some("connection.start")
            }
            Some(Event::Tuned) => {
                self.conn.open("/");
                Some("connection.tune")
            }
            Some(Event::Opened) => Some("open"),
            Some(Event::UpdateSecretOk) => Some("connection.update-secret-ok"),
            Some(Event::Blocked(_)) => Some("connection.blocked"),
            Some(Event::Close { code, text, .. }) => {
                self.refused = Some((code, text.to_owned()));
                Some("connection.close")
            }
            Some(Event::ChannelOpened(_)) => Some("channel.open-ok"),
            Some(Event::ChannelClose { code, text, .. }) => {
                self.refused = Some((code, text.to_owned()));
                Some("channel.close")
            }
            Some(Event::ChannelClosed(_)) => Some("channel.close-ok"),
            Some(Event::Method { method, .. }) => Some(method.name()),
            Some(Event::Content { content, .. }) => {
                Some(if content.get_ok().is_some() { "basic.get-ok" } else { "basic.deliver" })
            }
            Some(other) => panic!("unexpected: {other:?}"),
        };
        self.input = input[used..].to_vec();
        name
    }

    pub(crate) fn open_channel(&mut self, channel: u16) {
        assert!(self.conn.open_channel(channel));
        self.wait_for("channel.open-ok");
    }

    pub(crate) fn declare(&mut self, channel: u16, queue: &str) {
        self.conn.send(
            channel,
            &Method::QueueDeclare(QueueDeclare { queue, durable: true, ..QueueDeclare::default() }),
        );
        self.wait_for("queue.declare-ok");
    }

    /// Sends new credentials (`connection.update-secret`), and waits for what the broker says first.
    pub(crate) fn renew(&mut self, secret: &str, answer: &str) {
        self.conn.update_secret(Secret::new(secret.as_bytes()), "renewal");
        self.wait_for(answer);
    }

    pub(crate) fn consume(&mut self, channel: u16, queue: &str) {
        let consume = BasicConsume { queue, consumer_tag: queue, ..BasicConsume::default() };
        self.conn.send(channel, &Method::BasicConsume(consume));
        self.wait_for("basic.consume-ok");
    }

    /// Puts messages in the output.
    pub(crate) fn publish(&mut self, channel: u16, queue: &str, messages: usize) {
        for _ in 0..messages {
            let publish = BasicPublish { routing_key: queue, ..BasicPublish::default() };
            // No properties: the flags alone.
            let payload = Bytes::from_static(b"x");
            self.conn.send_content(channel, &Method::BasicPublish(publish), &[0, 0], &payload, 0);
        }
    }
}

/// A channel that has published more than its credit allows is closed, with its last messages in the same write. The other
/// channels of its connection must still be read.
#[test]
fn a_closed_channel_leaves_no_debt() {
    let directory = Directory::new("debt");
    let broker = Broker::start(&directory);
    let mut client = Client::open(&broker);
    client.open_channel(1);
    client.declare(1, "q");
    client.open_channel(2);
    client.publish(1, "q", 1000);
    client.conn.close_channel(1, "done");
    client.wait_for("channel.close-ok");
    client.declare(2, "q");
    broker.terminate();
}

/// An alarm also stops a client that connects while it lasts. The client is told so with its first message.
#[test]
fn an_alarm_stops_new_connections() {
    let directory = Directory::new("alarm");
    let broker = Starting::spawn(&directory, &["disk_free_limit.absolute=1000TB", "shards=1"]).finish();
    let mut client = Client::open(&broker);
    client.open_channel(1);
    client.declare(1, "q");
    client.conn.send(1, &Method::ConfirmSelect(ConfirmSelect { nowait: false }));
    client.wait_for("confirm.select-ok");
    client.publish(1, "q", 1);
    client.wait_for("connection.blocked");
    // A client that does not publish is not stopped.
    let mut other = Client::open(&broker);
    other.open_channel(1);
    other.declare(1, "q");
    // A client that closes its socket is gone, although what it has sent is not read. It all fits into the buffers of the
    // sockets: the system sends the end of a connection behind its data.
    let connections = || broker.get("/api/connections").1.as_array().unwrap().len();
    client.publish(1, "q", 500);
    client.flush_some();
    assert_eq!(connections(), 2);
    drop(client);
    while connections() > 1 {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(broker.get("/api/queues/%2F/q").1["messages"], 0);
    // A client that is stopped does not delay the end of the broker.
    other.publish(1, "q", 1);
    other.wait_for("connection.blocked");
    assert!(broker.terminate().success());
}

/// In an alarm, a client gets rid of one read, however much it sends and however many channels it opens.
#[test]
fn an_alarm_leaves_a_flood_in_the_sockets() {
    let directory = Directory::new("alarm-flood");
    let sets = ["disk_free_limit.absolute=1000TB", "shards=1"];
    let broker = Starting::spawn_giving_back(&directory, &sets).finish();
    let mut clients: Vec<Client> = (0..50).map(|_| Client::open(&broker)).collect();
    for client in &mut clients {
        client.open_channel(1);
        client.declare(1, "q");
    }
    let before = broker.resident_bytes();
    for client in &mut clients {
        client.publish(1, "q", 20_000);
        client.flush_some();
        client.wait_for("connection.blocked");
    }
    let more = broker.resident_bytes().saturating_sub(before);
    assert!(more < 16 << 20, "{more} bytes more are resident");
    assert_eq!(broker.get("/api/queues/%2F/q").1["messages"], 0);
    let (used, _) = broker.budget("unfinished_deliveries");
    assert!((1..=50 * 40_000).contains(&used), "{used} bytes are held");
    assert!(broker.terminate().success());
}

/// Consumers and publishers of channels are seen, counted and explained as the links of AMQP 1.0 are.
#[test]
fn channels_are_seen_and_explained() {
    let directory = Directory::new("seen");
    let broker = Broker::start(&directory);
    let mut client = Client::open(&broker);
    client.open_channel(1);
    client.declare(1, "q");
    client.conn.send(1, &Method::BasicQos(BasicQos { prefetch_size: 0, prefetch_count: 1, global: false }));
    client.wait_for("basic.qos-ok");
    client.publish(1, "q", 3);
    client.conn.send(1, &Method::BasicGet(BasicGet { queue: "q", no_ack: true }));
    client.wait_for("basic.get-ok");
    let consume = BasicConsume { queue: "q", consumer_tag: "eager", ..BasicConsume::default() };
    client.conn.send(1, &Method::BasicConsume(consume));
    client.wait_for("basic.consume-ok");
    client.wait_for("basic.deliver");

    let (_, consumers) = broker.get("/api/consumers");
    assert_eq!(consumers[0]["consumer_tag"], "eager");
    assert_eq!(
        (&consumers[0]["prefetch_count"], &consumers[0]["messages_unacknowledged"]),
        (&1.into(), &1.into())
    );
    let (_, channels) = broker.get("/api/channels");
    assert_eq!((&channels[0]["number"], &channels[0]["consumer_count"]), (&1.into(), &1.into()));
    let (_, explained) = broker.get("/api/explain/links/eager");
    assert_eq!(explained["cause"], "unsettled_limit", "{explained}");
    let (_, explained) = broker.get("/api/explain/queues/%2F/q");
    assert_eq!((&explained["cause"], &explained["at"]["link"]), (&"unsettled_limit".into(), &"eager".into()));
    let (_, explained) = broker.get("/api/explain/links/channel%201");
    assert_eq!(explained["cause"], "client_silent", "{explained}");
    let (_, overview) = broker.get("/api/overview");
    let (_, queue) = broker.get("/api/queues/%2F/q");
    // The node, the channel and the queue count the same messages.
    for seen in [&overview, &channels[0], &queue] {
        let stats = &seen["message_stats"];
        let counted = ["publish", "get", "get_no_ack", "deliver", "deliver_no_ack", "ack", "deliver_get"];
        assert_eq!(counted.map(|name| &stats[name]), [3, 0, 1, 1, 0, 0, 2], "{seen}");
    }
    broker.terminate();
}

/// Deliveries of `basic.get` and of consumers have an age until they are settled.
#[test]
fn unacknowledged_deliveries_of_a_channel_have_an_age() {
    let directory = Directory::new("channel-ages");
    let broker = Broker::start(&directory);
    let mut client = Client::open(&broker);
    client.open_channel(1);
    client.declare(1, "q");
    // The channel is asked last, so its age is the larger one.
    let ages = || {
        let (_, consumers) = broker.get("/api/consumers");
        let (_, channels) = broker.get("/api/channels");
        [&channels, &consumers].map(|rows| rows[0]["unacknowledged_age_ms"].as_u64())
    };
    client.publish(1, "q", 2);
    client.conn.send(1, &Method::BasicGet(BasicGet { queue: "q", no_ack: false }));
    client.wait_for("basic.get-ok");
    while ages()[0].is_none_or(|age_ms| age_ms == 0) {
        std::thread::yield_now();
    }
    assert_eq!(ages()[1], None, "nothing consumes");
    let consume = BasicConsume { queue: "q", consumer_tag: "eager", ..BasicConsume::default() };
    client.conn.send(1, &Method::BasicConsume(consume));
    client.wait_for("basic.deliver");
    let [of_channel, of_consumer] = ages();
    assert!(of_channel >= of_consumer && of_consumer.is_some(), "{of_channel:?} {of_consumer:?}");
    client.conn.send(1, &Method::BasicAck(BasicAck { delivery_tag: 2, multiple: true }));
    client.declare(1, "q");
    assert_eq!(ages(), [None, None]);
    broker.terminate();
}

/// A client may cancel a consumer before it knows that the consumer exists. It still gets both answers, in this order.
#[test]
fn a_consumer_that_is_cancelled_at_once_is_answered_twice() {
    let directory = Directory::new("cancelled");
    let broker = Broker::start(&directory);
    let mut client = Client::open(&broker);
    client.open_channel(1);
    client.declare(1, "jobs");
    for round in 0..3 {
        let tag = format!("consumer-{round}");
        let consume = BasicConsume { queue: "jobs", consumer_tag: &tag, ..BasicConsume::default() };
        client.conn.send(1, &Method::BasicConsume(consume));
        client.conn.send(1, &Method::BasicCancel(BasicCancel { consumer_tag: &tag, nowait: false }));
        client.wait_for("basic.consume-ok");
        client.wait_for("basic.cancel-ok");
    }
    broker.terminate();
}

/// RabbitMQ's federation links declare a fanout exchange instead of one of this type if they get 503. They understand no
/// other code. All other unknown types get 406.
#[test]
fn federation_links_learn_that_their_exchange_type_is_unknown() {
    let directory = Directory::new("federation");
    let broker = Broker::start(&directory);
    for (kind, closed, code, name) in [
        ("x-federation-upstream", "connection.close", 503, "COMMAND_INVALID"),
        ("no-such-type", "channel.close", 406, "PRECONDITION_FAILED"),
    ] {
        let mut client = Client::open(&broker);
        client.open_channel(1);
        let declare = ExchangeDeclare { exchange: "x", kind, durable: true, ..ExchangeDeclare::default() };
        client.conn.send(1, &Method::ExchangeDeclare(declare));
        client.wait_for(closed);
        assert_eq!(client.refused, Some((code, format!("{name} - unknown exchange type '{kind}'"))));
    }
    broker.terminate();
}

/// Some clients report a broken socket instead of the reason if the socket is closed before they have answered
/// `connection.close`. So the broker waits for the answer, with its own side open.
#[test]
fn the_socket_stays_open_until_the_client_has_answered() {
    let directory = Directory::new("closing");
    let broker = Broker::start(&directory);
    let mut client = Client::open(&broker);
    client.open_channel(1);
    let declare =
        ExchangeDeclare { exchange: "x", kind: "x-federation-upstream", ..ExchangeDeclare::default() };
    client.conn.send(1, &Method::ExchangeDeclare(declare));
    client.wait_for("connection.close");
    // The answer is not sent yet, so the broker must not have closed its side.
    client.stream.set_nonblocking(true).unwrap();
    let nothing = client.stream.read(&mut [0; 16]).map_err(|error| error.kind());
    assert_eq!(nothing, Err(ErrorKind::WouldBlock));
    client.stream.set_nonblocking(false).unwrap();
    client.conn.close_ok();
    client.flush();
    assert_eq!(client.stream.read(&mut [0; 16]).unwrap(), 0, "the broker closes after the answer");
    broker.terminate();
}

/// A program that has cancelled the last consumer of an auto-delete queue may rely on the deletion.
#[test]
fn an_auto_delete_queue_is_gone_when_its_last_consumer_is() {
    let directory = Directory::new("auto-delete");
    let broker = Broker::start(&directory);
    let mut client = Client::open(&broker);
    for channel in 1..10 {
        client.open_channel(channel);
        let queue = &format!("brief-{channel}");
        let declare = QueueDeclare { queue, durable: true, auto_delete: true, ..QueueDeclare::default() };
        client.conn.send(channel, &Method::QueueDeclare(declare));
        client.wait_for("queue.declare-ok");
        let consume = BasicConsume { queue, consumer_tag: "it", ..BasicConsume::default() };
        client.conn.send(channel, &Method::BasicConsume(consume));
        client.wait_for("basic.consume-ok");
        client.conn.send(channel, &Method::BasicCancel(BasicCancel { consumer_tag: "it", nowait: false }));
        client.wait_for("basic.cancel-ok");
        let inspect = QueueDeclare { queue, passive: true, ..QueueDeclare::default() };
        client.conn.send(channel, &Method::QueueDeclare(inspect));
        client.wait_for("channel.close");
        assert_eq!(client.refused, Some((404, format!("NOT_FOUND - no queue '{queue}' in vhost '/'"))));
        client.conn.channel_close_ok(channel);
    }
    broker.terminate();
}
