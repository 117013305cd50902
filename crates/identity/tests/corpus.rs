//! Replays the inputs that the fuzz target has saved.

#[allow(unreachable_pub, reason = "the fuzz target calls it, too")]
#[path = "../../../fuzz/checks/claims.rs"]
mod claims;
#[allow(unreachable_pub, reason = "the fuzz target calls it, too")]
#[path = "../../../fuzz/checks/replay.rs"]
mod replay;

#[test]
fn claims_corpus() {
    replay::replay("claims", claims::check);
}
