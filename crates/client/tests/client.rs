//! Tests the client against a server that is built from the same endpoints, over a pipe.

mod server;

use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::Duration;

use amqp10::{DeliveryState, Modified, SaslCode};
use bytes::Bytes;
use client::management::{Binding, Destination, ExchangeSpec, QueueSpec};
use client::{
    Checksum, Connection, Credentials, Credit, Error, Management, Message, Options, ReceiverOptions, Scope,
    SenderOptions, Session, Settle,
};
use server::{Script, start};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

async fn open(script: &Script) -> Connection {
    Connection::over(start(script.clone()), None, Options::default()).await.unwrap()
}

async fn session(script: &Script) -> (Connection, Session) {
    let connection = open(script).await;
    let session = connection.session().await.unwrap();
    (connection, session)
}

fn guest() -> Option<Credentials> {
    "amqp://guest:guest@h".parse::<client::Url>().unwrap().credentials
}

fn numbered(n: u32) -> Bytes {
    Message::data(n.to_be_bytes().to_vec()).encode()
}

fn number(message: &[u8]) -> u32 {
    let body = Message::decode(message).unwrap().body_bytes().unwrap();
    u32::from_be_bytes(body[..4].try_into().unwrap())
}

#[tokio::test]
async fn messages_of_all_sizes_round_trip() {
    let script = Script::default();
    let (connection, session) = session(&script).await;
    let sender = session.sender(Some("/queues/q"), SenderOptions::default()).await.unwrap();
    let receiver = session.receiver(Some("/queues/q"), ReceiverOptions::default()).await.unwrap();
    for size in [0, 1, 4000, 5000, 100_000, 300_000] {
        let message = Message::data(vec![size as u8; size]).durable(true).encode();
        assert_eq!(sender.send(message.clone()).await.unwrap(), DeliveryState::Accepted);
        let delivery = receiver.recv().await.unwrap();
        assert!(delivery.message == message, "{size}");
        delivery.accept().unwrap();
    }
    let too_large = sender.send(Bytes::from(vec![0; (1 << 20) + 1])).await;
    assert!(matches!(too_large, Err(Error::TooLarge { max: 1_048_576 })));
    receiver.detach().await.unwrap();
    sender.detach().await.unwrap();
    session.end().await.unwrap();
    connection.close().await.unwrap();
    let seen = script.seen.lock().unwrap();
    assert!(seen.closed);
    assert_eq!((seen.detached, seen.ended, seen.settled), (2, 1, 6));
}

#[tokio::test]
async fn checksums_are_made_by_the_sender_and_checked_by_the_receiver() {
    let script = Script::default();
    let (_connection, session) = session(&script).await;
    let plain = session.sender(Some("/queues/q"), SenderOptions::default()).await.unwrap();
    let receiver = session.receiver(Some("/queues/q"), ReceiverOptions::default()).await.unwrap();
    for kind in Checksum::ALL {
        let options = SenderOptions { checksum: Some(kind), ..SenderOptions::default() };
        let sender = session.sender(Some("/queues/q"), options).await.unwrap();
        sender.send(Message::data(vec![7; 300_000]).encode()).await.unwrap();
        let delivery = receiver.recv().await.unwrap();
        assert_eq!(delivery.verify().unwrap(), [kind]);
        let mut flipped = delivery.message.to_vec();
        flipped[150_000] ^= 1;
        plain.send(flipped.into()).await.unwrap();
        let damaged = receiver.recv().await.unwrap().verify();
        assert!(matches!(damaged, Err(Error::Damaged { kind: of, .. }) if of == kind), "{damaged:?}");
        assert!(matches!(sender.send(Bytes::from_static(b"none")).await, Err(Error::Message(_))));
    }
    plain.send(numbered(1)).await.unwrap();
    assert_eq!(receiver.recv().await.unwrap().verify().unwrap(), []);
}

#[tokio::test]
async fn many_messages_keep_their_order_and_credit_follows_the_reader() {
    for (target, count) in [(10, 2_000), (200, 20_000)] {
        let script = Script::default();
        let (_connection, session) = session(&script).await;
        let sender = session.sender(Some("/queues/q"), SenderOptions::default()).await.unwrap();
        let options = ReceiverOptions { credit: Credit::Auto(target), ..ReceiverOptions::default() };
        let receiver = session.receiver(Some("/queues/q"), options).await.unwrap();
        let sending = tokio::spawn(async move {
            let mut outcomes = Vec::new();
            for n in 0..count {
                outcomes.push(sender.send_pipelined(numbered(n)).await.unwrap());
            }
            for outcome in outcomes {
                assert_eq!(outcome.await.unwrap(), DeliveryState::Accepted);
            }
        });
        for n in 0..count {
            let delivery = receiver.recv().await.unwrap();
            assert_eq!(number(&delivery.message), n);
            // Credit and waiting messages together fall below half of the target only while a FLOW is in
            // flight.
            let may_arrive = receiver.credit() + receiver.waiting() as u32;
            assert!(may_arrive > target / 2 && may_arrive <= target, "{may_arrive} of {target}");
            assert!(receiver.waiting() < target as usize);
            delivery.accept().unwrap();
        }
        sending.await.unwrap();
        receiver.detach().await.unwrap();
        let seen = script.seen.lock().unwrap();
        assert_eq!((seen.settled, seen.credit_max), (count, target));
        assert!(seen.dispositions <= count);
        // Credit is granted once at the start, and once for each half of the target.
        let halves = count / (target / 2);
        assert_eq!(seen.flows, 1 + halves, "it is topped up at half, and only then");
    }
}

#[tokio::test]
async fn a_settled_link_renews_its_credit() {
    const TARGET: u32 = 10;
    const COUNT: u32 = 2_000;
    let script = Script::default();
    let (_connection, session) = session(&script).await;
    let sender = session.sender(Some("/queues/q"), SenderOptions::default()).await.unwrap();
    let options =
        ReceiverOptions { credit: Credit::Auto(TARGET), settled: true, ..ReceiverOptions::default() };
    let receiver = session.receiver(Some("/queues/q"), options).await.unwrap();
    let sending = tokio::spawn(async move {
        for n in 0..COUNT {
            drop(sender.send_pipelined(numbered(n)).await.unwrap());
        }
        sender
    });
    for n in 0..COUNT {
        let delivery = receiver.recv().await.unwrap();
        assert_eq!((number(&delivery.message), delivery.settled), (n, true));
        let may_arrive = receiver.credit() + receiver.waiting() as u32;
        assert!(may_arrive > TARGET / 2 && may_arrive <= TARGET, "{may_arrive} of {TARGET}");
    }
    drop(sending.await.unwrap());
    receiver.detach().await.unwrap();
    let seen = script.seen.lock().unwrap();
    assert_eq!((seen.dispositions, seen.settled, seen.credit_max), (0, 0, TARGET));
    // Credit is granted once at the start, and once for each half of the target.
    assert_eq!(seen.flows, 1 + COUNT / (TARGET / 2));
}

#[tokio::test]
async fn a_message_of_many_frames_has_one_delivery_id() {
    // A message of the largest size takes several windows, so the numbers of transfers run far ahead of those of deliveries.
    let sizes = [1, 20_000, 100_000, 1, 50_000, 1];
    let script = Script::default();
    let (_connection, session) = session(&script).await;
    let sender = session.sender(Some("/queues/q"), SenderOptions::default()).await.unwrap();
    let receiver = session.receiver(Some("/queues/q"), ReceiverOptions::default()).await.unwrap();
    let mut outcomes = Vec::new();
    for (n, size) in sizes.into_iter().enumerate() {
        let subject = if n % 2 == 0 { "keep" } else { "reject" };
        let message = Message::data(vec![n as u8; size]).subject(subject).encode();
        outcomes.push(sender.send_pipelined(message).await.unwrap());
    }
    // Each outcome finds its message, so both ends have numbered deliveries and not frames.
    for (n, outcome) in outcomes.into_iter().enumerate() {
        assert_eq!(outcome.await.unwrap() == DeliveryState::Accepted, n % 2 == 0, "message {n}");
    }
    let mut ids = Vec::new();
    for size in [sizes[0], sizes[2], sizes[4]] {
        let delivery = receiver.recv().await.unwrap();
        assert!(delivery.message.len() >= size);
        ids.push(delivery.id);
        delivery.accept().unwrap();
    }
    assert_eq!(ids, [ids[0], ids[0] + 1, ids[0] + 2]);
    receiver.detach().await.unwrap();
    let seen = script.seen.lock().unwrap();
    let frames: usize = sizes.iter().map(|size| size.div_ceil(4096)).sum();
    assert!(seen.transfers as usize >= frames, "{} transfers of {frames}", seen.transfers);
    assert_eq!(
        seen.delivery_ids,
        (0..sizes.len() as u32).map(|n| seen.delivery_ids[0] + n).collect::<Vec<_>>()
    );
    assert_eq!(seen.settled, 3);
}

#[tokio::test]
async fn an_idle_reader_gets_its_credit_and_no_more() {
    let script = Script::default();
    let (_connection, session) = session(&script).await;
    let options = ReceiverOptions { credit: Credit::Auto(4), ..ReceiverOptions::default() };
    let receiver = session.receiver(Some("/queues/q"), options).await.unwrap();
    let sender = session.sender(Some("/queues/q"), SenderOptions::default()).await.unwrap();
    for n in 0..50 {
        let _ = sender.send(numbered(n)).await.unwrap();
    }
    assert_eq!((receiver.waiting(), receiver.credit()), (4, 0));
    assert_eq!(number(&receiver.recv().await.unwrap().message), 0);
}

#[tokio::test]
async fn consecutive_deliveries_are_settled_in_one_frame() {
    let script = Script::default();
    let (_connection, session) = session(&script).await;
    let sender = session.sender(Some("/queues/q"), SenderOptions::default()).await.unwrap();
    for n in 0..10 {
        let _ = sender.send(numbered(n)).await.unwrap();
    }
    let receiver = session.receiver(Some("/queues/q"), ReceiverOptions::default()).await.unwrap();
    let mut deliveries = Vec::new();
    for _ in 0..10 {
        deliveries.push(receiver.recv().await.unwrap());
    }
    let last = deliveries.split_off(6);
    deliveries.into_iter().for_each(|d| d.accept().unwrap());
    let mut last = last.into_iter();
    last.next().unwrap().release().unwrap();
    last.next().unwrap().reject(None).unwrap();
    last.next().unwrap().modify(Modified { delivery_failed: Some(true), ..Modified::default() }).unwrap();
    drop(last);
    receiver.detach().await.unwrap();
    let seen = script.seen.lock().unwrap();
    assert_eq!((seen.dispositions, seen.settled), (4, 9));
    assert_eq!(
        seen.outcomes[..3],
        [DeliveryState::Accepted, DeliveryState::Released, DeliveryState::Rejected(None)]
    );
}

#[tokio::test]
async fn sending_waits_for_credit() {
    let script = Script { grant: 3, ..Script::default() };
    let (_connection, session) = session(&script).await;
    let sender = session.sender(Some("/queues/silent"), SenderOptions::default()).await.unwrap();
    let mut outcomes = Vec::new();
    for n in 0..3 {
        outcomes.push(sender.send_pipelined(numbered(n)).await.unwrap());
    }
    assert_eq!(sender.credit(), 0);
    let fourth = sender.send_pipelined(numbered(3));
    assert!(tokio::time::timeout(Duration::from_millis(50), fourth).await.is_err());
    // The peer never sends their outcomes. When the link is detached, every waiter is notified.
    let waiting = tokio::spawn(outcomes.remove(0));
    tokio::task::yield_now().await;
    sender.clone().detach().await.unwrap();
    assert!(matches!(waiting.await.unwrap(), Err(Error::Closed)));
    assert!(matches!(sender.send(numbered(4)).await, Err(Error::Closed)));
}

#[tokio::test]
async fn each_outcome_is_reported() {
    let (_connection, session) = session(&Script::default()).await;
    let sender = session.sender(None, SenderOptions::default()).await.unwrap();
    let send = |message: Message| sender.send(message.encode());
    let rejected = send(Message::data("x").subject("reject")).await.unwrap();
    assert!(
        matches!(rejected, DeliveryState::Rejected(Some(e)) if e.condition == "amqp:resource-limit-exceeded")
    );
    assert_eq!(send(Message::data("x").subject("release")).await.unwrap(), DeliveryState::Released);
    assert!(matches!(send(Message::data("x")).await.unwrap(), DeliveryState::Rejected(Some(_))));
    assert_eq!(send(Message::data("x").to("/queues/t")).await.unwrap(), DeliveryState::Accepted);
    let receiver = session.receiver(Some("/queues/t"), ReceiverOptions::default()).await.unwrap();
    let message = Message::decode(&receiver.recv().await.unwrap().message).unwrap();
    assert_eq!(message.properties.unwrap().to.as_deref(), Some("/queues/t"));
}

#[tokio::test]
async fn settled_links_have_no_outcomes() {
    let script = Script::default();
    let (_connection, session) = session(&script).await;
    let options = SenderOptions { settle: Settle::Settled, ..SenderOptions::default() };
    let sender = session.sender(Some("/queues/q"), options).await.unwrap();
    let options = ReceiverOptions { settled: true, ..ReceiverOptions::default() };
    let receiver = session.receiver(Some("/queues/q"), options).await.unwrap();
    for n in 0..100 {
        assert_eq!(sender.send(numbered(n)).await.unwrap(), DeliveryState::Accepted);
    }
    for n in 0..100 {
        let delivery = receiver.recv().await.unwrap();
        assert!(delivery.settled);
        assert_eq!(number(&delivery.message), n);
        delivery.accept().unwrap();
    }
    receiver.detach().await.unwrap();
    assert_eq!(script.seen.lock().unwrap().dispositions, 0);
}

#[tokio::test]
async fn drain_returns_unused_credit() {
    let (_connection, session) = session(&Script::default()).await;
    let sender = session.sender(Some("/queues/q"), SenderOptions::default()).await.unwrap();
    let options = ReceiverOptions { credit: Credit::Manual, ..ReceiverOptions::default() };
    let receiver = session.receiver(Some("/queues/q"), options).await.unwrap();
    for n in 0..3 {
        let _ = sender.send(numbered(n)).await.unwrap();
    }
    assert!(receiver.try_recv().unwrap().is_none());
    receiver.flow(10, false, false);
    let drained = receiver.drain().await.unwrap();
    assert_eq!((drained.unused, drained.waiting), (7, 3));
    let _ = sender.send(numbered(3)).await.unwrap();
    assert_eq!(receiver.waiting(), 3, "no credit, no message");
    receiver.flow(1, false, true);
    for n in 0..4 {
        assert_eq!(number(&receiver.recv().await.unwrap().message), n);
    }
    assert_eq!(receiver.drain().await.unwrap().unused, 0);
}

/// Passes on what the server writes in small pieces, and lets all other tasks run after each.
fn slowly(server: DuplexStream) -> DuplexStream {
    let (ours, theirs) = tokio::io::duplex(100_000);
    let (mut from_server, mut to_server) = tokio::io::split(server);
    let (mut from_client, mut to_client) = tokio::io::split(ours);
    tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
    tokio::spawn(async move {
        let mut piece = [0; 1000];
        while let Ok(n @ 1..) = from_server.read(&mut piece).await {
            if to_client.write_all(&piece[..n]).await.is_err() {
                return;
            }
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
        }
    });
    theirs
}

/// The credit of a large message is used with its first frame, long before the message is there.
#[tokio::test]
async fn drain_waits_for_the_whole_of_the_last_message() {
    let connection =
        Connection::over(slowly(start(Script::default())), None, Options::default()).await.unwrap();
    let session = connection.session().await.unwrap();
    let sender = session.sender(Some("/queues/q"), SenderOptions::default()).await.unwrap();
    let options = ReceiverOptions { credit: Credit::Manual, ..ReceiverOptions::default() };
    let receiver = session.receiver(Some("/queues/q"), options).await.unwrap();
    let _ = sender.send(numbered(1)).await.unwrap();
    let _ = sender.send(Message::data(vec![7; 300_000]).encode()).await.unwrap();
    receiver.flow(2, false, false);
    let mut drain = std::pin::pin!(receiver.drain());
    // The future is polled after each piece of the large message.
    let drained = poll_fn(|cx| {
        cx.waker().wake_by_ref();
        drain.as_mut().poll(cx)
    });
    let drained = drained.await.unwrap();
    assert_eq!((drained.unused, drained.waiting), (0, 2));
}

#[tokio::test]
async fn refusals_are_typed() {
    let (connection, session) = session(&Script::default()).await;
    let refused = session.sender(Some("/queues/refused"), SenderOptions::default()).await.err().unwrap();
    assert!(matches!(&refused, Error::Remote { scope: Scope::Link, .. }));
    assert_eq!(refused.condition(), Some("amqp:not-found"));
    let refused = session.receiver(Some("/queues/refused"), ReceiverOptions::default()).await.err().unwrap();
    assert!(matches!(&refused, Error::Remote { scope: Scope::Link, error } if error.description.is_some()));
    // The session stays open until the peer ends it.
    let other = session.sender(Some("/queues/q"), SenderOptions::default()).await.unwrap();
    let ended = session.sender(Some("/queues/forbidden"), SenderOptions::default()).await.err().unwrap();
    assert!(matches!(ended, Error::Remote { scope: Scope::Session, .. }));
    assert!(matches!(other.send(numbered(0)).await, Err(Error::Remote { scope: Scope::Session, .. })));
    let session = connection.session().await.unwrap();
    let closed = session.receiver(Some("/queues/closing"), ReceiverOptions::default()).await.err().unwrap();
    assert!(matches!(closed, Error::Remote { scope: Scope::Connection, .. }));
    assert!(matches!(connection.session().await, Err(Error::Remote { scope: Scope::Connection, .. })));
    assert!(matches!(connection.close().await, Err(Error::Remote { scope: Scope::Connection, .. })));
}

#[tokio::test]
async fn a_deleted_queue_fails_pending_outcomes() {
    let (_connection, session) = session(&Script::default()).await;
    let sender = session.sender(Some("/queues/deleted"), SenderOptions::default()).await.unwrap();
    let mut outcomes = Vec::new();
    for n in 0..3 {
        outcomes.push(sender.send_pipelined(numbered(n)).await.unwrap());
    }
    let third = outcomes.pop().unwrap();
    for outcome in outcomes {
        assert_eq!(outcome.await.unwrap(), DeliveryState::Accepted);
    }
    assert_eq!(third.await.err().unwrap().condition(), Some("amqp:resource-deleted"));
    assert_eq!(sender.closed().await.condition(), Some("amqp:resource-deleted"));
}

#[tokio::test]
async fn logins_fail_with_their_code() {
    let script = Script { login: SaslCode::Auth, ..Script::default() };
    let failed = Connection::over(start(script.clone()), guest(), Options::default()).await;
    assert!(matches!(failed, Err(Error::Login(SaslCode::Auth))));
    assert_eq!(script.seen.lock().unwrap().mechanism, "PLAIN");
    let script = Script { mechanisms: vec!["EXTERNAL"], ..Script::default() };
    let failed = Connection::over(start(script), guest(), Options::default()).await;
    assert!(matches!(failed, Err(Error::Mechanism)));
    let script = Script { refuse_open: true, ..Script::default() };
    match Connection::over(start(script), None, Options::default()).await {
        Err(error) => assert_eq!(error.condition(), Some("amqp:unauthorized-access")),
        Ok(connection) => {
            assert_eq!(
                connection.closed().await.err().unwrap().condition(),
                Some("amqp:unauthorized-access")
            );
        }
    }
}

#[tokio::test]
async fn invalid_silent_and_closing_peers_are_errors() {
    use tokio::io::AsyncWriteExt;
    let (client, mut server) = tokio::io::duplex(1000);
    server.write_all(b"HTTP/1.1 400 Bad Request\r\n").await.unwrap();
    let failed = Connection::over(client, None, Options::default()).await;
    assert!(matches!(failed, Err(Error::Protocol(_))), "{:?}", failed.err());
    let (client, _silent) = tokio::io::duplex(1000);
    let options = Options { handshake_timeout: Duration::from_millis(20), ..Options::default() };
    assert!(matches!(Connection::over(client, None, options).await, Err(Error::Timeout)));
    let (client, closed) = tokio::io::duplex(1000);
    drop(closed);
    assert!(matches!(Connection::over(client, None, Options::default()).await, Err(Error::Io(_))));
}

#[tokio::test]
async fn dropping_handles_frees_their_numbers() {
    let script = Script::default();
    let connection = open(&script).await;
    for round in 0..20 {
        let session = connection.session().await.unwrap();
        let sender = session.sender(Some("/queues/q"), SenderOptions::default()).await.unwrap();
        assert_eq!(sender.send(numbered(round)).await.unwrap(), DeliveryState::Accepted);
        // This link is dropped before the peer has answered its ATTACH.
        let mut early = Box::pin(session.receiver(Some("/queues/q"), ReceiverOptions::default()));
        let pending = poll_fn(|cx| Poll::Ready(early.as_mut().poll(cx).is_pending())).await;
        assert!(pending);
    }
    let sessions: Vec<_> = [connection.session().await, connection.session().await].into_iter().collect();
    assert!(sessions.iter().all(Result::is_ok));
    drop(sessions);
    drop(connection);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(script.seen.lock().unwrap().closed);
}

#[tokio::test]
async fn exhausted_channels_and_handles_are_errors() {
    let (connection, session) = session(&Script::default()).await;
    let mut links = Vec::new();
    for _ in 0..8 {
        links.push(session.sender(Some("/queues/q"), SenderOptions::default()).await.unwrap());
    }
    let ninth = session.sender(Some("/queues/q"), SenderOptions::default()).await;
    assert!(matches!(ninth, Err(Error::Exhausted(Scope::Link))));
    let mut sessions = vec![session];
    for _ in 0..3 {
        sessions.push(connection.session().await.unwrap());
    }
    assert!(matches!(connection.session().await, Err(Error::Exhausted(Scope::Session))));
}

#[tokio::test]
async fn dynamic_nodes_have_addresses() {
    let (_connection, session) = session(&Script::default()).await;
    let options = ReceiverOptions { dynamic: true, ..ReceiverOptions::default() };
    let receiver = session.receiver(None, options).await.unwrap();
    let address = receiver.remote_attach().source.as_ref().unwrap().address.clone();
    let sender = session.sender(address.as_deref(), SenderOptions::default()).await.unwrap();
    let _ = sender.send(numbered(1)).await.unwrap();
    assert_eq!(number(&receiver.recv().await.unwrap().message), 1);
}

#[tokio::test]
async fn management_requests_use_paths() {
    let (_connection, session) = session(&Script::default()).await;
    let management = Management::open(&session).await.unwrap();
    let declared = management.declare_queue("a/b", &QueueSpec::of_type("quorum")).await.unwrap();
    assert_eq!(declared.status, 201);
    assert_eq!(
        (declared.value.kind.as_str(), declared.value.durable, declared.value.messages),
        ("quorum", true, 7)
    );
    assert_eq!(management.purge_queue("a/b").await.unwrap().value, 7);
    assert_eq!(management.delete_queue("a/b").await.unwrap().value, 7);
    let missing = management.queue_info("no").await.err().unwrap();
    assert!(matches!(missing, Error::Status { status: 404, explanation } if explanation == "GET /queues/no"));
    assert_eq!(management.declare_exchange("x", &ExchangeSpec::default()).await.unwrap().status, 204);
    let plain = Binding::to_queue("x", "a/b", "k");
    assert_eq!(management.bind(&plain).await.unwrap().status, 204);
    assert_eq!(management.unbind(&plain).await.unwrap().status, 204);
    let bindings = management.bindings("x", &Destination::Queue("a/b".to_owned()), "k%").await.unwrap();
    assert_eq!(bindings.value.len(), 1);
    assert_eq!(management.unbind(&bindings.value[0]).await.unwrap().status, 204);
    assert_eq!(management.delete_exchange("x").await.unwrap().status, 204);
    management.close().await.unwrap();
}

#[tokio::test]
async fn it_works_over_tcp() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = Script::default();
    let mut pipe = start(script.clone());
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut socket, &mut pipe).await;
    });
    let url = format!("amqp://guest:guest@127.0.0.1:{port}/my%2Fhost").parse().unwrap();
    let connection = Connection::open(&url, Options::default()).await.unwrap();
    assert_eq!(connection.remote_open().container_id, "server");
    connection.close().await.unwrap();
    let seen = script.seen.lock().unwrap();
    assert_eq!((seen.hostname.as_deref(), seen.mechanism.as_str()), (Some("vhost:my/host"), "PLAIN"));
}
