//! Counts redrives of dead letters.

use amqp10::{Map, Symbol, Value};

use crate::annotations::Annotations;
use crate::envelope::Message;

/// The annotation that counts how often a dead letter was redriven. In a message of AMQP 0.9.1 it is a header.
pub const REDRIVEN: &str = "x-opt-sluice-redriven";

impl Message {
    /// Counts a redrive of a dead letter. Receivers see the number as the annotation [`REDRIVEN`], which replaces
    /// one that a publisher has set. The message keeps its deaths. It had lost its time to live when it died.
    pub fn redriven(mut self, now_ms: u64) -> Self {
        let deaths = self.deaths_mut();
        deaths.redrive(now_ms);
        let mut count = Map::new();
        count.insert(Symbol::from_static(REDRIVEN), Value::Uint(deaths.redrives().count));
        // One short pair is a valid set.
        match Annotations::from_map(&count) {
            Ok(count) => self.annotated(&count),
            Err(_) => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Parts, Route};

    #[test]
    fn a_redrive_is_counted_in_an_annotation() {
        let message = Message::new(Parts::default(), Arc::new(Route::simple("x", "k")));
        let bare = message.bare();
        let redriven = message.redriven(5).redriven(6);
        assert_eq!(redriven.bare(), bare);
        assert_eq!(
            redriven.annotations(),
            b"\x00\x53\x72\xd1\0\0\0\x1d\0\0\0\x02\xa3\x15x-opt-sluice-redriven\x52\x02"
        );
        assert_eq!(redriven.deaths().map(|deaths| deaths.redrives().last_ms), Some(6));
    }
}
