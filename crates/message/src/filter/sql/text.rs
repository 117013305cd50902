//! The text form of expressions.

use std::fmt::{self, Write as _};

use super::ast::{Comparison, Expr, Identifier, Literal, Operator, Sign, Slot};
use super::{Dialect, lexer, selector};

/// How tightly an expression binds, as defined by the grammar in the parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Or,
    And,
    Not,
    Comparison,
    Sum,
    Product,
    Signed,
    Primary,
}

impl Expr {
    fn level(&self) -> Level {
        match self {
            Self::Or(_) => Level::Or,
            Self::And(_) => Level::And,
            Self::Not(_) => Level::Not,
            Self::Compare(..) | Self::Between(_) | Self::Like(..) | Self::In(..) | Self::IsNull(_) => {
                Level::Comparison
            }
            Self::Arithmetic(Operator::Add | Operator::Subtract, _) => Level::Sum,
            Self::Arithmetic(..) => Level::Product,
            Self::Signed(..) => Level::Signed,
            Self::Literal(_) | Self::Identifier(_) | Self::Utc => Level::Primary,
        }
    }
}

/// An expression as text, without unnecessary parentheses.
pub(super) struct Shown<'a> {
    pub expr: &'a Expr,
    pub identifiers: &'a [Identifier],
    pub dialect: Dialect,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.put(f, self.expr, Level::Or)
    }
}

impl Shown<'_> {
    /// Writes an expression at a place that allows this level and above.
    fn put(&self, f: &mut fmt::Formatter<'_>, expr: &Expr, least: Level) -> fmt::Result {
        if expr.level() >= least {
            return self.put_bare(f, expr);
        }
        f.write_char('(')?;
        self.put_bare(f, expr)?;
        f.write_char(')')
    }

    fn put_bare(&self, f: &mut fmt::Formatter<'_>, expr: &Expr) -> fmt::Result {
        match expr {
            Expr::Literal(literal) => write!(f, "{literal}"),
            Expr::Identifier(slot) => self.put_identifier(f, *slot),
            Expr::Utc => f.write_str("UTC()"),
            Expr::Not(operand) => {
                f.write_str("NOT ")?;
                self.put(f, operand, Level::Not)
            }
            Expr::Or(sides) => self.put_sides(f, sides, "OR", Level::Or, Level::And),
            Expr::And(sides) => self.put_sides(f, sides, "AND", Level::And, Level::Not),
            Expr::Compare(how, sides) => self.put_sides(f, sides, how.as_str(), Level::Sum, Level::Sum),
            Expr::Between(sides) => {
                self.put(f, &sides[0], Level::Sum)?;
                f.write_str(" BETWEEN ")?;
                self.put(f, &sides[1], Level::Sum)?;
                f.write_str(" AND ")?;
                self.put(f, &sides[2], Level::Sum)
            }
            Expr::Arithmetic(operator, sides) => {
                let (left, right) = match operator {
                    Operator::Add | Operator::Subtract => (Level::Sum, Level::Product),
                    _ => (Level::Product, Level::Signed),
                };
                self.put_sides(f, sides, operator.as_str(), left, right)
            }
            Expr::Signed(sign, operand) => {
                f.write_char(if *sign == Sign::Minus { '-' } else { '+' })?;
                self.put(f, operand, Level::Primary)
            }
            Expr::Like(subject, like) => {
                self.put(f, subject, Level::Sum)?;
                f.write_str(" LIKE ")?;
                put_string(f, like.pattern())?;
                let Some(escape) = like.escape() else { return Ok(()) };
                f.write_str(" ESCAPE ")?;
                put_string(f, escape.encode_utf8(&mut [0; 4]))
            }
            Expr::In(subject, list) => {
                self.put(f, subject, Level::Sum)?;
                for (i, item) in list.iter().enumerate() {
                    f.write_str(if i == 0 { " IN (" } else { ", " })?;
                    self.put(f, item, Level::Sum)?;
                }
                f.write_char(')')
            }
            Expr::IsNull(slot) => {
                self.put_identifier(f, *slot)?;
                f.write_str(" IS NULL")
            }
        }
    }

    fn put_sides(
        &self,
        f: &mut fmt::Formatter<'_>,
        [left, right]: &[Expr; 2],
        between: &str,
        left_least: Level,
        right_least: Level,
    ) -> fmt::Result {
        self.put(f, left, left_least)?;
        write!(f, " {between} ")?;
        self.put(f, right, right_least)
    }

    fn put_identifier(&self, f: &mut fmt::Formatter<'_>, slot: Slot) -> fmt::Result {
        let Some(identifier) = self.identifiers.get(usize::from(slot.0)) else { return Ok(()) };
        match self.dialect {
            Dialect::Filter => lexer::put_identifier(f, identifier),
            Dialect::Selector => selector::put_identifier(f, identifier),
        }
    }
}

impl Comparison {
    fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual | Self::Differ => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

impl Operator {
    fn as_str(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
        }
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(v) => f.write_str(if *v { "TRUE" } else { "FALSE" }),
            Self::Integer(v) => write!(f, "{v}"),
            Self::Float(v) => {
                // The text is the shortest that parses to the same float. It must have a decimal point, which
                // marks it as a float.
                let text = format!("{v:?}").replace('e', "E");
                match text.split_once('E') {
                    Some((digits, exponent)) if !digits.contains('.') => write!(f, "{digits}.0E{exponent}"),
                    _ => f.write_str(&text),
                }
            }
            Self::String(text) => put_string(f, text),
            Self::Binary(octets) => {
                f.write_str("0x")?;
                octets.iter().try_for_each(|octet| write!(f, "{octet:02X}"))
            }
        }
    }
}

fn put_string(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    write!(f, "'{}'", text.replace('\'', "''"))
}
