//! Checks permissions at every entry point. Each AMQP verb and each HTTP route is tried against a whole node,
//! as users with every tag and every permission. The results must be what the table of permissions says.
#![forbid(unsafe_code)]

mod doors091;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use admin::{Action, ROUTES, Route, To, Whose};
use amqp10::sasl::Secret;
use amqp10::{
    Attach, Role, SenderSettleMode, Source, Symbol, Target, TargetArchetype, TerminusExpiryPolicy, Value,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use broker::access::{
    Access, Hashing, Identity, Permissions, Resource, Rights, TopicPermissions, Topics, User, Verb, permit,
};
use broker::desk::{ConnectionCursor, Desk as _, MemberChange};
use broker::pattern::Pattern;
use broker::settings::Settings;
use client::management::{Binding, Destination, ExchangeSpec, QueueSpec};
use client::{
    Connection, Credit, Error, Management, Options, ReceiverOptions, Scope, SenderOptions, Session, Url,
};
use node::{AlarmLimits, Node, NodeOptions, StorageLimits};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const TAGS: &[&str] = &["", "administrator", "monitoring", "policymaker", "management", "impersonator"];

/// A user with all permissions. It has a connection that others may or may not see.
const ROOT: &str = "root";

/// The permissions in the virtual host that are tested: each alone, none, all, and no entry for the user.
fn all_rights() -> Vec<(&'static str, Option<Permissions>)> {
    let none = || Permissions::NONE;
    vec![
        ("absent", None),
        ("none", Some(none())),
        ("configure", Some(Permissions { configure: Pattern::Everything, ..none() })),
        ("write", Some(Permissions { write: Pattern::Everything, ..none() })),
        ("read", Some(Permissions { read: Pattern::Everything, ..none() })),
        ("all", Some(Permissions::ALL)),
    ]
}

/// A user of the test.
#[derive(Clone, Debug)]
struct Subject {
    identity: Identity,
    rights: Option<Permissions>,
    topics: Topics,
}

impl Subject {
    fn all() -> Vec<Self> {
        let with_tag = |tag: &'static str| {
            all_rights().into_iter().map(move |(name, rights)| {
                let tags = Some(tag).filter(|tag| !tag.is_empty()).into_iter().map(str::to_owned);
                let user = format!("{tag}-{name}").as_str().into();
                Self {
                    identity: Identity {
                        user,
                        tags: tags.collect(),
                        is_of_catalog: true,
                        token: None,
                        remote: None,
                    },
                    rights,
                    topics: Topics::new(),
                }
            })
        };
        // Administrators with all permissions, except for keys of exchange x.
        let with_topics = [("keys-none", ["", ""]), ("keys-write", [".*", ""]), ("keys-read", ["", ".*"])];
        let with_topics = with_topics.into_iter().map(|(user, patterns)| Self {
            identity: Identity::internal(user, "administrator"),
            rights: Some(Permissions::ALL),
            topics: [("x".into(), TopicPermissions::new(patterns, user, "/").unwrap())].into(),
        });
        TAGS.iter().copied().flat_map(with_tag).chain(with_topics).collect()
    }

    fn name(&self) -> &str {
        &self.identity.user
    }

    fn user(&self) -> User {
        User {
            name: self.identity.user.clone(),
            hash: Hashing::Sha256.hash([1; 16], &Secret::new(self.name().to_owned())),
            tags: self.identity.tags.to_vec(),
            loopback_only: true,
            permissions: self.rights.clone().map(|rights| ("/".into(), rights)).into_iter().collect(),
        }
    }

    /// Returns true if the table permits the verb. The permissions of these users do not depend on names, so one queue and
    /// one exchange stand for all.
    fn may(&self, verb: Verb) -> bool {
        let on = match verb {
            Verb::ReadConnection | Verb::CloseConnection | Verb::ExplainConnection => {
                [Resource::Connection(ROOT), Resource::Connection(ROOT)]
            }
            Verb::PublishTopic | Verb::BindTopic => [Resource::Topic { exchange: "x", key: "k" }; 2],
            _ => [Resource::Queue("q"), Resource::Exchange("x")],
        };
        let rights = Rights::User { permissions: self.rights.as_ref(), topics: Some(&self.topics) };
        permit(&self.identity, rights, "/", verb, &on).is_ok()
    }
}

/// A node with all its entry points.
struct Fixture {
    node: Node,
    amqp: SocketAddr,
    http: SocketAddr,
    data_dir: std::path::PathBuf,
}

impl Fixture {
    async fn open(name: &str, subjects: &[Subject]) -> Self {
        // The test binds a queue for its link, and uses an address of format v1 to do so.
        Self::open_with(name, subjects, Settings { permit_address_v1: true, ..Settings::default() }).await
    }

    async fn open_with(name: &str, subjects: &[Subject], settings: Settings) -> Self {
        let root = Subject {
            identity: Identity::internal(ROOT, "administrator"),
            rights: Some(Permissions::ALL),
            topics: Topics::new(),
        };
        let data_dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("doors-{name}-{}", std::process::id()));
        let node = Node::start(NodeOptions {
            settings,
            access: Access::new(subjects.iter().chain([&root]).map(Subject::user)).tracking_sources(true),
            backends: None,
            shards: 2,
            data_dir: data_dir.clone(),
            alarms: AlarmLimits::default(),
            storage: StorageLimits::default(),
            reserved_descriptors: 0,
            accept_lost_definitions: false,
        })
        .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let amqp = listener.local_addr().unwrap();
        tokio::spawn(node.listen(listener));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let http = listener.local_addr().unwrap();
        let ports = admin::Ports::default();
        let router = management::router(node.desk().clone(), ports.clone());
        tokio::spawn(admin::serve(listener, None, router, ports, std::future::pending()));
        Self { node, amqp, http, data_dir }
    }

    async fn connect(&self, user: &str) -> Result<Connection, Error> {
        Connection::open(&self.url(user), Options::default()).await
    }

    fn url(&self, user: &str) -> Url {
        format!("amqp://{user}:{user}@{}", self.amqp).parse().unwrap()
    }

    async fn ask(&self, user: &str, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut socket = TcpStream::connect(self.http).await.unwrap();
        let credentials = STANDARD.encode(format!("{user}:{user}"));
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: h\r\nAuthorization: Basic {credentials}\r\n\
             Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
    }

    /// Sends a request as the user who may do everything.
    async fn prepare(&self, method: &str, path: &str, body: &str) {
        let (status, answer) = self.ask(ROOT, method, path, body).await;
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
    }

    fn close(self) {
        self.node.stop("the test is over").unwrap();
        drop(std::fs::remove_dir_all(self.data_dir));
    }
}

/// The outcome that a user sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    /// Refused, or an empty answer although there is something to show.
    Refused,
}

/// Names the node of the fixture.
const OWN_NODE: &str = r#"{"node":"sluice@localhost"}"#;

/// Bodies to send to a route, each with the verbs that it needs.
fn bodies(route: &Route) -> Vec<(&'static str, &'static [Verb])> {
    let all = route.verbs;
    match route.action {
        Action::PutQueue => vec![("{}", &all[..2]), (r#"{"arguments":{"x-dead-letter-exchange":"x"}}"#, all)],
        Action::PutExchange => vec![("{}", &all[..2]), (r#"{"arguments":{"alternate-exchange":"y"}}"#, all)],
        Action::PutUser => vec![(r#"{"password":"p","tags":""}"#, all)],
        Action::Publish => {
            vec![(r#"{"routing_key":"k","properties":{},"payload":"m","payload_encoding":"string"}"#, all)]
        }
        Action::GetMessages => vec![(r#"{"ackmode":"ack_requeue_true","count":1,"encoding":"auto"}"#, all)],
        Action::DeleteUsers => vec![(r#"{"users":["old"]}"#, all)],
        Action::HashPassword => vec![(r#"{"password":"p"}"#, all)],
        Action::PutParameter | Action::PutGlobalParameter => vec![(r#"{"value":1}"#, all)],
        Action::NameCluster => vec![(r#"{"name":"c"}"#, all)],
        Action::PutVhostLimit | Action::PutUserLimit => vec![(r#"{"value":100000}"#, all)],
        Action::PutTopicPermissions => vec![(r#"{"exchange":"x","write":"","read":"^a"}"#, all)],
        Action::PutPermissions => vec![(r#"{"configure":"","write":".*","read":"^$"}"#, all)],
        Action::PutTrace => vec![(r#"{"queue":"q"}"#, all)],
        Action::PutPolicy(_) => vec![(r#"{"pattern":"^none$","definition":{"max-length":1}}"#, all)],
        // The only member cannot be removed, but there is nothing to do on another node.
        Action::ChangeMember(MemberChange::Remove) => vec![(r#"{"node":"other"}"#, all)],
        Action::ChangeMember(MemberChange::Add | MemberChange::Lead) => vec![(OWN_NODE, all)],
        _ => vec![("{}", all)],
    }
}

/// Creates what a route needs. Each action is listed, so that the compiler finds a new one.
async fn prepare(fixture: &Fixture, action: Action) {
    match action {
        Action::Index
        | Action::Asset
        | Action::PageLogin
        | Action::Overview
        | Action::Whoami
        | Action::ListVhosts
        | Action::GetVhost
        | Action::GetDefinitions
        | Action::GetDefinitionsOfVhost
        | Action::PostDefinitions
        | Action::PostDefinitionsOfVhost
        | Action::PutParameter
        | Action::PutGlobalParameter
        | Action::NameCluster
        | Action::PutVhost
        | Action::ProtectVhost(_)
        | Action::PutVhostLimit
        | Action::DeleteVhostLimit
        | Action::PutUserLimit
        | Action::DeleteUserLimit
        | Action::ListUsers
        | Action::ListUsersWithoutPermissions
        | Action::GetUser
        | Action::PutUser
        | Action::HashPassword
        | Action::ListAuthAttempts
        | Action::ListAuthAttemptsBySource
        | Action::ResetAuthAttempts
        | Action::PermissionsOfUser
        | Action::PermissionsInVhost
        | Action::ListPermissions
        | Action::GetPermissions
        | Action::PutPermissions
        | Action::TopicPermissionsInVhost
        | Action::ListTopicPermissions
        | Action::PutTopicPermissions
        | Action::ListNodes
        | Action::GetNode
        | Action::ListQueues
        | Action::PutTrace
        | Action::GetQueue
        | Action::BrowseQueue
        | Action::PeekQueue
        | Action::Redrive
        | Action::GetMessages
        | Action::Publish
        | Action::QueueBindings
        | Action::QuorumStatus
        | Action::Checkpoint
        | Action::ReclaimMemory
        | Action::ChangeMember(_)
        | Action::Grow
        | Action::Shrink
        | Action::Rebalance
        | Action::ListExchanges
        | Action::GetExchange
        | Action::SourceBindings
        | Action::DestinationBindings
        | Action::ListBindings
        | Action::PairBindings(_)
        | Action::Bind(_)
        | Action::GetBinding(_)
        | Action::ListConnections
        | Action::ListConnectionsInVhost
        | Action::ListConnectionsOfUser
        | Action::CloseConnectionsOfUser
        | Action::ListChannels
        | Action::ListChannelsInVhost
        | Action::ListChannelsOfConnection
        | Action::GetChannel
        | Action::ListConsumers
        | Action::ListConsumersInVhost
        | Action::GetConnection
        | Action::ListSessions
        | Action::ExplainLink
        | Action::ExplainLinkOfVhost
        | Action::ExplainQueue
        | Action::ExplainConnection
        | Action::Version
        | Action::ClusterName
        | Action::OpenApi
        | Action::EmptyList
        | Action::Missing(_)
        | Action::ElectedLeadersNamed
        | Action::Aliveness
        | Action::DeprecatedFeatures(_)
        | Action::StartVhost
        | Action::MemoryOfNode(_)
        | Action::PortListener
        | Action::ProtocolListener
        | Action::BelowConnectionLimit
        | Action::ElectedLeaders
        | Action::AlwaysHealthy
        | Action::Alarms
        | Action::LocalAlarms
        | Action::CertificateExpiration
        | Action::Ready
        | Action::PurgeQueue
        | Action::ListPolicies(_)
        | Action::GetPolicy(_)
        | Action::PutPolicy(_) => {}
        Action::ListParameters | Action::GetParameter | Action::DeleteParameter => {
            fixture.prepare("PUT", "/api/parameters/shovel/%2F/s", r#"{"value":1}"#).await;
        }
        Action::ListGlobalParameters | Action::GetGlobalParameter | Action::DeleteGlobalParameter => {
            fixture.prepare("PUT", "/api/global-parameters/s", r#"{"value":1}"#).await;
        }
        Action::VhostLimits => {
            fixture.prepare("PUT", "/api/vhost-limits/%2F/max-connections", r#"{"value":100000}"#).await;
        }
        Action::UserLimits => {
            fixture.prepare("PUT", "/api/user-limits/victim/max-connections", r#"{"value":100000}"#).await;
        }
        Action::DeleteVhost => fixture.prepare("PUT", "/api/vhosts/old", "{}").await,
        Action::DeleteUser | Action::DeleteUsers => {
            fixture.prepare("PUT", "/api/users/old", r#"{"tags":""}"#).await;
        }
        Action::TopicPermissionsOfUser
        | Action::TopicPermissionsOfUserInVhost
        | Action::GetTopicPermissions
        | Action::DeleteTopicPermissions => {
            let body = r#"{"exchange":"x","write":"","read":""}"#;
            fixture.prepare("PUT", "/api/topic-permissions/%2F/victim", body).await;
        }
        Action::ListTraces | Action::GetTrace | Action::DeleteTrace => {
            fixture.prepare("PUT", "/api/traces/%2F/x", r#"{"queue":"q","seconds":3600}"#).await;
        }
        Action::DeletePermissions => {
            let body = r#"{"configure":"","write":"","read":""}"#;
            fixture.prepare("PUT", "/api/permissions/%2F/victim", body).await;
        }
        Action::PutQueue => {
            fixture.ask(ROOT, "DELETE", "/api/queues/%2F/new", "").await;
        }
        Action::DeleteQueue => fixture.prepare("PUT", "/api/queues/%2F/old", "{}").await,
        Action::PutExchange => {
            fixture.ask(ROOT, "DELETE", "/api/exchanges/%2F/new", "").await;
        }
        Action::DeleteExchange => fixture.prepare("PUT", "/api/exchanges/%2F/old", "{}").await,
        Action::Unbind(To::Queue) => fixture.prepare("POST", "/api/bindings/%2F/e/x/q/q", "{}").await,
        Action::Unbind(To::Exchange) => fixture.prepare("POST", "/api/bindings/%2F/e/x/e/y", "{}").await,
        Action::DeletePolicy(whose) => {
            let kind = if whose == Whose::Users { "policies" } else { "operator-policies" };
            let body = r#"{"pattern":"^none$","definition":{"max-length":1}}"#;
            fixture.prepare("PUT", &format!("/api/{kind}/%2F/old"), body).await;
        }
        // An earlier user may have closed the connection already.
        Action::CloseConnection => {}
    }
}

/// Returns the name of a file that the web page loads.
fn a_file_of_the_page() -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../page/dist/assets");
    let first = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().file_name();
    first.to_str().unwrap().trim_end_matches(".gz").to_owned()
}

/// The path of a route, with the names of the objects that [`prepare`] has made.
fn path(route: &Route, connections: &Connections, port: u16) -> String {
    let (queue, exchange, policy) = match route.action {
        Action::PutQueue | Action::PutExchange => ("new", "new", "p"),
        Action::DeleteQueue | Action::DeleteExchange => ("old", "old", "p"),
        Action::BrowseQueue => ("s", "x", "p"),
        Action::PeekQueue
        | Action::QuorumStatus
        | Action::Checkpoint
        | Action::ReclaimMemory
        | Action::ChangeMember(_) => ("r", "x", "p"),
        Action::DestinationBindings => ("q", "y", "p"),
        Action::DeletePolicy(_) => ("q", "x", "old"),
        _ => ("q", "x", "p"),
    };
    let file = a_file_of_the_page();
    let name = match route.path {
        "/assets/{name}" => &file,
        p if p.contains("limits") => "max-connections",
        p if p.contains("parameters") => "s",
        p if p.contains("policies") => policy,
        p if p.ends_with("/channels") => &connections.amqp091,
        p if p.contains("connections") => &connections.amqp10,
        p if p.contains("/links/") => "watched",
        p if p.contains("queues") => queue,
        _ => exchange,
    };
    let destination = if route.path.contains("/e/{destination}") { "y" } else { "q" };
    let node =
        if route.action == Action::Shrink { "other".to_owned() } else { Settings::default().node_name };
    let user = match route.action {
        Action::DeleteUser => "old",
        Action::ListConnectionsOfUser => ROOT,
        _ => "victim",
    };
    let port = port.to_string();
    let channel = format!("{}%20(1)", connections.amqp091);
    let vhost = match route.action {
        Action::PutVhost => "new",
        Action::DeleteVhost => "old",
        _ => "%2F",
    };
    let filled = [
        ("{user}", user),
        ("{channel}", &channel),
        ("{port}", &port),
        ("{protocols}", "amqp"),
        ("{password}", "p"),
        ("{pattern}", "."),
        ("{position}", "1"),
        ("{component}", "shovel"),
        ("{within}", "1"),
        ("{unit}", "months"),
        ("{exchange}", "x"),
        ("{vhost}", vhost),
        ("{node}", &node),
        ("{source}", "x"),
        ("{destination}", destination),
        ("{props}", "~"),
        ("{name}", name),
    ];
    filled.iter().fold(route.path.to_owned(), |path, (part, with)| path.replace(part, with))
}

async fn walk_routes(fixture: &Fixture, subjects: &[Subject], walked: &mut BTreeSet<Verb>) {
    for (path, body) in [
        ("/api/queues/%2F/q", "{}"),
        ("/api/queues/%2F/s", r#"{"arguments":{"x-queue-type":"stream"}}"#),
        ("/api/queues/%2F/r", r#"{"arguments":{"x-queue-type":"quorum"}}"#),
        ("/api/exchanges/%2F/x", r#"{"type":"topic"}"#),
        ("/api/exchanges/%2F/y", "{}"),
        ("/api/policies/%2F/p", r#"{"pattern":"^none$","definition":{"max-length":1}}"#),
        ("/api/operator-policies/%2F/p", r#"{"pattern":"^none$","definition":{"max-length":1}}"#),
    ] {
        fixture.prepare("PUT", path, body).await;
    }
    fixture.prepare("PUT", "/api/users/victim", r#"{"tags":[]}"#).await;
    let body = r#"{"configure":"","write":"","read":""}"#;
    fixture.prepare("PUT", "/api/permissions/%2F/victim", body).await;
    fixture.prepare("POST", "/api/bindings/%2F/e/x/q/q", "{}").await;
    fixture.prepare("POST", "/api/bindings/%2F/e/x/e/y", "{}").await;
    for subject in subjects {
        for (exchange, permissions) in &subject.topics {
            let [write, read] = permissions.patterns();
            let body =
                serde_json::json!({ "exchange": **exchange, "write": write, "read": read }).to_string();
            fixture.prepare("PUT", &format!("/api/topic-permissions/%2F/{}", subject.name()), &body).await;
        }
    }
    fill(fixture).await;
    let mut watched = watch(fixture).await;
    for route in ROUTES {
        walked.extend(route.verbs);
        for subject in subjects {
            for (body, verbs) in bodies(route) {
                prepare(fixture, route.action).await;
                if watched.0.error().is_some() {
                    watched = watch(fixture).await;
                }
                let connections = names_of_connections(fixture).await;
                let (method, path) =
                    (route.method.to_string(), path(route, &connections, fixture.amqp.port()));
                let (status, answer) = fixture.ask(subject.name(), &method, &path, body).await;
                let outcome = match status {
                    401 | 404 => Outcome::Refused,
                    _ if answer.trim() == "[]" && !may_be_empty(route.action) => Outcome::Refused,
                    200..300 => Outcome::Done,
                    501 if matches!(route.action, Action::Missing(_)) => Outcome::Done,
                    // Any other status means that the request was permitted but wrong.
                    _ => panic!("{method} {path} {body} as {subject:?}: {status} {answer}"),
                };
                let may = verbs.iter().all(|verb| subject.may(*verb));
                let expected = if may { Outcome::Done } else { Outcome::Refused };
                let shown = format!("{method} {path} {body} as {subject:?}: {status} {answer}");
                assert_eq!(outcome, expected, "{shown}");
                let by_tag = verbs.iter().filter(|verb| verb.is_by_tag()).all(|verb| subject.may(*verb));
                assert!(by_tag || status == 401, "{shown}");
                match route.action {
                    Action::CloseConnection if outcome == Outcome::Done => drop(watched.0.closed().await),
                    // Whoever adds a virtual host may do everything in it, and would see more than the table says.
                    Action::PutVhost if outcome == Outcome::Done => {
                        fixture.prepare("DELETE", "/api/vhosts/new", "").await;
                    }
                    _ => {}
                }
            }
        }
    }
}

/// Returns true if the list is empty also when it is permitted: the stream and the queue are empty, and the broker has no features
/// of these kinds, or nobody has used them.
fn may_be_empty(action: Action) -> bool {
    use Action::{BrowseQueue, DeprecatedFeatures, EmptyList, GetMessages};
    matches!(action, BrowseQueue | GetMessages | EmptyList | DeprecatedFeatures(true))
}

/// Sends a message to the quorum queue, so that its group runs and there is something to peek at.
async fn fill(fixture: &Fixture) {
    let connection = fixture.connect(ROOT).await.unwrap();
    let session = connection.session().await.unwrap();
    let sender = session.sender(Some("/queues/r"), SenderOptions::default()).await.unwrap();
    sender.send(client::Message::value(Value::from("m")).encode()).await.unwrap();
    connection.close().await.unwrap();
}

/// Opens a connection with a link, and one with a channel. Some users may see them.
async fn watch(fixture: &Fixture) -> (Connection, client::amqp091::Connection) {
    let connection = fixture.connect(ROOT).await.unwrap();
    let session = connection.session().await.unwrap();
    let name = Some("watched".to_owned());
    let receiver =
        session.receiver(Some("/queues/q"), ReceiverOptions { name, ..Default::default() }).await.unwrap();
    std::mem::forget((session, receiver));
    let mut other = doors091::connect(&fixture.url(ROOT)).await.unwrap();
    other.open_channel(1).await.unwrap();
    (connection, other)
}

/// The names of the connections of [`watch`], as they are written in paths.
struct Connections {
    amqp10: String,
    amqp091: String,
}

async fn names_of_connections(fixture: &Fixture) -> Connections {
    let (_, rows) = fixture.ask(ROOT, "GET", "/api/connections?columns=name,protocol", "").await;
    let rows: serde_json::Value = serde_json::from_str(&rows).unwrap();
    let name = |protocol: &str| {
        let row = rows.as_array().unwrap().iter().find(|row| row["protocol"] == protocol);
        let name = row.and_then(|row| row["name"].as_str()).unwrap_or("none");
        name.replace(' ', "%20").replace('>', "%3E")
    };
    Connections { amqp10: name("AMQP 1-0"), amqp091: name("AMQP 0-9-1") }
}

/// The AMQP 1.0 requests that are tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    Attach,
    Publish,
    PublishAnonymously,
    Consume,
    TakeReplies,
    OwnSource,
    OwnTarget,
    OwnBoundSource,
    GetQueue,
    PutQueue,
    PutQueueWithDeadLetters,
    DeleteQueue,
    PurgeQueue,
    PutExchange,
    PutExchangeWithAlternate,
    DeleteExchange,
    PostBinding,
    DeleteBinding,
    GetBindings,
}

const ASKS: &[(Ask, &[Verb])] = &[
    (Ask::Attach, &[Verb::Publish]),
    (Ask::Publish, &[Verb::Publish, Verb::PublishTopic]),
    (Ask::PublishAnonymously, &[Verb::Publish, Verb::PublishTopic]),
    (Ask::Consume, &[Verb::Consume]),
    (Ask::TakeReplies, &[Verb::Consume]),
    (Ask::OwnSource, &[Verb::DeclareQueue, Verb::Consume]),
    (Ask::OwnTarget, &[Verb::DeclareQueue, Verb::Publish]),
    (Ask::OwnBoundSource, &[Verb::DeclareQueue, Verb::Consume, Verb::Bind, Verb::BindTopic]),
    (Ask::GetQueue, &[Verb::Inspect]),
    (Ask::PutQueue, &[Verb::DeclareQueue]),
    (Ask::PutQueueWithDeadLetters, &[Verb::DeclareQueue, Verb::DeadLetterTo]),
    (Ask::DeleteQueue, &[Verb::DeleteQueue]),
    (Ask::PurgeQueue, &[Verb::PurgeQueue]),
    (Ask::PutExchange, &[Verb::DeclareExchange]),
    (Ask::PutExchangeWithAlternate, &[Verb::DeclareExchange, Verb::AlternateTo]),
    (Ask::DeleteExchange, &[Verb::DeleteExchange]),
    (Ask::PostBinding, &[Verb::Bind, Verb::BindTopic]),
    (Ask::DeleteBinding, &[Verb::Unbind, Verb::BindTopic]),
    (Ask::GetBindings, &[Verb::InspectBindings]),
];

async fn ask(session: &Session, what: Ask) -> Result<(), Error> {
    let own = |capability: &'static str| vec![Symbol::from_static(capability)];
    let binding = Binding::to_queue("x", "q", "k");
    match what {
        Ask::Attach => drop(session.sender(Some("/exchanges/x/k"), SenderOptions::default()).await?),
        Ask::Publish => {
            let sender = session.sender(Some("/exchanges/x/k"), SenderOptions::default()).await?;
            drop(sender.send(client::Message::value(Value::from("m")).encode()).await?);
        }
        Ask::PublishAnonymously => {
            let sender = session.sender(None, SenderOptions::default()).await?;
            let message = client::Message::value(Value::from("m")).to("/exchanges/x/k");
            drop(sender.send(message.encode()).await?);
        }
        Ask::Consume => drop(session.receiver(Some("/queues/q"), ReceiverOptions::default()).await?),
        Ask::TakeReplies => {
            let mut attach = Attach::new("replies".to_owned(), 0, Role::Receiver);
            attach.snd_settle_mode = SenderSettleMode::Settled;
            attach.source = Some(Source {
                dynamic: true,
                expiry_policy: TerminusExpiryPolicy::LinkDetach,
                capabilities: own("rabbitmq:volatile-queue"),
                ..Source::default()
            });
            attach.target = Some(TargetArchetype::Target(Target::default()));
            drop(session.receiver_with(attach, Credit::Manual).await?);
        }
        Ask::OwnSource => {
            let capabilities = own("temporary-queue");
            let options = ReceiverOptions { dynamic: true, capabilities, ..Default::default() };
            drop(session.receiver(None, options).await?);
        }
        Ask::OwnTarget => {
            let capabilities = own("temporary-queue");
            drop(
                session
                    .sender(None, SenderOptions { dynamic: true, capabilities, ..Default::default() })
                    .await?,
            );
        }
        Ask::OwnBoundSource => {
            drop(session.receiver(Some("/exchange/x/k"), ReceiverOptions::default()).await?);
        }
        Ask::GetQueue => {
            let _ = Management::open(session).await?.queue_info("q").await?;
        }
        Ask::PutQueue => {
            {
                let _ = Management::open(session).await?.declare_queue("q", &QueueSpec::default()).await?;
            };
        }
        Ask::PutQueueWithDeadLetters => {
            let spec = QueueSpec::default().argument("x-dead-letter-exchange", "x");
            {
                let _ = Management::open(session).await?.declare_queue("d", &spec).await?;
            };
        }
        Ask::DeleteQueue => {
            let _ = Management::open(session).await?.delete_queue("absent").await?;
        }
        Ask::PurgeQueue => {
            let _ = Management::open(session).await?.purge_queue("q").await?;
        }
        Ask::PutExchange => {
            {
                let spec = ExchangeSpec { kind: "topic".into(), ..ExchangeSpec::default() };
                let _ = Management::open(session).await?.declare_exchange("x", &spec).await?;
            };
        }
        Ask::PutExchangeWithAlternate => {
            let mut spec = ExchangeSpec::default();
            spec.arguments.insert("alternate-exchange", "y");
            {
                let _ = Management::open(session).await?.declare_exchange("a", &spec).await?;
            };
        }
        Ask::DeleteExchange => {
            let _ = Management::open(session).await?.delete_exchange("absent").await?;
        }
        Ask::PostBinding => {
            let _ = Management::open(session).await?.bind(&binding).await?;
        }
        Ask::DeleteBinding => {
            let path = "/bindings/src=x;dstq=q;key=absent;args=";
            {
                let _ = Management::open(session).await?.request("DELETE", path, Value::Null).await?;
            };
        }
        Ask::GetBindings => {
            let to = Destination::Queue("q".to_owned());
            {
                let _ = Management::open(session).await?.bindings("x", &to, "k").await?;
            };
        }
    }
    Ok(())
}

/// Returns true if the session was ended, which is how a missing permission is reported
/// (docs/compatibility.md, Error conditions).
fn is_refused(error: &Error) -> bool {
    match error {
        Error::Remote { scope: Scope::Session, error } => {
            error.condition.as_str() == "amqp:unauthorized-access"
        }
        other => panic!("another refusal: {other:?}"),
    }
}

async fn walk_amqp(fixture: &Fixture, subjects: &[Subject], walked: &mut BTreeSet<Verb>) {
    walked.insert(Verb::OpenVhost);
    for subject in subjects {
        let connection = match fixture.connect(subject.name()).await {
            Ok(connection) => connection,
            Err(refused) => {
                assert_eq!(refused.condition(), Some("amqp:unauthorized-access"), "{subject:?}: {refused}");
                assert!(!subject.may(Verb::OpenVhost), "{subject:?}");
                continue;
            }
        };
        assert!(subject.may(Verb::OpenVhost), "{subject:?}");
        for (what, verbs) in ASKS {
            walked.extend(*verbs);
            let session = connection.session().await.unwrap();
            let result = ask(&session, *what).await;
            let may = verbs.iter().all(|verb| subject.may(*verb));
            let refused = result.as_ref().is_err_and(is_refused);
            assert_eq!(refused, !may, "{what:?} as {subject:?}: {result:?}");
            if !refused {
                session.end().await.unwrap();
            }
        }
        connection.close().await.unwrap();
    }
}

/// The same for AMQP 0.9.1: each request as each user, on a channel of its own.
async fn walk_amqp091(fixture: &Fixture, subjects: &[Subject], walked: &mut BTreeSet<Verb>) {
    for subject in subjects {
        let client = doors091::Client::open(&fixture.url(subject.name()), subject.name()).await;
        assert_eq!(client.is_some(), subject.may(Verb::OpenVhost), "{subject:?}");
        let Some(mut client) = client else { continue };
        for (what, verbs) in doors091::ASKS {
            walked.extend(*verbs);
            let may = verbs.iter().all(|verb| subject.may(*verb));
            assert_eq!(client.ask(*what).await, may, "{what:?} as {subject:?}");
        }
    }
}

/// The metrics and the samples read rows through the desk, the front end of management requests.
async fn walk_metrics(fixture: &Fixture, subjects: &[Subject], walked: &mut BTreeSet<Verb>) {
    walked.insert(Verb::ReadAllStatistics);
    let desk = fixture.node.desk();
    for subject in subjects {
        let who = &subject.identity;
        let read = [
            desk.queue_rows(who, 0, 1).await.is_ok(),
            desk.sampled_queues(who, &[]).await.is_ok(),
            desk.sampled_connections(who, Arc::default()).await.is_ok(),
            desk.connection_rows(who, ConnectionCursor::default()).await.is_ok(),
            desk.exchange_rows(who).await.is_ok(),
        ];
        assert_eq!(read, [subject.may(Verb::ReadAllStatistics); 5], "{subject:?}");
    }
    assert!(desk.queue_rows(&Identity::metrics_reader(), 0, 1).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doors_do_what_the_table_says() {
    let subjects = Subject::all();
    let fixture = Fixture::open("table", &subjects).await;
    let mut walked = BTreeSet::new();
    walk_routes(&fixture, &subjects, &mut walked).await;
    walk_amqp(&fixture, &subjects, &mut walked).await;
    walk_amqp091(&fixture, &subjects, &mut walked).await;
    walk_metrics(&fixture, &subjects, &mut walked).await;
    let missing: Vec<&Verb> = Verb::ALL.iter().filter(|verb| !walked.contains(verb)).collect();
    assert!(missing.is_empty(), "no door was walked through for {missing:?}");
    fixture.close();
}

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
    let desk = fixture.node.desk();
    let who = Identity::internal(ROOT, "administrator");
    let overview = desk.overview(&who).await.unwrap();
    assert_eq!((overview.queues, desk.vhosts(&who).await.unwrap().len()), (0, 1), "its queues went with it");
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
        doors091::Client::open(&url, "dora").await.unwrap(),
        doors091::Client::open(&url, "dora").await.unwrap(),
    );
    assert!(reader.ask(doors091::Ask::Consume).await && writer.ask(doors091::Ask::Publish).await);

    let body = r#"{"configure":".*","write":".*","read":""}"#;
    fixture.prepare("PUT", "/api/permissions/team/dora", body).await;
    reader.cancelled().await;
    assert!(!reader.ask(doors091::Ask::Consume).await && writer.ask(doors091::Ask::Publish).await);

    let body = r#"{"configure":".*","write":"","read":""}"#;
    fixture.prepare("PUT", "/api/permissions/team/dora", body).await;
    assert!(!writer.ask_again(doors091::Ask::Publish).await, "the permission is checked for each message");

    fixture.prepare("DELETE", "/api/permissions/team/dora", "").await;
    for mut client in [reader, writer] {
        let closed = client.closed().await;
        assert!(closed.contains("access to vhost 'team' refused for user 'dora'"), "{closed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_and_sessions_are_limited() {
    let fixture = Fixture::open("limits", &[]).await;
    fixture.prepare("PUT", "/api/users/dora", r#"{"password":"dora","tags":""}"#).await;
    let body = r#"{"configure":"","write":"","read":""}"#;
    fixture.prepare("PUT", "/api/permissions/%2F/dora", body).await;
    fixture.prepare("PUT", "/api/user-limits/dora/max-connections", r#"{"value":1}"#).await;
    fixture.prepare("PUT", "/api/user-limits/dora/max-channels", r#"{"value":2}"#).await;
    let first = fixture.connect("dora").await.unwrap();
    let refused = fixture.connect("dora").await.err().unwrap();
    assert_eq!(refused.condition(), Some("amqp:resource-limit-exceeded"));
    let reason = "connection refused for user 'dora': user connection limit (1) is reached";
    assert!(refused.to_string().contains(reason), "{refused}");

    let sessions = [first.session().await.unwrap(), first.session().await.unwrap()];
    let refused = match first.session().await {
        Ok(third) => third.closed().await.to_string(),
        Err(refused) => refused.to_string(),
    };
    assert!(
        refused.contains("session refused for user 'dora': user channel limit (2) is reached"),
        "{refused}"
    );
    let [ended, _open] = sessions;
    ended.end().await.unwrap();
    let again = first.session().await.unwrap();
    assert!(
        again
            .receiver(Some("/queues/absent"), ReceiverOptions::default())
            .await
            .is_err_and(|e| is_refused(&e))
    );

    // A connection that ends makes room.
    first.close().await.unwrap();
    let second = fixture.connect("dora").await.unwrap();
    fixture.prepare("PUT", "/api/vhost-limits/%2F/max-connections", r#"{"value":1}"#).await;
    let refused = fixture.connect(ROOT).await.err().unwrap().to_string();
    let reason = "access to vhost '/' refused for user 'root': connection limit (1) is reached";
    assert!(refused.contains(reason), "{refused}");
    second.close().await.unwrap();
    fixture.connect(ROOT).await.unwrap().close().await.unwrap();
    fixture.close();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sessions_of_the_node_are_limited() {
    let settings = Settings { session_max: Some(2), ..Settings::default() };
    let fixture = Fixture::open_with("sessions", &[], settings).await;
    let (first, second) = (fixture.connect(ROOT).await.unwrap(), fixture.connect(ROOT).await.unwrap());
    let _sessions = [first.session().await.unwrap(), second.session().await.unwrap()];
    let refused = match second.session().await {
        Ok(third) => third.closed().await.to_string(),
        Err(refused) => refused.to_string(),
    };
    let reason =
        "number of channels opened on node 'sluice@localhost' has reached the maximum allowed limit of 2";
    assert!(refused.contains("amqp:resource-limit-exceeded") && refused.contains(reason), "{refused}");
    first.close().await.unwrap();
    let session = second.session().await.unwrap();
    session.end().await.unwrap();
    fixture.close();
}
