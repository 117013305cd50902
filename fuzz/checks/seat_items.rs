//! Reads any bytes as what another node says about queues. Shared by the fuzz target and the test that replays the corpus.

use std::fmt::Debug;

use bytes::Bytes;
use message::LastRoute;
use seat::{get_answer, get_ask, put_answer, put_ask};

/// The bytes are read as requests, and as answers.
pub fn check(data: &[u8]) {
    check_as(data, get_ask, put_ask);
    check_as(data, get_answer, put_answer);
}

/// Reading must never panic. Items that were read must be the same after they are written and read again.
fn check_as<T: Debug>(
    data: &[u8],
    get: fn(&mut Bytes, &mut LastRoute) -> Option<T>,
    put: fn(&T, &mut Vec<u8>) -> bool,
) {
    let (mut bytes, mut routes) = (Bytes::copy_from_slice(data), LastRoute::default());
    while let Some(item) = get(&mut bytes, &mut routes) {
        let (mut written, mut again) = (Vec::new(), Vec::new());
        assert!(put(&item, &mut written), "it has left a node: {item:?}");
        let mut rest = Bytes::copy_from_slice(&written);
        let back = get(&mut rest, &mut LastRoute::default()).expect("what was written can be read");
        assert!(rest.is_empty());
        assert_eq!(format!("{back:?}"), format!("{item:?}"));
        assert!(put(&back, &mut again));
        assert_eq!(again, written);
    }
}
