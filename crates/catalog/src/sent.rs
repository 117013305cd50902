//! The encoding of a command for the deciding shard: one AMQP list whose first item is the number of the kind.
//!
//! ```text
//! list [ kind ubyte, fields ... ]
//!   1 declare queue     vhost, name, durable, exclusive, auto-delete, arguments, connection ulong or null, internal
//!   2 forget queue      id
//!   3 declare exchange  vhost, name, type, durable, auto-delete, internal, arguments
//!   4 delete exchange   vhost, name, if-unused
//!   5 bind              vhost, source, destination, to-exchange, key, arguments, connection ulong or null
//!   6 unbind            the same
//!   7 set policy        vhost, name, operator, pattern, priority long, apply-to, definition
//!   8 clear policy      vhost, name, operator
//!   9 set vhost         name, description, tags list, default queue type, protected, max-connections long,
//!                       max-queues long, creator; each may be null
//!  10 delete vhost      name
//!  11 set user          name, algorithm, hash binary, tags list
//!  12 delete user       name
//!  13 set permissions   user, vhost, configure, write, read
//!  14 clear permissions user, vhost
//!  17 close vhost       name
//!  19 batch             list of binaries, each a command
//!  20 set parameter     vhost or null, component, name, value
//!  21 clear parameter   vhost or null, component, name
//!  22 renew hash        user, algorithm, hash binary, algorithm, hash binary
//!  18 set user limits   user, max-connections long, max-channels long; each may be null
//!  15 set topic permissions    user, vhost, exchange, write, read
//!  16 clear topic permissions  user, vhost, exchange or null
//!  26 admit node        identity binary, name
//!  27 start node        node, [node uint, boot uint]
//! ```
//!
//! Decoding does not validate a command: [`super::Catalog::decide`] checks every command.

use amqp10::Value;
use bytes::BytesMut;

use super::fields::{ListReader, ListWriter};
use super::{AccountChange, Caller, Command, DeclareExchange, DeclareQueue, KnownNode, SetPolicy};
use crate::ids::{ConnectionId, QueueId};

/// Appends the encoding of a command.
pub fn encode_command(command: &Command, out: &mut BytesMut) {
    let fields = match command {
        Command::DeclareQueue(declare) => ListWriter::new(1)
            .text(&declare.vhost)
            .text(&declare.name)
            .boolean(declare.durable)
            .boolean(declare.exclusive)
            .boolean(declare.auto_delete)
            .arguments(&declare.arguments)
            .optional_connection(declare.connection)
            .boolean(declare.internal),
        Command::ForgetQueue { queue } => ListWriter::new(2).number(queue.0),
        Command::DeclareExchange(declare) => ListWriter::new(3)
            .text(&declare.vhost)
            .text(&declare.name)
            .text(&declare.kind)
            .boolean(declare.durable)
            .boolean(declare.auto_delete)
            .boolean(declare.internal)
            .arguments(&declare.arguments),
        Command::DeleteExchange { vhost, name, if_unused } => {
            ListWriter::new(4).text(vhost).text(name).boolean(*if_unused)
        }
        Command::Bind(binding, caller) => {
            ListWriter::new(5).binding(binding).optional_connection(connection_of(*caller))
        }
        Command::Unbind(binding, caller) => {
            ListWriter::new(6).binding(binding).optional_connection(connection_of(*caller))
        }
        Command::SetPolicy(set) => ListWriter::new(7)
            .text(&set.vhost)
            .text(&set.name)
            .boolean(set.operator)
            .text(&set.pattern)
            .value(set.priority)
            .text(&set.apply_to)
            .arguments(&set.definition),
        Command::ClearPolicy { vhost, name, operator } => {
            ListWriter::new(8).text(vhost).text(name).boolean(*operator)
        }
        Command::Account(AccountChange::SetVhost { name, patch, creator }) => {
            ListWriter::new(9).text(name).vhost_patch(patch).optional_text(creator.as_deref())
        }
        Command::Account(AccountChange::PatchVhost { name, patch }) => {
            ListWriter::new(23).text(name).vhost_patch(patch)
        }
        Command::Account(AccountChange::CloseVhost { name }) => ListWriter::new(17).text(name),
        Command::Account(AccountChange::SetUserLimits { user, max_connections, max_channels }) => {
            ListWriter::new(18).text(user).optional_maximum(*max_connections).optional_maximum(*max_channels)
        }
        Command::Account(AccountChange::DeleteVhost { name }) => ListWriter::new(10).text(name),
        Command::Account(AccountChange::SetUser { name, hash, tags }) => {
            ListWriter::new(11).text(name).hash(hash).texts(tags)
        }
        Command::Account(AccountChange::AddUser { name, hash, tags }) => {
            ListWriter::new(24).text(name).hash(hash).texts(tags)
        }
        Command::Account(AccountChange::PatchUser { name, hash, tags }) => {
            ListWriter::new(25).text(name).optional_hash(hash.as_ref()).optional_texts(tags.as_deref())
        }
        Command::Account(AccountChange::RenewHash { user, outdated, hash }) => {
            ListWriter::new(22).text(user).hash(outdated).hash(hash)
        }
        Command::Account(AccountChange::DeleteUser { name }) => ListWriter::new(12).text(name),
        Command::Account(AccountChange::SetPermissions { user, vhost, permissions }) => {
            ListWriter::new(13).text(user).text(vhost).permissions(permissions)
        }
        Command::Account(AccountChange::ClearPermissions { user, vhost }) => {
            ListWriter::new(14).text(user).text(vhost)
        }
        Command::Account(AccountChange::SetTopicPermissions { user, vhost, exchange, permissions }) => {
            ListWriter::new(15).topic_permissions(user, vhost, exchange, permissions)
        }
        Command::Account(AccountChange::ClearTopicPermissions { user, vhost, exchange }) => {
            ListWriter::new(16).text(user).text(vhost).optional_text(exchange.as_deref())
        }
        Command::Batch(commands) => {
            let encoded = commands.iter().map(|command| {
                let mut bytes = BytesMut::new();
                encode_command(command, &mut bytes);
                Value::Binary(bytes.freeze())
            });
            ListWriter::new(19).value(Value::List(encoded.collect()))
        }
        Command::AdmitNode(known) => ListWriter::new(26).identity(&known.identity).text(&known.name),
        Command::StartNode { node, origin } => ListWriter::new(27).number(u64::from(*node)).origin(*origin),
        Command::LoseNode { node, boot } => {
            ListWriter::new(28).number(u64::from(*node)).number(u64::from(*boot))
        }
        Command::SetParameter { key, value } => ListWriter::new(20).parameter_key(key).text(value),
        Command::ClearParameter { key } => ListWriter::new(21).parameter_key(key),
    };
    fields.put(out);
}

/// Decodes a command. Returns `None` if the bytes are not a command.
pub fn decode_command(sent: &[u8]) -> Option<Command> {
    decode_nested(sent, true)
}

/// Decodes a command. A batch is decoded only at the top, so that no bytes nest deeply.
fn decode_nested(sent: &[u8], is_top: bool) -> Option<Command> {
    let fields = ListReader::new(sent)?;
    let text = |at| fields.text(at);
    let boolean = |at| fields.boolean(at);
    Some(match fields.number(0)? {
        1 => Command::DeclareQueue(DeclareQueue {
            vhost: text(1)?,
            name: text(2)?,
            durable: boolean(3)?,
            exclusive: boolean(4)?,
            auto_delete: boolean(5)?,
            arguments: fields.arguments(6)?,
            connection: fields.optional_connection(7)?,
            internal: boolean(8)?,
        }),
        2 => Command::ForgetQueue { queue: QueueId(fields.number(1)?) },
        3 => Command::DeclareExchange(DeclareExchange {
            vhost: text(1)?,
            name: text(2)?,
            kind: text(3)?.as_ref().into(),
            durable: boolean(4)?,
            auto_delete: boolean(5)?,
            internal: boolean(6)?,
            arguments: fields.arguments(7)?,
        }),
        4 => Command::DeleteExchange { vhost: text(1)?, name: text(2)?, if_unused: boolean(3)? },
        5 => Command::Bind(fields.binding(1)?, caller_of(fields.optional_connection(7)?)),
        6 => Command::Unbind(fields.binding(1)?, caller_of(fields.optional_connection(7)?)),
        7 => Command::SetPolicy(SetPolicy {
            vhost: text(1)?,
            name: text(2)?,
            operator: boolean(3)?,
            pattern: text(4)?.as_ref().into(),
            priority: fields.signed(5)?,
            apply_to: text(6)?.as_ref().into(),
            definition: fields.arguments(7)?,
        }),
        8 => Command::ClearPolicy { vhost: text(1)?, name: text(2)?, operator: boolean(3)? },
        9 => Command::Account(AccountChange::SetVhost {
            name: text(1)?,
            patch: fields.vhost_patch(2)?,
            creator: fields.optional_text(8)?,
        }),
        10 => Command::Account(AccountChange::DeleteVhost { name: text(1)? }),
        11 => Command::Account(AccountChange::SetUser {
            name: text(1)?,
            hash: fields.hash(2)?,
            tags: fields.texts(4)?,
        }),
        12 => Command::Account(AccountChange::DeleteUser { name: text(1)? }),
        13 => {
            let permissions = fields.permissions(3)?;
            Command::Account(AccountChange::SetPermissions { user: text(1)?, vhost: text(2)?, permissions })
        }
        14 => Command::Account(AccountChange::ClearPermissions { user: text(1)?, vhost: text(2)? }),
        15 => Command::Account(AccountChange::SetTopicPermissions {
            user: text(1)?,
            vhost: text(2)?,
            exchange: text(3)?,
            permissions: fields.topic_permissions(1)?,
        }),
        19 if is_top => {
            let commands = fields.value(1)?.as_list()?.iter().map(|command| match command {
                Value::Binary(command) => decode_nested(command, false),
                _ => None,
            });
            Command::Batch(commands.collect::<Option<_>>()?)
        }
        23 => Command::Account(AccountChange::PatchVhost { name: text(1)?, patch: fields.vhost_patch(2)? }),
        20 => Command::SetParameter { key: fields.parameter_key(1)?, value: text(4)? },
        21 => Command::ClearParameter { key: fields.parameter_key(1)? },
        24 => Command::Account(AccountChange::AddUser {
            name: text(1)?,
            hash: fields.hash(2)?,
            tags: fields.texts(4)?,
        }),
        25 => Command::Account(AccountChange::PatchUser {
            name: text(1)?,
            hash: fields.optional_hash(2)?,
            tags: fields.optional_texts(4)?,
        }),
        26 => Command::AdmitNode(KnownNode { identity: fields.identity(1)?, name: text(2)? }),
        27 => Command::StartNode { node: fields.number(1)?.try_into().ok()?, origin: fields.origin(2)? },
        28 => Command::LoseNode {
            node: fields.number(1)?.try_into().ok()?,
            boot: fields.number(2)?.try_into().ok()?,
        },
        22 => Command::Account(AccountChange::RenewHash {
            user: text(1)?,
            outdated: fields.hash(2)?,
            hash: fields.hash(4)?,
        }),
        17 => Command::Account(AccountChange::CloseVhost { name: text(1)? }),
        18 => Command::Account(AccountChange::SetUserLimits {
            user: text(1)?,
            max_connections: fields.optional_maximum(2)?,
            max_channels: fields.optional_maximum(3)?,
        }),
        16 => Command::Account(AccountChange::ClearTopicPermissions {
            user: text(1)?,
            vhost: text(2)?,
            exchange: fields.optional_text(3)?,
        }),
        _ => return None,
    })
}

/// Returns the connection of a caller. Management has none.
fn connection_of(caller: Caller) -> Option<ConnectionId> {
    match caller {
        Caller::Connection(connection) => Some(connection),
        Caller::Management => None,
    }
}

fn caller_of(connection: Option<ConnectionId>) -> Caller {
    connection.map_or(Caller::Management, Caller::Connection)
}

#[cfg(test)]
mod tests {
    use amqp10::encode;
    use proptest::prelude::*;
    use std::sync::Arc;

    use super::*;
    use queue::QueueType;

    use super::super::{ParameterKey, VhostPatch};
    use crate::access::{Hashing, Permissions, TopicPermissions};
    use crate::ids::{NodeId, Origin};
    use crate::pattern::Pattern;
    use crate::{Arguments, Binding, Destination, KnownNode};

    fn value() -> impl Strategy<Value = Value> {
        let plain = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Boolean),
            any::<u8>().prop_map(Value::Ubyte),
            any::<u64>().prop_map(Value::Ulong),
            any::<i32>().prop_map(Value::Int),
            any::<i64>().prop_map(Value::Long),
            any::<f64>().prop_map(Value::Double),
            ".{0,8}".prop_map(Value::String),
        ];
        plain.prop_recursive(2, 8, 3, |inner| prop::collection::vec(inner, 0..3).prop_map(Value::List))
    }

    fn connection() -> impl Strategy<Value = ConnectionId> {
        any::<(u32, u32, u64)>().prop_map(|(node, boot, number)| ConnectionId {
            origin: Origin { node: NodeId(node), boot },
            number,
        })
    }

    fn command() -> impl Strategy<Value = Command> {
        let arguments = || {
            prop::collection::btree_map(".{0,12}", value(), 0..4)
                .prop_map(|map| map.into_iter().collect::<Arguments>())
        };
        let flags = any::<[bool; 4]>;
        let names = || (".{0,8}", ".{0,8}", ".{0,8}");
        let binding = (names(), ".{0,8}", arguments(), any::<bool>()).prop_map(
            |((vhost, source, to), key, arguments, to_exchange)| {
                let to = to.into();
                let destination =
                    if to_exchange { Destination::Exchange(to) } else { Destination::Queue(to) };
                Binding {
                    vhost: vhost.into(),
                    source: source.into(),
                    destination,
                    key: key.into(),
                    arguments,
                }
            },
        );
        let reach =
            |everything| if everything { Pattern::Everything } else { Pattern::new("^(?!a)").unwrap() };
        prop_oneof![
            (names(), flags(), arguments(), prop::option::of(connection())).prop_map(
                |((vhost, name, _), [durable, exclusive, auto_delete, internal], arguments, connection)| {
                    let declare = DeclareQueue::new(vhost, name, arguments);
                    Command::DeclareQueue(DeclareQueue {
                        durable,
                        exclusive,
                        auto_delete,
                        connection,
                        internal,
                        ..declare
                    })
                }
            ),
            any::<u64>().prop_map(|id| Command::ForgetQueue { queue: QueueId(id) }),
            (any::<[u8; 16]>(), ".{0,8}")
                .prop_map(|(identity, name)| Command::AdmitNode(KnownNode { identity, name: name.into() })),
            any::<[u32; 3]>().prop_map(|[number, node, boot]| Command::StartNode {
                node: number,
                origin: Origin { node: NodeId(node), boot },
            }),
            any::<[u32; 2]>().prop_map(|[node, boot]| Command::LoseNode { node, boot }),
            (names(), flags(), arguments()).prop_map(
                |((vhost, name, kind), [durable, auto_delete, internal, _], arguments)| {
                    let (vhost, name) = (vhost.into(), name.into());
                    Command::DeclareExchange(DeclareExchange {
                        vhost,
                        name,
                        kind,
                        durable,
                        auto_delete,
                        internal,
                        arguments,
                    })
                }
            ),
            (names(), any::<bool>()).prop_map(|((vhost, name, _), if_unused)| Command::DeleteExchange {
                vhost: vhost.into(),
                name: name.into(),
                if_unused
            }),
            (binding, any::<bool>(), prop::option::of(connection())).prop_map(
                |(binding, goes, connection)| {
                    let caller = connection.map_or(Caller::Management, Caller::Connection);
                    if goes { Command::Unbind(binding, caller) } else { Command::Bind(binding, caller) }
                }
            ),
            (names(), ".{0,8}", any::<bool>(), any::<i64>(), arguments()).prop_map(
                |((vhost, name, pattern), apply_to, operator, priority, definition)| {
                    let (vhost, name) = (vhost.into(), name.into());
                    Command::SetPolicy(SetPolicy {
                        vhost,
                        name,
                        operator,
                        pattern,
                        priority,
                        apply_to,
                        definition,
                    })
                }
            ),
            (names(), any::<bool>()).prop_map(|((vhost, name, _), operator)| Command::ClearPolicy {
                vhost: vhost.into(),
                name: name.into(),
                operator
            }),
            (names(), any::<Option<bool>>(), any::<[Option<Option<u32>>; 2]>()).prop_map(
                |((name, text, tag), protected, [max_connections, max_queues])| {
                    let creator = max_queues.map(|_| text.as_str().into());
                    let patch = VhostPatch {
                        description: protected.map(|_| text.into()),
                        tags: max_queues.map(|_| [tag].into()),
                        default_queue_type: protected.map(|is| is.then_some(QueueType::Quorum)),
                        protected,
                        max_connections,
                        max_queues,
                    };
                    Command::Account(match creator.is_some() && protected.is_none() {
                        true => AccountChange::PatchVhost { name: name.into(), patch },
                        false => AccountChange::SetVhost { name: name.into(), patch, creator },
                    })
                }
            ),
            (names(), any::<[bool; 3]>()).prop_map(|((vhost, component, name), [global, sets, batch])| {
                let vhost = (!global).then(|| vhost.into());
                let key = ParameterKey { vhost, component: component.into(), name: name.as_str().into() };
                let command = match sets {
                    true => Command::SetParameter { key, value: name.into() },
                    false => Command::ClearParameter { key },
                };
                if batch { Command::Batch(vec![command.clone(), command]) } else { command }
            }),
            ".{0,8}".prop_map(|name| Command::Account(AccountChange::CloseVhost { name: name.into() })),
            (".{0,8}", any::<[Option<Option<u32>>; 2]>()).prop_map(
                |(user, [max_connections, max_channels])| {
                    let user = user.into();
                    Command::Account(AccountChange::SetUserLimits { user, max_connections, max_channels })
                }
            ),
            ".{0,8}".prop_map(|name| Command::Account(AccountChange::DeleteVhost { name: name.into() })),
            (".{0,8}", any::<[u8; 16]>(), prop::collection::vec(".{0,8}", 0..3)).prop_map(
                |(name, salt, tags)| {
                    let hash = Hashing::Sha256.hash(salt, &amqp10::sasl::Secret::new(name.clone()));
                    Command::Account(AccountChange::SetUser { name: name.into(), hash, tags: tags.into() })
                }
            ),
            (".{0,8}", any::<[u8; 16]>()).prop_map(|(user, salt)| {
                let of = |hashing: Hashing| hashing.hash(salt, &amqp10::sasl::Secret::new(user.clone()));
                let (outdated, hash) = (of(Hashing::Md5), of(Hashing::Sha512));
                Command::Account(AccountChange::RenewHash { user: user.into(), outdated, hash })
            }),
            (".{0,8}", any::<[bool; 3]>()).prop_map(|(name, [is_new, has_hash, has_tags])| {
                let hash = Hashing::Sha256.hash([1; 16], &amqp10::sasl::Secret::new(name.clone()));
                let (name, tags): (Arc<str>, Arc<[String]>) = (name.as_str().into(), [name.clone()].into());
                Command::Account(match is_new {
                    true => AccountChange::AddUser { name, hash, tags },
                    false => {
                        let (hash, tags) = (has_hash.then_some(hash), has_tags.then_some(tags));
                        AccountChange::PatchUser { name, hash, tags }
                    }
                })
            }),
            ".{0,8}".prop_map(|name| Command::Account(AccountChange::DeleteUser { name: name.into() })),
            (names(), flags()).prop_map(move |((user, vhost, _), [configure, write, read, _])| {
                let permissions =
                    Permissions { configure: reach(configure), write: reach(write), read: reach(read) };
                Command::Account(AccountChange::SetPermissions {
                    user: user.into(),
                    vhost: vhost.into(),
                    permissions,
                })
            }),
            names().prop_map(|(user, vhost, _)| Command::Account(AccountChange::ClearPermissions {
                user: user.into(),
                vhost: vhost.into()
            })),
            (names(), any::<bool>()).prop_map(|((user, vhost, exchange), sets)| {
                let (user, vhost): (Arc<str>, Arc<str>) = (user.into(), vhost.into());
                let exchange: Arc<str> = exchange.into();
                let permissions = TopicPermissions::new(["^{username}", "{vhost}"], &user, &vhost).unwrap();
                Command::Account(match sets {
                    true => AccountChange::SetTopicPermissions { user, vhost, exchange, permissions },
                    false => {
                        let exchange = (!exchange.is_empty()).then_some(exchange);
                        AccountChange::ClearTopicPermissions { user, vhost, exchange }
                    }
                })
            }),
        ]
    }

    proptest! {
        #[test]
        fn encoded_commands_decode_to_the_same(command in command()) {
            let mut bytes = BytesMut::new();
            encode_command(&command, &mut bytes);
            prop_assert_eq!(decode_command(&bytes), Some(command));
        }

        /// Tests bytes that include truncated commands and commands with one changed byte.
        #[test]
        fn no_bytes_break_the_decoder(
            command in command(),
            any_bytes in prop::collection::vec(any::<u8>(), 0..64),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let _ = decode_command(&any_bytes);
            let mut bytes = BytesMut::new();
            encode_command(&command, &mut bytes);
            let at = at.index(bytes.len());
            prop_assert_eq!(decode_command(&bytes[..at]), None);
            prop_assert_eq!(decode_command(&[&bytes[..], &[byte]].concat()), None);
            bytes[at] = byte;
            let _ = decode_command(&bytes);
        }

        /// Tests lists whose items are of any type.
        #[test]
        fn no_list_breaks_the_decoder(kind in 0..29_u8, mut items in prop::collection::vec(value(), 0..9)) {
            items.insert(0, Value::Ubyte(kind));
            let mut bytes = BytesMut::new();
            encode::put_value(&mut bytes, &Value::List(items));
            let _ = decode_command(&bytes);
        }
    }
}
