//! Text of clients in lines for people. A name must not look like another line, move the cursor, or show other text in another
//! order. Everything that writes lines escapes them here, once: the log and the verbs.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::Value;

/// Returns true for control characters, line separators, and characters that set the direction of text.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Escapes text that is one line or a part of one: a line break becomes `\n`.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    replace(text, &[], |escaped, c| escaped.extend(c.escape_default()))
}

/// Escapes text of several lines, whose parts were escaped with [`line`] if they must not have line breaks.
pub(crate) fn lines(text: &str) -> Cow<'_, str> {
    replace(text, &['\n', '\t'], |escaped, c| escaped.extend(c.escape_default()))
}

/// Escapes JSON as text. It means the same afterwards. A string in JSON has no line breaks, only the text between strings has.
pub(crate) fn json_text(text: &str) -> Cow<'_, str> {
    // All unsafe characters fit into four digits. Writing to a string cannot fail.
    replace(text, &['\n'], |escaped, c| _ = write!(escaped, "\\u{:04x}", u32::from(c)))
}

/// Returns a value as text of several lines, with a line break at its end.
pub(crate) fn json(value: &Value) -> String {
    json_text(&format!("{value:#}\n")).into_owned()
}

/// Writes each unsafe character that is not in `kept` with `write`.
fn replace<'a>(text: &'a str, kept: &[char], write: impl Fn(&mut String, char)) -> Cow<'a, str> {
    let is_replaced = |c: char| is_unsafe(c) && !kept.contains(&c);
    let Some(first) = text.find(is_replaced) else { return Cow::Borrowed(text) };
    let mut escaped = text[..first].to_owned();
    for c in text[first..].chars() {
        if is_replaced(c) { write(&mut escaped, c) } else { escaped.push(c) }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_could_forge_a_line_is_escaped() {
        assert_eq!(line("a\nb\r\t\u{1b}[2J\u{7f}\u{85}"), "a\\nb\\r\\t\\u{1b}[2J\\u{7f}\\u{85}");
        assert_eq!(
            line("\u{202e}\u{2066}\u{2028}\u{200f}\u{61c}"),
            "\\u{202e}\\u{2066}\\u{2028}\\u{200f}\\u{61c}"
        );
        assert_eq!(lines("a\n\tb\r\n"), "a\n\tb\\r\n");
        for plain in ["", "größe 🐇 名前", "a\\nb 'c' \"d\"", "\u{a0}\u{200b}"] {
            assert!(matches!(line(plain), Cow::Borrowed(same) if same == plain), "{plain}");
        }
    }

    #[test]
    fn escaped_json_means_the_same() {
        let value = json!({ "a\u{202e}\n": ["\u{85}\u{7f}\u{2028}\u{1b}", "ä"] });
        let text = json(&value);
        assert!(text.contains("a\\u202e\\n") && text.contains("\\u0085\\u007f\\u2028\\u001b"), "{text}");
        assert_eq!(text.lines().count(), 6, "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
