//! Replays the fuzz corpus of addresses through the check of the fuzz target, so that what was found once stays
//! found.

use std::path::Path;

#[path = "../../../fuzz/checks/address_parser.rs"]
mod address_parser;

#[test]
fn address_parser_corpus() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/address_parser");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        address_parser::check(&std::fs::read(entry.unwrap().path()).unwrap());
        files += 1;
    }
    assert!(files > 0, "the corpus is empty");
}
