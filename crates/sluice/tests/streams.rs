//! Streams used from the command line and over HTTP, against the built broker.

use crate::broker;

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use amqp10::{Map, Value as Amqp};
use broker::{Broker, Directory, PROGRAM};
use client::management::QueueSpec;
use client::{Connection, Error, Management, Options};
use serde_json::{Value, json};

fn offsets(rows: &Value) -> Vec<u64> {
    rows.as_array().unwrap().iter().map(|row| row["offset"].as_u64().unwrap()).collect()
}

#[test]
fn a_stream_is_browsed() {
    let directory = Directory::new("streams");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "s/1", "--type", "stream"]).done();
    broker.verb(&["declare", "queue", "c"]).done();
    let look = |query: &str| broker.get(&format!("/api/queues/%2F/s%2F1/messages{query}"));
    assert_eq!(look(""), (200, json!([])), "it has never been used");
    let before_ms = now_ms();
    for body in ["a", "b", "c"] {
        broker.verb(&["send", "s/1", body, "--subject", body]).done();
    }
    let (status, rows) = look("?count=2");
    assert_eq!((status, offsets(&rows)), (200, vec![0, 1]));
    assert_eq!((&rows[0]["payload"], &rows[0]["payload_encoding"]), (&json!("a"), &json!("string")));
    assert_eq!((&rows[0]["exchange"], &rows[0]["routing_key"]), (&json!(""), &json!("s/1")));
    assert_eq!(rows[1]["properties"], json!({"subject": "b"}));
    assert_eq!(rows[1]["message_annotations"]["x-stream-offset"], 1);
    assert_eq!(rows[1]["header"]["durable"], true);
    for (query, expected) in [
        ("?offset=first", vec![0, 1, 2]),
        ("?offset=last", vec![2]),
        ("?offset=next", vec![]),
        ("?offset=1", vec![1, 2]),
        ("?offset=99", vec![]),
        ("?offset=1h", vec![0, 1, 2]),
        (&format!("?at={before_ms}"), vec![0, 1, 2]),
        ("?at=32503680000000", vec![]),
    ] {
        assert_eq!(offsets(&look(query).1), expected, "{query}");
    }
    // Browsing a stream consumes nothing. A classic queue refuses to be browsed and says why.
    let (_, row) = broker.get("/api/queues/%2F/s%2F1");
    assert_eq!((&row["type"], &row["messages"], &row["consumers"]), (&json!("stream"), &json!(3), &json!(0)));
    assert_eq!(
        (&row["first_offset"], &row["next_offset"], &row["segments"]),
        (&json!(0), &json!(3), &json!(1))
    );
    assert_eq!(row["message_stats"]["deliver"], 0);
    let times = ["first_timestamp", "last_timestamp"].map(|field| row[field].as_u64().unwrap());
    assert!(before_ms <= times[0] && times[0] <= times[1] && times[1] <= now_ms(), "{times:?}");
    let (status, refused) = broker.get("/api/queues/%2F/c/messages");
    let reason = "queue 'c' in vhost '/' is a classic queue: only the messages of a stream can be browsed";
    assert_eq!((status, &refused["reason"]), (400, &json!(reason)));
    let table = broker.verb(&["list", "queues"]).done();
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[2][..7], ["s/1", "stream", "yes", "3", "3", "0", "0"], "{table}");
    assert_eq!(lines[2][10..], ["0", "3", "1"], "{table}");
    assert!(broker.terminate().success());
}

/// Whoever names no offset reads new messages only, and is told that there are others.
#[test]
fn a_receiver_that_waits_beside_stored_messages_says_so() {
    let directory = Directory::new("streams");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "a/b", "--type", "stream"]).done();
    broker.verb(&["send", "a/b", "old", "--count", "6"]).done();
    let mut recv = Command::new(PROGRAM);
    recv.args(["recv", "a/b", "--count", "1", "--url", &broker.amqp_url()]);
    let mut recv = recv.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(recv.stderr.take().unwrap()).lines().map(Result::unwrap);
    let said = "sluice: reading new messages of the stream; it has 6 messages, which --offset first reads";
    assert_eq!(lines.next().as_deref(), Some(said));
    broker.verb(&["send", "a/b", "new"]).done();
    let done = recv.wait_with_output().unwrap();
    assert_eq!((done.status.success(), &*done.stdout), (true, &b"new\n"[..]));
    assert_eq!(lines.next(), None, "it is said once");
}

#[test]
fn a_receiver_starts_at_its_offset() {
    let directory = Directory::new("streams");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "s", "--type", "stream"]).done();
    let before_ms = now_ms().to_string();
    for body in ["a", "b", "c"] {
        broker.verb(&["send", "s", body, "--subject", body, "--property", &format!("is-{body}=1")]).done();
    }
    let recv = |words: &[&str]| broker.verb(&[&["recv", "s", "--timeout", "1"], words].concat());
    assert_eq!(recv(&["--offset", "first", "--count", "2"]).done(), "a\nb");
    assert_eq!(recv(&["--offset", "last", "--count", "1"]).done(), "c");
    assert_eq!(recv(&["--offset", "1", "--count", "2"]).done(), "b\nc");
    assert_eq!(recv(&["--offset", "10m", "--count", "3"]).done(), "a\nb\nc");
    assert_eq!(recv(&["--at", &before_ms, "--count", "3"]).done(), "a\nb\nc");
    recv(&["--offset", "next"]).refused(1, &["received nothing from /queues/s"]);
    let filter = ["--offset", "first", "--filter", "properties.subject = 'b' OR properties.subject = 'c'"];
    assert_eq!(recv(&filter).done(), "b\nc");
    let (_, row) = broker.get("/api/queues/%2F/s");
    assert_eq!(
        row["message_stats"]["deliver"],
        2 + 1 + 2 + 3 + 3 + 2,
        "each delivery counts, and none is taken"
    );
    assert_eq!(row["messages"], 3);

    // The error says which filter was not accepted, and nothing is printed.
    recv(&["--offset", "first", "--filter", "subject ="])
        .refused(1, &["/queues/s", "--filter not accepted", "at byte 9"]);
    broker.verb(&["declare", "queue", "c"]).done();
    broker.verb(&["send", "c", "x"]).done();
    let classic = broker.verb(&["recv", "c", "--timeout", "1", "--offset", "first", "--filter-value", "v"]);
    classic.refused(1, &["/queues/c", "--offset or --at, --filter-value not accepted", "only streams"]);
    assert_eq!(broker.verb(&["recv", "c", "--timeout", "1"]).done(), "x");
    assert!(broker.terminate().success());
}

/// The broker filters whole chunks. Each message here has its own chunk: the next is sent after it is
/// confirmed.
#[test]
fn a_receiver_takes_the_chunks_that_it_wants() {
    let directory = Directory::new("streams");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "s", "--type", "stream"]).done();
    for value in ["red", "green", "blue"] {
        broker.verb(&["send", "s", value, "--filter-value", value]).done();
    }
    broker.verb(&["send", "s", "none"]).done();
    let recv = |words: &[&str]| {
        broker.verb(&[&["recv", "s", "--timeout", "1", "--offset", "first"], words].concat()).done()
    };
    assert_eq!(recv(&["--filter-value", "green"]), "green");
    assert_eq!(recv(&["--filter-value", "blue", "--filter-value", "red"]), "red\nblue");
    assert_eq!(recv(&["--filter-value", "red", "--match-unfiltered"]), "red\nnone");
    assert!(broker.terminate().success());
}

#[test]
fn unsupported_stream_requests_are_refused() {
    let directory = Directory::new("streams");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "s", "--type", "stream"]).done();
    let (status, refused) = broker.ask("DELETE", "/api/queues/%2F/s/contents", "");
    assert_eq!(status, 400, "{refused}");
    let reason = refused["reason"].as_str().unwrap();
    assert!(reason.contains("queue 's' in vhost '/'") && reason.contains("stream"), "{reason}");
    for body in [
        r#"{"arguments":{"x-queue-type":"stream"},"auto_delete":true}"#,
        r#"{"arguments":{"x-queue-type":"stream","x-max-length":5}}"#,
    ] {
        let (status, refused) = broker.ask("PUT", "/api/queues/%2F/t", body);
        let reason = refused["reason"].as_str().unwrap();
        assert!(status == 400 && reason.contains("queue 't' in vhost '/'"), "{body}: {reason}");
    }
    for (what, reason) in refused_over_amqp(&broker) {
        assert!(
            reason.contains("queue 's' in vhost '/'") || reason.contains("queue 't' in vhost '/'"),
            "{what}: {reason}"
        );
        assert!(reason.contains(what), "{what}: {reason}");
    }
    broker.verb(&["declare", "exchange", "x", "--type", "x-local-random"]).done();
    broker
        .verb(&["declare", "binding", "x", "s"])
        .refused(1, &["queue 's'", "vhost '/'", "classic queues only"]);
    assert!(broker.verb(&["explain", "queue", "s"]).done().starts_with("queue_empty: "));
    broker.verb(&["send", "s", "x"]).done();
    assert!(broker.verb(&["explain", "queue", "s"]).done().starts_with("no_reader: "));
    assert!(broker.terminate().success());
}

/// Returns the refusals of a purge and of invalid stream declarations over AMQP management, each with a word
/// that must occur.
fn refused_over_amqp(broker: &Broker) -> [(&'static str, String); 3] {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let url = broker.amqp_url().parse().unwrap();
        let connection = Connection::open(&url, Options::default()).await.unwrap();
        let session = connection.session().await.unwrap();
        let management = Management::open(&session).await.unwrap();
        let stream = |exclusive, auto_delete| QueueSpec {
            durable: true,
            exclusive,
            auto_delete,
            arguments: Map::from_iter([("x-queue-type", Amqp::from("stream"))]),
        };
        let purged = management.purge_queue("s").await.map(|_| ());
        let exclusive = management.declare_queue("t", &stream(true, false)).await.map(|_| ());
        let auto_delete = management.declare_queue("t", &stream(false, true)).await.map(|_| ());
        let reason = |refused: Result<(), Error>| match refused {
            Err(Error::Status { status: 400 | 409, explanation }) => explanation,
            other => panic!("{other:?}"),
        };
        [("type", reason(purged)), ("exclusive", reason(exclusive)), ("auto-delete", reason(auto_delete))]
    })
}

fn now_ms() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64
}
