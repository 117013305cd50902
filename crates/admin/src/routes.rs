//! The table of routes. Each route names the verbs of the broker that it performs; they decide who may use
//! it.

use std::fmt;

use broker::access::Verb;
use broker::desk::MemberChange;
use percent_encoding::percent_decode_str;

/// The HTTP methods that routes support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Put,
    Post,
    Delete,
}

impl Method {
    /// Parses a method. HEAD is a GET whose response body the server omits.
    pub fn parse(method: &str) -> Option<Self> {
        match method {
            "GET" | "HEAD" => Some(Self::Get),
            "PUT" => Some(Self::Put),
            "POST" => Some(Self::Post),
            "DELETE" => Some(Self::Delete),
            _ => None,
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Post => "POST",
            Self::Delete => "DELETE",
        })
    }
}

/// The action of a route. Each has one handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Index,
    Overview,
    Whoami,
    GetDefinitions,
    GetDefinitionsOfVhost,
    PostDefinitions,
    PostDefinitionsOfVhost,
    ListParameters,
    PutParameter,
    DeleteParameter,
    ListGlobalParameters,
    PutGlobalParameter,
    DeleteGlobalParameter,
    ListVhosts,
    GetVhost,
    PutVhost,
    DeleteVhost,
    /// Protects a virtual host from deletion (true), or no longer.
    ProtectVhost(bool),
    VhostLimits,
    PutVhostLimit,
    DeleteVhostLimit,
    UserLimits,
    PutUserLimit,
    DeleteUserLimit,
    ListUsers,
    ListUsersWithoutPermissions,
    GetUser,
    PutUser,
    DeleteUser,
    DeleteUsers,
    HashPassword,
    ListAuthAttempts,
    ListAuthAttemptsBySource,
    ResetAuthAttempts,
    PermissionsOfUser,
    PermissionsInVhost,
    ListPermissions,
    GetPermissions,
    PutPermissions,
    DeletePermissions,
    TopicPermissionsOfUser,
    TopicPermissionsInVhost,
    ListTopicPermissions,
    GetTopicPermissions,
    PutTopicPermissions,
    DeleteTopicPermissions,
    ListNodes,
    GetNode,
    ListQueues,
    GetQueue,
    PutQueue,
    DeleteQueue,
    PurgeQueue,
    BrowseQueue,
    PeekQueue,
    QueueBindings,
    QuorumStatus,
    Checkpoint,
    ReclaimMemory,
    ChangeMember(MemberChange),
    Grow,
    Shrink,
    Rebalance,
    ListExchanges,
    GetExchange,
    PutExchange,
    DeleteExchange,
    SourceBindings,
    DestinationBindings,
    ListBindings,
    PairBindings(To),
    Bind(To),
    GetBinding(To),
    Unbind(To),
    ListPolicies(Whose),
    GetPolicy(Whose),
    PutPolicy(Whose),
    DeletePolicy(Whose),
    ListConnections,
    GetConnection,
    CloseConnection,
    ListSessions,
    ListConnectionsInVhost,
    ListConnectionsOfUser,
    CloseConnectionsOfUser,
    ListChannels,
    ListChannelsInVhost,
    ListChannelsOfConnection,
    GetChannel,
    ListConsumers,
    ListConsumersInVhost,
    ExplainLink,
    ExplainLinkOfVhost,
    ExplainQueue,
    ExplainConnection,
    Alarms,
    LocalAlarms,
    CertificateExpiration,
    Ready,
}

/// The destination type of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    Queue,
    Exchange,
}

/// The two kinds of policies: of users and of operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    Users,
    Operators,
}

/// One route.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    pub method: Method,
    /// The path. A part in braces matches any one segment.
    pub path: &'static str,
    pub action: Action,
    /// The verbs that [`broker::access`] checks. For a declaration, the second verb applies only if it has
    /// the argument that names an exchange.
    pub verbs: &'static [Verb],
}

impl Route {
    /// Returns true if the request's body is read.
    pub fn has_body(&self) -> bool {
        // RabbitMQ names the node of a member in the body of a DELETE.
        matches!(self.method, Method::Put | Method::Post)
            || matches!(self.action, Action::ChangeMember(MemberChange::Remove))
    }
}

const fn route(method: Method, path: &'static str, action: Action, verbs: &'static [Verb]) -> Route {
    Route { method, path, action, verbs }
}

/// All routes.
pub const ROUTES: &[Route] = {
    use Method::{Delete, Get, Post, Put};
    &[
        route(Get, "/", Action::Index, &[]),
        route(Get, "/api/overview", Action::Overview, &[Verb::Manage, Verb::ReadOverview]),
        route(Get, "/api/whoami", Action::Whoami, &[Verb::Manage]),
        route(Get, "/api/vhosts", Action::ListVhosts, &[Verb::Manage, Verb::ReadVhost]),
        route(Get, "/api/vhosts/{vhost}", Action::GetVhost, &[Verb::Manage, Verb::ReadVhost]),
        route(Put, "/api/vhosts/{vhost}", Action::PutVhost, &[Verb::Manage, Verb::Administer]),
        route(Delete, "/api/vhosts/{vhost}", Action::DeleteVhost, &[Verb::Manage, Verb::Administer]),
        route(
            Get,
            "/api/vhosts/{vhost}/permissions",
            Action::PermissionsInVhost,
            &[Verb::Manage, Verb::Administer],
        ),
        route(Get, "/api/definitions", Action::GetDefinitions, &[Verb::Manage, Verb::Administer]),
        route(Post, "/api/definitions", Action::PostDefinitions, &[Verb::Manage, Verb::Administer]),
        route(
            Get,
            "/api/definitions/{vhost}",
            Action::GetDefinitionsOfVhost,
            &[Verb::Manage, Verb::Administer],
        ),
        route(
            Post,
            "/api/definitions/{vhost}",
            Action::PostDefinitionsOfVhost,
            &[Verb::Manage, Verb::Administer],
        ),
        route(Get, "/api/parameters", Action::ListParameters, &[Verb::Manage, Verb::Administer]),
        route(Get, "/api/parameters/{component}", Action::ListParameters, &[Verb::Manage, Verb::Administer]),
        route(
            Get,
            "/api/parameters/{component}/{vhost}",
            Action::ListParameters,
            &[Verb::Manage, Verb::Administer],
        ),
        route(
            Put,
            "/api/parameters/{component}/{vhost}/{name}",
            Action::PutParameter,
            &[Verb::Manage, Verb::Administer],
        ),
        route(
            Delete,
            "/api/parameters/{component}/{vhost}/{name}",
            Action::DeleteParameter,
            &[Verb::Manage, Verb::Administer],
        ),
        route(Get, "/api/global-parameters", Action::ListGlobalParameters, &[Verb::Manage, Verb::Administer]),
        route(
            Put,
            "/api/global-parameters/{name}",
            Action::PutGlobalParameter,
            &[Verb::Manage, Verb::Administer],
        ),
        route(
            Delete,
            "/api/global-parameters/{name}",
            Action::DeleteGlobalParameter,
            &[Verb::Manage, Verb::Administer],
        ),
        route(
            Post,
            "/api/vhosts/{vhost}/deletion/protection",
            Action::ProtectVhost(true),
            &[Verb::Manage, Verb::Administer],
        ),
        route(
            Delete,
            "/api/vhosts/{vhost}/deletion/protection",
            Action::ProtectVhost(false),
            &[Verb::Manage, Verb::Administer],
        ),
        route(Get, "/api/vhost-limits", Action::VhostLimits, &[Verb::Manage, Verb::ReadVhost]),
        route(Get, "/api/vhost-limits/{vhost}", Action::VhostLimits, &[Verb::Manage, Verb::ReadVhost]),
        route(
            Put,
            "/api/vhost-limits/{vhost}/{name}",
            Action::PutVhostLimit,
            &[Verb::Manage, Verb::Administer],
        ),
        route(
            Delete,
            "/api/vhost-limits/{vhost}/{name}",
            Action::DeleteVhostLimit,
            &[Verb::Manage, Verb::Administer],
        ),
        route(Get, "/api/user-limits", Action::UserLimits, &[Verb::Manage, Verb::Administer]),
        route(Get, "/api/user-limits/{user}", Action::UserLimits, &[Verb::Manage, Verb::Administer]),
        route(Put, "/api/user-limits/{user}/{name}", Action::PutUserLimit, &[Verb::Manage, Verb::Administer]),
        route(
            Delete,
            "/api/user-limits/{user}/{name}",
            Action::DeleteUserLimit,
            &[Verb::Manage, Verb::Administer],
        ),
        route(Get, "/api/users", Action::ListUsers, &[Verb::Manage, Verb::Administer]),
        // Before the users: a user of this name must not hide it.
        route(
            Get,
            "/api/users/without-permissions",
            Action::ListUsersWithoutPermissions,
            &[Verb::Manage, Verb::Administer],
        ),
        route(Post, "/api/users/bulk-delete", Action::DeleteUsers, &[Verb::Manage, Verb::Administer]),
        route(
            Get,
            "/api/auth/hash_password/{password}",
            Action::HashPassword,
            &[Verb::Manage, Verb::Administer],
        ),
        route(Post, "/api/auth/hash_password", Action::HashPassword, &[Verb::Manage, Verb::Administer]),
        route(Get, "/api/auth/attempts/{node}", Action::ListAuthAttempts, &[Verb::Manage, Verb::ReadNodes]),
        route(
            Get,
            "/api/auth/attempts/{node}/source",
            Action::ListAuthAttemptsBySource,
            &[Verb::Manage, Verb::ReadNodes],
        ),
        route(
            Delete,
            "/api/auth/attempts/{node}",
            Action::ResetAuthAttempts,
            &[Verb::Manage, Verb::Administer],
        ),
        route(
            Delete,
            "/api/auth/attempts/{node}/source",
            Action::ResetAuthAttempts,
            &[Verb::Manage, Verb::Administer],
        ),
        route(Get, "/api/users/{user}", Action::GetUser, &[Verb::Manage, Verb::Administer]),
        route(Put, "/api/users/{user}", Action::PutUser, &[Verb::Manage, Verb::Administer]),
        route(Delete, "/api/users/{user}", Action::DeleteUser, &[Verb::Manage, Verb::Administer]),
        route(
            Get,
            "/api/users/{user}/permissions",
            Action::PermissionsOfUser,
            &[Verb::Manage, Verb::Administer],
        ),
        route(
            Get,
            "/api/users/{user}/topic-permissions",
            Action::TopicPermissionsOfUser,
            &[Verb::Manage, Verb::Administer],
        ),
        route(
            Get,
            "/api/vhosts/{vhost}/topic-permissions",
            Action::TopicPermissionsInVhost,
            &[Verb::Manage, Verb::Administer],
        ),
        route(Get, "/api/topic-permissions", Action::ListTopicPermissions, &[Verb::Manage, Verb::Administer]),
        route(
            Get,
            "/api/topic-permissions/{vhost}/{user}",
            Action::GetTopicPermissions,
            &[Verb::Manage, Verb::Administer],
        ),
        route(
            Put,
            "/api/topic-permissions/{vhost}/{user}",
            Action::PutTopicPermissions,
            &[Verb::Manage, Verb::Administer],
        ),
        route(
            Delete,
            "/api/topic-permissions/{vhost}/{user}",
            Action::DeleteTopicPermissions,
            &[Verb::Manage, Verb::Administer],
        ),
        route(
            Get,
            "/api/topic-permissions/{vhost}/{user}/{exchange}",
            Action::GetTopicPermissions,
            &[Verb::Manage, Verb::Administer],
        ),
        route(
            Delete,
            "/api/topic-permissions/{vhost}/{user}/{exchange}",
            Action::DeleteTopicPermissions,
            &[Verb::Manage, Verb::Administer],
        ),
        route(Get, "/api/permissions", Action::ListPermissions, &[Verb::Manage, Verb::Administer]),
        route(
            Get,
            "/api/permissions/{vhost}/{user}",
            Action::GetPermissions,
            &[Verb::Manage, Verb::Administer],
        ),
        route(
            Put,
            "/api/permissions/{vhost}/{user}",
            Action::PutPermissions,
            &[Verb::Manage, Verb::Administer],
        ),
        route(
            Delete,
            "/api/permissions/{vhost}/{user}",
            Action::DeletePermissions,
            &[Verb::Manage, Verb::Administer],
        ),
        route(Get, "/api/nodes", Action::ListNodes, &[Verb::Manage, Verb::ReadNodes]),
        route(Get, "/api/nodes/{node}", Action::GetNode, &[Verb::Manage, Verb::ReadNodes]),
        route(Get, "/api/queues", Action::ListQueues, &[Verb::Manage, Verb::ReadQueue]),
        route(Get, "/api/queues/{vhost}", Action::ListQueues, &[Verb::Manage, Verb::ReadQueue]),
        route(Get, "/api/queues/{vhost}/{name}", Action::GetQueue, &[Verb::Manage, Verb::ReadQueue]),
        route(
            Put,
            "/api/queues/{vhost}/{name}",
            Action::PutQueue,
            &[Verb::Manage, Verb::DeclareQueue, Verb::DeadLetterTo],
        ),
        route(Delete, "/api/queues/{vhost}/{name}", Action::DeleteQueue, &[Verb::Manage, Verb::DeleteQueue]),
        route(
            Delete,
            "/api/queues/{vhost}/{name}/contents",
            Action::PurgeQueue,
            &[Verb::Manage, Verb::PurgeQueue],
        ),
        route(Get, "/api/queues/{vhost}/{name}/messages", Action::BrowseQueue, &[Verb::Manage, Verb::Get]),
        route(
            Get,
            "/api/queues/{vhost}/{name}/bindings",
            Action::QueueBindings,
            &[Verb::Manage, Verb::ReadQueue, Verb::ReadBinding],
        ),
        route(
            Get,
            "/api/queues/quorum/{vhost}/{name}/status",
            Action::QuorumStatus,
            &[Verb::Manage, Verb::ReadQueue],
        ),
        // After the status: a queue in the virtual host `quorum` must not hide it.
        route(
            Get,
            "/api/queues/{vhost}/{name}/peek/{position}",
            Action::PeekQueue,
            &[Verb::Manage, Verb::Get],
        ),
        route(
            Post,
            "/api/queues/quorum/{vhost}/{name}/checkpoint",
            Action::Checkpoint,
            &[Verb::Manage, Verb::MaintainGroups],
        ),
        route(
            Post,
            "/api/queues/quorum/{vhost}/{name}/reclaim-memory",
            Action::ReclaimMemory,
            &[Verb::Manage, Verb::MaintainGroups],
        ),
        route(
            Post,
            "/api/queues/quorum/{vhost}/{name}/replicas/add",
            Action::ChangeMember(MemberChange::Add),
            &[Verb::Manage, Verb::MaintainGroups],
        ),
        route(
            Delete,
            "/api/queues/quorum/{vhost}/{name}/replicas/delete",
            Action::ChangeMember(MemberChange::Remove),
            &[Verb::Manage, Verb::MaintainGroups],
        ),
        route(
            Post,
            "/api/queues/quorum/{vhost}/{name}/leader",
            Action::ChangeMember(MemberChange::Lead),
            &[Verb::Manage, Verb::MaintainGroups],
        ),
        route(
            Post,
            "/api/queues/quorum/replicas/on/{node}/grow",
            Action::Grow,
            &[Verb::Manage, Verb::MaintainGroups],
        ),
        route(
            Delete,
            "/api/queues/quorum/replicas/on/{node}/shrink",
            Action::Shrink,
            &[Verb::Manage, Verb::MaintainGroups],
        ),
        route(Post, "/api/rebalance/queues", Action::Rebalance, &[Verb::Manage, Verb::MaintainGroups]),
        route(Get, "/api/exchanges", Action::ListExchanges, &[Verb::Manage, Verb::ReadExchange]),
        route(Get, "/api/exchanges/{vhost}", Action::ListExchanges, &[Verb::Manage, Verb::ReadExchange]),
        route(Get, "/api/exchanges/{vhost}/{name}", Action::GetExchange, &[Verb::Manage, Verb::ReadExchange]),
        route(
            Put,
            "/api/exchanges/{vhost}/{name}",
            Action::PutExchange,
            &[Verb::Manage, Verb::DeclareExchange, Verb::AlternateTo],
        ),
        route(
            Delete,
            "/api/exchanges/{vhost}/{name}",
            Action::DeleteExchange,
            &[Verb::Manage, Verb::DeleteExchange],
        ),
        route(
            Get,
            "/api/exchanges/{vhost}/{name}/bindings/source",
            Action::SourceBindings,
            &[Verb::Manage, Verb::ReadExchange, Verb::ReadBinding],
        ),
        route(
            Get,
            "/api/exchanges/{vhost}/{name}/bindings/destination",
            Action::DestinationBindings,
            &[Verb::Manage, Verb::ReadExchange, Verb::ReadBinding],
        ),
        route(Get, "/api/bindings", Action::ListBindings, &[Verb::Manage, Verb::ReadBinding]),
        route(Get, "/api/bindings/{vhost}", Action::ListBindings, &[Verb::Manage, Verb::ReadBinding]),
        route(
            Get,
            "/api/bindings/{vhost}/e/{source}/q/{destination}",
            Action::PairBindings(To::Queue),
            &[Verb::Manage, Verb::ReadBinding],
        ),
        route(
            Post,
            "/api/bindings/{vhost}/e/{source}/q/{destination}",
            Action::Bind(To::Queue),
            &[Verb::Manage, Verb::Bind, Verb::BindTopic],
        ),
        route(
            Get,
            "/api/bindings/{vhost}/e/{source}/q/{destination}/{props}",
            Action::GetBinding(To::Queue),
            &[Verb::Manage, Verb::ReadBinding],
        ),
        route(
            Delete,
            "/api/bindings/{vhost}/e/{source}/q/{destination}/{props}",
            Action::Unbind(To::Queue),
            &[Verb::Manage, Verb::ReadBinding, Verb::Unbind, Verb::BindTopic],
        ),
        route(
            Get,
            "/api/bindings/{vhost}/e/{source}/e/{destination}",
            Action::PairBindings(To::Exchange),
            &[Verb::Manage, Verb::ReadBinding],
        ),
        route(
            Post,
            "/api/bindings/{vhost}/e/{source}/e/{destination}",
            Action::Bind(To::Exchange),
            &[Verb::Manage, Verb::Bind, Verb::BindTopic],
        ),
        route(
            Get,
            "/api/bindings/{vhost}/e/{source}/e/{destination}/{props}",
            Action::GetBinding(To::Exchange),
            &[Verb::Manage, Verb::ReadBinding],
        ),
        route(
            Delete,
            "/api/bindings/{vhost}/e/{source}/e/{destination}/{props}",
            Action::Unbind(To::Exchange),
            &[Verb::Manage, Verb::ReadBinding, Verb::Unbind, Verb::BindTopic],
        ),
        route(Get, "/api/policies", Action::ListPolicies(Whose::Users), &[Verb::Manage, Verb::ReadPolicy]),
        route(
            Get,
            "/api/policies/{vhost}",
            Action::ListPolicies(Whose::Users),
            &[Verb::Manage, Verb::ReadPolicy],
        ),
        route(
            Get,
            "/api/policies/{vhost}/{name}",
            Action::GetPolicy(Whose::Users),
            &[Verb::Manage, Verb::ReadPolicy],
        ),
        route(
            Put,
            "/api/policies/{vhost}/{name}",
            Action::PutPolicy(Whose::Users),
            &[Verb::Manage, Verb::SetPolicy],
        ),
        route(
            Delete,
            "/api/policies/{vhost}/{name}",
            Action::DeletePolicy(Whose::Users),
            &[Verb::Manage, Verb::SetPolicy],
        ),
        route(
            Get,
            "/api/operator-policies",
            Action::ListPolicies(Whose::Operators),
            &[Verb::Manage, Verb::ReadOperatorPolicy],
        ),
        route(
            Get,
            "/api/operator-policies/{vhost}",
            Action::ListPolicies(Whose::Operators),
            &[Verb::Manage, Verb::ReadOperatorPolicy],
        ),
        route(
            Get,
            "/api/operator-policies/{vhost}/{name}",
            Action::GetPolicy(Whose::Operators),
            &[Verb::Manage, Verb::ReadOperatorPolicy],
        ),
        route(
            Put,
            "/api/operator-policies/{vhost}/{name}",
            Action::PutPolicy(Whose::Operators),
            &[Verb::Manage, Verb::SetOperatorPolicy],
        ),
        route(
            Delete,
            "/api/operator-policies/{vhost}/{name}",
            Action::DeletePolicy(Whose::Operators),
            &[Verb::Manage, Verb::SetOperatorPolicy],
        ),
        route(Get, "/api/connections", Action::ListConnections, &[Verb::Manage, Verb::ReadConnection]),
        route(
            Get,
            "/api/connections/username/{user}",
            Action::ListConnectionsOfUser,
            &[Verb::Manage, Verb::ReadConnection],
        ),
        route(
            Delete,
            "/api/connections/username/{user}",
            Action::CloseConnectionsOfUser,
            &[Verb::Manage, Verb::CloseConnection],
        ),
        route(Get, "/api/connections/{name}", Action::GetConnection, &[Verb::Manage, Verb::ReadConnection]),
        route(
            Delete,
            "/api/connections/{name}",
            Action::CloseConnection,
            &[Verb::Manage, Verb::CloseConnection],
        ),
        route(
            Get,
            "/api/connections/{name}/sessions",
            Action::ListSessions,
            &[Verb::Manage, Verb::ReadConnection],
        ),
        route(
            Get,
            "/api/connections/{name}/channels",
            Action::ListChannelsOfConnection,
            &[Verb::Manage, Verb::ReadConnection],
        ),
        route(
            Get,
            "/api/vhosts/{vhost}/connections",
            Action::ListConnectionsInVhost,
            &[Verb::Manage, Verb::ReadConnection],
        ),
        route(Get, "/api/channels", Action::ListChannels, &[Verb::Manage, Verb::ReadConnection]),
        route(Get, "/api/channels/{channel}", Action::GetChannel, &[Verb::Manage, Verb::ReadConnection]),
        route(
            Get,
            "/api/vhosts/{vhost}/channels",
            Action::ListChannelsInVhost,
            &[Verb::Manage, Verb::ReadConnection],
        ),
        route(Get, "/api/consumers", Action::ListConsumers, &[Verb::Manage, Verb::ReadConnection]),
        route(
            Get,
            "/api/consumers/{vhost}",
            Action::ListConsumersInVhost,
            &[Verb::Manage, Verb::ReadConnection],
        ),
        route(
            Get,
            "/api/explain/links/{name}",
            Action::ExplainLink,
            &[Verb::Manage, Verb::ExplainConnection],
        ),
        route(
            Get,
            "/api/explain/links/{vhost}/{name}",
            Action::ExplainLinkOfVhost,
            &[Verb::Manage, Verb::ExplainConnection],
        ),
        route(
            Get,
            "/api/explain/queues/{vhost}/{name}",
            Action::ExplainQueue,
            &[Verb::Manage, Verb::ExplainQueue],
        ),
        route(
            Get,
            "/api/explain/connections/{name}",
            Action::ExplainConnection,
            &[Verb::Manage, Verb::ExplainConnection],
        ),
        route(
            Get,
            "/api/health/checks/certificate-expiration/{within}/{unit}",
            Action::CertificateExpiration,
            &[Verb::Manage, Verb::ReadAlarms],
        ),
        route(Get, "/api/health/checks/alarms", Action::Alarms, &[Verb::Manage, Verb::ReadAlarms]),
        route(
            Get,
            "/api/health/checks/local-alarms",
            Action::LocalAlarms,
            &[Verb::Manage, Verb::ReadOverview, Verb::ReadAlarms],
        ),
        route(
            Get,
            "/api/health/checks/ready-to-serve-clients",
            Action::Ready,
            &[Verb::Manage, Verb::ReadOverview],
        ),
    ]
};

/// The result of a lookup.
#[derive(Debug)]
pub enum Found {
    /// The route, and the decoded segments of the parts in braces. `in_vhost` says whether the first of them
    /// is a virtual host.
    Route { route: &'static Route, params: Vec<String>, in_vhost: bool },
    /// No route has this path.
    Nothing,
    /// The path exists, but only for these methods.
    OtherMethods(Vec<Method>),
    /// A decoded segment is not UTF-8.
    BadPath,
}

/// Looks up a request. `%2F` does not separate segments. One slash at the end is ignored.
pub fn find(method: Option<Method>, path: &str) -> Found {
    let path = if path.len() > 1 { path.strip_suffix('/').unwrap_or(path) } else { path };
    let mut others = Vec::new();
    for route in ROUTES {
        let Some(raw) = match_pattern(route.path, path) else { continue };
        if Some(route.method) != method {
            others.push(route.method);
            continue;
        }
        let decoded: Result<Vec<String>, _> =
            raw.into_iter().map(|s| percent_decode_str(s).decode_utf8().map(|s| s.into_owned())).collect();
        let in_vhost = route.path.contains("/{vhost}");
        return decoded.map_or(Found::BadPath, |params| Found::Route { route, params, in_vhost });
    }
    if others.is_empty() { Found::Nothing } else { Found::OtherMethods(others) }
}

/// Returns the segments of the parts in braces if the path matches.
fn match_pattern<'a>(pattern: &str, path: &'a str) -> Option<Vec<&'a str>> {
    let mut params = Vec::new();
    let mut segments = path.split('/');
    for part in pattern.split('/') {
        let segment = segments.next()?;
        if part.starts_with('{') {
            params.push(segment);
        } else if part != segment {
            return None;
        }
    }
    segments.next().is_none().then_some(params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoded_slash_is_part_of_its_segment() {
        let route = |action, params: &[&str], in_vhost| {
            let params = params.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>();
            Some((action, params, in_vhost))
        };
        let get = |path| match find(Some(Method::Get), path) {
            Found::Route { route, params, in_vhost } => Some((route.action, params, in_vhost)),
            _ => None,
        };
        assert_eq!(get("/api/queues/%2F/a%2fb%20c"), route(Action::GetQueue, &["/", "a/b c"], true));
        assert_eq!(get("/api/connections/c"), route(Action::GetConnection, &["c"], false));
        assert_eq!(get("/api/queues/"), route(Action::ListQueues, &[], false));
        assert_eq!(get("/"), route(Action::Index, &[], false));
    }

    #[test]
    fn unknown_paths_and_methods_are_told_apart() {
        let shown = |method, path| format!("{:?}", find(method, path));
        assert_eq!(shown(Some(Method::Get), "/api/nope"), "Nothing");
        assert_eq!(shown(Some(Method::Get), ""), "Nothing");
        assert_eq!(shown(Some(Method::Get), "/api/queues/%ff"), "BadPath");
        assert_eq!(shown(None, "/api/overview"), "OtherMethods([Get])");
        assert_eq!(shown(Some(Method::Put), "/api/connections/c"), "OtherMethods([Get, Delete])");
    }

    #[test]
    fn no_two_routes_are_the_same() {
        for (i, Route { method, path, .. }) in ROUTES.iter().enumerate() {
            assert!(!ROUTES[..i].iter().any(|r| r.method == *method && r.path == *path), "{method} {path}");
        }
    }
}
