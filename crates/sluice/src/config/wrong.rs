//! What is wrong with a setting: its name or its value.

/// What is needed instead of the name or the value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// The part of the name that the operator chooses is wrong. So the value may be that of any key, and is not shown.
    Name(String),
    Value(String),
}

impl Wrong {
    pub(crate) fn name(need: impl Into<String>) -> Self {
        Self::Name(need.into())
    }

    /// Returns the sentence that says what is needed.
    pub(crate) fn need(&self) -> &str {
        match self {
            Self::Name(need) | Self::Value(need) => need,
        }
    }
}

/// The parsers of values say what is needed. Those of names return [`Wrong::Name`].
impl From<String> for Wrong {
    fn from(need: String) -> Self {
        Self::Value(need)
    }
}
