//! The claims of a token, which a provider has signed but a user may have chosen.

use std::sync::LazyLock;

use catalog::access::{Resource, Users, Verb};
use identity::oauth2::ResourceServer;
use identity::oauth2::claims::{audiences, identity};
use serde_json::{Map, Value};

const NOW_MS: u64 = 1_700_000_000_000;

static SERVER: LazyLock<ResourceServer> = LazyLock::new(|| ResourceServer {
    id: "rabbitmq".into(),
    kind: Some("broker".into()),
    scope_prefix: None,
    additional_scopes: vec!["roles".into(), "realm_access.roles".into()],
    username_claims: vec!["email".into()],
    aliases: [(
        "admin".to_owned(),
        vec!["rabbitmq.tag:administrator".to_owned(), "rabbitmq.read:*".to_owned()],
    )]
    .into(),
});

/// A token is refused, or names a user and a time to come, and grants only what it says.
pub fn check(data: &[u8]) {
    let Ok(claims) = serde_json::from_slice::<Map<String, Value>>(data) else { return };
    let _ = audiences(&claims);
    let Ok(who) = identity(&claims, &SERVER, NOW_MS) else { return };
    assert!(!who.user.is_empty() && who.user.len() <= 255);
    let token = who.token.as_ref().expect("a token");
    assert!(token.expires_ms >= NOW_MS);
    let says = |word: &str| String::from_utf8_lossy(data).contains(word);
    // JSON may have any character as an escape. Such inputs are only read.
    if says("\\") {
        return;
    }
    let users = Users::default();
    let may = |vhost: &str, verb, on| users.permit(&who, vhost, verb, &[on]).is_ok();
    let names = [("/", "q"), ("v", "a.b"), ("", "")];
    for (vhost, name) in names {
        assert!(!may(vhost, Verb::Consume, Resource::Queue(name)) || says("read") || says("admin"));
        assert!(!may(vhost, Verb::DeclareQueue, Resource::Queue(name)) || says("configure"));
        assert!(!may(vhost, Verb::Publish, Resource::Exchange(name)) || says("write"));
        let topic = Resource::Topic { exchange: name, key: "k" };
        assert!(!may(vhost, Verb::PublishTopic, topic) || says("write"));
    }
    assert!(!who.has_tag("administrator") || says("admin"));
}
