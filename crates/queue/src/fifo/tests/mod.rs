//! Transcripts: requests on the left, what the machine says on the right.

mod credit;
mod dead;
mod limits;
mod model;
mod paging;
mod properties;
mod shelf;
mod transcript;
mod walk;

use super::{Fifo, Output};
use crate::{Fact, Put, Request};

impl Fifo {
    /// [`Fifo::apply`], with everything that it stores among its facts.
    fn ask(&mut self, request: Request, now_ms: u64, out: &mut Output) {
        let mut puts = Vec::new();
        let before = out.facts.len();
        let mut put = |put: Put<'_>| {
            puts.push(Fact::from(put));
            false
        };
        self.apply(request, now_ms, out, &mut put, &mut |_| false);
        out.facts.splice(before..before, puts);
    }
}
