//! The connections for messages, over real sockets, with TLS and without. The whole program is in `crates/sluice/tests/cluster.rs`.

use std::time::Duration;

use bytes::Bytes;
use link::{Auth, ClusterId, FORMAT, Hello, NodeIdentity, Role, Secret, WINDOW};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::{LocalSet, spawn_local};

use self::certificates::Files;
use super::messages::{Messages, Order, Orders};
use super::sending::Target;
use super::sockets::{self, Introduction, NotOpened, Opened};
use crate::cluster_settings::ListedNode;
use crate::incoming::Incoming;
use crate::links::{MailWay, PeerBytes, Waiting};
use crate::shard::PeerMail;

mod certificates;

/// Every certificate here is for this host.
const HOST: &str = "127.0.0.1";

/// A node that has connections for messages only.
struct Node {
    number: u32,
    identity: NodeIdentity,
    introduction: Introduction,
    orders: Orders,
    mail: MailWay,
    waiting: Waiting,
    shards: Vec<mpsc::UnboundedReceiver<Incoming>>,
    /// The ways to these shards, until the node runs.
    to_shards: Vec<mpsc::UnboundedSender<Incoming>>,
    /// Both nodes, and a third one that does not run.
    listed: Vec<ListedNode>,
}

fn introduction(number: u32, secret: &str) -> Introduction {
    let hello = Hello {
        role: Role::Heartbeats,
        node: NodeIdentity([number as u8; 16]),
        boot: 5,
        cluster: ClusterId([9; 16]),
        number,
        format: FORMAT,
        name: format!("node-{number}"),
    };
    Introduction { hello, auth: Auth::Secret(Secret::new(secret.as_bytes()).unwrap()), tls: None }
}

/// Makes two nodes that do not run yet. Each accepts connections of the other one.
async fn two_nodes(shards: usize, files: Option<&Files>) -> [Node; 2] {
    let (one, two) =
        (TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let ports = [&one, &two].map(|listener| listener.local_addr().unwrap().port());
    let listed: Vec<ListedNode> = ports
        .into_iter()
        .chain([1])
        .enumerate()
        .map(|(at, port)| ListedNode { name: format!("node-{}", at + 1), host: HOST.to_owned(), port })
        .collect();
    [(1, one), (2, two)].map(|(number, listener)| {
        let mut introduction = introduction(number, "the secret");
        introduction.tls = files.map(|files| files.of_nodes("node", &listed));
        let (orders, receiver) = Orders::new();
        let (mail, to_send) = MailWay::new();
        let waiting = Waiting::new(listed.len());
        spawn_local(Messages::new(&listed, waiting.clone()).run(receiver, to_send));
        let (own, to) = (introduction.clone(), orders.clone());
        spawn_local(async move {
            loop {
                let (stream, _) = sockets::accept(&listener).await;
                if let Ok(opened) = sockets::welcome(stream, &own).await {
                    to.accepted(opened);
                }
            }
        });
        let (to_shards, shards) = (0..shards).map(|_| mpsc::unbounded_channel()).unzip();
        Node {
            number,
            identity: introduction.hello.node,
            introduction,
            orders,
            mail,
            waiting,
            shards,
            to_shards,
            listed: listed.clone(),
        }
    })
}

impl Node {
    fn run(&mut self) {
        let (shards, introduction) = (std::mem::take(&mut self.to_shards), self.introduction.clone());
        self.orders.give(Order::Run { shards, introduction });
    }

    fn meet(&self, other: &Self) {
        let target = Target { number: other.number, node: other.identity };
        self.orders.give(Order::Target { place: other.number as usize - 1, target });
    }

    async fn next(&mut self, shard: usize) -> Incoming {
        let next = tokio::time::timeout(Duration::from_secs(60), self.shards[shard].recv());
        next.await.expect("something arrives").expect("the thread runs")
    }

    /// Returns the next message of another node, whatever else arrives before.
    async fn next_message(&mut self, shard: usize) -> PeerBytes {
        loop {
            if let Incoming::Peer(message) = self.next(shard).await {
                return message;
            }
        }
    }

    /// Returns whether another message has arrived.
    fn has_message(&mut self, shard: usize) -> bool {
        std::iter::from_fn(|| self.shards[shard].try_recv().ok())
            .any(|next| matches!(next, Incoming::Peer(_)))
    }

    async fn wait_for_link(&mut self, shard: usize, expected: bool) {
        let Incoming::Link { up, .. } = self.next(shard).await else { panic!("something else has arrived") };
        assert_eq!(up, expected);
    }

    fn send(&self, shard: u8, to: u32, lane: u64, messages: &[Bytes]) {
        let mail = messages.iter().map(|bytes| PeerMail { to, shard: 1, lane, bytes: bytes.clone() });
        self.mail.send(shard, mail.collect());
    }
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, test);
}

fn messages_arrive(files: Option<&Files>) {
    run(async {
        let [mut one, mut two] = two_nodes(2, files).await;
        one.meet(&two);
        two.meet(&one);
        one.run();
        // The other node is a member, and its shards do not run yet.
        one.wait_for_link(0, true).await;
        one.wait_for_link(1, true).await;
        let large = Bytes::from(vec![7; 3 * WINDOW]);
        one.send(0, 2, 70, std::slice::from_ref(&large));
        let small: Vec<Bytes> = (0..5_000_u32).map(|n| n.to_be_bytes().to_vec().into()).collect();
        one.send(0, 2, 71, &small);
        two.run();
        let mut arrived = Vec::new();
        let mut is_large_there = false;
        while arrived.len() < small.len() || !is_large_there {
            let message = two.next_message(1).await;
            assert_eq!(message.from, 1);
            if message.bytes.len() == large.len() {
                assert!(!arrived.is_empty(), "small messages pass the large one");
                is_large_there = true;
            } else {
                arrived.push(message.bytes.clone());
            }
        }
        assert!(arrived == small && !two.has_message(0));
    });
}

#[test]
fn messages_arrive_in_order_and_pass_a_large_one() {
    messages_arrive(None);
    messages_arrive(Some(&Files::make("arrive")));
}

fn messages_are_bounded(files: Option<&Files>) {
    run(async {
        let [mut one, mut two] = two_nodes(2, files).await;
        one.run();
        two.run();
        one.meet(&two);
        two.meet(&one);
        one.wait_for_link(0, true).await;
        let bytes = Bytes::from(vec![0; WINDOW / 64]);
        one.send(0, 2, 1, &vec![bytes.clone(); 128]);
        let (mut untaken, mut pause) = (Vec::new(), false);
        while !pause {
            match tokio::time::timeout(Duration::from_millis(300), two.shards[1].recv()).await {
                Ok(Some(Incoming::Peer(message))) => untaken.push(message),
                Ok(Some(_)) => {}
                Ok(None) => panic!("the thread has ended"),
                Err(_) => pause = true,
            }
        }
        assert!(
            !untaken.is_empty() && untaken.len() <= 64,
            "{} messages are there, and 64 have the bytes that may wait",
            untaken.len()
        );
        assert!(one.waiting.of(1) > Some(0), "the rest waits to be sent, here and in the sockets");
        let mut all = untaken.len();
        drop(untaken);
        while all < 128 {
            let _ = two.next_message(1).await;
            all += 1;
        }
        assert_eq!((one.waiting.of(0), one.waiting.of(1)), (Some(0), Some(0)), "all have arrived");
    });
}

#[test]
fn messages_that_no_shard_takes_are_bounded() {
    messages_are_bounded(None);
    messages_are_bounded(Some(&Files::make("bounded")));
}

#[test]
fn an_earlier_boot_is_refused() {
    run(async {
        let [mut one, mut two] = two_nodes(1, None).await;
        one.run();
        two.run();
        one.meet(&two);
        two.meet(&one);
        one.wait_for_link(0, true).await;
        two.orders.give(Order::Boot { node: one.identity, boot: 6 });
        one.wait_for_link(0, false).await;
        // It dials again, and is refused again.
        one.wait_for_link(0, true).await;
        one.wait_for_link(0, false).await;
        assert!(!two.has_message(0));
    });
}

/// A certificate may prove the name of a node only. Its holder must not send messages as another node, and must not shut it out.
#[test]
fn a_node_does_not_pose_as_another_one() {
    run(async {
        let [mut one, mut two] = two_nodes(1, None).await;
        one.run();
        two.run();
        two.meet(&one);
        let mut impostor = introduction(1, "the secret");
        impostor.hello.name = "node-3".to_owned();
        impostor.hello.boot = u64::MAX;
        let Opened { mut stream, .. } =
            sockets::dial(&one.listed[1], Role::Shard(0), &impostor).await.unwrap();
        let (mut outgoing, mut output) = (link::Outgoing::default(), Vec::new());
        outgoing.push(1, 0, Bytes::from_static(b"vote for me")).unwrap();
        outgoing.poll(&mut output, WINDOW);
        // It may be refused before or afterwards.
        drop(stream.write_all(&output).await);
        assert!(!stream.read(&mut bytes::BytesMut::new()).await.unwrap_or(false), "the connection ends");
        one.meet(&two);
        one.wait_for_link(0, true).await;
        one.send(0, 2, 1, &[Bytes::from_static(b"it is me")]);
        let message = two.next_message(0).await;
        assert_eq!((message.from, &*message.bytes), (1, &b"it is me"[..]));
    });
}

#[test]
fn a_handshake_needs_the_secret_and_ends() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let node = ListedNode { name: "node-2".into(), host: "127.0.0.1".into(), port };
        let own = introduction(2, "the secret");
        let accepting = spawn_local(async move {
            let (first, _) = sockets::accept(&listener).await;
            let refused = sockets::welcome(first, &own).await;
            assert!(
                matches!(refused, Err(NotOpened::Handshake(link::HandshakeError::WrongSecret))),
                "{refused:?}"
            );
            let (second, _) = sockets::accept(&listener).await;
            let Opened { hello, .. } = sockets::welcome(second, &own).await.unwrap();
            assert_eq!((hello.role, hello.number), (Role::Shard(3), 1));
            // The port is free from now on.
        });
        let refused = sockets::dial(&node, Role::Heartbeats, &introduction(1, "another")).await.unwrap_err();
        assert!(refused.to_string().ends_with("do both nodes have the same cluster secret?"), "{refused}");
        let opened = sockets::dial(&node, Role::Shard(3), &introduction(1, "the secret")).await.unwrap();
        assert_eq!((opened.hello.number, opened.hello.role), (2, Role::Shard(3)));
        accepting.await.unwrap();
        let gone = sockets::dial(&node, Role::Heartbeats, &introduction(1, "the secret")).await.unwrap_err();
        assert!(matches!(gone, NotOpened::Refused), "{gone}");
    });
}
