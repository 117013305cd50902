//! The hash functions of the exchanges that spread messages. They must never change: a release with other functions
//! would send messages with the same key to other queues than before.

/// FNV-1a over 64 bits, finished by [`mix`].
pub(super) struct Fnv(u64);

impl Fnv {
    pub(super) fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(super) fn write(&mut self, octets: &[u8]) {
        for octet in octets {
            self.0 = (self.0 ^ u64::from(*octet)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    pub(super) fn finish(&self) -> u64 {
        mix(self.0)
    }
}

/// The finisher of SplitMix64: every bit of the input changes half the bits of the output.
pub(super) fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Jump consistent hash (Lamping and Veach): returns the bucket of a key among `buckets`, in `ln(buckets)` steps. A
/// new bucket takes its share from all others, and no key moves between the others.
pub(super) fn jump(mut key: u64, buckets: u64) -> u64 {
    let (mut bucket, mut next) = (0, 0);
    while next < buckets {
        bucket = next;
        key = key.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        next = ((bucket + 1) as f64 * ((1u64 << 31) as f64 / ((key >> 33) + 1) as f64)) as u64;
    }
    bucket
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_never_change() {
        let mut hash = Fnv::new();
        hash.write(b"key");
        assert_eq!(
            [hash.finish(), mix(1), jump(10_863_919_174_838_991, 11), jump(1, 1), jump(256, 1024)],
            GOLDEN
        );
    }

    /// The third number is an example of the paper's authors.
    const GOLDEN: [u64; 5] = [17_669_370_052_314_134_934, 10_451_216_379_200_822_465, 6, 0, 520];

    #[test]
    fn a_new_bucket_only_takes_keys() {
        for buckets in 1..40 {
            for key in (0..500).map(mix) {
                let (before, after) = (jump(key, buckets), jump(key, buckets + 1));
                assert!(before < buckets && (after == before || after == buckets));
            }
        }
    }
}
