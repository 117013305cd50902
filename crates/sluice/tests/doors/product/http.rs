//! The routes of the management API that name an object.

use admin::{Action, Method, ROUTES, Route, To, Whose};
use broker::settings::Settings;

use super::Asked;
use super::model::{Answer, Does, Kind, Question, State, Vhost};
use super::world::{self, GROUP, KEY, SINK, SOURCE, STREAM, TARGET, World};
use crate::doors::routes;

/// Returns what a route does to an object, once for each object that it names. None for a route that names no object, or whose
/// object the broker does not have.
fn rules(route: &Route) -> Vec<(Kind, Does)> {
    use Does::*;
    let names_user = route.path.contains("{user}");
    match route.action {
        Action::GetVhost | Action::GetVhostProtection | Action::Aliveness => vec![(Kind::Vhost, See)],
        Action::ListConnectionsInVhost
        | Action::ListSessionsInVhost
        | Action::ListChannelsInVhost
        | Action::ListConsumersInVhost => vec![(Kind::Vhost, See)],
        Action::VhostLimits if route.path.contains("{vhost}") => vec![(Kind::Vhost, See)],
        Action::ListQueues
        | Action::ListExchanges
        | Action::ListBindings
        | Action::ListPolicies(_)
        | Action::ElectedLeaders
        | Action::ElectedLeadersNamed
            if route.path.contains("{vhost}") =>
        {
            vec![(Kind::Vhost, List)]
        }
        Action::PutVhost => vec![(Kind::Vhost, AdminSet)],
        Action::DeleteVhost => vec![(Kind::Vhost, AdminDelete)],
        // Definitions without anything in them change nothing.
        Action::PermissionsInVhost
        | Action::TopicPermissionsInVhost
        | Action::GetDefinitionsOfVhost
        | Action::PostDefinitionsOfVhost => vec![(Kind::Vhost, AdminSee)],
        Action::ProtectVhost(_) | Action::PutVhostLimit | Action::DeleteVhostLimit => {
            vec![(Kind::Vhost, AdminChange)]
        }
        Action::StartVhost => vec![(Kind::Vhost, AdminSee)],
        Action::ListTraces | Action::ListParameters if route.path.contains("{vhost}") => {
            vec![(Kind::Vhost, AdminSee)]
        }
        Action::GetParameter => vec![(Kind::Parameter, AdminSee)],
        Action::PutParameter => vec![(Kind::Parameter, AdminSet)],
        Action::DeleteParameter => vec![(Kind::Parameter, AdminDelete)],
        Action::GetTrace => vec![(Kind::Trace, AdminSee)],
        Action::PutTrace => vec![(Kind::Trace, AdminSet)],
        Action::DeleteTrace => vec![(Kind::Trace, AdminDelete)],
        Action::UserLimits if names_user => vec![(Kind::User, AdminSee)],
        Action::PatchUser | Action::PutUserLimit | Action::DeleteUserLimit => vec![(Kind::User, AdminChange)],
        Action::GetUser
        | Action::PermissionsOfUser
        | Action::TopicPermissionsOfUser
        | Action::TopicPermissionsOfUserInVhost
        | Action::GetTopicPermissions
        | Action::GetPermissions => vec![(Kind::User, AdminSee)],
        Action::PutUser => vec![(Kind::User, AdminSet)],
        Action::DeleteUser | Action::DeletePermissions | Action::DeleteTopicPermissions => {
            vec![(Kind::User, AdminDelete)]
        }
        Action::PutPermissions | Action::PutTopicPermissions => vec![(Kind::User, AdminChange)],
        Action::GetQueue => vec![(Kind::Queue, See)],
        Action::QuorumStatus => vec![(Kind::Queue, SeeGroup)],
        Action::QueueBindings => vec![(Kind::Queue, List)],
        Action::PutQueue => vec![(Kind::Queue, Declare)],
        Action::DeleteQueue => vec![(Kind::Queue, Delete)],
        Action::PurgeQueue => vec![(Kind::Queue, Purge)],
        Action::BrowseQueue => vec![(Kind::Queue, Browse)],
        Action::GetMessages => vec![(Kind::Queue, Take)],
        Action::PeekQueue => vec![(Kind::Queue, Peek)],
        Action::SearchQueue => vec![(Kind::Queue, Search)],
        Action::Move | Action::Redrive => vec![(Kind::Queue, Move)],
        Action::ExplainQueue => vec![(Kind::Queue, Explain)],
        Action::Checkpoint | Action::ReclaimMemory | Action::ChangeMember(_) => vec![(Kind::Queue, Maintain)],
        Action::GetExchange => vec![(Kind::Exchange, See)],
        Action::PutExchange => vec![(Kind::Exchange, Declare)],
        Action::DeleteExchange => vec![(Kind::Exchange, Delete)],
        Action::Publish => vec![(Kind::Exchange, Publish)],
        Action::SourceBindings | Action::DestinationBindings => vec![(Kind::Exchange, List)],
        Action::PairBindings(to) => both(to, List),
        Action::Bind(to) => both(to, Bind),
        Action::GetBinding(to) => both(to, See),
        Action::Unbind(to) => both(to, Unbind),
        Action::GetPolicy(Whose::Users) => vec![(Kind::Policy, See)],
        Action::PutPolicy(Whose::Users) => vec![(Kind::Policy, SetPolicy)],
        Action::DeletePolicy(Whose::Users) => vec![(Kind::Policy, ClearPolicy)],
        Action::GetPolicy(Whose::Operators) => vec![(Kind::OperatorPolicy, See)],
        Action::PutPolicy(Whose::Operators) => vec![(Kind::OperatorPolicy, SetOperatorPolicy)],
        Action::DeletePolicy(Whose::Operators) => vec![(Kind::OperatorPolicy, ClearOperatorPolicy)],
        Action::GetConnection
        | Action::ListSessionsOfConnection
        | Action::ListChannelsOfConnection
        | Action::GetChannel => vec![(Kind::Connection, See)],
        Action::CloseConnection => vec![(Kind::Connection, Close)],
        Action::ListConnectionsOfUser => vec![(Kind::Connection, List)],
        Action::CloseConnectionsOfUser => vec![(Kind::Connection, CloseAll)],
        Action::ExplainLink | Action::ExplainLinkOfVhost | Action::ExplainConnection => {
            vec![(Kind::Connection, Explain)]
        }
        _ => Vec::new(),
    }
}

fn both(to: To, does: Does) -> Vec<(Kind, Does)> {
    match to {
        To::Queue => vec![(Kind::ToQueue, does), (Kind::FromExchange, does)],
        To::Exchange => vec![(Kind::ToExchange, does), (Kind::ExchangeToExchange, does)],
    }
}

/// Routes with a name that is no object's: of a node, a file, a setting, or something that the broker does not have.
fn names_no_object(route: &Route) -> bool {
    let is_other = matches!(
        route.action,
        Action::EmptyList
            | Action::Missing(_)
            | Action::Asset
            | Action::EnableFeatureFlag
            | Action::ListParameters
            | Action::GetGlobalParameter
            | Action::PutGlobalParameter
            | Action::DeleteGlobalParameter
            | Action::HashPassword
            | Action::ListAuthAttempts
            | Action::ListAuthAttemptsBySource
            | Action::ResetAuthAttempts
            | Action::GetNode
            | Action::MemoryOfNode(_)
            | Action::SetSetting
            | Action::ResetSetting
            | Action::Grow
            | Action::Shrink
            | Action::ExplainAddress
            | Action::CertificateExpiration
            | Action::PortListener
            | Action::ProtocolListener
            | Action::ElectedLeadersNamed
            | Action::AlwaysHealthy
    );
    is_other || !route.path.contains('{')
}

/// The states in which an object is asked about.
pub(super) fn states(kind: Kind, vhost: Vhost) -> &'static [State] {
    use State::*;
    match (kind, vhost) {
        (Kind::Connection, Vhost::Closing) => &[],
        (Kind::Connection, Vhost::Absent) => &[Absent],
        (Kind::Connection, Vhost::Deleted) => &[],
        (Kind::Connection, _) => &[There, Absent],
        (Kind::User, Vhost::Default) => &[There, Absent, Deleted],
        (Kind::User, _) => &[],
        (Kind::Vhost, _) | (_, Vhost::Absent | Vhost::Deleted) => &[There],
        (Kind::Queue | Kind::ToQueue, Vhost::Default) => &[There, Exclusive, Damaged, Absent, Deleted],
        (Kind::Queue | Kind::ToQueue, Vhost::Foreign | Vhost::Team) => &[There, Exclusive, Absent, Deleted],
        (
            Kind::Exchange | Kind::FromExchange | Kind::ToExchange | Kind::ExchangeToExchange,
            Vhost::Default,
        ) => &[There, Internal, Default, Predeclared, Absent, Deleted],
        (_, Vhost::Closing) => &[There, Absent],
        _ => &[There, Absent, Deleted],
    }
}

/// Returns each route that names an object, with what it does to it.
pub(super) fn asks() -> Vec<(&'static Route, Kind, Does)> {
    let mut asks = Vec::new();
    for route in ROUTES {
        let rules = rules(route);
        assert!(!rules.is_empty() || names_no_object(route), "{} {} has no rule", route.method, route.path);
        asks.extend(rules.into_iter().map(|(kind, does)| (route, kind, does)));
    }
    asks
}

/// Returns the name of the object. What is there is a queue of the type that the route is for.
fn name(world: &World, route: &Route, question: &Question) -> String {
    let Question { kind, vhost, state, does, .. } = *question;
    if kind == Kind::Connection {
        let watched = world.watched.get(&vhost).filter(|_| state == State::There);
        return match (route.action, watched) {
            (Action::ExplainLink | Action::ExplainLinkOfVhost, Some(_)) => world::link(vhost).to_owned(),
            (Action::ListChannelsOfConnection, Some(watched)) => watched.name_091.clone(),
            (Action::GetChannel, Some(watched)) => format!("{} (1)", watched.name_091),
            (_, Some(watched)) => watched.name_10.clone(),
            (_, None) => "127.0.0.1:1 -> 127.0.0.1:2 (1)".to_owned(),
        };
    }
    match does {
        Does::Browse if state == State::There => STREAM.to_owned(),
        Does::Maintain | Does::SeeGroup if state == State::There => GROUP.to_owned(),
        _ => world.name(kind, state),
    }
}

/// Returns the path of a request for an object of this name.
fn path(route: &Route, question: &Question, name: &str) -> String {
    let Question { kind, vhost, .. } = *question;
    let (source, destination) = match kind {
        Kind::ToQueue | Kind::ToExchange => (SOURCE, name),
        Kind::FromExchange => (name, TARGET),
        Kind::ExchangeToExchange => (name, SINK),
        _ => ("", ""),
    };
    let encoded = name.replace(' ', "%20").replace('>', "%3E");
    let shown = match route.action {
        Action::PutVhostLimit | Action::DeleteVhostLimit | Action::PutUserLimit | Action::DeleteUserLimit => {
            "max-connections"
        }
        _ => &encoded,
    };
    let user = if kind == Kind::User { name } else { "zz-there" };
    let node = Settings::default().node_name;
    let filled = [
        ("{vhost}", vhost.segment()),
        ("{name}", shown),
        ("{source}", source),
        ("{destination}", destination),
        ("{props}", KEY),
        ("{position}", "1"),
        ("{user}", user),
        ("{exchange}", "amq.topic"),
        ("{channel}", &encoded),
        ("{component}", "ours"),
        ("{pattern}", "."),
        ("{node}", &node),
    ];
    filled.iter().fold(route.path.to_owned(), |path, (part, with)| path.replace(part, with))
}

fn body(route: &Route, question: &Question) -> String {
    match route.action {
        Action::PutExchange => world::exchange_body(question.state).to_owned(),
        Action::Bind(_) => format!(r#"{{"routing_key":"{KEY}"}}"#),
        Action::Move => format!(r#"{{"to_queue":"{TARGET}"}}"#),
        Action::PutTrace => world::TRACE.to_owned(),
        Action::PutTopicPermissions => r#"{"exchange":"amq.topic","write":"","read":""}"#.to_owned(),
        Action::PutVhostLimit => r#"{"value":100000}"#.to_owned(),
        _ if !route.has_body() => String::new(),
        _ => routes::bodies(route)[0].0.to_owned(),
    }
}

/// Asks a question. What is deleted meanwhile is deleted when half of the request has arrived.
pub(super) async fn ask(world: &mut World, route: &Route, question: Question) -> Asked {
    let Question { kind, vhost, state, who, origin, .. } = question;
    let is_deleted = state == State::Deleted || vhost == Vhost::Deleted;
    if is_deleted {
        world.make(kind, vhost, who).await;
    }
    let name = name(world, route, &question);
    let path = path(route, &question, &name);
    let (method, body) = (route.method.to_string(), body(route, &question));
    let head = world.head(&who.name(), origin, &method, &path, body.len());
    let what = format!("{method} {path}");
    // The head is whole if there is a body, so that the broker has authenticated the user when the object is deleted.
    let (first, rest) = match body.split_at_checked(1) {
        Some((first, rest)) => (format!("{head}\r\n{first}"), rest.to_owned()),
        None => (head, "\r\n".to_owned()),
    };
    if is_deleted {
        world.http.send(&first).await;
        world.delete(kind, vhost, state).await;
        world.http.send(&rest).await;
    } else {
        world.http.send(&format!("{first}{rest}")).await;
    }
    let answered = world.http.receive(&what).await;
    let changed = route.method != Method::Get && (200..300).contains(&answered.status);
    if changed || is_deleted {
        world.changed(question).await;
    }
    let is_shared = answered.head.lines().any(|line| line.starts_with("access-control-allow-origin:"));
    let told = format!("{} {}", answered.status, answered.body);
    Asked { is_shared, ..Asked::new(what, &told, &name, vhost) }
}

/// The statuses of an answer.
pub(super) fn codes(question: Question) -> &'static [&'static str] {
    match question.answer().0 {
        Answer::Done => &["200", "201", "204"],
        Answer::Created => &["201"],
        Answer::Forbidden => &["403"],
        Answer::Refused => &["401"],
        Answer::NotFound => &["404"],
        // What AMQP 0.9.1 refuses with 403.
        Answer::Never if question.vhost == Vhost::Closing && question.kind != Kind::Vhost => &["401"],
        Answer::Never if matches!(question.state, State::Internal | State::Default | State::Predeclared) => {
            &["401"]
        }
        Answer::Locked | Answer::Damaged | Answer::Never => &["400"],
    }
}
