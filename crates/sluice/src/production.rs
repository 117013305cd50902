//! What should not go into production: settings that are convenient on a laptop, and open a door elsewhere. `sluice check config
//! --strict` lists them. Only the configuration is looked at, not the users and files of a data directory.

use std::net::SocketAddr;

use catalog::access::Hashing;
use tls::Verify;

use crate::config::{BackendName, Config, ExternalName, SetValues};
use crate::first_user::GUEST;

/// Returns one line for each setting, with the file and the line that have set it.
pub(crate) fn problems(config: &Config, values: &SetValues) -> Vec<String> {
    let mut found: Vec<(&str, String)> = Vec::new();
    users(config, &mut found);
    listeners(config, &mut found);
    logins(config, &mut found);
    if config.accept_lost_definitions {
        let why = "a start goes on although definitions are lost; set it for the one start that needs it";
        found.push(("accept_lost_definitions", why.to_owned()));
    }
    if config.unix_listener.is_some() && config.unix_mode & 0o006 != 0 {
        let why = format!(
            "mode {:04o} lets every user of the machine connect; use 0660 and a group",
            config.unix_mode
        );
        found.push(("listeners.unix.mode", why));
    }
    found.into_iter().map(|(key, why)| values.placed(key, &why, None)).collect()
}

/// Returns the address if other machines can reach it.
fn open(address: SocketAddr) -> Option<SocketAddr> {
    (!address.ip().to_canonical().is_loopback()).then_some(address)
}

/// The first user, whose password everybody may know, and users without credentials.
fn users(config: &Config, found: &mut Vec<(&'static str, String)>) {
    if config.default_pass.expose() == GUEST.as_bytes() {
        let user = &config.default_user;
        let why = format!(
            "a new data directory begins with user '{user}' and the password '{GUEST}', which everybody knows; set another one, \
             or import users with load_definitions"
        );
        found.push(("default_pass", why));
    }
    if !config.loopback_users.iter().any(|user| user == GUEST) {
        let why = format!("user '{GUEST}' may log in from other machines; leave it to this machine");
        found.push(("loopback_users", why));
    }
    // At a listener that demands certificates nobody is anonymous.
    let demands = config.tls.as_ref().is_some_and(|tls| tls.verify == Verify::Required);
    let of_tls = config.tls_listeners.iter().filter(|_| !demands);
    let reachable = config.amqp_listeners.iter().chain(of_tls).copied().find_map(open);
    if let (Some(user), Some(at)) = (&config.settings.anonymous_login_user, reachable) {
        let why =
            format!("clients without credentials become user '{user}', at {at} for example; set it to none");
        found.push(("anonymous_login_user", why));
    }
}

/// Ports that show passwords or figures to the network.
fn listeners(config: &Config, found: &mut Vec<(&'static str, String)>) {
    if let Some(at) = config.amqp_listeners.iter().copied().find_map(open) {
        let why = format!(
            "passwords and messages cross the network at {at} without TLS; use listeners.ssl.default"
        );
        found.push(("listeners.tcp", why));
    }
    if let Some(at) = config.management.and_then(open) {
        let why = format!(
            "passwords cross the network at {at} without TLS; use management.ssl.port, or a proxy that speaks TLS"
        );
        found.push(("management.tcp", why));
    }
    let cluster = config.cluster.as_ref().filter(|_| config.cluster_certificates.is_none());
    if let Some(at) = cluster.and_then(|cluster| open(cluster.listener)) {
        let why = format!(
            "messages and definitions cross the network at {at} without TLS; use cluster.ssl_options.certfile"
        );
        found.push(("cluster.listener", why));
    }
    for (key, at) in [("prometheus.tcp", config.prometheus), ("prometheus.ssl", config.prometheus_tls)] {
        if let Some(at) = at.and_then(open) {
            let why = format!(
                "everybody who reaches {at} can read the metrics without a login; keep it in a network of your own"
            );
            found.push((key, why));
        }
    }
    if config.headers.origins.iter().any(|origin| origin == "*") {
        let why = "a page of any web site can change this broker with the login that a browser remembers; list the origins";
        found.push(("management.cors.allow_origins", why.to_owned()));
    }
}

/// How passwords and tokens are checked.
fn logins(config: &Config, found: &mut Vec<(&'static str, String)>) {
    if config.password_hashing != Hashing::default() {
        let why = format!(
            "new passwords are hashed with {}, which is fast to guess; use argon2id",
            config.password_hashing.name()
        );
        found.push(("password_hashing", why));
    }
    if !config.oauth2.verify_audience {
        let why = "tokens that were made for other services are accepted; set it to true";
        found.push(("auth_oauth2.verify_aud", why.to_owned()));
    }
    let of_http = [
        ("auth_http.user_path", &config.auth_http.user_path),
        ("auth_http.vhost_path", &config.auth_http.vhost_path),
        ("auth_http.resource_path", &config.auth_http.resource_path),
        ("auth_http.topic_path", &config.auth_http.topic_path),
    ];
    for (key, url) in of_http.into_iter().filter(|_| asks_http(config)) {
        let local = ["http://localhost", "http://127.", "http://[::1]"];
        if url.starts_with("http://") && !local.iter().any(|prefix| url.starts_with(prefix)) {
            found.push((key, format!("logins cross the network without TLS at {url}; use https")));
        }
    }
}

/// Returns true if an HTTP server checks logins.
fn asks_http(config: &Config) -> bool {
    let cached = config.auth_cache.0;
    let all = config.backends.iter().chain(config.http_backends.iter().flatten());
    let asked = all.flat_map(|entry| [entry.authn, entry.authz]).filter_map(|name| match name {
        BackendName::Internal => None,
        BackendName::External(name) => Some(name),
        BackendName::Cache => cached,
    });
    asked.into_iter().any(|name| name == ExternalName::Http)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Sources;

    /// Returns the keys that are complained of.
    fn keys(sets: &[&str]) -> Vec<String> {
        let sets = sets.iter().map(|set| (*set).to_owned()).collect();
        let loaded = Config::load(&Sources { sets, ..Sources::default() }).unwrap();
        let lines = problems(&loaded.config, &loaded.values);
        let key = |line: &String| {
            line.split(": ").find(|part| !part.contains(' ') && !part.starts_with("--")).unwrap().to_owned()
        };
        lines.iter().map(key).collect()
    }

    #[test]
    fn each_open_door_is_listed() {
        let good = ["default_user=ops", "default_pass=a long one"];
        assert_eq!(keys(&[]), ["default_pass"]);
        assert_eq!(keys(&good), [""; 0]);
        for (set, expected) in [
            ("loopback_users=none", &["loopback_users"][..]),
            ("listeners.tcp.default=0.0.0.0:5672", &["anonymous_login_user", "listeners.tcp"]),
            ("management.tcp.ip=0.0.0.0", &["management.tcp"]),
            ("prometheus.tcp.ip=::", &["prometheus.tcp"]),
            ("management.cors.allow_origins.1=*", &["management.cors.allow_origins"]),
            ("accept_lost_definitions=true", &["accept_lost_definitions"]),
            ("password_hashing=sha256", &["password_hashing"]),
        ] {
            assert_eq!(keys(&[&good[..], &[set]].concat()), expected, "{set}");
        }
        let anonymous = ["listeners.tcp.default=0.0.0.0:5672", "anonymous_login_user=none"];
        assert_eq!(keys(&[&good[..], &anonymous].concat()), ["listeners.tcp"]);
        let unix = ["listeners.unix.default=/run/sluice.sock", "listeners.unix.mode=0666"];
        assert_eq!(keys(&[&good[..], &unix].concat()), ["listeners.unix.mode"]);
        let cluster = [
            "node.name=a@h1",
            "cluster.listener=10.0.0.1:25672",
            "cluster_formation.classic_config.nodes.1=a@h1:25672",
        ];
        let secret = ["cluster.secret=a secret of more than 20 bytes"];
        assert_eq!(keys(&[&good[..], &cluster, &secret].concat()), ["cluster.listener"]);
        let certificates =
            ["certfile", "keyfile", "cacertfile"].map(|key| format!("cluster.ssl_options.{key}=/f"));
        let certificates = certificates.each_ref().map(String::as_str);
        assert_eq!(keys(&[&good[..], &cluster, &certificates].concat()), [""; 0]);
        let asked = ["auth_backends.1=http", "auth_http.user_path=http://logins.example/user"];
        assert_eq!(keys(&[&good[..], &asked].concat()), ["auth_http.user_path"]);
    }
}
