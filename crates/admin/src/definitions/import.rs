//! Reads definitions, and carries them out: all of them, or none.

mod examine;
mod route;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use amqp10::sasl::Secret;
use broker::admin_api::AdminError;
use catalog::access::{Hashing, Identity, Permissions, TopicPermissions};
use catalog::{
    AccountChange, Arguments, Binding, CLUSTER_NAME, CLUSTER_TAGS, Caller, CatalogError, Command,
    DeclareExchange, DeclareQueue, Destination, ExchangeKind, ParameterKey, SetPolicy, VhostPatch,
    is_obsolete_argument, is_policy_key,
};
use node::AdminApi;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

pub(crate) use self::route::{post, post_to_vhost};
use super::unchanged::{self, Hasher};
use crate::reply::Failure;
use crate::routed_components::{OPERATOR_POLICY, VHOST_LIMITS};
use crate::{accounts, json, limits, parameters, tags, vhosts};

/// The most problems of one file that are shown. A file that is no definitions file has more.
const PROBLEMS_MAX: usize = 20;

/// How to have what is unknown left out, in the reason why it is refused.
const HOW_TO_SKIP: &str =
    "sluice import definitions --skip-unknown, or definitions.skip_unknown = true, leaves it out";

/// The sections that have no entries.
const FACTS: &[&str] = &[
    "rabbit_version",
    "rabbitmq_version",
    "sluice_version",
    "product_name",
    "product_version",
    "rabbitmq_definition_format",
    "original_cluster_name",
    "original_vhost_name",
    "explanation",
    "description",
    "metadata",
    "limits",
    "default_queue_type",
    "tags",
];

/// What a virtual host is, in the definitions of one.
const OF_THE_VHOST: &[&str] = &["metadata", "limits"];

/// Components whose parameters have an effect here, or whose absence changes nothing.
const GLOBAL_WITHOUT_WARNING: &[&str] = &[CLUSTER_NAME, CLUSTER_TAGS, parameters::INTERNAL_CLUSTER_ID];

/// Why definitions are not imported: each problem with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line of the entry, from 1 on.
    pub line: usize,
    pub what: String,
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown_first(self.0.iter().map(Problem::to_string).collect()))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

/// Shows the first [`PROBLEMS_MAX`] problems, and how many more there are.
fn shown_first(mut problems: Vec<String>) -> String {
    let more = problems.len().saturating_sub(PROBLEMS_MAX);
    problems.truncate(PROBLEMS_MAX);
    if more > 0 {
        problems.push(format!("and {more} more"));
    }
    problems.join("; ")
}

impl std::error::Error for Problems {}

/// Definitions that were read.
#[derive(Debug, Default)]
pub struct Definitions {
    commands: Vec<Command>,
    /// The line and the name of the entry of each command.
    entries: Vec<(usize, String)>,
    /// The numbers of the commands with something that `skip_unknown` leaves out.
    unknown: Vec<usize>,
    /// The name of each file, and the number of entries before it. Texts without a name are not among them.
    files: Vec<(usize, String)>,
    hasher: Hasher,
    warnings: Vec<String>,
    /// Exchanges that are left out because their type is unknown here.
    skipped: Vec<(String, String)>,
    has_users: bool,
    /// The passwords of users, which are hashed when the definitions are carried out, and the numbers of their commands.
    passwords: Vec<(usize, Secret)>,
}

/// An entry of a section.
struct Entry {
    line: usize,
    fields: Map<String, Value>,
}

/// How to read definitions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading<'a> {
    /// The virtual host that all entries are imported into, whichever they name. What is not inside a virtual host is left
    /// out, with a warning, as in RabbitMQ.
    pub vhost: Option<&'a str>,
    /// True if exchanges of unknown types, unknown keys of policies, and arguments that no queue takes are left out
    /// (`definitions.skip_unknown`).
    pub skip_unknown: bool,
    /// True if parameters of shovels and of federation that RabbitMQ would refuse are kept, with a warning. They have no effect
    /// here, so they must not stop the start of a broker that has started with them before.
    pub warns_of_components: bool,
}

impl Definitions {
    /// Reads definitions.
    ///
    /// # Errors
    /// The text is not JSON, or some of its entries cannot be carried out by this broker.
    pub fn parse(text: &str, reading: Reading<'_>) -> Result<Self, Problems> {
        let mut definitions = Self::default();
        definitions.read(text, reading)?;
        Ok(definitions)
    }

    /// Reads a further file, whose definitions are carried out after those before it.
    ///
    /// # Errors
    /// Those of [`Self::parse`]. Some of the file may have been read, so the definitions must not be imported any more.
    pub fn add_file(&mut self, name: &str, text: &str, reading: Reading<'_>) -> Result<(), Problems> {
        self.files.push((self.entries.len(), name.to_owned()));
        let before = self.warnings.len();
        self.read(text, reading)?;
        self.warnings[before..].iter_mut().for_each(|warning| *warning = format!("{name}: {warning}"));
        Ok(())
    }

    fn read(&mut self, text: &str, reading: Reading<'_>) -> Result<(), Problems> {
        let one = |line, what: String| Problems(vec![Problem { line, what }]);
        let sections: BTreeMap<String, &RawValue> = serde_json::from_str(text)
            .map_err(|error| one(error.line(), format!("not a JSON object: {error}")))?;
        self.hasher.add(text);
        let mut problems = Vec::new();
        let line_of = |raw: &RawValue| {
            let offset = raw.get().as_ptr() as usize - text.as_ptr() as usize;
            1 + text.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count()
        };
        for name in sections.keys().filter(|name| !FACTS.contains(&name.as_str())) {
            if !SECTIONS.iter().any(|(known, _)| known == name) {
                let what = format!("'{name}' is not a section of definitions");
                problems.push(Problem { line: line_of(sections[name]), what });
            }
        }
        if let Some(vhost) = reading.vhost {
            let given = OF_THE_VHOST.iter().filter_map(|name| Some((*name, *sections.get(*name)?)));
            let given: Vec<(&str, &RawValue)> = given.collect();
            if let Some(line) = given.iter().map(|(_, raw)| line_of(raw)).min() {
                // A raw value is valid JSON.
                let value = |raw: &RawValue| serde_json::from_str(raw.get()).unwrap_or(Value::Null);
                let mut fields: Map<String, Value> =
                    given.iter().map(|(name, raw)| ((*name).to_owned(), value(raw))).collect();
                fields.insert("name".to_owned(), vhost.into());
                let shown = shown("vhosts", &fields);
                if let Err(failure) = read_vhost(self, Entry { line, fields }, reading) {
                    problems.push(Problem { line, what: format!("{shown}: {}", failure.text()) });
                }
            }
        }
        for (name, read) in SECTIONS {
            let Some(raw) = sections.get(*name) else { continue };
            if reading.vhost.is_some() && OF_THE_NODE.contains(name) {
                self.warnings.push(format!(
                    "line {}: '{name}' is left out: the import is into one vhost",
                    line_of(raw)
                ));
                continue;
            }
            let entries: Vec<&RawValue> = match serde_json::from_str::<Option<_>>(raw.get()) {
                // Some programs write null instead of an empty list.
                Ok(entries) => entries.unwrap_or_default(),
                Err(_) => {
                    problems.push(Problem { line: line_of(raw), what: format!("'{name}' is not a list") });
                    continue;
                }
            };
            // The lines are counted once for the section, and not from the start of the text for each entry.
            let (mut line, mut at) = (line_of(raw), raw.get().as_ptr() as usize);
            for raw in entries {
                let start = raw.get().as_ptr() as usize;
                let between = &text.as_bytes()[at - text.as_ptr() as usize..start - text.as_ptr() as usize];
                line += between.iter().filter(|byte| **byte == b'\n').count();
                at = start;
                let mut problem = |what: String| problems.push(Problem { line, what });
                let Ok(Value::Object(mut fields)) = serde_json::from_str(raw.get()) else {
                    problem(format!("an entry of '{name}' is not an object"));
                    continue;
                };
                if let Some(vhost) = reading.vhost {
                    fields.insert("vhost".to_owned(), vhost.into());
                }
                let shown = shown(name, &fields);
                if let Err(failure) = read(self, Entry { line, fields }, reading) {
                    problem(format!("{shown}: {}", failure.text()));
                }
            }
        }
        // Sections are read in another order.
        problems.sort_by_key(|problem| problem.line);
        if problems.is_empty() { Ok(()) } else { Err(Problems(problems)) }
    }

    /// Gives a user all permissions in each virtual host that does not exist yet, like somebody who adds it.
    #[must_use]
    pub fn created_by(mut self, user: &Arc<str>) -> Self {
        for command in &mut self.commands {
            if let Command::Account(AccountChange::SetVhost { creator, .. }) = command {
                *creator = Some(user.clone());
            }
        }
        self
    }

    /// Returns true if there are users among the definitions.
    pub fn has_users(&self) -> bool {
        self.has_users
    }

    /// Returns what has no effect here, although it is kept.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Carries the definitions out.
    ///
    /// # Errors
    /// One is refused, so none is carried out. The reason names its line, and its file if there are several.
    pub async fn import(self, api: &AdminApi, who: &Identity) -> Result<(), Failure> {
        self.carry_out(api, who, None).await
    }

    /// Carries the definitions of a start out, and stores their hash for the next start. With `skip_if_unchanged`, does nothing and
    /// returns false if they are the ones that were carried out last.
    ///
    /// # Errors
    /// Those of [`Self::import`].
    pub async fn import_at_start(
        self,
        api: &AdminApi,
        who: &Identity,
        skip_if_unchanged: bool,
    ) -> Result<bool, Failure> {
        let hash = self.hasher.value();
        if skip_if_unchanged && api.parameters(who).await?.get(&unchanged::key()) == Some(&hash) {
            return Ok(false);
        }
        self.carry_out(api, who, Some(hash)).await?;
        Ok(true)
    }

    async fn carry_out(
        mut self,
        api: &AdminApi,
        who: &Identity,
        hash: Option<Arc<str>>,
    ) -> Result<(), Failure> {
        let mut commands = std::mem::take(&mut self.commands);
        super::passwords::hash(api, who, std::mem::take(&mut self.passwords), &mut commands).await?;
        commands.push(unchanged::command(hash));
        match api.import(who, commands).await {
            Ok(()) => {}
            Err(AdminError::Catalog(CatalogError::InBatch { at, error })) => {
                // The last command belongs to no entry.
                return Err(Failure::bad_request(match at < self.entries.len() {
                    true => format!("{}: {error}{}", self.place(at), self.how_to_skip(at)),
                    false => error.to_string(),
                }));
            }
            Err(error) => return Err(error.into()),
        }
        self.warnings.iter().for_each(|warning| tracing::warn!("definitions: {warning}"));
        Ok(())
    }

    /// Returns how to import a command that is refused, if something in it can be left out.
    fn how_to_skip(&self, at: usize) -> String {
        // The numbers are in order.
        let is_known = self.unknown.binary_search(&at).is_err();
        if is_known { String::new() } else { format!("; {HOW_TO_SKIP}") }
    }

    /// Returns where the entry of a command is, and what it is.
    fn place(&self, at: usize) -> String {
        let (line, shown) = &self.entries[at];
        format!("{}line {line}: {shown}", self.file_prefix(at))
    }

    /// Returns the name of the file that has the entry of a command, with a colon; nothing if the text has no name.
    fn file_prefix(&self, at: usize) -> String {
        self.file_of(at).map_or(String::new(), |(_, name)| format!("{name}: "))
    }

    fn file_of(&self, at: usize) -> Option<&(usize, String)> {
        self.files.iter().rev().find(|(before, _)| *before <= at)
    }

    fn push(&mut self, line: usize, shown: &str, command: Command) {
        self.commands.push(command);
        self.entries.push((line, shown.to_owned()));
    }
}

type Read = fn(&mut Definitions, Entry, Reading<'_>) -> Result<(), Failure>;

/// The sections, in the order in which they are carried out: what others need comes first.
const SECTIONS: &[(&str, Read)] = &[
    ("vhosts", read_vhost),
    ("users", read_user),
    ("permissions", read_permissions),
    ("topic_permissions", read_topic_permissions),
    ("parameters", read_parameter),
    ("global_parameters", read_global_parameter),
    ("policies", read_policy),
    ("exchanges", read_exchange),
    ("queues", read_queue),
    ("bindings", read_binding),
];

/// The sections whose entries are not inside a virtual host.
const OF_THE_NODE: &[&str] = &["vhosts", "users", "permissions", "topic_permissions", "global_parameters"];

/// Names an entry for people.
fn shown(section: &str, fields: &Map<String, Value>) -> String {
    let field = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or("?");
    let vhost = || format!("in vhost '{}'", field("vhost"));
    match section {
        "vhosts" => format!("vhost '{}'", field("name")),
        "users" => format!("user '{}'", field("name")),
        "permissions" => format!("permissions of user '{}' {}", field("user"), vhost()),
        "topic_permissions" => {
            format!(
                "topic permissions of user '{}' for exchange '{}' {}",
                field("user"),
                field("exchange"),
                vhost()
            )
        }
        "parameters" => {
            format!("parameter '{}' of component '{}' {}", field("name"), field("component"), vhost())
        }
        "global_parameters" => format!("global parameter '{}'", field("name")),
        "policies" => format!("policy '{}' {}", field("name"), vhost()),
        "exchanges" => format!("exchange '{}' {}", field("name"), vhost()),
        "queues" => format!("queue '{}' {}", field("name"), vhost()),
        _ => format!("binding from '{}' to '{}' {}", field("source"), field("destination"), vhost()),
    }
}

fn required(fields: &Map<String, Value>, name: &str) -> Result<String, Failure> {
    match fields.get(name) {
        None | Some(Value::Null) => Err(Failure::bad_request(format!("'{name}' is missing"))),
        Some(_) => json::text(fields, name, ""),
    }
}

/// Returns an object, which may be a list of pairs: older versions of RabbitMQ write some objects so.
fn object(value: &Value, name: &str) -> Result<Map<String, Value>, Failure> {
    let pair = |pair: &Value| match pair.as_array()?.as_slice() {
        [Value::String(key), value] => Some((key.clone(), value.clone())),
        _ => None,
    };
    let object = match value {
        Value::Object(fields) => Some(fields.clone()),
        Value::Array(pairs) => pairs.iter().map(pair).collect(),
        _ => None,
    };
    object.ok_or_else(|| Failure::bad_request(format!("'{name}' is neither an object nor a list of pairs")))
}

fn read_vhost(definitions: &mut Definitions, entry: Entry, _: Reading<'_>) -> Result<(), Failure> {
    let Entry { line, mut fields } = entry;
    let name = required(&fields, "name")?;
    let limits = fields.remove("limits").filter(|limits| !limits.is_null());
    // Older versions have these only in the metadata.
    if let Some(Value::Object(metadata)) = fields.remove("metadata") {
        for (field, value) in metadata {
            if ["description", "tags", "default_queue_type", "protected_from_deletion"]
                .contains(&field.as_str())
            {
                fields.entry(field).or_insert(value);
            }
        }
    }
    let mut patch = vhosts::patch(&fields)?;
    if let Some(limits) = &limits {
        add_limits(&mut patch, limits, "limits")?;
    }
    let shown = shown("vhosts", &fields);
    let set = AccountChange::SetVhost { name: name.into(), patch, creator: None };
    definitions.push(line, &shown, Command::Account(set));
    Ok(())
}

fn add_limits(patch: &mut VhostPatch, limits: &Value, field: &str) -> Result<(), Failure> {
    let limits = object(limits, field)?;
    for name in limits.keys() {
        let max = limits::maximum(&limits, name)?;
        match name.as_str() {
            "max-connections" => patch.max_connections = Some(max),
            "max-queues" => patch.max_queues = Some(max),
            other => return Err(Failure::bad_request(format!("'{other}' is not a limit of a vhost"))),
        }
    }
    Ok(())
}

fn read_user(definitions: &mut Definitions, entry: Entry, _: Reading<'_>) -> Result<(), Failure> {
    let Entry { line, fields } = entry;
    let name = required(&fields, "name")?;
    let tags = tags::tags(&fields)?;
    let hash = accounts::given_hash(&fields)?.unwrap_or_else(|| Hashing::default().of_nobody());
    if let Some(password) = accounts::given_password(&fields)? {
        definitions.passwords.push((definitions.commands.len(), password));
    }
    let shown = shown("users", &fields);
    let set = AccountChange::SetUser { name: name.as_str().into(), hash, tags };
    definitions.push(line, &shown, Command::Account(set));
    let limits = fields.get("limits").filter(|limits| !limits.is_null());
    let limits = limits.map_or(Ok(Map::new()), |limits| object(limits, "limits"))?;
    if !limits.is_empty() {
        let (mut max_connections, mut max_channels) = (None, None);
        for name in limits.keys() {
            let max = Some(limits::maximum(&limits, name)?);
            match name.as_str() {
                "max-connections" => max_connections = max,
                "max-channels" => max_channels = max,
                other => return Err(Failure::bad_request(format!("'{other}' is not a limit of a user"))),
            }
        }
        let limits = AccountChange::SetUserLimits { user: name.into(), max_connections, max_channels };
        definitions.push(line, &shown, Command::Account(limits));
    }
    definitions.has_users = true;
    Ok(())
}

fn read_permissions(definitions: &mut Definitions, entry: Entry, _: Reading<'_>) -> Result<(), Failure> {
    let Entry { line, fields } = entry;
    let [user, vhost] = [required(&fields, "user")?, required(&fields, "vhost")?];
    let [configure, write, read] =
        [required(&fields, "configure")?, required(&fields, "write")?, required(&fields, "read")?];
    let permissions = Permissions::new([&configure, &write, &read]).map_err(Failure::bad_request)?;
    let set = AccountChange::SetPermissions { user: user.into(), vhost: vhost.into(), permissions };
    definitions.push(line, &shown("permissions", &fields), Command::Account(set));
    Ok(())
}

fn read_topic_permissions(
    definitions: &mut Definitions,
    entry: Entry,
    _: Reading<'_>,
) -> Result<(), Failure> {
    let Entry { line, fields } = entry;
    let [user, vhost, exchange] =
        [required(&fields, "user")?, required(&fields, "vhost")?, required(&fields, "exchange")?];
    let [write, read] = [required(&fields, "write")?, required(&fields, "read")?];
    let permissions = TopicPermissions::new([&write, &read], &user, &vhost).map_err(Failure::bad_request)?;
    let (user, vhost, exchange) = (user.into(), vhost.into(), exchange.into());
    let set = AccountChange::SetTopicPermissions { user, vhost, exchange, permissions };
    definitions.push(line, &shown("topic_permissions", &fields), Command::Account(set));
    Ok(())
}

fn read_parameter(definitions: &mut Definitions, entry: Entry, reading: Reading<'_>) -> Result<(), Failure> {
    let Entry { line, fields } = entry;
    let [vhost, component, name] =
        [required(&fields, "vhost")?, required(&fields, "component")?, required(&fields, "name")?];
    let shown = shown("parameters", &fields);
    let value = fields.get("value").unwrap_or(&Value::Null);
    if component == OPERATOR_POLICY {
        let mut policy = object(value, "value")?;
        if let Some(definition) = policy.get_mut("definition") {
            *definition = object(definition, "definition")?.into();
        }
        policy.insert("vhost".to_owned(), vhost.into());
        policy.insert("name".to_owned(), name.into());
        return push_policy(definitions, &Entry { line, fields: policy }, &shown, true, reading);
    }
    if component == VHOST_LIMITS.0 {
        let mut patch = VhostPatch::default();
        add_limits(&mut patch, value, "value")?;
        let set = AccountChange::PatchVhost { name: vhost.into(), patch };
        definitions.push(line, &shown, Command::Account(set));
        return Ok(());
    }
    let key = ParameterKey { vhost: Some(vhost.into()), component: component.into(), name: name.into() };
    match parameters::check(&key, value) {
        Err(why) if reading.warns_of_components => {
            definitions.warnings.push(format!("{shown}: {}", why.text()));
        }
        checked => checked?,
    }
    definitions.warnings.push(parameters::without_effect(&shown));
    definitions.push(line, &shown, Command::SetParameter { key, value: value.to_string().into() });
    Ok(())
}

fn read_global_parameter(definitions: &mut Definitions, entry: Entry, _: Reading<'_>) -> Result<(), Failure> {
    let Entry { line, fields } = entry;
    let name = required(&fields, "name")?;
    if unchanged::is_hash(&name) {
        return Ok(());
    }
    let shown = shown("global_parameters", &fields);
    if !GLOBAL_WITHOUT_WARNING.contains(&name.as_str()) {
        definitions.warnings.push(format!("{shown} is kept, but has no effect"));
    }
    let value = fields.get("value").unwrap_or(&Value::Null);
    let key = ParameterKey::global(&name);
    parameters::check(&key, value)?;
    definitions.push(line, &shown, Command::SetParameter { key, value: value.to_string().into() });
    Ok(())
}

fn read_policy(definitions: &mut Definitions, entry: Entry, reading: Reading<'_>) -> Result<(), Failure> {
    let shown = shown("policies", &entry.fields);
    push_policy(definitions, &entry, &shown, false, reading)
}

fn push_policy(
    definitions: &mut Definitions,
    entry: &Entry,
    shown: &str,
    operator: bool,
    reading: Reading<'_>,
) -> Result<(), Failure> {
    let fields = &entry.fields;
    let mut definition = json::table(fields, "definition")?;
    let unknown: Vec<String> =
        definition.keys().filter(|key| !is_policy_key(operator, key)).cloned().collect();
    let refuses_unknown = !unknown.is_empty() && !reading.skip_unknown;
    if !unknown.is_empty() && reading.skip_unknown {
        unknown.iter().for_each(|key| _ = definition.remove(key));
        let keys = unknown.join(", ");
        if definition.is_empty() {
            definitions.warnings.push(format!("{shown} is left out: it has only unknown keys, {keys}"));
            return Ok(());
        }
        definitions.warnings.push(format!("{shown} is kept without its unknown keys, {keys}"));
    }
    if definition.iter().any(|(key, _)| key.starts_with("federation-")) {
        definitions.warnings.push(format!("{shown} is kept, but federates nothing"));
    }
    let policy = SetPolicy {
        vhost: required(fields, "vhost")?.into(),
        name: required(fields, "name")?.into(),
        operator,
        pattern: required(fields, "pattern")?,
        priority: json::integer(fields, "priority", 0)?,
        apply_to: json::text(fields, "apply-to", "all")?,
        definition,
    };
    if refuses_unknown {
        definitions.unknown.push(definitions.commands.len());
    }
    definitions.push(entry.line, shown, Command::SetPolicy(policy));
    Ok(())
}

fn read_exchange(definitions: &mut Definitions, entry: Entry, reading: Reading<'_>) -> Result<(), Failure> {
    let Entry { line, fields } = entry;
    let (vhost, name) = (required(&fields, "vhost")?, required(&fields, "name")?);
    let shown = shown("exchanges", &fields);
    let kind = json::text(&fields, "type", "direct")?;
    if ExchangeKind::parse(&kind).is_none() {
        if !reading.skip_unknown {
            return Err(Failure::bad_request(format!(
                "the exchange type '{kind}' is unknown; {HOW_TO_SKIP}"
            )));
        }
        definitions.warnings.push(format!("{shown} is left out: the exchange type '{kind}' is unknown"));
        definitions.skipped.push((vhost, name));
        return Ok(());
    }
    let declare = DeclareExchange {
        vhost: vhost.into(),
        name: name.into(),
        kind,
        durable: json::boolean(&fields, "durable", true)?,
        auto_delete: json::boolean(&fields, "auto_delete", false)?,
        internal: json::boolean(&fields, "internal", false)?,
        arguments: json::arguments(&fields)?,
    };
    // The exchanges that every virtual host has are not in definitions, except in those that were written by hand.
    if !declare.name.is_empty() && !declare.name.starts_with("amq.") {
        definitions.push(line, &shown, Command::DeclareExchange(declare));
    }
    Ok(())
}

fn read_queue(definitions: &mut Definitions, entry: Entry, reading: Reading<'_>) -> Result<(), Failure> {
    let Entry { line, fields } = entry;
    let (vhost, name) = (required(&fields, "vhost")?, required(&fields, "name")?);
    let shown = shown("queues", &fields);
    let mut arguments: Arguments = json::arguments(&fields)?;
    let obsolete = arguments.iter().filter(|(name, value)| is_obsolete_argument(name, value));
    let obsolete: Vec<String> = obsolete.map(|(name, _)| name.clone()).collect();
    let refuses_obsolete = !obsolete.is_empty() && !reading.skip_unknown;
    if !obsolete.is_empty() && reading.skip_unknown {
        obsolete.iter().for_each(|name| _ = arguments.remove(name));
        definitions.warnings.push(format!(
            "{shown} is kept without the arguments that no queue takes here, {}",
            obsolete.join(", ")
        ));
    }
    // Newer versions name the type beside the arguments, too.
    let kind = json::text(&fields, "type", "")?;
    if !kind.is_empty() && !arguments.contains_key("x-queue-type") {
        arguments.insert("x-queue-type".to_owned(), kind.as_str().into());
    }
    let declare = DeclareQueue {
        durable: json::boolean(&fields, "durable", true)?,
        auto_delete: json::boolean(&fields, "auto_delete", false)?,
        // A broker has named some queues itself, with a name that is refused to clients.
        internal: true,
        ..DeclareQueue::new(vhost, name, arguments)
    };
    if refuses_obsolete {
        definitions.unknown.push(definitions.commands.len());
    }
    definitions.push(line, &shown, Command::DeclareQueue(declare));
    Ok(())
}

fn read_binding(definitions: &mut Definitions, entry: Entry, _: Reading<'_>) -> Result<(), Failure> {
    let Entry { line, fields } = entry;
    let (vhost, source) = (required(&fields, "vhost")?, required(&fields, "source")?);
    let destination = required(&fields, "destination")?;
    let shown = shown("bindings", &fields);
    let to_exchange = match json::text(&fields, "destination_type", "queue")?.as_str() {
        "queue" => false,
        "exchange" => true,
        other => return Err(Failure::bad_request(format!("the destination type '{other}' is unknown"))),
    };
    let is_skipped =
        |name: &str| definitions.skipped.iter().any(|(of, skipped)| *of == vhost && skipped == name);
    if is_skipped(&source) || to_exchange && is_skipped(&destination) {
        definitions.warnings.push(format!("{shown} is left out with its exchange"));
        return Ok(());
    }
    let binding = Binding {
        vhost: vhost.into(),
        source: source.into(),
        destination: match to_exchange {
            true => Destination::Exchange(destination.into()),
            false => Destination::Queue(destination.into()),
        },
        key: json::text(&fields, "routing_key", "")?.into(),
        arguments: json::arguments(&fields)?,
    };
    definitions.push(line, &shown, Command::Bind(binding, Caller::Management));
    Ok(())
}
