//! `GET /api/openapi.json`: a description of the API for programs, in the form of OpenAPI 3.1. It is made from the table of
//! routes, so it has each route and no other.

use std::sync::LazyLock;

use broker::settings::SLUICE_VERSION;
use catalog::access::Identity;
use serde_json::{Map, Value, json};

use crate::auth;
use crate::bodies;
use crate::queries;
use crate::reply::Reply;
use crate::routes::{Action, Method, ROUTES, Route};

/// The version of OpenAPI.
const OPENAPI: &str = "3.1.0";

/// The tags of users that some routes need.
const TAGS: [&str; 4] = ["administrator", "monitoring", "policymaker", "management"];

/// Everything below this path is the API. The rest is the web page.
const ROOT: &str = "/api/";

pub(crate) fn get() -> Reply {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(document);
    Reply::Json(DOCUMENT.clone())
}

fn document() -> Value {
    let mut paths = Map::new();
    for route in ROUTES.iter().filter(|route| route.path.starts_with(ROOT)) {
        let path = paths.entry(route.path).or_insert_with(|| json!({ "parameters": parameters(route.path) }));
        path[method(route.method)] = operation(route);
    }
    json!({
        "openapi": OPENAPI,
        "info": {
            "title": "Sluice management API",
            "version": SLUICE_VERSION,
            "description": "The HTTP API of RabbitMQ's management plugin, and some routes of Sluice. Names in paths are \
                            percent-encoded: the virtual host / is %2F. docs/compatibility.md says what differs from RabbitMQ.",
        },
        "security": [{ "basic": [] }, { "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "basic": { "type": "http", "scheme": "basic" },
                "token": { "type": "http", "scheme": "bearer", "bearerFormat": "JWT" },
            },
            "schemas": {
                "Error": {
                    "type": "object",
                    "required": ["error", "reason"],
                    "properties": {
                        "error": { "type": "string" },
                        "reason": { "type": "string" },
                        "detail": { "type": "string", "description": "What there is not, for 404" },
                    },
                },
            },
            "parameters": queries::all().map(|parameter| (parameter.name.to_owned(), parameter.schema())).collect::<Map<_, _>>(),
            "responses": {
                "Error": {
                    "description": "The request was not carried out, and why.",
                    "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } },
                },
            },
        },
    })
}

fn method(method: Method) -> &'static str {
    match method {
        Method::Get => "get",
        Method::Put => "put",
        Method::Post => "post",
        Method::Delete => "delete",
    }
}

/// Returns the parameters of a path: its parts in braces.
fn parameters(path: &str) -> Value {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    names
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
        .collect()
}

fn operation(route: &Route) -> Value {
    let verbs: Vec<String> = route.verbs.iter().map(|verb| format!("{verb:?}")).collect();
    let mut operation = json!({
        "operationId": operation_id(route),
        "tags": [group(route.path)],
        "x-verbs": verbs,
        "x-user-tags": tags(route),
        "responses": match route.action {
            Action::Missing(instead) => json!({ "501": { "description": instead } }),
            _ => json!({ "2XX": { "description": "The request was carried out." } }),
        },
    });
    if route.action == Action::PageLogin {
        operation["security"] = json!([]);
    }
    operation["responses"]["default"] = json!({ "$ref": "#/components/responses/Error" });
    let parameters: Vec<Value> = queries::of(route.action)
        .map(|parameter| json!({ "$ref": format!("#/components/parameters/{}", parameter.name) }))
        .collect();
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if route.has_body() {
        let fields = bodies::fields(route.action);
        operation["requestBody"] = json!({
            "required": fields.iter().any(|field| field.required),
            "content": { "application/json": { "schema": bodies::schema(fields) } },
        });
    }
    operation
}

/// Returns a name that no other route has: `get_queues_vhost_name`.
fn operation_id(route: &Route) -> String {
    let path = route.path.trim_start_matches(ROOT);
    let words = path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    std::iter::once(method(route.method)).chain(words).collect::<Vec<_>>().join("_")
}

/// Returns the first part of the path, by which people look for routes.
fn group(path: &str) -> &str {
    path.trim_start_matches(ROOT).split('/').next().unwrap_or_default()
}

/// Returns the tags that let a user do this. One of them is enough.
fn tags(route: &Route) -> Vec<&'static str> {
    let suffices = |tag: &str| auth::permit(&Identity::internal("", tag), route.verbs).is_ok();
    TAGS.into_iter().filter(|tag| suffices(tag)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_document_has_each_route_once() {
        let document = document();
        let paths = document["paths"].as_object().unwrap();
        let (mut ids, mut shapes, mut count) = (HashSet::new(), HashSet::new(), 0);
        for (path, item) in paths {
            // OpenAPI does not know which of two paths counts that differ in names of parameters only.
            let shape: Vec<&str> =
                path.split('/').map(|p| if p.starts_with('{') { "{}" } else { p }).collect();
            assert!(shapes.insert(shape.join("/")), "{path}");
            let named: Vec<&str> = item["parameters"]
                .as_array()
                .unwrap()
                .iter()
                .map(|parameter| {
                    assert_eq!((&parameter["in"], &parameter["required"]), (&json!("path"), &json!(true)));
                    parameter["name"].as_str().unwrap()
                })
                .collect();
            let braced: Vec<&str> = path.split(['{', '}']).skip(1).step_by(2).collect();
            assert_eq!(named, braced, "{path}");
            for (name, operation) in
                item.as_object().unwrap().iter().filter(|(name, _)| *name != "parameters")
            {
                let route = ROUTES.iter().find(|r| r.path == path && method(r.method) == name).unwrap();
                count += 1;
                assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{operation}");
                assert_eq!(operation.get("requestBody").is_some(), route.has_body(), "{path}");
                assert_eq!(operation["x-verbs"].as_array().unwrap().len(), route.verbs.len(), "{path}");
                assert!(
                    operation["x-user-tags"].as_array().unwrap().contains(&json!("administrator")),
                    "{path}"
                );
                assert!(operation["responses"]["default"]["$ref"].is_string());
            }
        }
        assert_eq!(count, ROUTES.iter().filter(|route| route.path.starts_with(ROOT)).count());
    }

    #[test]
    fn references_lead_somewhere() {
        fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
            match value {
                Value::Object(fields) => {
                    found.extend(fields.get("$ref").and_then(Value::as_str));
                    fields.values().for_each(|value| references(value, found));
                }
                Value::Array(items) => items.iter().for_each(|item| references(item, found)),
                _ => {}
            }
        }
        let document = document();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(!found.is_empty());
        for reference in found {
            assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
        }
    }

    #[test]
    fn a_route_says_who_may_use_it() {
        let document = document();
        let tags = |path: &str, method: &str| document["paths"][path][method]["x-user-tags"].clone();
        assert_eq!(tags("/api/users", "get"), json!(["administrator"]));
        assert_eq!(tags("/api/nodes", "get"), json!(["administrator", "monitoring"]));
        assert_eq!(tags("/api/queues", "get"), json!(TAGS));
    }
}
