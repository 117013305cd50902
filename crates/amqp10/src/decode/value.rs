//! Reading values of any type into [`Value`].

use bytes::Bytes;

use super::{DecodeError, MAX_NESTING, Reader, ascii, own_symbol, utf8};
use crate::types::{Array, Constructor, Described, Map, Value};

/// The largest number of items for which memory is reserved in advance. Longer collections grow while their
/// bytes are read.
const RESERVE_MAX: usize = 64;

impl<'a> Reader<'a> {
    pub(super) fn value(&mut self, depth: u32) -> Result<Value, DecodeError> {
        let at = self.offset();
        let code = self.byte()?;
        if code != 0x00 {
            return self.primitive(code, depth);
        }
        let depth = deeper(depth, at)?;
        let descriptor = self.value(depth)?;
        let value = self.value(depth)?;
        Ok(Value::Described(Box::new(Described { descriptor, value })))
    }

    /// Reads the part of a primitive after its format code. An array has the code only once, before the first
    /// item.
    fn primitive(&mut self, code: u8, depth: u32) -> Result<Value, DecodeError> {
        let at = self.offset();
        Ok(match code {
            0x40 => Value::Null,
            0x41 => Value::Boolean(true),
            0x42 => Value::Boolean(false),
            0x43 => Value::Uint(0),
            0x44 => Value::Ulong(0),
            0x45 => Value::List(Vec::new()),
            0x50 => Value::Ubyte(self.byte()?),
            0x51 => Value::Byte(i8::from_be_bytes(self.chunk()?)),
            0x52 => Value::Uint(self.byte()?.into()),
            0x53 => Value::Ulong(self.byte()?.into()),
            0x54 => Value::Int(i8::from_be_bytes(self.chunk()?).into()),
            0x55 => Value::Long(i8::from_be_bytes(self.chunk()?).into()),
            0x56 => Value::Boolean(self.boolean_octet()?),
            0x60 => Value::Ushort(u16::from_be_bytes(self.chunk()?)),
            0x61 => Value::Short(i16::from_be_bytes(self.chunk()?)),
            0x70 => Value::Uint(u32::from_be_bytes(self.chunk()?)),
            0x71 => Value::Int(i32::from_be_bytes(self.chunk()?)),
            0x72 => Value::Float(f32::from_be_bytes(self.chunk()?)),
            0x73 => {
                let scalar = u32::from_be_bytes(self.chunk()?);
                Value::Char(char::from_u32(scalar).ok_or(DecodeError::InvalidChar { offset: at })?)
            }
            0x74 => Value::Decimal32(self.chunk()?),
            0x80 => Value::Ulong(u64::from_be_bytes(self.chunk()?)),
            0x81 => Value::Long(i64::from_be_bytes(self.chunk()?)),
            0x82 => Value::Double(f64::from_be_bytes(self.chunk()?)),
            0x83 => Value::Timestamp(i64::from_be_bytes(self.chunk()?)),
            0x84 => Value::Decimal64(self.chunk()?),
            0x94 => Value::Decimal128(self.chunk()?),
            0x98 => Value::Uuid(self.chunk()?),
            0xa0 => Value::Binary(Bytes::copy_from_slice(self.variable8()?)),
            0xb0 => Value::Binary(Bytes::copy_from_slice(self.variable32()?)),
            0xa1 => Value::String(utf8(self.variable8()?, at)?.to_owned()),
            0xb1 => Value::String(utf8(self.variable32()?, at)?.to_owned()),
            0xa3 => Value::Symbol(own_symbol(ascii(self.variable8()?, at)?)),
            0xb3 => Value::Symbol(own_symbol(ascii(self.variable32()?, at)?)),
            0xc0 | 0xd0 => {
                let (count, inner) = if code == 0xc0 { self.compound8()? } else { self.compound32()? };
                Value::List(self.items(count, inner, depth, at)?)
            }
            0xc1 | 0xd1 => {
                let (count, inner) = if code == 0xc1 { self.compound8()? } else { self.compound32()? };
                Value::Map(self.pairs(count, inner, depth, at)?)
            }
            0xe0 | 0xf0 => {
                let (constructor, items) = self.array(code, depth)?;
                Value::Array(Array::from_parts(constructor, items))
            }
            _ => return Err(DecodeError::UnknownConstructor { offset: at.saturating_sub(1), code }),
        })
    }

    fn items(
        &mut self,
        count: u32,
        mut inner: Reader<'a>,
        depth: u32,
        at: u32,
    ) -> Result<Vec<Value>, DecodeError> {
        let depth = deeper(depth, at)?;
        inner.check_count(count, at)?;
        let mut items = reserve(count);
        for _ in 0..count {
            items.push(inner.value(depth)?);
        }
        self.leave(inner)?;
        Ok(items)
    }

    fn pairs(&mut self, count: u32, mut inner: Reader<'a>, depth: u32, at: u32) -> Result<Map, DecodeError> {
        let depth = deeper(depth, at)?;
        if !count.is_multiple_of(2) {
            return Err(DecodeError::OddMap { offset: at });
        }
        inner.check_count(count, at)?;
        let mut pairs = reserve(count / 2);
        for _ in 0..count / 2 {
            let key = inner.value(depth)?;
            pairs.push((key, inner.value(depth)?));
        }
        self.leave(inner)?;
        Ok(Map(pairs))
    }

    pub(super) fn array(&mut self, code: u8, depth: u32) -> Result<(Constructor, Vec<Value>), DecodeError> {
        let at = self.offset();
        let depth = deeper(depth, at)?;
        let (count, mut inner) = if code == 0xe0 { self.compound8()? } else { self.compound32()? };
        let mut descriptors = Vec::new();
        let code = loop {
            let at = inner.offset();
            match inner.byte()? {
                0x00 => {
                    // Descriptors of descriptors nest as described values do.
                    let used = u32::try_from(descriptors.len()).unwrap_or(u32::MAX);
                    let depth = deeper(depth.saturating_add(used), at)?;
                    descriptors.push(inner.value(depth)?);
                }
                code => break code,
            }
        };
        match element_width(code) {
            Some(0) => {
                let left = inner.zero_width_left.checked_sub(count);
                inner.zero_width_left = left.ok_or(DecodeError::TooManyItems { offset: at })?;
            }
            Some(width) => {
                let least = usize::try_from(count).ok().and_then(|count| count.checked_mul(width));
                if least.is_none_or(|least| least > inner.rest.len()) {
                    return Err(DecodeError::CountTooLarge { offset: at });
                }
            }
            None => {
                return Err(DecodeError::UnknownConstructor {
                    offset: inner.offset().saturating_sub(1),
                    code,
                });
            }
        }
        let mut items = reserve(count);
        for _ in 0..count {
            items.push(inner.primitive(code, depth)?);
        }
        self.leave(inner)?;
        Ok((Constructor { descriptors, code }, items))
    }

    /// Returns from a nested reader to this one. The nested reader must be used up. The zero-width items that
    /// it read count for this reader, too.
    fn leave(&mut self, inner: Reader<'a>) -> Result<(), DecodeError> {
        inner.expect_end()?;
        self.zero_width_left = inner.zero_width_left;
        Ok(())
    }
}

/// Returns the smallest size of an array item in bytes. `None` for a code that the standard does not define.
fn element_width(code: u8) -> Option<usize> {
    match code {
        0x40..=0x45 => Some(0),
        0x50..=0x56 | 0xa0 | 0xa1 | 0xa3 => Some(1),
        0x60 | 0x61 | 0xc0 | 0xc1 => Some(2),
        0x70..=0x74 | 0xb0 | 0xb1 | 0xb3 => Some(4),
        0x80..=0x84 | 0xd0 | 0xd1 => Some(8),
        0x94 | 0x98 => Some(16),
        // An array needs at least the bytes of its size, its count and its constructor.
        0xe0 => Some(3),
        0xf0 => Some(9),
        _ => None,
    }
}

fn deeper(depth: u32, at: u32) -> Result<u32, DecodeError> {
    if depth >= MAX_NESTING { Err(DecodeError::TooDeep { offset: at }) } else { Ok(depth.saturating_add(1)) }
}

fn reserve<T>(count: u32) -> Vec<T> {
    Vec::with_capacity(usize::try_from(count).unwrap_or(RESERVE_MAX).min(RESERVE_MAX))
}
