//! A test that the product is compiled once: the tests and the program share every library. A feature that only a
//! dev-dependency enables would make `cargo build` compile the library, and all that use it, a second time.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::Value;

/// Units of a build, as cargo prints them. Each one is a call of the compiler.
struct Units(Vec<Value>);

impl Units {
    /// Asks cargo what this command would compile.
    fn of(command: &[&str]) -> Self {
        let asked = std::process::Command::new(env!("CARGO"))
            .args(command)
            .args(["--profile", "ci", "--unit-graph", "-Z", "unstable-options"])
            .current_dir(crate::tidy::root())
            // Only a nightly cargo prints the graph without this.
            .env("RUSTC_BOOTSTRAP", "1")
            .output()
            .expect("cargo runs");
        assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
        let mut graph: Value = serde_json::from_slice(&asked.stdout).expect("a graph of units");
        let Value::Array(units) = graph["units"].take() else { panic!("no units") };
        Self(units)
    }

    /// Returns what tells a unit from others: its package, how it is compiled, and the same of all that it uses.
    fn identity(&self, at: usize, known: &mut HashMap<usize, u64>) -> u64 {
        if let Some(&identity) = known.get(&at) {
            return identity;
        }
        let unit = &self.0[at];
        let mut hasher = DefaultHasher::new();
        for field in ["pkg_id", "target", "profile", "platform", "mode", "features"] {
            unit[field].to_string().hash(&mut hasher);
        }
        let used = unit["dependencies"].as_array().expect("dependencies");
        let used = used.iter().map(|used| used["index"].as_u64().expect("a number") as usize);
        let used: BTreeSet<u64> = used.map(|used| self.identity(used, known)).collect();
        used.hash(&mut hasher);
        let identity = hasher.finish();
        known.insert(at, identity);
        identity
    }

    /// Returns all units by identity, with their names.
    fn all(&self) -> HashMap<u64, String> {
        let mut known = HashMap::new();
        let name = |at: usize| format!("{} {}", self.0[at]["pkg_id"], self.0[at]["features"]);
        (0..self.0.len()).map(|at| (self.identity(at, &mut known), name(at))).collect()
    }
}

#[test]
fn the_product_is_compiled_once() {
    let tests = Units::of(&["test", "--workspace"]).all();
    let product = Units::of(&["build", "--package", "sluice"]).all();
    assert!(product.len() > 100, "{} units", product.len());
    let twice: Vec<&String> =
        product.iter().filter(|(unit, _)| !tests.contains_key(unit)).map(|(_, name)| name).collect();
    assert!(twice.is_empty(), "`cargo build` after `cargo test` compiles these again:\n{twice:#?}");
}
