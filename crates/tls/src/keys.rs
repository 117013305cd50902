//! Private keys from PEM files, also encrypted ones.

use std::fmt;
use std::fs;
use std::path::Path;

use pkcs8::pkcs5::pbes2::Kdf;
use pkcs8::pkcs5::{self, EncryptionScheme};
use pkcs8::{EncryptedPrivateKeyInfoRef, Error};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use x509_parser::pem::Pem;

use crate::error::{TlsError, pem_error, unreadable, wrong};

/// The most rounds of PBKDF2 that a key file may ask for: some seconds of work. OpenSSL writes 2,048, and advice for
/// passwords of people ends at about a million. A file that asks for more is refused.
const PBKDF2_ROUNDS_MAX: u32 = 10_000_000;

/// The most memory that scrypt may take for a key file, in bytes. OpenSSL's keys take 16 MiB, and it allows 32.
const SCRYPT_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The most times that scrypt may fill its memory for a key file. OpenSSL's keys do so once.
const SCRYPT_PASSES_MAX: u16 = 16;

/// Rewrites a key of an old or unknown form to the one that can be read here.
const CONVERT: &str = "openssl pkcs8 -topk8 -v2 aes-256-cbc -in OLD -out NEW";

/// Writes a key without its password.
const DECRYPT: &str = "openssl pkey -in OLD -out NEW";

/// The password of encrypted key files. It is not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    pub fn new(password: impl Into<String>) -> Self {
        Self(password.into())
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Reads the private key of a file. An encrypted key is decrypted with the password, whose setting is `setting`. Without a
/// setting, encrypted keys are refused.
///
/// # Errors
/// The file cannot be read, has no key of a known form, or is encrypted and the password does not fit.
pub(crate) fn private_key(
    path: &Path,
    password: Option<&Password>,
    setting: Option<&str>,
) -> Result<PrivateKeyDer<'static>, TlsError> {
    let octets = fs::read(path).map_err(|error| unreadable(path, &error))?;
    let text = String::from_utf8_lossy(&octets);
    // The header of a PEM block (RFC 1421, 4.6.1.1), with which OpenSSL encrypted keys before PKCS #8.
    if text.lines().any(|line| line.starts_with("Proc-Type:") && line.contains("ENCRYPTED")) {
        let why = format!("the key is encrypted in the old form of OpenSSL; convert it: {CONVERT}");
        return Err(wrong(path, why));
    }
    let is_encrypted = |block: &Pem| block.label == "ENCRYPTED PRIVATE KEY";
    let Some(block) = Pem::iter_from_buffer(&octets).map_while(Result::ok).find(is_encrypted) else {
        return PrivateKeyDer::from_pem_slice(&octets).map_err(|error| match error {
            pem::Error::NoItemsFound => wrong(path, "there is no PRIVATE KEY in it"),
            error => pem_error(path, &error),
        });
    };
    let Some(setting) = setting else {
        return Err(wrong(path, format!("the key is encrypted; write one without a password: {DECRYPT}")));
    };
    let Some(password) = password else {
        return Err(wrong(path, format!("the key is encrypted, so its password is needed: set {setting}")));
    };
    let key = decrypt(&block.contents, password).map_err(|why| wrong(path, why.shown(setting)))?;
    Ok(PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key)))
}

/// Why an encrypted key cannot be decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    Unknown,
    TooMuchWork,
    WrongPassword,
}

impl Refusal {
    fn shown(self, setting: &str) -> String {
        match self {
            Self::Unknown => format!(
                "the key is damaged, or encrypted in a way that is not known here; known are PBES2 with scrypt or \
                 PBKDF2 (HMAC with SHA-2), and AES; convert it: {CONVERT}"
            ),
            Self::TooMuchWork => format!(
                "the key asks for more work or memory than is allowed for a password: at most {PBKDF2_ROUNDS_MAX} \
                 rounds of PBKDF2, or {SCRYPT_BYTES_MAX} bytes and p = {SCRYPT_PASSES_MAX} of scrypt; convert it: \
                 {CONVERT}"
            ),
            Self::WrongPassword => format!("the password of {setting} does not fit the key"),
        }
    }
}

/// Decrypts an `EncryptedPrivateKeyInfo` (RFC 5958) in DER. Returns the `PrivateKeyInfo`.
fn decrypt(der: &[u8], password: &Password) -> Result<Vec<u8>, Refusal> {
    let encrypted = EncryptedPrivateKeyInfoRef::try_from(der).map_err(|_| Refusal::Unknown)?;
    let EncryptionScheme::Pbes2(parameters) = &encrypted.encryption_algorithm else {
        return Err(Refusal::Unknown);
    };
    check_work(&parameters.kdf)?;
    match encrypted.decrypt(&password.0) {
        Ok(key) => Ok(key.as_bytes().to_vec()),
        // A wrong password makes padding that is wrong, or now and then a text that is no key.
        Err(Error::EncryptedPrivateKey(pkcs5::Error::DecryptFailed) | Error::Asn1(_)) => {
            Err(Refusal::WrongPassword)
        }
        Err(_) => Err(Refusal::Unknown),
    }
}

/// Checks what the key asks for before its password is tried.
fn check_work(derivation: &Kdf) -> Result<(), Refusal> {
    let is_allowed = match derivation {
        Kdf::Pbkdf2(wanted) => (1..=PBKDF2_ROUNDS_MAX).contains(&wanted.iteration_count),
        Kdf::Scrypt(wanted) => {
            let cost = wanted.cost_parameter;
            // RFC 7914, 2. The library expects a power of two, and this much memory.
            if !cost.is_power_of_two() {
                return Err(Refusal::Unknown);
            }
            let bytes = cost.checked_mul(128 * u64::from(wanted.block_size));
            bytes.is_some_and(|bytes| bytes <= SCRYPT_BYTES_MAX)
                && wanted.parallelization <= SCRYPT_PASSES_MAX
        }
        _ => return Err(Refusal::Unknown),
    };
    if is_allowed { Ok(()) } else { Err(Refusal::TooMuchWork) }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use pkcs8::pkcs5::pbes2::{Pbkdf2Params, ScryptParams};

    use super::*;

    fn file(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)
    }

    fn read(name: &str, password: &str) -> Result<PrivateKeyDer<'static>, String> {
        let password = Some(Password::new(password));
        private_key(&file(name), password.as_ref(), Some("x.password")).map_err(|error| error.to_string())
    }

    #[test]
    fn what_openssl_encrypts_is_read() {
        let plain = read("plain.pem", "has none").unwrap();
        for name in ["pbkdf2.pem", "scrypt.pem"] {
            assert_eq!(read(name, "secret").unwrap(), plain, "{name}");
            let why = read(name, "guess").unwrap_err();
            assert!(
                why.ends_with(&format!("{name}: the password of x.password does not fit the key")),
                "{why}"
            );
            assert!(!why.contains("guess"), "{why}");
        }
    }

    #[test]
    fn a_missing_password_is_asked_for() {
        let refused = |setting| private_key(&file("pbkdf2.pem"), None, setting).unwrap_err().to_string();
        let why = refused(Some("ssl_options.password"));
        assert!(why.ends_with("its password is needed: set ssl_options.password"), "{why}");
        assert!(refused(None).ends_with(DECRYPT));
    }

    #[test]
    fn other_forms_are_refused_with_the_command_that_converts_them() {
        for (name, says) in [
            ("old.pem", "the old form of OpenSSL"),
            ("pbes1.pem", "in a way that is not known"),
            ("des3.pem", "in a way that is not known"),
            ("sha1.pem", "in a way that is not known"),
            ("much.pem", "more work or memory"),
        ] {
            let why = read(name, "secret").unwrap_err();
            assert!(why.contains(&format!("{name}: ")) && why.contains(says), "{why}");
            assert!(why.ends_with(CONVERT), "{why}");
        }
    }

    #[test]
    fn work_has_bounds() {
        let pbkdf2 = |rounds| Kdf::Pbkdf2(Pbkdf2Params::hmac_sha256(rounds, b"12345678").unwrap());
        let scrypt = |cost, block_size, parallelization| {
            let Kdf::Pbkdf2(Pbkdf2Params { salt, .. }) = pbkdf2(1) else { unreachable!() };
            Kdf::Scrypt(ScryptParams {
                salt,
                cost_parameter: cost,
                block_size,
                parallelization,
                key_length: None,
            })
        };
        for (derivation, result) in [
            (pbkdf2(1), Ok(())),
            (pbkdf2(PBKDF2_ROUNDS_MAX), Ok(())),
            (pbkdf2(0), Err(Refusal::TooMuchWork)),
            (pbkdf2(PBKDF2_ROUNDS_MAX + 1), Err(Refusal::TooMuchWork)),
            (scrypt(1 << 14, 8, 1), Ok(())),
            (scrypt(1 << 18, 8, SCRYPT_PASSES_MAX), Ok(())),
            (scrypt(1 << 19, 8, 1), Err(Refusal::TooMuchWork)),
            (scrypt(1 << 14, 8, SCRYPT_PASSES_MAX + 1), Err(Refusal::TooMuchWork)),
            (scrypt(1 << 63, u16::MAX, 1), Err(Refusal::TooMuchWork)),
            // The library would panic.
            (scrypt(0, 8, 1), Err(Refusal::Unknown)),
            (scrypt(3, 8, 1), Err(Refusal::Unknown)),
        ] {
            assert_eq!(check_work(&derivation), result, "{derivation:?}");
        }
    }

    #[test]
    fn no_bytes_of_a_key_file_break_the_reader() {
        let block = Pem::iter_from_buffer(&fs::read(file("pbkdf2.pem")).unwrap()).next().unwrap().unwrap();
        for at in 0..100 {
            for bit in 0..8 {
                let mut der = block.contents.clone();
                der[at] ^= 1 << bit;
                // Rounds are few in most of these, and many in some: only what is checked before is of interest.
                let encrypted = EncryptedPrivateKeyInfoRef::try_from(&der[..]);
                if let Ok(EncryptionScheme::Pbes2(all)) = encrypted.map(|key| key.encryption_algorithm)
                    && all.kdf.pbkdf2().is_some_and(|wanted| wanted.iteration_count > 10_000)
                {
                    continue;
                }
                let _ = decrypt(&der, &Password::new("secret"));
            }
            assert!(decrypt(&block.contents[..at], &Password::new("secret")).is_err());
        }
    }

    #[test]
    fn a_password_is_not_printed() {
        let options = crate::Options { password: Some(Password::new("secret")), ..crate::Options::default() };
        let shown = format!("{options:?}");
        assert!(shown.contains("password: Some(***)") && !shown.contains("secret"), "{shown}");
    }
}
