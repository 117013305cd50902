//! Decimals of 64 bits with small coefficients (IEEE 754-2008, binary integer decimal encoding).
//!
//! The bits are: one of the sign, ten of the exponent, 53 of the coefficient. Larger coefficients have another form, and so
//! have infinity and NaN. They are not read here.

/// The number that is added to an exponent.
const BIAS: u64 = 398;

/// The number of bits of the coefficient.
const COEFFICIENT_BITS: u32 = 53;

/// The two bits below the sign. If both are set, the decimal has another form.
const OTHER_FORM: u64 = 0b11 << 61;

/// Returns the encoding of `value / 10^scale`. Different scales have different encodings.
pub fn decimal64(scale: u8, value: u32) -> [u8; 8] {
    ((BIAS - u64::from(scale)) << COEFFICIENT_BITS | u64::from(value)).to_be_bytes()
}

/// Returns what [`decimal64`] has encoded: the scale and the value. Returns `None` for all other decimals.
pub fn scale_and_value(octets: [u8; 8]) -> Option<(u8, u32)> {
    let bits = u64::from_be_bytes(octets);
    if bits & OTHER_FORM == OTHER_FORM {
        return None;
    }
    let scale = BIAS.checked_sub(bits >> COEFFICIENT_BITS)?;
    let value = bits & ((1 << COEFFICIENT_BITS) - 1);
    Some((scale.try_into().ok()?, value.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decimal_is_read_as_it_was_encoded() {
        // The standard's encoding of 1 and of 3.14.
        assert_eq!(decimal64(0, 1), [0x31, 0xc0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(decimal64(2, 314), [0x31, 0x80, 0, 0, 0, 0, 1, 0x3a]);
        for scale in [0, 1, 2, 254, 255] {
            for value in [0, 1, 314, u32::MAX] {
                assert_eq!(scale_and_value(decimal64(scale, value)), Some((scale, value)));
            }
        }
    }

    #[test]
    fn other_decimals_are_not_read() {
        // Infinity, NaN, -1, 10, and a coefficient of 33 bits.
        for octets in [
            [0x78, 0, 0, 0, 0, 0, 0, 0],
            [0x7c, 0, 0, 0, 0, 0, 0, 0],
            [0xb1, 0xc0, 0, 0, 0, 0, 0, 1],
            [0x31, 0xe0, 0, 0, 0, 0, 0, 1],
            [0x31, 0xc0, 0, 1, 0, 0, 0, 0],
        ] {
            assert_eq!(scale_and_value(octets), None, "{octets:x?}");
        }
    }
}
