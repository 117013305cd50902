//! The backends that check logins, as the configuration names them.

use std::sync::Arc;
use std::time::Duration;

use broker::access::{Backend, ExternalBackend};
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
    if config.backends.iter().all(|entry| entry.name == BackendName::Internal) {
        return Ok(None);
    }
    let mut chain = Vec::new();
    for BackendEntry { name, is_authentication_only } in &config.backends {
        let backend = match name {
            BackendName::Internal => {
                chain.push(Backend::Internal);
                continue;
            }
            BackendName::External(name) => external(*name, config, runtime)?,
            BackendName::Cache => cached(config, runtime)?,
        };
        chain.push(match is_authentication_only {
            true => Backend::Authentication(backend),
            false => Backend::External(backend),
        });
    }
    let patience = Duration::from_millis(config.settings.handshake_timeout_ms);
    Ok(Some(Backends::new(chain, runtime.clone(), patience)))
}

fn external(
    name: ExternalName,
    config: &Config,
    runtime: &Handle,
) -> Result<Arc<dyn ExternalBackend>, String> {
    match name {
        ExternalName::OAuth2 => {
            let oauth2 = Arc::new(OAuth2::load(config.oauth2.clone())?);
            let preparing = oauth2.clone();
            runtime.spawn(async move { preparing.prepare().await });
            Ok(oauth2)
        }
        ExternalName::Http => Ok(Http::load(&config.auth_http)?),
    }
}

fn cached(config: &Config, runtime: &Handle) -> Result<Arc<dyn ExternalBackend>, String> {
    let (name, ttl_ms, keeps_refusals) = config.auth_cache;
    let name = name.ok_or("auth_cache.cached_backend: it must be set")?;
    let backend = external(name, config, runtime)?;
    let key = node::random().map_err(|error| format!("the system gives no random numbers: {error}"))?;
    Ok(Arc::new(Cache::new(backend, Duration::from_millis(ttl_ms), keeps_refusals, key)))
}
