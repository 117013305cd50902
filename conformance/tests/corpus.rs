//! Replays the corpus of the fuzz targets.

#[allow(unreachable_pub, reason = "the fuzz target calls it, too")]
#[path = "../../fuzz/checks/peers.rs"]
mod peers;
#[allow(unreachable_pub, reason = "the fuzz target calls it, too")]
#[path = "../../fuzz/checks/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn peers_corpus() {
    replay("peers", peers::check);
}
