//! Authentication, and the permissions that depend on a user's tags. All other permissions are checked by the
//! desk, the front end of management requests. Both use [`broker::access`].

use std::net::IpAddr;

use amqp10::sasl::Secret;
use axum::http::{HeaderMap, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use broker::PEER;
use broker::access::{self, Identity, Rights, Verb};
use broker::desk::Desk;

use crate::reply::Failure;

/// The longest `Authorization` header that is accepted, in bytes. It may have a token.
const AUTHORIZATION_MAX: usize = 16 * 1024;

/// Checks the credentials, a password (Basic) or a token (Bearer), and the peer's address. Nothing else authenticates a request.
///
/// # Errors
/// 401 with a challenge; 503 if the credentials were not checked in time.
pub async fn authenticate<D: Desk>(desk: &D, headers: &HeaderMap, peer: IpAddr) -> Result<Identity, Failure> {
    let (user, password) = credentials(headers).ok_or_else(Failure::not_authenticated)?;
    let who = desk.login(&user, &password, peer).await.map_err(|error| {
        tracing::warn!(target: PEER, %peer, user, ?error, "HTTP access denied");
        Failure::from(error)
    })?;
    Ok(who)
}

/// Checks the verbs of a route that depend on the user's tags. The desk checks the others.
///
/// # Errors
/// 401 without a challenge: the user is known but lacks the tag.
pub fn permit(who: &Identity, verbs: &[Verb], peer: IpAddr) -> Result<(), Failure> {
    for verb in verbs.iter().filter(|verb| verb.is_by_tag()) {
        access::permit(who, Rights::NONE, "", *verb, &[]).map_err(|refused| {
            tracing::warn!(target: PEER, %peer, user = %who.user, "HTTP access denied: {refused}");
            Failure::not_authorised(refused.reason)
        })?;
    }
    Ok(())
}

fn credentials(headers: &HeaderMap) -> Option<(String, Secret)> {
    let header = headers.get(header::AUTHORIZATION)?.as_bytes();
    if header.len() > AUTHORIZATION_MAX {
        return None;
    }
    if let Some((scheme, token)) = header.split_at_checked(7)
        && scheme.eq_ignore_ascii_case(b"Bearer ")
    {
        // The token names the user.
        return Some((String::new(), Secret::new(token.trim_ascii().to_vec())));
    }
    let (scheme, encoded) = header.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    let decoded = STANDARD.decode(encoded.trim_ascii()).ok()?;
    let colon = decoded.iter().position(|b| *b == b':')?;
    let user = String::from_utf8(decoded[..colon].to_vec()).ok()?;
    Some((user, Secret::new(decoded[colon + 1..].to_vec())))
}
