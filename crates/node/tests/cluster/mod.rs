//! Several nodes in one thread, from a seed: the shards and the recovery of the program, on false disks, over links that are cut, delayed and
//! slow, each with a clock of its own. After the last fault heals, nothing is called from outside: what does not move by itself is a fault.

mod checks;
mod clients;
mod far_looks;
mod limited;
mod links;
mod lost;
mod misses;
mod node;
mod queues;
mod scenes;
mod world;

use ::node::shard::Mutation;
use world::{Plan, World};

/// The seeds of each plan in a run of all tests. `SLUICE_SOAK` multiplies them, `SLUICE_SEED` sets the first.
const SEEDS: u64 = 40;

fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let first = number("SLUICE_SEED").unwrap_or(1);
    first..first + SEEDS * number("SLUICE_SOAK").unwrap_or(1)
}

fn each_seed(plan: Plan) {
    let mut done = [0; 2];
    for seed in seeds() {
        let run = std::panic::catch_unwind(|| World::new(seed, plan).run());
        // The panic before says why.
        let Ok(of_run) = run else { panic!("{plan:?} fails with SLUICE_SEED={seed}") };
        done.iter_mut().zip(of_run).for_each(|(sum, one)| *sum += one);
    }
    let [declared, accepted] = done;
    assert!(declared > 10 * seeds().count() as u64, "only {declared} declarations were carried out");
    assert!(accepted > 30 * seeds().count() as u64, "only {accepted} messages were accepted");
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

/// The seeds within which each mistake is found.
const MISTAKE_SEEDS: u64 = 200;

#[test]
fn each_mistake_is_found() {
    for (mutation, plan) in [
        (Mutation::AnswerBeforeAll, Plan::Kills),
        (Mutation::ApplyBeforeSync, Plan::Kills),
        (Mutation::DecideAtOnce, Plan::Cuts),
        (Mutation::RefuseSent, Plan::Cuts),
        (Mutation::AnswerBeforeOthers, Plan::Cuts),
        (Mutation::LoseSoon, Plan::Cuts),
    ] {
        let is_found =
            |seed| std::panic::catch_unwind(|| World::new(seed, plan).with_mutation(mutation).run()).is_err();
        let found = (1..=MISTAKE_SEEDS).find(|seed| is_found(*seed));
        assert!(found.is_some(), "{mutation:?} is not found within {MISTAKE_SEEDS} seeds");
    }
    assert!(!scenes::a_proposal_is_carried_out_once(Some(Mutation::ForgetProposals)));
    assert!(!lost::a_short_cut_ends_nothing(Some(Mutation::LoseSoon)));
    assert!(!misses::an_exchange_of_another_node_is_found(Some(Mutation::MissAtOnce)));
}
