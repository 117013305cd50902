//! The kinds of values of arguments and policy keys.

/// The values that an argument or a key may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueKind {
    /// A whole number between the two, inclusive.
    Number(i64, i64),
    Text,
    /// The name of an exchange of the same virtual host.
    Exchange,
    /// A duration such as `7D`.
    Span,
    Boolean,
    OneOf(&'static [&'static str]),
}
