//! Bindings, and the keys that stand for them in paths.

use amqp10::Value;
use amqp10::sasl::Secret;
use catalog::{Binding, Destination};

use super::http::Server;

#[tokio::test]
async fn bindings() {
    let server = Server::start().await;
    server
        .check(
            "guest",
            r#"
            PUT /api/queues/%2F/q -> 201
            PUT /api/exchanges/%2F/x {"type":"fanout"} -> 201
            GET /api/bindings -> 200 [{"source":"","vhost":"/","destination":"q","destination_type":"queue","routing_key":"q","arguments":{},"properties_key":"q"}]
            POST /api/bindings/%2F/e/amq.topic/q/q {"routing_key":"a.#"} -> 201
            POST /api/bindings/%2F/e/amq.topic/q/q {"routing_key":"a.#"} -> 201
            POST /api/bindings/%2F/e/amq.topic/q/q -> 201
            POST /api/bindings/%2F/e/amq.topic/q/q {"routing_key":"~","arguments":{"k":1}} -> 201
            POST /api/bindings/%2F/e/amq.topic/e/x {"routing_key":"b"} -> 201
            POST /api/bindings/%2F/e/amq.topic/q/nope {} -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no queue 'nope' in vhost '/'"}
            POST /api/bindings/%2F/e/nope/q/q {} -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no exchange 'nope' in vhost '/'"}
            POST /api/bindings/%2F/e/amq.default/q/q {} -> 401 {"error":"not_authorised","reason":"operation not permitted on the default exchange"}
            POST /api/bindings/%2F/e/amq.topic/q/q {"routing_key":7} -> 400 {"error":"bad_request","reason":"'routing_key' is not a string"}

            GET /api/bindings/%2F?columns=destination,properties_key -> 200 [{"destination":"q","properties_key":"q"},{"destination":"x","properties_key":"b"},{"destination":"q","properties_key":"~"},{"destination":"q","properties_key":"a.%23"},{"destination":"q","properties_key":"%7E~G08dtg"}]
            GET /api/bindings/nope -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no vhost 'nope'"}
            GET /api/bindings/%2F/e/amq.topic/q/q?columns=routing_key -> 200 [{"routing_key":""},{"routing_key":"a.#"},{"routing_key":"~"}]
            GET /api/bindings/%2F/e/amq.topic/e/x?columns=routing_key,destination_type -> 200 [{"destination_type":"exchange","routing_key":"b"}]
            GET /api/bindings/%2F/e/amq.default/q/q?columns=routing_key -> 200 [{"routing_key":"q"}]
            GET /api/exchanges/%2F/amq.topic/bindings/source?columns=routing_key -> 200 [{"routing_key":"b"},{"routing_key":""},{"routing_key":"a.#"},{"routing_key":"~"}]
            GET /api/exchanges/%2F/x/bindings/destination?columns=source -> 200 [{"source":"amq.topic"}]
            GET /api/exchanges/%2F/nope/bindings/source -> 200 []
            GET /api/exchanges/%2F/nope/bindings/destination -> 200 []
            GET /api/exchanges/nope/amq.topic/bindings/source -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no vhost 'nope'"}
            GET /api/exchanges/nope/amq.topic/bindings/destination -> 404 {"error":"Object Not Found",..
            GET /api/queues/%2F/q/bindings?columns=source -> 200 [{"source":""},{"source":"amq.topic"},{"source":"amq.topic"},{"source":"amq.topic"}]
            GET /api/queues/%2F/nope/bindings -> 200 []
            GET /api/queues/nope/q/bindings -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no vhost 'nope'"}

            # The properties key is a segment of the path. It is encoded again; without that it is accepted if unambiguous.
            GET /api/bindings/%2F/e/amq.topic/q/q/a.%2523?columns=routing_key -> 200 {"routing_key":"a.#"}
            GET /api/bindings/%2F/e/amq.topic/q/q/a.%23?columns=routing_key -> 200 {"routing_key":"a.#"}
            GET /api/bindings/%2F/e/amq.topic/q/q/~?columns=routing_key -> 200 {"routing_key":""}
            GET /api/bindings/%2F/e/amq.topic/q/q/nope -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no binding 'nope' from exchange 'amq.topic' to 'q' in vhost '/'"}
            DELETE /api/bindings/%2F/e/amq.topic/q/q/a.%23 -> 204
            DELETE /api/bindings/%2F/e/amq.topic/q/q/a.%23 -> 404 {"error":"Object Not Found",..
            DELETE /api/bindings/%2F/e/amq.topic/q/q/~ -> 204
            DELETE /api/bindings/%2F/e/amq.topic/q/q/%257E~G08dtg -> 204
            DELETE /api/bindings/%2F/e/amq.topic/e/x/b -> 204
            GET /api/bindings?columns=routing_key -> 200 [{"routing_key":"q"}]
            "#,
        )
        .await;
    // The location is relative to the path of the request.
    server.check("guest", r#"PUT /api/queues/%2F/q%20r {} -> 201"#).await;
    for (queue, body, location) in [
        ("q", r#"{"routing_key":"a/b"}"#, "q/a%2Fb"),
        ("q", "{}", "q/~"),
        ("q", r#"{"routing_key":"a~b"}"#, "q/a%7Eb"),
        ("q", r#"{"routing_key":"~","arguments":{"k":1}}"#, "q/%7E~G08dtg"),
        ("q%20r", r#"{"routing_key":"k"}"#, "q%20r/k"),
        ("q%20r", r#"{"routing_key":"a%2Fb"}"#, "q%20r/a%252Fb"),
    ] {
        let folder = "/api/bindings/%2F/e/amq.topic/q";
        let made = server.ask(Some("guest"), "POST", &format!("{folder}/{queue}"), body).await;
        assert_eq!((made.status, made.header("location")), (201, Some(location)));
        let found = server.ask(Some("guest"), "GET", &format!("{folder}/{location}"), "").await;
        assert_eq!(found.status, 200, "{location}");
        let (found, wanted): (serde_json::Value, serde_json::Value) =
            (serde_json::from_str(&found.body).unwrap(), serde_json::from_str(body).unwrap());
        assert_eq!(
            found["routing_key"],
            wanted.get("routing_key").cloned().unwrap_or("".into()),
            "{location}"
        );
    }
}

#[tokio::test]
async fn a_key_that_lacks_an_encoding_names_the_binding_that_fits_exactly() {
    let server = Server::start().await;
    server
        .check(
            "guest",
            r#"
            PUT /api/queues/%2F/q {} -> 201
            POST /api/bindings/%2F/e/amq.topic/q/q {"routing_key":"~G08dtg"} -> 201
            POST /api/bindings/%2F/e/amq.topic/q/q {"arguments":{"k":1}} -> 201
            GET /api/bindings/%2F/e/amq.topic/q/q?columns=properties_key -> 200 [{"properties_key":"~G08dtg"},{"properties_key":"%7EG08dtg"}]
            # A key as in the list names one of them.
            GET /api/bindings/%2F/e/amq.topic/q/q/~G08dtg?columns=routing_key -> 200 {"routing_key":""}
            GET /api/bindings/%2F/e/amq.topic/q/q/%257EG08dtg?columns=routing_key -> 200 {"routing_key":"~G08dtg"}
            "#,
        )
        .await;
}

#[tokio::test]
async fn the_encoding_of_a_properties_key_may_differ() {
    let server = Server::start().await;
    server
        .check(
            "guest",
            r#"
            PUT /api/queues/%2F/q {} -> 201
            POST /api/bindings/%2F/e/amq.topic/q/q {"routing_key":"a/b"} -> 201
            GET /api/bindings/%2F/e/amq.topic/q/q/a%252fb?columns=routing_key -> 200 {"routing_key":"a/b"}
            DELETE /api/bindings/%2F/e/amq.topic/q/q/a%252fb -> 204
            POST /api/bindings/%2F/e/amq.topic/q/q {"routing_key":"a!b"} -> 201
            DELETE /api/bindings/%2F/e/amq.topic/q/q/%2561!b -> 204
            GET /api/bindings/%2F/e/amq.topic/q/q -> 200 []
            "#,
        )
        .await;
}

/// The key of one binding may be the key of another one that lacks an encoding, such as one in `Location`.
#[tokio::test]
async fn a_key_that_may_be_of_two_bindings_deletes_neither() {
    let server = Server::start().await;
    server
        .check(
            "guest",
            r#"
            PUT /api/queues/%2F/q {} -> 201
            POST /api/bindings/%2F/e/amq.topic/q/q {"routing_key":"a/b"} -> 201
            POST /api/bindings/%2F/e/amq.topic/q/q {"routing_key":"a%2Fb"} -> 201
            DELETE /api/bindings/%2F/e/amq.topic/q/q/a%252Fb -> 400 {"error":"bad_request","reason":"'a%2Fb' may be the key of two bindings, with the routing keys 'a/b' and 'a%2Fb'"}
            GET /api/bindings/%2F/e/amq.topic/q/q?columns=routing_key -> 200 [{"routing_key":"a%2Fb"},{"routing_key":"a/b"}]
            # Each of them has another form, which is not ambiguous.
            DELETE /api/bindings/%2F/e/amq.topic/q/q/a%2Fb -> 204
            GET /api/bindings/%2F/e/amq.topic/q/q?columns=routing_key -> 200 [{"routing_key":"a%2Fb"}]
            DELETE /api/bindings/%2F/e/amq.topic/q/q/a%25252Fb -> 204
            "#,
        )
        .await;
}

/// Values of different types may have the same form in JSON.
#[tokio::test]
async fn bindings_that_differ_in_the_types_of_their_arguments_have_different_keys() {
    let server = Server::start().await;
    server.check("guest", "PUT /api/queues/%2F/q {} -> 201").await;
    let who = server.api.login("guest", &Secret::new("guest"), [127, 0, 0, 1].into()).await.unwrap();
    let decimal = |scale, value| Value::Decimal64(amqp10::decimal::decimal64(scale, value));
    let binding = |value| Binding {
        vhost: "/".into(),
        source: "amq.headers".into(),
        destination: Destination::Queue("q".into()),
        key: "".into(),
        arguments: [("n".to_owned(), value)].into(),
    };
    let values =
        [Value::Int(1), Value::Long(1), decimal(0, 1), Value::Double(1.5), decimal(1, 15), decimal(2, 150)];
    for value in values.clone() {
        server.api.bind(&who, binding(value)).await.unwrap();
    }
    let path = "/api/bindings/%2F/e/amq.headers/q/q";
    let rows = server.ask(Some("guest"), "GET", path, "").await.body;
    let rows: Vec<serde_json::Value> = serde_json::from_str(&rows).unwrap();
    let mut keys: Vec<&str> = rows.iter().map(|row| row["properties_key"].as_str().unwrap()).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), values.len(), "{rows:?}");
    for (at, key) in keys.iter().enumerate() {
        server.check("guest", &format!("DELETE {path}/{key} -> 204")).await;
        let left = server.ask(Some("guest"), "GET", path, "").await.body;
        let left: Vec<serde_json::Value> = serde_json::from_str(&left).unwrap();
        assert_eq!(left.len(), values.len() - at - 1, "{key}");
    }
}

/// Two texts whose encodings as arguments have the same hash.
const COLLISION: [&str; 2] = ["301ba988", "a43f9c68"];

/// A key has 32 bits of a hash, so two bindings may have the same one.
#[tokio::test]
async fn a_key_of_several_bindings_deletes_none() {
    let server = Server::start().await;
    server.check("guest", "PUT /api/queues/%2F/q {} -> 201").await;
    let path = "/api/bindings/%2F/e/amq.headers/q/q";
    for text in COLLISION {
        server.check("guest", &format!(r#"POST {path} {{"arguments":{{"n":"{text}"}}}} -> 201"#)).await;
    }
    let rows = server.ask(Some("guest"), "GET", path, "").await.body;
    let rows: serde_json::Value = serde_json::from_str(&rows).unwrap();
    let key = rows[0]["properties_key"].as_str().unwrap();
    assert_eq!(rows[1]["properties_key"], key);
    let answer = server.ask(Some("guest"), "DELETE", &format!("{path}/{key}"), "").await;
    assert_eq!(answer.status, 400, "{}", answer.body);
    assert!(
        answer.body.contains("is the key of 2 bindings that differ in their arguments"),
        "{}",
        answer.body
    );
}
