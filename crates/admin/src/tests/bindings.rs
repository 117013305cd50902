//! Bindings, and the keys that stand for them in paths.

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

            GET /api/bindings/%2F?columns=destination,properties_key -> 200 [{"destination":"q","properties_key":"q"},{"destination":"x","properties_key":"b"},{"destination":"q","properties_key":"~"},{"destination":"q","properties_key":"a.%23"},{"destination":"q","properties_key":"%7E~T3fZtw"}]
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
            DELETE /api/bindings/%2F/e/amq.topic/q/q/%257E~T3fZtw -> 204
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
        ("q", r#"{"routing_key":"~","arguments":{"k":1}}"#, "q/%7E~T3fZtw"),
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
            POST /api/bindings/%2F/e/amq.topic/q/q {"routing_key":"~T3fZtw"} -> 201
            POST /api/bindings/%2F/e/amq.topic/q/q {"arguments":{"k":1}} -> 201
            GET /api/bindings/%2F/e/amq.topic/q/q?columns=properties_key -> 200 [{"properties_key":"~T3fZtw"},{"properties_key":"%7ET3fZtw"}]
            # A key as in the list names one of them.
            GET /api/bindings/%2F/e/amq.topic/q/q/~T3fZtw?columns=routing_key -> 200 {"routing_key":""}
            GET /api/bindings/%2F/e/amq.topic/q/q/%257ET3fZtw?columns=routing_key -> 200 {"routing_key":"~T3fZtw"}
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
