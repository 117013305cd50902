//! Patterns of LIKE: `%` matches any number of characters, `_` matches one character.
//!
//! A pattern is split at each `%`. The first piece must match the start and the last one the end. Each piece
//! between them is matched at its first occurrence after the previous piece. Pieces have a fixed length in
//! characters, so an early match never prevents a later one, and no backtracking is needed.

use super::error::SqlProblem;
use crate::filter::allocated;

/// The most character comparisons for one pattern and one message, if a piece with `_` is searched for:
/// characters of the pattern times octets of the subject. If there would be more, the result is unknown. A
/// pattern of 20 characters reaches this limit with a subject of 50 KiB.
const WORK_MAX: usize = 1 << 20;

/// A prepared pattern.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Like {
    pattern: Box<str>,
    escape: Option<char>,
    shape: Shape,
}

#[derive(Clone, Debug, PartialEq)]
enum Shape {
    /// A pattern without wildcards.
    Exact(Box<str>),
    /// A pattern with one `%` and no other wildcard.
    Affixes { prefix: Box<str>, suffix: Box<str> },
    /// A pattern with `_`, or with several `%`. The subject must be text.
    Pieces { first: Piece, rest: Option<Rest> },
}

/// The part of a pattern after the first `%`.
#[derive(Clone, Debug, PartialEq)]
struct Rest {
    middle: Box<[Piece]>,
    last: Piece,
    /// The cost per octet of a subject, for [`WORK_MAX`]: the characters of the middle pieces if one of them
    /// has a `_`, else 0.
    work: usize,
}

/// The text between two `%`.
#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Text(Box<str>),
    /// A piece that contains at least one `_`, which is stored as `None`.
    Mask(Box<[Option<char>]>),
}

impl Like {
    /// # Errors
    /// The pattern has a control character, or ends with its escape.
    pub(super) fn new(pattern: Box<str>, escape: Option<char>) -> Result<Self, SqlProblem> {
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

    /// Returns the pattern as it was written.
    pub(super) fn pattern(&self) -> &str {
        &self.pattern
    }

    pub(super) fn escape(&self) -> Option<char> {
        self.escape
    }

    /// Returns the number of comparisons for each byte of the subject.
    pub(super) fn comparisons(&self) -> usize {
        match &self.shape {
            Shape::Exact(_) | Shape::Affixes { .. } => 1,
            Shape::Pieces { rest, .. } => 1 + rest.as_ref().map_or(0, |rest| rest.middle.len() + rest.work),
        }
    }

    /// Returns the bytes of memory that the pattern takes besides itself.
    pub(super) fn heap_bytes(&self) -> usize {
        let shape = match &self.shape {
            Shape::Exact(text) => allocated(text.len()),
            Shape::Affixes { prefix, suffix } => allocated(prefix.len()) + allocated(suffix.len()),
            Shape::Pieces { first, rest } => first.heap_bytes() + rest.as_ref().map_or(0, Rest::heap_bytes),
        };
        allocated(self.pattern.len()) + shape
    }

    /// Returns whether the pattern matches the whole subject. Unknown (`None`) if the pattern has `_` or
    /// several `%` and the subject is not UTF-8, or if the search would cost too much.
    pub(super) fn matches(&self, subject: &[u8]) -> Option<bool> {
        match &self.shape {
            Shape::Exact(text) => Some(subject == text.as_bytes()),
            Shape::Affixes { prefix, suffix } => Some(
                subject.strip_prefix(prefix.as_bytes()).is_some_and(|rest| rest.ends_with(suffix.as_bytes())),
            ),
            Shape::Pieces { first, rest } => {
                let text = std::str::from_utf8(subject).ok()?;
                let Some(after) = first.strip_start(text) else { return Some(false) };
                let Some(rest) = rest else { return Some(after.is_empty()) };
                if rest.work.saturating_mul(after.len()) > WORK_MAX {
                    return None;
                }
                Some(rest.matches(after))
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
    fn heap_bytes(&self) -> usize {
        let pieces: usize = self.middle.iter().map(Piece::heap_bytes).sum();
        size_of_val(&*self.middle) + pieces + self.last.heap_bytes()
    }

    fn matches(&self, text: &str) -> bool {
        let Some(mut left) = self.last.strip_end(text) else { return false };
        for piece in &self.middle {
            match piece.strip_through(left) {
                Some(after) => left = after,
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

    fn heap_bytes(&self) -> usize {
        match self {
            Self::Text(text) => allocated(text.len()),
            Self::Mask(mask) => allocated(size_of_val(&**mask)),
        }
    }

    fn chars(&self) -> usize {
        match self {
            Self::Text(text) => text.chars().count(),
            Self::Mask(mask) => mask.len(),
        }
    }

    /// Returns the text after the piece, if the text starts with it.
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

    /// Returns the text before the piece, if the text ends with it.
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

    /// Returns the text after the first occurrence of the piece.
    fn strip_through<'t>(&self, text: &'t str) -> Option<&'t str> {
        match self {
            Self::Text(piece) => text.split_once(&**piece).map(|(_, after)| after),
            Self::Mask(_) => text.char_indices().find_map(|(at, _)| self.strip_start(&text[at..])),
        }
    }
}
