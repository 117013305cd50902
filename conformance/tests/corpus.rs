//! Replays the corpus of the fuzz targets.

#[path = "../../fuzz/checks/peers.rs"]
mod peers;
#[path = "../../fuzz/checks/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn peers_corpus() {
    replay("peers", peers::check);
}
