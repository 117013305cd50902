//! Tests of architectural rules that manifests and sources show (ARCHITECTURE.md, Invariants).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A crate of the workspace, according to its manifest.
struct CrateInfo {
    floor: u64,
    wing: String,
    /// The names of the crates that it depends on, without dev-dependencies.
    uses: BTreeSet<String>,
    path: PathBuf,
}

fn metadata() -> Value {
    let rustc = Command::new("rustc").arg("-vV").output().expect("rustc runs");
    let version = String::from_utf8_lossy(&rustc.stdout).into_owned();
    let host = version.lines().find_map(|l| l.strip_prefix("host: ")).expect("rustc prints its host");
    // The metadata is requested for this platform only, because without a network it is complete only for
    // this one.
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline", "--locked", "--filter-platform", host])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo writes JSON")
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of xtask is inside the workspace")
}

/// Returns the packages of the workspace. The crates below `vendor` are not among them, so no check applies to them: others have
/// written them.
fn members(metadata: &Value) -> impl Iterator<Item = &Value> {
    let ids: BTreeSet<&str> = metadata["workspace_members"]
        .as_array()
        .expect("members")
        .iter()
        .map(|id| id.as_str().expect("an id"))
        .collect();
    let packages = metadata["packages"].as_array().expect("packages");
    packages.iter().filter(move |p| ids.contains(p["id"].as_str().expect("an id")))
}

/// Returns all crates of the workspace except xtask.
fn crates(metadata: &Value) -> BTreeMap<String, CrateInfo> {
    members(metadata)
        .filter(|p| p["name"] != "xtask")
        .map(|p| {
            let name = p["name"].as_str().expect("a name").to_owned();
            let house = &p["metadata"]["house"];
            let floor = house["floor"].as_u64().unwrap_or_else(|| {
                panic!("{name} has no `floor` (the number of its layer) in [package.metadata.house]")
            });
            let wing = house["wing"].as_str().unwrap_or_else(|| {
                panic!("{name} has no `wing` (pure, plumbing, both or annex) in [package.metadata.house]")
            });
            let wing = wing.to_owned();
            let normal =
                p["dependencies"].as_array().expect("dependencies").iter().filter(|d| d["kind"].is_null());
            let uses = normal.map(|d| d["name"].as_str().expect("a name").to_owned()).collect();
            let manifest = PathBuf::from(p["manifest_path"].as_str().expect("a path"));
            (name, CrateInfo { floor, wing, uses, path: manifest.parent().expect("a folder").to_owned() })
        })
        .collect()
}

#[test]
fn floors_go_down() {
    let metadata = metadata();
    let crates = crates(&metadata);
    for (name, info) in &crates {
        for (used, below) in info.uses.iter().filter_map(|u| Some((u, crates.get(u)?))) {
            assert!(
                below.floor < info.floor,
                "{name} (floor {}) uses {used} (floor {}), but a crate may only use crates of lower floors",
                info.floor,
                below.floor
            );
            assert!(
                below.wing != "annex" || info.wing == "annex",
                "{name} uses {used}, which is in the annex"
            );
            // The client is plumbing that builds on the codec. It may use the pure wing, but nothing in the
            // pure wing may use plumbing.
            assert!(
                info.wing != "pure" || below.wing == "pure",
                "{name} is in the pure wing, but uses {used}, which is not"
            );
        }
    }
}

/// Helpers for tests are crates of the annex.
#[test]
fn the_product_has_no_helpers_of_tests() {
    let metadata = metadata();
    let product = members(&metadata).filter(|p| p["metadata"]["house"]["wing"] != "annex");
    let crates = crates(&metadata);
    for package in product {
        for used in package["dependencies"].as_array().expect("dependencies") {
            let is_helper =
                used["name"].as_str().and_then(|name| crates.get(name)).is_some_and(|c| c.wing == "annex");
            assert!(
                used["kind"] == "dev" || !is_helper,
                "{} depends on {}, which is in the annex, outside its dev-dependencies",
                package["name"],
                used["name"]
            );
        }
    }
}

#[test]
fn pure_wing_is_pure() {
    const BANNED: &[&str] = &[
        "tokio",
        "mio",
        "socket2",
        "rustix",
        "libc",
        "axum",
        "hyper",
        "reqwest",
        "async-std",
        "smol",
        "rand",
        "getrandom",
        "fastrand",
        "chrono",
        "time",
        "memmap2",
        "tempfile",
    ];
    let metadata = metadata();
    let resolve = metadata["resolve"]["nodes"].as_array().expect("nodes");
    let names: BTreeMap<&str, &str> = metadata["packages"]
        .as_array()
        .expect("packages")
        .iter()
        .map(|p| (p["id"].as_str().expect("an id"), p["name"].as_str().expect("a name")))
        .collect();
    let rules = std::fs::read_to_string(root().join("crates/amqp10/clippy.toml")).expect("the rules");
    for (name, info) in crates(&metadata).iter().filter(|(_, r)| r.wing == "pure") {
        let start = names.iter().find(|(_, n)| *n == name).expect("the crate is a package").0;
        let (mut todo, mut seen) = (vec![*start], BTreeSet::new());
        while let Some(id) = todo.pop() {
            if !seen.insert(id) {
                continue;
            }
            assert!(
                !BANNED.contains(&names[id]),
                "{name} is in the pure wing, but is built with {}",
                names[id]
            );
            let node = resolve.iter().find(|n| n["id"] == id).expect("a node");
            for dep in node["deps"].as_array().expect("deps") {
                let kinds = dep["dep_kinds"].as_array().expect("kinds");
                if kinds.iter().any(|k| k["kind"].is_null()) {
                    todo.push(dep["pkg"].as_str().expect("an id"));
                }
            }
        }
        let own = std::fs::read_to_string(info.path.join("clippy.toml")).unwrap_or_default();
        assert_eq!(
            own, rules,
            "{name} is in the pure wing, but its clippy.toml differs from that of crates/amqp10"
        );
    }
}

/// Cargo only warns if a patch is not used. Without it, a build would need a `protoc` that runs on few systems.
#[test]
fn no_build_runs_protoc() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    let raft_proto = packages.iter().find(|p| p["name"] == "raft-proto").expect("the types of Raft");
    assert!(raft_proto["source"].is_null(), "raft-proto is not the one in vendor/");
    let generators: Vec<&Value> = packages
        .iter()
        .map(|p| &p["name"])
        .filter(|name| {
            ["protobuf-build", "protobuf-codegen", "prost-build"].contains(&name.as_str().expect("a name"))
        })
        .collect();
    assert!(generators.is_empty(), "{generators:?}");
    // It is a workspace of its own, and patches apply to one workspace.
    let fuzz = std::fs::read_to_string(root().join("fuzz/Cargo.toml")).expect("the manifest");
    assert!(
        fuzz.contains("\n[patch.crates-io]\nraft-proto = "),
        "fuzz/Cargo.toml has no patch of raft-proto"
    );
}

#[test]
fn wal_is_monoglot() {
    // The crate `queue` has a similar test of its own.
    assert_no_word_of("wal", &["amqp", "mqtt", "exchange", "raft", "routing", "consumer", "publisher"]);
}

#[test]
fn replica_is_monoglot() {
    assert_no_word_of("replica", &["amqp", "mqtt", "exchange", "routing", "consumer", "publisher", "queue"]);
}

fn assert_no_word_of(crate_name: &str, words: &[&str]) {
    for file in sources(&root().join("crates").join(crate_name).join("src")) {
        let text = std::fs::read_to_string(&file).expect("a source").to_lowercase();
        for word in words {
            assert!(!text.contains(word), "{} contains the word '{word}'", file.display());
        }
    }
}

#[test]
fn nothing_is_left_undone() {
    for crate_dir in std::fs::read_dir(root().join("crates")).expect("crates") {
        for file in sources(&crate_dir.expect("a folder").path().join("src")) {
            let text = std::fs::read_to_string(&file).expect("a source");
            for mark in ["TODO", "FIXME", "XXX", "HACK"] {
                assert!(!text.contains(mark), "{} has a {mark}", file.display());
            }
        }
    }
}

/// Modes are right whatever the umask says only if one module creates everything.
#[test]
fn files_are_created_in_one_place() {
    const WAYS: &[&str] = &[
        "File::create",
        "fs::write(",
        "create_dir(",
        "create_dir_all(",
        "DirBuilder",
        ".create(true)",
        "create_new(true)",
    ];
    // The second writes manual pages, which everybody may read. The third makes certificates for tests.
    const PLACES: &[&str] = &["wal/src/files.rs", "sluice/src/manual.rs", "tls/src/testing.rs"];
    for crate_dir in std::fs::read_dir(root().join("crates")).expect("crates") {
        for file in sources(&crate_dir.expect("a folder").path().join("src")) {
            let is_of_tests = file.ends_with("tests.rs") || file.iter().any(|part| part == "tests");
            if is_of_tests || PLACES.iter().any(|place| file.ends_with(place)) {
                continue;
            }
            let text = std::fs::read_to_string(&file).expect("a source");
            let product = text.split("#[cfg(test)]").next().unwrap_or_default();
            for way in WAYS {
                assert!(!product.contains(way), "{} uses {way} and not wal::files", file.display());
            }
        }
    }
}

fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a folder").map(|e| e.expect("an entry").path()) {
        if entry.is_dir() {
            found.extend(sources(&entry));
        } else if entry.extension().is_some_and(|e| e == "rs") {
            found.push(entry);
        }
    }
    found
}
