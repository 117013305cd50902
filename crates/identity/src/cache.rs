//! Remembers for some seconds what another backend has said, so that many connections of one user ask its server once. They
//! share the permissions that were asked for meanwhile, too.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use catalog::access::{
    Checking, Credentials, ExternalBackend, Identity, Keyed, Login, LoginRefused, RememberKey, keyed,
};

/// The most logins that are remembered. Beyond it, all are asked again.
const KNOWN_MAX: usize = 10_000;

/// The most memory of the answers, in bytes. Beyond it, all are asked again. What a token grants may take 100 KiB and more, and a
/// client that renews its token has several answers here.
const KNOWN_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The answers that are remembered.
#[derive(Default)]
struct Known {
    /// The answers, and the time until which each counts, in milliseconds since the epoch.
    answers: HashMap<Keyed, (u64, Result<Identity, LoginRefused>)>,
    /// The memory of the answers.
    bytes: usize,
}

impl Known {
    fn insert(&mut self, keyed: Keyed, until_ms: u64, answer: Result<Identity, LoginRefused>, now_ms: u64) {
        let bytes = bytes_of(&answer);
        if !self.has_room(bytes) {
            self.answers.retain(|_, (until_ms, _)| now_ms < *until_ms);
            self.bytes = self.answers.values().map(|(_, answer)| bytes_of(answer)).sum();
        }
        if !self.has_room(bytes) {
            *self = Self::default();
        }
        self.bytes += bytes;
        let before = self.answers.insert(keyed, (until_ms, answer));
        self.bytes -= before.map_or(0, |(_, answer)| bytes_of(&answer));
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.answers.len() < KNOWN_MAX && self.bytes + bytes <= KNOWN_BYTES_MAX
    }
}

/// Returns how much memory an answer takes here.
fn bytes_of(answer: &Result<Identity, LoginRefused>) -> usize {
    let of_answer = match answer {
        Ok(identity) => identity.bytes(),
        Err(refused) => refused.to_string().len(),
    };
    size_of::<(Keyed, u64, Result<Identity, LoginRefused>)>() + of_answer
}

/// The backend `cache`.
pub struct Cache {
    backend: Arc<dyn ExternalBackend>,
    /// How long an answer counts.
    ttl: Duration,
    /// True if refusals are remembered as well.
    keeps_refusals: bool,
    /// Logins are known by a hash with this random key, so that no password is kept.
    key: RememberKey,
    known: Mutex<Known>,
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("backend", &self.backend).finish_non_exhaustive()
    }
}

impl Cache {
    /// Remembers what `backend` says. The key must be random.
    pub fn new(
        backend: Arc<dyn ExternalBackend>,
        ttl: Duration,
        keeps_refusals: bool,
        key: RememberKey,
    ) -> Self {
        Self { backend, ttl, keeps_refusals, key, known: Mutex::default() }
    }

    fn keyed(&self, login: &Login) -> Keyed {
        let joined;
        let (kind, rest) = match &login.credentials {
            Credentials::Plain { password, .. } => (b"plain".as_slice(), password.expose()),
            Credentials::Anonymous { .. } => (b"anonymous".as_slice(), &[][..]),
            Credentials::Certificate { .. } => (b"certificate".as_slice(), &[][..]),
            Credentials::Authenticated { tags, .. } => {
                joined = tags.join(" ");
                (b"authenticated".as_slice(), joined.as_bytes())
            }
        };
        let (user, from) = (login.credentials.user().as_bytes(), login.from.to_string());
        // The address counts, because permissions may depend on it.
        keyed(&self.key, [kind, user, rest, from.as_bytes()])
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ExternalBackend for Cache {
    fn check<'a>(self: Arc<Self>, login: &'a Login) -> Checking<'a> {
        Box::pin(async move {
            let keyed = self.keyed(login);
            if let Some((until_ms, answer)) = self.known().answers.get(&keyed)
                && login.at_ms < *until_ms
                && !is_expired(answer)
            {
                return answer.clone();
            }
            let answer = self.backend.clone().check(login).await;
            let is_known = !matches!(answer, Err(LoginRefused::Unavailable(_)));
            if answer.is_ok() || self.keeps_refusals && is_known {
                let ttl_ms = u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX);
                let until_ms = login.at_ms.saturating_add(ttl_ms);
                self.known().insert(keyed, until_ms, answer.clone(), login.at_ms);
            }
            answer
        })
    }
}

/// Returns true if the token of the client has expired. Tokens say when by the system's clock.
fn is_expired(answer: &Result<Identity, LoginRefused>) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    let token = answer.as_ref().ok().and_then(|who| who.token.as_ref());
    token.is_some_and(|token| now_ms >= token.expires_ms)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::atomic::{AtomicU32, Ordering};

    use amqp10::sasl::Secret;
    use catalog::access::Grants;

    use super::*;

    /// Knows ann, and counts.
    #[derive(Debug, Default)]
    struct Counting(AtomicU32);

    impl ExternalBackend for Counting {
        fn check<'a>(self: Arc<Self>, login: &'a Login) -> Checking<'a> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Box::pin(async {
                match &login.credentials {
                    Credentials::Plain { user, .. } if user == "ann" => Ok(Identity::internal("ann", "x")),
                    _ => Err(LoginRefused::External("unknown".into())),
                }
            })
        }
    }

    fn login(user: &str, password: &'static str, host: u8, at_ms: u64) -> Login {
        let credentials = Credentials::Plain { user: user.into(), password: Secret::new(password) };
        Login { credentials, from: IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)), at_ms }
    }

    #[tokio::test]
    async fn an_answer_counts_for_its_time() {
        for keeps_refusals in [false, true] {
            let asked = Arc::new(Counting::default());
            let ttl = Duration::from_secs(15);
            let cache = Arc::new(Cache::new(asked.clone(), ttl, keeps_refusals, [7; 32]));
            let count = async |login: Login| {
                let before = asked.0.load(Ordering::Relaxed);
                let is_known = cache.clone().check(&login).await.is_ok();
                (is_known, asked.0.load(Ordering::Relaxed) - before)
            };
            assert_eq!(count(login("ann", "p", 1, 0)).await, (true, 1));
            assert_eq!(count(login("ann", "p", 1, 14_999)).await, (true, 0));
            assert_eq!(count(login("ann", "p", 1, 15_000)).await, (true, 1));
            assert_eq!(count(login("ann", "q", 1, 15_000)).await, (true, 1), "another password");
            assert_eq!(count(login("ann", "p", 2, 15_000)).await, (true, 1), "another address");
            assert_eq!(count(login("bob", "p", 1, 0)).await, (false, 1));
            assert_eq!(count(login("bob", "p", 1, 1)).await, (false, u32::from(!keeps_refusals)));
        }
    }

    #[test]
    fn what_is_remembered_has_a_bound_in_bytes() {
        let mut known = Known::default();
        let scope = format!("read:v/{}", "x".repeat(100_000));
        let answer = || {
            let token = Some(Arc::new(Grants::new([scope.as_str()], u64::MAX)));
            Ok(Identity { token, ..Identity::internal("ann", "x") })
        };
        let mut longest = 0;
        for number in 0..1_000_u32 {
            let mut keyed = [0; 32];
            keyed[..4].copy_from_slice(&number.to_be_bytes());
            // The same login may be asked about twice at once.
            (0..2).for_each(|_| known.insert(keyed, 10, answer(), 0));
            longest = longest.max(known.answers.len());
            assert!(known.bytes <= KNOWN_BYTES_MAX);
            assert_eq!(
                known.bytes,
                known.answers.values().map(|(_, answer)| bytes_of(answer)).sum::<usize>()
            );
        }
        assert!((300..=KNOWN_BYTES_MAX / scope.len()).contains(&longest), "{longest}");
    }
}
