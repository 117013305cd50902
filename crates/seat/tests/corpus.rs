//! Replays the inputs that the fuzz target has saved.

#[allow(unreachable_pub, reason = "the fuzz target calls it, too")]
#[path = "../../../fuzz/checks/replay.rs"]
mod replay;
#[allow(unreachable_pub, reason = "the fuzz target calls it, too")]
#[path = "../../../fuzz/checks/seat_items.rs"]
mod seat_items;

#[test]
fn seat_items_corpus() {
    replay::replay("seat_items", seat_items::check);
}
