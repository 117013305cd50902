//! The AMQP 1.0 type system as owned Rust values [1.1 – 1.6].
//!
//! Messages are not converted to these types on their way through the broker. The types are for control data,
//! such as connection properties and filters, and for annotations that are inspected.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use bytes::Bytes;

/// A symbolic value from a constrained domain, 7-bit ASCII [1.6.21].
///
/// Well-known symbols are `const` and cost no allocation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Symbol(Cow<'static, str>);

impl Symbol {
    /// A symbol known at compile time.
    pub const fn from_static(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }

    /// Returns the text of the symbol.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for Symbol {
    fn from(text: String) -> Self {
        Self(Cow::Owned(text))
    }
}

impl From<&'static str> for Symbol {
    fn from(text: &'static str) -> Self {
        Self::from_static(text)
    }
}

impl Deref for Symbol {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Symbol {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for Symbol {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Symbol {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ":{}", self.0)
    }
}

/// Any AMQP value, primitive or described [1.6].
///
/// Floats compare by their bits, so that equality is total: `NaN == NaN`, `0.0 != -0.0`.
#[derive(Debug, Clone)]
pub enum Value {
    /// The absent value [1.6.1].
    Null,
    /// [1.6.2]
    Boolean(bool),
    /// [1.6.3]
    Ubyte(u8),
    /// [1.6.4]
    Ushort(u16),
    /// [1.6.5]
    Uint(u32),
    /// [1.6.6]
    Ulong(u64),
    /// [1.6.7]
    Byte(i8),
    /// [1.6.8]
    Short(i16),
    /// [1.6.9]
    Int(i32),
    /// [1.6.10]
    Long(i64),
    /// [1.6.11]
    Float(f32),
    /// [1.6.12]
    Double(f64),
    /// IEEE 754-2008 decimal32 with a binary integer significand, as the bytes on the wire [1.6.13].
    Decimal32([u8; 4]),
    /// IEEE 754-2008 decimal64, as the bytes on the wire [1.6.14].
    Decimal64([u8; 8]),
    /// IEEE 754-2008 decimal128, as the bytes on the wire [1.6.15].
    Decimal128([u8; 16]),
    /// One Unicode character [1.6.16].
    Char(char),
    /// Milliseconds since the Unix epoch [1.6.17].
    Timestamp(i64),
    /// [1.6.18]
    Uuid([u8; 16]),
    /// [1.6.19]
    Binary(Bytes),
    /// [1.6.20]
    String(String),
    /// [1.6.21]
    Symbol(Symbol),
    /// [1.6.22]
    List(Vec<Value>),
    /// [1.6.23]
    Map(Map),
    /// [1.6.24]
    Array(Array),
    /// A value with a descriptor that gives it a meaning [1.2].
    Described(Box<Described>),
}

impl Value {
    /// Returns the bytes of memory that the value takes besides itself.
    pub fn heap_bytes(&self) -> usize {
        let of_all =
            |values: &[Self]| values.iter().map(|value| size_of::<Self>() + value.heap_bytes()).sum();
        match self {
            Self::Binary(bytes) => bytes.len(),
            Self::String(text) => text.len(),
            Self::Symbol(symbol) => symbol.as_str().len(),
            Self::List(values) => of_all(values),
            Self::Map(map) => map.heap_bytes(),
            Self::Array(array) => of_all(&array.items),
            Self::Described(described) => {
                size_of::<Described>() + described.descriptor.heap_bytes() + described.value.heap_bytes()
            }
            _ => 0,
        }
    }

    /// Returns the text of a string or of a symbol.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            Self::Symbol(symbol) => Some(symbol),
            _ => None,
        }
    }

    /// Returns any integer type, signed or not, if it is not negative. Timestamps and characters are not
    /// integers.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Self::Ubyte(v) => Some(v.into()),
            Self::Ushort(v) => Some(v.into()),
            Self::Uint(v) => Some(v.into()),
            Self::Ulong(v) => Some(v),
            Self::Byte(v) => v.try_into().ok(),
            Self::Short(v) => v.try_into().ok(),
            Self::Int(v) => v.try_into().ok(),
            Self::Long(v) => v.try_into().ok(),
            _ => None,
        }
    }

    /// Returns any integer type, signed or not, if it fits.
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Self::Byte(v) => Some(v.into()),
            Self::Short(v) => Some(v.into()),
            Self::Int(v) => Some(v.into()),
            Self::Long(v) => Some(v),
            _ => self.as_u64().and_then(|v| v.try_into().ok()),
        }
    }

    /// Returns a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Boolean(v) = *self { Some(v) } else { None }
    }

    /// Returns a map.
    pub fn as_map(&self) -> Option<&Map> {
        if let Self::Map(map) = self { Some(map) } else { None }
    }

    /// Returns a list.
    pub fn as_list(&self) -> Option<&[Value]> {
        if let Self::List(items) = self { Some(items) } else { None }
    }

    /// Returns the octets of a binary.
    pub fn as_binary(&self) -> Option<&Bytes> {
        if let Self::Binary(octets) = self { Some(octets) } else { None }
    }

    /// Returns true if this is the absent value.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        use Value::*;
        match (self, other) {
            (Null, Null) => true,
            (Boolean(a), Boolean(b)) => a == b,
            (Ubyte(a), Ubyte(b)) => a == b,
            (Ushort(a), Ushort(b)) => a == b,
            (Uint(a), Uint(b)) => a == b,
            (Ulong(a), Ulong(b)) => a == b,
            (Byte(a), Byte(b)) => a == b,
            (Short(a), Short(b)) => a == b,
            (Int(a), Int(b)) => a == b,
            (Long(a), Long(b)) => a == b,
            (Float(a), Float(b)) => a.to_bits() == b.to_bits(),
            (Double(a), Double(b)) => a.to_bits() == b.to_bits(),
            (Decimal32(a), Decimal32(b)) => a == b,
            (Decimal64(a), Decimal64(b)) => a == b,
            (Decimal128(a), Decimal128(b)) => a == b,
            (Char(a), Char(b)) => a == b,
            (Timestamp(a), Timestamp(b)) => a == b,
            (Uuid(a), Uuid(b)) => a == b,
            (Binary(a), Binary(b)) => a == b,
            (String(a), String(b)) => a == b,
            (Symbol(a), Symbol(b)) => a == b,
            (List(a), List(b)) => a == b,
            (Map(a), Map(b)) => a == b,
            (Array(a), Array(b)) => a == b,
            (Described(a), Described(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Value {}

/// A value and the descriptor that gives it a meaning [1.2].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// In practice a ulong or a symbol. The specification reserves every other type.
    pub descriptor: Value,
    /// The described value.
    pub value: Value,
}

/// A map in the order of the wire [1.6.23].
///
/// It is a plain vector of pairs, because the maps of the protocol have only a few keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Map(pub Vec<(Value, Value)>);

impl Map {
    /// An empty map.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns the bytes of memory that the map takes besides itself.
    pub fn heap_bytes(&self) -> usize {
        let pairs = self.0.iter();
        pairs.map(|(key, value)| size_of::<(Value, Value)>() + key.heap_bytes() + value.heap_bytes()).sum()
    }

    /// Returns the value of the first key with this text, whether string or symbol.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(k, _)| k.as_str() == Some(key)).map(|(_, value)| value)
    }

    /// Sets a key. Replaces the value of an equal key of the same type.
    pub fn insert(&mut self, key: impl Into<Value>, value: impl Into<Value>) {
        let (key, value) = (key.into(), value.into());
        match self.0.iter_mut().find(|(k, _)| *k == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key, value)),
        }
    }

    /// Returns the pairs in order.
    pub fn iter(&self) -> std::slice::Iter<'_, (Value, Value)> {
        self.0.iter()
    }

    /// The number of pairs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<K: Into<Value>, V: Into<Value>> FromIterator<(K, V)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect())
    }
}

impl<'a> IntoIterator for &'a Map {
    type Item = &'a (Value, Value);
    type IntoIter = std::slice::Iter<'a, (Value, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl IntoIterator for Map {
    type Item = (Value, Value);
    type IntoIter = std::vec::IntoIter<(Value, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// A sequence of values of one type [1.6.24].
///
/// The fields are private because every item must fit the one constructor that all items share. Create arrays
/// with [`Array::symbols`] or [`Array::try_from_items`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Array {
    constructor: Constructor,
    items: Vec<Value>,
}

/// What all items of an [`Array`] share: descriptors, outermost first, and the format code of the primitive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constructor {
    /// Usually empty. An array of a described type has one.
    pub descriptors: Vec<Value>,
    /// The format code of the primitive, such as `0xa3` for short symbols.
    pub code: u8,
}

impl Array {
    /// Creates an array of symbols, the only kind of array that the protocol itself uses.
    pub fn symbols(symbols: impl IntoIterator<Item = Symbol>) -> Self {
        let items: Vec<Value> = symbols.into_iter().map(Value::Symbol).collect();
        let code = items.iter().map(array_code).max().unwrap_or(0xa3);
        Self::from_parts(Constructor { descriptors: Vec::new(), code }, items)
    }

    /// Creates an array of items of one type. Returns `None` if the types differ, if there are no items, or
    /// if an item is described. Arrays with descriptors are created by decoding only.
    pub fn try_from_items(items: Vec<Value>) -> Option<Self> {
        let first = std::mem::discriminant(items.first()?);
        let fits = |v: &Value| std::mem::discriminant(v) == first && !matches!(v, Value::Described(_));
        if !items.iter().all(fits) {
            return None;
        }
        let code = items.iter().map(array_code).max()?;
        Some(Self::from_parts(Constructor { descriptors: Vec::new(), code }, items))
    }

    /// Returns what the items share.
    pub fn constructor(&self) -> &Constructor {
        &self.constructor
    }

    /// Returns the items, without the descriptors of the constructor.
    pub fn items(&self) -> &[Value] {
        &self.items
    }

    /// Creates an array. The caller ensures that every item fits the constructor.
    pub(crate) fn from_parts(constructor: Constructor, items: Vec<Value>) -> Self {
        Self { constructor, items }
    }
}

/// Returns the narrowest format code that is safe for an array item of this value. Within one type a wider
/// code is the greater number, so the maximum over the items fits them all.
fn array_code(value: &Value) -> u8 {
    let narrow = |len: usize, code: u8| if len <= usize::from(u8::MAX) { code } else { code | 0x10 };
    match value {
        Value::Null | Value::Described(_) => 0x40,
        Value::Boolean(_) => 0x56,
        Value::Ubyte(_) => 0x50,
        Value::Ushort(_) => 0x60,
        Value::Uint(_) => 0x70,
        Value::Ulong(_) => 0x80,
        Value::Byte(_) => 0x51,
        Value::Short(_) => 0x61,
        Value::Int(_) => 0x71,
        Value::Long(_) => 0x81,
        Value::Float(_) => 0x72,
        Value::Double(_) => 0x82,
        Value::Decimal32(_) => 0x74,
        Value::Decimal64(_) => 0x84,
        Value::Decimal128(_) => 0x94,
        Value::Char(_) => 0x73,
        Value::Timestamp(_) => 0x83,
        Value::Uuid(_) => 0x98,
        Value::Binary(octets) => narrow(octets.len(), 0xa0),
        Value::String(text) => narrow(text.len(), 0xa1),
        Value::Symbol(symbol) => narrow(symbol.len(), 0xa3),
        Value::List(_) => 0xd0,
        Value::Map(_) => 0xd1,
        Value::Array(_) => 0xf0,
    }
}

macro_rules! value_from {
    ($($from:ty => $variant:ident),* $(,)?) => {
        $(impl From<$from> for Value {
            fn from(value: $from) -> Self {
                Self::$variant(value.into())
            }
        })*
    };
}

value_from! {
    bool => Boolean, u8 => Ubyte, u16 => Ushort, u32 => Uint, u64 => Ulong,
    i8 => Byte, i16 => Short, i32 => Int, i64 => Long, f32 => Float, f64 => Double, char => Char,
    String => String, &str => String, Symbol => Symbol, Bytes => Binary, Vec<Value> => List, Map => Map,
    Array => Array, Described => Described,
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn map_finds_strings_and_symbols() {
        let mut map = Map::new();
        map.insert("a", 1u32);
        map.insert(Symbol::from_static("b"), 2u32);
        map.insert("a", 3u32);
        assert_eq!(map.len(), 2);
        assert_eq!(map.get("a").and_then(Value::as_u64), Some(3));
        assert_eq!(map.get("b").and_then(Value::as_i64), Some(2));
        assert_eq!(map.get("c"), None);
    }

    #[test]
    fn floats_compare_by_bits() {
        assert_eq!(Value::Double(f64::NAN), Value::Double(f64::NAN));
        assert_ne!(Value::Float(0.0), Value::Float(-0.0));
        assert_ne!(Value::Uint(1), Value::Ulong(1));
    }

    #[test]
    fn integers_convert_when_they_fit() {
        assert_eq!(Value::Int(-1).as_u64(), None);
        assert_eq!(Value::Int(-1).as_i64(), Some(-1));
        assert_eq!(Value::Ulong(u64::MAX).as_i64(), None);
        assert_eq!(Value::Timestamp(1).as_u64(), None);
    }

    #[test]
    fn arrays_have_one_type() {
        assert!(Array::try_from_items(vec![Value::Uint(1), Value::Ulong(1)]).is_none());
        assert!(Array::try_from_items(Vec::new()).is_none());
        let long = "x".repeat(300);
        let array = Array::symbols([Symbol::from_static("a"), Symbol::from(long)]);
        assert_eq!(array.constructor().code, 0xb3);
    }
}
