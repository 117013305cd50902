//! One end of a connection of AMQP 1.0, built from our own endpoint.

use amqp10::connection::Config;
use amqp10::sasl::Secret;
use amqp10::{
    Attach, Chunk, Connection, DeliveryState, Described, Event, Map, Open, Outgoing, Output, Role, SaslInit,
    SenderSettleMode, SessionConfig, Source, Symbol, Tag, Target, TargetArchetype, Value, sections,
};
use bytes::Bytes;
use wal_testing::Random;

use super::client::{Outcome, Peer, Seen, What, body, number_in};

pub(super) struct Peer10 {
    conn: Connection,
    what: What,
    address: String,
}

impl Peer10 {
    pub(super) fn new(what: What, address: &str, now_ms: u64) -> Self {
        let session = SessionConfig { incoming_window: 50, handle_max: 10 };
        let config = Config {
            max_frame_size: 4096,
            initial_max_frame_size: amqp10::frame::INITIAL_MAX_FRAME_SIZE,
            channel_max: 10,
            idle_time_out_ms: 0,
            incomplete_bytes_max: usize::MAX,
            session,
        };
        Self { conn: Connection::client(config, now_ms), what, address: address.to_owned() }
    }

    fn attach(&mut self) {
        let (role, filter) = match &self.what {
            What::Publisher(_) => (Role::Sender, None),
            What::Consumer { .. } => (Role::Receiver, None),
            What::Reader { start, .. } => (Role::Receiver, Some(begin_at(start))),
        };
        let address = Some(self.address.clone());
        let attach = Attach {
            snd_settle_mode: SenderSettleMode::Unsettled,
            source: Some(Source { address: address.clone(), filter, ..Source::default() }),
            target: Some(TargetArchetype::Target(Target { address, ..Target::default() })),
            initial_delivery_count: (role == Role::Sender).then_some(u32::MAX - 3),
            ..Attach::new("link".to_owned(), 0, role)
        };
        self.conn.attach(0, None, attach);
    }
}

impl Peer for Peer10 {
    fn output(&mut self) -> &mut Output {
        self.conn.output()
    }

    fn handle_input(&mut self, input: &[u8], now_ms: u64, seen: &mut Vec<Seen>) -> usize {
        let mut used = 0;
        while let Some(len) = self.conn.frame_len(&input[used..]).expect("the broker's frames are valid") {
            if input.len() - used < len {
                break;
            }
            let frame = Bytes::copy_from_slice(&input[used..used + len]);
            used += len;
            let event = self.conn.handle_frame(Chunk::Owned(frame), now_ms).expect("no violation");
            let Some(event) = event else { continue };
            match event {
                Event::SaslMechanisms(_) => {
                    let mut init = SaslInit::new(Symbol::from_static("ANONYMOUS"));
                    init.initial_response = Some(Secret::new(""));
                    self.conn.sasl_init(init);
                }
                Event::HeaderExchanged => {
                    self.conn.open(Open { container_id: "sim".into(), ..Open::default() });
                }
                Event::Open(_) => _ = self.conn.begin(None, true),
                Event::Begin { .. } => self.attach(),
                Event::Attach { attach, .. } if attach.source.is_some() && attach.target.is_some() => {
                    seen.push(Seen::Attached);
                    if let What::Consumer { credit } = self.what {
                        self.conn.grant(0, 0, credit, false, false);
                    }
                }
                Event::Transfer { delivery, .. } => {
                    let message = &delivery.message[..];
                    let found = sections::scan(message).expect("a delivery is a message");
                    let offset = found.message_annotations.clone().and_then(|annotations| {
                        let section = &message[annotations.start as usize..annotations.end as usize];
                        let mut pairs =
                            sections::map_pairs(section).expect("annotations are a map").flatten();
                        let (_, value) = pairs.find(|(key, _)| *key == "x-stream-offset")?;
                        amqp10::Reader::new(value).read_value().expect("an offset is a value").as_u64()
                    });
                    let number = number_in(&message[found.body.start as usize..]);
                    seen.push(Seen::Delivery { id: delivery.id.into(), number, offset });
                }
                Event::Disposition { role: Role::Receiver, state, first, last, .. } => {
                    let mut runs = Vec::new();
                    self.conn.resolve(0, first, last, true, &mut runs);
                    let numbers = runs.iter().flat_map(|r| r.first_cookie..=r.last_cookie).collect();
                    seen.push(Seen::Outcomes(numbers, state == Some(DeliveryState::Accepted)));
                }
                Event::Close(error) => seen.push(Seen::Trouble(format!("{error:?}"))),
                Event::End { error, .. } => seen.push(Seen::Trouble(format!("{error:?}"))),
                Event::Detach { detach, .. } => seen.push(Seen::Trouble(format!("{detach:?}"))),
                _ => {}
            }
        }
        used
    }

    fn may_send(&self, _: usize) -> bool {
        let credit = self.conn.session(0).and_then(|s| s.link(0)).map_or(0, |l| l.sender_credit().credit());
        credit > 0
    }

    fn send(&mut self, number: u64, size: usize) -> u64 {
        let body = body(number, size);
        let mut message = b"\x00\x53\x70\xc0\x02\x01\x41\x00\x53\x75\xb0".to_vec();
        message.extend_from_slice(&(body.len() as u32).to_be_bytes());
        message.extend_from_slice(&body);
        let message = message.into();
        let sent = Outgoing::whole(Tag::from_number(number), false, &message, number);
        assert!(self.conn.send(0, 0, &sent));
        message.len() as u64
    }

    fn settle(&mut self, outcomes: &[(u64, Outcome)]) {
        for (id, outcome) in outcomes {
            let id = u32::try_from(*id).expect("delivery ids have 32 bits");
            let state = match outcome {
                Outcome::Accepted => DeliveryState::Accepted,
                Outcome::Released => DeliveryState::Released,
                Outcome::Rejected => DeliveryState::Rejected(None),
            };
            self.conn.disposition(0, Role::Receiver, (id, id), true, &state);
        }
    }

    fn replenish(&mut self, credit: u32) {
        let left = self.conn.session(0).and_then(|s| s.link(0)).map_or(0, |l| l.receiver_credit().credit());
        if left <= credit / 2 {
            self.conn.grant(0, 0, credit, false, false);
        }
    }

    fn ask(&mut self, random: &mut Random) {
        self.conn.grant(0, 0, random.below(300) as u32, random.one_in(10), random.one_in(10));
    }
}

/// Returns the filter for the place where reading begins.
fn begin_at(start: &Value) -> Map {
    let symbol = |name| Value::Symbol(Symbol::from_static(name));
    let descriptor = symbol("rabbitmq:stream-offset-spec");
    let described = Described { descriptor, value: start.clone() };
    Map(vec![(symbol("rabbitmq:stream-offset-spec"), Value::Described(Box::new(described)))])
}
