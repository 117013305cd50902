//! The keys that say who checks logins: `auth_backends.*`, `http_dispatch.auth_backends.*`, `auth_http.*` and `auth_cache.*`. Those
//! of tokens are in [`super::oauth2`].

use identity::oauth2::Options;

use super::chain::{BackendEntry, BackendName, ChainKeys, ExternalName};
use super::key::{Key, key, put, starred};
use super::oauth2::OAuth2Keys;
use super::values::{boolean, file, number, url, verified};

/// The keys of this file, in the order of the example file.
pub(super) const KEYS: &[Key] = &[
    starred(
        "1",
        key(
            "auth_backends.*",
            "internal",
            "Who checks logins, in the order of the numbers, until one accepts: internal (the users of this broker), oauth2 (tokens), http (a server), or cache (which remembers what another says). N.authn names the backend that says who a client is, and N.authz the one that says what it may do.",
            |c, part, v| c.logins.chain.set(part, v),
        ),
    ),
    starred(
        "1",
        key(
            "http_dispatch.auth_backends.*",
            "",
            "The same for the HTTP API and the web page. Without any: auth_backends.",
            // An empty value is the default, so that it changes nothing.
            |c, part, v| match v {
                // It changes nothing, but the name must be right.
                "" => ChainKeys::default().set(part, "internal"),
                v => c.logins.http_chain.set(part, v),
            },
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
        |c, _, v| put(&mut c.logins.http.user_path, url(v)),
    ),
    key(
        "auth_http.vhost_path",
        "http://localhost:8000/auth/vhost",
        "The URL that is asked whether the user may use a virtual host.",
        |c, _, v| put(&mut c.logins.http.vhost_path, url(v)),
    ),
    key(
        "auth_http.resource_path",
        "http://localhost:8000/auth/resource",
        "The URL that is asked for a permission on a queue or an exchange.",
        |c, _, v| put(&mut c.logins.http.resource_path, url(v)),
    ),
    key(
        "auth_http.topic_path",
        "http://localhost:8000/auth/topic",
        "The URL that is asked for a permission on a routing key of a topic exchange.",
        |c, _, v| put(&mut c.logins.http.topic_path, url(v)),
    ),
    key(
        "auth_http.request_timeout",
        "15000",
        "Milliseconds that the TLS handshake and the answer of the server may take.",
        |c, _, v| put(&mut c.logins.http.timeout_ms, number(v, 1..=600_000)),
    ),
    key(
        "auth_http.connection_timeout",
        "15000",
        "Milliseconds that it may take to connect to the server.",
        |c, _, v| put(&mut c.logins.http.connect_timeout_ms, number(v, 1..=600_000)),
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
        |_, _, v| Ok(verified(v)?),
    ),
    key(
        "auth_cache.cached_backend",
        "",
        "The backend whose answers cache remembers: http or oauth2.",
        |c, _, v| {
            let named = Some(v).filter(|v| !v.is_empty()).map(ExternalName::parse).transpose();
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

/// What was read of the keys.
#[derive(Clone, Debug)]
pub(super) struct LoginKeys {
    chain: ChainKeys,
    http_chain: ChainKeys,
    http: identity::http::Options,
    cached: Option<ExternalName>,
    cache_ttl_ms: u64,
    cache_refusals: bool,
    pub(super) oauth2: OAuth2Keys,
}

impl Default for LoginKeys {
    fn default() -> Self {
        Self {
            chain: ChainKeys::default(),
            http_chain: ChainKeys::default(),
            http: identity::http::Options::default(),
            cached: None,
            cache_ttl_ms: 15_000,
            cache_refusals: false,
            oauth2: OAuth2Keys::default(),
        }
    }
}

impl LoginKeys {
    /// Returns the backends that check logins of clients, in their order.
    pub(super) fn backends(&self) -> Vec<BackendEntry> {
        let all = self.chain.entries(self.cached);
        if all.is_empty() { vec![BackendEntry::both(BackendName::Internal)] } else { all }
    }

    /// Returns the backends that check logins over HTTP, if they are not those of clients.
    pub(super) fn http_backends(&self) -> Option<Vec<BackendEntry>> {
        Some(self.http_chain.entries(self.cached)).filter(|all| !all.is_empty())
    }

    /// Returns the keys that do not fit together, and why.
    pub(super) fn problems(&self) -> Vec<(String, String)> {
        let over_http = self.http_chain.problems("http_dispatch.auth_backends", self.cached);
        let mut problems: Vec<_> =
            self.chain.problems("auth_backends", self.cached).chain(over_http).collect();
        let all: Vec<BackendEntry> =
            self.backends().into_iter().chain(self.http_backends().unwrap_or_default()).collect();
        if self.oauth2.is_set() && !all.iter().any(|entry| entry.authn.reads_tokens(self.cached)) {
            let why = "it has no effect without auth_backends.N = oauth2".to_owned();
            problems.push(("auth_oauth2.resource_server_id".to_owned(), why));
        }
        if self.cached.is_none() && all.iter().any(|entry| entry.is_cached()) {
            let why = "it must say whose answers auth_backends.N = cache remembers".to_owned();
            problems.push(("auth_cache.cached_backend".to_owned(), why));
        }
        problems
    }

    /// Returns true if the HTTP API accepts tokens.
    pub(super) fn reads_tokens_over_http(&self) -> bool {
        let chain = self.http_backends().unwrap_or_else(|| self.backends());
        chain.iter().any(|entry| entry.authn.reads_tokens(self.cached))
    }

    /// Returns the settings of OAuth 2.
    pub(super) fn oauth2(&self) -> Options {
        self.oauth2.options()
    }

    /// Returns how the HTTP server is asked.
    pub(super) fn http(&self) -> identity::http::Options {
        self.http.clone()
    }

    /// Returns the backend that is cached, for how many milliseconds, and whether refusals are.
    pub(super) fn cache(&self) -> (Option<ExternalName>, u64, bool) {
        (self.cached, self.cache_ttl_ms, self.cache_refusals)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, "f", &[]).map_err(|error| error.to_string())
    }

    const INTERNAL: BackendEntry = BackendEntry::both(BackendName::Internal);
    const HTTP: BackendName = BackendName::External(ExternalName::Http);
    const OAUTH2: BackendName = BackendName::External(ExternalName::OAuth2);

    #[test]
    fn backends_have_the_order_of_their_numbers() {
        assert_eq!(parse("").unwrap().backends, [INTERNAL]);
        let config = parse(
            "auth_backends.10 = internal\nauth_backends.2 = oauth2\nauth_oauth2.resource_server_id = r\n\
             auth_backends.3.authn = http\nauth_backends.3.authz = internal\nauth_backends.4 = cache\n\
             auth_cache.cached_backend = http\nauth_backends.5.authn = http\nauth_backends.5.authz = http",
        )
        .unwrap();
        let users = BackendEntry { authn: HTTP, authz: BackendName::Internal };
        let whole = [OAUTH2, BackendName::Cache, HTTP].map(BackendEntry::both);
        assert_eq!(config.backends, [whole[0], users, whole[1], whole[2], INTERNAL]);
        assert_eq!(
            (config.http_backends, config.auth_cache),
            (None, (Some(ExternalName::Http), 15_000, false))
        );
        assert!(!parse("auth_backends.1 = ldap").unwrap_err().contains("authn"), "one problem is told once");
        for (text, why) in [
            ("auth_backends.1 = ldap", "internal, oauth2, http or cache is needed"),
            ("auth_backends.1 =", "internal, oauth2, http or cache is needed"),
            ("auth_backends.one = http", "must end with a number"),
            ("auth_backends.1.authx = http", "authn or authz"),
            ("auth_backends.1.authn = http", "auth_backends.1: authn and authz are both needed"),
            ("auth_backends.1 = http\nauth_backends.1.authz = http", "named twice"),
            ("auth_backends.1 = cache", "auth_cache.cached_backend: it must say whose answers"),
            ("auth_cache.cached_backend = internal", "http or oauth2 is needed"),
            ("auth_http.ssl_options.verify = verify_none", "verify_peer is needed"),
            ("auth_http.http_method = put", "get or post is needed"),
        ] {
            let refused = parse(text).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }

    #[test]
    fn one_backend_may_know_the_users_and_another_their_permissions() {
        let (cache, internal) = (BackendName::Cache, BackendName::Internal);
        let pair = |authn: &str, authz: &str, cached: &str| {
            parse(&format!(
                "auth_backends.1.authn = {authn}\nauth_backends.1.authz = {authz}\n\
                 auth_cache.cached_backend = {cached}"
            ))
        };
        for (authn, authz, entry) in [
            ("internal", "http", (internal, HTTP)),
            ("http", "internal", (HTTP, internal)),
            ("internal", "cache", (internal, cache)),
            ("cache", "internal", (cache, internal)),
            ("http", "cache", (HTTP, cache)),
            ("cache", "http", (cache, HTTP)),
            ("cache", "cache", (cache, cache)),
            ("oauth", "oauth2", (OAUTH2, OAUTH2)),
        ] {
            let backends = pair(authn, authz, "http").unwrap().backends;
            assert_eq!(backends, [BackendEntry { authn: entry.0, authz: entry.1 }], "{authn} {authz}");
        }
        for (authn, authz, cached, why) in [
            ("oauth2", "internal", "http", "authz must be the same backend: the token says"),
            ("cache", "internal", "oauth2", "authz must be the same backend: the token says"),
            ("oauth2", "cache", "oauth2", "authz must be the same backend: the token says"),
            ("internal", "oauth2", "http", "authn must be the same backend: the token says"),
            ("http", "cache", "oauth2", "authn must be the same backend: the token says"),
        ] {
            let refused = pair(authn, authz, cached).unwrap_err();
            assert!(refused.contains(&format!("auth_backends.1: {why}")), "{authn} {authz}: {refused}");
        }
    }

    #[test]
    fn the_http_api_may_have_a_chain_of_its_own() {
        let config = parse("http_dispatch.auth_backends.2.authn = internal\nhttp_dispatch.auth_backends.2.authz = http\nhttp_dispatch.auth_backends.1 = http").unwrap();
        let pair = BackendEntry { authn: BackendName::Internal, authz: HTTP };
        assert_eq!(config.http_backends, Some(vec![BackendEntry::both(HTTP), pair]));
        assert_eq!(config.backends, [INTERNAL]);
        assert_eq!(parse("http_dispatch.auth_backends.1 =").unwrap().http_backends, None);
        for (text, why) in [
            ("http_dispatch.auth_backends.1 = ldap", "internal, oauth2, http or cache is needed"),
            (
                "http_dispatch.auth_backends.1.authn = http",
                "http_dispatch.auth_backends.1: authn and authz are both needed",
            ),
            ("http_dispatch.auth_backends.1 = cache", "auth_cache.cached_backend: it must say whose answers"),
        ] {
            let refused = parse(text).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }
}
