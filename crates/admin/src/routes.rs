//! The table of routes. What is not in it does not exist; what is in it is authorized before it runs.

use std::fmt;

use percent_encoding::percent_decode_str;

/// What a request may do to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Get,
    Put,
    Post,
    Delete,
}

impl Verb {
    /// HEAD is a GET whose body the server leaves out.
    pub fn parse(method: &str) -> Option<Self> {
        match method {
            "GET" | "HEAD" => Some(Self::Get),
            "PUT" => Some(Self::Put),
            "POST" => Some(Self::Post),
            "DELETE" => Some(Self::Delete),
            _ => None,
        }
    }

    /// Whether the request's body is read.
    pub fn has_body(self) -> bool {
        matches!(self, Self::Put | Self::Post)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Post => "POST",
            Self::Delete => "DELETE",
        })
    }
}

/// What a route does; one handler each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Index,
    Overview,
    Whoami,
    ListVhosts,
    GetVhost,
    ListNodes,
    GetNode,
    ListQueues,
    GetQueue,
    PutQueue,
    DeleteQueue,
    PurgeQueue,
    BrowseQueue,
    QueueBindings,
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
    ExplainLink,
    ExplainLinkOfVhost,
    ExplainQueue,
    ExplainConnection,
    Alarms,
    LocalAlarms,
    Ready,
}

/// What a binding leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    Queue,
    Exchange,
}

/// Which of the two kinds of policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    Users,
    Operators,
}

/// Every route. A part in braces matches any one segment.
pub const ROUTES: &[(Verb, &str, Action)] = &[
    (Verb::Get, "/", Action::Index),
    (Verb::Get, "/api/overview", Action::Overview),
    (Verb::Get, "/api/whoami", Action::Whoami),
    (Verb::Get, "/api/vhosts", Action::ListVhosts),
    (Verb::Get, "/api/vhosts/{vhost}", Action::GetVhost),
    (Verb::Get, "/api/nodes", Action::ListNodes),
    (Verb::Get, "/api/nodes/{node}", Action::GetNode),
    (Verb::Get, "/api/queues", Action::ListQueues),
    (Verb::Get, "/api/queues/{vhost}", Action::ListQueues),
    (Verb::Get, "/api/queues/{vhost}/{name}", Action::GetQueue),
    (Verb::Put, "/api/queues/{vhost}/{name}", Action::PutQueue),
    (Verb::Delete, "/api/queues/{vhost}/{name}", Action::DeleteQueue),
    (Verb::Delete, "/api/queues/{vhost}/{name}/contents", Action::PurgeQueue),
    (Verb::Get, "/api/queues/{vhost}/{name}/messages", Action::BrowseQueue),
    (Verb::Get, "/api/queues/{vhost}/{name}/bindings", Action::QueueBindings),
    (Verb::Get, "/api/exchanges", Action::ListExchanges),
    (Verb::Get, "/api/exchanges/{vhost}", Action::ListExchanges),
    (Verb::Get, "/api/exchanges/{vhost}/{name}", Action::GetExchange),
    (Verb::Put, "/api/exchanges/{vhost}/{name}", Action::PutExchange),
    (Verb::Delete, "/api/exchanges/{vhost}/{name}", Action::DeleteExchange),
    (Verb::Get, "/api/exchanges/{vhost}/{name}/bindings/source", Action::SourceBindings),
    (Verb::Get, "/api/exchanges/{vhost}/{name}/bindings/destination", Action::DestinationBindings),
    (Verb::Get, "/api/bindings", Action::ListBindings),
    (Verb::Get, "/api/bindings/{vhost}", Action::ListBindings),
    (Verb::Get, "/api/bindings/{vhost}/e/{source}/q/{destination}", Action::PairBindings(To::Queue)),
    (Verb::Post, "/api/bindings/{vhost}/e/{source}/q/{destination}", Action::Bind(To::Queue)),
    (Verb::Get, "/api/bindings/{vhost}/e/{source}/q/{destination}/{props}", Action::GetBinding(To::Queue)),
    (Verb::Delete, "/api/bindings/{vhost}/e/{source}/q/{destination}/{props}", Action::Unbind(To::Queue)),
    (Verb::Get, "/api/bindings/{vhost}/e/{source}/e/{destination}", Action::PairBindings(To::Exchange)),
    (Verb::Post, "/api/bindings/{vhost}/e/{source}/e/{destination}", Action::Bind(To::Exchange)),
    (Verb::Get, "/api/bindings/{vhost}/e/{source}/e/{destination}/{props}", Action::GetBinding(To::Exchange)),
    (Verb::Delete, "/api/bindings/{vhost}/e/{source}/e/{destination}/{props}", Action::Unbind(To::Exchange)),
    (Verb::Get, "/api/policies", Action::ListPolicies(Whose::Users)),
    (Verb::Get, "/api/policies/{vhost}", Action::ListPolicies(Whose::Users)),
    (Verb::Get, "/api/policies/{vhost}/{name}", Action::GetPolicy(Whose::Users)),
    (Verb::Put, "/api/policies/{vhost}/{name}", Action::PutPolicy(Whose::Users)),
    (Verb::Delete, "/api/policies/{vhost}/{name}", Action::DeletePolicy(Whose::Users)),
    (Verb::Get, "/api/operator-policies", Action::ListPolicies(Whose::Operators)),
    (Verb::Get, "/api/operator-policies/{vhost}", Action::ListPolicies(Whose::Operators)),
    (Verb::Get, "/api/operator-policies/{vhost}/{name}", Action::GetPolicy(Whose::Operators)),
    (Verb::Put, "/api/operator-policies/{vhost}/{name}", Action::PutPolicy(Whose::Operators)),
    (Verb::Delete, "/api/operator-policies/{vhost}/{name}", Action::DeletePolicy(Whose::Operators)),
    (Verb::Get, "/api/connections", Action::ListConnections),
    (Verb::Get, "/api/connections/{name}", Action::GetConnection),
    (Verb::Delete, "/api/connections/{name}", Action::CloseConnection),
    (Verb::Get, "/api/connections/{name}/sessions", Action::ListSessions),
    (Verb::Get, "/api/explain/links/{name}", Action::ExplainLink),
    (Verb::Get, "/api/explain/links/{vhost}/{name}", Action::ExplainLinkOfVhost),
    (Verb::Get, "/api/explain/queues/{vhost}/{name}", Action::ExplainQueue),
    (Verb::Get, "/api/explain/connections/{name}", Action::ExplainConnection),
    (Verb::Get, "/api/health/checks/alarms", Action::Alarms),
    (Verb::Get, "/api/health/checks/local-alarms", Action::LocalAlarms),
    (Verb::Get, "/api/health/checks/ready-to-serve-clients", Action::Ready),
];

/// What came of looking a request up.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// The action and what stands at the parts in braces, decoded; whether the first of them is a virtual host.
    Route { action: Action, params: Vec<String>, in_vhost: bool },
    /// Nothing has this path.
    Nothing,
    /// The path exists for these verbs only.
    OtherVerbs(Vec<Verb>),
    /// A segment is no UTF-8 when decoded.
    BadPath,
}

/// Looks a request up. `%2F` does not separate segments; one slash at the end is ignored.
pub fn find(verb: Option<Verb>, path: &str) -> Found {
    let path = if path.len() > 1 { path.strip_suffix('/').unwrap_or(path) } else { path };
    let mut others = Vec::new();
    for (known, pattern, action) in ROUTES {
        let Some(raw) = match_pattern(pattern, path) else { continue };
        if Some(*known) != verb {
            others.push(*known);
            continue;
        }
        let decoded: Result<Vec<String>, _> =
            raw.into_iter().map(|s| percent_decode_str(s).decode_utf8().map(|s| s.into_owned())).collect();
        let in_vhost = pattern.contains("/{vhost}");
        return decoded.map_or(Found::BadPath, |params| Found::Route { action: *action, params, in_vhost });
    }
    if others.is_empty() { Found::Nothing } else { Found::OtherVerbs(others) }
}

/// The segments at the parts in braces, if the path fits.
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
            let params = params.iter().map(|p| (*p).to_owned()).collect();
            Found::Route { action, params, in_vhost }
        };
        let get = |path| find(Some(Verb::Get), path);
        assert_eq!(get("/api/queues/%2F/a%2fb%20c"), route(Action::GetQueue, &["/", "a/b c"], true));
        assert_eq!(get("/api/connections/c"), route(Action::GetConnection, &["c"], false));
        assert_eq!(get("/api/queues/"), route(Action::ListQueues, &[], false));
        assert_eq!(get("/"), route(Action::Index, &[], false));
    }

    #[test]
    fn the_unknown_and_the_impossible() {
        assert_eq!(find(Some(Verb::Get), "/api/nope"), Found::Nothing);
        assert_eq!(find(Some(Verb::Get), ""), Found::Nothing);
        assert_eq!(find(Some(Verb::Get), "/api/queues/%ff"), Found::BadPath);
        assert_eq!(find(None, "/api/overview"), Found::OtherVerbs(vec![Verb::Get]));
        assert_eq!(
            find(Some(Verb::Put), "/api/connections/c"),
            Found::OtherVerbs(vec![Verb::Get, Verb::Delete])
        );
    }

    #[test]
    fn no_two_routes_are_the_same() {
        for (i, (verb, pattern, _)) in ROUTES.iter().enumerate() {
            assert!(!ROUTES[..i].iter().any(|(v, p, _)| v == verb && p == pattern), "{verb} {pattern}");
        }
    }
}
