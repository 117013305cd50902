//! Verbs of the built program.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{Broker, PROGRAM};

/// What a verb did.
#[derive(Debug)]
pub struct Did {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Did {
    /// It succeeded; what it printed, without the last line break.
    #[track_caller]
    pub fn done(self) -> String {
        assert!(self.code == 0 && self.err.is_empty(), "{self:?}");
        self.out.trim_end_matches('\n').to_owned()
    }

    /// It ended with this code and one line that has all of this in it.
    #[track_caller]
    pub fn refused(self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.err.trim_end().lines().count(), 1, "{self:?}");
        assert!(self.err.starts_with("sluice: "), "{self:?}");
        for part in parts {
            assert!(self.err.contains(part), "{part} is not in {self:?}");
        }
    }
}

/// Runs it with this on its standard input.
pub fn finish(command: &mut Command, input: &[u8]) -> Did {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A verb that reads nothing may have ended already.
    drop(child.stdin.take().unwrap().write_all(input));
    let output = child.wait_with_output().unwrap();
    let text = |octets| String::from_utf8(octets).unwrap();
    Did { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

impl Broker {
    /// A verb that talks to this broker.
    pub fn verb(&self, words: &[&str]) -> Did {
        self.verb_with_input(words, b"")
    }

    /// The same, with this on its standard input.
    pub fn verb_with_input(&self, words: &[&str], input: &[u8]) -> Did {
        let mut command = Command::new(PROGRAM);
        command.args(words).env("SLUICE_URL", self.amqp_url()).env("SLUICE_HTTP_URL", self.http_url());
        finish(&mut command, input)
    }

    /// `sluice list WHAT --json`.
    pub fn list(&self, what: &str) -> Value {
        serde_json::from_str(&self.verb(&["list", what, "--json"]).done()).unwrap()
    }
}

/// Without a broker to talk to.
pub fn sluice(words: &[&str]) -> Did {
    let mut command = Command::new(PROGRAM);
    finish(command.args(words).env_remove("SLUICE_URL").env_remove("SLUICE_HTTP_URL"), b"")
}
