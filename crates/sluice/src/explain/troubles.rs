//! The list of everything that is not well, for people.

use std::fmt::Write as _;

use serde_json::Value;

use super::{word, write_texts};
use crate::escape;
use crate::words::counted;

/// Renders the troubles, the worst first: each with its objects, what it means and what to do.
pub(super) fn shown(answer: &Value) -> String {
    let looked_at = &answer["looked_at"];
    let number = |name: &str| looked_at[name].as_u64().unwrap_or_default();
    let (queues, connections) = (number("queues"), number("connections"));
    let mut text = String::new();
    // Writing to a string cannot fail.
    for trouble in answer["troubles"].as_array().into_iter().flatten() {
        let [severity, cause, sentence] = ["severity", "cause", "sentence"].map(|name| word(&trouble[name]));
        let _ = writeln!(text, "{severity}: {sentence} ({cause})");
        let objects = trouble["objects"].as_array().map_or(&[][..], Vec::as_slice);
        for object in objects {
            let _ = writeln!(text, "  {}", shown_object(object));
        }
        let more = trouble["count"].as_u64().unwrap_or_default().saturating_sub(objects.len() as u64);
        if more > 0 {
            let _ = writeln!(text, "  and {more} more");
        }
        write_texts(trouble, "  ", &mut text);
        text.push('\n');
    }
    if text.is_empty() {
        text.push_str("Nothing is wrong.\n");
    }
    let _ =
        writeln!(text, "Looked at {} and {}.", counted(queues, "queue"), counted(connections, "connection"));
    text
}

/// Renders an object: what it is, and its numbers.
fn shown_object(object: &Value) -> String {
    let mut text = format!("{} '{}'", word(&object["kind"]), word(&object["name"]));
    if object["vhost"].is_string() {
        let _ = write!(text, " in '{}'", word(&object["vhost"]));
    }
    let numbers = object["numbers"].as_object().into_iter().flatten();
    let numbers: Vec<String> =
        numbers.map(|(name, value)| format!("{} {value}", escape::line(name))).collect();
    if !numbers.is_empty() {
        let _ = write!(text, ": {}", numbers.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn troubles_are_listed_with_what_to_do() {
        let answer = json!({
            "troubles": [{
                "cause": "queue_without_consumer",
                "severity": "warning",
                "sentence": "123 queues grow",
                "meaning": "Nobody empties them.",
                "advice": ["Start a consumer.", "Or delete them."],
                "objects": [
                    {"kind": "queue", "vhost": "/", "name": "q\u{1b}", "numbers": {"queue_ready": 7, "queue_oldest_ms": 9}},
                    {"kind": "node", "name": "n", "numbers": {}},
                ],
                "count": 123,
            }],
            "looked_at": {"queues": 5000, "connections": 20},
        });
        let expected = "\
warning: 123 queues grow (queue_without_consumer)
  queue 'q\\u{1b}' in '/': queue_ready 7, queue_oldest_ms 9
  node 'n'
  and 121 more
  What it means: Nobody empties them.
  What to do:
  - Start a consumer.
  - Or delete them.

Looked at 5000 queues and 20 connections.
";
        assert_eq!(shown(&answer), expected);
    }

    #[test]
    fn nothing_may_be_wrong() {
        let answer = json!({"troubles": [], "looked_at": {"queues": 9, "connections": 1}});
        assert_eq!(shown(&answer), "Nothing is wrong.\nLooked at 9 queues and 1 connection.\n");
    }
}
