//! The names of RabbitMQ's plugins. For each one, the table says whether the broker does its work. The nodes of the HTTP API list those
//! that are built in, and `sluice enable plugin` answers for all of them.

use catalog::nearest::did_you_mean;

/// What most names of plugins begin with. Operators leave it out.
const PREFIX: &str = "rabbitmq_";

/// A plugin that RabbitMQ 4.3 is delivered with, or one that many download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plugin {
    pub name: &'static str,
    pub here: Here,
}

/// What the broker has instead of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Here {
    /// The broker does its work without a plugin.
    BuiltIn {
        /// A description of its work.
        what: &'static str,
        /// The setting or the command that uses it, if it is not in use without one.
        with: Option<&'static str>,
    },
    /// Nothing. The text is the reason, or what to use instead.
    Missing(&'static str),
}

impl Plugin {
    /// Finds a plugin by its name.
    ///
    /// # Errors
    /// There is no such plugin. The error says so, and which plugin was probably meant.
    pub fn named(name: &str) -> Result<Self, String> {
        let known = || PLUGINS.iter().map(|plugin| plugin.name);
        let find = |plugin: &&Self| plugin.name == name;
        PLUGINS.iter().find(find).copied().ok_or_else(|| {
            let meant = match did_you_mean(name, known()) {
                none if none.is_empty() => did_you_mean(&format!("{PREFIX}{name}"), known()),
                meant => meant,
            };
            format!("there is no plugin '{name}'{meant}")
        })
    }

    /// Returns the plugins whose work the broker does, with a description of each.
    pub fn built_in() -> impl Iterator<Item = (&'static str, &'static str)> {
        PLUGINS.iter().filter_map(|plugin| match plugin.here {
            Here::BuiltIn { what, .. } => Some((plugin.name, what)),
            Here::Missing(_) => None,
        })
    }
}

const fn built_in(name: &'static str, what: &'static str) -> Plugin {
    Plugin { name, here: Here::BuiltIn { what, with: None } }
}

const fn with(name: &'static str, what: &'static str, with: &'static str) -> Plugin {
    Plugin { name, here: Here::BuiltIn { what, with: Some(with) } }
}

const fn missing(name: &'static str, why: &'static str) -> Plugin {
    Plugin { name, here: Here::Missing(why) }
}

const NO_FEDERATION: &str = "there is no federation";
const NO_MQTT: &str = "there is no MQTT";
const ONE_NODE: &str = "a cluster has one node";
const NO_SHOVELS: &str = "there are no shovels, and 'sluice move' moves messages";
const NO_STOMP: &str = "there is no STOMP";
const NO_STREAM_PROTOCOL: &str = "there is no stream protocol, and streams over AMQP need no plugin";
const NO_SUCH_EXCHANGE: &str = "there is no such type of exchanges";

/// The plugins, in the order of their names.
const PLUGINS: &[Plugin] = &[
    built_in("rabbitmq_amqp1_0", "AMQP 1.0"),
    with(
        "rabbitmq_auth_backend_cache",
        "Logins that other services check are remembered",
        "auth_backends.1 = cache",
    ),
    with("rabbitmq_auth_backend_http", "Logins are checked over HTTP", "auth_backends.1 = http"),
    missing(
        "rabbitmq_auth_backend_internal_loopback",
        "there is no such backend, and loopback_users keeps users to the same machine",
    ),
    missing(
        "rabbitmq_auth_backend_ldap",
        "there is no LDAP, and a service that auth_backends.1 = http asks can use it",
    ),
    with("rabbitmq_auth_backend_oauth2", "Logins with tokens", "auth_backends.1 = oauth2"),
    built_in("rabbitmq_auth_mechanism_ssl", "Logins with certificates"),
    built_in("rabbitmq_consistent_hash_exchange", "Exchanges of the type x-consistent-hash"),
    missing("rabbitmq_delayed_message_exchange", NO_SUCH_EXCHANGE),
    with("rabbitmq_event_exchange", "Events are published", "event_exchange.enabled = true"),
    missing("rabbitmq_exchange_federation", NO_FEDERATION),
    missing("rabbitmq_federation", NO_FEDERATION),
    missing("rabbitmq_federation_common", NO_FEDERATION),
    missing("rabbitmq_federation_management", NO_FEDERATION),
    missing("rabbitmq_federation_prometheus", NO_FEDERATION),
    missing("rabbitmq_jms_topic_exchange", NO_SUCH_EXCHANGE),
    missing("rabbitmq_lvc_exchange", NO_SUCH_EXCHANGE),
    built_in("rabbitmq_management", "The HTTP API and the page"),
    built_in("rabbitmq_management_agent", "Statistics for the HTTP API"),
    missing("rabbitmq_message_deduplication", "messages are not deduplicated"),
    missing("rabbitmq_message_timestamp", "the broker sets no timestamps"),
    missing("rabbitmq_mqtt", NO_MQTT),
    missing("rabbitmq_peer_discovery_aws", ONE_NODE),
    missing("rabbitmq_peer_discovery_common", ONE_NODE),
    missing("rabbitmq_peer_discovery_consul", ONE_NODE),
    missing("rabbitmq_peer_discovery_etcd", ONE_NODE),
    missing("rabbitmq_peer_discovery_k8s", ONE_NODE),
    built_in("rabbitmq_prometheus", "Metrics for Prometheus"),
    missing("rabbitmq_queue_federation", NO_FEDERATION),
    built_in("rabbitmq_random_exchange", "Exchanges of the type x-random"),
    built_in("rabbitmq_recent_history_exchange", "Exchanges of the type x-recent-history"),
    missing("rabbitmq_routing_node_stamp", ONE_NODE),
    missing("rabbitmq_rtopic_exchange", NO_SUCH_EXCHANGE),
    missing(
        "rabbitmq_sharding",
        "there are no sharded queues, and exchanges of the type x-consistent-hash distribute messages",
    ),
    missing("rabbitmq_shovel", NO_SHOVELS),
    missing("rabbitmq_shovel_management", NO_SHOVELS),
    missing("rabbitmq_shovel_prometheus", NO_SHOVELS),
    missing("rabbitmq_stomp", NO_STOMP),
    missing("rabbitmq_stream", NO_STREAM_PROTOCOL),
    missing("rabbitmq_stream_management", NO_STREAM_PROTOCOL),
    missing("rabbitmq_top", "there is no Erlang, and 'sluice top' shows the busiest queues and links"),
    with("rabbitmq_tracing", "Traces of messages", "sluice trace"),
    missing("rabbitmq_trust_store", "certificates of clients are checked against ssl_options.cacertfile"),
    built_in("rabbitmq_web_dispatch", "The ports of HTTP"),
    missing("rabbitmq_web_mqtt", NO_MQTT),
    missing("rabbitmq_web_mqtt_examples", NO_MQTT),
    missing("rabbitmq_web_stomp", NO_STOMP),
    missing("rabbitmq_web_stomp_examples", NO_STOMP),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_there_once_and_in_order() {
        assert!(PLUGINS.is_sorted_by(|a, b| a.name < b.name));
        assert!(PLUGINS.iter().all(|plugin| Plugin::named(plugin.name) == Ok(*plugin)));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_one_that_was_meant() {
        for (name, meant) in [
            ("rabbitmq_managment", "; did you mean 'rabbitmq_management'?"),
            ("rabbitmq-prometheus", "; did you mean 'rabbitmq_prometheus'?"),
            ("shovel", "; did you mean 'rabbitmq_shovel'?"),
            ("nonsense_of_mine", ""),
        ] {
            assert_eq!(Plugin::named(name), Err(format!("there is no plugin '{name}'{meant}")));
        }
    }
}
