//! A server for testing the client, built from the same endpoints. It stores messages by address and delivers
//! them when there is credit. Some addresses cause errors on purpose, see [`Server::handle_attach`] and
//! [`Server::handle_transfer`].

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use amqp10::connection::Config;
use amqp10::session::SessionConfig;
use amqp10::{
    AmqpError, Attach, Chunk, Connection as Endpoint, ConnectionState, DeliveryState, Event, Open, Outgoing,
    Role, SaslCode, Source, Symbol, Tag, Target, TargetArchetype, Value, condition,
};
use bytes::{Bytes, BytesMut};
use client::{Body, Message};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// The behaviour of the server, and what it observed.
#[derive(Clone)]
pub(crate) struct Script {
    pub login: SaslCode,
    pub mechanisms: Vec<&'static str>,
    /// The credit granted to senders.
    pub grant: u32,
    pub max_frame_size: u32,
    pub incoming_window: u32,
    /// True if the server sends CLOSE directly after OPEN.
    pub refuse_open: bool,
    pub seen: Arc<Mutex<Seen>>,
}

#[derive(Default, Debug)]
pub(crate) struct Seen {
    pub dispositions: u32,
    pub settled: u32,
    pub outcomes: Vec<DeliveryState>,
    pub flows: u32,
    pub credit_max: u32,
    pub hostname: Option<String>,
    pub mechanism: String,
    pub closed: bool,
    pub ended: u32,
    pub detached: u32,
    /// The number of transfers received, as the session counts them.
    pub transfers: u32,
    /// The delivery-ids of the messages received.
    pub delivery_ids: Vec<u32>,
    /// The first transfer-id of the client.
    first_transfer: u32,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            login: SaslCode::Ok,
            mechanisms: vec!["PLAIN", "ANONYMOUS"],
            grant: 20,
            max_frame_size: 4096,
            incoming_window: 16,
            refuse_open: false,
            seen: Arc::default(),
        }
    }
}

struct Link {
    address: String,
    sending: bool,
    taken: u32,
}

pub(crate) struct Server {
    endpoint: Endpoint,
    script: Script,
    links: HashMap<(u16, u32), Link>,
    queues: HashMap<String, VecDeque<Bytes>>,
    tag: u64,
}

pub(crate) fn error(condition: Symbol, text: &str) -> AmqpError {
    AmqpError { condition, description: Some(text.to_owned()), info: None }
}

/// Starts a server at the other end of a pipe.
pub(crate) fn start(script: Script) -> DuplexStream {
    let (ours, theirs) = tokio::io::duplex(3000);
    tokio::spawn(serve(ours, script));
    theirs
}

async fn serve(mut stream: DuplexStream, script: Script) {
    let config = Config {
        max_frame_size: script.max_frame_size,
        channel_max: 3,
        idle_time_out_ms: 60_000,
        initial_max_frame_size: amqp10::frame::INITIAL_MAX_FRAME_SIZE,
        incomplete_bytes_max: usize::MAX,
        session: SessionConfig { incoming_window: script.incoming_window, handle_max: 7 },
    };
    let endpoint = Endpoint::server(config, 0);
    let mut server = Server { endpoint, script, links: HashMap::new(), queues: HashMap::new(), tag: 0 };
    let mut buffer = BytesMut::new();
    loop {
        while let Ok(Some(len)) = server.endpoint.frame_len(&buffer) {
            if buffer.len() < len {
                break;
            }
            let frame = buffer.split_to(len).freeze();
            match server.endpoint.handle_frame(Chunk::Owned(frame), 0) {
                Ok(Some(event)) => server.handle(event),
                Ok(None) => {}
                Err(fault) => panic!("the client violated the protocol: {fault:?}"),
            }
        }
        server.deliver();
        loop {
            server.endpoint.pump();
            let mut slices = [std::io::IoSlice::new(&[]); 16];
            let n = server.endpoint.output().slices(&mut slices);
            if n == 0 {
                break;
            }
            let Ok(written) = stream.write_vectored(&slices[..n]).await else { return };
            server.endpoint.output().advance(written);
        }
        if server.endpoint.state() == ConnectionState::Closed {
            return;
        }
        match stream.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

impl Server {
    fn handle(&mut self, event: Event<'_>) {
        let seen = Arc::clone(&self.script.seen);
        let mut seen = seen.lock().unwrap();
        match event {
            Event::HeaderExchanged if self.endpoint.state() == ConnectionState::Sasl => {
                let mechanisms = self.script.mechanisms.iter().map(|m| Symbol::from_static(m)).collect();
                self.endpoint.sasl_mechanisms(mechanisms);
            }
            Event::SaslInit(init) => {
                seen.mechanism = init.mechanism.to_string();
                self.endpoint.sasl_outcome(self.script.login);
            }
            Event::Open(open) => {
                seen.hostname = open.hostname;
                self.endpoint.open(Open::new("server"));
                if self.script.refuse_open {
                    let no = error(condition::UNAUTHORIZED_ACCESS, "no such vhost");
                    self.endpoint.close(Some(no), false);
                }
            }
            Event::Close(_) => {
                seen.closed = true;
                self.endpoint.close(None, true);
            }
            Event::Begin { session, .. } => {
                self.endpoint.begin(Some(session), true);
                seen.first_transfer = self.next_transfer(session);
            }
            Event::End { session, answered, .. } => {
                seen.ended += 1;
                self.links.retain(|(s, _), _| *s != session);
                if !answered {
                    self.endpoint.end(session, None);
                }
            }
            Event::Attach { session, link, attach } => self.handle_attach(session, link, &attach),
            Event::Detach { session, link, answered, .. } => {
                seen.detached += 1;
                self.links.remove(&(session, link));
                if !answered {
                    self.endpoint.detach(session, link, None);
                }
            }
            Event::Flow { session, link: Some(link), flow } => {
                seen.flows += 1;
                seen.credit_max = seen.credit_max.max(flow.link_credit.unwrap_or(0));
                if flow.drain {
                    self.deliver();
                }
                let waiting = self.links.get(&(session, link)).and_then(|l| self.queues.get(&l.address));
                let available = waiting.map_or(0, |q| q.len() as u32);
                if flow.drain || flow.echo {
                    self.endpoint.report_credit(session, link, available, flow.drain);
                }
            }
            Event::Transfer { session, link, delivery } => {
                let message = Bytes::copy_from_slice(&delivery.message);
                seen.delivery_ids.push(delivery.id);
                seen.transfers = self.next_transfer(session).wrapping_sub(seen.first_transfer);
                self.handle_transfer(session, link, delivery.id, delivery.settled, message);
            }
            Event::Disposition { session, role: Role::Receiver, settled, state, first, last } => {
                seen.dispositions += 1;
                let mut runs = Vec::new();
                self.endpoint.resolve(session, first, last, settled, &mut runs);
                for run in runs {
                    seen.settled += run.last_id.wrapping_sub(run.first_id) + 1;
                }
                seen.outcomes.extend(state);
            }
            _ => {}
        }
    }

    /// Returns the id that the next transfer of the client must have.
    fn next_transfer(&self, session: u16) -> u32 {
        self.endpoint.session(session).map_or(0, |s| s.next_incoming_id())
    }

    fn handle_attach(&mut self, session: u16, link: u32, attach: &Attach) {
        let sending = attach.role == Role::Receiver;
        let target = match &attach.target {
            Some(TargetArchetype::Target(target)) => target.clone(),
            _ => Target::default(),
        };
        let source = attach.source.clone().unwrap_or_default();
        let mut address =
            if sending { source.address.clone() } else { target.address.clone() }.unwrap_or_default();
        if source.dynamic || target.dynamic {
            address = "/queues/dynamic".to_owned();
        }
        let mut answer =
            Attach::new(attach.name.clone(), 0, if sending { Role::Sender } else { Role::Receiver });
        answer.snd_settle_mode = attach.snd_settle_mode;
        answer.initial_delivery_count = sending.then_some(u32::MAX - 1);
        answer.max_message_size = (!sending).then_some(1 << 20);
        if address == "/queues/refused" {
            self.endpoint.attach(session, Some(link), answer);
            self.endpoint.detach(session, link, Some(error(condition::NOT_FOUND, "no queue")));
            return;
        }
        if address == "/queues/forbidden" {
            self.endpoint.end(session, Some(error(condition::UNAUTHORIZED_ACCESS, "no access")));
            return;
        }
        if address == "/queues/closing" {
            self.endpoint.close(Some(error(condition::CONNECTION_FORCED, "shutting down")), false);
            return;
        }
        let node = Some(address.clone());
        answer.source = Some(Source { address: if sending { node.clone() } else { None }, ..source });
        answer.target =
            Some(TargetArchetype::Target(Target { address: if sending { None } else { node }, ..target }));
        self.endpoint.attach(session, Some(link), answer);
        if !sending {
            self.endpoint.grant(session, link, self.script.grant, false, false);
        }
        self.links.insert((session, link), Link { address, sending, taken: 0 });
    }

    fn handle_transfer(&mut self, session: u16, link: u32, id: u32, settled: bool, message: Bytes) {
        let Some(l) = self.links.get_mut(&(session, link)) else { return };
        l.taken += 1;
        let decoded = Message::decode(&message).unwrap();
        let mut outcome = match decoded.properties.as_ref().and_then(|p| p.subject.as_deref()) {
            Some("reject") => {
                DeliveryState::Rejected(Some(error(condition::RESOURCE_LIMIT_EXCEEDED, "full")))
            }
            Some("release") => DeliveryState::Released,
            _ => DeliveryState::Accepted,
        };
        match l.address.as_str() {
            "/queues/silent" => return,
            "/queues/deleted" if l.taken == 3 => {
                self.endpoint.detach(session, link, Some(error(condition::RESOURCE_DELETED, "deleted")));
                self.links.remove(&(session, link));
                return;
            }
            "/management" => {
                let answer = answer(&decoded);
                self.queues.entry("/management".to_owned()).or_default().push_back(answer);
            }
            "" if outcome == DeliveryState::Accepted => {
                let to = decoded.properties.and_then(|p| p.to);
                match to {
                    Some(to) => self.queues.entry(to).or_default().push_back(message),
                    None => {
                        outcome =
                            DeliveryState::Rejected(Some(error(condition::PRECONDITION_FAILED, "no to")))
                    }
                }
            }
            address if outcome == DeliveryState::Accepted => {
                self.queues.entry(address.to_owned()).or_default().push_back(message);
            }
            _ => {}
        }
        if !settled {
            self.endpoint.disposition(session, Role::Receiver, (id, id), true, &outcome);
        }
        let left =
            self.endpoint.session(session).and_then(|s| s.link(link)).map(|l| l.receiver_credit().credit());
        if left.is_some_and(|left| left <= self.script.grant / 2) {
            self.endpoint.grant(session, link, self.script.grant, false, false);
        }
    }

    fn deliver(&mut self) {
        for ((session, link), l) in &self.links {
            let Some(queue) = self.queues.get_mut(&l.address).filter(|_| l.sending) else { continue };
            let settled = self
                .endpoint
                .session(*session)
                .and_then(|s| s.link(*link))
                .is_some_and(|l| l.snd_settle_mode == amqp10::SenderSettleMode::Settled);
            while let Some(message) = queue.front() {
                let credit =
                    self.endpoint.session(*session).and_then(|s| s.link(*link)).map(|l| l.sender_credit());
                if credit.is_none_or(|c| c.credit() == 0) {
                    break;
                }
                self.tag += 1;
                let delivery = Outgoing::whole(Tag::from_number(self.tag), settled, message, self.tag);
                if !self.endpoint.send(*session, *link, &delivery) {
                    break;
                }
                queue.pop_front();
            }
        }
    }
}

/// Answers like a management node, with enough detail for the tests.
fn answer(request: &Message) -> Bytes {
    let properties = request.properties.clone().unwrap_or_default();
    let (method, path) = (properties.subject.unwrap_or_default(), properties.to.unwrap_or_default());
    let name = || Value::from("a/b");
    let (status, body) = match (method.as_str(), path.as_str()) {
        ("PUT", "/queues/a%2Fb") => {
            let Body::Value(Value::Map(requested)) = &request.body else { panic!("no map") };
            let kind = requested.get("arguments").and_then(Value::as_map).and_then(|a| a.get("x-queue-type"));
            let kind = kind.cloned().unwrap_or_else(|| "classic".into());
            let durable = requested.get("durable").cloned().unwrap_or(Value::Null);
            let map =
                [("name", name()), ("type", kind), ("durable", durable), ("message_count", 7u64.into())];
            ("201", amqp10::Map::from_iter(map).into())
        }
        ("DELETE", "/queues/a%2Fb" | "/queues/a%2Fb/messages") => {
            ("200", amqp10::Map::from_iter([("message_count", 7u64)]).into())
        }
        ("GET", "/bindings?src=x&dstq=a%2Fb&key=k%25") => {
            let row = [
                ("source", Value::from("x")),
                ("destination_queue", name()),
                ("binding_key", "k%".into()),
                ("arguments", amqp10::Map::from_iter([("h", 1u32)]).into()),
                ("location", "/bindings/src=x;dstq=a%2Fb;key=k%25;args=HASH".into()),
            ];
            ("200", Value::List(vec![amqp10::Map::from_iter(row).into()]))
        }
        ("PUT", "/exchanges/x") | ("POST", "/bindings") | ("DELETE", "/exchanges/x") => ("204", Value::Null),
        (
            "DELETE",
            "/bindings/src=x;dstq=a%2Fb;key=k%25;args=HASH" | "/bindings/src=x;dstq=a%2Fb;key=k;args=",
        ) => ("204", Value::Null),
        _ => ("404", format!("{method} {path}").into()),
    };
    let mut message = Message::value(body).subject(status).application_property("http:response", "1.1");
    if let Some(id) = properties.message_id {
        message = message.correlation_id(id);
    }
    message.encode()
}
