//! Rates and samples. The tests take the samples, at times of their own.

use std::cell::Cell;

use broker::admin_api::{Depth, ProtocolRow, ShardRow, VhostNumbers};
use broker::counters::Deliveries;
use broker::exchange_counts::ExchangeCounts;
use catalog::access::Protocol;
use serde_json::{Value, json};

use super::http::Server;
use super::metrics::shard;
use super::test_node::{Options, TestNode};
use crate::ports::Ports;

thread_local! {
    /// The time of the server of a test, in milliseconds.
    static TIME_MS: Cell<u64> = const { Cell::new(0) };
}

/// A server, and the ports whose samples the test takes.
struct World {
    server: Server,
    ports: Ports,
}

impl World {
    async fn start() -> Self {
        Self::with_shards(1).await
    }

    async fn with_shards(shards: u8) -> Self {
        let ports = Ports::default().with_clock(|| TIME_MS.get());
        let node = TestNode::with(Options { shards, ..Options::default() });
        Self { server: Server::start_on(node, ports.clone()).await, ports }
    }

    /// Takes a sample at this time, in seconds. Later requests are answered at the same time.
    async fn sample(&self, at_s: u64) {
        self.at(at_s);
        self.ports.samples().take(&self.server.api, at_s * 1000).await.unwrap();
    }

    /// Later requests are answered at this time, in seconds. The server runs on the thread of the test.
    fn at(&self, at_s: u64) {
        TIME_MS.set(at_s * 1000);
    }

    /// Returns the answer to a GET request of an administrator.
    async fn get(&self, path: &str) -> Value {
        let answer = self.server.ask(Some("guest"), "GET", path, "").await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    }

    fn receive(&self, messages: u64) {
        self.server.api.state().counters.over_mut(Protocol::Amqp10).received += messages;
    }
}

#[tokio::test]
async fn the_overview_has_rates_and_samples() {
    let world = World::start().await;
    let shown = "/api/overview?columns=message_stats.publish,message_stats.publish_details,message_stats.rates_are_known,queue_totals.messages_details,queue_totals.rates_are_known";
    let none = json!({
        "message_stats": { "publish": 9, "publish_details": { "rate": 0.0 }, "rates_are_known": false },
        "queue_totals": { "messages_details": { "rate": 0.0 }, "rates_are_known": false },
    });
    assert_eq!(world.get(shown).await, none, "before the first sample");
    world.sample(100).await;
    assert_eq!(world.get(shown).await, none, "one sample is not enough for a rate");
    world.receive(100);
    world.server.api.state().ready.insert("q".into(), 30);
    world.sample(105).await;
    world.receive(55);
    let more = json!({
        "message_stats": { "publish": 164, "publish_details": { "rate": 20.0 } },
        "queue_totals": { "messages_details": { "rate": 6.0 } },
    });
    assert_eq!(
        world.get(shown).await,
        more,
        "the sums are those of now, the rate is that of the last two samples"
    );
    world.server.api.state().ready.insert("q".into(), 5);
    world.sample(110).await;
    let both = "&msg_rates_age=60&msg_rates_incr=5&lengths_age=5&lengths_incr=5";
    let expected = json!({
        "message_stats": {
            "publish": 164,
            "publish_details": {
                "rate": 11.0,
                "avg_rate": 15.5,
                "avg": 94.0,
                "samples": [
                    { "sample": 164, "timestamp": 110_000 },
                    { "sample": 109, "timestamp": 105_000 },
                    { "sample": 9, "timestamp": 100_000 },
                ],
            },
        },
        // A queue that becomes shorter has a negative rate, as in RabbitMQ.
        "queue_totals": {
            "messages_details": {
                "rate": -5.0,
                "avg_rate": -5.0,
                "avg": 17.5,
                "samples": [
                    { "sample": 5, "timestamp": 110_000 },
                    { "sample": 30, "timestamp": 105_000 },
                ],
            },
        },
    });
    assert_eq!(world.get(&format!("{shown}{both}")).await, expected);
}

#[tokio::test]
async fn shards_have_the_part_of_the_time_in_which_they_were_busy() {
    const MS: u64 = 1_000_000;
    let world = World::with_shards(2).await;
    let set = |busy_ms: [u64; 2], total_ms| {
        let rows = [0, 1].map(|i| ShardRow {
            is_at_limit: i == 1,
            ..shard(i, busy_ms[usize::from(i)] * MS, total_ms * MS)
        });
        let rows = rows.map(|row| ShardRow { connections: 3, queues: 7, ..row });
        world.server.api.state().shards = rows.to_vec();
    };
    let busy = async || {
        let node = world.get("/api/nodes/n@h?columns=shards.busy").await;
        node["shards"].as_array().unwrap().iter().map(|row| row["busy"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    set([100, 200], 1_000);
    assert_eq!(busy().await, [0.0, 0.0], "before the first sample");
    world.sample(100).await;
    set([1_100, 5_200], 6_000);
    // The sample is a little late, which changes nothing.
    TIME_MS.set(105_020);
    world.ports.samples().take(&world.server.api, 105_020).await.unwrap();
    assert_eq!(busy().await, [0.2, 1.0]);
    set([9_100, 5_200], 16_000);
    assert_eq!(busy().await, [0.2, 1.0], "the part between the last two samples");
    world.sample(115).await;
    assert_eq!(busy().await, [0.8, 0.0]);
    let rows = json!([
        { "number": 0, "at_limit": false, "connections": 3, "queues": 7, "busy": 0.8 },
        { "number": 1, "at_limit": true, "connections": 3, "queues": 7, "busy": 0.0 },
    ]);
    assert_eq!(world.get("/api/nodes?columns=shards").await, json!([{ "shards": rows }]));
    let plain = json!([{ "number": 0, "at_limit": false, "connections": 3, "queues": 7 },
        { "number": 1, "at_limit": true, "connections": 3, "queues": 7 }]);
    let shown = world.get("/api/nodes/n@h?columns=shards&disable_stats=true").await;
    assert_eq!(shown, json!({ "shards": plain }));
}

/// The names are those that RabbitMQ's programs read.
#[tokio::test]
async fn every_figure_of_the_overview_has_details() {
    let world = World::start().await;
    let overview = world.get("/api/overview").await;
    for (part, names) in [
        (
            "message_stats",
            &[
                "publish",
                "confirm",
                "drop_unroutable",
                "return_unroutable",
                "deliver",
                "deliver_no_ack",
                "get",
                "get_no_ack",
                "get_empty",
                "deliver_get",
                "redeliver",
                "ack",
            ][..],
        ),
        (
            "churn_rates",
            &[
                "connection_created",
                "connection_closed",
                "channel_created",
                "channel_closed",
                "queue_declared",
                "queue_created",
                "queue_deleted",
            ],
        ),
        ("queue_totals", &["messages", "messages_ready", "messages_unacknowledged"]),
    ] {
        assert_eq!(overview[part]["rates_are_known"], false, "{part}");
        assert_eq!(overview[part].as_object().unwrap().len(), 2 * names.len() + 1, "{part}");
        for name in names {
            assert!(overview[part][name].is_u64(), "{part}.{name}");
            assert_eq!(overview[part][format!("{name}_details")]["rate"], 0.0, "{part}.{name}");
        }
    }
    assert_eq!(overview["rates_mode"], "basic");
    assert_eq!(overview["sample_retention_policies"]["global"], json!([600, 3600, 28_800, 86_400]));
    let node = world.get("/api/nodes/n@h").await;
    for name in ["mem_used", "fd_used", "disk_free"] {
        assert!(node[name].is_u64() && node[format!("{name}_details")]["rate"] == 0.0, "{name}");
    }
}

#[tokio::test]
async fn statistics_may_be_left_out() {
    let world = World::start().await;
    let overview = world.get("/api/overview?disable_stats=true").await;
    assert!(overview["message_stats"].is_null() && overview["queue_totals"].is_null());
    assert!(overview["object_totals"].is_object());
    let overview = world.get("/api/overview?disable_stats=true&enable_queue_totals=true").await;
    assert!(overview["message_stats"].is_null() && overview["queue_totals"]["messages"].is_u64());
    world.server.check("guest", "PUT /api/queues/%2F/q -> 201").await;
    let queue = world.get("/api/queues/%2F/q?disable_stats=true&enable_queue_totals=true").await;
    assert!(queue["message_stats"].is_null() && queue["messages_details"].is_null());
    assert_eq!(queue["messages"], 0);
    // A queue without statistics is not sampled.
    world.server.api.state().reports.clear();
    world.sample(100).await;
    assert_eq!(world.server.api.state().reports, [0; 0]);
}

#[tokio::test]
async fn a_queue_is_sampled_while_somebody_looks_at_it() {
    let world = World::start().await;
    world.server.check("guest", "PUT /api/queues/%2F/q -> 201\nPUT /api/queues/%2F/other -> 201").await;
    let publish = |messages| _ = world.server.api.state().published.insert("q".into(), messages);
    let rate =
        async || world.get("/api/queues/%2F/q").await["message_stats"]["publish_details"]["rate"].clone();
    world.sample(100).await;
    assert_eq!(world.server.api.state().reports, [0; 0], "nobody has looked at a queue");
    assert_eq!(rate().await, 0.0);
    world.sample(105).await;
    publish(30);
    assert_eq!(rate().await, 0.0);
    world.sample(110).await;
    assert_eq!(rate().await, 6.0);
    // A page and the whole list have the same rates.
    for list in ["/api/queues?page=1", "/api/queues?sort=name", "/api/queues", "/api/queues/%2F"] {
        let list = world.get(list).await;
        let rows = if list.is_array() { &list } else { &list["items"] };
        let rates: Vec<_> =
            rows.as_array().unwrap().iter().map(|q| &q["message_stats"]["publish_details"]["rate"]).collect();
        assert_eq!(rates, [0.0, 6.0]);
    }
    let lengths = "lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=5";
    let queue = world.get(&format!("/api/queues/%2F/q?{lengths}")).await;
    assert_eq!(queue["messages_details"]["samples"].as_array().unwrap().len(), 2);
    let samples = json!([{ "sample": 30, "timestamp": 110_000 }, { "sample": 0, "timestamp": 105_000 }]);
    assert_eq!(queue["message_stats"]["publish_details"]["samples"], samples);
    // The history begins with the first request for it.
    for at_s in [115, 120, 125] {
        world.sample(at_s).await;
    }
    let queue = world.get(&format!("/api/queues/%2F/q?{lengths}")).await;
    assert_eq!(queue["message_stats"]["publish_details"]["samples"].as_array().unwrap().len(), 5);
    // A queue that is declared again starts anew, and its rate is not negative.
    world.server.check("guest", "DELETE /api/queues/%2F/q -> 204\nPUT /api/queues/%2F/q -> 201").await;
    publish(2);
    assert_eq!(rate().await, 0.0);
    world.sample(130).await;
    assert_eq!(rate().await, 0.0);
    publish(1);
    world.sample(135).await;
    assert_eq!(rate().await, 0.0, "a counter that went back");
}

#[tokio::test]
async fn deliveries_of_a_queue_are_told_apart() {
    let world = World::start().await;
    {
        let mut state = world.server.api.state();
        let counters = state.counters.over_mut(Protocol::Amqp091);
        counters.from_quorum = Deliveries { manual_ack: 7, acknowledged: 3, ..Deliveries::default() };
    }
    let stats = &world.get("/api/overview").await["message_stats"];
    assert_eq!((&stats["deliver"], &stats["get_no_ack"], &stats["ack"]), (&json!(14), &json!(1), &json!(3)));
}

#[tokio::test]
async fn connections_have_rates() {
    let world = World::start().await;
    world.server.api.state().connections =
        vec![super::connection("a", "guest"), super::connection("b", "guest")];
    let rates = async || {
        let list = world.get("/api/connections").await;
        let rate = |row: &Value| {
            (row["recv_oct_details"]["rate"].as_f64(), row["send_oct_details"]["rate"].as_f64())
        };
        list.as_array().unwrap().iter().map(rate).collect::<Vec<_>>()
    };
    assert_eq!(rates().await, [(Some(0.0), Some(0.0)); 2]);
    world.sample(100).await;
    world.server.api.state().connections[1].send_bytes += 5_000;
    world.sample(110).await;
    assert_eq!(rates().await, [(Some(0.0), Some(0.0)), (Some(0.0), Some(500.0))]);
    let one = world.get("/api/connections/b?data_rates_age=60&data_rates_incr=10").await;
    assert_eq!(one["send_oct_details"]["samples"].as_array().unwrap().len(), 2);
    let one = world.get("/api/connections/b?disable_stats=true").await;
    assert!(one["send_oct"].is_null() && one["name"] == "b");
}

#[tokio::test]
async fn virtual_hosts_have_rates_while_somebody_looks_at_them() {
    let world = World::start().await;
    world.server.check("guest", "PUT /api/vhosts/v -> 201").await;
    let has = |ready, received, recv_bytes| {
        let depth = Depth { ready, unsettled: 1, ..Depth::default() };
        let mut numbers = VhostNumbers { depth, recv_bytes, ..VhostNumbers::default() };
        numbers.counts.received = received;
        world.server.api.state().vhost_numbers.insert("v".into(), numbers);
    };
    has(9, 5, 100);
    let walks = || world.server.api.state().vhost_walks;
    world.sample(95).await;
    assert_eq!(walks(), 0, "nobody has looked at one");
    let one = async || {
        let v = world.get("/api/vhosts/v").await;
        let rate = |of: &Value, name: &str| of[name]["rate"].as_f64().unwrap();
        let rates = (
            rate(&v, "messages_details"),
            rate(&v, "recv_oct_details"),
            rate(&v["message_stats"], "publish_details"),
        );
        (v["messages"].as_u64().unwrap(), v["message_stats"]["publish"].as_u64().unwrap(), rates)
    };
    assert_eq!(one().await, (10, 5, (0.0, 0.0, 0.0)));
    world.sample(100).await;
    has(4, 25, 600);
    world.sample(105).await;
    assert_eq!(one().await, (5, 25, (-1.0, 100.0, 4.0)));
    let list = world.get("/api/vhosts?columns=name,messages_ready,send_oct").await;
    assert_eq!(
        list,
        json!([{ "name": "/", "messages_ready": 0, "send_oct": 0 }, { "name": "v", "messages_ready": 4, "send_oct": 0 }])
    );
    let before = walks();
    let without = world.get("/api/vhosts/v?disable_stats=true").await;
    assert!(without["messages"].is_null() && without["message_stats"].is_null());
    world.get("/api/vhosts?columns=name,limits.max-queues&sort=name").await;
    assert_eq!(walks(), before, "no queue is visited");
    world.get("/api/vhosts?columns=name&sort=message_stats.publish").await;
    assert_eq!(walks(), before + 1);
}

#[tokio::test]
async fn sessions_have_rates_as_channels_have() {
    let world = World::start().await;
    let passed = |received, acknowledged| {
        let mut row = super::connection("c", "guest");
        if let ProtocolRow::Amqp10(ours) = &mut row.protocol {
            ours.sessions[0].counts.received = received;
            ours.sessions[0].counts.deliveries.acknowledged = acknowledged;
        }
        world.server.api.state().connections = vec![row];
    };
    let rates = async |path: &str| {
        let answer = world.get(path).await;
        let sessions = if answer.is_array() { &answer } else { &answer["sessions"] };
        let stats = &sessions[0]["message_stats"];
        (
            stats["publish"].as_u64(),
            stats["publish_details"]["rate"].as_f64(),
            stats["ack_details"]["rate"].as_f64(),
        )
    };
    let (connection, sessions) = ("/api/connections/c", "/api/connections/c/sessions");
    passed(3, 0);
    assert_eq!(rates(connection).await, (Some(3), Some(0.0), Some(0.0)));
    world.sample(100).await;
    passed(23, 10);
    world.sample(105).await;
    assert_eq!(rates(connection).await, (Some(23), Some(4.0), Some(2.0)));
    assert_eq!(rates(sessions).await, (Some(23), Some(4.0), Some(2.0)));
    assert_eq!(rates("/api/connections/c/sessions?disable_stats=true").await, (None, None, None));
}

#[tokio::test]
async fn exchanges_have_rates_while_somebody_looks_at_them() {
    let world = World::start().await;
    let counted = |published| {
        let counts = ExchangeCounts {
            published,
            routed: 2 * published,
            unroutable_returned: 1,
            ..ExchangeCounts::default()
        };
        world.server.api.state().exchange_counts.insert("amq.topic".into(), counts);
    };
    let one =
        "/api/exchanges/%2F/amq.topic?columns=message_stats.publish_in,message_stats.publish_out_details";
    let shown = |publish_in: u64, rate: f64| json!({ "message_stats": { "publish_in": publish_in, "publish_out_details": { "rate": rate } } });
    counted(10);
    assert_eq!(world.get(one).await, shown(10, 0.0));
    world.sample(100).await;
    counted(30);
    world.sample(105).await;
    assert_eq!(world.get(one).await, shown(30, 8.0));
    let list = world.get("/api/exchanges/%2F?sort=message_stats.publish_in&sort_reverse=true").await;
    assert_eq!(list[0]["name"], "amq.topic");
    assert_eq!(list[0]["message_stats"]["return_unroutable"], 1);
    // The list has asked for all exchanges, also for the default one, whose name is empty.
    counted(40);
    world.sample(110).await;
    let rates = world.get("/api/exchanges").await;
    let rate = |row: &Value| row["message_stats"]["publish_in_details"]["rate"].as_f64();
    let rates: Vec<_> =
        rates.as_array().unwrap().iter().map(|row| (row["name"].as_str(), rate(row))).collect();
    assert_eq!(rates[0], (Some(""), Some(0.0)));
    assert!(rates.contains(&(Some("amq.topic"), Some(2.0))), "{rates:?}");
    let samples = world.get("/api/exchanges/%2F/amq.topic?msg_rates_age=60&msg_rates_incr=5").await;
    assert_eq!(samples["message_stats"]["publish_in_details"]["samples"][0]["sample"], 40);
    let without = world.get("/api/exchanges/%2F/amq.topic?disable_stats=true").await;
    assert!(without["message_stats"].is_null() && without["name"] == "amq.topic");
    // An exchange that is declared again starts anew.
    world.server.check("guest", "PUT /api/exchanges/%2F/x -> 201").await;
    world.get("/api/exchanges/%2F/x").await;
    world.sample(115).await;
    world.sample(120).await;
    world.server.check("guest", "DELETE /api/exchanges/%2F/x -> 204\nPUT /api/exchanges/%2F/x -> 201").await;
    assert_eq!(world.get("/api/exchanges/%2F/x").await["message_stats"]["publish_in_details"]["rate"], 0.0);
}

/// The page shows a day of a queue and of an exchange, whether somebody has looked at them or not.
#[tokio::test]
async fn queues_and_exchanges_in_use_have_a_history_of_a_day() {
    let world = World::start().await;
    world.server.check("guest", "PUT /api/queues/%2F/used -> 201\nPUT /api/queues/%2F/idle -> 201").await;
    let counts = |published| ExchangeCounts { published, ..ExchangeCounts::default() };
    // There are two samples in each minute. The history keeps one of them.
    for minute in 0..=24 * 60 {
        {
            let mut state = world.server.api.state();
            state.published.insert("used".into(), 1 + minute * 60);
            state.ready.insert("used".into(), minute);
            state.exchange_counts.insert("amq.topic".into(), counts(1 + minute * 120));
        }
        world.sample(minute * 60).await;
        if minute < 24 * 60 {
            world.sample(minute * 60 + 30).await;
        }
    }
    let samples = async |path: &str, what: &str, age: u64, step: u64| {
        let ranges =
            format!("lengths_age={age}&lengths_incr={step}&msg_rates_age={age}&msg_rates_incr={step}");
        let row = world.get(&format!("{path}?{ranges}")).await;
        let details = row.pointer(what).cloned().unwrap_or_default();
        let samples = details["samples"].as_array().unwrap().clone();
        (
            samples.len(),
            samples.last().map(|last| last["sample"].as_u64().unwrap()),
            details["avg_rate"].as_f64(),
        )
    };
    let day = 24 * 60;
    let used = "/api/queues/%2F/used";
    for (age, step, count) in [(3_600, 60, 61), (28_800, 600, 49), (86_400, 1800, 49)] {
        let first = day - age / 60;
        let published = (count, Some(1 + first * 60), Some(1.0));
        assert_eq!(samples(used, "/message_stats/publish_details", age, step).await, published, "{age}");
        let ready = (count, Some(first), Some(1.0 / 60.0));
        assert_eq!(samples(used, "/messages_ready_details", age, step).await, ready, "{age}");
        let entered = (count, Some(1 + first * 120), Some(2.0));
        let exchange = "/api/exchanges/%2F/amq.topic";
        assert_eq!(samples(exchange, "/message_stats/publish_in_details", age, step).await, entered, "{age}");
    }
    // Nothing is known but what is there now.
    let none = (1, Some(0), None);
    assert_eq!(samples("/api/queues/%2F/idle", "/messages_ready_details", 3600, 60).await, none);
    // Finer samples continue the history.
    let last = day * 60 + 60;
    for second in [0, 5, 10] {
        world.server.api.state().published.insert("used".into(), 1 + (last + second));
        world.sample(last + second).await;
    }
    assert_eq!(
        samples(used, "/message_stats/publish_details", 3_600, 60).await,
        (61, Some(1 + last + 10 - 3_600), Some(1.0))
    );
    // What has passed since is 0 after the queue was deleted and declared again.
    world.server.check("guest", "DELETE /api/queues/%2F/used -> 204\nPUT /api/queues/%2F/used -> 201").await;
    assert_eq!(samples(used, "/messages_ready_details", 3600, 60).await, (1, Some(day), None));
}

#[tokio::test]
async fn ranges_have_bounds() {
    let world = World::start().await;
    for path in [
        "/api/overview?lengths_age=60&lengths_incr=0",
        "/api/overview?lengths_age=0&lengths_incr=5",
        "/api/overview?msg_rates_age=86400&msg_rates_incr=5",
        "/api/nodes?node_stats_age=x&node_stats_incr=5",
        "/api/queues?lengths_age=-1&lengths_incr=5",
        "/api/connections?data_rates_age=99999999999999999999&data_rates_incr=5",
    ] {
        assert_eq!(world.server.ask(Some("guest"), "GET", path, "").await.status, 400, "{path}");
    }
    // Both are needed, as in RabbitMQ.
    let half = world.get("/api/overview?lengths_age=60").await;
    assert!(half["queue_totals"]["messages_details"]["samples"].is_null());
    // The longest ones.
    world.get("/api/overview?lengths_age=18446744073709551615&lengths_incr=18446744073709551615").await;
    world.get("/api/overview?lengths_age=86400&lengths_incr=1800").await;
}

#[tokio::test]
async fn an_admin_api_that_does_not_answer_costs_one_sample() {
    let world = World::start().await;
    world.sample(100).await;
    world.server.api.state().stuck = true;
    world.ports.samples().take(&world.server.api, 105_000).await.unwrap_err();
    world.server.api.state().stuck = false;
    world.receive(100);
    world.sample(110).await;
    let stats = &world.get("/api/overview").await["message_stats"];
    assert_eq!(stats["publish_details"]["rate"], 10.0, "over the longer time");
}

#[tokio::test]
async fn channels_have_rates() {
    let world = World::start().await;
    let connection = || super::channels::connection_of_091("guest", false);
    world.server.api.state().connections = vec![connection()];
    let rates = async || {
        let list = world.get("/api/channels").await;
        let rates = list.as_array().unwrap().iter().map(|row| {
            let rate = |name: &str| row["message_stats"][name]["rate"].as_f64();
            (rate("publish_details"), rate("deliver_get_details"))
        });
        rates.collect::<Vec<_>>()
    };
    assert_eq!(rates().await, [(Some(0.0), Some(0.0)); 2]);
    world.sample(100).await;
    let mut moved = connection();
    if let ProtocolRow::Amqp091(row) = &mut moved.protocol {
        row.channels[1].counts.received = 20;
        row.channels[1].counts.deliveries.get_auto_ack = 40;
    }
    world.server.api.state().connections = vec![moved];
    world.sample(110).await;
    assert_eq!(rates().await, [(Some(0.0), Some(0.0)), (Some(2.0), Some(4.0))]);
    let without = world.get("/api/channels?disable_stats=true").await;
    assert!(without[0]["message_stats"].is_null());
}

/// A tool that scales consumers asks for one queue at long intervals, and takes the rate from each answer.
#[tokio::test]
async fn a_slow_poller_reads_the_rate_and_samples_each_time() {
    let world = World::start().await;
    world.server.check("guest", "PUT /api/queues/%2F/q -> 201").await;
    // 20 messages per second. A sample each second.
    let publish =
        |at_s: u64| _ = world.server.api.state().published.insert("q".into(), (at_s - 1000) * 20 + 1);
    let path = "/api/queues/%2F/q?msg_rates_age=60&msg_rates_incr=5";
    for at_s in 1000..=1900 {
        publish(at_s);
        world.sample(at_s).await;
        // Each time, the object was not asked for during five minutes.
        if at_s > 1000 && at_s % 300 == 0 {
            let details = &world.get(path).await["message_stats"]["publish_details"];
            assert_eq!(details["rate"], 20.0, "at {at_s}");
            assert_eq!(details["samples"].as_array().unwrap().len(), 13, "at {at_s}");
            assert_eq!(details["avg_rate"], 20.0, "at {at_s}");
        }
    }
}

/// The node keeps a sample a minute of queues and exchanges in use. The first request for one of them is answered with the rate
/// since that sample.
#[tokio::test]
async fn the_first_answer_has_a_rate() {
    let world = World::start().await;
    world.server.check("guest", "PUT /api/queues/%2F/q -> 201").await;
    let publish = |messages| {
        let mut state = world.server.api.state();
        state.published.insert("q".into(), messages);
        let counts = ExchangeCounts { published: messages, ..ExchangeCounts::default() };
        state.exchange_counts.insert("amq.topic".into(), counts);
    };
    publish(100);
    world.sample(1000).await;
    publish(500);
    world.at(1020);
    let queue = world.get("/api/queues/%2F/q?msg_rates_age=60&msg_rates_incr=10").await;
    let details = json!({
        "rate": 20.0,
        "avg_rate": 20.0,
        "avg": 300.0,
        "samples": [
            { "sample": 500, "timestamp": 1_020_000 },
            { "sample": 300, "timestamp": 1_010_000 },
            { "sample": 100, "timestamp": 1_000_000 },
        ],
    });
    assert_eq!(queue["message_stats"]["publish_details"], details);
    let exchange = &world.get("/api/exchanges/%2F/amq.topic").await["message_stats"];
    assert_eq!(exchange["publish_in_details"]["rate"], 20.0);
    // With one sample since, the rate is the one since that sample.
    world.sample(1025).await;
    publish(560);
    world.at(1027);
    let queue = world.get("/api/queues/%2F/q").await;
    assert_eq!(queue["message_stats"]["publish_details"]["rate"], 30.0);
    // So soon after a sample, the time is too short for a rate.
    world.sample(1030).await;
    world.sample(1035).await;
    world.server.check("guest", "PUT /api/queues/%2F/new -> 201").await;
    let new = world.get("/api/queues/%2F/new?msg_rates_age=60&msg_rates_incr=10").await;
    assert_eq!(new["message_stats"]["publish_details"]["rate"], 0.0);
    assert_eq!(
        new["message_stats"]["publish_details"]["samples"],
        json!([{ "sample": 0, "timestamp": 1_035_000 }])
    );
}

#[tokio::test]
async fn a_queue_is_idle_when_no_message_has_passed_for_a_minute() {
    let world = World::start().await;
    world.server.check("guest", "PUT /api/queues/%2F/q -> 201").await;
    let idle = async || world.get("/api/queues/%2F/q").await["idle_since"].clone();
    world.sample(951_868_800).await;
    assert!(idle().await.is_null(), "it has had no messages");
    world.server.api.state().published.insert("q".into(), 1);
    world.sample(951_868_860).await;
    assert!(idle().await.is_null(), "it is in use");
    world.sample(951_868_920).await;
    assert_eq!(idle().await, "2000-03-01T00:01:00.000+00:00");
    world.server.api.state().published.insert("q".into(), 2);
    world.sample(951_868_980).await;
    assert!(idle().await.is_null(), "it is in use again");
    // It stays so when nothing has passed for longer than the history of a queue lasts.
    for minute in [1, 3 * 24 * 60, 3 * 24 * 60 + 1] {
        world.sample(951_868_980 + minute * 60).await;
    }
    assert_eq!(idle().await, "2000-03-01T00:03:00.000+00:00");
}
