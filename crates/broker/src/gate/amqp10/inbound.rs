//! Publishing: the route that a message names itself, and what happens to a message that is refused
//! (docs/compatibility.md, Publishing). [`crate::intake`] does the rest.

use std::sync::Arc;

use amqp10::sections::{self, Sections};
use amqp10::{AmqpError, Chunk, DecodeError, Delivery, DeliveryState, Map, Reader, Symbol, Value, condition};
use bytes::Bytes;
use catalog::access::Identity;
use message::{FurtherKeys, Route, TooManyKeys};

use super::address::Address;
use super::intake::Published;
use super::{Gate, LinkRole, error, role_in};
use crate::cx::Cx;
use crate::intake::{Arrived, Awaited, Body, Intake, Refused, Sender, Target};

/// The index of `subject` in the properties section [3.2.4].
const SUBJECT: u32 = 3;

/// What happens to a delivery that is refused.
enum Refusal {
    /// The publisher receives the outcome, if it wants to know it. The link continues.
    Outcome(DeliveryState),
    /// The link is detached. An unsettled delivery receives the outcome first, if there is one.
    Detach(Box<AmqpError>, Option<DeliveryState>),
    /// The session ends.
    End(Box<AmqpError>),
    /// The message is held until this is there.
    Awaits(Awaited),
}

impl Gate {
    pub(super) fn handle_transfer(
        &mut self,
        session: u16,
        link: u32,
        delivery: &Delivery<'_>,
        cx: &mut Cx<'_>,
    ) {
        let Gate { sessions, peer, blocked, .. } = self;
        match role_in(sessions, session, link) {
            Some(LinkRole::Intake(_)) if *blocked => self.hold_in_margin(session, link, delivery),
            Some(LinkRole::Intake(intake)) => {
                let published = publish(intake, peer.sender(session), delivery, cx);
                self.touch(session, link);
                if let Err(refusal) = published {
                    self.refuse_delivery(session, link, delivery, refusal, cx);
                }
            }
            Some(LinkRole::Requests { pair }) => {
                let pair = *pair;
                self.handle_management_request(session, link, pair, delivery, cx);
            }
            _ => {}
        }
    }

    fn refuse_delivery(
        &mut self,
        session: u16,
        link: u32,
        delivery: &Delivery<'_>,
        refusal: Refusal,
        cx: &mut Cx<'_>,
    ) {
        match refusal {
            Refusal::Outcome(state) => self.note_disposition(session, delivery, state),
            Refusal::Detach(error, state) => {
                if let Some(state) = state {
                    self.note_disposition(session, delivery, state);
                }
                self.detach(session, link, *error, cx);
            }
            Refusal::End(error) => self.end(session, *error, cx),
            Refusal::Awaits(awaited) => self.hold_transfer(session, link, delivery, awaited, cx),
        }
    }
}

/// Checks a delivery and passes it to the intake.
fn publish(
    intake: &mut Intake<Published>,
    sender: Sender<'_>,
    delivery: &Delivery<'_>,
    cx: &mut Cx<'_>,
) -> Result<(), Refusal> {
    let body = match &delivery.message {
        Chunk::Borrowed(bytes) => Body::Borrowed(bytes),
        Chunk::Owned(bytes) => Body::Owned(bytes),
    };
    let scanned = intake.scan(body, !delivery.settled, cx);
    let found = scanned.as_ref().map_err(|e| undecodable(delivery, e))?;
    check_user_id(found, sender.identity, delivery)?;
    let own = own_route(intake.target(), found, delivery)?;
    let arrived = Arrived::with_sections(body, found);
    intake.publish(sender, arrived, own, Published::new(delivery), cx).map_err(|refused| {
        if matches!(refused, Refused::Unroutable) {
            intake.note_unroutable(!delivery.settled, cx);
        } else if refused.is_wait() {
            intake.take_back_received(body.len(), !delivery.settled, cx);
        }
        refusal(refused, sender.vhost, matches!(intake.target(), Target::Anywhere), delivery)
    })
}

/// Maps a refusal of the intake to the reaction of this protocol. `anywhere` is true if the message itself
/// named the exchange.
fn refusal(refused: Refused, vhost: &str, anywhere: bool, delivery: &Delivery<'_>) -> Refusal {
    let refused = match refused.awaited() {
        Ok(awaited) => return Refusal::Awaits(awaited),
        Err(refused) => refused,
    };
    let (condition, reason) = match refused {
        Refused::Unroutable | Refused::TooLong(_) | Refused::Unsure => {
            return Refusal::Outcome(DeliveryState::Released);
        }
        Refused::AccessRefused(refused) => return Refusal::End(Box::new(super::unauthorized(refused))),
        Refused::AccessLost(refused) => {
            return Refusal::Detach(Box::new(super::unauthorized(refused)), Some(DeliveryState::Released));
        }
        Refused::NoExchange(exchange) => {
            (condition::NOT_FOUND, format!("no exchange '{exchange}' in vhost '{vhost}'"))
        }
        Refused::Internal(exchange) => (
            condition::UNAUTHORIZED_ACCESS,
            format!("forbidden to publish to internal exchange '{exchange}' in vhost '{vhost}'"),
        ),
    };
    let error = error(condition, reason);
    match anywhere {
        true => Refusal::rejecting(error, delivery),
        false => Refusal::Detach(Box::new(error), Some(DeliveryState::Released)),
    }
}

/// Checks that `user-id` is absent or names the user (docs/compatibility.md, Publishing).
fn check_user_id(
    found: &Sections,
    identity: Option<&Identity>,
    delivery: &Delivery<'_>,
) -> Result<(), Refusal> {
    let Some(range) = &found.properties else { return Ok(()) };
    let section = &delivery.message[range.start as usize..range.end as usize];
    let claimed = sections::user_id(section).map_err(|e| undecodable(delivery, &e))?;
    let (Some(claimed), Some(identity)) = (claimed, identity) else { return Ok(()) };
    if claimed == identity.user.as_bytes() || identity.has_tag("impersonator") {
        return Ok(());
    }
    let reason = format!(
        "user_id property set to '{}' but authenticated user was '{}'",
        String::from_utf8_lossy(claimed).escape_default(),
        identity.user
    );
    Err(detaching(condition::UNAUTHORIZED_ACCESS, reason))
}

/// Returns the route that a message names itself: by its annotation `x-cc`, its subject or its `to`. Returns `None` if
/// it takes the route of the link's address.
#[inline]
fn own_route(
    target: &Target,
    found: &Sections,
    delivery: &Delivery<'_>,
) -> Result<Option<Arc<Route>>, Refusal> {
    let bytes = &delivery.message[..];
    if matches!(target, Target::Route { .. }) && cc_value(found, bytes).is_none() {
        return Ok(None);
    }
    let extra_keys = extra_keys(found, bytes).map_err(|bad| match (bad, target) {
        (BadKeys::TooMany(many), _) => {
            let reason = format!("annotation 'x-cc' has {many}");
            Refusal::rejecting(error(condition::PRECONDITION_FAILED, reason), delivery)
        }
        (BadKeys::Invalid(reason), Target::Anywhere | Target::Named { .. }) => {
            Refusal::rejecting(error(condition::INVALID_FIELD, reason), delivery)
        }
        (BadKeys::Invalid(reason), Target::Route { .. } | Target::Exchange(_)) => {
            let error = error(condition::INVALID_FIELD, reason);
            Refusal::Detach(Box::new(error), Some(DeliveryState::Released))
        }
    })?;
    let (exchange, mut keys) = match target {
        Target::Route { .. } if extra_keys.is_empty() => return Ok(None),
        Target::Route { route, .. } => (route.exchange().clone(), route.keys().to_vec()),
        Target::Exchange(exchange) => {
            let subject = subject(found, bytes).map_err(|e| undecodable(delivery, &e))?;
            if subject.len() > Route::KEY_BYTES_MAX {
                let max = Route::KEY_BYTES_MAX;
                let reason =
                    format!("a subject that is used as the routing key may have at most {max} bytes");
                let error = error(condition::INVALID_FIELD, reason);
                return Err(Refusal::Detach(Box::new(error), Some(DeliveryState::Released)));
            }
            (exchange.clone(), vec![subject.into()])
        }
        Target::Anywhere | Target::Named { .. } => anonymous_route(found, bytes, delivery)?,
    };
    keys.extend(extra_keys);
    Ok(Some(Arc::new(Route::new(exchange, keys))))
}

fn detaching(condition: Symbol, reason: impl Into<String>) -> Refusal {
    Refusal::Detach(Box::new(error(condition, reason)), None)
}

fn undecodable(delivery: &Delivery<'_>, why: &dyn std::fmt::Display) -> Refusal {
    detaching(condition::DECODE_ERROR, format!("{why} in delivery {}", delivery.id))
}

impl Refusal {
    /// Returns the reaction to a message that is refused while the link continues: an outcome reports the error. A settled
    /// delivery has no outcome, so the link is detached with an error that names the delivery (docs/compatibility.md,
    /// Publishing).
    fn rejecting(mut error: AmqpError, delivery: &Delivery<'_>) -> Self {
        if !delivery.settled {
            return Self::Outcome(DeliveryState::Rejected(Some(error)));
        }
        let mut info = Map::new();
        info.insert(
            Symbol::from_static("delivery-tag"),
            Value::Binary(Bytes::copy_from_slice(&delivery.tag)),
        );
        error.info = Some(info);
        Self::Detach(Box::new(error), None)
    }
}

/// Returns the exchange and the key that `to` names.
fn anonymous_route(
    found: &Sections,
    bytes: &[u8],
    delivery: &Delivery<'_>,
) -> Result<(Arc<str>, Vec<Arc<str>>), Refusal> {
    let failed = |reason: String| Refusal::rejecting(error(condition::PRECONDITION_FAILED, reason), delivery);
    let section = found.properties.as_ref().map(|r| &bytes[r.start as usize..r.end as usize]);
    let to = section.map(sections::to).transpose().map_err(|e| undecodable(delivery, &e))?;
    let Some(to) = to.flatten() else {
        return Err(failed("anonymous terminus requires 'to' address to be set".into()));
    };
    let (exchange, key) = match Address::parse(to) {
        Ok(Address::Queue(queue)) => (String::new(), queue),
        Ok(Address::Exchange { exchange, key }) => (exchange, key),
        Err(bad) => {
            return Err(failed(bad.to_string().replacen(
                "bad address string",
                "bad 'to' address string:",
                1,
            )));
        }
    };
    Ok((exchange.into(), vec![key.into()]))
}

/// Returns the subject of a message, or an empty text if it has none.
fn subject<'a>(found: &Sections, bytes: &'a [u8]) -> Result<&'a str, DecodeError> {
    let Some(range) = &found.properties else { return Ok("") };
    let section = &bytes[range.start as usize..range.end as usize];
    match sections::property_field(section, SUBJECT)? {
        Some(field) => Ok(Reader::new(field).read_str_opt()?.unwrap_or_default()),
        None => Ok(""),
    }
}

/// Returns the encoded value of annotation `x-cc`.
fn cc_value<'a>(found: &Sections, bytes: &'a [u8]) -> Option<&'a [u8]> {
    let range = found.message_annotations.as_ref()?;
    let pairs = sections::map_pairs(&bytes[range.start as usize..range.end as usize]).ok()?;
    pairs.flatten().find(|(key, _)| *key == "x-cc").map(|(_, value)| value)
}

/// Why the annotation `x-cc` is refused.
#[derive(Debug, PartialEq, Eq)]
enum BadKeys {
    /// It is no list of strings, or a string is too long. Contains the reason.
    Invalid(String),
    TooMany(TooManyKeys),
}

/// Returns the routing keys of annotation `x-cc`, each once. It must be a list of strings (docs/compatibility.md, Publishing).
fn extra_keys(found: &Sections, bytes: &[u8]) -> Result<Vec<Arc<str>>, BadKeys> {
    let Some(value) = cc_value(found, bytes) else { return Ok(Vec::new()) };
    let no_list = || BadKeys::Invalid("annotation 'x-cc' must be a list of strings".into());
    let value = amqp10::Reader::new(value).read_value().map_err(|_| no_list())?;
    let items = value.as_list().ok_or_else(no_list)?;
    let texts =
        items.iter().map(|item| if let Value::String(key) = item { Some(key.as_str()) } else { None });
    let texts = texts.collect::<Option<Vec<_>>>().ok_or_else(no_list)?;
    if texts.iter().any(|key| key.len() > Route::KEY_BYTES_MAX) {
        let max = Route::KEY_BYTES_MAX;
        return Err(BadKeys::Invalid(format!("annotation 'x-cc' has a key of more than {max} bytes")));
    }
    let mut further = FurtherKeys::default();
    let mut keys = Vec::new();
    for text in texts {
        keys.extend(further.add(text).map_err(BadKeys::TooMany)?);
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use amqp10::{Array, encode};
    use bytes::BytesMut;

    use super::*;

    /// Returns the number of routing keys of a message with this `x-cc` and an empty body.
    fn keys_of(value: Value) -> Result<usize, BadKeys> {
        let mut message = BytesMut::new();
        message.extend_from_slice(&[0x00, 0x53, 0x72]);
        let mut annotations = Map::new();
        annotations.insert(Symbol::from_static("x-cc"), value);
        encode::put_map(&mut message, &annotations);
        message.extend_from_slice(&[0x00, 0x53, 0x77, 0x40]);
        let found = sections::scan(&message).unwrap();
        extra_keys(&found, &message).map(|keys| keys.len())
    }

    #[test]
    fn extra_keys_are_few_and_fit_into_a_stored_message() {
        let numbered = |n: usize| (0..n).map(|n| Value::from(n.to_string())).collect::<Vec<_>>();
        assert_eq!(keys_of(Value::List(numbered(256))), Ok(256));
        assert_eq!(
            keys_of(Value::List([numbered(256), numbered(256)].concat())),
            Ok(256),
            "each counts once"
        );
        assert_eq!(keys_of(Value::List(numbered(257))), Err(BadKeys::TooMany(TooManyKeys)));
        let list = |key: &str| Value::List(vec![Value::from(key)]);
        let invalid = |value| matches!(keys_of(value), Err(BadKeys::Invalid(_)));
        assert_eq!(keys_of(list(&"k".repeat(65_535))), Ok(1));
        assert!(invalid(list(&"k".repeat(65_536))));
        assert!(invalid(Value::Array(Array::try_from_items(vec![Value::from("k")]).unwrap())));
    }
}
