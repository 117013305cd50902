//! The fields of bodies that the OpenAPI document describes.

use serde_json::{Map, Value, json};

use super::http::Server;
use crate::bodies::{Field, Kind, fields};
use crate::routes::{Action, ROUTES};

/// Returns a value that the field may not hold; `None` if there is none.
fn wrong(kind: Kind) -> Option<Value> {
    match kind {
        Kind::Flag | Kind::Whole => Some(json!("x")),
        Kind::Text | Kind::Table | Kind::List | Kind::Tags => Some(json!(7)),
        Kind::Any => None,
    }
}

/// Returns a body of some of the examples, in which one field is wrong.
fn body(fields: &[Field], broken: &Field, wanted: impl Fn(&Field) -> bool) -> String {
    let others = fields.iter().filter(|field| field.name != broken.name && wanted(field));
    let mut body: Map<String, Value> =
        others.map(|field| (field.name.to_owned(), field.example_value())).collect();
    if let Some(value) = wrong(broken.kind) {
        body.insert(broken.name.to_owned(), value);
    }
    Value::Object(body).to_string()
}

#[tokio::test]
async fn each_field_is_read_by_its_handler() {
    let server = Server::start().await;
    for route in ROUTES.iter().filter(|route| route.has_body()) {
        let fields = fields(route.action);
        let node = "n@h";
        let limit = matches!(route.action, Action::PutVhostLimit | Action::PutUserLimit);
        let name = if limit { "max-connections" } else { "new" };
        let path = [("{vhost}", "%2F"), ("{node}", node), ("{name}", name)];
        let path = path.iter().fold(route.path.to_owned(), |path, (part, with)| path.replace(part, with));
        let path = path.replace(['{', '}'], "");
        for field in fields {
            // Some fields are read only together with others, and some only without one of them.
            let mut bodies = vec![body(fields, field, |_| true), body(fields, field, |other| other.required)];
            bodies.extend(
                fields.iter().map(|left_out| body(fields, field, |other| other.name != left_out.name)),
            );
            let mut reasons = Vec::new();
            for body in bodies {
                let answer = server.ask(Some("guest"), &route.method.to_string(), &path, &body).await;
                reasons.push((answer.status, answer.body));
            }
            let is_named = |(status, answer): &(u16, String)| {
                let reason = serde_json::from_str::<Value>(answer).ok();
                let reason = reason.and_then(|answer| answer["reason"].as_str().map(str::to_owned));
                *status == 400 && reason.is_some_and(|reason| reason.contains(field.name))
            };
            assert!(reasons.iter().any(is_named), "{} {path}: '{}': {reasons:?}", route.method, field.name);
        }
    }
}

#[test]
fn examples_are_json() {
    for route in ROUTES {
        for field in fields(route.action) {
            let example: Result<Value, _> = serde_json::from_str(field.example);
            assert!(example.is_ok(), "{}: {}", route.path, field.name);
        }
    }
}
