//! Replays the inputs that the fuzz targets have saved.

#[path = "../../../fuzz/checks/replay.rs"]
mod replay;
#[path = "../../../fuzz/checks/sql_filter.rs"]
mod sql_filter;

use replay::replay;

#[test]
fn sql_filter_corpus() {
    replay("sql_filter", sql_filter::check);
}
