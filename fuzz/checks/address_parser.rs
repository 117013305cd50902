//! Parses any text as an address. Shared by the fuzz target and the test that replays the corpus.

use broker::gate::amqp10::{Address, queue_address};

/// Parses an address. The parts must hold what the text decodes to. A queue's address must lead back to the
/// queue.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Address::parse(text) {
        Ok(Address::Queue(queue)) => {
            assert!(text.starts_with("/queues/"));
            assert!(!queue.is_empty() && queue.len() <= text.len());
            assert_eq!(Address::parse(&queue_address(&queue)), Ok(Address::Queue(queue)));
        }
        Ok(Address::Exchange { exchange, key }) => {
            assert!(text.starts_with("/exchanges/"));
            assert!(!exchange.is_empty() && exchange != "amq.default");
            assert!(exchange.len() + key.len() < text.len());
        }
        // The reason must be printable, whatever the text is.
        Err(bad) => assert!(bad.to_string().chars().all(|c| !c.is_control())),
    }
}
