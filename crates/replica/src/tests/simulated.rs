//! Runs of the simulator. `SLUICE_SEED=n` sets the first seed; `SLUICE_SOAK=n` multiplies the number of
//! seeds.

use super::sim::{Tally, run};
use crate::mutation::Mutation;

const SEEDS: u64 = 2_000;
const STEPS: usize = 600;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn nothing_acknowledged_is_lost() {
    let first = setting("SLUICE_SEED").unwrap_or(0);
    let seeds = SEEDS * setting("SLUICE_SOAK").unwrap_or(1);
    let mut all = Tally::default();
    for seed in first..first + seeds {
        match run(seed, STEPS, None) {
            Ok(tally) => all += tally,
            Err(violation) => panic!("SLUICE_SEED={seed}: {violation}"),
        }
    }
    // The runs must not be idle.
    let least = |n: u64| n * seeds / 10;
    assert!(all.acknowledged > least(100) && all.leaders > least(20), "{all:?}");
    assert!(all.bases > least(2) && all.changes > least(5) && all.wakes > least(5), "{all:?}");
    assert!(all.rejected > least(5) && 2 * all.damaged > least(1), "{all:?}");
    assert!(all.supported > least(1), "{all:?}");
}

/// Each mistake must be found within this many seeds.
const SEEDS_TO_FIND: u64 = 1_000;

/// The simulator must find every deliberate mistake.
#[test]
fn mistakes_are_found() {
    for mutation in Mutation::ALL {
        let is_found = (0..SEEDS_TO_FIND).any(|seed| run(seed, STEPS, Some(mutation)).is_err());
        assert!(is_found, "{mutation:?} is not found");
    }
}
