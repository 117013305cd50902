//! Generates `conformance/src/amqp091/generated.rs`: the names and types of arguments and properties, as a table. The pages
//! of the conformance tests read and write methods with it, so that their codec is not the one that they test.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Class, Kind, argument, classes, list, read_spec, text};

const HEAD: &str = "\
//! Generated from `crates/amqp091/spec/*.json` by `cargo xtask codegen`. Do not edit.

use super::spec::Kind::*;
use super::spec::{Argument, Method};

";

/// Writes the generated file.
pub(crate) fn write() -> Result<(), Box<dyn Error>> {
    std::fs::write(target(), generate()?)?;
    Ok(())
}

/// Returns the text that the file should have.
pub(crate) fn generate() -> Result<String, Box<dyn Error>> {
    let spec = read_spec()?;
    let mut out = String::from(HEAD);
    writeln!(out, "/// All methods.\npub(super) const METHODS: &[Method] = &[")?;
    for method in classes(&spec)?.iter().flat_map(|Class { methods }| methods) {
        let ids = (method.class_id, method.method_id);
        let has_content = has_content(&spec, &method.name)?;
        write!(out, "Method::new({:?}, {ids:?}, {has_content}, &[", method.name)?;
        for argument in &method.arguments {
            write!(out, "Argument::new({:?}, {}),", argument.name, kind(argument.kind))?;
        }
        writeln!(out, "]),")?;
    }
    writeln!(out, "];\n\n/// The properties of a message, in the order of their bits.")?;
    writeln!(out, "pub(super) const PROPERTIES: &[Argument] = &[")?;
    let basic = list(&spec, "classes")?.iter().find(|class| class["name"] == "basic");
    for property in list(basic.ok_or("no class basic")?, "properties")? {
        let found = argument(&spec, "basic", property)?;
        writeln!(out, "Argument::new({:?}, {}),", found.name, kind(found.kind))?;
    }
    writeln!(out, "];")?;
    super::super::rustfmt(&out)
}

/// Returns true if a content follows the method with this name.
fn has_content(spec: &Value, name: &str) -> Result<bool, Box<dyn Error>> {
    for class in list(spec, "classes")? {
        for method in list(class, "methods")? {
            if format!("{}.{}", text(class, "name")?, text(method, "name")?) == name {
                return Ok(method["content"] == true);
            }
        }
    }
    Err(format!("no method {name}").into())
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Bit => "Bit",
        Kind::Octet => "Octet",
        Kind::Short => "Short",
        Kind::Long => "Long",
        Kind::LongLong => "LongLong",
        Kind::ShortString => "ShortString",
        Kind::LongString | Kind::Secret => "LongString",
        Kind::Table => "Table",
    }
}

fn target() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/src/amqp091/generated.rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_pages_is_fresh() {
        let on_disk = std::fs::read_to_string(target()).unwrap();
        assert!(on_disk == generate().unwrap(), "run `cargo xtask codegen`");
    }
}
