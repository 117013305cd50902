//! `/api/queues/{vhost}/{name}/search`: looks for messages of a queue or a stream by their position, their time and a text, and
//! changes nothing.
//!
//! The answer has the messages that match, as [`crate::browse`] shows them, how many were looked at, and where to go on. One
//! request is bounded in all of these, so a client repeats it with `from` until `next` is null.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use broker::admin_api::{BrowsedRow, Peek, PeekedRow, ShownMessage, Start};
use serde_json::Value;

use crate::browse::{count, offset, peeked_to_json, to_json};
use crate::call::Call;
use crate::clock::now_ms;
use crate::messages::place;
use crate::query::Query;
use crate::reply::{Failure, Reply};

/// The most messages that one request looks at. Filtering so many takes a fraction of a second.
const SCANNED_MAX: u64 = 10_000;

/// The bytes of messages, with all their sections, after which a request looks at no further one. It has at most one part of
/// the admin API more.
const SCANNED_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The size of an answer at which it gets no further message.
const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The time after which a request looks at no further message. It is below the deadline of a request.
const SCAN_TIME_MAX: Duration = Duration::from_secs(5);

/// The bytes of messages after which other tasks of the thread have their turn.
const TURN_BYTES: usize = 64 * 1024;

/// What a message costs besides its bytes.
const ROW_BYTES: usize = 1024;

/// The messages that the admin API is asked for at once, if they are filtered.
const PART: u32 = 500;

/// The bytes of a body in which the text is looked for. Lower and upper case are the same, so a part is copied to compare it.
const BODY_MAX: usize = 64 * 1024;

/// The most messages that an answer has besides those that match, because their bodies are no text. A request for more is refused.
const UNDECODED_MAX: usize = 1_000;

/// The fields of a row that say where the message is, and not what it is.
const PLACE: [&str; 11] = [
    "position",
    "offset",
    "seq",
    "arrived_at",
    "redelivered",
    "delivery_count",
    "acquired_count",
    "payload",
    "payload_bytes",
    "payload_encoding",
    "error",
];

/// What is looked for.
#[derive(Debug)]
struct Wanted {
    count: usize,
    /// The bytes of a body that are shown.
    truncate: usize,
    /// In lower case. `None` matches all messages.
    text: Option<String>,
    /// How many messages are shown although they do not match, because their bodies are no text: the caller can decode them, and
    /// looks for the text there.
    undecoded: usize,
    /// The times of arrival, in milliseconds since the epoch. Both bounds are included.
    since_ms: Option<u64>,
    until_ms: Option<u64>,
}

/// The messages that were found, and what was spent on it.
struct Scan {
    wanted: Wanted,
    began: Instant,
    /// The messages that match, encoded. As trees of values they would take several times as much memory.
    rows: String,
    found: usize,
    /// The messages that are shown for the caller to decode.
    undecoded: usize,
    scanned: u64,
    scanned_bytes: usize,
    /// The bytes that were looked at in this turn of the task.
    turn_bytes: usize,
}

pub(crate) async fn search(call: &Call<'_>) -> Result<Reply, Failure> {
    let now_ms = now_ms();
    let wanted = wanted(&call.query, now_ms)?;
    let from = call.query.get("from");
    let _place = place(call, "nothing was read").await?;
    let mut scan = Scan {
        wanted,
        began: Instant::now(),
        rows: String::new(),
        found: 0,
        undecoded: 0,
        scanned: 0,
        scanned_bytes: 0,
        turn_bytes: 0,
    };
    // Whoever may not read the queue gets the same answer whether it exists or not, so the permission is asked for first.
    let (vhost, name) = (call.param(0), call.param(1));
    let row = match call.api.queue(&call.who, vhost, name).await {
        Ok(row) => row,
        Err(error) => {
            call.api.peek(&call.who, vhost, name, Peek { position: 1, count: 1, hint: None }).await?;
            return Err(error.into());
        }
    };
    let next = match row.is_stream() {
        true => scan.stream(call, from, now_ms).await?,
        false => scan.queue(call, from).await?,
    };
    let (scanned, next, rows) = (scan.scanned, Value::from(next), scan.rows);
    let answer = format!(r#"{{"scanned":{scanned},"next":{next},"messages":[{rows}]}}"#);
    Ok(Reply::Rows(answer.into()))
}

fn wanted(query: &Query, now_ms: u64) -> Result<Wanted, Failure> {
    let time = |name: &str| match query.get(name) {
        None | Some("") => Ok(None),
        Some(text) => match offset(text, now_ms) {
            Ok(Start::Offset(ms) | Start::Time(ms)) => Ok(Some(ms)),
            _ => Err(Failure::bad_request(format!(
                "{name} '{text}' is not a time in milliseconds since 1970, or a time span such as 10m (units: Y M D h m s)"
            ))),
        },
    };
    let undecoded = query.number("undecoded")?.unwrap_or(0);
    if undecoded > UNDECODED_MAX {
        return Err(Failure::bad_request(format!("undecoded '{undecoded}' is more than {UNDECODED_MAX}")));
    }
    Ok(Wanted {
        count: count(query)? as usize,
        truncate: query.number("truncate")?.unwrap_or(usize::MAX),
        text: query.get("filter").filter(|text| !text.is_empty()).map(str::to_lowercase),
        undecoded,
        since_ms: time("since")?,
        until_ms: time("until")?,
    })
}

impl Scan {
    /// Returns true if no further message is to be looked at.
    fn is_over(&self) -> bool {
        self.found >= self.wanted.count
            || (self.undecoded > 0 && self.undecoded >= self.wanted.undecoded)
            || self.rows.len() >= ANSWER_BYTES_MAX
            || self.scanned >= SCANNED_MAX
            || self.scanned_bytes >= SCANNED_BYTES_MAX
            || self.began.elapsed() >= SCAN_TIME_MAX
    }

    /// Returns how many messages to ask for.
    fn part(&self) -> u32 {
        match self.wanted.text.is_some() || self.wanted.since_ms.is_some() || self.wanted.until_ms.is_some() {
            true => PART,
            false => (self.wanted.count - self.found).min(PART as usize) as u32,
        }
    }

    /// Counts a message of this size. Lets other tasks of the thread run meanwhile: there is one thread for all requests.
    async fn count(&mut self, bytes: usize) {
        self.scanned += 1;
        self.scanned_bytes += bytes;
        self.turn_bytes += ROW_BYTES + bytes;
        if self.turn_bytes >= TURN_BYTES {
            self.turn_bytes = 0;
            tokio::task::yield_now().await;
        }
    }

    /// Keeps a message if it matches, or if the caller is to decode it. `shown` renders it with so many bytes of its body.
    fn look_at(&mut self, shown: impl Fn(usize) -> Value) {
        let is_match = match &self.wanted.text {
            None => true,
            Some(text) => {
                let whole = shown(usize::MAX);
                let is_match = has_text(&whole, text);
                if !is_match && (self.wanted.undecoded == 0 || !is_encoded(&whole)) {
                    return;
                }
                is_match
            }
        };
        let mut row = shown(self.wanted.truncate);
        if is_match {
            self.found += 1;
        } else {
            row["undecoded"] = true.into();
            self.undecoded += 1;
        }
        let comma = if self.rows.is_empty() { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(self.rows, "{comma}{row}");
    }

    /// Looks at ready messages of a queue. Returns the position to go on from.
    async fn queue(&mut self, call: &Call<'_>, from: Option<&str>) -> Result<Option<u64>, Failure> {
        let position = match from.unwrap_or("1") {
            "" | "first" => 1,
            text => text
                .parse()
                .map_err(|_| Failure::bad_request(format!("position '{text}' is not a whole number")))?,
        };
        let mut next = Some(Peek { position, count: self.part(), hint: None });
        while let Some(peek) = next.filter(|_| !self.is_over()) {
            let peek = Peek { count: self.part(), ..peek };
            let part = match call.api.peek(&call.who, call.param(0), call.param(1), peek).await {
                // What was found before is not lost. The next request meets the error.
                Err(_) if self.scanned > 0 => return Ok(Some(peek.position)),
                part => part?,
            };
            for (position, row) in (peek.position..).zip(&part.rows) {
                if self.is_over() {
                    return Ok(Some(position));
                }
                let is_in_time = self.wanted.since_ms.is_none_or(|ms| row.at_ms >= ms)
                    && self.wanted.until_ms.is_none_or(|ms| row.at_ms <= ms);
                self.count(peeked_bytes(row)).await;
                if is_in_time {
                    self.look_at(|truncate| peeked_to_json(position, row, truncate));
                }
            }
            next = part.next;
        }
        Ok(next.map(|peek| peek.position))
    }

    /// Looks at messages of a stream. Returns the offset to go on from.
    async fn stream(
        &mut self,
        call: &Call<'_>,
        from: Option<&str>,
        now_ms: u64,
    ) -> Result<Option<u64>, Failure> {
        let (vhost, name) = (call.param(0), call.param(1));
        let from = from.filter(|text| !text.is_empty()).map(|text| offset(text, now_ms)).transpose()?;
        let mut start = match (from, self.wanted.since_ms) {
            (None, None) => Start::First,
            (None, Some(ms)) => Start::Time(ms),
            (Some(start), None) => start,
            // The message at which an earlier request has ended, unless the time is later.
            (Some(Start::Offset(offset)), Some(ms)) => match first_of(call, ms).await? {
                Some(first) => Start::Offset(offset.max(first)),
                None => return Ok(None),
            },
            (Some(_), Some(_)) => {
                return Err(Failure::bad_request("since excludes every from but an offset"));
            }
        };
        // A stream has times per chunk, so the bound is the first chunk that is too late.
        let end = match self.wanted.until_ms {
            Some(ms) => first_of(call, ms.saturating_add(1)).await?,
            None => None,
        };
        loop {
            let rows = match (call.api.browse(&call.who, vhost, name, start, self.part()).await, start) {
                (Err(_), Start::Offset(offset)) if self.scanned > 0 => return Ok(Some(offset)),
                (rows, _) => rows?,
            };
            let Some(last) = rows.last() else { return Ok(None) };
            start = Start::Offset(last.offset + 1);
            for row in &rows {
                if end.is_some_and(|end| row.offset >= end) {
                    return Ok(None);
                }
                if self.is_over() {
                    return Ok(Some(row.offset));
                }
                self.count(browsed_bytes(row)).await;
                self.look_at(|truncate| to_json(row, truncate));
            }
            if self.is_over() {
                return Ok(Some(last.offset + 1));
            }
        }
    }
}

fn peeked_bytes(row: &PeekedRow) -> usize {
    match &row.message {
        ShownMessage::Amqp10(encoded) => encoded.len(),
        ShownMessage::Amqp091 { properties, payload } => properties.len() + payload.len(),
    }
}

fn browsed_bytes(row: &BrowsedRow) -> usize {
    row.message.len()
}

/// Returns the first offset of a stream that was written at this time or later. `None` if there is none.
async fn first_of(call: &Call<'_>, ms: u64) -> Result<Option<u64>, Failure> {
    let rows = call.api.browse(&call.who, call.param(0), call.param(1), Start::Time(ms), 1).await?;
    Ok(rows.first().map(|row| row.offset))
}

/// Returns true if a text is part of the body, or of a line `name=value` of the keys, properties, headers or annotations. `text`
/// is in lower case.
fn has_text(row: &Value, text: &str) -> bool {
    let payload = row["payload"].as_str().unwrap_or_default();
    let is_in_body = match row["payload_encoding"] == "base64" {
        // Four characters stand for three bytes. The rest of a body is not looked at.
        true => {
            let end = payload.len().min(BODY_MAX / 3 * 4);
            let octets = STANDARD.decode(&payload[..end / 4 * 4]).unwrap_or_default();
            String::from_utf8_lossy(&octets).to_lowercase().contains(text)
        }
        false => {
            let body = payload[..payload.floor_char_boundary(BODY_MAX)].to_lowercase();
            body.contains(text)
                || (body.starts_with(['{', '[']) && without_space(&body).contains(&without_space(text)))
        }
    };
    let fields = row.as_object().into_iter().flatten();
    is_in_body
        || fields
            .filter(|(name, _)| !PLACE.contains(&name.as_str()))
            .any(|(name, value)| has_line(name, value, text))
}

/// Returns a text as it is compared with JSON. People see JSON with other spaces and lines than it was sent with.
fn without_space(text: &str) -> String {
    text.split_ascii_whitespace().collect()
}

/// Returns true if a body is no text, or holds encoded values of AMQP 1.0.
fn is_encoded(row: &Value) -> bool {
    row["payload_encoding"] == "base64" || row["properties"]["type"] == "amqp-1.0"
}

fn has_line(name: &str, value: &Value, text: &str) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(name, value)| has_line(name, value, text)),
        Value::Array(items) => items.iter().any(|item| has_line(name, item, text)),
        Value::String(value) => format!("{name}={value}").to_lowercase().contains(text),
        other => format!("{name}={other}").to_lowercase().contains(text),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_is_found_in_bodies_and_in_names_with_their_values() {
        let row = |payload: &str, encoding: &str| {
            json!({
                "position": 7, "exchange": "Shop", "routing_key": "new.a", "payload": payload, "payload_encoding": encoding,
                "properties": {"headers": {"country": "DE", "n": 7, "deaths": [{"reason": "expired"}]}},
            })
        };
        let (text, octets) = (row("Hällo", "string"), row("/0hh", "base64"));
        let found =
            |row: &Value, texts: &[&str]| texts.iter().map(|text| has_text(row, text)).collect::<Vec<_>>();
        assert_eq!(
            found(&text, &["hällo", "hallo", "country=de", "n=7", "reason=exp", "exchange=shop"]),
            [true, false, true, true, true, true]
        );
        assert_eq!(found(&text, &["position=7", "string", "country=fr", "payload"]), [false; 4]);
        assert_eq!(found(&octets, &["ha", "/0hh"]), [true, false]);
        let long = "x".repeat(BODY_MAX);
        assert!(!has_text(&row(&format!("{long}qq"), "string"), "qq"));
        assert!(!has_text(&row(&STANDARD.encode(format!("{long}qqqq")), "base64"), "qq"));
    }

    #[test]
    fn spaces_and_lines_of_json_do_not_count() {
        let has = |payload: &str, text: &str| {
            has_text(&json!({ "payload": payload, "payload_encoding": "string" }), text)
        };
        let bodies = ["{\"a\":{\"b\":[1,2]}}", "{ \"a\": {\n  \"b\" : [1, 2]\n} }"];
        for body in bodies {
            for text in ["\"b\": [", "\"b\":[1,2]", "{\n  \"a\": {\n    \"b\": [\n      1,"] {
                assert!(has(body, text), "{text} in {body}");
            }
            assert!(!has(body, "\"b\": 1"), "{body}");
        }
        assert!(!has("a: {\"b\":1}", "\"b\": 1"), "a text is no JSON");
    }

    #[test]
    fn times_are_absolute_or_ages() {
        let of = |text: &str| wanted(&Query::parse(text), 1_000_000).map(|of| (of.since_ms, of.until_ms));
        assert_eq!(of("since=5&until=10m").unwrap(), (Some(5), Some(400_000)));
        assert_eq!(of("since=").unwrap(), (None, None));
        for text in ["since=first", "until=soon", "since=-1"] {
            assert!(of(text).unwrap_err().reason.contains("is not a time in milliseconds"), "{text}");
        }
    }
}
