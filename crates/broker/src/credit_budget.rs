//! The memory budget for link credit beyond the fixed credit.

/// The maximum number of bytes that the credit of all links of the node may promise beyond the fixed credit. At the
/// bound, no link's credit grows until another link's credit shrinks or its link is closed.
const NODE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// A shard's part of `NODE_BYTES_MAX`, and the bytes that are left of it.
#[derive(Debug)]
pub struct CreditBudget {
    limit: u64,
    pub(crate) left: u64,
}

impl CreditBudget {
    /// Returns the budget of one of `shards` shards.
    pub fn share(shards: u64) -> Self {
        let limit = NODE_BYTES_MAX / shards.max(1);
        Self { limit, left: limit }
    }

    /// Returns the bytes that links of this shard may be promised beyond the fixed credit.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the bytes that links of this shard are promised now.
    pub fn used(&self) -> u64 {
        self.limit - self.left
    }
}
