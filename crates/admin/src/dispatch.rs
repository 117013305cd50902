//! One request: reads it, checks it, and calls its handler.

use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{self, Response, StatusCode, header};
use node::AdminApi;
use serde_json::Map;

use crate::aside::aside;
use crate::audit::Line;
use crate::auth::Sender;
use crate::call::{Call, Source};
use crate::etag::Known;
use crate::ports::Ports;
use crate::query::Query;
use crate::receive::read_body;
use crate::reply::{Failure, Reply, respond};
use crate::routes::{Action, Found, Method, Route, allowed, find};
use crate::{
    accounts, attempts, auth, bindings, browse, channels, connections, definitions, described, exchanges,
    explain, health, json, memory, messages, moving, nodes, openapi, overview, page, page_login, parameters,
    parts, policies, queues, quorum, search, settings, shape, topics, traces, troubles, vhosts,
};

/// The number of characters of the header `X-Reason` that are passed on. They must fit into one frame.
const REASON_CHARS_MAX: usize = 255;

pub(crate) async fn handle(
    State(Source { api, ports }): State<Source>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response<Body> {
    let known = Known::of(request.method(), request.headers());
    match (answer(&api, &ports, peer, request).await, known) {
        (Ok(Reply::Json(body)), Some(known)) => known.respond(&body),
        (result, _) => respond(result),
    }
}

async fn answer(api: &AdminApi, ports: &Ports, peer: SocketAddr, request: Request) -> Result<Reply, Failure> {
    let (head, body) = request.into_parts();
    let method = Method::parse(head.method.as_str());
    let (route, params, in_vhost) = match find(method, head.uri.path()) {
        Found::Route { route, params, in_vhost } => (route, params, in_vhost),
        Found::Nothing => return Err(Failure::unknown_path()),
        Found::BadPath => return Err(Failure::bad_request("the path is not UTF-8")),
        Found::OtherMethods(methods) => {
            return Err(Failure::method_not_allowed(allowed(&methods)));
        }
    };
    match route.action {
        Action::Index => return page::index(&head.headers),
        Action::Asset => return page::asset(&params[0], &head.headers),
        Action::PageLogin => return Ok(page_login::get(ports.page_login())),
        _ => {}
    }
    let sender = auth::authenticate(api, ports, &head.uri, &head.headers, peer).await?;
    let line = Line::new(&sender, route, &params);
    let request = Request::from_parts(head, body);
    let result = carry_out(api, ports, &sender, route, &params, in_vhost, request).await;
    line.write(&result);
    result
}

/// Carries out a request of a user. `in_vhost` says whether the first of `params` is a virtual host.
async fn carry_out(
    api: &AdminApi,
    ports: &Ports,
    sender: &Sender,
    route: &Route,
    params: &[String],
    in_vhost: bool,
    request: Request,
) -> Result<Reply, Failure> {
    auth::permit(&sender.who, route.verbs)?;
    let (head, body) = request.into_parts();
    // The memory counts for the fields as well, until the request has been carried out.
    let mut held = ports.bodies().hold();
    let (fields, body) = if route.has_body() {
        let announced =
            head.headers.get(header::CONTENT_LENGTH).and_then(|l| l.to_str().ok()?.parse::<usize>().ok());
        let body = read_body(body, announced, &mut held, ports.bodies()).await?;
        match route.action {
            Action::PostDefinitions | Action::PostDefinitionsOfVhost => (Map::new(), body.into()),
            _ => (aside(body.len(), move || json::parse_body(&body)).await??, Vec::new().into()),
        }
    } else {
        (Map::new(), Vec::new().into())
    };
    let query = Query::parse(head.uri.query().unwrap_or_default());
    query.check()?;
    let reason = head.headers.get("x-reason").and_then(|r| r.to_str().ok());
    let reason = reason.map(|r| r.chars().take(REASON_CHARS_MAX).collect());
    let (who, peer) = (sender.who.clone(), sender.address);
    let only_new = head.headers.get(header::IF_NONE_MATCH).is_some_and(|tags| tags == "*");
    let call = Call { api, ports, who, peer, query, fields, body, reason, only_new, params };
    let kind = match route.action {
        Action::Publish => Some("exchange_not_found"),
        Action::GetMessages => Some("queue_not_found"),
        _ => None,
    };
    let named = |failure: Failure, kind: Option<&str>| match kind {
        Some(kind) => failure.naming(kind),
        None => failure,
    };
    let mut result = dispatch(route.action, &call).await;
    // Another node of the cluster may have what is read.
    if head.method == http::Method::GET
        && result.as_ref().is_err_and(|failure| failure.status == StatusCode::NOT_FOUND)
        && api.catch_up().await
    {
        result = dispatch(route.action, &call).await;
    }
    match result.map_err(|failure| named(failure, kind)) {
        // The virtual host may not exist. The admin API refuses access then, but RabbitMQ answers 404, and so does
        // this function.
        Err(refused) if refused.status == StatusCode::UNAUTHORIZED => {
            if in_vhost {
                let found = vhosts::require(&call, call.param(0)).await;
                found.map_err(|failure| named(failure, kind.map(|_| "vhost_not_found")))?;
            }
            Err(refused)
        }
        result => result,
    }
}

async fn dispatch(action: Action, call: &Call<'_>) -> Result<Reply, Failure> {
    match action {
        // `answer` has served these.
        Action::Index | Action::Asset | Action::PageLogin => Err(Failure::unknown_path()),
        Action::Overview => overview::overview(call).await,
        Action::Whoami => Ok(overview::whoami(call)),
        Action::GetDefinitions => definitions::get(call).await,
        Action::GetDefinitionsOfVhost => definitions::get_of_vhost(call).await,
        Action::PostDefinitions => definitions::post(call).await,
        Action::PostDefinitionsOfVhost => definitions::post_to_vhost(call).await,
        Action::ListParameters => parameters::list(call).await,
        Action::PutParameter => parameters::put(call).await,
        Action::DeleteParameter => parameters::delete(call).await,
        Action::ListGlobalParameters => parameters::list_global(call).await,
        Action::PutGlobalParameter => parameters::put_global(call).await,
        Action::DeleteGlobalParameter => parameters::delete_global(call).await,
        Action::ListVhosts => vhosts::list(call).await,
        Action::GetVhost => vhosts::get(call).await,
        Action::PutVhost => vhosts::put(call).await,
        Action::DeleteVhost => vhosts::delete(call).await,
        Action::GetVhostProtection => vhosts::is_protected(call).await,
        Action::ProtectVhost(protected) => vhosts::protect(call, protected).await,
        Action::VhostLimits => vhosts::limits(call).await,
        Action::PutVhostLimit => vhosts::put_limit(call).await,
        Action::DeleteVhostLimit => vhosts::delete_limit(call).await,
        Action::UserLimits => accounts::limits(call).await,
        Action::PutUserLimit => accounts::put_limit(call).await,
        Action::DeleteUserLimit => accounts::delete_limit(call).await,
        Action::ListUsers => accounts::list_users(call).await,
        Action::ListUsersWithoutPermissions => accounts::list_users_without_permissions(call).await,
        Action::GetUser => accounts::get_user(call),
        Action::PutUser => accounts::put_user(call).await,
        Action::PatchUser => accounts::patch_user(call).await,
        Action::DeleteUser => accounts::delete_user(call).await,
        Action::DeleteUsers => accounts::delete_users(call).await,
        Action::HashPassword => accounts::hash_password(call).await,
        Action::ListAuthAttempts => attempts::list(call, false).await,
        Action::ListAuthAttemptsBySource => attempts::list(call, true).await,
        Action::ResetAuthAttempts => attempts::reset(call).await,
        Action::PermissionsOfUser => accounts::permissions_of_user(call).await,
        Action::PermissionsInVhost => accounts::permissions_in_vhost(call).await,
        Action::ListPermissions => accounts::list_permissions(call).await,
        Action::GetPermissions => accounts::get_permissions(call),
        Action::PutPermissions => accounts::put_permissions(call).await,
        Action::DeletePermissions => accounts::delete_permissions(call).await,
        Action::TopicPermissionsOfUser => topics::of_user(call).await,
        Action::TopicPermissionsInVhost => topics::in_vhost(call).await,
        Action::ListTopicPermissions => topics::list(call).await,
        Action::TopicPermissionsOfUserInVhost => topics::of_user_in_vhost(call).await,
        Action::GetTopicPermissions => topics::get(call),
        Action::PutTopicPermissions => topics::put(call).await,
        Action::DeleteTopicPermissions => topics::clear(call).await,
        Action::ListNodes => nodes::list(call).await,
        Action::GetNode => nodes::get(call).await,
        Action::ListQueues => queues::list(call).await,
        Action::GetQueue => queues::get(call).await,
        Action::PutQueue => queues::put(call).await,
        Action::DeleteQueue => queues::delete(call).await,
        Action::PurgeQueue => queues::purge(call).await,
        Action::BrowseQueue => browse::browse(call).await,
        Action::GetMessages => messages::get(call).await,
        Action::Publish => messages::publish(call).await,
        Action::PeekQueue => browse::peek(call).await,
        Action::SearchQueue => search::search(call).await,
        Action::Move => moving::move_messages(call).await,
        Action::Redrive => moving::redrive(call).await,
        Action::QuorumStatus => quorum::status(call).await,
        Action::Checkpoint => quorum::checkpoint(call).await,
        Action::ReclaimMemory => quorum::reclaim_memory(call).await,
        Action::ChangeMember(change) => quorum::change(call, change).await,
        Action::ListFeatureFlags => parts::feature_flags(call).await,
        Action::EnableFeatureFlag => parts::enable_feature_flag(call),
        Action::Grow => quorum::grow(call),
        Action::Shrink => quorum::shrink(call).await,
        Action::Rebalance => quorum::rebalance(call),
        Action::QueueBindings => bindings::of_queue(call).await,
        Action::ListExchanges => exchanges::list(call).await,
        Action::GetExchange => exchanges::get(call).await,
        Action::PutExchange => exchanges::put(call).await,
        Action::DeleteExchange => exchanges::delete(call).await,
        Action::SourceBindings => bindings::of_source(call).await,
        Action::DestinationBindings => bindings::of_exchange_destination(call).await,
        Action::ListBindings => bindings::list(call).await,
        Action::PairBindings(to) => bindings::of_pair(call, to).await,
        Action::Bind(to) => bindings::create(call, to).await,
        Action::GetBinding(to) => bindings::get(call, to).await,
        Action::Unbind(to) => bindings::delete(call, to).await,
        Action::ListPolicies(whose) => policies::list(call, whose).await,
        Action::GetPolicy(whose) => policies::get(call, whose).await,
        Action::PutPolicy(whose) => policies::put(call, whose).await,
        Action::DeletePolicy(whose) => policies::delete(call, whose).await,
        Action::ListConnections => connections::list(call).await,
        Action::GetConnection => connections::get(call).await,
        Action::CloseConnection => connections::close(call).await,
        Action::ListSessions | Action::ListSessionsInVhost => connections::sessions(call).await,
        Action::ListSessionsOfConnection => connections::sessions_of_connection(call).await,
        Action::ListConnectionsInVhost => connections::in_vhost(call).await,
        Action::ListConnectionsOfUser => connections::of_user(call).await,
        Action::CloseConnectionsOfUser => connections::close_of_user(call).await,
        Action::ListChannels | Action::ListChannelsInVhost => channels::list(call).await,
        Action::ListChannelsOfConnection => channels::of_connection(call).await,
        Action::GetChannel => channels::get(call).await,
        Action::ListConsumers | Action::ListConsumersInVhost => channels::consumers(call).await,
        Action::Troubles => troubles::list(call).await,
        Action::ExplainLink => explain::link(call).await,
        Action::ExplainLinkOfVhost => explain::link_of_vhost(call).await,
        Action::ExplainQueue => explain::queue(call).await,
        Action::ExplainConnection => explain::connection(call).await,
        Action::ExplainAddress => explain::address(call).await,
        Action::Version => overview::version(call).await,
        Action::ClusterName => overview::cluster_name(call).await,
        Action::NameCluster => parameters::name_cluster(call).await,
        Action::EmptyList => Ok(Reply::Json(shape::list(Vec::new(), &call.query, &[]).await?)),
        Action::Arguments => Ok(described::get()),
        Action::OpenApi => Ok(openapi::get()),
        Action::EffectiveSettings => Ok(settings::effective(call.ports.settings())),
        Action::SetSetting => settings::set(call).await,
        Action::ResetSetting => settings::reset(call).await,
        Action::Missing(instead) => Err(Failure::missing(instead)),
        Action::DeprecatedFeatures(used) => parts::deprecated_features(call, used).await,
        Action::ListTraces => traces::list(call).await,
        Action::GetTrace => traces::get(call).await,
        Action::PutTrace => traces::put(call).await,
        Action::DeleteTrace => traces::delete(call).await,
        Action::GetParameter => parameters::get(call).await,
        Action::GetGlobalParameter => parameters::get_global(call).await,
        Action::StartVhost => vhosts::start(call).await,
        Action::MemoryOfNode(in_percent) => memory::memory(call, in_percent).await,
        Action::PortListener => health::port_listener(call).await,
        Action::ProtocolListener => health::protocol_listener(call).await,
        Action::BelowConnectionLimit => health::below_connection_limit(call).await,
        Action::ElectedLeaders => health::elected_leaders(call).await,
        Action::ElectedLeadersNamed => health::elected_leaders_named(call).await,
        Action::Aliveness => health::aliveness(call).await,
        Action::QuorumCritical => health::quorum_critical(call).await,
        Action::ClusterSize => health::cluster_size(call).await,
        Action::AlwaysHealthy => health::always(call).await,
        Action::Alarms => health::alarms(call, None),
        Action::LocalAlarms => health::local_alarms(call).await,
        Action::CertificateExpiration => health::certificate_expiration(call),
        Action::Ready => health::ready(call).await,
    }
}
