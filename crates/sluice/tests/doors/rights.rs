//! Permissions that are given, and permissions that are taken away while clients are connected.

use amqp10::Symbol;
use catalog::access::Identity;
use client::management::QueueSpec;
use client::{Connection, Management, Options, ReceiverOptions, SenderOptions, Url};

use super::fixture::{Fixture, ROOT};
use super::verbs10::is_refused;
use super::verbs091;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_is_made_over_http_works_in_a_virtual_host() {
    let fixture = Fixture::open("users", &[]).await;
    fixture.prepare("PUT", "/api/vhosts/team", "{}").await;
    fixture.prepare("PUT", "/api/users/dora", r#"{"password":"dora","tags":""}"#).await;
    let url: Url = format!("amqp://dora:dora@{}/team", fixture.amqp).parse().unwrap();
    let open = async || Connection::open(&url, Options::default()).await;
    let refused = open().await.err().expect("there are no permissions yet");
    assert_eq!(refused.condition(), Some("amqp:unauthorized-access"), "{refused}");
    let body = r#"{"configure":".*","write":".*","read":"^$"}"#;
    fixture.prepare("PUT", "/api/permissions/team/dora", body).await;
    let connection = open().await.unwrap();
    let session = connection.session().await.unwrap();
    Management::open(&session).await.unwrap().declare_queue("q", &QueueSpec::default()).await.unwrap();
    let sender = session.sender(Some("/queues/q"), SenderOptions::default()).await.unwrap();
    sender.send(client::Message::data("m").encode()).await.unwrap();
    let read = session.receiver(Some("/queues/q"), ReceiverOptions::default()).await;
    assert!(read.err().is_some_and(|error| is_refused(&error)));
    assert!(fixture.connect("dora").await.is_err(), "there are no permissions in '/'");

    // The new password counts at once, and a deleted user cannot log in.
    fixture.prepare("PUT", "/api/users/dora", r#"{"password":"other","tags":""}"#).await;
    assert!(open().await.is_err());
    fixture.prepare("PUT", "/api/users/dora", r#"{"password":"dora","tags":""}"#).await;
    open().await.unwrap().close().await.unwrap();
    fixture.prepare("DELETE", "/api/users/dora", "").await;
    assert!(open().await.is_err());
    fixture.close();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_permission_ends_what_it_was_for() {
    let fixture = Fixture::open("lost", &[]).await;
    for (path, body) in [
        ("/api/vhosts/team", "{}"),
        ("/api/users/dora", r#"{"password":"dora","tags":""}"#),
        ("/api/permissions/team/dora", r#"{"configure":".*","write":".*","read":".*"}"#),
        ("/api/queues/team/a", "{}"),
        ("/api/queues/team/b", "{}"),
    ] {
        fixture.prepare("PUT", path, body).await;
    }
    let url: Url = format!("amqp://dora:dora@{}/team", fixture.amqp).parse().unwrap();
    let open = async || Connection::open(&url, Options::default()).await.unwrap();
    let connection = open().await;
    let session = connection.session().await.unwrap();
    let receiver = async |queue: &str| {
        session.receiver(Some(&format!("/queues/{queue}")), ReceiverOptions::default()).await.unwrap()
    };
    let (of_a, of_b) = (receiver("a").await, receiver("b").await);
    let sender = session.sender(Some("/queues/a"), SenderOptions::default()).await.unwrap();
    let send = async || sender.send(client::Message::data("m").encode()).await;
    send().await.unwrap();

    // A queue that was made for a link goes with the right to read what it is bound to.
    let of_exchange =
        session.receiver(Some("/exchange/amq.direct/k"), ReceiverOptions::default()).await.unwrap();
    let body = r#"{"configure":".*","write":".*","read":"^(?!amq\\.direct$).*"}"#;
    fixture.prepare("PUT", "/api/permissions/team/dora", body).await;
    let lost = of_exchange.recv().await.err().unwrap().to_string();
    assert!(lost.contains("read access to exchange 'amq.direct' in vhost 'team' refused"), "{lost}");

    // Only the links to what is no longer allowed end.
    let body = r#"{"configure":".*","write":"","read":"^(?!b).*"}"#;
    fixture.prepare("PUT", "/api/permissions/team/dora", body).await;
    let lost = of_b.recv().await.err().unwrap();
    assert_eq!(lost.condition(), Some("amqp:unauthorized-access"), "{lost}");
    assert!(
        lost.to_string().contains("read access to queue 'b' in vhost 'team' refused for user 'dora'"),
        "{lost}"
    );
    let lost = send().await.unwrap_err();
    assert!(lost.to_string().contains("write access to exchange 'amq.default' in vhost 'team'"), "{lost}");
    let message = of_a.recv().await.unwrap();
    message.accept().unwrap();
    assert!(session.receiver(Some("/queues/b"), ReceiverOptions::default()).await.is_err());

    // Who may no longer use the virtual host is out.
    fixture.prepare("DELETE", "/api/permissions/team/dora", "").await;
    let closed = connection.closed().await.unwrap_err().to_string();
    assert!(closed.contains("access to vhost 'team' refused for user 'dora'"), "{closed}");

    let body = r#"{"configure":".*","write":".*","read":".*"}"#;
    fixture.prepare("PUT", "/api/permissions/team/dora", body).await;
    let connection = open().await;
    fixture.prepare("DELETE", "/api/users/dora", "").await;
    let closed = connection.closed().await.unwrap_err().to_string();
    assert!(closed.contains("user 'dora' is deleted"), "{closed}");

    let url: Url = format!("amqp://root:root@{}/team", fixture.amqp).parse().unwrap();
    let connection = Connection::open(&url, Options::default()).await.unwrap();
    let session = connection.session().await.unwrap();
    let own = vec![Symbol::from_static("temporary-queue")];
    let options = ReceiverOptions { dynamic: true, capabilities: own, ..Default::default() };
    let receiver = session.receiver(None, options).await.unwrap();
    fixture.prepare("DELETE", "/api/vhosts/team", "").await;
    drop(receiver);
    let closed = connection.closed().await.unwrap_err().to_string();
    assert!(closed.contains("vhost 'team' is deleted"), "{closed}");
    let api = fixture.node.api();
    let who = Identity::internal(ROOT, "administrator");
    let overview = api.overview(&who).await.unwrap();
    assert_eq!((overview.queues, api.vhosts(&who).await.unwrap().len()), (0, 1), "its queues went with it");
    fixture.close();
}

/// A channel has no links to detach: the consumer is cancelled, and the next message of a publisher is refused.
#[tokio::test]
async fn a_lost_permission_ends_what_it_was_for_over_amqp_0_9_1() {
    let fixture = Fixture::open("lost-091", &[]).await;
    for (path, body) in [
        ("/api/vhosts/team", "{}"),
        ("/api/users/dora", r#"{"password":"dora","tags":""}"#),
        ("/api/permissions/team/dora", r#"{"configure":".*","write":".*","read":".*"}"#),
        ("/api/queues/team/q", "{}"),
        ("/api/exchanges/team/x", r#"{"type":"direct"}"#),
    ] {
        fixture.prepare("PUT", path, body).await;
    }
    let url: Url = format!("amqp://dora:dora@{}/team", fixture.amqp).parse().unwrap();
    let (mut reader, mut writer) = (
        verbs091::Client::open(&url, "dora").await.unwrap(),
        verbs091::Client::open(&url, "dora").await.unwrap(),
    );
    assert!(reader.ask(verbs091::Ask::Consume).await && writer.ask(verbs091::Ask::Publish).await);

    let body = r#"{"configure":".*","write":".*","read":""}"#;
    fixture.prepare("PUT", "/api/permissions/team/dora", body).await;
    reader.cancelled().await;
    assert!(!reader.ask(verbs091::Ask::Consume).await && writer.ask(verbs091::Ask::Publish).await);

    let body = r#"{"configure":".*","write":"","read":""}"#;
    fixture.prepare("PUT", "/api/permissions/team/dora", body).await;
    assert!(!writer.ask_again(verbs091::Ask::Publish).await, "the permission is checked for each message");

    fixture.prepare("DELETE", "/api/permissions/team/dora", "").await;
    for mut client in [reader, writer] {
        let closed = client.closed().await;
        assert!(closed.contains("access to vhost 'team' refused for user 'dora'"), "{closed}");
    }
}
