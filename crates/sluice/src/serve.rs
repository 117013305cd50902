//! `sluice serve`: runs the broker in the foreground until a signal stops it.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use broker::settings::SLUICE_VERSION;
use catalog::access::{Access, Identity, User};
use clap::Args;
use node::{Backends, ClusterSettings, Listening, Node, NodeOptions, StartError};
use tls::Tls;
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::AbortHandle;

use crate::backends::backends;
use crate::certificates::{Certificates, Watched, watch_before_start};
use crate::config::{Config, Loaded, SetValues, Sources};
use crate::definitions;
use crate::failure::{FAILED, Failure};
use crate::first_user;
use crate::limits;
use crate::log;
use crate::reload::Reload;
use crate::systemd;
use crate::unix_socket::{self, SocketFile};

#[derive(Args, Debug)]
pub(crate) struct Serve {
    #[command(flatten)]
    sources: Sources,
    /// The directory of durable messages and definitions
    #[arg(long, value_name = "DIR", default_value = "./data", env = "SLUICE_DATA_DIR")]
    data_dir: PathBuf,
}

/// Runs the broker until SIGTERM or SIGINT.
///
/// # Errors
/// A usage failure if the configuration is refused; otherwise why the broker cannot start, or could not stop
/// cleanly.
pub(crate) fn run(serve: &Serve) -> Result<(), Failure> {
    // These errors name what the operator has set, one problem on each line.
    let failed = |error: &dyn std::fmt::Display| Failure { code: FAILED, line: error.to_string() };
    let loaded = Config::load(&serve.sources).map_err(|error| Failure::usage(error.to_string()))?;
    let Loaded { config, values, files } = loaded;
    let log::Log { limiter, levels, exchange: log_exchange, file: log_file } =
        log::start(&config.log, &serve.data_dir, config.sharing).map_err(|error| failed(&error))?;
    let file_descriptors = limits::raise_file_descriptors();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| failed(&error))?;
    // The ports are bound first, because a broker that cannot listen must not touch the data of one that
    // does.
    let of_definitions = |error: String| failed(&values.placed(config.definitions_key, &error, None));
    let definitions = definitions::read(&config, &values).map_err(|error| failed(&error))?;
    let listeners = runtime.block_on(Listeners::bind(&config, &values)).map_err(|error| failed(&error))?;
    serve.log_start(&config, &files, &listeners.line(&config), &file_descriptors);
    let has_users = definitions.as_ref().is_some_and(admin::Definitions::has_users);
    let backends = backends(&config, &values, runtime.handle()).map_err(|error| failed(&error))?;
    let has_other_backends = backends.is_some();
    // A node that is alone is ended by the system, as any process.
    let signals = || {
        let _inside = runtime.enter();
        let ending = end_at_signal(Signals::new()?);
        let watching = tokio::spawn(watch_before_start(listeners.certificates.clone())).abort_handle();
        Ok::<_, io::Error>((ending, watching, Signals::new()?))
    };
    let signals = config.cluster.is_some().then(signals).transpose().map_err(|error| failed(&error))?;
    let node =
        start(&config, &serve.data_dir, !has_users, backends, &listeners).map_err(|error| failed(&error))?;
    if let Some((ending, watching, mut signals)) = signals {
        ending.abort();
        let is_ready = runtime.block_on(async {
            tokio::select! {
                biased;
                () = signals.recv() => false,
                () = node.ready() => true,
            }
        });
        watching.abort();
        if !is_ready {
            tracing::info!("stopping");
            let stopped = node.stop("Node was shut down");
            limiter.report();
            return stopped.map_err(|error| failed(&error));
        }
    }
    log_exchange.begin(node.api().notices(), &config.settings);
    if let Some(definitions) = definitions {
        // Nobody can connect yet: the listeners do not accept before.
        runtime.block_on(definitions::load(definitions, &config, &node)).map_err(of_definitions)?;
    }
    runtime.block_on(warn_of_missing_event_vhost(&config, &values, &node));
    let logins = listeners.logins();
    if let Some(said) = first_user::report(&config, &logins, has_other_backends, &node, &serve.data_dir) {
        tracing::info!("{}", said.line);
        said.warning.into_iter().for_each(|warning| tracing::warn!("{warning}"));
    }
    runtime.spawn(report(limiter.clone()));
    let certificates = Arc::new(Watched::new(listeners.certificates.clone(), node.api().clone()));
    let reload = Reload::new(serve.sources.clone(), values, levels, certificates.clone(), log_file);
    let stopped = runtime.block_on(serve_until_told(&node, &config, listeners, certificates, reload));
    runtime.shutdown_background();
    stopped.map_err(|error| failed(&error))?;
    let stopped = node.stop("Node was shut down");
    limiter.report();
    stopped.map_err(|error| failed(&error))?;
    tracing::info!("stopped");
    Ok(())
}

/// The signals that end the broker.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn recv(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Ends the process at a signal, until the returned handle is aborted. The start of a node that forms a cluster waits for other nodes, maybe
/// for ever. Nothing is lost: a start can be interrupted anywhere.
fn end_at_signal(mut signals: Signals) -> AbortHandle {
    let ending = async move {
        signals.recv().await;
        tracing::info!("stopped before the start was complete");
        std::process::exit(0);
    };
    tokio::spawn(ending).abort_handle()
}

impl Serve {
    /// Writes the first lines of the log: version, data directory, configuration files, listeners and limits.
    fn log_start(&self, config: &Config, files: &[String], listeners: &str, file_descriptors: &str) {
        // The log shows the absolute path, because it says more than the argument. If it cannot be
        // determined, the argument is logged unchanged.
        let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let files: Vec<String> =
            files.iter().map(|file| whole(file.as_ref()).display().to_string()).collect();
        let files = if files.is_empty() { "none".to_owned() } else { files.join(", ") };
        tracing::info!("sluice {SLUICE_VERSION} starts");
        tracing::info!("data directory: {}", whole(&self.data_dir).display());
        tracing::info!("configuration file: {files}");
        tracing::info!("listeners: {listeners}");
        let (memory, disk_free) = config.alarms.in_bytes();
        let backlog = config.storage.backlog_memory;
        tracing::info!(memory, disk_free, backlog, "limits in bytes");
        tracing::info!("node: {}", config.settings.node_name);
        tracing::info!("event loops: {}", config.shards);
        tracing::info!("{file_descriptors}");
        for warning in &config.warnings {
            tracing::warn!("{warning}");
        }
    }
}

/// Returns the hosts of the management API, and the users whose logins depend on them.
fn hosts(config: &Config) -> admin::HostOptions {
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    // The name of a node is `NAME@HOST`.
    let node = config.settings.node_name.rsplit('@').next().map(str::to_owned);
    admin::HostOptions {
        allowed: config.allowed_hosts.clone(),
        own: node.into_iter().chain([machine]).collect(),
        local_users: config.loopback_users.clone(),
        known_logins: first_user::known_logins(&config.default_user),
    }
}

fn random<const N: usize>() -> Result<[u8; N], StartError> {
    node::random()
        .map_err(|error| StartError::Io { what: "the system gives no random numbers".into(), error })
}

fn start(
    config: &Config,
    data_dir: &Path,
    with_default_user: bool,
    backends: Option<Backends>,
    listeners: &Listeners,
) -> Result<Node, StartError> {
    let hashing = config.password_hashing;
    let mut settings = config.settings.clone();
    let defaults = config.defaults.of_vhosts(|password| match password {
        Some(password) => Ok::<_, StartError>(hashing.hash(random()?, password)),
        None => Ok(hashing.of_nobody()),
    });
    settings.declare_rules.vhost_defaults = Arc::new(defaults?);
    let user = User {
        name: config.default_user.as_str().into(),
        hash: hashing.hash(random()?, &config.default_pass),
        tags: config.default_tags.clone(),
        loopback_only: config.loopback_users.contains(&config.default_user),
        permissions: [(config.settings.default_vhost.as_str().into(), config.default_permissions.clone())]
            .into(),
    };
    let certificates = listeners.cluster.clone();
    let cluster = config.cluster.clone().map(|cluster| ClusterSettings { certificates, ..cluster });
    Node::start(NodeOptions {
        settings,
        access: Access::new(with_default_user.then_some(user))
            .with_hashing(hashing)
            .tracking_sources(config.tracks_login_sources)
            .remembering(random()?)
            .with_loopback_users(config.loopback_users.iter().map(|name| name.as_str().into())),
        backends,
        shards: config.shards.count(),
        data_dir: data_dir.to_owned(),
        sharing: config.sharing,
        alarms: config.alarms,
        storage: config.storage,
        reserved_descriptors: listeners.http.len() as u64 * limits::http_connections(),
        cluster,
        accept_lost_definitions: config.accept_lost_definitions,
    })
}

/// Warns if events would be published in a virtual host that does not exist.
async fn warn_of_missing_event_vhost(config: &Config, values: &SetValues, node: &Node) {
    let Some(vhost) = config.settings.event_vhost() else { return };
    let who = Identity::internal("start", "administrator");
    let exists = node.api().vhosts(&who).await.is_ok_and(|all| all.iter().any(|known| known.0 == *vhost));
    if !exists {
        let why = format!("vhost '{vhost}' does not exist: there are no events until somebody adds it");
        tracing::warn!("{}", values.placed("event_exchange.vhost", &why, None));
    }
}

/// Logs in each period how many lines were suppressed.
async fn report(limiter: log::Limiter) {
    loop {
        tokio::time::sleep(log::PERIOD).await;
        limiter.report();
    }
}

/// A port of HTTP: its protocol in listings, its socket, and its certificates if it speaks TLS.
struct HttpPort {
    protocol: &'static str,
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    /// True for the metrics, false for the management API.
    is_metrics: bool,
}

/// A Unix domain socket: its path, its listener, and its file.
struct UnixSocket {
    path: String,
    listener: UnixListener,
    file: SocketFile,
}

/// The sockets that the broker listens on.
struct Listeners {
    amqp: Vec<(TcpListener, Listening)>,
    unix: Option<UnixSocket>,
    http: Vec<HttpPort>,
    /// The certificates between the nodes of a cluster.
    cluster: Option<Arc<Tls>>,
    /// All certificates.
    certificates: Vec<Arc<Tls>>,
}

impl Listeners {
    async fn bind(config: &Config, values: &SetValues) -> Result<Self, String> {
        async fn bind(address: SocketAddr, setting: &str) -> Result<TcpListener, String> {
            let failed =
                |error| format!("cannot listen on {address}: {error}; the address is set by {setting}");
            TcpListener::bind(address).await.map_err(failed)
        }
        let Certificates { amqp: amqp_tls, management, metrics, cluster, all: certificates } =
            Certificates::load(config, values).map_err(|problems| problems.join("\n"))?;
        let (mut amqp, mut http) = (Vec::new(), Vec::new());
        let proxies = config.proxies.clone().map(Arc::new);
        for address in &config.amqp_listeners {
            let listening = Listening { tls: None, proxies: proxies.clone() };
            amqp.push((bind(*address, "listeners.tcp.NAME").await?, listening));
        }
        for address in &config.tls_listeners {
            let listening = Listening { tls: amqp_tls.clone(), proxies: proxies.clone() };
            amqp.push((bind(*address, "listeners.ssl.NAME").await?, listening));
        }
        let of_http = [
            ("http", config.management, "management.tcp.port", None, false),
            ("http/prometheus", config.prometheus, "prometheus.tcp.port", None, true),
            ("https", config.management_tls, "management.ssl.port", management, false),
            ("https/prometheus", config.prometheus_tls, "prometheus.ssl.port", metrics, true),
        ];
        for (protocol, address, setting, tls, is_metrics) in of_http {
            if let Some(address) = address {
                let listener = bind(address, setting).await?;
                http.push(HttpPort { protocol, listener, tls, is_metrics });
            }
        }
        // The last one, so that no other listener can fail when a file has been replaced.
        let unix = match &config.unix_listener {
            Some(path) => {
                let (listener, file) = unix_socket::listen_on(path, config.unix_mode).await?;
                Some(UnixSocket { path: path.clone(), listener, file })
            }
            None => None,
        };
        Ok(Self { amqp, unix, http, cluster, certificates })
    }

    /// Returns the addresses at which users log in: all but those of the metrics.
    fn logins(&self) -> Vec<SocketAddr> {
        let amqp = self.amqp.iter().map(|(listener, _)| listener);
        let http = self.http.iter().filter(|port| !port.is_metrics).map(|port| &port.listener);
        amqp.chain(http).filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// Returns one line for people: the URLs of the listeners.
    fn line(&self, config: &Config) -> String {
        let address =
            |listener: &TcpListener| listener.local_addr().map(|a| a.to_string()).unwrap_or_default();
        let amqp = self.amqp.iter().map(|(listener, listening)| {
            let scheme = if listening.tls.is_some() { "amqps" } else { "amqp" };
            format!("{scheme}://{}@{}", config.default_user, address(listener))
        });
        let unix = self.unix.iter().map(|socket| format!("unix:{}", socket.path));
        let http = self.http.iter().map(|port| {
            let scheme = if port.tls.is_some() { "https" } else { "http" };
            let path = if port.is_metrics { "metrics" } else { "api" };
            format!("{scheme}://{}/{path}", address(&port.listener))
        });
        amqp.chain(unix).chain(http).collect::<Vec<_>>().join("  ")
    }
}

/// Serves until SIGTERM or SIGINT.
async fn serve_until_told(
    node: &Node,
    config: &Config,
    listeners: Listeners,
    certificates: Arc<Watched>,
    mut reload: Reload,
) -> io::Result<()> {
    let mut signals = Signals::new()?;
    let mut hangup = signal(SignalKind::hangup())?;
    let line = listeners.line(config);
    let Listeners { amqp, unix, http, .. } = listeners;
    for (listener, listening) in amqp {
        tokio::spawn(node.listen_with(listener, listening));
    }
    // The file is removed at the end of this function.
    let _file = unix.map(|UnixSocket { path, listener, file }| {
        tokio::spawn(node.listen_unix(listener, &path));
        file
    });
    let ports = admin::Ports::new(limits::http_connections() as usize)
        .naming_node(&config.settings.node_name)
        .with_certificates(certificates.all().to_vec())
        .skipping_unknown(config.skip_unknown_definitions)
        .hiding_erlang(!config.compat_erlang)
        .with_headers(config.headers.clone())
        .with_hosts(hosts(config))
        .with_page_login(config.page_login.clone())
        .with_settings(reload.in_force());
    if !certificates.all().is_empty() {
        tokio::spawn(certificates.watch());
    }
    if http.iter().any(|port| !port.is_metrics) {
        tokio::spawn(admin::sample(node.api().clone(), ports.clone(), config.statistics_interval));
    }
    for HttpPort { protocol, listener, tls, is_metrics } in http {
        node.add_listener(protocol, listener.local_addr()?);
        let (api, ports) = (node.api().clone(), ports.clone().over_tls(tls.is_some()));
        let router = match is_metrics {
            true => admin::metrics_router(api, ports.clone()),
            false => admin::management_router(api, ports.clone()),
        };
        tokio::spawn(async move {
            if let Err(error) = admin::serve(listener, tls, router, ports, std::future::pending()).await {
                tracing::error!("{protocol} listener failed: {error}");
            }
        });
    }
    let mut out = io::stdout();
    // A closed standard output does not stop the broker.
    drop(writeln!(out, "{line}\nServer startup complete").and_then(|()| out.flush()));
    systemd::ready();
    tokio::spawn(systemd::feed_watchdog(node.api().clone()));
    loop {
        tokio::select! {
            () = signals.recv() => break,
            Some(()) = hangup.recv() => {
                systemd::reloading();
                reload.run(node).await;
                systemd::ready();
            }
            change = reload.next_change() => reload.change(change, node),
        }
    }
    systemd::stopping();
    tracing::info!("stopping");
    Ok(())
}
