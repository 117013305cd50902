//! Reads any bytes as the start of a connection from a proxy. Shared by the fuzz target and the test that replays the corpus.

use node::proxy::{HEADER_BYTES_MAX, parse};

/// A header is complete with its last byte and not before, nothing behind it matters, and the input that a header may need
/// is bounded.
pub fn check(data: &[u8]) {
    let parsed = parse(data);
    match &parsed {
        Ok(None) => assert!(data.len() < HEADER_BYTES_MAX),
        Ok(Some((_, len))) => {
            assert_eq!(parse(&data[..*len]), parsed);
            (0..*len).for_each(|cut| assert_eq!(parse(&data[..cut]), Ok(None)));
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            (0..data.len()).for_each(|cut| assert!(!matches!(parse(&data[..cut]), Ok(Some(_)))));
        }
    }
}
