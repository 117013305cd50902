//! The properties find each deliberate mistake.

use proptest::test_runner::{Config, TestError, TestRunner};

use super::order::{a_batch_is_its_commands, log_restores_live, with_batch, with_restart};
use super::same::{restored_is_live, settings_change_nothing, with_base, with_settings};
use super::*;
use crate::Mutation;

/// Each mistake must be found within this many cases.
const CASES_TO_FIND: u32 = 2000;

/// Returns true if the property does not hold for some case.
fn finds<S: Strategy>(
    cases: &S,
    mutation: Mutation,
    property: impl Fn(S::Value, Option<Mutation>) -> Result<(), TestCaseError>,
) -> bool {
    // The cases are always the same, and a case that fails is not made smaller.
    let config =
        Config { cases: CASES_TO_FIND, max_shrink_iters: 0, failure_persistence: None, ..Config::default() };
    let result = TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(Default::default()),
    )
    .run(cases, |case| property(case, Some(mutation)));
    matches!(result, Err(TestError::Fail(..)))
}

#[test]
fn each_mutation_is_found() {
    let is_found = |mutation| match mutation {
        Mutation::ApplyReadsSetting => finds(&with_settings(), mutation, settings_change_nothing),
        Mutation::BatchForgetsOwner => finds(&with_batch(), mutation, a_batch_is_its_commands),
        Mutation::ReuseIncarnation => finds(&with_restart(), mutation, log_restores_live),
        Mutation::IgnoreClaims | Mutation::OvertakeWaiting => finds(&steps(), mutation, one_by_one),
        Mutation::KeepTransient
        | Mutation::ForgetTransient
        | Mutation::ForgetBinding
        | Mutation::ForgetPolicies
        | Mutation::ForgetIncarnations
        | Mutation::ForgetProposals => {
            finds(&with_restart(), mutation, log_restores_live)
                && finds(&with_base(), mutation, restored_is_live)
        }
        Mutation::WalkOverStart | Mutation::EndOthers => finds(&with_base(), mutation, restored_is_live),
    };
    let not_found: Vec<_> = Mutation::ALL.into_iter().filter(|mutation| !is_found(*mutation)).collect();
    assert_eq!(not_found, []);
}
