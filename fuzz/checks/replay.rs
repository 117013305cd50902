//! Replays the corpus of a fuzz target without a fuzzer, so that old findings stay fixed.

use std::path::Path;

/// Checks every file of `fuzz/corpus/TARGET`.
pub fn replay(target: &str, check: fn(&[u8])) {
    let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let folder =
        above.find_map(|root| Some(root.join("fuzz/corpus").join(target)).filter(|path| path.is_dir()));
    let mut files = 0;
    for entry in std::fs::read_dir(folder.expect("a corpus")).unwrap() {
        check(&std::fs::read(entry.unwrap().path()).unwrap());
        files += 1;
    }
    assert!(files > 0, "the corpus of {target} is empty");
}
