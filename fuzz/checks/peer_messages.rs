//! Reads any bytes as a message of another node. Shared by the fuzz target and the test that replays the corpus.

use bytes::Bytes;
use node::peer::PeerMessage;

/// Reading must never panic. A message that was read must be the same after it is written and read again.
pub fn check(data: &[u8]) {
    let Some(message) = PeerMessage::decode(Bytes::copy_from_slice(data)) else { return };
    let written = message.encode();
    let again = PeerMessage::decode(written.clone()).expect("what was written can be read");
    assert_eq!(format!("{again:?}"), format!("{message:?}"));
    assert_eq!(again.encode(), written);
}
