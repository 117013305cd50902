//! Nodes that show each other certificates: they form a cluster, take renewed certificates and another authority, and refuse what is not the
//! certificate of the node. Processes of the built program.

use std::path::Path;

use rcgen::ExtendedKeyUsagePurpose;
use serde_json::json;

use crate::authority::{Authority, server_at};
use crate::broker::verb::sluice;
use crate::broker::{Directory, Starting};
use crate::nodes::{Node, nodes, start, wait_until, wait_until_all_vote};

impl Node {
    fn host(&self) -> &str {
        self.name.split_once('@').unwrap().1
    }

    /// Takes away the secret, and adds certificates.
    fn use_certificates(&mut self, certificate: &Path, key: &Path, authorities: &Path) {
        self.sets.retain(|set| !set.starts_with("cluster.secret="));
        for (setting, file) in [("certfile", certificate), ("keyfile", key), ("cacertfile", authorities)] {
            self.sets.push(format!("cluster.ssl_options.{setting}={}", file.display()));
        }
    }

    /// Uses the files of this name in a directory, which `sign` may write again.
    fn use_files(&mut self, directory: &Path, name: &str, authorities: &str) {
        let file = |ending: &str| directory.join(format!("{name}.{ending}"));
        self.use_certificates(&file("pem"), &file("key"), &directory.join(authorities));
    }

    fn logs(&self, words: &str) -> bool {
        self.directory.logged().contains(words)
    }

    /// Returns the port of the listener for other nodes.
    fn port(&self) -> u16 {
        let listener = self.sets.iter().find_map(|set| set.strip_prefix("cluster.listener=")).unwrap();
        listener.parse::<std::net::SocketAddr>().unwrap().port()
    }

    /// Returns the subject of the certificate that the node shows to others, if an authority of this file has signed it.
    fn shows(&self, authorities: &str) -> Result<String, String> {
        server_at((self.host(), self.port()), authorities.to_owned(), self.host())
    }
}

/// Returns true if all nodes can be reached by all.
fn all_see_each_other(nodes: &[Node]) -> bool {
    nodes.iter().all(|node| {
        let (_, rows) = node.broker().get("/api/nodes");
        rows.as_array().is_some_and(|rows| rows.iter().all(|row| row["running"] == true))
    })
}

#[test]
fn nodes_with_certificates_form_a_cluster_and_take_those_of_another_authority() {
    let directory = Directory::new("cluster-tls-files");
    let path = directory.path();
    let (old, new) = (Authority::make(path, "old"), Authority::make(path, "new"));
    let mut nodes = nodes("cluster-tls", 3);
    std::fs::copy(path.join("old.pem"), path.join("trusted.pem")).unwrap();
    for (at, node) in nodes.iter_mut().enumerate() {
        let name = format!("node-{at}");
        old.sign_for(&name, node.host(), None);
        node.use_files(path, &name, "trusted.pem");
    }
    start(&mut nodes, &[2, 0, 1]);
    wait_until_all_vote(&nodes);
    // Who reads the network sees TLS.
    let (old_file, new_file) = (old.path("old.pem"), new.path("new.pem"));
    assert_eq!(nodes[1].shows(&old_file).as_deref(), Ok("CN=node-1"));
    // A client publishes on one node to a queue of another one, and a client of the third one gets it.
    assert_eq!(nodes[0].declare("first").0, 201);
    wait_until("all have the queue", || nodes.iter().all(|node| node.has_queue("first")));
    let large = "x".repeat(120_000);
    for body in ["hello", &large] {
        let sent = nodes[1].broker().verb(&["send", "first", body]).done();
        assert_eq!(sent, "1 message sent to /queues/first: accepted");
        assert_eq!(nodes[2].broker().verb(&["recv", "first", "--count", "1"]).done(), body);
    }
    // The checks have the certificate, too.
    let checked = nodes[0].broker().verb(&["check", "certificates", "2 weeks"]).done();
    assert!(checked.contains(path.join("node-0.pem").to_str().unwrap()), "{checked}");

    // The operator replaces the authority: first all nodes trust both, then all get new certificates, then the old one is not trusted any more.
    let read = |file: &str| std::fs::read_to_string(path.join(file)).unwrap();
    std::fs::write(path.join("trusted.pem"), read("old.pem") + &read("new.pem")).unwrap();
    let said = |node: &Node| node.directory.logged().matches("was read again").count();
    wait_until("all have read both authorities", || nodes.iter().all(|node| said(node) == 1));
    for (at, node) in nodes.iter().enumerate() {
        let name = format!("node-{at}");
        // The key and the certificate are written one after the other.
        new.sign_for(&name, node.host(), Some(ExtendedKeyUsagePurpose::ServerAuth));
        wait_until("the new certificate is in use", || node.shows(&new_file) == Ok(format!("CN={name}")));
    }
    let before: Vec<usize> = nodes.iter().map(said).collect();
    std::fs::copy(path.join("new.pem"), path.join("trusted.pem")).unwrap();
    wait_until("all trust the new authority alone", || {
        nodes.iter().zip(&before).all(|(node, before)| said(node) > *before)
    });
    nodes[2].kill();
    nodes[2].start();
    wait_until("all see each other again", || all_see_each_other(&nodes));
    nodes[2].broker().verb(&["send", "first", "again"]).done();
    assert_eq!(nodes[1].broker().verb(&["recv", "first", "--count", "1"]).done(), "again");

    // A node whose certificate is of the old authority is refused.
    old.sign_for("node-2", nodes[2].host(), None);
    nodes[2].kill();
    let starting = nodes[2].spawn();
    let refused = "the peer refuses the certificate of this node: it does not know the authority";
    wait_until("both sides say why", || {
        nodes[2].logs(refused) && nodes[0].logs("it is signed by no authority of the file")
    });
    assert!(starting.terminate().0.success());
    for node in &mut nodes[..2] {
        assert!(node.broker.take().unwrap().terminate().success());
    }
}

/// Starts two nodes that do not form a cluster, until both logs have these words.
fn refuse(mut nodes: Vec<Node>, change: impl FnOnce(&mut [Node]), words: [&str; 2]) {
    change(&mut nodes);
    let started: Vec<Starting> = nodes.iter().map(Node::spawn).collect();
    wait_until("both say why", || nodes.iter().zip(words).all(|(node, words)| node.logs(words)));
    for (node, starting) in nodes.iter().zip(started) {
        assert!(starting.terminate().0.success());
        let log = node.directory.logged();
        assert!(!log.contains("has founded"), "{log}");
        assert!(log.matches("no connection to node").count() <= 3, "the same is not said again: {log}");
    }
}

#[test]
fn a_certificate_that_is_not_of_the_node_is_refused() {
    let directory = Directory::new("cluster-tls-refused");
    let path = directory.path();
    let (ours, theirs) = (Authority::make(path, "ours"), Authority::make(path, "theirs"));
    let two = |what: &str| {
        let mut nodes = nodes(what, 2);
        ours.sign_for("good", nodes[0].host(), None);
        nodes[0].use_files(path, "good", "ours.pem");
        nodes
    };
    let peer_refuses = "the peer refuses the certificate of this node";
    // Of another authority.
    refuse(
        two("cluster-tls-other"),
        |nodes| {
            theirs.sign_for("bad", nodes[1].host(), None);
            nodes[1].use_files(path, "bad", "ours.pem");
        },
        ["it is signed by no authority of the file", peer_refuses],
    );
    // Of a client. The same authority has signed it.
    refuse(
        two("cluster-tls-client"),
        |nodes| {
            ours.sign_for("client", nodes[1].host(), Some(ExtendedKeyUsagePurpose::ClientAuth));
            nodes[1].use_files(path, "client", "ours.pem");
        },
        ["it is not one of a server", peer_refuses],
    );
    // Without certificates, with a secret.
    refuse(
        two("cluster-tls-plain"),
        |_| {},
        [
            "this node expects TLS between nodes",
            "this node does not use TLS between nodes, and the peer does",
        ],
    );
}

#[test]
fn a_node_that_waits_for_its_cluster_takes_a_better_certificate() {
    let directory = Directory::new("cluster-tls-waits");
    let path = directory.path();
    let (ours, theirs) = (Authority::make(path, "ours"), Authority::make(path, "theirs"));
    let mut nodes = nodes("cluster-tls-better", 2);
    for (at, node) in nodes.iter_mut().enumerate() {
        let authority = if at == 0 { &ours } else { &theirs };
        authority.sign_for(&format!("node-{at}"), node.host(), None);
        node.use_files(path, &format!("node-{at}"), "ours.pem");
    }
    let started: Vec<Starting> = nodes.iter().map(Node::spawn).collect();
    wait_until("it is refused", || nodes[1].logs("the peer refuses the certificate of this node"));
    ours.sign_for("node-1", nodes[1].host(), None);
    for (node, starting) in nodes.iter_mut().zip(started) {
        node.broker = Some(starting.finish());
    }
    assert_eq!(nodes[1].declare("first").0, 201);
    for node in nodes {
        assert!(node.broker.unwrap().terminate().success());
    }
}

#[test]
fn the_certificates_of_a_try_are_enough_for_nodes() {
    let directory = Directory::new("cluster-tls-try");
    let made = directory.path().join("made");
    let mut nodes = nodes("cluster-tls-made", 2);
    let (made_in, hosts) = (made.to_str().unwrap(), [nodes[0].host().to_owned(), nodes[1].host().to_owned()]);
    sluice(&["make", "certificates", made_in, &hosts[0], &hosts[1]]).done();
    for node in &mut nodes {
        node.use_files(&made, "server", "ca.pem");
    }
    // One for other hosts stops the start.
    let elsewhere = directory.path().join("elsewhere");
    sluice(&["make", "certificates", elsewhere.to_str().unwrap(), "elsewhere.example"]).done();
    let mut words: Vec<String> = ["check", "config"].map(str::to_owned).to_vec();
    let sets = nodes[0].sets.iter().map(|set| set.replace(made_in, elsewhere.to_str().unwrap()));
    words.extend(sets.flat_map(|set| ["--set".to_owned(), set]));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let why =
        format!("the certificate is for elsewhere.example, and not for {}, the host of this node", hosts[0]);
    sluice(&words).refused(2, &["cluster.ssl_options.certfile", &why]);
    start(&mut nodes, &[0, 1]);
    assert_eq!(nodes[0].declare("first").0, 201);
    wait_until("both have the queue", || nodes[1].has_queue("first"));
    let (_, rows) = nodes[1].broker().get("/api/nodes");
    assert_eq!(rows.as_array().map(Vec::len), Some(2), "{rows}");
    assert_eq!(rows[0]["running"], json!(true), "{rows}");
    for node in nodes {
        assert!(node.broker.unwrap().terminate().success());
    }
}
