//! Passwords that a verb reads. They are never arguments: every user of a machine sees the arguments of all programs.

use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal as _};
use std::path::PathBuf;

use clap::Args;

use crate::failure::Failure;

/// The longest password in bytes. It also bounds what is read of a wrong file.
const PASSWORD_BYTES_MAX: u64 = 4096;

/// Where a password comes from.
#[derive(Args, Debug)]
pub(crate) struct PasswordFrom {
    /// Read the password from the first line of a file (- for standard input), not from the terminal
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

impl PasswordFrom {
    /// Reads the password of a user, as [`PasswordFrom::read`] does.
    ///
    /// # Errors
    /// The errors of [`PasswordFrom::read`].
    pub(crate) fn read_for(&self, user: &str) -> Result<String, Failure> {
        self.read(&format!("Password for user '{user}'"))
    }

    /// Reads a password that the user has already. It is typed once.
    ///
    /// # Errors
    /// The errors of [`PasswordFrom::read`].
    pub(crate) fn read_known(&self, user: &str) -> Result<String, Failure> {
        self.read_with(|| typed(&format!("Password for user '{user}'")))
    }

    /// Reads a new password: from the file, or at the terminal, which shows the prompt, or from standard input if that is not a
    /// terminal.
    ///
    /// # Errors
    /// There is no password, or it cannot be read, or the two that were typed differ.
    pub(crate) fn read(&self, prompt: &str) -> Result<String, Failure> {
        self.read_with(|| typed_twice(prompt))
    }

    fn read_with(&self, typed: impl FnOnce() -> Result<String, String>) -> Result<String, Failure> {
        match &self.password_file {
            Some(path) if path.as_os_str() != "-" => {
                let named =
                    |why: &dyn std::fmt::Display| Failure::usage(format!("{}: {why}", path.display()));
                let file = File::open(path).map_err(|error| named(&error))?;
                first_line(BufReader::new(file)).map_err(|why| named(&why))
            }
            None if std::io::stdin().is_terminal() => typed().map_err(Failure::usage),
            _ => first_line(std::io::stdin().lock())
                .map_err(|why| Failure::usage(format!("standard input: {why}"))),
        }
    }
}

fn first_line(input: impl BufRead) -> Result<String, String> {
    let mut line = String::new();
    let read = input.take(PASSWORD_BYTES_MAX + 1).read_line(&mut line);
    let read = read.map_err(|error| format!("cannot read the password: {error}"))?;
    if read as u64 > PASSWORD_BYTES_MAX {
        return Err(format!("the password is longer than {PASSWORD_BYTES_MAX} bytes"));
    }
    let password = line.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        return Err("the password is empty".to_owned());
    }
    Ok(password.to_owned())
}

/// Asks for a password, and shows nothing of what is typed.
fn typed(prompt: &str) -> Result<String, String> {
    let typed = rpassword::prompt_password(format!("{prompt}: "));
    let typed = typed.map_err(|error| format!("cannot read the password: {error}"))?;
    if typed.is_empty() { Err("the password is empty".to_owned()) } else { Ok(typed) }
}

/// Asks twice for a new password.
fn typed_twice(prompt: &str) -> Result<String, String> {
    let first = typed(prompt)?;
    if typed("The same again")? == first { Ok(first) } else { Err("the two passwords differ".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_the_first_line() {
        let read = |text: &str| first_line(text.as_bytes());
        assert_eq!(read("se cret \r\nmore"), Ok("se cret ".to_owned()));
        assert_eq!(read("secret"), Ok("secret".to_owned()));
        assert_eq!(read("\n"), Err("the password is empty".to_owned()));
        assert_eq!(read(&"x".repeat(4096)).map(|read| read.len()), Ok(4096));
        assert_eq!(read(&"x".repeat(4097)), Err("the password is longer than 4096 bytes".to_owned()));
    }
}
