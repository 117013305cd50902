//! Errors in the sections of a message. Their texts are sent to the publisher.

use std::fmt;

use crate::decode::DecodeError;

/// The most bytes of an invalid annotation key that are shown.
const KEY_SHOWN_MAX: usize = 64;

/// The kinds of sections [3.2].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SectionKind {
    /// [3.2.1]
    Header,
    /// [3.2.2]
    DeliveryAnnotations,
    /// [3.2.3]
    MessageAnnotations,
    /// [3.2.4]
    Properties,
    /// [3.2.5]
    ApplicationProperties,
    /// [3.2.6]
    Data,
    /// [3.2.7]
    AmqpSequence,
    /// [3.2.8]
    AmqpValue,
    /// [3.2.9]
    Footer,
}

impl SectionKind {
    /// Returns the name in the specification.
    pub fn name(self) -> &'static str {
        match self {
            Self::Header => "header",
            Self::DeliveryAnnotations => "delivery-annotations",
            Self::MessageAnnotations => "message-annotations",
            Self::Properties => "properties",
            Self::ApplicationProperties => "application-properties",
            Self::Data => "data",
            Self::AmqpSequence => "amqp-sequence",
            Self::AmqpValue => "amqp-value",
            Self::Footer => "footer",
        }
    }

    /// Returns the position in the order of sections. The three kinds of body share one position.
    pub(super) fn rank(self) -> u8 {
        match self {
            Self::Header => 0,
            Self::DeliveryAnnotations => 1,
            Self::MessageAnnotations => 2,
            Self::Properties => 3,
            Self::ApplicationProperties => 4,
            Self::Data | Self::AmqpSequence | Self::AmqpValue => 5,
            Self::Footer => 6,
        }
    }
}

impl fmt::Display for SectionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a message was refused. On the link each error is `amqp:decode-error`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SectionError {
    /// A section's encoding is broken.
    Malformed(DecodeError),
    /// A described value that is not a section.
    UnknownSection {
        /// Where the value starts.
        offset: u32,
    },
    /// A value that is not described, where a section should start.
    NotASection {
        /// Where the value starts.
        offset: u32,
    },
    /// A section after a section that it must precede.
    OutOfOrder {
        /// The section that is in the wrong place.
        section: SectionKind,
        /// The section before it.
        after: SectionKind,
    },
    /// A second section of a kind that may appear only once.
    Duplicate {
        /// The kind of the section.
        section: SectionKind,
    },
    /// Body sections of different kinds.
    MixedBody {
        /// The kind of the first body section.
        first: SectionKind,
        /// The kind of a later body section.
        second: SectionKind,
    },
    /// A body section without a value.
    NullBody {
        /// The kind of the section.
        section: SectionKind,
    },
    /// The message has no body section.
    MissingBody,
    /// The message has more sections than [`MAX_SECTIONS`](super::MAX_SECTIONS).
    TooManySections,
    /// An annotation key that is not a symbol. Numeric keys are reserved.
    KeyNotSymbol {
        /// The section with the key.
        section: SectionKind,
        /// Where the key starts.
        offset: u32,
    },
    /// An annotation key that does not start with `x-`.
    ReservedKey {
        /// The section with the key.
        section: SectionKind,
        /// The key, shortened if it is long.
        key: Box<str>,
    },
    /// A message of 4 GiB or more.
    TooLarge,
}

impl SectionError {
    #[cold]
    pub(super) fn reserved_key(section: SectionKind, key: &str) -> Self {
        let shown = key.get(..key.len().min(KEY_SHOWN_MAX)).unwrap_or_default();
        Self::ReservedKey { section, key: shown.into() }
    }
}

impl From<DecodeError> for SectionError {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error)
    }
}

impl fmt::Display for SectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "malformed message: {error}"),
            Self::UnknownSection { offset } => write!(f, "unknown message section at byte {offset}"),
            Self::NotASection { offset } => write!(f, "no message section at byte {offset}"),
            Self::OutOfOrder { section, after } => write!(f, "section {section} must not follow {after}"),
            Self::Duplicate { section } => write!(f, "more than one section {section}"),
            Self::MixedBody { first, second } => write!(f, "body mixes {first} and {second}"),
            Self::NullBody { section } => write!(f, "section {section} is null"),
            Self::MissingBody => f.write_str("message has no body"),
            Self::TooManySections => {
                write!(f, "message has more than {} sections", super::MAX_SECTIONS)
            }
            Self::KeyNotSymbol { section, offset } => {
                write!(f, "key in {section} at byte {offset} is not a symbol")
            }
            Self::ReservedKey { section, key } => {
                write!(f, "{section} has the reserved key '{key}': keys must start with 'x-'")
            }
            Self::TooLarge => f.write_str("message of 4 GiB or more"),
        }
    }
}

impl std::error::Error for SectionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Self::Malformed(error) = self { Some(error) } else { None }
    }
}
