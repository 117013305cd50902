//! Keys that RabbitMQ has and Sluice does not. With them, a `rabbitmq.conf` starts the broker where that is
//! safe.
//!
//! A `*` matches any text. The first row that matches a key counts. Keys that Sluice has are looked up before
//! these.

/// The names of all keys in the schemas of RabbitMQ 4.3, one a line. A part that the operator chooses begins with `$`.
pub(super) const NAMES: &str = include_str!("rabbitmq-4.3.keys");

/// What to do with a key of RabbitMQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// The key is ignored, for this reason: the broker starts and logs a warning.
    NoEffect(&'static str),
    /// The configuration is refused, for this reason: if Sluice ignored the key, somebody could do what the
    /// key forbids.
    Guard(&'static str),
}

/// A key that keeps somebody out or keeps something secret.
struct Guard {
    pattern: &'static str,
    /// The value that matches what Sluice does anyway; empty if there is no such value.
    harmless: &'static str,
    /// What would happen if the key were ignored.
    without: &'static str,
}

const fn guard(pattern: &'static str, harmless: &'static str, without: &'static str) -> Guard {
    Guard { pattern, harmless, without }
}

const NO_TLS: &str = "there is no TLS for it, so connections would not be encrypted";
const TLS_OPTIONS: &str = "the TLS of Sluice has no such setting";
const HTTPS_CLIENTS: &str = "the HTTPS ports ask no client for a certificate, so everybody could connect";
const LISTENER: &str =
    "the listeners for clients are listeners.tcp.NAME, listeners.ssl.NAME and listeners.unix.default";
const SERVER_NAME: &str =
    "the certificate must have the name of the server, which may have a wildcard: write wildcard";
const LOGINS: &str = "only the keys in sluice.conf.example decide who may log in, and how";
const PERMISSIONS: &str =
    "only default_permissions.configure, .write and .read set the permissions of default_user";
const TAGS: &str = "only the tags in sluice.conf.example exist";
const DEFINITIONS: &str =
    "the users and permissions of the definitions would be missing, and default_user could log in";
const FORBIDDEN: &str = "what it forbids would be allowed";

const GUARDS: &[Guard] = &[
    guard("listeners.*", "", LISTENER),
    guard("ssl_options", "none", TLS_OPTIONS),
    guard("ssl_options.*", "", TLS_OPTIONS),
    guard("management.ssl.verify", "verify_none", HTTPS_CLIENTS),
    guard("management.ssl.fail_if_no_peer_cert", "false", HTTPS_CLIENTS),
    guard("management.ssl.*", "", TLS_OPTIONS),
    guard("prometheus.ssl.verify", "verify_none", HTTPS_CLIENTS),
    guard("prometheus.ssl.fail_if_no_peer_cert", "false", HTTPS_CLIENTS),
    guard("prometheus.ssl.*", "", TLS_OPTIONS),
    guard("*.ssl.*", "", NO_TLS),
    guard("*.listeners.ssl", "none", NO_TLS),
    guard("management.listener.ssl", "false", NO_TLS),
    guard("management.listener.ssl_opts*", "", NO_TLS),
    guard("auth_http.ssl_options.hostname_verification", "wildcard", SERVER_NAME),
    guard("auth_http.ssl_options.crl_check", "false", "no list of revoked certificates is asked for"),
    guard("auth_*", "", LOGINS),
    guard("management.disable_basic_auth", "false", FORBIDDEN),
    guard("management.restrictions.*", "false", FORBIDDEN),
    guard("prometheus.authentication.enabled", "false", "the metrics need no password"),
    guard("default_permissions.*", ".*", PERMISSIONS),
    guard("default_user_tags.administrator", "true", TAGS),
    guard("default_user_tags.*", "false", TAGS),
    guard("definitions.https.*", "", DEFINITIONS),
];

/// The ports whose TLS has keys of its own.
const TLS_PORTS: &[&str] = &["ssl_options.", "management.ssl.", "prometheus.ssl."];

/// Keys of [`TLS_PORTS`] that match a pattern of [`GUARDS`] but do not protect anything.
const HARMLESS_OF_TLS: &[&str] = &[
    "bypass_pem_cache",
    "client_renegotiation",
    "honor_cipher_order",
    "honor_ecc_order",
    "log_level",
    "reuse_session",
    "reuse_sessions",
    "secure_renegotiate",
];

/// Likewise, of the ports with HTTPS. Two of them concern the certificates of clients. They protect nothing alone, and what would
/// make them protect is refused: `verify = verify_peer`.
const HARMLESS_OF_HTTPS: &[&str] = &[
    "backlog",
    "cacertfile",
    "compress",
    "depth",
    "idle_timeout",
    "inactivity_timeout",
    "max_keepalive",
    "request_timeout",
    "shutdown_timeout",
];

/// Returns true for a key that matches a pattern of [`GUARDS`] but does not protect anything.
fn is_harmless(key: &str) -> bool {
    let of_tls = TLS_PORTS.iter().find_map(|prefix| Some((*prefix, key.strip_prefix(prefix)?)));
    of_tls.is_some_and(|(prefix, key)| {
        HARMLESS_OF_TLS.contains(&key) || prefix != "ssl_options." && HARMLESS_OF_HTTPS.contains(&key)
    })
}

/// All other keys of RabbitMQ and its plugins, by the reason why they have no effect. Keys of protocols that Sluice does not have
/// need no guard: nobody can connect with those protocols.
const OTHERS: &[(&str, &[&str])] = &[
    ("there is no MQTT and no STOMP", &["mqtt.*", "stomp.*", "web_mqtt.*", "web_stomp.*"]),
    (
        "there is no such plugin",
        &[
            "amqp10_client.*",
            "amqp_client.*",
            "aws.*",
            "federation.*",
            "shovel.*",
            "tracing.*",
            "trust_store.*",
        ],
    ),
    // Keys that Sluice has, such as the list of nodes, are taken before this table is read.
    ("nodes find each other by cluster_formation.classic_config.nodes.N alone", &["cluster_formation.*"]),
    (
        "there is one node",
        &[
            "cluster_keepalive_interval",
            "cluster_partition_handling*",
            "distribution.listener.*",
            "metadata_store.*",
            "mirroring_sync_*",
            "mnesia_table_loading_retry_*",
            "net_ticktime",
            "prevent_startup_if_node_was_reset",
            "queue_leader_locator",
            "queue_master_locator",
        ],
    ),
    (
        "it is about a part of RabbitMQ or of Erlang that Sluice does not have",
        &[
            "background_gc_enabled",
            "background_gc_target_interval",
            "channel_interceptor.*",
            "classic_queue.default_version",
            "collect_statistics",
            "default_worker_pool_size",
            "delegate_count",
            "erlang.*",
            "exchange_types.*",
            "hipe_compile",
            "memory_monitor_interval",
            "message_interceptors.*",
            "message_store_shutdown_timeout",
            "motd_file",
            "queue_index_embed_msgs_below",
            "queue_types.*",
            "quorum_queue.*",
            "raft.*",
            "socket_writer.gc_threshold",
            "stream.*",
            "sysmon_handler.*",
            "vhost_restart_strategy",
        ],
    ),
    (
        "Sluice chooses how it accepts connections, and sets the options of sockets",
        &["num_acceptors.*", "ranch_connection_max", "reverse_dns_lookups", "tcp_listen_options*"],
    ),
    ("handshake_timeout bounds the TLS handshake, too", &["ssl_handshake_timeout"]),
    ("versions before TLS 1.2 are never spoken", &["ssl_allow_poodle_attack"]),
    (
        "the memory is measured in one way, and vm_memory_high_watermark.absolute sets a limit in bytes",
        &[
            "total_memory_available_override_value",
            "vm_memory_calculation_strategy",
            "vm_memory_high_watermark_paging_ratio",
        ],
    ),
    ("the anonymous user needs no password", &["anonymous_login_pass"]),
    // That is RabbitMQ's default.
    ("clients are not told why a backend has refused them", &["authorization_failure_disclosure"]),
    ("encrypted values are refused themselves", &["config_entry_decoder.*"]),
    (
        "nodes and clusters have no tags from the configuration, and the product is set by compat.product and compat.version",
        &["cluster_tags.*", "node_tags.*", "product.*"],
    ),
    ("max_connections and channel_max are the keys", &["connection_max", "max_channels_per_connection"]),
    ("Sluice has no such limit", &["consumer_disconnected_timeout", "runtime_parameters.limits.*"]),
    // This key rejects weak passwords when users are created. Administrators choose those, and the author of this file those of
    // the configuration.
    ("any password is taken", &["credential_validator.*"]),
    ("definitions are read from files only, and how they are compared cannot be chosen", &["definitions.*"]),
    ("the feature is as in sluice.conf.example", &["deprecated_features.permit.*"]),
    ("the exchange amq.rabbitmq.event has keys of its own in sluice.conf.example", &["event_exchange.*"]),
    ("password_hashing is the key", &["password_hashing_module"]),
    ("the log has other outputs and categories: see sluice.conf.example", &["log.*"]),
    (
        "the HTTP API and the metrics have no such choice",
        &["http_dispatch.*", "management.*", "management_agent.*", "prometheus.*"],
    ),
];

/// Returns true if RabbitMQ 4.3 has a key with this name. Then the name is no typo of a key of Sluice.
pub(super) fn has(key: &str) -> bool {
    let is_named = |name: &str| {
        let mut parts = name.split('.').zip(key.split('.'));
        name.split('.').count() == key.split('.').count()
            && parts.all(|(of_name, part)| of_name.starts_with('$') || of_name == part)
    };
    NAMES.lines().any(is_named)
}

/// Returns what to do with a key that has this value; `None` if RabbitMQ does not know the key either.
pub(super) fn find(key: &str, value: &str) -> Option<Known> {
    if is_harmless(key) {
        return Some(Known::NoEffect("the TLS of Sluice has no such choice"));
    }
    if let Some(guard) = GUARDS.iter().find(|guard| fits(guard.pattern, key)) {
        let harmless = !guard.harmless.is_empty() && guard.harmless == value;
        return Some(match harmless {
            true => Known::NoEffect("it is what Sluice does anyway"),
            false => Known::Guard(guard.without),
        });
    }
    let mut others = OTHERS.iter().filter(|(_, patterns)| patterns.iter().any(|pattern| fits(pattern, key)));
    others.next().map(|(why, _)| Known::NoEffect(why))
}

/// Returns true if the key matches the pattern. A `*` at the start of the pattern or after a dot matches at
/// least one character.
fn fits(pattern: &str, key: &str) -> bool {
    let Some((before, behind)) = pattern.split_once('*') else { return pattern == key };
    let Some(rest) = key.strip_prefix(before) else { return false };
    let least = usize::from(before.is_empty() || before.ends_with('.'));
    (least..=rest.len()).filter_map(|at| rest.get(at..)).any(|rest| fits(behind, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_text() {
        for (pattern, key, fit) in [
            ("a.b", "a.b", true),
            ("a.b", "a.bc", false),
            ("a.*", "a.b.c", true),
            ("a.*", "a.", false),
            ("a.*", "a", false),
            ("a*", "a", true),
            ("a*", "ab", true),
            ("*.s.*", "x.y.s.z", true),
            ("*.s.*", ".s.z", false),
            ("*.s.*", "s.z", false),
            ("a*", "é", false),
            ("a.*é", "a.xé", true),
        ] {
            assert_eq!(fits(pattern, key), fit, "{pattern} {key}");
        }
    }

    #[test]
    fn keys_that_protect_are_not_ignored() {
        for (key, value) in [
            ("ssl_options.certfile", "/c"),
            ("ssl_options", "some"),
            ("management.ssl.verify", "verify_peer"),
            ("management.ssl.fail_if_no_peer_cert", "true"),
            ("management.ssl.versions.1", "tlsv1.3"),
            ("prometheus.ssl.ciphers.1", "TLS_AES_256_GCM_SHA384"),
            ("prometheus.ssl.verify", "verify_peer"),
            ("ssl_options.ciphers.1", "TLS_AES_256_GCM_SHA384"),
            ("web_mqtt.ssl.honor_cipher_order", "true"),
            ("web_mqtt.ssl.port", "15676"),
            ("mqtt.listeners.ssl.default", "8883"),
            ("listeners.sctp.default", "1"),
            ("auth_ldap.servers.1", "h"),
            ("auth_http.ssl_options.hostname_verification", "none"),
            ("auth_oauth2.proxy", "h"),
            ("auth_cache.cached_backend.authn", "internal"),
            ("default_permissions.write", "^$"),
            ("prometheus.authentication.enabled", "true"),
            ("definitions.https.url", "https://h/definitions.json"),
            ("default_user_tags.administrator", "false"),
            ("default_user_tags.monitoring", "true"),
        ] {
            assert!(matches!(find(key, value), Some(Known::Guard(_))), "{key}");
        }
        for (key, value) in [
            ("default_permissions.read", ".*"),
            ("auth_http.ssl_options.hostname_verification", "wildcard"),
            ("ssl_options", "none"),
            ("management.ssl.verify", "verify_none"),
            ("prometheus.ssl.fail_if_no_peer_cert", "false"),
            ("default_user_tags.administrator", "true"),
            ("default_user_tags.monitoring", "false"),
        ] {
            assert!(
                matches!(find(key, value), Some(Known::NoEffect(_))),
                "{key} = {value} is what Sluice does anyway"
            );
        }
    }

    #[test]
    fn other_keys_have_no_effect() {
        for key in [
            "log.federation.level",
            "log.syslog.ip",
            "management.oauth_client_secret",
            "management.oauth_initiated_logon_type",
            "collect_statistics",
            "cluster_formation.k8s.host",
            "definitions.hashing.algorithm",
            "management.rates_mode",
            "mqtt.listeners.tcp.default",
            "tcp_listen_options.backlog",
            "ssl_handshake_timeout",
            "credential_validator.validation_backend",
            "credential_validator.min_length",
            "ssl_options.honor_cipher_order",
            "management.ssl.honor_cipher_order",
            "management.ssl.honor_ecc_order",
            "management.ssl.client_renegotiation",
            "management.ssl.secure_renegotiate",
            "management.ssl.cacertfile",
            "management.ssl.depth",
            "prometheus.ssl.reuse_sessions",
            "prometheus.ssl.idle_timeout",
            "authorization_failure_disclosure",
        ] {
            assert!(matches!(find(key, "1"), Some(Known::NoEffect(_))), "{key}");
        }
        for key in ["", "nonsense", "data_dir", "logs.file", "queue"] {
            assert_eq!(find(key, "1"), None, "{key}");
        }
    }
}
