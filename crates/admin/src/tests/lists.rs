//! Which routes take pages, as the OpenAPI document says.

use serde_json::Value;

use super::connection;
use super::http::Server;
use crate::openapi::is_list;
use crate::routes::{Action, Method, ROUTES};

/// Returns a path in which everything exists.
fn path(path: &str) -> String {
    let name = match path {
        path if path.starts_with("/api/connections/") => "a",
        path if path.contains("queues/") => "q",
        _ => "amq.topic",
    };
    let filled = [
        ("{vhost}", "%2F"),
        ("{user}", "guest"),
        ("{node}", "n@h"),
        ("{component}", "shovel"),
        ("{source}", "amq.topic"),
        ("{destination}", "q"),
        ("{name}", name),
    ];
    filled.iter().fold(path.to_owned(), |path, (part, with)| path.replace(part, with)).replace(['{', '}'], "")
}

#[tokio::test]
async fn the_routes_that_take_pages_are_described() {
    let server = Server::start().await;
    server.desk.state().connections = vec![connection("a", "guest")];
    server.check("guest", "PUT /api/queues/%2F/q {} -> 201").await;
    let mut wrong = Vec::new();
    for route in ROUTES.iter().filter(|route| route.method == Method::Get && route.path.starts_with("/api/"))
    {
        let is_described = is_list(route.action);
        let answer = server.ask(Some("guest"), "GET", &format!("{}?page=0", path(route.path)), "").await;
        let error = serde_json::from_str::<Value>(&answer.body).ok();
        let reads_pages = error.is_some_and(|error| error["error"] == "invalid_pagination_parameters");
        // The connection of the test has no channels of AMQP 0.9.1, so nothing is listed.
        if route.action == Action::ListChannelsOfConnection {
            continue;
        }
        if reads_pages != is_described {
            wrong.push(format!("{}: {} {}", route.path, answer.status, answer.body));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
