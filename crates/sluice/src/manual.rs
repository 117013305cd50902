//! `sluice completion` and `sluice man`: what shells and `man` know about the verbs, made from the verbs themselves.

use std::io::ErrorKind;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::failure::Failure;
use crate::output::print;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sluice completion bash > /usr/share/bash-completion/completions/sluice
  sluice completion zsh > /usr/local/share/zsh/site-functions/_sluice
  sluice completion fish > ~/.config/fish/completions/sluice.fish")]
pub(crate) struct Completion {
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Args, Debug)]
pub(crate) struct Man {
    /// The directory to write the pages to; it is created if it does not exist
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

/// Prints the script that completes the words of `command` in a shell.
///
/// # Errors
/// Nobody reads it.
pub(crate) fn complete(completion: &Completion, mut command: Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(completion.shell, &mut command, name, &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// Writes a manual page for `command` and for each of its verbs.
///
/// # Errors
/// The directory cannot be written to.
pub(crate) fn write_pages(man: &Man, command: Command) -> Result<(), Failure> {
    let directory = man.directory.as_path();
    let failed = |error| Failure::failed(format!("cannot write to {}: {error}", directory.display()));
    match std::fs::create_dir_all(directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    clap_mangen::generate_to(command, directory).map_err(failed)?;
    print(&format!("the pages are in {}; read one with: man {0}/sluice.1\n", directory.display()))
}
