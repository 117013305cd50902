//! Link credit that follows how fast receipts return (`amqp10.link_credit = adaptive`).
//!
//! ```text
//!   base ──a hungry sender, receipts within FAST_MS: double──> ... ──> CREDIT_MAX, or what the bytes allow
//!     ^                                                         │
//!     └───────────── receipts later than SLOW_MS: half ─────────┘
//! ```
//!
//! It never goes below the fixed credit, so that a slow queue costs a publisher nothing that it had without this. What
//! goes beyond is paid for in bytes, from the link's own share and from that of the shard.

/// The most that a link is granted, whatever its messages weigh: above it, gathering receipts costs more than it
/// brings. At the bound the credit stays.
const CREDIT_MAX: u32 = 4_096;

/// A receipt within this time, in milliseconds, is fast: a log that is written, not synced.
const FAST_MS: u64 = 2;

/// A receipt that takes longer is slow: more credit would only wait longer.
const SLOW_MS: u64 = 5;

/// Bytes that the credit of one link may promise beyond the fixed one. At the bound it does not grow.
const LINK_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// And that of all links of the node together. At the bound no link grows until another one shrinks or goes.
const NODE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Bytes of [`NODE_BYTES_MAX`] that a shard has left.
#[derive(Debug)]
pub struct Budget {
    left: u64,
}

impl Budget {
    /// The share of one of so many shards.
    pub fn share(shards: u64) -> Self {
        Self { left: NODE_BYTES_MAX / shards.max(1) }
    }
}

/// The credit of one publishing link.
#[derive(Debug)]
pub(super) struct Adaptive {
    /// The fixed credit.
    base: u32,
    credit: u32,
    /// Bytes taken from the budget.
    reserved: u64,
    /// One message whose receipt is waited for: its number, and when it came.
    probe: Option<(u64, u64)>,
    /// The last probe was fast.
    fast: bool,
    /// The largest message of late.
    message_bytes: u64,
}

impl Adaptive {
    pub fn new(base: u32) -> Self {
        Self { base, credit: base, reserved: 0, probe: None, fast: false, message_bytes: 1 }
    }

    /// What the link is granted at a time.
    pub fn credit(&self) -> u32 {
        self.credit
    }

    /// A message has come.
    pub fn handle_sent(&mut self, seq: u64, bytes: u32, now_ms: u64) {
        self.message_bytes = self.message_bytes.max(bytes.into());
        self.probe.get_or_insert((seq, now_ms));
    }

    /// A message has got its receipts.
    pub fn handle_receipt(&mut self, seq: u64, now_ms: u64, budget: &mut Budget) {
        let Some((_, sent_ms)) = self.probe.take_if(|(probe, _)| *probe == seq) else { return };
        let took_ms = now_ms.saturating_sub(sent_ms);
        self.fast = took_ms <= FAST_MS;
        if took_ms > SLOW_MS {
            self.set(self.credit / 2, budget);
        }
    }

    /// It is time to grant; `left` is what the sender has left. One that waited for us is granted more, if receipts
    /// are fast.
    pub fn poll_grant(&mut self, left: u32, budget: &mut Budget) -> u32 {
        let hungry = left <= self.credit / 4;
        let wanted = if hungry && self.fast { self.credit.saturating_mul(2) } else { self.credit };
        self.set(wanted, budget);
        // Large messages are forgotten as smaller ones follow.
        self.message_bytes = (self.message_bytes / 2).max(1);
        // What was granted is not taken back.
        self.credit.max(left)
    }

    /// Gives back what it has taken.
    pub fn release(&mut self, budget: &mut Budget) {
        self.set(self.base, budget);
    }

    /// So much, or what bounds and bytes allow.
    fn set(&mut self, wanted: u32, budget: &mut Budget) {
        budget.left += std::mem::take(&mut self.reserved);
        let allowed = LINK_BYTES_MAX.min(budget.left) / self.message_bytes;
        let most = self.base.saturating_add(u32::try_from(allowed).unwrap_or(u32::MAX));
        self.credit = wanted.min(CREDIT_MAX).min(most).max(self.base);
        self.reserved = u64::from(self.credit - self.base) * self.message_bytes;
        budget.left -= self.reserved;
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const BASE: u32 = 170;

    /// One message, its receipt after so long, and the next grant.
    fn exchange(link: &mut Adaptive, bytes: u32, took_ms: u64, left: u32, budget: &mut Budget) -> u32 {
        link.handle_sent(7, bytes, 1_000);
        link.handle_receipt(7, 1_000 + took_ms, budget);
        link.poll_grant(left, budget)
    }

    #[test]
    fn a_hungry_sender_with_fast_receipts_grows_to_the_bound() {
        let (mut link, mut budget) = (Adaptive::new(BASE), Budget::share(1));
        let granted: Vec<u32> = (0..6).map(|_| exchange(&mut link, 12, 1, 0, &mut budget)).collect();
        assert_eq!(granted, [340, 680, 1360, 2720, 4096, 4096]);
    }

    #[test]
    fn who_is_not_hungry_or_not_fast_does_not_grow() {
        let (mut link, mut budget) = (Adaptive::new(BASE), Budget::share(1));
        assert_eq!(exchange(&mut link, 12, 1, BASE / 2, &mut budget), BASE);
        assert_eq!(exchange(&mut link, 12, FAST_MS + 1, 0, &mut budget), BASE);
    }

    #[test]
    fn slow_receipts_bring_it_back_to_the_fixed_credit_and_not_below() {
        let (mut link, mut budget) = (Adaptive::new(BASE), Budget::share(1));
        (0..6).for_each(|_| _ = exchange(&mut link, 12, 0, 0, &mut budget));
        let granted: Vec<u32> = (0..6).map(|_| exchange(&mut link, 12, 20, 0, &mut budget)).collect();
        assert_eq!(granted, [2048, 1024, 512, 256, 170, 170]);
        assert_eq!(budget.left, NODE_BYTES_MAX);
    }

    #[test]
    fn large_messages_are_not_promised() {
        let (mut link, mut budget) = (Adaptive::new(BASE), Budget::share(1));
        for _ in 0..6 {
            exchange(&mut link, 1 << 20, 0, 0, &mut budget);
        }
        assert!(link.credit() <= BASE + 8, "{}", link.credit());
    }

    proptest! {
        /// Whatever happens on links that share a budget, all bounds hold, and what is released comes back.
        #[test]
        fn bounds_hold(
            base in 1u32..6_000,
            shards in 1u64..100_000_000,
            steps in vec((0usize..4, 0u32..20_000_000, 0u64..12, any::<u32>(), any::<bool>()), 0..200),
        ) {
            let mut budget = Budget::share(shards);
            let total = budget.left;
            let mut links: Vec<Adaptive> = (0..4).map(|_| Adaptive::new(base)).collect();
            for (seq, (n, bytes, took_ms, left, answered)) in steps.into_iter().enumerate() {
                let link = &mut links[n];
                link.handle_sent(seq as u64, bytes, 0);
                if answered {
                    link.handle_receipt(link.probe.map_or(0, |(seq, _)| seq), took_ms, &mut budget);
                }
                let left = left % (link.credit() / 2 + 1);
                let granted = link.poll_grant(left, &mut budget);
                prop_assert!(granted >= base && granted <= base.max(CREDIT_MAX));
                prop_assert!(links.iter().all(|l| l.reserved <= LINK_BYTES_MAX && l.credit >= base));
                prop_assert_eq!(links.iter().map(|l| l.reserved).sum::<u64>() + budget.left, total);
            }
            links.iter_mut().for_each(|link| link.release(&mut budget));
            prop_assert_eq!(budget.left, total);
        }
    }
}
