//! Authentication, and the permissions that depend on a user's tags. All other permissions are checked by the
//! node ([`broker::admin_api`]). Both use [`catalog::access`].

use std::net::SocketAddr;
use std::time::Duration;

use amqp10::sasl::Secret;
use axum::http::{HeaderMap, Uri, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use broker::admin_api::AdminError;
use broker::audit::Actor;
use catalog::access::{self, Identity, Protocol, Rights, Verb};
use node::AdminApi;

use crate::origin::host_of;
use crate::ports::Ports;
use crate::reply::Failure;

/// The longest `Authorization` header that is accepted, in bytes. It may have a token.
const AUTHORIZATION_MAX: usize = 16 * 1024;

const BASIC: &str = "Basic";
const BEARER: &str = "Bearer";

/// Who sends a request.
#[derive(Debug)]
pub(crate) struct Sender {
    pub who: Identity,
    /// The scheme of the credentials.
    scheme: &'static str,
    pub address: SocketAddr,
    /// The address, as it is shown.
    peer: String,
}

impl Sender {
    #[cfg(test)]
    pub(crate) fn for_test(who: Identity) -> Self {
        Self { who, scheme: BASIC, address: ([127, 0, 0, 1], 1).into(), peer: String::new() }
    }

    /// Returns the sender for audit lines.
    pub(crate) fn actor(&self) -> Actor<'_> {
        Actor { user: &self.who.user, peer: &self.peer, protocol: Protocol::Http, mechanism: self.scheme }
    }
}

/// Checks the credentials, a password (Basic) or a token (Bearer), the host that the request names, and the peer's address. Nothing
/// else authenticates a request.
///
/// # Errors
/// 401, with a challenge unless the host is the reason; 503 if the credentials were not checked in time.
pub(crate) async fn authenticate(
    api: &AdminApi,
    ports: &Ports,
    uri: &Uri,
    headers: &HeaderMap,
    peer: SocketAddr,
) -> Result<Sender, Failure> {
    let allows_passwords = ports.page_login().is_none_or(|login| login.allows_passwords);
    let host = host_of(uri, headers);
    let (scheme, user, password) = credentials(headers).ok_or_else(Failure::not_authenticated)?;
    let address = SocketAddr::new(peer.ip().to_canonical(), peer.port());
    let shown = address.to_string();
    if scheme == BASIC && !allows_passwords {
        let actor = Actor { user: &user, peer: &shown, protocol: Protocol::Http, mechanism: scheme };
        actor.login_refused("only tokens are accepted: management.oauth_disable_basic_auth is true");
        return Err(Failure::not_authenticated());
    }
    let refuse_host = |user: &str| {
        let permitted = ports.hosts().permit(user, &password, host);
        permitted.inspect_err(|failure| {
            let actor = Actor { user, peer: &shown, protocol: Protocol::Http, mechanism: scheme };
            actor.login_refused(failure.text());
        })
    };
    // Before the password is checked, so that pages of other sites cannot try passwords of these users.
    refuse_host(&user)?;
    match api.login(&user, &password, peer.ip()).await {
        Ok(who) => {
            // A token names its user.
            if *who.user != *user {
                refuse_host(&who.user)?;
            }
            let sender = Sender { who, scheme, address, peer: shown };
            sender.actor().logged_in();
            Ok(sender)
        }
        Err(error) => {
            let actor = Actor { user: &user, peer: &shown, protocol: Protocol::Http, mechanism: scheme };
            actor.login_refused(match &error {
                AdminError::LoginRefused(why)
                | AdminError::LoginWaits { why, .. }
                | AdminError::LoginClosed(why) => why,
                _ => "it was not checked in time",
            });
            // After the log: the client may hang up meanwhile, and this is dropped with it.
            if let AdminError::LoginWaits { ms, .. } = error {
                tokio::time::sleep(Duration::from_millis(ms)).await;
            }
            Err(error.into())
        }
    }
}

/// Checks the verbs of a route that depend on the user's tags. The admin API checks the others.
///
/// # Errors
/// 401 without a challenge: the user is known but lacks the tag.
pub(crate) fn permit(who: &Identity, verbs: &[Verb]) -> Result<(), Failure> {
    for verb in verbs.iter().filter(|verb| verb.is_by_tag()) {
        access::permit(who, Rights::NONE, "", *verb, &[])
            .map_err(|refused| Failure::not_authorised(refused.reason))?;
    }
    Ok(())
}

/// Returns the scheme, the user and the password.
fn credentials(headers: &HeaderMap) -> Option<(&'static str, String, Secret)> {
    let header = headers.get(header::AUTHORIZATION)?.as_bytes();
    if header.len() > AUTHORIZATION_MAX {
        return None;
    }
    if let Some((scheme, token)) = header.split_at_checked(7)
        && scheme.eq_ignore_ascii_case(b"Bearer ")
    {
        // The token names the user.
        return Some((BEARER, String::new(), Secret::new(token.trim_ascii().to_vec())));
    }
    let (scheme, encoded) = header.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    let decoded = STANDARD.decode(encoded.trim_ascii()).ok()?;
    let colon = decoded.iter().position(|b| *b == b':')?;
    let user = String::from_utf8(decoded[..colon].to_vec()).ok()?;
    Some((BASIC, user, Secret::new(decoded[colon + 1..].to_vec())))
}
