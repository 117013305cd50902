//! The certificates of the TLS listeners. They are read at the start, and again when their files change or on SIGHUP.

use std::sync::Arc;
use std::time::Duration;

use tls::{Options, Tls};

use crate::config::Config;

/// How often the files are looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// The certificates of the listeners that the configuration has.
#[derive(Debug, Default)]
pub struct Certificates {
    pub amqp: Option<Arc<Tls>>,
    pub management: Option<Arc<Tls>>,
    pub metrics: Option<Arc<Tls>>,
    /// All of them. Listeners with the same files share theirs.
    pub all: Vec<Arc<Tls>>,
}

impl Certificates {
    /// Reads the certificates.
    ///
    /// # Errors
    /// What is not set or cannot be used, each with the setting of its listener.
    pub fn load(config: &Config) -> Result<Self, Vec<String>> {
        let (mut all, mut problems) = (Vec::new(), Vec::new());
        let mut of = |is_needed: bool, options: &Option<Options>, setting: &str| {
            let tls = is_needed.then(|| load(options.as_ref(), setting, &mut all))?;
            tls.map_err(|problem| problems.push(problem)).ok()
        };
        let amqp = of(!config.tls_listeners.is_empty(), &config.tls, "listeners.ssl.default");
        let management =
            of(config.management_tls.is_some(), &config.management_certificates, "management.ssl.port");
        let metrics =
            of(config.prometheus_tls.is_some(), &config.prometheus_certificates, "prometheus.ssl.port");
        if problems.is_empty() { Ok(Self { amqp, management, metrics, all }) } else { Err(problems) }
    }
}

fn load(options: Option<&Options>, setting: &str, all: &mut Vec<Arc<Tls>>) -> Result<Arc<Tls>, String> {
    let options = options.ok_or_else(|| {
        let prefix = setting.strip_suffix(".port").unwrap_or("ssl_options");
        format!("{setting} needs a certificate: set {prefix}.certfile and {prefix}.keyfile")
    })?;
    if let Some(known) = all.iter().find(|known| known.options() == options) {
        return Ok(known.clone());
    }
    let tls =
        Tls::load(options.clone()).map_err(|error| format!("the certificate for {setting}: {error}"))?;
    let tls = Arc::new(tls);
    all.push(tls.clone());
    Ok(tls)
}

/// Reads changed certificates again, until the task ends.
pub async fn watch(all: Vec<Arc<Tls>>) {
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        read_again(&all, false).await;
    }
}

/// Reads certificates again: those that have changed, or all if `anyway` is true. Logs the result.
pub async fn read_again(all: &[Arc<Tls>], anyway: bool) {
    for tls in all {
        let files: Vec<_> = tls.certificates().iter().map(|(file, _)| file.display().to_string()).collect();
        let files = files.join(", ");
        // Decrypting a key takes time on purpose, and other tasks share this thread.
        let reading = tls.clone();
        let read = tokio::task::spawn_blocking(move || reading.reload(anyway)).await;
        match read {
            Ok(Ok(true)) => tracing::info!("the certificate {files} was read again: new connections use it"),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => {
                tracing::error!(
                    "the changed certificate {files} cannot be used, the one before stays in use: {error}"
                );
            }
            Err(error) => tracing::error!("the certificate {files} cannot be read again: {error}"),
        }
    }
}
