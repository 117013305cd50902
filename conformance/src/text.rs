//! The notation of a page: `key=value` tokens and literals of AMQP values. They are parsed, printed and
//! compared.
//!
//! ```text
//!   token    key | key=literal | key(token ...)            a bare key is true; key(...) is a map of symbols
//!   literal  word "string" b"octets" null true [a, b] array[a, b] {key: value}
//!            12 (long) 12ul 12u (uint) 12i 12us 12s (short) 12ub 12b (byte) 12t (timestamp) 1.5 (double) 1.5f
//!            @descriptor literal | @0x120 literal | @descriptor(token ...)                 a described value
//!            "x"*1000 repeats; $name stores a value at its first use, and stands for it afterwards
//! ```
//!
//! In an expected frame, a word also matches a string. A `*` at its end matches any rest. A number without a
//! suffix matches any numeric type. A map may omit keys; the value `absent` requires that a key is missing.

use std::collections::BTreeMap;

use amqp10::{Array, Described, Map, Symbol, Value};
use bytes::Bytes;

/// The values that `$name` stands for.
pub(crate) type Names = BTreeMap<String, Value>;

#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    pub key: String,
    pub value: Value,
    /// True if an expected frame must mention this token of a received frame.
    pub essential: bool,
}

pub(crate) type Parsed<T> = Result<T, String>;

/// Parses a line of tokens.
pub(crate) fn tokens(line: &str) -> Parsed<Vec<Token>> {
    let mut text = Text(line);
    let all = text.tokens()?;
    if text.0.is_empty() { Ok(all) } else { Err(format!("cannot read '{}'", text.0)) }
}

struct Text<'a>(&'a str);

impl<'a> Text<'a> {
    fn skip(&mut self) {
        self.0 = self.0.trim_start();
    }

    fn take(&mut self, prefix: &str) -> bool {
        self.0.strip_prefix(prefix).map(|rest| self.0 = rest).is_some()
    }

    fn word(&mut self) -> &'a str {
        let end = self.0.find(|c: char| c.is_whitespace() || "=()[]{},".contains(c)).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        word
    }

    fn tokens(&mut self) -> Parsed<Vec<Token>> {
        let mut all = Vec::new();
        loop {
            self.skip();
            if self.0.is_empty() || self.0.starts_with(')') {
                return Ok(all);
            }
            let key = self.word().to_owned();
            if key.is_empty() {
                return Err(format!("a key is missing at '{}'", self.0));
            }
            let value = if self.take("=") {
                self.literal()?
            } else if self.take("(") {
                self.symbols(&key)?
            } else {
                Value::Boolean(true)
            };
            all.push(Token { key, value, essential: false });
        }
    }

    /// Parses the map in `name(...)`.
    fn symbols(&mut self, name: &str) -> Parsed<Value> {
        let inner = self.tokens()?;
        if !self.take(")") {
            return Err(format!("')' is missing after {name}(...)"));
        }
        Ok(Value::Map(inner.into_iter().map(|t| (Symbol::from(t.key), t.value)).collect()))
    }

    fn described(&mut self) -> Parsed<Value> {
        let name = self.word();
        let number = name.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let descriptor = number.map_or(Value::Symbol(Symbol::from(name.to_owned())), Value::Ulong);
        let value = if self.take("(") { self.symbols(name)? } else { self.literal()? };
        Ok(Value::Described(Box::new(Described { descriptor, value })))
    }

    fn literal(&mut self) -> Parsed<Value> {
        self.skip();
        if self.take("@") {
            return self.described();
        }
        if self.take("[") {
            return self.items("]").map(Value::List);
        }
        if self.take("array[") {
            let items = self.items("]")?;
            return Array::try_from_items(items).map(Value::Array).ok_or("an array of one type".into());
        }
        if self.take("{") {
            return self.map().map(Value::Map);
        }
        if self.take("b\"") {
            return self.quoted().map(|octets| Value::Binary(Bytes::from(octets)));
        }
        if self.take("\"") {
            let text = String::from_utf8(self.quoted()?);
            return text.map(Value::String).map_err(|_| "a text that is no UTF-8: b\"octets\"".into());
        }
        word(self.word())
    }

    fn items(&mut self, end: &str) -> Parsed<Vec<Value>> {
        let mut items = Vec::new();
        loop {
            self.skip();
            if self.take(end) {
                return Ok(items);
            }
            items.push(self.literal()?);
            self.skip();
            self.take(",");
        }
    }

    fn map(&mut self) -> Parsed<Map> {
        let mut map = Map::new();
        loop {
            self.skip();
            if self.take("}") {
                return Ok(map);
            }
            let (key, rest) = self.0.split_once(": ").ok_or("a map needs key: value")?;
            let key = key.trim().trim_matches('"').to_owned();
            self.0 = rest;
            let value = self.literal()?;
            map.insert(key, value);
            self.skip();
            self.take(",");
        }
    }

    /// Parses the rest of a text in quotes. Only the octets of a binary may be no UTF-8.
    fn quoted(&mut self) -> Parsed<Vec<u8>> {
        let mut text = Vec::new();
        let mut chars = self.0.char_indices();
        let put = |text: &mut Vec<u8>, c: char| {
            text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        };
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.0 = &self.0[at + 1..];
                    if self.take("*") {
                        let times: usize = self.word().parse().map_err(|_| "\"text\"*number")?;
                        text = text.repeat(times);
                    }
                    return Ok(text);
                }
                '\\' => match chars.next() {
                    Some((_, 'n')) => text.push(b'\n'),
                    Some((_, 'r')) => text.push(b'\r'),
                    Some((_, '0')) => text.push(0),
                    Some((at, 'x')) => {
                        chars.by_ref().nth(1);
                        let code =
                            self.0.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
                        text.push(code.ok_or("\\x with two hex digits")?);
                    }
                    Some((_, c)) => put(&mut text, c),
                    None => break,
                },
                c => put(&mut text, c),
            }
        }
        Err("a string has no end".into())
    }
}

fn word(word: &str) -> Parsed<Value> {
    let bad = || format!("'{word}' is not a literal");
    Ok(match word {
        "null" => Value::Null,
        "true" => Value::Boolean(true),
        "false" => Value::Boolean(false),
        "" => return Err("a value is missing".into()),
        _ if word.starts_with(|c: char| c.is_ascii_digit()) || word.starts_with('-') => {
            if word.contains('.') {
                return match word.strip_suffix('f') {
                    Some(float) => float.parse().map(Value::Float).map_err(|_| bad()),
                    None => word.parse().map(Value::Double).map_err(|_| bad()),
                };
            }
            let end = word.rfind(|c: char| c.is_ascii_digit()).map_or(0, |i| i + 1);
            let number: i128 = word[..end].parse().map_err(|_| bad())?;
            let (unsigned, signed) = (number as u64, number as i64);
            match &word[end..] {
                "" => i64::try_from(number).map_or(Value::Ulong(unsigned), Value::Long),
                "b" => Value::Byte(number as i8),
                "ub" => Value::Ubyte(number as u8),
                "s" => Value::Short(number as i16),
                "us" => Value::Ushort(number as u16),
                "u" => Value::Uint(number as u32),
                "ul" => Value::Ulong(unsigned),
                "i" => Value::Int(number as i32),
                "t" => Value::Timestamp(signed),
                _ => return Err(bad()),
            }
        }
        _ => Value::Symbol(Symbol::from(word.to_owned())),
    })
}

/// Prints a value in the notation of a page.
pub(crate) fn show(value: &Value) -> String {
    let list = |items: &[Value]| items.iter().map(show).collect::<Vec<_>>().join(", ");
    let number = |n: &dyn std::fmt::Display, suffix: &str| format!("{n}{suffix}");
    match value {
        Value::Null => "null".into(),
        Value::Boolean(v) => v.to_string(),
        Value::Byte(v) => number(v, "b"),
        Value::Ubyte(v) => number(v, "ub"),
        Value::Short(v) => number(v, "s"),
        Value::Ushort(v) => number(v, "us"),
        Value::Uint(v) => number(v, "u"),
        Value::Ulong(v) => number(v, "ul"),
        Value::Int(v) => number(v, "i"),
        Value::Long(v) => number(v, ""),
        Value::Timestamp(v) => number(v, "t"),
        Value::Float(v) => format!("{v:?}f"),
        Value::Double(v) => format!("{v:?}"),
        Value::Symbol(v) => v.to_string(),
        Value::String(v) => match v.chars().next() {
            Some(first) if v.len() > 80 && v.chars().all(|c| c == first) => {
                format!("{:?}*{}", first.to_string(), v.chars().count())
            }
            _ => format!("{v:?}"),
        },
        Value::Binary(v) => format!("b\"{}\"", v.escape_ascii()),
        Value::List(v) => format!("[{}]", list(v)),
        Value::Array(v) => format!("array[{}]", list(v.items())),
        Value::Map(v) => {
            let pair = |(k, v): &(Value, Value)| format!("{}: {}", k.as_str().unwrap_or("?"), show(v));
            format!("{{{}}}", v.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
        Value::Described(v) => {
            let name = match &v.descriptor {
                Value::Ulong(code) => format!("{code:#x}"),
                name => show(name),
            };
            format!("@{name} {}", show(&v.value))
        }
        other => format!("{other:?}"),
    }
}

/// Prints tokens in the notation of a page.
pub(crate) fn show_tokens(tokens: &[Token]) -> String {
    let one = |t: &Token| match &t.value {
        Value::Boolean(true) => t.key.clone(),
        value => format!("{}={}", t.key, show(value)),
    };
    tokens.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Replaces names by their values.
pub(crate) fn substitute(value: &mut Value, names: &Names) {
    match value {
        Value::Symbol(name) if name.starts_with('$') => {
            if let Some(known) = names.get(name.as_str()) {
                *value = known.clone();
            }
        }
        Value::Map(map) => map.0.iter_mut().for_each(|(_, v)| substitute(v, names)),
        Value::List(items) => items.iter_mut().for_each(|v| substitute(v, names)),
        _ => {}
    }
}

/// Returns true if the actual value matches the expected one. A word that begins with `$` stores its value at
/// its first use.
pub(crate) fn matches(expected: &Value, actual: &Value, names: &mut Names) -> bool {
    match (expected, actual) {
        (Value::Symbol(name), _) if name.starts_with('$') => match names.get(name.as_str()).cloned() {
            Some(known) => known.as_str().map_or(known == *actual, |k| actual.as_str() == Some(k)),
            None => names.insert(name.to_string(), actual.clone()).is_none(),
        },
        (Value::Symbol(word), _) if word.as_str() == "*" => true,
        (Value::Symbol(_), Value::String(_) | Value::Symbol(_)) => same_text(expected, actual),
        (Value::String(_), Value::String(_)) => same_text(expected, actual),
        (Value::Long(number), _) => match actual {
            Value::Timestamp(at) => at == number,
            _ => actual.as_i64() == Some(*number),
        },
        (Value::Map(expected), Value::Map(actual)) => expected.iter().all(|(key, value)| {
            let found = key.as_str().and_then(|key| actual.get(key));
            match (value.as_str() == Some("absent"), found) {
                (absent, None) => absent,
                (absent, Some(found)) => !absent && matches(value, found, names),
            }
        }),
        (Value::Described(expected), Value::Described(actual)) => {
            expected.descriptor == actual.descriptor && matches(&expected.value, &actual.value, names)
        }
        (Value::List(expected), Value::List(actual)) => all_match(expected, actual, names),
        (Value::Array(expected), Value::Array(actual)) => all_match(expected.items(), actual.items(), names),
        _ => expected == actual,
    }
}

fn all_match(expected: &[Value], actual: &[Value], names: &mut Names) -> bool {
    expected.len() == actual.len() && expected.iter().zip(actual).all(|(e, a)| matches(e, a, names))
}

fn same_text(expected: &Value, actual: &Value) -> bool {
    let (expected, actual) = (expected.as_str().unwrap_or(""), actual.as_str().unwrap_or(""));
    match expected.strip_suffix('*') {
        Some(start) => actual.starts_with(start),
        None => expected == actual,
    }
}

/// Returns true if a frame matches: every mentioned token is present, and every essential one is mentioned.
pub(crate) fn tokens_match(expected: &[Token], actual: &[Token], names: &mut Names) -> bool {
    let learned = names.clone();
    let mentioned = expected.iter().all(|e| {
        let found = actual.iter().find(|a| a.key == e.key);
        match (e.value.as_str() == Some("absent"), found) {
            (absent, None) => absent,
            (absent, Some(a)) => !absent && matches(&e.value, &a.value, names),
        }
    });
    let complete = actual.iter().all(|a| !a.essential || expected.iter().any(|e| e.key == a.key));
    if !(mentioned && complete) {
        *names = learned;
    }
    mentioned && complete
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printing_inverts_parsing() {
        let line = r#"transfer h=0 settled props={to: "/queues/q", n: 5u} body="hi" list=[1, a, null] f=@a:b {x: 1.5} g=@0x120 "t""#;
        assert_eq!(show_tokens(&tokens(line).unwrap()), line);
        assert_eq!(
            tokens(r#"a(b=1 c) d="x"*3"#).map(|t| show_tokens(&t)),
            Ok(r#"a={b: 1, c: true} d="xxx""#.into())
        );
        assert_eq!(tokens("f=@a:b(x=1 y)").map(|t| show_tokens(&t)), Ok("f=@a:b {x: 1, y: true}".into()));
        assert!(tokens("a(b").is_err());
    }

    #[test]
    fn essential_tokens_must_be_mentioned() {
        let actual = [("h", Value::Uint(0), true), ("count", Value::Uint(3), false)];
        let actual = actual.map(|(k, value, essential)| Token { key: k.into(), value, essential });
        let names = &mut Names::new();
        for (line, fits) in [("h=0", true), ("h=0 count=3", true), ("count=3", false), ("h=0 x=absent", true)]
        {
            assert_eq!(tokens_match(&tokens(line).unwrap(), &actual, names), fits, "{line}");
        }
        assert!(tokens_match(&tokens("h=$h").unwrap(), &actual, names));
        assert_eq!(names["$h"], Value::Uint(0));
    }
}
