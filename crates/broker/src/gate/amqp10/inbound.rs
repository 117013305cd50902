//! Publishing (behaviour B.4): permit, route, fan out. What becomes of it is kept in `intake`.

use std::sync::Arc;

use amqp10::sections::{self, Sections};
use amqp10::{AmqpError, Chunk, DecodeError, Delivery, DeliveryState, Map, Reader, Symbol, Value, condition};
use bytes::Bytes;
use message::{Message, Route, kept};
use queue::{Publish, Request};

use super::address::Address;
use super::intake::Intake;
use super::{Cx, Gate, LinkRole, error, role_in};
use crate::access::{Identity, Permission, Resource};
use crate::catalog::{Exchange, Letter, RouteTarget, RouteTargets, Routed};
use crate::home::{COPY_MAX, home};

/// The index of `subject` in properties [3.2.4].
const SUBJECT: u32 = 3;

/// Where a link's messages go.
#[derive(Debug)]
pub(super) enum Target {
    Exchange {
        exchange: Arc<str>,
        route: Arc<Route>,
        cached: Option<(u64, RouteTargets)>,
    },
    /// The routing key is each message's subject.
    BySubject {
        exchange: Arc<str>,
    },
    /// Each message says so itself, in `to`.
    Anonymous,
}

impl Target {
    pub fn is_queue(&self, queue: &str) -> bool {
        matches!(self, Self::Exchange { exchange, route, .. } if exchange.is_empty() && route.keys().iter().any(|key| **key == *queue))
    }
}

/// What to do with a delivery that goes nowhere.
enum Refusal {
    /// Tell the publisher, if it wants to know; the link goes on.
    Outcome(DeliveryState),
    /// The link ends; an unsettled delivery gets this outcome first, unless nobody could look at it.
    Detach(Box<AmqpError>, Option<DeliveryState>),
    /// The session ends.
    End(Box<AmqpError>),
}

impl Gate {
    pub(super) fn handle_transfer(
        &mut self,
        session: u16,
        link: u32,
        delivery: &Delivery<'_>,
        cx: &mut Cx<'_>,
    ) {
        let Gate { sessions, vhost, identity, .. } = self;
        match role_in(sessions, session, link) {
            Some(LinkRole::Intake(intake)) => {
                let published = intake.publish(vhost, identity.as_ref(), delivery, cx);
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
        }
    }
}

impl Intake {
    fn publish(
        &mut self,
        vhost: &Arc<str>,
        identity: Option<&Identity>,
        delivery: &Delivery<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refusal> {
        let bytes = &delivery.message[..];
        cx.counters.received += 1;
        cx.counters.received_confirm += u64::from(!delivery.settled);
        let scanned = sections::scan(bytes);
        let found = scanned.as_ref().map_err(|e| undecodable(delivery, e))?;
        check_user_id(found, identity, delivery)?;
        // Most messages go the way of the one before.
        let fresh;
        let known = self.target.known(cx.catalog.version()).filter(|_| more_keys(found, bytes).is_none());
        let (route, targets) = match known {
            Some((route, targets)) => (route.clone(), targets),
            None => {
                let way = Way { vhost, identity, found, delivery };
                let (route, routed) = way.find(&mut self.target, cx)?;
                fresh = routed;
                way.remember(&fresh.histories, &route, cx);
                (route, &fresh.targets[..])
            }
        };
        if targets.is_empty() {
            cx.counters.unroutable_returned += u64::from(!delivery.settled);
            cx.counters.unroutable_dropped += u64::from(delivery.settled);
            return Err(Refusal::Outcome(DeliveryState::Released));
        }
        cx.counters.routed += 1;
        let kept = kept(found, cx.settings.durable_by_default);
        let range = kept.range.clone();
        let (bytes, left, durable) = (range.len() as u32, targets.len() as u32, kept.durable);
        let seq = self.account.push(delivery, bytes, left, durable, cx.now_ms);
        let patient = self.account.is_patient(cx.settings.max_link_credit, cx.now_ms);
        let publisher = self.publisher;
        match (&delivery.message, targets) {
            // Most are small and go to one queue: put together where they are kept, with no choice behind it.
            (chunk, [RouteTarget::Queue(queue)]) if range.len() <= COPY_MAX => {
                let message =
                    Message::new(kept.into_parts(home(&chunk[range], &mut cx.input, cx.home)), route);
                cx.post.request(*queue, Request::Publish(Publish { publisher, seq, message, patient }));
            }
            (chunk, targets) => {
                let wire = match chunk {
                    Chunk::Owned(bytes) if range.len() > COPY_MAX => bytes.slice(range),
                    chunk => home(&chunk[range], &mut cx.input, cx.home),
                };
                let message = Message::new(kept.into_parts(wire), route);
                send(cx, vhost, Publish { publisher, seq, message, patient }, targets);
            }
        }
        Ok(())
    }
}

/// `user-id` is either absent or the truth (behaviour B.4).
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

impl Target {
    /// Where the message before went, if the catalog is still what it was.
    fn known(&self, version: u64) -> Option<(&Arc<Route>, &[RouteTarget])> {
        match self {
            Self::Exchange { route, cached: Some((cached, targets)), .. } if *cached == version => {
                Some((route, targets))
            }
            _ => None,
        }
    }
}

/// A message for which a route is to be found.
#[derive(Clone, Copy)]
struct Way<'a> {
    vhost: &'a Arc<str>,
    identity: Option<&'a Identity>,
    found: &'a Sections,
    delivery: &'a Delivery<'a>,
}

impl Way<'_> {
    /// Asks the catalog.
    fn find(self, target: &mut Target, cx: &mut Cx<'_>) -> Result<(Arc<Route>, Routed), Refusal> {
        let Self { vhost, found, delivery, .. } = self;
        let (bytes, random) = (&delivery.message[..], cx.draw());
        let detaching = |error| Refusal::Detach(Box::new(error), Some(DeliveryState::Released));
        let extra_keys = extra_keys(found, bytes).map_err(|error| match target {
            Target::Anonymous => Refusal::from_anonymous(error, delivery),
            Target::Exchange { .. } | Target::BySubject { .. } => detaching(error),
        })?;
        let ask = |exchange: &str, route: &Route| {
            cx.catalog.route(vhost, exchange, &Letter::arrived(route.keys(), found, bytes, random))
        };
        match target {
            Target::Exchange { exchange, route, cached } if extra_keys.is_empty() => {
                let routed = ask(exchange, route).ok_or_else(|| no_exchange(vhost, exchange))?;
                *cached = routed.by_key_alone.then(|| (cx.catalog.version(), routed.targets.clone()));
                Ok((route.clone(), routed))
            }
            Target::Exchange { exchange, route, .. } => {
                let mut keys = route.keys().to_vec();
                keys.extend(extra_keys);
                let route = Arc::new(Route::new(exchange.clone(), keys));
                let routed = ask(exchange, &route).ok_or_else(|| no_exchange(vhost, exchange))?;
                Ok((route, routed))
            }
            Target::BySubject { exchange } => {
                let subject = subject(found, bytes).map_err(|e| undecodable(delivery, &e))?;
                if subject.len() > Route::KEY_BYTES_MAX {
                    let max = Route::KEY_BYTES_MAX;
                    let reason = format!("a subject that is the routing key takes at most {max} bytes");
                    return Err(detaching(error(condition::INVALID_FIELD, reason)));
                }
                let mut keys = vec![Arc::from(subject)];
                keys.extend(extra_keys);
                let route = Arc::new(Route::new(exchange.clone(), keys));
                let routed = ask(exchange, &route).ok_or_else(|| no_exchange(vhost, exchange))?;
                Ok((route, routed))
            }
            Target::Anonymous => {
                let route = anonymous_route(found, bytes, extra_keys, delivery)?;
                self.authorize(route.exchange(), cx)?;
                let routed = ask(route.exchange(), &route).unwrap_or_default();
                Ok((route, routed))
            }
        }
    }

    /// Whether the publisher may send to the exchange that a message on the anonymous terminus names.
    fn authorize(self, exchange: &str, cx: &Cx<'_>) -> Result<(), Refusal> {
        let Self { vhost, identity, delivery, .. } = self;
        let tagged = |e: AmqpError| Refusal::from_anonymous(e, delivery);
        match cx.catalog.exchange(vhost, exchange) {
            None => {
                let reason = format!("no exchange '{exchange}' in vhost '{vhost}'");
                return Err(tagged(error(condition::NOT_FOUND, reason)));
            }
            Some(found) if found.internal => {
                let reason =
                    format!("forbidden to publish to internal exchange '{exchange}' in vhost '{vhost}'");
                return Err(tagged(error(condition::UNAUTHORIZED_ACCESS, reason)));
            }
            Some(_) => {}
        }
        let Some(identity) = identity else { return Ok(()) };
        cx.access
            .authorize(identity, vhost, Resource::Exchange(exchange), Permission::Write)
            .map_err(|refused| Refusal::End(Box::new(refused.into())))
    }

    /// Leaves a copy with exchanges on the way that keep messages for whoever binds later.
    fn remember(self, exchanges: &[Arc<Exchange>], route: &Arc<Route>, cx: &mut Cx<'_>) {
        if exchanges.is_empty() {
            return;
        }
        let kept = kept(self.found, cx.settings.durable_by_default);
        let wire = Bytes::copy_from_slice(&self.delivery.message[kept.range.clone()]);
        let message = Message::new(kept.into_parts(wire), route.clone());
        exchanges.iter().for_each(|exchange| cx.post.remember(exchange, message.clone()));
    }
}

/// Sends a message to every end of its route.
fn send(cx: &mut Cx<'_>, vhost: &Arc<str>, publish: Publish, targets: &[RouteTarget]) {
    let Some((last, others)) = targets.split_last() else { return };
    for target in others {
        cx.post.publish(vhost, *target, publish.clone());
    }
    cx.post.publish(vhost, *last, publish);
}

fn detaching(condition: Symbol, reason: impl Into<String>) -> Refusal {
    Refusal::Detach(Box::new(error(condition, reason)), None)
}

fn undecodable(delivery: &Delivery<'_>, why: &dyn std::fmt::Display) -> Refusal {
    detaching(condition::DECODE_ERROR, format!("{why} in delivery {}", delivery.id))
}

fn no_exchange(vhost: &str, exchange: &str) -> Refusal {
    let reason = format!("no exchange '{exchange}' in vhost '{vhost}'");
    Refusal::Detach(Box::new(error(condition::NOT_FOUND, reason)), Some(DeliveryState::Released))
}

impl Refusal {
    /// On the anonymous terminus the link goes on and the outcome says what was wrong; without an outcome to
    /// say it, the link ends and names the delivery (behaviour B.4).
    fn from_anonymous(mut error: AmqpError, delivery: &Delivery<'_>) -> Self {
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

fn anonymous_route(
    found: &Sections,
    bytes: &[u8],
    extra_keys: Vec<Arc<str>>,
    delivery: &Delivery<'_>,
) -> Result<Arc<Route>, Refusal> {
    let failed =
        |reason: String| Refusal::from_anonymous(error(condition::PRECONDITION_FAILED, reason), delivery);
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
    let mut keys: Vec<Arc<str>> = vec![key.into()];
    keys.extend(extra_keys);
    Ok(Arc::new(Route::new(exchange, keys)))
}

/// The subject of a message; empty if it has none.
fn subject<'a>(found: &Sections, bytes: &'a [u8]) -> Result<&'a str, DecodeError> {
    let Some(range) = &found.properties else { return Ok("") };
    let section = &bytes[range.start as usize..range.end as usize];
    match sections::property_field(section, SUBJECT)? {
        Some(field) => Ok(Reader::new(field).read_str_opt()?.unwrap_or_default()),
        None => Ok(""),
    }
}

/// The value of annotation `x-cc`.
fn more_keys<'a>(found: &Sections, bytes: &'a [u8]) -> Option<&'a [u8]> {
    let range = found.message_annotations.as_ref()?;
    let pairs = sections::map_pairs(&bytes[range.start as usize..range.end as usize]).ok()?;
    pairs.flatten().find(|(key, _)| *key == "x-cc").map(|(_, value)| value)
}

/// The routing keys of annotation `x-cc`: a list of strings (behaviour B.4).
fn extra_keys(found: &Sections, bytes: &[u8]) -> Result<Vec<Arc<str>>, AmqpError> {
    let Some(value) = more_keys(found, bytes) else { return Ok(Vec::new()) };
    let keys = amqp10::Reader::new(value).read_value().ok().and_then(|value| {
        value
            .as_list()?
            .iter()
            .map(|item| match item {
                Value::String(key) => Some(Arc::<str>::from(key.as_str())),
                _ => None,
            })
            .collect::<Option<Vec<_>>>()
    });
    let invalid = |reason: String| error(condition::INVALID_FIELD, reason);
    let keys = keys.ok_or_else(|| invalid("annotation 'x-cc' must be a list of strings".into()))?;
    // One of them is the address's.
    let (keys_max, bytes_max) = (Route::KEYS_MAX - 1, Route::KEY_BYTES_MAX);
    if keys.len() > keys_max || keys.iter().any(|key| key.len() > bytes_max) {
        let reason =
            format!("annotation 'x-cc' has more than {keys_max} keys, or one of more than {bytes_max} bytes");
        return Err(invalid(reason));
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use amqp10::{Array, encode};
    use bytes::BytesMut;

    use super::*;

    /// Message-annotations with this `x-cc`, and an empty body.
    fn keys_of(value: Value) -> Result<usize, Symbol> {
        let mut message = BytesMut::new();
        message.extend_from_slice(&[0x00, 0x53, 0x72]);
        let mut annotations = Map::new();
        annotations.insert(Symbol::from_static("x-cc"), value);
        encode::put_map(&mut message, &annotations);
        message.extend_from_slice(&[0x00, 0x53, 0x77, 0x40]);
        let found = sections::scan(&message).unwrap();
        extra_keys(&found, &message).map(|keys| keys.len()).map_err(|refused| refused.condition)
    }

    #[test]
    fn more_keys_have_room_in_a_stored_message() {
        let list = |n: usize, key: &str| Value::List(vec![Value::from(key); n]);
        assert_eq!(keys_of(list(65_534, "k")), Ok(65_534));
        assert_eq!(keys_of(list(65_535, "k")), Err(condition::INVALID_FIELD));
        assert_eq!(keys_of(list(2, &"k".repeat(65_535))), Ok(2));
        assert_eq!(keys_of(list(1, &"k".repeat(65_536))), Err(condition::INVALID_FIELD));
        let array = Array::try_from_items(vec![Value::from("k")]).unwrap();
        assert_eq!(keys_of(Value::Array(array)), Err(condition::INVALID_FIELD));
    }
}
