//! Replays the inputs that the fuzz target has saved.

#[allow(unreachable_pub, reason = "the fuzz target calls it, too")]
#[path = "../../../fuzz/checks/definitions.rs"]
mod definitions;
#[allow(unreachable_pub, reason = "the fuzz target calls it, too")]
#[path = "../../../fuzz/checks/replay.rs"]
mod replay;

#[test]
fn definitions_corpus() {
    replay::replay("definitions", definitions::check);
}
