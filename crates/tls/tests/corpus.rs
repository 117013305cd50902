//! Replays the inputs that the fuzz target has saved.

#[allow(unreachable_pub, reason = "the fuzz target calls it, too")]
#[path = "../../../fuzz/checks/certificates.rs"]
mod certificates;
#[allow(unreachable_pub, reason = "the fuzz target calls it, too")]
#[path = "../../../fuzz/checks/replay.rs"]
mod replay;

#[test]
fn certificates_corpus() {
    replay::replay("certificates", certificates::check);
}
