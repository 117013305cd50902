//! Which objects a request for metrics wants.

use catalog::pattern::Pattern;

/// Which objects have rows.
#[derive(Default)]
pub(super) struct Filter {
    /// The virtual hosts; all of them if it is empty.
    pub vhosts: Vec<String>,
    /// The pattern that the names of queues match.
    pub queue: Option<Pattern>,
}

impl Filter {
    /// Returns true if the filter wants the queues of this virtual host.
    pub(super) fn wants_vhost(&self, name: &str) -> bool {
        self.vhosts.is_empty() || self.vhosts.iter().any(|vhost| *vhost == *name)
    }
}
