//! The properties of a message (2.3.5.2, class `basic`).
//!
//! ```text
//! | flags u16 | field | field | ...
//!
//! The first field has bit 15 of the flags, the next one bit 14, and so on. A field is present if its bit is set.
//! Bit 0 says that another word of flags follows. The class has 14 fields, so further words have no flags.
//! ```

use std::ops::Range;

use buffers::Put;
use bytes::BytesMut;

use crate::syntax::{Cursor, SyntaxError};
use crate::table::{KEY_BYTES_MAX, Table};

/// The most bytes of a property that is a short string: the length has one byte.
const SHORT_STRING_MAX: usize = KEY_BYTES_MAX;

/// The bits of the flags, in the order of the fields.
mod flag {
    pub(super) const CONTENT_TYPE: u16 = 1 << 15;
    pub(super) const CONTENT_ENCODING: u16 = 1 << 14;
    pub(super) const HEADERS: u16 = 1 << 13;
    pub(super) const DELIVERY_MODE: u16 = 1 << 12;
    pub(super) const PRIORITY: u16 = 1 << 11;
    pub(super) const CORRELATION_ID: u16 = 1 << 10;
    pub(super) const REPLY_TO: u16 = 1 << 9;
    pub(super) const EXPIRATION: u16 = 1 << 8;
    pub(super) const MESSAGE_ID: u16 = 1 << 7;
    pub(super) const TIMESTAMP: u16 = 1 << 6;
    pub(super) const TYPE: u16 = 1 << 5;
    pub(super) const USER_ID: u16 = 1 << 4;
    pub(super) const APP_ID: u16 = 1 << 3;
    pub(super) const CLUSTER_ID: u16 = 1 << 2;
    /// Another word of flags follows.
    pub(super) const CONTINUED: u16 = 1;
}

/// The properties of a message, in the order of the specification.
///
/// Short strings are bytes, not text: some programs use binary identifiers, and RabbitMQ passes them on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Properties<'a> {
    pub content_type: Option<&'a [u8]>,
    pub content_encoding: Option<&'a [u8]>,
    pub headers: Option<Table<'a>>,
    /// 2: the message must survive a restart. Any other value: it need not.
    pub delivery_mode: Option<u8>,
    pub priority: Option<u8>,
    pub correlation_id: Option<&'a [u8]>,
    pub reply_to: Option<&'a [u8]>,
    /// The time to live: a decimal number of milliseconds. It is not checked here.
    pub expiration: Option<&'a [u8]>,
    pub message_id: Option<&'a [u8]>,
    /// Seconds since the Unix epoch.
    pub timestamp: Option<u64>,
    /// The property `type`.
    pub message_type: Option<&'a [u8]>,
    pub user_id: Option<&'a [u8]>,
    pub app_id: Option<&'a [u8]>,
    /// Deprecated by the specification. RabbitMQ passes it on.
    pub cluster_id: Option<&'a [u8]>,
}

impl<'a> Properties<'a> {
    /// Reads and checks a whole property list: flags and fields, including the table of headers.
    ///
    /// # Errors
    /// See [`SyntaxError`].
    pub fn parse(list: &'a [u8]) -> Result<Self, SyntaxError> {
        let properties = Self::view(list)?;
        if let Some(headers) = properties.headers {
            Table::parse(headers.as_bytes())?;
        }
        Ok(properties)
    }

    /// Reads a property list whose headers were checked before. Does not check the table of headers.
    ///
    /// # Errors
    /// See [`SyntaxError`].
    #[inline]
    pub fn view(list: &'a [u8]) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new(list);
        let flags = flags(&mut cursor)?;
        let has = |bit: u16| flags & bit != 0;
        let short = |cursor: &mut Cursor<'a>, bit| has(bit).then(|| cursor.short_string()).transpose();
        let octet = |cursor: &mut Cursor<'a>, bit| has(bit).then(|| cursor.octet()).transpose();
        let properties = Self {
            content_type: short(&mut cursor, flag::CONTENT_TYPE)?,
            content_encoding: short(&mut cursor, flag::CONTENT_ENCODING)?,
            headers: has(flag::HEADERS).then(|| cursor.long_string().map(Table::from_entries)).transpose()?,
            delivery_mode: octet(&mut cursor, flag::DELIVERY_MODE)?,
            priority: octet(&mut cursor, flag::PRIORITY)?,
            correlation_id: short(&mut cursor, flag::CORRELATION_ID)?,
            reply_to: short(&mut cursor, flag::REPLY_TO)?,
            expiration: short(&mut cursor, flag::EXPIRATION)?,
            message_id: short(&mut cursor, flag::MESSAGE_ID)?,
            timestamp: has(flag::TIMESTAMP).then(|| cursor.longlong()).transpose()?,
            message_type: short(&mut cursor, flag::TYPE)?,
            user_id: short(&mut cursor, flag::USER_ID)?,
            app_id: short(&mut cursor, flag::APP_ID)?,
            cluster_id: short(&mut cursor, flag::CLUSTER_ID)?,
        };
        cursor.finish()?;
        Ok(properties)
    }

    /// Appends the property list. Of a short string above 255 bytes, the rest is cut off.
    pub fn put(&self, out: &mut BytesMut) {
        self.put_with_headers(out, |out| {
            self.headers.map(|headers| {
                out.put_u32(headers.as_bytes().len() as u32);
                out.put_slice(headers.as_bytes());
            })
        });
    }

    /// Appends the property list with other headers. `headers` appends a table, for example with a
    /// [`crate::TableWriter`], and returns `Some`. Or it appends nothing and returns `None`, then there are no headers.
    pub fn put_with_headers(&self, out: &mut BytesMut, headers: impl FnOnce(&mut BytesMut) -> Option<()>) {
        let start = out.len();
        out.put_u16(0);
        let mut flags = 0;
        put_short(out, &mut flags, flag::CONTENT_TYPE, self.content_type);
        put_short(out, &mut flags, flag::CONTENT_ENCODING, self.content_encoding);
        if headers(out).is_some() {
            flags |= flag::HEADERS;
        }
        for (bit, value) in [(flag::DELIVERY_MODE, self.delivery_mode), (flag::PRIORITY, self.priority)] {
            if let Some(value) = value {
                flags |= bit;
                out.put_u8(value);
            }
        }
        put_short(out, &mut flags, flag::CORRELATION_ID, self.correlation_id);
        put_short(out, &mut flags, flag::REPLY_TO, self.reply_to);
        put_short(out, &mut flags, flag::EXPIRATION, self.expiration);
        put_short(out, &mut flags, flag::MESSAGE_ID, self.message_id);
        if let Some(seconds) = self.timestamp {
            flags |= flag::TIMESTAMP;
            out.put_u64(seconds);
        }
        put_short(out, &mut flags, flag::TYPE, self.message_type);
        put_short(out, &mut flags, flag::USER_ID, self.user_id);
        put_short(out, &mut flags, flag::APP_ID, self.app_id);
        put_short(out, &mut flags, flag::CLUSTER_ID, self.cluster_id);
        out[start..start + 2].copy_from_slice(&flags.to_be_bytes());
    }
}

#[inline]
fn put_short(out: &mut BytesMut, flags: &mut u16, bit: u16, value: Option<&[u8]>) {
    let Some(value) = value else { return };
    let value = &value[..value.len().min(SHORT_STRING_MAX)];
    *flags |= bit;
    out.put_u8(value.len() as u8);
    out.put_slice(value);
}

/// The properties that a broker needs for each message that it receives.
///
/// Reading them skips the other properties, but the lengths of all are checked. What is in the headers is not checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms<'a> {
    /// 2: the message must survive a restart.
    pub delivery_mode: Option<u8>,
    pub priority: Option<u8>,
    pub reply_to: Option<&'a [u8]>,
    /// The time to live as the sender wrote it.
    pub expiration: Option<&'a [u8]>,
    pub user_id: Option<&'a [u8]>,
    /// The range of the encoded entries of the headers in the list. The four bytes of their length are before it.
    pub headers: Option<Range<usize>>,
}

impl<'a> Terms<'a> {
    /// Reads a property list.
    ///
    /// # Errors
    /// See [`SyntaxError`].
    #[inline]
    pub fn scan(list: &'a [u8]) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new(list);
        let flags = flags(&mut cursor)?;
        let mut terms = Self::default();
        let short = |cursor: &mut Cursor<'a>, bit| match flags & bit {
            0 => Ok(None),
            _ => cursor.short_string().map(Some),
        };
        short(&mut cursor, flag::CONTENT_TYPE)?;
        short(&mut cursor, flag::CONTENT_ENCODING)?;
        if flags & flag::HEADERS != 0 {
            let entries = cursor.long_string()?;
            let end = list.len() - cursor.rest.len();
            terms.headers = Some(end - entries.len()..end);
        }
        if flags & flag::DELIVERY_MODE != 0 {
            terms.delivery_mode = Some(cursor.octet()?);
        }
        if flags & flag::PRIORITY != 0 {
            terms.priority = Some(cursor.octet()?);
        }
        short(&mut cursor, flag::CORRELATION_ID)?;
        terms.reply_to = short(&mut cursor, flag::REPLY_TO)?;
        terms.expiration = short(&mut cursor, flag::EXPIRATION)?;
        short(&mut cursor, flag::MESSAGE_ID)?;
        if flags & flag::TIMESTAMP != 0 {
            cursor.longlong()?;
        }
        short(&mut cursor, flag::TYPE)?;
        terms.user_id = short(&mut cursor, flag::USER_ID)?;
        short(&mut cursor, flag::APP_ID)?;
        short(&mut cursor, flag::CLUSTER_ID)?;
        cursor.finish()?;
        Ok(terms)
    }
}

/// Reads the words of flags. Returns the first one.
#[inline]
fn flags(cursor: &mut Cursor<'_>) -> Result<u16, SyntaxError> {
    let first = cursor.array().map(u16::from_be_bytes)?;
    let mut last = first;
    while last & flag::CONTINUED != 0 {
        last = cursor.array().map(u16::from_be_bytes)?;
        if last & !flag::CONTINUED != 0 {
            return Err(SyntaxError::UnknownProperty);
        }
    }
    Ok(first)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option::of;
    use proptest::prelude::*;

    use super::*;
    use crate::table::tests::{encoded, owned_table};

    fn short() -> impl Strategy<Value = Option<Vec<u8>>> {
        of(vec(any::<u8>(), 0..20))
    }

    fn terms_of<'a>(properties: &Properties<'a>, list: &'a [u8]) -> Terms<'a> {
        let headers = properties.headers.map(|headers| {
            let at = headers.as_bytes().as_ptr() as usize - list.as_ptr() as usize;
            at..at + headers.as_bytes().len()
        });
        Terms {
            delivery_mode: properties.delivery_mode,
            priority: properties.priority,
            reply_to: properties.reply_to,
            expiration: properties.expiration,
            user_id: properties.user_id,
            headers,
        }
    }

    proptest! {
        #[test]
        fn properties_are_read_as_they_were_written(
            texts in proptest::array::uniform10(short()),
            headers in of(owned_table()),
            numbers: (Option<u8>, Option<u8>, Option<u64>),
        ) {
            let headers = headers.map(|entries| encoded(&entries));
            let [content_type, content_encoding, correlation_id, reply_to, expiration, message_id, message_type, user_id, app_id, cluster_id] =
                texts.each_ref().map(Option::as_deref);
            let written = Properties {
                content_type,
                content_encoding,
                headers: headers.as_deref().map(Table::from_entries),
                delivery_mode: numbers.0,
                priority: numbers.1,
                correlation_id,
                reply_to,
                expiration,
                message_id,
                timestamp: numbers.2,
                message_type,
                user_id,
                app_id,
                cluster_id,
            };
            let mut list = BytesMut::new();
            written.put(&mut list);
            let read = Properties::parse(&list).unwrap();
            prop_assert_eq!(read, written);
            prop_assert_eq!(Terms::scan(&list).unwrap(), terms_of(&read, &list));
            for len in 0..list.len() {
                prop_assert!(Terms::scan(&list[..len]).is_err() && Properties::view(&list[..len]).is_err());
            }
            list.put_u8(0);
            prop_assert_eq!(Terms::scan(&list), Err(SyntaxError::TrailingBytes(1)));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
            let view = Properties::view(&bytes);
            prop_assert_eq!(Terms::scan(&bytes), view.map(|view| terms_of(&view, &bytes)));
            let _ = Properties::parse(&bytes);
        }
    }

    /// Tests the bit of each field with a list that was written by hand.
    #[test]
    fn every_field_has_its_bit() {
        let of = |change: fn(&mut Properties<'static>)| {
            let mut properties = Properties::default();
            change(&mut properties);
            properties
        };
        let cases: [(&[u8], Properties<'_>); 15] = [
            (b"\x00\x00", Properties::default()),
            (b"\x80\x00\x01a", of(|p| p.content_type = Some(b"a"))),
            (b"\x40\x00\x01a", of(|p| p.content_encoding = Some(b"a"))),
            (b"\x20\x00\0\0\0\x03\x01aV", of(|p| p.headers = Some(Table::from_entries(b"\x01aV")))),
            (b"\x10\x00\x02", of(|p| p.delivery_mode = Some(2))),
            (b"\x08\x00\x09", of(|p| p.priority = Some(9))),
            (b"\x04\x00\x01a", of(|p| p.correlation_id = Some(b"a"))),
            (b"\x02\x00\x01a", of(|p| p.reply_to = Some(b"a"))),
            (b"\x01\x00\x01a", of(|p| p.expiration = Some(b"a"))),
            (b"\x00\x80\x01a", of(|p| p.message_id = Some(b"a"))),
            (b"\x00\x40\0\0\0\0\0\0\0\x07", of(|p| p.timestamp = Some(7))),
            (b"\x00\x20\x01a", of(|p| p.message_type = Some(b"a"))),
            (b"\x00\x10\x01a", of(|p| p.user_id = Some(b"a"))),
            (b"\x00\x08\x01a", of(|p| p.app_id = Some(b"a"))),
            (b"\x00\x04\x01a", of(|p| p.cluster_id = Some(b"a"))),
        ];
        for (list, properties) in cases {
            assert_eq!(Properties::parse(list), Ok(properties));
            let mut out = BytesMut::new();
            properties.put(&mut out);
            assert_eq!(out, list);
        }
    }

    #[test]
    fn further_words_of_flags_are_empty() {
        let priority = Ok(Properties { priority: Some(9), ..Properties::default() });
        assert_eq!(Properties::parse(b"\x08\x01\x00\x00\x09"), priority);
        assert_eq!(Properties::parse(b"\x08\x01\x00\x01\x00\x00\x09"), priority);
        assert_eq!(Properties::parse(b"\x08\x01\x80\x00\x09"), Err(SyntaxError::UnknownProperty));
        assert_eq!(Properties::parse(b"\x08\x01\x00\x01"), Err(SyntaxError::Truncated));
    }

    #[test]
    fn invalid_headers_are_found() {
        let list = b"\x20\x00\0\0\0\x03\x01a?";
        assert_eq!(Properties::parse(list), Err(SyntaxError::FieldType(b'?')));
        assert!(Properties::view(list).is_ok() && Terms::scan(list).is_ok());
    }
}
