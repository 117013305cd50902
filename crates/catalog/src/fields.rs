//! The encoding that changes and commands share: one AMQP list. Its first item is a number that says which
//! change or command it is.

use std::sync::Arc;

use amqp10::{Map, Reader, Value, encode};
use bytes::{Bytes, BytesMut};

use queue::QueueType;

use super::{Arguments, Binding, Destination, ParameterKey, VhostPatch, VhostSettings};
use crate::access::{Hashing, Maximum, PasswordHash, Permissions, TopicPermissions};
use crate::ids::{ConnectionId, Members, NodeId, Origin};

/// The items of a list that is being written.
#[derive(Debug)]
pub(super) struct ListWriter(Vec<Value>);

impl ListWriter {
    pub(super) fn new(kind: u8) -> Self {
        Self(vec![Value::Ubyte(kind)])
    }

    pub(super) fn value(mut self, value: impl Into<Value>) -> Self {
        self.0.push(value.into());
        self
    }

    pub(super) fn text(self, text: &str) -> Self {
        self.value(Value::String(text.to_owned()))
    }

    pub(super) fn number(self, number: u64) -> Self {
        self.value(Value::Ulong(number))
    }

    pub(super) fn boolean(self, value: bool) -> Self {
        self.value(Value::Boolean(value))
    }

    pub(super) fn arguments(self, arguments: &Arguments) -> Self {
        let arguments = arguments.iter().map(|(key, value)| (Value::from(key.clone()), value.clone()));
        self.value(Value::Map(arguments.collect::<Map>()))
    }

    /// Appends virtual host, source, destination, to-exchange, key, arguments.
    pub(super) fn binding(self, binding: &Binding) -> Self {
        let (destination, to_exchange) = match &binding.destination {
            Destination::Queue(name) => (name, false),
            Destination::Exchange(name) => (name, true),
        };
        let names = self.text(&binding.vhost).text(&binding.source).text(destination);
        names.boolean(to_exchange).text(&binding.key).arguments(&binding.arguments)
    }

    /// Appends the algorithm and the hash.
    pub(super) fn hash(self, hash: &PasswordHash) -> Self {
        let bytes = Value::Binary(Bytes::copy_from_slice(hash.expose()));
        self.text(hash.hashing().name()).value(bytes)
    }

    /// Appends as many values as [`ListWriter::hash`] does.
    pub(super) fn optional_hash(self, hash: Option<&PasswordHash>) -> Self {
        match hash {
            Some(hash) => self.hash(hash),
            None => self.value(Value::Null).value(Value::Null),
        }
    }

    pub(super) fn optional_texts(self, texts: Option<&[String]>) -> Self {
        match texts {
            Some(texts) => self.texts(texts),
            None => self.value(Value::Null),
        }
    }

    pub(super) fn texts(self, texts: &[String]) -> Self {
        self.value(Value::List(texts.iter().cloned().map(Value::String).collect()))
    }

    /// Appends configure, write, read.
    pub(super) fn permissions(self, permissions: &Permissions) -> Self {
        permissions.patterns().into_iter().fold(self, Self::text)
    }

    /// Appends user, vhost, exchange, write, read.
    pub(super) fn topic_permissions(
        self,
        user: &str,
        vhost: &str,
        exchange: &str,
        permissions: &TopicPermissions,
    ) -> Self {
        permissions.patterns().into_iter().fold(self.text(user).text(vhost).text(exchange), Self::text)
    }

    /// Appends virtual host or null, component, name.
    pub(super) fn parameter_key(self, key: &ParameterKey) -> Self {
        self.optional_text(key.vhost.as_deref()).text(&key.component).text(&key.name)
    }

    /// Appends a limit: -1 for none, as in RabbitMQ.
    pub(super) fn maximum(self, limit: Maximum) -> Self {
        self.value(limit.map_or(-1, i64::from))
    }

    /// Appends a limit, or null.
    pub(super) fn optional_maximum(self, limit: Option<Maximum>) -> Self {
        match limit {
            Some(limit) => self.maximum(limit),
            None => self.value(Value::Null),
        }
    }

    /// Appends all settings of a virtual host.
    pub(super) fn vhost_settings(self, settings: &VhostSettings) -> Self {
        self.text(&settings.description)
            .texts(&settings.tags)
            .optional_text(settings.default_queue_type.map(QueueType::name))
            .boolean(settings.protected)
            .maximum(settings.max_connections)
            .maximum(settings.max_queues)
            .boolean(settings.deleting)
    }

    /// Appends a change of the settings of a virtual host. What does not change is null; no type of queues is empty.
    pub(super) fn vhost_patch(self, patch: &VhostPatch) -> Self {
        let kind = patch.default_queue_type.map(|kind| kind.map_or("", QueueType::name));
        let with_tags = |fields: Self| match &patch.tags {
            Some(tags) => fields.texts(tags),
            None => fields.value(Value::Null),
        };
        with_tags(self.optional_text(patch.description.as_deref()))
            .optional_text(kind)
            .value(patch.protected.map_or(Value::Null, Value::Boolean))
            .optional_maximum(patch.max_connections)
            .optional_maximum(patch.max_queues)
    }

    /// Appends the node and its start.
    pub(super) fn origin(self, Origin { node, boot }: Origin) -> Self {
        self.value(Value::List(vec![Value::Uint(node.0), Value::Uint(boot)]))
    }

    /// Appends the node, its start, and the number of a connection, or null.
    pub(super) fn optional_connection(self, connection: Option<ConnectionId>) -> Self {
        self.value(connection.map_or(Value::Null, |ConnectionId { origin, number }| {
            Value::List(vec![Value::Uint(origin.node.0), Value::Uint(origin.boot), Value::Ulong(number)])
        }))
    }

    /// Appends the identity of a data directory.
    pub(super) fn identity(self, identity: &[u8; 16]) -> Self {
        self.value(Value::Binary(Bytes::copy_from_slice(identity)))
    }

    pub(super) fn numbers(self, numbers: &[u64]) -> Self {
        self.value(Value::List(numbers.iter().copied().map(Value::Ulong).collect()))
    }

    pub(super) fn members(self, members: &Members) -> Self {
        self.value(Value::List(members.nodes().iter().copied().map(Value::Uint).collect()))
    }

    /// Appends a text, or null.
    pub(super) fn optional_text(self, text: Option<&str>) -> Self {
        self.value(text.map_or(Value::Null, Value::from))
    }

    pub(super) fn put(self, out: &mut BytesMut) {
        encode::put_value(out, &Value::List(self.0));
    }
}

/// The items of a list that was read. Each call returns `None` if the item is missing or has another type.
#[derive(Debug)]
pub(super) struct ListReader(Value);

impl ListReader {
    /// Returns `None` if the bytes are not one list, and nothing else.
    pub(super) fn new(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let value = reader.read_value().ok()?;
        value.as_list()?;
        reader.is_empty().then_some(())?;
        Some(Self(value))
    }

    /// Returns the number of items, the first number included.
    pub(super) fn len(&self) -> usize {
        if let Value::List(items) = &self.0 { items.len() } else { 0 }
    }

    pub(super) fn value(&self, at: usize) -> Option<&Value> {
        self.0.as_list()?.get(at)
    }

    pub(super) fn number(&self, at: usize) -> Option<u64> {
        self.value(at)?.as_u64()
    }

    pub(super) fn signed(&self, at: usize) -> Option<i64> {
        self.value(at)?.as_i64()
    }

    pub(super) fn text(&self, at: usize) -> Option<Arc<str>> {
        self.value(at)?.as_str().map(Arc::from)
    }

    pub(super) fn boolean(&self, at: usize) -> Option<bool> {
        self.value(at)?.as_bool()
    }

    pub(super) fn arguments(&self, at: usize) -> Option<Arguments> {
        let map = self.value(at)?.as_map()?;
        map.iter().map(|(key, value)| Some((key.as_str()?.to_owned(), value.clone()))).collect()
    }

    /// Reads the fields that [`ListWriter::binding`] appends.
    pub(super) fn binding(&self, at: usize) -> Option<Binding> {
        let name = self.text(at + 2)?;
        let to_exchange = self.boolean(at + 3)?;
        Some(Binding {
            vhost: self.text(at)?,
            source: self.text(at + 1)?,
            destination: if to_exchange { Destination::Exchange(name) } else { Destination::Queue(name) },
            key: self.text(at + 4)?,
            arguments: self.arguments(at + 5)?,
        })
    }

    /// Reads the fields that [`ListWriter::hash`] appends.
    pub(super) fn hash(&self, at: usize) -> Option<PasswordHash> {
        let Value::Binary(hash) = self.value(at + 1)? else { return None };
        PasswordHash::from_bytes(Hashing::from_name(&self.text(at)?)?, hash)
    }

    pub(super) fn optional_hash(&self, at: usize) -> Option<Option<PasswordHash>> {
        if self.is_null(at) { Some(None) } else { self.hash(at).map(Some) }
    }

    pub(super) fn optional_texts(&self, at: usize) -> Option<Option<Arc<[String]>>> {
        if self.is_null(at) { Some(None) } else { self.texts(at).map(Some) }
    }

    pub(super) fn texts(&self, at: usize) -> Option<Arc<[String]>> {
        let texts = self.value(at)?.as_list()?;
        texts.iter().map(|text| text.as_str().map(str::to_owned)).collect()
    }

    /// Reads the permissions among the fields that [`ListWriter::topic_permissions`] appends.
    pub(super) fn topic_permissions(&self, at: usize) -> Option<TopicPermissions> {
        let (user, vhost) = (self.text(at)?, self.text(at + 1)?);
        TopicPermissions::new([&*self.text(at + 3)?, &*self.text(at + 4)?], &user, &vhost).ok()
    }

    /// Reads the fields that [`ListWriter::parameter_key`] appends.
    pub(super) fn parameter_key(&self, at: usize) -> Option<ParameterKey> {
        let (component, name) = (self.text(at + 1)?, self.text(at + 2)?);
        Some(ParameterKey { vhost: self.optional_text(at)?, component, name })
    }

    /// Reads the field that [`ListWriter::maximum`] appends.
    pub(super) fn maximum(&self, at: usize) -> Option<Maximum> {
        match self.signed(at)? {
            -1 => Some(None),
            max => Some(Some(u32::try_from(max).ok()?)),
        }
    }

    fn is_null(&self, at: usize) -> bool {
        matches!(self.value(at), Some(Value::Null))
    }

    /// Reads the field that [`ListWriter::optional_maximum`] appends.
    pub(super) fn optional_maximum(&self, at: usize) -> Option<Option<Maximum>> {
        if self.is_null(at) { Some(None) } else { self.maximum(at).map(Some) }
    }

    /// Reads the fields that [`ListWriter::vhost_settings`] appends.
    pub(super) fn vhost_settings(&self, at: usize) -> Option<VhostSettings> {
        Some(VhostSettings {
            description: self.text(at)?,
            tags: self.texts(at + 1)?,
            default_queue_type: match self.optional_text(at + 2)? {
                Some(kind) => Some(QueueType::from_name(&kind)?),
                None => None,
            },
            protected: self.boolean(at + 3)?,
            max_connections: self.maximum(at + 4)?,
            max_queues: self.maximum(at + 5)?,
            deleting: self.boolean(at + 6)?,
        })
    }

    /// Reads the fields that [`ListWriter::vhost_patch`] appends.
    pub(super) fn vhost_patch(&self, at: usize) -> Option<VhostPatch> {
        Some(VhostPatch {
            description: self.optional_text(at)?,
            tags: if self.is_null(at + 1) { None } else { Some(self.texts(at + 1)?) },
            default_queue_type: match self.optional_text(at + 2)?.as_deref() {
                None => None,
                Some("") => Some(None),
                Some(kind) => Some(Some(QueueType::from_name(kind)?)),
            },
            protected: if self.is_null(at + 3) { None } else { Some(self.boolean(at + 3)?) },
            max_connections: self.optional_maximum(at + 4)?,
            max_queues: self.optional_maximum(at + 5)?,
        })
    }

    pub(super) fn origin(&self, at: usize) -> Option<Origin> {
        let Value::List(parts) = self.value(at)? else { return None };
        let [Value::Uint(node), Value::Uint(boot)] = parts[..] else { return None };
        Some(Origin { node: NodeId(node), boot })
    }

    pub(super) fn optional_connection(&self, at: usize) -> Option<Option<ConnectionId>> {
        let parts = match self.value(at)? {
            Value::Null => return Some(None),
            Value::List(parts) => parts,
            _ => return None,
        };
        let [Value::Uint(node), Value::Uint(boot), Value::Ulong(number)] = parts[..] else { return None };
        Some(Some(ConnectionId { origin: Origin { node: NodeId(node), boot }, number }))
    }

    pub(super) fn identity(&self, at: usize) -> Option<[u8; 16]> {
        let Value::Binary(identity) = self.value(at)? else { return None };
        identity.as_ref().try_into().ok()
    }

    pub(super) fn numbers(&self, at: usize) -> Option<Vec<u64>> {
        let Value::List(numbers) = self.value(at)? else { return None };
        let number = |number: &Value| if let Value::Ulong(number) = number { Some(*number) } else { None };
        numbers.iter().map(number).collect()
    }

    pub(super) fn members(&self, at: usize) -> Option<Members> {
        let Value::List(nodes) = self.value(at)? else { return None };
        let number = |node: &Value| if let Value::Uint(node) = node { Some(*node) } else { None };
        nodes.iter().map(number).collect::<Option<Vec<_>>>().map(|nodes| Members::new(&nodes))
    }

    /// Reads the field that [`ListWriter::optional_text`] appends.
    pub(super) fn optional_text(&self, at: usize) -> Option<Option<Arc<str>>> {
        match self.value(at)? {
            Value::Null => Some(None),
            text => Some(Some(text.as_str()?.into())),
        }
    }

    /// Reads the fields that [`ListWriter::permissions`] appends.
    pub(super) fn permissions(&self, at: usize) -> Option<Permissions> {
        Permissions::new([&*self.text(at)?, &*self.text(at + 1)?, &*self.text(at + 2)?]).ok()
    }
}
