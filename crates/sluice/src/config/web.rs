//! The keys about browsers that use the management API: `management.csp.*`, `management.hsts.*`, `management.cors.*` and
//! `management.allowed_hosts.*`.

use std::collections::BTreeMap;

use admin::{HeaderOptions, HostOptions, MAX_AGE_S_DEFAULT, POLICY_DEFAULT};
use hyper::header::HeaderValue;

use super::key::{Key, key, put};
use super::values::{free_name, number, text};

/// The longest value of a header, in bytes. Each response has it.
const HEADER_BYTES_MAX: usize = 4096;

/// The longest time for which a browser may remember what CORS allows, in seconds: a day. Browsers allow no more.
const MAX_AGE_S_MAX: u32 = 86_400;

/// What the page may send requests to, in its policy.
const CONNECT: &str = "connect-src 'self'";

const _: () = assert!(MAX_AGE_S_DEFAULT <= MAX_AGE_S_MAX);

/// The keys of this file, in the order of the example file.
pub(super) const KEYS: &[Key] = &[
    key(
        "management.csp.policy",
        POLICY_DEFAULT,
        "The header Content-Security-Policy of the management API. The default is what its web page needs.",
        |c, _, v| {
            let policy = header(v)?.ok_or_else(|| "a policy is needed".to_owned())?;
            put(&mut c.web.options.policy, Ok(policy))
        },
    ),
    key(
        "management.hsts.policy",
        "",
        "The header Strict-Transport-Security of the management API over HTTPS, such as max-age=31536000.",
        |c, _, v| put(&mut c.web.options.hsts, header(v)),
    ),
    key(
        "management.cors.allow_origins.*",
        "",
        "An origin whose pages may use the management API with the login of their user: https://tools.example.com, or * for any. Any name may stand for N.",
        |c, name, v| {
            let (name, origin) = (free_name(name)?, origin(v)?);
            c.web.origins.remove(&name);
            c.web.origins.extend(origin.map(|origin| (name, origin)));
            Ok(())
        },
    ),
    key(
        "management.cors.max_age",
        "1800",
        "Seconds for which a browser of such a page may remember what it may do.",
        |c, _, v| put(&mut c.web.options.max_age_s, number(v, 0..=MAX_AGE_S_MAX)),
    ),
    key(
        "management.allowed_hosts.*",
        "",
        "A name of the management API, with its port unless it is 80 or 443: mq.example.com or mq.example.com:8443. It is needed if a proxy replaces the header Host, and for users of loopback_users who use this name. Any name may stand for N.",
        |c, name, v| {
            let (name, host) = (free_name(name)?, host(v)?);
            c.web.hosts.remove(&name);
            c.web.hosts.extend(host.map(|host| (name, host)));
            Ok(())
        },
    ),
];

/// The values of these keys.
#[derive(Clone, Debug, Default)]
pub(super) struct WebKeys {
    options: HeaderOptions,
    /// The origins, by the `N` of their keys.
    origins: BTreeMap<String, String>,
    /// The hosts, by the `N` of their keys.
    hosts: BTreeMap<String, String>,
}

impl WebKeys {
    /// Returns the allowed hosts.
    pub(super) fn hosts(&self) -> Vec<String> {
        self.hosts.values().cloned().collect()
    }

    /// Returns a warning if pages of any origin may change the broker.
    pub(super) fn warning(&self) -> Option<String> {
        let (name, _) = self.origins.iter().find(|(_, origin)| *origin == "*")?;
        Some(format!(
            "management.cors.allow_origins.{name} = *: a page of any web site can change this broker with the login that a browser \
             remembers; list the origins that need it"
        ))
    }

    /// Returns the headers. The default policy lets the page ask `provider`, an origin where its users log in.
    pub(super) fn options(self, provider: Option<&str>) -> HeaderOptions {
        let origins = self.origins.into_values().collect();
        let mut options = HeaderOptions { origins, ..self.options };
        if let Some(provider) = provider
            && options.policy == POLICY_DEFAULT
        {
            let policy = POLICY_DEFAULT.replace(CONNECT, &format!("{CONNECT} {provider}"));
            // The origin is a part of a checked URL, so it can be a part of a header.
            options.policy = HeaderValue::from_str(&policy).unwrap_or(options.policy);
        }
        options
    }
}

/// Parses the value of a header. An empty one means none.
fn header(value: &str) -> Result<Option<HeaderValue>, String> {
    if value.is_empty() {
        return Ok(None);
    }
    let header = Some(value).filter(|value| value.len() <= HEADER_BYTES_MAX && value.is_ascii());
    let header = header.and_then(|value| HeaderValue::from_str(value).ok());
    header.map(Some).ok_or_else(|| format!("ASCII text of at most {HEADER_BYTES_MAX} bytes is needed"))
}

/// Parses an origin. An empty one means none.
fn origin(value: &str) -> Result<Option<String>, String> {
    if value.is_empty() {
        return Ok(None);
    }
    let need = "an origin is needed, such as https://tools.example.com or http://localhost:3000, or *";
    let value = text(value).map_err(|_| need.to_owned())?;
    let host = value.strip_prefix("https://").or_else(|| value.strip_prefix("http://"));
    let is_origin = host.is_some_and(|host| !host.is_empty() && !host.contains(['/', ' ', '?', '#', '@']));
    if value == "*" || is_origin { Ok(Some(value)) } else { Err(need.to_owned()) }
}

/// Parses a host with or without a port. An empty one means none.
fn host(value: &str) -> Result<Option<String>, String> {
    if value.is_empty() {
        return Ok(None);
    }
    let host = text(value).ok().filter(|host| HostOptions::is_host(host));
    let need = "a host is needed, with its port unless it is 80 or 443, such as mq.example.com or mq.example.com:8443";
    host.map(Some).ok_or_else(|| need.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_may_ask_the_provider_of_its_users() {
        let policy = |keys: WebKeys, provider| keys.options(provider).policy.to_str().unwrap().to_owned();
        assert_eq!(policy(WebKeys::default(), None), POLICY_DEFAULT);
        let with_provider = policy(WebKeys::default(), Some("https://idp:1"));
        assert!(with_provider.contains("; connect-src 'self' https://idp:1; "), "{with_provider}");
        let mut own = WebKeys::default();
        own.options.policy = HeaderValue::from_static("default-src 'self'");
        assert_eq!(
            policy(own, Some("https://idp:1")),
            "default-src 'self'",
            "the policy of an operator counts"
        );
    }

    #[test]
    fn an_origin_has_no_path() {
        for good in ["*", "https://a.example", "http://localhost:3000", "http://[::1]:80"] {
            assert_eq!(origin(good), Ok(Some(good.to_owned())));
        }
        for bad in
            ["a.example", "https://", "https://a.example/", "ftp://a", "null", "https://u@a", "https://a b"]
        {
            assert!(origin(bad).is_err(), "{bad}");
        }
    }
}
