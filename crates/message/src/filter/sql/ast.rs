//! Expressions as trees, and their text form.

use std::fmt::{self, Write as _};

use super::like::Like;
use super::{Dialect, lexer, selector};
use crate::filter::allocated;
use crate::filter::property::Property;

/// The index of the value of one identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(pub u8);

const _: () = assert!(super::SQL_TOKENS_MAX <= u8::MAX as usize, "each token may be another identifier");

/// An expression. Its depth is bounded by the parser.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expr {
    Literal(Literal),
    Identifier(Slot),
    /// The time of the evaluation, `UTC()`.
    Utc,
    Not(Box<Expr>),
    And(Box<[Expr; 2]>),
    Or(Box<[Expr; 2]>),
    Compare(Comparison, Box<[Expr; 2]>),
    /// Subject, lower bound and upper bound. Both bounds are inclusive.
    Between(Box<[Expr; 3]>),
    Arithmetic(Operator, Box<[Expr; 2]>),
    Signed(Sign, Box<Expr>),
    Like(Box<Expr>, Like),
    In(Box<Expr>, Vec<Expr>),
    IsNull(Slot),
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Literal {
    Boolean(bool),
    /// An integer, which is not negative: a sign is a separate expression.
    Integer(i128),
    /// A number with a fraction, finite and not negative.
    Float(f64),
    String(Box<str>),
    Binary(Box<[u8]>),
}

/// What an identifier refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Identifier {
    Envelope(Envelope),
    Property(Property),
    Application(Box<str>),
}

/// The parts of a message that are known without reading its properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Envelope {
    /// The priority in the header.
    Priority,
    /// Whether the header is durable, as JMS expresses it.
    DeliveryMode,
    /// The value that its publisher set for stream filters.
    FilterValue,
    Offset,
    /// When the message's chunk was written.
    Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    /// `<>` of filter expressions: not equal. True for values of different kinds, too.
    NotEqual,
    /// `<>` of selectors: not equal, but of the same kind.
    Differ,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Plus,
    Minus,
}

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
    /// Returns the bytes of memory that the expression takes besides itself.
    pub(super) fn heap_bytes(&self) -> usize {
        let of_all = |all: &[Self]| size_of_val(all) + all.iter().map(Self::heap_bytes).sum::<usize>();
        let of_one = |operand: &Self| of_all(std::slice::from_ref(operand));
        match self {
            Self::Literal(Literal::String(text)) => allocated(text.len()),
            Self::Literal(Literal::Binary(octets)) => allocated(octets.len()),
            Self::Literal(_) | Self::Identifier(_) | Self::Utc | Self::IsNull(_) => 0,
            Self::Not(operand) | Self::Signed(_, operand) => of_one(operand),
            Self::And(sides) | Self::Or(sides) | Self::Compare(_, sides) | Self::Arithmetic(_, sides) => {
                of_all(&**sides)
            }
            Self::Between(sides) => of_all(&**sides),
            Self::Like(subject, like) => of_one(subject) + like.heap_bytes(),
            Self::In(subject, list) => {
                let spare = (list.capacity() - list.len()) * size_of::<Self>();
                of_one(subject) + of_all(list) + spare
            }
        }
    }

    /// Returns the number of parts of the expression, and of comparisons of its patterns for each byte.
    pub(super) fn parts(&self) -> usize {
        let of_all = |all: &[Self]| all.iter().map(Self::parts).sum::<usize>();
        1 + match self {
            Self::Literal(_) | Self::Identifier(_) | Self::Utc | Self::IsNull(_) => 0,
            Self::Not(operand) | Self::Signed(_, operand) => operand.parts(),
            Self::And(sides) | Self::Or(sides) | Self::Compare(_, sides) | Self::Arithmetic(_, sides) => {
                of_all(&**sides)
            }
            Self::Between(sides) => of_all(&**sides),
            Self::Like(subject, like) => subject.parts() + like.comparisons(),
            Self::In(subject, list) => subject.parts() + of_all(list),
        }
    }

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

impl Identifier {
    /// Returns the bytes of memory that the identifier takes besides itself.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Application(name) => allocated(name.len()),
            Self::Envelope(_) | Self::Property(_) => 0,
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
