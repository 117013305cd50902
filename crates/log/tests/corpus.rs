//! Replays the fuzz corpus of segments through the check of the fuzz target, so that what was found once stays found.

use std::path::Path;

#[path = "../../../fuzz/checks/stream_segment.rs"]
mod stream_segment;

#[test]
fn stream_segment_corpus() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/stream_segment");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        stream_segment::check(&std::fs::read(entry.unwrap().path()).unwrap());
        files += 1;
    }
    assert!(files > 0, "the corpus is empty");
}
