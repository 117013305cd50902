//! What a receiver reports to its sender about deliveries, in as few DISPOSITION frames as possible [2.7.6].

use ranges::Range;

use crate::DeliveryState;

/// The deliveries `first..=last` and their state. Sent as one DISPOSITION frame.
#[derive(Debug, PartialEq)]
pub struct DispositionRange {
    /// The first delivery-id, a serial number. `last` is the last one.
    pub first: u32,
    pub last: u32,
    /// False if the sender has to settle first.
    pub settled: bool,
    pub state: DeliveryState,
}

impl Range for DispositionRange {
    #[inline]
    fn joins(&self, next: &Self) -> bool {
        self.last.wrapping_add(1) == next.first && self.settled == next.settled && self.state == next.state
    }

    #[inline]
    fn lengthen(&mut self, next: &Self) {
        self.last = next.last;
    }
}
