//! The stored form of a change: one AMQP list, its first item the number of the kind.
//!
//! ```text
//! list [ kind ubyte, fields ... ]                         format 1, since 0.1
//!   1 queue declared    id, vhost, name, durable, auto-delete, arguments
//!   2 queue forgotten   id
//!   3 exchange declared vhost, name, type, durable, auto-delete, internal, arguments
//!   4 exchange deleted  vhost, name
//!   5 bound             vhost, source, destination, to-exchange, key, arguments
//!   6 unbound           the same
//!   7 incarnations      next
//!   8 policy set        vhost, name, operator, pattern, priority long, apply-to, definition
//!   9 policy cleared    vhost, name, operator
//!                                                         since version 3 of the log
//!  10 vhost added       name
//!  11 vhost deleted     name
//!  12 user set          name, algorithm, hash binary, tags list
//!  13 user deleted      name
//!  14 permissions set   user, vhost, configure, write, read
//!  15 permissions cleared  user, vhost
//!  16 users begun
//! ```
//!
//! Permissions are patterns of names, today `.*` or nothing. The hash is salt and SHA-256, the algorithm
//! [`PasswordHash::ALGORITHM`].
//!
//! Exclusive queues are not stored, nor which policy a queue or an exchange has: that follows from
//! the names.

use std::sync::Arc;

use amqp10::{Map, Reader, Value, encode};
use bytes::{Bytes, BytesMut};

use super::{
    ApplyTo, Arguments, Binding, Change, Destination, Exchange, ExchangeKind, Pattern, Policy, QueueRecord,
    queue_config,
};
use crate::access::{PasswordHash, Permissions};
use crate::ids::QueueId;

/// Appends the stored form.
pub fn encode_change(change: &Change, out: &mut BytesMut) {
    let text = |s: &Arc<str>| Value::String(s.to_string());
    let arguments = |a: &Arguments| {
        Value::Map(a.iter().map(|(k, v)| (Value::from(k.clone()), v.clone())).collect::<Map>())
    };
    let fields = match change {
        Change::QueueDeclared(q) => vec![
            Value::Ubyte(1),
            Value::Ulong(q.id.0),
            text(&q.vhost),
            text(&q.name),
            Value::Boolean(q.durable),
            Value::Boolean(q.auto_delete),
            arguments(&q.arguments),
        ],
        Change::QueueForgotten { queue } => vec![Value::Ubyte(2), Value::Ulong(queue.0)],
        Change::ExchangeDeclared(e) => vec![
            Value::Ubyte(3),
            text(&e.vhost),
            text(&e.name),
            Value::String(e.kind.as_str().into()),
            Value::Boolean(e.durable),
            Value::Boolean(e.auto_delete),
            Value::Boolean(e.internal),
            arguments(&e.arguments),
        ],
        Change::ExchangeDeleted { vhost, name } => vec![Value::Ubyte(4), text(vhost), text(name)],
        Change::Bound(b) | Change::Unbound(b) => {
            let (destination, to_exchange) = match &b.destination {
                Destination::Queue(name) => (name, false),
                Destination::Exchange(name) => (name, true),
            };
            vec![
                Value::Ubyte(if matches!(change, Change::Bound(_)) { 5 } else { 6 }),
                text(&b.vhost),
                text(&b.source),
                text(destination),
                Value::Boolean(to_exchange),
                text(&b.key),
                arguments(&b.arguments),
            ]
        }
        Change::Incarnations { next } => vec![Value::Ubyte(7), Value::Uint(*next)],
        Change::PolicySet(p) => vec![
            Value::Ubyte(8),
            text(&p.vhost),
            text(&p.name),
            Value::Boolean(p.operator),
            Value::String(p.pattern.as_str().into()),
            Value::Long(p.priority),
            Value::String(p.apply_to.as_str().into()),
            arguments(&p.definition),
        ],
        Change::PolicyCleared { vhost, name, operator } => {
            vec![Value::Ubyte(9), text(vhost), text(name), Value::Boolean(*operator)]
        }
        Change::VhostAdded { name } => vec![Value::Ubyte(10), text(name)],
        Change::VhostDeleted { name } => vec![Value::Ubyte(11), text(name)],
        Change::UserSet { name, hash, tags } => vec![
            Value::Ubyte(12),
            text(name),
            Value::String(PasswordHash::ALGORITHM.into()),
            Value::Binary(Bytes::copy_from_slice(hash.expose())),
            Value::List(tags.iter().cloned().map(Value::String).collect()),
        ],
        Change::UserDeleted { name } => vec![Value::Ubyte(13), text(name)],
        Change::PermissionsSet { user, vhost, permissions } => {
            let patterns = permissions.patterns().map(|pattern| Value::String(pattern.into()));
            [Value::Ubyte(14), text(user), text(vhost)].into_iter().chain(patterns).collect()
        }
        Change::PermissionsCleared { user, vhost } => vec![Value::Ubyte(15), text(user), text(vhost)],
        Change::UsersBegun => vec![Value::Ubyte(16)],
    };
    encode::put_value(out, &Value::List(fields));
}

/// Reads a change back; `None` if the bytes are none.
pub fn decode_change(stored: &[u8]) -> Option<Change> {
    let value = Reader::new(stored).read_value().ok()?;
    let fields = value.as_list()?;
    let text = |i: usize| fields.get(i)?.as_str().map(Arc::<str>::from);
    let boolean = |i: usize| fields.get(i)?.as_bool();
    let arguments = |i: usize| -> Option<Arguments> {
        fields.get(i)?.as_map()?.iter().map(|(k, v)| Some((k.as_str()?.to_owned(), v.clone()))).collect()
    };
    Some(match fields.first()?.as_u64()? {
        1 => {
            let (vhost, name, auto_delete, arguments) = (text(2)?, text(3)?, boolean(5)?, arguments(6)?);
            let (config, fsync) = queue_config(&vhost, &name, auto_delete, &arguments).ok()?;
            Change::QueueDeclared(Arc::new(QueueRecord {
                id: QueueId(fields.get(1)?.as_u64()?),
                vhost,
                name,
                durable: boolean(4)?,
                exclusive: None,
                auto_delete,
                arguments,
                config: Arc::new(config),
                fsync,
                policy: None,
                operator_policy: None,
            }))
        }
        2 => Change::QueueForgotten { queue: QueueId(fields.get(1)?.as_u64()?) },
        3 => {
            let exchange = Exchange::new(text(1)?, text(2)?, ExchangeKind::parse(&text(3)?)?, arguments(7)?);
            let (durable, auto_delete, internal) = (boolean(4)?, boolean(5)?, boolean(6)?);
            Change::ExchangeDeclared(Arc::new(Exchange { durable, auto_delete, internal, ..exchange }))
        }
        4 => Change::ExchangeDeleted { vhost: text(1)?, name: text(2)? },
        kind @ (5 | 6) => {
            let destination =
                if boolean(4)? { Destination::Exchange(text(3)?) } else { Destination::Queue(text(3)?) };
            let binding = Arc::new(Binding {
                vhost: text(1)?,
                source: text(2)?,
                destination,
                key: text(5)?,
                arguments: arguments(6)?,
            });
            if kind == 5 { Change::Bound(binding) } else { Change::Unbound(binding) }
        }
        7 => Change::Incarnations { next: u32::try_from(fields.get(1)?.as_u64()?).ok()? },
        8 => Change::PolicySet(Arc::new(Policy {
            vhost: text(1)?,
            name: text(2)?,
            operator: boolean(3)?,
            pattern: Pattern::new(&text(4)?).ok()?,
            priority: fields.get(5)?.as_i64()?,
            apply_to: ApplyTo::parse(&text(6)?)?,
            definition: arguments(7)?,
        })),
        9 => Change::PolicyCleared { vhost: text(1)?, name: text(2)?, operator: boolean(3)? },
        10 => Change::VhostAdded { name: text(1)? },
        11 => Change::VhostDeleted { name: text(1)? },
        12 if *text(2)? == *PasswordHash::ALGORITHM => {
            let Value::Binary(hash) = fields.get(3)? else { return None };
            let tags = fields.get(4)?.as_list()?.iter().map(|tag| tag.as_str().map(str::to_owned));
            let (hash, tags) = (PasswordHash::from_bytes(hash)?, tags.collect::<Option<_>>()?);
            Change::UserSet { name: text(1)?, hash, tags }
        }
        13 => Change::UserDeleted { name: text(1)? },
        14 => Change::PermissionsSet {
            user: text(1)?,
            vhost: text(2)?,
            permissions: Permissions::from_patterns([&text(3)?, &text(4)?, &text(5)?])?,
        },
        15 => Change::PermissionsCleared { user: text(1)?, vhost: text(2)? },
        16 => Change::UsersBegun,
        _ => return None,
    })
}
