//! Deliberate mistakes, each with the seeds or the scene that finds it.

use node::shard::Mutation;

use super::world::{Plan, World};
use super::{lost, misses, scenes};

/// A mistake of one of the crates that a node consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mistake {
    Shard(Mutation),
    /// Of the sessions about queues of other nodes.
    Seat(seat::Mutation),
    /// Of the machine that knows which nodes are alive, and who forms a cluster.
    Nodes(nodes::Mutation),
}

/// Makes the sessions on this thread make a mistake, until this is dropped.
struct OfSessions;

impl OfSessions {
    fn set(mistake: Mistake) -> Self {
        if let Mistake::Seat(mutation) = mistake {
            seat::mutate(Some(mutation));
        }
        Self
    }
}

impl Drop for OfSessions {
    fn drop(&mut self) {
        seat::mutate(None);
    }
}

/// The mistakes that the world finds, with the plan that finds them.
const OF_WORLD: [(Mistake, Plan); 15] = [
    (Mistake::Shard(Mutation::AnswerBeforeAll), Plan::Kills),
    (Mistake::Shard(Mutation::ApplyBeforeSync), Plan::Kills),
    (Mistake::Shard(Mutation::DecideAtOnce), Plan::Cuts),
    (Mistake::Shard(Mutation::RefuseSent), Plan::Cuts),
    (Mistake::Shard(Mutation::AnswerBeforeOthers), Plan::Cuts),
    (Mistake::Shard(Mutation::LoseSoon), Plan::Cuts),
    (Mistake::Shard(Mutation::ForgetProposals), Plan::Cuts),
    (Mistake::Shard(Mutation::ReuseNumbers), Plan::Quiet),
    (Mistake::Seat(seat::Mutation::ForgetSent), Plan::Cuts),
    (Mistake::Seat(seat::Mutation::RefuseSent), Plan::Cuts),
    (Mistake::Seat(seat::Mutation::TakeRepeated), Plan::Cuts),
    (Mistake::Seat(seat::Mutation::ForgetInDoubt), Plan::Kills),
    (Mistake::Seat(seat::Mutation::KeepSession), Plan::Kills),
    (Mistake::Nodes(nodes::Mutation::FoundByTimeout), Plan::Kills),
    (Mistake::Nodes(nodes::Mutation::FoundWithoutAll), Plan::Kills),
];

/// The most seeds until a mistake is found.
const SEEDS: u64 = 200;

/// Looks for a mistake, and prints how many seeds that takes.
#[expect(clippy::print_stdout, reason = "these are the figures")]
fn find(mistake: Mistake, plan: Plan) {
    let _of_sessions = OfSessions::set(mistake);
    let is_found =
        |seed| std::panic::catch_unwind(|| World::new(seed, plan).with_mistake(mistake).run()).is_err();
    let found = (1..=SEEDS).find(|seed| is_found(*seed));
    println!("{mistake:?} with {plan:?}: {found:?}");
    assert!(found.is_some(), "{mistake:?} is not found within {SEEDS} seeds");
}

#[test]
fn mistakes_are_found() {
    for (mistake, plan) in OF_WORLD {
        find(mistake, plan);
    }
}

#[test]
fn scenes_find_mistakes() {
    assert!(!scenes::a_proposal_is_carried_out_once(Some(Mutation::ForgetProposals)));
    assert!(!lost::a_short_cut_ends_nothing(Some(Mutation::LoseSoon)));
    assert!(!misses::an_exchange_of_another_node_is_found(Some(Mutation::MissAtOnce)));
}
