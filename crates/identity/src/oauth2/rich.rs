//! Rich authorization requests [RFC 9396]: permissions in the claim `authorization_details`, in RabbitMQ's form.
//!
//! ```text
//!   { "type": "rabbitmq",                                               the resource_server_type of this broker
//!     "locations": ["cluster:prod*/vhost:orders/queue:in.*"],           also exchange: and routing-key:
//!     "actions": ["read", "configure", "monitoring"] }                  permissions, and tags
//! ```

use serde_json::Value;

use super::ResourceServer;

/// The actions that are tags of the user.
const TAGS: [&str; 4] = ["administrator", "monitoring", "management", "policymaker"];
/// The actions that are permissions.
const PERMISSIONS: [&str; 3] = ["configure", "write", "read"];

/// Returns the scopes that mean the same.
pub(super) fn scopes(details: &Value, server: &ResourceServer) -> Vec<String> {
    let Some(kind) = &server.kind else { return Vec::new() };
    let all = details.as_array().into_iter().flatten();
    let own = all.filter(|detail| detail["type"].as_str() == Some(kind));
    own.flat_map(|detail| {
        let actions = texts(&detail["actions"]);
        let locations = texts(&detail["locations"]);
        let places: Vec<String> =
            locations.iter().filter_map(|location| place(location, &server.id)).collect();
        let mut scopes = Vec::new();
        for action in actions {
            if PERMISSIONS.contains(&action) {
                scopes.extend(places.iter().map(|place| format!("{action}:{place}")));
            } else if TAGS.contains(&action) && !places.is_empty() {
                scopes.push(format!("tag:{action}"));
            }
        }
        scopes
    })
    .collect()
}

fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Returns virtual host, name and routing key of a location in the form of scopes. `None` if it is for another broker, or has
/// parts that are not known: what cannot be read grants nothing.
fn place(location: &str, id: &str) -> Option<String> {
    let (mut cluster, mut vhost, mut name, mut key) = (None, None, None, None);
    for part in location.split('/') {
        let (what, value) = part.split_once(':')?;
        let slot = match what {
            "cluster" => &mut cluster,
            "vhost" => &mut vhost,
            "queue" | "exchange" => &mut name,
            "routing-key" => &mut key,
            _ => return None,
        };
        // A queue and an exchange of the same name are one grant, as in RabbitMQ. With other names, it cannot be read.
        if slot.replace(value).is_some_and(|before| before != value) {
            return None;
        }
    }
    if !catalog::access::matches_wildcard(cluster?, id) {
        return None;
    }
    Some(format!("{}/{}/{}", vhost.unwrap_or("*"), name.unwrap_or("*"), key.unwrap_or("*")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(locations: &[&str], actions: &[&str]) -> Vec<String> {
        let server =
            ResourceServer { id: "prod-1".into(), kind: Some("broker".into()), ..Default::default() };
        let other = json!({ "type": "other", "locations": ["cluster:*"], "actions": ["administrator"] });
        scopes(&json!([other, { "type": "broker", "locations": locations, "actions": actions }]), &server)
    }

    #[test]
    fn locations_and_actions_are_scopes() {
        let scopes = of(&["cluster:prod*/vhost:v/queue:q*", "cluster:test"], &["read", "write", "x"]);
        assert_eq!(scopes, ["read:v/q*/*", "write:v/q*/*"]);
        assert_eq!(of(&["cluster:prod-1"], &["configure"]), ["configure:*/*/*"]);
        assert_eq!(of(&["cluster:*/exchange:x/routing-key:eu.*"], &["write"]), ["write:*/x/eu.*"]);
        assert_eq!(of(&["cluster:*"], &["administrator", "read"]), ["tag:administrator", "read:*/*/*"]);
        assert_eq!(of(&["cluster:*/queue:a/exchange:a"], &["read"]), ["read:*/a/*"]);
    }

    #[test]
    fn what_cannot_be_read_grants_nothing() {
        for location in [
            "",
            "vhost:v",
            "cluster:other",
            "cluster:*/host:v",
            "cluster:*/v",
            "cluster:*/queue:a/exchange:b",
        ] {
            assert_eq!(of(&[location], &["read", "administrator"]), [""; 0], "{location}");
        }
        assert_eq!(scopes(&json!({ "type": "broker" }), &ResourceServer::default()), [""; 0]);
    }
}
