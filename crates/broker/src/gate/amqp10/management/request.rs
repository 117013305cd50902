//! Requests and responses of the management node: HTTP-like verbs in AMQP messages (docs/compatibility.md,
//! Management over AMQP).

use std::ops::Range;
use std::sync::Arc;

use amqp10::sasl::Secret;
use amqp10::sections::{self, SectionKind};
use amqp10::{Map, Properties, Reader, Value, descriptor, encode};
use bytes::{Bytes, BytesMut};
use catalog::{Arguments, Binding, CatalogError, DeclareExchange, DeclareQueue, Destination, QueueRecord};

use crate::gate::amqp10::address::{decode_segment, encode_segment};
use crate::settings::Settings;

/// The error for a request with another body, or with several.
const NEEDS_VALUE: &str = "a management request needs one amqp-value as its body";

/// A request in flight.
#[derive(Debug)]
pub(in crate::gate::amqp10) struct Pending {
    pub session: u16,
    pub message_id: Option<Value>,
    pub verb: Verb,
}

impl Pending {
    pub(crate) fn deletes(&self, queue: &str) -> bool {
        matches!(&self.verb, Verb::DeleteQueue { name } if **name == *queue)
    }
}

/// The operation of a request.
#[derive(Debug)]
pub(in crate::gate::amqp10) enum Verb {
    GetQueue {
        name: Arc<str>,
    },
    DeclareQueue(DeclareQueue),
    DeleteQueue {
        name: Arc<str>,
    },
    PurgeQueue {
        name: Arc<str>,
    },
    DeclareExchange(DeclareExchange),
    DeleteExchange {
        name: Arc<str>,
    },
    Bind(Binding),
    Unbind {
        source: Arc<str>,
        destination: Destination,
        key: Arc<str>,
        hash: String,
    },
    ListBindings {
        source: Arc<str>,
        destination: Destination,
        /// The binding key. `None` stands for all keys.
        key: Option<Arc<str>>,
    },
    /// Replaces the token of the connection by the one in the body.
    RenewToken(Secret),
    /// The request has been answered already.
    Other,
}

/// A request, as far as it can be read.
#[derive(Debug)]
pub(super) struct Parsed {
    pub message_id: Option<Value>,
    pub verb: Result<Verb, Reply>,
}

/// A response.
#[derive(Debug)]
pub(super) struct Reply {
    status: u16,
    body: Value,
}

/// Parses a request. Its sections may have any order: some clients send the body first.
///
/// # Errors
/// The properties are missing or invalid, so that no response can be sent. The session ends with this reason.
/// Other errors are answered by a response.
pub(super) fn parse(message: &[u8], vhost: &Arc<str>) -> Result<Parsed, String> {
    let mut properties: Option<Properties> = None;
    let mut body = None;
    let mut fault = None;
    for section in sections::each(message) {
        let of = |range: Range<u32>| &message[range.start as usize..range.end as usize];
        match section {
            Ok((SectionKind::Properties, range)) if properties.is_none() => {
                properties = Some(sections::properties(of(range)).map_err(|e| e.to_string())?);
            }
            Ok((SectionKind::AmqpValue, range)) if body.is_none() => {
                match Reader::new(of(range)).read_value() {
                    Ok(Value::Described(described)) => body = Some(described.value),
                    Ok(_) => fault = Some(NEEDS_VALUE.into()),
                    Err(e) => fault = Some(format!("undecodable body: {e}")),
                }
            }
            Ok((SectionKind::Properties, _)) => {
                return Err("a management request must have only one properties section".into());
            }
            Ok((SectionKind::AmqpValue | SectionKind::Data | SectionKind::AmqpSequence, _)) => {
                fault = Some(NEEDS_VALUE.into());
            }
            Ok(_) => {}
            Err(e) => fault = Some(e.to_string()),
        }
    }
    let Some(properties) = properties else {
        return Err(fault.unwrap_or_else(|| "a management request needs properties".into()));
    };
    if properties.reply_to.as_deref() != Some("$me") {
        return Err("a management request needs reply-to '$me'".into());
    }
    let (Some(method), Some(to)) = (properties.subject.as_deref(), properties.to.as_deref()) else {
        return Err("a management request needs 'to' and 'subject'".into());
    };
    let verb = match fault {
        Some(reason) => Err(Reply::error(400, reason)),
        // Clients built on Proton send no body section for an empty body.
        None => verb(method, to, &body.unwrap_or(Value::Null), vhost),
    };
    Ok(Parsed { verb, message_id: properties.message_id })
}

fn verb(method: &str, to: &str, body: &Value, vhost: &Arc<str>) -> Result<Verb, Reply> {
    let (path, query) = to.split_once('?').map_or((to, None), |(p, q)| (p, Some(q)));
    let segments: Vec<&str> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
    let name = |segment: &str| {
        let name = decode_segment(segment)
            .ok_or_else(|| Reply::error(400, format!("bad path segment '{segment}'")))?;
        if name.is_empty() {
            return Err(Reply::error(400, "empty name in path".into()));
        }
        Ok(Arc::<str>::from(name))
    };
    match (segments.as_slice(), method) {
        (["queues", q], "GET") => Ok(Verb::GetQueue { name: name(q)? }),
        (["queues", q], "PUT") => declare_queue(name(q)?, body, vhost).map(Verb::DeclareQueue),
        (["queues", q], "DELETE") => Ok(Verb::DeleteQueue { name: name(q)? }),
        (["queues", q, "messages"], "DELETE") => Ok(Verb::PurgeQueue { name: name(q)? }),
        (["exchanges", x], "PUT") => declare_exchange(name(x)?, body, vhost).map(Verb::DeclareExchange),
        (["exchanges", x], "DELETE") => Ok(Verb::DeleteExchange { name: name(x)? }),
        (["bindings"], "POST") => bind(body, vhost).map(Verb::Bind),
        (["bindings"], "GET") => list_bindings(query.unwrap_or_default()),
        (["bindings", which], "DELETE") => unbind(which),
        (["auth", "tokens"], "PUT") => match body {
            Value::Binary(token) => Ok(Verb::RenewToken(Secret::new(token.to_vec()))),
            _ => Err(Reply::error(400, "the body must be the token, as binary".into())),
        },
        (
            ["queues", _]
            | ["queues", _, "messages"]
            | ["exchanges", _]
            | ["bindings"]
            | ["bindings", _]
            | ["auth", "tokens"],
            _,
        ) => Err(Reply::error(405, format!("method '{method}' is not allowed for '{path}'"))),
        _ => Err(Reply::error(404, format!("no such path: '{path}'"))),
    }
}

/// Returns the fields of a body that is a map or null.
fn fields(body: &Value) -> Result<&[(Value, Value)], Reply> {
    match body {
        Value::Map(map) => Ok(&map.0),
        Value::Null => Ok(&[]),
        _ => Err(Reply::error(400, "the body must be a map".into())),
    }
}

fn bad_property(kind: &str, key: &Value, value: &Value) -> Reply {
    Reply::error(400, format!("bad {kind} property {:?}: {value}", key.as_str().unwrap_or("?")))
}

fn arguments(value: &Value) -> Option<Arguments> {
    value.as_map()?.iter().map(|(k, v)| Some((k.as_str()?.to_owned(), v.clone()))).collect()
}

fn declare_queue(name: Arc<str>, body: &Value, vhost: &Arc<str>) -> Result<DeclareQueue, Reply> {
    let mut declare = DeclareQueue::new(vhost.clone(), name, Arguments::new());
    for (key, value) in fields(body)? {
        let bad = || bad_property("queue", key, value);
        match key.as_str().ok_or_else(bad)? {
            "durable" => declare.durable = value.as_bool().ok_or_else(bad)?,
            "exclusive" => declare.exclusive = value.as_bool().ok_or_else(bad)?,
            "auto_delete" => declare.auto_delete = value.as_bool().ok_or_else(bad)?,
            "arguments" => declare.arguments = arguments(value).ok_or_else(bad)?,
            _ => return Err(bad()),
        }
    }
    Ok(declare)
}

fn declare_exchange(name: Arc<str>, body: &Value, vhost: &Arc<str>) -> Result<DeclareExchange, Reply> {
    let mut declare = DeclareExchange {
        vhost: vhost.clone(),
        name,
        kind: "direct".into(),
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: Arguments::new(),
    };
    for (key, value) in fields(body)? {
        let bad = || bad_property("exchange", key, value);
        match key.as_str().ok_or_else(bad)? {
            "type" => declare.kind = value.as_str().ok_or_else(bad)?.to_owned(),
            "durable" => declare.durable = value.as_bool().ok_or_else(bad)?,
            "auto_delete" => declare.auto_delete = value.as_bool().ok_or_else(bad)?,
            "internal" => declare.internal = value.as_bool().ok_or_else(bad)?,
            "arguments" => declare.arguments = arguments(value).ok_or_else(bad)?,
            _ => return Err(bad()),
        }
    }
    Ok(declare)
}

fn bind(body: &Value, vhost: &Arc<str>) -> Result<Binding, Reply> {
    let (mut source, mut destination, mut key, mut args) =
        (None, None, Arc::<str>::from(""), Arguments::new());
    for (field, value) in fields(body)? {
        let bad = || bad_property("binding", field, value);
        let text = || value.as_str().map(Arc::<str>::from).ok_or_else(bad);
        match field.as_str().ok_or_else(bad)? {
            "source" => source = Some(text()?),
            "destination_queue" => set_destination(&mut destination, Destination::Queue(text()?))?,
            "destination_exchange" => set_destination(&mut destination, Destination::Exchange(text()?))?,
            "binding_key" => key = text()?,
            "arguments" => args = arguments(value).ok_or_else(bad)?,
            _ => return Err(bad()),
        }
    }
    let source = source.ok_or_else(|| Reply::error(400, "binding source is missing".into()))?;
    let destination =
        destination.ok_or_else(|| Reply::error(400, "binding destination is missing".into()))?;
    Ok(Binding { vhost: vhost.clone(), source, destination, key, arguments: args })
}

fn set_destination(slot: &mut Option<Destination>, destination: Destination) -> Result<(), Reply> {
    match slot.replace(destination) {
        None => Ok(()),
        Some(_) => Err(Reply::error(400, "a binding has one destination: a queue or an exchange".into())),
    }
}

/// Splits a text into parts `name=value` with percent-encoded values.
fn parts(text: &str, separator: char) -> impl Iterator<Item = Result<(&str, Arc<str>), Reply>> {
    text.split(separator).filter(|p| !p.is_empty()).map(|part| {
        let bad = || Reply::error(400, format!("bad binding path segment '{part}'"));
        let (name, value) = part.split_once('=').ok_or_else(bad)?;
        Ok((name, decode_segment(value).ok_or_else(bad)?.into()))
    })
}

/// The parts of a binding in a path or a query.
#[derive(Default)]
struct BindingParts {
    source: Option<Arc<str>>,
    destination: Option<Destination>,
    key: Option<Arc<str>>,
    hash: String,
}

fn binding_parts(text: &str, separator: char) -> Result<BindingParts, Reply> {
    let mut found = BindingParts::default();
    for part in parts(text, separator) {
        match part? {
            ("src", value) => found.source = Some(value),
            ("dstq", value) => set_destination(&mut found.destination, Destination::Queue(value))?,
            ("dste", value) => set_destination(&mut found.destination, Destination::Exchange(value))?,
            ("key", value) => found.key = Some(value),
            ("args", value) => found.hash = value.to_string(),
            (other, _) => return Err(Reply::error(400, format!("bad binding path segment '{other}'"))),
        }
    }
    Ok(found)
}

fn unbind(segment: &str) -> Result<Verb, Reply> {
    match binding_parts(segment, ';')? {
        BindingParts { source: Some(source), destination: Some(destination), key, hash } => {
            Ok(Verb::Unbind { source, destination, key: key.unwrap_or_default(), hash })
        }
        _ => Err(Reply::error(400, format!("bad binding path segment '{segment}'"))),
    }
}

fn list_bindings(query: &str) -> Result<Verb, Reply> {
    match binding_parts(query, '&')? {
        BindingParts { source: Some(source), destination: Some(destination), key, .. } => {
            Ok(Verb::ListBindings { source, destination, key })
        }
        _ => Err(Reply::error(400, "binding source or destination is missing".into())),
    }
}

impl Reply {
    pub(super) fn error(status: u16, reason: String) -> Self {
        Self { status, body: Value::String(reason) }
    }

    pub(super) fn no_content() -> Self {
        Self { status: 204, body: Value::Null }
    }

    pub(super) fn not_found(vhost: &str, queue: &str) -> Self {
        Self::error(404, format!("no queue '{queue}' in vhost '{vhost}'"))
    }

    pub(super) fn message_count(messages: u64) -> Self {
        let mut map = Map::new();
        map.insert("message_count", Value::Ulong(messages));
        Self { status: 200, body: Value::Map(map) }
    }

    /// Maps an error of the catalog to a status.
    pub(super) fn from_error(refused: &CatalogError) -> Self {
        let status = match refused {
            CatalogError::PreconditionFailed { .. } | CatalogError::Inequivalent { .. } => 409,
            CatalogError::Forbidden { .. }
            | CatalogError::Denied { .. }
            | CatalogError::LimitReached { .. } => 403,
            // No request of AMQP is a batch.
            CatalogError::InBatch { .. } => 400,
            CatalogError::Busy { .. }
            | CatalogError::Unavailable { .. }
            | CatalogError::OutcomeUnknown { .. } => 503,
            // The source or the destination of a binding was not found. This is not a 404, because the path
            // of the request exists.
            CatalogError::NotFound { .. } | CatalogError::Locked { .. } | CatalogError::Invalid { .. } => 400,
        };
        Self::error(status, refused.to_string())
    }

    pub(super) fn queue(
        status: u16,
        record: &QueueRecord,
        report: &queue::Report,
        settings: &Settings,
    ) -> Self {
        let mut map = Map::new();
        map.insert("message_count", Value::Ulong(report.ready));
        map.insert("consumer_count", Value::Uint(report.consumers));
        map.insert("name", Value::String(record.name.to_string()));
        map.insert("vhost", Value::String(record.vhost.to_string()));
        map.insert("durable", Value::Boolean(record.durable));
        map.insert("auto_delete", Value::Boolean(record.auto_delete));
        map.insert("exclusive", Value::Boolean(record.exclusive.is_some()));
        map.insert("type", Value::String(record.kind().into()));
        map.insert("arguments", arguments_value(&record.arguments));
        map.insert("leader", Value::String(settings.node_name.clone()));
        let replicas = amqp10::Array::try_from_items(vec![Value::String(settings.node_name.clone())]);
        map.insert("replicas", replicas.map_or(Value::Null, Value::Array));
        Self { status, body: Value::Map(map) }
    }

    /// Returns the row of a link that takes replies. It looks like a queue that is always empty
    /// (docs/compatibility.md, Dynamic nodes).
    pub(super) fn volatile_queue(vhost: &str, name: &str, settings: &Settings) -> Self {
        let fields = [
            ("message_count", Value::Ulong(0)),
            ("consumer_count", Value::Uint(1)),
            ("name", Value::String(name.into())),
            ("vhost", Value::String(vhost.into())),
            ("durable", Value::Boolean(false)),
            ("auto_delete", Value::Boolean(true)),
            ("exclusive", Value::Boolean(false)),
            ("type", Value::String("rabbit_volatile_queue".into())),
            ("arguments", Value::Map(Map::new())),
            ("leader", Value::String(settings.node_name.clone())),
        ];
        let mut map = Map::new();
        fields.into_iter().for_each(|(key, value)| map.insert(key, value));
        Self { status: 200, body: Value::Map(map) }
    }

    pub(super) fn bindings<'a>(rows: impl Iterator<Item = &'a Binding>) -> Self {
        let rows = rows.map(|binding| {
            let (name, destination, short) = match &binding.destination {
                Destination::Queue(name) => ("destination_queue", name, "dstq"),
                Destination::Exchange(name) => ("destination_exchange", name, "dste"),
            };
            let location = format!(
                "/bindings/src={};{short}={};key={};args={}",
                encode_segment(&binding.source),
                encode_segment(destination),
                encode_segment(&binding.key),
                binding.arguments.hash_name()
            );
            let mut map = Map::new();
            map.insert("source", Value::String(binding.source.to_string()));
            map.insert(name, Value::String(destination.to_string()));
            map.insert("binding_key", Value::String(binding.key.to_string()));
            map.insert("arguments", arguments_value(&binding.arguments));
            map.insert("location", Value::String(location));
            Value::Map(map)
        });
        Self { status: 200, body: Value::List(rows.collect()) }
    }

    /// Encodes the response as a message.
    pub(super) fn encode(self, correlation_id: Option<Value>) -> Bytes {
        use amqp10::Encode as _;
        let mut out = BytesMut::new();
        let properties =
            Properties { subject: Some(self.status.to_string()), correlation_id, ..Properties::default() };
        properties.encode(&mut out);
        encode::put_descriptor(&mut out, descriptor::APPLICATION_PROPERTIES);
        let mut map = Map::new();
        map.insert("http:response", Value::String("1.1".into()));
        encode::put_map(&mut out, &map);
        encode::put_descriptor(&mut out, descriptor::AMQP_VALUE);
        encode::put_value(&mut out, &self.body);
        out.freeze()
    }
}

fn arguments_value(arguments: &Arguments) -> Value {
    Value::Map(arguments.iter().map(|(k, v)| (Value::from(k.clone()), v.clone())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A body section: amqp-value [3.2.8] with null.
    const NULL_BODY: &[u8] = &[0x00, 0x53, 0x77, 0x40];

    /// Returns the encoded properties section {message-id: 3, to: "/queues/q", subject: `method`, reply-to:
    /// "$me"} [3.2.4].
    fn request(method: &str) -> Vec<u8> {
        let mut fields = vec![0x53, 3, 0x40];
        for text in ["/queues/q", method, "$me"] {
            fields.extend([0xa1, text.len() as u8]);
            fields.extend(text.as_bytes());
        }
        [&[0x00, 0x53, 0x73, 0xc0, fields.len() as u8 + 1, 5], fields.as_slice()].concat()
    }

    fn reason(parsed: Parsed) -> (u16, String) {
        let Reply { status, body } = parsed.verb.unwrap_err();
        (status, body.as_str().unwrap().to_owned())
    }

    #[test]
    fn a_request_without_a_body_has_a_null_body() {
        for body in [&[][..], NULL_BODY] {
            let parsed = parse(&[&request("GET"), body].concat(), &"/".into()).unwrap();
            assert!(matches!(parsed.verb, Ok(Verb::GetQueue { name }) if &*name == "q"));
            assert_eq!(parsed.message_id, Some(Value::Ulong(3)));
        }
    }

    #[test]
    fn the_body_may_come_before_the_properties() {
        let header = [0x00, 0x53, 0x70, 0x45];
        let parsed = parse(&[NULL_BODY, &request("DELETE"), &header].concat(), &"/".into()).unwrap();
        assert!(matches!(parsed.verb, Ok(Verb::DeleteQueue { name }) if &*name == "q"));
    }

    #[test]
    fn a_wrong_body_is_answered() {
        let data = [0x00, 0x53, 0x75, 0xa0, 0x01, b'x'];
        for bodies in [&data[..], &[NULL_BODY, NULL_BODY].concat(), &[NULL_BODY, &data].concat()] {
            let parsed = parse(&[&request("GET"), bodies].concat(), &"/".into()).unwrap();
            assert_eq!(reason(parsed), (400, NEEDS_VALUE.into()));
        }
        let cut = parse(&[&request("GET"), &NULL_BODY[..3]].concat(), &"/".into()).unwrap();
        assert_eq!(cut.message_id, Some(Value::Ulong(3)));
        assert_eq!(reason(cut).0, 400);
    }

    #[test]
    fn a_body_that_is_nested_too_deep_is_answered() {
        // The bodies are lists that contain one list each, and described values whose descriptor is null and
        // whose value is such a value again.
        let mut lists = vec![0x45];
        for _ in 0..40 {
            lists = [&[0xc0, lists.len() as u8 + 1, 1], lists.as_slice()].concat();
        }
        let described = [[0x00, 0x40].repeat(40), vec![0x40]].concat();
        for deep in [lists, described] {
            let body = [&[0x00, 0x53, 0x77], deep.as_slice()].concat();
            let parsed = parse(&[request("PUT"), body.clone()].concat(), &"/".into()).unwrap();
            assert_eq!(parsed.message_id, Some(Value::Ulong(3)));
            let (status, reason) = reason(parsed);
            assert!(status == 400 && reason.contains("nested too deep"), "{reason}");
        }
    }

    #[test]
    fn a_request_without_properties_ends_the_session() {
        assert_eq!(parse(NULL_BODY, &"/".into()).unwrap_err(), "a management request needs properties");
        assert!(parse(&[request("GET"), request("GET")].concat(), &"/".into()).is_err());
        assert!(parse(b"", &"/".into()).is_err());
    }
}
