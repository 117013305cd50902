//! `GET /api/arguments`: the arguments of queues and exchanges and the keys of policies, with their values and what they mean. The web page
//! lets people choose from them. They come from the tables of the broker, so they are those that it accepts.

use catalog::{
    ApplyTo, Described, ExchangeKind, ValueKind, described_exchange_arguments, described_policy_keys,
    described_queue_arguments,
};
use serde_json::{Value, json};

use crate::reply::Reply;

pub(crate) fn get() -> Reply {
    let all = |rows: Vec<Described>| rows.iter().map(row).collect::<Vec<_>>();
    Reply::Json(json!({
        "queue_arguments": all(described_queue_arguments()),
        "exchange_arguments": all(described_exchange_arguments()),
        "policy_keys": all(described_policy_keys()),
        "exchange_types": ExchangeKind::ALL.map(ExchangeKind::as_str),
        "apply_to": ApplyTo::ALL.map(ApplyTo::as_str),
    }))
}

fn row(of: &Described) -> Value {
    let mut shown = json!({ "name": of.name, "about": of.about, "types": of.types, "operator": of.operator });
    shown["kind"] = match of.kind {
        ValueKind::Number(..) => "number",
        ValueKind::Text => "text",
        ValueKind::Exchange => "exchange",
        ValueKind::Span => "span",
        ValueKind::Boolean => "boolean",
        ValueKind::OneOf(_) => "word",
    }
    .into();
    match of.kind {
        ValueKind::Number(least, most) => {
            shown["least"] = least.into();
            shown["most"] = most.into();
        }
        ValueKind::OneOf(words) => shown["words"] = words.into(),
        _ => {}
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_have_their_values_types_and_meaning() {
        let Reply::Json(shown) = get() else { panic!("it is JSON") };
        let named = |list: &str, name: &str| {
            shown[list].as_array().unwrap().iter().find(|row| row["name"] == name).cloned().unwrap()
        };
        let overflow = named("queue_arguments", "x-overflow");
        assert_eq!(overflow["kind"], "word");
        assert_eq!(overflow["words"], json!(["drop-head", "reject-publish", "reject-publish-dlx"]));
        assert_eq!(overflow["types"], json!(["classic", "quorum"]));
        let priority = named("queue_arguments", "x-max-priority");
        assert_eq!((&priority["least"], &priority["most"]), (&json!(1), &json!(255)));
        let alternate = named("policy_keys", "alternate-exchange");
        assert_eq!((&alternate["kind"], &alternate["types"]), (&json!("exchange"), &json!([])));
        assert_eq!(alternate["operator"], false);
        assert_eq!(named("policy_keys", "max-length")["operator"], true);
        let length = named("exchange_arguments", "x-recent-history-length");
        assert_eq!(length["types"], json!(["x-recent-history"]));
    }
}
