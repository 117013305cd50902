//! Transcripts: requests on the left, what the machine says on the right.

mod annotated;
mod credit;
mod dead;
mod limits;
mod model;
mod paging;
mod properties;
mod shelf;
mod transcript;
mod walk;

use super::{Deliver, Fifo, Output};
use crate::{Block, Effect, Fact, Load, Put, Request};

impl Fifo {
    /// [`Fifo::apply`], with everything that it stores among its facts.
    fn ask(&mut self, request: Request, now_ms: u64, out: &mut Output) {
        let mut puts = Vec::new();
        let before = out.facts.len();
        let mut put = |put: Put<'_>| {
            puts.push(Fact::from(put));
            false
        };
        lending(out, |out, deliver| self.apply(request, now_ms, out, &mut put, deliver));
        out.facts.splice(before..before, puts);
    }

    fn time(&mut self, now_ms: u64, out: &mut Output) {
        lending(out, |out, deliver| self.handle_timeout(now_ms, out, deliver));
    }

    fn bring(&mut self, load: Load, block: Block, now_ms: u64, out: &mut Output) {
        lending(out, |out, deliver| self.handle_loaded(load, block, now_ms, out, deliver));
    }
}

/// Takes what is lent to every other consumer, and puts it where it would stand among the effects: nothing is lent
/// behind one.
fn lending(out: &mut Output, call: impl FnOnce(&mut Output, Deliver<'_>)) {
    let mut taken = Vec::new();
    call(out, &mut |lent| {
        let takes = lent.consumer.0 % 2 == 1;
        taken.extend(takes.then(|| Effect::Delivery(lent.to_delivery())));
        takes
    });
    out.effects.splice(..0, taken);
}
