//! Sends the requests of tools that are in no package registry, KEDA and the Terraform provider of RabbitMQ, to the built broker. The
//! pages in `tests/interop` say what each tool reads of the answers. Their lines are those of `rabbitmqadmin/recorder.py`, with
//! three more: `rate of NAME 0` or `rate of NAME above 0`, a rate of `message_stats`, which is 0 if it is missing;
//! `header NAME ends in TEXT`; and a path that ends in `again` begins what the next `until` repeats.

use crate::broker;
use crate::rabbitmqadmin::{BETWEEN_TRIES, Body, Step, TRIES_MAX, contains, read_steps};

use broker::verb::{ask_with, basic};
use broker::{Broker, Directory};
use serde_json::Value;

#[test]
fn keda_finds_the_lengths_and_the_rates_of_queues() {
    for queue_type in ["classic", "quorum"] {
        play("keda", include_str!("../../../tests/interop/keda/requests.md"), queue_type);
    }
}

#[test]
fn terraform_creates_reads_changes_and_deletes_what_it_describes() {
    for queue_type in ["classic", "quorum"] {
        play("terraform", include_str!("../../../tests/interop/terraform/requests.md"), queue_type);
    }
}

#[test]
fn an_answer_that_a_tool_could_not_use_is_noticed() {
    let head = "HTTP/1.1 201 Created\r\nLocation: shop/q/plain/a%20b";
    let check = |line: &str, body: &str| {
        let page = format!("```\n> GET /a\n< 200\n{line}\n```");
        compare(&read_steps("test", &page)[0], 200, head, body).is_ok()
    };
    let busy = r#"{"message_stats": {"publish_details": {"rate": 0.5}}}"#;
    for (line, body, is_right) in [
        ("rate of publish above 0", busy, true),
        ("rate of publish 0", busy, false),
        ("rate of publish above 0", "{}", false),
        ("rate of publish 0", "{}", true),
        ("rate of publish 0", r#"{"message_stats": {"publish_details": {"rate": "0"}}}"#, false),
        ("header location ends in /a%20b", "", true),
        ("header location ends in /b", "", false),
        ("header etag ends in b", "", false),
        ("is []", "[]", true),
        ("is []", "[1]", false),
        ("has {\"messages\": 1}", "{\"messages\": \"1\"}", false),
        ("says \"shop\"", "no shop", true),
        ("says \"shop\"", "nothing", false),
    ] {
        assert_eq!(check(line, body), is_right, "{line} of {body}");
    }
}

/// The end of a path with which a repeated part begins.
const AGAIN: &str = " again";

/// Plays a page against a new broker, with queues of this type.
fn play(tool: &str, page: &str, queue_type: &str) {
    let directory = Directory::new(tool);
    let broker = Broker::start(&directory);
    let page = page.replace("{type}", queue_type);
    let steps = read_steps(tool, &page);
    assert!(steps.len() > 15, "{tool} has {} requests", steps.len());
    // The step that is next, that from which a step with `until` repeats, and how often it did.
    let (mut next, mut from, mut tries) = (0, None, 0);
    while let Some(step) = steps.get(next) {
        if step.path.ends_with(AGAIN) {
            from = Some(next);
        }
        match send(&broker, step) {
            Ok(()) => next += 1,
            Err(_) if step.is_repeated && tries < TRIES_MAX => {
                (next, tries) = (from.unwrap_or(next), tries + 1);
                std::thread::sleep(BETWEEN_TRIES);
                continue;
            }
            Err(why) => {
                let Step { line, method, path, .. } = step;
                panic!("{tool}, {queue_type} queues, line {line}: {method} {path}: {why}");
            }
        }
        if step.is_repeated {
            (from, tries) = (None, 0);
        }
    }
    assert!(broker.terminate().success());
}

/// Sends the request of a step, as a library of Go does, and compares the answer with the page.
fn send(broker: &Broker, step: &Step<'_>) -> Result<(), String> {
    let (user, password) = step.user;
    let body = if let Body::Text(text) = step.body { text } else { "" };
    let headers: &[&str] = if step.method == "GET" { &[] } else { &["Content-Type: application/json"] };
    let (status, answer) = ask_with(
        broker.http_port,
        &basic(user, password),
        headers,
        step.method,
        step.path.trim_end_matches(AGAIN),
        body,
    );
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    compare(step, status, head, body).map_err(|why| format!("{why}\n{status} {body}"))
}

/// Compares an answer with a step of a page.
fn compare(step: &Step<'_>, status: u16, head: &str, text: &str) -> Result<(), String> {
    if status != step.status {
        return Err(format!("the status is {status} and not {}", step.status));
    }
    let value =
        |text: &str| serde_json::from_str::<Value>(text).map_err(|error| format!("{error} in {text}"));
    for (kind, wanted) in &step.wanted {
        let is_so = match *kind {
            "header" => {
                let (name, end) = wanted.split_once(" ends in ").ok_or("no end of a header")?;
                let mut fields = head.lines().filter_map(|line| line.split_once(": "));
                fields.any(|(field, found)| field.eq_ignore_ascii_case(name) && found.ends_with(end))
            }
            "rate" => {
                let (name, wanted) = wanted
                    .strip_prefix("of ")
                    .and_then(|rest| rest.split_once(' '))
                    .ok_or("no name of a rate")?;
                let answer = value(text)?;
                let rate = answer.pointer(&format!("/message_stats/{name}_details/rate"));
                let rate = rate.map_or(Some(0.0), Value::as_f64).ok_or("the rate is no number")?;
                if wanted == "above 0" { rate > 0.0 } else { rate == 0.0 }
            }
            "says" => text.contains(value(wanted)?.as_str().ok_or("no text")?),
            kind => contains(&value(wanted)?, &value(text)?, kind == "is"),
        };
        if !is_so {
            return Err(format!("the page says: {kind} {wanted}"));
        }
    }
    Ok(())
}
