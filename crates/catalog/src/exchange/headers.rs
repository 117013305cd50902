//! `headers`: a message must have the arguments of the binding. `x-match` says whether it needs all of them or
//! any.
//!
//! A message costs one walk over its application-properties and annotations. Then each binding costs one look-up
//! per argument until the binding is decided. So the cost is bindings times arguments, however many match.

use std::sync::Arc;

use amqp10::Value;
use hashbrown::HashMap;

use super::super::{Binding, CatalogError, Destination};
use super::routable::{Facts, Plain};

const X_MATCH: &str = "x-match";

/// Bindings in the order in which they were made. Where one was removed, a gap remains. When half of the places are gaps, the others
/// move together. So adding and removing take a few steps on average, however many bindings there are.
#[derive(Clone, Debug, Default)]
pub(super) struct Headers {
    rules: Vec<Option<Rule>>,
    /// The place of each binding, by the address of its record, which `rules` keeps alive.
    places: HashMap<usize, usize>,
    /// The number of rules that were moved. Counted for tests.
    #[cfg(test)]
    moved: usize,
}

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
    pub(super) fn bind(&mut self, binding: Arc<Binding>) {
        let (any, with_x) = match binding.arguments.get(X_MATCH).and_then(Value::as_str) {
            Some("any") => (true, false),
            Some("any-with-x") => (true, true),
            Some("all-with-x") => (false, true),
            _ => (false, false),
        };
        self.places.insert(address(&binding), self.rules.len());
        self.rules.push(Some(Rule { binding, any, with_x }));
    }

    /// Removes a binding, which must be the one that was bound.
    pub(super) fn unbind(&mut self, binding: &Arc<Binding>) {
        let Some(place) = self.places.remove(&address(binding)) else { return };
        self.rules[place] = None;
        if self.rules.len() > 2 * self.places.len() {
            self.close_gaps();
        }
    }

    fn close_gaps(&mut self) {
        self.rules.retain(Option::is_some);
        self.rules.shrink_to(2 * self.rules.len());
        for (place, rule) in self.rules.iter().enumerate() {
            let known = rule.as_ref().and_then(|rule| self.places.get_mut(&address(&rule.binding)));
            known.into_iter().for_each(|known| *known = place);
        }
        #[cfg(test)]
        {
            self.moved += self.rules.len();
        }
    }

    /// A place is a binding; see [`super::Routes::route`].
    pub(super) fn route<'a>(
        &'a self,
        facts: &Facts<'_>,
        from: usize,
        found: &mut dyn FnMut(&'a Destination),
    ) -> Option<usize> {
        for (at, rule) in self.rules.iter().enumerate().skip(from) {
            facts.count(1);
            if let Some(rule) = rule.as_ref().filter(|rule| rule.matches(facts)) {
                found(&rule.binding.destination);
            }
            if facts.is_used_up() && at + 1 < self.rules.len() {
                return Some(at + 1);
            }
        }
        None
    }
}

/// Returns what identifies the record of a binding while it exists.
pub(super) fn address(binding: &Arc<Binding>) -> usize {
    Arc::as_ptr(binding).addr()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(n: usize) -> Arc<Binding> {
        Arc::new(Binding {
            vhost: "/".into(),
            source: "x".into(),
            destination: Destination::Queue(format!("q{n}").into()),
            key: "".into(),
            arguments: [("n".to_owned(), Value::Uint(n as u32))].into(),
        })
    }

    /// Bindings come and go at random. The rules are those of a list that looks at each.
    #[test]
    fn bindings_are_removed_in_a_few_steps_and_keep_their_order() {
        let mut seed = 11_u64;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        let (mut headers, mut naive, mut changes) = (Headers::default(), Vec::new(), 0);
        for round in 0..3_000 {
            // It grows, and then it shrinks until nothing is left.
            let binds = if round < 1_000 { random(3) > 0 } else { random(3) == 0 };
            if binds {
                let new = binding(round);
                headers.bind(new.clone());
                naive.push(new);
                changes += 1;
            } else if !naive.is_empty() {
                let removed = naive.remove(random(naive.len()));
                headers.unbind(&removed);
                headers.unbind(&removed);
                changes += 1;
            }
            let rules = headers.rules.iter().flatten().map(|rule| &rule.binding);
            assert!(rules.eq(naive.iter()), "{round}");
            assert_eq!(headers.places.len(), naive.len());
            assert!(headers.rules.len() <= 2 * naive.len(), "{} {}", headers.rules.len(), naive.len());
        }
        assert!(headers.moved > 0 && headers.moved <= changes, "{} of {changes}", headers.moved);
    }

    #[test]
    fn removing_all_bindings_takes_steps_for_each_and_not_for_each_pair() {
        let all: Vec<_> = (0..10_000).map(binding).collect();
        for from_the_end in [false, true] {
            let mut headers = Headers::default();
            all.iter().for_each(|binding| headers.bind(binding.clone()));
            let mut order: Vec<_> = all.iter().collect();
            if from_the_end {
                order.reverse();
            }
            order.into_iter().for_each(|binding| headers.unbind(binding));
            assert!(headers.rules.is_empty() && headers.places.is_empty());
            assert!(headers.moved > 0 && headers.moved <= all.len(), "{}", headers.moved);
        }
    }
}
