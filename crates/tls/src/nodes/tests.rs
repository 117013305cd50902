use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair};

use super::*;
use crate::error::TlsError;
use crate::files::Options;
use crate::pairs::Pair;
use crate::testing::Files;

/// Loads the certificates of a node at this host.
fn load(files: &Files, pair: &Pair, host: &str) -> Result<Tls, TlsError> {
    Tls::load(Options {
        setting: "cluster.ssl_options",
        pair: pair.clone(),
        authorities: Some(files.authority.clone()),
        host: Some(host.to_owned()),
        ..Options::default()
    })
}

/// Returns the certificates of a node at this host.
fn node(files: &Files, host: &str) -> Tls {
    load(files, &files.pair(host, &[host]), host).unwrap()
}

/// Passes bytes to and fro until nobody has any. Returns what each side got in plain, the dialer first.
fn talk(dialer: &mut NodeSession, acceptor: &mut NodeSession) -> [Result<Vec<u8>, NodeTlsError>; 2] {
    let mut got = [Ok(Vec::new()), Ok(Vec::new())];
    while dialer.wants_write() || acceptor.wants_write() {
        let (to_acceptor, to_dialer) = got.split_at_mut(1);
        pass(dialer, acceptor, &mut to_dialer[0]);
        pass(acceptor, dialer, &mut to_acceptor[0]);
    }
    got
}

/// Writes what one side has to write, and gives it to the other one in pieces of 7 bytes.
fn pass(from: &mut NodeSession, to: &mut NodeSession, got: &mut Result<Vec<u8>, NodeTlsError>) {
    let mut wire = Vec::new();
    while from.wants_write() {
        from.write_to(&mut wire).unwrap();
    }
    for piece in wire.chunks(7) {
        if let Ok(plain) = got
            && let Err(error) = to.receive(piece, |bytes| plain.extend_from_slice(bytes))
        {
            *got = Err(error);
        }
    }
}

/// Lets one node dial another one at this host, and the other one say something.
fn meet(dialer: &Tls, acceptor: &Tls, host: &str) -> ([Result<Vec<u8>, String>; 2], [NodeSession; 2]) {
    let mut sessions = [NodeSession::dial(dialer, host).unwrap(), NodeSession::accept(acceptor).unwrap()];
    let [dialing, accepting] = &mut sessions;
    let mut got = talk(dialing, accepting);
    if got.iter().all(Result::is_ok) {
        assert!(dialing.is_established() && accepting.is_established());
        assert_eq!((dialing.encrypt(b"to").unwrap(), accepting.encrypt(b"fro").unwrap()), (2, 3));
        got = talk(dialing, accepting);
    }
    (got.map(|got| got.map_err(|error| error.to_string())), sessions)
}

fn refused(got: [Result<Vec<u8>, String>; 2]) -> [String; 2] {
    got.map(|got| got.map_or_else(|error| error, |plain| format!("{plain:?}")))
}

#[test]
fn nodes_show_each_other_their_certificates() {
    let files = Files::make("nodes-good");
    let (one, two) = (node(&files, "one.example"), node(&files, "192.0.2.2"));
    for (dialer, acceptor, host, of_dialer) in
        [(&one, &two, "192.0.2.2", "one.example"), (&two, &one, "one.example", "192.0.2.2")]
    {
        let (got, [dialing, accepting]) = meet(dialer, acceptor, host);
        assert_eq!(got, [Ok(b"fro".to_vec()), Ok(b"to".to_vec())]);
        assert!(dialing.is_valid_for(host) && !dialing.is_valid_for(of_dialer));
        assert!(accepting.is_valid_for(of_dialer) && !accepting.is_valid_for(host));
        assert!(!accepting.is_valid_for("") && !accepting.is_valid_for("a..b"));
    }
}

#[test]
fn a_long_message_is_encrypted_in_parts() {
    let files = Files::make("nodes-long");
    let one = node(&files, "one.example");
    let (_, [mut dialing, mut accepting]) = meet(&one, &one, "one.example");
    let long: Vec<u8> = (0..500_000_u32).map(|n| (n % 251) as u8).collect();
    let (mut sent, mut arrived) = (0, Vec::new());
    while sent < long.len() {
        let encrypted = dialing.encrypt(&long[sent..]).unwrap();
        assert!((1..=UNSENT_MAX).contains(&encrypted), "{encrypted}");
        assert_eq!(dialing.encrypt(&long[sent + encrypted..]).unwrap(), 0, "more must be written first");
        sent += encrypted;
        let [_, got] = talk(&mut dialing, &mut accepting);
        arrived.extend(got.unwrap());
    }
    assert!(arrived == long);
}

#[test]
fn certificates_of_others_are_refused_and_both_sides_say_why() {
    let (files, others) = (Files::make("nodes-ours"), Files::make_named("nodes-theirs", "other authority"));
    let (one, stranger) = (node(&files, "one.example"), node(&others, "two.example"));
    let unknown = "the certificate of the node is refused: it is signed by no authority of the file cluster.ssl_options.cacertfile";
    let told = "the peer refuses the certificate of this node: it does not know the authority";
    let (got, _) = meet(&stranger, &one, "one.example");
    assert_eq!(refused(got), [unknown, told]);
    // It trusts ours, so the dialer accepts the acceptor, and learns later that it is refused itself.
    std::fs::copy(&files.authority, &others.authority).unwrap();
    assert_eq!(stranger.reload(false), Ok(true));
    let (got, _) = meet(&stranger, &one, "one.example");
    assert_eq!(refused(got), [told, unknown]);
    let (got, _) = meet(&one, &stranger, "two.example");
    assert_eq!(refused(got), [unknown, told]);

    let namesake = node(&Files::make("nodes-namesake"), "two.example");
    let (got, _) = meet(&one, &namesake, "two.example");
    let why = "the certificate of the node is refused: an authority has signed it that has the name of the one in the file cluster.ssl_options.cacertfile, but another key";
    let told_of_name = "the peer refuses the certificate of this node: it knows an authority of the same name with another key";
    assert_eq!(refused(got), [why, told_of_name]);

    let (got, _) = meet(&one, &one, "three.example");
    let other =
        "the certificate of the node is refused: it is for one.example, and not for the host of the node";
    assert_eq!(refused(got), [other, "the peer refuses the certificate of this node: its log says why"]);
}

/// Writes a certificate with this extended key usage for a host.
fn write_for(files: &Files, host: &str, usages: Vec<ExtendedKeyUsagePurpose>) -> Pair {
    let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "client");
    params.extended_key_usages = usages;
    let key = KeyPair::generate().unwrap();
    files.write("of-usage", &params, &key)
}

#[test]
fn the_certificate_of_a_node_is_that_of_a_server() {
    use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
    let files = Files::make("nodes-usage");
    let one = node(&files, "one.example");
    for good in [vec![], vec![ServerAuth], vec![ServerAuth, ClientAuth]] {
        let two = load(&files, &write_for(&files, "two.example", good), "two.example").unwrap();
        let (got, _) = meet(&two, &one, "one.example");
        assert!(got.iter().all(Result::is_ok), "{got:?}");
    }
    let two = load(&files, &write_for(&files, "two.example", vec![ClientAuth]), "two.example").unwrap();
    let why = "the certificate of the node is refused: it is not one of a server: if a certificate has an extended key usage, that must have serverAuth";
    let told = "the peer refuses the certificate of this node: its log says why";
    let (got, _) = meet(&two, &one, "one.example");
    assert_eq!(refused(got), [told, why]);
    let (got, _) = meet(&one, &two, "two.example");
    assert_eq!(refused(got), [why, told]);
}

#[test]
fn a_peer_without_tls_or_without_a_certificate_is_refused() {
    let files = Files::make("nodes-plain");
    let one = node(&files, "one.example");
    let hello = [&[0x68, 0, 0, 0, 1][..], &[7; 99]].concat();
    let sessions = || [NodeSession::dial(&one, "one.example").unwrap(), NodeSession::accept(&one).unwrap()];
    for mut side in sessions() {
        let error = side.receive(&hello, |_| panic!("nothing is plain")).unwrap_err();
        assert_eq!(error, NodeTlsError::NoTls);
        assert!(error.to_string().starts_with("this node expects TLS between nodes"), "{error}");
        let mut wire = Vec::new();
        while side.wants_write() {
            side.write_to(&mut wire).unwrap();
        }
        assert!(matches!(wire[..], [20..=24, 3, ..]), "the peer sees TLS: {wire:?}");
    }
    let client = crate::ClientOptions { authorities: Some(files.authority.clone()), identity: None };
    let name = ServerName::try_from("one.example").unwrap();
    let mut client = NodeSession::new(ClientConnection::new(client.load().unwrap(), name).unwrap().into());
    let mut acceptor = NodeSession::accept(&one).unwrap();
    let [_, at_acceptor] = talk(&mut client, &mut acceptor);
    assert_eq!(
        at_acceptor.unwrap_err().to_string(),
        "the peer shows no certificate, and this node expects that of a node"
    );
}

#[test]
fn a_handshake_has_a_bound() {
    let files = Files::make("nodes-bound");
    let mut side = NodeSession::accept(&node(&files, "one.example")).unwrap();
    // A hello that is announced with 60,000 bytes, in records of 16,000.
    let mut message = vec![1, 0, 0xea, 0x60];
    message.resize(60_004, 0);
    let records = message.chunks(16_000).map(|piece| {
        let head = [22, 3, 1, (piece.len() >> 8) as u8, piece.len() as u8];
        [&head[..], piece].concat()
    });
    let results: Vec<_> = records.map(|record| side.receive(&record, |_| {})).collect();
    assert_eq!(results[..2], [Ok(()), Ok(())]);
    assert_eq!(results[2], Err(NodeTlsError::LongHandshake));
}

#[test]
fn the_certificate_of_this_node_must_be_for_its_host() {
    let files = Files::make("nodes-own");
    let pair = files.pair("own", &["one.example", "two.example"]);
    let why = load(&files, &pair, "three.example").unwrap_err().to_string();
    let end = "own.pem: the certificate is for one.example, two.example, and not for three.example, the host of this node";
    assert!(why.ends_with(end), "{why}");
    let why = load(&files, &files.pair("bare", &[]), "three.example").unwrap_err().to_string();
    assert!(why.contains("the certificate is for no host, and not for three.example"), "{why}");
    let why = load(&files, &pair, "a-.b").unwrap_err().to_string();
    assert!(why.ends_with(r#"no certificate can be valid for "a-.b", the host of this node"#), "{why}");
    let without = Options { pair, host: Some("one.example".to_owned()), ..Options::default() };
    let why = Tls::load(Options { setting: "cluster.ssl_options", ..without }).unwrap_err();
    assert_eq!(why.to_string(), "it needs cluster.ssl_options.cacertfile: the authorities of the nodes");
    // A renewed certificate counts for new sessions, of both sides.
    let one = node(&files, "one.example");
    let (_, [mut dialing, mut accepting]) = meet(&one, &one, "one.example");
    files.pair("one.example", &["one.example", "new.example"]);
    assert_eq!(one.reload(false), Ok(true));
    let (got, [new_dialing, new_accepting]) = meet(&one, &one, "new.example");
    assert!(got.iter().all(Result::is_ok), "{got:?}");
    assert!(new_dialing.is_valid_for("new.example") && new_accepting.is_valid_for("new.example"));
    assert!(!dialing.is_valid_for("new.example"));
    assert_eq!(dialing.encrypt(b"on").unwrap(), 2);
    assert_eq!(talk(&mut dialing, &mut accepting)[1], Ok(b"on".to_vec()), "open ones notice nothing");
    // One for another host is not used.
    files.pair("one.example", &["new.example"]);
    assert!(one.reload(false).is_err() && one.problem().is_some());
    assert!(meet(&one, &one, "one.example").0.iter().all(Result::is_ok));
}

#[test]
fn no_bytes_are_a_panic() {
    let files = Files::make("nodes-bytes");
    let one = node(&files, "one.example");
    let (mut dialing, mut accepting) =
        (NodeSession::dial(&one, "one.example").unwrap(), NodeSession::accept(&one).unwrap());
    let mut hello = Vec::new();
    dialing.write_to(&mut hello).unwrap();
    accepting.receive(&hello, |_| {}).unwrap();
    let mut answer = Vec::new();
    while accepting.wants_write() {
        accepting.write_to(&mut answer).unwrap();
    }
    for at in 0..hello.len().min(400) {
        let mut broken = hello.clone();
        broken[at] ^= 0x55;
        let mut side = NodeSession::accept(&one).unwrap();
        // Some bytes are random, and any are good.
        let _ = side.receive(&broken, |_| panic!("nothing is plain"));
        let _ = side.encrypt(b"x");
        while side.wants_write() {
            side.write_to(&mut Vec::new()).unwrap();
        }
    }
    for at in (0..answer.len()).step_by(3) {
        let mut side = NodeSession::dial(&one, "one.example").unwrap();
        let mut broken = answer.clone();
        broken[at] ^= 0x55;
        assert!(side.receive(&broken, |_| panic!("nothing is plain")).is_err() || !side.is_established());
    }
}
