//! The rules for setting and clearing policies.

use std::sync::Arc;

use super::super::policy::{ApplyTo, Policy, check_definition};
use super::super::{Arguments, Catalog, Change};
use super::{Answer, CatalogError, Decision, check_name};
use crate::pattern::Pattern;

/// The maximum number of policies of one kind in one virtual host. Each may have to be matched
/// against the name of a new queue.
const POLICIES_MAX: usize = 1000;

/// The most steps that matching one name with all policies of one kind in one virtual host may take: some 80 ms at worst. A thousand
/// policies such as `^name-with-40-characters\..*$` take less. One costly pattern takes 300,000.
const POLICY_STEPS_MAX: u64 = 2 * 1024 * 1024;

/// A policy to set.
#[derive(Clone, Debug, PartialEq)]
pub struct SetPolicy {
    pub vhost: Arc<str>,
    pub name: Arc<str>,
    /// True for an operator policy.
    pub operator: bool,
    pub pattern: String,
    pub priority: i64,
    /// The kinds of objects that the policy is for: one of the names of [`ApplyTo`].
    pub apply_to: String,
    pub definition: Arguments,
}

impl SetPolicy {
    /// Checks everything but whether the virtual host exists.
    ///
    /// # Errors
    /// [`CatalogError::Invalid`] says what is wrong with the name, the pattern, `apply_to` or the definition.
    pub fn check(self) -> Result<Policy, CatalogError> {
        let Self { vhost, name, operator, pattern, priority, apply_to, definition } = self;
        check_name("policy", &name)?;
        check_definition(operator, &definition)?;
        let pattern = Pattern::new(&pattern).map_err(invalid)?;
        let apply_to = ApplyTo::parse(&apply_to).ok_or_else(|| {
            invalid(format!(
                "apply-to '{}' must be all, exchanges, queues, classic_queues, quorum_queues or streams",
                apply_to.escape_default()
            ))
        })?;
        Ok(Policy { vhost, name, operator, pattern, priority, apply_to, definition })
    }
}

fn invalid(reason: String) -> CatalogError {
    CatalogError::Invalid { reason: format!("Validation failed: {reason}") }
}

impl Catalog {
    pub(super) fn set_policy(&self, set: SetPolicy) -> Result<Decision, CatalogError> {
        self.check_vhost(&set.vhost)?;
        let policy = set.check()?;
        let Policy { vhost, name, operator, .. } = &policy;
        let known = self.policy(vhost, name, *operator);
        let created = known.is_none();
        if created && self.policies(*operator).filter(|p| p.vhost == *vhost).count() >= POLICIES_MAX {
            return Err(invalid(format!("there are {POLICIES_MAX} policies in vhost '{vhost}' already")));
        }
        let before = known.map_or(0, |known| known.pattern.steps_of_name());
        let of_vhost = self.vhosts.get(vhost).map_or(0, |of_vhost| of_vhost.policies.steps(*operator));
        let own = policy.pattern.steps_of_name();
        let steps = of_vhost.saturating_sub(before).saturating_add(own);
        // Policies of an older version may exceed the limit. Each of them may still be replaced by a cheaper one.
        if steps > POLICY_STEPS_MAX && own > before {
            return Err(invalid(format!(
                "the pattern is too costly: with it, matching a name with the policies of vhost '{vhost}' takes up to {steps} steps, \
                 {own} of them for this one, and {POLICY_STEPS_MAX} are possible"
            )));
        }
        let same = known.is_some_and(|known| **known == policy);
        let changes = if same { Vec::new() } else { vec![Change::PolicySet(Arc::new(policy))] };
        Ok(Decision { changes, answer: Answer::Set { created } })
    }

    pub(super) fn clear_policy(&self, vhost: Arc<str>, name: Arc<str>, operator: bool) -> Decision {
        let known = self.policy(&vhost, &name, operator).is_some();
        let changes = if known { vec![Change::PolicyCleared { vhost, name, operator }] } else { Vec::new() };
        Decision { changes, answer: Answer::Done { changed: known } }
    }
}
