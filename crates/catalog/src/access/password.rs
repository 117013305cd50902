//! Password hashes: RabbitMQ's salted SHA-256 and SHA-512, MD5 of old versions of RabbitMQ, and Argon2id (RFC 9106).
//!
//! ```text
//!   md5, sha256, sha512   salt, 4 bytes | digest of the salt and the password
//!   argon2id              $argon2id$v=19$m=MEMORY,t=PASSES,p=1$SALT$DIGEST      (text; memory in KiB; Base64 without padding)
//! ```

use std::fmt;
use std::str;

use amqp10::sasl::Secret;
use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use md5::Md5;
use sha2::{Digest, Sha256, Sha512};

/// The bytes of RabbitMQ's salt.
const SALT_BYTES: usize = 4;

/// The bytes of an Argon2id salt and of its digest, as RFC 9106 recommends.
const ARGON_SALT_BYTES: usize = 16;
const ARGON_DIGEST_BYTES: usize = 32;

/// Random bytes, which make equal passwords have different hashes.
pub type Salt = [u8; ARGON_SALT_BYTES];

/// The memory in KiB and the passes of new Argon2id hashes: the smallest memory that OWASP recommends, so that two checks at
/// the same time do not double the memory of a small broker.
const MEMORY_KIB: u32 = 7 * 1024;
const PASSES: u32 = 5;

/// The most memory and passes of a hash that is accepted from elsewhere. They bound what one check of a password costs.
const MEMORY_KIB_MAX: u32 = 64 * 1024;
const PASSES_MAX: u32 = 16;

/// The longest encoded Argon2id hash in bytes. The longest that [`Argon::parse`] accepts is shorter.
const ENCODED_MAX: usize = 256;

/// An algorithm for password hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hashing {
    /// The hash of users from RabbitMQ 3.5 and older. No new password gets one, and it is replaced at the next login
    /// ([`super::Renewal`]).
    Md5,
    /// RabbitMQ's default. It is fast, so weak passwords can be found from stolen hashes by trying.
    Sha256,
    Sha512,
    #[default]
    Argon2id,
}

impl Hashing {
    pub const ALL: [Self; 4] = [Self::Md5, Self::Sha256, Self::Sha512, Self::Argon2id];

    /// Returns the name of the algorithm in records and definitions. Those that RabbitMQ has, have RabbitMQ's names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Md5 => "rabbit_password_hashing_md5",
            Self::Sha256 => "rabbit_password_hashing_sha256",
            Self::Sha512 => "rabbit_password_hashing_sha512",
            Self::Argon2id => "argon2id",
        }
    }

    /// Returns the algorithm with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|hashing| hashing.name() == name)
    }

    /// Returns true if hashes of this algorithm are replaced at the next login.
    pub(crate) fn is_outdated(self) -> bool {
        self == Self::Md5
    }

    /// Hashes a password. Each hash needs a salt of its own; RabbitMQ's algorithms use only its first four bytes. Argon2id takes
    /// some 10 ms and 7 MiB.
    pub fn hash(self, salt: Salt, password: &Secret) -> PasswordHash {
        let short = [salt[0], salt[1], salt[2], salt[3]];
        let bytes = match self {
            Self::Md5 => salted::<Md5>(short, password),
            Self::Sha256 => salted::<Sha256>(short, password),
            Self::Sha512 => salted::<Sha512>(short, password),
            Self::Argon2id => Argon { salt: salt.into(), ..Argon::default() }.encoded(password),
        };
        PasswordHash { hashing: self, bytes: bytes.into() }
    }

    /// Returns a hash that belongs to no known password. Its check takes as long as that of any other with this algorithm.
    pub fn of_nobody(self) -> PasswordHash {
        let bytes = match self {
            Self::Md5 => vec![0; SALT_BYTES + 16],
            Self::Sha256 => vec![0; SALT_BYTES + 32],
            Self::Sha512 => vec![0; SALT_BYTES + 64],
            Self::Argon2id => Argon::default().encode(),
        };
        PasswordHash { hashing: self, bytes: bytes.into() }
    }
}

/// The hash of a password. `Debug` prints `***`, because a weak password can be found from its hash by trying.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash {
    hashing: Hashing,
    bytes: Box<[u8]>,
}

impl PasswordHash {
    /// Reads a stored hash. Returns `None` if its form is wrong, or if a check would need too much memory or time.
    pub fn from_bytes(hashing: Hashing, bytes: &[u8]) -> Option<Self> {
        let is_valid = match hashing {
            Hashing::Md5 => bytes.len() == SALT_BYTES + 16,
            Hashing::Sha256 => bytes.len() == SALT_BYTES + 32,
            Hashing::Sha512 => bytes.len() == SALT_BYTES + 64,
            Hashing::Argon2id => Argon::parse(bytes).is_some(),
        };
        is_valid.then(|| Self { hashing, bytes: bytes.into() })
    }

    pub fn hashing(&self) -> Hashing {
        self.hashing
    }

    /// Returns true if it belongs to no known password ([`Hashing::of_nobody`]).
    pub fn is_of_nobody(&self) -> bool {
        *self == self.hashing.of_nobody()
    }

    /// Returns the bytes, to be stored.
    pub fn expose(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns true if this is the hash of the password. The time does not depend on where the hashes differ.
    pub fn is_of(&self, password: &Secret) -> bool {
        let salt =
            || Some([*self.bytes.first()?, *self.bytes.get(1)?, *self.bytes.get(2)?, *self.bytes.get(3)?]);
        let other = match self.hashing {
            Hashing::Md5 => salt().map(|salt| salted::<Md5>(salt, password)),
            Hashing::Sha256 => salt().map(|salt| salted::<Sha256>(salt, password)),
            Hashing::Sha512 => salt().map(|salt| salted::<Sha512>(salt, password)),
            Hashing::Argon2id => Argon::parse(&self.bytes).map(|argon| argon.encoded(password)),
        };
        other.is_some_and(|other| are_same(&self.bytes, &other))
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

fn are_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |all, (x, y)| all | (x ^ y)) == 0
}

/// Returns RabbitMQ's form of a hash: the salt, and the digest of the salt and the password.
fn salted<D: Digest>(salt: [u8; SALT_BYTES], password: &Secret) -> Vec<u8> {
    let digest = D::new().chain_update(salt).chain_update(password.expose()).finalize();
    [&salt[..], &digest[..]].concat()
}

/// The parts of an encoded Argon2id hash.
#[derive(Debug)]
struct Argon {
    memory_kib: u32,
    passes: u32,
    salt: Vec<u8>,
    digest: Vec<u8>,
}

impl Default for Argon {
    fn default() -> Self {
        let (salt, digest) = (vec![0; ARGON_SALT_BYTES], vec![0; ARGON_DIGEST_BYTES]);
        Self { memory_kib: MEMORY_KIB, passes: PASSES, salt, digest }
    }
}

impl Argon {
    /// Returns `None` if the text has another form, or if its parameters are out of bounds.
    fn parse(encoded: &[u8]) -> Option<Self> {
        let text = str::from_utf8(encoded).ok().filter(|text| text.len() <= ENCODED_MAX)?;
        let rest = text.strip_prefix("$argon2id$v=19$m=")?;
        let (memory, rest) = rest.split_once(",t=")?;
        let (passes, rest) = rest.split_once(",p=1$")?;
        let (salt, digest) = rest.split_once('$')?;
        let (memory_kib, passes): (u32, u32) = (memory.parse().ok()?, passes.parse().ok()?);
        let (salt, digest) = (STANDARD_NO_PAD.decode(salt).ok()?, STANDARD_NO_PAD.decode(digest).ok()?);
        let fits = (Params::MIN_M_COST..=MEMORY_KIB_MAX).contains(&memory_kib)
            && (1..=PASSES_MAX).contains(&passes)
            && salt.len() >= argon2::MIN_SALT_LEN
            && digest.len() == ARGON_DIGEST_BYTES;
        let parsed = Self { memory_kib, passes, salt, digest };
        // The same hash has one form, because hashes are compared as text.
        (fits && parsed.encode() == encoded).then_some(parsed)
    }

    fn encode(&self) -> Vec<u8> {
        let Self { memory_kib, passes, .. } = self;
        let [salt, digest] = [&self.salt, &self.digest].map(|bytes| STANDARD_NO_PAD.encode(bytes));
        format!("$argon2id$v=19$m={memory_kib},t={passes},p=1${salt}${digest}").into_bytes()
    }

    /// Returns the encoded hash of this password with the same salt and parameters.
    fn encoded(mut self, password: &Secret) -> Vec<u8> {
        let params = Params::new(self.memory_kib, self.passes, 1, Some(ARGON_DIGEST_BYTES));
        let argon = params.map(|params| Argon2::new(Algorithm::Argon2id, Version::V0x13, params));
        let done =
            argon.and_then(|argon| argon.hash_password_into(password.expose(), &self.salt, &mut self.digest));
        // All lengths and parameters are in bounds, except that a password may have 4 GiB in theory, and that the
        // memory may be missing. Then no password is right.
        if done.is_ok() { self.encode() } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    /// The example in RabbitMQ's documentation: password `test12`, salt 908DC60A.
    #[test]
    fn hashes_are_rabbitmqs() {
        let password = Secret::new("test12");
        let mut salt = [0; ARGON_SALT_BYTES];
        salt[..SALT_BYTES].copy_from_slice(&[0x90, 0x8d, 0xc6, 0x0a]);
        let hash = Hashing::Sha256.hash(salt, &password);
        assert_eq!(STANDARD.encode(hash.expose()), "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR");
        assert!(hash.is_of(&password) && !hash.is_of(&Secret::new("test13")));
        assert_eq!(PasswordHash::from_bytes(Hashing::Sha256, hash.expose()), Some(hash.clone()));
        assert_eq!(PasswordHash::from_bytes(Hashing::Sha256, &hash.expose()[1..]), None);
        assert_eq!(format!("{hash:?}"), "***");
        // The same salt and password with MD5, calculated by another program.
        let hash = Hashing::Md5.hash(salt, &password);
        assert_eq!(STANDARD.encode(hash.expose()), "kI3GChNpte2FApYFXScl+0dIluk=");
    }

    #[test]
    fn each_algorithm_knows_its_own_hashes() {
        let (right, wrong) = (Secret::new("right"), Secret::new("wrong"));
        for hashing in Hashing::ALL {
            let hash = hashing.hash([1; 16], &right);
            assert!(hash.is_of(&right) && !hash.is_of(&wrong), "{hashing:?}");
            assert_ne!(hash, hashing.hash([2; 16], &right), "the salt counts");
            assert_eq!(PasswordHash::from_bytes(hashing, hash.expose()), Some(hash.clone()));
            for other in Hashing::ALL.into_iter().filter(|other| *other != hashing) {
                assert_eq!(PasswordHash::from_bytes(other, hash.expose()), None, "{hashing:?} {other:?}");
            }
            assert_eq!(Hashing::from_name(hashing.name()), Some(hashing));
            let nobody = hashing.of_nobody();
            assert!(!nobody.is_of(&right) && !nobody.is_of(&Secret::new("")));
            assert_eq!(PasswordHash::from_bytes(hashing, nobody.expose()), Some(nobody.clone()));
        }
        assert_eq!(Hashing::from_name("rabbit_password_hashing_none"), None);
    }

    /// Made with the reference implementation: `echo -n password | argon2 somesalt -id -t 2 -k 65536 -p 1 -l 32`.
    #[test]
    fn an_argon2id_hash_is_that_of_the_reference_implementation() {
        let encoded =
            b"$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
        let hash = PasswordHash::from_bytes(Hashing::Argon2id, encoded).unwrap();
        assert!(hash.is_of(&Secret::new("password")) && !hash.is_of(&Secret::new("differentpassword")));
    }

    #[test]
    fn an_encoded_hash_must_be_cheap_to_check_and_well_formed() {
        let good = String::from_utf8(Argon::default().encode()).unwrap();
        let read = |text: &str| PasswordHash::from_bytes(Hashing::Argon2id, text.as_bytes()).is_some();
        assert!(read(&good));
        for (part, other) in [
            ("m=7168", "m=65537"),
            ("m=7168", "m=07168"),
            ("m=7168", "m=7"),
            ("t=5", "t=17"),
            ("t=5", "t=0"),
            ("p=1", "p=4"),
            ("v=19", "v=16"),
            ("argon2id", "argon2i"),
            ("AAAA", "A*AA"),
        ] {
            assert!(good.contains(part) && !read(&good.replace(part, other)), "{other}");
        }
        assert!(!read(&good[..good.len() - 1]) && !read("") && !read(&format!("{good}$")));
    }
}
