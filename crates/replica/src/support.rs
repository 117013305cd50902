//! The nodes that this node supports.

/// The nodes that this node supports as nodes of leaders: while it supports a node, none of its members votes against a leader there.
/// Each node has one such set for all its groups, and lends it to them. So a group that was at rest knows the same support as the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Support {
    /// In ascending order.
    nodes: Vec<u32>,
}

impl Support {
    /// Begins or ends the support of a node. Returns true if it has changed. When a support has ended, the owner asks each group whose
    /// leader is on that node whether its member should campaign ([`crate::Group::lacks_support`]).
    pub fn set(&mut self, node: u32, supported: bool) -> bool {
        match (self.nodes.binary_search(&node), supported) {
            (Err(at), true) => self.nodes.insert(at, node),
            (Ok(at), false) => _ = self.nodes.remove(at),
            (Ok(_), true) | (Err(_), false) => return false,
        }
        true
    }

    /// Returns true if `node` is supported.
    pub fn has(&self, node: u32) -> bool {
        self.nodes.binary_search(&node).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_supported_until_its_support_ends() {
        let mut support = Support::default();
        let given = [7, 3, 9, 3].map(|node| support.set(node, true));
        assert_eq!((given, &support.nodes[..]), ([true, true, true, false], &[3, 7, 9][..]));
        assert!(support.set(7, false) && !support.set(7, false));
        assert_eq!([3, 7, 9].map(|node| support.has(node)), [true, false, true]);
    }
}
