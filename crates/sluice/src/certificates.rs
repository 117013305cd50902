//! The certificates of the TLS listeners, and those between nodes. They are read at the start, and again when their files change or on SIGHUP.

use std::sync::Arc;
use std::time::Duration;

use node::AdminApi;
use tls::{AtFault, Options, Tls};
use tokio::sync::Mutex;

use crate::config::{Config, SetValues};

/// How often the files are looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// The certificates that the configuration has.
#[derive(Debug, Default)]
pub(crate) struct Certificates {
    pub amqp: Option<Arc<Tls>>,
    pub management: Option<Arc<Tls>>,
    pub metrics: Option<Arc<Tls>>,
    /// Those between the nodes of a cluster.
    pub cluster: Option<Arc<Tls>>,
    /// All of them. Listeners with the same files share theirs.
    pub all: Vec<Arc<Tls>>,
}

impl Certificates {
    /// Reads the certificates.
    ///
    /// # Errors
    /// What is not set or cannot be used, each with its setting and the place where that is set.
    pub(crate) fn load(config: &Config, values: &SetValues) -> Result<Self, Vec<String>> {
        let (mut all, mut problems) = (Vec::new(), Vec::new());
        let mut of = |is_needed: bool, options: &Option<Options>, setting: &str| {
            let tls = is_needed.then(|| load(options.as_ref(), setting, values, &mut all))?;
            tls.map_err(|problem| problems.push(problem)).ok()
        };
        let listener = values.key_with(&["listeners.ssl."], "").unwrap_or("listeners.ssl.default");
        let amqp = of(!config.tls_listeners.is_empty(), &config.tls, listener);
        let management =
            of(config.management_tls.is_some(), &config.management_certificates, "management.ssl.port");
        let metrics =
            of(config.prometheus_tls.is_some(), &config.prometheus_certificates, "prometheus.ssl.port");
        let cluster = &config.cluster_certificates;
        let cluster = of(cluster.is_some(), cluster, "cluster.listener");
        if problems.is_empty() { Ok(Self { amqp, management, metrics, cluster, all }) } else { Err(problems) }
    }
}

fn load(
    options: Option<&Options>,
    setting: &str,
    values: &SetValues,
    all: &mut Vec<Arc<Tls>>,
) -> Result<Arc<Tls>, String> {
    let options = options.ok_or_else(|| {
        let prefix = setting.strip_suffix(".port").unwrap_or("ssl_options");
        let needs = format!("it needs a certificate: set {prefix}.certfile and {prefix}.keyfile");
        values.placed(setting, &needs, None)
    })?;
    if let Some(known) = all.iter().find(|known| known.options() == options) {
        return Ok(known.clone());
    }
    let tls = Tls::load(options.clone()).map_err(|error| {
        let key = match error.at_fault() {
            AtFault::File(file) => values.key_of_file(options.setting, file).map(str::to_owned),
            AtFault::Key(key) => Some(format!("{}.{key}", options.setting)),
            AtFault::System => None,
        };
        let problem = format!("the certificate for {setting}: {error}");
        values.placed(key.as_deref().unwrap_or(options.setting), &problem, Some(setting))
    })?;
    let tls = Arc::new(tls);
    all.push(tls.clone());
    Ok(tls)
}

/// The certificates of a running broker. While changed ones cannot be used, the alarm `certificate` is raised. It stops nobody:
/// those before stay in use.
#[derive(Debug)]
pub(crate) struct Watched {
    all: Vec<Arc<Tls>>,
    api: AdminApi,
    /// True while the alarm is raised. Locked while certificates are read, so that each change is reported once.
    is_raised: Mutex<bool>,
}

impl Watched {
    pub(crate) fn new(all: Vec<Arc<Tls>>, api: AdminApi) -> Self {
        Self { all, api, is_raised: Mutex::new(false) }
    }

    /// Returns all certificates.
    pub(crate) fn all(&self) -> &[Arc<Tls>] {
        &self.all
    }

    /// Reads changed certificates again, until the task ends.
    pub(crate) async fn watch(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            self.read_again(false).await;
        }
    }

    /// Reads certificates again: those that have changed, or all if `anyway` is true. Logs the result.
    pub(crate) async fn read_again(&self, anyway: bool) {
        let mut is_raised = self.is_raised.lock().await;
        for tls in &self.all {
            read_again(tls, anyway).await;
        }
        let raise = self.all.iter().any(|tls| tls.problem().is_some());
        if raise != *is_raised {
            *is_raised = raise;
            if raise {
                tracing::warn!("certificate alarm: changed certificates cannot be used");
            } else {
                tracing::info!("certificate alarm cleared");
            }
            self.api.publish_alarm("certificate", raise);
        }
    }
}

/// Reads changed certificates again, until the task ends. For a node that waits for its cluster: it has no alarms yet.
pub(crate) async fn watch_before_start(all: Vec<Arc<Tls>>) {
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        for tls in &all {
            read_again(tls, false).await;
        }
    }
}

async fn read_again(tls: &Arc<Tls>, anyway: bool) {
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
