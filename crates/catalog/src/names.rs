//! Names that clients send, where the broker repeats them in the log and in errors.

/// The maximum number of characters of a client's name that are repeated to the client and in the log.
pub const NAME_CHARS_MAX: usize = 256;

/// Returns the part of a name that is repeated. A client may send a name that fills a frame.
pub fn cut(name: &str) -> &str {
    cut_to(name, NAME_CHARS_MAX)
}

/// Returns the first characters of a text.
pub fn cut_to(text: &str, chars_max: usize) -> &str {
    text.char_indices().nth(chars_max).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_between_characters() {
        assert_eq!(cut("ann"), "ann");
        assert_eq!(cut(&"é".repeat(NAME_CHARS_MAX)), "é".repeat(NAME_CHARS_MAX));
        assert_eq!(cut(&"é".repeat(100_000)), "é".repeat(NAME_CHARS_MAX));
    }
}
