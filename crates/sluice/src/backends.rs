//! The backends that check logins, as the configuration names them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use broker::access::{Backend, BackendPair, ExternalBackend};
use identity::cache::Cache;
use identity::http::Http;
use identity::oauth2::OAuth2;
use node::Backends;
use tokio::runtime::Handle;

use crate::config::{BackendEntry, BackendName, Config, ExternalName};

/// Returns who checks logins. `None` if only the users of the catalog count.
///
/// # Errors
/// A backend cannot be used; the error names the key.
pub fn backends(config: &Config, runtime: &Handle) -> Result<Option<Backends>, String> {
    const INTERNAL: BackendEntry = BackendEntry::both(BackendName::Internal);
    if config.backends.iter().chain(config.http_backends.iter().flatten()).all(|entry| *entry == INTERNAL) {
        return Ok(None);
    }
    let mut loading = Loading { config, runtime, externals: HashMap::new(), cache: None };
    let chain = loading.chain(&config.backends)?;
    let over_http = config.http_backends.as_ref().map(|entries| loading.chain(entries)).transpose()?;
    let patience = Duration::from_millis(config.settings.handshake_timeout_ms);
    Ok(Some(Backends::new(chain, runtime.clone(), patience).with_http_chain(over_http)))
}

/// Loads each backend once, however often it is named.
struct Loading<'a> {
    config: &'a Config,
    runtime: &'a Handle,
    externals: HashMap<ExternalName, Arc<dyn ExternalBackend>>,
    cache: Option<Arc<Cache>>,
}

impl Loading<'_> {
    fn chain(&mut self, entries: &[BackendEntry]) -> Result<Vec<BackendPair>, String> {
        let pair = |entry: &BackendEntry| {
            let authn = self.backend(entry.authn)?;
            let authz = (entry.authz != entry.authn).then(|| self.backend(entry.authz)).transpose()?;
            Ok(BackendPair { authn, authz })
        };
        entries.iter().map(pair).collect()
    }

    fn backend(&mut self, name: BackendName) -> Result<Backend, String> {
        Ok(match name {
            BackendName::Internal => Backend::Internal,
            BackendName::External(name) => Backend::External(self.external(name)?),
            BackendName::Cache => Backend::External(self.cache()?),
        })
    }

    fn external(&mut self, name: ExternalName) -> Result<Arc<dyn ExternalBackend>, String> {
        if let Some(known) = self.externals.get(&name) {
            return Ok(known.clone());
        }
        let backend: Arc<dyn ExternalBackend> = match name {
            ExternalName::OAuth2 => {
                let oauth2 = Arc::new(OAuth2::load(self.config.oauth2.clone())?);
                let preparing = oauth2.clone();
                self.runtime.spawn(async move { preparing.prepare().await });
                oauth2
            }
            ExternalName::Http => Http::load(&self.config.auth_http)?,
        };
        self.externals.insert(name, backend.clone());
        Ok(backend)
    }

    fn cache(&mut self) -> Result<Arc<Cache>, String> {
        if let Some(known) = &self.cache {
            return Ok(known.clone());
        }
        let (name, ttl_ms, keeps_refusals) = self.config.auth_cache;
        let backend = self.external(name.ok_or("auth_cache.cached_backend: it must be set")?)?;
        let key = node::random().map_err(|error| format!("the system gives no random numbers: {error}"))?;
        let cache = Arc::new(Cache::new(backend, Duration::from_millis(ttl_ms), keeps_refusals, key));
        self.cache = Some(cache.clone());
        Ok(cache)
    }
}
