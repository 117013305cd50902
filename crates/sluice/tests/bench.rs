//! Runs `sluice bench` against the built broker: each pattern must count correctly. Times are not checked.

use crate::broker;

use std::process::{Command, Stdio};

use broker::{Broker, Directory, PROGRAM};
use serde_json::{Value, json};

fn bench(broker: &Broker, words: &str) -> (i32, String, String) {
    let mut command = Command::new(PROGRAM);
    command.arg("bench").args(words.split(' ')).env("SLUICE_URL", broker.amqp_url());
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = |octets| String::from_utf8(octets).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Runs a bench. Its JSON result must contain these fields.
#[track_caller]
fn check(broker: &Broker, words: &str, expected: &Value) -> Value {
    let (code, out, err) = bench(broker, &format!("{words} --json"));
    assert_eq!(code, 0, "{words}: {out} {err}");
    let result: Value = serde_json::from_str(&out).unwrap();
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&result[key], value, "{words}: {key} of {result}");
    }
    result
}

#[test]
fn every_pattern_counts_what_it_moved() {
    let directory = Directory::new("bench");
    let broker = Broker::start(&directory);
    let pairs = check(
        &broker,
        "--pattern pair --pairs 3 --count 500 --size 100",
        &json!({ "pattern": "pair", "senders": 3, "receivers": 3, "queues": 3, "size": 100, "durable": true,
                 "sent": 1500, "accepted": 1500, "expected": 1500, "received": 1500, "strange": 0,
                 "complete": true }),
    );
    let latency = |name: &str| pairs["latency_us"][name].as_f64().unwrap();
    assert!(latency("p50") > 0.0 && latency("p50") <= latency("p99") && latency("p99") <= latency("max"));
    check(
        &broker,
        "--pattern fan-in --senders 4 --receivers 2 --count 300 --durable false --credit 10",
        &json!({ "senders": 4, "receivers": 2, "queues": 1, "sent": 1200, "received": 1200, "complete": true }),
    );
    check(
        &broker,
        "--pattern fan-out --receivers 3 --count 200",
        &json!({ "senders": 1, "receivers": 3, "sent": 200, "accepted": 200, "received": 600, "complete": true }),
    );
    check(
        &broker,
        "--pattern pair --settled --count 200 --queue other",
        &json!({ "sent": 200, "accepted": 0, "received": 200, "complete": true }),
    );
    check(
        &broker,
        "--pattern pair --rate 500 --duration 1 --size 20000",
        &json!({ "rate_per_sender": 500, "sent": 500, "received": 500, "complete": true }),
    );
    check(
        &broker,
        "--pattern connections --connections 50 --sessions 3 --duration 1",
        &json!({ "connections": 50, "sessions": 3, "lost": 0, "complete": true }),
    );
    let listed = Command::new(PROGRAM)
        .args(["list", "queues", "--json"])
        .env("SLUICE_HTTP_URL", broker.http_url())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(listed.stdout).unwrap().trim(), "[]", "a run leaves nothing behind");
}

#[test]
fn every_pattern_counts_what_it_moved_over_amqp_0_9_1() {
    let directory = Directory::new("bench");
    let broker = Broker::start(&directory);
    let check = |words: &str, expected: &Value| {
        let result = check(&broker, &format!("--protocol amqp091 {words}"), expected);
        assert_eq!(result["protocol"], "amqp091");
        result
    };
    let pairs = check(
        "--pattern pair --pairs 3 --count 500 --size 100 --unconfirmed 7",
        &json!({ "pattern": "pair", "senders": 3, "receivers": 3, "queues": 3, "size": 100, "durable": true,
                 "sent": 1500, "accepted": 1500, "expected": 1500, "received": 1500, "strange": 0,
                 "complete": true }),
    );
    let latency = |name: &str| pairs["latency_us"][name].as_f64().unwrap();
    assert!(latency("p50") > 0.0 && latency("p50") <= latency("p99") && latency("p99") <= latency("max"));
    check(
        "--pattern fan-in --senders 4 --receivers 2 --count 300 --durable false --credit 10",
        &json!({ "senders": 4, "receivers": 2, "queues": 1, "sent": 1200, "received": 1200, "complete": true }),
    );
    check(
        "--pattern fan-out --receivers 3 --count 200",
        &json!({ "senders": 1, "receivers": 3, "sent": 200, "accepted": 200, "received": 600, "complete": true }),
    );
    check(
        "--pattern fan-in --settled --durable false --count 5000 --queue other",
        &json!({ "sent": 20_000, "accepted": 0, "received": 20_000, "complete": true }),
    );
    // The body needs several frames.
    check(
        "--pattern pair --rate 50 --duration 1 --size 300000",
        &json!({ "rate_per_sender": 50, "sent": 50, "accepted": 50, "received": 50, "complete": true }),
    );
    check(
        "--pattern connections --connections 50 --sessions 3 --duration 1",
        &json!({ "connections": 50, "sessions": 3, "lost": 0, "complete": true }),
    );
    let queues = broker.list("queues");
    assert_eq!(queues, json!([]), "a run leaves nothing behind");
}

#[test]
fn foreign_messages_are_left_alone() {
    for (protocol, missing) in [("amqp10", "missing-1"), ("amqp091", "no queue 'missing-1'")] {
        let directory = Directory::new("bench");
        let broker = Broker::start(&directory);
        let words = |rest: &str| format!("--protocol {protocol} {rest}");
        let (code, _, err) = bench(&broker, &words("--count 1 --no-declare --queue missing"));
        assert!(code == 1 && err.contains(missing), "{code} {err}");
        for words in [vec!["declare", "queue", "mine-1"], vec!["send", "mine-1", "letter"]] {
            let mut command = Command::new(PROGRAM);
            command
                .args(words)
                .env("SLUICE_URL", broker.amqp_url())
                .env("SLUICE_HTTP_URL", broker.http_url());
            assert!(command.stdout(Stdio::null()).status().unwrap().success());
        }
        let (code, _, err) = bench(&broker, &words("--count 1 --queue mine"));
        assert!(code == 1 && err.contains("'mine-1' has 1 messages"), "{code} {err}");
        // With --no-declare the queue is used as it is. The foreign message counts as strange.
        check(
            &broker,
            &words("--count 10 --queue mine --no-declare"),
            &json!({ "sent": 10, "received": 10, "strange": 1, "complete": true }),
        );
    }
}

#[test]
fn a_refused_login_over_amqp_0_9_1_is_named() {
    let directory = Directory::new("bench");
    let broker = Broker::start(&directory);
    let mut command = Command::new(PROGRAM);
    command.args(["bench", "--protocol", "amqp091", "--url"]);
    let output = command.arg(broker.amqp_url().replace("guest:guest@", "guest:wrong@")).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("refuses the login of user 'guest'"), "{said}");
}

/// These options are refused before a connection is opened, so no broker is needed.
#[test]
fn options_of_another_pattern_or_protocol_are_refused() {
    for (words, line) in [
        ("--senders 3", "--senders belongs to --pattern fan-in and fan-out, not to pair"),
        ("--pattern fan-in --pairs 3", "--pairs belongs to --pattern pair, not to fan-in"),
        ("--pattern fan-out --sessions 0", "--sessions belongs to --pattern connections, not to fan-out"),
        (
            "--pattern connections --receivers 2",
            "--receivers belongs to --pattern fan-in and fan-out, not to connections",
        ),
        ("--unconfirmed 10", "--unconfirmed belongs to --protocol amqp091, not to amqp10"),
        ("--protocol amqp091 --address {queue}", "--address belongs to --protocol amqp10, not to amqp091"),
        (
            "--protocol amqp091 --exchange-address x",
            "--exchange-address belongs to --protocol amqp10, not to amqp091",
        ),
        ("--protocol amqp091 --credit 65536", "--credit is at most 65535 with --protocol amqp091"),
    ] {
        let output = Command::new(PROGRAM).arg("bench").args(words.split(' ')).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.trim()), (Some(2), &*format!("sluice: {line}")));
    }
}
