//! Management of queues, exchanges and bindings over AMQP: requests to the node `/management`
//! (docs/compatibility.md, Management over AMQP).

use amqp10::{
    Attach, DeliveryState, Map, Role, SenderSettleMode, Source, Symbol, Target, TargetArchetype, Value,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::sync::Mutex;

use crate::error::Error;
use crate::message::{Body, Message};
use crate::options::Credit;
use crate::receiver::Receiver;
use crate::sender::Sender;
use crate::session::Session;

/// The address of the management node.
pub const ADDRESS: &str = "/management";
const LINK_NAME: &str = "management-link-pair";
/// The most responses that may be in flight.
const RESPONSES: u32 = 8;
/// The characters that are percent-encoded in a path: all except the unreserved characters of URIs.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A pair of links to the management node. Requests are sent one after the other.
pub struct Management {
    sender: Sender,
    receiver: Mutex<Responses>,
}

struct Responses {
    receiver: Receiver,
    next_id: u64,
}

/// A successful answer: its status, 2xx, and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer<T> {
    pub status: u16,
    pub value: T,
}

/// The arguments of a queue declaration.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueSpec {
    pub durable: bool,
    pub exclusive: bool,
    pub auto_delete: bool,
    /// Arguments such as `x-queue-type`. Keys are strings.
    pub arguments: Map,
}

/// The properties and the state of a queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueInfo {
    pub name: String,
    pub vhost: String,
    /// `classic`, `quorum` or `stream`.
    pub kind: String,
    pub durable: bool,
    pub exclusive: bool,
    pub auto_delete: bool,
    pub arguments: Map,
    /// The number of messages that are ready to be delivered.
    pub messages: u64,
    pub consumers: u64,
    pub leader: Option<String>,
    pub replicas: Vec<String>,
}

/// The arguments of an exchange declaration.
#[derive(Clone, Debug, PartialEq)]
pub struct ExchangeSpec {
    /// `direct`, `fanout`, `topic`, `headers` or the type of a plugin.
    pub kind: String,
    pub durable: bool,
    pub auto_delete: bool,
    pub internal: bool,
    pub arguments: Map,
}

/// The destination of a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    Queue(String),
    Exchange(String),
}

/// A binding. All fields together identify it.
#[derive(Clone, Debug, PartialEq)]
pub struct Binding {
    pub source: String,
    pub destination: Destination,
    pub key: String,
    pub arguments: Map,
}

impl Default for QueueSpec {
    fn default() -> Self {
        Self { durable: true, exclusive: false, auto_delete: false, arguments: Map::new() }
    }
}

impl QueueSpec {
    /// Returns a durable queue of this type: `classic`, `quorum` or `stream`.
    pub fn of_type(kind: &str) -> Self {
        Self::default().argument("x-queue-type", kind)
    }

    pub fn argument(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.arguments.insert(key, value);
        self
    }
}

impl Default for ExchangeSpec {
    fn default() -> Self {
        let arguments = Map::new();
        Self { kind: "direct".to_owned(), durable: true, auto_delete: false, internal: false, arguments }
    }
}

impl Binding {
    /// Returns a binding from an exchange to a queue.
    pub fn to_queue(source: &str, queue: &str, key: &str) -> Self {
        Self {
            source: source.to_owned(),
            destination: Destination::Queue(queue.to_owned()),
            key: key.to_owned(),
            arguments: Map::new(),
        }
    }
}

impl Management {
    /// Attaches the pair of links.
    ///
    /// # Errors
    /// Like [`Session::sender`].
    pub async fn open(session: &Session) -> Result<Self, Error> {
        let (sender, receiver) = tokio::join!(
            session.sender_with(attach(Role::Sender)),
            session.receiver_with(attach(Role::Receiver), Credit::Auto(RESPONSES)),
        );
        let receiver = Mutex::new(Responses { receiver: receiver?, next_id: 1 });
        Ok(Self { sender: sender?, receiver })
    }

    /// Declares a queue. The status is 201 if it is new, and 200 if an equal queue existed.
    ///
    /// # Errors
    /// For this and all other requests: `Status` if the node refuses the request. If the links are closed,
    /// for example because of missing permissions, returns the reason.
    pub async fn declare_queue(&self, name: &str, spec: &QueueSpec) -> Result<Answer<QueueInfo>, Error> {
        let body = Map::from_iter([
            ("durable", Value::from(spec.durable)),
            ("exclusive", Value::from(spec.exclusive)),
            ("auto_delete", Value::from(spec.auto_delete)),
            ("arguments", Value::from(spec.arguments.clone())),
        ]);
        self.request("PUT", &queue_path(name), body.into()).await?.try_map(queue_info)
    }

    /// Returns the current state of a queue. `Status` with 404 if it does not exist.
    pub async fn queue_info(&self, name: &str) -> Result<Answer<QueueInfo>, Error> {
        self.request("GET", &queue_path(name), Value::Null).await?.try_map(queue_info)
    }

    /// Deletes a queue if it exists. Returns the number of messages that it had.
    pub async fn delete_queue(&self, name: &str) -> Result<Answer<u64>, Error> {
        self.request("DELETE", &queue_path(name), Value::Null).await?.try_map(message_count)
    }

    /// Purges a queue. Returns the number of messages that it had.
    pub async fn purge_queue(&self, name: &str) -> Result<Answer<u64>, Error> {
        let path = format!("{}/messages", queue_path(name));
        self.request("DELETE", &path, Value::Null).await?.try_map(message_count)
    }

    pub async fn declare_exchange(&self, name: &str, spec: &ExchangeSpec) -> Result<Answer<()>, Error> {
        let body = Map::from_iter([
            ("type", Value::from(spec.kind.as_str())),
            ("durable", Value::from(spec.durable)),
            ("auto_delete", Value::from(spec.auto_delete)),
            ("internal", Value::from(spec.internal)),
            ("arguments", Value::from(spec.arguments.clone())),
        ]);
        self.request("PUT", &exchange_path(name), body.into()).await.map(Answer::done)
    }

    /// Deletes an exchange if it exists.
    pub async fn delete_exchange(&self, name: &str) -> Result<Answer<()>, Error> {
        self.request("DELETE", &exchange_path(name), Value::Null).await.map(Answer::done)
    }

    pub async fn bind(&self, binding: &Binding) -> Result<Answer<()>, Error> {
        let (field, name) = match &binding.destination {
            Destination::Queue(name) => ("destination_queue", name),
            Destination::Exchange(name) => ("destination_exchange", name),
        };
        let body = Map::from_iter([
            ("source", Value::from(binding.source.as_str())),
            (field, Value::from(name.as_str())),
            ("binding_key", Value::from(binding.key.as_str())),
            ("arguments", Value::from(binding.arguments.clone())),
        ]);
        self.request("POST", "/bindings", body.into()).await.map(Answer::done)
    }

    /// Deletes a binding if it exists. A binding with arguments is looked up first, because only the node
    /// knows its path. `Status` with 404 if it is not found.
    pub async fn unbind(&self, binding: &Binding) -> Result<Answer<()>, Error> {
        let (kind, name) = destination(&binding.destination);
        let mut path = format!(
            "/bindings/src={};{kind}={};key={};args=",
            encode(&binding.source),
            encode(name),
            encode(&binding.key)
        );
        if !binding.arguments.is_empty() {
            let all = self.list(&binding.source, &binding.destination, &binding.key).await?;
            let found = all.value.into_iter().find(|(b, _)| b.arguments == binding.arguments);
            let not_found = || Error::Status { status: 404, explanation: "no such binding".to_owned() };
            path = found.ok_or_else(not_found)?.1;
        }
        self.request("DELETE", &path, Value::Null).await.map(Answer::done)
    }

    /// Returns the bindings from an exchange to a destination with this key.
    pub async fn bindings(
        &self,
        source: &str,
        destination: &Destination,
        key: &str,
    ) -> Result<Answer<Vec<Binding>>, Error> {
        let Answer { status, value } = self.list(source, destination, key).await?;
        Ok(Answer { status, value: value.into_iter().map(|(binding, _)| binding).collect() })
    }

    /// Returns bindings with their paths.
    async fn list(
        &self,
        source: &str,
        to: &Destination,
        key: &str,
    ) -> Result<Answer<Vec<(Binding, String)>>, Error> {
        let (kind, name) = destination(to);
        let path = format!("/bindings?src={}&{kind}={}&key={}", encode(source), encode(name), encode(key));
        self.request("GET", &path, Value::Null).await?.try_map(|value| match value {
            Value::List(rows) => rows.iter().map(binding).collect(),
            _ => None,
        })
    }

    /// Sends any request: method, path and body. Returns the body of the answer.
    pub async fn request(&self, method: &str, path: &str, body: Value) -> Result<Answer<Value>, Error> {
        let mut responses = self.receiver.lock().await;
        let id = responses.next_id;
        responses.next_id += 1;
        let request = Message::value(body).message_id(id).to(path).subject(method).reply_to("$me");
        if let DeliveryState::Rejected(error) = self.sender.send(request.encode()).await? {
            return Err(Error::Message(format!("the request was rejected: {error:?}")));
        }
        loop {
            let delivery = responses.receiver.recv().await?;
            let response = Message::decode(&delivery.message)?;
            delivery.accept()?;
            let properties = response.properties.unwrap_or_default();
            // An older response belongs to a request whose caller has stopped waiting. It is skipped.
            if properties.correlation_id.as_ref().and_then(Value::as_u64) != Some(id) {
                continue;
            }
            let status = properties.subject.as_deref().and_then(|s| s.parse().ok());
            let status: u16 = status.ok_or_else(|| Error::Message("the answer has no status".to_owned()))?;
            let value = match response.body {
                Body::Value(value) => value,
                _ => Value::Null,
            };
            return match status {
                200..=299 => Ok(Answer { status, value }),
                _ => {
                    let explanation = value.as_str().unwrap_or_default().to_owned();
                    Err(Error::Status { status, explanation })
                }
            };
        }
    }

    /// Detaches both links.
    ///
    /// # Errors
    /// Returns the reason if they were closed before.
    pub async fn close(self) -> Result<(), Error> {
        self.sender.detach().await?;
        self.receiver.into_inner().receiver.detach().await
    }
}

impl<T> Answer<T> {
    fn done(self) -> Answer<()> {
        Answer { status: self.status, value: () }
    }

    fn try_map<U>(self, map: impl FnOnce(T) -> Option<U>) -> Result<Answer<U>, Error> {
        let value =
            map(self.value).ok_or_else(|| Error::Message("the answer has an unexpected form".to_owned()))?;
        Ok(Answer { status: self.status, value })
    }
}

fn attach(role: Role) -> Attach {
    let mut attach = Attach::new(LINK_NAME, 0, role);
    let ours = Some("$me".to_owned());
    let node = Some(ADDRESS.to_owned());
    let (source, target) = match role {
        Role::Sender => (ours, node),
        Role::Receiver => (node, ours),
    };
    attach.snd_settle_mode = SenderSettleMode::Settled;
    attach.source = Some(Source { address: source, ..Source::default() });
    attach.target = Some(TargetArchetype::Target(Target { address: target, ..Target::default() }));
    attach.properties = Some(Map::from_iter([(Symbol::from_static("paired"), true)]));
    attach
}

fn encode(segment: &str) -> String {
    utf8_percent_encode(segment, SEGMENT).to_string()
}

fn queue_path(name: &str) -> String {
    format!("/queues/{}", encode(name))
}

fn exchange_path(name: &str) -> String {
    format!("/exchanges/{}", encode(name))
}

fn destination(destination: &Destination) -> (&'static str, &str) {
    match destination {
        Destination::Queue(name) => ("dstq", name),
        Destination::Exchange(name) => ("dste", name),
    }
}

fn text(map: &Map, key: &str) -> Option<String> {
    map.get(key)?.as_str().map(str::to_owned)
}

fn flag(map: &Map, key: &str) -> bool {
    map.get(key).and_then(Value::as_bool).unwrap_or(false)
}

fn arguments(map: &Map) -> Map {
    map.get("arguments").and_then(Value::as_map).cloned().unwrap_or_default()
}

fn message_count(value: Value) -> Option<u64> {
    value.as_map()?.get("message_count")?.as_u64()
}

fn queue_info(value: Value) -> Option<QueueInfo> {
    let map = value.as_map()?;
    let count = |key| map.get(key).and_then(Value::as_u64).unwrap_or(0);
    let replicas = match map.get("replicas") {
        Some(Value::Array(array)) => array.items(),
        Some(Value::List(items)) => items,
        _ => &[],
    };
    Some(QueueInfo {
        name: text(map, "name")?,
        vhost: text(map, "vhost").unwrap_or_default(),
        kind: text(map, "type").unwrap_or_default(),
        durable: flag(map, "durable"),
        exclusive: flag(map, "exclusive"),
        auto_delete: flag(map, "auto_delete"),
        arguments: arguments(map),
        messages: count("message_count"),
        consumers: count("consumer_count"),
        leader: text(map, "leader"),
        replicas: replicas.iter().filter_map(|r| r.as_str().map(str::to_owned)).collect(),
    })
}

fn binding(value: &Value) -> Option<(Binding, String)> {
    let map = value.as_map()?;
    let destination = match text(map, "destination_queue") {
        Some(name) => Destination::Queue(name),
        None => Destination::Exchange(text(map, "destination_exchange")?),
    };
    let key = text(map, "binding_key").unwrap_or_default();
    let binding = Binding { source: text(map, "source")?, destination, key, arguments: arguments(map) };
    Some((binding, text(map, "location")?))
}
