//! What the specification says about methods and properties.

/// The type of an argument or of a property.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// Bits in a row share octets.
    Bit,
    Octet,
    Short,
    Long,
    LongLong,
    ShortString,
    LongString,
    Table,
}

/// An argument of a method, or a property of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Argument {
    pub name: &'static str,
    pub kind: Kind,
}

impl Argument {
    pub(super) const fn new(name: &'static str, kind: Kind) -> Self {
        Self { name, kind }
    }
}

/// A method.
#[derive(Clone, Copy, Debug)]
pub(super) struct Method {
    /// The name, such as `queue.declare`.
    pub name: &'static str,
    /// The class, and the number in it.
    pub ids: (u16, u16),
    /// True if a content header and body frames follow.
    pub has_content: bool,
    pub arguments: &'static [Argument],
}

impl Method {
    pub(super) const fn new(
        name: &'static str,
        ids: (u16, u16),
        has_content: bool,
        arguments: &'static [Argument],
    ) -> Self {
        Self { name, ids, has_content, arguments }
    }
}
