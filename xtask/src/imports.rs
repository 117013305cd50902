//! A test that modules import in one direction: no two siblings of a crate import from each other, not even
//! through a third.
//!
//! A module may import from its parent, and a parent from its children. Tests are ignored. Names are followed
//! through re-exports to the module that defines them, so that a common prelude hides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The most re-exports that are followed for one name.
const REEXPORTS_MAX: usize = 8;

/// A module as a path from the root of the crate. The root is the empty path.
type Module = Vec<String>;

/// An imported path, in segments.
type Import = Vec<String>;

#[derive(Default)]
struct Source {
    imports: Vec<Import>,
    /// The names of the items that this module defines.
    items: BTreeSet<String>,
}

struct Tree(BTreeMap<Module, Source>);

fn joined(path: &[String], name: &str) -> Vec<String> {
    path.iter().cloned().chain([name.to_owned()]).collect()
}

impl Tree {
    fn read(crate_src: &Path) -> Self {
        let mut tree = Self(BTreeMap::new());
        tree.read_folder(crate_src, &[]);
        tree
    }

    fn read_folder(&mut self, folder: &Path, module: &[String]) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let child = || joined(module, &name);
            match name.as_str() {
                "tests" => {}
                _ if path.is_dir() => self.read_folder(&path, &child()),
                "lib" | "main" | "mod" => self.read_file(&path, module.to_vec()),
                _ if path.extension().is_some_and(|e| e == "rs") => self.read_file(&path, child()),
                _ => {}
            }
        }
    }

    fn read_file(&mut self, path: &Path, module: Module) {
        let text = std::fs::read_to_string(path).expect("a source");
        let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        self.0.insert(module, parse(text));
    }

    /// Returns the module that defines the item that `import` names in `from`; `None` if it belongs to
    /// another crate.
    fn resolve(&self, from: &[String], import: &[String]) -> Option<Module> {
        let (base, rest) = self.place(from, import)?;
        self.follow(base, rest, 0)
    }

    /// Returns the module where an import begins, and the rest of the path.
    fn place<'a>(&self, from: &[String], import: &'a [String]) -> Option<(Module, &'a [String])> {
        let (first, rest) = import.split_first()?;
        match first.as_str() {
            "crate" => Some((Vec::new(), rest)),
            "self" => Some((from.to_vec(), rest)),
            "super" => {
                let ups = import.iter().take_while(|s| *s == "super").count();
                Some((from[..from.len().checked_sub(ups)?].to_vec(), &import[ups..]))
            }
            child => {
                let child = joined(from, child);
                self.0.contains_key(&child).then(|| (from.to_vec(), import))
            }
        }
    }

    fn follow(&self, mut base: Module, mut rest: &[String], depth: usize) -> Option<Module> {
        while let Some((name, behind)) = rest.split_first()
            && self.0.contains_key(&joined(&base, name))
        {
            base.push(name.clone());
            rest = behind;
        }
        let (Some(name), Some(source)) = (rest.first(), self.0.get(&base)) else { return Some(base) };
        if source.items.contains(name) || depth > REEXPORTS_MAX {
            return Some(base);
        }
        let defined = source.imports.iter().find_map(|import| {
            let (last, front) = import.split_last()?;
            let (place, rest) = match last.as_str() {
                _ if last == name => self.place(&base, import)?,
                "*" => self.place(&base, front)?,
                _ => return None,
            };
            let named = if last == "*" { joined(rest, name) } else { rest.to_vec() };
            let found = self.follow(place, &named, depth + 1)?;
            self.0[&found].items.contains(name).then_some(found)
        });
        Some(defined.unwrap_or(base))
    }

    /// Returns, for each parent, which of its children import from which, with one example each.
    fn siblings(&self) -> BTreeMap<Module, BTreeMap<String, BTreeMap<String, String>>> {
        let mut siblings: BTreeMap<Module, BTreeMap<String, BTreeMap<String, String>>> = BTreeMap::new();
        for (module, source) in &self.0 {
            for import in &source.imports {
                let Some(target) = self.resolve(module, import) else { continue };
                let common = module.iter().zip(&target).take_while(|(a, b)| a == b).count();
                // If one module is the other's parent, the import is allowed.
                let (Some(from), Some(to)) = (module.get(common), target.get(common)) else { continue };
                let example = format!("{} imports {}", module.join("::"), import.join("::"));
                let edges = siblings.entry(module[..common].to_vec()).or_default();
                edges.entry(from.clone()).or_default().insert(to.clone(), example);
            }
        }
        siblings
    }
}

/// Returns the imports and the items of a source file. Code formatted by rustfmt needs no better parser.
fn parse(text: &str) -> Source {
    let mut source = Source::default();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let mut words = line.trim_start();
        if words.starts_with("pub") {
            words = words.split_once(' ').map_or("", |(_, rest)| rest);
        }
        if let Some(tree) = words.strip_prefix("use ") {
            let mut tree = tree.to_owned();
            while !tree.contains(';')
                && let Some(next) = lines.next()
            {
                tree += next.trim();
            }
            expand(tree.trim_end_matches(';'), &mut source.imports);
        } else if !line.starts_with(' ') {
            source.items.extend(item(words));
        }
    }
    source
}

/// Returns the name of the item that begins with these words.
fn item(words: &str) -> Option<String> {
    const KINDS: &[&str] = &["struct", "enum", "trait", "type", "static", "const", "fn", "union"];
    let mut words = words.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.next().filter(|word| KINDS.contains(word) || *word == "unsafe")?;
    words.find(|word| !KINDS.contains(word) && *word != "unsafe").map(str::to_owned)
}

/// Appends the paths of a tree of imports, without renames.
fn expand(tree: &str, into: &mut Vec<Import>) {
    let Some((front, branches)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default().trim();
        into.push(path.split("::").map(str::to_owned).collect());
        return;
    };
    let branches = branches.trim().strip_suffix('}').unwrap_or(branches);
    let (mut depth, mut start) = (0, 0);
    for (at, c) in branches.char_indices().chain([(branches.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let branch = branches[start..at].trim();
                if !branch.is_empty() {
                    expand(&format!("{front}{branch}"), into);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// Returns a cycle through this node, if there is one.
fn cycle(edges: &BTreeMap<String, BTreeMap<String, String>>, start: &str) -> Option<Vec<String>> {
    let (mut todo, mut from) = (vec![start.to_owned()], BTreeMap::<String, (String, String)>::new());
    while let Some(node) = todo.pop() {
        for (next, example) in edges.get(&node).into_iter().flatten() {
            if from.contains_key(next) {
                continue;
            }
            from.insert(next.clone(), (node.clone(), example.clone()));
            if next == start {
                let (mut way, mut at) = (Vec::new(), start.to_owned());
                loop {
                    let (before, example) = from[&at].clone();
                    way.push(example);
                    at = before;
                    if at == start {
                        return Some(way);
                    }
                }
            }
            todo.push(next.clone());
        }
    }
    None
}

#[test]
fn modules_import_one_way() {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of xtask is inside the workspace");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root.join("crates")).expect("a folder") {
        let folder = entry.expect("an entry").path();
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        for (parent, edges) in Tree::read(&folder.join("src")).siblings() {
            for module in edges.keys() {
                if let Some(way) = cycle(&edges, module) {
                    let parent = parent.join("::");
                    found.push(format!("modules of {name}::{parent} import in a cycle:\n{}", way.join("\n")));
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n\n"));
}

/// Builds a tree of modules from names and texts.
fn tree(sources: &[(&str, &str)]) -> Tree {
    let module = |name: &str| name.split("::").filter(|s| !s.is_empty()).map(str::to_owned).collect();
    Tree(sources.iter().map(|(name, text)| (module(name), parse(text))).collect())
}

fn has_cycle(sources: &[(&str, &str)]) -> bool {
    tree(sources).siblings().values().any(|edges| edges.keys().any(|module| cycle(edges, module).is_some()))
}

#[test]
fn cycles_are_found_through_reexports_and_braces() {
    let lib = ("", "mod a;\nmod b;\nmod c;\npub use a::*;\npub use b::{B, other as C};\n");
    let a = ("a", "pub struct A;\n");
    let b = ("b", "use std::fmt;\nuse crate::{\n    A,\n};\npub struct B;\n");
    assert!(!has_cycle(&[lib, a, b]));
    assert!(has_cycle(&[lib, ("a", "use crate::B;\npub struct A;\n"), b]));
    assert!(has_cycle(&[lib, ("a", "use super::b::{self, B};\npub struct A;\n"), b]));
    // The cycle goes through a third module, and through a folder.
    let c = ("c", "use super::b::B;\npub(super) fn c() {}\n");
    assert!(has_cycle(&[lib, ("a", "use crate::c::c;\npub enum A {}\n"), b, c]));
    let (x, y) =
        (("a::x", "use super::y::Y;\npub struct X;"), ("a::y", "use crate::a::x::X;\npub struct Y;"));
    assert!(has_cycle(&[lib, a, x, y]));
    // A child module may use items of its parent.
    let parts =
        [("a", "mod x;\nuse self::x::X;\npub struct A;\n"), ("a::x", "use super::A;\npub struct X;\n")];
    assert!(!has_cycle(&parts));
}
