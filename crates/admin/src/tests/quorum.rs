//! The Raft groups of quorum queues.

use broker::admin_api::{BrowsedRow, GroupRow};
use client::Message;

use super::http::Server;

pub(super) fn group() -> GroupRow {
    GroupRow {
        leads: true,
        rests: false,
        term: 2,
        last_index: 12,
        written_index: 11,
        commit_index: 10,
        applied_index: 9,
        base_index: 3,
        log_bytes: 400,
        commit_latency_ms: 7,
    }
}

#[tokio::test]
async fn the_status_of_a_group() {
    let server = Server::start().await;
    server
        .check(
            "guest",
            r#"
            PUT /api/queues/%2F/c -> 201
            PUT /api/queues/%2F/q {"arguments":{"x-queue-type":"quorum"}} -> 201
            GET /api/queues/quorum/%2F/none/status -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no queue 'none' in vhost '/'"}
            GET /api/queues/quorum/%2F/c/status -> 400 {"error":"bad_request","reason":"queue 'c' in vhost '/' is a classic queue: only quorum queues have a Raft group"}
            GET /api/queues/quorum/%2F/q/status -> 200 [{"Node Name":"n@h","Raft State":"not_started","Membership":"voter","Last Log Index":null,"Last Written":null,"Last Applied":null,"Commit Index":null,"Snapshot Index":null,"Term":null,"Log Entries":null,"Log Bytes":null}]
            GET /api/queues/%2F/c?columns=type,leader,members,online -> 200 {"type":"classic"}
            GET /api/queues/%2F/q?columns=type,leader,members,online -> 200 {"type":"quorum","leader":"n@h","members":["n@h"],"online":["n@h"]}
            "#,
        )
        .await;
    server.api.state().groups.insert("q".into(), group());
    server
        .check(
            "own",
            r#"GET /api/queues/quorum/%2F/q/status -> 200 [{"Node Name":"n@h","Raft State":"leader","Membership":"voter","Last Log Index":12,"Last Written":11,"Last Applied":9,"Commit Index":10,"Snapshot Index":3,"Term":2,"Log Entries":9,"Log Bytes":400}]"#,
        )
        .await;
    server.api.state().groups.insert("q".into(), GroupRow { leads: false, rests: true, ..group() });
    let asleep =
        r#"GET /api/queues/quorum/%2F/q/status -> 200 [{"Node Name":"n@h","Raft State":"not_started",.."#;
    server.check("guest", asleep).await;
    server.api.state().groups.insert("q".into(), GroupRow { leads: false, ..group() });
    let status =
        r#"GET /api/queues/quorum/%2F/q/status -> 200 [{"Node Name":"n@h","Raft State":"recovering",.."#;
    server.check("own", status).await;
    server.api.state().damaged.push("q".into());
    server
        .check(
            "own",
            r#"
            GET /api/queues/quorum/%2F/q/status -> 200 [{"Node Name":"n@h","Raft State":"damaged",..
            GET /api/queues/%2F/q?columns=leader,members,online -> 200 {"leader":null,"members":["n@h"],"online":[]}
            "#,
        )
        .await;
}

#[tokio::test]
async fn a_message_is_peeked_at() {
    let server = Server::start().await;
    let message = Message::data("body").durable(true).subject("s").encode();
    server.api.state().messages =
        vec![BrowsedRow { offset: 5, exchange: "x".into(), routing_key: "k".into(), message }];
    server
        .check(
            "guest",
            r#"
            PUT /api/queues/%2F/q {"arguments":{"x-queue-type":"quorum"}} -> 201
            GET /api/queues/%2F/q/peek/1 -> 200 {"position":1,"seq":5,"arrived_at":5000,"exchange":"x","routing_key":"k","redelivered":true,"delivery_count":2,"acquired_count":3,"payload_bytes":4,"payload_encoding":"string","payload":"body","header":{"durable":true,"first_acquirer":false,"delivery_count":2},"message_annotations":{"x-exchange":"x","x-routing-key":"k"},"properties":{"subject":"s"}}
            GET /api/queues/%2F/q/peek/1?truncate=2&columns=x -> 200 {"position":1,"seq":5,"arrived_at":5000,"exchange":"x","routing_key":"k","redelivered":true,"delivery_count":2,"acquired_count":3,"payload_bytes":4,"payload_encoding":"string","payload":"bo",..
            GET /api/queues/%2F/q/peek/2 -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"queue 'q' in vhost '/' has no ready message at position 2"}
            GET /api/queues/%2F/q/peek/first -> 400 {"error":"bad_request","reason":"position 'first' is not a whole number"}
            GET /api/queues/%2F/none/peek/1 -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no queue 'none' in vhost '/'"}
            "#,
        )
        .await;
    server.check("powerless", "GET /api/queues/%2F/q/peek/1 -> 401 {\"error\":\"not_authorised\",..").await;
}

#[tokio::test]
async fn groups_are_maintained() {
    let server = Server::start().await;
    server.check("guest", r#"PUT /api/queues/%2F/q {"arguments":{"x-queue-type":"quorum"}} -> 201"#).await;
    server.api.state().groups.insert("q".into(), group());
    server
        .check(
            "guest",
            r#"
            POST /api/queues/quorum/%2F/q/checkpoint -> 200 {"snapshot_index":9}
            POST /api/queues/quorum/%2F/q/reclaim-memory -> 200 {"freed_bytes":5,"paging_bytes":70}
            POST /api/queues/quorum/%2F/q/replicas/add {"node":"n@h"} -> 204
            POST /api/queues/quorum/%2F/q/replicas/add {"node":"m@h"} -> 503 {"error":"service_unavailable","reason":"queue 'q' in vhost '/': there is no node 'm@h' for another member; 'n@h' is the only node"}
            POST /api/queues/quorum/%2F/q/replicas/add {} -> 400 {"error":"bad_request","reason":"the body must name a node: {\"node\": NAME}"}
            DELETE /api/queues/quorum/%2F/q/replicas/delete {"node":"m@h"} -> 204
            DELETE /api/queues/quorum/%2F/q/replicas/delete {"node":"n@h"} -> 503 {"error":"service_unavailable","reason":"queue 'q' in vhost '/': its member on node 'n@h' is the only one and cannot be removed; delete the queue instead"}
            POST /api/queues/quorum/%2F/q/leader {"node":"n@h"} -> 204
            POST /api/queues/quorum/%2F/q/leader {"node":"m@h"} -> 503 {"error":"service_unavailable","reason":"queue 'q' in vhost '/': it has no member on node 'm@h' that could lead; its only member is on 'n@h'"}
            POST /api/queues/quorum/replicas/on/n@h/grow -> 204
            DELETE /api/queues/quorum/replicas/on/m@h/shrink -> 204
            DELETE /api/queues/quorum/replicas/on/n@h/shrink -> 503 {"error":"service_unavailable","reason":"'n@h' is the only node: the members on it are the only ones of 1 quorum queues and cannot be removed"}
            POST /api/rebalance/queues -> 204
            "#,
        )
        .await;
    server
        .check(
            "monitor",
            r#"POST /api/queues/quorum/%2F/q/checkpoint -> 401 {"error":"not_authorised","reason":"Not administrator user"}"#,
        )
        .await;
}
