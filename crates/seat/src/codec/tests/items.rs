//! Any items, and one example of each kind.

use std::sync::Arc;

use bytes::Bytes;
use catalog::ids::{NodeId, Origin, QueueId};
use catalog::reply_to::ReplyTo;
use catalog::unguessable::{KEY_BYTES, Key};
use message::{
    Annotations, Death, DeathReason, DeliveryMax, Dialect, Filter, Format, Message, Parts, Route, SqlFilter,
};
use queue::{
    Attach, BloomFilter, ConsumerId, ConsumerTimeout, CreditState, Delivery, Effect, GoneReason, Lately,
    Mode, Outcome, Refusal, RejectReason, Replay, Report, Request, Requester, Retained, SettleAnswer, Span,
    Start, Ticket, Verdict,
};
use random::Random;

use crate::item::{Answer, Ask};

/// The annotations `x-a` with the value 1.
const ANNOTATIONS: &[u8] = b"\x00\x53\x72\xd1\0\0\0\x0b\0\0\0\x02\xa3\x03x-a\x54\x01";

/// Makes parts of items. Small numbers and large ones are equally likely.
pub(super) struct Maker(pub(super) Random);

impl Maker {
    fn u64(&mut self) -> u64 {
        self.0.next() >> self.0.below(64)
    }

    fn u32(&mut self) -> u32 {
        self.u64() as u32
    }

    /// A number that has a next one.
    fn number(&mut self) -> u64 {
        self.u64().min(u64::MAX - 1)
    }

    /// A count that is added to others.
    fn count(&mut self) -> u64 {
        self.u64() >> 8
    }

    fn bool(&mut self) -> bool {
        self.0.one_in(2)
    }

    fn option<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.bool().then(|| make(self))
    }

    fn few<T>(&mut self, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.0.below(4)).map(|_| make(self)).collect()
    }

    fn octets(&mut self) -> Vec<u8> {
        self.few(|maker| maker.0.next() as u8)
    }

    fn text(&mut self) -> Arc<str> {
        self.few(|maker| maker.0.pick(&['a', '/', 'é', '\u{1f600}']).unwrap_or('a'))
            .iter()
            .collect::<String>()
            .into()
    }

    fn consumer(&mut self) -> ConsumerId {
        ConsumerId(self.u64())
    }

    fn ticket(&mut self) -> Ticket {
        Ticket(self.u64())
    }

    fn span(&mut self) -> Span {
        let (one, other) = (self.number(), self.number());
        Span { first: one.min(other), last: one.max(other) }
    }

    fn message(&mut self) -> Message {
        let format = self.0.pick(&[Format::Amqp10, Format::Amqp091]).unwrap_or_default();
        let parts = [self.octets(), self.octets(), self.octets(), self.octets()];
        let ends: Vec<u32> = (1..4).map(|count| parts[..count].concat().len() as u32).collect();
        let body_at = ends[2];
        let (bare_at, application_properties_at) =
            if format == Format::Amqp10 { (ends[0], ends[1]) } else { (body_at, body_at) };
        let parts = Parts {
            format,
            wire: parts.concat().into(),
            bare_at,
            application_properties_at,
            body_at,
            durable: self.bool(),
            durable_header: self.bool(),
            priority: self.option(|maker| maker.u32() as u8),
            ttl_ms: self.option(|maker| maker.u64().min(Message::TTL_MS_MAX)),
        };
        let route = Route::new(self.text(), self.few(Self::text));
        let mut message = Message::new(parts, Arc::new(route));
        for _ in 0..self.0.below(3) {
            let death = Death {
                queue: self.text(),
                reason: self
                    .0
                    .pick(&[DeathReason::Expired, DeathReason::DeliveryLimit])
                    .unwrap_or(DeathReason::Rejected),
                count: 1,
                first_ms: self.u64() >> 1,
                last_ms: self.u64() >> 1,
                exchange: self.text(),
                keys: self.few(Self::text),
                ttl_ms: None,
            };
            let delivery_count = self.u32() >> 8;
            message = message.with_death(death, delivery_count);
        }
        message
    }

    fn delivery(&mut self) -> Delivery {
        Delivery {
            consumer: self.consumer(),
            number: self.number(),
            seq: self.number(),
            message: self.message(),
            delivery_count: self.u32(),
            acquired_count: self.u32(),
        }
    }

    fn replay(&mut self) -> Box<Replay> {
        let start = match self.0.below(5) {
            0 => Start::First,
            1 => Start::Last,
            2 => Start::Next,
            3 => Start::Offset(self.u64()),
            _ => Start::Time(self.u64()),
        };
        let bloom = self.option(|maker| {
            let (values, unfiltered) = (maker.few(Self::octets), maker.bool());
            Arc::new(BloomFilter::new(values, unfiltered).expect("few values"))
        });
        let matching = self.option(|maker| {
            let dialect = maker.0.pick(&[Dialect::Filter, Dialect::Selector]).unwrap_or(Dialect::Filter);
            let text = format!("a = {}  AND b LIKE 'x%'", maker.u32());
            let expression = SqlFilter::parse(&text, dialect).expect("an expression");
            Arc::new(if maker.bool() { Filter::Sql(expression) } else { fields(maker.u32()) })
        });
        Box::new(Replay { start, bloom, matching })
    }

    fn attach(&mut self) -> Attach {
        let mode = match self.0.below(3) {
            0 => Mode::Take,
            1 => Mode::Browse,
            _ => Mode::Replay(self.replay()),
        };
        let max = match self.0.below(3) {
            0 => None,
            1 => Some(DeliveryMax::Whole(self.u64())),
            _ => Some(DeliveryMax::Head(self.u64())),
        };
        Attach {
            consumer: self.consumer(),
            mode,
            priority: self.u32() as i32,
            exclusive: self.bool(),
            settled: self.bool(),
            delivery_count: self.u32(),
            message_bytes_max: max,
            timeout: ConsumerTimeout { own_ms: self.option(Self::u64), default_ms: self.option(Self::u64) },
        }
    }

    fn outcome(&mut self) -> Outcome {
        match self.0.below(5) {
            0 => Outcome::Accepted,
            1 => Outcome::Rejected,
            2 => Outcome::Released,
            3 => Outcome::Unsent,
            _ => Outcome::Modified {
                failed: self.bool(),
                undeliverable_here: self.bool(),
                annotations: self.option(|_| annotations()),
            },
        }
    }

    fn reply_to(&mut self) -> ReplyTo {
        let origin = Origin { node: NodeId(self.u32()), boot: self.u32() };
        let mut key = [0; KEY_BYTES];
        key.fill_with(|| self.0.next() as u8);
        ReplyTo { origin, outlet: self.consumer(), key: Key::new(key) }
    }

    fn request(&mut self) -> Request {
        match self.0.below(13) {
            0 => Request::Cancel { consumer: self.consumer() },
            1 => Request::Detach { consumer: self.consumer(), failed: self.bool() },
            2 => Request::Grant {
                consumer: self.consumer(),
                delivery_count: self.u32(),
                credit: self.u32(),
                drain: self.bool(),
                echo: self.bool(),
            },
            3 => Request::Resume { consumer: self.consumer(), taken_back: self.u64() },
            4 => Request::Fetch {
                ticket: self.ticket(),
                holder: self.consumer(),
                n: self.u32(),
                settled: self.bool(),
            },
            5 => Request::Browse { ticket: self.ticket(), replay: self.replay(), n: self.u32() },
            6 => Request::CancelBrowse { ticket: self.ticket() },
            7 => {
                let Span { first, last } = self.span();
                let answers = [SettleAnswer::Never, SettleAnswer::Made, SettleAnswer::Stored];
                let answer = self.0.pick(&answers).unwrap_or(SettleAnswer::Never);
                Request::Settle { consumer: self.consumer(), first, last, outcome: self.outcome(), answer }
            }
            8 => Request::Use,
            9 => Request::Purge { ticket: self.ticket() },
            10 => Request::Delete { ticket: self.ticket(), if_unused: self.bool(), if_empty: self.bool() },
            11 => Request::Report { ticket: self.ticket() },
            _ => Request::Attach(self.attach()),
        }
    }

    pub(super) fn ask(&mut self) -> Ask {
        match self.0.below(8) {
            0 => Ask::Publish {
                queue: QueueId(self.u64()),
                number: self.number(),
                pipelines: self.bool(),
                message: self.message(),
            },
            1 => Ask::Reply {
                to: self.reply_to(),
                vhost: self.text(),
                number: self.number(),
                message: self.message(),
            },
            2 => Ask::Probe { to: self.reply_to(), vhost: self.text(), ticket: self.ticket() },
            _ => Ask::Request { queue: QueueId(self.u64()), request: self.request() },
        }
    }

    fn refusal(&mut self) -> Refusal {
        let plain = [
            Refusal::NotFound,
            Refusal::ExclusiveConsumer,
            Refusal::InUse,
            Refusal::NotEmpty,
            Refusal::NotSupported,
            Refusal::Unavailable,
            Refusal::NoLeader,
            Refusal::Damaged,
            Refusal::TooManyBrowsers,
        ];
        let out_of_reach = self.0.one_in(4).then(|| match self.0.one_in(2) {
            true => Refusal::OutOfReach { node: self.option(Self::u32) },
            false => Refusal::OutcomeUnknown { node: self.option(Self::u32) },
        });
        out_of_reach.or(self.0.pick(&plain)).unwrap_or(Refusal::NotFound)
    }

    fn gone_reason(&mut self) -> GoneReason {
        match self.0.below(5) {
            0 => GoneReason::Cancelled,
            1 => GoneReason::Detached,
            2 => GoneReason::QueueDeleted,
            3 => GoneReason::Damaged,
            _ => GoneReason::OutOfReach { node: self.option(Self::u32) },
        }
    }

    fn lately(&mut self) -> Lately {
        let mut lately = Lately::NONE;
        for _ in 0..self.0.below(4) {
            let events = self.u32();
            lately.count_all(events.into(), self.0.below(100_000));
        }
        lately
    }

    fn retained(&mut self) -> Retained {
        Retained {
            first: self.count(),
            next: self.count(),
            bytes: self.count(),
            times_ms: self.option(|maker| (maker.u64(), maker.u64())),
            segments: self.few(Self::u64).into(),
            closed_from: self.option(Self::u64),
        }
    }

    fn report(&mut self) -> Report {
        // Of the deliveries, some are settled, some are fetched, and some are both.
        let [pushed, pushed_settled, fetched, fetched_settled] = [(); 4].map(|()| self.count() >> 2);
        Report {
            ready: self.count(),
            unsettled: self.count(),
            leaving: self.count(),
            staged: self.count(),
            delayed: self.count(),
            ready_bytes: self.count(),
            unsettled_bytes: self.count(),
            leaving_bytes: self.count(),
            delayed_bytes: self.count(),
            full: self.bool(),
            next_seq: self.u64(),
            consumers: self.u32(),
            damaged: self.bool(),
            reading: self.bool(),
            next_bytes: self.option(Self::u64),
            next_head_bytes: self.option(Self::u64),
            head_at_ms: self.option(Self::u64),
            active_consumer: self.option(Self::u64),
            yielding: self.bool(),
            published: self.count(),
            delivered: pushed + pushed_settled + fetched + fetched_settled,
            delivered_settled: pushed_settled + fetched_settled,
            fetched: fetched + fetched_settled,
            fetched_settled,
            redelivered: self.count(),
            acknowledged: self.count(),
            expired: self.count(),
            dropped: self.count(),
            dead_lettered: self.count(),
            over_limit: self.count(),
            last_was_over_limit: self.bool(),
            returned_again: self.lately(),
            annotations_refused: self.count(),
            rejected: self.lately(),
            over_length: self.count(),
            tail_at_ms: self.option(Self::u64),
            stream: self.option(Self::retained),
        }
    }

    fn effect(&mut self) -> Effect {
        match self.0.below(11) {
            0 => Effect::Attached { consumer: self.consumer() },
            1 => {
                let one = Requester::Consumer(self.consumer());
                let requester = if self.bool() { one } else { Requester::Ticket(self.ticket()) };
                Effect::Refused { requester, why: self.refusal() }
            }
            2 => Effect::Gone { consumer: self.consumer(), reason: self.gone_reason() },
            3 => Effect::Active { consumer: self.consumer(), active: self.bool(), available: self.u32() },
            4 => Effect::CreditState {
                consumer: self.consumer(),
                state: CreditState {
                    delivery_count: self.u32(),
                    credit: self.u32(),
                    available: self.u32(),
                    drained: self.bool(),
                },
            },
            5 => Effect::Fetched {
                ticket: self.ticket(),
                deliveries: self.few(Self::delivery),
                ready: self.u64(),
            },
            6 => {
                let Span { first, last } = self.span();
                Effect::Settled { consumer: self.consumer(), first, last, journaled: self.bool() }
            }
            7 => Effect::Revoked { consumer: self.consumer(), numbers: self.few(Self::span) },
            8 => Effect::Done { ticket: self.ticket(), messages: self.u64(), journaled: self.bool() },
            9 => Effect::Report { ticket: self.ticket(), report: Box::new(self.report()) },
            _ => Effect::Delivery(self.delivery()),
        }
    }

    pub(super) fn answer(&mut self) -> Answer {
        if self.0.one_in(8) {
            let Span { first, last } = self.span();
            let verdicts = [
                Verdict::Accepted,
                Verdict::Released,
                Verdict::Rejected(RejectReason::MaxLength),
                Verdict::Rejected(RejectReason::Unavailable),
                Verdict::Rejected(RejectReason::NoLeader),
                Verdict::Rejected(RejectReason::Damaged),
                Verdict::Rejected(RejectReason::OutOfReach),
                Verdict::Unknown,
            ];
            let verdict = self.0.pick(&verdicts).unwrap_or(Verdict::Accepted);
            return Answer::Receipt { first, last, verdict };
        }
        Answer::Effect(self.effect())
    }
}

fn fields(number: u32) -> Filter {
    let mut filter = message::FieldFilter::default();
    let map = [("priority", amqp10::Value::Uint(number)), ("city", "&p:Lis".into())].into_iter().collect();
    filter.add_application_properties(&map).expect("fields");
    Filter::Fields(filter)
}

fn annotations() -> Box<Annotations> {
    Box::new(Annotations::from_section(Bytes::from_static(ANNOTATIONS)).expect("a section"))
}

pub(super) fn message() -> Message {
    let parts = Parts {
        wire: Bytes::from_static(b"\x00\x53\x75\xa0\x02hi"),
        durable: true,
        priority: Some(3),
        ttl_ms: Some(500),
        ..Parts::default()
    };
    Message::new(parts, Arc::new(Route::simple("x", "key")))
}

fn delivery(number: u64) -> Delivery {
    let (consumer, message) = (ConsumerId(0x0301), message());
    Delivery { consumer, number, seq: 70 + number, message, delivery_count: 1, acquired_count: 2 }
}

/// Returns an example of each kind of ask, in the order of the kinds.
pub(super) fn asks() -> Vec<(&'static str, Ask)> {
    let to = ReplyTo {
        origin: Origin { node: NodeId(0xfeed), boot: 17 },
        outlet: ConsumerId(7),
        key: Key::new(*b"unguessable!"),
    };
    let (vhost, queue): (Arc<str>, _) = ("/".into(), QueueId(0x0102_0304));
    let (consumer, ticket) = (ConsumerId(0x0301), Ticket(9));
    let filter = SqlFilter::parse("p.subject  LIKE 'a%'", Dialect::Filter).expect("an expression");
    let replay = Replay {
        start: Start::Offset(40),
        bloom: BloomFilter::new([*b"eu", *b"us"], true).map(Arc::new),
        matching: Some(Arc::new(Filter::Sql(filter))),
    };
    let attach = Attach {
        consumer,
        mode: Mode::Replay(Box::new(replay.clone())),
        priority: -2,
        exclusive: false,
        settled: true,
        delivery_count: 5,
        message_bytes_max: Some(DeliveryMax::Whole(1000)),
        timeout: ConsumerTimeout { own_ms: None, default_ms: Some(1_800_000) },
    };
    let browse = Replay { matching: Some(Arc::new(fields(4))), ..Replay::default() };
    let modified =
        Outcome::Modified { failed: true, undeliverable_here: false, annotations: Some(annotations()) };
    let requests = [
        ("attach", Request::Attach(attach)),
        ("cancel", Request::Cancel { consumer }),
        ("detach", Request::Detach { consumer, failed: true }),
        ("grant", Request::Grant { consumer, delivery_count: 5, credit: 100, drain: false, echo: true }),
        ("resume", Request::Resume { consumer, taken_back: 6 }),
        ("fetch", Request::Fetch { ticket, holder: ConsumerId(8), n: 3, settled: true }),
        ("browse", Request::Browse { ticket, replay: Box::new(browse), n: 20 }),
        ("cancel_browse", Request::CancelBrowse { ticket }),
        (
            "settle",
            Request::Settle { consumer, first: 2, last: 4, outcome: modified, answer: SettleAnswer::Made },
        ),
        ("use", Request::Use),
        ("purge", Request::Purge { ticket }),
        ("delete", Request::Delete { ticket, if_unused: false, if_empty: true }),
        ("report", Request::Report { ticket }),
    ];
    let others = [
        ("publish", Ask::Publish { queue, number: 3, pipelines: true, message: message() }),
        ("reply", Ask::Reply { to, vhost: vhost.clone(), number: 4, message: message() }),
        ("probe", Ask::Probe { to, vhost, ticket }),
    ];
    let requests = requests.map(|(name, request)| (name, Ask::Request { queue, request }));
    others.into_iter().chain(requests).collect()
}

/// Returns an example of each kind of answer, in the order of the kinds.
pub(super) fn answers() -> Vec<(&'static str, Answer)> {
    let (consumer, ticket) = (ConsumerId(0x0301), Ticket(9));
    let mut rejected = Lately::NONE;
    rejected.count_all(2, 15_000);
    let report = Report {
        ready: 1,
        unsettled: 2,
        leaving: 3,
        staged: 4,
        delayed: 5,
        ready_bytes: 6,
        unsettled_bytes: 7,
        leaving_bytes: 8,
        delayed_bytes: 9,
        full: true,
        next_seq: 10,
        consumers: 11,
        damaged: false,
        reading: true,
        next_bytes: Some(12),
        next_head_bytes: None,
        head_at_ms: Some(13),
        active_consumer: Some(14),
        yielding: false,
        published: 15,
        delivered: 40,
        delivered_settled: 20,
        fetched: 19,
        fetched_settled: 18,
        redelivered: 21,
        acknowledged: 22,
        expired: 23,
        dropped: 24,
        dead_lettered: 25,
        over_limit: 26,
        last_was_over_limit: true,
        returned_again: Lately::NONE,
        annotations_refused: 27,
        rejected,
        over_length: 28,
        tail_at_ms: Some(29),
        stream: Some(Retained {
            first: 30,
            next: 31,
            bytes: 32,
            times_ms: Some((33, 34)),
            segments: [30, 35].into(),
            closed_from: Some(36),
        }),
    };
    let state = CreditState { delivery_count: 5, credit: 6, available: 7, drained: true };
    let numbers = vec![Span { first: 1, last: 3 }, Span { first: 5, last: 5 }];
    let refused =
        Effect::Refused { requester: Requester::Ticket(ticket), why: Refusal::OutOfReach { node: Some(3) } };
    let effects = [
        ("attached", Effect::Attached { consumer }),
        ("refused", refused),
        ("gone", Effect::Gone { consumer, reason: GoneReason::OutOfReach { node: None } }),
        ("active", Effect::Active { consumer, active: true, available: 12 }),
        ("delivery", Effect::Delivery(delivery(1))),
        ("credit", Effect::CreditState { consumer, state }),
        ("fetched", Effect::Fetched { ticket, deliveries: vec![delivery(2), delivery(3)], ready: 8 }),
        ("settled", Effect::Settled { consumer, first: 2, last: 4, journaled: true }),
        ("revoked", Effect::Revoked { consumer, numbers }),
        ("done", Effect::Done { ticket, messages: 6, journaled: false }),
        ("report", Effect::Report { ticket, report: Box::new(report) }),
    ];
    let verdict = Verdict::Rejected(RejectReason::MaxLength);
    let receipt = ("receipt", Answer::Receipt { first: 3, last: 5, verdict });
    let effects = effects.map(|(name, effect)| (name, Answer::Effect(effect)));
    std::iter::once(receipt).chain(effects).collect()
}
