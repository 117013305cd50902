//! Replays the inputs that the fuzz target has saved.

#[path = "../../../fuzz/checks/certificates.rs"]
mod certificates;
#[path = "../../../fuzz/checks/replay.rs"]
mod replay;

#[test]
fn certificates_corpus() {
    replay::replay("certificates", certificates::check);
}
