//! Messages are looked at without changing them, in memory and on the disk, against the built broker.

use crate::broker;

use broker::{Broker, Directory, Starting};
use client::{Connection, Credit, Options, ReceiverOptions};
use serde_json::{Value, json};

/// The number of messages that a search without `count` returns.
const COUNT_DEFAULT: u64 = 100;

/// Asks for messages until nothing follows, or as many are found as `count` says. One request takes at most five seconds, so on a
/// busy machine the search may take several. Returns the places of the messages, how many were looked at, and where to go on.
fn search(broker: &Broker, queue: &str, query: &str) -> (Vec<u64>, u64, Option<u64>) {
    let mut parameters: Vec<(&str, &str)> =
        query.split('&').filter_map(|parameter| parameter.split_once('=')).collect();
    let mut number = |name: &str| {
        let at = parameters.iter().position(|(of, _)| *of == name)?;
        Some(parameters.remove(at).1.parse::<u64>().unwrap())
    };
    let (count, mut from) = (number("count").unwrap_or(COUNT_DEFAULT), number("from"));
    let others: String = parameters.iter().map(|(name, value)| format!("&{name}={value}")).collect();
    let (mut places, mut scanned) = (Vec::new(), 0);
    loop {
        let left = count - places.len() as u64;
        let start = from.map_or(String::new(), |from| format!("&from={from}"));
        let (status, answer) =
            broker.get(&format!("/api/queues/%2F/{queue}/search?count={left}{start}{others}"));
        assert_eq!(status, 200, "{answer}");
        let place = |row: &Value| row["position"].as_u64().or(row["offset"].as_u64()).unwrap();
        places.extend(answer["messages"].as_array().unwrap().iter().map(place));
        scanned += answer["scanned"].as_u64().unwrap();
        from = answer["next"].as_u64();
        if from.is_none() || places.len() as u64 == count {
            return (places, scanned, from);
        }
    }
}

#[test]
fn messages_on_the_disk_are_found_and_stay_there() {
    let directory = Directory::new("search");
    let broker = Starting::spawn(&directory, &["classic_queue.backlog_memory=64KiB"]).finish();
    let body = "x".repeat(4000);
    for kind in ["classic", "quorum"] {
        broker.verb(&["declare", "queue", kind, "--type", kind]).done();
        assert_eq!(search(&broker, kind, ""), (vec![], 0, None), "nobody has used it");
        broker.verb(&["send", kind, &body, "--count", "999"]).done();
        broker.verb(&["send", kind, "the Needle", "--property", "country=DE"]).done();
        // At least three quarters of the messages are on the disk. The time is not limited: without a place on the disk, the
        // test does not end.
        while broker.budget("backlog").0 > 1_000_000 {
            std::thread::yield_now();
        }
        let (ready, total) = (broker.get(&format!("/api/queues/%2F/{kind}")).1, json!(1000));
        assert_eq!(ready["messages_ready"], total, "{ready}");
        assert_eq!(search(&broker, kind, "filter=needle"), (vec![1000], 1000, None));
        assert_eq!(search(&broker, kind, "filter=COUNTRY%3Dde&from=500"), (vec![1000], 501, None));
        assert_eq!(search(&broker, kind, "from=998&count=2"), (vec![998, 999], 2, Some(1000)));
        assert_eq!(search(&broker, kind, "from=1001"), (vec![], 0, None));
        assert_eq!(search(&broker, kind, "until=1h&filter=needle"), (vec![], 1000, None));
        let (status, row) = broker.get(&format!("/api/queues/%2F/{kind}/peek/1000"));
        assert_eq!((status, &row["payload"], &row["seq"]), (200, &json!("the Needle"), &json!(1000)));
        let arrived = row["arrived_at"].as_u64().unwrap();
        let (_, first) = broker.get(&format!("/api/queues/%2F/{kind}/peek/1"));
        let head = ready["head_message_timestamp"].as_u64().unwrap();
        assert_eq!(head, first["arrived_at"].as_u64().unwrap() / 1000, "{ready}");
        assert!(first["arrived_at"].as_u64().unwrap() <= arrived && arrived <= now_ms());
        let around = format!("since={arrived}&until={arrived}&from=1000");
        assert_eq!(search(&broker, kind, &around).0, [1000]);
        let (_, missing) = broker.get(&format!("/api/queues/%2F/{kind}/peek/1001"));
        assert!(
            missing["detail"].as_str().unwrap().contains("no ready message at position 1001"),
            "{missing}"
        );
        // They are delivered in their order, and were never delivered before.
        let taken =
            broker.verb(&["get", kind, "--count", "1", "--ackmode", "ack_requeue_false", "--json"]).done();
        let taken: Value = serde_json::from_str(&taken).unwrap();
        assert_eq!((&taken[0]["redelivered"], &taken[0]["message_count"]), (&json!(false), &json!(999)));
        assert_eq!(search(&broker, kind, "filter=needle").0, [999]);
    }
    assert!(broker.terminate().success());
}

/// Positions are those of ready messages: neither those that a consumer has, nor those that are gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn positions_on_the_disk_follow_what_is_taken_meanwhile() {
    let directory = Directory::new("search");
    let broker = Starting::spawn(&directory, &["classic_queue.backlog_memory=64KiB"]).finish();
    let connection = Connection::open(&broker.amqp_url().parse().unwrap(), Options::default()).await.unwrap();
    let session = connection.session().await.unwrap();
    let body = "x".repeat(4000);
    for kind in ["classic", "quorum"] {
        broker.verb(&["declare", "queue", kind, "--type", kind]).done();
        broker.verb(&["send", kind, &body, "--count", "999"]).done();
        broker.verb(&["send", kind, "the Needle"]).done();
        // Most messages are on the disk. Without a place there, the test does not end.
        while broker.budget("backlog").0 > 1_000_000 {
            std::thread::yield_now();
        }
        let seq_at =
            |position: u64| broker.get(&format!("/api/queues/%2F/{kind}/peek/{position}")).1["seq"].as_u64();
        assert_eq!([1, 500, 1000].map(seq_at), [Some(1), Some(500), Some(1000)], "{kind}");

        // A consumer has ten, and accepts every second one.
        let options = ReceiverOptions { credit: Credit::Manual, ..ReceiverOptions::default() };
        let receiver = session.receiver(Some(&format!("/queues/{kind}")), options).await.unwrap();
        receiver.flow(10, false, false);
        let mut held = Vec::new();
        for _ in 0..10 {
            held.push(receiver.recv().await.unwrap());
        }
        assert_eq!([1, 490, 990, 991].map(seq_at), [Some(11), Some(500), Some(1000), None], "{kind}");
        assert_eq!(search(&broker, kind, "filter=needle"), (vec![990], 990, None), "{kind}");
        for (at, delivery) in held.drain(..).enumerate() {
            if at % 2 == 0 {
                delivery.accept().unwrap();
            }
        }
        // The others are ready again, at their places, and were delivered before. The queue may be on another shard than the
        // link, so it may learn of the end of the link later than the client.
        receiver.detach().await.unwrap();
        while seq_at(995).is_none() || seq_at(996).is_some() {
            std::thread::yield_now();
        }
        assert_eq!(
            [1, 5, 6, 995, 996].map(seq_at),
            [Some(2), Some(10), Some(11), Some(1000), None],
            "{kind}"
        );
        assert_eq!(search(&broker, kind, "filter=needle"), (vec![995], 995, None), "{kind}");
        let (_, first) = broker.get(&format!("/api/queues/%2F/{kind}/peek/1"));
        let (_, later) = broker.get(&format!("/api/queues/%2F/{kind}/peek/6"));
        assert_eq!((&first["redelivered"], &later["redelivered"]), (&json!(true), &json!(false)), "{kind}");

        // Whoever goes on with `next` while others take messages passes over as many as were taken, and sees none twice.
        let (seen, _, next) = search(&broker, kind, "count=100");
        assert_eq!((seen.len(), next), (100, Some(101)));
        broker.verb(&["get", kind, "--count", "50", "--ackmode", "ack_requeue_false"]).done();
        assert_eq!(seq_at(101), Some(156), "{kind}");
        assert_eq!(search(&broker, kind, "from=101&filter=needle"), (vec![945], 845, None), "{kind}");
    }
    assert!(broker.terminate().success());
}

#[test]
fn messages_of_a_stream_are_found_by_text_and_time() {
    let directory = Directory::new("search");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "s", "--type", "stream"]).done();
    assert_eq!(search(&broker, "s", "filter=x"), (vec![], 0, None));
    broker.verb(&["send", "s", "plain", "--count", "1200"]).done();
    let written = || broker.get("/api/queues/%2F/s").1["last_timestamp"].as_u64().unwrap();
    let first_ms = written();
    // The next chunk has another time.
    while now_ms() <= first_ms {
        std::thread::yield_now();
    }
    broker.verb(&["send", "s", "late", "--property", "colour=Red"]).done();
    let last_ms = written();
    assert!(last_ms > first_ms);
    let (_, row) = broker.get("/api/queues/%2F/s");
    let of = |field: &str| row[field].as_u64().unwrap();
    assert_eq!(of("head_message_timestamp"), of("first_timestamp") / 1000);
    assert_eq!(search(&broker, "s", "filter=colour%3Dred"), (vec![1200], 1201, None));
    assert_eq!(search(&broker, "s", "filter=PLAIN&count=2&from=1198"), (vec![1198, 1199], 2, Some(1200)));
    assert_eq!(search(&broker, "s", &format!("since={last_ms}")), (vec![1200], 1, None));
    assert_eq!(search(&broker, "s", &format!("until={first_ms}&from=1199")), (vec![1199], 1, None));
    assert_eq!(search(&broker, "s", &format!("since={first_ms}&until={last_ms}&filter=late")).0, [1200]);
    assert_eq!(search(&broker, "s", "since=32503680000000"), (vec![], 0, None));
    assert!(broker.terminate().success());
}

fn now_ms() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64
}
