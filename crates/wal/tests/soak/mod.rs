//! Many runs, each from a plan that a seed decides.

use std::fmt::Debug;
use std::ops::Range;

use wal_testing::Random;

pub(crate) fn pick<'a, T>(random: &mut Random, from: &'a [T]) -> &'a T {
    &from[random.below(from.len() as u64) as usize]
}

/// Returns `runs` seeds, times `SLUICE_SOAK`, from `SLUICE_SEED` on.
pub(crate) fn seeds(runs: u64) -> Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("SLUICE_SEED").unwrap_or(0);
    first..first + runs * number("SLUICE_SOAK").unwrap_or(1)
}

/// Prints the plan if the run panics.
struct Named<P: Debug>(P);

impl<P: Debug> Drop for Named<P> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            use std::io::Write;
            let _ = writeln!(std::io::stderr(), "failing run: {:?}", self.0);
        }
    }
}

/// Does a run; if it panics, prints its plan.
pub(crate) fn named<P: Debug + Copy, R>(plan: P, run: impl FnOnce(P) -> R) -> R {
    let _named = Named(plan);
    run(plan)
}
