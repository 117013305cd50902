//! What the caller learns about another node besides support: its alarms, and that the clocks differ.

use super::{Event, Nodes};
use crate::mutation::Mutation;
use crate::word::Alarms;

/// The difference between two clocks, in milliseconds, above which both nodes are named to the operator. Clocks that are kept by a time service
/// differ by less than a tenth of it.
pub(super) const CLOCK_DIFFERENCE_MAX_MS: u64 = 1_000;

/// Clocks that differed agree again below this, so that a difference near the bound is not reported again and again.
const CLOCKS_AGREE_MS: u64 = 500;

impl Nodes {
    /// Tells the alarms of a node that count, if they have changed.
    pub(super) fn note_alarms(&mut self, peer: usize) {
        let counts = self.slots[peer].told.is_some() || self.has(Mutation::KeepAlarms);
        let slot = &mut self.slots[peer];
        let beat = slot.peer.known.beat.filter(|_| counts);
        let alarms = beat.map_or(Alarms::default(), |beat| beat.health.alarms);
        if slot.alarms != alarms {
            slot.alarms = alarms;
            self.events.push_back(Event::Alarms { peer, alarms });
        }
    }

    /// Tells that the clocks differ too much, or no longer.
    pub(super) fn note_clocks(&mut self, peer: usize) {
        let slot = &mut self.slots[peer];
        let known = &slot.peer.known;
        let (Some(ahead_ms), Some(round_trip_ms)) = (known.clock_difference_ms, known.round_trip_ms) else {
            return;
        };
        // The other clock was read at some time within the round trip.
        let least_ms = ahead_ms.unsigned_abs().saturating_sub(round_trip_ms.div_ceil(2));
        let are_apart = match slot.clocks_apart {
            true => least_ms >= CLOCKS_AGREE_MS,
            false => least_ms > CLOCK_DIFFERENCE_MAX_MS,
        };
        if slot.clocks_apart != are_apart {
            slot.clocks_apart = are_apart;
            self.events.push_back(Event::Clocks { peer, ahead_ms, are_apart });
        }
    }
}
