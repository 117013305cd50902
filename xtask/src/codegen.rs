//! Generates `crates/amqp10/src/composites/generated.rs` from the XML files of the AMQP 1.0 standard.
//!
//! The XML defines all data: descriptors, fields, their order, defaults and choices. This file only lists
//! which composites become structs, and defines how field types look in Rust.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use roxmltree::{Document, Node};

pub(crate) mod amqp091;

/// The documents, in the order of the standard.
const DOCUMENTS: [&str; 4] = ["transport", "messaging", "transactions", "security"];

/// The composites that become structs. Transfer is hand-written, because it borrows its data.
const STRUCTS: [&str; 24] = [
    "open",
    "begin",
    "attach",
    "flow",
    "disposition",
    "detach",
    "end",
    "close",
    "error",
    "header",
    "properties",
    "received",
    "accepted",
    "rejected",
    "released",
    "modified",
    "source",
    "target",
    "coordinator",
    "sasl-mechanisms",
    "sasl-init",
    "sasl-challenge",
    "sasl-response",
    "sasl-outcome",
];

/// The restricted types that become enums.
const ENUMS: [&str; 6] = [
    "role",
    "sender-settle-mode",
    "receiver-settle-mode",
    "terminus-durability",
    "terminus-expiry-policy",
    "sasl-code",
];

/// Fields (`type.field`) whose octets may be passwords and must not be printed.
const SECRETS: [&str; 2] = ["sasl-init.initial-response", "sasl-response.response"];

/// Writes the generated file.
pub(crate) fn write() -> Result<(), Box<dyn Error>> {
    let text = generate()?;
    std::fs::write(target(), text)?;
    Ok(())
}

/// Returns the text that the file should have.
pub(crate) fn generate() -> Result<String, Box<dyn Error>> {
    let texts = DOCUMENTS
        .iter()
        .map(|name| std::fs::read_to_string(crate_dir().join("spec").join(format!("{name}.xml"))))
        .collect::<Result<Vec<_>, _>>()?;
    let documents = texts.iter().map(|text| Document::parse(text)).collect::<Result<Vec<_>, _>>()?;
    let types: Vec<Type> = documents.iter().flat_map(types_of).collect();

    let mut out = String::from(HEAD);
    descriptors(&mut out, &types)?;
    conditions(&mut out, &types)?;
    for name in ENUMS {
        enumeration(&mut out, find(&types, name)?)?;
    }
    for name in STRUCTS {
        composite(&mut out, find(&types, name)?, &types)?;
    }
    rustfmt(&out)
}

const HEAD: &str = "\
//! Generated from `spec/*.xml` by `cargo xtask codegen`. Do not edit.
//!
//! The composites of the standard, field by field: mandatory fields and fields with a default are plain, the others
//! are `Option`, fields declared `multiple` are vectors. Defaults are not written to the wire.

use bytes::{Bytes, BytesMut};

use super::{DeliveryState, TargetArchetype};
use crate::decode::{DecodeError, Field, Reader};
use crate::encode::{self, Encode, ListWriter};
use crate::sasl::Secret;
use crate::types::{Map, Symbol, Value};

";

struct Type<'d> {
    name: &'d str,
    source: &'d str,
    provides: Vec<&'d str>,
    /// The descriptor's name and number.
    descriptor: Option<(&'d str, u64)>,
    /// The name and the value of each choice.
    choices: Vec<(&'d str, &'d str)>,
    fields: Vec<XmlField<'d>>,
}

struct XmlField<'d> {
    name: &'d str,
    kind: &'d str,
    requires: Option<&'d str>,
    mandatory: bool,
    multiple: bool,
    default: Option<&'d str>,
}

/// A field as Rust declares it.
struct RustField {
    name: String,
    /// The field as `type.field`, for error messages.
    path: String,
    /// The Rust type of the field, without `Option`.
    kind: String,
    presence: Presence,
}

#[derive(PartialEq)]
enum Presence {
    Mandatory,
    Optional,
    Multiple,
    /// A default value, as a Rust expression.
    Default(String),
}

fn types_of<'d>(document: &'d Document<'d>) -> Vec<Type<'d>> {
    let named =
        |node: &Node<'d, 'd>, tag: &str| node.has_tag_name(("https://www.amqp.org/schema/amqp.xsd", tag));
    let types = document.descendants().filter(|node| named(node, "type"));
    let parse = |node: Node<'d, 'd>| {
        let children = |tag: &'static str| node.children().filter(move |child| named(child, tag));
        let descriptor = children("descriptor").next().and_then(|descriptor| {
            let code = descriptor.attribute("code")?.rsplit(':').next()?;
            let code = u64::from_str_radix(code.trim_start_matches("0x"), 16).ok()?;
            Some((descriptor.attribute("name")?, code))
        });
        Type {
            name: node.attribute("name").unwrap_or_default(),
            source: node.attribute("source").unwrap_or_default(),
            provides: node.attribute("provides").unwrap_or_default().split(", ").collect(),
            descriptor,
            choices: children("choice")
                .filter_map(|choice| Some((choice.attribute("name")?, choice.attribute("value")?)))
                .collect(),
            fields: children("field")
                .map(|field| XmlField {
                    name: field.attribute("name").unwrap_or_default(),
                    kind: field.attribute("type").unwrap_or_default(),
                    requires: field.attribute("requires"),
                    mandatory: field.attribute("mandatory") == Some("true"),
                    multiple: field.attribute("multiple") == Some("true"),
                    default: field.attribute("default"),
                })
                .collect(),
        }
    };
    types.map(parse).collect()
}

fn find<'t, 'd>(types: &'t [Type<'d>], name: &str) -> Result<&'t Type<'d>, String> {
    types.iter().find(|t| t.name == name).ok_or_else(|| format!("the XML has no type {name}"))
}

fn descriptors(out: &mut String, types: &[Type]) -> Result<(), Box<dyn Error>> {
    let described = || types.iter().filter_map(|t| t.descriptor.map(|(symbol, code)| (t.name, symbol, code)));
    writeln!(out, "/// The descriptors of the standard's own types, as numbers.\npub mod descriptor {{")?;
    for (name, symbol, code) in described() {
        writeln!(out, "/// `{symbol}`\npub const {}: u64 = 0x{code:02x};", shout(name))?;
    }
    writeln!(out, "/// The number of a descriptor that is spelt as a symbol.")?;
    writeln!(out, "pub fn from_symbol(symbol: &str) -> Option<u64> {{ Some(match symbol {{")?;
    for (name, symbol, _) in described() {
        writeln!(out, "{symbol:?} => {},", shout(name))?;
    }
    writeln!(out, "_ => return None, }}) }} }}\n")?;
    Ok(())
}

fn conditions(out: &mut String, types: &[Type]) -> Result<(), Box<dyn Error>> {
    let owners: Vec<&Type> = types.iter().filter(|t| t.provides.contains(&"error-condition")).collect();
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, _) in owners.iter().flat_map(|t| &t.choices) {
        *uses.entry(name).or_default() += 1;
    }
    writeln!(out, "/// The error conditions of the standard.\npub mod condition {{ use super::Symbol;")?;
    for owner in owners {
        for (name, value) in &owner.choices {
            let constant = match uses.get(name) {
                Some(1) => shout(name),
                // Several types have a choice of this name. The type's name without `-error` makes it unique
                // as a prefix.
                _ => shout(&format!("{}-{name}", owner.name.trim_end_matches("-error"))),
            };
            writeln!(out, "/// `{value}`, of {}.", owner.name)?;
            writeln!(out, "pub const {constant}: Symbol = Symbol::from_static({value:?});")?;
        }
    }
    writeln!(out, "}}\n")?;
    Ok(())
}

fn enumeration(out: &mut String, t: &Type) -> Result<(), Box<dyn Error>> {
    let (name, label) = (camel(t.name), t.name);
    let (read, put) = match t.source {
        "boolean" => ("read_bool_opt", "put_bool"),
        "ubyte" => ("read_u8_opt", "put_u8"),
        "uint" => ("read_u32_opt", "put_u32"),
        "symbol" => ("read_symbol_opt", "put_symbol"),
        other => return Err(format!("{label} is restricted from {other}").into()),
    };
    let quoted = |value: &str| if t.source == "symbol" { format!("{value:?}") } else { value.to_owned() };
    writeln!(out, "/// The choices of `{label}`.")?;
    writeln!(out, "#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]\npub enum {name} {{")?;
    for (choice, value) in &t.choices {
        writeln!(out, "/// `{value}`\n{},", camel(choice))?;
    }
    writeln!(out, "}}\n\nimpl Field for {name} {{\n#[inline]")?;
    writeln!(out, "fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {{")?;
    if t.source != "boolean" {
        writeln!(out, "let offset = reader.offset();")?;
    }
    writeln!(out, "let Some(value) = reader.{read}()? else {{ return Ok(None) }};")?;
    writeln!(out, "Ok(Some(match value {{")?;
    for (choice, value) in &t.choices {
        writeln!(out, "{} => Self::{},", quoted(value), camel(choice))?;
    }
    if t.source != "boolean" {
        writeln!(out, "_ => return Err(DecodeError::InvalidChoice {{ offset, restricted: {label:?} }}),")?;
    }
    writeln!(out, "}})) }} }}\n\nimpl Encode for {name} {{ fn encode(&self, out: &mut BytesMut) {{")?;
    writeln!(out, "encode::{put}(out, match self {{")?;
    for (choice, value) in &t.choices {
        writeln!(out, "Self::{} => {},", camel(choice), quoted(value))?;
    }
    writeln!(out, "}}) }} }}\n")?;
    Ok(())
}

fn composite(out: &mut String, t: &Type, types: &[Type]) -> Result<(), Box<dyn Error>> {
    let (symbol, code) = t.descriptor.ok_or_else(|| format!("{} has no descriptor", t.name))?;
    let name = struct_name(t.name);
    let fields = t.fields.iter().map(|f| rust_field(t, f, types)).collect::<Result<Vec<_>, _>>()?;
    let mandatory: Vec<&RustField> = fields.iter().filter(|f| f.presence == Presence::Mandatory).collect();

    // A struct gets a `Default` if zero or empty is a possible value of every mandatory field. It is derived
    // if that gives the right values.
    let harmless = |f: &&RustField| matches!(f.kind.as_str(), "u32" | "u64" | "String" | "Bytes");
    let has_default = mandatory.iter().all(harmless);
    let zero = |f: &RustField| match &f.presence {
        Presence::Default(default) => matches!(default.as_str(), "false" | "0"),
        _ => true,
    };
    let derives_default = has_default && fields.iter().all(zero);
    let derive =
        if derives_default { "Debug, Clone, PartialEq, Eq, Default" } else { "Debug, Clone, PartialEq, Eq" };
    writeln!(out, "/// `{symbol}`, descriptor 0x{code:02x}.\n#[derive({derive})]\npub struct {name} {{")?;
    for (field, xml) in fields.iter().zip(&t.fields) {
        writeln!(out, "/// {}", describe(xml))?;
        let kind = &field.kind;
        match field.presence {
            Presence::Optional => writeln!(out, "pub {}: Option<{kind}>,", field.name)?,
            _ => writeln!(out, "pub {}: {kind},", field.name)?,
        }
    }
    writeln!(out, "}}\n\nimpl {name} {{")?;
    if !mandatory.is_empty() {
        let parameters: Vec<String> = mandatory
            .iter()
            .map(|f| match f.kind.as_str() {
                "String" => format!("{}: impl Into<String>", f.name),
                kind => format!("{}: {kind}", f.name),
            })
            .collect();
        writeln!(out, "/// With the mandatory fields given and the others absent or at their defaults.")?;
        writeln!(out, "pub fn new({}) -> Self {{ Self {{", parameters.join(", "))?;
        for field in &fields {
            match &field.presence {
                Presence::Mandatory if field.kind == "String" => {
                    writeln!(out, "{0}: {0}.into(),", field.name)?
                }
                Presence::Mandatory => writeln!(out, "{},", field.name)?,
                _ => writeln!(out, "{}: {},", field.name, initial(field))?,
            }
        }
        writeln!(out, "}} }}\n")?;
    }
    writeln!(out, "/// Reads the descriptor and the fields.")?;
    writeln!(out, "pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {{")?;
    writeln!(out, "let offset = reader.offset();")?;
    writeln!(out, "if reader.read_descriptor()? != descriptor::{} {{", shout(t.name))?;
    writeln!(out, "return Err(DecodeError::UnknownDescriptor {{ offset }}); }}")?;
    writeln!(out, "Self::decode_fields(reader) }}\n")?;
    writeln!(out, "/// Reads the fields; the descriptor has been read.")?;
    writeln!(out, "pub fn decode_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {{")?;
    let mutable = if fields.is_empty() { "" } else { "mut " };
    writeln!(out, "let {mutable}fields = reader.read_fields({:?})?;", t.name)?;
    writeln!(out, "let value = Self {{")?;
    for field in &fields {
        let read = match (&field.presence, field.kind.as_str()) {
            (Presence::Optional, "i64") => "fields.timestamp()?".to_owned(),
            (Presence::Optional, "Value") => "fields.message_id()?".to_owned(),
            (Presence::Optional, _) => "fields.optional()?".to_owned(),
            (Presence::Mandatory, _) => format!("fields.mandatory({:?})?", field.path),
            (Presence::Multiple, _) => "fields.optional()?.unwrap_or_default()".to_owned(),
            (Presence::Default(default), _) => format!("fields.or({default})?"),
        };
        writeln!(out, "{}: {read},", field.name)?;
    }
    writeln!(out, "}};\nfields.finish()?;\nOk(value) }} }}\n")?;

    writeln!(out, "impl Encode for {name} {{ fn encode(&self, out: &mut BytesMut) {{")?;
    writeln!(out, "let {mutable}list = ListWriter::new(out, descriptor::{});", shout(t.name))?;
    for field in &fields {
        let name = &field.name;
        match (&field.presence, field.kind.as_str()) {
            (Presence::Optional, "i64") => writeln!(out, "list.timestamp(self.{name});")?,
            (Presence::Optional, _) => writeln!(out, "list.optional(&self.{name});")?,
            (Presence::Mandatory, _) => writeln!(out, "list.put(&self.{name});")?,
            (Presence::Multiple, _) => writeln!(out, "list.multiple(&self.{name});")?,
            (Presence::Default(default), _) => writeln!(out, "list.or(&self.{name}, &{default});")?,
        }
    }
    writeln!(out, "list.finish(); }} }}\n")?;

    writeln!(out, "impl Field for {name} {{")?;
    writeln!(out, "fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {{")?;
    writeln!(out, "if reader.take_null() {{ Ok(None) }} else {{ Self::decode(reader).map(Some) }} }} }}\n")?;

    if has_default && !derives_default {
        writeln!(out, "impl Default for {name} {{ fn default() -> Self {{ Self {{")?;
        for field in &fields {
            writeln!(out, "{}: {},", field.name, initial(field))?;
        }
        writeln!(out, "}} }} }}\n")?;
    }
    Ok(())
}

fn initial(field: &RustField) -> String {
    match (&field.presence, field.kind.as_str()) {
        (Presence::Optional, _) => "None".to_owned(),
        (Presence::Multiple, _) => "Vec::new()".to_owned(),
        (Presence::Default(default), _) => default.clone(),
        (Presence::Mandatory, "u32" | "u64") => "0".to_owned(),
        (Presence::Mandatory, kind) => format!("{kind}::new()"),
    }
}

fn rust_field(owner: &Type, field: &XmlField, types: &[Type]) -> Result<RustField, String> {
    let path = format!("{}.{}", owner.name, field.name);
    let secret = SECRETS.contains(&path.as_str());
    let kind = if secret { "Secret".to_owned() } else { rust_kind(field, types)? };
    let presence = match field.default {
        _ if field.multiple && !field.mandatory => Presence::Multiple,
        _ if field.mandatory => Presence::Mandatory,
        Some(default) if ENUMS.contains(&field.kind) => {
            Presence::Default(format!("{kind}::{}", camel(default)))
        }
        Some("4294967295") => Presence::Default("u32::MAX".to_owned()),
        Some("65535") => Presence::Default("u16::MAX".to_owned()),
        Some(default) => Presence::Default(default.to_owned()),
        None => Presence::Optional,
    };
    Ok(RustField { name: field.name.replace('-', "_"), path, kind, presence })
}

fn rust_kind(field: &XmlField, types: &[Type]) -> Result<String, String> {
    if field.multiple {
        return Ok("Vec<Symbol>".to_owned());
    }
    let mut kind = field.kind;
    if kind == "*" {
        return Ok(match field.requires {
            Some("source") => "Source",
            Some("target") => "TargetArchetype",
            Some("address") => "String",
            Some("message-id") => "Value",
            Some("delivery-state" | "outcome") => "DeliveryState",
            other => return Err(format!("{} requires {other:?}", field.name)),
        }
        .to_owned());
    }
    if ENUMS.contains(&kind) || STRUCTS.contains(&kind) {
        return Ok(struct_name(kind));
    }
    let mut seen = BTreeSet::new();
    loop {
        let primitive = match kind {
            "boolean" => "bool",
            "ubyte" => "u8",
            "ushort" => "u16",
            "uint" => "u32",
            "ulong" => "u64",
            "timestamp" => "i64",
            "binary" => "Bytes",
            "string" => "String",
            "symbol" => "Symbol",
            "map" => "Map",
            _ if seen.insert(kind) => {
                kind = find(types, kind)?.source;
                continue;
            }
            _ => return Err(format!("{kind} is restricted from itself")),
        };
        return Ok(primitive.to_owned());
    }
}

/// Returns one line of documentation: the field in the terms of the XML, with unit and default.
fn describe(field: &XmlField) -> String {
    let mut text = format!("`{}`", field.name);
    let kind = if field.kind == "*" { field.requires.unwrap_or("*") } else { field.kind };
    // Writing to a string cannot fail.
    let _ = write!(text, ", {kind}");
    if field.kind == "timestamp" {
        text.push_str(" (milliseconds since the Unix epoch)");
    }
    if field.multiple {
        text.push_str(", any number");
    }
    if field.mandatory {
        text.push_str(", mandatory");
    }
    if let Some(default) = field.default {
        let _ = write!(text, ", default {default}");
    }
    text.push('.');
    text
}

/// The composite `error` gets another name, because `Error` would be confused with `std::error::Error`.
fn struct_name(name: &str) -> String {
    if name == "error" { "AmqpError".to_owned() } else { camel(name) }
}

fn camel(name: &str) -> String {
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters
            .next()
            .map(|first| first.to_ascii_uppercase().to_string() + letters.as_str())
            .unwrap_or_default()
    };
    name.split('-').map(capital).collect()
}

fn shout(name: &str) -> String {
    name.replace('-', "_").to_ascii_uppercase()
}

fn rustfmt(text: &str) -> Result<String, Box<dyn Error>> {
    let mut child = Command::new("rustfmt")
        .args(["--edition", "2024", "--config-path"])
        .arg(crate_dir().join("../../rustfmt.toml"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("rustfmt is needed: {error}"))?;
    let mut stdin = child.stdin.take().ok_or("rustfmt has no input")?;
    stdin.write_all(text.as_bytes())?;
    drop(stdin);
    let output = child.wait_with_output()?;
    if !output.status.success() {
        return Err("rustfmt refused the generated text".into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn target() -> PathBuf {
    crate_dir().join("src/composites/generated.rs")
}

fn crate_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/amqp10")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_code_is_fresh() {
        let on_disk = std::fs::read_to_string(target()).unwrap();
        assert!(on_disk == generate().unwrap(), "run `cargo xtask codegen`");
    }
}
