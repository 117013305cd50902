//! What a file of RabbitMQ has and this broker does not have: an import says so, and leaves it out if it is asked to.

use catalog::access::Identity;

use super::http::Server;
use super::test_node::TestNode;
use crate::{Definitions, Reading};

/// A file with what RabbitMQ had and this broker does not have.
const OLD: &str = r#"{
"parameters": [{"vhost":"/","component":"shovel","name":"s","value":{"src-uri":"amqp://","src-queue":"a","dest-uri":"amqp://h","dest-queue":"b"}}],
"policies": [{"vhost":"/","name":"ha","pattern":".*","definition":{"ha-mode":"all"}},
{"vhost":"/","name":"lazy","pattern":"(","definition":{"queue-mode":"lazy","max-length":5}}],
"exchanges": [{"vhost":"/","name":"later","type":"x-delayed-message"}],
"queues": [{"vhost":"/","name":"q","arguments":{"x-queue-type":"odd"}}],
"bindings": [{"vhost":"/","source":"later","destination":"q"},{"vhost":"/","source":"amq.topic","destination":"there"}]
}"#;

#[tokio::test]
async fn everything_that_is_wrong_is_said_at_once() {
    let server = Server::start().await;
    let refused = server.ask(Some("guest"), "POST", "/api/definitions", OLD).await;
    assert_eq!(refused.status, 400);
    let reason = refused.body;
    for wrong in [
        "line 5: exchange 'later' in vhost '/': the exchange type 'x-delayed-message' is unknown",
        "line 3: policy 'ha' in vhost '/': Validation failed: 'ha-mode' is not recognised",
        "line 4: policy 'lazy' in vhost '/': Validation failed: 'queue-mode' is not recognised",
        "line 6: queue 'q' in vhost '/': ",
        "sluice import definitions --skip-unknown",
    ] {
        assert!(reason.contains(wrong), "'{wrong}' is not in {reason}");
    }
    let lines: Vec<&str> = reason.match_indices("line ").map(|(at, _)| &reason[at + 5..at + 6]).collect();
    assert_eq!(lines, ["3", "4", "5", "6"], "in the order of the lines: {reason}");
    // What is left is wrong wherever it stands.
    let answer = server.ask(Some("guest"), "POST", "/api/definitions?skip_unknown=true", OLD).await;
    assert_eq!(answer.status, 400);
    let left = answer.body.matches("line ").count();
    assert_eq!(left, 2, "the pattern and the type of the queue: {}", answer.body);
}

#[tokio::test]
async fn an_import_says_what_it_leaves_out_and_may_be_tried_first() {
    let server = Server::start().await;
    let text = OLD.replace(r#""pattern":"(""#, r#""pattern":"l""#).replace(r#""odd""#, r#""classic""#);
    let warnings = [
        "parameter 's' of component 'shovel' in vhost '/' is kept, but has no effect: there is no such component",
        "policy 'ha' in vhost '/' is left out: it has only unknown keys, ha-mode",
        "policy 'lazy' in vhost '/' is kept without its unknown keys, queue-mode",
        "exchange 'later' in vhost '/' is left out: the exchange type 'x-delayed-message' is unknown",
        "binding from 'later' to 'q' in vhost '/' is left out with its exchange",
    ];
    let path = "/api/definitions?skip_unknown=true";
    let tried = server.ask(Some("guest"), "POST", &format!("{path}&dry_run=true"), &text).await;
    let tried: serde_json::Value = serde_json::from_str(&tried.body).unwrap();
    let needed = "line 7: binding from 'amq.topic' to 'there' in vhost '/': queue 'there' is not among the definitions, \
                  so the broker must have it";
    assert_eq!(
        tried,
        serde_json::json!({ "imported": false, "entries": 4, "warnings": warnings, "needed": [needed] })
    );
    server.check("guest", "GET /api/queues/%2F/q -> 404 ..").await;
    server.check("guest", "PUT /api/queues/%2F/there {} -> 201").await;
    let done = server.ask(Some("guest"), "POST", &format!("{path}&report=true"), &text).await;
    let done: serde_json::Value = serde_json::from_str(&done.body).unwrap();
    assert_eq!(done, serde_json::json!({ "imported": true, "entries": 4, "warnings": warnings }));
    server
        .check(
            "guest",
            r#"
            GET /api/policies/%2F?columns=name,definition -> 200 [{"name":"lazy","definition":{"max-length":5}}]
            GET /api/queues/%2F/q?columns=name -> 200 {"name":"q"}
            "#,
        )
        .await;
}

#[tokio::test]
async fn arguments_that_no_queue_takes_any_more_can_be_left_out() {
    let server = Server::start().await;
    let old = r#"{"x-queue-mode":"lazy","x-queue-version":1,"x-member-placement-tag":"t","x-max-length":3}"#;
    let text = format!(
        r#"{{"vhosts": [{{"name":"/"}}], "queues": [{{"vhost":"/","name":"lazy","arguments":{old}}},
{{"vhost":"/","name":"new","arguments":{{"x-queue-version":2,"x-max-length":"3"}}}}]}}"#
    );
    let refused = server.ask(Some("guest"), "POST", "/api/definitions", &text).await;
    assert_eq!(refused.status, 400);
    let (lazy, new) = refused.body.split_once("line 2: ").unwrap();
    assert!(lazy.contains("line 1: queue 'lazy' in vhost '/': invalid arg 'x-"), "{lazy}");
    assert!(lazy.contains("sluice import definitions --skip-unknown"), "{lazy}");
    assert!(new.contains("'x-max-length'") && !new.contains("--skip-unknown"), "{new}");

    let text = text.replace(r#""3""#, "3");
    let path = "/api/definitions?skip_unknown=true&report=true";
    let done = server.ask(Some("guest"), "POST", path, &text).await;
    let done: serde_json::Value = serde_json::from_str(&done.body).unwrap();
    let warning = "queue 'lazy' in vhost '/' is kept without the arguments that no queue takes here, \
                   x-member-placement-tag, x-queue-mode, x-queue-version";
    assert_eq!(done, serde_json::json!({ "imported": true, "entries": 3, "warnings": [warning] }));
    server
        .check(
            "guest",
            r#"
            GET /api/queues/%2F/lazy?columns=arguments -> 200 {"arguments":{"x-max-length":3}}
            GET /api/queues/%2F/new?columns=arguments -> 200 {"arguments":{"x-max-length":3,"x-queue-version":2}}
            "#,
        )
        .await;
    // A start says what to do, too.
    let definitions = Definitions::parse(
        r#"{"queues":[{"vhost":"/","name":"q","arguments":{"x-queue-mode":"lazy"}}]}"#,
        Reading::default(),
    );
    let who = Identity::internal("guest", "administrator");
    let refused = definitions.unwrap().import_at_start(&TestNode::new(), &who, false).await.unwrap_err();
    assert!(refused.text().contains("definitions.skip_unknown = true"), "{}", refused.text());
}
