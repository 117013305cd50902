//! Names that nobody can guess. Whoever knows such a name may use what it names: for example publish to the exclusive queue of
//! a requester, or answer a link that takes replies. So each of them contains 96 random bits of the operating system.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The random bytes in a name: 96 bits. A guesser who tries a billion names a second for a year finds one of a million names
/// with a probability of less than one in a million.
pub const KEY_BYTES: usize = 12;

/// The characters of a key in a name: letters, digits, `-` and `_`.
pub const KEY_CHARS: usize = KEY_BYTES / 3 * 4;

/// The random part of a name.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key([u8; KEY_BYTES]);

impl Key {
    /// `bytes` are random.
    pub const fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes of the key. They are as secret as the key.
    pub const fn bytes(self) -> [u8; KEY_BYTES] {
        self.0
    }

    /// Parses the characters of a key. Each key has only one spelling.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != KEY_CHARS {
            return None;
        }
        let mut bytes = [0; KEY_BYTES];
        let decoded = URL_SAFE_NO_PAD.decode_slice(text, &mut bytes).ok()?;
        (decoded == KEY_BYTES).then_some(Self(bytes))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; KEY_CHARS];
        let length = URL_SAFE_NO_PAD.encode_slice(self.0, &mut text).map_err(|_| fmt::Error)?;
        f.write_str(std::str::from_utf8(&text[..length]).map_err(|_| fmt::Error)?)
    }
}

/// Shows nothing of the key, so that it gets into no log.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_spelling() {
        let key = Key([0xff; KEY_BYTES]);
        assert_eq!(key.to_string(), "________________");
        assert_eq!(Key::parse("________________"), Some(key));
        assert_eq!(Key([0; KEY_BYTES]).to_string(), "AAAAAAAAAAAAAAAA");
        for other in [
            "",
            "_______________",
            "_________________",
            "///////////////+",
            "===============",
            "ééééé__",
            "____ ___________",
        ] {
            assert_eq!(Key::parse(other), None, "{other}");
        }
        assert_eq!(format!("{key:?}"), "Key", "no log shows it");
    }
}
