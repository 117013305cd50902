//! `POST /api/queues/{vhost}/{name}/move`: moves messages to another queue or to an exchange.
//! `POST /api/queues/{vhost}/{name}/redrive`: sends dead letters back to where they died.

use broker::admin_api::{DeathReason, Move, MoveEnd, MoveTo, Moved, Redrive, RedriveTo, Which};
use catalog::access::DEFAULT_EXCHANGE_ALIAS;
use serde_json::{Map as Object, Value, json};

use crate::call::Call;
use crate::clock::now_ms;
use crate::json::text;
use crate::messages::place;
use crate::reply::{Failure, Reply};

/// The names of the fields of a move. Others are refused: a filter with a wrong name would move messages that nobody wants to
/// move.
const MOVE_FIELDS: [&str; 8] =
    ["count", "seq", "headers", "until_seq", "rate", "to_queue", "to_exchange", "routing_key"];

/// The names of the fields of a redrive.
const REDRIVE_FIELDS: [&str; 11] = [
    "count",
    "seq",
    "headers",
    "reason",
    "queue",
    "older_than",
    "younger_than",
    "died_until",
    "rate",
    "to",
    "to_queue",
];

/// The most headers of a filter. Each message is compared with each of them.
const HEADERS_MAX: usize = 32;

const REASONS: [DeathReason; 4] =
    [DeathReason::Rejected, DeathReason::Expired, DeathReason::MaxLength, DeathReason::DeliveryLimit];

/// Moves messages. The answer says how many went and why the request has ended. A client repeats the request with the
/// `until_seq` of the answer while `ended` is `time`.
///
/// # Errors
/// 400 for a bad field and for a queue that refuses, for example a stream; 401 without the permissions, 404 without the queue,
/// 503 if the broker does not answer in time.
pub(crate) async fn move_messages(call: &Call<'_>) -> Result<Reply, Failure> {
    let wanted = wanted_move(&call.fields)?;
    let _place = place(call, "nothing was moved").await?;
    let moved = call.api.move_messages(&call.who, call.param(0), call.param(1), &wanted).await?;
    Ok(Reply::Json(to_json(&moved, "moved", "until_seq")))
}

/// Redrives dead letters. It answers as a move does, and has `died_until` in place of `until_seq`.
///
/// # Errors
/// As for a move.
pub(crate) async fn redrive(call: &Call<'_>) -> Result<Reply, Failure> {
    let wanted = wanted_redrive(&call.fields, now_ms())?;
    let _place = place(call, "nothing was redriven").await?;
    let moved = call.api.move_messages(&call.who, call.param(0), call.param(1), &wanted).await?;
    Ok(Reply::Json(to_json(&moved, "redriven", "died_until")))
}

fn wanted_move(fields: &Object<String, Value>) -> Result<Move, Failure> {
    check_names(fields, &MOVE_FIELDS)?;
    let key = name(fields, "routing_key")?;
    let to = match (name(fields, "to_queue")?, name(fields, "to_exchange")?) {
        (Some(_), None) if key.is_some() => {
            return Err(Failure::bad_request("routing_key needs to_exchange"));
        }
        (Some(queue), None) => MoveTo::Queue(queue.into()),
        (None, Some(exchange)) => {
            let exchange = if exchange == DEFAULT_EXCHANGE_ALIAS { String::new() } else { exchange };
            MoveTo::Exchange { name: exchange.into(), key: key.map(Into::into) }
        }
        (Some(_), Some(_)) => {
            return Err(Failure::bad_request("to_queue and to_exchange exclude each other"));
        }
        (None, None) => return Err(Failure::bad_request("to_queue or to_exchange is needed")),
    };
    let until_seq = number(fields, "until_seq", 0)?;
    common(fields, Which::All { to, until_seq })
}

/// `now_ms` is the time in milliseconds since the epoch.
fn wanted_redrive(fields: &Object<String, Value>, now_ms: u64) -> Result<Move, Failure> {
    check_names(fields, &REDRIVE_FIELDS)?;
    let reason = name(fields, "reason")?.map(|text| {
        REASONS.into_iter().find(|reason| reason.as_str() == text).ok_or_else(|| {
            let names = REASONS.map(DeathReason::as_str).join(", ");
            Failure::bad_request(format!("reason '{text}' is not one of {names}"))
        })
    });
    let to = match (name(fields, "to")?.as_deref(), name(fields, "to_queue")?) {
        (None | Some("queue"), None) => RedriveTo::DiedIn,
        (Some("exchange"), None) => RedriveTo::Exchange,
        (None, Some(queue)) => RedriveTo::Queue(queue.into()),
        (Some(_), Some(_)) => return Err(Failure::bad_request("to and to_queue exclude each other")),
        (Some(other), None) => {
            return Err(Failure::bad_request(format!("to '{other}' is not queue or exchange")));
        }
    };
    let ago = |seconds: u64| now_ms.saturating_sub(seconds.saturating_mul(1000));
    let older = number(fields, "older_than", 0)?.map(ago);
    let until = number(fields, "died_until", 0)?;
    let redrive = Redrive {
        reason: reason.transpose()?,
        died_in: name(fields, "queue")?.map(Into::into),
        until_ms: older.into_iter().chain(until).min(),
        since_ms: number(fields, "younger_than", 0)?.map(ago),
        to,
    };
    common(fields, Which::Dead(redrive))
}

/// Reads the fields that both have.
fn common(fields: &Object<String, Value>, which: Which) -> Result<Move, Failure> {
    Ok(Move {
        count: number(fields, "count", 1)?,
        seq: number(fields, "seq", 0)?,
        headers: headers(fields)?,
        per_second: number(fields, "rate", 1)?.map(|rate| u32::try_from(rate).unwrap_or(u32::MAX)),
        which,
    })
}

fn check_names(fields: &Object<String, Value>, known: &[&str]) -> Result<(), Failure> {
    match fields.keys().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(unknown) => {
            let names = known.join(", ");
            Err(Failure::bad_request(format!("there is no field '{unknown}': the fields are {names}")))
        }
    }
}

/// Returns a text field. An empty text is the same as none.
fn name(fields: &Object<String, Value>, name: &str) -> Result<Option<String>, Failure> {
    Ok(Some(text(fields, name, "")?).filter(|text| !text.is_empty()))
}

/// Returns the field `headers`: an object of names and values. Numbers and booleans become their text.
fn headers(fields: &Object<String, Value>) -> Result<Vec<(String, String)>, Failure> {
    let all = match fields.get("headers") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(all)) if all.len() <= HEADERS_MAX => all,
        Some(Value::Object(all)) => {
            let reason = format!("headers has {} names: at most {HEADERS_MAX} are compared", all.len());
            return Err(Failure::bad_request(reason));
        }
        Some(_) => return Err(Failure::bad_request("'headers' is not an object")),
    };
    let pair = |(name, value): (&String, &Value)| match value {
        Value::String(text) => Ok((name.clone(), text.clone())),
        Value::Number(_) | Value::Bool(_) => Ok((name.clone(), value.to_string())),
        _ => Err(Failure::bad_request(format!("headers '{name}' is not a text, a number or a boolean"))),
    };
    all.iter().map(pair).collect()
}

/// Returns a field that is a whole number and not less than `min`.
fn number(fields: &Object<String, Value>, name: &str, min: u64) -> Result<Option<u64>, Failure> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_u64().filter(|number| *number >= min).map(Some).ok_or_else(|| {
            Failure::bad_request(format!("{name} {value} is not a whole number from {min} on"))
        }),
    }
}

/// `done` and `until` are the names of the fields for [`Moved::moved`] and [`Moved::until`].
fn to_json(answer: &Moved, done: &str, until: &str) -> Value {
    let Moved { moved, skipped, left, until: bound, ended } = answer;
    let (word, reason) = match ended {
        MoveEnd::Done => ("done", "all messages were looked at".to_owned()),
        MoveEnd::Count => ("count", format!("as many messages as wanted were {done}")),
        MoveEnd::Time => ("time", "the time of one request is over: repeat it to go on".to_owned()),
        MoveEnd::Skipped => (
            "skipped",
            format!("{skipped} messages do not match: one request cannot look at those behind so many"),
        ),
        MoveEnd::Alarm { resource, node } => {
            ("alarm", format!("publishing is stopped: {resource} alarm on node '{node}'"))
        }
        MoveEnd::Refused(refusal) => ("refused", refusal.to_string()),
    };
    json!({ done: moved, "skipped": skipped, "left": left, until: bound, "ended": word, "reason": reason })
}

#[cfg(test)]
mod tests {
    use broker::admin_api::MoveRefusal;

    use super::*;

    #[test]
    fn an_answer_says_why_the_move_has_ended() {
        let moved = Moved { moved: 7, skipped: 1, left: 2, until: 9, ended: MoveEnd::Time };
        let answer = |done, until| to_json(&moved, done, until).to_string();
        let redriven = r#"{"redriven":7,"skipped":1,"left":2,"died_until":9,"ended":"time","reason":"the time of one request is over: repeat it to go on"}"#;
        let moved = r#"{"moved":7,"skipped":1,"left":2,"until_seq":9,"ended":"time","reason":"the time of one request is over: repeat it to go on"}"#;
        assert_eq!([answer("redriven", "died_until"), answer("moved", "until_seq")], [redriven, moved]);
    }

    fn fields(text: &str) -> Object<String, Value> {
        let Ok(Value::Object(fields)) = serde_json::from_str(text) else { panic!("{text}") };
        fields
    }

    fn parse(text: &str) -> Result<Move, String> {
        wanted_redrive(&fields(text), 1_000_000).map_err(|failure| failure.reason)
    }

    fn parse_move(text: &str) -> Result<Move, String> {
        wanted_move(&fields(text)).map_err(|failure| failure.reason)
    }

    #[test]
    fn fields_are_filters() {
        let all = Move::default();
        let of = |redrive| Move { which: Which::Dead(redrive), ..Move::default() };
        for (text, expected) in [
            ("{}", all.clone()),
            (r#"{"count":null,"to":"queue","reason":""}"#, all),
            (
                r#"{"count":3,"seq":7,"reason":"delivery_limit","queue":"q","rate":5000000000}"#,
                Move {
                    count: Some(3),
                    seq: Some(7),
                    per_second: Some(u32::MAX),
                    ..of(Redrive {
                        reason: Some(DeathReason::DeliveryLimit),
                        died_in: Some("q".into()),
                        ..Redrive::default()
                    })
                },
            ),
            (
                r#"{"older_than":60,"younger_than":3600}"#,
                of(Redrive { until_ms: Some(940_000), since_ms: Some(0), ..Redrive::default() }),
            ),
            (r#"{"older_than":60,"died_until":5}"#, of(Redrive { until_ms: Some(5), ..Redrive::default() })),
            (r#"{"to":"exchange"}"#, of(Redrive { to: RedriveTo::Exchange, ..Redrive::default() })),
            (r#"{"to_queue":"r"}"#, of(Redrive { to: RedriveTo::Queue("r".into()), ..Redrive::default() })),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_move_has_one_target() {
        let to = |to| Move { which: Which::All { to, until_seq: None }, ..Move::default() };
        let exchange = |name: &str, key: Option<&str>| {
            to(MoveTo::Exchange { name: name.into(), key: key.map(Into::into) })
        };
        let headers = [("a", "x"), ("b", "7"), ("c", "true")];
        for (text, expected) in [
            (r#"{"to_queue":"r"}"#, to(MoveTo::Queue("r".into()))),
            (r#"{"to_exchange":"x"}"#, exchange("x", None)),
            (r#"{"to_exchange":"amq.default","routing_key":"k"}"#, exchange("", Some("k"))),
            (
                r#"{"to_queue":"r","until_seq":0,"count":1,"seq":9,"rate":2,"headers":{"a":"x","b":7,"c":true}}"#,
                Move {
                    count: Some(1),
                    seq: Some(9),
                    headers: headers.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec(),
                    per_second: Some(2),
                    which: Which::All { to: MoveTo::Queue("r".into()), until_seq: Some(0) },
                },
            ),
        ] {
            assert_eq!(parse_move(text), Ok(expected), "{text}");
        }
        let many: Object<String, Value> = (0..33).map(|n| (n.to_string(), n.into())).collect();
        let many = json!({ "to_queue": "r", "headers": many }).to_string();
        for (text, reason) in [
            ("{}", "to_queue or to_exchange is needed"),
            (r#"{"to_queue":"r","to_exchange":"x"}"#, "to_queue and to_exchange exclude each other"),
            (r#"{"to_queue":"r","routing_key":"k"}"#, "routing_key needs to_exchange"),
            (r#"{"to_queue":"r","headers":[]}"#, "'headers' is not an object"),
            (r#"{"to_queue":"r","headers":{"h":null}}"#, "headers 'h' is not a text, a number or a boolean"),
            (&many, "headers has 33 names: at most 32 are compared"),
            (
                r#"{"to_queue":"r","reason":"expired"}"#,
                "there is no field 'reason': the fields are count, seq, headers, until_seq, rate, to_queue, to_exchange, \
                 routing_key",
            ),
        ] {
            assert_eq!(parse_move(text), Err(reason.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let unknown = "there is no field 'reson': the fields are count, seq, headers, reason, queue, older_than, \
                       younger_than, died_until, rate, to, to_queue";
        for (text, reason) in [
            (r#"{"reson":"expired"}"#, unknown),
            (r#"{"reason":"dead"}"#, "reason 'dead' is not one of rejected, expired, maxlen, delivery_limit"),
            (r#"{"reason":1}"#, "'reason' is not a string"),
            (r#"{"count":0}"#, "count 0 is not a whole number from 1 on"),
            (r#"{"rate":0}"#, "rate 0 is not a whole number from 1 on"),
            (r#"{"older_than":-1}"#, "older_than -1 is not a whole number from 0 on"),
            (r#"{"seq":"x"}"#, "seq \"x\" is not a whole number from 0 on"),
            (r#"{"to":"nowhere"}"#, "to 'nowhere' is not queue or exchange"),
            (r#"{"to":"queue","to_queue":"q"}"#, "to and to_queue exclude each other"),
        ] {
            assert_eq!(parse(text), Err(reason.to_owned()), "{text}");
        }
    }

    #[test]
    fn the_end_is_one_word_with_a_reason() {
        let full = MoveEnd::Refused(MoveRefusal::Full("q".into()));
        let of = |ended| {
            let moved = Moved { moved: 1, skipped: 2, left: 3, until: 4, ended };
            to_json(&moved, "redriven", "died_until")
        };
        assert_eq!(
            of(full),
            json!({
                "redriven": 1, "skipped": 2, "left": 3, "died_until": 4, "ended": "refused", "reason": "queue 'q' is full",
            })
        );
        let (resource, node) = ("disk", "n@h".into());
        let alarm = of(MoveEnd::Alarm { resource, node });
        assert_eq!(
            (&alarm["ended"], &alarm["reason"]),
            (&json!("alarm"), &json!("publishing is stopped: disk alarm on node 'n@h'"))
        );
        let words = [MoveEnd::Done, MoveEnd::Count, MoveEnd::Time, MoveEnd::Skipped].map(of);
        assert_eq!(words.map(|answer| answer["ended"].clone()), ["done", "count", "time", "skipped"]);
    }
}
