//! Decides commands: whether a command is allowed, and which changes it makes.

mod batch;
mod exchanges;
mod policies;
mod users;

use std::sync::Arc;

use queue::QueueType;

pub use self::policies::SetPolicy;
pub use self::users::AccountChange;
use super::arguments::{ARGUMENTS_BYTES_MAX, ARGUMENTS_MAX, NAME_PREFIX, QUEUE_TYPE, known};
use super::error::CatalogError;
use super::{
    Arguments, At, Binding, Caller, Catalog, Change, Destination, Exchange, KnownNode, Mutation,
    ParameterKey, QueueIds, QueueRecord, RESERVED_PREFIX, queue_config,
};
use crate::access::Maximum;
use crate::ids::{ConnectionId, Members, NodeNumber, Origin, QueueId};

/// The maximum length of the name of a queue or an exchange in bytes, as in RabbitMQ.
const NAME_MAX: usize = 255;

/// A command to the catalog.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    DeclareQueue(DeclareQueue),
    /// Removes a queue whose machine has ended or has never existed.
    ForgetQueue {
        queue: QueueId,
    },
    DeclareExchange(DeclareExchange),
    DeleteExchange {
        vhost: Arc<str>,
        name: Arc<str>,
        if_unused: bool,
    },
    /// Makes a binding, for the caller.
    Bind(Binding, Caller),
    /// Removes a binding, for the caller.
    Unbind(Binding, Caller),
    SetPolicy(SetPolicy),
    /// Sets a parameter to a value in JSON.
    SetParameter {
        key: ParameterKey,
        value: Arc<str>,
    },
    ClearParameter {
        key: ParameterKey,
    },
    /// Carries out all of these, or none.
    Batch(Vec<Command>),
    ClearPolicy {
        vhost: Arc<str>,
        name: Arc<str>,
        operator: bool,
    },
    Account(AccountChange),
    /// A node joins the cluster.
    AdmitNode(KnownNode),
    /// A node of the cluster has started. What is not durable and belonged to its earlier starts ends.
    StartNode {
        node: NodeNumber,
        origin: Origin,
    },
    /// A node was out of sight for long. What is not durable and belongs to this start of it ends, as at a later start. Does nothing if a
    /// later start is known.
    LoseNode {
        node: NodeNumber,
        boot: u32,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct DeclareQueue {
    pub vhost: Arc<str>,
    pub name: Arc<str>,
    pub durable: bool,
    /// True if only the declaring connection may use the queue.
    pub exclusive: bool,
    pub auto_delete: bool,
    pub arguments: Arguments,
    /// The declaring connection, if there is one.
    pub connection: Option<ConnectionId>,
    /// True if the broker itself declares the queue. It may use reserved names.
    pub internal: bool,
}

impl DeclareQueue {
    /// Returns the usual declaration: durable, not exclusive, not auto-delete.
    pub fn new(vhost: impl Into<Arc<str>>, name: impl Into<Arc<str>>, arguments: Arguments) -> Self {
        Self {
            vhost: vhost.into(),
            name: name.into(),
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments,
            connection: None,
            internal: false,
        }
    }

    /// Returns the settings of the queue's machine, and whether every record is synced. Names the type, `default`, if the declaration
    /// names none and `default` can be the type of such a queue.
    ///
    /// # Errors
    /// [`CatalogError::PreconditionFailed`] names what a queue of this type cannot have.
    pub fn settings(&mut self, default: QueueType) -> Result<(queue::Config, bool), CatalogError> {
        let Self { vhost, name, durable, exclusive, auto_delete, arguments, .. } = self;
        let can_be_any = *durable && !*exclusive && !*auto_delete;
        if default != QueueType::Classic && can_be_any && !arguments.contains_key(QUEUE_TYPE) {
            arguments.insert(QUEUE_TYPE.to_owned(), default.name().into());
        }
        let (config, fsync) = queue_config(vhost, name, *auto_delete, arguments)?;
        let kind = config.queue_type();
        if kind != QueueType::Classic
            && let Some((what, _)) =
                [("non-durable", !*durable), ("exclusive", *exclusive), ("auto-delete", *auto_delete)]
                    .into_iter()
                    .find(|(_, is)| *is)
        {
            return Err(CatalogError::PreconditionFailed {
                reason: format!(
                    "invalid property '{what}' for queue '{name}' in vhost '{vhost}' of type {}",
                    kind.name()
                ),
            });
        }
        Ok((config, fsync))
    }

    /// Returns true if the declaration names the type of the queue.
    pub fn names_type(&self) -> bool {
        self.arguments.contains_key(QUEUE_TYPE)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct DeclareExchange {
    pub vhost: Arc<str>,
    pub name: Arc<str>,
    pub kind: String,
    pub durable: bool,
    pub auto_delete: bool,
    pub internal: bool,
    pub arguments: Arguments,
}

/// The result of a command that is allowed.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    pub changes: Vec<Change>,
    pub answer: Answer,
}

impl Decision {
    /// Notes in each declaration of a queue the index of the entry that will have it, and the node that has the queue. Notes in that of an
    /// exchange that is not durable the nodes with which it ends.
    pub(super) fn declare_at(&mut self, at: At, catalog: &Catalog) {
        let At { index, node } = at;
        for change in &mut self.changes {
            if let Change::ExchangeDeclared(exchange) = change
                && !exchange.durable
                && !catalog.nodes.is_empty()
            {
                let nodes: Vec<_> = catalog.nodes.keys().copied().collect();
                *exchange = Arc::new(Exchange { nodes: Members::new(&nodes), ..(**exchange).clone() });
            }
            let Change::QueueDeclared(record) = change else { continue };
            let members = Members::new(&[node]);
            let declared = Arc::new(QueueRecord { declared: index, members, ..(**record).clone() });
            if let Answer::Queue { record: answered, .. } = &mut self.answer
                && answered.id == record.id
            {
                *answered = declared.clone();
            }
            *record = declared;
        }
    }
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The queue was created, or it existed with the same properties.
    Queue {
        record: Arc<QueueRecord>,
        created: bool,
    },
    Done {
        changed: bool,
    },
    /// The policy, the user or the permissions were set. `created` is true if there were none of this name before.
    Set {
        created: bool,
    },
}

impl Catalog {
    /// Decides a command on the current state of the catalog. The caller applies the changes in their order. A new
    /// queue takes its id from `ids`.
    ///
    /// # Errors
    /// The reason for the refusal. Nothing changes then.
    pub fn decide(&self, command: Command, ids: &mut QueueIds) -> Result<Decision, CatalogError> {
        match command {
            Command::DeclareQueue(declare) => self.declare_queue(declare, ids),
            Command::ForgetQueue { queue } => Ok(self.forget_queue(queue)),
            Command::DeclareExchange(declare) => self.declare_exchange(declare),
            Command::DeleteExchange { vhost, name, if_unused } => {
                self.delete_exchange(&vhost, &name, if_unused)
            }
            Command::Bind(binding, caller) => self.bind(binding, caller),
            Command::Unbind(binding, caller) => self.unbind(binding, caller),
            Command::SetPolicy(set) => self.set_policy(set),
            Command::ClearPolicy { vhost, name, operator } => Ok(self.clear_policy(vhost, name, operator)),
            Command::Account(change) => self.change_account(change),
            Command::AdmitNode(known) => self.admit_node(known),
            Command::StartNode { node, origin } => Ok(self.decide_start(node, origin)),
            Command::LoseNode { node, boot } => Ok(self.decide_loss(node, boot)),
            Command::SetParameter { key, value } => self.set_parameter(key, value),
            Command::ClearParameter { key } => Ok(self.clear_parameter(key)),
            Command::Batch(commands) => self.decide_batch(commands, ids),
        }
    }

    fn declare_queue(&self, mut declare: DeclareQueue, ids: &mut QueueIds) -> Result<Decision, CatalogError> {
        check_name("queue", &declare.name)?;
        check_count(declare.arguments.keys().filter(|name| *name != QUEUE_TYPE).count())?;
        self.check_vhost(&declare.vhost)?;
        declare.arguments.remove(NAME_PREFIX);
        let DeclareQueue {
            ref vhost, ref name, durable, exclusive, auto_delete, connection, internal, ..
        } = declare;
        let arguments = &declare.arguments;
        if let Some(existing) = self.listed_queue(vhost, name) {
            let is_relaxed = self.rules.relaxed_redeclaration && existing.config.quorum.is_some();
            let owner = connection.filter(|_| exclusive);
            if !is_relaxed {
                existing.check_owner(owner)?;
            }
            let differs = |what: &str, got: String, current: String| CatalogError::Inequivalent {
                reason: format!(
                    "inequivalent arg '{what}' for queue '{name}' in vhost '{vhost}': received {got} but \
                     current is {current}"
                ),
            };
            if existing.durable != durable && !is_relaxed {
                return Err(differs("durable", quoted(durable), quoted(existing.durable)));
            }
            if existing.auto_delete != auto_delete && !is_relaxed {
                return Err(differs("auto_delete", quoted(auto_delete), quoted(existing.auto_delete)));
            }
            let skips_type =
                is_relaxed || !arguments.contains_key(QUEUE_TYPE) && self.is_default_type(&existing);
            // The type comes first: if it differs, other arguments may differ as a consequence.
            let compared = std::iter::once(QUEUE_TYPE).chain(known());
            let compared = compared.filter(|key| !(skips_type && *key == QUEUE_TYPE));
            if let Some((key, got, current)) = difference(compared, arguments, &existing.arguments) {
                return Err(differs(key, got, current));
            }
            return Ok(Decision {
                changes: Vec::new(),
                answer: Answer::Queue { record: existing.clone(), created: false },
            });
        }
        if name.starts_with(RESERVED_PREFIX) && !internal {
            return Err(CatalogError::Forbidden {
                reason: format!("queue name '{name}' contains reserved prefix '{RESERVED_PREFIX}*'"),
            });
        }
        if !durable && !exclusive && !self.rules.permit_transient {
            return Err(CatalogError::Denied {
                reason: format!(
                    "queue '{name}' in vhost '{vhost}' is neither durable nor exclusive: Feature \
                     `transient_nonexcl_queues` is deprecated, and the setting \
                     deprecated_features.permit.transient_nonexcl_queues denies it"
                ),
            });
        }
        self.check_queue_limits(vhost, name)?;
        check_memory(arguments)?;
        let (config, fsync) = declare.settings(self.default_type(&declare.vhost))?;
        let DeclareQueue { vhost, name, arguments, .. } = declare;
        let mut id = ids.take().map_err(|why| CatalogError::LimitReached {
            reason: format!("cannot declare queue '{name}' in vhost '{vhost}': {why}"),
        })?;
        if self.has(Mutation::ReuseIncarnation) {
            id = QueueId::new((id.incarnation() - 1).max(1), id.slot() as u32);
        }
        let record = Arc::new(QueueRecord {
            id,
            vhost,
            name,
            durable,
            exclusive: if exclusive { connection } else { None },
            auto_delete,
            arguments,
            config: Arc::new(config),
            fsync,
            policy: None,
            operator_policy: None,
            declared: 0,
            members: Members::default(),
        });
        Ok(Decision {
            changes: vec![Change::QueueDeclared(record.clone())],
            answer: Answer::Queue { record, created: true },
        })
    }

    /// Returns true if the queue has the type that a new one would get if its declaration named none.
    fn is_default_type(&self, known: &QueueRecord) -> bool {
        known.config.queue_type() == self.default_type(&known.vhost)
    }

    /// Returns the type of a new queue whose declaration names none.
    pub fn default_type(&self, vhost: &str) -> QueueType {
        let own = self.vhost_settings(vhost).and_then(|settings| settings.default_queue_type);
        own.unwrap_or(self.rules.default_type)
    }

    fn check_queue_limits(&self, vhost: &str, name: &str) -> Result<(), CatalogError> {
        let refuse = |where_to: &str, max: u32| {
            let reason =
                format!("cannot declare queue '{name}': queue limit in {where_to} ({max}) is reached");
            Err(CatalogError::LimitReached { reason })
        };
        let reached = |count: usize, max: Maximum| max.filter(|max| count >= *max as usize);
        if let Some(known) = self.vhosts.get(vhost)
            && let Some(max) = reached(known.queues.len(), known.settings.max_queues)
        {
            return refuse(&format!("vhost '{vhost}'"), max);
        }
        reached(self.queue_count(), self.rules.queues_max).map_or(Ok(()), |max| refuse("cluster", max))
    }

    /// The bindings are removed first, so that no change refers to a queue that does not exist.
    fn forget_queue(&self, queue: QueueId) -> Decision {
        let Some(record) = self.queue_by_id(queue) else {
            return Decision { changes: Vec::new(), answer: Answer::Done { changed: false } };
        };
        let mut changes = self.unbind_all(&record.vhost, &Destination::Queue(record.name.clone()));
        changes.push(Change::QueueForgotten { queue });
        Decision { changes, answer: Answer::Done { changed: true } }
    }

    fn check_vhost(&self, vhost: &str) -> Result<(), CatalogError> {
        if self.has_vhost(vhost) {
            return Ok(());
        }
        Err(CatalogError::NotFound { reason: format!("no vhost '{vhost}'") })
    }
}

/// Returns the first of these arguments that differs between a declaration and what exists, and both values as RabbitMQ shows
/// them.
fn difference<'k>(
    mut keys: impl Iterator<Item = &'k str>,
    got: &Arguments,
    current: &Arguments,
) -> Option<(&'k str, String, String)> {
    keys.find_map(|key| {
        let (got, current) = (got.get(key), current.get(key));
        let differs = got != current && !same_argument(key, got, current);
        differs.then(|| (key, shown(key, got, current), shown(key, current, got)))
    })
}

/// Returns true if two values mean the same. `x-queue-type: classic` is the same as no type.
fn same_argument(key: &str, old: Option<&amqp10::Value>, new: Option<&amqp10::Value>) -> bool {
    // As in RabbitMQ, the width of a number does not count.
    let number = |v: Option<&amqp10::Value>| {
        v.and_then(|v| v.as_i64().map_or(v.as_u64().map(i128::from), |n| Some(n.into())))
    };
    let classic = |v: Option<&amqp10::Value>| v.is_none_or(|v| v.as_str() == Some("classic"));
    let text = |v: Option<&amqp10::Value>| v.and_then(amqp10::Value::as_str).map(str::to_owned);
    (key == QUEUE_TYPE && classic(old) && classic(new))
        || (number(old).is_some() && number(old) == number(new))
        || (text(old).is_some() && text(old) == text(new))
}

fn quoted(value: impl std::fmt::Display) -> String {
    format!("'{value}'")
}

/// Formats an argument for an error message, as RabbitMQ does. `other` is the argument that it differs from. If both have the
/// same text, their types tell them apart. A queue without a declared type is shown as classic.
fn shown(key: &str, value: Option<&amqp10::Value>, other: Option<&amqp10::Value>) -> String {
    let Some(value) = value else {
        return if key == QUEUE_TYPE { quoted("classic") } else { "none".into() };
    };
    let text = text_of(value);
    match other {
        None if key != QUEUE_TYPE => format!("the value '{text}' of type '{}'", type_name(value)),
        Some(other) if text_of(other) == text => quoted(format_args!("{} {text}", type_name(value))),
        _ => quoted(text),
    }
}

fn text_of(value: &amqp10::Value) -> String {
    use amqp10::Value;
    match (value, value.as_str(), value.as_u64(), value.as_i64()) {
        (Value::Boolean(v), ..) => v.to_string(),
        (_, Some(text), ..) => text.to_owned(),
        (_, _, Some(number), _) => number.to_string(),
        (.., Some(number)) => number.to_string(),
        _ => value.to_string(),
    }
}

/// Returns RabbitMQ's name of a value's type.
fn type_name(value: &amqp10::Value) -> &'static str {
    use amqp10::Value;
    match value {
        Value::Null => "void",
        Value::Boolean(_) => "bool",
        Value::Byte(_) => "byte",
        Value::Ubyte(_) => "unsignedbyte",
        Value::Short(_) => "short",
        Value::Ushort(_) => "unsignedshort",
        Value::Int(_) => "signedint",
        Value::Uint(_) => "unsignedint",
        Value::Long(_) | Value::Ulong(_) => "long",
        Value::Float(_) => "float",
        Value::Double(_) => "double",
        Value::Timestamp(_) => "timestamp",
        Value::Binary(_) => "binary",
        Value::Map(_) => "table",
        Value::List(_) | Value::Array(_) => "array",
        _ => "longstr",
    }
}

fn check_text(what: &str, text: &str) -> Result<(), CatalogError> {
    if text.len() > NAME_MAX {
        return Err(CatalogError::Invalid { reason: format!("{what} is longer than {NAME_MAX} bytes") });
    }
    if text.contains(['\r', '\n']) {
        return Err(CatalogError::Invalid {
            reason: format!("{what} '{}' contains a line break", text.escape_default()),
        });
    }
    Ok(())
}

fn check_name(what: &str, name: &str) -> Result<(), CatalogError> {
    if name.is_empty() {
        return Err(CatalogError::Invalid { reason: format!("{what} name is empty") });
    }
    // A program written in C would cut the name off at the NUL.
    if name.contains('\0') {
        return Err(CatalogError::Invalid {
            reason: format!("{what} name '{}' contains NUL", name.escape_default()),
        });
    }
    check_text(&format!("{what} name"), name)
}

fn check_not_default(exchange: &str) -> Result<(), CatalogError> {
    if exchange.is_empty() || exchange == crate::access::DEFAULT_EXCHANGE_ALIAS {
        return Err(CatalogError::Forbidden {
            reason: "operation not permitted on the default exchange".into(),
        });
    }
    Ok(())
}

fn check_arguments(arguments: &Arguments) -> Result<(), CatalogError> {
    check_count(arguments.len())
}

/// Checks the size of the arguments of something new. What exists may have larger ones, from an older version.
fn check_memory(arguments: &Arguments) -> Result<(), CatalogError> {
    if arguments.heap_bytes() > ARGUMENTS_BYTES_MAX {
        let reason = format!("the arguments take more than {ARGUMENTS_BYTES_MAX} bytes of memory");
        return Err(CatalogError::Invalid { reason });
    }
    Ok(())
}

/// Checks the number of arguments. Of a queue, the type does not count: a virtual host may add it, and definitions always name it.
fn check_count(count: usize) -> Result<(), CatalogError> {
    if count > ARGUMENTS_MAX {
        return Err(CatalogError::Invalid { reason: format!("more than {ARGUMENTS_MAX} arguments") });
    }
    Ok(())
}
