//! The keys of a cluster: `cluster.*` and `cluster_formation.*`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use amqp10::sasl::Secret;
use broker::settings::MinorityLogins;
use node::{ClusterSettings, ListedNode};

use super::key::{Key, key, put};
use super::values::{file, node_name, number, password, text};
use super::wrong::Wrong;

/// The beginning of the keys that list the nodes. A number from 1 on follows.
const LISTED_NODES: &str = "cluster_formation.classic_config.nodes";

const LISTENER: &str = "cluster.listener";
const SECRET: &str = "cluster.secret";
const SECRET_FILE: &str = "cluster.secret_file";

/// The beginning of the keys of TLS between nodes, and the keys.
const TLS: &str = "cluster.ssl_options";
const AUTHORITIES: &str = "cluster.ssl_options.cacertfile";
const CERTIFICATE: &str = "cluster.ssl_options.certfile";
const KEY: &str = "cluster.ssl_options.keyfile";
const PASSWORD: &str = "cluster.ssl_options.password";

/// The bounds of the number of a listed node. Every node has connections to every other one, so their number grows with the square
/// of this. Clusters of three or five nodes are usual.
const NODES: RangeInclusive<u32> = 1..=64;

/// The least bytes of a secret. Whoever records the handshake of two nodes can check guesses of the secret against it, without asking
/// a node and as fast as their machines allow. There are too many random texts of this length to try.
const SECRET_BYTES_MIN: usize = 20;

/// The most bytes of a file with a secret that are read: more than a secret and the end of its line can have.
const SECRET_FILE_BYTES_MAX: u64 = 1024;

/// The bounds of the time to wait for other nodes, in seconds. 0: not at all. A day is longer than anybody waits for a start.
const WAIT_S: RangeInclusive<u64> = 0..=86_400;

/// The default of that time.
const WAIT_S_DEFAULT: u64 = 30;

/// The keys of this file, in the order of the example file.
pub(super) const KEYS: &[Key] = &[
    key(
        LISTENER,
        "",
        "The address where the other nodes of a cluster connect, as ip:port. There is none by default. The usual port is 25672.",
        |c, _, v| put(&mut c.cluster.listener, listener(v)),
    ),
    Key {
        secret: true,
        ..key(
            SECRET,
            "",
            "The secret with which the nodes of a cluster prove that they belong to it, the same on all: 20 to 255 bytes. openssl rand -hex 32 makes one. Whoever records a connection could find a shorter one by trying.",
            |c, _, v| put(&mut c.cluster.secret, secret(v)),
        )
    },
    key(
        SECRET_FILE,
        "",
        "A file with this secret on its only line, instead of cluster.secret.",
        |c, _, v| put(&mut c.cluster.secret_of_file, secret_of_file(v)),
    ),
    key(
        CERTIFICATE,
        "",
        "The file of the certificate that this node shows to the others, and of those of its authorities, in PEM. It is a certificate of a server for the host in node.name. With it, all connections between nodes use TLS. It is read again when it changes.",
        |c, _, v| put(&mut c.cluster.certificate, file(v)),
    ),
    key(KEY, "", "The file of its private key, in PEM.", |c, _, v| put(&mut c.cluster.key, file(v))),
    Key {
        secret: true,
        ..key(PASSWORD, "", "The password of that key, if it is encrypted.", |c, _, v| {
            put(&mut c.cluster.password, password(v))
        })
    },
    key(
        AUTHORITIES,
        "",
        "The file of the authorities that sign the certificates of the nodes, in PEM.",
        |c, _, v| put(&mut c.cluster.authorities, file(v)),
    ),
    key(
        "cluster_formation.peer_discovery_backend",
        "classic_config",
        "How nodes find each other: classic_config, which means the list of the next key.",
        |_, _, v| Ok(backend(v)?),
    ),
    key(
        "cluster_formation.classic_config.nodes.*",
        "",
        "A node of the cluster: NAME@HOST:PORT. NAME@HOST is its node.name, and HOST:PORT the address of its cluster.listener. The list is the same on all nodes, and has the node itself, too.",
        |c, n, v| c.cluster.set_node(n, v),
    ),
    key(
        "cluster_formation.wait",
        "30",
        "The seconds after a start for which clients cannot connect yet if not all listed nodes are there.",
        |c, _, v| put(&mut c.cluster.wait_s, number(v, WAIT_S)),
    ),
    key(
        "cluster.minority_logins",
        "allow",
        "What a node does with logins, of AMQP and of HTTP, while it sees no majority of its cluster. allow: it checks them with the users that it has. refuse: it refuses them, and open connections go on.",
        |c, _, v| put(&mut c.settings.minority_logins, minority_logins(v)),
    ),
];

/// The values of these keys.
#[derive(Clone, Debug)]
pub(super) struct ClusterKeys {
    listener: Option<SocketAddr>,
    secret: Option<Secret>,
    secret_of_file: Option<Secret>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    password: Option<tls::Password>,
    authorities: Option<PathBuf>,
    /// The listed nodes, by the numbers of their keys.
    nodes: BTreeMap<u32, ListedNode>,
    wait_s: u64,
}

impl Default for ClusterKeys {
    fn default() -> Self {
        Self {
            listener: None,
            secret: None,
            secret_of_file: None,
            certificate: None,
            key: None,
            password: None,
            authorities: None,
            nodes: BTreeMap::new(),
            wait_s: WAIT_S_DEFAULT,
        }
    }
}

impl ClusterKeys {
    /// Sets a node of the list. An empty value takes it away.
    fn set_node(&mut self, n: &str, value: &str) -> Result<(), Wrong> {
        let need = |need| Wrong::Name(format!("the key must end with the number of a node: {need}"));
        // 01 would be another name for the same node.
        let of_one_form = if n.starts_with('0') { "" } else { n };
        let n = number(of_one_form, NODES).map_err(need)?;
        let node = if value.is_empty() { None } else { Some(listed_node(value)?) };
        self.nodes.remove(&n);
        self.nodes.extend(node.map(|node| (n, node)));
        Ok(())
    }

    /// Returns the keys that do not fit to the others, and why. `own_name` is the name of this node.
    pub(super) fn problems(&self, own_name: &str) -> Vec<(String, String)> {
        let key_of = |n: &u32| format!("{LISTED_NODES}.{n}");
        let Some(first) = self.nodes.keys().next().map(key_of) else { return self.without_nodes() };
        let mut problems = Vec::new();
        if self.listener.is_none() {
            let problem = "it needs cluster.listener, the address where the other nodes connect, such as 10.0.0.1:25672";
            problems.push((first.clone(), problem.to_owned()));
        }
        match (&self.secret, &self.secret_of_file) {
            (None, None) if self.has_tls_keys() => {}
            (None, None) => {
                let problem = "it needs cluster.secret, cluster.secret_file or cluster.ssl_options.certfile: without a secret and a certificate, anybody who can connect could join the cluster";
                problems.push((first.clone(), problem.to_owned()));
            }
            (Some(_), Some(_)) => {
                let problem = "cluster.secret is set, too: only one of the keys is possible";
                problems.push((SECRET_FILE.to_owned(), problem.to_owned()));
            }
            _ => {}
        }
        problems.extend(self.tls_problems());
        if !self.nodes.values().any(|node| node.name == own_name) {
            let problem = format!(
                "this node is not in the list: its name is {own_name}. List it, or set node.name to the name that it has in the list"
            );
            problems.push((first, problem));
        }
        let (mut names, mut addresses) = (BTreeMap::new(), BTreeMap::new());
        for (n, node) in &self.nodes {
            // Names of hosts have no case.
            let address = format!("{}:{}", node.host.to_ascii_lowercase(), node.port);
            if let Some(before) = names.insert(&node.name, n) {
                problems.push((key_of(n), format!("{} has the name {}, too", key_of(before), node.name)));
            }
            if let Some(before) = addresses.insert(address.clone(), n) {
                problems.push((key_of(n), format!("{} has the address {address}, too", key_of(before))));
            }
        }
        problems
    }

    /// Returns the keys of TLS, and whether each is set.
    fn tls_keys(&self) -> [(bool, &'static str); 4] {
        [
            (self.certificate.is_some(), CERTIFICATE),
            (self.key.is_some(), KEY),
            (self.password.is_some(), PASSWORD),
            (self.authorities.is_some(), AUTHORITIES),
        ]
    }

    fn has_tls_keys(&self) -> bool {
        self.tls_keys().iter().any(|(is_set, _)| *is_set)
    }

    /// Returns what the keys of TLS lack: all of them are needed, except for the password.
    fn tls_problems(&self) -> Vec<(String, String)> {
        let keys = self.tls_keys();
        let Some((_, set)) = keys.into_iter().find(|(is_set, _)| *is_set) else { return Vec::new() };
        let missing = keys.into_iter().filter(|(is_set, key)| !is_set && *key != PASSWORD);
        missing.map(|(_, key)| (set.to_owned(), format!("it has no effect without {key}"))).collect()
    }

    /// Returns the certificates between nodes; `None` if there are none. `own_name` is the name of this node.
    pub(super) fn certificates(&self, own_name: &str) -> Option<tls::Options> {
        if self.nodes.is_empty() {
            return None;
        }
        let (_, host) = own_name.split_once('@')?;
        Some(tls::Options {
            setting: TLS,
            pair: tls::Pair { certificate: self.certificate.clone()?, key: self.key.clone()? },
            password: self.password.clone(),
            authorities: Some(self.authorities.clone()?),
            host: Some(host.to_owned()),
            ..tls::Options::default()
        })
    }

    /// Returns the keys that have no effect because no node is listed. Somebody would take this node for one of a cluster.
    fn without_nodes(&self) -> Vec<(String, String)> {
        let keys = [
            (self.listener.is_some(), LISTENER),
            (self.secret.is_some(), SECRET),
            (self.secret_of_file.is_some(), SECRET_FILE),
        ];
        let set = keys.into_iter().chain(self.tls_keys()).filter(|(is_set, _)| *is_set);
        set.map(|(_, key)| (key.to_owned(), format!("it has no effect without {LISTED_NODES}.1"))).collect()
    }

    /// Returns the settings; `None` if no node is listed. [`Self::problems`] has found nothing before.
    pub(super) fn settings(self) -> Option<ClusterSettings> {
        if self.nodes.is_empty() {
            return None;
        }
        Some(ClusterSettings {
            listener: self.listener?,
            secret: self.secret.or(self.secret_of_file),
            // They are read later.
            certificates: None,
            nodes: self.nodes.into_values().collect(),
            wait: Duration::from_secs(self.wait_s),
        })
    }
}

/// Parses the address where other nodes connect, or nothing. A port alone is refused: whether the address can be reached from other
/// machines must be the operator's choice.
fn listener(value: &str) -> Result<Option<SocketAddr>, String> {
    if value.is_empty() {
        return Ok(None);
    }
    // The other nodes could not know the port that the system chooses for 0.
    let address = value.parse().ok().filter(|address: &SocketAddr| address.port() != 0);
    let need = "ip:port is needed, such as 10.0.0.1:25672, and no port 0; an IPv6 address is in brackets: [2001:db8::1]:25672";
    address.map(Some).ok_or_else(|| need.to_owned())
}

/// Parses a node of the list.
fn listed_node(value: &str) -> Result<ListedNode, String> {
    let parts = value.rsplit_once(':').and_then(|(name, port)| {
        let (name, port) = (node_name(name).ok()?, number(port, 1..=u16::MAX).ok()?);
        let host = name.split_once('@')?.1.to_owned();
        Some(ListedNode { name, host, port })
    });
    let need = "NAME@HOST:PORT is needed, such as sluice@node-1.example:25672: letters, digits and -._, and a port from 1 to 65535";
    parts.ok_or_else(|| need.to_owned())
}

/// Parses the way in which nodes find each other.
fn backend(value: &str) -> Result<(), String> {
    match value {
        "classic_config" => Ok(()),
        _ => Err(format!("classic_config is needed: {LISTED_NODES}.N lists the nodes")),
    }
}

/// Parses what becomes of logins in a minority.
fn minority_logins(value: &str) -> Result<MinorityLogins, String> {
    match value {
        "allow" => Ok(MinorityLogins::Allow),
        "refuse" => Ok(MinorityLogins::Refuse),
        _ => Err("allow or refuse is needed".to_owned()),
    }
}

/// Parses a secret, or nothing.
fn secret(value: &str) -> Result<Option<Secret>, String> {
    if value.is_empty() {
        return Ok(None);
    }
    let parsed = text(value).ok().filter(|text| text.len() >= SECRET_BYTES_MIN);
    let need = || {
        format!(
            "text of {SECRET_BYTES_MIN} to 255 bytes without control characters is needed: whoever records a connection could find a shorter secret by trying"
        )
    };
    parsed.map(|text| Some(Secret::new(text))).ok_or_else(need)
}

/// Reads the secret of a file. An empty path is none.
fn secret_of_file(path: &str) -> Result<Option<Secret>, String> {
    if path.is_empty() {
        return Ok(None);
    }
    let read = || -> io::Result<String> {
        let mut content = String::new();
        File::open(path)?.take(SECRET_FILE_BYTES_MAX).read_to_string(&mut content)?;
        Ok(content)
    };
    let content = read().map_err(|error| format!("the file cannot be read: {error}"))?;
    match secret(content.trim_end_matches(['\r', '\n'])) {
        Ok(Some(secret)) => Ok(Some(secret)),
        Ok(None) => Err("the file has no secret".to_owned()),
        Err(need) => Err(format!("in the file, {need}")),
    }
}

#[cfg(test)]
mod tests;
