//! Replays the inputs that the fuzz targets have saved.

#[path = "../../../fuzz/checks/message_conversions.rs"]
mod message_conversions;
#[path = "../../../fuzz/checks/replay.rs"]
mod replay;
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
