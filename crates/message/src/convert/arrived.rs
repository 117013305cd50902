//! A message of AMQP 0.9.1 that has just arrived.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use amqp091::{Array, Properties, SyntaxError, Table, TableWriter, Terms, Value};
use bytes::{Bytes, BytesMut};

use super::name;
use crate::{Format, FurtherKeys, Message, Parts, TooManyKeys};

/// The value of delivery-mode for a message that must survive a restart.
pub(super) const PERSISTENT: u8 = 2;

/// The value of delivery-mode for a message that may be lost in a restart.
pub(super) const NOT_PERSISTENT: u8 = 1;

/// A message of AMQP 0.9.1 whose properties have been checked.
///
/// The header `BCC` is removed from the property list, because receivers must not see it.
#[derive(Clone, Debug)]
pub struct Basic<'a> {
    list: Cow<'a, [u8]>,
    payload: &'a [u8],
    /// A buffer that may be retained. It consists of `list` and `payload`.
    whole: Option<&'a Bytes>,
    durable: bool,
    priority: Option<u8>,
    ttl_ms: Option<u64>,
    reply_to: Option<&'a [u8]>,
    user_id: Option<&'a [u8]>,
    cc: Vec<Arc<str>>,
    bcc: Vec<Arc<str>>,
}

impl<'a> Basic<'a> {
    /// Checks the property list of a message whose bytes are in the read buffer. They must be copied to be retained.
    ///
    /// # Errors
    /// See [`BasicError`].
    pub fn borrowed(list: &'a [u8], payload: &'a [u8]) -> Result<Self, BasicError> {
        Self::new(list, payload, None)
    }

    /// Checks the property list of a message that is in one buffer: `list_len` bytes of properties, then the payload.
    /// The buffer may be retained.
    ///
    /// # Errors
    /// See [`BasicError`].
    pub fn owned(whole: &'a Bytes, list_len: usize) -> Result<Self, BasicError> {
        let (list, payload) = whole.split_at_checked(list_len).ok_or(SyntaxError::Truncated)?;
        Self::new(list, payload, Some(whole))
    }

    fn new(list: &'a [u8], payload: &'a [u8], whole: Option<&'a Bytes>) -> Result<Self, BasicError> {
        let Terms { delivery_mode, priority, reply_to, expiration, user_id, headers } = Terms::scan(list)?;
        let mut basic = Self {
            list: Cow::Borrowed(list),
            payload,
            whole,
            durable: delivery_mode == Some(PERSISTENT),
            priority,
            ttl_ms: expiration.map(milliseconds).transpose()?,
            reply_to,
            user_id,
            cc: Vec::new(),
            bcc: Vec::new(),
        };
        if let Some(entries) = headers.and_then(|range| list.get(range)) {
            basic.read_headers(entries)?;
        }
        Ok(basic)
    }

    /// Checks the headers, and finds the further routing keys in them. If a name occurs twice, the first one counts.
    fn read_headers(&mut self, entries: &'a [u8]) -> Result<(), BasicError> {
        let (mut cc, mut bcc) = (None, None);
        let headers = Table::parse_each(entries, |name, value| match name {
            name::CC => _ = cc.get_or_insert(value),
            name::BCC => _ = bcc.get_or_insert(value),
            _ => {}
        })?;
        if cc.is_none() && bcc.is_none() { Ok(()) } else { self.read_further_keys(cc, bcc, headers) }
    }

    /// Reads the headers `CC` and `BCC`. Apart, so that messages without them do not pay for it.
    #[inline(never)]
    fn read_further_keys(
        &mut self,
        cc: Option<Value<'a>>,
        bcc: Option<Value<'a>>,
        headers: Table<'_>,
    ) -> Result<(), BasicError> {
        let mut further = FurtherKeys::default();
        if let Some(cc) = cc {
            self.cc = keys(name::CC, cc, &mut further)?;
        }
        if let Some(bcc) = bcc {
            self.bcc = keys(name::BCC, bcc, &mut further)?;
            self.hide_bcc(headers)?;
        }
        Ok(())
    }

    #[cold]
    fn hide_bcc(&mut self, headers: Table<'_>) -> Result<(), SyntaxError> {
        let mut list = BytesMut::with_capacity(self.list.len());
        Properties::view(&self.list)?.put_with_headers(&mut list, |out| {
            let mut table = TableWriter::new(out);
            let mut entries = headers.iter();
            let mut before = entries.rest();
            while let Some((name, _)) = entries.next() {
                let entry = &before[..before.len() - entries.rest().len()];
                if name != name::BCC {
                    table.put_entries(entry);
                }
                before = entries.rest();
            }
            Some(())
        });
        self.replace_list(list);
        Ok(())
    }

    /// Replaces the property `reply_to`. Of more than 255 bytes, the rest is cut off.
    ///
    /// # Errors
    /// None in practice, because the property list was checked.
    pub fn set_reply_to(&mut self, reply_to: &str) -> Result<(), SyntaxError> {
        let mut list = BytesMut::with_capacity(self.list.len() + reply_to.len());
        Properties { reply_to: Some(reply_to.as_bytes()), ..Properties::view(&self.list)? }.put(&mut list);
        self.replace_list(list);
        Ok(())
    }

    /// The new list is no longer in one buffer with the payload.
    fn replace_list(&mut self, list: BytesMut) {
        self.list = Cow::Owned(list.to_vec());
        self.whole = None;
    }

    /// Returns the encoded property list.
    pub fn list(&self) -> &[u8] {
        &self.list
    }

    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Returns a buffer that may be retained and consists of property list and payload, if there is one.
    pub fn whole(&self) -> Option<&'a Bytes> {
        self.whole
    }

    /// Returns the number of bytes of property list and payload.
    #[expect(clippy::len_without_is_empty, reason = "a property list has at least two bytes")]
    pub fn len(&self) -> usize {
        self.list.len() + self.payload.len()
    }

    /// Returns true if the message must survive a restart.
    pub fn is_durable(&self) -> bool {
        self.durable
    }

    /// Returns the property `user_id`. The publisher must have logged in as this user.
    pub fn user_id(&self) -> Option<&'a [u8]> {
        self.user_id
    }

    /// Returns the property `reply_to` as the publisher wrote it.
    pub fn reply_to(&self) -> Option<&'a [u8]> {
        self.reply_to
    }

    /// Returns the further routing keys from the header `CC`. They are part of the message's route.
    pub fn cc(&self) -> &[Arc<str>] {
        &self.cc
    }

    /// Returns the further routing keys from the header `BCC`. They are not part of the route that the message carries,
    /// because receivers must not see them.
    pub fn bcc(&self) -> &[Arc<str>] {
        &self.bcc
    }

    /// Returns the parts of the message. `wire` must be a copy of property list and payload.
    pub fn parts(&self, wire: Bytes) -> Parts {
        debug_assert_eq!(wire.len(), self.len());
        // A content is far smaller than 4 GiB.
        let payload_at = self.list.len() as u32;
        Parts {
            format: Format::Amqp091,
            wire,
            bare_at: payload_at,
            application_properties_at: payload_at,
            body_at: payload_at,
            durable: self.durable,
            durable_header: self.durable,
            priority: self.priority,
            ttl_ms: self.ttl_ms,
        }
    }
}

/// Reads routing keys, and leaves out those that are in `further` already. Values that are not long strings are ignored, as in
/// RabbitMQ.
fn keys<'a>(
    header: &'static str,
    value: Value<'a>,
    further: &mut FurtherKeys<'a>,
) -> Result<Vec<Arc<str>>, BasicError> {
    let Value::Array(keys) = value else {
        return Err(BasicError::RoutingHeader { header, type_name: value.type_name() });
    };
    let mut new = Vec::new();
    for value in Array::iter(keys) {
        let Value::LongString(key) = value else { continue };
        let key = std::str::from_utf8(key).map_err(|_| SyntaxError::NotUtf8)?;
        new.extend(further.add(key).map_err(BasicError::TooManyKeys)?);
    }
    Ok(new)
}

/// Reads the property `expiration`: a whole number of milliseconds as decimal digits, with or without a sign.
fn milliseconds(text: &[u8]) -> Result<u64, BasicError> {
    // Most are a few digits.
    if let 1..=11 = text.len()
        && text.iter().all(u8::is_ascii_digit)
    {
        return Ok(text.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')));
    }
    let invalid = |why| BasicError::Expiration { text: String::from_utf8_lossy(text).into_owned(), why };
    let (negative, unsigned) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let end = unsigned.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(unsigned.len());
    let (digits, rest) = unsigned.split_at(end);
    if digits.is_empty() {
        return Err(invalid(ExpirationError::NoInteger));
    }
    if !rest.is_empty() {
        return Err(invalid(ExpirationError::Leftover(String::from_utf8_lossy(rest).into_owned())));
    }
    let digits = String::from_utf8_lossy(digits);
    let number = digits.trim_start_matches('0');
    match number.parse() {
        Ok(_) if negative => Err(invalid(ExpirationError::Negative(number.to_owned()))),
        Ok(ms) if ms <= Message::TTL_MS_MAX => Ok(ms),
        Ok(_) => Err(invalid(ExpirationError::TooLarge(number.to_owned()))),
        Err(_) if number.is_empty() => Ok(0),
        Err(_) if negative => Err(invalid(ExpirationError::Negative(number.to_owned()))),
        Err(_) => Err(invalid(ExpirationError::TooLarge(number.to_owned()))),
    }
}

/// Why a message of AMQP 0.9.1 is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BasicError {
    /// The property list cannot be read. The reply code is 501 (`FRAME_ERROR`).
    Syntax(SyntaxError),
    /// The property `expiration` is not a time to live. The reply code is 406 (`PRECONDITION_FAILED`).
    Expiration { text: String, why: ExpirationError },
    /// The header `CC` or `BCC` is not an array. The reply code is 406 (`PRECONDITION_FAILED`).
    RoutingHeader { header: &'static str, type_name: &'static str },
    /// The headers `CC` and `BCC` have too many keys together. The reply code is 406 (`PRECONDITION_FAILED`).
    TooManyKeys(TooManyKeys),
}

/// Why a text is not a time to live in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpirationError {
    /// It does not start with a whole number.
    NoInteger,
    /// Something follows the number.
    Leftover(String),
    /// The number without its sign.
    Negative(String),
    /// It is more than [`Message::TTL_MS_MAX`].
    TooLarge(String),
}

impl From<SyntaxError> for BasicError {
    fn from(error: SyntaxError) -> Self {
        Self::Syntax(error)
    }
}

/// The text is that of RabbitMQ if it has one, because programs and people search for it.
impl fmt::Display for BasicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(error) => error.fmt(f),
            Self::Expiration { text, why } => {
                write!(f, "invalid expiration '{text}': ")?;
                match why {
                    ExpirationError::NoInteger => f.write_str("no_integer"),
                    ExpirationError::Leftover(rest) => write!(f, "{{leftover_string,{rest:?}}}"),
                    ExpirationError::Negative(number) => write!(f, "{{value_negative,-{number}}}"),
                    ExpirationError::TooLarge(number) => write!(f, "{{value_too_large,{number}}}"),
                }
            }
            Self::RoutingHeader { header, type_name } => {
                write!(f, "invalid message: {{unacceptable_type_in_header,\"{header}\",{type_name}}}")
            }
            Self::TooManyKeys(error) => write!(f, "invalid message: CC and BCC have {error}"),
        }
    }
}

impl std::error::Error for BasicError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(properties: &Properties<'_>) -> Vec<u8> {
        let mut out = BytesMut::new();
        properties.put(&mut out);
        out.to_vec()
    }

    fn headers(fill: impl FnOnce(&mut TableWriter<'_>)) -> Vec<u8> {
        let mut out = BytesMut::new();
        fill(&mut TableWriter::new(&mut out));
        out[4..].to_vec()
    }

    #[test]
    fn expirations_are_read_as_rabbitmq_reads_them() {
        let read = |text: &str| milliseconds(text.as_bytes()).map_err(|error| error.to_string());
        for (text, ms) in [
            ("0", 0),
            ("60000", 60_000),
            ("007", 7),
            ("+5", 5),
            ("-0", 0),
            ("99999999999", 99_999_999_999),
            ("315360000000", 315_360_000_000),
            ("000000000000000", 0),
        ] {
            assert_eq!(read(text), Ok(ms));
        }
        for (text, error) in [
            ("", "no_integer"),
            ("abc", "no_integer"),
            (" 5", "no_integer"),
            ("-", "no_integer"),
            ("5s", "{leftover_string,\"s\"}"),
            ("5.5", "{leftover_string,\".5\"}"),
            ("-1", "{value_negative,-1}"),
            ("-99999999999999999999", "{value_negative,-99999999999999999999}"),
            ("315360000001", "{value_too_large,315360000001}"),
            ("99999999999999999999", "{value_too_large,99999999999999999999}"),
        ] {
            assert_eq!(read(text), Err(format!("invalid expiration '{text}': {error}")));
        }
    }

    #[test]
    fn terms_are_those_of_the_properties() {
        let properties = Properties {
            delivery_mode: Some(2),
            priority: Some(9),
            expiration: Some(b"1000"),
            user_id: Some(b"me"),
            reply_to: Some(b"answers"),
            ..Properties::default()
        };
        let list = list(&properties);
        let basic = Basic::borrowed(&list, b"hi").unwrap();
        assert_eq!((basic.list(), basic.payload(), basic.len()), (&list[..], &b"hi"[..], list.len() + 2));
        assert_eq!((basic.user_id(), basic.reply_to()), (Some(&b"me"[..]), Some(&b"answers"[..])));
        let parts = basic.parts([&list[..], b"hi"].concat().into());
        assert_eq!((parts.durable, parts.priority, parts.ttl_ms), (true, Some(9), Some(1000)));
        assert_eq!((parts.bare_at as usize, parts.body_at as usize), (list.len(), list.len()));
        let transient = [0x10, 0, 1];
        assert!(!Basic::borrowed(&transient, b"").unwrap().is_durable());
        assert!(!Basic::borrowed(&[0, 0], b"").unwrap().is_durable());
    }

    #[test]
    fn routing_keys_are_found_and_bcc_is_hidden() {
        let headers = headers(|table| {
            table.put("a", &Value::I32(1));
            let mut bcc = table.array("BCC");
            bcc.put(&Value::LongString(b"secret"));
            drop(bcc);
            let mut cc = table.array("CC");
            cc.put(&Value::LongString(b"one"));
            cc.put(&Value::I32(7));
            cc.put(&Value::LongString(b"two"));
            drop(cc);
            table.put("z", &Value::Void);
        });
        let properties = Properties {
            headers: Some(Table::from_entries(&headers)),
            message_id: Some(b"id"),
            ..Properties::default()
        };
        let whole = Bytes::from([&list(&properties)[..], b"hi"].concat());
        let basic = Basic::owned(&whole, whole.len() - 2).unwrap();
        assert_eq!(basic.cc(), [Arc::from("one"), Arc::from("two")]);
        assert_eq!(basic.bcc(), [Arc::from("secret")]);
        assert!(basic.whole().is_none());
        let kept = Properties::parse(basic.list()).unwrap();
        let names: Vec<_> = kept.headers.unwrap().iter().map(|(name, _)| name).collect();
        assert_eq!((names, kept.message_id), (vec!["a", "CC", "z"], properties.message_id));
    }

    #[test]
    fn routing_keys_are_few_and_each_counts_once() {
        let with = |cc: &[String], bcc: &[String]| {
            let headers = headers(|table| {
                for (name, keys) in [("CC", cc), ("BCC", bcc)] {
                    let mut array = table.array(name);
                    keys.iter().for_each(|key| array.put(&Value::LongString(key.as_bytes())));
                }
            });
            list(&Properties { headers: Some(Table::from_entries(&headers)), ..Properties::default() })
        };
        let texts: Vec<String> = (0..=FurtherKeys::MAX).map(|n| n.to_string()).collect();
        let (cc, bcc) = texts[..FurtherKeys::MAX].split_at(200);
        let twice = with(&[cc, cc].concat(), &[cc, bcc].concat());
        let basic = Basic::borrowed(&twice, b"").unwrap();
        let strings = |keys: &[Arc<str>]| keys.iter().map(|key| key.to_string()).collect::<Vec<_>>();
        assert_eq!((strings(basic.cc()), strings(basic.bcc())), (cc.to_vec(), bcc.to_vec()));
        for (cc, bcc) in [(&texts[..], &[][..]), (&[], &texts), (&texts[1..], &texts[..1])] {
            let refused = Basic::borrowed(&with(cc, bcc), b"").unwrap_err();
            assert_eq!(
                refused.to_string(),
                "invalid message: CC and BCC have more than 256 different routing keys"
            );
        }
    }

    #[test]
    fn a_buffer_is_kept_unless_the_list_changes() {
        let whole = Bytes::from_static(b"\x02\x00\x04herehi");
        let mut basic = Basic::owned(&whole, 7).unwrap();
        assert_eq!((basic.list(), basic.payload()), (&whole[..7], &b"hi"[..]));
        assert!(basic.whole().is_some());
        basic.set_reply_to("elsewhere").unwrap();
        assert_eq!(basic.list(), b"\x02\x00\x09elsewhere");
        assert!(basic.whole().is_none());
        assert_eq!(Basic::owned(&whole, 100).unwrap_err(), SyntaxError::Truncated.into());
    }

    #[test]
    fn invalid_messages_are_refused() {
        let with = |fill: fn(&mut TableWriter<'_>)| {
            let headers = headers(fill);
            list(&Properties { headers: Some(Table::from_entries(&headers)), ..Properties::default() })
        };
        let refused = |list: &[u8]| Basic::borrowed(list, b"").unwrap_err().to_string();
        assert_eq!(
            refused(&with(|table| table.put("CC", &Value::LongString(b"key")))),
            "invalid message: {unacceptable_type_in_header,\"CC\",longstr}"
        );
        assert_eq!(
            refused(&with(|table| table.put("BCC", &Value::Bool(true)))),
            "invalid message: {unacceptable_type_in_header,\"BCC\",bool}"
        );
        assert_eq!(refused(b"\x01\x00\x02no"), "invalid expiration 'no': no_integer");
        assert_eq!(
            refused(b"\x20\x00\x00\x00\x00\x02\x01a").as_str(),
            SyntaxError::Truncated.to_string().as_str()
        );
    }
}
