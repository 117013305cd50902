//! One connection: fixed answers to its frames, and the path of the messages.

use std::collections::VecDeque;

use amqp10::connection::Config;
use amqp10::session::SessionConfig;
use amqp10::{
    Attach, Chunk, Connection, ConnectionState, DeliveryState, Event, Open, Outgoing, Role, Run, SaslCode,
    Source, Symbol, Tag, Target, TargetArchetype,
};
use bytes::{Bytes, BytesMut};

/// The credit of senders. It is granted again when half of it is used, as in the broker.
const CREDIT: u32 = 170;

/// The largest frame, in bytes.
pub(crate) const FRAME_MAX: u32 = 128 * 1024;

/// State that the connections share.
#[derive(Default)]
pub(crate) struct Shared {
    /// The messages of this turn in one buffer, and the offset at which each of them ends.
    pub home: BytesMut,
    pub ends: Vec<usize>,
    /// The connection, session and link that receive the messages.
    pub receiver: Option<(usize, u16, u32)>,
}

/// One connection of a client.
pub(crate) struct Peer {
    number: usize,
    pub endpoint: Connection,
    /// The start of a frame that is still incomplete.
    partial: Vec<u8>,
    /// The deliveries of this turn that must be confirmed: session, link and delivery-id of each.
    taken: Vec<Taken>,
    runs: Vec<Run>,
    next_tag: u64,
}

#[derive(Clone, Copy)]
struct Taken {
    session: u16,
    link: u32,
    first: u32,
    last: u32,
}

impl Peer {
    pub(crate) fn new(number: usize) -> Self {
        let config = Config {
            max_frame_size: FRAME_MAX,
            channel_max: 63,
            idle_time_out_ms: 0,
            initial_max_frame_size: amqp10::frame::INITIAL_MAX_FRAME_SIZE,
            incomplete_bytes_max: usize::MAX,
            session: SessionConfig { incoming_window: 400, handle_max: 255 },
        };
        Self {
            number,
            endpoint: Connection::server(config, 0),
            partial: Vec::new(),
            taken: Vec::new(),
            runs: Vec::new(),
            next_tag: 0,
        }
    }

    /// Copies the start of an incomplete frame to the buffer, before the bytes to read next. Returns its
    /// length.
    pub(crate) fn put_partial(&mut self, buffer: &mut [u8]) -> usize {
        let len = self.partial.len();
        buffer[..len].copy_from_slice(&self.partial);
        len
    }

    /// Handles input. Returns false if the connection is over.
    pub(crate) fn handle_input(&mut self, mut input: &[u8], shared: &mut Shared) -> bool {
        loop {
            let Ok(len) = self.endpoint.frame_len(input) else { return false };
            let Some(len) = len.filter(|len| *len <= input.len()) else { break };
            let (frame, rest) = input.split_at(len);
            input = rest;
            match self.endpoint.handle_frame(Chunk::Borrowed(frame), 0) {
                Ok(Some(event)) => handle_event(
                    &mut self.endpoint,
                    event,
                    self.number,
                    &mut self.taken,
                    &mut self.runs,
                    shared,
                ),
                Ok(None) => {}
                Err(_) => return false,
            }
        }
        self.partial.clear();
        self.partial.extend_from_slice(input);
        true
    }

    /// Settles the deliveries of this turn, and grants credit.
    pub(crate) fn confirm(&mut self) {
        let state = DeliveryState::Accepted;
        for Taken { session, link, first, last } in self.taken.drain(..) {
            self.endpoint.disposition(session, Role::Receiver, (first, last), true, &state);
            let credit = self.endpoint.session(session).and_then(|s| s.link(link));
            if credit.is_some_and(|l| l.receiver_credit().credit() <= CREDIT / 2) {
                self.endpoint.grant(session, link, CREDIT, false, false);
            }
        }
    }

    /// Sends as many messages as the credit allows.
    pub(crate) fn forward(&mut self, session: u16, link: u32, queue: &mut VecDeque<Bytes>) {
        self.endpoint.pump();
        let credit = self.endpoint.session(session).and_then(|s| s.link(link));
        let credit = credit.map_or(0, |l| l.sender_credit().credit()) as usize;
        for message in queue.drain(..credit.min(queue.len())) {
            self.next_tag += 1;
            let delivery = Outgoing::whole(Tag::from_number(self.next_tag), false, &message, self.next_tag);
            self.endpoint.send(session, link, &delivery);
        }
    }
}

fn handle_event(
    endpoint: &mut Connection,
    event: Event<'_>,
    number: usize,
    taken: &mut Vec<Taken>,
    runs: &mut Vec<Run>,
    shared: &mut Shared,
) {
    match event {
        Event::Transfer { session, link, delivery } => {
            shared.home.extend_from_slice(&delivery.message);
            shared.ends.push(shared.home.len());
            let id = delivery.id;
            match taken.last_mut() {
                Some(last) if (last.session, last.link, last.last.wrapping_add(1)) == (session, link, id) => {
                    last.last = id;
                }
                _ => taken.push(Taken { session, link, first: id, last: id }),
            }
        }
        Event::Disposition { session, settled, first, last, .. } => {
            runs.clear();
            endpoint.resolve(session, first, last, true, runs);
            if !settled {
                let (role, state) = (Role::Sender, DeliveryState::Accepted);
                endpoint.disposition(session, role, (first, last), true, &state);
            }
        }
        Event::HeaderExchanged if endpoint.state() == ConnectionState::Sasl => {
            endpoint.sasl_mechanisms(vec![Symbol::from_static("ANONYMOUS"), Symbol::from_static("PLAIN")]);
        }
        Event::SaslInit(_) => endpoint.sasl_outcome(SaslCode::Ok),
        Event::Open(_) => endpoint.open(Open::new("floor")),
        Event::Close(_) => endpoint.close(None, true),
        Event::Begin { session, .. } => {
            endpoint.begin(Some(session), true);
        }
        Event::End { session, answered: false, .. } => endpoint.end(session, None),
        Event::Attach { session, link, attach } => {
            let sending = attach.role == Role::Receiver;
            let role = if sending { Role::Sender } else { Role::Receiver };
            let mut answer = Attach::new(attach.name.clone(), 0, role);
            answer.snd_settle_mode = attach.snd_settle_mode;
            answer.initial_delivery_count = sending.then_some(0);
            answer.source = Some(attach.source.unwrap_or_else(Source::default));
            let target = || TargetArchetype::Target(Target::default());
            answer.target = Some(attach.target.unwrap_or_else(target));
            endpoint.attach(session, Some(link), answer);
            if sending {
                shared.receiver = Some((number, session, link));
            } else {
                endpoint.grant(session, link, CREDIT, false, false);
            }
        }
        Event::Detach { session, link, answered, .. } => {
            if shared.receiver == Some((number, session, link)) {
                shared.receiver = None;
            }
            if !answered {
                endpoint.detach(session, link, None);
            }
        }
        _ => {}
    }
}
