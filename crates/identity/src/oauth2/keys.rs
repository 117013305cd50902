//! The keys that tokens are signed with. Each key has its algorithms: an attacker cannot have a public key used as the secret
//! of HS256 (RFC 8725, 2.1), nor the algorithm `none`, which does not exist here.

use std::fmt;
use std::path::Path;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use serde_json::Value;

/// The names of the algorithms, as in the header of a token.
const ALGORITHMS: [(&str, Algorithm); 12] = [
    ("RS256", Algorithm::RS256),
    ("RS384", Algorithm::RS384),
    ("RS512", Algorithm::RS512),
    ("PS256", Algorithm::PS256),
    ("PS384", Algorithm::PS384),
    ("PS512", Algorithm::PS512),
    ("ES256", Algorithm::ES256),
    ("ES384", Algorithm::ES384),
    ("EdDSA", Algorithm::EdDSA),
    ("HS256", Algorithm::HS256),
    ("HS384", Algorithm::HS384),
    ("HS512", Algorithm::HS512),
];

/// The bytes of an uncompressed point of P-256, and of P-384: the curves of ES256 and ES384.
const POINT_BYTES: [usize; 2] = [65, 97];

/// Returns the algorithm with this name.
///
/// # Errors
/// There is none; the error lists all.
pub fn algorithm(name: &str) -> Result<Algorithm, String> {
    let found = ALGORITHMS.iter().find(|(known, _)| *known == name);
    found.map(|(_, algorithm)| *algorithm).ok_or_else(|| format!("one of {} is needed", algorithm_names()))
}

/// Returns the names of all algorithms, with commas between them.
pub(super) fn algorithm_names() -> String {
    ALGORITHMS.map(|(name, _)| name).join(", ")
}

/// One key, and what it is for.
pub(super) struct Key {
    /// Its name (`kid`).
    id: Option<String>,
    pub key: DecodingKey,
    /// The algorithms of tokens that it may have signed.
    pub algorithms: Vec<Algorithm>,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("id", &self.id).field("algorithms", &self.algorithms).finish()
    }
}

/// Keys by their name.
#[derive(Debug, Default)]
pub(super) struct Keys(Vec<std::sync::Arc<Key>>);

impl Keys {
    /// Returns the key with this name.
    pub(super) fn find(&self, id: &str) -> Option<std::sync::Arc<Key>> {
        self.0.iter().find(|key| key.id.as_deref() == Some(id)).cloned()
    }

    /// Returns the key, if there is just one.
    pub(super) fn only(&self) -> Option<std::sync::Arc<Key>> {
        if let [key] = &self.0[..] { Some(key.clone()) } else { None }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Reads a key from a file: a public key or a certificate's key in PEM, or a secret.
    ///
    /// # Errors
    /// The file cannot be read, or is neither.
    pub(super) fn add_file(&mut self, id: &str, path: &Path, accepted: &[Algorithm]) -> Result<(), String> {
        let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let key = from_file(&bytes, accepted).map_err(|why| format!("{}: {why}", path.display()))?;
        let algorithms = algorithms(key.family(), accepted);
        self.0.push(std::sync::Arc::new(Key { id: Some(id.to_owned()), key, algorithms }));
        Ok(())
    }

    /// Reads the keys of a provider (JWKS). Keys of unknown kinds, for encryption, and secrets are left out: a secret that is
    /// published is none.
    ///
    /// # Errors
    /// It is not a set of keys.
    pub(super) fn from_jwks(bytes: &[u8], accepted: &[Algorithm]) -> Result<Self, String> {
        let set: Value =
            serde_json::from_slice(bytes).map_err(|error| format!("this is not a JWKS: {error}"))?;
        let keys = set.get("keys").and_then(Value::as_array).ok_or("this is not a JWKS: it has no keys")?;
        // A key that cannot be read does not hide the others.
        let read = keys.iter().filter_map(|key| serde_json::from_value::<Jwk>(key.clone()).ok());
        Ok(Self(read.filter_map(|jwk| from_jwk(&jwk, accepted)).map(Into::into).collect()))
    }
}

fn from_jwk(jwk: &Jwk, accepted: &[Algorithm]) -> Option<Key> {
    if matches!(jwk.common.public_key_use, Some(PublicKeyUse::Encryption)) {
        return None;
    }
    let own: &[Algorithm] = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => AlgorithmFamily::Rsa.algorithms(),
        AlgorithmParameters::EllipticCurve(of) if of.curve == EllipticCurve::P256 => &[Algorithm::ES256],
        AlgorithmParameters::EllipticCurve(of) if of.curve == EllipticCurve::P384 => &[Algorithm::ES384],
        AlgorithmParameters::OctetKeyPair(_) => &[Algorithm::EdDSA],
        _ => return None,
    };
    let said = jwk.common.key_algorithm.map(|algorithm| algorithm.to_string());
    let is_own = |algorithm: &Algorithm| said.as_ref().is_none_or(|said| *said == format!("{algorithm:?}"));
    let is_accepted = |algorithm: &Algorithm| accepted.is_empty() || accepted.contains(algorithm);
    let algorithms = own.iter().copied().filter(is_own).filter(is_accepted).collect();
    Some(Key { id: jwk.common.key_id.clone(), key: DecodingKey::from_jwk(jwk).ok()?, algorithms })
}

/// Returns the algorithms of a family that are accepted. Secrets are accepted only if the operator names their algorithms.
fn algorithms(family: AlgorithmFamily, accepted: &[Algorithm]) -> Vec<Algorithm> {
    let is_accepted = |algorithm: &Algorithm| match accepted {
        [] => algorithm.family() != AlgorithmFamily::Hmac,
        accepted => accepted.contains(algorithm),
    };
    family.algorithms().iter().copied().filter(is_accepted).collect()
}

fn from_file(bytes: &[u8], accepted: &[Algorithm]) -> Result<DecodingKey, String> {
    const BEGIN: &[u8] = b"-----BEGIN ";
    if bytes.windows(BEGIN.len()).any(|window| window == BEGIN) {
        if bytes.windows(11).any(|window| window == b"PRIVATE KEY") {
            return Err("this is a private key; the public key of the provider is needed".to_owned());
        }
        if let Ok(key) = DecodingKey::from_ec_pem(bytes) {
            let point = key.try_get_as_bytes().map_or(0, <[u8]>::len);
            return match POINT_BYTES.contains(&point) {
                true => Ok(key),
                false => Err("the curve of this key must be P-256 or P-384".to_owned()),
            };
        }
        return DecodingKey::from_rsa_pem(bytes)
            .or_else(|_| DecodingKey::from_ed_pem(bytes))
            .map_err(|_| "this is not a public key of RSA, EC or Ed25519 in PEM".to_owned());
    }
    if !accepted.iter().any(|algorithm| algorithm.family() == AlgorithmFamily::Hmac) {
        return Err(
            "this is not PEM; a secret needs auth_oauth2.algorithms with HS256, HS384 or HS512".into()
        );
    }
    let secret = bytes.trim_ascii_end();
    match secret.len() {
        // RFC 7518, 3.2: not shorter than the digest.
        0..32 => Err("a secret must have 32 bytes or more".to_owned()),
        _ => Ok(DecodingKey::from_secret(secret)),
    }
}
