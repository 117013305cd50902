//! Clients with tokens: the backend that reads them, and the scopes that grant what a user of the catalog may do.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use catalog::access::{Backend, Permissions};
use identity::oauth2::{Algorithm, OAuth2, Options, ProviderOptions, ResourceServer, ServerOptions};
use jsonwebtoken::{EncodingKey, Header, encode};
use node::Backends;
use serde_json::json;

use super::Subject;

const SECRET: &str = "the shared secret of this test only";
const SERVER: &str = "rabbitmq";

/// The time at which the tokens expire, in seconds since the epoch: in the year 2100.
const EXPIRES_S: u64 = 4_102_444_800;

/// Returns who checks logins: tokens first, because a password is quickly found to be none.
pub(super) fn backends(data_dir: &Path) -> Backends {
    let key = data_dir.with_extension("secret");
    std::fs::write(&key, SECRET).unwrap();
    let provider = ProviderOptions {
        signing_keys: [("k".to_owned(), key.clone())].into(),
        algorithms: vec![Algorithm::HS256],
        ..ProviderOptions::default()
    };
    let server = ResourceServer { id: SERVER.to_owned(), ..ResourceServer::default() };
    let oauth2 = OAuth2::load(Options {
        resource_servers: vec![ServerOptions { server, provider: String::new() }],
        providers: [(String::new(), provider)].into(),
        verify_audience: true,
        verify_issuer: false,
    });
    std::fs::remove_file(key).unwrap();
    let chain = vec![Backend::External(Arc::new(oauth2.unwrap())).into(), Backend::Internal.into()];
    Backends::new(chain, tokio::runtime::Handle::current(), Duration::from_secs(60))
}

/// Returns the token of a user.
pub(super) fn of(subject: &Subject) -> String {
    let scopes: Vec<String> = scopes(subject).into_iter().map(|scope| format!("{SERVER}.{scope}")).collect();
    let claims = json!({ "sub": subject.name(), "aud": SERVER, "exp": EXPIRES_S, "scope": scopes.join(" ") });
    encode(&Header::default(), &claims, &EncodingKey::from_secret(SECRET.as_bytes())).unwrap()
}

/// Returns the scopes that grant the rights of a user.
fn scopes(subject: &Subject) -> Vec<String> {
    let mut scopes: Vec<String> = subject.identity.tags.iter().map(|tag| format!("tag:{tag}")).collect();
    let Some(rights) = &subject.rights else { return scopes };
    // Whoever may do nothing in the virtual host may still use it.
    if *rights == Permissions::NONE {
        scopes.push("read:%2F/nothing".to_owned());
    }
    let topics = subject.topics.get("x").map(|topics| topics.patterns());
    let [write_keys, read_keys] = topics.unwrap_or([".*"; 2]);
    let [configure, write, read] = rights.patterns();
    for (permission, names, keys) in
        [("configure", configure, ".*"), ("write", write, write_keys), ("read", read, read_keys)]
    {
        match (names, keys) {
            ("", _) => {}
            (_, "") => scopes.push(format!("{permission}:%2F/*/other")),
            _ => scopes.push(format!("{permission}:%2F/*")),
        }
    }
    scopes
}
