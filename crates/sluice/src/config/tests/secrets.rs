//! No error and no list of settings shows a secret that is in a wrong place.

use super::super::layers::{Layers, Sources};
use super::{Config, parse, set};

const MARKER: &str = "Zq0-marker";

/// What the operator has misspelt may be the name of a password.
#[test]
fn no_value_of_a_misspelt_name_is_shown() {
    for name in [
        "auth_oauth2.oauth_providers.p.client_secret",
        "auth_oauth2.oauth_providers.p.client_secrt",
        "auth_oauth2.oauth_providers.client_secrt",
        "auth_oauth2.oauth_providers.p.https.passwrd",
        "auth_oauth2.resource_servers.r.token",
        "auth_oauth2.resource_servers.r.tokn",
        "auth_oauth2.https.passwrd",
        "auth_oauth2.algorithms.key",
        "auth_oauth2.preferred_username_claims.x",
        "auth_backends.password",
        "auth_backends.1.pasword",
        "http_dispatch.auth_backends.1.pasword",
        "default_users.u.pasword",
    ] {
        for refused in [parse(&format!("{name} = {MARKER}")), set(&format!("{name}={MARKER}"))] {
            let why = refused.expect_err(name);
            assert!(why.contains(name) && !why.contains(MARKER), "{why}");
        }
    }
    // A wrong value of a right name is no secret.
    for (name, value) in [
        ("shards", "many"),
        ("proxy_protocol.trusted.a", "many"),
        ("auth_backends.1", "ldap"),
        ("auth_oauth2.https.hostname_verification", "none"),
        ("auth_oauth2.https.crl_check", "peer"),
        ("auth_oauth2.oauth_providers.p.https.crl_check", "peer"),
        ("log.level", "token"),
    ] {
        let why = parse(&format!("{name} = {value}")).unwrap_err();
        assert!(why.contains(&format!("'{name}' cannot be '{value}': ")), "{why}");
    }
}

/// A URL that is asked is shown, logged and sent to the server.
#[test]
fn a_url_with_a_password_is_refused_and_not_shown() {
    for name in [
        "auth_http.user_path",
        "auth_http.vhost_path",
        "auth_http.resource_path",
        "auth_http.topic_path",
        "auth_oauth2.issuer",
        "auth_oauth2.jwks_uri",
        "auth_oauth2.oauth_providers.p.issuer",
        "auth_oauth2.oauth_providers.p.jwks_uri",
        "auth_oauth2.oauth_providers.p.token_endpoint",
        "management.oauth_provider_url",
        "management.cors.allow_origins.1",
    ] {
        for url in [
            "https://u:Zq0-marker@h/p",
            "https://Zq0-marker@h",
            "https://u:/Zq0-marker@h/",
            "HTTPS://u:Zq0-marker@h",
        ] {
            let why = parse(&format!("{name} = {url}")).expect_err(&format!("{name} = {url}"));
            assert!(why.contains(name) && !why.contains(MARKER), "{why}");
        }
    }
    let why = parse("auth_oauth2.issuer = https://u:p@h/p?q").unwrap_err();
    assert_eq!(
        why,
        "sluice.conf:1: 'auth_oauth2.issuer' cannot be 'https://***@h/p?***': a URL without a user and a password is needed"
    );
}

#[test]
fn secrets_in_urls_are_not_shown() {
    let text = "auth_http.user_path = http://localhost:8000/auth/user?token=Zq0-marker\n\
                auth_oauth2.scope_aliases.a = 'api://read?Zq0-marker https://u:Zq0-marker@h/p#Zq0-marker rabbitmq.read:*'\n";
    let layers = Layers { files: vec![("f".into(), text.into())], ..Layers::default() };
    let values = Config::of_layers(&layers).unwrap().values;
    let shown = |key: &str| values.all().find(|shown| shown.key == key).unwrap().value.to_string();
    assert_eq!(shown("auth_http.user_path"), "http://localhost:8000/auth/user?***");
    assert_eq!(shown("auth_oauth2.scope_aliases.a"), "api://***@h/p#***", "more is hidden than must be");
    assert_eq!(shown("auth_http.vhost_path"), "http://localhost:8000/auth/vhost");
    assert!(!format!("{values:?}").contains(MARKER));
    // A value is compared as it is.
    let after = text.replace("Zq0-marker", "other");
    let layers = Layers { files: vec![("f".into(), after)], ..Layers::default() };
    assert_eq!(values.changes(&Config::of_layers(&layers).unwrap().values).len(), 2);
    assert!(Config::load(&Sources::default()).is_ok());
}
