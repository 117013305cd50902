//! What an operator can set of the headers of responses.

use axum::http::HeaderValue;

/// What the web page of this port needs, and no more. Nobody may show it in a frame.
pub const POLICY_DEFAULT: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// How long a browser may remember what CORS allows, in seconds. It is RabbitMQ's default.
pub const MAX_AGE_S_DEFAULT: u32 = 1800;

/// What an operator can set.
#[derive(Clone, Debug)]
pub struct HeaderOptions {
    /// The value of `Content-Security-Policy` (`management.csp.policy`).
    pub policy: HeaderValue,
    /// The value of `Strict-Transport-Security`, which is sent over TLS only (`management.hsts.policy`).
    pub hsts: Option<HeaderValue>,
    /// The origins whose pages may use the API (`management.cors.allow_origins.N`). `*` stands for all.
    pub origins: Vec<String>,
    /// How long a browser may remember this, in seconds (`management.cors.max_age`).
    pub max_age_s: u32,
}

impl Default for HeaderOptions {
    fn default() -> Self {
        Self {
            policy: HeaderValue::from_static(POLICY_DEFAULT),
            hsts: None,
            origins: Vec::new(),
            max_age_s: MAX_AGE_S_DEFAULT,
        }
    }
}
