//! The fields of request bodies, for the OpenAPI document. A test sends a wrong value for each of them, and expects that the
//! handler refuses it by its name. So a field that no handler reads cannot be described.

use broker::admin_api::MemberChange;
use serde_json::{Map, Value, json};

use crate::routes::Action;

/// A field of a request's body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub name: &'static str,
    pub kind: Kind,
    pub required: bool,
    /// A valid value, in JSON.
    pub example: &'static str,
    pub about: &'static str,
}

/// What a field may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Flag,
    Whole,
    Table,
    List,
    /// A list of texts, or text with commas.
    Tags,
    /// Any JSON.
    Any,
}

impl Field {
    const fn new(name: &'static str, kind: Kind, example: &'static str, about: &'static str) -> Self {
        Self { name, kind, required: false, example, about }
    }

    const fn required(self) -> Self {
        Self { required: true, ..self }
    }

    /// Returns the field's schema in OpenAPI.
    fn schema(&self) -> Value {
        let mut schema = match self.kind {
            Kind::Text => json!({ "type": "string" }),
            Kind::Flag => json!({ "type": "boolean" }),
            Kind::Whole => json!({ "type": "integer" }),
            Kind::Table => json!({ "type": "object" }),
            Kind::List => json!({ "type": "array", "items": { "type": "object" } }),
            Kind::Tags => json!({ "type": ["array", "string"], "items": { "type": "string" } }),
            Kind::Any => json!({}),
        };
        schema["description"] = self.about.into();
        schema["examples"] = json!([self.example_value()]);
        schema
    }

    /// Returns the example. It is null if the text is not JSON, which a test rules out.
    pub(crate) fn example_value(&self) -> Value {
        serde_json::from_str(self.example).unwrap_or(Value::Null)
    }
}

/// Returns the schema of a body with these fields.
pub(crate) fn schema(fields: &[Field]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|field| (field.name.to_owned(), field.schema())).collect();
    let required: Vec<&str> = fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

/// Returns the fields that the handler of an action reads. Some routes take a body and read nothing of it.
pub(crate) const fn fields(action: Action) -> &'static [Field] {
    match action {
        Action::PutVhost => VHOST,
        Action::PutUser => USER,
        Action::PatchUser => CHANGED_USER,
        Action::DeleteUsers => USERS,
        Action::HashPassword => PASSWORD,
        Action::PutPermissions => PERMISSIONS,
        Action::PutTopicPermissions => TOPIC_PERMISSIONS,
        Action::PutParameter | Action::PutGlobalParameter => PARAMETER,
        Action::NameCluster => CLUSTER,
        Action::SetSetting => SETTING,
        Action::PutVhostLimit | Action::PutUserLimit => LIMIT,
        Action::PutQueue => QUEUE,
        Action::PutExchange => EXCHANGE,
        Action::Bind(_) => BINDING,
        Action::PutPolicy(_) => POLICY,
        Action::Publish => PUBLISH,
        Action::GetMessages => GET,
        Action::Move => MOVE,
        Action::Redrive => REDRIVE,
        Action::ChangeMember(MemberChange::Add | MemberChange::Remove | MemberChange::Lead) => MEMBER,
        Action::PostDefinitions => DEFINITIONS,
        Action::PostDefinitionsOfVhost => DEFINITIONS_OF_VHOST,
        _ => &[],
    }
}

const fn text(name: &'static str, example: &'static str, about: &'static str) -> Field {
    Field::new(name, Kind::Text, example, about)
}

const fn flag(name: &'static str, example: &'static str, about: &'static str) -> Field {
    Field::new(name, Kind::Flag, example, about)
}

const fn list(name: &'static str) -> Field {
    Field::new(name, Kind::List, "[]", "Entries as GET /api/definitions shows them. null is the empty list.")
}

const VHOST: &[Field] = &[
    text("description", r#""of the team""#, "What it is for."),
    Field::new("tags", Kind::Tags, r#"["team"]"#, "Words that describe it."),
    text("default_queue_type", r#""quorum""#, "The type of queues whose declarations name none."),
    flag("protected_from_deletion", "false", "True if it cannot be deleted."),
    flag("tracing", "false", "True to copy all messages to amq.rabbitmq.trace, until a restart."),
];

const USER: &[Field] = &[USER_TAGS.required(), SECRET, HASH, ALGORITHM];

const CHANGED_USER: &[Field] = &[USER_TAGS, SECRET, HASH, ALGORITHM];

const USER_TAGS: Field =
    Field::new("tags", Kind::Tags, r#"["management"]"#, "What the user may use of management.");

const SECRET: Field = text("password", r#""secret""#, "The password, instead of its hash.");

const HASH: Field = text(
    "password_hash",
    r#""WPvNQHW0O5AWVG7aMqb9QoQXHEMn2OruG5OMr6tOXrGSArYN""#,
    "The hash of the password in Base64. An empty one means that no password is right.",
);

const ALGORITHM: Field =
    text("hashing_algorithm", r#""rabbit_password_hashing_sha256""#, "How the password was hashed.");

const USERS: &[Field] =
    &[Field::new("users", Kind::Tags, r#"["nobody"]"#, "The names of the users to delete.").required()];

const PASSWORD: &[Field] = &[text("password", r#""secret""#, "The password to hash.").required()];

const PERMISSIONS: &[Field] = &[
    text("configure", r#""^own-""#, "The pattern of names that the user may declare and delete.").required(),
    text("write", r#"".*""#, "The pattern of names that the user may publish to.").required(),
    text("read", r#"".*""#, "The pattern of names that the user may consume from.").required(),
];

const TOPIC_PERMISSIONS: &[Field] = &[
    text("exchange", r#""amq.topic""#, "The topic exchange.").required(),
    text("write", r#"".*""#, "The pattern of routing keys that the user may publish with.").required(),
    text("read", r#"".*""#, "The pattern of routing keys that the user may bind with.").required(),
];

const PARAMETER: &[Field] = &[Field::new("value", Kind::Any, r#"{"a":1}"#, "The value.").required()];

const CLUSTER: &[Field] = &[text("name", r#""ours""#, "The name of the cluster.").required()];

const SETTING: &[Field] =
    &[text("value", r#""debug""#, "The value, as the configuration file would have it.").required()];

const LIMIT: &[Field] =
    &[Field::new("value", Kind::Whole, "100", "The limit. A negative one means none.").required()];

const ARGUMENTS: Field = Field::new("arguments", Kind::Table, "{}", "The arguments of the declaration.");

const QUEUE: &[Field] = &[
    flag("durable", "true", "True, which is the default, if it survives a restart."),
    flag("auto_delete", "false", "True if it is deleted with its last consumer."),
    flag("exclusive", "false", "Must not be true: an exclusive queue belongs to a connection."),
    ARGUMENTS,
];

const EXCHANGE: &[Field] = &[
    text("type", r#""topic""#, "The type. The default is direct."),
    flag("durable", "true", "True, which is the default, if it survives a restart."),
    flag("auto_delete", "false", "True if it is deleted with its last binding."),
    flag("internal", "false", "True if clients cannot publish to it."),
    ARGUMENTS,
];

const BINDING: &[Field] = &[text("routing_key", r#""a.#""#, "The routing key."), ARGUMENTS];

const POLICY: &[Field] = &[
    text("pattern", r#""^own-""#, "The pattern of names that the policy is for.").required(),
    Field::new("definition", Kind::Table, r#"{"max-length":5}"#, "The keys of the policy with their values.")
        .required(),
    Field::new("priority", Kind::Whole, "0", "Of several policies, that with the highest priority counts."),
    text("apply-to", r#""queues""#, "What the policy is for. The default is all."),
];

const PUBLISH: &[Field] = &[
    text("routing_key", r#""a.b""#, "The routing key.").required(),
    Field::new(
        "properties",
        Kind::Table,
        r#"{"content_type":"text/plain"}"#,
        "The properties of AMQP 0.9.1.",
    )
    .required(),
    text("payload", r#""hello""#, "The payload.").required(),
    text("payload_encoding", r#""string""#, "How the payload is given: string or base64.").required(),
];

const GET: &[Field] = &[
    Field::new("count", Kind::Whole, "1", "The most messages to take.").required(),
    text("ackmode", r#""ack_requeue_true""#, "What happens to the messages that were taken.").required(),
    text("encoding", r#""auto""#, "How payloads are shown: auto or base64.").required(),
    Field::new("truncate", Kind::Whole, "50000", "The most bytes that are shown of a payload."),
];

const COUNT: Field = Field::new("count", Kind::Whole, "10", "The most messages. Without it, all that match.");

const SEQ: Field =
    Field::new("seq", Kind::Whole, "7", "Only the message with this sequence number, which peek shows.");

const HEADERS: Field = Field::new(
    "headers",
    Kind::Table,
    r#"{"country":"DE"}"#,
    "Only messages with all of these headers or application properties.",
);

const RATE: Field = Field::new("rate", Kind::Whole, "100", "The most messages per second.");

const MOVE: &[Field] = &[
    COUNT,
    SEQ,
    HEADERS,
    Field::new("until_seq", Kind::Whole, "99", "Of the answer before, if a move goes on."),
    RATE,
    text("to_queue", r#""other""#, "The queue that gets the messages. This or to_exchange is needed."),
    text("to_exchange", r#""amq.fanout""#, "The exchange that gets the messages."),
    text(
        "routing_key",
        r#""a.b""#,
        "The routing key at to_exchange. Without it, each message keeps its keys.",
    ),
];

const REDRIVE: &[Field] = &[
    COUNT,
    SEQ,
    HEADERS,
    text("reason", r#""rejected""#, "Why they died: rejected, expired, maxlen or delivery_limit."),
    text("queue", r#""orders""#, "The queue in which they died."),
    Field::new("older_than", Kind::Whole, "60", "They died at least so many seconds ago."),
    Field::new("younger_than", Kind::Whole, "3600", "They died at most so many seconds ago."),
    Field::new("died_until", Kind::Whole, "1764187200000", "Of the answer before, if a redrive goes on."),
    RATE,
    text("to", r#""exchange""#, "Where they go: queue, which is where they died, or exchange."),
    text("to_queue", r#""other""#, "The queue that gets them instead."),
];

const MEMBER: &[Field] = &[text("node", r#""sluice@localhost""#, "The node of the member.").required()];

const DEFINITIONS: &[Field] = &[
    list("vhosts"),
    list("users"),
    list("permissions"),
    list("topic_permissions"),
    list("parameters"),
    list("global_parameters"),
    list("policies"),
    list("exchanges"),
    list("queues"),
    list("bindings"),
];

const DEFINITIONS_OF_VHOST: &[Field] =
    &[list("parameters"), list("policies"), list("exchanges"), list("queues"), list("bindings")];
