//! The keys about how users of the web page log in, `management.oauth_*`.

use admin::PageLogin;
use hyper::Uri;
use identity::url::has_user;

use super::key::{Key, key, put};
use super::values::{boolean, optional, text};

/// The scopes that every provider knows.
const SCOPES_DEFAULT: &str = "openid profile";

/// The keys of this file, in the order of the example file.
pub(super) const KEYS: &[Key] = &[
    key(
        "management.oauth_enabled",
        "false",
        "Whether users of the web page can log in with an identity provider, whose tokens the backend oauth2 accepts.",
        |c, _, v| put(&mut c.page_login.is_enabled, boolean(v)),
    ),
    key(
        "management.oauth_client_id",
        "",
        "The name of the web page at the provider, as a public client with PKCE. Its address is the redirect URI.",
        |c, _, v| put(&mut c.page_login.client_id, optional(v)),
    ),
    key(
        "management.oauth_provider_url",
        "",
        "The URL (https) of the provider, which says below it where users log in. Without it: auth_oauth2.issuer.",
        |c, _, v| put(&mut c.page_login.provider_url, url(v)),
    ),
    key(
        "management.oauth_scopes",
        SCOPES_DEFAULT,
        "The scopes that the web page asks the provider for, with spaces between them.",
        |c, _, v| put(&mut c.page_login.scopes, text(v)),
    ),
    key(
        "management.oauth_disable_basic_auth",
        "true",
        "Whether the management API accepts only tokens if management.oauth_enabled is true. Commands of sluice have --token-file.",
        |c, _, v| put(&mut c.page_login.refuses_passwords, boolean(v)),
    ),
];

/// The values of these keys.
#[derive(Clone, Debug)]
pub(super) struct PageLoginKeys {
    is_enabled: bool,
    client_id: Option<String>,
    provider_url: Option<String>,
    scopes: String,
    refuses_passwords: bool,
}

impl Default for PageLoginKeys {
    fn default() -> Self {
        let scopes = SCOPES_DEFAULT.to_owned();
        Self { is_enabled: false, client_id: None, provider_url: None, scopes, refuses_passwords: true }
    }
}

impl PageLoginKeys {
    /// Returns the key that does not fit to the others, and why. `issuer` is the URL of the provider whose tokens are accepted.
    pub(super) fn problem(&self, issuer: Option<&str>, reads_tokens: bool) -> Option<(String, String)> {
        let problem = |key: &str, why: &str| Some((format!("management.oauth_{key}"), why.to_owned()));
        if !self.is_enabled {
            return None;
        }
        if !reads_tokens {
            return problem(
                "enabled",
                "nobody could log in without auth_backends.N = oauth2, or http_dispatch.auth_backends.N if it is set",
            );
        }
        if self.client_id.is_none() {
            return problem("enabled", "it needs management.oauth_client_id");
        }
        // A provider_url was checked when it was set.
        match self.provider_url.as_deref().or(issuer).map(url) {
            None => problem("enabled", "it needs management.oauth_provider_url or auth_oauth2.issuer"),
            Some(Err(why)) => {
                problem("enabled", &format!("auth_oauth2.issuer cannot be the provider: {why}"))
            }
            Some(Ok(_)) => None,
        }
    }

    /// Returns the provider at which users log in, if there is one.
    pub(super) fn options(&self, issuer: Option<&str>) -> Option<PageLogin> {
        let provider_url = self.provider_url.as_deref().or(issuer).filter(|_| self.is_enabled)?;
        Some(PageLogin {
            client_id: self.client_id.clone()?,
            provider_url: provider_url.trim_end_matches('/').to_owned(),
            scopes: self.scopes.clone(),
            allows_passwords: !self.refuses_passwords,
        })
    }
}

/// Returns the origin of a URL: its scheme, host and port.
pub(super) fn origin(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    Some(format!("{}://{}", uri.scheme_str()?, uri.authority()?))
}

/// Parses the URL of a provider. Without TLS, somebody on the way could log in as the user; on this machine nobody is on the way.
fn url(value: &str) -> Result<Option<String>, String> {
    let Some(value) = optional(value)? else { return Ok(None) };
    let is_provider = |uri: &Uri| {
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let is_near = matches!(uri.host(), Some("localhost" | "127.0.0.1" | "[::1]"));
        let is_safe = uri.scheme_str() == Some("https") || uri.scheme_str() == Some("http") && is_near;
        // The authority becomes a part of a header, in which these characters have a meaning.
        is_safe && uri.query().is_none() && !has_user(uri) && !authority.contains([';', ',', '\'', '*'])
    };
    let is_good = value.parse().is_ok_and(|uri| is_provider(&uri));
    match is_good {
        true => Ok(Some(value)),
        false => Err("a URL that begins with https:// is needed (http:// only on this machine)".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_is_safe_or_near() {
        for good in [
            "https://idp.example",
            "https://idp.example:8443/realms/a",
            "http://127.0.0.1:8080",
            "http://[::1]:1/",
        ] {
            assert_eq!(url(good), Ok(Some(good.to_owned())));
        }
        for bad in [
            "http://idp.example",
            "idp.example",
            "https://",
            "https://a?b",
            "https://u@a",
            "https://*.a",
            "https://a;b",
            "ftp://a",
        ] {
            assert!(url(bad).is_err(), "{bad}");
        }
        assert_eq!(origin("https://a:1/b").as_deref(), Some("https://a:1"));
    }

    #[test]
    fn a_login_is_complete_or_refused() {
        let keys = |client_id: Option<&str>| PageLoginKeys {
            is_enabled: true,
            client_id: client_id.map(str::to_owned),
            ..PageLoginKeys::default()
        };
        let issuer = Some("https://idp/");
        assert_eq!(PageLoginKeys::default().problem(None, false), None);
        assert_eq!(keys(Some("page")).problem(issuer, true), None);
        for (keys, issuer, reads_tokens, word) in [
            (keys(Some("page")), issuer, false, "auth_backends"),
            (keys(None), issuer, true, "oauth_client_id"),
            (keys(Some("page")), None, true, "oauth_provider_url"),
            (keys(Some("page")), Some("http://idp.example"), true, "auth_oauth2.issuer"),
            (keys(Some("page")), Some("https://idp;x"), true, "auth_oauth2.issuer"),
        ] {
            let (key, why) = keys.problem(issuer, reads_tokens).unwrap();
            assert!(key == "management.oauth_enabled" && why.contains(word), "{why}");
        }
        let login = keys(Some("page")).options(issuer).unwrap();
        assert_eq!((login.provider_url.as_str(), login.allows_passwords), ("https://idp", false));
        assert_eq!(PageLoginKeys::default().options(issuer), None);
    }
}
