//! The part of a stream in which an expression can be true. Readers skip the rest without inspecting it.
//!
//! ```text
//!  expression   term ("AND" term)*
//!  term         offset or time, one of > >= = or BETWEEN, a literal       the largest lower bound is used
//!            |  value ("OR" value)*                                       the first such term is used
//!            |  anything else                                             gives no bound
//!  value        filter value "=" a string, "IN" strings, or "IS NULL"
//! ```
//!
//! An expression is true only if each of its terms is true. So each term can make the scope smaller, but
//! never larger.

use super::SqlFilter;
use super::ast::{Comparison, Envelope, Expr, Identifier, Literal, Slot};
use super::eval;
use crate::filter::plain::Plain;

/// The part of a stream in which a filter can match. No message outside it matches; messages inside it may
/// match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// If set, only messages from this offset on can match.
    pub offset: Option<u64>,
    /// If set, only messages in chunks that were written at this time or later can match. In milliseconds
    /// since the Unix epoch.
    pub at_ms: Option<u64>,
    /// If set, only messages with one of these filter values can match.
    pub values: Option<ScopeValues>,
}

/// A set of filter values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScopeValues {
    pub values: Vec<Box<[u8]>>,
    /// True if messages without a filter value are included.
    pub none: bool,
}

impl SqlFilter {
    /// Returns the part of a stream in which the expression can match, as far as its top-level terms limit
    /// it.
    pub fn scope(&self) -> Scope {
        let mut scope = Scope::default();
        self.narrow(&self.root, &mut scope);
        scope
    }

    fn narrow(&self, expr: &Expr, scope: &mut Scope) {
        match expr {
            Expr::And(sides) => sides.iter().for_each(|side| self.narrow(side, scope)),
            Expr::Compare(how, sides) => {
                self.bound(&sides[0], *how, &sides[1], scope);
                self.bound(&sides[1], mirrored(*how), &sides[0], scope);
            }
            Expr::Between(sides) => self.bound(&sides[0], Comparison::GreaterOrEqual, &sides[1], scope),
            _ => {}
        }
        if scope.values.is_none() {
            scope.values = self.values(expr);
        }
    }

    fn bound(&self, subject: &Expr, how: Comparison, literal: &Expr, scope: &mut Scope) {
        let place = match self.envelope(subject) {
            Some(Envelope::Offset) => &mut scope.offset,
            Some(Envelope::Timestamp) => &mut scope.at_ms,
            _ => return,
        };
        *place = (*place).max(least(how, literal));
    }

    fn values(&self, expr: &Expr) -> Option<ScopeValues> {
        let is_value = |subject| self.envelope(subject) == Some(Envelope::FilterValue);
        let mut found = ScopeValues::default();
        match expr {
            Expr::Compare(Comparison::Equal, sides) => {
                let [left, right] = &**sides;
                let literal = if is_value(left) { right } else { left };
                if !is_value(left) && !is_value(right) {
                    return None;
                }
                found.values.push(octets(literal)?);
            }
            Expr::In(subject, list) if is_value(subject) => {
                found.values = list.iter().map(octets).collect::<Option<_>>()?;
            }
            Expr::IsNull(slot) if self.of_slot(*slot) == Some(Envelope::FilterValue) => found.none = true,
            Expr::Or(sides) => {
                let (left, right) = (self.values(&sides[0])?, self.values(&sides[1])?);
                found.values = [left.values, right.values].concat();
                found.none = left.none || right.none;
            }
            _ => return None,
        }
        Some(found)
    }

    fn envelope(&self, expr: &Expr) -> Option<Envelope> {
        if let Expr::Identifier(slot) = expr { self.of_slot(*slot) } else { None }
    }

    fn of_slot(&self, slot: Slot) -> Option<Envelope> {
        match self.identifiers.get(usize::from(slot.0)) {
            Some(Identifier::Envelope(envelope)) => Some(*envelope),
            _ => None,
        }
    }
}

/// Returns the comparison that has the same result when the two sides are exchanged.
fn mirrored(how: Comparison) -> Comparison {
    match how {
        Comparison::Less => Comparison::Greater,
        Comparison::LessOrEqual => Comparison::GreaterOrEqual,
        Comparison::Greater => Comparison::Less,
        Comparison::GreaterOrEqual => Comparison::LessOrEqual,
        Comparison::Equal | Comparison::NotEqual | Comparison::Differ => how,
    }
}

/// Returns the least whole number for which the comparison with a literal can be true.
fn least(how: Comparison, literal: &Expr) -> Option<u64> {
    let above = match how {
        Comparison::Greater => 1,
        Comparison::GreaterOrEqual | Comparison::Equal => 0,
        _ => return None,
    };
    let value = match literal {
        Expr::Literal(_) => eval::value(literal, &[], 0),
        Expr::Signed(_, inner) if matches!(**inner, Expr::Literal(_)) => eval::value(literal, &[], 0),
        _ => return None,
    };
    let whole = match value {
        Plain::Integer(v) => v.saturating_add(above),
        Plain::Float(v) => v.ceil() as i128,
        _ => return None,
    };
    Some(u64::try_from(whole.max(0)).unwrap_or(u64::MAX))
}

fn octets(expr: &Expr) -> Option<Box<[u8]>> {
    if let Expr::Literal(Literal::String(text)) = expr { Some(text.as_bytes().into()) } else { None }
}

#[cfg(test)]
mod tests {
    use super::super::Dialect;
    use super::*;

    /// Returns the scope of a selector. `o` is short for the offset, `t` for the time and `v` for the filter
    /// value.
    fn scope(text: &str) -> Scope {
        let names = [("o", "x-stream-offset"), ("t", "x-stream-timestamp"), ("v", "x-stream-filter-value")];
        let text = names.iter().fold(format!(" {text}"), |text, (short, name)| {
            text.replace(&format!(" {short} "), &format!(" \"{name}\" "))
                .replace(&format!("({short} "), &format!("(\"{name}\" "))
        });
        SqlFilter::parse(&text, Dialect::Selector).unwrap_or_else(|error| panic!("{text}: {error}")).scope()
    }

    #[test]
    fn places() {
        let cases = [
            ("o >= 5", Some(5), None),
            ("o > 5", Some(6), None),
            ("o = 5", Some(5), None),
            ("o BETWEEN 5 AND 9", Some(5), None),
            ("5 <= o ", Some(5), None),
            ("5 < o ", Some(6), None),
            ("5 = o ", Some(5), None),
            ("o >= 0", Some(0), None),
            ("o >= -5", Some(0), None),
            ("o > 4.5", Some(5), None),
            ("o >= +4.0", Some(4), None),
            ("o > 99999999999999999999999", Some(u64::MAX), None),
            ("o > 1e300", Some(u64::MAX), None),
            ("t >= 1600000000000", None, Some(1_600_000_000_000)),
            ("t > 1600000000000L AND a = 1", None, Some(1_600_000_000_001)),
            ("a = 1 AND o >= 5 AND o >= 7 AND o >= 6", Some(7), None),
            ("a = 1 AND (b = 2 AND o >= 5)", Some(5), None),
            ("o >= 5 AND t >= 6", Some(5), Some(6)),
            ("o <> 5 AND o <= 5 AND o < 5", None, None),
            ("5 > o AND 5 >= o ", None, None),
            ("o >= 5 OR a = 1", None, None),
            ("NOT o < 5", None, None),
            ("o NOT BETWEEN 5 AND 9", None, None),
            ("o >= a", None, None),
            ("o >= 'a'", None, None),
            ("o >= -'a'", None, None),
            ("o >= 2 + 3", None, None),
            ("o + 1 >= 5", None, None),
            ("a >= 5 AND JMSPriority >= 5", None, None),
        ];
        for (text, offset, at_ms) in cases {
            assert_eq!(scope(text), Scope { offset, at_ms, values: None }, "{text}");
        }
    }

    #[test]
    fn filter_values() {
        type Found = Option<(&'static [&'static str], bool)>;
        let cases: [(&str, Found); 14] = [
            ("v = 'a'", Some((&["a"], false))),
            ("'a' = v ", Some((&["a"], false))),
            ("v IN ('a', 'b')", Some((&["a", "b"], false))),
            ("v IS NULL", Some((&[], true))),
            ("(v = 'a' OR v IS NULL)", Some((&["a"], true))),
            ("(v IN ('a', 'b') OR v = 'c' OR v IS NULL) AND k = 1", Some((&["a", "b", "c"], true))),
            ("k = 1 AND v = 'a' AND v = 'b'", Some((&["a"], false))),
            ("v = 'a' OR k = 1", None),
            ("v IS NOT NULL", None),
            ("v NOT IN ('a')", None),
            ("v IN ('a', k)", None),
            ("v = k AND v = 1", None),
            ("v <> 'a' AND v LIKE 'a'", None),
            ("k = 'a' AND k IN ('a') AND k IS NULL", None),
        ];
        for (text, expected) in cases {
            let values = expected.map(|(values, none)| ScopeValues {
                values: values.iter().map(|value| value.as_bytes().into()).collect(),
                none,
            });
            assert_eq!(scope(text), Scope { values, ..Scope::default() }, "{text}");
        }
    }
}
