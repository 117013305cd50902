//! What a match of an expression costs at most.
//!
//! The expression is an automaton that reads a text character by character. A character costs a step for each state that the
//! automaton can be in. The worst case is all of its states, which is too much for most expressions:
//!
//! ```text
//!   ^orders\.eu\.        behind each character, one state: the character that must follow
//!   ^(eu|us)\..*$        one state of each alternative, then those of .*
//!   orders               a match may begin anywhere, so all states
//!   (?:.?.?.?.?){120}z   all states: each part may be left out
//! ```

use std::iter::Peekable;
use std::str::CharIndices;

/// The size of a state of a compiled expression in bytes.
const STATE_BYTES: usize = 32;

/// Classes are compared range by range, which is much quicker than visiting a state. This many bytes of the text of a class count as one
/// more state. It has up to three ranges for each two bytes, in classes such as `\w`.
const CLASS_BYTES_PER_STATE: u64 = 4;

/// The deepest nesting of groups that is taken into account. Deeper expressions cost as much as all of their states.
const DEPTH_MAX: usize = 16;

/// The cost of a match: an upper bound of the states that it visits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    /// The states that each character may visit.
    per_char: u64,
    /// The most characters that the match looks at; `None` for all.
    chars: Option<u64>,
}

impl Cost {
    /// Returns the cost of an expression whose compiled form has at most this size in bytes.
    pub(super) fn of(text: &str, compiled_bytes: usize) -> Self {
        let all = Self { per_char: compiled_bytes.div_ceil(STATE_BYTES) as u64, chars: None };
        match analyze(text) {
            Some(found) if found.per_char <= all.per_char => found,
            Some(found) => Self { chars: found.chars, ..all },
            None => all,
        }
    }

    /// Returns the steps for a text of this length in bytes.
    pub(super) fn steps(self, bytes: usize) -> u64 {
        let chars = self.chars.map_or(bytes as u64, |chars| chars.min(bytes as u64));
        // The end of the text, or the character that does not match, is a step as well.
        self.per_char.saturating_mul(chars.saturating_add(1))
    }
}

/// A part of an expression.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// All of its states.
    states: u64,
    /// The states that one character may visit if the part begins at one place only.
    at_once: u64,
    /// The length in characters of all texts that it matches. `None` if it varies.
    length: Option<u64>,
}

impl Part {
    /// A part that matches one character, or a position such as the end.
    fn one(states: u64, length: u64) -> Self {
        Self { states, at_once: states, length: Some(length) }
    }

    /// Repeats the part from `min` to `max` times. `None` repeats it without end.
    fn repeated(self, min: u64, max: Option<u64>) -> Self {
        let copies = max.unwrap_or(min).max(1);
        // Where another round may follow or not, a state decides it. At the end, they join.
        let states = self.states.saturating_add(1).saturating_mul(copies).saturating_add(1);
        match self.length {
            Some(length) if max == Some(min) => {
                let length = length.saturating_mul(min);
                // The end of a round meets the start of the next one.
                let at_once = if length == 0 { states } else { self.at_once.saturating_mul(2).min(states) };
                Self { states, at_once, length: Some(length) }
            }
            _ => Self { states, at_once: states, length: None },
        }
    }
}

/// Returns what an expression costs. `None` if it has something that this does not know, such as flags.
fn analyze(text: &str) -> Option<Cost> {
    let mut parser = Parser { text, chars: text.char_indices().peekable(), depth: 0 };
    let Alternatives { part, count, anchored } = parser.alternatives()?;
    if parser.chars.peek().is_some() {
        return None;
    }
    // The end of the expression is a state. So is its beginning, each time.
    Some(match anchored {
        true => {
            // With several alternatives, each character is asked whether it is the first.
            let chars = part.length.filter(|_| count == 1);
            Cost { per_char: part.at_once.saturating_add(1), chars }
        }
        false => Cost { per_char: part.states.saturating_add(3), chars: None },
    })
}

/// Alternatives, which `|` separates.
struct Alternatives {
    part: Part,
    count: u64,
    /// True if each begins with `^`, so that a match begins at the start only.
    anchored: bool,
}

struct Parser<'a> {
    text: &'a str,
    chars: Peekable<CharIndices<'a>>,
    depth: usize,
}

impl Parser<'_> {
    fn skip_if(&mut self, wanted: char) -> bool {
        self.chars.next_if(|(_, c)| *c == wanted).is_some()
    }

    /// Reads alternatives up to the `)` that ends them, or to the end.
    fn alternatives(&mut self) -> Option<Alternatives> {
        let (mut all, mut anchored, mut count) = (None::<Part>, true, 0_u64);
        loop {
            anchored &= matches!(self.chars.peek(), Some((_, '^')));
            let part = self.sequence()?;
            count += 1;
            all = Some(match all {
                None => part,
                Some(all) => Part {
                    states: all.states.saturating_add(part.states),
                    at_once: all.at_once.saturating_add(part.at_once),
                    length: all.length.filter(|length| part.length == Some(*length)),
                },
            });
            if !self.skip_if('|') {
                break;
            }
        }
        let mut part = all?;
        if count > 1 {
            // The state at which they part, with a way to the first state of each, and the one at which they join.
            let ways = 2 * count + 2;
            part.states = part.states.saturating_add(ways);
            part.at_once = part.at_once.saturating_add(ways);
        }
        Some(Alternatives { part, count, anchored })
    }

    /// Reads parts that follow one another.
    fn sequence(&mut self) -> Option<Part> {
        // Of parts of a fixed length, two meet at most: the one that ends and the one that begins. Those without a length of their own,
        // such as `^`, belong to the next one. What follows a part of a varying length may begin anywhere.
        let (mut states, mut length) = (0_u64, Some(0_u64));
        let (mut last, mut at_once) = (0_u64, 0_u64);
        while let Some(part) = self.repeated()? {
            states = states.saturating_add(part.states);
            if length.is_none() {
                at_once = at_once.saturating_add(part.states);
                continue;
            }
            let both = last.saturating_add(part.at_once);
            at_once = at_once.max(both);
            last = if part.length == Some(0) { both } else { part.at_once };
            length = length.zip(part.length).map(|(a, b)| a.saturating_add(b));
        }
        Some(Part { states, at_once: at_once.min(states), length })
    }

    /// Reads a part and the repetitions behind it. Returns `Some(None)` at the end of the sequence.
    fn repeated(&mut self) -> Option<Option<Part>> {
        let Some(mut part) = self.one()? else { return Some(None) };
        while let Some((_, c)) = self.chars.peek().copied() {
            let (min, max) = match c {
                '?' => (0, Some(1)),
                '*' => (0, None),
                '+' => (1, None),
                '{' => {
                    let (min, max) = self.counts()?;
                    self.skip_if('?');
                    part = part.repeated(min, max);
                    continue;
                }
                _ => break,
            };
            self.chars.next();
            self.skip_if('?');
            part = part.repeated(min, max);
        }
        Some(Some(part))
    }

    /// Reads `{n}`, `{n,}` or `{n,m}`.
    fn counts(&mut self) -> Option<(u64, Option<u64>)> {
        let (start, _) = self.chars.next()?;
        let end = loop {
            if let (end, '}') = self.chars.next()? {
                break end;
            }
        };
        let inside = &self.text[start + 1..end];
        match inside.split_once(',') {
            None => {
                let count = inside.parse().ok()?;
                Some((count, Some(count)))
            }
            Some((min, "")) => Some((min.parse().ok()?, None)),
            Some((min, max)) => Some((min.parse().ok()?, Some(max.parse().ok()?))),
        }
    }

    /// Reads a character, a class, a position or a group. Returns `Some(None)` at the end of the sequence.
    fn one(&mut self) -> Option<Option<Part>> {
        let Some((at, c)) = self.chars.peek().copied() else { return Some(None) };
        if matches!(c, '|' | ')') {
            return Some(None);
        }
        self.chars.next();
        Some(Some(match c {
            '^' | '$' => Part::one(1, 0),
            '.' => Part::one(1, 1),
            '(' => self.group()?,
            '[' => {
                let mut rest = self.text[at + 1..].char_indices();
                let before = rest.as_str().len();
                super::skip_class(&mut rest);
                let bytes = before - rest.as_str().len();
                while self.chars.next_if(|(place, _)| *place < at + 1 + bytes).is_some() {}
                Part::one(1 + bytes as u64 / CLASS_BYTES_PER_STATE, 1)
            }
            '\\' => match self.chars.next()?.1 {
                'd' | 's' | 'w' | 'D' | 'S' | 'W' => Part::one(2, 1),
                'b' | 'B' | 'A' | 'z' => Part::one(1, 0),
                c if !c.is_alphanumeric() => Part::one(1, 1),
                // Such as a code point: its length is not known here.
                _ => return None,
            },
            '?' | '*' | '+' | '{' => return None,
            _ => Part::one(1, 1),
        }))
    }

    /// Reads a group behind its `(`.
    fn group(&mut self) -> Option<Part> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let captures = !self.skip_if('?');
        if !captures && !self.skip_if(':') {
            return None;
        }
        let Alternatives { part, .. } = self.alternatives()?;
        if !self.skip_if(')') {
            return None;
        }
        self.depth -= 1;
        // Where the group begins and where it ends is a state each.
        let ends = if captures { 2 } else { 0 };
        Some(Part {
            states: part.states.saturating_add(ends),
            at_once: part.at_once.saturating_add(ends),
            length: part.length,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit of the size of a compiled expression.
    const SIZE: usize = 64 * 1024;

    fn per_char(text: &str) -> u64 {
        Cost::of(text, SIZE).per_char
    }

    #[test]
    fn a_text_at_the_start_costs_little_however_long_it_is() {
        let name = "orders-of-the-region-with-a-long-name";
        for end in ["", "\\.", "$", "\\.eu$"] {
            let cost = Cost::of(&format!("^{name}{end}"), SIZE);
            assert!(cost.per_char <= 4, "{end}: {cost:?}");
            assert!(cost.chars.is_some_and(|chars| chars <= 42), "{end}: {cost:?}");
        }
        assert!(per_char(&format!("^{name}.*$")) <= 8);
        assert!(per_char(&format!("^({name}|{name}s)\\.")) <= 16);
        assert_eq!(per_char(name), name.len() as u64 + 3, "it may begin anywhere");
    }

    #[test]
    fn what_may_be_in_many_states_costs_all_of_them() {
        let all = SIZE as u64 / STATE_BYTES as u64;
        for text in
            ["(?:.?.?.?.?){120}z", "^(?:.?.?.?.?){120}z", "^((a{0,30}){0,30}){9}", "^(.?){900}", "(?i)a"]
        {
            let cost = per_char(text);
            assert!(cost >= 900, "{text}: {cost}");
            assert!(cost <= all, "{text}: {cost}");
        }
        assert!(per_char("^.*(a|b).*c{40}") >= 40);
        assert!(per_char("^a?b{40}") >= 40);
        assert!(per_char("^(a|bc)d{40}") >= 40, "the second part may begin at two places");
        assert!(per_char("^(?:^|a)b{40}") >= 40);
    }

    #[test]
    fn the_steps_follow_the_length_of_the_text() {
        let cost = Cost { per_char: 3, chars: Some(5) };
        assert_eq!([0, 4, 5, 1000].map(|bytes| cost.steps(bytes)), [3, 15, 18, 18]);
        let cost = Cost { per_char: 3, chars: None };
        assert_eq!([0, 1000].map(|bytes| cost.steps(bytes)), [3, 3003]);
        assert_eq!(Cost { per_char: u64::MAX, chars: None }.steps(9), u64::MAX);
    }

    /// Counts the states of a naive automaton of the same kind for a few expressions of letters, `.`, `?` and `*`: it reads the text
    /// character by character, and may be in several places of the expression.
    #[test]
    fn no_character_visits_more_states_than_the_cost_says() {
        let parts = ["a", "b", ".", "a?", "b*", ".*"];
        let mut seed = 7_u64;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        for _ in 0..2_000 {
            let chosen: Vec<&str> = (0..=random(8)).map(|_| parts[random(parts.len())]).collect();
            let text: String = (0..random(20)).map(|_| ["a", "b"][random(2)]).collect();
            let (anchored, free) = (format!("^{}", chosen.concat()), chosen.concat());
            assert!(most_places(&chosen, &text, true) <= per_char(&anchored), "{anchored} {text}");
            assert!(most_places(&chosen, &text, false) <= per_char(&free), "{free} {text}");
        }
    }

    /// Returns the most parts that one character meets.
    fn most_places(parts: &[&str], text: &str, anchored: bool) -> u64 {
        let can_skip = |place: usize| parts[place].len() == 2;
        let closure = |places: &mut Vec<bool>| {
            for place in 0..parts.len() {
                if places[place] && can_skip(place) {
                    places[place + 1] = true;
                }
            }
        };
        let (mut places, mut most) = (vec![false; parts.len() + 1], 0);
        places[0] = true;
        for c in text.chars() {
            closure(&mut places);
            most = most.max(places.iter().filter(|place| **place).count() as u64);
            let mut next = vec![false; parts.len() + 1];
            for place in 0..parts.len() {
                if places[place] && (parts[place].starts_with('.') || parts[place].starts_with(c)) {
                    next[if parts[place].ends_with('*') { place } else { place + 1 }] = true;
                }
            }
            next[0] |= !anchored;
            places = next;
        }
        most
    }
}
