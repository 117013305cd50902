//! Simulates a client endpoint and a server endpoint in memory, from a seed. Both sides begin, attach, grant,
//! send, settle, detach and end at random. The bytes between them arrive in pieces of any size.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io::IoSlice;

use crate::tally::{Model, Seen};
use amqp10::connection::Config;
use amqp10::link::LinkState;
use amqp10::session::{SessionConfig, SessionState};
use amqp10::{
    Attach, Chunk, Connection, ConnectionState, DeliveryState, Event, Open, Outgoing, Part, Role, SaslCode,
    SaslInit, Source, Symbol, Tag, Target, TargetArchetype, serial,
};
use bytes::{Bytes, BytesMut};
use random::Random;

#[test]
fn wire_serves_both_roles() {
    let mut seen = Seen::default();
    for seed in 1..=SEEDS {
        seen.add(World::new(seed).run(1000));
    }
    // A test in which nothing happens would pass, too.
    let Seen { received, split, settled, anyway, starved, .. } = seen;
    assert!(received > 20 * SEEDS && settled > 10 * SEEDS, "{seen:?}");
    assert!(split > SEEDS && anyway > 10 && starved > SEEDS, "{seen:?}");
}

const SEEDS: u64 = 150;

/// One end: the endpoint and the state of its owner.
struct Side {
    endpoint: Connection,
    input: BytesMut,
    /// Models of the links, by session and number.
    links: BTreeMap<(u16, u32), usize>,
    /// Deliveries received and not settled: delivery-ids in order, by session.
    unsettled: BTreeMap<u16, VecDeque<u32>>,
}

struct World {
    random: Random,
    seed: u64,
    sides: [Side; 2],
    models: Vec<Model>,
    seen: Seen,
    /// True near the end: no new sessions, links or messages, and nothing is closed.
    quiet: bool,
}

fn source_and_target(attach: &mut Attach) {
    attach.source = Some(Source::default());
    attach.target = Some(TargetArchetype::Target(Target::default()));
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let mut side = |server: bool| {
            let config = Config {
                max_frame_size: random.pick(&[512, 1000, 65_536]).unwrap(),
                initial_max_frame_size: amqp10::frame::INITIAL_MAX_FRAME_SIZE,
                channel_max: 30,
                idle_time_out_ms: 0,
                incomplete_bytes_max: usize::MAX,
                session: SessionConfig { incoming_window: 1 + random.below(10) as u32, handle_max: 40 },
            };
            let mut endpoint =
                if server { Connection::server(config, 0) } else { Connection::client(config, 0) };
            let starts = [0, u32::MAX, u32::MAX - random.below(300) as u32];
            endpoint.start_ids_at(random.pick(&starts).unwrap());
            Side { endpoint, input: BytesMut::new(), links: BTreeMap::new(), unsettled: BTreeMap::new() }
        };
        let sides = [side(false), side(true)];
        Self { random, seed, sides, models: Vec::new(), seen: Seen::default(), quiet: false }
    }

    fn run(mut self, steps: u32) -> Seen {
        for _ in 0..steps {
            let side = self.random.below(2) as usize;
            if self.sides[side].endpoint.state() == ConnectionState::Opened {
                self.act(side);
            }
            let from = self.random.below(2) as usize;
            let n = 1 + self.random.below(5000) as usize;
            self.carry(from, n);
        }
        self.finish()
    }

    /// Delivers everything that is in flight. Afterwards nothing may be left.
    fn finish(mut self) -> Seen {
        self.quiet = true;
        self.settle_down();
        for side in 0..2 {
            for session in self.sessions(side, SessionState::Mapped) {
                self.sides[side].endpoint.set_window_open(session, true);
            }
        }
        loop {
            for side in 0..2 {
                for (session, link) in self.attached(side, false) {
                    self.grant(side, session, link, 10, false, false);
                }
            }
            let before = self.seen.received;
            self.settle_down();
            if before == self.seen.received {
                break;
            }
        }
        for (number, model) in self.models.iter().enumerate() {
            assert!(
                model.closed || model.expected.is_empty(),
                "seed {}: link {number} lost messages",
                self.seed
            );
        }
        for side in 0..2 {
            while self.settle(side, true) {}
        }
        self.settle_down();
        for side in &self.sides {
            for (number, session) in side.endpoint.sessions() {
                assert_eq!(session.unsettled_len(), 0, "seed {}: session {number}", self.seed);
                assert_eq!((session.pending_len(), session.partial_bytes()), (0, 0));
            }
        }
        assert!(self.models.iter().all(|m| m.outstanding.is_empty()), "seed {}", self.seed);
        for side in 0..2 {
            for (session, link) in self.sides[side].links.keys().copied().collect::<Vec<_>>() {
                self.detach(side, session, link);
            }
        }
        self.settle_down();
        for (_, session) in self.sides.iter().flat_map(|s| s.endpoint.sessions()) {
            assert_eq!(session.links().count(), 0, "seed {}", self.seed);
        }
        for session in self.sessions(1, SessionState::Mapped) {
            self.end(1, session);
        }
        self.settle_down();
        for side in &self.sides {
            assert_eq!(side.endpoint.sessions().count(), 0, "seed {}", self.seed);
        }
        self.sides[0].endpoint.close(None, false);
        self.settle_down();
        for side in &self.sides {
            assert_eq!(side.endpoint.state(), ConnectionState::Closed);
            assert!(side.endpoint.output_len() == 0 && side.input.is_empty());
        }
        self.seen
    }

    fn settle_down(&mut self) {
        while self.carry(0, usize::MAX) || self.carry(1, usize::MAX) {}
    }

    // ---- actions of the owners
    // -----------------------------------------------------------------------------

    fn act(&mut self, side: usize) {
        match self.random.below(100) {
            0..4 => {
                let open = self.random.percent(80);
                if self.sides[side].endpoint.sessions().count() < 5 {
                    self.sides[side].endpoint.begin(None, open);
                }
            }
            4..14 => self.attach(side),
            14..34 => {
                let links = self.attached(side, false);
                if let Some((session, link)) = self.random.pick(&links) {
                    let credit = self.random.below(8) as u32;
                    let (drain, echo) = (self.random.percent(10), self.random.percent(10));
                    self.grant(side, session, link, credit, drain, echo);
                }
            }
            34..75 => {
                let links = self.attached(side, true);
                if let Some((session, link)) = self.random.pick(&links) {
                    let settled = self.random.percent(30);
                    self.send(side, session, link, settled);
                }
            }
            75..90 => {
                self.settle(side, false);
            }
            90..95 => {
                let sessions = self.sessions(side, SessionState::Mapped);
                if let Some(session) = self.random.pick(&sessions) {
                    let open = self.random.percent(60);
                    self.sides[side].endpoint.set_window_open(session, open);
                }
            }
            95..98 => {
                let mut links: Vec<_> = self.sides[side].links.keys().copied().collect();
                links.sort_unstable();
                if let Some((session, link)) = self.random.pick(&links) {
                    self.detach(side, session, link);
                }
            }
            98 => {
                let state = if self.random.percent(50) { SessionState::Half } else { SessionState::Mapped };
                let sessions = self.sessions(side, state);
                if let Some(session) = self.random.pick(&sessions) {
                    self.end(side, session);
                }
            }
            _ => {
                let links = self.attached(side, true);
                if let Some((session, link)) = self.random.pick(&links) {
                    self.sides[side].endpoint.report_credit(session, link, 7, false);
                }
            }
        }
    }

    fn sessions(&self, side: usize, state: SessionState) -> Vec<u16> {
        self.sides[side].endpoint.sessions().filter(|(_, s)| s.state() == state).map(|(n, _)| n).collect()
    }

    fn attached(&self, side: usize, sending: bool) -> Vec<(u16, u32)> {
        let endpoint = &self.sides[side].endpoint;
        let link = |k: &(u16, u32)| endpoint.session(k.0)?.link(k.1);
        let fits = |k: &&(u16, u32)| {
            link(k).is_some_and(|l| l.is_sending() == sending && (l.state == LinkState::Attached || !sending))
        };
        let mut all: Vec<_> = self.sides[side].links.keys().filter(fits).copied().collect();
        all.sort_unstable();
        all
    }

    fn attach(&mut self, side: usize) {
        let mut sessions = self.sessions(side, SessionState::Mapped);
        sessions.extend(self.sessions(side, SessionState::Half));
        let Some(session) = self.random.pick(&sessions) else { return };
        // Both sides propose links. So each leaves handles free for links that the other side proposes at the
        // same time.
        if self.sides[side].endpoint.session(session).is_none_or(|s| s.links().count() > 12) {
            return;
        }
        let role = if self.random.percent(50) { Role::Sender } else { Role::Receiver };
        let number = self.models.len();
        let mut attach = Attach::new(format!("link {number}"), 0, role);
        source_and_target(&mut attach);
        let initial = self.random.pick(&[0, u32::MAX, u32::MAX - 3, 77]).unwrap();
        attach.initial_delivery_count = (role == Role::Sender).then_some(initial);
        let Some(link) = self.sides[side].endpoint.attach(session, None, attach) else { return };
        self.models.push(Model {
            sender: if role == Role::Sender { side } else { 1 - side },
            expected: VecDeque::new(),
            sent: 0,
            outstanding: HashSet::new(),
            limit: 0,
            initial,
            credit: 0,
            closed: false,
        });
        self.sides[side].links.insert((session, link), number);
    }

    fn grant(&mut self, side: usize, session: u16, link: u32, credit: u32, drain: bool, echo: bool) {
        let s = &mut self.sides[side];
        s.endpoint.grant(session, link, credit, drain, echo);
        let model = &mut self.models[s.links[&(session, link)]];
        let l = s.endpoint.session(session).and_then(|s| s.link(link)).unwrap();
        // Before the ATTACH arrives, the receiver counts from 0.
        let count = if l.state == LinkState::Attached {
            l.receiver_credit().delivery_count().wrapping_sub(model.initial)
        } else {
            0
        };
        model.limit = model.limit.max(count + credit);
    }

    fn send(&mut self, side: usize, session: u16, link: u32, settled: bool) {
        let s = &mut self.sides[side];
        let Some(l) = s.endpoint.session(session).and_then(|s| s.link(link)) else { return };
        let credit = l.sender_credit().credit();
        if credit == 0 && settled {
            return;
        }
        let number = s.links[&(session, link)];
        let model = &mut self.models[number];
        let size = match self.random.below(100) {
            0..3 => self.random.below(300_000),
            3..20 => self.random.below(5000),
            _ => self.random.below(200),
        };
        let stamp = (number as u8, model.sent as u8);
        let message: Bytes = (0..size).map(|i| (i as u8) ^ stamp.0 ^ stamp.1.wrapping_mul(31)).collect();
        let head = message.slice(..message.len().min(self.random.below(20) as usize));
        let bare = Part { of: &message, from: head.len() };
        let cookie = model.sent;
        let delivery = Outgoing {
            tag: Tag::from_number(cookie),
            settled,
            irrevocable: settled,
            message_format: 0,
            head: &head,
            bare,
            cookie,
        };
        if !s.endpoint.send(session, link, &delivery) {
            assert_eq!(credit, 0, "seed {}: refused with credit", self.seed);
            return;
        }
        assert!(credit > 0, "seed {}: sent without credit", self.seed);
        self.seen.starved += u64::from(s.endpoint.session(session).is_some_and(|s| s.has_pending(link)));
        model.credit = credit - 1;
        model.sent += 1;
        model.expected.push_back(message);
        if !settled {
            model.outstanding.insert(cookie);
        }
    }

    /// Sends a settled delivery that the queue released before the credit was withdrawn.
    fn send_anyway(&mut self, side: usize, session: u16, link: u32) {
        let s = &mut self.sides[side];
        let number = s.links[&(session, link)];
        let model = &mut self.models[number];
        let message = Bytes::from(vec![number as u8; 10]);
        let delivery = Outgoing::whole(Tag::from_number(model.sent), true, &message, model.sent);
        assert!(s.endpoint.send(session, link, &delivery), "seed {}", self.seed);
        self.seen.anyway += 1;
        model.sent += 1;
        model.expected.push_back(message);
    }

    /// Settles some neighbouring deliveries of a session, or all. Returns false if there are none.
    fn settle(&mut self, side: usize, all: bool) -> bool {
        let sessions: Vec<u16> =
            self.sides[side].unsettled.iter().filter(|(_, ids)| !ids.is_empty()).map(|(s, _)| *s).collect();
        let Some(session) = self.random.pick(&sessions) else { return false };
        let ids = self.sides[side].unsettled.get_mut(&session).unwrap();
        let from = if all { 0 } else { self.random.below(ids.len() as u64) as usize };
        let n = if all { ids.len() } else { 1 + self.random.below((ids.len() - from) as u64) as usize };
        let taken: Vec<u32> = ids.drain(from..from + n).collect();
        let state = if self.random.percent(70) { DeliveryState::Accepted } else { DeliveryState::Released };
        let range = (taken[0], taken[n - 1]);
        self.sides[side].endpoint.disposition(session, Role::Receiver, range, true, &state);
        true
    }

    fn detach(&mut self, side: usize, session: u16, link: u32) {
        self.sides[side].endpoint.detach(session, link, None);
        self.forget(side, session, link);
    }

    fn forget(&mut self, side: usize, session: u16, link: u32) {
        if let Some(number) = self.sides[side].links.remove(&(session, link)) {
            let model = &mut self.models[number];
            model.closed = true;
            if model.sender == side {
                model.outstanding.clear();
            }
        }
    }

    fn end(&mut self, side: usize, session: u16) {
        self.sides[side].endpoint.end(session, None);
        self.sides[side].unsettled.remove(&session);
        let links: Vec<_> = self.sides[side].links.keys().filter(|k| k.0 == session).copied().collect();
        for (session, link) in links {
            self.forget(side, session, link);
        }
    }

    // ---- the wire -----------------------------------------------------------------------------------------

    /// Moves at most `n` bytes to the other side. Returns false if there were none.
    fn carry(&mut self, from: usize, n: usize) -> bool {
        let mut moved = 0;
        while moved < n {
            let endpoint = &mut self.sides[from].endpoint;
            endpoint.pump();
            let output = endpoint.output();
            let mut slices = [IoSlice::new(&[]); 4];
            let count = output.slices(&mut slices);
            let piece: Vec<u8> =
                slices[..count].iter().flat_map(|s| s.iter().copied()).take(n - moved).collect();
            if piece.is_empty() {
                break;
            }
            output.advance(piece.len());
            moved += piece.len();
            self.sides[1 - from].input.extend_from_slice(&piece);
        }
        self.handle_input(1 - from);
        moved > 0
    }

    fn handle_input(&mut self, side: usize) {
        loop {
            let s = &mut self.sides[side];
            let len = match s.endpoint.frame_len(&s.input) {
                Ok(Some(len)) if len <= s.input.len() => len,
                Ok(_) => return,
                Err(fault) => panic!("seed {}: {fault:?}", self.seed),
            };
            let frame = s.input.split_to(len).freeze();
            let owned = self.random.percent(50);
            let chunk = if owned { Chunk::Owned(frame.clone()) } else { Chunk::Borrowed(&frame) };
            match s.endpoint.handle_frame(chunk, 0) {
                Ok(Some(event)) => self.handle(side, event),
                Ok(None) => {}
                Err(fault) => panic!("seed {}: side {side}: {fault:?}", self.seed),
            }
        }
    }

    fn handle(&mut self, side: usize, event: Event<'_>) {
        let s = &mut self.sides[side];
        match event {
            Event::HeaderExchanged if s.endpoint.state() == ConnectionState::Sasl => {
                s.endpoint.sasl_mechanisms(vec![Symbol::from_static("ANONYMOUS")]);
            }
            Event::HeaderExchanged if side == 0 => s.endpoint.open(Open::new("client")),
            Event::HeaderExchanged | Event::SaslOutcome(_) => {}
            Event::Discarded { session, link } => {
                self.seen.aborted += 1;
                self.models[s.links[&(session, link)]].expected.pop_front();
            }
            Event::SaslInit(_) => s.endpoint.sasl_outcome(SaslCode::Ok),
            Event::SaslMechanisms(_) => s.endpoint.sasl_init(SaslInit::new(Symbol::from_static("ANONYMOUS"))),
            Event::Open(_) if side == 1 => s.endpoint.open(Open::new("server")),
            Event::Open(_) => {}
            Event::Close(_) => s.endpoint.close(None, true),
            Event::Begin { session, answered, .. } => {
                if !answered {
                    let open = self.quiet || self.random.percent(80);
                    assert_eq!(s.endpoint.begin(Some(session), open), Some(session));
                }
            }
            Event::End { session, answered, .. } => {
                if !answered {
                    self.end(side, session);
                }
            }
            Event::Attach { session, link, attach } => self.handle_attach(side, session, link, &attach),
            Event::Detach { session, link, answered, .. } => {
                if !answered {
                    self.detach(side, session, link);
                }
            }
            Event::Flow { session, link: Some(link), flow } => {
                let Some(&number) = s.links.get(&(session, link)) else { return };
                let Some(l) = s.endpoint.session(session).and_then(|s| s.link(link)) else { return };
                if !l.is_sending() {
                    return;
                }
                let (before, now) = (self.models[number].credit, l.sender_credit().credit());
                if now < before && !flow.drain && self.random.percent(50) {
                    for _ in 0..=self.random.below(u64::from(before - now)) {
                        self.send_anyway(side, session, link);
                    }
                }
                let s = &mut self.sides[side];
                if flow.drain || flow.echo {
                    s.endpoint.report_credit(session, link, 0, flow.drain);
                }
                let l = s.endpoint.session(session).and_then(|s| s.link(link));
                self.models[number].credit = l.map_or(0, |l| l.sender_credit().credit());
            }
            Event::Flow { .. } => {}
            Event::Transfer { session, link, delivery } => {
                let number = s.links[&(session, link)];
                let model = &mut self.models[number];
                let expected = model.expected.pop_front();
                assert!(expected.as_deref() == Some(&*delivery.message), "seed {}: link {number}", self.seed);
                let l = s.endpoint.session(session).and_then(|s| s.link(link)).unwrap();
                let count = l.receiver_credit().delivery_count().wrapping_sub(model.initial);
                assert!(count <= model.limit, "seed {}: link {number}: {count} > {}", self.seed, model.limit);
                self.seen.received += 1;
                self.seen.split += u64::from(delivery.message.len() > 65_536);
                if !delivery.settled {
                    let ids = s.unsettled.entry(session).or_default();
                    let in_order = ids.back().is_none_or(|last| serial::distance(delivery.id, *last) > 0);
                    assert!(in_order, "seed {}", self.seed);
                    ids.push_back(delivery.id);
                }
            }
            Event::Disposition { session, first, last, .. } => {
                let mut runs = Vec::new();
                s.endpoint.resolve(session, first, last, true, &mut runs);
                for run in runs {
                    let model = &mut self.models[s.links[&(session, run.link)]];
                    for cookie in run.first_cookie..=run.last_cookie {
                        assert!(model.outstanding.remove(&cookie), "seed {}: resolved twice", self.seed);
                        self.seen.settled += 1;
                    }
                }
            }
        }
    }

    fn handle_attach(&mut self, side: usize, session: u16, link: u32, attach: &Attach) {
        if self.sides[side].links.contains_key(&(session, link)) {
            return;
        }
        let number: usize = attach.name["link ".len()..].parse().unwrap();
        let role = if attach.role == Role::Sender { Role::Receiver } else { Role::Sender };
        let mut answer = Attach::new(attach.name.clone(), 0, role);
        answer.initial_delivery_count = (role == Role::Sender).then_some(self.models[number].initial);
        let refuse = self.random.percent(15);
        if !refuse {
            source_and_target(&mut answer);
        }
        assert_eq!(self.sides[side].endpoint.attach(session, Some(link), answer), Some(link));
        self.sides[side].links.insert((session, link), number);
        if refuse {
            self.detach(side, session, link);
        }
    }
}
