//! `GET /api/auth`: how users of the web page log in. The page asks for it before anybody has logged in, so it needs no login.

use serde_json::json;

use crate::reply::Reply;

/// The identity provider at which users of the web page can log in (`management.oauth_*`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageLogin {
    /// The name of the web page at the provider.
    pub client_id: String,
    /// The URL of the provider, without a slash at the end. Below it, the provider describes itself.
    pub provider_url: String,
    /// The scopes that the page asks the provider for, with spaces between them.
    pub scopes: String,
    /// True if a user and a password are accepted over HTTP, too.
    pub allows_passwords: bool,
}

/// Shows the settings in RabbitMQ's form. None of them is a secret.
pub(crate) fn get(login: Option<&PageLogin>) -> Reply {
    Reply::Json(match login {
        Some(login) => json!({
            "oauth_enabled": true,
            "oauth_client_id": login.client_id,
            "oauth_provider_url": login.provider_url,
            "oauth_scopes": login.scopes,
            "oauth_disable_basic_auth": !login.allows_passwords,
        }),
        None => json!({ "oauth_enabled": false }),
    })
}
