//! Patterns of LIKE: `%` is any run of characters, `_` is one character.
//!
//! A pattern is cut at its `%`. The first piece must stand at the start and the last at the end; each piece between
//! them is taken where it comes first behind the one before. Pieces have a fixed length in characters, so that taking
//! the first place never spoils a later one, and nothing is ever tried twice.

use super::error::SqlProblem;

/// Comparisons of characters that one pattern may cost a message, where a piece with `_` is looked for: characters of
/// the pattern times octets of the subject. More than that is unknown. A pattern of 20 characters reaches it with a
/// subject of 50 KiB.
const WORK_MAX: usize = 1 << 20;

/// A pattern that is ready to be asked.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Like {
    pattern: Box<str>,
    escape: Option<char>,
    shape: Shape,
}

#[derive(Clone, Debug, PartialEq)]
enum Shape {
    /// No wildcard.
    Exact(Box<str>),
    /// One `%`.
    Affixes { prefix: Box<str>, suffix: Box<str> },
    /// `_`, or several `%`. The subject must be text.
    Pieces { first: Piece, rest: Option<Rest> },
}

/// What follows the first `%`.
#[derive(Clone, Debug, PartialEq)]
struct Rest {
    middle: Box<[Piece]>,
    last: Piece,
    /// What [`WORK_MAX`] counts per octet of a subject: characters of the middle, if one of its pieces has a `_`.
    work: usize,
}

/// What stands between two `%`.
#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Text(Box<str>),
    /// With a `_` somewhere, which is `None`.
    Mask(Box<[Option<char>]>),
}

impl Like {
    /// # Errors
    /// The pattern has a control character, or ends with its escape.
    pub fn new(pattern: Box<str>, escape: Option<char>) -> Result<Self, SqlProblem> {
        if pattern.chars().any(|c| c.is_ascii_control()) {
            return Err(SqlProblem::ControlCharacter);
        }
        let mut pieces = vec![Vec::new()];
        let mut chars = pattern.chars();
        while let Some(c) = chars.next() {
            let masked = match c {
                _ if Some(c) == escape => Some(chars.next().ok_or(SqlProblem::EscapeAtEnd)?),
                '%' => {
                    pieces.push(Vec::new());
                    continue;
                }
                '_' => None,
                _ => Some(c),
            };
            if let Some(piece) = pieces.last_mut() {
                piece.push(masked);
            }
        }
        Ok(Self { shape: Shape::new(pieces.into_iter().map(Piece::new)), pattern, escape })
    }

    /// As it was written.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    pub fn escape(&self) -> Option<char> {
        self.escape
    }

    /// Whether the pattern covers all of the subject. Unknown if the pattern counts characters and the subject is not
    /// UTF-8, or if finding out would cost too much.
    pub fn matches(&self, subject: &[u8]) -> Option<bool> {
        match &self.shape {
            Shape::Exact(text) => Some(subject == text.as_bytes()),
            Shape::Affixes { prefix, suffix } => Some(
                subject.strip_prefix(prefix.as_bytes()).is_some_and(|rest| rest.ends_with(suffix.as_bytes())),
            ),
            Shape::Pieces { first, rest } => {
                let text = std::str::from_utf8(subject).ok()?;
                let Some(behind) = first.strip_start(text) else { return Some(false) };
                let Some(rest) = rest else { return Some(behind.is_empty()) };
                if rest.work.saturating_mul(behind.len()) > WORK_MAX {
                    return None;
                }
                Some(rest.matches(behind))
            }
        }
    }
}

impl Shape {
    fn new(pieces: impl Iterator<Item = Piece>) -> Self {
        let mut pieces: Vec<Piece> = pieces.collect();
        let last = pieces.pop().unwrap_or_default();
        let mut pieces = pieces.into_iter();
        let Some(first) = pieces.next() else {
            return match last {
                Piece::Text(text) => Self::Exact(text),
                mask => Self::Pieces { first: mask, rest: None },
            };
        };
        match (first, last) {
            (Piece::Text(prefix), Piece::Text(suffix)) if pieces.len() == 0 => {
                Self::Affixes { prefix, suffix }
            }
            (first, last) => {
                let middle: Box<[Piece]> = pieces.filter(|piece| *piece != Piece::default()).collect();
                let masks = middle.iter().any(|piece| matches!(piece, Piece::Mask(_)));
                let work = if masks { middle.iter().map(Piece::chars).sum() } else { 0 };
                Self::Pieces { first, rest: Some(Rest { middle, last, work }) }
            }
        }
    }
}

impl Rest {
    fn matches(&self, text: &str) -> bool {
        let Some(mut left) = self.last.strip_end(text) else { return false };
        for piece in &self.middle {
            match piece.strip_through(left) {
                Some(behind) => left = behind,
                None => return false,
            }
        }
        true
    }
}

impl Default for Piece {
    fn default() -> Self {
        Self::Text(Box::default())
    }
}

impl Piece {
    fn new(chars: Vec<Option<char>>) -> Self {
        match chars.iter().copied().collect::<Option<String>>() {
            Some(text) => Self::Text(text.into()),
            None => Self::Mask(chars.into()),
        }
    }

    fn chars(&self) -> usize {
        match self {
            Self::Text(text) => text.chars().count(),
            Self::Mask(mask) => mask.len(),
        }
    }

    /// What is behind the piece, if the text starts with it.
    fn strip_start<'t>(&self, text: &'t str) -> Option<&'t str> {
        match self {
            Self::Text(piece) => text.strip_prefix(&**piece),
            Self::Mask(mask) => {
                let mut chars = text.chars();
                let fits =
                    mask.iter().all(|wanted| chars.next().is_some_and(|c| wanted.is_none_or(|w| w == c)));
                fits.then_some(chars.as_str())
            }
        }
    }

    /// What is before the piece, if the text ends with it.
    fn strip_end<'t>(&self, text: &'t str) -> Option<&'t str> {
        match self {
            Self::Text(piece) => text.strip_suffix(&**piece),
            Self::Mask(mask) => {
                let mut chars = text.chars();
                let fits = mask
                    .iter()
                    .rev()
                    .all(|wanted| chars.next_back().is_some_and(|c| wanted.is_none_or(|w| w == c)));
                fits.then_some(chars.as_str())
            }
        }
    }

    /// What is behind the first place where the piece stands.
    fn strip_through<'t>(&self, text: &'t str) -> Option<&'t str> {
        match self {
            Self::Text(piece) => text.split_once(&**piece).map(|(_, behind)| behind),
            Self::Mask(_) => text.char_indices().find_map(|(at, _)| self.strip_start(&text[at..])),
        }
    }
}
