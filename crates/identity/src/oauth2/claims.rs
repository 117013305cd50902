//! What the claims of a token say: who the client is, what it may do, and until when. The signature is checked already.

use std::collections::BTreeSet;

use catalog::access::{Grants, Identity};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::{Map, Value};

use super::rich;
use super::{ResourceServer, TokenError};

/// By how many seconds the clock of the provider may be ahead.
const NOT_BEFORE_LEEWAY_S: f64 = 60.0;

/// The last second that a token may be valid, in the year 9999. Later ones are cut to it.
const EXPIRES_S_MAX: f64 = 253_402_300_799.0;

/// The claims that name the user, if `preferred_username_claims` does not say others, and the user of a token with none.
const USERNAME_CLAIMS: [&str; 2] = ["sub", "client_id"];
const UNKNOWN_USER: &str = "unknown";

/// The longest user name in bytes. It is in every log line and listing of the connection.
const USERNAME_MAX: usize = 255;

/// The most scopes of a token that count here. Each check of a permission looks at all of them.
const SCOPES_MAX: usize = 1000;

/// The prefix of scopes that are tags of the user.
const TAG: &str = "tag:";

/// Returns whose token this is.
///
/// # Errors
/// A claim is missing, has another form, or says that the token is not valid now.
pub fn identity(
    claims: &Map<String, Value>,
    server: &ResourceServer,
    now_ms: u64,
) -> Result<Identity, TokenError> {
    let now_s = now_ms as f64 / 1000.0;
    let expires_s = seconds(claims, "exp")?.ok_or_else(|| claim("exp", "it is missing"))?;
    if expires_s <= now_s {
        return Err(claim("exp", "the token has expired"));
    }
    if seconds(claims, "nbf")?.is_some_and(|from_s| from_s > now_s + NOT_BEFORE_LEEWAY_S) {
        return Err(claim("nbf", "the token is not valid yet"));
    }
    let scopes = scopes(claims, server)?;
    if scopes.len() > SCOPES_MAX {
        return Err(TokenError::Claim("scope", format!("the token has more than {SCOPES_MAX} scopes")));
    }
    // `add_texts` has refused those that are written as they are. These are percent-encoded. No name has one.
    let has_control =
        |scope: &String| percent_decode_str(scope).decode_utf8_lossy().contains(char::is_control);
    if scopes.iter().any(has_control) {
        return Err(scope_has_control());
    }
    let tags = scopes.iter().filter_map(|scope| scope.strip_prefix(TAG)).map(str::to_owned).collect();
    let expires_ms = (expires_s.min(EXPIRES_S_MAX) * 1000.0).ceil() as u64;
    let grants = Grants::new(scopes.iter().map(String::as_str), expires_ms);
    let (user, token) = (user(claims, server)?.into(), Some(grants.into()));
    Ok(Identity { user, tags, is_of_catalog: false, token, remote: None })
}

/// Returns the resource servers that a token is for.
///
/// # Errors
/// The claim `aud` is missing, or neither a text nor a list of texts.
pub fn audiences(claims: &Map<String, Value>) -> Result<Vec<&str>, TokenError> {
    match claims.get("aud") {
        None => Err(claim("aud", "it is missing")),
        Some(Value::String(one)) => Ok(vec![one]),
        Some(Value::Array(all)) => {
            let all: Option<Vec<&str>> = all.iter().map(Value::as_str).collect();
            all.ok_or_else(|| claim("aud", "it must be a text or a list of texts"))
        }
        Some(_) => Err(claim("aud", "it must be a text or a list of texts")),
    }
}

/// Checks who has made the token: the issuer of the provider whose key has signed it. A slash at the end does not count, because
/// it does not count in the setting either.
///
/// # Errors
/// The claim `iss` is missing, or names another.
pub fn check_issuer(claims: &Map<String, Value>, issuer: Option<&str>) -> Result<(), TokenError> {
    let said = match claims.get("iss") {
        None => return Err(claim("iss", "it is missing")),
        Some(said) => said.as_str().ok_or_else(|| claim("iss", "it must be a text"))?,
    };
    match issuer {
        Some(issuer) if said.trim_end_matches('/') == issuer.trim_end_matches('/') => Ok(()),
        _ => Err(claim("iss", "it is not the issuer of the provider (auth_oauth2.issuer)")),
    }
}

fn claim(name: &'static str, why: &str) -> TokenError {
    TokenError::Claim(name, why.to_owned())
}

fn scope_has_control() -> TokenError {
    claim("scope", "a scope has a control character")
}

/// Returns a time in seconds since the epoch. Providers write it as an integer, with a fraction, or as a text.
fn seconds(claims: &Map<String, Value>, name: &'static str) -> Result<Option<f64>, TokenError> {
    let number = match claims.get(name) {
        None => return Ok(None),
        Some(Value::Number(number)) => number.as_f64(),
        Some(Value::String(text)) => text.parse().ok(),
        Some(_) => None,
    };
    match number {
        Some(number) if number.is_finite() => Ok(Some(number)),
        _ => Err(claim(name, "it is not a number")),
    }
}

fn user(claims: &Map<String, Value>, server: &ResourceServer) -> Result<String, TokenError> {
    let preferred = server.username_claims.iter().map(String::as_str);
    let text = |name: &str| claims.get(name)?.as_str().filter(|user| !user.is_empty());
    let user = preferred.chain(USERNAME_CLAIMS).find_map(text).unwrap_or(UNKNOWN_USER);
    if user.len() > USERNAME_MAX {
        let why = format!("the user name is longer than {USERNAME_MAX} bytes");
        return Err(TokenError::Claim("sub", why));
    }
    if user.contains(char::is_control) {
        return Err(claim("sub", "the user name has a control character"));
    }
    Ok(user.to_owned())
}

/// Returns the scopes of a token that are meant for this resource server, without their prefix.
///
/// # Errors
/// A text with scopes, for whatever server, has a control character.
fn scopes(claims: &Map<String, Value>, server: &ResourceServer) -> Result<Vec<String>, TokenError> {
    let own = format!("{}.", server.id);
    let prefix = server.scope_prefix.as_deref().unwrap_or(&own);
    let mut all = Vec::new();
    if let Some(scope) = claims.get("scope") {
        add_texts(scope, &mut all)?;
    }
    for key in &server.additional_scopes {
        let found = claims.get(key).or_else(|| at_path(claims, key));
        match found {
            // The scopes of each resource server by its id.
            Some(Value::Object(by_server)) => {
                let mut of_server = Vec::new();
                by_server
                    .get(&server.id)
                    .into_iter()
                    .try_for_each(|found| add_texts(found, &mut of_server))?;
                all.extend(of_server.into_iter().map(|scope| format!("{prefix}{scope}")));
            }
            Some(found) => add_texts(found, &mut all)?,
            None => {}
        }
    }
    // The form of Keycloak.
    let permissions = at_path(claims, "authorization.permissions").and_then(Value::as_array);
    for permission in permissions.into_iter().flatten() {
        permission.get("scopes").into_iter().try_for_each(|found| add_texts(found, &mut all))?;
    }
    let named = all.into_iter().flat_map(|scope| match server.aliases.get(&scope) {
        Some(meant) => meant.clone(),
        None => vec![scope],
    });
    let own = named.filter_map(|scope| scope.strip_prefix(prefix).map(str::to_owned));
    let rich = claims.get("authorization_details").into_iter().flat_map(|d| rich::scopes(d, server));
    let all: BTreeSet<String> = own.chain(rich).map(|scope| expand(&scope, claims)).collect();
    Ok(all.into_iter().collect())
}

/// Adds the scopes of a claim: a list of texts, each one scope, or one text with spaces between its scopes.
///
/// # Errors
/// A text has a control character. A line break must not begin another scope.
fn add_texts(value: &Value, all: &mut Vec<String>) -> Result<(), TokenError> {
    let texts: Vec<&str> = match value {
        Value::String(text) => text.split(' ').collect(),
        Value::Array(texts) => texts.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if texts.iter().any(|text| text.contains(char::is_control)) {
        return Err(scope_has_control());
    }
    all.extend(texts.into_iter().filter(|text| !text.is_empty()).map(str::to_owned));
    Ok(())
}

fn at_path<'a>(claims: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    let mut parts = path.split('.');
    let first = claims.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.get(part))
}

/// Replaces `{claim}` by the text of that claim. Its characters have no meaning in the scope. `{vhost}` stays: it is replaced
/// when the scope is used.
fn expand(scope: &str, claims: &Map<String, Value>) -> String {
    let (mut done, mut rest) = (String::new(), scope);
    while let Some((before, behind)) = rest.split_once('{') {
        done.push_str(before);
        let variable = behind.split_once('}').filter(|(name, _)| *name != "vhost");
        let found = variable.and_then(|(name, after)| Some((claims.get(name)?.as_str()?, after)));
        match found {
            Some((text, after)) => {
                done.extend(utf8_percent_encode(text, NON_ALPHANUMERIC));
                rest = after;
            }
            None => {
                done.push('{');
                rest = behind;
            }
        }
    }
    done + rest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW_MS: u64 = 1_700_000_000_000;

    fn server() -> ResourceServer {
        ResourceServer { id: "rabbitmq".into(), ..ResourceServer::default() }
    }

    fn read(claims: &Value, server: &ResourceServer) -> Result<Identity, TokenError> {
        identity(claims.as_object().unwrap(), server, NOW_MS)
    }

    fn of(scope: Value) -> Vec<String> {
        scopes(json!({ "scope": scope }).as_object().unwrap(), &server()).unwrap()
    }

    #[test]
    fn a_token_expires_at_any_form_of_its_time() {
        let expires = |exp: Value| {
            let who = read(&json!({ "exp": exp, "sub": "ann" }), &server())?;
            Ok(who.token.unwrap().expires_ms)
        };
        let wrong = |why: &str| Err(claim("exp", why));
        assert_eq!(expires(json!(1_700_000_001)), Ok(1_700_000_001_000));
        assert_eq!(expires(json!(1_700_000_000.5)), Ok(1_700_000_000_500));
        assert_eq!(expires(json!(1.7e12)), Ok(253_402_300_799_000));
        assert_eq!(expires(json!("1700000002")), Ok(1_700_000_002_000));
        assert_eq!(expires(json!(1_700_000_000)), wrong("the token has expired"));
        assert_eq!(expires(json!(-1)), wrong("the token has expired"));
        for bad in [json!("soon"), json!(null), json!([1]), json!("NaN"), json!("inf")] {
            assert_eq!(expires(bad), wrong("it is not a number"));
        }
        assert_eq!(read(&json!({ "sub": "ann" }), &server()), Err(claim("exp", "it is missing")));
    }

    #[test]
    fn a_token_counts_a_minute_before_its_time_at_most() {
        let from = |nbf: u64| read(&json!({ "exp": 1_800_000_000, "nbf": nbf }), &server()).map(|_| ());
        assert_eq!(from(1_700_000_060), Ok(()));
        assert_eq!(from(1_700_000_061), Err(claim("nbf", "the token is not valid yet")));
    }

    #[test]
    fn the_user_is_the_first_claim_that_names_one() {
        let named = ResourceServer { username_claims: vec!["email".into(), "user_name".into()], ..server() };
        let user = |mut claims: Value, server: &ResourceServer| {
            claims["exp"] = json!(1_800_000_000);
            read(&claims, server).map(|who| who.user.to_string())
        };
        let claims = json!({ "sub": "s", "client_id": "c", "user_name": "u", "email": 5 });
        assert_eq!(user(claims.clone(), &server()), Ok("s".into()));
        assert_eq!(user(claims, &named), Ok("u".into()));
        assert_eq!(user(json!({ "client_id": "c" }), &named), Ok("c".into()));
        assert_eq!(user(json!({}), &named), Ok("unknown".into()));
        assert!(user(json!({ "sub": "x".repeat(256) }), &named).is_err());
    }

    #[test]
    fn control_characters_are_refused() {
        let named = ResourceServer { username_claims: vec!["name".into()], ..server() };
        let read = |name: &str, scope: &str| {
            read(&json!({ "exp": 1_800_000_000, "name": name, "scope": [scope] }), &named).map(|_| ())
        };
        assert_eq!(read("ann", "rabbitmq.read:v/q%20x"), Ok(()));
        for bad in ["\0", "a\0b", "a\nb", "\u{7f}", "\u{85}"] {
            let why = Err(claim("sub", "the user name has a control character"));
            assert_eq!(read(bad, "rabbitmq.read:v/q"), why, "{bad:?}");
            // The claim is a variable of the scope.
            assert!(read(bad, "rabbitmq.read:v/{name}").is_err(), "{bad:?}");
        }
        let why = Err(claim("scope", "a scope has a control character"));
        for bad in [
            "read:\0/q",
            "read:%00/q",
            "read:v/%00",
            "write:v/x/%1f",
            "read:v/a\u{1b}",
            "read:v/%C2%85",
            "tag:\u{7f}",
        ] {
            assert_eq!(read("ann", &format!("rabbitmq.{bad}")), why, "{bad:?}");
        }
        // The others are for somebody else.
        assert_eq!(read("ann", "other.read:%00"), Ok(()));
    }

    /// Whoever can write a part of one scope cannot begin another one with it.
    #[test]
    fn neither_a_line_break_nor_an_element_of_a_list_becomes_several_scopes() {
        let server = ResourceServer { additional_scopes: vec!["roles".into()], ..server() };
        let read = |claims: Value| {
            let mut all = json!({ "exp": 1_800_000_000, "sub": "ann" });
            all.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
            read(&all, &server).map(|who| who.tags.to_vec())
        };
        let why = Err(claim("scope", "a scope has a control character"));
        for space in ["\n", "\t", "\r\n", "\u{c}"] {
            let text = json!(format!("other.x{space}rabbitmq.tag:administrator"));
            for found in [text.clone(), json!([text])] {
                assert_eq!(read(json!({ "scope": found })), why, "{space:?}");
                assert_eq!(read(json!({ "roles": found })), why, "{space:?}");
                assert_eq!(read(json!({ "roles": { "rabbitmq": found } })), why, "{space:?}");
                let keycloak = json!({ "authorization": { "permissions": [{ "scopes": found }] } });
                assert_eq!(read(keycloak), why, "{space:?}");
            }
        }
        let element = json!(["other.x rabbitmq.tag:administrator"]);
        assert_eq!(read(json!({ "scope": element })), Ok(Vec::new()), "one scope of another server");
        assert_eq!(
            read(json!({ "scope": " rabbitmq.tag:monitoring  other.x " })),
            Ok(vec!["monitoring".into()])
        );
    }

    #[test]
    fn scopes_have_the_prefix_of_the_server() {
        assert_eq!(of(json!("rabbitmq.read:*/* openid other.write:*/*")), ["read:*/*"]);
        assert_eq!(
            of(json!(["rabbitmq.read:*/*", "rabbitmq.tag:monitoring"])),
            ["read:*/*", "tag:monitoring"]
        );
        assert_eq!(of(json!(5)), [""; 0]);
        let claims = json!({ "exp": 1_800_000_000, "scope": "rabbitmq.tag:administrator rabbitmq.read:v/q" });
        let who = read(&claims, &server()).unwrap();
        assert_eq!(*who.tags, ["administrator"]);
        let unnamed = ResourceServer { scope_prefix: Some(String::new()), ..server() };
        let claims = json!({ "scope": "read:v/q" });
        assert_eq!(scopes(claims.as_object().unwrap(), &unnamed).unwrap(), ["read:v/q"]);
    }

    #[test]
    fn scopes_are_found_where_providers_write_them() {
        let server = ResourceServer {
            additional_scopes: vec!["roles".into(), "realm_access.roles".into(), "dotted.claim".into()],
            aliases: [("admin".into(), vec!["rabbitmq.tag:administrator".into(), "rabbitmq.read:*".into()])]
                .into(),
            ..server()
        };
        let of = |claims: Value| scopes(claims.as_object().unwrap(), &server).unwrap();
        assert_eq!(
            of(json!({ "roles": "rabbitmq.read:a admin" })),
            ["read:*", "read:a", "tag:administrator"]
        );
        assert_eq!(
            of(json!({ "realm_access": { "roles": ["admin", "other"] } })),
            ["read:*", "tag:administrator"]
        );
        assert_eq!(of(json!({ "dotted.claim": ["rabbitmq.read:b"] })), ["read:b"]);
        assert_eq!(
            of(json!({ "roles": { "rabbitmq": ["read:c", "write:c"], "else": ["read:d"] } })),
            ["read:c", "write:c"]
        );
        let keycloak = json!({ "authorization": { "permissions": [
            { "rsid": "1", "rsname": "a", "scopes": ["rabbitmq.read:e"] },
            { "rsid": "2", "rsname": "b" },
        ] } });
        assert_eq!(of(keycloak), ["read:e"]);
    }

    #[test]
    fn variables_are_claims_without_meaning() {
        let claims = json!({ "sub": "a*/b", "n": 5, "vhost": "v" });
        let expanded = |scope: &str| expand(scope, claims.as_object().unwrap());
        assert_eq!(expanded("read:{vhost}/{sub}-*"), "read:{vhost}/a%2A%2Fb-*");
        assert_eq!(expanded("read:{n}/{none}/{"), "read:{n}/{none}/{");
    }

    #[test]
    fn an_audience_is_a_text_or_a_list() {
        let of = |aud: Value| audiences(json!({ "aud": aud }).as_object().unwrap()).map(|all| all.join(" "));
        assert_eq!((of(json!("a")), of(json!(["a", "b"]))), (Ok("a".into()), Ok("a b".into())));
        assert!(of(json!(["a", 5])).is_err() && of(json!(null)).is_err() && audiences(&Map::new()).is_err());
    }
}
