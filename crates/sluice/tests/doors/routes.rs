//! The routes of the management API: what each needs, and what a user gets.

use std::collections::BTreeSet;

use admin::{Action, Method, ROUTES, Route, To, Whose};
use amqp10::Value;
use broker::admin_api::MemberChange;
use broker::settings::Settings;
use catalog::access::Verb;
use client::{Connection, ReceiverOptions, SenderOptions};

use super::fixture::{Fixture, From, ROOT};
use super::{Subject, verbs091};

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
pub(super) fn bodies(route: &Route) -> Vec<(&'static str, &'static [Verb])> {
    let all = route.verbs;
    match route.action {
        Action::PutQueue => vec![("{}", &all[..2]), (r#"{"arguments":{"x-dead-letter-exchange":"x"}}"#, all)],
        Action::PutExchange => vec![("{}", &all[..2]), (r#"{"arguments":{"alternate-exchange":"y"}}"#, all)],
        Action::PutUser => vec![(r#"{"password":"p","tags":""}"#, all)],
        Action::PatchUser => vec![(r#"{"tags":""}"#, all), (r#"{"password_hash":""}"#, all)],
        Action::Publish => {
            vec![(r#"{"routing_key":"k","properties":{},"payload":"m","payload_encoding":"string"}"#, all)]
        }
        Action::GetMessages => vec![(r#"{"ackmode":"ack_requeue_true","count":1,"encoding":"auto"}"#, all)],
        Action::Move => vec![(r#"{"to_queue":"r"}"#, all)],
        Action::DeleteUsers => vec![(r#"{"users":["old"]}"#, all)],
        Action::HashPassword => vec![(r#"{"password":"p"}"#, all)],
        Action::PutParameter | Action::PutGlobalParameter => vec![(r#"{"value":1}"#, all)],
        Action::NameCluster => vec![(r#"{"name":"c"}"#, all)],
        Action::SetSetting => vec![(r#"{"value":"info"}"#, all)],
        Action::PutVhostLimit | Action::PutUserLimit => vec![(r#"{"value":100000}"#, all)],
        Action::PutTopicPermissions => vec![(r#"{"exchange":"x","write":"","read":"^a"}"#, all)],
        Action::PutPermissions => vec![(r#"{"configure":"","write":".*","read":"^$"}"#, all)],
        Action::PutTrace => vec![(r#"{"queue":"q"}"#, all)],
        Action::PutPolicy(Whose::Users) => vec![
            (r#"{"pattern":"^none$","definition":{"max-length":1}}"#, &all[..2]),
            (r#"{"pattern":"^none$","definition":{"dead-letter-exchange":"x"}}"#, all),
        ],
        Action::PutPolicy(Whose::Operators) => {
            vec![(r#"{"pattern":"^none$","definition":{"max-length":1}}"#, all)]
        }
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
        | Action::GetVhostProtection
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
        | Action::PatchUser
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
        | Action::SearchQueue
        | Action::Move
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
        | Action::ListSessionsInVhost
        | Action::ListSessionsOfConnection
        | Action::Troubles
        | Action::ExplainLink
        | Action::ExplainLinkOfVhost
        | Action::ExplainQueue
        | Action::ExplainConnection
        | Action::ExplainAddress
        | Action::Version
        | Action::ClusterName
        | Action::OpenApi
        | Action::Arguments
        | Action::EffectiveSettings
        | Action::SetSetting
        | Action::ResetSetting
        | Action::EmptyList
        | Action::Missing(_)
        | Action::ElectedLeadersNamed
        | Action::Aliveness
        | Action::DeprecatedFeatures(_)
        | Action::ListFeatureFlags
        | Action::EnableFeatureFlag
        | Action::StartVhost
        | Action::MemoryOfNode(_)
        | Action::PortListener
        | Action::ProtocolListener
        | Action::BelowConnectionLimit
        | Action::ElectedLeaders
        | Action::AlwaysHealthy
        | Action::QuorumCritical
        | Action::ClusterSize
        | Action::Alarms
        | Action::LocalAlarms
        | Action::CertificateExpiration
        | Action::Ready
        | Action::PurgeQueue
        | Action::ListPolicies(_)
        | Action::GetPolicy(_)
        | Action::PutPolicy(_) => {}
        Action::ListParameters | Action::GetParameter | Action::DeleteParameter => {
            fixture.prepare("PUT", "/api/parameters/ours/%2F/s", r#"{"value":1}"#).await;
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
        | Action::SearchQueue
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
        p if p.contains("feature-flags") => "stream_queue",
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
        ("{key}", "log.level"),
        ("{channel}", &channel),
        ("{port}", &port),
        ("{protocols}", "amqp"),
        ("{address}", "192.0.2.1"),
        ("{password}", "p"),
        ("{pattern}", "."),
        ("{position}", "1"),
        ("{component}", "ours"),
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

/// Tries each route as each user.
pub(super) async fn walk(fixture: &Fixture, subjects: &[Subject], walked: &mut BTreeSet<Verb>) {
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
    // A token has the topic permissions of its user in its scopes.
    for subject in subjects.iter().filter(|subject| !subject.has_token) {
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
        for (number, subject) in subjects.iter().enumerate() {
            // Permissions do not depend on it whether a program or the broker's own page sends the request.
            let from = if number % 2 == 0 { From::Program } else { From::OwnPage };
            for (body, verbs) in bodies(route) {
                prepare(fixture, route.action).await;
                if watched.0.error().is_some() {
                    watched = watch(fixture).await;
                }
                let connections = names_of_connections(fixture).await;
                let (method, path) =
                    (route.method.to_string(), path(route, &connections, fixture.amqp.port()));
                if route.method != Method::Get {
                    let (status, answer) =
                        fixture.ask_from(From::OtherPage, subject.name(), &method, &path, body).await;
                    assert_eq!(status, 403, "{method} {path} of another page as {subject:?}: {answer}");
                }
                let (status, answer) = fixture.ask_from(from, subject.name(), &method, &path, body).await;
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
    let mut other = verbs091::connect(&fixture.url(ROOT)).await.unwrap();
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
