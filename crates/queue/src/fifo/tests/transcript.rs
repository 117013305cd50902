//! A transcript: each line applies one request, and its output is compared as text.
//!
//! Effects come first, in order. Then `|`, then the facts about the disk, then the others. (In the log, the facts about
//! the disk come last.)

use std::fmt::Write;
use std::sync::Arc;

use message::{Message, Parts, Route};

use super::shelf::Shelf;
use crate::*;

pub(super) fn config() -> Config {
    Config::new("q")
}

pub(super) fn with(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = config();
    change(&mut config);
    config
}

pub(super) fn dead_letters(at_least_once: bool) -> Option<Box<DeadLetter>> {
    Some(DeadLetter { exchange: "dlx".into(), key: Some("dead".into()), at_least_once }.into())
}

/// Returns a transient message with this body. `a!` is durable, `a^5` has priority 5, `a~100` expires after
/// 100 ms.
pub(super) fn message(text: &str) -> Message {
    let end = text.find(['!', '^', '~']).unwrap_or(text.len());
    let number = |mark: char| {
        let (_, rest) = text.split_once(mark)?;
        rest.split(['!', '^', '~']).next()?.parse::<u64>().ok()
    };
    let parts = Parts {
        wire: text.as_bytes()[..end].to_vec().into(),
        durable: text.contains('!'),
        priority: number('^').map(|n| n as u8),
        ttl_ms: number('~'),
        ..Parts::default()
    };
    Message::new(parts, Arc::new(Route::simple("", "q")))
}

pub(super) struct Page {
    pub fifo: Fifo,
    pub now_ms: u64,
    published: u64,
    journal: Vec<Logged>,
    pub shelf: Shelf,
    /// Blocks that were requested and have not been read.
    pub loads: Vec<Load>,
    /// See [`Output::too_large`].
    pub too_large: u64,
}

/// The output of one request.
pub(super) struct Response(String);

impl Response {
    #[track_caller]
    pub(super) fn is(self, expected: &str) {
        assert_eq!(self.0, expected);
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

impl Page {
    pub(super) fn new(config: Config) -> Self {
        Self {
            fifo: Fifo::new(config),
            now_ms: 1000,
            published: 0,
            journal: Vec::new(),
            shelf: Shelf::default(),
            loads: Vec::new(),
            too_large: 0,
        }
    }

    /// Returns a queue whose turns can be rolled back.
    pub(super) fn late(config: Config) -> Self {
        let mut page = Self::new(config);
        page.fifo = page.fifo.with_policy(FactPolicy::Always);
        page
    }

    /// Ends a turn.
    pub(super) fn close(&mut self) -> u64 {
        self.fifo.close_turn()
    }

    pub(super) fn commit(&mut self, turn: u64) -> Response {
        let mut out = Output::default();
        self.fifo.commit(turn, self.now_ms, &mut out);
        self.read(out)
    }

    pub(super) fn roll_back(&mut self, turn: u64) -> Response {
        let mut out = Output::default();
        self.fifo.roll_back(turn, self.now_ms, &mut out);
        self.read(out)
    }

    pub(super) fn send(&mut self, request: Request) -> Response {
        let mut out = Output::default();
        self.fifo.ask(request, self.now_ms, &mut out);
        self.read(out)
    }

    /// Publishes each word.
    pub(super) fn publish(&mut self, words: &str) -> Response {
        self.publish_all(words.split_whitespace().map(message))
    }

    pub(super) fn publish_all(&mut self, messages: impl IntoIterator<Item = Message>) -> Response {
        let mut all = Output::default();
        for message in messages {
            self.published += 1;
            let publish =
                Publish { publisher: PublisherId(1), seq: self.published, message, pipelines: false };
            self.fifo.ask(Request::Publish(publish), self.now_ms, &mut all);
        }
        self.read(all)
    }

    pub(super) fn attach(&mut self, id: u64) -> Response {
        self.attach_with(id, |_| ())
    }

    pub(super) fn attach_with(&mut self, id: u64, change: impl FnOnce(&mut Attach)) -> Response {
        let mut attach = Attach {
            consumer: ConsumerId(id),
            mode: Mode::Take,
            priority: 0,
            exclusive: false,
            settled: false,
            delivery_count: 0,
            message_bytes_max: None,
            timeout: ConsumerTimeout::default(),
        };
        change(&mut attach);
        self.send(Request::Attach(attach))
    }

    pub(super) fn grant(&mut self, id: u64, delivery_count: u32, credit: u32) -> Response {
        self.flow(id, delivery_count, credit, false, false)
    }

    pub(super) fn drain(&mut self, id: u64, delivery_count: u32, credit: u32) -> Response {
        self.flow(id, delivery_count, credit, true, false)
    }

    pub(super) fn echo(&mut self, id: u64, delivery_count: u32, credit: u32) -> Response {
        self.flow(id, delivery_count, credit, false, true)
    }

    pub(super) fn settle(&mut self, id: u64, first: u64, last: u64, outcome: Outcome) -> Response {
        self.send(Request::Settle {
            consumer: ConsumerId(id),
            first,
            last,
            outcome,
            answer: SettleAnswer::Never,
        })
    }

    pub(super) fn accept(&mut self, id: u64, first: u64, last: u64) -> Response {
        self.settle(id, first, last, Outcome::Accepted)
    }

    pub(super) fn release(&mut self, id: u64, first: u64, last: u64) -> Response {
        self.settle(id, first, last, Outcome::Released)
    }

    pub(super) fn reject(&mut self, id: u64, first: u64, last: u64) -> Response {
        self.settle(id, first, last, Outcome::Rejected)
    }

    pub(super) fn cancel(&mut self, id: u64) -> Response {
        self.send(Request::Cancel { consumer: ConsumerId(id) })
    }

    pub(super) fn detach(&mut self, id: u64, failed: bool) -> Response {
        self.send(Request::Detach { consumer: ConsumerId(id), failed })
    }

    pub(super) fn fetch(&mut self, holder: u64, n: u32, settled: bool) -> Response {
        self.send(Request::Fetch { ticket: Ticket(9), holder: ConsumerId(holder), n, settled })
    }

    pub(super) fn dead_lettered(&mut self, token: u64, arrival: Arrival) -> Response {
        self.send(Request::DeadLettered { token, arrival, taken_by: Vec::new() })
    }

    pub(super) fn configure(&mut self, config: Config) -> Response {
        self.send(Request::Configure(Arc::new(config)))
    }

    pub(super) fn purge(&mut self) -> Response {
        self.send(Request::Purge { ticket: Ticket(9) })
    }

    pub(super) fn delete(&mut self, if_unused: bool, if_empty: bool) -> Response {
        self.send(Request::Delete { ticket: Ticket(9), if_unused, if_empty })
    }

    pub(super) fn timeout(&mut self, now_ms: u64) -> Response {
        self.now_ms = now_ms;
        let mut out = Output::default();
        self.fifo.time(now_ms, &mut out);
        self.read(out)
    }

    /// Starts to write a run of about `messages` small messages.
    pub(super) fn page_out(&mut self, messages: u64) -> Option<PageOut> {
        self.shelf.page_out(&mut self.fifo, messages)
    }

    pub(super) fn stored(&mut self) -> Response {
        let mut out = Output::default();
        self.fifo.handle_stored(&mut out);
        self.read(out)
    }

    pub(super) fn quarantine(&mut self) -> Response {
        let mut out = Output::default();
        self.fifo.quarantine(&mut out);
        self.read(out)
    }

    /// Delivers the oldest requested block.
    pub(super) fn load(&mut self) -> Response {
        let load = self.loads.remove(0);
        let mut out = Output::default();
        self.fifo.bring(load, self.shelf.block(load), self.now_ms, &mut out);
        self.read(out)
    }

    /// Reports that a copy of a run is safe.
    pub(super) fn moved(
        &mut self,
        old: u32,
        living: &Living,
        messages: Vec<Loaded>,
        moved: &[Moved],
    ) -> Response {
        let mut out = Output::default();
        if let Some(new) = self.fifo.handle_moved(old, living, moved, &mut out) {
            self.shelf.add(new, messages);
        }
        self.read(out)
    }

    /// Restores the queue from its facts.
    pub(super) fn restart(&mut self) {
        let config = self.fifo.config().clone();
        self.fifo = Fifo::restore(config, self.journal.iter().cloned().collect(), self.now_ms);
        self.loads.clear();
    }

    fn flow(&mut self, id: u64, delivery_count: u32, credit: u32, drain: bool, echo: bool) -> Response {
        self.send(Request::Grant { consumer: ConsumerId(id), delivery_count, credit, drain, echo })
    }

    fn read(&mut self, out: Output) -> Response {
        let all = out.receipts.iter().flat_map(receipt).chain(out.effects.iter().map(effect));
        let effects: Vec<String> = all.collect();
        let facts: Vec<String> = out.local.iter().map(local_fact).chain(out.facts.iter().map(fact)).collect();
        self.journal.extend(out.facts.into_iter().map(Logged::Shared));
        self.journal.extend(out.local.into_iter().map(Logged::Local));
        self.loads.extend(out.loads);
        self.too_large += out.too_large;
        self.shelf.release(out.released);
        let mut text = effects.join("; ");
        if !facts.is_empty() {
            let space = if text.is_empty() { "" } else { " " };
            write!(text, "{space}| {}", facts.join("; ")).unwrap();
        }
        Response(text)
    }
}

fn body(message: &Message) -> String {
    String::from_utf8_lossy(&message.bare()).into_owned()
}

fn delivery(d: &Delivery) -> String {
    let mut text = format!("{}#{} {}", d.consumer.0, d.number, body(&d.message));
    if d.delivery_count > 0 {
        write!(text, " count {}", d.delivery_count).unwrap();
    }
    if d.acquired_count > 0 {
        text += " again";
    }
    text
}

/// Returns one text for each publish.
fn receipt(receipt: &Receipt) -> impl Iterator<Item = String> {
    let Receipt { first, last, verdict, journaled, .. } = *receipt;
    let verdict = match verdict {
        Verdict::Accepted => "ok",
        Verdict::Rejected(RejectReason::MaxLength) => "full",
        Verdict::Rejected(RejectReason::Unavailable) => "unavailable",
        Verdict::Rejected(RejectReason::NoLeader) => "no leader",
        Verdict::Rejected(RejectReason::Damaged) => "damaged",
        Verdict::Released => "released",
        Verdict::Rejected(RejectReason::OutOfReach) | Verdict::Unknown => {
            unreachable!("a queue is in its own reach, and knows what it has done")
        }
    };
    (first..=last).map(move |seq| format!("{seq} {verdict}{}", if journaled { "!" } else { "" }))
}

fn effect(effect: &Effect) -> String {
    match effect {
        Effect::Attached { consumer, .. } => format!("attached {}", consumer.0),
        Effect::Refused { why, .. } => format!("refused {why:?}"),
        Effect::Gone { consumer, reason } => format!("gone {} {reason:?}", consumer.0),
        Effect::Active { consumer, active: true, available } => {
            format!("active {} of {available}", consumer.0)
        }
        Effect::Active { consumer, active: false, available } => {
            format!("inactive {} of {available}", consumer.0)
        }
        Effect::Delivery(d) => delivery(d),
        Effect::CreditState { consumer, state: s } => {
            let drained = if s.drained { " drained" } else { "" };
            let (count, credit, available) = (s.delivery_count, s.credit, s.available);
            format!("credit {} at {count}+{credit} of {available}{drained}", consumer.0)
        }
        Effect::Fetched { deliveries, ready, .. } => {
            let all: Vec<String> = deliveries.iter().map(delivery).collect();
            format!("fetched [{}] of {ready}", all.join(", "))
        }
        Effect::Settled { consumer, first, last, .. } => format!("settled {} {first}..={last}", consumer.0),
        Effect::StreamUpdate { .. } => unreachable!("a fifo has no followers"),
        Effect::Revoked { consumer, numbers } => {
            let numbers: Vec<String> =
                numbers.iter().map(|Span { first, last }| format!("{first}..={last}")).collect();
            format!("revoked {} {}", consumer.0, numbers.join(", "))
        }
        Effect::DeadLetter { token, message, reason, exchange, key, .. } => {
            let key = key.as_deref().unwrap_or("-");
            format!("dead {token} {} {} to {exchange}/{key}", body(message), reason.as_str())
        }
        Effect::Done { messages, .. } => format!("done {messages}"),
        Effect::Deleted { reason } => format!("deleted {reason:?}"),
        Effect::Report { report, .. } => format!("report ready {}", report.ready),
    }
}

fn fact(fact: &Fact) -> String {
    match fact {
        Fact::Put { seq, message, .. } => format!("put {seq} {}", body(message)),
        Fact::Gone(Span { first, last }) if first == last => format!("gone {first}"),
        Fact::Gone(Span { first, last }) => format!("gone {first}..={last}"),
        Fact::Returned { seq, marks } => returned(*seq, marks),
        Fact::Ended { reason } => format!("ended {reason:?}"),
    }
}

fn local_fact(fact: &LocalFact) -> String {
    match fact {
        LocalFact::Stored(Stored { run, first, last, durable, messages, .. }) => {
            format!("stored {run}: {first}..={last}, {durable} of {messages}")
        }
        LocalFact::GoneFromRun(GoneFromRun { run, first, last, .. }) => {
            format!("taken {run}: {first}..={last}")
        }
        LocalFact::Marked { seq, marks } => returned(*seq, marks),
        LocalFact::Damaged => "damaged".to_owned(),
    }
}

fn returned(seq: u64, marks: &Marks) -> String {
    let again = if marks.redelivered { " again" } else { "" };
    let noted = if marks.annotations.is_some() { " annotated" } else { "" };
    format!("returned {seq} count {}{again}{noted}", marks.delivery_count)
}
