//! Records: what a shard encodes during one turn (one iteration of its event loop), and the same bytes read
//! back.
//!
//! ```text
//!  0        8        16    20   21      24
//!  | owner  | seq    | len | k  | check | body ...
//!  | u64    | u64    | u32 | u8 | u24   | len bytes
//! ```
//!
//! Little-endian. `k` is the kind, `len` the length of the body. `check` is a mix of the other four fields.
//! The CRC-32C of the batch verifies its records. If that CRC fails, `check` still tells whose records the
//! batch held.

use std::io::IoSlice;

use bytes::Bytes;

/// The length of a record's header in bytes.
pub(crate) const RECORD_HEADER: usize = 24;
const _: () = assert!(RECORD_HEADER == 8 + 8 + 4 + 1 + 3);

/// [`Records::push_shared`] copies tails shorter than this many bytes and keeps longer ones as slices.
pub const LARGE: usize = 4096;

/// One record as it was read from the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The number of the record's owner.
    pub owner: u64,
    /// The number that the owner gave it.
    pub seq: u64,
    /// The kind that the owner gave it.
    pub kind: u8,
    /// The number of the log file that counts for this record: once that file is forgotten, so is the record.
    /// Never lower than that of an earlier record. 0 for a record of a pack.
    pub file: u64,
    /// The number of its batch in the log. No two batches ever have the same number, and later ones have higher numbers. 0 for a
    /// record of another file.
    pub batch: u64,
    /// A record of the log has its own copy. A record of a pack has a slice of its block's buffer; see
    /// [`crate::Block`].
    pub body: Bytes,
}

/// Records encoded by a shard during one turn. Small bodies are copied, large ones are kept as slices for the
/// vectored write.
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// Headers and small bodies.
    copied: Vec<u8>,
    /// Large bodies. Each is written before the byte of `copied` at its offset.
    kept: Vec<(usize, Bytes)>,
    kept_bytes: usize,
    records: u32,
}

impl Records {
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an empty list with capacity for `bytes` of encoded records.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { copied: Vec::with_capacity(bytes), ..Self::default() }
    }

    /// Adds a record whose body is the concatenation of `parts`, copied.
    ///
    /// # Panics
    /// If the body is 4 GiB or more.
    pub fn push(&mut self, owner: u64, seq: u64, kind: u8, parts: &[&[u8]]) {
        self.record(owner, seq, kind, |records| {
            parts.iter().for_each(|part| records.copied.extend_from_slice(part));
        });
    }

    /// Adds a record. Its body is what `head` appends, followed by `tail`. The tail is copied if it is
    /// shorter than [`LARGE`], else kept as a slice until the record is written.
    ///
    /// # Panics
    /// If the body is 4 GiB or more.
    pub fn push_shared(
        &mut self,
        owner: u64,
        seq: u64,
        kind: u8,
        head: impl FnOnce(&mut Vec<u8>),
        tail: &Bytes,
    ) {
        self.record(owner, seq, kind, |records| {
            head(&mut records.copied);
            if tail.len() < LARGE {
                records.copied.extend_from_slice(tail);
            } else {
                records.kept_bytes += tail.len();
                records.kept.push((records.copied.len(), tail.clone()));
            }
        });
    }

    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.records as usize
    }

    /// Returns the number of bytes that the records take on the disk, headers included.
    pub fn bytes(&self) -> usize {
        self.copied.len() + self.kept_bytes
    }

    /// Calls `each` with the encoded bytes, in order and in as few pieces as possible.
    pub(crate) fn pieces<'a>(&'a self, mut each: impl FnMut(&'a [u8])) {
        let mut from = 0;
        for (at, tail) in &self.kept {
            each(&self.copied[from..*at]);
            each(tail);
            from = *at;
        }
        if from < self.copied.len() {
            each(&self.copied[from..]);
        }
    }

    /// Adds the encoded bytes to a vectored write.
    pub(crate) fn slices<'a>(&'a self, into: &mut Vec<IoSlice<'a>>) {
        self.pieces(|piece| into.push(IoSlice::new(piece)));
    }

    /// Adds a record. The header is filled in last, because it holds the length of the body.
    fn record(&mut self, owner: u64, seq: u64, kind: u8, body: impl FnOnce(&mut Self)) {
        let (at, before) = (self.copied.len(), self.bytes());
        self.copied.extend_from_slice(&[0; RECORD_HEADER]);
        body(self);
        let length = self.bytes() - before - RECORD_HEADER;
        let length = u32::try_from(length).expect("a body is shorter than 4 GiB");
        let header = &mut self.copied[at..at + RECORD_HEADER];
        header[..8].copy_from_slice(&owner.to_le_bytes());
        header[8..16].copy_from_slice(&seq.to_le_bytes());
        header[16..20].copy_from_slice(&length.to_le_bytes());
        header[20] = kind;
        header[21..].copy_from_slice(&check(owner, seq, length, kind));
        self.records += 1;
    }
}

/// Reads the record at the front of `payload` and returns it with its length. `file` becomes
/// [`Record::file`]. Returns `None` if the header is corrupt or the body does not fit.
pub(crate) fn front(payload: &Bytes, file: u64) -> Option<(Record, usize)> {
    let (owner, seq, kind, length) = front_header(payload)?;
    let end = RECORD_HEADER + length;
    Some((Record { owner, seq, kind, file, batch: 0, body: payload.slice(RECORD_HEADER..end) }, end))
}

/// Returns the owners of the records that fill `payload` exactly. Returns `None` if a header is corrupt or
/// the records do not end with the payload.
pub(crate) fn owners(payload: &[u8]) -> Option<Vec<u64>> {
    let mut rest = payload;
    let mut owners = Vec::new();
    while !rest.is_empty() {
        let (owner, _, _, length) = front_header(rest)?;
        owners.push(owner);
        rest = &rest[RECORD_HEADER + length..];
    }
    owners.sort_unstable();
    owners.dedup();
    Some(owners)
}

fn front_header(bytes: &[u8]) -> Option<(u64, u64, u8, usize)> {
    let header = bytes.get(..RECORD_HEADER)?;
    let owner = u64::from_le_bytes(header[..8].try_into().ok()?);
    let seq = u64::from_le_bytes(header[8..16].try_into().ok()?);
    let length = u32::from_le_bytes(header[16..20].try_into().ok()?);
    let kind = header[20];
    let fits = bytes.len() - RECORD_HEADER >= length as usize;
    (fits && header[21..] == check(owner, seq, length, kind)).then_some((owner, seq, kind, length as usize))
}

/// Computes `check`. Part of the format: three rounds of multiply and fold, then the top 24 bits.
fn check(owner: u64, seq: u64, length: u32, kind: u8) -> [u8; 3] {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut mix = MULTIPLIER;
    for word in [owner, seq, u64::from(length) << 8 | u64::from(kind)] {
        mix = (mix ^ word).wrapping_mul(MULTIPLIER);
        mix ^= mix >> 32;
    }
    let mix = mix.wrapping_mul(MULTIPLIER).to_le_bytes();
    [mix[5], mix[6], mix[7]]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(records: &Records) -> Bytes {
        let mut all = Vec::new();
        records.pieces(|piece| all.extend_from_slice(piece));
        all.into()
    }

    #[test]
    fn records_read_back_as_pushed() {
        let large = Bytes::from(vec![7; LARGE]);
        let mut records = Records::new();
        records.push(1, 10, 3, &[b"ab", b"", b"c"]);
        let head = |out: &mut Vec<u8>| out.extend_from_slice(b"head");
        records.push_shared(2, 11, 4, head, &large);
        records.push_shared(2, 12, 4, head, &large);
        records.push_shared(3, 13, 5, head, &Bytes::from_static(b"tail"));
        records.push(u64::MAX, u64::MAX, u8::MAX, &[]);
        let mut bytes = encoded(&records);
        assert_eq!((records.len(), records.bytes()), (5, bytes.len()));
        assert_eq!(owners(&bytes), Some(vec![1, 2, 3, u64::MAX]));
        let with_large = [b"head", large.as_ref()].concat();
        for (owner, seq, kind, body) in [
            (1, 10, 3, b"abc".as_slice()),
            (2, 11, 4, &with_large),
            (2, 12, 4, &with_large),
            (3, 13, 5, b"headtail"),
            (u64::MAX, u64::MAX, u8::MAX, b""),
        ] {
            let (record, end) = front(&bytes, 6).unwrap();
            assert_eq!(
                (record.owner, record.seq, record.kind, record.file, record.body.as_ref()),
                (owner, seq, kind, 6, body)
            );
            bytes = bytes.slice(end..);
        }
        assert!(bytes.is_empty());
    }

    #[test]
    fn large_bodies_are_not_copied() {
        let large = Bytes::from(vec![7; LARGE]);
        let mut records = Records::new();
        records.push_shared(1, 1, 1, |_| {}, &large);
        let mut kept = false;
        records.pieces(|piece| kept |= std::ptr::eq(piece.as_ptr(), large.as_ptr()));
        assert!(kept);
    }

    #[test]
    fn a_flipped_bit_makes_a_record_header_invalid() {
        let mut records = Records::new();
        records.push(5, 6, 7, &[b"body"]);
        let good = encoded(&records);
        for at in 0..RECORD_HEADER {
            for bit in 0..8 {
                let mut bad = good.to_vec();
                bad[at] ^= 1 << bit;
                assert_eq!(owners(&bad), None, "byte {at} bit {bit}");
            }
        }
    }

    #[test]
    fn zeros_are_not_a_record() {
        assert_eq!(owners(&[0; 64]), None);
    }
}
