//! One request on its way from the socket to its handler.

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{Response, StatusCode, header};
use broker::access::Identity;
use broker::desk::Desk;
use serde_json::{Map, Value};

use crate::query::Query;
use crate::reply::{Failure, Reply, respond};
use crate::routes::{Action, Found, Verb, find};
use crate::{
    auth, bindings, browse, connections, exchanges, explain, health, json, overview, policies, queues,
};

/// Bytes of a request's body; a larger one is refused, as the reference refuses it.
const BODY_BYTES_MAX: usize = 10_000_000;

/// How long a body may take to arrive.
const BODY_TIME_MAX: Duration = Duration::from_secs(30);

/// Characters of the header `X-Reason` that are passed on: they go into one frame.
const REASON_CHARS_MAX: usize = 255;

/// A request whose sender is known.
#[derive(Debug)]
pub struct Call<'a, D> {
    pub desk: &'a D,
    pub who: Identity,
    pub query: Query,
    /// The fields of the body; none if the verb has no body.
    pub fields: Map<String, Value>,
    /// What the header `X-Reason` says.
    pub reason: Option<String>,
    params: Vec<String>,
}

impl<D> Call<'_, D> {
    /// What stands at the route's part in braces with this number.
    pub fn param(&self, index: usize) -> &str {
        self.params.get(index).map_or("", String::as_str)
    }

    /// As [`Self::param`], if the route has that many.
    pub fn optional_param(&self, index: usize) -> Option<&str> {
        self.params.get(index).map(String::as_str)
    }
}

pub async fn handle<D: Desk>(
    State(desk): State<D>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response<Body> {
    respond(answer(&desk, peer, request).await)
}

async fn answer<D: Desk>(desk: &D, peer: SocketAddr, request: Request) -> Result<Reply, Failure> {
    let (head, body) = request.into_parts();
    let verb = Verb::parse(head.method.as_str());
    let (action, params, in_vhost) = match find(verb, head.uri.path()) {
        Found::Route { action, params, in_vhost } => (action, params, in_vhost),
        Found::Nothing => return Err(Failure::not_found("Not Found")),
        Found::BadPath => return Err(Failure::bad_request("the path is not UTF-8")),
        Found::OtherVerbs(verbs) => {
            let allow: Vec<String> = verbs.iter().map(Verb::to_string).collect();
            return Err(Failure::method_not_allowed(allow.join(", ")));
        }
    };
    if action == Action::Index {
        return overview::index(desk).await;
    }
    let who = auth::authenticate(desk, &head.headers, peer.ip())?;
    let fields = if verb.is_some_and(Verb::has_body) {
        let announced =
            head.headers.get(header::CONTENT_LENGTH).and_then(|l| l.to_str().ok()?.parse::<usize>().ok());
        json::parse_body(&read_body(body, announced).await?)?
    } else {
        Map::new()
    };
    let query = Query::parse(head.uri.query().unwrap_or_default());
    let reason = head.headers.get("x-reason").and_then(|r| r.to_str().ok());
    let reason = reason.map(|r| r.chars().take(REASON_CHARS_MAX).collect());
    let call = Call { desk, who, query, fields, reason, params };
    match dispatch(action, &call).await {
        // A desk says no to whatever is in a virtual host that does not exist; the reference says 404.
        Err(refused) if refused.status == StatusCode::UNAUTHORIZED => {
            if in_vhost {
                overview::require_vhost(&call, call.param(0)).await?;
            }
            Err(refused)
        }
        result => result,
    }
}

async fn dispatch<D: Desk>(action: Action, call: &Call<'_, D>) -> Result<Reply, Failure> {
    match action {
        Action::Index => Err(Failure::not_found("Not Found")),
        Action::Overview => overview::overview(call).await,
        Action::Whoami => Ok(overview::whoami(call)),
        Action::ListVhosts => overview::list_vhosts(call).await,
        Action::GetVhost => overview::get_vhost(call).await,
        Action::ListNodes => overview::list_nodes(call).await,
        Action::GetNode => overview::get_node(call).await,
        Action::ListQueues => queues::list(call).await,
        Action::GetQueue => queues::get(call).await,
        Action::PutQueue => queues::put(call).await,
        Action::DeleteQueue => queues::delete(call).await,
        Action::PurgeQueue => queues::purge(call).await,
        Action::BrowseQueue => browse::browse(call).await,
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
        Action::ListSessions => connections::sessions(call).await,
        Action::ExplainLink => explain::link(call).await,
        Action::ExplainLinkOfVhost => explain::link_of_vhost(call).await,
        Action::ExplainQueue => explain::queue(call).await,
        Action::ExplainConnection => explain::connection(call).await,
        Action::Alarms => health::alarms(call, None),
        Action::LocalAlarms => health::local_alarms(call).await,
        Action::Ready => health::ready(call).await,
    }
}

async fn read_body(body: Body, announced: Option<usize>) -> Result<axum::body::Bytes, Failure> {
    let too_large = || Failure::bad_request("Exceeded HTTP request body size limit");
    if announced.is_some_and(|bytes| bytes > BODY_BYTES_MAX) {
        return Err(too_large());
    }
    match tokio::time::timeout(BODY_TIME_MAX, to_bytes(body, BODY_BYTES_MAX)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(_)) => Err(too_large()),
        Err(_) => Err(Failure::bad_request("the body took too long")),
    }
}
