//! Remembers for some seconds what another backend has said, so that many connections of one user ask its server once. They
//! share the permissions that were asked for meanwhile, too.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use broker::access::{
    Checking, Credentials, ExternalBackend, Identity, Keyed, Login, LoginRefused, RememberKey, keyed,
};

/// The most logins that are remembered. Beyond it, all are asked again.
const KNOWN_MAX: usize = 10_000;

/// The answers, and the time until which each counts, in milliseconds since the epoch.
type Answers = HashMap<Keyed, (u64, Result<Identity, LoginRefused>)>;

/// The backend `cache`.
pub struct Cache {
    backend: Arc<dyn ExternalBackend>,
    /// How long an answer counts.
    ttl: Duration,
    /// True if refusals are remembered as well.
    keeps_refusals: bool,
    /// Logins are known by a hash with this random key, so that no password is kept.
    key: RememberKey,
    known: Mutex<Answers>,
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

    fn known(&self) -> MutexGuard<'_, Answers> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ExternalBackend for Cache {
    fn check<'a>(self: Arc<Self>, login: &'a Login) -> Checking<'a> {
        Box::pin(async move {
            let keyed = self.keyed(login);
            if let Some((until_ms, answer)) = self.known().get(&keyed)
                && login.at_ms < *until_ms
                && !is_expired(answer, login.at_ms)
            {
                return answer.clone();
            }
            let answer = self.backend.clone().check(login).await;
            let is_known = !matches!(answer, Err(LoginRefused::Unavailable(_)));
            if answer.is_ok() || self.keeps_refusals && is_known {
                let ttl_ms = u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX);
                let mut known = self.known();
                if known.len() >= KNOWN_MAX {
                    known.retain(|_, (until_ms, _)| login.at_ms < *until_ms);
                }
                if known.len() >= KNOWN_MAX {
                    known.clear();
                }
                known.insert(keyed, (login.at_ms.saturating_add(ttl_ms), answer.clone()));
            }
            answer
        })
    }
}

/// Returns true if the token of the client has expired.
fn is_expired(answer: &Result<Identity, LoginRefused>, now_ms: u64) -> bool {
    let token = answer.as_ref().ok().and_then(|who| who.token.as_ref());
    token.is_some_and(|token| now_ms >= token.expires_ms)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::atomic::{AtomicU32, Ordering};

    use amqp10::sasl::Secret;

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
}
