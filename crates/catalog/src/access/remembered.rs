//! Logins that were checked lately, so that many connections of one user cost one check of the password.
//!
//! A login is known by a keyed hash of the user, the stored hash and the password. So a new password, or another user, is always
//! checked. No password is kept. Who can read the whole memory of the broker finds the key, too, and can then try passwords fast
//! against the logins of the last minute.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use amqp10::sasl::Secret;
use hashbrown::HashMap;
use sha2::{Digest as _, Sha256};

use super::PasswordHash;

/// How long a login is known, in milliseconds.
const KNOWN_MS: u64 = 60_000;

/// The most logins that are known at the same time. Each takes some 60 bytes. Beyond it, all are checked once more.
const KNOWN_MAX: usize = 10_000;

/// The random key of a process, which is never written. Without it, the keyed hashes cannot be searched for passwords.
pub type RememberKey = [u8; 32];

/// A keyed hash of a login.
pub type Keyed = [u8; 32];

/// Returns the hash of these parts of a login. The length says where each part ends.
pub fn keyed<const N: usize>(key: &RememberKey, parts: [&[u8]; N]) -> Keyed {
    let mut digest = Sha256::new().chain_update(key);
    for part in parts {
        digest = digest.chain_update((part.len() as u64).to_be_bytes()).chain_update(part);
    }
    digest.chain_update(key).finalize().into()
}

/// The logins that were checked lately. By default, nothing is remembered.
#[derive(Default)]
pub(super) struct Remembered {
    /// Chosen anew by each process. If it is missing, nothing is remembered.
    key: Option<RememberKey>,
    /// The time until which each login is known, in milliseconds since the epoch.
    until_ms: Mutex<HashMap<Keyed, u64>>,
}

impl fmt::Debug for Remembered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Remembered")
    }
}

impl Remembered {
    pub(super) fn new(key: RememberKey) -> Self {
        Self { key: Some(key), until_ms: Mutex::default() }
    }

    /// Returns whether this is the user's password. Calculates its hash only if the login is not known.
    pub(super) fn check(&self, user: &str, hash: &PasswordHash, password: &Secret, now_ms: u64) -> bool {
        let Some(keyed) = self.keyed(user, hash, password) else { return hash.is_of(password) };
        if self.has(&keyed, now_ms) {
            return true;
        }
        let is_right = hash.is_of(password);
        if is_right {
            let mut all = self.lock();
            if all.len() >= KNOWN_MAX {
                all.retain(|_, until_ms| now_ms < *until_ms);
            }
            if all.len() >= KNOWN_MAX {
                all.clear();
            }
            all.insert(keyed, now_ms + KNOWN_MS);
        }
        is_right
    }

    /// Returns true if this login was right within the last minute. Calculates no slow hash.
    pub(super) fn knows(&self, user: &str, hash: &PasswordHash, password: &Secret, now_ms: u64) -> bool {
        self.keyed(user, hash, password).is_some_and(|keyed| self.has(&keyed, now_ms))
    }

    fn has(&self, keyed: &Keyed, now_ms: u64) -> bool {
        self.lock().get(keyed).is_some_and(|until_ms| now_ms < *until_ms)
    }

    fn keyed(&self, user: &str, hash: &PasswordHash, password: &Secret) -> Option<Keyed> {
        Some(keyed(&self.key?, [user.as_bytes(), hash.expose(), password.expose()]))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Keyed, u64>> {
        self.until_ms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Hashing;
    use super::*;

    const NOW_MS: u64 = 1_000_000;

    #[test]
    fn a_right_password_is_known_for_a_minute_and_a_wrong_one_never() {
        let remembered = Remembered::new([7; 32]);
        let [right, wrong] = ["right", "wrong"].map(Secret::new);
        let hash = Hashing::Sha256.hash([1; 16], &right);
        assert!(!remembered.check("u", &hash, &wrong, NOW_MS));
        assert_eq!(remembered.len(), 0);
        assert!(remembered.check("u", &hash, &right, NOW_MS));
        let keyed = remembered.keyed("u", &hash, &right).unwrap();
        assert_eq!(remembered.lock().get(&keyed), Some(&(NOW_MS + KNOWN_MS)));
        assert!(remembered.check("u", &hash, &right, NOW_MS + KNOWN_MS - 1), "known");
        assert_eq!(remembered.lock().get(&keyed), Some(&(NOW_MS + KNOWN_MS)), "not checked again");
        assert!(remembered.check("u", &hash, &right, NOW_MS + KNOWN_MS), "checked again");
        assert_eq!(remembered.lock().get(&keyed), Some(&(NOW_MS + 2 * KNOWN_MS)));
        // With another stored hash, the old password is wrong at once.
        let changed = Hashing::Sha256.hash([2; 16], &wrong);
        assert!(!remembered.check("u", &changed, &right, NOW_MS));
    }

    #[test]
    fn users_passwords_and_processes_are_told_apart() {
        let (one, other) = (Remembered::new([7; 32]), Remembered::new([8; 32]));
        let hash = Hashing::Sha256.hash([1; 16], &Secret::new("p"));
        let keyed = |of: &Remembered, user, password| of.keyed(user, &hash, &Secret::new(password)).unwrap();
        let all =
            [keyed(&one, "u", "p"), keyed(&one, "v", "p"), keyed(&one, "u", "q"), keyed(&other, "u", "p")];
        assert!((0..4).all(|at| !all[at + 1..].contains(&all[at])));
    }

    #[test]
    fn what_is_known_is_bounded() {
        let remembered = Remembered::new([7; 32]);
        let password = Secret::new("p");
        let hash = Hashing::Sha256.hash([1; 16], &password);
        for number in 0..2 * KNOWN_MAX as u64 {
            assert!(remembered.check(&number.to_string(), &hash, &password, NOW_MS));
            assert!(remembered.len() <= KNOWN_MAX);
        }
    }
}
