//! Checks that a queue knows no protocol.

use std::path::Path;

#[test]
fn queue_is_monoglot() {
    let words = ["channel", "link", "frame", "amqp", "mqtt", "session"];
    let mut files = 0;
    visit(Path::new(env!("CARGO_MANIFEST_DIR")).join("src").as_path(), &mut |path, text| {
        files += 1;
        for (at, line) in text.lines().enumerate() {
            let line_lower = line.to_lowercase();
            for word in words {
                assert!(!line_lower.contains(word), "{}:{}: {word:?} in {line:?}", path.display(), at + 1);
            }
        }
    });
    assert!(files > 5);
}

fn visit(folder: &Path, each: &mut impl FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            visit(&path, each);
        } else {
            each(&path, &std::fs::read_to_string(&path).unwrap());
        }
    }
}
