//! The evaluation of an expression with the values of its slots.
//!
//! | | |
//! |---|---|
//! | unknown | null, absent, not simple; a boolean operand that is not a boolean; arithmetic on something that is not a number, by zero, or beyond a double |
//! | `=` | compares values of the same kind; values of different kinds are not equal |
//! | `<>` | the opposite of `=`. In a filter expression this includes values of different kinds, as in RabbitMQ; in a selector they must be of the same kind |
//! | `<` `<=` `>` `>=` | for numbers and for octets; false for everything else |
//! | `BETWEEN` | `>=` and `<=` |
//! | `IN` | unknown if the left side is unknown; an unknown item of the list equals nothing |
//! | integers | exact within 128 bits, then approximate; `/` is always approximate |
//!
//! Evaluation never fails and never allocates.

use std::cmp::Ordering;

use super::ast::{Comparison, Expr, Literal, Operator, Sign};
use crate::filter::plain::Plain;

/// Evaluates to true, false or unknown.
pub(super) fn truth<'a>(expr: &'a Expr, slots: &[Plain<'a>], now_ms: u64) -> Option<bool> {
    let truth = |expr| truth(expr, slots, now_ms);
    let value = |expr| value(expr, slots, now_ms);
    match expr {
        Expr::Not(operand) => truth(operand).map(|v| !v),
        Expr::And(sides) => and(truth(&sides[0]), || truth(&sides[1])),
        Expr::Or(sides) => match truth(&sides[0]) {
            Some(true) => Some(true),
            Some(false) => truth(&sides[1]),
            None => truth(&sides[1]).filter(|v| *v),
        },
        Expr::Compare(how, sides) => compare(*how, value(&sides[0]), value(&sides[1])),
        Expr::Between(sides) => {
            let subject = value(&sides[0]);
            let from = compare(Comparison::GreaterOrEqual, subject, value(&sides[1]));
            let to = || compare(Comparison::LessOrEqual, subject, value(&sides[2]));
            and(from, to)
        }
        Expr::Like(subject, like) => match value(subject) {
            Plain::Octets(octets) => like.matches(octets),
            _ => None,
        },
        Expr::In(subject, list) => match value(subject) {
            Plain::Null => None,
            wanted => Some(list.iter().any(|item| value(item).equals(wanted))),
        },
        Expr::IsNull(slot) => Some(matches!(slots.get(usize::from(slot.0)), None | Some(Plain::Null))),
        Expr::Literal(_) | Expr::Identifier(_) | Expr::Utc | Expr::Arithmetic(..) | Expr::Signed(..) => {
            match value(expr) {
                Plain::Boolean(v) => Some(v),
                _ => None,
            }
        }
    }
}

pub(super) fn value<'a>(expr: &'a Expr, slots: &[Plain<'a>], now_ms: u64) -> Plain<'a> {
    let value = |expr| value(expr, slots, now_ms);
    match expr {
        Expr::Literal(literal) => literal.value(),
        Expr::Identifier(slot) => slots.get(usize::from(slot.0)).copied().unwrap_or_default(),
        Expr::Utc => Plain::Integer(now_ms.into()),
        Expr::Arithmetic(operator, sides) => arithmetic(*operator, value(&sides[0]), value(&sides[1])),
        Expr::Signed(sign, operand) => match (sign, value(operand)) {
            (Sign::Plus, v @ (Plain::Integer(_) | Plain::Float(_))) => v,
            (Sign::Minus, v) => arithmetic(Operator::Subtract, Plain::Integer(0), v),
            (Sign::Plus, _) => Plain::Null,
        },
        Expr::Not(_)
        | Expr::And(_)
        | Expr::Or(_)
        | Expr::Compare(..)
        | Expr::Between(_)
        | Expr::Like(..)
        | Expr::In(..)
        | Expr::IsNull(_) => truth(expr, slots, now_ms).map_or(Plain::Null, Plain::Boolean),
    }
}

fn and(left: Option<bool>, right: impl FnOnce() -> Option<bool>) -> Option<bool> {
    match left {
        Some(false) => Some(false),
        Some(true) => right(),
        None => right().filter(|v| !v),
    }
}

impl Literal {
    fn value(&self) -> Plain<'_> {
        match self {
            Self::Boolean(v) => Plain::Boolean(*v),
            Self::Integer(v) => Plain::Integer(*v),
            Self::Float(v) => Plain::Float(*v),
            Self::String(text) => Plain::Octets(text.as_bytes()),
            Self::Binary(octets) => Plain::Octets(octets),
        }
    }
}

fn compare(how: Comparison, left: Plain<'_>, right: Plain<'_>) -> Option<bool> {
    if matches!(left, Plain::Null) || matches!(right, Plain::Null) {
        return None;
    }
    let order = || left.order(right);
    Some(match how {
        Comparison::Equal => left.equals(right),
        Comparison::NotEqual => !left.equals(right),
        Comparison::Differ => left.is_like(right) && !left.equals(right),
        Comparison::Less => order() == Some(Ordering::Less),
        Comparison::LessOrEqual => order().is_some_and(Ordering::is_le),
        Comparison::Greater => order() == Some(Ordering::Greater),
        Comparison::GreaterOrEqual => order().is_some_and(Ordering::is_ge),
    })
}

fn arithmetic<'a>(operator: Operator, left: Plain<'_>, right: Plain<'_>) -> Plain<'a> {
    if let (Plain::Integer(a), Plain::Integer(b)) = (left, right) {
        let exact = match operator {
            Operator::Add => a.checked_add(b),
            Operator::Subtract => a.checked_sub(b),
            Operator::Multiply => a.checked_mul(b),
            Operator::Divide => None,
            Operator::Remainder => return remainder(a, b).map_or(Plain::Null, Plain::Integer),
        };
        if let Some(exact) = exact {
            return Plain::Integer(exact);
        }
    }
    let (Some(a), Some(b)) = (approximate(left), approximate(right)) else { return Plain::Null };
    let result = match operator {
        Operator::Add => a + b,
        Operator::Subtract => a - b,
        Operator::Multiply => a * b,
        Operator::Divide => a / b,
        // The remainder is defined for integers only.
        Operator::Remainder => f64::NAN,
    };
    if result.is_finite() { Plain::Float(result) } else { Plain::Null }
}

/// The result has the sign of the dividend.
fn remainder(a: i128, b: i128) -> Option<i128> {
    if b == 0 { None } else { Some(a.wrapping_rem(b)) }
}

fn approximate(number: Plain<'_>) -> Option<f64> {
    match number {
        Plain::Integer(v) => Some(v as f64),
        Plain::Float(v) => Some(v),
        _ => None,
    }
}
