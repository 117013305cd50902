//! The keys of OAuth 2, `auth_oauth2.*`.

use std::collections::BTreeMap;

use identity::oauth2::{Algorithm, Options, ProviderOptions, ResourceServer, ServerOptions, algorithm};

use super::key::{Key, key, put, starred};
use super::values::{Numbered, boolean, file, index, optional, optional_url, text, tls_of_server, verified};
use super::wrong::Wrong;

/// The keys of this file, in the order of the example file.
pub(super) const KEYS: &[Key] = &[
    key(
        "auth_oauth2.resource_server_id",
        "",
        "The name of this broker in the claim aud of tokens, and with a dot the prefix of its scopes.",
        |c, _, v| put(&mut c.logins.oauth2.server.id, optional(v)),
    ),
    key(
        "auth_oauth2.issuer",
        "",
        "The URL (https) of the identity provider, which says below it where its keys are.",
        |c, _, v| put(&mut c.logins.oauth2.provider.options.issuer, optional_url(v)),
    ),
    key(
        "auth_oauth2.discovery_endpoint_path",
        ".well-known/openid-configuration",
        "The path below the issuer where it says that.",
        |c, _, v| put(&mut c.logins.oauth2.provider.options.discovery_path, discovery_path(v)),
    ),
    key(
        "auth_oauth2.jwks_uri",
        "",
        "The URL (https) of the provider's keys, if it is not to be asked where they are.",
        |c, _, v| put(&mut c.logins.oauth2.provider.options.jwks_uri, optional_url(v)),
    ),
    key(
        "auth_oauth2.https.cacertfile",
        "",
        "The file of the authorities that have signed the provider's certificate, in PEM. Without it: those that the system trusts.",
        |c, _, v| put(&mut c.logins.oauth2.provider.options.authorities, file(v)),
    ),
    key(
        "auth_oauth2.https.peer_verification",
        "verify_peer",
        "verify_peer: keys are only taken from a server with a valid certificate.",
        |_, _, v| Ok(verified(v)?),
    ),
    starred(
        "verify",
        key(
            "auth_oauth2.https.*",
            "verify_peer",
            "RabbitMQ's other keys of that connection: verify means the same, and hostname_verification, crl_check, fail_if_no_peer_cert and depth must agree with what the broker does.",
            |_, of, v| tls_of_server(of, v),
        ),
    ),
    starred(
        "kid",
        key(
            "auth_oauth2.signing_keys.*",
            "",
            "The file of a key that signs tokens, by its name (kid): a public key in PEM, or a secret for HS256, HS384 and HS512.",
            |c, kid, v| c.logins.oauth2.provider.set(&format!("signing_keys.{kid}"), v),
        ),
    ),
    key("auth_oauth2.default_key", "", "The name (kid) of the key for tokens that name none.", |c, _, v| {
        put(&mut c.logins.oauth2.provider.options.default_key, optional(v))
    }),
    starred(
        "1",
        key(
            "auth_oauth2.algorithms.*",
            "",
            "An algorithm of tokens, such as RS256. Without any: all with a public key, RS, PS, ES and EdDSA.",
            |c, n, v| c.logins.oauth2.provider.set(&format!("algorithms.{n}"), v),
        ),
    ),
    key(
        "auth_oauth2.verify_aud",
        "true",
        "Whether tokens must name this broker in their claim aud.",
        |c, _, v| put(&mut c.logins.oauth2.trusts_any_audience, boolean(v).map(|verify| !verify)),
    ),
    key(
        "auth_oauth2.verify_iss",
        "false",
        "Whether the claim iss of tokens must be the issuer of their provider.",
        |c, _, v| put(&mut c.logins.oauth2.verify_issuer, boolean(v)),
    ),
    key(
        "auth_oauth2.scope_prefix",
        "",
        "The prefix of scopes that are meant for this broker; '' for none. Without this key: resource_server_id and a dot.",
        |c, _, v| c.logins.oauth2.server.set("scope_prefix", v),
    ),
    key(
        "auth_oauth2.additional_scopes_key",
        "",
        "Other claims with scopes, with spaces between them; a dot leads into a claim.",
        |c, _, v| c.logins.oauth2.server.set("additional_scopes_key", v),
    ),
    starred(
        "1",
        key(
            "auth_oauth2.preferred_username_claims.*",
            "",
            "A claim that names the user. The first that the token has counts; at last sub and client_id. A token with none of them is of the user 'unknown'.",
            |c, n, v| c.logins.oauth2.server.set(&format!("preferred_username_claims.{n}"), v),
        ),
    ),
    starred(
        "reader",
        key(
            "auth_oauth2.scope_aliases.*",
            "",
            "The scopes that a scope of the provider stands for, with spaces between them.",
            |c, name, v| c.logins.oauth2.server.set(&format!("scope_aliases.{name}"), v),
        ),
    ),
    key(
        "auth_oauth2.resource_server_type",
        "",
        "The type of this broker in the claim authorization_details.",
        |c, _, v| c.logins.oauth2.server.set("resource_server_type", v),
    ),
    starred(
        "name.id",
        key(
            "auth_oauth2.resource_servers.*",
            "",
            "Another resource server that this broker is: NAME.id, or one of the keys above, or NAME.oauth_provider_id.",
            |c, rest, v| {
                let (name, of) = rest
                    .split_once('.')
                    .ok_or_else(|| Wrong::name("a name and a key are needed, such as NAME.id"))?;
                let mut keys = c.logins.oauth2.servers.get(name).cloned().unwrap_or_default();
                keys.set(of, v)?;
                // An empty value is the default, so that it changes nothing.
                if !v.is_empty() {
                    c.logins.oauth2.servers.insert(name.to_owned(), keys);
                }
                Ok(())
            },
        ),
    ),
    starred(
        "name.issuer",
        key(
            "auth_oauth2.oauth_providers.*",
            "",
            "An identity provider with a name, and one of the keys above.",
            |c, rest, v| {
                let (name, of) = rest
                    .split_once('.')
                    .ok_or_else(|| Wrong::name("a name and a key are needed, such as NAME.issuer"))?;
                let mut keys = c.logins.oauth2.providers.get(name).cloned().unwrap_or_default();
                keys.set(of, v)?;
                // An empty value is the default, so that it changes nothing.
                if !v.is_empty() {
                    c.logins.oauth2.providers.insert(name.to_owned(), keys);
                }
                Ok(())
            },
        ),
    ),
    key(
        "auth_oauth2.default_oauth_provider",
        "",
        "The name of the provider of resource servers that name none.",
        |c, _, v| put(&mut c.logins.oauth2.default_provider, optional(v)),
    ),
];

/// What was read of the keys.
#[derive(Clone, Debug, Default)]
pub(super) struct OAuth2Keys {
    /// The resource server and the provider of the keys without a name.
    server: ServerKeys,
    provider: ProviderKeys,
    trusts_any_audience: bool,
    verify_issuer: bool,
    default_provider: Option<String>,
    servers: BTreeMap<String, ServerKeys>,
    providers: BTreeMap<String, ProviderKeys>,
}

/// The keys of a resource server.
#[derive(Clone, Debug, Default)]
struct ServerKeys {
    id: Option<String>,
    kind: Option<String>,
    scope_prefix: Option<String>,
    additional_scopes: Vec<String>,
    username_claims: Numbered<String>,
    aliases: BTreeMap<String, Vec<String>>,
    /// Aliases that have a key for the name and one for the scopes: `scope_aliases.1.alias`, `scope_aliases.1.scope`.
    numbered_aliases: Numbered<(String, Vec<String>)>,
    provider: Option<String>,
}

/// The keys of a provider.
#[derive(Clone, Debug, Default)]
struct ProviderKeys {
    options: ProviderOptions,
    algorithms: Numbered<Algorithm>,
}

impl OAuth2Keys {
    /// Returns true if the keys say that tokens are read.
    pub(super) fn is_set(&self) -> bool {
        self.server.id.is_some() || !self.servers.is_empty()
    }

    /// Returns the URL of the provider whose keys are below `auth_oauth2`.
    pub(super) fn issuer(&self) -> Option<&str> {
        self.provider.options.issuer.as_deref()
    }

    /// Returns the settings.
    pub(super) fn options(&self) -> Options {
        let provider_of = |server: &ServerKeys| {
            let named = server.provider.as_ref().or(self.default_provider.as_ref());
            named.cloned().unwrap_or_default()
        };
        let unnamed = self.server.id.as_ref().map(|id| ServerOptions {
            server: self.server.resource_server(id, &ServerKeys::default()),
            provider: provider_of(&self.server),
        });
        let named = self.servers.iter().map(|(name, keys)| ServerOptions {
            server: keys.resource_server(keys.id.as_ref().unwrap_or(name), &self.server),
            provider: provider_of(keys),
        });
        let mut providers: BTreeMap<String, ProviderOptions> =
            self.providers.iter().map(|(name, keys)| (name.clone(), keys.options())).collect();
        let own = &self.provider.options;
        if own.issuer.is_some() || own.jwks_uri.is_some() || !own.signing_keys.is_empty() {
            providers.insert(String::new(), self.provider.options());
        }
        Options {
            resource_servers: unnamed.into_iter().chain(named).collect(),
            providers,
            verify_audience: !self.trusts_any_audience,
            verify_issuer: self.verify_issuer,
        }
    }
}

impl ServerKeys {
    fn set(&mut self, name: &str, value: &str) -> Result<(), Wrong> {
        match name.split_once('.').map_or((name, ""), |(of, rest)| (of, rest)) {
            ("id", "") => put(&mut self.id, optional(value)),
            ("resource_server_type", "") => put(&mut self.kind, optional(value)),
            ("oauth_provider_id", "") => put(&mut self.provider, optional(value)),
            ("scope_prefix", "") => {
                // Two quotes mean that there is no prefix. Nothing at all means the default.
                let none = value == "''";
                self.scope_prefix = if none { Some(String::new()) } else { optional(value)? };
                Ok(())
            }
            ("additional_scopes_key", "") => put(&mut self.additional_scopes, Ok(words(value))),
            ("preferred_username_claims", n) => put_at(&mut self.username_claims, n, optional(value)),
            ("scope_aliases", alias) => self.set_alias(alias, value),
            _ => Err(Wrong::Name(format!("there is no key '{name}' of a resource server"))),
        }
    }

    fn set_alias(&mut self, name: &str, value: &str) -> Result<(), Wrong> {
        let part = name.split_once('.').and_then(|(n, part)| Some((index(n).ok()?, part)));
        match part {
            Some((at, "alias")) => self.numbered_aliases.entry(at).or_default().0 = text(value)?,
            Some((at, "scope")) => self.numbered_aliases.entry(at).or_default().1 = words(value),
            _ if value.is_empty() => drop(self.aliases.remove(name)),
            _ => drop(self.aliases.insert(name.to_owned(), words(value))),
        }
        Ok(())
    }

    /// Returns the resource server. What is not set is that of `others`.
    fn resource_server(&self, id: &str, others: &Self) -> ResourceServer {
        let aliases = |keys: &Self| {
            let numbered = keys.numbered_aliases.values().cloned();
            keys.aliases.clone().into_iter().chain(numbered).collect::<BTreeMap<_, _>>()
        };
        let list = |own: Vec<String>, other: Vec<String>| if own.is_empty() { other } else { own };
        let claims = |keys: &Self| keys.username_claims.values().cloned().collect();
        ResourceServer {
            id: id.to_owned(),
            kind: self.kind.clone().or_else(|| others.kind.clone()),
            scope_prefix: self.scope_prefix.clone().or_else(|| others.scope_prefix.clone()),
            additional_scopes: list(self.additional_scopes.clone(), others.additional_scopes.clone()),
            username_claims: list(claims(self), claims(others)),
            aliases: Some(aliases(self)).filter(|own| !own.is_empty()).unwrap_or_else(|| aliases(others)),
        }
    }
}

impl ProviderKeys {
    fn set(&mut self, name: &str, value: &str) -> Result<(), Wrong> {
        let options = &mut self.options;
        match name.split_once('.').map_or((name, ""), |(of, rest)| (of, rest)) {
            ("issuer", "") => put(&mut options.issuer, optional_url(value)),
            ("jwks_uri", "") => put(&mut options.jwks_uri, optional_url(value)),
            ("discovery_endpoint_path", "") => put(&mut options.discovery_path, discovery_path(value)),
            ("default_key", "") => put(&mut options.default_key, optional(value)),
            ("https", "cacertfile") => put(&mut options.authorities, file(value)),
            ("https", of) => tls_of_server(of, value),
            ("signing_keys", kid) if !kid.is_empty() => {
                match file(value)? {
                    Some(path) => drop(options.signing_keys.insert(kid.to_owned(), path)),
                    None => drop(options.signing_keys.remove(kid)),
                }
                Ok(())
            }
            ("algorithms", n) => {
                let named = Some(value).filter(|value| !value.is_empty()).map(algorithm).transpose();
                put_at(&mut self.algorithms, n, named)
            }
            // What only a page of the management UI needs.
            ("token_endpoint" | "authorization_endpoint" | "end_session_endpoint", "") => {
                optional_url(value)?;
                Ok(())
            }
            _ => Err(Wrong::Name(format!("there is no key '{name}' of a provider"))),
        }
    }

    fn options(&self) -> ProviderOptions {
        ProviderOptions { algorithms: self.algorithms.values().copied().collect(), ..self.options.clone() }
    }
}

/// Sets an entry of a list, or removes it.
fn put_at<T>(list: &mut Numbered<T>, n: &str, value: Result<Option<T>, String>) -> Result<(), Wrong> {
    let at = index(n)?;
    match value? {
        Some(value) => drop(list.insert(at, value)),
        None => drop(list.remove(&at)),
    }
    Ok(())
}

fn words(value: &str) -> Vec<String> {
    value.split_ascii_whitespace().map(str::to_owned).collect()
}

/// The default path is none, so that setting it changes nothing.
fn discovery_path(value: &str) -> Result<Option<String>, String> {
    optional(value).map(|path| path.filter(|path| path != ".well-known/openid-configuration"))
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, "f", &[]).map_err(|error| error.to_string())
    }

    #[test]
    fn settings_of_tokens_are_rabbitmqs() {
        let config = parse(
            "auth_backends.1 = oauth2
auth_oauth2.resource_server_id = rabbitmq
auth_oauth2.issuer = https://one.example
auth_oauth2.https.cacertfile = /ca.pem
auth_oauth2.signing_keys.k.1 = /k.pem
auth_oauth2.algorithms.1 = RS256
auth_oauth2.algorithms.2 = ES256
auth_oauth2.preferred_username_claims.2 = email
auth_oauth2.preferred_username_claims.1 = user_name
auth_oauth2.additional_scopes_key = roles realm_access.roles
auth_oauth2.scope_aliases.admin = rabbitmq.tag:administrator rabbitmq.read:*
auth_oauth2.scope_aliases.1.alias = api://reader
auth_oauth2.scope_aliases.1.scope = rabbitmq.read:*
auth_oauth2.resource_servers.dev.scope_prefix = dev-
auth_oauth2.resource_servers.dev.oauth_provider_id = two
auth_oauth2.resource_servers.test.id = tests
auth_oauth2.oauth_providers.two.jwks_uri = https://two.example/jwks
auth_oauth2.oauth_providers.two.token_endpoint = https://two.example/token
auth_oauth2.oauth_providers.two.algorithms.1 = PS256
",
        )
        .unwrap();
        let options = config.oauth2;
        let servers: Vec<(&str, &str)> =
            options.resource_servers.iter().map(|of| (&*of.server.id, &*of.provider)).collect();
        assert_eq!(servers, [("rabbitmq", ""), ("dev", "two"), ("tests", "")]);
        let server = &options.resource_servers[0].server;
        assert_eq!(server.username_claims, ["user_name", "email"]);
        assert_eq!(server.additional_scopes, ["roles", "realm_access.roles"]);
        assert_eq!(server.aliases["admin"], ["rabbitmq.tag:administrator", "rabbitmq.read:*"]);
        assert_eq!(server.aliases["api://reader"], ["rabbitmq.read:*"]);
        let dev = &options.resource_servers[1].server;
        assert_eq!(
            (dev.scope_prefix.as_deref(), &dev.username_claims),
            (Some("dev-"), &server.username_claims)
        );
        let [one, two] = ["", "two"].map(|name| &options.providers[name]);
        assert_eq!(one.signing_keys["k.1"], std::path::Path::new("/k.pem"));
        assert_eq!(
            (&*one.algorithms, &*two.algorithms),
            (&[Algorithm::RS256, Algorithm::ES256][..], &[Algorithm::PS256][..])
        );
        assert!(options.verify_audience);
    }

    #[test]
    fn what_would_make_tokens_unsafe_is_refused() {
        for (line, why) in [
            ("auth_oauth2.https.peer_verification = verify_none", "verify_peer is needed"),
            ("auth_oauth2.oauth_providers.a.https.peer_verification = verify_none", "verify_peer is needed"),
            ("auth_oauth2.algorithms.1 = none", "one of RS256, "),
            ("auth_oauth2.resource_servers.a.secret = b", "there is no key 'secret' of a resource server"),
            ("auth_oauth2.oauth_providers.a.secret = b", "there is no key 'secret' of a provider"),
            ("auth_oauth2.resource_server_id = a", "auth_backends"),
        ] {
            let refused = parse(line).unwrap_err();
            assert!(refused.contains(why), "{line}: {refused}");
        }
    }

    #[test]
    fn the_tls_of_a_provider_has_rabbitmqs_keys() {
        for prefix in ["auth_oauth2.https", "auth_oauth2.oauth_providers.a.https"] {
            for (key, taken, refused, why) in [
                ("verify", "verify_peer", "verify_none", "verify_peer is needed"),
                ("peer_verification", "verify_peer", "verify_none", "verify_peer is needed"),
                ("hostname_verification", "wildcard", "none", "wildcard is needed: the name of the server"),
                ("fail_if_no_peer_cert", "true", "yes", "true or false is needed"),
                ("crl_check", "false", "peer", "false is needed: no list of revoked certificates"),
                ("depth", "10", "0", "a whole number from 1 to 255 is needed"),
            ] {
                parse(&format!("{prefix}.{key} = {taken}")).unwrap();
                let refused = parse(&format!("{prefix}.{key} = {refused}")).unwrap_err();
                assert!(refused.contains(why), "{prefix}.{key}: {refused}");
            }
            let refused = parse(&format!("{prefix}.ciphers = a")).unwrap_err();
            assert!(refused.contains(".ciphers': there is no key 'ciphers'"), "{refused}");
        }
    }
}
