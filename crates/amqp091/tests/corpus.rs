//! Replays the inputs that the fuzz target has saved.

#[allow(unreachable_pub, reason = "the fuzz target calls it, too")]
#[path = "../../../fuzz/checks/amqp091_frames.rs"]
mod amqp091_frames;
#[allow(unreachable_pub, reason = "the fuzz target calls it, too")]
#[path = "../../../fuzz/checks/replay.rs"]
mod replay;

#[test]
fn amqp091_frames_corpus() {
    replay::replay("amqp091_frames", amqp091_frames::check);
}
