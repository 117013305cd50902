//! The keys of one identity provider: those in files, and those that it publishes. They are fetched when a token names an
//! unknown key, at most once a minute, and again when they are old. The old keys stay until new ones are there.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ACCEPT, HOST};
use hyper::{Request, StatusCode, Uri};
use jsonwebtoken::Algorithm;
use serde_json::Value;
use tls::ClientOptions;
use web::{Bounds, Server};

use super::keys::{Key, Keys};
use super::{ProviderOptions, TokenError};
use crate::setting::SettingError;
use crate::url::{has_user, hide, shown};

/// The path where a provider says where its keys are.
const DISCOVERY_PATH: &str = ".well-known/openid-configuration";

/// The shortest time between two attempts to fetch keys, so that tokens with made-up names of keys do not make the broker
/// flood the provider.
const FETCH_INTERVAL: Duration = Duration::from_secs(60);

/// The shortest time between two attempts while none has succeeded yet: the broker and its provider may start together.
const FIRST_FETCH_INTERVAL: Duration = Duration::from_secs(5);

/// The age of keys at which they are fetched again, so that a key that the provider has withdrawn does not count for long.
const KEYS_AGE_MAX: Duration = Duration::from_secs(3600);

/// What one request to a provider may cost. A JWKS has some kilobytes.
const BOUNDS: Bounds = Bounds {
    connect: Duration::from_secs(10),
    patience: Duration::from_secs(10),
    body_bytes_max: 1024 * 1024,
};

/// An identity provider and its keys.
#[derive(Debug)]
pub(super) struct Provider {
    /// The name for the log.
    name: String,
    /// What the claim `iss` of its tokens is, if the operator has said so.
    pub issuer: Option<String>,
    source: Option<Source>,
    algorithms: Vec<Algorithm>,
    default_key: Option<String>,
    from_files: Keys,
    fetched: Mutex<Fetched>,
    /// Held while keys are fetched. Others who need them wait for the same answer.
    fetching: tokio::sync::Mutex<()>,
}

/// Where keys are published.
#[derive(Debug)]
struct Source {
    /// True if `url` is that of the discovery document.
    is_discovered: bool,
    url: Uri,
    web: Web,
}

#[derive(Debug, Default)]
struct Fetched {
    keys: Keys,
    /// When these keys were fetched.
    at: Option<Instant>,
    tried_at: Option<Instant>,
    /// Why the last attempt failed.
    failure: Option<String>,
}

/// The server of the provider.
#[derive(Debug)]
pub(super) enum Web {
    Tls(Arc<tls::ClientConfig>),
    #[cfg(test)]
    Test(super::tests::Pages),
}

impl Web {
    async fn get(&self, url: &Uri) -> Result<Bytes, String> {
        let config = match self {
            Self::Tls(config) => config.clone(),
            #[cfg(test)]
            Self::Test(pages) => return pages.get(url),
        };
        let host = url.host().unwrap_or_default();
        let server = Server {
            host: host.trim_matches(['[', ']']).to_owned(),
            port: url.port_u16().unwrap_or(443),
            tls: Some(config),
        };
        let request = Request::get(url.path_and_query().map_or("/", |path| path.as_str()))
            .header(HOST, url.authority().map_or(host, |authority| authority.as_str()))
            .header(ACCEPT, "application/json")
            .body(Full::default());
        let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", shown(url));
        let request = request.map_err(|error| failed(&error))?;
        match server.send(request, BOUNDS).await {
            Ok((StatusCode::OK, body)) => Ok(body),
            Ok((status, _)) => Err(failed(&format!("the answer is {status}"))),
            Err(error) => Err(failed(&error)),
        }
    }
}

/// Reads a URL. Keys must not come over a connection that others can change. A password would be shown and logged.
fn https(url: &str) -> Result<Uri, String> {
    let wrong = || format!("'{}' must be a URL that starts with https://", hide(url).escape_debug());
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    if has_user(&uri) {
        return Err(format!("'{}' must not have a user and a password", hide(url).escape_debug()));
    }
    if uri.scheme_str() == Some("https") && uri.host().is_some() { Ok(uri) } else { Err(wrong()) }
}

impl Source {
    /// Returns the time by which the age of keys is told.
    fn now(&self) -> Instant {
        match &self.web {
            Web::Tls(_) => Instant::now(),
            #[cfg(test)]
            Web::Test(pages) => pages.now(),
        }
    }

    /// Fetches the keys.
    async fn fetch(&self, algorithms: &[Algorithm]) -> Result<Keys, String> {
        let url = if self.is_discovered { self.discover().await? } else { self.url.clone() };
        let jwks = self.web.get(&url).await?;
        Keys::from_jwks(&jwks, algorithms).map_err(|why| format!("{}: {why}", shown(&url)))
    }

    /// Reads in the discovery document where the keys are.
    async fn discover(&self) -> Result<Uri, String> {
        let document = self.web.get(&self.url).await?;
        let found: Value =
            serde_json::from_slice(&document).map_err(|error| format!("{}: {error}", shown(&self.url)))?;
        let url =
            found["jwks_uri"].as_str().ok_or_else(|| format!("{}: it has no jwks_uri", shown(&self.url)))?;
        https(url).map_err(|why| format!("{}: jwks_uri: {why}", shown(&self.url)))
    }
}

impl Provider {
    /// Reads the files of a provider. `name` is empty for the one without a name.
    ///
    /// # Errors
    /// A file or a URL cannot be used, or nothing says where the keys are.
    pub(super) fn load(name: &str, options: ProviderOptions) -> Result<Self, SettingError> {
        let of = if name.is_empty() { String::new() } else { format!("oauth_providers.{name}.") };
        let setting = |key: &str| format!("auth_oauth2.{of}{key}");
        let mut from_files = Keys::default();
        for (id, path) in &options.signing_keys {
            let added = from_files.add_file(id, path, &options.algorithms);
            added.map_err(|why| SettingError::new(setting(&format!("signing_keys.{id}")), why))?;
        }
        let https = |key: &str, url: &str| https(url).map_err(|why| SettingError::new(setting(key), why));
        let url = match (&options.jwks_uri, &options.issuer) {
            (Some(url), _) => Some((false, https("jwks_uri", url)?)),
            (None, Some(issuer)) => {
                let path = options.discovery_path.as_deref().unwrap_or(DISCOVERY_PATH);
                let url = format!("{}/{}", issuer.trim_end_matches('/'), path.trim_start_matches('/'));
                Some((true, https("issuer", &url)?))
            }
            (None, None) => None,
        };
        if url.is_none() && from_files.len() == 0 {
            let (url, files) = (setting("jwks_uri"), setting("signing_keys.KID"));
            let why = format!("this key, {url} or {files} must say where the keys of its tokens are");
            return Err(SettingError::new(setting("issuer"), why));
        }
        let source = match url {
            Some((is_discovered, url)) => {
                let options = ClientOptions { authorities: options.authorities, identity: None };
                let config =
                    options.load().map_err(|error| SettingError::new(setting("https.cacertfile"), error))?;
                Some(Source { is_discovered, url, web: Web::Tls(config) })
            }
            None => None,
        };
        Ok(Self {
            name: if name.is_empty() { "of auth_oauth2".into() } else { format!("'{name}'") },
            issuer: options.issuer,
            source,
            algorithms: options.algorithms,
            default_key: options.default_key,
            from_files,
            fetched: Mutex::default(),
            fetching: tokio::sync::Mutex::default(),
        })
    }

    #[cfg(test)]
    pub(super) fn answer_with(&mut self, pages: super::tests::Pages) {
        self.source.iter_mut().for_each(|source| source.web = Web::Test(pages.clone()));
    }

    /// Fetches the keys at the start. If that succeeds, it does not count as an attempt: the first token that names a newer key has
    /// it fetched at once.
    pub(super) async fn prepare(&self) {
        self.fetch(|fetched, _| fetched.at.is_none()).await;
        let mut fetched = self.fetched();
        if fetched.at.is_some() {
            fetched.tried_at = None;
        }
    }

    /// Returns the key with this name (`kid`), or the one for tokens that name none.
    pub(super) async fn key(self: &Arc<Self>, id: Option<&str>) -> Result<Arc<Key>, TokenError> {
        let Some(id) = id.or(self.default_key.as_deref()) else {
            return self.only().ok_or(TokenError::NoKey);
        };
        if self.are_old() {
            let provider = self.clone();
            let is_old = |fetched: &Fetched, now| is_due(fetched.at, KEYS_AGE_MAX, now);
            tokio::spawn(async move { provider.fetch(is_old).await });
        }
        if let Some(key) = self.known(id) {
            return Ok(key);
        }
        self.fetch(|fetched, _| fetched.keys.find(id).is_none()).await;
        let failure = self.fetched().failure.clone();
        self.known(id).ok_or_else(|| TokenError::UnknownKey(id.to_owned(), failure))
    }

    fn known(&self, id: &str) -> Option<Arc<Key>> {
        self.from_files.find(id).or_else(|| self.fetched().keys.find(id))
    }

    /// Returns the only key that the provider has.
    fn only(&self) -> Option<Arc<Key>> {
        let fetched = self.fetched();
        match (self.from_files.len(), fetched.keys.len()) {
            (1, 0) => self.from_files.only(),
            (0, 1) => fetched.keys.only(),
            _ => None,
        }
    }

    /// Returns true if the keys must be fetched again, although the token's key is known.
    fn are_old(&self) -> bool {
        let Some(source) = &self.source else { return false };
        let (fetched, now) = (self.fetched(), source.now());
        is_due(fetched.at, KEYS_AGE_MAX, now)
            && fetched.at.is_some()
            && is_due(fetched.tried_at, FETCH_INTERVAL, now)
    }

    /// Fetches the keys, unless they are no longer `wanted` because somebody else has just done so, or the last attempt was too
    /// short ago.
    async fn fetch(&self, wanted: impl Fn(&Fetched, Instant) -> bool) {
        let Some(source) = &self.source else { return };
        let _guard = self.fetching.lock().await;
        {
            let (mut fetched, now) = (self.fetched(), source.now());
            let interval = if fetched.at.is_some() { FETCH_INTERVAL } else { FIRST_FETCH_INTERVAL };
            if !wanted(&fetched, now) || !is_due(fetched.tried_at, interval, now) {
                return;
            }
            fetched.tried_at = Some(now);
        }
        let keys = source.fetch(&self.algorithms).await;
        let mut fetched = self.fetched();
        match keys {
            Ok(keys) => {
                tracing::info!(keys = keys.len(), "keys of the OAuth 2 provider {} fetched", self.name);
                (fetched.keys, fetched.at, fetched.failure) = (keys, Some(source.now()), None);
            }
            Err(why) => {
                tracing::error!("keys of the OAuth 2 provider {} cannot be fetched: {why}", self.name);
                fetched.failure = Some(why);
            }
        }
    }

    fn fetched(&self) -> std::sync::MutexGuard<'_, Fetched> {
        self.fetched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_due(last: Option<Instant>, interval: Duration, now: Instant) -> bool {
    last.is_none_or(|last| now.saturating_duration_since(last) >= interval)
}
