//! The keys that say who checks logins: `auth_backends.*`, `auth_http.*` and `auth_cache.*`. Those of tokens are in
//! [`super::oauth2`].

use identity::oauth2::Options;

use super::keys::{Key, key, put, starred};
use super::oauth2::OAuth2Keys;
use super::values::{Numbered, boolean, file, index, number, text, verified};

/// The keys of this file, in the order of the example file.
pub const KEYS: &[Key] = &[
    starred(
        "1",
        key(
            "auth_backends.*",
            "internal",
            "Who checks logins, in the order of the numbers, until one accepts: internal (the users of this broker), oauth2 (tokens), http (a server), or cache (which remembers what another says). With N.authn http and N.authz internal, the server knows the users, and this broker their permissions.",
            |c, part, v| c.logins.set_backend(part, v),
        ),
    ),
    key("auth_http.http_method", "get", "How the server is asked: get or post.", |c, _, v| {
        put(
            &mut c.logins.http.is_post,
            match v {
                "get" => Ok(false),
                "post" => Ok(true),
                _ => Err("get or post is needed".to_owned()),
            },
        )
    }),
    key(
        "auth_http.user_path",
        "http://localhost:8000/auth/user",
        "The URL that is asked whether a login is right. The answer is allow with tags, or deny.",
        |c, _, v| put(&mut c.logins.http.user_path, text(v)),
    ),
    key(
        "auth_http.vhost_path",
        "http://localhost:8000/auth/vhost",
        "The URL that is asked whether the user may use a virtual host.",
        |c, _, v| put(&mut c.logins.http.vhost_path, text(v)),
    ),
    key(
        "auth_http.resource_path",
        "http://localhost:8000/auth/resource",
        "The URL that is asked for a permission on a queue or an exchange.",
        |c, _, v| put(&mut c.logins.http.resource_path, text(v)),
    ),
    key(
        "auth_http.topic_path",
        "http://localhost:8000/auth/topic",
        "The URL that is asked for a permission on a routing key of a topic exchange.",
        |c, _, v| put(&mut c.logins.http.topic_path, text(v)),
    ),
    key(
        "auth_http.request_timeout",
        "15000",
        "Milliseconds that each step of a request to the server may take.",
        |c, _, v| put(&mut c.logins.http.timeout_ms, number(v, 1..=600_000)),
    ),
    key(
        "auth_http.ssl_options.cacertfile",
        "",
        "The file of the authorities that have signed the server's certificate, in PEM. Without it: those that the system trusts.",
        |c, _, v| put(&mut c.logins.http.authorities, file(v)),
    ),
    key(
        "auth_http.ssl_options.verify",
        "verify_peer",
        "verify_peer: passwords are only sent to a server with a valid certificate.",
        |_, _, v| verified(v),
    ),
    key(
        "auth_cache.cached_backend",
        "",
        "The backend whose answers cache remembers: http or oauth2.",
        |c, _, v| {
            let named = Some(v).filter(|v| !v.is_empty()).map(external).transpose();
            put(&mut c.logins.cached, named)
        },
    ),
    key("auth_cache.cache_ttl", "15000", "Milliseconds for which cache remembers an answer.", |c, _, v| {
        put(&mut c.logins.cache_ttl_ms, number(v, 1..=86_400_000))
    }),
    key("auth_cache.cache_refusals", "false", "Whether cache remembers refusals, too.", |c, _, v| {
        put(&mut c.logins.cache_refusals, boolean(v))
    }),
];

/// An external backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExternalName {
    OAuth2,
    Http,
}

/// A backend in `auth_backends`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendName {
    Internal,
    External(ExternalName),
    /// What the cached backend says is remembered.
    Cache,
}

/// An entry of `auth_backends`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendEntry {
    pub name: BackendName,
    /// True if the backend only says who a client is, and the catalog what it may do.
    pub is_authentication_only: bool,
}

const INTERNAL: BackendEntry = BackendEntry { name: BackendName::Internal, is_authentication_only: false };

fn external(value: &str) -> Result<ExternalName, String> {
    match value {
        "oauth2" | "rabbit_auth_backend_oauth2" => Ok(ExternalName::OAuth2),
        "http" | "rabbit_auth_backend_http" => Ok(ExternalName::Http),
        _ => Err("http or oauth2 is needed".to_owned()),
    }
}

fn backend(value: &str) -> Result<BackendName, String> {
    match value {
        "internal" | "rabbit_auth_backend_internal" => Ok(BackendName::Internal),
        "cache" | "rabbit_auth_backend_cache" => Ok(BackendName::Cache),
        other => external(other).map(BackendName::External).map_err(|_| {
            "internal, oauth2, http or cache is needed; Sluice has no other backends".to_owned()
        }),
    }
}

/// The keys of one entry of `auth_backends`.
#[derive(Clone, Copy, Debug, Default)]
struct Parts {
    whole: Option<BackendName>,
    authn: Option<BackendName>,
    authz: Option<BackendName>,
}

/// What was read of the keys.
#[derive(Clone, Debug)]
pub struct LoginKeys {
    backends: Numbered<Parts>,
    http: identity::http::Options,
    cached: Option<ExternalName>,
    cache_ttl_ms: u64,
    cache_refusals: bool,
    pub(super) oauth2: OAuth2Keys,
}

impl Default for LoginKeys {
    fn default() -> Self {
        Self {
            backends: Numbered::new(),
            http: identity::http::Options::default(),
            cached: None,
            cache_ttl_ms: 15_000,
            cache_refusals: false,
            oauth2: OAuth2Keys::default(),
        }
    }
}

impl LoginKeys {
    fn set_backend(&mut self, part: &str, value: &str) -> Result<(), String> {
        let (n, part) = part.split_once('.').unwrap_or((part, ""));
        let slot: fn(&mut Parts) -> &mut Option<BackendName> = match part {
            "" => |parts| &mut parts.whole,
            "authn" => |parts| &mut parts.authn,
            "authz" => |parts| &mut parts.authz,
            _ => return Err("the key must end with a number, authn or authz".to_owned()),
        };
        // A wrong value leaves no entry behind, which would be reported as incomplete.
        let (at, name) = (index(n)?, backend(value)?);
        *slot(self.backends.entry(at).or_default()) = Some(name);
        Ok(())
    }

    /// Returns the backends in their order.
    pub fn backends(&self) -> Vec<BackendEntry> {
        let all: Vec<BackendEntry> = self.backends.values().filter_map(|parts| entry(*parts).ok()).collect();
        if all.is_empty() { vec![INTERNAL] } else { all }
    }

    /// Returns the keys that do not fit together, and why.
    pub fn problems(&self) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        for (n, parts) in &self.backends {
            if let Err(why) = entry(*parts) {
                problems.push((format!("auth_backends.{n}"), why.to_owned()));
            }
        }
        let backends = self.backends();
        let is_cached = backends.iter().any(|entry| entry.name == BackendName::Cache);
        if self.oauth2.is_set() && !self.reads_tokens() {
            let why = "it has no effect without auth_backends.N = oauth2".to_owned();
            problems.push(("auth_oauth2.resource_server_id".to_owned(), why));
        }
        if is_cached && self.cached.is_none() {
            let why = "it must say whose answers auth_backends.N = cache remembers".to_owned();
            problems.push(("auth_cache.cached_backend".to_owned(), why));
        }
        problems
    }

    /// Returns true if one of the backends accepts tokens.
    pub fn reads_tokens(&self) -> bool {
        let of = |name| match name {
            BackendName::External(name) => name == ExternalName::OAuth2,
            BackendName::Cache => self.cached == Some(ExternalName::OAuth2),
            BackendName::Internal => false,
        };
        self.backends().iter().any(|entry| of(entry.name))
    }

    /// Returns the settings of OAuth 2.
    pub fn oauth2(&self) -> Options {
        self.oauth2.options()
    }

    /// Returns how the HTTP server is asked.
    pub fn http(&self) -> identity::http::Options {
        self.http.clone()
    }

    /// Returns the backend that is cached, for how many milliseconds, and whether refusals are.
    pub fn cache(&self) -> (Option<ExternalName>, u64, bool) {
        (self.cached, self.cache_ttl_ms, self.cache_refusals)
    }
}

/// Returns the backend that an entry names.
fn entry(parts: Parts) -> Result<BackendEntry, &'static str> {
    match parts {
        Parts { whole: Some(name), authn: None, authz: None } => {
            Ok(BackendEntry { name, is_authentication_only: false })
        }
        Parts { whole: None, authn: Some(authn), authz: Some(authz) } if authn == authz => {
            Ok(BackendEntry { name: authn, is_authentication_only: false })
        }
        // The connection would not know when its token expires.
        Parts { authn: Some(BackendName::External(ExternalName::OAuth2)), whole: None, .. } => {
            Err("authz must be oauth2, too: the token says what its user may do, and until when")
        }
        Parts { whole: None, authn: Some(BackendName::Cache), .. } => {
            Err("cache must be the backend of both authn and authz")
        }
        Parts { whole: None, authn: Some(name), authz: Some(BackendName::Internal) } => {
            Ok(BackendEntry { name, is_authentication_only: true })
        }
        Parts { whole: None, .. } => {
            Err("authn and authz are both needed, and authz must be internal or the same backend")
        }
        _ => Err("the backend is named twice: with and without authn or authz"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, "f", &[]).map_err(|error| error.to_string())
    }

    #[test]
    fn backends_have_the_order_of_their_numbers() {
        let whole = |name| BackendEntry { name, is_authentication_only: false };
        let [oauth2, http] = [ExternalName::OAuth2, ExternalName::Http].map(BackendName::External);
        assert_eq!(parse("").unwrap().backends, [INTERNAL]);
        let config = parse(
            "auth_backends.10 = internal\nauth_backends.2 = oauth2\nauth_oauth2.resource_server_id = r\n\
             auth_backends.3.authn = http\nauth_backends.3.authz = internal\nauth_backends.4 = cache\n\
             auth_cache.cached_backend = http\nauth_backends.5.authn = http\nauth_backends.5.authz = http",
        )
        .unwrap();
        let users = BackendEntry { name: http, is_authentication_only: true };
        assert_eq!(config.backends, [whole(oauth2), users, whole(BackendName::Cache), whole(http), INTERNAL]);
        assert_eq!(config.auth_cache, (Some(ExternalName::Http), 15_000, false));
        assert!(!parse("auth_backends.1 = ldap").unwrap_err().contains("authn"), "one problem is told once");
        for (text, why) in [
            ("auth_backends.1 = ldap", "internal, oauth2, http or cache is needed"),
            ("auth_backends.one = http", "must end with a number"),
            ("auth_backends.1.authx = http", "authn or authz"),
            ("auth_backends.1.authn = http", "auth_backends.1: authn and authz are both needed"),
            ("auth_backends.1.authn = internal\nauth_backends.1.authz = http", "authz must be internal"),
            ("auth_backends.1 = http\nauth_backends.1.authz = http", "named twice"),
            ("auth_backends.1.authn = oauth2\nauth_backends.1.authz = internal", "authz must be oauth2, too"),
            (
                "auth_backends.1.authn = cache\nauth_backends.1.authz = internal",
                "cache must be the backend of both",
            ),
            ("auth_backends.1 = cache", "auth_cache.cached_backend: it must say whose answers"),
            ("auth_cache.cached_backend = internal", "http or oauth2 is needed"),
            ("auth_http.ssl_options.verify = verify_none", "verify_peer is needed"),
            ("auth_http.http_method = put", "get or post is needed"),
        ] {
            let refused = parse(text).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }
}
