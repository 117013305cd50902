//! OAuth 2: the client logs in with a token, a JWT [RFC 7519], that an identity provider has signed.
//!
//! ```text
//!   token ──signature, by a key of the provider (keys)──> claims ──(claims)──> user, tags, permissions, expiry
//!                                  |
//!            files of the operator, and the provider's JWKS over HTTPS (provider)
//! ```
//!
//! The names of the settings, and what they mean, are RabbitMQ's (docs/operations/logins.md, Tokens).

pub mod claims;
mod keys;
mod provider;
mod rich;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use catalog::access::{Checking, Credentials, ExternalBackend, Identity, Login, LoginRefused};
pub use jsonwebtoken::Algorithm;
use jsonwebtoken::dangerous::insecure_decode_claims;
use jsonwebtoken::{Header, Validation, decode, decode_header};
use serde_json::{Map, Value};

pub use self::keys::algorithm;
use self::keys::algorithm_names;
use self::provider::Provider;
use crate::setting::SettingError;

/// The longest token in bytes. One in the body of a management request could be larger, but no provider makes such.
const TOKEN_BYTES_MAX: usize = 64 * 1024;

/// The most characters of a claim or a name in a token that an error shows.
const SHOWN_MAX: usize = 100;

/// The settings `auth_oauth2.*`.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The resource servers that this broker is, of which each token must name one.
    pub resource_servers: Vec<ServerOptions>,
    /// The identity providers, by name. That of the settings without a name is `""`.
    pub providers: BTreeMap<String, ProviderOptions>,
    /// Whether a token must name a resource server in its claim `aud`.
    pub verify_audience: bool,
    /// Whether the claim `iss` of a token must be the issuer of its provider.
    pub verify_issuer: bool,
}

/// How this broker reads tokens that are for one of its resource servers.
#[derive(Clone, Debug, Default)]
pub struct ResourceServer {
    /// The name in the claim `aud` (`resource_server_id`).
    pub id: String,
    /// The type in the claim `authorization_details` (`resource_server_type`).
    pub kind: Option<String>,
    /// The prefix of scopes that are meant for it (`scope_prefix`). `None` means the id and a dot.
    pub scope_prefix: Option<String>,
    /// Other claims that have scopes (`additional_scopes_key`): names, or paths with dots.
    pub additional_scopes: Vec<String>,
    /// The claims that name the user (`preferred_username_claims`).
    pub username_claims: Vec<String>,
    /// What scopes of the provider mean here (`scope_aliases`).
    pub aliases: BTreeMap<String, Vec<String>>,
}

/// A resource server, and who signs its tokens.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    pub server: ResourceServer,
    /// The name of its provider in [`Options::providers`].
    pub provider: String,
}

/// An identity provider.
#[derive(Clone, Debug, Default)]
pub struct ProviderOptions {
    /// The URL of the provider, where it says where its keys are (OpenID Connect discovery).
    pub issuer: Option<String>,
    /// The path below it; `None` means `.well-known/openid-configuration`.
    pub discovery_path: Option<String>,
    /// The URL of its keys (JWKS).
    pub jwks_uri: Option<String>,
    /// Keys in files, by their `kid`: PEM, or the secret itself for HS256, HS384 and HS512.
    pub signing_keys: BTreeMap<String, PathBuf>,
    /// The `kid` of the key for tokens that name none.
    pub default_key: Option<String>,
    /// The algorithms that are accepted. If it is empty: all with a public key.
    pub algorithms: Vec<Algorithm>,
    /// The authorities that have signed the certificate of the provider. `None`: those of the system.
    pub authorities: Option<PathBuf>,
}

/// Why a token is refused. It never contains a part of the token but the names of keys, algorithms and claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// What was sent is not a token, for instance a password.
    NotAToken,
    TooLarge,
    /// The algorithm of the token does not exist here.
    Unsupported(String),
    /// The header demands an extension (`crit`), and none is known here.
    Critical(String),
    /// The algorithm of the token is not one of those that the key is for.
    Algorithm(String),
    /// No key has this name; why it could not be fetched, if it was tried.
    UnknownKey(String, Option<String>),
    /// The token names no key, and `default_key` is not set.
    NoKey,
    Signature,
    /// A claim is missing or says that the token is not for this broker, or not now.
    Claim(&'static str, String),
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("token: ")?;
        match self {
            Self::NotAToken => f.write_str("it is not a JWT"),
            Self::TooLarge => write!(f, "it is longer than {TOKEN_BYTES_MAX} bytes"),
            Self::Unsupported(algorithm) => {
                let shown: String = algorithm.chars().take(SHOWN_MAX).collect();
                write!(f, "its algorithm '{}' is none of {}", shown.escape_default(), algorithm_names())
            }
            Self::Critical(extensions) => {
                let shown: String = extensions.chars().take(SHOWN_MAX).collect();
                write!(f, "its header demands extensions that are not known here: {}", shown.escape_default())
            }
            Self::Algorithm(algorithm) => write!(
                f,
                "its algorithm {algorithm} is not accepted for its key; auth_oauth2.algorithms sets those that are"
            ),
            Self::UnknownKey(id, None) => write!(f, "no key has the kid '{}'", id.escape_default()),
            Self::UnknownKey(id, Some(why)) => {
                write!(f, "no key has the kid '{}', and no new keys were fetched: {why}", id.escape_default())
            }
            Self::NoKey => f.write_str("it names no key (kid), and auth_oauth2.default_key is not set"),
            Self::Signature => f.write_str("its signature is wrong"),
            Self::Claim(claim, why) => write!(f, "claim '{claim}': {why}"),
        }
    }
}

impl std::error::Error for TokenError {}

/// The backend `oauth2`.
#[derive(Debug)]
pub struct OAuth2 {
    servers: Vec<(ResourceServer, Arc<Provider>)>,
    verify_audience: bool,
    verify_issuer: bool,
}

impl OAuth2 {
    /// Reads the files of the settings. No provider is asked yet.
    ///
    /// # Errors
    /// A file cannot be read, or the settings do not fit together; the error names the key.
    pub fn load(options: Options) -> Result<Self, SettingError> {
        let mut providers = BTreeMap::new();
        let Options { verify_audience, verify_issuer, .. } = options;
        for (name, options) in options.providers {
            let of = if name.is_empty() { String::new() } else { format!("oauth_providers.{name}.") };
            if verify_issuer && options.issuer.is_none() {
                let key = format!("auth_oauth2.{of}issuer");
                return Err(SettingError::new(key, "auth_oauth2.verify_iss needs it"));
            }
            let provider = Provider::load(&name, options)?;
            providers.insert(name, Arc::new(provider));
        }
        let find = |of: ServerOptions| match providers.get(&of.provider) {
            Some(provider) => Ok((of.server, provider.clone())),
            None if of.provider.is_empty() => Err(SettingError::new(
                "auth_oauth2.issuer",
                "this key, auth_oauth2.jwks_uri or auth_oauth2.signing_keys.* must say who signs the tokens",
            )),
            None => {
                let key = format!("auth_oauth2.oauth_providers.{}", of.provider);
                Err(SettingError::new(key, "there is no such provider"))
            }
        };
        let servers: Result<Vec<_>, SettingError> = options.resource_servers.into_iter().map(find).collect();
        let servers = servers?;
        match servers.len() {
            0 => Err(SettingError::new("auth_oauth2.resource_server_id", "it must be set")),
            1 => Ok(Self { servers, verify_audience, verify_issuer }),
            _ if verify_audience => Ok(Self { servers, verify_audience, verify_issuer }),
            _ => {
                let why = "with several resource servers, tokens must name one";
                Err(SettingError::new("auth_oauth2.verify_aud", why))
            }
        }
    }

    /// Fetches the keys of all providers, so that the first client need not wait for them.
    pub async fn prepare(&self) {
        for (_, provider) in &self.servers {
            provider.prepare().await;
        }
    }

    /// Checks a token at a time, in milliseconds since the epoch.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub async fn check_token(&self, token: &[u8], now_ms: u64) -> Result<Identity, TokenError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenError::TooLarge);
        }
        let header = header_of(token)?;
        // The claims are only believed when the signature was checked. Before, they choose the provider.
        let said: Map<String, Value> = insecure_decode_claims(token).map_err(|_| TokenError::NotAToken)?;
        let (server, provider) = self.server_for(&said)?;
        let key = provider.key(header.kid.as_deref()).await?;
        if !key.algorithms.contains(&header.alg) {
            return Err(TokenError::Algorithm(format!("{:?}", header.alg)));
        }
        let mut validation = Validation::new(header.alg);
        // The claims are checked by `claims`, because RabbitMQ accepts other forms of them.
        validation.required_spec_claims.clear();
        validation.validate_exp = false;
        validation.validate_aud = false;
        let claims: Map<String, Value> =
            decode(token, &key.key, &validation).map_err(|_| TokenError::Signature)?.claims;
        if self.verify_issuer {
            claims::check_issuer(&claims, provider.issuer.as_deref())?;
        }
        claims::identity(&claims, server, now_ms)
    }

    /// Returns the resource server that a token is for, and its provider.
    fn server_for(
        &self,
        claims: &Map<String, Value>,
    ) -> Result<(&ResourceServer, &Arc<Provider>), TokenError> {
        let refused = |why: &str| Err(TokenError::Claim("aud", why.to_owned()));
        if let [(server, provider)] = &self.servers[..]
            && !self.verify_audience
        {
            return Ok((server, provider));
        }
        let audiences = claims::audiences(claims)?;
        let mut named = self.servers.iter().filter(|(server, _)| audiences.contains(&&*server.id));
        match (named.next(), named.next()) {
            (Some((server, provider)), None) => Ok((server, provider)),
            (None, _) => {
                refused("it does not name auth_oauth2.resource_server_id, so the token is for others")
            }
            (Some(_), Some(_)) => refused("it names several resource servers of this broker"),
        }
    }
}

/// Reads the header of a token.
fn header_of(token: &[u8]) -> Result<Header, TokenError> {
    let header = token.split(|byte| *byte == b'.').next().unwrap_or_default();
    let header = URL_SAFE_NO_PAD.decode(header).ok();
    let header: Option<Map<String, Value>> = header.and_then(|json| serde_json::from_slice(&json).ok());
    // Whoever does not know what is critical must refuse the token [RFC 7515, 4.1.11]. Nothing critical is known here.
    if let Some(critical) = header.as_ref().and_then(|header| header.get("crit")) {
        return Err(TokenError::Critical(critical.to_string()));
    }
    decode_header(token).map_err(|_| {
        let named = header.as_ref().and_then(|header| header.get("alg")?.as_str());
        match named {
            Some(name) if algorithm(name).is_err() => TokenError::Unsupported(name.to_owned()),
            _ => TokenError::NotAToken,
        }
    })
}

impl ExternalBackend for OAuth2 {
    fn check<'a>(self: Arc<Self>, login: &'a Login) -> Checking<'a> {
        Box::pin(async move {
            let Credentials::Plain { password, .. } = &login.credentials else {
                return Err(LoginRefused::External("token: the client sent none".to_owned()));
            };
            // The clock of the broker counts from its start, so that it never jumps. Tokens need that of the world.
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
            self.check_token(password.expose(), now_ms).await.map_err(|error| match error {
                TokenError::UnknownKey(_, Some(_)) => LoginRefused::Unavailable(error.to_string()),
                error => LoginRefused::External(error.to_string()),
            })
        })
    }
}

#[cfg(test)]
mod tests;
