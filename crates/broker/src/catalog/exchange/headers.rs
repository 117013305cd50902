//! `headers`: a message must have the arguments of the binding. `x-match` says whether it needs all of them or
//! any.
//!
//! A message costs one walk over its application-properties and annotations. Then each binding costs one look-up
//! per argument until the binding is decided. So the cost is bindings times arguments, however many match.

use std::sync::Arc;

use amqp10::Value;

use super::super::{Binding, CatalogError, Destination};
use super::letter::{Facts, Plain};

const X_MATCH: &str = "x-match";

/// Bindings in the order in which they were made.
#[derive(Clone, Debug, Default)]
pub(super) struct Headers(Vec<Rule>);

/// A binding with its parsed `x-match`.
#[derive(Clone, Debug)]
struct Rule {
    binding: Arc<Binding>,
    any: bool,
    /// True if keys that start with `x-` are compared, too.
    with_x: bool,
}

impl Rule {
    fn matches(&self, facts: &Facts<'_>) -> bool {
        let mut wanted = self
            .binding
            .arguments
            .iter()
            .filter(|(key, _)| *key != X_MATCH && (self.with_x || !key.starts_with("x-")));
        let has = |(key, value): (&String, &Value)| {
            // A null value in the binding requires only that the header is present.
            facts.header(key).is_some_and(|found| *value == Value::Null || found == Plain::of(value))
        };
        if self.any { wanted.any(has) } else { wanted.all(has) }
    }
}

impl Headers {
    pub fn bind(&mut self, binding: Arc<Binding>) {
        let (any, with_x) = match binding.arguments.get(X_MATCH).and_then(Value::as_str) {
            Some("any") => (true, false),
            Some("any-with-x") => (true, true),
            Some("all-with-x") => (false, true),
            _ => (false, false),
        };
        self.0.push(Rule { binding, any, with_x });
    }

    /// Removes a binding, which must be the one that was bound.
    pub fn unbind(&mut self, binding: &Arc<Binding>) {
        self.0.retain(|rule| !Arc::ptr_eq(&rule.binding, binding));
    }

    /// A place is a binding; see [`super::Routes::route`].
    pub fn route<'a>(
        &'a self,
        facts: &Facts<'_>,
        from: usize,
        found: &mut dyn FnMut(&'a Destination),
    ) -> Option<usize> {
        for (at, rule) in self.0.iter().enumerate().skip(from) {
            facts.count(1);
            if rule.matches(facts) {
                found(&rule.binding.destination);
            }
            if facts.is_used_up() && at + 1 < self.0.len() {
                return Some(at + 1);
            }
        }
        None
    }
}

/// Checks a binding.
///
/// # Errors
/// `x-match` has another value than `all`, `any`, `all-with-x` or `any-with-x`.
pub(super) fn check_binding(binding: &Binding) -> Result<(), CatalogError> {
    let Some(value) = binding.arguments.get(X_MATCH) else { return Ok(()) };
    match value.as_str() {
        Some("all" | "any" | "all-with-x" | "any-with-x") => Ok(()),
        Some(other) => Err(CatalogError::Invalid {
            reason: format!(
                "invalid {X_MATCH} field value '{}': all, any, all-with-x or any-with-x is needed",
                other.escape_default()
            ),
        }),
        None => Err(CatalogError::Invalid {
            reason: format!("invalid {X_MATCH} field type ({value}): a string is needed"),
        }),
    }
}
