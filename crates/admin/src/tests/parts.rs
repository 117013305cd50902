//! What stands for the parts of RabbitMQ: plugins, the runtime, the parts of its memory, and fields of queues.

use broker::settings::SLUICE_VERSION;

use super::http::Server;
use crate::ports::Ports;

#[tokio::test]
async fn plugins_and_applications_stand_for_what_there_is() {
    let server = Server::start().await;
    let node = server
        .ask(Some("guest"), "GET", "/api/nodes/n@h?columns=enabled_plugins,applications", "")
        .await
        .body;
    let node: serde_json::Value = serde_json::from_str(&node).unwrap();
    let plugins = node["enabled_plugins"].as_array().unwrap();
    for name in [
        "rabbitmq_amqp1_0",
        "rabbitmq_auth_backend_cache",
        "rabbitmq_management",
        "rabbitmq_prometheus",
        "rabbitmq_consistent_hash_exchange",
    ] {
        assert!(plugins.contains(&name.into()), "{plugins:?}");
    }
    // Nobody speaks these protocols here, and nothing makes queues in shards, moves messages, or federates.
    for name in
        ["rabbitmq_mqtt", "rabbitmq_stomp", "rabbitmq_sharding", "rabbitmq_shovel", "rabbitmq_federation"]
    {
        assert!(!plugins.contains(&name.into()), "{plugins:?}");
    }
    let applications = node["applications"].as_array().unwrap();
    let version_of =
        |name: &str| applications.iter().find(|row| row["name"] == name).map(|row| row["version"].clone());
    assert_eq!(
        (version_of("sluice"), version_of("rabbit")),
        (Some(SLUICE_VERSION.into()), Some("4.3.6".into()))
    );
    assert_eq!(applications.len(), plugins.len() + 2);
}

#[tokio::test]
async fn an_operator_may_show_that_there_is_no_erlang() {
    let server = Server::start_with(Ports::default().hiding_erlang(true)).await;
    let path = "/api/overview?columns=erlang_version,crypto_lib_version";
    server
        .check(
            "guest",
            &format!(r#"GET {path} -> 200 {{"erlang_version":"none","crypto_lib_version":"AWS-LC"}}"#),
        )
        .await;
}

#[tokio::test]
async fn queues_show_their_delivery_limit_and_since_when_they_are_idle() {
    let server = Server::start().await;
    server
        .check(
            "guest",
            r#"
            PUT /api/queues/%2F/c {} -> 201
            PUT /api/queues/%2F/q {"arguments":{"x-queue-type":"quorum"}} -> 201
            PUT /api/queues/%2F/own {"arguments":{"x-queue-type":"quorum","x-delivery-limit":7}} -> 201
            PUT /api/policies/%2F/p {"pattern":"^q$","definition":{"delivery-limit":-1},"apply-to":"quorum_queues","priority":100} -> 201
            GET /api/queues?columns=name,delivery_limit -> 200 [{"name":"c"},{"name":"own","delivery_limit":7},{"name":"q","delivery_limit":"unlimited"}]
            DELETE /api/policies/%2F/p -> 204
            GET /api/queues/%2F/q?columns=delivery_limit,idle_since -> 200 {"delivery_limit":20}
            "#,
        )
        .await;
}

/// RabbitMQ's programs refuse an answer without one of these parts.
#[tokio::test]
async fn memory_is_shown_in_the_parts_of_rabbitmq_and_in_budgets() {
    let server = Server::start().await;
    let get = async |path: &str| -> serde_json::Value {
        serde_json::from_str(&server.ask(Some("guest"), "GET", path, "").await.body).unwrap()
    };
    let in_bytes = get("/api/nodes/n@h/memory").await;
    let memory = in_bytes["memory"].as_object().unwrap();
    for part in [
        "connection_readers",
        "connection_writers",
        "connection_channels",
        "connection_other",
        "queue_procs",
        "quorum_queue_procs",
        "quorum_queue_dlx_procs",
        "stream_queue_procs",
        "stream_queue_replica_reader_procs",
        "stream_queue_coordinator_procs",
        "plugins",
        "metadata_store",
        "other_proc",
        "metrics",
        "mgmt_db",
        "mnesia",
        "quorum_ets",
        "metadata_store_ets",
        "other_ets",
        "binary",
        "msg_index",
        "code",
        "atom",
        "other_system",
        "allocated_unused",
        "reserved_unallocated",
    ] {
        assert!(memory[part].is_u64(), "{part}");
    }
    // The two budgets of the admin API fit no part.
    assert_eq!((&memory["other_proc"], &memory["mgmt_db"]), (&3.into(), &0.into()));
    assert_eq!(memory["strategy"], "rss");
    let total = &memory["total"];
    let sum: u64 = memory.values().filter_map(serde_json::Value::as_u64).sum();
    assert_eq!((total["rss"].as_u64(), total["erlang"].as_u64()), (Some(sum), Some(sum)));
    assert_eq!(total["allocated"], total["rss"]);
    let budgets = &in_bytes["budgets"];
    assert_eq!(
        (&budgets["one"], &budgets["two"], &budgets["http_bodies"]),
        (&1.into(), &2.into(), &0.into())
    );
    assert_eq!(budgets["other"], memory["other_system"]);
    let in_percent = get("/api/nodes/n@h/memory/relative").await;
    let memory = &in_percent["memory"];
    assert_eq!(
        (&memory["total"], &memory["other_system"], &memory["binary"]),
        (&100.into(), &99.into(), &0.into())
    );
    assert!(memory["strategy"].is_null() && in_percent["budgets"]["other"] == 99);
}
