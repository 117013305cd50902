//! Replays the inputs that the fuzz targets have saved.

#[allow(unreachable_pub, reason = "the fuzz target calls it, too")]
#[path = "../../../fuzz/checks/log_files.rs"]
mod log_files;
#[allow(unreachable_pub, reason = "the fuzz target calls it, too")]
#[path = "../../../fuzz/checks/replay.rs"]
mod replay;
#[allow(unreachable_pub, reason = "the fuzz target calls it, too")]
#[path = "../../../fuzz/checks/stream_segment.rs"]
mod stream_segment;

use replay::replay;

#[test]
fn log_files_corpus() {
    replay("log_files", log_files::check);
}

#[test]
fn stream_segment_corpus() {
    replay("stream_segment", stream_segment::check);
}
