//! Words: what nodes say to each other over the connection of [`Role::Heartbeats`](crate::Role::Heartbeats).

use bytes::{Bytes, BytesMut};

use crate::error::LinkError;
use crate::frame::{Frame, WORD_MAX};

/// Appends a word. Returns false, and appends nothing, if the word is longer than [`WORD_MAX`].
#[must_use]
pub fn put_word(word: Bytes, into: &mut Vec<u8>) -> bool {
    let fits = word.len() <= WORD_MAX;
    if fits {
        Frame::Word(word).encode(into);
    }
    fits
}

/// Takes a word from the front of `buffer`, or returns `None` if it is not complete.
///
/// # Errors
///
/// Something else than a word has arrived. The connection must be closed.
pub fn take_word(buffer: &mut BytesMut) -> Result<Option<Bytes>, LinkError> {
    match Frame::take(buffer)? {
        None => Ok(None),
        Some(Frame::Word(word)) => Ok(Some(word)),
        Some(other) => Err(LinkError::Unexpected(other.name())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_alone_are_taken() {
        let mut bytes = Vec::new();
        assert!(put_word(Bytes::from_static(b"alive"), &mut bytes));
        assert!(put_word(Bytes::new(), &mut bytes));
        assert!(!put_word(vec![0; WORD_MAX + 1].into(), &mut bytes));
        Frame::Window { bytes: 1 }.encode(&mut bytes);
        let mut buffer = BytesMut::from(&bytes[..]);
        assert_eq!(take_word(&mut buffer), Ok(Some(Bytes::from_static(b"alive"))));
        assert_eq!(take_word(&mut buffer), Ok(Some(Bytes::new())));
        assert_eq!(take_word(&mut buffer), Err(LinkError::Unexpected("window")));
    }
}
