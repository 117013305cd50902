//! Replays the inputs that the fuzz target has saved.

#[path = "../../../fuzz/checks/claims.rs"]
mod claims;
#[path = "../../../fuzz/checks/replay.rs"]
mod replay;

#[test]
fn claims_corpus() {
    replay::replay("claims", claims::check);
}
