//! Link credit that adapts to the rate of receipts (`amqp10.link_credit = adaptive`, docs/decisions/0009).
//!
//! A publisher's rate is its credit divided by the time that a receipt takes, until something else is the limit. So
//! more credit is worth its memory as long as it brings more receipts per second, even if each receipt takes longer. If
//! receipts arrive at once, more credit delays nothing. It only makes turns (iterations of the shard's event loop)
//! larger.
//!
//! ```text
//!                  HOLD periods                         one period to settle, one to compare
//!   (Hold) ------------------------> credit doubled or halved ------------------------> (Trial)
//!     ^                                         ^                                        |    |
//!     |                                         +----- worth it: the same once more -----+    |
//!     +------ not worth it: back to the old credit, next time the other direction -----------+
//! ```
//!
//! The credit never goes below the fixed credit, so that a publisher on a slow queue loses nothing. Credit above the
//! fixed credit is paid for in bytes, from the limit of the link and from the budget of the shard.

use crate::credit_budget::CreditBudget;

/// The maximum credit of a link, whatever the size of its messages. Above it, collecting receipts costs more than it
/// brings. At the bound the credit stays.
pub(crate) const CREDIT_MAX: u32 = 4_096;

/// The maximum credit where receipts wait for consumers and not for the disk. Above it, larger turns bring nothing
/// more, and messages take longer from end to end. Also, a publisher that waits 20 ms for each receipt would still be
/// faster than consumers with a backlog (docs/decisions/0022).
pub(crate) const PACED_CREDIT_MAX: u32 = 1_024;

/// The minimum time over which a rate is measured, in milliseconds. It spans several syncs of a slow disk, whose
/// receipts arrive in bursts, and many ticks of a millisecond clock.
const PERIOD_MS: u64 = 32;

/// A receipt within this time, in milliseconds, counts as immediate. The log has then been written, but not synced.
const IMMEDIATE_MS: u64 = 2;

/// A doubled credit is kept if the rate rises by at least one eighth. A halved credit is kept if the rate falls by at
/// most one eighth. A smaller part would follow the noise of the machine.
const RATE_PART: u64 = 8;

/// The number of periods between two trials. It spreads the cost of trials that are not worth it.
const HOLD: u32 = 16;

/// The number of periods before the first trial, so that a new publisher gets more credit soon.
const FIRST_HOLD: u32 = 2;

/// The maximum number of bytes that the credit of one link may promise beyond the fixed credit. At the bound it does
/// not grow.
const LINK_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The credit of one publishing link.
#[derive(Debug)]
pub(crate) struct Adaptive {
    /// The fixed credit, below which the credit never goes.
    base: u32,
    /// The maximum credit, unless the fixed credit is higher.
    max: u32,
    credit: u32,
    /// The number of bytes taken from the budget.
    reserved: u64,
    /// The size of the largest recent message in bytes.
    message_bytes: u64,
    period: Period,
    direction: Direction,
    step: Step,
}

/// The counts of one period of time.
#[derive(Debug, Default)]
struct Period {
    started_ms: u64,
    receipts: u32,
    /// True if the publisher had a quarter of its credit or less left when it was granted more.
    ran_low: bool,
    /// The message whose receipt is timed: its number, and the time at which it arrived.
    probe: Option<(u64, u64)>,
    /// The shortest time between a timed message and its receipt, in milliseconds. The shortest is used
    /// because a busy machine delays some receipts, but a disk that syncs delays all of them.
    fastest_ms: Option<u64>,
}

/// The direction of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

/// The state of the search for the best credit; see the diagram above. Rates are receipts per second.
#[derive(Debug)]
enum Step {
    Hold {
        periods: u32,
    },
    Trial {
        /// The credit and the rate before the trial.
        credit: u32,
        rate: u64,
        /// True if the current period has had the new credit from its start.
        settled: bool,
    },
}

impl Period {
    fn is_immediate(&self) -> bool {
        self.fastest_ms.is_some_and(|ms| ms <= IMMEDIATE_MS)
    }
}

impl Adaptive {
    pub(crate) fn new(base: u32, max: u32) -> Self {
        Self {
            base,
            max,
            credit: base,
            reserved: 0,
            message_bytes: 1,
            period: Period::default(),
            direction: Direction::Up,
            step: Step::Hold { periods: FIRST_HOLD },
        }
    }

    /// Returns the credit that the link is granted at a time.
    pub(crate) fn credit(&self) -> u32 {
        self.credit
    }

    /// Called when a message has arrived.
    pub(crate) fn handle_sent(&mut self, seq: u64, bytes: u32, now_ms: u64) {
        self.message_bytes = self.message_bytes.max(bytes.into());
        self.period.probe.get_or_insert((seq, now_ms));
    }

    /// Called when a message has received all its receipts.
    pub(crate) fn handle_receipt(&mut self, seq: u64, now_ms: u64, budget: &mut CreditBudget) {
        let period = &mut self.period;
        if let Some((_, sent_ms)) = period.probe.take_if(|(probe, _)| *probe == seq) {
            let took_ms = now_ms.saturating_sub(sent_ms);
            period.fastest_ms = Some(period.fastest_ms.map_or(took_ms, |fastest| fastest.min(took_ms)));
        }
        period.receipts = period.receipts.saturating_add(1);
        let length_ms = now_ms.saturating_sub(period.started_ms);
        // By now the whole credit has been used once, so this rate is the one that the credit brings.
        if length_ms >= PERIOD_MS && period.receipts >= self.credit {
            let next = Period { started_ms: now_ms, probe: period.probe, ..Period::default() };
            let ended = std::mem::replace(period, next);
            let rate = u64::from(ended.receipts) * 1000 / length_ms;
            self.compare(rate, &ended, budget);
        }
    }

    /// Called when it is time to grant. `left` is the credit that the publisher has left. Returns the credit to grant.
    pub(crate) fn poll_grant(&mut self, left: u32, budget: &mut CreditBudget) -> u32 {
        self.period.ran_low |= left <= self.credit / 4;
        self.set(self.credit, budget);
        // The size of a large message is forgotten as smaller ones follow.
        self.message_bytes = (self.message_bytes / 2).max(1);
        // Granted credit is not withdrawn.
        self.credit.max(left)
    }

    /// Returns to the budget what the link has taken from it.
    pub(crate) fn release(&mut self, budget: &mut CreditBudget) {
        self.set(self.base, budget);
    }

    /// Called at the end of a period with its rate, in receipts per second.
    fn compare(&mut self, rate: u64, period: &Period, budget: &mut CreditBudget) {
        match &mut self.step {
            Step::Hold { periods: 0 | 1 } => self.start_trial(rate, period, budget),
            Step::Hold { periods } => *periods -= 1,
            Step::Trial { settled: settled @ false, .. } => *settled = true,
            Step::Trial { credit, rate: before, .. } => {
                let (credit, before) = (*credit, *before);
                let keep = match self.direction {
                    Direction::Up if period.is_immediate() => true,
                    Direction::Up => rate >= before + before / RATE_PART,
                    Direction::Down => rate + before / RATE_PART >= before,
                };
                if keep {
                    return self.start_trial(rate, period, budget);
                }
                self.set(credit, budget);
                self.reverse();
            }
        }
    }

    /// Tries another credit, if there is one to be tried.
    fn start_trial(&mut self, rate: u64, period: &Period, budget: &mut CreditBudget) {
        let credit = self.credit;
        match self.direction {
            // More credit does not help a publisher that does not use its credit.
            Direction::Up if period.ran_low => self.set(credit.saturating_mul(2), budget),
            Direction::Down if !(period.ran_low && period.is_immediate()) => self.set(credit / 2, budget),
            _ => {}
        }
        if self.credit == credit {
            return self.reverse();
        }
        self.step = Step::Trial { credit, rate, settled: false };
    }

    fn reverse(&mut self) {
        self.direction = if self.direction == Direction::Up { Direction::Down } else { Direction::Up };
        self.step = Step::Hold { periods: HOLD };
    }

    /// Sets the credit to `wanted`, or to what the bounds and the bytes allow.
    fn set(&mut self, wanted: u32, budget: &mut CreditBudget) {
        budget.left += std::mem::take(&mut self.reserved);
        let allowed = LINK_BYTES_MAX.min(budget.left) / self.message_bytes;
        let payable = self.base.saturating_add(u32::try_from(allowed).unwrap_or(u32::MAX));
        self.credit = wanted.min(self.max).min(payable).max(self.base);
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

    /// Simulates a queue that sends receipts in bursts, `apart_ms` milliseconds apart and at most `most` at once, to a
    /// publisher that always uses all its credit. Returns the credit granted at the end of each of `bursts` bursts.
    fn bursts(
        link: &mut Adaptive,
        budget: &mut CreditBudget,
        (apart_ms, most): (u64, u32),
        bursts: u64,
    ) -> Vec<u32> {
        let start = link.period.started_ms;
        (1..=bursts)
            .map(|n| {
                let now_ms = start + n * apart_ms;
                for seq in 0..u64::from(link.credit().min(most)) {
                    link.handle_sent(seq, 12, now_ms - apart_ms);
                    link.handle_receipt(seq, now_ms, budget);
                }
                link.poll_grant(0, budget)
            })
            .collect()
    }

    #[test]
    fn late_receipts_in_large_bursts_raise_the_credit() {
        let (mut link, mut budget) = (Adaptive::new(BASE, CREDIT_MAX), CreditBudget::share(1));
        let granted = bursts(&mut link, &mut budget, (8, u32::MAX), 100);
        assert!(granted.is_sorted());
        assert_eq!(granted.last(), Some(&CREDIT_MAX));
    }

    #[test]
    fn immediate_receipts_raise_the_credit() {
        let (mut link, mut budget) = (Adaptive::new(BASE, CREDIT_MAX), CreditBudget::share(1));
        let granted = bursts(&mut link, &mut budget, (1, 1_000), 10_000);
        assert!(granted.is_sorted());
        assert_eq!(granted.last(), Some(&CREDIT_MAX));
    }

    #[test]
    fn the_credit_is_bounded_where_receipts_wait_for_consumers() {
        let (mut link, mut budget) = (Adaptive::new(BASE, PACED_CREDIT_MAX), CreditBudget::share(1));
        for apart_ms in [1, 20] {
            let granted = bursts(&mut link, &mut budget, (apart_ms, u32::MAX), 200);
            assert_eq!(granted.last(), Some(&PACED_CREDIT_MAX), "{apart_ms}");
        }
    }

    #[test]
    fn the_credit_stops_where_more_raises_no_rate() {
        let (mut link, mut budget) = (Adaptive::new(BASE, CREDIT_MAX), CreditBudget::share(1));
        let granted = bursts(&mut link, &mut budget, (8, 600), 2_000);
        let late = &granted[200..];
        // To receive 600 receipts at once, a credit of 680 is needed. The trials up and down last a few
        // periods and are undone.
        assert!(late.iter().filter(|c| **c == 680).count() * 4 > late.len() * 3, "{late:?}");
        assert!(late.iter().all(|c| (340..=1360).contains(c)), "{late:?}");
    }

    #[test]
    fn a_queue_at_its_limit_leaves_the_fixed_credit() {
        let (mut link, mut budget) = (Adaptive::new(BASE, CREDIT_MAX), CreditBudget::share(1));
        let granted = bursts(&mut link, &mut budget, (8, BASE), 1_000);
        assert!(granted.iter().filter(|c| **c == BASE).count() * 4 > granted.len() * 3, "{granted:?}");
    }

    #[test]
    fn the_credit_falls_when_the_queue_becomes_slow() {
        let (mut link, mut budget) = (Adaptive::new(BASE, CREDIT_MAX), CreditBudget::share(1));
        bursts(&mut link, &mut budget, (8, u32::MAX), 100);
        assert_eq!(link.credit(), CREDIT_MAX);
        // From now on the queue sends 20 receipts per millisecond.
        bursts(&mut link, &mut budget, (8, 160), 10_000);
        assert!(link.credit() <= 2 * BASE, "{}", link.credit());
    }

    #[test]
    fn unused_credit_does_not_grow_and_is_returned() {
        let (mut link, mut budget) = (Adaptive::new(BASE, CREDIT_MAX), CreditBudget::share(1));
        for now_ms in 0..1_000 {
            link.handle_receipt(0, now_ms, &mut budget);
            assert_eq!(link.poll_grant(BASE / 2, &mut budget), BASE);
        }
        bursts(&mut link, &mut budget, (8, u32::MAX), 400);
        assert_eq!(link.credit(), CREDIT_MAX);
        // The queue sends a hundred receipts per millisecond, whatever the credit is.
        for now_ms in 0..60_000 {
            (0..100).for_each(|_| link.handle_receipt(0, 10_000 + now_ms, &mut budget));
            link.poll_grant(link.credit() / 2, &mut budget);
        }
        assert_eq!((link.credit(), budget.left), (BASE, budget.limit()));
    }

    #[test]
    fn large_messages_limit_the_credit() {
        let (mut link, mut budget) = (Adaptive::new(BASE, CREDIT_MAX), CreditBudget::share(1));
        link.handle_sent(0, 1 << 20, 0);
        link.set(u32::MAX, &mut budget);
        assert!(link.credit() <= BASE + 4, "{}", link.credit());
    }

    proptest! {
        /// Checks that all bounds hold whatever happens on links that share a budget, and that everything
        /// released returns to the budget.
        #[test]
        fn bounds_hold(
            base in 1u32..6_000,
            shards in 1u64..100_000_000,
            steps in vec((0usize..4, 0u32..20_000_000, 0u64..200, any::<u32>(), 0u32..10_000), 0..200),
        ) {
            let mut budget = CreditBudget::share(shards);
            let total = budget.left;
            let mut now_ms = 0;
            let mut links: Vec<Adaptive> = (0..4).map(|_| Adaptive::new(base, CREDIT_MAX)).collect();
            for (n, bytes, later_ms, left, receipts) in steps {
                now_ms += later_ms;
                let link = &mut links[n];
                link.handle_sent(0, bytes, now_ms);
                (0..receipts).for_each(|_| link.handle_receipt(0, now_ms, &mut budget));
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
