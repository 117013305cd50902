//! TLS between nodes: certificates, and who is refused.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use tls::{Options, Pair, Tls};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;
use crate::cluster::sockets::NodesTls;
use crate::tls_steps::TlsSteps;

/// An authority, and certificates that it has signed, in files.
pub(super) struct Files {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Files {
    pub(super) fn make(folder: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("sluice-nodes-{}-{folder}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, folder.to_str().unwrap());
        let key = KeyPair::generate().unwrap();
        std::fs::write(folder.join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        let files = Self { folder, issuer: Issuer::new(params, key) };
        files.sign("node", HOST, vec![]);
        files
    }

    fn sign(&self, file: &str, host: &str, usages: Vec<ExtendedKeyUsagePurpose>) {
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        params.extended_key_usages = usages;
        let key = KeyPair::generate().unwrap();
        let made = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.folder.join(format!("{file}.pem")), made.pem()).unwrap();
        std::fs::write(self.folder.join(format!("{file}.key")), key.serialize_pem()).unwrap();
    }

    /// Returns what a node needs that has the certificate of this file.
    pub(super) fn of_nodes(&self, file: &str, listed: &[ListedNode]) -> NodesTls {
        self.at(file, HOST, listed)
    }

    /// Returns what a node at this host needs.
    fn at(&self, file: &str, host: &str, listed: &[ListedNode]) -> NodesTls {
        let path = |ending: &str| self.folder.join(format!("{file}.{ending}"));
        let options = Options {
            setting: "cluster.ssl_options",
            pair: Pair { certificate: path("pem"), key: path("key") },
            authorities: Some(self.folder.join("ca.pem")),
            host: Some(host.to_owned()),
            ..Options::default()
        };
        NodesTls {
            certificates: Arc::new(Tls::load(options).unwrap()),
            steps: TlsSteps::start_for_nodes().unwrap(),
            listed: listed.into(),
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

/// Returns why each of two nodes does not open a connection, the dialer first; `None` if it does. The dialer is node 1, the acceptor node 2.
async fn meet(dialer: &Introduction, acceptor: &Introduction) -> [Option<String>; 2] {
    let listener = TcpListener::bind((HOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let node = ListedNode { name: "node-2".into(), host: HOST.into(), port };
    let acceptor = acceptor.clone();
    let accepting = spawn_local(async move {
        let (socket, _) = sockets::accept(&listener).await;
        sockets::welcome(socket, &acceptor).await.err().map(|error| error.to_string())
    });
    let dialed = sockets::dial(&node, Role::Heartbeats, dialer).await;
    assert!(dialed.as_ref().err().is_none_or(NotOpened::is_wrong), "{dialed:?}");
    [dialed.err().map(|error| error.to_string()), accepting.await.unwrap()]
}

/// Returns what a node says of itself, with these certificates.
fn with(number: u32, tls: Option<NodesTls>) -> Introduction {
    Introduction { tls, ..introduction(number, "the secret") }
}

/// The list of two nodes at one host.
fn listed() -> Vec<ListedNode> {
    let node = |n| ListedNode { name: format!("node-{n}"), host: HOST.to_owned(), port: n };
    vec![node(1), node(2)]
}

#[test]
fn certificates_are_enough_and_a_secret_beside_them_must_be_right() {
    let files = Files::make("enough");
    run(async move {
        let tls = || Some(files.of_nodes("node", &listed()));
        let [alone_1, alone_2] =
            [1, 2].map(|number| Introduction { auth: Auth::Certificates, ..with(number, tls()) });
        assert_eq!(meet(&alone_1, &alone_2).await, [None, None]);
        assert_eq!(meet(&with(1, tls()), &with(2, tls())).await, [None, None]);
        let another = Introduction { tls: tls(), ..introduction(1, "another secret") };
        let [told, why] = meet(&another, &with(2, tls())).await.map(Option::unwrap);
        assert_eq!(why, "the peer has another cluster secret");
        assert!(told.ends_with("do both nodes have the same cluster secret?"), "{told}");
        let [_, why] = meet(&alone_1, &with(2, tls())).await.map(Option::unwrap);
        assert_eq!(why, "this node has a cluster secret, and the peer relies on its certificate alone");
    });
}

#[test]
fn a_node_without_tls_and_one_with_it_both_say_what_to_do() {
    let files = Files::make("mixed");
    run(async move {
        let (encrypted, plain) = (with(1, Some(files.of_nodes("node", &listed()))), with(2, None));
        let of_encrypted = "this node expects TLS between nodes, and the peer does not use it: set cluster.ssl_options on all nodes, or on none";
        let of_plain = "this node does not use TLS between nodes, and the peer does: set cluster.ssl_options on all nodes, or on none";
        let expected = [of_encrypted, of_plain].map(|why| Some(why.to_owned()));
        assert_eq!(meet(&encrypted, &plain).await, expected);
        let [at_plain, at_encrypted] = meet(&plain, &encrypted).await;
        assert_eq!([at_encrypted, at_plain], expected);
    });
}

#[test]
fn a_certificate_that_is_not_of_the_node_is_refused() {
    let (files, others) = (Files::make("ours"), Files::make("theirs"));
    files.sign("client", HOST, vec![ExtendedKeyUsagePurpose::ClientAuth]);
    files.sign("elsewhere", "elsewhere.example", vec![]);
    run(async move {
        let good = || with(2, Some(files.of_nodes("node", &listed())));
        // Of another authority. It trusts ours.
        std::fs::copy(files.folder.join("ca.pem"), others.folder.join("ca.pem")).unwrap();
        let stranger = with(1, Some(others.of_nodes("node", &listed())));
        let [told, why] = meet(&stranger, &good()).await.map(Option::unwrap);
        assert_eq!(told, "the peer refuses the certificate of this node: it does not know the authority");
        assert!(why.contains("it is signed by no authority"), "{why}");
        let client = with(1, Some(files.of_nodes("client", &listed())));
        let [told, why] = meet(&client, &good()).await.map(Option::unwrap);
        assert_eq!(told, "the peer refuses the certificate of this node: its log says why");
        assert!(why.contains("it is not one of a server"), "{why}");
        // That of a server which is no node.
        let elsewhere = with(1, Some(files.at("elsewhere", "elsewhere.example", &listed())));
        let [told, why] = meet(&elsewhere, &good()).await.map(Option::unwrap);
        let why_not = r#"the certificate of the node is not valid for the host of "node-1": it is valid for no host in the list of nodes"#;
        assert_eq!(why, why_not);
        assert!(told.contains("the certificate of the node is not valid for the host"), "{told}");
        let [why, _] = meet(&good(), &elsewhere).await.map(Option::unwrap);
        assert!(why.ends_with("it is for elsewhere.example, and not for the host of the node"), "{why}");
        // That of another node.
        let mut nodes = listed();
        nodes[0].host = "elsewhere.example".to_owned();
        let acceptor = with(2, Some(files.of_nodes("node", &nodes)));
        let [_, why] = meet(&with(1, Some(files.of_nodes("node", &nodes))), &acceptor).await;
        assert!(why.unwrap().ends_with("of the list of nodes, it is valid for node-2"));
    });
}

#[test]
fn nonsense_ends_a_handshake_at_once() {
    let files = Files::make("nonsense");
    run(async move {
        let listener = TcpListener::bind((HOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let own = with(2, Some(files.of_nodes("node", &listed())));
        for (nonsense, why) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "this node expects TLS between nodes"),
            (b"", "it closed the connection during the handshake"),
            (b"\x16\x03\x01\x02\x00\x01\x00\x01", "it closed the connection during the handshake"),
        ] {
            let mut peer = TcpStream::connect(address).await.unwrap();
            peer.write_all(nonsense).await.unwrap();
            peer.shutdown().await.unwrap();
            let (socket, _) = sockets::accept(&listener).await;
            let error = sockets::welcome(socket, &own).await.unwrap_err().to_string();
            assert!(error.starts_with(why), "{error}");
            // The connection is closed.
            drop(peer.read_to_end(&mut Vec::new()).await);
        }
    });
}
