//! Replays the fuzz corpora through the checks of the fuzz targets, so that what was found once stays found.

use std::path::Path;

#[path = "../../../fuzz/checks/frame_decoder.rs"]
mod frame_decoder;
#[path = "../../../fuzz/checks/section_scanner.rs"]
mod section_scanner;

fn replay(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        check(&std::fs::read(entry.unwrap().path()).unwrap());
        files += 1;
    }
    assert!(files > 0, "the corpus of {target} is empty");
}

#[test]
fn frame_decoder_corpus() {
    replay("frame_decoder", frame_decoder::check);
}

#[test]
fn section_scanner_corpus() {
    replay("section_scanner", section_scanner::check);
}
