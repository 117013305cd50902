//! Generates `crates/amqp091/src/constants.rs` and `generated.rs` from the JSON file of AMQP 0.9.1 that RabbitMQ publishes.
//!
//! The JSON defines all data: classes, methods, arguments, their order and types, and the reply codes. This file says
//! how argument types look in Rust, which arguments are reserved, and which must not be printed.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{camel, shout};

pub(crate) mod table;

/// Arguments that the specification reserves, as `class.method.argument`. They have no field: they are skipped when a
/// method is read, and zero or empty when it is written.
const RESERVED: [&str; 6] = [
    "connection.open.capabilities",
    "connection.open.insist",
    "connection.open-ok.known-hosts",
    "channel.open.out-of-band",
    "channel.open-ok.channel-id",
    "basic.get-empty.cluster-id",
];

/// The name of an argument that is reserved in every method but one.
const TICKET: &str = "ticket";

/// The only ticket that is not reserved.
const GIVES_TICKET: &str = "access.request-ok.ticket";

/// Arguments whose octets may be passwords and must not be printed.
const SECRETS: [&str; 3] =
    ["connection.start-ok.response", "connection.secure-ok.response", "connection.update-secret.new-secret"];

/// Writes the generated files.
pub(crate) fn write() -> Result<(), Box<dyn Error>> {
    for (name, text) in generate()? {
        std::fs::write(target(name), text)?;
    }
    Ok(())
}

/// Returns the names of the files, and the text that each should have.
pub(crate) fn generate() -> Result<[(&'static str, String); 2], Box<dyn Error>> {
    let spec = read_spec()?;
    let classes = classes(&spec)?;
    let mut constants = String::from(HEAD_OF_CONSTANTS);
    frame_types(&mut constants, &spec)?;
    reply_codes(&mut constants, &spec)?;
    let mut methods = String::from(HEAD_OF_METHODS);
    for method in classes.iter().flat_map(|class| &class.methods) {
        structure(&mut methods, method)?;
    }
    method_enum(&mut methods, &classes)?;
    Ok([("constants.rs", super::rustfmt(&constants)?), ("generated.rs", super::rustfmt(&methods)?)])
}

fn read_spec() -> Result<Value, Box<dyn Error>> {
    let spec = std::fs::read_to_string(crate_dir().join("spec/amqp-rabbitmq-0.9.1.json"))?;
    Ok(serde_json::from_str(&spec)?)
}

const HEAD_OF_CONSTANTS: &str = "\
//! Generated from `spec/*.json` by `cargo xtask codegen`. Do not edit.
//!
//! The types of frames, and the reply codes.

";

const HEAD_OF_METHODS: &str = "\
//! Generated from `spec/*.json` by `cargo xtask codegen`. Do not edit.
//!
//! One struct for each method, with its arguments as fields. Reserved arguments have no field. `Default` is zero, false
//! and empty, not the default that the specification suggests.

use buffers::Put;
use bytes::BytesMut;

use crate::arguments::{ArgumentError, Reader, put_longstr, put_shortstr, put_table};
use crate::secret::Secret;
use crate::table::Table;
use crate::violation::Violation;

";

struct Class {
    methods: Vec<Method>,
}

struct Method {
    /// The name as `class.method`.
    name: String,
    /// The name of the struct.
    rust: String,
    class_id: u64,
    method_id: u64,
    arguments: Vec<Argument>,
}

struct Argument {
    /// The name in the JSON.
    name: String,
    kind: Kind,
    reserved: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Bit,
    Octet,
    Short,
    Long,
    LongLong,
    ShortString,
    LongString,
    Secret,
    Table,
}

fn classes(spec: &Value) -> Result<Vec<Class>, Box<dyn Error>> {
    let mut classes = Vec::new();
    for class in list(spec, "classes")? {
        let (class_name, class_id) = (text(class, "name")?, number(class, "id")?);
        let mut methods = Vec::new();
        for method in list(class, "methods")? {
            let name = format!("{class_name}.{}", text(method, "name")?);
            let arguments = list(method, "arguments")?.iter().map(|a| argument(spec, &name, a));
            let arguments = arguments.collect::<Result<Vec<_>, _>>()?;
            let rust = camel(&name.replace('.', "-"));
            methods.push(Method { rust, class_id, method_id: number(method, "id")?, arguments, name });
        }
        classes.push((class_id, Class { methods }));
    }
    classes.sort_by_key(|(id, _)| *id);
    Ok(classes.into_iter().map(|(_, class)| class).collect())
}

fn argument(spec: &Value, method: &str, argument: &Value) -> Result<Argument, Box<dyn Error>> {
    let name = text(argument, "name")?.to_owned();
    let path = format!("{method}.{name}");
    let domain = text(argument, "type").or_else(|_| text(argument, "domain"))?;
    let pairs = list(spec, "domains")?;
    let pair = pairs.iter().find(|pair| pair[0] == domain).ok_or_else(|| format!("no domain {domain}"))?;
    let kind = match pair[1].as_str().unwrap_or_default() {
        "bit" => Kind::Bit,
        "octet" => Kind::Octet,
        "short" => Kind::Short,
        "long" => Kind::Long,
        "longlong" | "timestamp" => Kind::LongLong,
        "shortstr" => Kind::ShortString,
        "longstr" if SECRETS.contains(&path.as_str()) => Kind::Secret,
        "longstr" => Kind::LongString,
        "table" => Kind::Table,
        other => return Err(format!("{path} has the unknown type {other}").into()),
    };
    let reserved = RESERVED.contains(&path.as_str()) || name == TICKET && path != GIVES_TICKET;
    Ok(Argument { name, kind, reserved })
}

fn frame_types(out: &mut String, spec: &Value) -> Result<(), Box<dyn Error>> {
    for constant in list(spec, "constants")? {
        let name = text(constant, "name")?;
        // The smallest frame-max that we accept is that of the standard, not RabbitMQ's.
        if name.starts_with("FRAME-") && name != "FRAME-MIN-SIZE" && constant.get("class").is_none() {
            writeln!(out, "/// `{}`", name.to_ascii_lowercase())?;
            writeln!(out, "pub const {}: u8 = {};", shout(name), number(constant, "value")?)?;
        }
    }
    writeln!(out)?;
    Ok(())
}

fn reply_codes(out: &mut String, spec: &Value) -> Result<(), Box<dyn Error>> {
    let mut codes = Vec::new();
    for constant in list(spec, "constants")? {
        let name = text(constant, "name")?;
        let class = constant.get("class").and_then(Value::as_str);
        if class.is_some() || name == "REPLY-SUCCESS" {
            codes.push((number(constant, "value")?, name, class == Some("hard-error")));
        }
    }
    codes.sort_unstable();
    writeln!(out, "/// Why a channel or a connection is closed, or a message returned.")?;
    writeln!(out, "#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]\npub enum ReplyCode {{")?;
    for (value, name, hard) in &codes {
        let ends = if *hard { ". Ends the connection." } else { "" };
        writeln!(out, "/// {value}, `{}`{ends}\n{},", shout(name), code_name(name))?;
    }
    writeln!(out, "}}\n\nimpl ReplyCode {{")?;
    writeln!(out, "/// Returns the number that is sent.\npub const fn number(self) -> u16 {{ match self {{")?;
    for (value, name, _) in &codes {
        writeln!(out, "Self::{} => {value},", code_name(name))?;
    }
    writeln!(out, "}} }}\n\n/// Returns the code with this number, if the specification has one.")?;
    writeln!(out, "pub const fn from_number(number: u16) -> Option<Self> {{ Some(match number {{")?;
    for (value, name, _) in &codes {
        writeln!(out, "{value} => Self::{},", code_name(name))?;
    }
    writeln!(out, "_ => return None, }}) }}\n")?;
    writeln!(out, "/// Returns the name that reply texts begin with, such as `NOT_FOUND`.")?;
    writeln!(out, "pub const fn name(self) -> &'static str {{ match self {{")?;
    for (_, name, _) in &codes {
        writeln!(out, "Self::{} => {:?},", code_name(name), shout(name))?;
    }
    writeln!(
        out,
        "}} }}\n\n/// Returns true if the error ends the connection, false if it ends the channel."
    )?;
    let hard: Vec<String> =
        codes.iter().filter(|(.., hard)| *hard).map(|(_, n, _)| format!("Self::{}", code_name(n))).collect();
    writeln!(
        out,
        "pub const fn ends_connection(self) -> bool {{ matches!(self, {}) }} }}\n",
        hard.join("|")
    )?;
    Ok(())
}

fn structure(out: &mut String, method: &Method) -> Result<(), Box<dyn Error>> {
    let Method { name, rust, class_id, method_id, arguments } = method;
    let fields: Vec<&Argument> = arguments.iter().filter(|a| !a.reserved).collect();
    let generics = if method.borrows() { "<'a>" } else { "" };
    writeln!(out, "/// `{name}`, class {class_id}, method {method_id}.")?;
    writeln!(out, "#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]")?;
    if fields.is_empty() {
        writeln!(out, "pub struct {rust};\n")?;
    } else {
        writeln!(out, "pub struct {rust}{generics} {{")?;
        for field in &fields {
            writeln!(out, "/// `{}`\npub {}: {},", field.name, field.field(), field.kind.rust())?;
        }
        writeln!(out, "}}\n")?;
    }
    writeln!(out, "impl{generics} {rust}{generics} {{")?;
    writeln!(out, "/// The number of the class.\npub const CLASS_ID: u16 = {class_id};")?;
    writeln!(out, "/// The number of the method in its class.\npub const METHOD_ID: u16 = {method_id};")?;
    writeln!(out, "/// The name, as the specification and error texts write it.")?;
    writeln!(out, "pub const NAME: &'static str = {name:?};\n")?;
    reader(out, method)?;
    writer(out, method)?;
    writeln!(out, "}}\n")?;
    writeln!(
        out,
        "impl{generics} From<{rust}{generics}> for Method<{}> {{",
        if method.borrows() { "'a" } else { "'_" }
    )?;
    writeln!(out, "fn from(method: {rust}{generics}) -> Self {{ Self::{rust}(method) }} }}\n")?;
    Ok(())
}

/// Writes the function that reads the arguments. Bits in a row share octets.
fn reader(out: &mut String, method: &Method) -> Result<(), Box<dyn Error>> {
    let Method { name, arguments, .. } = method;
    let reader = if arguments.is_empty() { "_" } else { "reader" };
    let lifetime = if method.borrows() { "'a" } else { "'_" };
    writeln!(out, "/// Reads the arguments.\n#[inline]")?;
    writeln!(out, "pub(crate) fn read({reader}: &mut Reader<{lifetime}>) -> Result<Self, ArgumentError> {{")?;
    let mut bit = 0;
    for (at, argument) in arguments.iter().enumerate() {
        if argument.kind != Kind::Bit {
            bit = 0;
            let read = format!("reader.{}()?", argument.kind.read());
            match argument.reserved {
                true => writeln!(out, "{read};")?,
                false => writeln!(out, "let {} = {read};", argument.field())?,
            }
            continue;
        }
        if bit == 0 {
            let run = &arguments[at..];
            let run = run.iter().take_while(|a| a.kind == Kind::Bit);
            let unused = run.clone().all(|a| a.reserved);
            if run.count() > 8 {
                return Err(format!("{name} has more than eight bits in a row").into());
            }
            writeln!(out, "{}reader.octet()?;", if unused { "" } else { "let bits = " })?;
        }
        if !argument.reserved {
            writeln!(out, "let {} = bits & {} != 0;", argument.field(), 1 << bit)?;
        }
        bit += 1;
    }
    let fields = arguments.iter().filter(|a| !a.reserved);
    let names: Vec<String> = fields.map(Argument::field).collect();
    match names.is_empty() {
        true => writeln!(out, "Ok(Self) }}\n")?,
        false => writeln!(out, "Ok(Self {{ {} }}) }}\n", names.join(", "))?,
    }
    Ok(())
}

/// Writes the function that appends the method.
fn writer(out: &mut String, method: &Method) -> Result<(), Box<dyn Error>> {
    let Method { class_id, method_id, arguments, .. } = method;
    writeln!(
        out,
        "/// Appends the class, the method and the arguments: the payload of a method frame. A short string"
    )?;
    writeln!(out, "/// is cut off after 255 bytes.")?;
    writeln!(out, "#[inline]\npub fn put(&self, out: &mut BytesMut) {{")?;
    writeln!(out, "out.put_u32(0x{class_id:04x}_{method_id:04x});")?;
    let mut bits: Vec<String> = Vec::new();
    for (at, argument) in arguments.iter().enumerate() {
        let field = argument.field();
        if argument.kind == Kind::Bit {
            let at = bits.len();
            bits.push(match argument.reserved {
                true => String::new(),
                false => format!("u8::from(self.{field}) << {at}"),
            });
        }
        if arguments.get(at + 1).is_none_or(|next| next.kind != Kind::Bit) && !bits.is_empty() {
            bits.retain(|bit| !bit.is_empty());
            let octet = if bits.is_empty() { "0".to_owned() } else { bits.join(" | ") };
            writeln!(out, "out.put_u8({});", octet.replace(" << 0", ""))?;
            bits.clear();
        }
        let value = |zero: &str| if argument.reserved { zero.to_owned() } else { format!("self.{field}") };
        match argument.kind {
            Kind::Bit => {}
            Kind::Octet => writeln!(out, "out.put_u8({});", value("0"))?,
            Kind::Short => writeln!(out, "out.put_u16({});", value("0"))?,
            Kind::Long => writeln!(out, "out.put_u32({});", value("0"))?,
            Kind::LongLong => writeln!(out, "out.put_u64({});", value("0"))?,
            Kind::ShortString => writeln!(out, "put_shortstr(out, {});", value("\"\""))?,
            Kind::LongString => writeln!(out, "put_longstr(out, {});", value("&[]"))?,
            Kind::Secret => writeln!(out, "put_longstr(out, self.{field}.expose());")?,
            Kind::Table => writeln!(out, "put_table(out, {});", value("Table::EMPTY"))?,
        }
    }
    writeln!(out, "}}")?;
    Ok(())
}

fn method_enum(out: &mut String, classes: &[Class]) -> Result<(), Box<dyn Error>> {
    let methods: Vec<&Method> = classes.iter().flat_map(|class| &class.methods).collect();
    writeln!(out, "/// Any method.\n#[derive(Clone, Copy, Debug, PartialEq, Eq)]\npub enum Method<'a> {{")?;
    for method in &methods {
        let Method { rust, name, .. } = method;
        let generics = if method.borrows() { "<'a>" } else { "" };
        writeln!(out, "/// `{name}`\n{rust}({rust}{generics}),")?;
    }
    writeln!(out, "}}\n\nimpl<'a> Method<'a> {{")?;
    writeln!(
        out,
        "/// Reads a method from the arguments of a method frame, which follow class and method.\n///"
    )?;
    writeln!(
        out,
        "/// # Errors\n/// The method is unknown, an argument is cut off or not UTF-8, or bytes follow the last one."
    )?;
    writeln!(
        out,
        "pub fn parse(class: u16, method: u16, arguments: &'a [u8]) -> Result<Self, Violation> {{"
    )?;
    writeln!(out, "let reader = &mut Reader::new(arguments);")?;
    writeln!(out, "let (parsed, name) = match (class, method) {{")?;
    for Method { rust, class_id, method_id, .. } in &methods {
        writeln!(
            out,
            "({class_id}, {method_id}) => ({rust}::read(reader).map(Self::{rust}), {rust}::NAME),"
        )?;
    }
    writeln!(out, "_ => return Err(Violation::UnknownMethod {{ class, method }}), }};")?;
    writeln!(out, "parsed.and_then(|parsed| reader.finish(parsed))")?;
    writeln!(out, ".map_err(|error| Violation::Arguments {{ name, class, method, error }}) }}\n")?;
    let by_method = |out: &mut String, what: &str, kind: &str, value: &str| -> Result<(), Box<dyn Error>> {
        writeln!(out, "/// {what}\npub const fn {value}(&self) -> {kind} {{ match self {{")?;
        for Method { rust, .. } in &methods {
            writeln!(out, "Self::{rust}(_) => {rust}::{},", shout(value))?;
        }
        writeln!(out, "}} }}\n")?;
        Ok(())
    };
    by_method(out, "Returns the number of the class.", "u16", "class_id")?;
    by_method(out, "Returns the number of the method in its class.", "u16", "method_id")?;
    by_method(out, "Returns the name, such as `queue.declare`.", "&'static str", "name")?;
    writeln!(
        out,
        "/// Appends the class, the method and the arguments: the payload of a method frame. Short strings"
    )?;
    writeln!(out, "/// are cut off after 255 bytes.")?;
    writeln!(out, "pub fn put(&self, out: &mut BytesMut) {{ match self {{")?;
    for Method { rust, .. } in &methods {
        writeln!(out, "Self::{rust}(method) => method.put(out),")?;
    }
    writeln!(out, "}} }} }}")?;
    Ok(())
}

impl Method {
    /// Returns true if a field borrows from the frame.
    fn borrows(&self) -> bool {
        self.arguments.iter().any(|a| !a.reserved && a.kind.rust().contains("'a"))
    }
}

impl Argument {
    /// Returns the name of the field. `type` is a keyword of Rust.
    fn field(&self) -> String {
        if self.name == "type" { "kind".to_owned() } else { self.name.replace('-', "_") }
    }
}

impl Kind {
    fn rust(self) -> &'static str {
        match self {
            Self::Bit => "bool",
            Self::Octet => "u8",
            Self::Short => "u16",
            Self::Long => "u32",
            Self::LongLong => "u64",
            Self::ShortString => "&'a str",
            Self::LongString => "&'a [u8]",
            Self::Secret => "Secret<'a>",
            Self::Table => "Table<'a>",
        }
    }

    /// Returns the function of `arguments::Reader`.
    fn read(self) -> &'static str {
        match self {
            Self::Bit | Self::Octet => "octet",
            Self::Short => "short",
            Self::Long => "long",
            Self::LongLong => "longlong",
            Self::ShortString => "shortstr",
            Self::LongString => "longstr",
            Self::Secret => "secret",
            Self::Table => "table",
        }
    }
}

fn code_name(name: &str) -> String {
    camel(&name.to_ascii_lowercase())
}

fn list<'v>(value: &'v Value, key: &str) -> Result<&'v Vec<Value>, String> {
    value[key].as_array().ok_or_else(|| format!("the JSON has no list {key} in {value}"))
}

fn text<'v>(value: &'v Value, key: &str) -> Result<&'v str, String> {
    value[key].as_str().ok_or_else(|| format!("the JSON has no text {key} in {value}"))
}

fn number(value: &Value, key: &str) -> Result<u64, String> {
    value[key].as_u64().ok_or_else(|| format!("the JSON has no number {key} in {value}"))
}

fn target(name: &str) -> PathBuf {
    crate_dir().join("src").join(name)
}

fn crate_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/amqp091")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_code_is_fresh() {
        for (name, text) in generate().unwrap() {
            assert!(
                std::fs::read_to_string(target(name)).unwrap() == text,
                "{name}: run `cargo xtask codegen`"
            );
        }
    }
}
