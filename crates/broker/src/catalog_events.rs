//! The events of changes of the catalog. Their names and headers are RabbitMQ's (docs/compatibility.md, Events).

use std::sync::Arc;

use catalog::access::{Maximum, Permission};
use catalog::{Catalog, Change, Destination, VhostSettings};

use crate::notices::{Headers, Notice};

/// Adds the headers of an event.
type Put<'p> = &'p dyn Fn(&mut Headers<'_>);

/// Makes the events of one change.
///
/// `catalog` is the catalog before the change, `by` the user who asked for it, if the broker knows that, and `vhost` the virtual
/// host of the event exchange. No event has a secret: parameters may have passwords in their values, so their values are left
/// out.
pub fn events_of(
    catalog: &Catalog,
    change: &Change,
    by: Option<&str>,
    vhost: &Arc<str>,
    now_ms: u64,
    mut each: impl FnMut(Notice),
) {
    let mut event = |key: &str, put: Put<'_>| {
        each(Notice::event(vhost, key, now_ms, |headers| {
            put(headers);
            headers.text_of("user_who_performed_action", by);
        }));
    };
    match change {
        Change::QueueDeclared(queue) => event("queue.created", &|h| {
            named(h, &queue.vhost, &queue.name);
            h.flag("durable", queue.durable);
            h.flag("auto_delete", queue.auto_delete);
            h.flag("exclusive", queue.exclusive.is_some());
            h.text("type", queue.kind());
            h.arguments("arguments", &queue.arguments);
        }),
        Change::QueueForgotten { queue } => {
            if let Some(queue) = catalog.queue_by_id(*queue) {
                event("queue.deleted", &|h| {
                    named(h, &queue.vhost, &queue.name);
                    h.text("type", queue.kind());
                });
            }
        }
        Change::ExchangeDeclared(exchange) => event("exchange.created", &|h| {
            named(h, &exchange.vhost, &exchange.name);
            h.text("type", exchange.kind.as_str());
            h.flag("durable", exchange.durable);
            h.flag("auto_delete", exchange.auto_delete);
            h.flag("internal", exchange.internal);
            h.arguments("arguments", &exchange.arguments);
        }),
        Change::ExchangeDeleted { vhost, name } => event("exchange.deleted", &|h| named(h, vhost, name)),
        Change::Bound(binding) | Change::Unbound(binding) => {
            let is_new = matches!(change, Change::Bound(_));
            event(if is_new { "binding.created" } else { "binding.deleted" }, &|h| {
                let (kind, name) = match &binding.destination {
                    Destination::Queue(name) => ("queue", name),
                    Destination::Exchange(name) => ("exchange", name),
                };
                h.text("vhost", &binding.vhost);
                h.text("source_name", &binding.source);
                h.text("source_kind", "exchange");
                h.text("destination_name", name);
                h.text("destination_kind", kind);
                h.text("routing_key", &binding.key);
                h.arguments("arguments", &binding.arguments);
            });
        }
        Change::PolicySet(policy) => event("policy.set", &|h| {
            named(h, &policy.vhost, &policy.name);
            h.flag("operator", policy.operator);
            h.text("pattern", policy.pattern.as_str());
            h.text("apply-to", policy.apply_to.as_str());
            h.integer("priority", policy.priority);
            h.arguments("definition", &policy.definition);
        }),
        Change::PolicyCleared { vhost, name, operator } => event("policy.cleared", &|h| {
            named(h, vhost, name);
            h.flag("operator", *operator);
        }),
        Change::ParameterSet { key, .. } | Change::ParameterCleared { key } => {
            let is_set = matches!(change, Change::ParameterSet { .. });
            event(if is_set { "parameter.set" } else { "parameter.cleared" }, &|h| {
                h.text_of("vhost", key.vhost.as_deref());
                h.text("component", if key.vhost.is_some() { &key.component } else { "global" });
                h.text("name", &key.name);
            });
        }
        Change::VhostAdded { name } if catalog.vhost_settings(name).is_none() => {
            event("vhost.created", &|h| h.text("name", name));
        }
        Change::VhostDeleted { name } => event("vhost.deleted", &|h| h.text("name", name)),
        Change::VhostSet { name, settings } => {
            let of = |settings: &VhostSettings| (settings.max_connections, settings.max_queues);
            let before = catalog.vhost_settings(name).map(|settings| of(settings)).unwrap_or_default();
            let (connections, queues) = of(settings);
            if before != (connections, queues) {
                let names = [("max-connections", connections), ("max-queues", queues)];
                limits(&mut event, "vhost.limits", &names, &|h| h.text("vhost", name));
            }
        }
        Change::UserSet { name, hash, tags } => {
            let known = catalog.users().get(name);
            match known {
                None => event("user.created", &|h| h.text("name", name)),
                Some(known) if known.hash == *hash => {}
                Some(_) if hash.is_of_nobody() => event("user.password.cleared", &|h| h.text("name", name)),
                Some(_) => event("user.password.changed", &|h| h.text("name", name)),
            }
            if known.is_none_or(|known| known.tags != *tags) {
                event("user.tags.set", &|h| {
                    h.text("name", name);
                    h.texts("tags", tags.iter().map(String::as_str));
                });
            }
        }
        Change::UserLimitsSet { user, limits: set } => {
            let names = [("max-connections", set.max_connections), ("max-channels", set.max_channels)];
            limits(&mut event, "user.limits", &names, &|h| h.text("name", user));
        }
        Change::UserDeleted { name } => event("user.deleted", &|h| h.text("name", name)),
        Change::PermissionsSet { user, vhost, permissions } => event("permission.created", &|h| {
            h.text("user", user);
            h.text("vhost", vhost);
            for (permission, pattern) in Permission::ALL.iter().zip(permissions.patterns()) {
                h.text(permission.as_str(), pattern);
            }
        }),
        Change::PermissionsCleared { user, vhost } => event("permission.deleted", &|h| {
            h.text("user", user);
            h.text("vhost", vhost);
        }),
        Change::TopicPermissionsSet { user, vhost, exchange, permissions } => {
            event("topic.permission.created", &|h| {
                h.text("user", user);
                h.text("vhost", vhost);
                h.text("exchange", exchange);
                let [write, read] = permissions.patterns();
                h.text("write", write);
                h.text("read", read);
            });
        }
        Change::TopicPermissionsCleared { user, vhost, exchange } => {
            event("topic.permission.deleted", &|h| {
                h.text("user", user);
                h.text("vhost", vhost);
                h.text_of("exchange", exchange.as_deref());
            });
        }
        // They change nothing that a client could see.
        Change::VhostAdded { .. }
        | Change::Incarnations { .. }
        | Change::UsersBegun
        | Change::NodeStarted { .. }
        | Change::NodeJoined { .. }
        | Change::Asked { .. } => {}
    }
}

fn named(headers: &mut Headers<'_>, vhost: &str, name: &str) {
    headers.text("name", name);
    headers.text("vhost", vhost);
}

/// Makes the event of limits: `<of>.set` with those that are set, or `<of>.cleared` if none is.
fn limits(event: &mut dyn FnMut(&str, Put<'_>), of: &str, limits: &[(&str, Maximum)], put_name: Put<'_>) {
    let is_any = limits.iter().any(|(_, max)| max.is_some());
    event(&format!("{of}.{}", if is_any { "set" } else { "cleared" }), &|headers| {
        put_name(headers);
        for (name, max) in limits {
            max.iter().for_each(|max| headers.number(name, u64::from(*max)));
        }
    });
}

#[cfg(test)]
mod tests {
    use amqp10::Value;
    use amqp10::sasl::Secret;
    use amqp091::Properties;
    use catalog::access::{Hashing, Permissions, TopicPermissions, UserLimits};
    use catalog::pattern::Pattern;
    use catalog::{
        ApplyTo, Arguments, Binding, Command, DeclareQueue, Exchange, ExchangeKind, ParameterKey, Policy,
    };

    use super::*;

    /// Applies a change, and returns its events: the key, then the headers in their order.
    fn apply(catalog: &mut Catalog, change: Change) -> Vec<String> {
        let mut events = Vec::new();
        events_of(catalog, &change, Some("ann"), &"/".into(), 7, |event| {
            let properties = Properties::parse(event.property_list()).unwrap();
            let headers = properties.headers.unwrap();
            let shown = headers.iter().skip(1).map(|(name, value)| match value.as_str() {
                Some(text) => format!("{name}={text}"),
                None => match value {
                    amqp091::Value::Bool(flag) => format!("{name}={flag}"),
                    amqp091::Value::Table(table) => format!("{name}={}", table.iter().count()),
                    amqp091::Value::Array(array) => format!("{name}={}", array.iter().count()),
                    number => format!("{name}={}", number.as_i64().unwrap()),
                },
            });
            events.push(format!("{}: {}", event.key, shown.collect::<Vec<_>>().join(" ")));
        });
        catalog.apply(&change);
        events
    }

    fn queue(catalog: &Catalog, name: &str) -> Change {
        let declare = DeclareQueue::new("/", name, Arguments::default());
        let mut ids = catalog.queue_ids();
        let decision = catalog.decide(Command::DeclareQueue(declare), &mut ids).unwrap();
        decision.changes.into_iter().find(|change| matches!(change, Change::QueueDeclared(_))).unwrap()
    }

    #[test]
    fn every_change_that_clients_can_see_is_an_event() {
        let mut catalog = Catalog::default();
        let declared = queue(&catalog, "q");
        let Change::QueueDeclared(record) = &declared else { panic!() };
        let forgotten = Change::QueueForgotten { queue: record.id };
        let arguments: Arguments = [("k".to_owned(), Value::from("v"))].into_iter().collect();
        let binding = Arc::new(Binding {
            vhost: "/".into(),
            source: "x".into(),
            destination: Destination::Queue("q".into()),
            key: "k".into(),
            arguments: arguments.clone(),
        });
        let policy = Arc::new(Policy {
            vhost: "/".into(),
            name: "p".into(),
            operator: false,
            pattern: Pattern::of_permission("^q").unwrap(),
            priority: 3,
            apply_to: ApplyTo::Queues,
            definition: arguments.clone(),
        });
        let (user, vhost): (Arc<str>, Arc<str>) = ("bob".into(), "v".into());
        let hash = |salt, password: &str| Hashing::Sha256.hash([salt; 16], &Secret::new(password.to_owned()));
        let set = |hash, tags: &[&str]| Change::UserSet {
            name: user.clone(),
            hash,
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        };
        let key = |vhost: Option<&str>| ParameterKey {
            vhost: vhost.map(Into::into),
            component: if vhost.is_some() { "shovel" } else { "" }.into(),
            name: "s".into(),
        };
        let settings = |max_queues| {
            let settings = VhostSettings { max_queues, ..VhostSettings::default() };
            Change::VhostSet { name: vhost.clone(), settings: Arc::new(settings) }
        };
        let limits = |max_connections| UserLimits { max_connections, ..UserLimits::default() };
        let x = Exchange::new("/".into(), "x".into(), ExchangeKind::Topic, Arguments::default());
        let steps: Vec<(Change, &[&str])> = vec![
            (
                declared.clone(),
                &[
                    "queue.created: name=q vhost=/ durable=true auto_delete=false exclusive=false type=classic arguments=0",
                ],
            ),
            (
                Change::ExchangeDeclared(Arc::new(x)),
                &[
                    "exchange.created: name=x vhost=/ type=topic durable=true auto_delete=false internal=false arguments=0",
                ],
            ),
            (
                Change::Bound(binding.clone()),
                &[
                    "binding.created: vhost=/ source_name=x source_kind=exchange destination_name=q destination_kind=queue routing_key=k arguments=1",
                ],
            ),
            (
                Change::Unbound(binding),
                &[
                    "binding.deleted: vhost=/ source_name=x source_kind=exchange destination_name=q destination_kind=queue routing_key=k arguments=1",
                ],
            ),
            (
                Change::ExchangeDeleted { vhost: "/".into(), name: "x".into() },
                &["exchange.deleted: name=x vhost=/"],
            ),
            (forgotten.clone(), &["queue.deleted: name=q vhost=/ type=classic"]),
            (forgotten, &[]),
            (
                Change::PolicySet(policy),
                &[
                    "policy.set: name=p vhost=/ operator=false pattern=^q apply-to=queues priority=3 definition=1",
                ],
            ),
            (
                Change::PolicyCleared { vhost: "/".into(), name: "p".into(), operator: false },
                &["policy.cleared: name=p vhost=/ operator=false"],
            ),
            (
                Change::ParameterSet { key: key(Some("/")), value: "\"amqp://u:secret@h\"".into() },
                &["parameter.set: vhost=/ component=shovel name=s"],
            ),
            (Change::ParameterCleared { key: key(None) }, &["parameter.cleared: component=global name=s"]),
            (Change::VhostAdded { name: vhost.clone() }, &["vhost.created: name=v"]),
            (Change::VhostAdded { name: vhost.clone() }, &[]),
            (settings(Some(5)), &["vhost.limits.set: vhost=v max-queues=5"]),
            (settings(Some(5)), &[]),
            (settings(None), &["vhost.limits.cleared: vhost=v"]),
            (
                set(hash(1, "a"), &["monitoring"]),
                &["user.created: name=bob", "user.tags.set: name=bob tags=1"],
            ),
            (set(hash(1, "a"), &["monitoring"]), &[]),
            (set(hash(2, "b"), &["monitoring"]), &["user.password.changed: name=bob"]),
            (
                set(Hashing::Sha256.of_nobody(), &[]),
                &["user.password.cleared: name=bob", "user.tags.set: name=bob tags=0"],
            ),
            (
                Change::UserLimitsSet { user: user.clone(), limits: limits(Some(2)) },
                &["user.limits.set: name=bob max-connections=2"],
            ),
            (
                Change::UserLimitsSet { user: user.clone(), limits: limits(None) },
                &["user.limits.cleared: name=bob"],
            ),
            (
                Change::PermissionsSet {
                    user: user.clone(),
                    vhost: vhost.clone(),
                    permissions: Permissions::new(["c", "w", "r"]).unwrap(),
                },
                &["permission.created: user=bob vhost=v configure=c write=w read=r"],
            ),
            (
                Change::PermissionsCleared { user: user.clone(), vhost: vhost.clone() },
                &["permission.deleted: user=bob vhost=v"],
            ),
            (
                Change::TopicPermissionsSet {
                    user: user.clone(),
                    vhost: vhost.clone(),
                    exchange: "amq.topic".into(),
                    permissions: TopicPermissions::new(["w", "r"], "bob", "v").unwrap(),
                },
                &["topic.permission.created: user=bob vhost=v exchange=amq.topic write=w read=r"],
            ),
            (
                Change::TopicPermissionsCleared { user: user.clone(), vhost: vhost.clone(), exchange: None },
                &["topic.permission.deleted: user=bob vhost=v"],
            ),
            (Change::UserDeleted { name: user.clone() }, &["user.deleted: name=bob"]),
            (Change::VhostDeleted { name: vhost.clone() }, &["vhost.deleted: name=v"]),
            (Change::Incarnations { next: 9 }, &[]),
            (Change::UsersBegun, &[]),
        ];
        for (change, expected) in steps {
            let events = apply(&mut catalog, change.clone());
            let expected: Vec<String> =
                expected.iter().map(|event| format!("{event} user_who_performed_action=ann")).collect();
            assert_eq!(events, expected, "{change:?}");
        }
    }
}
