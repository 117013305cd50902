//! Each line on its way to an output of the log. Whatever text of a client it has, it stays one line.

use std::borrow::Cow;
use std::fmt::{self, Debug};
use std::io::{self, Stderr, Write};

use tracing::field::{Field, Visit};
use tracing::{Level, Metadata};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FormatFields, MakeWriter};

use crate::config::Format;
use crate::escape;

/// Writes the message of a plain line and its fields: `message name=value name="another value"`. A value is quoted if it could be
/// taken for further fields otherwise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields;

impl<'w> FormatFields<'w> for Fields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut line = FieldWriter { writer, separator: "", result: Ok(()) };
        fields.record(&mut line);
        line.result
    }
}

/// The fields of one line on their way to it.
#[derive(Debug)]
struct FieldWriter<'w> {
    writer: Writer<'w>,
    separator: &'static str,
    result: fmt::Result,
}

impl Visit for FieldWriter<'_> {
    fn record_str(&mut self, field: &Field, text: &str) {
        match field.name() {
            "message" => self.record_debug(field, &format_args!("{text}")),
            _ => self.record_debug(field, &text),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let (separator, name, text) = (self.separator, field.name(), format!("{value:?}"));
        let written = match name {
            "message" => write!(self.writer, "{separator}{}", quotes_escaped(&text)),
            _ if is_one_value(&text) => write!(self.writer, "{separator}{name}={text}"),
            _ => write!(self.writer, "{separator}{name}={text:?}"),
        };
        self.separator = " ";
        self.result = self.result.and(written);
    }
}

/// Escapes the double quotes of a message, which may have names that clients have chosen. So what such a name has cannot be taken for
/// the fields behind the message, whose quotes are not escaped. Quotes that are escaped already stay as they are.
fn quotes_escaped(text: &str) -> Cow<'_, str> {
    if !text.contains('"') {
        return Cow::Borrowed(text);
    }
    let (mut escaped, mut is_escaped) = (String::with_capacity(text.len() + 2), false);
    for c in text.chars() {
        if c == '"' && !is_escaped {
            escaped.push('\\');
        }
        escaped.push(c);
        is_escaped = c == '\\' && !is_escaped;
    }
    Cow::Owned(escaped)
}

/// Returns true if this text is quoted as a whole, or cannot end before its last character.
fn is_one_value(text: &str) -> bool {
    let Some(quoted) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return !text.contains(|c: char| c.is_whitespace() || c == '"' || c == '=');
    };
    // A quote within quotes is escaped.
    let mut escaped = false;
    let ends_early = quoted.chars().any(|c| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    !ends_early && !escaped
}

/// Escapes lines for another output.
#[derive(Clone, Debug)]
pub(super) struct Escaped<M> {
    pub format: Format,
    pub to: M,
}

impl<'a, M: MakeWriter<'a>> MakeWriter<'a> for Escaped<M> {
    type Writer = EscapedLine<M::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        EscapedLine { format: self.format, to: self.to.make_writer() }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Self::Writer {
        EscapedLine { format: self.format, to: self.to.make_writer_for(metadata) }
    }
}

/// One line.
#[derive(Debug)]
pub(super) struct EscapedLine<W> {
    format: Format,
    to: W,
}

impl<W: Write> Write for EscapedLine<W> {
    /// Called once with the whole line and its line break.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let text = text.strip_suffix('\n').unwrap_or(&text);
        let mut escaped = match self.format {
            Format::Plain => escape::line(text),
            Format::Json => escape::json_text(text),
        }
        .into_owned();
        escaped.push('\n');
        self.to.write_all(escaped.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Writes lines to a terminal. Their time is dimmed, and their level has a colour. The formatter does not colour them, because its
/// control characters could not be told from those of a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terminal;

impl<'a> MakeWriter<'a> for Terminal {
    type Writer = TerminalLine;

    fn make_writer(&'a self) -> TerminalLine {
        TerminalLine { level: Level::INFO, stderr: io::stderr() }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> TerminalLine {
        TerminalLine { level: *metadata.level(), stderr: io::stderr() }
    }
}

/// One line for a terminal.
#[derive(Debug)]
pub(super) struct TerminalLine {
    level: Level,
    stderr: Stderr,
}

impl Write for TerminalLine {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        self.stderr.lock().write_all(coloured(&text, self.level).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stderr.flush()
    }
}

/// Colours a line, which begins with its time and its level.
fn coloured(line: &str, level: Level) -> String {
    let colour = match level {
        Level::ERROR => 31,
        Level::WARN => 33,
        Level::INFO => 32,
        Level::DEBUG => 34,
        Level::TRACE => 35,
    };
    match line.split_once(level.as_str()) {
        Some((time, rest)) => format!("\x1b[2m{time}\x1b[0m\x1b[{colour}m{level}\x1b[0m{rest}"),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt;
    use tracing_subscriber::layer::SubscriberExt as _;
    use tracing_subscriber::util::SubscriberInitExt as _;

    use super::*;

    /// Text that begins another line, moves the cursor, and turns the order of the text.
    const HOSTILE: &str = "a\nb\r\u{1b}[2J\u{7}\u{7f}\u{85}\u{202e}\u{2028}z";

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(line)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns what is written for a line with hostile text in each place that a line has.
    fn written(format: Format) -> String {
        let kept = Kept::default();
        let to = kept.clone();
        let writer = Escaped { format, to: move || to.clone() };
        let layer = fmt::layer()
            .with_writer(writer)
            .fmt_fields(Fields)
            .with_ansi(false)
            .with_ansi_sanitization(false);
        let registry = tracing_subscriber::registry();
        let _scope = match format {
            Format::Plain => registry.with(layer).set_default(),
            Format::Json => registry.with(layer.json().flatten_event(true)).set_default(),
        };
        let error = io::Error::other(HOSTILE);
        let error: &(dyn std::error::Error + 'static) = &error;
        tracing::warn!(shown = %HOSTILE, quoted = HOSTILE, debug = ?HOSTILE, error, "message {HOSTILE}");
        String::from_utf8(kept.0.lock().unwrap().clone()).unwrap()
    }

    /// Returns what is written of a line behind its target.
    fn fields(write: impl FnOnce()) -> String {
        let kept = Kept::default();
        let to = kept.clone();
        let layer = fmt::layer().with_writer(move || to.clone()).fmt_fields(Fields).with_ansi(false);
        let scope = tracing_subscriber::registry().with(layer).set_default();
        write();
        drop(scope);
        let line = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        line.split_once("tests: ").unwrap().1.to_owned()
    }

    #[test]
    fn a_line_stays_one_line() {
        let plain = "a\\nb\\r\\u{1b}[2J\\u{7}\\u{7f}\\u{85}\\u{202e}\\u{2028}z";
        let line = written(Format::Plain);
        assert_eq!((line.lines().count(), line.matches("\\u{202e}").count()), (1, 5), "{line}");
        assert!(line.contains(&format!("message {plain} shown=\"{plain}\" ")), "{line}");
        assert!(!line.trim_end().contains(char::is_control) && !line.contains('\u{202e}'), "{line}");
        let line = written(Format::Json);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!((line.lines().count(), &value["message"]), (1, &format!("message {HOSTILE}").into()));
        assert_eq!((&value["shown"], &value["quoted"]), (&HOSTILE.into(), &HOSTILE.into()));
        assert!(line.is_ascii() && !line.trim_end().contains(char::is_control), "{line}");
    }

    #[test]
    fn a_value_is_not_taken_for_further_fields() {
        for one in
            ["", "plain", "12", "[1,2]", "größe", r#""quoted""#, r#""a user=\"root\" b""#, r#""back\\""#]
        {
            assert!(is_one_value(one), "{one}");
        }
        for several in
            ["a user=root", "a=b", r#"a"b"#, r#""a" user="root""#, r#""back\\" user="root""#, "\"", r#""\""#]
        {
            assert!(!is_one_value(several), "{several}");
        }
        let line = fields(|| tracing::warn!(user = %"a user=root", vhost = "/", "hello {}", "a=b"));
        assert_eq!(line, "hello a=b user=\"a user=root\" vhost=\"/\"\n");
    }

    #[test]
    fn a_name_in_a_message_is_not_taken_for_fields() {
        for (message, written) in [
            ("no queue 'q'", "no queue 'q'"),
            (r#"no queue 'q' user="FORGED" x='"#, r#"no queue 'q' user=\"FORGED\" x='"#),
            (r#"user=\"FORGED\""#, r#"user=\"FORGED\""#),
            (r#"user=\\"FORGED\\""#, r#"user=\\\"FORGED\\\""#),
        ] {
            let line = fields(|| tracing::warn!(user = "ann", "{message}"));
            assert_eq!(line, format!("{written} user=\"ann\"\n"));
        }
    }

    #[test]
    fn only_time_and_level_have_colours() {
        let line = "2026-11-28T06:00:00.000000Z ERROR user: an ERROR\n";
        let expected = "\x1b[2m2026-11-28T06:00:00.000000Z \x1b[0m\x1b[31mERROR\x1b[0m user: an ERROR\n";
        assert_eq!(coloured(line, Level::ERROR), expected);
        assert_eq!(coloured("a line\n", Level::WARN), "a line\n");
    }
}
