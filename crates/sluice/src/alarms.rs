//! The alarms of a node in words.

use serde_json::Value;

use crate::words::bytes;

/// Returns a line for each alarm of a node, with its reason. `node` is a row of `/api/nodes`.
pub(crate) fn of_node(node: &Value) -> Vec<String> {
    [("mem_alarm", "memory"), ("disk_free_alarm", "disk"), ("certificate_alarm", "certificate")]
        .into_iter()
        .filter(|(field, _)| node[field] == true)
        .map(|(_, resource)| reason(resource, node))
        .collect()
}

/// Returns the alarm and its reason, as far as the row of the node says it.
pub(crate) fn reason(resource: &str, node: &Value) -> String {
    let (measured, word, limit) = match resource {
        "memory" => ("mem_used", "used", "mem_limit"),
        "disk" => ("disk_free", "free", "disk_free_limit"),
        "certificate" => {
            return "certificate: changed certificates cannot be used, those before stay in use; \
                    `sluice check certificates 0 days` names them"
                .to_owned();
        }
        other => return other.to_owned(),
    };
    let why = match (node[measured].as_u64(), node[limit].as_u64()) {
        (Some(measured), Some(limit)) => {
            format!("{} {word}, the limit is {}; ", bytes(measured), bytes(limit))
        }
        _ => String::new(),
    };
    format!("{resource}: {why}publishers are stopped")
}
