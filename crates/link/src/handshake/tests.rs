use super::*;
use crate::frame::Reason;
use crate::hello::NodeIdentity;

type Outcome = Option<Result<Hello, HandshakeError>>;

fn hello(node: u8, role: Role) -> Hello {
    Hello {
        role,
        node: NodeIdentity([node; 16]),
        boot: u64::from(node) + 3,
        cluster: ClusterId([9; 16]),
        number: u32::from(node),
        format: FORMAT,
        name: format!("sluice@host{node}"),
    }
}

fn secret(text: &str) -> Auth {
    Auth::Secret(Secret::new(text.as_bytes()).unwrap())
}

/// The hello of the dialer is that of node 1, of the acceptor that of node 2.
fn dialer(auth: Auth) -> Handshake {
    Handshake::dial(hello(1, Role::Shard(4)), auth, [1; 32]).unwrap()
}

fn acceptor(auth: Auth) -> Handshake {
    Handshake::accept(hello(2, Role::Heartbeats), auth, [2; 32]).unwrap()
}

/// Returns the frames that a side sends.
fn sent(side: &mut Handshake) -> Vec<Frame> {
    let mut bytes = Vec::new();
    side.poll_output(&mut bytes);
    let mut buffer = BytesMut::from(&bytes[..]);
    std::iter::from_fn(|| Frame::take(&mut buffer).expect("own frames are valid")).collect()
}

fn give(side: &mut Handshake, frame: Frame) -> Result<Option<Hello>, HandshakeError> {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    side.handle_bytes(&mut BytesMut::from(&bytes[..]))
}

/// Lets both sides talk, through somebody who may change each frame. The flag is true for a frame of the dialer.
fn talk_through(
    dialer: &mut Handshake,
    acceptor: &mut Handshake,
    mut change: impl FnMut(bool, &mut Frame),
) -> (Outcome, Outcome) {
    let (mut at_dialer, mut at_acceptor) = (None, None);
    loop {
        let (down, up) = (sent(dialer), sent(acceptor));
        if down.is_empty() && up.is_empty() {
            return (at_dialer, at_acceptor);
        }
        for (is_down, mut frame) in
            down.into_iter().map(|f| (true, f)).chain(up.into_iter().map(|f| (false, f)))
        {
            change(is_down, &mut frame);
            let (side, outcome) =
                if is_down { (&mut *acceptor, &mut at_acceptor) } else { (&mut *dialer, &mut at_dialer) };
            // A side that has failed has closed the connection.
            if !matches!(outcome, Some(Err(_))) {
                *outcome = give(side, frame).transpose().or(outcome.take());
            }
        }
    }
}

fn talk(dialer: &mut Handshake, acceptor: &mut Handshake) -> (Outcome, Outcome) {
    talk_through(dialer, acceptor, |_, _| {})
}

fn error(outcome: Outcome) -> HandshakeError {
    outcome.expect("an end").expect_err("a refusal")
}

#[test]
fn both_sides_learn_who_the_other_one_is() {
    for auth in [secret("a"), Auth::Certificates] {
        let (at_dialer, at_acceptor) = talk(&mut dialer(auth.clone()), &mut acceptor(auth));
        // The acceptor repeats the role.
        assert_eq!(at_dialer, Some(Ok(hello(2, Role::Shard(4)))));
        assert_eq!(at_acceptor, Some(Ok(hello(1, Role::Shard(4)))));
    }
}

#[test]
fn bytes_may_come_one_by_one_and_what_follows_is_left() {
    let (mut dialer, mut acceptor) = (dialer(secret("a")), acceptor(secret("a")));
    let (mut to_acceptor, mut to_dialer, mut dialer_knows, mut acceptor_knows) =
        (BytesMut::new(), BytesMut::new(), None, None);
    while dialer_knows.is_none() {
        let mut bytes = Vec::new();
        dialer.poll_output(&mut bytes);
        for byte in bytes {
            to_acceptor.extend_from_slice(&[byte]);
            acceptor_knows = acceptor.handle_bytes(&mut to_acceptor).unwrap().or(acceptor_knows);
        }
        let mut bytes = Vec::new();
        acceptor.poll_output(&mut bytes);
        if acceptor_knows.is_some() {
            bytes.extend_from_slice(b"next");
        }
        for byte in bytes {
            to_dialer.extend_from_slice(&[byte]);
            if dialer_knows.is_none() {
                dialer_knows = dialer.handle_bytes(&mut to_dialer).unwrap();
            }
        }
    }
    assert!(to_acceptor.is_empty());
    assert_eq!(&to_dialer[..], b"next");
}

#[test]
fn a_wrong_secret_is_refused_and_neither_side_says_more() {
    let mut acceptor = acceptor(secret("b"));
    let mut kinds = Vec::new();
    let (at_dialer, at_acceptor) =
        talk_through(&mut dialer(secret("a")), &mut acceptor, |down, frame| kinds.push((down, frame.name())));
    assert_eq!(error(at_acceptor), HandshakeError::WrongSecret);
    let told = error(at_dialer);
    assert!(told.to_string().contains("same cluster secret"), "{told}");
    assert_eq!(kinds, [(true, "hello"), (false, "hello"), (true, "proof"), (false, "refused")]);
    let text = "authentication failed".to_owned();
    assert_eq!(told, HandshakeError::Refused { reason: Reason::AUTHENTICATION, text });
}

#[test]
fn an_acceptor_that_does_not_know_the_secret_is_refused() {
    let (mut dialer, mut acceptor) = (dialer(secret("a")), acceptor(secret("b")));
    assert_eq!(give(&mut acceptor, sent(&mut dialer).remove(0)), Ok(None));
    assert_eq!(give(&mut dialer, sent(&mut acceptor).remove(0)), Ok(None));
    // It accepts any proof, and makes its own with the secret that it has.
    let proof = acceptor.mac(b"b", Side::Acceptor, &dialer.own).finalize().into_bytes();
    assert_eq!(give(&mut dialer, Frame::Proof(proof.into())), Err(HandshakeError::WrongSecret));
}

#[test]
fn both_sides_must_prove_themselves_in_the_same_way() {
    let (own, peer) =
        (HandshakeError::OtherWay { own: Way::Secret }, HandshakeError::OtherWay { own: Way::Certificates });
    let (at_dialer, at_acceptor) = talk(&mut dialer(secret("a")), &mut acceptor(Auth::Certificates));
    assert_eq!((error(at_dialer), error(at_acceptor)), (own.clone(), peer.clone()));
    let (at_dialer, at_acceptor) = talk(&mut dialer(Auth::Certificates), &mut acceptor(secret("a")));
    assert_eq!((error(at_dialer), error(at_acceptor)), (peer, own));
}

/// Who does not know the secret cannot pretend that it has certificates, and the other way round.
#[test]
fn a_side_cannot_choose_the_way_of_the_other_one() {
    for down in [true, false] {
        let turn = |is_down, frame: &mut Frame| {
            if let Frame::Hello(greeting) = frame
                && is_down == down
            {
                greeting.way = Way::Secret;
            }
        };
        let (one, other) =
            if down { (Auth::Certificates, secret("a")) } else { (secret("a"), Auth::Certificates) };
        let (at_dialer, at_acceptor) = talk_through(&mut dialer(one), &mut acceptor(other), turn);
        assert!(!matches!((at_dialer, at_acceptor), (Some(Ok(_)), _) | (_, Some(Ok(_)))));
    }
}

/// Each refusal, seen by the side that finds it, and what the other side is told.
#[test]
fn refusals_name_what_is_wrong() {
    type Change = fn(&mut Hello);
    let other = ClusterId([7; 16]);
    let cases: [(Change, Reason, HandshakeError, &str); 4] = [
        (
            |hello| hello.cluster = ClusterId([7; 16]),
            Reason::CLUSTER,
            HandshakeError::OtherCluster { own: ClusterId([9; 16]), peer: other },
            "belongs to cluster 07070707070707070707070707070707, and this node to cluster 09090909",
        ),
        (
            |hello| hello.node = NodeIdentity([2; 16]),
            Reason::IDENTITY,
            HandshakeError::OwnIdentity(NodeIdentity([2; 16])),
            "the data directory is a copy",
        ),
        (
            |hello| hello.cluster = ClusterId::NONE,
            Reason::NO_CLUSTER,
            HandshakeError::NoCluster { node: NodeIdentity([1; 16]), name: "sluice@host1".to_owned() },
            "node \"sluice@host1\" (01010101010101010101010101010101) is in no cluster",
        ),
        (
            |hello| hello.format = FORMAT_MIN - 1,
            Reason::FORMAT,
            HandshakeError::OlderFormat { peer: FORMAT_MIN - 1, own_min: FORMAT_MIN },
            "the peer is too old",
        ),
    ];
    for auth in [secret("a"), Auth::Certificates] {
        for (change, reason, found, text) in &cases {
            let mut own = hello(1, Role::Shard(4));
            change(&mut own);
            let mut dialer = Handshake::dial(own, auth.clone(), [1; 32]).unwrap();
            let mut told = None;
            let (at_dialer, at_acceptor) =
                talk_through(&mut dialer, &mut acceptor(auth.clone()), |down, frame| {
                    if let (false, Frame::Refused { reason, text }) = (down, frame) {
                        told = Some((*reason, text.clone()));
                    }
                });
            let at_acceptor = error(at_acceptor);
            assert_eq!(at_acceptor, *found);
            assert!(at_acceptor.to_string().contains(text), "{at_acceptor}");
            assert_eq!(told, Some((*reason, at_acceptor.to_string())));
            if *reason != Reason::FORMAT {
                assert!(matches!(error(at_dialer), HandshakeError::Refused { .. }));
            }
        }
    }
}

#[test]
fn a_newer_node_says_what_it_still_talks() {
    let mut dialer = dialer(secret("a"));
    dialer.own.format_min = FORMAT + 1;
    dialer.own.hello.format = FORMAT + 5;
    dialer.output.clear();
    dialer.send(Frame::Hello(dialer.own.clone()));
    let (at_dialer, at_acceptor) = talk(&mut dialer, &mut acceptor(secret("a")));
    assert_eq!(error(at_acceptor), HandshakeError::NewerFormat { peer_min: FORMAT + 1, own: FORMAT });
    assert_eq!(error(at_dialer), HandshakeError::OlderFormat { peer: FORMAT, own_min: FORMAT + 1 });
    // A newer node that still talks this format is welcome.
    let newer = Hello { format: FORMAT + 5, ..hello(1, Role::Heartbeats) };
    let mut dialer = Handshake::dial(newer, secret("a"), [1; 32]).unwrap();
    let (at_dialer, at_acceptor) = talk(&mut dialer, &mut acceptor(secret("a")));
    assert!(matches!((at_dialer, at_acceptor), (Some(Ok(_)), Some(Ok(_)))));
}

#[test]
fn a_node_in_no_cluster_may_send_heartbeats_and_receive_messages() {
    for (at_dialer, at_acceptor, role) in [
        (ClusterId::NONE, ClusterId([9; 16]), Role::Heartbeats),
        (ClusterId([9; 16]), ClusterId::NONE, Role::Shard(1)),
    ] {
        let one = Hello { cluster: at_dialer, ..hello(1, role) };
        let other = Hello { cluster: at_acceptor, ..hello(2, role) };
        let mut dialer = Handshake::dial(one, secret("a"), [1; 32]).unwrap();
        let mut acceptor = Handshake::accept(other, secret("a"), [2; 32]).unwrap();
        let outcomes = talk(&mut dialer, &mut acceptor);
        assert!(matches!(outcomes, (Some(Ok(_)), Some(Ok(_)))), "{outcomes:?}");
    }
}

/// Somebody in the middle changes one field of one hello. Nobody is admitted.
#[test]
fn each_changed_field_of_a_hello_is_noticed() {
    type Change = fn(&mut Greeting);
    let changes: [Change; 11] = [
        |g| g.nonce[31] ^= 1,
        |g| g.way = Way::Certificates,
        |g| g.format_min -= 1,
        |g| g.hello.format += 1,
        |g| g.hello.role = Role::Heartbeats,
        |g| g.hello.role = Role::Shard(5),
        |g| g.hello.node.0[0] ^= 1,
        |g| g.hello.boot += 1,
        |g| g.hello.cluster.0[15] ^= 1,
        |g| g.hello.number += 1,
        |g| g.hello.name.push('x'),
    ];
    for change in changes {
        for changes_dialer in [true, false] {
            let outcomes =
                talk_through(&mut dialer(secret("a")), &mut acceptor(secret("a")), |is_down, frame| {
                    if let Frame::Hello(greeting) = frame
                        && is_down == changes_dialer
                    {
                        change(greeting);
                    }
                });
            assert!(!matches!(outcomes, (Some(Ok(_)), _) | (_, Some(Ok(_)))), "{outcomes:?}");
        }
    }
}

/// The attacker sends the proof of the dialer back to it.
#[test]
fn a_reflected_proof_is_refused() {
    let mut dialer = dialer(secret("a"));
    let own = sent(&mut dialer).remove(0);
    assert_eq!(give(&mut dialer, own), Ok(None));
    let proof = sent(&mut dialer).remove(0);
    assert_eq!(give(&mut dialer, proof), Err(HandshakeError::WrongSecret));
}

/// The proof that an acceptor would make for these two hellos is none of the dialer.
#[test]
fn a_proof_of_the_other_side_is_refused() {
    let (mut dialer, mut acceptor) = (dialer(secret("a")), acceptor(secret("a")));
    assert_eq!(give(&mut acceptor, sent(&mut dialer).remove(0)), Ok(None));
    let proof = dialer.mac(b"a", Side::Acceptor, &acceptor.own).finalize().into_bytes();
    assert_eq!(give(&mut acceptor, Frame::Proof(proof.into())), Err(HandshakeError::WrongSecret));
}

/// A node that dials itself through somebody who only passes the frames on.
#[test]
fn a_node_does_not_connect_to_itself() {
    let mut dialer = Handshake::dial(hello(1, Role::Heartbeats), secret("a"), [1; 32]).unwrap();
    let mut acceptor = Handshake::accept(hello(1, Role::Heartbeats), secret("a"), [2; 32]).unwrap();
    let (at_dialer, at_acceptor) = talk(&mut dialer, &mut acceptor);
    assert_eq!(error(at_acceptor), HandshakeError::OwnIdentity(NodeIdentity([1; 16])));
    assert!(matches!(error(at_dialer), HandshakeError::Refused { reason: Reason::IDENTITY, .. }));
}

/// All frames of a successful handshake are played again, to each side of a new one.
#[test]
fn a_replayed_handshake_is_refused() {
    let (mut down, mut up) = (Vec::new(), Vec::new());
    talk_through(&mut dialer(secret("a")), &mut acceptor(secret("a")), |is_down, frame| {
        if is_down { &mut down } else { &mut up }.push(frame.clone());
    });
    let mut acceptor = Handshake::accept(hello(2, Role::Heartbeats), secret("a"), [3; 32]).unwrap();
    let results: Vec<_> = down.into_iter().map(|frame| give(&mut acceptor, frame)).collect();
    assert_eq!(results, [Ok(None), Err(HandshakeError::WrongSecret)]);
    let mut dialer = Handshake::dial(hello(1, Role::Shard(4)), secret("a"), [3; 32]).unwrap();
    let results: Vec<_> = up.into_iter().map(|frame| give(&mut dialer, frame)).collect();
    assert_eq!(results, [Ok(None), Err(HandshakeError::WrongSecret)]);
}

#[test]
fn frames_out_of_place_end_the_handshake() {
    let refused = || Frame::Refused { reason: Reason(77), text: "later\nformats".to_owned() };
    let others = || [Frame::Proof([0; 32]), Frame::Window { bytes: 1 }, Frame::Word(bytes::Bytes::new())];
    for auth in [secret("a"), Auth::Certificates] {
        for frame in others().into_iter().chain([refused()]) {
            let kind = frame.name();
            let mut acceptor = acceptor(auth.clone());
            assert_eq!(give(&mut acceptor, frame), Err(HandshakeError::Unexpected(kind)));
            assert!(sent(&mut acceptor).is_empty());
            // It has ended.
            let hello = sent(&mut dialer(auth.clone())).remove(0);
            assert_eq!(give(&mut acceptor, hello), Err(HandshakeError::Unexpected("hello")));
        }
        for frame in others() {
            let kind = frame.name();
            assert_eq!(give(&mut dialer(auth.clone()), frame), Err(HandshakeError::Unexpected(kind)));
        }
        let told = give(&mut dialer(auth), refused()).unwrap_err();
        assert_eq!(told.to_string(), r#"the peer refuses this node and says: "later\nformats""#);
    }
}

#[test]
fn a_peer_that_has_proved_nothing_cannot_send_much() {
    let mut acceptor = acceptor(secret("a"));
    let length = (HANDSHAKE_FRAME_MAX + 1) as u32;
    let error = acceptor.handle_bytes(&mut BytesMut::from(&length.to_le_bytes()[..])).unwrap_err();
    assert!(matches!(error, HandshakeError::Malformed(_)));
    assert!(sent(&mut acceptor).is_empty());
}

#[test]
fn names_have_a_bound_and_long_reasons_are_cut() {
    let long = |bytes: usize| Hello {
        name: "ä".repeat(bytes / 2),
        cluster: ClusterId::NONE,
        ..hello(1, Role::Shard(0))
    };
    assert_eq!(
        Handshake::dial(long(256), Auth::Certificates, [1; 32]).err(),
        Some(HandshakeError::LongName(256))
    );
    let mut acceptor = acceptor(Auth::Certificates);
    let mut dialer = Handshake::dial(long(254), Auth::Certificates, [1; 32]).unwrap();
    let mut told = String::new();
    talk_through(&mut dialer, &mut acceptor, |_, frame| {
        if let Frame::Refused { text, .. } = frame {
            told.clone_from(text);
        }
    });
    assert!((TEXT_MAX - 1..=TEXT_MAX).contains(&told.len()), "{}", told.len());
}

#[test]
fn the_secret_is_never_printed() {
    let auth = secret("hunter2");
    let printed =
        format!("{auth:?} {:?}", HandshakeError::WrongSecret) + &HandshakeError::WrongSecret.to_string();
    assert!(printed.starts_with("Secret(Secret(..))"), "{printed}");
    assert!(!printed.contains("hunter2") && !printed.contains(&format!("{:?}", b"hunter2")));
    assert!(Secret::new(b"").is_none());
}

#[test]
fn a_certificate_must_be_valid_for_the_name_of_its_node() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    for auth in [secret("a"), Auth::Certificates] {
        let talk = |of_dialer: &[&str], of_acceptor: &[&str]| {
            let mut dialer = dialer(auth.clone()).certified_for(names(of_acceptor));
            let mut acceptor = acceptor(auth.clone()).certified_for(names(of_dialer));
            talk(&mut dialer, &mut acceptor)
        };
        let good = talk(&["sluice@host1", "b@host1"], &["sluice@host2"]);
        assert!(matches!(good, (Some(Ok(_)), Some(Ok(_)))), "{good:?}");

        let (at_dialer, at_acceptor) = talk(&["sluice@host3"], &["sluice@host2"]);
        let why = error(at_acceptor).to_string();
        assert_eq!(
            why,
            r#"the certificate of the node is not valid for the host of "sluice@host1": of the list of nodes, it is valid for sluice@host3"#
        );
        assert_eq!(
            error(at_dialer),
            HandshakeError::Refused { reason: Reason::IDENTITY, text: why },
            "the dialer learns why before it counts the connection as open"
        );
        let (_, at_acceptor) = talk(&[], &["sluice@host2"]);
        assert!(error(at_acceptor).to_string().ends_with("it is valid for no host in the list of nodes"));
        let (at_dialer, _) = talk(&["sluice@host1"], &["sluice@host1"]);
        assert!(matches!(error(at_dialer), HandshakeError::NotCertified { .. }));
    }
}

#[test]
fn a_peer_with_tls_is_told_from_one_that_talks_nonsense() {
    // The first bytes of a hello of TLS, and of an alert.
    for record in [&b"\x16\x03\x01\x02\x00\x01\x00\x01"[..], b"\x15\x03\x03\x00\x02\x02\x32"] {
        for mut side in [dialer(secret("a")), acceptor(secret("a"))] {
            side.output.clear();
            let error = side.handle_bytes(&mut BytesMut::from(record)).unwrap_err();
            assert_eq!(error, HandshakeError::PeerUsesTls);
            let mut output = Vec::new();
            assert!(side.poll_output(&mut output), "the peer is told something");
            assert!(!begins_tls(&output), "what the peer cannot take for TLS");
        }
    }
}
