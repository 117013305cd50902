//! Replays the inputs that the fuzz target has saved.

#[path = "../../../fuzz/checks/quorum_entries.rs"]
mod quorum_entries;
#[path = "../../../fuzz/checks/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn quorum_entries_corpus() {
    replay("quorum_entries", quorum_entries::check);
}
