//! Names of clients in the log.

/// The maximum number of characters of a client's name that are repeated to the client and in the log.
pub const NAME_CHARS_MAX: usize = 256;

/// Returns the part of a name that the log repeats. A client may send a name that fills a frame.
pub fn cut(name: &str) -> &str {
    name.char_indices().nth(NAME_CHARS_MAX).map_or(name, |(end, _)| &name[..end])
}
