//! What NServiceBus.RabbitMQ 10 asks the HTTP API when an endpoint starts. It does not start if the version, the feature flag of
//! streams or the delivery limit of its queues is not what it needs.

use serde_json::{Value, json};

use crate::broker::{Broker, Directory};

/// Reads a delivery limit as NServiceBus does: a number, or the word for none.
fn limit(queue: &Value) -> i64 {
    match &queue["delivery_limit"] {
        Value::String(word) if word == "unlimited" => -1,
        limit => limit.as_i64().unwrap_or_else(|| panic!("{queue}")),
    }
}

#[test]
fn its_checks_pass() {
    let directory = Directory::new("nservicebus");
    let broker = Broker::start(&directory);
    let ask = |path: &str| {
        let (status, answer) = broker.get(path);
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    };

    // The version is a semantic one, from 3.10 on. The delivery limit needs 4.
    let overview = ask("/api/overview");
    let version = overview["rabbitmq_version"].as_str().unwrap();
    let numbers: Vec<u32> = version.split('.').map(|number| number.parse().unwrap()).collect();
    assert!(numbers.len() == 3 && numbers[0] >= 4, "{version}");
    let flags = ask("/api/feature-flags");
    let streams = flags.as_array().unwrap().iter().find(|flag| flag["name"] == "stream_queue");
    assert_eq!(streams.unwrap()["state"], "enabled");

    // A quorum queue has a limit of its own, which a policy turns off.
    broker.verb(&["declare", "queue", "Sales", "--type", "quorum"]).done();
    let queue = ask("/api/queues/%2F/Sales");
    assert_eq!(
        (limit(&queue), &queue["arguments"]["x-delivery-limit"], &queue["policy"]),
        (20, &Value::Null, &Value::Null)
    );
    assert_eq!((&queue["type"], &queue["vhost"]), (&json!("quorum"), &json!("/")));
    assert!(
        queue["effective_policy_definition"].is_object() && queue["message_stats"].is_object(),
        "{queue}"
    );
    let policy = json!({
        "name": "nsb.Sales.delivery-limit",
        "apply-to": "quorum_queues",
        "definition": { "delivery-limit": -1 },
        "pattern": "Sales",
        "priority": 100,
    });
    let path = "/api/policies/%2F/nsb.Sales.delivery-limit";
    assert_eq!(broker.ask("PUT", path, &policy.to_string()).0, 201);
    let queue = ask("/api/queues/%2F/Sales");
    assert_eq!((limit(&queue), &queue["policy"]), (-1, &json!("nsb.Sales.delivery-limit")));
    assert_eq!(queue["effective_policy_definition"]["delivery-limit"], -1);

    // Its licensing component reads pages of queues, and the bindings of queues and exchanges, also of ones that are gone.
    let page = ask("/api/queues/%2F/?page=1&page_size=500");
    assert_eq!(
        (&page["page"], &page["page_count"], &page["items"][0]["name"]),
        (&json!(1), &json!(1), &json!("Sales"))
    );
    broker.verb(&["declare", "exchange", "Sales", "--type", "fanout"]).done();
    broker.verb(&["declare", "binding", "Sales", "Sales"]).done();
    let bindings = ask("/api/queues/%2F/Sales/bindings");
    let row = bindings.as_array().unwrap().iter().find(|row| row["source"] == "Sales").unwrap();
    assert_eq!((&row["destination"], &row["destination_type"]), (&json!("Sales"), &json!("queue")));
    assert_eq!(ask("/api/exchanges/%2F/Sales/bindings/destination"), json!([]));
    assert_eq!(ask("/api/exchanges/%2F/gone/bindings/destination"), json!([]));
    assert_eq!(ask("/api/queues/%2F/gone/bindings"), json!([]));
    assert!(broker.terminate().success());
}
