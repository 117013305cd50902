//! The fields of a frame: those that a line of a page gives, and those of a frame that was received.

use amqp10::{Map, Symbol, Value};

use crate::text::{Parsed, Token};

/// One received frame: its name and its tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub name: String,
    pub tokens: Vec<Token>,
}

/// The tokens of a line. Each is removed when it is used.
pub(crate) struct Fields(pub Vec<Token>);

impl Fields {
    pub(crate) fn value(&mut self, key: &str) -> Option<Value> {
        let at = self.0.iter().position(|t| t.key == key)?;
        Some(self.0.remove(at).value)
    }

    pub(crate) fn flag(&mut self, key: &str) -> bool {
        self.value(key).and_then(|v| v.as_bool()).unwrap_or(false)
    }

    pub(crate) fn number(&mut self, key: &str) -> Option<u64> {
        self.value(key).and_then(|v| v.as_u64())
    }

    pub(crate) fn u32(&mut self, key: &str) -> Option<u32> {
        self.number(key).map(|n| n as u32)
    }

    pub(crate) fn text(&mut self, key: &str) -> Option<String> {
        self.value(key).and_then(|v| v.as_str().map(str::to_owned))
    }

    pub(crate) fn map(&mut self, key: &str) -> Option<Map> {
        match self.value(key) {
            Some(Value::Map(map)) => Some(map),
            _ => None,
        }
    }

    pub(crate) fn symbols(&mut self, key: &str) -> Vec<Symbol> {
        match self.value(key) {
            Some(Value::List(all)) => {
                all.iter().filter_map(|v| Some(Symbol::from(v.as_str()?.to_owned()))).collect()
            }
            Some(one) => one.as_str().map(|s| vec![Symbol::from(s.to_owned())]).unwrap_or_default(),
            None => Vec::new(),
        }
    }

    /// Takes all tokens as octets: two hexadecimal digits each.
    ///
    /// # Errors
    /// A token is anything else.
    pub(crate) fn bytes(&mut self) -> Parsed<Vec<u8>> {
        let octet = |token: Token| u8::from_str_radix(&token.key, 16);
        let octets: Result<_, _> = std::mem::take(&mut self.0).into_iter().map(octet).collect();
        octets.map_err(|_| "bytes in two hex digits each".into())
    }

    /// Checks that every token was used.
    ///
    /// # Errors
    /// One was not.
    pub(crate) fn finish(&self, line: &str) -> Parsed<()> {
        match self.0.first() {
            Some(left) => Err(format!("{line} has no field '{}'", left.key)),
            None => Ok(()),
        }
    }
}

/// The tokens of a received frame.
#[derive(Default)]
pub(crate) struct Words(pub Vec<Token>);

impl Words {
    pub(crate) fn put(&mut self, key: &str, value: impl Into<Value>, essential: bool) {
        self.0.push(Token { key: key.into(), value: value.into(), essential });
    }

    /// Adds a token that a page must mention if the frame has it.
    pub(crate) fn must(&mut self, key: &str, value: impl Into<Value>) {
        self.put(key, value, true);
    }

    /// Adds a token that a page must mention, if `on` is true.
    pub(crate) fn flag(&mut self, key: &str, on: bool) {
        if on {
            self.must(key, true);
        }
    }

    /// Adds a token that a page may mention.
    pub(crate) fn may(&mut self, key: &str, value: impl Into<Value>) {
        self.put(key, value, false);
    }

    pub(crate) fn maybe<T: Into<Value>>(&mut self, key: &str, value: Option<T>, essential: bool) {
        if let Some(value) = value {
            self.put(key, value, essential);
        }
    }
}
