//! The help of the program: its verbs in groups.

use clap::Command;
use std::fmt::Write as _;

/// The groups, and the verbs of each in the order in which a newcomer needs them.
const GROUPS: &[(&str, &[&str])] = &[
    ("Run a broker", &["serve", "make", "await", "doctor"]),
    ("Queues and exchanges", &["declare", "list", "show", "purge", "delete"]),
    ("Messages", &["send", "recv", "publish", "get", "browse", "peek", "move", "redrive"]),
    ("Watch and diagnose", &["status", "explain", "top", "check", "follow", "trace", "close"]),
    (
        "Users, virtual hosts, policies and limits",
        &["add", "set", "clear", "protect", "unprotect", "authenticate", "hash"],
    ),
    ("Definitions and support", &["export", "import", "reset", "enable", "disable"]),
    ("Groups of quorum queues", &["checkpoint", "reclaim", "transfer", "grow", "shrink", "rebalance"]),
    ("This program", &["bench", "completion", "man", "help"]),
];

/// The description of the verb that clap adds.
const HELP: &str = "Print this message or the help of a verb";

/// Returns the command with its verbs in groups in its help.
pub(crate) fn grouped(command: Command) -> Command {
    let about = |verb: &str| {
        let about = command.find_subcommand(verb).and_then(Command::get_about);
        about.map_or_else(|| HELP.to_owned(), ToString::to_string)
    };
    let verbs = || GROUPS.iter().flat_map(|(_, verbs)| verbs.iter());
    let width = verbs().map(|verb| verb.len()).max().unwrap_or_default();
    let styles = command.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let mut text = "{about}\n\n{usage-heading} {usage}\n".to_owned();
    // Writing to a string cannot fail.
    for (group, verbs) in GROUPS {
        let _ = writeln!(text, "\n{header}{group}:{header:#}");
        for verb in *verbs {
            let _ = writeln!(text, "  {literal}{verb:<width$}{literal:#}  {}", about(verb));
        }
    }
    let _ = write!(text, "\n{header}Options:{header:#}\n{{options}}{{after-help}}");
    command.help_template(text)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::Cli;

    #[test]
    fn every_verb_is_in_one_group() {
        let all = Cli::command();
        let mut verbs: Vec<&str> = all.get_subcommands().map(Command::get_name).collect();
        verbs.push("help");
        verbs.sort_unstable();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, verbs)| *verbs).copied().collect();
        grouped.sort_unstable();
        assert_eq!(grouped, verbs);
    }

    #[test]
    fn the_help_has_the_groups_and_what_the_verbs_do() {
        let help = grouped(Cli::command()).render_help().to_string();
        for part in [
            "\n\nUsage: sluice <COMMAND>\n\nRun a broker:\n  serve         Run the broker in the foreground\n",
            "\n\nMessages:\n  send          Send a message and wait for its outcome\n",
            "\n  help          Print this message or the help of a verb\n\nOptions:\n  -h, --help     Print help\n",
            "\n\nExit codes:\n",
        ] {
            assert!(help.contains(part), "{part} is not in {help}");
        }
    }
}
