//! Replays the fuzz corpus of filter expressions through the check of the fuzz target, so that what was found once stays
//! found.

use std::path::Path;

#[path = "../../../fuzz/checks/sql_filter.rs"]
mod sql_filter;

#[test]
fn sql_filter_corpus() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/sql_filter");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        sql_filter::check(&std::fs::read(entry.unwrap().path()).unwrap());
        files += 1;
    }
    assert!(files > 0, "the corpus is empty");
}
