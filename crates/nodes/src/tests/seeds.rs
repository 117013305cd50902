//! Random faults. `SLUICE_SEED=n` sets the first seed; `SLUICE_SOAK=n` multiplies the number of seeds.

use link::ClusterId;
use random::Random;

use super::sim::{Path, Violation, World};
use crate::mutation::Mutation;
use crate::{Directory, Health};

const SEEDS: u64 = 400;

/// Seeds that found mistakes.
const KEPT: [u64; 1] = [215_629];

/// Each mistake must be found within this many seeds.
const SEEDS_TO_FIND: u64 = 400;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Chooses what the disks hold at first.
fn directories(random: &mut Random) -> Vec<Directory> {
    let count = if random.percent(70) { 3 } else { 5 };
    let mut directories = vec![Directory::Empty; count];
    match random.below(10) {
        0 | 1 => directories[random.index(count)] = Directory::Holds,
        2 => {
            directories[random.index(count)] = Directory::Holds;
            directories[random.index(count)] = Directory::Holds;
        }
        3 => {
            let members = random.between(1, count as u64 + 1) as u32;
            for number in 1..=members {
                let cluster = ClusterId([7; 16]);
                directories[number as usize - 1] = Directory::Member { cluster, number };
            }
        }
        _ => {}
    }
    directories
}

fn fault(world: &mut World, has_disk_faults: bool) {
    let count = world.hosts.len();
    let (at, other) = (world.random.index(count), world.random.index(count));
    match world.random.below(16) {
        0 | 1 => world.set_path(at, other, Path::Cut),
        2 => {
            world.set_path(at, other, Path::Cut);
            world.set_path(other, at, Path::Cut);
        }
        3 if at != other => world.set_path(at, other, Path::Refuses),
        4..=6 => {
            world.set_path(at, other, Path::Open);
            world.set_path(other, at, Path::Open);
        }
        7 => {
            let delay_ms = world.random.below(1_000);
            world.set_delay(at, other, delay_ms);
        }
        8 => world.kill(at),
        9 => world.cut_power(at),
        10 if world.random.one_in(2) => world.wipe(at),
        11 | 12 => world.start(at),
        13 => {
            let oldest_turn_ms = world.random.below(4_000) as u32;
            world.set_health(at, Health { oldest_turn_ms, ..Health::default() });
        }
        14 if has_disk_faults => {
            let oldest_unsynced_ms = world.random.below(8_000) as u32;
            world.set_health(at, Health { oldest_unsynced_ms, ..Health::default() });
        }
        15 => {
            world.kill(at);
            world.start(at);
        }
        _ => {}
    }
}

/// Runs the faults of this seed, and then heals everything. Returns true if a cluster was formed.
fn run(seed: u64, mutation: Option<Mutation>) -> Result<bool, Violation> {
    let mut random = Random(seed);
    let directories = directories(&mut random);
    let mut world = World::new(seed, &directories, mutation);
    let has_other_list = random.one_in(10);
    if has_other_list {
        let list = (0..directories.len() - 1).map(|at| format!("node-{at}")).collect();
        world.set_list(random.index(directories.len() - 1), list);
    }
    let has_disk_faults = random.one_in(10);
    world.is_faulty = true;
    let is_calm_at_first = random.one_in(3);
    for at in 0..directories.len() {
        if is_calm_at_first || random.percent(60) {
            world.start(at);
        }
    }
    if is_calm_at_first {
        world.run_for(random.below(8_000))?;
    }
    let longest_ms = random.pick(&[300, 1_000, 3_000]).expect("a list");
    for _ in 0..random.between(5, 25) {
        world.run_for(random.below(longest_ms))?;
        fault(&mut world, has_disk_faults);
    }
    world.heal();
    // A disk needs 30 s to be good again.
    world.run_for(if has_disk_faults { 45_000 } else { 12_000 })?;
    if !has_other_list {
        world.check_healed()?;
    }
    Ok(!world.clusters().is_empty())
}

#[test]
fn live_nodes_form_one_cluster() {
    let first = setting("SLUICE_SEED").unwrap_or(0);
    let seeds = SEEDS * setting("SLUICE_SOAK").unwrap_or(1);
    let mut formed = 0;
    for seed in (first..first + seeds).chain(KEPT) {
        match run(seed, None) {
            Ok(is_formed) => formed += u64::from(is_formed),
            Err(violation) => panic!("SLUICE_SEED={seed}: {violation}"),
        }
    }
    assert!(formed > seeds / 2, "{formed} of {seeds}");
}

#[test]
fn mistakes_are_found() {
    for mutation in Mutation::ALL {
        let found = (0..SEEDS_TO_FIND).find(|seed| run(*seed, Some(mutation)).is_err());
        assert!(found.is_some(), "{mutation:?} is not found");
    }
}
