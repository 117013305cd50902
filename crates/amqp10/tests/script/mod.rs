//! An endpoint under test. The test writes the peer's frames by hand.

use std::io::IoSlice;

use amqp10::connection::Config;
use amqp10::encode::Encode;
use amqp10::session::SessionConfig;
use amqp10::{
    Attach, Begin, Chunk, Connection, Event, Fault, Flow, Map, Open, Outgoing, Performative, Role, SaslCode,
    SaslFrame, SaslInit, Source, Symbol, Tag, Target, TargetArchetype, TransferHead, Value, frame, put_frame,
    put_sasl_frame, put_transfer_frame,
};
use bytes::{Bytes, BytesMut};

pub(crate) struct Script {
    pub endpoint: Connection,
}

/// The name of the event or the fault that a frame caused, if any.
pub(crate) type Handled = Result<Option<String>, Fault>;

/// The limit for incomplete deliveries, in bytes.
pub(crate) const INCOMPLETE_MAX: usize = 80;

pub(crate) fn config() -> Config {
    Config {
        max_frame_size: 4096,
        initial_max_frame_size: amqp10::frame::INITIAL_MAX_FRAME_SIZE,
        channel_max: 3,
        idle_time_out_ms: 60_000,
        incomplete_bytes_max: INCOMPLETE_MAX,
        session: SessionConfig { incoming_window: 4, handle_max: 7 },
    }
}

#[allow(dead_code, reason = "each test file uses some of it")]
impl Script {
    /// Returns a server with a new connection.
    pub(crate) fn fresh() -> Self {
        Self { endpoint: Connection::server(config(), 0) }
    }

    /// Returns a server that waits for OPEN.
    pub(crate) fn logged_in() -> Self {
        let mut script = Self::fresh();
        script.bytes(&frame::SASL_HEADER).unwrap();
        let mut init = BytesMut::new();
        put_sasl_frame(&mut init, &SaslFrame::Init(SaslInit::new(Symbol::from_static("ANONYMOUS"))));
        script.bytes(&init).unwrap();
        script.endpoint.sasl_outcome(SaslCode::Ok);
        script.bytes(&frame::AMQP_HEADER).unwrap();
        script.sent();
        script
    }

    pub(crate) fn opened() -> Self {
        let mut script = Self::logged_in();
        script
            .receive(0, &Open { idle_time_out: Some(10_000), max_frame_size: 65_536, ..Open::new("client") })
            .unwrap();
        script.endpoint.open(Open::new("server"));
        script.sent();
        script
    }

    /// Returns a server with a session on channel 0 whose peer accepts `window` transfers.
    pub(crate) fn begun(window: u32) -> Self {
        let mut script = Self::opened();
        script.receive(0, &Begin { incoming_window: window, handle_max: 7, ..Begin::default() }).unwrap();
        script.endpoint.begin(Some(0), true);
        script.sent();
        script
    }

    /// Returns a server that also has a link with handle and number 0, on which the peer has this role.
    pub(crate) fn attached(role: Role, window: u32) -> Self {
        let mut script = Self::begun(window);
        script.attach("link", 0, role);
        script.sent();
        script
    }

    /// The peer attaches and is answered. Returns the number of the link.
    pub(crate) fn attach(&mut self, name: &str, handle: u32, role: Role) -> u32 {
        self.receive(0, &attach(name, handle, role)).unwrap();
        let session = self.endpoint.session(0).unwrap();
        let (number, _) = session.links().find(|(_, l)| l.remote_handle == Some(handle)).unwrap();
        let ours = if role == Role::Sender { Role::Receiver } else { Role::Sender };
        let mut answer = attach(name, 0, ours);
        answer.max_message_size = Some(100);
        self.endpoint.attach(0, Some(number), answer).unwrap()
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Handled {
        let len = self.endpoint.frame_len(bytes)?;
        assert_eq!(len, Some(bytes.len()));
        let event = self.endpoint.handle_frame(Chunk::Borrowed(bytes), 0)?;
        Ok(event.map(|event| match event {
            Event::Transfer { delivery, .. } => {
                format!("Transfer {:?}", Bytes::copy_from_slice(&delivery.message))
            }
            other => {
                let text = format!("{other:?}");
                text.split([' ', '(']).next().unwrap_or_default().to_owned()
            }
        }))
    }

    pub(crate) fn receive(&mut self, channel: u16, performative: &dyn Encode) -> Handled {
        let mut out = BytesMut::new();
        put_frame(&mut out, channel, performative);
        self.bytes(&out)
    }

    pub(crate) fn transfer(&mut self, head: &TransferHead<'_>, payload: &[u8]) -> Handled {
        let mut out = BytesMut::new();
        put_transfer_frame(&mut out, 0, head, payload.len());
        out.extend_from_slice(payload);
        self.bytes(&out)
    }

    pub(crate) fn flow(&mut self, flow: Flow) -> Handled {
        self.receive(0, &flow)
    }

    /// The peer grants credit on handle 0.
    pub(crate) fn credit(&mut self, seen: u32, window: u32, count: u32, credit: u32) -> Handled {
        self.flow(Flow {
            handle: Some(0),
            delivery_count: Some(count),
            link_credit: Some(credit),
            ..session_flow(seen, window)
        })
    }

    pub(crate) fn send(&mut self, payload: &[u8], cookie: u64) -> bool {
        let payload = Bytes::copy_from_slice(payload);
        self.endpoint.send(0, 0, &Outgoing::whole(Tag::from_number(cookie), false, &payload, cookie))
    }

    /// Returns the frames sent since the last call, in short form.
    pub(crate) fn sent(&mut self) -> Vec<String> {
        let mut slices = [IoSlice::new(&[]); 64];
        let output = self.endpoint.output();
        let n = output.slices(&mut slices);
        let bytes: Vec<u8> = slices[..n].iter().flat_map(|s| s.iter().copied()).collect();
        output.advance(bytes.len());
        let mut rest = &bytes[..];
        let mut frames = Vec::new();
        while !rest.is_empty() {
            if rest.starts_with(b"AMQP") {
                frames.push("header".to_owned());
                rest = &rest[8..];
                continue;
            }
            let header = frame::parse_header(rest.first_chunk().unwrap(), u32::MAX).unwrap();
            let (frame, more) = rest.split_at(header.size as usize);
            rest = more;
            frames.push(match header.kind {
                frame::FrameKind::Sasl => "sasl".to_owned(),
                frame::FrameKind::Amqp if frame.len() == 8 => "empty".to_owned(),
                frame::FrameKind::Amqp => short(&frame[8..]),
            });
        }
        frames
    }
}

fn short(body: &[u8]) -> String {
    let (performative, used) = Performative::decode(body).unwrap();
    match performative {
        Performative::Transfer(t) => {
            let id = t.delivery_id.map_or("-".to_owned(), |id| id.to_string());
            let more = if t.more { " more" } else { "" };
            let aborted = if t.aborted { " aborted" } else { "" };
            format!("transfer {id} [{}]{more}{aborted}", body.len() - used)
        }
        Performative::Flow(f) => match f.handle {
            Some(handle) => format!(
                "flow {handle} count {} credit {}{}{}",
                f.delivery_count.map_or("-".to_owned(), |c| c.to_string()),
                f.link_credit.unwrap_or(0),
                if f.drain { " drain" } else { "" },
                f.properties.map_or(String::new(), |p| shown(&p))
            ),
            None => format!("flow window {}", f.incoming_window),
        },
        Performative::Detach(d) => match d.error {
            Some(error) => format!("detach {} {}", d.handle, error.condition),
            None => format!("detach {}", d.handle),
        },
        Performative::Attach(a) => format!("attach {} {}", a.handle, a.name),
        other => other.name().to_owned(),
    }
}

fn shown(properties: &Map) -> String {
    let shown = |(key, value): &(Value, Value)| match (key, value) {
        (Value::Symbol(key), Value::Boolean(value)) => format!(" {}={value}", key.as_str()),
        other => panic!("{other:?}"),
    };
    properties.iter().map(shown).collect()
}

pub(crate) fn session_flow(seen: u32, window: u32) -> Flow {
    Flow { next_incoming_id: Some(seen), ..Flow::new(window, 0, u32::MAX) }
}

pub(crate) fn attach(name: &str, handle: u32, role: Role) -> Attach {
    let mut attach = Attach::new(name, handle, role);
    attach.source = Some(Source::default());
    attach.target = Some(TargetArchetype::Target(Target::default()));
    attach.initial_delivery_count = (role == Role::Sender).then_some(0);
    attach
}

/// Returns the first transfer of delivery `id` on handle 0.
pub(crate) fn head(id: u32, tag: &[u8]) -> TransferHead<'_> {
    TransferHead { delivery_id: Some(id), delivery_tag: Some(tag), ..TransferHead::default() }
}
