//! What the log says about connections of other nodes: each reason once, until it changes.

use std::collections::HashMap;
use std::hash::Hash;

/// The most peers whose last reason is remembered. There are 63 other nodes at most. Others, for example a scan of ports, may come from more
/// addresses; then all are forgotten, and the limit of the log's rate is what is left.
const REMEMBERED_MAX: usize = 256;

/// The last reason of each peer.
#[derive(Debug)]
pub(super) struct Said<K>(HashMap<K, String>);

impl<K> Default for Said<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Said<K> {
    /// Returns true if this is not what was said last about the peer.
    pub(super) fn is_news(&mut self, peer: K, reason: &str) -> bool {
        if self.0.get(&peer).is_some_and(|last| last == reason) {
            return false;
        }
        if self.0.len() >= REMEMBERED_MAX {
            self.0.clear();
        }
        self.0.insert(peer, reason.to_owned());
        true
    }

    /// Called when the peer is in order again. Returns true if something was said about it.
    pub(super) fn forget(&mut self, peer: &K) -> bool {
        self.0.remove(peer).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_news_once() {
        let mut said = Said::default();
        assert!(
            said.is_news(1, "a") && !said.is_news(1, "a") && said.is_news(2, "a") && said.is_news(1, "b")
        );
        assert!(said.forget(&1) && !said.forget(&1) && said.is_news(1, "b"));
        (10..10 + REMEMBERED_MAX).for_each(|peer| assert!(said.is_news(peer, "a")));
        assert!(said.0.len() <= REMEMBERED_MAX);
    }
}
