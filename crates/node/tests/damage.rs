//! Between two lives of a simulated broker, a file is damaged or lost. Then each queue is closed, or has everything that was
//! confirmed; lost definitions refuse the start; and the next starts find the same.

use node::recovery::Mutation;
use wal_testing::Crash;

use crate::world::{Counts, PLACES, Place, World};

/// The number of runs.
const RUNS: u64 = 160;

/// Returns the seeds: `count` of them, or the one that `SLUICE_SEED` names. `SLUICE_SOAK` multiplies the number.
fn seeds(count: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text: String| text.parse::<u64>().ok());
    match number("SLUICE_SEED") {
        Some(seed) => seed..seed + number("SLUICE_SOAK").unwrap_or(1),
        None => 0..count * number("SLUICE_SOAK").unwrap_or(1),
    }
}

/// Returns where the first fault of a run is, so that each place is hit in some runs, with and without syncs.
fn first_place(seed: u64) -> Place {
    PLACES[(seed / 2) as usize % PLACES.len()]
}

/// Runs one simulation. Returns what has happened, or what is wrong.
fn run(seed: u64, mutation: Option<Mutation>) -> Result<(Counts, u64), String> {
    let run = || {
        let fsync = seed.is_multiple_of(2);
        let mut world = World::with_damage(seed, fsync, mutation);
        let lives = 2 + world.random.below(3);
        for life in 0..lives {
            let steps = 100 + world.random.below(1500);
            let disk_errors = world.random.one_in(4);
            (0..steps).for_each(|_| world.step(disk_errors));
            let how = if fsync && world.random.one_in(2) { Crash::Power } else { Crash::Process };
            let place = match life {
                0 => first_place(seed),
                _ if world.random.one_in(2) => Place::Nothing,
                _ => PLACES[world.random.below(PLACES.len() as u64) as usize],
            };
            if !world.restart_with(place, how) {
                return (world.damage_counts(), world.forgotten);
            }
            if world.random.one_in(3) {
                world.drain_and_check_damaged();
            }
        }
        world.drain_and_check_damaged();
        (world.damage_counts(), world.forgotten)
    };
    let run = std::panic::catch_unwind(run);
    run.map_err(|panic| panic.downcast_ref::<String>().map_or("see above", |why| why).to_owned())
}

#[test]
fn damage_is_named_and_costs_only_whom_it_concerns() {
    let mut all = Counts::default();
    let mut forgotten = 0;
    let mut failed = Vec::new();
    for seed in seeds(RUNS) {
        match run(seed, None) {
            Ok((counts, files)) => {
                all.add(counts);
                forgotten += files;
            }
            Err(why) => failed.push(format!("seed {seed}: {why}")),
        }
    }
    // A failure is repeated with SLUICE_SEED=seed.
    assert!(failed.is_empty(), "{} runs failed:\n{}", failed.len(), failed.join("\n"));
    if std::env::var("SLUICE_SEED").is_err() {
        let Counts { refused, closed, closed_late, harmless, unclaimed, without_room, interrupted, whole } =
            all;
        let counts =
            [refused, closed, closed_late, harmless, unclaimed, without_room, interrupted, whole, forgotten];
        assert!(counts.iter().all(|count| *count > 0), "{all:?}, {forgotten} files were deleted");
    }
}

/// The runs with such a fault between the first two lives, or with any, must find the mistake, and say this about it.
fn assert_found(mistake: Mutation, place: Option<Place>, what: &str) {
    let mut seeds = (0..RUNS).filter(|seed| place.is_none_or(|place| first_place(*seed) == place));
    let is_found = |seed| run(seed, Some(mistake)).is_err_and(|why| why.contains(what));
    assert!(seeds.any(is_found), "nobody finds {mistake:?}");
}

#[test]
fn a_recovery_that_forgets_or_deletes_is_found_in_these_worlds() {
    assert_found(Mutation::ForgetQuarantine, Some(Place::Message), "has lost records and is open");
    assert_found(Mutation::ForgetClosed, Some(Place::Definition), "after another start");
    assert_found(Mutation::DeleteUnclaimed, None, "is neither known nor unclaimed");
}
