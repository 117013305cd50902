//! Replays the inputs that the fuzz targets have saved.

#[allow(unreachable_pub, reason = "the fuzz target calls it, too")]
#[path = "../../../fuzz/checks/frame_decoder.rs"]
mod frame_decoder;
#[allow(unreachable_pub, reason = "the fuzz target calls it, too")]
#[path = "../../../fuzz/checks/replay.rs"]
mod replay;
#[allow(unreachable_pub, reason = "the fuzz target calls it, too")]
#[path = "../../../fuzz/checks/section_scanner.rs"]
mod section_scanner;

use replay::replay;

#[test]
fn frame_decoder_corpus() {
    replay("frame_decoder", frame_decoder::check);
}

#[test]
fn section_scanner_corpus() {
    replay("section_scanner", section_scanner::check);
}
