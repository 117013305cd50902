//! Which requests get a line in the log, and what it says.

use axum::http::StatusCode;
use broker::audit::Rate;
use catalog::access::Protocol;
use catalog::names::cut;

use crate::auth::Sender;
use crate::reply::{Failure, Reply};
use crate::routes::{Action, Method, Route};

/// The line about a request that has changed or deleted something, or that its sender may not make. Nobody escapes it by closing
/// the connection, which ends the request but not the change.
pub(crate) struct Line<'a> {
    sender: &'a Sender,
    route: &'a Route,
    params: &'a [String],
    is_written: bool,
}

impl<'a> Line<'a> {
    pub(crate) fn new(sender: &'a Sender, route: &'a Route, params: &'a [String]) -> Self {
        Self { sender, route, params, is_written: false }
    }

    /// Writes the line, unless the result of the request needs none.
    pub(crate) fn write(mut self, result: &Result<Reply, Failure>) {
        self.is_written = true;
        let (actor, route) = (self.sender.actor(), self.route);
        let is_change = is_change(route);
        match result {
            Err(failure) if failure.status == StatusCode::UNAUTHORIZED => {
                actor.refused(&self.what(), &self.on(), failure.text());
            }
            Ok(_) if is_change => actor.changed(&self.what(), &self.on(), self.rate()),
            Err(failure) if is_change => actor.failed(&self.what(), &self.on(), failure.text()),
            _ => {}
        }
    }

    fn what(&self) -> String {
        format!("{} {}", self.route.method, self.route.path)
    }

    fn rate(&self) -> Rate {
        Rate::of(&self.sender.who, Protocol::Http)
    }

    fn on(&self) -> String {
        names(self.route, self.params)
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        if !self.is_written && is_change(self.route) {
            self.sender.actor().left(&self.what(), &self.on(), self.rate());
        }
    }
}

/// Returns true for requests that change or delete something. Clients declare queues, exchanges and bindings, and send and take
/// messages, all the time, so those are left out.
fn is_change(route: &Route) -> bool {
    let is_frequent = matches!(
        route.action,
        Action::HashPassword
            | Action::PutQueue
            | Action::PutExchange
            | Action::Bind(_)
            | Action::Publish
            | Action::GetMessages
    );
    route.method != Method::Get && !is_frequent
}

/// Returns the names in the path: `vhost=/ name=q`.
fn names(route: &Route, params: &[String]) -> String {
    let parts = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let named = parts.zip(params).filter(|(part, _)| *part != "password");
    let named: Vec<String> = named.map(|(part, name)| format!("{part}={}", cut(name))).collect();
    named.join(" ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use catalog::access::Identity;
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;
    use crate::routes::{Found, ROUTES, find};

    #[test]
    fn the_names_in_a_path_are_shown_but_no_password() {
        let names_of = |method, path| match find(Some(method), path) {
            Found::Route { route, params, .. } => names(route, &params),
            found => panic!("{path}: {found:?}"),
        };
        assert_eq!(names_of(Method::Delete, "/api/queues/%2F/a%20b"), "vhost=/ name=a b");
        assert_eq!(names_of(Method::Put, "/api/permissions/v/ann"), "vhost=v user=ann");
        assert_eq!(names_of(Method::Get, "/api/auth/hash_password/hunter2"), "");
        let long = "q".repeat(5_000);
        assert!(names_of(Method::Delete, &format!("/api/queues/{long}/{long}")).len() < 1_000);
    }

    /// Counts events.
    #[derive(Clone, Default)]
    struct Counter(Arc<AtomicUsize>);

    impl Subscriber for Counter {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, _: &Event<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn whoever_leaves_before_the_answer_leaves_a_line() {
        let written = Counter::default();
        let _scope = tracing::subscriber::set_default(written.clone());
        let sender = Sender::for_test(Identity::internal("ann", "administrator"));
        let count = |method, result: Option<Result<Reply, Failure>>| {
            let Found::Route { route, params, .. } = find(Some(method), "/api/vhosts/v") else { panic!() };
            let line = Line::new(&sender, route, &params);
            match result {
                Some(result) => line.write(&result),
                None => drop(line),
            }
            written.0.swap(0, Ordering::Relaxed)
        };
        assert_eq!(count(Method::Delete, None), 1);
        assert_eq!(count(Method::Delete, Some(Ok(Reply::NoContent))), 1);
        assert_eq!(count(Method::Delete, Some(Err(Failure::not_found("v")))), 1);
        assert_eq!(count(Method::Get, None), 0);
        assert_eq!(count(Method::Get, Some(Ok(Reply::NoContent))), 0);
        assert_eq!(count(Method::Get, Some(Err(Failure::not_found("v")))), 0);
        assert_eq!(count(Method::Get, Some(Err(Failure::not_authorised("v")))), 1);
    }

    #[test]
    fn a_new_route_that_changes_something_has_a_line() {
        let without: Vec<String> = ROUTES
            .iter()
            .filter(|route| route.method != Method::Get && !is_change(route))
            .map(|route| format!("{} {}", route.method, route.path))
            .collect();
        assert_eq!(
            without,
            [
                "POST /api/auth/hash_password",
                "PUT /api/queues/{vhost}/{name}",
                "POST /api/queues/{vhost}/{name}/get",
                "PUT /api/exchanges/{vhost}/{name}",
                "POST /api/exchanges/{vhost}/{name}/publish",
                "POST /api/bindings/{vhost}/e/{source}/q/{destination}",
                "POST /api/bindings/{vhost}/e/{source}/e/{destination}",
            ]
        );
    }
}
