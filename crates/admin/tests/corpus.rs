//! Replays the inputs that the fuzz target has saved.

#[path = "../../../fuzz/checks/definitions.rs"]
mod definitions;
#[path = "../../../fuzz/checks/replay.rs"]
mod replay;

#[test]
fn definitions_corpus() {
    replay::replay("definitions", definitions::check);
}
