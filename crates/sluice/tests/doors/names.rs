//! Names that are capabilities: whoever knows the name of a dynamic node or of a reply link may send replies there.

use std::collections::BTreeSet;

use amqp10::{
    Attach, DeliveryState, Role, SenderSettleMode, Source, Symbol, Target, TargetArchetype,
    TerminusExpiryPolicy,
};
use amqp091::{Event, Method, QueueDeclare, QueueDeclareOk};
use client::{Connection, Credit, Receiver, ReceiverOptions, SenderOptions, Session};

use super::fixture::{Fixture, ROOT};
use super::verbs091;

/// The characters of 96 random bits, in base64url.
const KEY_CHARS: usize = 16;

/// How many names of each kind are compared.
const NAMES: usize = 50;

/// Checks that each name ends with a key of its own, and that their first characters differ, too. Returns what comes before the
/// keys.
fn befores(names: &[String]) -> BTreeSet<&str> {
    let keys: BTreeSet<&str> = names.iter().map(|name| &name[name.len() - KEY_CHARS..]).collect();
    assert_eq!(keys.len(), names.len(), "{names:?}");
    let ours = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    assert!(keys.iter().all(|key| key.chars().all(ours)), "{names:?}");
    let firsts: BTreeSet<&str> = keys.iter().map(|key| &key[..4]).collect();
    assert!(firsts.len() > names.len() / 2, "the beginning of a key is as random as its end: {firsts:?}");
    names.iter().map(|name| &name[..name.len() - KEY_CHARS]).collect()
}

fn address(receiver: &Receiver) -> String {
    let source = receiver.remote_attach().source.as_ref().unwrap();
    source.address.clone().unwrap().trim_start_matches("/queues/").to_owned()
}

/// Attaches a link to a queue of its own. All have the same name.
async fn dynamic(session: &Session) -> Receiver {
    let capabilities = vec![Symbol::from_static("temporary-queue")];
    let name = Some("rpc".to_owned());
    let options = ReceiverOptions { name, dynamic: true, capabilities, ..ReceiverOptions::default() };
    session.receiver(None, options).await.unwrap()
}

/// Attaches a link that takes replies.
async fn replies(session: &Session) -> Receiver {
    let mut attach = Attach::new("replies".to_owned(), 0, Role::Receiver);
    attach.snd_settle_mode = SenderSettleMode::Settled;
    attach.source = Some(Source {
        dynamic: true,
        expiry_policy: TerminusExpiryPolicy::LinkDetach,
        capabilities: vec![Symbol::from_static("rabbitmq:volatile-queue")],
        ..Source::default()
    });
    attach.target = Some(TargetArchetype::Target(Target::default()));
    session.receiver_with(attach, Credit::Auto(10)).await.unwrap()
}

/// Asks for a queue that the broker names.
async fn generated(client: &mut client::amqp091::Connection) -> String {
    client.send(1, &Method::QueueDeclare(QueueDeclare { exclusive: true, ..QueueDeclare::default() }));
    let mut name = None;
    while name.is_none() {
        let hear = |event: Event<'_>| {
            if let Event::Method { method: Method::QueueDeclareOk(QueueDeclareOk { queue, .. }), .. } = event
            {
                name = Some(queue.to_owned());
            }
        };
        client.exchange(hear).await.unwrap();
    }
    name.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_can_guess_a_name_that_is_a_capability() {
    let fixture = Fixture::open("names", &[]).await;
    let connection = fixture.connect(ROOT).await.unwrap();
    let mut client = verbs091::connect(&fixture.url(ROOT)).await.unwrap();
    client.open_channel(1).await.unwrap();
    let (mut of_queues, mut of_replies, mut of_091) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..NAMES {
        let session = connection.session().await.unwrap();
        of_queues.push(address(&dynamic(&session).await));
        of_replies.push(address(&replies(&session).await));
        of_091.push(generated(&mut client).await);
        session.end().await.unwrap();
    }
    let before = befores(&of_queues);
    let before: Vec<_> = before.iter().collect();
    assert!(
        matches!(before[..], [name] if name.starts_with("amq.dyn-") && name.ends_with("-rpc-")),
        "{before:?}"
    );
    assert_eq!(befores(&of_091), ["amq.gen-"].into());

    // The name of a reply link also says which node and which of its starts it belongs to.
    let (_, overview) = fixture.ask(ROOT, "GET", "/api/nodes?columns=node_id,boots", "").await;
    let overview: serde_json::Value = serde_json::from_str(&overview).unwrap();
    let node = &overview[0]["node_id"].as_str().unwrap()[..8];
    let boot = overview[0]["boots"].as_u64().unwrap();
    let here = format!("amq.rabbitmq.reply-to.{node}.{boot:08x}.");
    let outlets = befores(&of_replies);
    assert!(
        outlets.iter().all(|name| name.starts_with(&here) && name.len() == here.len() + 17),
        "{outlets:?}"
    );
    fixture.close();
}

/// Returns names that differ from this one in one character of each of its parts.
fn changed(name: &str) -> Vec<String> {
    let prefix = "amq.rabbitmq.reply-to.".len();
    let digits = |from: usize| {
        let other = if &name[from..=from] == "1" { "0" } else { "1" };
        format!("{}{other}{}", &name[..from], &name[from + 1..])
    };
    // The last digits of node, boot and outlet, and each character of the key.
    let parts = [prefix + 7, prefix + 16, prefix + 33];
    parts.into_iter().chain(prefix + 35..name.len()).map(digits).collect()
}

async fn send(connection: &Connection, to: &str, body: &'static str) -> DeliveryState {
    let session = connection.session().await.unwrap();
    let sender = session.sender(None, SenderOptions::default()).await.unwrap();
    let message = client::Message::data(body).to(format!("/queues/{to}"));
    let outcome = sender.send(message.encode()).await.unwrap();
    session.end().await.unwrap();
    outcome
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_name_reaches_nobody_and_tells_nothing() {
    let fixture = Fixture::open("changed-names", &[]).await;
    let (requester, forger) = (fixture.connect(ROOT).await.unwrap(), fixture.connect(ROOT).await.unwrap());
    let session = requester.session().await.unwrap();
    let ended = requester.session().await.unwrap();
    let gone = address(&replies(&ended).await);
    ended.end().await.unwrap();
    let receiver = replies(&session).await;
    let name = address(&receiver);
    for guess in changed(&name).iter().chain([&gone]) {
        assert_eq!(send(&forger, guess, "forged").await, DeliveryState::Accepted, "as any other: {guess}");
        let session = forger.session().await.unwrap();
        let address = format!("/queues/{guess}");
        let refused = session.sender(Some(&address), SenderOptions::default()).await.err().unwrap();
        assert_eq!(refused.condition(), Some("amqp:not-found"), "{refused}");
        let refused = session.receiver(Some(&address), ReceiverOptions::default()).await.err().unwrap();
        assert_eq!(refused.condition(), Some("amqp:not-found"), "{refused}");
        session.end().await.unwrap();
    }
    send(&forger, &name, "known").await;
    let first = client::Message::decode(&receiver.recv().await.unwrap().message).unwrap();
    assert_eq!(
        first.body,
        client::Body::Data(vec!["known".into()]),
        "the first reply is the one to its name"
    );
    fixture.close();
}
