//! Expressions as trees.

use super::like::Like;
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
