//! A chain of backends that check logins: `auth_backends.*` for clients, `http_dispatch.auth_backends.*` for the HTTP API.

use super::values::{Numbered, index};
use super::wrong::Wrong;

/// An external backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ExternalName {
    OAuth2,
    Http,
}

impl ExternalName {
    /// Returns the backend with this name.
    ///
    /// # Errors
    /// A message that says what is needed.
    pub(crate) fn parse(value: &str) -> Result<Self, String> {
        match value {
            "oauth2" | "oauth" | "rabbit_auth_backend_oauth2" => Ok(Self::OAuth2),
            "http" | "rabbit_auth_backend_http" => Ok(Self::Http),
            _ => Err("http or oauth2 is needed".to_owned()),
        }
    }
}

/// A backend in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BackendName {
    Internal,
    External(ExternalName),
    /// What the cached backend says is remembered.
    Cache,
}

impl BackendName {
    fn parse(value: &str) -> Result<Self, String> {
        match value {
            "internal" | "rabbit_auth_backend_internal" => Ok(Self::Internal),
            "cache" | "rabbit_auth_backend_cache" => Ok(Self::Cache),
            other => ExternalName::parse(other).map(Self::External).map_err(|_| {
                "internal, oauth2, http or cache is needed; Sluice has no other backends".to_owned()
            }),
        }
    }

    /// Returns true if this backend reads tokens. `cached` is the backend that `cache` asks.
    pub(crate) fn reads_tokens(self, cached: Option<ExternalName>) -> bool {
        let asked = match self {
            Self::Internal => None,
            Self::External(name) => Some(name),
            Self::Cache => cached,
        };
        asked == Some(ExternalName::OAuth2)
    }
}

/// An entry of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BackendEntry {
    /// Says who a client is.
    pub authn: BackendName,
    /// Says what it may do.
    pub authz: BackendName,
}

impl BackendEntry {
    /// The entry with one backend for both.
    pub(crate) const fn both(name: BackendName) -> Self {
        Self { authn: name, authz: name }
    }

    /// Returns true if one of the backends is `cache`.
    pub(crate) fn is_cached(self) -> bool {
        [self.authn, self.authz].contains(&BackendName::Cache)
    }
}

/// The keys of one entry.
#[derive(Clone, Copy, Debug, Default)]
struct Parts {
    whole: Option<BackendName>,
    authn: Option<BackendName>,
    authz: Option<BackendName>,
}

impl Parts {
    /// Returns the entry that the keys describe.
    fn entry(self, cached: Option<ExternalName>) -> Result<BackendEntry, &'static str> {
        let (authn, authz) = match self {
            Self { whole: Some(name), authn: None, authz: None } => return Ok(BackendEntry::both(name)),
            Self { whole: None, authn: Some(authn), authz: Some(authz) } => (authn, authz),
            Self { whole: None, .. } => return Err("authn and authz are both needed"),
            _ => return Err("the backend is named twice: with and without authn or authz"),
        };
        match (authn.reads_tokens(cached), authz.reads_tokens(cached)) {
            _ if authn == authz => Ok(BackendEntry { authn, authz }),
            // The connection would not know when its token expires.
            (true, _) => {
                Err("authz must be the same backend: the token says what its user may do, and until when")
            }
            // A token that another backend has taken for a password says nothing about its user.
            (false, true) => Err("authn must be the same backend: the token says who its user is"),
            (false, false) => Ok(BackendEntry { authn, authz }),
        }
    }
}

/// What was read of the keys of a chain.
#[derive(Clone, Debug, Default)]
pub(super) struct ChainKeys(Numbered<Parts>);

impl ChainKeys {
    /// Sets the backend of a key that ends with `part`: `N`, `N.authn` or `N.authz`.
    ///
    /// # Errors
    /// Whether the end of the key or the value is wrong.
    pub(super) fn set(&mut self, part: &str, value: &str) -> Result<(), Wrong> {
        let (n, part) = part.split_once('.').unwrap_or((part, ""));
        let slot: fn(&mut Parts) -> &mut Option<BackendName> = match part {
            "" => |parts| &mut parts.whole,
            "authn" => |parts| &mut parts.authn,
            "authz" => |parts| &mut parts.authz,
            _ => return Err(Wrong::name("the key must end with a number, authn or authz")),
        };
        // A wrong value leaves no entry behind, which would be reported as incomplete.
        let (at, name) = (index(n)?, BackendName::parse(value)?);
        *slot(self.0.entry(at).or_default()) = Some(name);
        Ok(())
    }

    /// Returns the entries in their order.
    pub(super) fn entries(&self, cached: Option<ExternalName>) -> Vec<BackendEntry> {
        self.0.values().filter_map(|parts| parts.entry(cached).ok()).collect()
    }

    /// Returns the keys that do not fit together, and why. `prefix` is the key of the chain.
    pub(super) fn problems<'a>(
        &'a self,
        prefix: &'a str,
        cached: Option<ExternalName>,
    ) -> impl Iterator<Item = (String, String)> + 'a {
        self.0.iter().filter_map(move |(n, parts)| {
            let why = parts.entry(cached).err()?;
            Some((format!("{prefix}.{n}"), why.to_owned()))
        })
    }
}
