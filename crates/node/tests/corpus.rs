//! Replays the inputs that the fuzz targets have saved.

#[allow(unreachable_pub, reason = "the fuzz target calls it, too")]
#[path = "../../../fuzz/checks/peer_messages.rs"]
mod peer_messages;
#[allow(unreachable_pub, reason = "the fuzz target calls it, too")]
#[path = "../../../fuzz/checks/proxy_headers.rs"]
mod proxy_headers;
#[allow(unreachable_pub, reason = "the fuzz target calls it, too")]
#[path = "../../../fuzz/checks/quorum_entries.rs"]
mod quorum_entries;
#[allow(unreachable_pub, reason = "the fuzz target calls it, too")]
#[path = "../../../fuzz/checks/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn quorum_entries_corpus() {
    replay("quorum_entries", quorum_entries::check);
}

#[test]
fn peer_messages_corpus() {
    replay("peer_messages", peer_messages::check);
}

#[test]
fn proxy_headers_corpus() {
    replay("proxy_headers", proxy_headers::check);
}
