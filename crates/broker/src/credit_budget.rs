//! The bytes that publishers may be promised beyond the fixed credit.

/// Bytes that the credit of all links of the node may promise beyond the fixed one. At the bound no link grows until another one shrinks or goes.
const NODE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Bytes of [`NODE_BYTES_MAX`] that a shard has left.
#[derive(Debug)]
pub struct CreditBudget {
    limit: u64,
    pub(crate) left: u64,
}

impl CreditBudget {
    /// The share of one of so many shards.
    pub fn share(shards: u64) -> Self {
        let limit = NODE_BYTES_MAX / shards.max(1);
        Self { limit, left: limit }
    }

    /// Bytes that links of this shard may be promised beyond the fixed credit.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes that they are promised now.
    pub fn used(&self) -> u64 {
        self.limit - self.left
    }
}
