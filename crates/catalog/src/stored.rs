//! The stored encoding of a change: one AMQP list whose first item is the number of the kind.
//!
//! ```text
//! list [ kind ubyte, fields ... ]                         format 1, since 0.1
//!   1 queue declared    id, vhost, name, durable, auto-delete, arguments
//!   2 queue forgotten   id
//!   3 exchange declared vhost, name, type, durable, auto-delete, internal, arguments
//!   4 exchange deleted  vhost, name
//!   5 bound             vhost, source, destination, to-exchange, key, arguments
//!   6 unbound           the same
//!   7 incarnations      next, in the upper 32 bits of ids
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
//!                                                         since version 5 of the log
//!  12                  with other algorithms than SHA-256
//!                                                         since version 6 of the log
//!  17 topic permissions set      user, vhost, exchange, write, read
//!  18 topic permissions cleared  user, vhost, exchange or null
//!  19 vhost set         name, description, tags list, default queue type or null, protected,
//!                      max-connections long, max-queues long, deleting
//!  20 user limits set   user, max-connections long, max-channels long
//!  21 parameter set     vhost or null, component, name, value
//!  22 parameter cleared vhost or null, component, name
//!  12                  with MD5
//!  14                  with other patterns than `.*` and the empty one
//!   8                  with look-aheads in the pattern
//!                                                         since version 8 of the log
//!  23 incarnations      next, in the upper 40 bits of ids. Kind 7 is not written any more.
//!                                                         since version 9 of the log
//!  24 queue declared    as 1, and: owner [node uint, boot uint, number ulong] or null, index of its entry, nodes list of uints.
//!                      Kind 1 is not written any more.
//!  25 exchange declared  as 3, and: nodes list of uints. For an exchange that is not durable.
//!  26 node started      node, [node uint, boot uint]
//!                                                         since version 11 of the log
//!  27 node joined       node, identity binary, name
//!  28 asked             [node uint, boot uint], low, numbers list
//! ```
//!
//! A limit of -1 is none. Permissions are stored as the texts of their patterns. For the algorithm and the hash see [`crate::access::PasswordHash`].
//!
//! Before version 9, only durable definitions were stored. The policy of a queue or an exchange is not stored, because it follows from
//! the name.

use std::sync::Arc;

use bytes::BytesMut;

use super::fields::{ListReader, ListWriter};
use super::{ApplyTo, Change, Exchange, ExchangeKind, KnownNode, Policy, QueueRecord, queue_config};
use crate::access::UserLimits;
use crate::ids::{Members, QueueId};
use crate::pattern::Pattern;

/// Before version 8 of the log, the incarnation was the upper 32 bits of an id, and the slot the lower 32. No slot came near 2^24, so such
/// an id is a valid one of today, with an incarnation that is 256 times as large.
const OLD_INCARNATION_SHIFT: u32 = 8;

/// Appends the stored encoding of a change.
pub fn encode_change(change: &Change, out: &mut BytesMut) {
    let fields = match change {
        Change::QueueDeclared(q) => ListWriter::new(24)
            .number(q.id.0)
            .text(&q.vhost)
            .text(&q.name)
            .boolean(q.durable)
            .boolean(q.auto_delete)
            .arguments(&q.arguments)
            .optional_connection(q.exclusive)
            .number(q.declared)
            .members(&q.members),
        Change::QueueForgotten { queue } => ListWriter::new(2).number(queue.0),
        Change::ExchangeDeclared(e) => {
            let fields = ListWriter::new(if e.durable { 3 } else { 25 })
                .text(&e.vhost)
                .text(&e.name)
                .text(e.kind.as_str())
                .boolean(e.durable)
                .boolean(e.auto_delete)
                .boolean(e.internal)
                .arguments(&e.arguments);
            if e.durable { fields } else { fields.members(&e.nodes) }
        }
        Change::NodeStarted { node, origin } => ListWriter::new(26).number(u64::from(*node)).origin(*origin),
        Change::NodeJoined { node, known } => {
            ListWriter::new(27).number(u64::from(*node)).identity(&known.identity).text(&known.name)
        }
        Change::Asked { origin, low, numbers } => {
            ListWriter::new(28).origin(*origin).number(*low).numbers(numbers)
        }
        Change::ExchangeDeleted { vhost, name } => ListWriter::new(4).text(vhost).text(name),
        Change::Bound(binding) => ListWriter::new(5).binding(binding),
        Change::Unbound(binding) => ListWriter::new(6).binding(binding),
        Change::Incarnations { next } => ListWriter::new(23).number(*next),
        Change::PolicySet(p) => ListWriter::new(8)
            .text(&p.vhost)
            .text(&p.name)
            .boolean(p.operator)
            .text(p.pattern.as_str())
            .value(p.priority)
            .text(p.apply_to.as_str())
            .arguments(&p.definition),
        Change::PolicyCleared { vhost, name, operator } => {
            ListWriter::new(9).text(vhost).text(name).boolean(*operator)
        }
        Change::VhostAdded { name } => ListWriter::new(10).text(name),
        Change::VhostDeleted { name } => ListWriter::new(11).text(name),
        Change::UserSet { name, hash, tags } => ListWriter::new(12).text(name).hash(hash).texts(tags),
        Change::VhostSet { name, settings } => ListWriter::new(19).text(name).vhost_settings(settings),
        Change::UserLimitsSet { user, limits } => {
            ListWriter::new(20).text(user).maximum(limits.max_connections).maximum(limits.max_channels)
        }
        Change::ParameterSet { key, value } => ListWriter::new(21).parameter_key(key).text(value),
        Change::ParameterCleared { key } => ListWriter::new(22).parameter_key(key),
        Change::UserDeleted { name } => ListWriter::new(13).text(name),
        Change::PermissionsSet { user, vhost, permissions } => {
            ListWriter::new(14).text(user).text(vhost).permissions(permissions)
        }
        Change::PermissionsCleared { user, vhost } => ListWriter::new(15).text(user).text(vhost),
        Change::UsersBegun => ListWriter::new(16),
        Change::TopicPermissionsSet { user, vhost, exchange, permissions } => {
            ListWriter::new(17).topic_permissions(user, vhost, exchange, permissions)
        }
        Change::TopicPermissionsCleared { user, vhost, exchange } => {
            ListWriter::new(18).text(user).text(vhost).optional_text(exchange.as_deref())
        }
    };
    fields.put(out);
}

/// Decodes a stored change. Returns `None` if the bytes are not a change.
pub fn decode_change(stored: &[u8]) -> Option<Change> {
    let fields = ListReader::new(stored)?;
    let text = |at| fields.text(at);
    Some(match fields.number(0)? {
        kind @ (1 | 24) => {
            let is_whole = kind == 24;
            let (vhost, name) = (text(2)?, text(3)?);
            let (auto_delete, arguments) = (fields.boolean(5)?, fields.arguments(6)?);
            let (config, fsync) = queue_config(&vhost, &name, auto_delete, &arguments).ok()?;
            Change::QueueDeclared(Arc::new(QueueRecord {
                id: QueueId(fields.number(1)?),
                vhost,
                name,
                durable: fields.boolean(4)?,
                exclusive: if is_whole { fields.optional_connection(7)? } else { None },
                auto_delete,
                arguments,
                config: Arc::new(config),
                fsync,
                policy: None,
                operator_policy: None,
                declared: if is_whole { fields.number(8)? } else { 0 },
                members: if is_whole { fields.members(9)? } else { Members::default() },
            }))
        }
        2 => Change::QueueForgotten { queue: QueueId(fields.number(1)?) },
        number @ (3 | 25) => {
            let kind = ExchangeKind::parse(&text(3)?)?;
            let exchange = Exchange::new(text(1)?, text(2)?, kind, fields.arguments(7)?);
            let (durable, auto_delete, internal) =
                (fields.boolean(4)?, fields.boolean(5)?, fields.boolean(6)?);
            let nodes = if number == 25 { fields.members(8)? } else { Members::default() };
            Change::ExchangeDeclared(Arc::new(Exchange { durable, auto_delete, internal, nodes, ..exchange }))
        }
        4 => Change::ExchangeDeleted { vhost: text(1)?, name: text(2)? },
        5 => Change::Bound(Arc::new(fields.binding(1)?)),
        6 => Change::Unbound(Arc::new(fields.binding(1)?)),
        7 => Change::Incarnations {
            next: u64::from(u32::try_from(fields.number(1)?).ok()?) << OLD_INCARNATION_SHIFT,
        },
        23 => Change::Incarnations { next: fields.number(1)? },
        8 => Change::PolicySet(Arc::new(Policy {
            vhost: text(1)?,
            name: text(2)?,
            operator: fields.boolean(3)?,
            pattern: Pattern::new(&text(4)?).ok()?,
            priority: fields.signed(5)?,
            apply_to: ApplyTo::parse(&text(6)?)?,
            definition: fields.arguments(7)?,
        })),
        9 => Change::PolicyCleared { vhost: text(1)?, name: text(2)?, operator: fields.boolean(3)? },
        10 => Change::VhostAdded { name: text(1)? },
        11 => Change::VhostDeleted { name: text(1)? },
        12 => Change::UserSet { name: text(1)?, hash: fields.hash(2)?, tags: fields.texts(4)? },
        13 => Change::UserDeleted { name: text(1)? },
        14 => {
            let permissions = fields.permissions(3)?;
            Change::PermissionsSet { user: text(1)?, vhost: text(2)?, permissions }
        }
        15 => Change::PermissionsCleared { user: text(1)?, vhost: text(2)? },
        16 => Change::UsersBegun,
        17 => Change::TopicPermissionsSet {
            user: text(1)?,
            vhost: text(2)?,
            exchange: text(3)?,
            permissions: fields.topic_permissions(1)?,
        },
        19 => Change::VhostSet { name: text(1)?, settings: Arc::new(fields.vhost_settings(2)?) },
        20 => {
            let (max_connections, max_channels) = (fields.maximum(2)?, fields.maximum(3)?);
            Change::UserLimitsSet { user: text(1)?, limits: UserLimits { max_connections, max_channels } }
        }
        21 => Change::ParameterSet { key: fields.parameter_key(1)?, value: text(4)? },
        22 => Change::ParameterCleared { key: fields.parameter_key(1)? },
        26 => Change::NodeStarted { node: fields.number(1)?.try_into().ok()?, origin: fields.origin(2)? },
        27 => Change::NodeJoined {
            node: fields.number(1)?.try_into().ok()?,
            known: KnownNode { identity: fields.identity(2)?, name: text(3)? },
        },
        28 => Change::Asked {
            origin: fields.origin(1)?,
            low: fields.number(2)?,
            numbers: fields.numbers(3)?.into(),
        },
        18 => Change::TopicPermissionsCleared {
            user: text(1)?,
            vhost: text(2)?,
            exchange: fields.optional_text(3)?,
        },
        _ => return None,
    })
}
