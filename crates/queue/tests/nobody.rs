//! A consumer that takes nothing at once.

use queue::{Carrier, Deliver, DeliveryRef, Put};

/// A receiver that takes no delivery at once. So all deliveries become effects, and the queue sends every
/// receipt itself.
pub(crate) struct Nobody;

impl Deliver for Nobody {
    fn deliver(&mut self, _: DeliveryRef<'_>) -> bool {
        false
    }
}

impl Carrier for Nobody {
    fn put(&mut self, _: Put<'_>) -> bool {
        false
    }
}
