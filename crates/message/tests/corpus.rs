//! Replays the inputs that the fuzz targets have saved.

#[allow(unreachable_pub, reason = "the fuzz target calls it, too")]
#[path = "../../../fuzz/checks/message_conversions.rs"]
mod message_conversions;
#[allow(unreachable_pub, reason = "the fuzz target calls it, too")]
#[path = "../../../fuzz/checks/replay.rs"]
mod replay;
#[allow(unreachable_pub, reason = "the fuzz target calls it, too")]
#[path = "../../../fuzz/checks/sql_filter.rs"]
mod sql_filter;

use replay::replay;

#[test]
fn sql_filter_corpus() {
    replay("sql_filter", sql_filter::check);
}

#[test]
fn message_conversions_corpus() {
    replay("message_conversions", message_conversions::check);
}
