//! Who asks, and what the tags of a user open. What may be done to queues and exchanges is the desk's to say.

use std::net::IpAddr;

use amqp10::sasl::Secret;
use axum::http::{HeaderMap, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use broker::PEER;
use broker::access::Identity;
use broker::desk::Desk;

use crate::reply::Failure;

/// Tags of which a user must have one to use this API at all.
const MANAGEMENT_TAGS: &[&str] = &["administrator", "monitoring", "policymaker", "management"];

/// Bytes of an `Authorization` header that are looked at; more is a refusal.
const AUTHORIZATION_MAX: usize = 4096;

/// The one way in: basic credentials, the right place to come from, and a management tag.
///
/// # Errors
/// 401, with a challenge unless the user is known and only lacks the tag.
pub fn authenticate<D: Desk>(desk: &D, headers: &HeaderMap, peer: IpAddr) -> Result<Identity, Failure> {
    let (user, password) = credentials(headers).ok_or_else(Failure::not_authenticated)?;
    let who = desk.login(&user, &password, peer).map_err(|error| {
        tracing::warn!(target: PEER, %peer, user, ?error, "HTTP access denied");
        Failure::from(error)
    })?;
    if !MANAGEMENT_TAGS.iter().any(|tag| who.has_tag(tag)) {
        tracing::warn!(target: PEER, %peer, user, "HTTP access denied: not a management user");
        return Err(Failure::not_authorised("Not management user"));
    }
    Ok(who)
}

/// Whether the user sees what belongs to other users.
pub fn is_monitor(who: &Identity) -> bool {
    who.has_tag("administrator") || who.has_tag("monitoring")
}

/// # Errors
/// The user sees only his own.
pub fn require_monitor(who: &Identity) -> Result<(), Failure> {
    if is_monitor(who) { Ok(()) } else { Err(Failure::not_authorised("Not monitor user")) }
}

/// # Errors
/// The thing is another user's, and this one is no administrator.
pub fn require_owner(who: &Identity, owner: &str) -> Result<(), Failure> {
    if who.has_tag("administrator") || *who.user == *owner {
        return Ok(());
    }
    Err(Failure::not_authorised("User not authorised to access object"))
}

fn credentials(headers: &HeaderMap) -> Option<(String, Secret)> {
    let header = headers.get(header::AUTHORIZATION)?.as_bytes();
    if header.len() > AUTHORIZATION_MAX {
        return None;
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
