//! The configuration: files with `key = value` lines, variables of the environment, and `--set KEY=VALUE` arguments. Keys
//! have RabbitMQ's names where RabbitMQ has the key.
//!
//! ```text
//! # a comment; also after a value, if a space precedes it
//! listeners.tcp.default = 0.0.0.0:5672
//! default_pass = 'in quotes a # is a #'
//! ```
//!
//! If a key occurs on several lines of a file, the last one counts, and there is a warning. The order of files, environment
//! and arguments is in `layers`. All keys are in the tables of `keys::all`, from which `sluice.conf.example` is generated. Keys
//! that only RabbitMQ has are in `rabbitmq`.

mod chain;
mod cluster;
mod defaults;
mod events;
mod key;
mod keys;
mod layers;
mod listeners;
mod logins;
mod logs;
mod mechanisms;
mod oauth2;
mod page_login;
mod problems;
mod rabbitmq;
mod run_time;
mod schedule;
mod set_values;
#[cfg(test)]
mod tests;
mod values;
mod web;
mod wrong;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use admin::{HeaderOptions, PageLogin};
use amqp10::sasl::Secret;
use broker::settings::Settings;
use catalog::access::{Hashing, Permissions};
use catalog::nearest::did_you_mean;
use node::proxy::{Network, Proxies};
use node::{AlarmLimits, ClusterSettings, Limit, StorageLimits};
use tls::{LoginFrom, NameKind};
use wal::files::Sharing;

pub(crate) use self::chain::{BackendEntry, BackendName, ExternalName};
use self::cluster::ClusterKeys;
use self::defaults::Defaults;
#[cfg(test)]
pub(crate) use self::layers::ARGUMENTS;
pub(crate) use self::layers::{CONFIG_FILE_VARIABLE, Sources, files_of};
use self::layers::{Layers, shown};
use self::listeners::ListenerKeys;
use self::logins::LoginKeys;
pub(crate) use self::logs::{Format, LogOptions, Output, Rotation};
use self::mechanisms::MechanismKeys;
use self::page_login::PageLoginKeys;
pub(crate) use self::problems::ConfigError;
use self::problems::Problem;
pub(crate) use self::schedule::Schedule;

use self::set_values::shown_value;
pub(crate) use self::set_values::{DEFAULT, SetValues, Shown};
pub(crate) use self::values::Shards;
use self::web::WebKeys;
use self::wrong::Wrong;

/// Where AMQP clients connect if no key of a listener is set.
const AMQP_DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 5672);

/// The keys that name definitions.
const LOAD_DEFINITIONS: &str = "load_definitions";
const MANAGEMENT_DEFINITIONS: &str = "management.load_definitions";
const LOCAL_DEFINITIONS: &str = "definitions.local.path";
const IMPORT_BACKEND: &str = "definitions.import_backend";

/// Everything that an operator can set, checked. Its `Debug` output shows no secret.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// Settings that the broker itself reads.
    pub settings: Settings,
    /// The addresses where AMQP clients connect; empty if `listeners.tcp = none`.
    pub amqp_listeners: Vec<SocketAddr>,
    /// The addresses where AMQP clients connect with TLS.
    pub tls_listeners: Vec<SocketAddr>,
    /// The path of the Unix domain socket for AMQP clients.
    pub unix_listener: Option<String>,
    /// The permissions of its file.
    pub unix_mode: u32,
    /// The proxies that AMQP clients connect over; `None` without the PROXY protocol.
    pub proxies: Option<Proxies>,
    /// The certificates of the listeners with TLS; `None` if they are not set.
    pub tls: Option<tls::Options>,
    /// The address of the management API over HTTPS, and its certificates.
    pub management_tls: Option<SocketAddr>,
    pub management_certificates: Option<tls::Options>,
    /// The address of the metrics over HTTPS, and its certificates.
    pub prometheus_tls: Option<SocketAddr>,
    pub prometheus_certificates: Option<tls::Options>,
    /// The address of the management API; `None` if `management.tcp.port = none`.
    pub management: Option<SocketAddr>,
    /// The address of the metrics; `None` if `prometheus.tcp.port = none`.
    pub prometheus: Option<SocketAddr>,
    /// The number of event loops, each with its own connections and queues.
    pub shards: Shards,
    /// The user that a new data directory starts with.
    pub default_user: String,
    /// The password of `default_user`.
    pub default_pass: Secret,
    /// The tags of `default_user`.
    pub default_tags: Vec<String>,
    /// The permissions of `default_user` in `default_vhost`.
    pub default_permissions: Permissions,
    /// What new virtual hosts get.
    pub defaults: Defaults,
    /// Users who may connect from this machine only.
    pub loopback_users: Vec<String>,
    /// The algorithm of new passwords.
    pub password_hashing: Hashing,
    /// Who checks logins, in this order.
    pub backends: Vec<BackendEntry>,
    /// Who checks logins over HTTP. `None`: the same.
    pub http_backends: Option<Vec<BackendEntry>>,
    /// How the HTTP server is asked that checks logins.
    pub auth_http: identity::http::Options,
    /// The backend whose answers are remembered, for how many milliseconds, and whether refusals are.
    pub auth_cache: (Option<ExternalName>, u64, bool),
    /// How tokens are read.
    pub oauth2: identity::oauth2::Options,
    /// The limits above which publishers are stopped.
    pub alarms: AlarmLimits,
    /// Limits on what is stored.
    pub storage: StorageLimits,
    /// How the node forms a cluster; `None` if no nodes are listed.
    pub cluster: Option<ClusterSettings>,
    /// The certificates between the nodes of the cluster.
    pub cluster_certificates: Option<tls::Options>,
    /// Who may use what is in the data directory.
    pub sharing: Sharing,
    /// True if the broker starts even if definitions may have been lost.
    pub accept_lost_definitions: bool,
    /// The file of definitions that are carried out at each start, or a directory of such files.
    pub load_definitions: Option<PathBuf>,
    /// The key that names it.
    pub definitions_key: &'static str,
    /// True if definitions that have not changed since they were carried out are skipped at the start.
    pub skip_unchanged_definitions: bool,
    /// True if exchanges of unknown types are left out of definitions.
    pub skip_unknown_definitions: bool,
    /// True if the HTTP API shows a version of Erlang that tools can parse.
    pub compat_erlang: bool,
    /// The headers of the management API.
    pub headers: HeaderOptions,
    /// The hosts that browsers and proxies may name to the management API, with their ports.
    pub allowed_hosts: Vec<String>,
    /// The provider at which users of the web page log in.
    pub page_login: Option<PageLogin>,
    /// The time between two samples of the statistics.
    pub statistics_interval: Duration,
    /// True if logins are counted by their source.
    pub tracks_login_sources: bool,
    /// What is logged, where and how.
    pub log: LogOptions,
    /// Warnings for the log: keys of the file that have no effect, or that occur twice.
    pub warnings: Vec<String>,
}

impl Default for Config {
    fn default() -> Self {
        Draft::default().finish()
    }
}

/// A configuration, and the values that it comes from.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub config: Config,
    pub values: SetValues,
    /// The files that were read, in the order in which they count.
    pub files: Vec<String>,
}

impl Config {
    /// Reads all layers of the configuration.
    ///
    /// # Errors
    /// Every file that cannot be read, or every refused key and value with its place.
    pub(crate) fn load(sources: &Sources) -> Result<Loaded, ConfigError> {
        Self::of_layers(&Layers::read(sources)?)
    }

    /// Like [`Self::load`], but of layers that were read.
    ///
    /// # Errors
    /// Every refused key and value, with its place.
    fn of_layers(layers: &Layers<'_>) -> Result<Loaded, ConfigError> {
        let mut draft = Draft::default();
        let mut problems = layers.apply(&mut draft);
        problems.extend(draft.contradictions());
        if !problems.is_empty() {
            return Err(ConfigError(problems));
        }
        let values = std::mem::take(&mut draft.values);
        let files = layers.files.iter().map(|(name, _)| name.clone()).collect();
        Ok(Loaded { config: draft.finish(), values, files })
    }

    /// Returns a configuration with those of these values that a running broker takes. Everything else in it is a default.
    pub(crate) fn reloadable(values: &SetValues) -> Self {
        let mut draft = Draft::default();
        for (name, value) in values.reloadable() {
            let set = draft.set(name, value, "");
            debug_assert_eq!(set, Ok(()), "{name} was set before");
        }
        draft.finish()
    }

    /// Like [`Self::load`], but from the text of a file with this name, and without the environment.
    #[cfg(test)]
    fn parse(text: &str, name: &str, sets: &[String]) -> Result<Self, ConfigError> {
        let files = vec![(name.to_owned(), text.to_owned())];
        Self::of_layers(&Layers { files, sets, ..Layers::default() }).map(|loaded| loaded.config)
    }
}

/// The value of `ssl_cert_login_from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoginName {
    Distinguished,
    Common,
    Alternative,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TlsVersion {
    Tls12,
    Tls13,
}

/// The keys of one `ssl_options`.
#[derive(Clone, Debug, Default)]
struct TlsKeys {
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    /// The certificates and keys of further pairs, by the names that the operator chose.
    named: BTreeMap<String, (Option<PathBuf>, Option<PathBuf>)>,
    password: Option<tls::Password>,
    authorities: Option<PathBuf>,
    verify: bool,
    required: bool,
    depth: tls::Depth,
    revoked: Option<PathBuf>,
    versions: Vec<TlsVersion>,
}

impl TlsKeys {
    /// Returns the keys, behind their prefix, that have no effect, and the key that each of them needs. Somebody would rely on
    /// them.
    fn without_effect(&self) -> impl Iterator<Item = (String, String)> {
        let (certificate, key) = (self.certificate.is_some(), self.key.is_some());
        let of_one = [
            (certificate && !key, "certfile", "keyfile"),
            (key && !certificate, "keyfile", "certfile"),
            (self.password.is_some() && !key, "password", "keyfile"),
            (self.required && !self.verify, "fail_if_no_peer_cert", "verify = verify_peer"),
            (self.revoked.is_some() && !self.verify, "crl_file", "verify = verify_peer"),
        ];
        let of_one = of_one.into_iter().filter(|(is_so, ..)| *is_so);
        let of_one = of_one.map(|(_, key, needs)| (key.to_owned(), needs.to_owned()));
        let of_named = self.named.iter().filter_map(move |(name, pair)| {
            let (has, needs) = match pair {
                (Some(_), None) => ("certfile", format!("keyfile.{name}")),
                (None, Some(_)) => ("keyfile", format!("certfile.{name}")),
                (Some(_), Some(_)) if !certificate => ("certfile", "certfile".to_owned()),
                _ => return None,
            };
            Some((format!("{has}.{name}"), needs))
        });
        of_one.chain(of_named)
    }

    fn options(&self, setting: &'static str) -> Option<tls::Options> {
        let speaks = |version| self.versions.is_empty() || self.versions.contains(&version);
        let pair = |certificate: &Option<PathBuf>, key: &Option<PathBuf>| {
            Some(tls::Pair { certificate: certificate.clone()?, key: key.clone()? })
        };
        Some(tls::Options {
            setting,
            pair: pair(&self.certificate, &self.key)?,
            named: self.named.values().filter_map(|(certificate, key)| pair(certificate, key)).collect(),
            password: self.password.clone(),
            authorities: self.authorities.clone(),
            verify: match (self.verify, self.required) {
                (false, _) => tls::Verify::None,
                (true, false) => tls::Verify::Optional,
                (true, true) => tls::Verify::Required,
            },
            depth: self.depth,
            revoked: self.revoked.clone(),
            tls12: speaks(TlsVersion::Tls12),
            tls13: speaks(TlsVersion::Tls13),
            login_from: LoginFrom::default(),
            host: None,
        })
    }
}

/// A configuration under construction. Addresses and ports are still separate.
#[derive(Debug)]
struct Draft {
    settings: Settings,
    tcp: ListenerKeys,
    ssl: ListenerKeys,
    management: (IpAddr, Option<u16>),
    prometheus: (IpAddr, Option<u16>),
    unix_listener: Option<String>,
    unix_mode: u32,
    proxy_protocol: bool,
    /// The trusted proxies, by the `N` of their keys.
    trusted_proxies: BTreeMap<String, Network>,
    management_tls: (IpAddr, Option<u16>),
    prometheus_tls: (IpAddr, Option<u16>),
    tls: TlsKeys,
    login_name: LoginName,
    /// The kind and the place of the alternative name.
    login_san: (NameKind, usize),
    management_ssl: TlsKeys,
    prometheus_ssl: TlsKeys,
    shards: Shards,
    default_user: String,
    default_pass: Secret,
    default_tags: Vec<String>,
    default_permissions: Permissions,
    defaults: Defaults,
    loopback_users: Vec<String>,
    password_hashing: Hashing,
    logins: LoginKeys,
    mechanisms: MechanismKeys,
    alarms: AlarmLimits,
    /// The second form in which the memory limit can be set (in bytes, where the first is a share of the
    /// memory; for the disk it is the reverse). If it is set, the first form has no effect.
    memory_instead: Option<Limit>,
    disk_free_instead: Option<Limit>,
    storage: StorageLimits,
    cluster: ClusterKeys,
    has_group_access: bool,
    accept_lost_definitions: bool,
    load_definitions: Option<PathBuf>,
    management_definitions: Option<PathBuf>,
    /// True if `definitions.import_backend` says that `local_definitions` count.
    has_local_definitions: bool,
    local_definitions: Option<PathBuf>,
    skip_unchanged_definitions: bool,
    compat_erlang: bool,
    skip_unknown_definitions: bool,
    web: WebKeys,
    page_login: PageLoginKeys,
    statistics_ms: u64,
    tracks_login_sources: bool,
    events: events::Events,
    log: LogOptions,
    warnings: Vec<String>,
    values: SetValues,
}

impl Default for Draft {
    fn default() -> Self {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Self {
            settings: Settings { node_name: values::own_node_name(), ..Settings::default() },
            tcp: ListenerKeys::default(),
            ssl: ListenerKeys::default(),
            management: (loopback, Some(15672)),
            prometheus: (loopback, Some(15692)),
            unix_listener: None,
            unix_mode: 0o600,
            proxy_protocol: false,
            trusted_proxies: BTreeMap::new(),
            management_tls: (loopback, None),
            prometheus_tls: (loopback, None),
            tls: TlsKeys::default(),
            login_name: LoginName::Distinguished,
            login_san: (NameKind::Dns, 0),
            management_ssl: TlsKeys::default(),
            prometheus_ssl: TlsKeys::default(),
            shards: Shards::auto(),
            default_user: "guest".into(),
            default_pass: Secret::new("guest"),
            default_tags: vec!["administrator".into()],
            default_permissions: Permissions::ALL,
            defaults: Defaults::default(),
            loopback_users: vec!["guest".into()],
            password_hashing: Hashing::default(),
            logins: LoginKeys::default(),
            mechanisms: MechanismKeys::default(),
            alarms: AlarmLimits::default(),
            memory_instead: None,
            disk_free_instead: None,
            storage: StorageLimits::default(),
            cluster: ClusterKeys::default(),
            has_group_access: false,
            accept_lost_definitions: false,
            load_definitions: None,
            management_definitions: None,
            has_local_definitions: false,
            local_definitions: None,
            skip_unchanged_definitions: false,
            skip_unknown_definitions: false,
            compat_erlang: true,
            web: WebKeys::default(),
            page_login: PageLoginKeys::default(),
            statistics_ms: 5_000,
            tracks_login_sources: false,
            events: events::Events::default(),
            log: LogOptions::default(),
            warnings: Vec::new(),
            values: SetValues::default(),
        }
    }
}

/// How RabbitMQ marks values that it decrypts with a passphrase. Taken as they are, they would be passwords.
const ENCRYPTED: &str = "encrypted:";

/// What to do about an encrypted value.
const CLEAR: &str =
    "write the value itself, in a file that only the user of the broker can read, or set it by environment";

/// Words in the free part of a name whose value may be a secret.
const SECRET_WORDS: [&str; 3] = ["secret", "pass", "token"];

/// Returns true if the value of a key with this free part must not be shown in an error.
fn has_name_of_secret(part: &str) -> bool {
    let part = part.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| part.contains(word))
}

impl Draft {
    /// Sets a key. `place` says where the value is.
    fn set(&mut self, name: &str, value: &str, place: &str) -> Result<(), String> {
        let Some((key, part)) = keys::find(name) else {
            return Err(format!("unknown key '{}'{}", shown(name), did_you_mean(name, keys::names())));
        };
        if value.starts_with(ENCRYPTED) {
            return Err(format!(
                "'{}' is {ENCRYPTED}..., and Sluice cannot decrypt it: {CLEAR}",
                shown(name)
            ));
        }
        (key.set)(self, part, value).map_err(|wrong| {
            let (name, need) = (shown(name), wrong.need());
            match wrong {
                Wrong::Value(_) if !has_name_of_secret(part) => {
                    let value = shown_value(key, value);
                    format!("'{name}' cannot be '{}': {need}", value.escape_debug())
                }
                _ => format!("'{name}': {need}"),
            }
        })?;
        self.values.insert(keys::current_name(name), value, place);
        Ok(())
    }

    /// Returns what is wrong between several keys.
    fn contradictions(&self) -> Vec<Problem> {
        let all = [
            ("ssl_options", &self.tls),
            ("management.ssl", &self.management_ssl),
            ("prometheus.ssl", &self.prometheus_ssl),
        ];
        let of = |(prefix, keys): (&str, &TlsKeys)| -> Vec<Problem> {
            let problem = |(key, needs): (String, String)| Problem {
                place: format!("{prefix}.{key}"),
                problem: format!("it has no effect without {prefix}.{needs}"),
            };
            keys.without_effect().map(problem).collect()
        };
        let logins = self.logins.problems();
        let page_login =
            self.page_login.problem(self.logins.oauth2.issuer(), self.logins.reads_tokens_over_http());
        let cluster = self.cluster.problems(&self.settings.node_name);
        let logins = logins.into_iter().chain(page_login).chain(self.defaults.problems()).chain(cluster);
        let logins = logins.map(|(place, problem)| Problem { place, problem });
        let mut problems: Vec<Problem> = all.into_iter().flat_map(of).chain(logins).collect();
        let of_proxies = match (self.proxy_protocol, self.trusted_proxies.is_empty()) {
            (true, true) => Some((
                "proxy_protocol",
                "nobody could connect: set proxy_protocol.trusted.1 to the address of the proxy, or to its network",
            )),
            // Somebody would rely on it that only the proxies may connect.
            (false, false) => {
                Some(("proxy_protocol.trusted", "it has no effect without proxy_protocol = true"))
            }
            _ => None,
        };
        problems.extend(
            of_proxies.map(|(place, problem)| Problem { place: place.into(), problem: problem.into() }),
        );
        let of_mechanisms = self.mechanisms.problem(self.tls.verify);
        problems.extend(of_mechanisms.map(|problem| Problem::new("auth_mechanisms", problem)));
        problems.extend(self.definitions_problem());
        for Problem { place, .. } in &mut problems {
            if let Some(set_at) = self.values.place(place) {
                *place = format!("{set_at}: {place}");
            }
        }
        problems
    }

    /// Returns what is wrong between the keys that name definitions. Ignoring one of them would start a broker without the users
    /// of the definitions.
    fn definitions_problem(&self) -> Option<Problem> {
        let problem = |place: &str, problem: String| Some(Problem { place: place.to_owned(), problem });
        let (local, older) = (&self.local_definitions, &self.management_definitions);
        let first = self.load_definitions.as_ref().or(older.as_ref());
        match (self.has_local_definitions, local, first) {
            (true, None, _) => {
                problem(IMPORT_BACKEND, format!("it has no effect without {LOCAL_DEFINITIONS}"))
            }
            (false, Some(_), _) => problem(
                LOCAL_DEFINITIONS,
                format!("it has no effect without {IMPORT_BACKEND} = local_filesystem"),
            ),
            (true, Some(local), Some(first)) if local != first => problem(LOCAL_DEFINITIONS, self.others()),
            (_, _, Some(first)) if older.as_ref().is_some_and(|older| older != first) => {
                problem(MANAGEMENT_DEFINITIONS, self.others())
            }
            _ => None,
        }
    }

    /// Says which key names definitions already.
    fn others(&self) -> String {
        format!("{} names other definitions: only one of the keys is possible", self.definitions_key())
    }

    /// Returns the key that names the definitions.
    fn definitions_key(&self) -> &'static str {
        match (&self.load_definitions, &self.management_definitions) {
            (Some(_), _) => LOAD_DEFINITIONS,
            (None, Some(_)) => MANAGEMENT_DEFINITIONS,
            (None, None) => LOCAL_DEFINITIONS,
        }
    }

    fn finish(self) -> Config {
        let login_from = match self.login_name {
            LoginName::Distinguished => LoginFrom::DistinguishedName,
            LoginName::Common => LoginFrom::CommonName,
            LoginName::Alternative => LoginFrom::AlternativeName(self.login_san.0, self.login_san.1),
        };
        let address = |(ip, port): (IpAddr, Option<u16>)| port.map(|port| SocketAddr::new(ip, port));
        let shared = self.tls.options("ssl_options");
        let page_login = self.page_login.options(self.logins.oauth2.issuer());
        let provider = page_login.as_ref().and_then(|login| page_login::origin(&login.provider_url));
        let definitions_key = self.definitions_key();
        let mut settings = self.settings;
        if !self.mechanisms.allow_anonymous() {
            settings.anonymous_login_user = None;
        }
        settings.declare_rules.event_vhost = self.events.vhost();
        let mut warnings = self.warnings;
        warnings.extend(self.web.warning());
        settings.declare_rules.log_vhost =
            self.log.has_exchange.then(|| settings.default_vhost.as_str().into());
        Config {
            amqp_listeners: self.tcp.addresses(Some(AMQP_DEFAULT)),
            tls_listeners: self.ssl.addresses(None),
            unix_listener: self.unix_listener,
            unix_mode: self.unix_mode,
            proxies: self.proxy_protocol.then(|| self.trusted_proxies.into_values().collect()),
            management_tls: address(self.management_tls),
            prometheus_tls: address(self.prometheus_tls),
            management_certificates: self.management_ssl.options("management.ssl").or_else(|| shared.clone()),
            prometheus_certificates: self.prometheus_ssl.options("prometheus.ssl").or_else(|| shared.clone()),
            tls: shared.map(|options| tls::Options { login_from, ..options }),
            management: address(self.management),
            prometheus: address(self.prometheus),
            shards: self.shards,
            default_user: self.default_user,
            default_pass: self.default_pass,
            default_tags: self.default_tags,
            default_permissions: self.default_permissions,
            defaults: self.defaults,
            loopback_users: self.loopback_users,
            password_hashing: self.password_hashing,
            backends: self.logins.backends(),
            http_backends: self.logins.http_backends(),
            auth_http: self.logins.http(),
            auth_cache: self.logins.cache(),
            oauth2: self.logins.oauth2(),
            alarms: AlarmLimits {
                memory: self.memory_instead.unwrap_or(self.alarms.memory),
                disk_free: self.disk_free_instead.unwrap_or(self.alarms.disk_free),
            },
            storage: self.storage,
            cluster_certificates: self.cluster.certificates(&settings.node_name),
            cluster: self.cluster.settings(),
            sharing: if self.has_group_access { Sharing::Group } else { Sharing::Owner },
            accept_lost_definitions: self.accept_lost_definitions,
            definitions_key,
            load_definitions: self
                .load_definitions
                .or(self.management_definitions)
                .or(self.local_definitions),
            skip_unchanged_definitions: self.skip_unchanged_definitions,
            skip_unknown_definitions: self.skip_unknown_definitions,
            compat_erlang: self.compat_erlang,
            allowed_hosts: self.web.hosts(),
            headers: self.web.options(provider.as_deref()),
            page_login,
            statistics_interval: Duration::from_millis(self.statistics_ms),
            tracks_login_sources: self.tracks_login_sources,
            log: self.log,
            warnings,
            settings,
        }
    }
}
