//! Parameters: named JSON values. Most are of components such as shovels and federation, which this broker does not have. They
//! are kept, so that definitions that were imported can be exported again. Two of them are used: the name and the tags of the cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Catalog;

/// The global parameter with the name of the cluster. It takes the place of the setting of this name, as in RabbitMQ.
pub const CLUSTER_NAME: &str = "cluster_name";

/// The global parameter with the tags of the cluster, which have no effect. Every user may see them.
pub const CLUSTER_TAGS: &str = "cluster_tags";

/// The longest name of a cluster in bytes. It is the container id in each OPEN, whose frame may be small.
pub const CLUSTER_NAME_BYTES_MAX: usize = 255;

/// The longest value of a parameter in bytes. Every shard keeps it.
pub(super) const VALUE_BYTES_MAX: usize = 64 * 1024;

/// The most parameters of a node, global ones included. Every shard keeps them.
pub(super) const PARAMETERS_MAX: usize = 10_000;

/// What identifies a parameter. A global one has no virtual host and no component.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ParameterKey {
    pub vhost: Option<Arc<str>>,
    pub component: Arc<str>,
    pub name: Arc<str>,
}

/// All parameters, with their values in JSON.
pub type Parameters = BTreeMap<ParameterKey, Arc<str>>;

impl ParameterKey {
    /// Returns the key of a global parameter.
    pub fn global(name: &str) -> Self {
        Self { vhost: None, component: "".into(), name: name.into() }
    }
}

/// Returns true if a cluster may have this name. The catalog does not parse JSON, so a name has no character that JSON would
/// escape.
pub fn is_cluster_name(name: &str) -> bool {
    let is_escaped = |c: char| c.is_control() || matches!(c, '"' | '\\');
    !name.is_empty() && name.len() <= CLUSTER_NAME_BYTES_MAX && !name.contains(is_escaped)
}

impl Catalog {
    /// Returns the name that the cluster was given, or `None` if the setting counts.
    pub fn cluster_name(&self) -> Option<&str> {
        let value = self.parameters.get(&ParameterKey::global(CLUSTER_NAME))?;
        value.strip_prefix('"')?.strip_suffix('"').filter(|name| is_cluster_name(name))
    }

    /// Returns the tags that the cluster was given, in JSON.
    pub fn cluster_tags(&self) -> Option<&Arc<str>> {
        self.parameters.get(&ParameterKey::global(CLUSTER_TAGS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Change;

    #[test]
    fn the_parameter_names_the_cluster_if_it_is_a_name() {
        let mut catalog = Catalog::default();
        assert_eq!(catalog.cluster_name(), None);
        let long = format!("\"{}\"", "x".repeat(CLUSTER_NAME_BYTES_MAX + 1));
        let cases = [
            ("\"my é\"", Some("my é")),
            ("7", None),
            ("\"\"", None),
            ("\"a\\n\"", None),
            (&long, None),
            ("\"", None),
        ];
        for (value, name) in cases {
            let key = ParameterKey::global(CLUSTER_NAME);
            catalog.apply(&Change::ParameterSet { key, value: value.into() });
            assert_eq!(catalog.cluster_name(), name, "{value}");
        }
    }
}
