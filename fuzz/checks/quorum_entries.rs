//! Reads any bytes as an entry of a quorum queue. Shared by the fuzz target and the test that replays the
//! corpus.

use bytes::Bytes;
use message::LastRoute;
use node::entries::{decode, push_fact};

/// Reading must never panic. The facts that were read must be the same after they are written and read again.
pub fn check(data: &[u8]) {
    let Some(facts) = decode(Bytes::copy_from_slice(data), &mut LastRoute::default()) else { return };
    let mut written = Vec::new();
    facts.iter().for_each(|fact| push_fact(&mut written, fact));
    let again = decode(written.into(), &mut LastRoute::default()).expect("what was written can be read");
    assert_eq!(format!("{again:?}"), format!("{facts:?}"));
}
