//! The backends that check logins, as the configuration names them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use catalog::access::{Backend, BackendPair, ExternalBackend};
use identity::SettingError;
use identity::cache::Cache;
use identity::http::Http;
use identity::oauth2::OAuth2;
use node::Backends;
use tokio::runtime::Handle;

use crate::config::{BackendEntry, BackendName, Config, ExternalName, SetValues};

/// How much longer than a handshake a check may take. So the connection is the first to give up, and tells its client to try again.
const AFTER_HANDSHAKE: Duration = Duration::from_secs(1);

/// Returns who checks logins. `None` if only the users of the catalog count.
///
/// # Errors
/// A backend cannot be used; the error names the key and the place where it is set.
pub(crate) fn backends(
    config: &Config,
    values: &SetValues,
    runtime: &Handle,
) -> Result<Option<Backends>, String> {
    let mut loading = Loading::new(config);
    let loaded = loading.chains().map_err(|error| placed(values, &error))?;
    let Some((chain, over_http)) = loaded else { return Ok(None) };
    for oauth2 in loading.preparing {
        runtime.spawn(async move { oauth2.prepare().await });
    }
    let patience = Duration::from_millis(config.settings.handshake_timeout_ms) + AFTER_HANDSHAKE;
    Ok(Some(Backends::new(chain, runtime.clone(), patience).with_http_chain(over_http)))
}

/// Returns why the backends cannot be used, each reason with its key and the place where that is set. Asks no server.
pub(crate) fn problems(config: &Config, values: &SetValues) -> Vec<String> {
    let mut loading = Loading::new(config);
    let names = config.backends.iter().chain(config.http_backends.iter().flatten());
    let mut problems: Vec<String> = Vec::new();
    for name in names.flat_map(|entry| [entry.authn, entry.authz]) {
        let problem = loading.backend(name).err().map(|error| placed(values, &error));
        problems.extend(problem.filter(|problem| !problems.contains(problem)));
    }
    problems
}

/// Returns the problem behind the place where its key is set. If the key is missing, the place is where the backend is chosen.
fn placed(values: &SetValues, SettingError { key, why }: &SettingError) -> String {
    let backend = match key.split('.').next() {
        Some("auth_oauth2") => "oauth",
        Some("auth_http") => "http",
        _ => "cache",
    };
    values.placed(key, why, values.key_with(&["auth_backends.", "http_dispatch.auth_backends."], backend))
}

/// The chain of backends for logins over AMQP, and that for logins over HTTP if it is another one.
type Chains = (Vec<BackendPair>, Option<Vec<BackendPair>>);

/// Loads each backend once, however often it is named.
struct Loading<'a> {
    config: &'a Config,
    externals: HashMap<ExternalName, Arc<dyn ExternalBackend>>,
    cache: Option<Arc<Cache>>,
    /// The backends that fetch keys before the first login.
    preparing: Vec<Arc<OAuth2>>,
}

impl<'a> Loading<'a> {
    fn new(config: &'a Config) -> Self {
        Self { config, externals: HashMap::new(), cache: None, preparing: Vec::new() }
    }

    /// Returns the chains. `None` if only the users of the catalog count.
    fn chains(&mut self) -> Result<Option<Chains>, SettingError> {
        const INTERNAL: BackendEntry = BackendEntry::both(BackendName::Internal);
        let Config { backends, http_backends, .. } = self.config;
        if backends.iter().chain(http_backends.iter().flatten()).all(|entry| *entry == INTERNAL) {
            return Ok(None);
        }
        let chain = self.chain(backends)?;
        let over_http = http_backends.as_ref().map(|entries| self.chain(entries)).transpose()?;
        Ok(Some((chain, over_http)))
    }

    fn chain(&mut self, entries: &[BackendEntry]) -> Result<Vec<BackendPair>, SettingError> {
        let pair = |entry: &BackendEntry| {
            let authn = self.backend(entry.authn)?;
            let authz = (entry.authz != entry.authn).then(|| self.backend(entry.authz)).transpose()?;
            Ok(BackendPair { authn, authz })
        };
        entries.iter().map(pair).collect()
    }

    fn backend(&mut self, name: BackendName) -> Result<Backend, SettingError> {
        Ok(match name {
            BackendName::Internal => Backend::Internal,
            BackendName::External(name) => Backend::External(self.external(name)?),
            BackendName::Cache => Backend::External(self.cache()?),
        })
    }

    fn external(&mut self, name: ExternalName) -> Result<Arc<dyn ExternalBackend>, SettingError> {
        if let Some(known) = self.externals.get(&name) {
            return Ok(known.clone());
        }
        let backend: Arc<dyn ExternalBackend> = match name {
            ExternalName::OAuth2 => {
                let oauth2 = Arc::new(OAuth2::load(self.config.oauth2.clone())?);
                self.preparing.push(oauth2.clone());
                oauth2
            }
            ExternalName::Http => Http::load(&self.config.auth_http)?,
        };
        self.externals.insert(name, backend.clone());
        Ok(backend)
    }

    fn cache(&mut self) -> Result<Arc<Cache>, SettingError> {
        if let Some(known) = &self.cache {
            return Ok(known.clone());
        }
        let (name, ttl_ms, keeps_refusals) = self.config.auth_cache;
        let refused = |why: String| SettingError::new("auth_cache.cached_backend", why);
        let backend = self.external(name.ok_or_else(|| refused("it must be set".to_owned()))?)?;
        let key = node::random()
            .map_err(|error| refused(format!("the system gives no random numbers: {error}")))?;
        let cache = Arc::new(Cache::new(backend, Duration::from_millis(ttl_ms), keeps_refusals, key));
        self.cache = Some(cache.clone());
        Ok(cache)
    }
}
