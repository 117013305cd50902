//! The filter of a chunk: the values that its entries may have.
//!
//! ```text
//!  byte 0                      | byte 1                      | ...  16..=255 bytes
//!  | none | v1 | v2 | .. | v7  | v8 | v9 | ..          | v15 |
//! ```
//!
//! A Bloom filter; the most significant bit of a byte is the first. Bit 0 says that an entry has no value.
//! The other bits, `m` of them, belong to the values. A value sets the bits `1 + (h1 + i * h2) mod m` for `i`
//! in `0..K`. `h1` and `h2` are the upper and the lower half of its 64-bit hash; `h2` is made odd. The hash
//! is FNV-1a followed by the final mix of SplitMix64, because the upper bits of FNV differ too little for
//! short values.
//!
//! With `K` = 3 and the smallest filter, 16 bytes, 8 values give 0.5 % false positives and 16 values 3 %.
//!
//! A chunk without a filter has no entry with a value. A client that can choose values can fill a filter.
//! Then readers only read more than they need.

use std::sync::Arc;

/// The minimum and the maximum length of a filter in bytes. The format stores the length in one byte, where 0
/// is no filter.
pub const BLOOM_BYTES_MIN: u8 = 16;
pub const BLOOM_BYTES_MAX: u8 = 255;

/// The number of bits that a value sets.
const K: u32 = 3;

/// The bit that says that an entry has no value.
const NONE: usize = 0;

/// The filter of a chunk that is being filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bloom(Box<[u8]>);

impl Bloom {
    /// Returns an empty filter of at least [`BLOOM_BYTES_MIN`] bytes.
    pub fn new(bytes: u8) -> Self {
        Self(vec![0; usize::from(bytes.max(BLOOM_BYTES_MIN))].into())
    }

    /// Notes that an entry has this value.
    pub fn insert(&mut self, value: &[u8]) {
        for bit in bits(value, self.0.len()) {
            self.set(bit);
        }
    }

    /// Notes that an entry has no value.
    pub fn insert_none(&mut self) {
        self.set(NONE);
    }

    /// Returns the filter as it is stored in the chunk.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn set(&mut self, bit: usize) {
        self.0[bit / 8] |= 0x80 >> (bit % 8);
    }
}

/// What a reader wants: entries with one of these values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Shared with the reader, which asks for chunks again and again.
    pub values: Arc<[Box<[u8]>]>,
    /// True if entries without a value are wanted, too.
    pub none: bool,
}

impl Wanted {
    /// Returns true if a chunk with this filter may hold a wanted entry. An empty filter matches if entries
    /// without a value are wanted.
    pub fn may_match(&self, bloom: &[u8]) -> bool {
        if bloom.is_empty() {
            return self.none;
        }
        let has = |bit: usize| bloom.get(bit / 8).is_some_and(|byte| byte & (0x80 >> (bit % 8)) != 0);
        let has_value = |value: &[u8]| bits(value, bloom.len()).all(has);
        // Earlier versions stored an empty value, which counts as none, like any other value.
        self.none && (has(NONE) || has_value(b"")) || self.values.iter().any(|value| has_value(value))
    }
}

/// Returns the bits of a value in a filter of `bytes` bytes, at least one.
fn bits(value: &[u8], bytes: usize) -> impl Iterator<Item = usize> {
    let hash = hash(value);
    let (h1, h2) = ((hash >> 32) as u32, hash as u32 | 1);
    let m = bytes as u32 * 8 - 1;
    (0..K).map(move |i| 1 + (h1.wrapping_add(i.wrapping_mul(h2)) % m) as usize)
}

fn hash(value: &[u8]) -> u64 {
    let fnv = value.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut mix = fnv;
    mix = (mix ^ (mix >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mix = (mix ^ (mix >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mix ^ (mix >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(values: &[&str], none: bool) -> Wanted {
        Wanted { values: values.iter().map(|value| value.as_bytes().into()).collect(), none }
    }

    #[test]
    fn inserted_values_match() {
        for bytes in [16, 17, 100, 255] {
            let mut bloom = Bloom::new(bytes);
            assert_eq!(bloom.as_bytes().len(), usize::from(bytes));
            assert!(!wanted(&["emea", "apac"], true).may_match(bloom.as_bytes()));
            bloom.insert(b"emea");
            assert!(wanted(&["apac", "emea"], false).may_match(bloom.as_bytes()));
            assert!(!wanted(&["apac"], true).may_match(bloom.as_bytes()));
            bloom.insert_none();
            assert!(wanted(&["apac"], true).may_match(bloom.as_bytes()));
            assert!(!wanted(&["apac"], false).may_match(bloom.as_bytes()));
        }
        assert_eq!(Bloom::new(3).as_bytes().len(), 16);
        assert!(wanted(&[], true).may_match(b"") && !wanted(&["emea"], false).may_match(b""));
        assert!(!wanted(&[], false).may_match(&[0xff; 16]));
    }

    /// Earlier versions inserted the empty value as a value.
    #[test]
    fn an_empty_value_counts_as_none() {
        let mut bloom = Bloom::new(16);
        bloom.insert(b"");
        assert!(wanted(&["emea"], true).may_match(bloom.as_bytes()));
        assert!(!wanted(&["emea"], false).may_match(bloom.as_bytes()));
    }

    /// Filters are stored in files, so neither the hash nor the bits may ever change.
    #[test]
    fn the_bits_are_golden() {
        assert_eq!(hash(b""), 0xf52a_15e9_a9b5_e89b);
        let mut bloom = Bloom::new(16);
        ["emea", "apac", ""].iter().for_each(|value| bloom.insert(value.as_bytes()));
        bloom.insert_none();
        assert_eq!(
            format!("{:032x}", u128::from_be_bytes(bloom.as_bytes().try_into().unwrap())),
            "90010020000040000000100400000202"
        );
    }

    /// False positives per thousand: for 8 values in 16 bytes, and for 100 values in 255 bytes. The values are
    /// fixed, so these numbers never change.
    #[test]
    fn false_positives_are_rare() {
        for (bytes, values, most) in [(16, 8, 10), (255, 100, 10)] {
            let mut bloom = Bloom::new(bytes);
            (0..values).for_each(|value: u32| bloom.insert(format!("value {value}").as_bytes()));
            let hits = (0..1000)
                .filter(|other| wanted(&[&format!("other {other}")], false).may_match(bloom.as_bytes()))
                .count();
            assert!(hits <= most, "{hits} false hits in 1000 with {values} values in {bytes} bytes");
        }
    }
}
