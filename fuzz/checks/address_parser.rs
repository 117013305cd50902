//! Any text as an address. Shared by the fuzz target and the test that replays the corpus.

use broker::gate::amqp10::{Address, queue_address};

/// Parses an address; whatever it says, its parts hold what the text decodes to, and a queue's address leads back
/// to the queue.
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
        // The reason is fit to be shown whatever the text was.
        Err(bad) => assert!(bad.to_string().chars().all(|c| !c.is_control())),
    }
}
