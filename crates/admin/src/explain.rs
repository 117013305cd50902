//! `/api/explain`: why nothing moves.

use broker::explain::{AddressCause, AddressFacts, Explanation, LinkId, Numbers, Reason, Subject};
use serde_json::{Map, Value, json};

use crate::call::Call;
use crate::reply::{Failure, Reply};

pub(crate) async fn link(call: &Call<'_>) -> Result<Reply, Failure> {
    link_named(call, None, 0).await
}

pub(crate) async fn link_of_vhost(call: &Call<'_>) -> Result<Reply, Failure> {
    link_named(call, Some(call.param(0).to_owned()), 1).await
}

async fn link_named(call: &Call<'_>, vhost: Option<String>, name: usize) -> Result<Reply, Failure> {
    let connection = call.query.get("connection").map(str::to_owned);
    explain(call, "link", name, Subject::Link { vhost, name: call.param(name).to_owned(), connection }).await
}

pub(crate) async fn queue(call: &Call<'_>) -> Result<Reply, Failure> {
    let (vhost, name) = (call.param(0).to_owned(), call.param(1).to_owned());
    explain(call, "queue", 1, Subject::Queue { vhost, name }).await
}

pub(crate) async fn connection(call: &Call<'_>) -> Result<Reply, Failure> {
    explain(call, "connection", 0, Subject::Connection { name: call.param(0).to_owned() }).await
}

/// Why logins from an address wait.
pub(crate) async fn address(call: &Call<'_>) -> Result<Reply, Failure> {
    let address = call.param(0);
    let address =
        address.parse().map_err(|_| Failure::bad_request(format!("'{address}' is no IP address")))?;
    let facts = call.api.explain_address(&call.who, address).await?;
    Ok(Reply::Json(address_to_json(call.param(0), &facts)))
}

/// Returns the explanation of an address from what is known about it.
pub(crate) fn address_to_json(address: &str, facts: &AddressFacts) -> Value {
    let cause = AddressCause::of(facts);
    let numbers = shown(facts.numbers().to_vec());
    let advice: Vec<&str> = cause.advice().into_iter().collect();
    json!({
        "kind": "address",
        "name": address,
        "cause": cause.word(),
        "sentence": cause.sentence(),
        "at": null,
        "numbers": numbers,
        "notes": advice,
        "causes": [{
            "cause": cause.word(),
            "sentence": cause.sentence(),
            "meaning": cause.meaning(),
            "advice": advice,
            "at": null,
            "numbers": numbers,
        }],
    })
}

async fn explain(call: &Call<'_>, kind: &str, name: usize, subject: Subject) -> Result<Reply, Failure> {
    let Explanation { cause, at, numbers, notes, causes } = call.api.explain(&call.who, subject).await?;
    let sentence = causes.first().map_or_else(|| cause.sentence().to_owned(), |first| first.sentence.clone());
    Ok(Reply::Json(json!({
        "kind": kind,
        "name": call.param(name),
        "cause": cause.word(),
        "sentence": sentence,
        "at": at.as_ref().map(place),
        "numbers": shown(numbers),
        "notes": notes,
        "causes": causes.into_iter().map(reason).collect::<Vec<_>>(),
    })))
}

fn reason(reason: Reason) -> Value {
    let Reason { cause, at, numbers, sentence, text } = reason;
    json!({
        "cause": cause.word(),
        "sentence": sentence,
        "meaning": text.meaning,
        "advice": text.advice,
        "at": at.as_ref().map(place),
        "numbers": shown(numbers),
    })
}

fn place(at: &LinkId) -> Value {
    json!({
        "connection": *at.connection,
        "session": at.session,
        "handle": at.handle,
        "link": at.name,
    })
}

fn shown(numbers: Numbers) -> Map<String, Value> {
    numbers.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
}
