//! `same-tokens BASE`: checks that the work tree has the same code as a commit, apart from comments and doc
//! strings.
//!
//! Rust and Python are compared by their tokens, TOML by its values. Other known file types are compared by
//! lines, without lines that are only a comment. Markdown is ignored. All other files must be identical.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::str::FromStr as _;

use proc_macro2::{Delimiter, Group, Spacing, TokenStream, TokenTree};

type Failure = Box<dyn std::error::Error>;

/// The most characters of a token that a message shows.
const SHOWN: usize = 60;

/// A token, and its line.
#[derive(Clone, Debug)]
struct Token {
    text: String,
    line: usize,
}

impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// Compares the work tree with the commit `base`.
///
/// # Errors
/// The code differs: the message names each file and the first line that differs. Or git or Python failed, or
/// a file cannot be parsed.
pub(crate) fn run(base: &str) -> Result<(), Failure> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask is not in the workspace")?;
    let mut differences = Vec::new();
    for (path, status) in changed(root, base)? {
        let ending = path.rsplit('.').next().unwrap_or_default();
        if ending == "md" {
            continue;
        }
        let difference = match status {
            'M' => {
                let before = git(root, &["show", &format!("{base}:{path}")])?;
                let after = std::fs::read_to_string(root.join(&path))?;
                first_difference(&path, &before, &after).map_err(|error| format!("{path}: {error}"))?
            }
            'A' => Some("is new".to_owned()),
            _ => Some("is deleted, or has become another kind of file, such as a symlink".to_owned()),
        };
        differences.extend(difference.map(|what| format!("{path} {what}")));
    }
    match differences.is_empty() {
        true => Ok(()),
        false => Err(format!("not the same code as {base}:\n  {}", differences.join("\n  ")).into()),
    }
}

/// Returns the files that differ from `base`, with git's status letter. New files are included once they are
/// added to git.
fn changed(root: &Path, base: &str) -> Result<BTreeMap<String, char>, Failure> {
    let listed = git(root, &["diff", "--no-renames", "--name-status", "-z", base, "--"])?;
    let mut words = listed.split_terminator('\0');
    let mut found = BTreeMap::new();
    while let (Some(status), Some(path)) = (words.next(), words.next()) {
        found.insert(path.to_owned(), status.chars().next().ok_or("git names a status")?);
    }
    Ok(found)
}

fn git(root: &Path, words: &[&str]) -> Result<String, Failure> {
    let output = Command::new("git").args(words).current_dir(root).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Describes the first difference, as the end of a sentence about the file.
fn first_difference(path: &str, before: &str, after: &str) -> Result<Option<String>, Failure> {
    let (before, after) = (tokens(path, before)?, tokens(path, after)?);
    if before == after {
        return Ok(None);
    }
    let at = before.iter().zip(&after).take_while(|(old, new)| old == new).count();
    let said = |found: Option<&Token>| match found {
        None => "nothing".to_owned(),
        Some(token) => format!("`{}`", token.text.escape_debug().take(SHOWN).collect::<String>()),
    };
    let line = after.get(at).or(after.last()).map_or(0, |token| token.line);
    let (was, is) = (said(before.get(at)), said(after.get(at)));
    Ok(Some(format!("line {line}: {is}, it was {was}")))
}

fn tokens(path: &str, text: &str) -> Result<Vec<Token>, Failure> {
    let ending = path.rsplit(['.', '/']).next().unwrap_or_default();
    Ok(match ending {
        "rs" => {
            let stream = TokenStream::from_str(text).map_err(|error| format!("cannot be read: {error}"))?;
            let mut found = Vec::new();
            of_rust(stream, &mut found);
            found
        }
        "toml" => {
            let values = format!("{:#?}", toml::from_str::<toml::Table>(text)?);
            // The line is unknown, because the lines of the printed values are not those of the file.
            values.lines().map(|value| Token { text: value.trim().to_owned(), line: 0 }).collect()
        }
        "py" => of_python(text)?,
        "java" | "go" | "js" => of_lines(text, "//"),
        "sh" | "run" | "Makefile" | "conf" | "example" => of_lines(text, "#"),
        _ => {
            let lines = text.split('\n').enumerate();
            lines.map(|(at, line)| Token { text: line.to_owned(), line: at + 1 }).collect()
        }
    })
}

/// Appends the tokens, without doc comments and without the reasons of lints, which are comments, too.
fn of_rust(stream: TokenStream, found: &mut Vec<Token>) {
    let mut rest = stream.into_iter().peekable();
    while let Some(token) = rest.next() {
        if matches!(&token, TokenTree::Punct(hash) if hash.as_char() == '#') {
            let inner = rest.next_if(|next| matches!(next, TokenTree::Punct(p) if p.as_char() == '!'));
            if let Some(TokenTree::Group(attribute)) = rest.peek()
                && is_doc(attribute)
            {
                rest.next();
                continue;
            }
            push(&token, found);
            inner.iter().for_each(|inner| push(inner, found));
            continue;
        }
        if let TokenTree::Ident(name) = &token
            && name == "reason"
            && matches!(rest.peek(), Some(TokenTree::Punct(equals)) if equals.as_char() == '=' && equals.spacing() == Spacing::Alone)
        {
            let equals = rest.next();
            if rest.next_if(|next| matches!(next, TokenTree::Literal(literal) if literal.to_string().starts_with('"'))).is_some() {
                push(&token, found);
                continue;
            }
            push(&token, found);
            equals.iter().for_each(|equals| push(equals, found));
            continue;
        }
        push(&token, found);
    }
}

fn push(token: &TokenTree, found: &mut Vec<Token>) {
    let line = token.span().start().line;
    let TokenTree::Group(group) = token else {
        found.push(Token { text: token.to_string(), line });
        return;
    };
    let (open, close) = match group.delimiter() {
        Delimiter::Parenthesis => ("(", ")"),
        Delimiter::Brace => ("{", "}"),
        Delimiter::Bracket => ("[", "]"),
        Delimiter::None => ("", ""),
    };
    found.push(Token { text: open.to_owned(), line });
    of_rust(group.stream(), found);
    found.push(Token { text: close.to_owned(), line: group.span_close().start().line });
}

/// Returns true if the attribute is the form that a doc comment becomes.
fn is_doc(attribute: &Group) -> bool {
    let mut words = attribute.stream().into_iter();
    matches!(words.next(), Some(TokenTree::Ident(name)) if name == "doc")
        && matches!(words.next(), Some(TokenTree::Punct(equals)) if equals.as_char() == '=')
        && matches!(words.next(), Some(TokenTree::Literal(_)))
}

/// Prints a JSON list of the line and text of each token of standard input. Comments, doc strings and blank
/// lines are omitted.
const PYTHON: &str = r#"
import io, json, sys, tokenize
out, fresh = [], True
for token in tokenize.generate_tokens(io.StringIO(sys.stdin.read()).readline):
    if token.type in (tokenize.COMMENT, tokenize.NL):
        continue
    if token.type == tokenize.STRING and fresh:
        continue
    out.append([token.start[0], tokenize.tok_name[token.type] if token.type in
                (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT) else token.string])
    fresh = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
json.dump(out, sys.stdout)
"#;

fn of_python(text: &str) -> Result<Vec<Token>, Failure> {
    let mut python = Command::new("python3")
        .args(["-c", PYTHON])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()?;
    let mut input = python.stdin.take().ok_or("standard input is piped")?;
    let text = text.to_owned();
    // Another thread writes the input, because neither pipe holds the whole file.
    let writer = std::thread::spawn(move || std::io::Write::write_all(&mut input, text.as_bytes()));
    let output = python.wait_with_output()?;
    writer.join().map_err(|_| "the writer ended early")??;
    if !output.status.success() {
        return Err("Python cannot read it".into());
    }
    let found: Vec<(usize, String)> = serde_json::from_slice(&output.stdout)?;
    // A statement that is only a doc string leaves an empty NEWLINE token.
    let mut tokens: Vec<Token> = found.into_iter().map(|(line, text)| Token { text, line }).collect();
    tokens.dedup_by(|next, before| next.text == "NEWLINE" && before.text == "NEWLINE");
    Ok(tokens)
}

/// Returns the lines, without those that are only a comment. `mark` starts a comment. The first line is kept:
/// it may name an interpreter.
fn of_lines(text: &str, mark: &str) -> Vec<Token> {
    let lines =
        text.lines().enumerate().filter(|(at, line)| *at == 0 || !line.trim_start().starts_with(mark));
    lines.map(|(at, line)| Token { text: line.to_owned(), line: at + 1 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(path: &str, before: &str, after: &str) -> Option<String> {
        first_difference(path, before, after).expect("both can be read")
    }

    #[test]
    fn comments_are_not_code() {
        let before =
            "//! A page.\n\n/// Adds.\n#[inline]\nfn add(a: u8) -> u8 {\n    // Why.\n    a + 1\n}\n";
        let after = "//! Another.\n/** Adds one. */ #[inline] fn add(a: u8) -> u8 { /* so */ a + 1 }";
        assert_eq!(difference("a.rs", before, after), None);
        assert_eq!(
            difference("a.rs", before, &after.replace("+ 1", "+ 2")).as_deref(),
            Some("line 2: `2`, it was `1`")
        );
    }

    #[test]
    fn string_literals_are_code() {
        let before = "fn f() { g(\"a\"); }";
        assert!(difference("a.rs", before, "fn f() { g(\"b\"); }").is_some());
        assert!(difference("a.rs", "#[doc(hidden)] fn f() {}", "fn f() {}").is_some());
        assert!(difference("a.rs", "fn f() {}", "fn f() {} fn g() {}").is_some());
        assert!(difference("a.rs", "fn f() {} fn g() {}", "fn f() {}").is_some());
    }

    #[test]
    fn the_reason_of_a_lint_is_a_comment() {
        let of = |reason| format!("#[expect(unused, reason = \"{reason}\")] fn f() {{ let reason = 1; }}");
        assert_eq!(difference("a.rs", &of("a"), &of("b")), None);
        assert!(difference("a.rs", &of("a"), &of("a").replace("= 1", "= 2")).is_some());
    }

    #[test]
    fn python_comments_and_doc_strings_are_ignored() {
        let before = "\"\"\"A page.\"\"\"\nimport os\n\ndef f():\n    \"\"\"Does.\"\"\"\n    # Why.\n    return \"x\"\n";
        let after = "\"\"\"Another.\n\nOf two lines.\"\"\"\nimport os\ndef f():\n    \"\"\"Does it.\"\"\"\n    return \"x\"  # so\n";
        assert_eq!(difference("a.py", before, after), None);
        assert!(difference("a.py", before, &after.replace("\"x\"", "\"y\"")).is_some());
    }

    #[test]
    fn other_files_are_compared_by_lines() {
        assert_eq!(difference("a.toml", "# a\nb = 1\n", "b = 1 # c\n"), None);
        assert!(difference("a.toml", "b = 1", "b = 2").is_some());
        assert_eq!(difference("Makefile", "all:\n# why\n\tx\n", "all:\n\tx\n"), None);
        assert!(difference("a.sh", "#!/bin/sh\n", "#!/bin/bash\n").is_some());
        assert_eq!(difference("A.java", "a();\n  // b\n", "a();\n"), None);
        assert!(difference("a.json", "{}", "{} ").is_some());
    }
}
