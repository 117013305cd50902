//! Password hashes in RabbitMQ's format: salted SHA-256.

use std::fmt;

use amqp10::sasl::Secret;
use sha2::{Digest, Sha256};

const SALT_BYTES: usize = 4;
const HASH_BYTES: usize = SALT_BYTES + 32;

/// Four bytes of salt, then the SHA-256 of the salt and the password. `Debug` prints `***`, because a weak password can
/// be found from its hash by trying.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PasswordHash([u8; HASH_BYTES]);

impl PasswordHash {
    /// RabbitMQ's name for the algorithm.
    pub const ALGORITHM: &str = "rabbit_password_hashing_sha256";

    /// A hash for which no password is known.
    pub(super) const UNKNOWN_USER: Self = Self([0; HASH_BYTES]);

    pub fn new(salt: [u8; SALT_BYTES], password: &Secret) -> Self {
        let digest = Sha256::new().chain_update(salt).chain_update(password.expose()).finalize();
        let mut hash = [0; HASH_BYTES];
        hash[..SALT_BYTES].copy_from_slice(&salt);
        hash[SALT_BYTES..].copy_from_slice(&digest);
        Self(hash)
    }

    /// Reads a stored hash. Returns `None` if the length is wrong.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Returns the bytes, to be stored.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// Returns true if this is the hash of the password. The time does not depend on where the hashes differ.
    pub fn is_of(&self, password: &Secret) -> bool {
        let mut salt = [0; SALT_BYTES];
        salt.copy_from_slice(&self.0[..SALT_BYTES]);
        let other = Self::new(salt, password);
        self.0.iter().zip(other.0).fold(0, |all, (x, y)| all | (x ^ y)) == 0
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    /// The example in RabbitMQ's documentation: password `test12`, salt 908DC60A.
    #[test]
    fn hashes_are_rabbitmqs() {
        let password = Secret::new("test12");
        let hash = PasswordHash::new([0x90, 0x8d, 0xc6, 0x0a], &password);
        assert_eq!(STANDARD.encode(hash.expose()), "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR");
        assert!(hash.is_of(&password) && !hash.is_of(&Secret::new("test13")));
        assert_eq!(PasswordHash::from_bytes(hash.expose()), Some(hash));
        assert_eq!(PasswordHash::from_bytes(&hash.expose()[1..]), None);
        assert_eq!(format!("{hash:?}"), "***");
    }
}
