//! Several nodes in one thread, from a seed: the shards and the recovery of the program, on false disks, over links that are cut, delayed and
//! slow, each with a clock of its own. After the last fault heals, nothing is called from outside: what does not move by itself is a fault.

mod checks;
mod clients;
mod clock;
mod far_looks;
mod limited;
mod links;
mod lost;
mod misses;
mod mistakes;
mod node;
mod queues;
mod scenes;
mod world;

use world::{Counts, Plan, World};

/// The seeds of each plan in a run of all tests. `SLUICE_SOAK` multiplies them, `SLUICE_SEED` sets the first.
const SEEDS: u64 = 40;

fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let first = number("SLUICE_SEED").unwrap_or(1);
    first..first + SEEDS * number("SLUICE_SOAK").unwrap_or(1)
}

fn each_seed(plan: Plan) {
    let (mut all, count) = (Counts::default(), seeds().count() as u64);
    for seed in seeds() {
        let run = std::panic::catch_unwind(|| World::new(seed, plan).run());
        // The panic before says why.
        let Ok(run) = run else { panic!("{plan:?} fails with SLUICE_SEED={seed}") };
        all.add(run);
    }
    assert!(all.declared > 10 * count && all.accepted > 30 * count, "{all:?}");
    let has_hurt = all.wiped > 0 && all.refused > 0 && all.closed > 0;
    assert_eq!(has_hurt, plan == Plan::Damage, "{all:?}");
}

#[test]
fn three_nodes_have_one_catalog_without_faults() {
    each_seed(Plan::Quiet);
}

#[test]
fn three_nodes_have_one_catalog_although_links_are_cut() {
    each_seed(Plan::Cuts);
}

#[test]
fn three_nodes_have_one_catalog_although_nodes_die_and_disks_lose_power() {
    each_seed(Plan::Kills);
}

#[test]
fn three_nodes_have_one_catalog_although_a_disk_is_damaged() {
    each_seed(Plan::Damage);
}

/// In these a node learned from a base that another one had started again, and kept the seats of its earlier start.
#[test]
fn a_base_ends_the_seats_of_earlier_starts() {
    for seed in [9871, 12738] {
        World::new(seed, Plan::Damage).run();
    }
}

/// In these a message that was in doubt was refused, because its queue was closed for damage, although the first copy was delivered.
#[test]
fn a_message_that_was_sent_twice_is_not_refused_if_it_was_delivered() {
    for seed in [5404, 7900] {
        World::new(seed, Plan::Damage).run();
    }
}
