//! `POST /api/queues/{vhost}/{name}/redrive`: sends dead letters back to where they died.

use std::time::{SystemTime, UNIX_EPOCH};

use broker::desk::{DeathReason, Desk, Redrive, RedriveEnd, RedriveTo, Redriven};
use serde_json::{Map as Object, Value, json};

use crate::call::Call;
use crate::json::text;
use crate::messages::place;
use crate::reply::{Failure, Reply};

/// The names of the fields. Others are refused: a filter with a wrong name would redrive messages that nobody wants to redrive.
const FIELDS: [&str; 10] =
    ["count", "seq", "reason", "queue", "older_than", "younger_than", "died_until", "rate", "to", "to_queue"];

const REASONS: [DeathReason; 4] =
    [DeathReason::Rejected, DeathReason::Expired, DeathReason::MaxLength, DeathReason::DeliveryLimit];

/// Redrives dead letters. The answer says how many went and why the request has ended. A client repeats the request with the
/// `died_until` of the answer while `ended` is `time`.
///
/// # Errors
/// 400 for a bad field and for a queue that refuses, for example a stream; 401 without the permissions, 404 without the queue,
/// 503 if the broker does not answer in time.
pub async fn redrive<D: Desk>(call: &Call<'_, D>) -> Result<Reply, Failure> {
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    let wanted = wanted(&call.fields, now_ms)?;
    let _place = place(call, "nothing was redriven").await?;
    let redriven = call.desk.redrive(&call.who, call.param(0), call.param(1), &wanted).await?;
    Ok(Reply::Json(to_json(&redriven)))
}

/// `now_ms` is the time in milliseconds since the epoch.
fn wanted(fields: &Object<String, Value>, now_ms: u64) -> Result<Redrive, Failure> {
    if let Some(unknown) = fields.keys().find(|name| !FIELDS.contains(&name.as_str())) {
        let names = FIELDS.join(", ");
        return Err(Failure::bad_request(format!("there is no field '{unknown}': the fields are {names}")));
    }
    let named = |name| Ok::<_, Failure>(Some(text(fields, name, "")?).filter(|text| !text.is_empty()));
    let reason = named("reason")?.map(|text| {
        REASONS.into_iter().find(|reason| reason.as_str() == text).ok_or_else(|| {
            let names = REASONS.map(DeathReason::as_str).join(", ");
            Failure::bad_request(format!("reason '{text}' is not one of {names}"))
        })
    });
    let to = match (named("to")?.as_deref(), named("to_queue")?) {
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
    Ok(Redrive {
        count: number(fields, "count", 1)?,
        seq: number(fields, "seq", 0)?,
        reason: reason.transpose()?,
        died_in: named("queue")?.map(Into::into),
        until_ms: older.into_iter().chain(until).min(),
        since_ms: number(fields, "younger_than", 0)?.map(ago),
        per_second: number(fields, "rate", 1)?.map(|rate| u32::try_from(rate).unwrap_or(u32::MAX)),
        to,
    })
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

fn to_json(redriven: &Redriven) -> Value {
    let Redriven { redriven, skipped, left, until_ms, ended } = redriven;
    let (word, reason) = match ended {
        RedriveEnd::Done => ("done", "all messages were looked at".to_owned()),
        RedriveEnd::Count => ("count", "as many messages as wanted were redriven".to_owned()),
        RedriveEnd::Time => ("time", "the time of one request is over: repeat it to go on".to_owned()),
        RedriveEnd::Skipped => (
            "skipped",
            format!("{skipped} messages do not match: one request cannot look at those behind so many"),
        ),
        RedriveEnd::Refused(refusal) => ("refused", refusal.to_string()),
    };
    json!({
        "redriven": redriven, "skipped": skipped, "left": left, "died_until": until_ms, "ended": word, "reason": reason,
    })
}

#[cfg(test)]
mod tests {
    use broker::desk::RedriveRefusal;

    use super::*;

    fn parse(text: &str) -> Result<Redrive, String> {
        let Ok(Value::Object(fields)) = serde_json::from_str(text) else { panic!("{text}") };
        wanted(&fields, 1_000_000).map_err(|failure| failure.reason)
    }

    #[test]
    fn fields_are_filters() {
        let all = Redrive::default();
        for (text, expected) in [
            ("{}", all.clone()),
            (r#"{"count":null,"to":"queue","reason":""}"#, all.clone()),
            (
                r#"{"count":3,"seq":7,"reason":"delivery_limit","queue":"q","rate":5000000000}"#,
                Redrive {
                    count: Some(3),
                    seq: Some(7),
                    reason: Some(DeathReason::DeliveryLimit),
                    died_in: Some("q".into()),
                    per_second: Some(u32::MAX),
                    ..all.clone()
                },
            ),
            (
                r#"{"older_than":60,"younger_than":3600}"#,
                Redrive { until_ms: Some(940_000), since_ms: Some(0), ..all.clone() },
            ),
            (r#"{"older_than":60,"died_until":5}"#, Redrive { until_ms: Some(5), ..all.clone() }),
            (r#"{"to":"exchange"}"#, Redrive { to: RedriveTo::Exchange, ..all.clone() }),
            (r#"{"to_queue":"r"}"#, Redrive { to: RedriveTo::Queue("r".into()), ..all }),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let unknown = "there is no field 'reson': the fields are count, seq, reason, queue, older_than, younger_than, \
                       died_until, rate, to, to_queue";
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
        let full = RedriveEnd::Refused(RedriveRefusal::Full("q".into()));
        let of = |ended| to_json(&Redriven { redriven: 1, skipped: 2, left: 3, until_ms: 4, ended });
        assert_eq!(
            of(full),
            json!({
                "redriven": 1, "skipped": 2, "left": 3, "died_until": 4, "ended": "refused", "reason": "queue 'q' is full",
            })
        );
        let words = [RedriveEnd::Done, RedriveEnd::Count, RedriveEnd::Time, RedriveEnd::Skipped].map(of);
        assert_eq!(words.map(|answer| answer["ended"].clone()), ["done", "count", "time", "skipped"]);
    }
}
