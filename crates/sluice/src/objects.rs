//! The objects of the broker that several verbs are about: how messages name them, and their paths in the management API.

use percent_encoding::utf8_percent_encode;

use crate::amqp::SEGMENT;

/// An object of the broker.
#[derive(Debug)]
pub(crate) struct Object {
    /// The name of the object in messages.
    pub words: String,
    pub path: String,
}

/// Encodes one segment of a path. The default exchange is called `amq.default` there.
pub(crate) fn segment(name: &str) -> String {
    utf8_percent_encode(if name.is_empty() { "amq.default" } else { name }, SEGMENT).to_string()
}

/// Returns a queue or stream.
pub(crate) fn queue(vhost: &str, name: &str) -> Object {
    Object {
        words: format!("queue '{name}'"),
        path: format!("/api/queues/{}/{}", segment(vhost), segment(name)),
    }
}

/// Returns an exchange.
pub(crate) fn exchange(vhost: &str, name: &str) -> Object {
    Object {
        words: format!("exchange '{name}'"),
        path: format!("/api/exchanges/{}/{}", segment(vhost), segment(name)),
    }
}

/// Returns a connection.
pub(crate) fn connection(name: &str) -> Object {
    Object { words: format!("connection '{name}'"), path: format!("/api/connections/{}", segment(name)) }
}

/// Returns a channel.
pub(crate) fn channel(name: &str) -> Object {
    Object { words: format!("channel '{name}'"), path: format!("/api/channels/{}", segment(name)) }
}

/// Returns a user.
pub(crate) fn user(name: &str) -> Object {
    Object { words: format!("user '{name}'"), path: format!("/api/users/{}", segment(name)) }
}

/// Returns a virtual host.
pub(crate) fn vhost(name: &str) -> Object {
    Object { words: format!("vhost '{name}'"), path: format!("/api/vhosts/{}", segment(name)) }
}

/// Returns what a user may do in a virtual host.
pub(crate) fn permission(user: &str, vhost: &str) -> Object {
    Object {
        words: format!("the permissions of user '{user}' in vhost '{vhost}'"),
        path: format!("/api/permissions/{}/{}", segment(vhost), segment(user)),
    }
}

/// Returns the topic permissions of a user in a virtual host: for one exchange, or for all.
pub(crate) fn topic_permission(user: &str, vhost: &str, exchange: Option<&str>) -> Object {
    let exchange = exchange.map(|exchange| format!("/{}", segment(exchange))).unwrap_or_default();
    Object {
        words: format!("the topic permissions of user '{user}' in vhost '{vhost}'"),
        path: format!("/api/topic-permissions/{}/{}{exchange}", segment(vhost), segment(user)),
    }
}

/// Returns a limit of a user, or of the virtual host if there is no user. The words do not name the limit.
pub(crate) fn limit(limit: &str, user: Option<&str>, vhost: &str) -> Object {
    let (words, path) = match user {
        Some(user) => (format!("user '{user}'"), format!("/api/user-limits/{}", segment(user))),
        None => (format!("vhost '{vhost}'"), format!("/api/vhost-limits/{}", segment(vhost))),
    };
    Object { words, path: format!("{path}/{}", segment(limit)) }
}

/// Returns a policy, or an operator policy.
pub(crate) fn policy(name: &str, vhost: &str, operator: bool) -> Object {
    let (kind, list) = match operator {
        true => ("operator policy", "operator-policies"),
        false => ("policy", "policies"),
    };
    Object {
        words: format!("{kind} '{name}'"),
        path: format!("/api/{list}/{}/{}", segment(vhost), segment(name)),
    }
}

/// Returns a parameter of a component in a virtual host.
pub(crate) fn parameter(component: &str, name: &str, vhost: &str) -> Object {
    Object {
        words: format!("parameter '{name}' of component '{component}' in vhost '{vhost}'"),
        path: format!("/api/parameters/{}/{}/{}", segment(component), segment(vhost), segment(name)),
    }
}

/// Returns a parameter of the whole cluster.
pub(crate) fn global_parameter(name: &str) -> Object {
    Object {
        words: format!("global parameter '{name}'"),
        path: format!("/api/global-parameters/{}", segment(name)),
    }
}

/// The path of the settings in force.
pub(crate) const EFFECTIVE: &str = "/api/config/effective";

/// Returns a setting of the running broker.
pub(crate) fn setting(key: &str) -> Object {
    Object { words: format!("the setting '{key}'"), path: format!("{EFFECTIVE}/{}", segment(key)) }
}

/// The path of the name of the cluster.
pub(crate) const CLUSTER_NAME: &str = "/api/cluster-name";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_hold_any_name() {
        assert_eq!(queue("/", "a/b ä").path, "/api/queues/%2F/a%2Fb%20%C3%A4");
        assert_eq!(exchange("v/w", "").path, "/api/exchanges/v%2Fw/amq.default");
    }
}
