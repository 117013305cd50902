//! Tests of the fifo machine. Most are transcripts: requests on the left, the machine's output on the right.

mod annotated;
mod browse;
mod credit;
mod dead;
mod late;
mod limits;
mod model;
mod paging;
mod properties;
mod quorum;
mod rollback;
mod rounds;
mod shelf;
mod sizes;
mod staged;
mod timeouts;
mod transcript;
mod walk;

use super::{Deliver, Fifo, Output};
use crate::{Block, Carrier, DeliveryRef, Effect, Fact, Load, Put, Request};

impl Fifo {
    /// [`Fifo::apply`], but adds the stored messages to its facts.
    fn ask(&mut self, request: Request, now_ms: u64, out: &mut Output) {
        let before = out.facts.len();
        let mut taking = Taking::default();
        self.apply(request, now_ms, out, &mut taking);
        out.facts.splice(before..before, taking.puts);
        out.effects.splice(..0, taking.deliveries);
    }

    fn time(&mut self, now_ms: u64, out: &mut Output) {
        lending(out, |out, deliver| self.handle_timeout(now_ms, out, deliver));
    }

    fn commit(&mut self, turn: u64, now_ms: u64, out: &mut Output) {
        lending(out, |out, deliver| self.commit_turns(turn, now_ms, out, deliver));
    }

    fn roll_back(&mut self, turn: u64, now_ms: u64, out: &mut Output) {
        self.roll_back_turns(turn, now_ms, out);
        lending(out, |out, deliver| self.decide_again(now_ms, out, deliver));
    }

    fn bring(&mut self, load: Load, block: Block, now_ms: u64, out: &mut Output) {
        lending(out, |out, deliver| self.handle_loaded(load, block, now_ms, out, deliver));
    }
}

/// Takes the deliveries for consumers with odd ids. They are put before the effects, because a delivery is offered only
/// while there is no effect.
#[derive(Default)]
struct Taking {
    puts: Vec<Fact>,
    deliveries: Vec<Effect>,
}

impl Deliver for Taking {
    fn deliver(&mut self, lent: DeliveryRef<'_>) -> bool {
        let takes = lent.consumer.0 % 2 == 1;
        self.deliveries.extend(takes.then(|| Effect::Delivery(lent.to_delivery())));
        takes
    }
}

impl Carrier for Taking {
    fn put(&mut self, put: Put<'_>) -> bool {
        self.puts.push(Fact::from(put));
        false
    }
}

fn lending(out: &mut Output, call: impl FnOnce(&mut Output, &mut dyn Deliver)) {
    let mut taking = Taking::default();
    call(out, &mut taking);
    out.effects.splice(..0, taking.deliveries);
}
