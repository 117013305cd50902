//! Writing AMQP values, always in the smallest encoding [1.2, 1.6].
//!
//! Lists and maps are first written in the 8-bit form, and widened in place if they become too large. Sizes
//! are 32 bits wide on the wire, so the caller must keep a value below 4 GiB. Frame and message limits are
//! far below that.

use bytes::{BufMut, BytesMut};

use crate::types::{Array, Map, Symbol, Value};

mod gathered;

pub use gathered::Gathered;

/// A type that has an encoding.
pub trait Encode {
    /// Appends the encoding, format code included.
    fn encode(&self, out: &mut BytesMut);
}

/// Appends any value. Arrays use their own format code.
pub fn put_value(out: &mut BytesMut, value: &Value) {
    match value {
        Value::Null => put_null(out),
        Value::Boolean(v) => put_bool(out, *v),
        Value::Ubyte(v) => put_u8(out, *v),
        Value::Ushort(v) => put_u16(out, *v),
        Value::Uint(v) => put_u32(out, *v),
        Value::Ulong(v) => put_u64(out, *v),
        Value::Int(v) => match i8::try_from(*v) {
            Ok(small) => out.put_slice(&[0x54, small.to_be_bytes()[0]]),
            Err(_) => put_fixed(out, 0x71, &v.to_be_bytes()),
        },
        Value::Long(v) => match i8::try_from(*v) {
            Ok(small) => out.put_slice(&[0x55, small.to_be_bytes()[0]]),
            Err(_) => put_fixed(out, 0x81, &v.to_be_bytes()),
        },
        Value::Byte(_)
        | Value::Short(_)
        | Value::Float(_)
        | Value::Double(_)
        | Value::Decimal32(_)
        | Value::Decimal64(_)
        | Value::Decimal128(_)
        | Value::Char(_)
        | Value::Timestamp(_)
        | Value::Uuid(_) => {
            let code = fixed_code(value);
            out.put_u8(code);
            put_element(out, code, value);
        }
        Value::Binary(octets) => put_binary(out, octets),
        Value::String(text) => put_str(out, text),
        Value::Symbol(symbol) => put_symbol(out, symbol),
        Value::List(items) if items.is_empty() => out.put_u8(0x45),
        Value::List(items) => {
            let start = begin_compound(out, 0xc0);
            items.iter().for_each(|item| put_value(out, item));
            end_compound(out, start, items.len());
        }
        Value::Map(map) => put_map(out, map),
        Value::Array(array) => put_array(out, array),
        Value::Described(described) => {
            out.put_u8(0x00);
            put_value(out, &described.descriptor);
            put_value(out, &described.value);
        }
    }
}

/// Appends null.
pub fn put_null(out: &mut BytesMut) {
    out.put_u8(0x40);
}

/// Appends a boolean in one byte.
pub fn put_bool(out: &mut BytesMut, value: bool) {
    out.put_u8(if value { 0x41 } else { 0x42 });
}

/// Appends a ubyte.
pub fn put_u8(out: &mut BytesMut, value: u8) {
    out.put_slice(&[0x50, value]);
}

/// Appends a ushort.
pub fn put_u16(out: &mut BytesMut, value: u16) {
    put_fixed(out, 0x60, &value.to_be_bytes());
}

/// Appends a uint in one, two or five bytes.
#[inline]
pub fn put_u32(out: &mut BytesMut, value: u32) {
    match u8::try_from(value) {
        Ok(0) => out.put_u8(0x43),
        Ok(small) => out.put_slice(&[0x52, small]),
        Err(_) => put_fixed(out, 0x70, &value.to_be_bytes()),
    }
}

/// Appends a ulong in one, two or nine bytes.
pub fn put_u64(out: &mut BytesMut, value: u64) {
    match u8::try_from(value) {
        Ok(0) => out.put_u8(0x44),
        Ok(small) => out.put_slice(&[0x53, small]),
        Err(_) => put_fixed(out, 0x80, &value.to_be_bytes()),
    }
}

/// Appends a timestamp, in milliseconds since the Unix epoch.
pub fn put_timestamp(out: &mut BytesMut, unix_ms: i64) {
    put_fixed(out, 0x83, &unix_ms.to_be_bytes());
}

/// Appends a binary.
pub fn put_binary(out: &mut BytesMut, octets: &[u8]) {
    put_variable(out, 0xa0, octets);
}

/// Appends a string.
pub fn put_str(out: &mut BytesMut, text: &str) {
    put_variable(out, 0xa1, text.as_bytes());
}

/// Appends a symbol. The text must be ASCII.
pub fn put_symbol(out: &mut BytesMut, text: &str) {
    debug_assert!(text.is_ascii(), "a symbol is ASCII");
    put_variable(out, 0xa3, text.as_bytes());
}

/// Appends an array of symbols. It may be empty.
pub fn put_symbols(out: &mut BytesMut, symbols: &[Symbol]) {
    let wide = symbols.iter().any(|symbol| symbol.len() > usize::from(u8::MAX));
    let code = if wide { 0xb3 } else { 0xa3 };
    let start = begin_compound(out, 0xe0);
    out.put_u8(code);
    symbols.iter().for_each(|symbol| put_octets(out, wide, symbol.as_bytes()));
    end_compound(out, start, symbols.len());
}

/// Appends a map.
pub fn put_map(out: &mut BytesMut, map: &Map) {
    let start = begin_compound(out, 0xc1);
    put_pairs(out, map);
    end_compound(out, start, map.len().saturating_mul(2));
}

/// Appends a map. `fill` appends its keys and values, and returns the number of pairs.
#[inline]
pub fn put_map_with(out: &mut BytesMut, fill: impl FnOnce(&mut BytesMut) -> usize) {
    let start = begin_compound(out, 0xc1);
    let pairs = fill(out);
    end_compound(out, start, pairs.saturating_mul(2));
}

/// Appends a list. `fill` appends its items, and returns their number.
#[inline]
pub fn put_list_with(out: &mut BytesMut, fill: impl FnOnce(&mut BytesMut) -> usize) {
    let start = begin_compound(out, 0xc0);
    match fill(out) {
        0 => {
            out.truncate(start);
            out.put_u8(0x45);
        }
        items => end_compound(out, start, items),
    }
}

/// Appends `0x00` and a numeric descriptor. The caller must append the described value.
#[inline]
pub fn put_descriptor(out: &mut BytesMut, code: u64) {
    out.put_u8(0x00);
    put_u64(out, code);
}

/// Writes the list of a composite, without trailing nulls [1.4].
///
/// ```
/// use amqp10::encode::ListWriter;
/// let mut out = bytes::BytesMut::new();
/// let mut list = ListWriter::new(&mut out, amqp10::descriptor::END);
/// list.null();
/// list.finish();
/// assert_eq!(&out[..], [0x00, 0x53, 0x17, 0x45]);
/// ```
#[derive(Debug)]
pub struct ListWriter<'o> {
    out: &'o mut BytesMut,
    start: usize,
    count: usize,
    /// The number of null fields that are not written yet. They are left out if no other field follows.
    nulls: usize,
}

impl<'o> ListWriter<'o> {
    /// Writes the descriptor and begins the list.
    #[inline]
    pub fn new(out: &'o mut BytesMut, descriptor: u64) -> Self {
        put_descriptor(out, descriptor);
        let start = begin_compound(out, 0xc0);
        Self { out, start, count: 0, nulls: 0 }
    }

    /// Adds an absent field.
    #[inline]
    pub fn null(&mut self) {
        self.nulls = self.nulls.saturating_add(1);
    }

    /// Adds a field. The caller must write exactly one value to the returned buffer.
    #[inline]
    pub fn field(&mut self) -> &mut BytesMut {
        for _ in 0..self.nulls {
            put_null(self.out);
        }
        self.count = self.count.saturating_add(self.nulls).saturating_add(1);
        self.nulls = 0;
        self.out
    }

    /// Adds a field that is always written.
    #[inline]
    pub fn put<T: Encode + ?Sized>(&mut self, value: &T) {
        value.encode(self.field());
    }

    /// Adds a field without a default.
    #[inline]
    pub fn optional<T: Encode>(&mut self, value: &Option<T>) {
        match value {
            Some(value) => self.put(value),
            None => self.null(),
        }
    }

    /// Adds a field with a default. The default itself is not written.
    #[inline]
    pub fn or<T: Encode + PartialEq>(&mut self, value: &T, default: &T) {
        if value == default { self.null() } else { self.put(value) }
    }

    /// Adds a field declared `multiple`. An empty slice is written as null.
    pub fn multiple(&mut self, symbols: &[Symbol]) {
        if symbols.is_empty() { self.null() } else { put_symbols(self.field(), symbols) }
    }

    /// Adds a timestamp, in milliseconds since the Unix epoch.
    pub fn timestamp(&mut self, unix_ms: Option<i64>) {
        match unix_ms {
            Some(unix_ms) => put_timestamp(self.field(), unix_ms),
            None => self.null(),
        }
    }

    /// Ends the list, as `list0` if it is empty.
    #[inline]
    pub fn finish(self) {
        if self.count == 0 {
            self.out.truncate(self.start);
            self.out.put_u8(0x45);
        } else {
            end_compound(self.out, self.start, self.count);
        }
    }
}

impl Encode for bool {
    fn encode(&self, out: &mut BytesMut) {
        put_bool(out, *self);
    }
}

impl Encode for u8 {
    fn encode(&self, out: &mut BytesMut) {
        put_u8(out, *self);
    }
}

impl Encode for u16 {
    fn encode(&self, out: &mut BytesMut) {
        put_u16(out, *self);
    }
}

impl Encode for u32 {
    #[inline]
    fn encode(&self, out: &mut BytesMut) {
        put_u32(out, *self);
    }
}

impl Encode for u64 {
    fn encode(&self, out: &mut BytesMut) {
        put_u64(out, *self);
    }
}

impl Encode for str {
    fn encode(&self, out: &mut BytesMut) {
        put_str(out, self);
    }
}

impl Encode for String {
    fn encode(&self, out: &mut BytesMut) {
        put_str(out, self);
    }
}

impl Encode for Symbol {
    fn encode(&self, out: &mut BytesMut) {
        put_symbol(out, self);
    }
}

impl Encode for bytes::Bytes {
    fn encode(&self, out: &mut BytesMut) {
        put_binary(out, self);
    }
}

impl Encode for Vec<Symbol> {
    fn encode(&self, out: &mut BytesMut) {
        put_symbols(out, self);
    }
}

impl Encode for Map {
    fn encode(&self, out: &mut BytesMut) {
        put_map(out, self);
    }
}

impl Encode for Value {
    fn encode(&self, out: &mut BytesMut) {
        put_value(out, self);
    }
}

/// Bytes of a format code, an 8-bit size and an 8-bit count.
const COMPOUND8_HEAD: usize = 3;
/// Bytes of a format code, a 32-bit size and a 32-bit count.
const COMPOUND32_HEAD: usize = 9;

/// Writes the head of a list, map or array in the 8-bit form. The code of the 32-bit form is `code + 0x10`.
#[inline]
fn begin_compound(out: &mut BytesMut, code: u8) -> usize {
    let start = out.len();
    out.put_slice(&[code, 0, 0]);
    start
}

/// Writes size and count into the head, and widens the head if they need it.
#[inline]
fn end_compound(out: &mut BytesMut, start: usize, count: usize) {
    let content = out.len() - start - COMPOUND8_HEAD;
    // The size includes the count.
    if let (Ok(size), Ok(count)) = (u8::try_from(content + 1), u8::try_from(count)) {
        out[start + 1] = size;
        out[start + 2] = count;
        return;
    }
    widen_compound(out, start, content, count);
}

#[cold]
fn widen_compound(out: &mut BytesMut, start: usize, content: usize, count: usize) {
    let from = start + COMPOUND8_HEAD;
    out.put_bytes(0, COMPOUND32_HEAD - COMPOUND8_HEAD);
    out.copy_within(from..from + content, start + COMPOUND32_HEAD);
    out[start] += 0x10;
    out[start + 1..start + 5].copy_from_slice(&wire_length(content + 4).to_be_bytes());
    out[start + 5..start + 9].copy_from_slice(&wire_length(count).to_be_bytes());
}

fn put_pairs(out: &mut BytesMut, map: &Map) {
    for (key, value) in map {
        put_value(out, key);
        put_value(out, value);
    }
}

fn put_array(out: &mut BytesMut, array: &Array) {
    let start = begin_compound(out, 0xe0);
    put_elements(out, array);
    end_compound(out, start, array.items().len());
}

/// Appends the constructor and the items.
fn put_elements(out: &mut BytesMut, array: &Array) {
    let constructor = array.constructor();
    for descriptor in &constructor.descriptors {
        out.put_u8(0x00);
        put_value(out, descriptor);
    }
    out.put_u8(constructor.code);
    array.items().iter().for_each(|item| put_element(out, constructor.code, item));
}

/// Appends a value without its format code, in the width of that code. [`Array`] keeps code and items
/// consistent.
fn put_element(out: &mut BytesMut, code: u8, value: &Value) {
    let wide = code & 0x10 != 0;
    match value {
        // Format codes below 0x50 contain the value. In the small forms (0x5x) only the low byte is written.
        _ if code < 0x50 => {}
        Value::Null | Value::Described(_) => {}
        Value::Boolean(v) => out.put_u8((*v).into()),
        Value::Ubyte(v) => out.put_u8(*v),
        Value::Byte(v) => out.put_i8(*v),
        Value::Ushort(v) => out.put_u16(*v),
        Value::Short(v) => out.put_i16(*v),
        Value::Uint(v) => put_number(out, code, &v.to_be_bytes()),
        Value::Ulong(v) => put_number(out, code, &v.to_be_bytes()),
        Value::Int(v) => put_number(out, code, &v.to_be_bytes()),
        Value::Long(v) => put_number(out, code, &v.to_be_bytes()),
        Value::Float(v) => out.put_slice(&v.to_be_bytes()),
        Value::Double(v) => out.put_slice(&v.to_be_bytes()),
        Value::Decimal32(v) => out.put_slice(v),
        Value::Decimal64(v) => out.put_slice(v),
        Value::Decimal128(v) => out.put_slice(v),
        Value::Char(v) => out.put_u32((*v).into()),
        Value::Timestamp(v) => out.put_i64(*v),
        Value::Uuid(v) => out.put_slice(v),
        Value::Binary(octets) => put_octets(out, wide, octets),
        Value::String(text) => put_octets(out, wide, text.as_bytes()),
        Value::Symbol(symbol) => put_octets(out, wide, symbol.as_bytes()),
        Value::List(items) => {
            put_nested(out, wide, items.len(), |out| items.iter().for_each(|item| put_value(out, item)));
        }
        Value::Map(map) => put_nested(out, wide, map.len() * 2, |out| put_pairs(out, map)),
        Value::Array(array) => {
            put_nested(out, wide, array.items().len(), |out| put_elements(out, array));
        }
    }
}

/// Appends a list, map or array as an item of an array. The array's format code gives the width.
fn put_nested(out: &mut BytesMut, wide: bool, count: usize, content: impl FnOnce(&mut BytesMut)) {
    let start = out.len();
    out.put_bytes(0, if wide { 8 } else { 2 });
    content(out);
    let size = out.len() - start;
    if wide {
        out[start..start + 4].copy_from_slice(&wire_length(size - 4).to_be_bytes());
        out[start + 4..start + 8].copy_from_slice(&wire_length(count).to_be_bytes());
    } else {
        debug_assert!(
            size - 1 <= 0xff && count <= 0xff,
            "a narrow element was decoded from a narrow element"
        );
        out[start] = (size - 1) as u8;
        out[start + 1] = count as u8;
    }
}

fn put_number(out: &mut BytesMut, code: u8, be_bytes: &[u8]) {
    let small = code & 0xf0 == 0x50;
    out.put_slice(if small { &be_bytes[be_bytes.len() - 1..] } else { be_bytes });
}

#[inline]
fn put_fixed(out: &mut BytesMut, code: u8, be_bytes: &[u8]) {
    out.put_u8(code);
    out.put_slice(be_bytes);
}

fn put_variable(out: &mut BytesMut, code8: u8, octets: &[u8]) {
    let wide = octets.len() > usize::from(u8::MAX);
    out.put_u8(if wide { code8 | 0x10 } else { code8 });
    put_octets(out, wide, octets);
}

fn put_octets(out: &mut BytesMut, wide: bool, octets: &[u8]) {
    if wide {
        out.put_u32(wire_length(octets.len()))
    } else {
        out.put_u8(octets.len() as u8)
    }
    out.put_slice(octets);
}

fn fixed_code(value: &Value) -> u8 {
    match value {
        Value::Byte(_) => 0x51,
        Value::Short(_) => 0x61,
        Value::Float(_) => 0x72,
        Value::Double(_) => 0x82,
        Value::Decimal32(_) => 0x74,
        Value::Decimal64(_) => 0x84,
        Value::Decimal128(_) => 0x94,
        Value::Char(_) => 0x73,
        Value::Timestamp(_) => 0x83,
        Value::Uuid(_) => 0x98,
        _ => 0x40,
    }
}

/// Returns a length as it is written to the wire.
fn wire_length(len: usize) -> u32 {
    debug_assert!(u32::try_from(len).is_ok(), "sizes on the wire have 32 bits");
    len as u32
}
