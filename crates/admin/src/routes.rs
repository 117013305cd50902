//! The table of routes. Each route names the verbs of the broker that it performs; they decide who may use
//! it.

use std::fmt;

use broker::admin_api::MemberChange;
use catalog::access::Verb;
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

/// Returns the header `Allow` of a path with these methods.
pub(crate) fn allowed(methods: &[Method]) -> String {
    let mut names: Vec<String> = methods.iter().map(Method::to_string).collect();
    if methods.contains(&Method::Get) {
        names.insert(0, "HEAD".to_owned());
    }
    names.push("OPTIONS".to_owned());
    names.join(", ")
}

/// The action of a route. Each has one handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The web page. Like its files, it needs no login.
    Index,
    Asset,
    /// How users of the web page log in. It needs no login, either.
    PageLogin,
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
    GetVhostProtection,
    /// Protects a virtual host from deletion (true), or no longer.
    ProtectVhost(bool),
    ListFeatureFlags,
    EnableFeatureFlag,
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
    /// Changes only what the body names.
    PatchUser,
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
    TopicPermissionsOfUserInVhost,
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
    GetMessages,
    Publish,
    PeekQueue,
    SearchQueue,
    Move,
    Redrive,
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
    ListSessionsInVhost,
    ListSessionsOfConnection,
    ListConnectionsInVhost,
    ListConnectionsOfUser,
    CloseConnectionsOfUser,
    ListChannels,
    ListChannelsInVhost,
    ListChannelsOfConnection,
    GetChannel,
    ListConsumers,
    ListConsumersInVhost,
    Troubles,
    ExplainLink,
    ExplainLinkOfVhost,
    ExplainQueue,
    ExplainConnection,
    ExplainAddress,
    Version,
    ClusterName,
    NameCluster,
    OpenApi,
    /// The arguments and policy keys that the broker knows.
    Arguments,
    EffectiveSettings,
    /// Changes a setting until the broker stops.
    SetSetting,
    /// Goes back to the value of the configuration.
    ResetSetting,
    /// A list of something that Sluice does not have.
    EmptyList,
    /// A route of RabbitMQ that does something that Sluice does not have. The text says what to do instead.
    Missing(&'static str),
    /// The deprecated features: all, or those that are in use (true).
    DeprecatedFeatures(bool),
    GetParameter,
    GetGlobalParameter,
    StartVhost,
    ListTraces,
    GetTrace,
    PutTrace,
    DeleteTrace,
    /// What the memory of a node is used for: in bytes, or in percent (true).
    MemoryOfNode(bool),
    PortListener,
    ProtocolListener,
    BelowConnectionLimit,
    ElectedLeaders,
    /// The same, for queues whose names match a pattern.
    ElectedLeadersNamed,
    Aliveness,
    /// A check that a single node always passes.
    AlwaysHealthy,
    QuorumCritical,
    ClusterSize,
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
    /// The verbs that [`catalog::access`] checks. For a declaration, the second verb applies only if it has
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

/// What to do instead of a request for what Sluice does not have.
const ERLANG: &str = "there is no Erlang: GET /api/nodes/NODE/memory says what the memory is used for";
const STATISTICS: &str = "there is no database of statistics";
const CREATORS: &str = "nothing records who declared a queue: GET /api/queues lists all queues";
const LOGIN: &str = "there are no sessions: send user and password, or a token, with each request";
const ACTIONS: &str = "there are no mirrors to synchronise: there is one node";
const SHOVELS: &str = "there are no shovels: sluice move moves the messages of a queue";
const FEDERATION: &str = "there is no federation";
const STREAMS: &str = "there is no stream protocol: streams are used with AMQP 1.0";

/// Makes the table of routes. A row is `METHOD "path" => Action(arguments), [verbs];`.
macro_rules! routes {
    ($($method:ident $path:literal => $action:ident $(($argument:expr))?, [$($verb:ident),*];)*) => {
        &[$(Route {
            method: Method::$method,
            path: $path,
            action: Action::$action $(($argument))?,
            verbs: &[$(Verb::$verb),*],
        }),*]
    };
}

/// All routes.
#[rustfmt::skip]
pub const ROUTES: &[Route] = routes! {
    Get "/" => Index, [];
    Get "/assets/{name}" => Asset, [];
    Get "/api/auth" => PageLogin, [];
    Get "/api/overview" => Overview, [Manage, ReadOverview];
    Get "/api/whoami" => Whoami, [Manage];
    Get "/api/version" => Version, [Manage, ReadOverview];
    Get "/api/cluster-name" => ClusterName, [Manage, ReadOverview];
    Put "/api/cluster-name" => NameCluster, [Manage, Administer];
    Get "/api/extensions" => EmptyList, [Manage];
    Get "/api/openapi.json" => OpenApi, [Manage];
    Get "/api/arguments" => Arguments, [Manage];
    Get "/api/feature-flags" => ListFeatureFlags, [Manage];
    Put "/api/feature-flags/{name}/enable" => EnableFeatureFlag, [Manage, Administer];
    Get "/api/deprecated-features" => DeprecatedFeatures(false), [Manage, ReadOverview];
    Get "/api/deprecated-features/used" => DeprecatedFeatures(true), [Manage, ReadOverview];
    Get "/api/all-configuration" => GetDefinitions, [Manage, Administer];
    Post "/api/all-configuration" => PostDefinitions, [Manage, Administer];
    Get "/api/vhosts" => ListVhosts, [Manage, ReadVhost];
    Get "/api/vhosts/{vhost}" => GetVhost, [Manage, ReadVhost];
    Put "/api/vhosts/{vhost}" => PutVhost, [Manage, Administer];
    Delete "/api/vhosts/{vhost}" => DeleteVhost, [Manage, Administer];
    Get "/api/vhosts/{vhost}/permissions" => PermissionsInVhost, [Manage, Administer];
    Get "/api/definitions" => GetDefinitions, [Manage, Administer];
    Post "/api/definitions" => PostDefinitions, [Manage, Administer];
    Get "/api/definitions/{vhost}" => GetDefinitionsOfVhost, [Manage, Administer];
    Post "/api/definitions/{vhost}" => PostDefinitionsOfVhost, [Manage, Administer];
    Get "/api/parameters" => ListParameters, [Manage, Administer];
    Get "/api/parameters/{component}" => ListParameters, [Manage, Administer];
    Get "/api/parameters/{component}/{vhost}" => ListParameters, [Manage, Administer];
    Get "/api/parameters/{component}/{vhost}/{name}" => GetParameter, [Manage, Administer];
    Put "/api/parameters/{component}/{vhost}/{name}" => PutParameter, [Manage, Administer];
    Delete "/api/parameters/{component}/{vhost}/{name}" => DeleteParameter, [Manage, Administer];
    Get "/api/global-parameters" => ListGlobalParameters, [Manage, Administer];
    Get "/api/global-parameters/{name}" => GetGlobalParameter, [Manage, Administer];
    Put "/api/global-parameters/{name}" => PutGlobalParameter, [Manage, Administer];
    Delete "/api/global-parameters/{name}" => DeleteGlobalParameter, [Manage, Administer];
    Post "/api/vhosts/{vhost}/start/{node}" => StartVhost, [Manage, ReadVhost, Administer];
    Get "/api/vhosts/{vhost}/deletion/protection" => GetVhostProtection, [Manage, ReadVhost];
    Post "/api/vhosts/{vhost}/deletion/protection" => ProtectVhost(true), [Manage, Administer];
    Delete "/api/vhosts/{vhost}/deletion/protection" => ProtectVhost(false), [Manage, Administer];
    Get "/api/vhost-limits" => VhostLimits, [Manage, ReadVhost];
    Get "/api/vhost-limits/{vhost}" => VhostLimits, [Manage, ReadVhost];
    Put "/api/vhost-limits/{vhost}/{name}" => PutVhostLimit, [Manage, Administer];
    Delete "/api/vhost-limits/{vhost}/{name}" => DeleteVhostLimit, [Manage, Administer];
    Get "/api/user-limits" => UserLimits, [Manage, Administer];
    Get "/api/user-limits/{user}" => UserLimits, [Manage, Administer];
    Put "/api/user-limits/{user}/{name}" => PutUserLimit, [Manage, Administer];
    Delete "/api/user-limits/{user}/{name}" => DeleteUserLimit, [Manage, Administer];
    Get "/api/users" => ListUsers, [Manage, Administer];
    Get "/api/users/without-permissions" => ListUsersWithoutPermissions, [Manage, Administer];
    Post "/api/users/bulk-delete" => DeleteUsers, [Manage, Administer];
    Get "/api/auth/hash_password/{password}" => HashPassword, [Manage, Administer];
    Post "/api/auth/hash_password" => HashPassword, [Manage, Administer];
    Get "/api/auth/attempts/{node}" => ListAuthAttempts, [Manage, ReadNodes];
    Get "/api/auth/attempts/{node}/source" => ListAuthAttemptsBySource, [Manage, ReadNodes];
    Delete "/api/auth/attempts/{node}" => ResetAuthAttempts, [Manage, Administer];
    Delete "/api/auth/attempts/{node}/source" => ResetAuthAttempts, [Manage, Administer];
    Get "/api/users/{user}" => GetUser, [Manage, Administer];
    Put "/api/users/{user}" => PutUser, [Manage, Administer];
    Post "/api/users/{user}" => PatchUser, [Manage, Administer];
    Delete "/api/users/{user}" => DeleteUser, [Manage, Administer];
    Get "/api/users/{user}/permissions" => PermissionsOfUser, [Manage, Administer];
    Get "/api/users/{user}/queues" => Missing(CREATORS), [Manage, Administer];
    Get "/api/users/{user}/topic-permissions" => TopicPermissionsOfUser, [Manage, Administer];
    Get "/api/vhosts/{vhost}/topic-permissions" => TopicPermissionsInVhost, [Manage, Administer];
    Get "/api/topic-permissions" => ListTopicPermissions, [Manage, Administer];
    Get "/api/topic-permissions/{vhost}/{user}" => TopicPermissionsOfUserInVhost, [Manage, Administer];
    Put "/api/topic-permissions/{vhost}/{user}" => PutTopicPermissions, [Manage, Administer];
    Delete "/api/topic-permissions/{vhost}/{user}" => DeleteTopicPermissions, [Manage, Administer];
    Get "/api/topic-permissions/{vhost}/{user}/{exchange}" => GetTopicPermissions, [Manage, Administer];
    Put "/api/topic-permissions/{vhost}/{user}/{exchange}" => PutTopicPermissions, [Manage, Administer];
    Delete "/api/topic-permissions/{vhost}/{user}/{exchange}" => DeleteTopicPermissions, [Manage, Administer];
    Get "/api/permissions" => ListPermissions, [Manage, Administer];
    Get "/api/permissions/{vhost}/{user}" => GetPermissions, [Manage, Administer];
    Put "/api/permissions/{vhost}/{user}" => PutPermissions, [Manage, Administer];
    Delete "/api/permissions/{vhost}/{user}" => DeletePermissions, [Manage, Administer];
    Get "/api/nodes" => ListNodes, [Manage, ReadNodes];
    Get "/api/nodes/{node}" => GetNode, [Manage, ReadNodes];
    Get "/api/nodes/{node}/memory" => MemoryOfNode(false), [Manage, ReadNodes];
    Get "/api/nodes/{node}/memory/relative" => MemoryOfNode(true), [Manage, ReadNodes];
    Get "/api/nodes/{node}/memory/ets" => Missing(ERLANG), [Manage, ReadNodes];
    Get "/api/nodes/{node}/memory/ets/relative" => Missing(ERLANG), [Manage, ReadNodes];
    Get "/api/top/{node}" => Missing(ERLANG), [Manage, ReadNodes];
    Get "/api/top/ets/{node}" => Missing(ERLANG), [Manage, ReadNodes];
    Get "/api/config/effective" => EffectiveSettings, [Manage, Administer];
    Put "/api/config/effective/{key}" => SetSetting, [Manage, Administer];
    Delete "/api/config/effective/{key}" => ResetSetting, [Manage, Administer];
    Delete "/api/reset" => Missing(STATISTICS), [Manage, Administer];
    Delete "/api/reset/{node}" => Missing(STATISTICS), [Manage, Administer];
    Post "/api/login" => Missing(LOGIN), [Manage];
    Get "/api/queues/detailed" => ListQueues, [Manage, ReadQueue];
    Get "/api/queues" => ListQueues, [Manage, ReadQueue];
    Get "/api/queues/{vhost}" => ListQueues, [Manage, ReadQueue];
    Get "/api/queues/{vhost}/{name}" => GetQueue, [Manage, ReadQueue];
    Put "/api/queues/{vhost}/{name}" => PutQueue, [Manage, DeclareQueue, DeadLetterTo];
    Delete "/api/queues/{vhost}/{name}" => DeleteQueue, [Manage, DeleteQueue];
    Delete "/api/queues/{vhost}/{name}/contents" => PurgeQueue, [Manage, PurgeQueue];
    Get "/api/queues/{vhost}/{name}/messages" => BrowseQueue, [Manage, Get];
    Post "/api/queues/{vhost}/{name}/get" => GetMessages, [Manage, Get];
    Post "/api/queues/{vhost}/{name}/actions" => Missing(ACTIONS), [Manage];
    Get "/api/queues/{vhost}/{name}/bindings" => QueueBindings, [Manage, ReadBinding];
    Get "/api/queues/quorum/{vhost}/{name}/status" => QuorumStatus, [Manage, ReadQueue];
    Get "/api/queues/{vhost}/{name}/peek/{position}" => PeekQueue, [Manage, Get];
    Get "/api/queues/{vhost}/{name}/search" => SearchQueue, [Manage, Get];
    Post "/api/queues/{vhost}/{name}/move" => Move, [Manage, Get, Publish];
    Post "/api/queues/{vhost}/{name}/redrive" => Redrive, [Manage, Get, Publish];
    Post "/api/queues/quorum/{vhost}/{name}/checkpoint" => Checkpoint, [Manage, MaintainGroups];
    Post "/api/queues/quorum/{vhost}/{name}/reclaim-memory" => ReclaimMemory, [Manage, MaintainGroups];
    Post "/api/queues/quorum/{vhost}/{name}/replicas/add" => ChangeMember(MemberChange::Add), [Manage, MaintainGroups];
    Delete "/api/queues/quorum/{vhost}/{name}/replicas/delete" => ChangeMember(MemberChange::Remove), [Manage, MaintainGroups];
    Post "/api/queues/quorum/{vhost}/{name}/leader" => ChangeMember(MemberChange::Lead), [Manage, MaintainGroups];
    Post "/api/queues/quorum/replicas/on/{node}/grow" => Grow, [Manage, MaintainGroups];
    Delete "/api/queues/quorum/replicas/on/{node}/shrink" => Shrink, [Manage, MaintainGroups];
    Post "/api/rebalance/queues" => Rebalance, [Manage, MaintainGroups];
    Get "/api/exchanges" => ListExchanges, [Manage, ReadExchange];
    Get "/api/exchanges/{vhost}" => ListExchanges, [Manage, ReadExchange];
    Get "/api/exchanges/{vhost}/{name}" => GetExchange, [Manage, ReadExchange];
    Put "/api/exchanges/{vhost}/{name}" => PutExchange, [Manage, DeclareExchange, AlternateTo];
    Delete "/api/exchanges/{vhost}/{name}" => DeleteExchange, [Manage, DeleteExchange];
    Post "/api/exchanges/{vhost}/{name}/publish" => Publish, [Manage, Publish, PublishTopic];
    Get "/api/exchanges/{vhost}/{name}/bindings/source" => SourceBindings, [Manage, ReadBinding];
    Get "/api/exchanges/{vhost}/{name}/bindings/destination" => DestinationBindings, [Manage, ReadBinding];
    Get "/api/bindings" => ListBindings, [Manage, ReadBinding];
    Get "/api/bindings/{vhost}" => ListBindings, [Manage, ReadBinding];
    Get "/api/bindings/{vhost}/e/{source}/q/{destination}" => PairBindings(To::Queue), [Manage, ReadBinding];
    Post "/api/bindings/{vhost}/e/{source}/q/{destination}" => Bind(To::Queue), [Manage, Bind, BindTopic];
    Get "/api/bindings/{vhost}/e/{source}/q/{destination}/{props}" => GetBinding(To::Queue), [Manage, ReadBinding];
    Delete "/api/bindings/{vhost}/e/{source}/q/{destination}/{props}" => Unbind(To::Queue), [Manage, ReadBinding, Unbind, BindTopic];
    Get "/api/bindings/{vhost}/e/{source}/e/{destination}" => PairBindings(To::Exchange), [Manage, ReadBinding];
    Post "/api/bindings/{vhost}/e/{source}/e/{destination}" => Bind(To::Exchange), [Manage, Bind, BindTopic];
    Get "/api/bindings/{vhost}/e/{source}/e/{destination}/{props}" => GetBinding(To::Exchange), [Manage, ReadBinding];
    Delete "/api/bindings/{vhost}/e/{source}/e/{destination}/{props}" => Unbind(To::Exchange), [Manage, ReadBinding, Unbind, BindTopic];
    Get "/api/policies" => ListPolicies(Whose::Users), [Manage, ReadPolicy];
    Get "/api/policies/{vhost}" => ListPolicies(Whose::Users), [Manage, ReadPolicy];
    Get "/api/policies/{vhost}/{name}" => GetPolicy(Whose::Users), [Manage, ReadPolicy];
    Put "/api/policies/{vhost}/{name}" => PutPolicy(Whose::Users), [Manage, SetPolicy, PolicyTo];
    Delete "/api/policies/{vhost}/{name}" => DeletePolicy(Whose::Users), [Manage, SetPolicy];
    Get "/api/operator-policies" => ListPolicies(Whose::Operators), [Manage, ReadOperatorPolicy];
    Get "/api/operator-policies/{vhost}" => ListPolicies(Whose::Operators), [Manage, ReadOperatorPolicy];
    Get "/api/operator-policies/{vhost}/{name}" => GetPolicy(Whose::Operators), [Manage, ReadOperatorPolicy];
    Put "/api/operator-policies/{vhost}/{name}" => PutPolicy(Whose::Operators), [Manage, SetOperatorPolicy];
    Delete "/api/operator-policies/{vhost}/{name}" => DeletePolicy(Whose::Operators), [Manage, SetOperatorPolicy];
    Get "/api/connections" => ListConnections, [Manage, ReadConnection];
    Get "/api/connections/username/{user}" => ListConnectionsOfUser, [Manage, ReadConnection];
    Delete "/api/connections/username/{user}" => CloseConnectionsOfUser, [Manage, CloseConnection];
    Get "/api/connections/{name}" => GetConnection, [Manage, ReadConnection];
    Delete "/api/connections/{name}" => CloseConnection, [Manage, CloseConnection];
    Get "/api/connections/{name}/sessions" => ListSessionsOfConnection, [Manage, ReadConnection];
    Get "/api/connections/{name}/channels" => ListChannelsOfConnection, [Manage, ReadConnection];
    Get "/api/vhosts/{vhost}/connections" => ListConnectionsInVhost, [Manage, ReadConnection];
    Get "/api/sessions" => ListSessions, [Manage, ReadConnection];
    Get "/api/vhosts/{vhost}/sessions" => ListSessionsInVhost, [Manage, ReadConnection];
    Get "/api/channels" => ListChannels, [Manage, ReadConnection];
    Get "/api/channels/{channel}" => GetChannel, [Manage, ReadConnection];
    Get "/api/vhosts/{vhost}/channels" => ListChannelsInVhost, [Manage, ReadConnection];
    Get "/api/consumers" => ListConsumers, [Manage, ReadConnection];
    Get "/api/consumers/{vhost}" => ListConsumersInVhost, [Manage, ReadConnection];
    Get "/api/explain" => Troubles, [Manage, ReadOverview];
    Get "/api/explain/links/{name}" => ExplainLink, [Manage, ExplainConnection];
    Get "/api/explain/links/{vhost}/{name}" => ExplainLinkOfVhost, [Manage, ExplainConnection];
    Get "/api/explain/queues/{vhost}/{name}" => ExplainQueue, [Manage, ExplainQueue];
    Get "/api/explain/connections/{name}" => ExplainConnection, [Manage, ExplainConnection];
    Get "/api/explain/addresses/{address}" => ExplainAddress, [Manage, ReadNodes];
    Get "/api/health/checks/certificate-expiration/{within}/{unit}" => CertificateExpiration, [Manage, ReadAlarms];
    Get "/api/health/checks/port-listener/{port}" => PortListener, [Manage, ReadOverview];
    Get "/api/health/checks/protocol-listener/{protocols}" => ProtocolListener, [Manage, ReadOverview];
    Get "/api/health/checks/below-node-connection-limit" => BelowConnectionLimit, [Manage, ReadOverview];
    Get "/api/health/checks/quorum-queues-without-elected-leaders/all-vhosts" => ElectedLeaders, [Manage, ReadOverview];
    Get "/api/health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}" => ElectedLeaders, [Manage, ReadOverview, ReadVhost, ReadQueue];
    Get "/api/health/checks/quorum-queues-without-elected-leaders/all-vhosts/pattern/{pattern}" => ElectedLeadersNamed, [Manage, ReadOverview];
    Get "/api/health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}/pattern/{pattern}" => ElectedLeadersNamed, [Manage, ReadOverview, ReadVhost, ReadQueue];
    Get "/api/aliveness-test/{vhost}" => Aliveness, [Manage, ReadOverview, ReadVhost];
    Get "/api/healthchecks/node" => AlwaysHealthy, [Manage, ReadOverview];
    Get "/api/healthchecks/node/{node}" => AlwaysHealthy, [Manage, ReadOverview];
    Get "/api/shovels" => EmptyList, [Manage];
    Get "/api/shovels/{vhost}" => EmptyList, [Manage];
    Get "/api/shovels/vhost/{vhost}/{name}" => Missing(SHOVELS), [Manage];
    Delete "/api/shovels/vhost/{vhost}/{name}" => Missing(SHOVELS), [Manage];
    Delete "/api/shovels/vhost/{vhost}/{name}/restart" => Missing(SHOVELS), [Manage];
    Get "/api/federation-links" => EmptyList, [Manage];
    Get "/api/federation-links/{vhost}" => EmptyList, [Manage];
    Get "/api/federation-links/state/down" => EmptyList, [Manage];
    Get "/api/federation-links/{vhost}/state/down" => EmptyList, [Manage];
    Delete "/api/federation-links/vhost/{vhost}/{name}/{node}/restart" => Missing(FEDERATION), [Manage];
    Get "/api/stream/connections" => EmptyList, [Manage];
    Get "/api/stream/connections/{vhost}" => EmptyList, [Manage];
    Get "/api/stream/consumers" => EmptyList, [Manage];
    Get "/api/stream/consumers/{vhost}" => EmptyList, [Manage];
    Get "/api/stream/publishers" => EmptyList, [Manage];
    Get "/api/stream/publishers/{vhost}" => EmptyList, [Manage];
    Put "/api/stream/super-streams/{vhost}/{name}" => Missing(STREAMS), [Manage];
    Get "/api/stream/{vhost}/{name}/tracking" => Missing(STREAMS), [Manage];
    Get "/api/traces" => ListTraces, [Manage, Administer];
    Get "/api/traces/{vhost}" => ListTraces, [Manage, Administer];
    Get "/api/traces/{vhost}/{name}" => GetTrace, [Manage, Administer];
    Put "/api/traces/{vhost}/{name}" => PutTrace, [Manage, Administer];
    Delete "/api/traces/{vhost}/{name}" => DeleteTrace, [Manage, Administer];
    Get "/api/trace-files" => EmptyList, [Manage];
    Get "/api/health/checks/virtual-hosts" => AlwaysHealthy, [Manage, ReadOverview];
    Get "/api/health/checks/node-is-quorum-critical" => QuorumCritical, [Manage, ReadOverview];
    Get "/api/health/checks/is-in-service" => AlwaysHealthy, [Manage, ReadOverview];
    Get "/api/health/checks/reached-target-cluster-size" => ClusterSize, [Manage, ReadOverview];
    Get "/api/health/checks/metadata-store/initialized" => AlwaysHealthy, [Manage, ReadOverview];
    Get "/api/health/checks/metadata-store/initialized/with-data" => AlwaysHealthy, [Manage, ReadOverview];
    Get "/api/health/checks/alarms" => Alarms, [Manage, ReadAlarms];
    Get "/api/health/checks/local-alarms" => LocalAlarms, [Manage, ReadOverview, ReadAlarms];
    Get "/api/health/checks/ready-to-serve-clients" => Ready, [Manage, ReadOverview];
};

/// The result of a lookup.
#[derive(Debug)]
pub(crate) enum Found {
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
pub(crate) fn find(method: Option<Method>, path: &str) -> Found {
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
