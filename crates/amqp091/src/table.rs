//! Field tables and field arrays (4.2.5.5).
//!
//! ```text
//! table   | length u32 | name | value | name | value | ...        numbers are big-endian
//! array   | length u32 | value | value | ...
//! name    | length u8 | UTF-8 |
//! value   | type letter u8 | content |
//!
//!   t  bool, u8         s  i16     u  u16     l, L  i64             S  long string: length u32, bytes
//!   b  i8               I  i32     f  f32     T     timestamp, u64  x  binary: length u32, bytes
//!   B  u8               i  u32     d  f64     D     scale u8, u32   F  table     A  array     V  void
//! ```
//!
//! The letters are those of RabbitMQ. They differ from the specification, which no client follows here
//! (<https://www.rabbitmq.com/docs/amqp-0-9-1-errata#section_3>).

use bytes::{BufMut, BytesMut};

use crate::syntax::{Cursor, SyntaxError};

/// The deepest nesting of tables and arrays in a table, which counts itself. Deeper is [`SyntaxError::TooDeep`].
/// Programs need about four levels (`x-death` has four). The bound keeps recursive readers from overflowing the stack.
/// It is below the bound of AMQP 1.0 (32), so that a message can be converted.
pub const MAX_NESTING: u32 = 24;

/// The most bytes of a name in a table: the length has one byte. The specification allows 128, RabbitMQ all 255.
pub const KEY_BYTES_MAX: usize = u8::MAX as usize;

/// A field table: its encoded entries, without the four bytes of length before them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Table<'a>(&'a [u8]);

impl<'a> Table<'a> {
    pub const EMPTY: Self = Self(&[]);

    /// Returns a view of encoded entries that were checked before. If they were not, the iterators end at the first
    /// invalid entry.
    pub const fn from_entries(entries: &'a [u8]) -> Self {
        Self(entries)
    }

    /// Checks encoded entries completely, including nested tables and arrays.
    ///
    /// # Errors
    /// See [`SyntaxError`].
    pub fn parse(entries: &'a [u8]) -> Result<Self, SyntaxError> {
        Self::parse_each(entries, |_, _| {})
    }

    /// Checks encoded entries completely, and passes each of them to `visit`. If a later entry is invalid, the earlier
    /// ones were passed.
    ///
    /// # Errors
    /// See [`SyntaxError`].
    #[inline]
    pub fn parse_each(
        entries: &'a [u8],
        mut visit: impl FnMut(&'a str, Value<'a>),
    ) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new(entries);
        while !cursor.rest.is_empty() {
            let name = read_name(&mut cursor)?;
            let value = read_value(&mut cursor)?;
            check_nested(value, 1)?;
            visit(name, value);
        }
        Ok(Self(entries))
    }

    /// Returns the encoded entries.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Returns the entries in their order. A name may occur several times.
    pub fn iter(self) -> Entries<'a> {
        Entries(Cursor::new(self.0))
    }

    /// Returns the value of the first entry of this name.
    pub fn get(self, name: &str) -> Option<Value<'a>> {
        self.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }
}

impl<'a> IntoIterator for Table<'a> {
    type Item = (&'a str, Value<'a>);
    type IntoIter = Entries<'a>;

    fn into_iter(self) -> Entries<'a> {
        self.iter()
    }
}

/// The entries of a table in their order. Ends at the first invalid entry.
#[derive(Clone, Debug)]
pub struct Entries<'a>(Cursor<'a>);

impl<'a> Entries<'a> {
    /// Returns the encoded entries that the iterator has not returned yet. A caller that copies a table without some
    /// of its entries finds their positions with it.
    pub fn rest(&self) -> &'a [u8] {
        self.0.rest
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = (&'a str, Value<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.rest.is_empty() {
            return None;
        }
        let entry = read_name(&mut self.0).and_then(|name| Ok((name, read_value(&mut self.0)?)));
        if entry.is_err() {
            self.0.rest = &[];
        }
        entry.ok()
    }
}

/// A field array: its encoded values, without the four bytes of length before them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Array<'a>(&'a [u8]);

impl<'a> Array<'a> {
    pub const EMPTY: Self = Self(&[]);

    /// Returns a view of encoded values that were checked before. If they were not, the iterator ends at the first
    /// invalid value.
    pub const fn from_items(items: &'a [u8]) -> Self {
        Self(items)
    }

    /// Returns the encoded values.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Returns the values in their order.
    pub fn iter(self) -> Items<'a> {
        Items(Cursor::new(self.0))
    }
}

impl<'a> IntoIterator for Array<'a> {
    type Item = Value<'a>;
    type IntoIter = Items<'a>;

    fn into_iter(self) -> Items<'a> {
        self.iter()
    }
}

/// The values of an array in their order. Ends at the first invalid value.
#[derive(Clone, Debug)]
pub struct Items<'a>(Cursor<'a>);

impl<'a> Iterator for Items<'a> {
    type Item = Value<'a>;

    #[inline]
    fn next(&mut self) -> Option<Value<'a>> {
        if self.0.rest.is_empty() {
            return None;
        }
        let value = read_value(&mut self.0);
        if value.is_err() {
            self.0.rest = &[];
        }
        value.ok()
    }
}

/// A value in a table or an array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    Bool(bool),
    I8(i8),
    U8(u8),
    I16(i16),
    U16(u16),
    I32(i32),
    U32(u32),
    I64(i64),
    F32(f32),
    F64(f64),
    /// The number `value` divided by ten to the power of `scale`.
    Decimal {
        scale: u8,
        value: u32,
    },
    /// Any bytes. Most programs write UTF-8.
    LongString(&'a [u8]),
    Binary(&'a [u8]),
    /// Seconds since the Unix epoch.
    Timestamp(u64),
    Table(Table<'a>),
    Array(Array<'a>),
    Void,
}

impl<'a> Value<'a> {
    /// Returns the bytes of a long string, if they are UTF-8. `None` for any other value.
    pub fn as_str(&self) -> Option<&'a str> {
        match self {
            Self::LongString(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// Returns the value of any type of whole number. `None` for any other value.
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Self::I8(n) => Some(n.into()),
            Self::U8(n) => Some(n.into()),
            Self::I16(n) => Some(n.into()),
            Self::U16(n) => Some(n.into()),
            Self::I32(n) => Some(n.into()),
            Self::U32(n) => Some(n.into()),
            Self::I64(n) => Some(n),
            _ => None,
        }
    }

    /// Returns the name of the type, as RabbitMQ writes it in error messages.
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::Bool(_) => "bool",
            Self::I8(_) => "byte",
            Self::U8(_) => "unsignedbyte",
            Self::I16(_) => "short",
            Self::U16(_) => "unsignedshort",
            Self::I32(_) => "signedint",
            Self::U32(_) => "unsignedint",
            Self::I64(_) => "long",
            Self::F32(_) => "float",
            Self::F64(_) => "double",
            Self::Decimal { .. } => "decimal",
            Self::LongString(_) => "longstr",
            Self::Binary(_) => "binary",
            Self::Timestamp(_) => "timestamp",
            Self::Table(_) => "table",
            Self::Array(_) => "array",
            Self::Void => "void",
        }
    }

    /// Appends the type letter and the value.
    fn put(&self, out: &mut BytesMut) {
        let long = |out: &mut BytesMut, letter: u8, bytes: &[u8]| {
            out.put_u8(letter);
            // A value is part of a message, which is far smaller than 4 GiB.
            out.put_u32(bytes.len() as u32);
            out.put_slice(bytes);
        };
        match *self {
            Self::Bool(value) => out.put_slice(&[b't', u8::from(value)]),
            Self::I8(value) => out.put_slice(&[b'b', value as u8]),
            Self::U8(value) => out.put_slice(&[b'B', value]),
            Self::I16(value) => put_number(out, b's', value.to_be_bytes()),
            Self::U16(value) => put_number(out, b'u', value.to_be_bytes()),
            Self::I32(value) => put_number(out, b'I', value.to_be_bytes()),
            Self::U32(value) => put_number(out, b'i', value.to_be_bytes()),
            Self::I64(value) => put_number(out, b'l', value.to_be_bytes()),
            Self::F32(value) => put_number(out, b'f', value.to_be_bytes()),
            Self::F64(value) => put_number(out, b'd', value.to_be_bytes()),
            Self::Timestamp(value) => put_number(out, b'T', value.to_be_bytes()),
            Self::Decimal { scale, value } => {
                out.put_slice(&[b'D', scale]);
                out.put_u32(value);
            }
            Self::LongString(bytes) => long(out, b'S', bytes),
            Self::Binary(bytes) => long(out, b'x', bytes),
            Self::Table(table) => long(out, b'F', table.0),
            Self::Array(array) => long(out, b'A', array.0),
            Self::Void => out.put_u8(b'V'),
        }
    }
}

fn put_number<const N: usize>(out: &mut BytesMut, letter: u8, number: [u8; N]) {
    out.put_u8(letter);
    out.put_slice(&number);
}

/// Appends a table with its length. The length is written when the writer is dropped.
#[derive(Debug)]
pub struct TableWriter<'o> {
    out: &'o mut BytesMut,
    /// The position of the length in `out`.
    start: usize,
}

impl<'o> TableWriter<'o> {
    /// Begins a table at the end of `out`.
    pub fn new(out: &'o mut BytesMut) -> Self {
        let start = begin(out);
        Self { out, start }
    }

    /// Appends an entry. Of a name above [`KEY_BYTES_MAX`], the rest is cut off.
    pub fn put(&mut self, name: &str, value: &Value<'_>) {
        self.put_name(name);
        value.put(self.out);
    }

    /// Appends entries that are already encoded, such as [`Table::as_bytes`].
    pub fn put_entries(&mut self, entries: &[u8]) {
        self.out.put_slice(entries);
    }

    /// Begins a table as the next entry.
    pub fn table(&mut self, name: &str) -> TableWriter<'_> {
        self.put_name(name);
        self.out.put_u8(b'F');
        TableWriter::new(self.out)
    }

    /// Begins an array as the next entry.
    pub fn array(&mut self, name: &str) -> ArrayWriter<'_> {
        self.put_name(name);
        self.out.put_u8(b'A');
        ArrayWriter::new(self.out)
    }

    fn put_name(&mut self, name: &str) {
        let len = name.floor_char_boundary(KEY_BYTES_MAX);
        self.out.put_u8(len as u8);
        self.out.put_slice(&name.as_bytes()[..len]);
    }
}

impl Drop for TableWriter<'_> {
    fn drop(&mut self) {
        end(self.out, self.start);
    }
}

/// Appends an array with its length. The length is written when the writer is dropped.
#[derive(Debug)]
pub struct ArrayWriter<'o> {
    out: &'o mut BytesMut,
    /// The position of the length in `out`.
    start: usize,
}

impl<'o> ArrayWriter<'o> {
    fn new(out: &'o mut BytesMut) -> Self {
        let start = begin(out);
        Self { out, start }
    }

    /// Returns true if nothing was appended.
    pub fn is_empty(&self) -> bool {
        self.out.len() == self.start + LENGTH_SIZE
    }

    /// Appends a value.
    pub fn put(&mut self, value: &Value<'_>) {
        value.put(self.out);
    }

    /// Begins a table as the next value.
    pub fn table(&mut self) -> TableWriter<'_> {
        self.out.put_u8(b'F');
        TableWriter::new(self.out)
    }

    /// Begins an array as the next value.
    pub fn array(&mut self) -> ArrayWriter<'_> {
        self.out.put_u8(b'A');
        ArrayWriter::new(self.out)
    }
}

impl Drop for ArrayWriter<'_> {
    fn drop(&mut self) {
        end(self.out, self.start);
    }
}

/// The size in bytes of the length of a table or an array.
const LENGTH_SIZE: usize = size_of::<u32>();

/// Reserves the four bytes of a length. Returns their position.
fn begin(out: &mut BytesMut) -> usize {
    let start = out.len();
    out.put_u32(0);
    start
}

/// Writes the length of what follows the four bytes at `start`.
fn end(out: &mut BytesMut, start: usize) {
    let len = (out.len() - start - LENGTH_SIZE) as u32;
    out[start..start + LENGTH_SIZE].copy_from_slice(&len.to_be_bytes());
}

#[inline]
fn read_name<'a>(cursor: &mut Cursor<'a>) -> Result<&'a str, SyntaxError> {
    std::str::from_utf8(cursor.short_string()?).map_err(|_| SyntaxError::NotUtf8)
}

/// Reads one value. Does not check what is in a nested table or array.
#[inline]
fn read_value<'a>(cursor: &mut Cursor<'a>) -> Result<Value<'a>, SyntaxError> {
    Ok(match cursor.octet()? {
        b'S' => Value::LongString(cursor.long_string()?),
        b'I' => Value::I32(i32::from_be_bytes(cursor.array()?)),
        b't' => Value::Bool(cursor.octet()? != 0),
        b'l' | b'L' => Value::I64(i64::from_be_bytes(cursor.array()?)),
        b'T' => Value::Timestamp(cursor.longlong()?),
        b'F' => Value::Table(Table(cursor.long_string()?)),
        b'A' => Value::Array(Array(cursor.long_string()?)),
        b'd' => Value::F64(f64::from_be_bytes(cursor.array()?)),
        b'f' => Value::F32(f32::from_be_bytes(cursor.array()?)),
        b'i' => Value::U32(u32::from_be_bytes(cursor.array()?)),
        b's' => Value::I16(i16::from_be_bytes(cursor.array()?)),
        b'u' => Value::U16(u16::from_be_bytes(cursor.array()?)),
        b'b' => Value::I8(i8::from_be_bytes(cursor.array()?)),
        b'B' => Value::U8(cursor.octet()?),
        b'D' => Value::Decimal { scale: cursor.octet()?, value: u32::from_be_bytes(cursor.array()?) },
        b'x' => Value::Binary(cursor.long_string()?),
        b'V' => Value::Void,
        letter => return Err(SyntaxError::FieldType(letter)),
    })
}

/// Checks what is in a table or an array. `depth` is the nesting of the value that contains it.
#[inline]
fn check_nested(value: Value<'_>, depth: u32) -> Result<(), SyntaxError> {
    match value {
        Value::Table(_) | Value::Array(_) if depth == MAX_NESTING => Err(SyntaxError::TooDeep),
        Value::Table(table) => check_table(table.0, depth + 1),
        Value::Array(array) => check_array(array.0, depth + 1),
        _ => Ok(()),
    }
}

fn check_table(entries: &[u8], depth: u32) -> Result<(), SyntaxError> {
    let mut cursor = Cursor::new(entries);
    while !cursor.rest.is_empty() {
        read_name(&mut cursor)?;
        check_nested(read_value(&mut cursor)?, depth)?;
    }
    Ok(())
}

fn check_array(items: &[u8], depth: u32) -> Result<(), SyntaxError> {
    let mut cursor = Cursor::new(items);
    while !cursor.rest.is_empty() {
        check_nested(read_value(&mut cursor)?, depth)?;
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// A value that owns what it contains.
    #[derive(Clone, Debug)]
    pub(crate) enum Owned {
        Plain(Value<'static>),
        LongString(Vec<u8>),
        Binary(Vec<u8>),
        Table(Vec<(String, Owned)>),
        Array(Vec<Owned>),
    }

    pub(crate) fn owned() -> impl Strategy<Value = Owned> {
        let plain = prop_oneof![
            any::<bool>().prop_map(Value::Bool),
            any::<i8>().prop_map(Value::I8),
            any::<u8>().prop_map(Value::U8),
            any::<i16>().prop_map(Value::I16),
            any::<u16>().prop_map(Value::U16),
            any::<i32>().prop_map(Value::I32),
            any::<u32>().prop_map(Value::U32),
            any::<i64>().prop_map(Value::I64),
            any::<f32>().prop_map(Value::F32),
            any::<f64>().prop_map(Value::F64),
            any::<(u8, u32)>().prop_map(|(scale, value)| Value::Decimal { scale, value }),
            any::<u64>().prop_map(Value::Timestamp),
            Just(Value::Void),
        ];
        let leaf = prop_oneof![
            plain.prop_map(Owned::Plain),
            vec(any::<u8>(), 0..20).prop_map(Owned::LongString),
            vec(any::<u8>(), 0..20).prop_map(Owned::Binary),
        ];
        leaf.prop_recursive(4, 30, 5, |value| {
            prop_oneof![
                vec((".{0,10}", value.clone()), 0..5).prop_map(Owned::Table),
                vec(value, 0..5).prop_map(Owned::Array),
            ]
        })
    }

    pub(crate) fn owned_table() -> impl Strategy<Value = Vec<(String, Owned)>> {
        vec((".{0,10}", owned()), 0..5)
    }

    fn put_entry(table: &mut TableWriter<'_>, name: &str, value: &Owned) {
        match value {
            Owned::Plain(value) => table.put(name, value),
            Owned::LongString(bytes) => table.put(name, &Value::LongString(bytes)),
            Owned::Binary(bytes) => table.put(name, &Value::Binary(bytes)),
            Owned::Table(entries) => put_entries(&mut table.table(name), entries),
            Owned::Array(items) => put_items(&mut table.array(name), items),
        }
    }

    pub(crate) fn put_entries(table: &mut TableWriter<'_>, entries: &[(String, Owned)]) {
        entries.iter().for_each(|(name, value)| put_entry(table, name, value));
    }

    fn put_items(array: &mut ArrayWriter<'_>, items: &[Owned]) {
        for item in items {
            match item {
                Owned::Plain(value) => array.put(value),
                Owned::LongString(bytes) => array.put(&Value::LongString(bytes)),
                Owned::Binary(bytes) => array.put(&Value::Binary(bytes)),
                Owned::Table(entries) => put_entries(&mut array.table(), entries),
                Owned::Array(items) => put_items(&mut array.array(), items),
            }
        }
    }

    fn is_same(read: Value<'_>, written: &Owned) -> bool {
        match (read, written) {
            (Value::F32(a), Owned::Plain(Value::F32(b))) => a.to_bits() == b.to_bits(),
            (Value::F64(a), Owned::Plain(Value::F64(b))) => a.to_bits() == b.to_bits(),
            (read, Owned::Plain(written)) => read == *written,
            (Value::LongString(a), Owned::LongString(b)) | (Value::Binary(a), Owned::Binary(b)) => a == b,
            (Value::Table(a), Owned::Table(b)) => is_same_table(a, b),
            (Value::Array(a), Owned::Array(b)) => {
                a.iter().count() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
            }
            _ => false,
        }
    }

    pub(crate) fn is_same_table(read: Table<'_>, written: &[(String, Owned)]) -> bool {
        let pairs = || read.iter().zip(written);
        read.iter().count() == written.len() && pairs().all(|(a, b)| a.0 == b.0 && is_same(a.1, &b.1))
    }

    pub(crate) fn encoded(entries: &[(String, Owned)]) -> Vec<u8> {
        let mut out = BytesMut::new();
        put_entries(&mut TableWriter::new(&mut out), entries);
        assert_eq!(u32::from_be_bytes(*out.first_chunk().unwrap()) as usize, out.len() - 4);
        out[4..].to_vec()
    }

    proptest! {
        #[test]
        fn a_table_is_read_as_it_was_written(entries in owned_table()) {
            let bytes = encoded(&entries);
            let table = Table::parse(&bytes).unwrap();
            prop_assert!(is_same_table(table, &entries), "{table:?}");
            // Copying each value gives the same bytes.
            let mut copy = BytesMut::new();
            let mut writer = TableWriter::new(&mut copy);
            table.iter().for_each(|(name, value)| writer.put(name, &value));
            drop(writer);
            prop_assert_eq!(&copy[4..], &bytes[..]);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
            let read = Table::from_entries(&bytes).iter().count();
            if let Ok(table) = Table::parse(&bytes) {
                prop_assert_eq!(table.iter().count(), read);
                prop_assert_eq!(table.iter().map(|(name, _)| name.len() + 1).sum::<usize>() > 0, !bytes.is_empty());
            }
            Array::from_items(&bytes).iter().for_each(drop);
        }

        #[test]
        fn damaged_tables_never_panic(entries in owned_table(), at: usize, byte: u8) {
            let mut bytes = encoded(&entries);
            if !bytes.is_empty() {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            let _ = Table::parse(&bytes);
            let _ = format!("{:?}", Table::from_entries(&bytes).iter().collect::<Vec<_>>());
        }
    }

    /// Tests each letter with bytes that were written by hand.
    #[test]
    fn every_type_has_its_letter() {
        let cases: [(&[u8], Value<'_>); 19] = [
            (b"t\x02", Value::Bool(true)),
            (b"b\xff", Value::I8(-1)),
            (b"B\xff", Value::U8(255)),
            (b"s\xff\xfe", Value::I16(-2)),
            (b"u\xff\xfe", Value::U16(65534)),
            (b"I\xff\xff\xff\xfe", Value::I32(-2)),
            (b"i\xff\xff\xff\xfe", Value::U32(4_294_967_294)),
            (b"l\xff\xff\xff\xff\xff\xff\xff\xfe", Value::I64(-2)),
            (b"L\xff\xff\xff\xff\xff\xff\xff\xfe", Value::I64(-2)),
            (b"f\x3f\x80\x00\x00", Value::F32(1.0)),
            (b"d\x3f\xf0\x00\x00\x00\x00\x00\x00", Value::F64(1.0)),
            (b"D\x02\x00\x00\x01\x3a", Value::Decimal { scale: 2, value: 314 }),
            (b"S\x00\x00\x00\x02hi", Value::LongString(b"hi")),
            (b"x\x00\x00\x00\x02hi", Value::Binary(b"hi")),
            (b"T\x00\x00\x00\x00\x00\x00\x00\x07", Value::Timestamp(7)),
            (b"F\x00\x00\x00\x03\x01aV", Value::Table(Table::from_entries(b"\x01aV"))),
            (b"A\x00\x00\x00\x02VV", Value::Array(Array::from_items(b"VV"))),
            (b"A\x00\x00\x00\x00", Value::Array(Array::EMPTY)),
            (b"V", Value::Void),
        ];
        for (bytes, expected) in cases {
            let entries = [b"\x03key", bytes].concat();
            assert_eq!(Table::parse(&entries).unwrap().get("key"), Some(expected), "{expected:?}");
        }
    }

    #[test]
    fn invalid_tables_have_an_error() {
        for (bytes, error) in [
            (&b"\x04key"[..], SyntaxError::Truncated),
            (b"\x03key", SyntaxError::Truncated),
            (b"\x03keyI\x00\x00\x00", SyntaxError::Truncated),
            (b"\x03keyS\xff\xff\xff\xffhi", SyntaxError::Truncated),
            (b"\x03keyZ", SyntaxError::FieldType(b'Z')),
            (b"\x01\xffV", SyntaxError::NotUtf8),
            (b"\x01aF\x00\x00\x00\x01\x01", SyntaxError::Truncated),
            (b"\x01aA\x00\x00\x00\x01?", SyntaxError::FieldType(b'?')),
        ] {
            assert_eq!(Table::parse(bytes), Err(error), "{bytes:?}");
            let complete = [b"\x01bV", bytes].concat();
            let names: Vec<_> = Table::from_entries(&complete).iter().map(|(name, _)| name).collect();
            assert_eq!(names.first(), Some(&"b"), "entries before the invalid one can be read");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        // Tables in arrays in tables, and so on.
        let nested = |levels: u32| {
            let mut inner = Vec::new();
            for level in (1..levels).rev() {
                let mut outer = BytesMut::new();
                let mut table = TableWriter::new(&mut outer);
                match level % 2 {
                    0 => table.put("a", &Value::Table(Table::from_entries(&inner))),
                    _ => table.put("a", &Value::Array(Array::from_items(&inner))),
                }
                drop(table);
                // An item of an array has no name.
                let name = if level % 2 == 0 { 2 } else { 0 };
                inner = outer[4 + name..].to_vec();
            }
            inner
        };
        assert!(Table::parse(&nested(MAX_NESTING)).is_ok());
        assert_eq!(Table::parse(&nested(MAX_NESTING + 1)), Err(SyntaxError::TooDeep));
        assert_eq!(Table::parse(&nested(10_000)), Err(SyntaxError::TooDeep), "no stack overflow");
    }

    #[test]
    fn long_names_are_cut() {
        let long = "é".repeat(200);
        let mut out = BytesMut::new();
        TableWriter::new(&mut out).put(&long, &Value::Void);
        let table = Table::parse(&out[4..]).unwrap();
        assert_eq!(table.get(&"é".repeat(127)), Some(Value::Void));
    }
}
