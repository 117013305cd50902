//! Serial number arithmetic (RFC 1982 with 32 bits) for delivery-counts, transfer-ids and delivery-ids [2.8.10].

/// Returns how far `a` is ahead of `b`; negative if it is behind. Exact while the distance is below 2^31.
pub const fn distance(a: u32, b: u32) -> i32 {
    a.wrapping_sub(b) as i32
}

/// Returns true if `id` is in `first..=last`, which may wrap. A range that runs backwards is empty.
pub const fn in_range(id: u32, first: u32, last: u32) -> bool {
    distance(last, first) >= 0 && id.wrapping_sub(first) <= last.wrapping_sub(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_wrap() {
        assert_eq!(distance(1, u32::MAX), 2);
        assert_eq!(distance(u32::MAX, 1), -2);
        assert!(in_range(0, u32::MAX - 1, 1));
        assert!(!in_range(2, u32::MAX - 1, 1));
        assert!(!in_range(5, 7, 3));
        assert!(in_range(7, 7, 7));
    }

    /// Compares all ids and ranges around 2^32 with numbers that never wrap.
    #[test]
    fn ranges_are_correct_across_the_wrap() {
        const TURN: u64 = 1 << 32;
        let near = || TURN - 30..TURN + 30;
        for a in near() {
            for b in near() {
                assert_eq!(i64::from(distance(a as u32, b as u32)), a as i64 - b as i64);
                for id in near() {
                    let expected = (a..=b).contains(&id);
                    assert_eq!(in_range(id as u32, a as u32, b as u32), expected, "{id} in {a}..={b}");
                }
            }
        }
    }
}
