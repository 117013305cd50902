//! Patterns: the regular expressions of permissions and policies.
//!
//! A pattern matches a name if it matches some part of it, in time linear in both. So it has no backreferences and no
//! look-around, except for what RabbitMQ's users often write: a look-ahead at the start, as in `^(?!amq\.).*`, all names that
//! do not start with `amq.`. It is a condition of its own:
//!
//! ```text
//!   ^(?!A)B     not ^A, and ^B
//!   ^(?=A)B     ^A, and ^B
//! ```

mod cost;

use std::fmt;
use std::sync::Arc;

use regex_lite::{Regex, RegexBuilder};

use self::cost::Cost;

/// The maximum length of a pattern in bytes. A pattern is matched against every name.
const PATTERN_BYTES_MAX: usize = 1024;

/// The maximum size of a compiled expression in bytes. A larger one is refused.
const REGEX_BYTES_MAX: usize = 64 * 1024;

/// The smallest size that is told apart. Nearly all patterns are smaller.
const REGEX_BYTES_MIN: usize = 2 * 1024;

/// The longest name of an object in bytes.
const NAME_BYTES_MAX: usize = 255;

/// The most steps that the pattern of a permission may take for one name: some 10 ms. Users are asked for their permissions with each
/// declaration, and with each message whose exchange or key differs from the one before.
const PERMISSION_STEPS_MAX: u64 = 256 * 1024;

/// The most look-aheads of a pattern. Each adds an expression, and may add one for what follows it.
const LOOK_AHEADS_MAX: usize = 4;

/// A set of names.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// No name: an empty permission.
    Nothing,
    /// All names: `.*`, by far the most frequent pattern.
    Everything,
    Expression(Arc<Expression>),
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// The text is not a regular expression, cannot be matched in linear time, or is too large.
    pub fn new(text: &str) -> Result<Self, String> {
        if text == Self::Everything.as_str() {
            return Ok(Self::Everything);
        }
        Ok(Self::Expression(Arc::new(Expression::new(text, Case::Matters)?)))
    }

    /// Compiles a pattern that people search with. The case of ASCII letters does not matter.
    ///
    /// # Errors
    /// The errors of [`Pattern::new`].
    pub fn of_search(text: &str) -> Result<Self, String> {
        Ok(Self::Expression(Arc::new(Expression::new(text, Case::Ignored)?)))
    }

    /// Compiles the pattern of a permission. Other than in a policy, an empty one matches nothing.
    ///
    /// # Errors
    /// The errors of [`Pattern::new`].
    pub fn of_permission(text: &str) -> Result<Self, String> {
        if text.is_empty() { Ok(Self::Nothing) } else { Self::new(text) }
    }

    /// Checks that the pattern of a permission that somebody sets is cheap enough. Those that are stored already remain.
    ///
    /// # Errors
    /// A match would take too many steps.
    pub(crate) fn check_permission(&self) -> Result<(), String> {
        let steps = self.steps_of_name();
        if steps > PERMISSION_STEPS_MAX {
            return Err(format!(
                "the pattern is too costly: up to {steps} steps for a name, and {PERMISSION_STEPS_MAX} are possible"
            ));
        }
        Ok(())
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::Nothing => "",
            Self::Everything => ".*",
            Self::Expression(expression) => &expression.text,
        }
    }

    pub fn is_match(&self, name: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::Expression(expression) => expression.is_match(name),
        }
    }

    /// Returns the most steps that a match with a text of this length in bytes takes. A step is a state of the compiled expression that
    /// one character visits: some 10 to 40 ns.
    pub fn steps(&self, bytes: usize) -> u64 {
        match self {
            Self::Nothing | Self::Everything => 1,
            Self::Expression(expression) => expression.steps(bytes),
        }
    }

    /// Returns the most steps that a match with the name of any object takes.
    pub(crate) fn steps_of_name(&self) -> u64 {
        self.steps(NAME_BYTES_MAX)
    }
}

/// Whether the case of letters matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Matters,
    Ignored,
}

/// A compiled pattern.
pub struct Expression {
    text: Box<str>,
    /// A name matches if it matches one of these.
    alternatives: Box<[Alternative]>,
}

/// An expression, and the conditions of the look-aheads before it.
struct Alternative {
    conditions: Box<[Condition]>,
    rest: Compiled,
}

/// A look-ahead. A name meets it if its start matches, or does not match, as wanted.
struct Condition {
    wanted: bool,
    start: Compiled,
}

/// A regular expression, and what a match costs.
struct Compiled {
    regex: Regex,
    cost: Cost,
}

impl Expression {
    fn new(text: &str, case: Case) -> Result<Self, String> {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(format!("the pattern is longer than {PATTERN_BYTES_MAX} bytes"));
        }
        // Most patterns have no look-ahead, and need not be taken apart.
        let scanned = if text.contains("(?=") || text.contains("(?!") { Some(scan(text)?) } else { None };
        let alternatives = match scanned {
            Some(scanned) => scanned.compile(case)?,
            None => [Alternative { conditions: Box::default(), rest: compile(text, case)? }].into(),
        };
        Ok(Self { text: text.into(), alternatives })
    }

    fn is_match(&self, name: &str) -> bool {
        self.alternatives.iter().any(|alternative| {
            let is_met = |condition: &Condition| condition.start.regex.is_match(name) == condition.wanted;
            alternative.conditions.iter().all(is_met) && alternative.rest.regex.is_match(name)
        })
    }

    fn steps(&self, bytes: usize) -> u64 {
        let each = self.alternatives.iter().flat_map(|alternative| {
            alternative.conditions.iter().map(|condition| &condition.start).chain([&alternative.rest])
        });
        each.fold(0, |sum, compiled| sum.saturating_add(compiled.cost.steps(bytes)))
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)
    }
}

fn compile(text: &str, case: Case) -> Result<Compiled, String> {
    let mut builder = RegexBuilder::new(text);
    builder.case_insensitive(case == Case::Ignored);
    // An expression does not tell its size, but whether it is below a limit.
    let mut limit = REGEX_BYTES_MIN;
    let regex = loop {
        match builder.size_limit(limit).build() {
            Ok(regex) => break regex,
            Err(_) if limit < REGEX_BYTES_MAX => limit *= 2,
            Err(why) => return Err(format!("the pattern is not a regular expression: {why}")),
        }
    };
    Ok(Compiled { regex, cost: Cost::of(text, limit) })
}

/// The alternatives of a pattern, which `|` outside of all groups separates.
#[derive(Debug, PartialEq)]
struct Scanned<'a> {
    with_look_ahead: Vec<Led<'a>>,
    others: Vec<&'a str>,
}

/// An alternative that starts with look-aheads: whether each is wanted, and its expression.
#[derive(Debug, PartialEq)]
struct Led<'a> {
    look_aheads: Vec<(bool, &'a str)>,
    rest: &'a str,
}

impl Scanned<'_> {
    fn compile(&self, case: Case) -> Result<Box<[Alternative]>, String> {
        let at_start = |text: &str| compile(&format!("^(?:{text})"), case);
        let mut alternatives = Vec::new();
        for Led { look_aheads, rest } in &self.with_look_ahead {
            let condition = |&(wanted, text): &(bool, &str)| Ok(Condition { wanted, start: at_start(text)? });
            let conditions = look_aheads.iter().map(condition).collect::<Result<_, String>>()?;
            alternatives.push(Alternative { conditions, rest: at_start(rest)? });
        }
        if !self.others.is_empty() {
            alternatives.push(Alternative {
                conditions: Box::default(),
                rest: compile(&self.others.join("|"), case)?,
            });
        }
        Ok(alternatives.into())
    }
}

/// Takes a pattern with look-aheads apart.
///
/// # Errors
/// A look-ahead is not at the start of an alternative, or its alternatives cannot be taken apart.
fn scan(text: &str) -> Result<Scanned<'_>, String> {
    let misplaced = "the pattern has a look-ahead that is not behind a ^ at its start: only there it can be checked in \
                     linear time";
    let mut scanned = Scanned { with_look_ahead: Vec::new(), others: Vec::new() };
    let mut count = 0;
    for alternative in alternatives(text)? {
        let mut look_aheads = Vec::new();
        let mut rest = alternative.strip_prefix('^').unwrap_or_default();
        while let Some((wanted, behind)) = look_ahead(rest) {
            let end = group_end(behind).ok_or("the pattern has a group that is not closed")?;
            look_aheads.push((wanted, &behind[..end]));
            rest = &behind[end + 1..];
        }
        if look_aheads.iter().any(|(_, text)| has_look_ahead(text)) || has_look_ahead(rest) {
            return Err(misplaced.into());
        }
        count += look_aheads.len();
        match look_aheads.is_empty() {
            true if has_look_ahead(alternative) => return Err(misplaced.into()),
            true => scanned.others.push(alternative),
            false => scanned.with_look_ahead.push(Led { look_aheads, rest }),
        }
    }
    if count > LOOK_AHEADS_MAX {
        return Err(format!("the pattern has {count} look-aheads: at most {LOOK_AHEADS_MAX} are possible"));
    }
    Ok(scanned)
}

/// Splits a pattern at each `|` outside of all groups.
fn alternatives(text: &str) -> Result<Vec<&str>, String> {
    let (mut found, mut from, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, token) in tokens(text) {
        match token {
            '|' if depth == 0 => {
                found.push(&text[from..at]);
                from = at + 1;
            }
            '(' => {
                // Flags outside of all groups also count for the alternatives that follow.
                if depth == 0 && sets_flags(&text[at..]) {
                    return Err("the pattern has both flags and a look-ahead, which is not possible".into());
                }
                depth += 1;
            }
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    found.push(&text[from..]);
    Ok(found)
}

/// Returns true if a group such as `(?i)` starts the text.
fn sets_flags(text: &str) -> bool {
    let group = text.strip_prefix("(?").and_then(|inside| inside.split_once(')'));
    group.is_some_and(|(flags, _)| flags.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-'))
}

/// Returns whether the look-ahead at the start of `text` is wanted, and the text behind its `(?=` or `(?!`.
fn look_ahead(text: &str) -> Option<(bool, &str)> {
    let behind = |mark, wanted| text.strip_prefix(mark).map(|behind| (wanted, behind));
    behind("(?=", true).or_else(|| behind("(?!", false))
}

fn has_look_ahead(text: &str) -> bool {
    tokens(text).any(|(at, token)| token == '(' && look_ahead(&text[at..]).is_some())
}

/// Returns the place of the `)` that closes the group whose inside starts `text`.
fn group_end(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens(text) {
        match token {
            '(' => depth += 1,
            ')' if depth == 0 => return Some(at),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Returns the characters that have a meaning, each with its place: not those that are escaped or in a class such as `[(|)]`.
fn tokens(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut chars = text.char_indices();
    std::iter::from_fn(move || {
        loop {
            match chars.next()? {
                (_, '\\') => _ = chars.next(),
                (_, '[') => skip_class(&mut chars),
                token => return Some(token),
            }
        }
    })
}

/// Skips the rest of a class behind its `[`. A `]` at its start stands for itself.
fn skip_class(chars: &mut std::str::CharIndices<'_>) {
    let inside = chars.as_str();
    let inside = inside.strip_prefix('^').unwrap_or(inside);
    let first = chars.as_str().len() - inside.len() + usize::from(inside.starts_with(']'));
    (0..first).for_each(|_| _ = chars.next());
    let mut depth = 0_usize;
    while let Some((_, c)) = chars.next() {
        match c {
            '\\' => _ = chars.next(),
            // Such as `[:alpha:]`.
            '[' => depth += 1,
            ']' if depth == 0 => return,
            ']' => depth -= 1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns those of some names that a pattern matches.
    fn matched(pattern: &str) -> String {
        let pattern = Pattern::new(pattern).unwrap_or_else(|why| panic!("{pattern}: {why}"));
        let names = ["amq.gen-1", "amq.topic", "a", "b", "ab", "orders.eu", "orders.us"];
        names.into_iter().filter(|name| pattern.is_match(name)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_pattern_matches_a_part_of_a_name() {
        assert_eq!(matched("^amq\\.(gen|x).*$"), "amq.gen-1");
        assert_eq!(matched("a"), "amq.gen-1 amq.topic a ab");
        assert_eq!(matched("^a$|^b$"), "a b");
        assert_eq!(matched("^$"), "");
        let all = matched(".*");
        assert_eq!(matched(""), all);
        assert_eq!(all, "amq.gen-1 amq.topic a b ab orders.eu orders.us");
        assert_eq!(Pattern::new(".*"), Ok(Pattern::Everything));
    }

    #[test]
    fn an_empty_permission_matches_nothing() {
        let matches = |text| Pattern::of_permission(text).unwrap().is_match("a");
        assert!(!matches("") && matches(".*") && matches("a") && !matches("^$"));
        for text in ["", ".*", "a", "^(?!b)"] {
            assert_eq!(Pattern::of_permission(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn look_aheads_at_the_start_are_conditions() {
        assert_eq!(matched("^(?!amq\\.).*"), "a b ab orders.eu orders.us");
        assert_eq!(matched("^(?!amq\\.).*$"), "a b ab orders.eu orders.us");
        assert_eq!(matched("^(?!amq\\.)"), "a b ab orders.eu orders.us");
        assert_eq!(matched("^(?!amq\\.)(?!orders\\.)"), "a b ab");
        assert_eq!(matched("^(?!amq\\.|orders\\.)"), "a b ab");
        assert_eq!(matched("^(?!(amq|orders)\\.).b?$"), "a b ab");
        assert_eq!(matched("^(?=orders).*us$"), "orders.us");
        assert_eq!(matched("^(?!a$)a"), "amq.gen-1 amq.topic ab");
        assert_eq!(matched("^(?![ao)]).*"), "b");
        assert_eq!(matched("^(?![]o)]|[^]b(])"), "b");
        assert_eq!(matched("^(?!\\)|[[:alpha:])]b).*"), "amq.gen-1 amq.topic a b orders.eu orders.us");
    }

    #[test]
    fn each_alternative_has_its_own_conditions() {
        assert_eq!(matched("^(?!amq\\.)a|^amq\\.gen"), "amq.gen-1 a ab");
        assert_eq!(matched("^b|^(?!amq\\.)a|gen|us"), "amq.gen-1 a b ab orders.us");
        assert_eq!(matched("^(?!amq\\.)a|^(?=orders)(?!.*us)"), "a ab orders.eu");
    }

    #[test]
    fn a_search_ignores_case() {
        for (pattern, name, is_match) in [
            ("^a[bc]$", "AB", true),
            ("^(?!A).", "ab", false),
            ("^(?!A).", "BA", true),
            ("", "any", true),
            (".*", "", true),
        ] {
            assert_eq!(Pattern::of_search(pattern).unwrap().is_match(name), is_match, "{pattern} {name}");
        }
        assert!(Pattern::of_search("(").is_err());
    }

    #[test]
    fn what_takes_more_than_linear_time_is_refused() {
        let why = |text: &str| Pattern::new(text).map(|_| ()).unwrap_err();
        let misplaced = "the pattern has a look-ahead that is not behind a ^ at its start: only there it can be checked \
                         in linear time";
        let wrong = ["(?!amq\\.).*", "^a(?!b)", "^((?!amq\\.).)*$", "^(?!a(?!b))", "a|(?=b)", "^(?!a)b(?=c)"];
        for text in wrong {
            assert_eq!(why(text), misplaced, "{text}");
        }
        assert!(why("^(?<!a)b").starts_with("the pattern is not a regular expression"));
        assert!(why("(a)\\1").contains("backreference"), "{}", why("(a)\\1"));
        assert!(why("^(?!a").contains("not closed"));
        assert!(why("(?i)^(?!a)").contains("flags"));
        assert!(why("^(?!a)*b").contains("not a regular expression"));
        assert!(why("^(?!a)(?!b)(?!c)(?!d)(?!e)").contains("5 look-aheads"));
    }

    #[test]
    fn patterns_are_bounded() {
        assert!(Pattern::new("(").is_err());
        assert!(Pattern::new(&"a".repeat(1025)).is_err());
        assert!(Pattern::new("(?:a{1000}){1000}").is_err());
        assert!(Pattern::new("^(?!(?:a{1000}){1000})").is_err());
    }

    #[test]
    fn the_steps_of_a_match_are_known() {
        let steps = |text: &str| Pattern::new(text).unwrap().steps_of_name();
        let costly = steps("(?:.?.?.?.?){120}z");
        assert!(costly > 100_000, "{costly}");
        assert_eq!(steps(".*"), 1);
        assert!(steps("^orders\\.") < 100);
        assert!(steps("^(?!amq\\.).*") < 4_000);
        assert!(steps("^(?!(?:.?.?.?.?){120}z).*") > costly, "a look-ahead counts as well");
        assert!(steps("^a|^(?!(?:.?.?.?.?){120}z).*") > costly);
        let search = Pattern::of_search("(?:.?.?.?.?){120}z").unwrap();
        assert!(search.steps(100) < search.steps(200) && search.steps(100) > 10_000);
    }

    #[test]
    fn a_permission_that_costs_too_much_is_refused() {
        let check = |text: &str| Pattern::of_permission(text).unwrap().check_permission();
        for usual in ["", ".*", "^$", "^(?!amq\\.).*", "^(orders|payments)\\..*$", "team-[a-z]+\\.(eu|us)$"] {
            assert_eq!(check(usual), Ok(()), "{usual}");
        }
        let many: Vec<String> = (0..100).map(|n| format!("queue-{n}")).collect();
        assert_eq!(check(&format!("^({})$", many.join("|"))), Ok(()));
        let why = check("(?:.?.?.?.?){120}z").unwrap_err();
        assert!(why.contains("too costly"), "{why}");
    }
}
