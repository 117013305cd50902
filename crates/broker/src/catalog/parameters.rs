//! Parameters: named JSON values of components such as shovels and federation, which this broker does not have. They are kept,
//! so that definitions that were imported can be exported again.

use std::collections::BTreeMap;
use std::sync::Arc;

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
