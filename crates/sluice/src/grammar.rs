//! The grammar of the command line: `sluice VERB NOUN`, and what `sluice` answers to other words.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};

use crate::rabbitmq;

/// Adds help to an error about an unknown word. A command of RabbitMQ is answered with its row of the table. Otherwise, the commands
/// are suggested that have the word as their noun, or set its name. So whoever begins with the noun finds the verb. Verb and noun may
/// be joined by an underscore. `words` are those after the name of the program.
pub(crate) fn helped(mut error: Error, mut all: Command, words: &[String]) -> Error {
    if let Some(needed) = needed(&error) {
        let context = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
        let (argument, value) = (context(ContextKind::InvalidArg), context(ContextKind::InvalidValue));
        return all.error(
            ErrorKind::ValueValidation,
            format!("invalid value '{value}' for '{argument}': {needed}"),
        );
    }
    if let Some(option) = of_the_url(&error) {
        let text = format!(
            "unexpected argument '{option}' found: user, password, host and port are in --url, such as --url \
             amqp://USER:PASSWORD@HOST:PORT, or http:// for the commands of the management API"
        );
        return all.error(ErrorKind::UnknownArgument, text);
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    if words.first() == Some(word)
        && let Some(answer) = rabbitmq::answer(words.iter().map(String::as_str))
    {
        return all.error(ErrorKind::InvalidSubcommand, answer);
    }
    let mut found: Vec<String> = commands(&all)
        .filter(|(verb, noun)| {
            let joined = format!("{verb}_{}", noun.get_name().replace('-', "_"));
            let is_of = |name: &str| name == word || name.strip_suffix("-name") == Some(word);
            joined == *word || names(noun).any(is_of)
        })
        .map(|(verb, noun)| format!("{verb} {}", noun.get_name()))
        .collect();
    // `rabbitmqadmin` declares what is added or set here.
    let declares = words.first().is_some_and(|verb| verb == "declare");
    let makes = |command: &String| command.starts_with("add ") || command.starts_with("set ");
    if declares && found.iter().any(makes) {
        found.retain(makes);
    }
    // Otherwise clap's own suggestion stays: a verb with similar letters.
    if !found.is_empty() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(found));
    }
    error
}

/// Returns what is needed instead of a value that is no number, or none of those that are possible. The errors of the standard library and
/// of clap do not name the type, and they are told apart by their words only.
fn needed(error: &Error) -> Option<String> {
    let source = std::error::Error::source(error)?.to_string();
    let range = source.split_once(" is not in ").and_then(|(_, range)| range.split_once(".."));
    match (source.as_str(), range) {
        ("invalid digit found in string" | "cannot parse integer from empty string", _) => {
            Some("a whole number is needed".to_owned())
        }
        (_, Some((from, to))) => match to.strip_prefix('=') {
            Some(to) => Some(format!("a whole number from {from} to {to} is needed")),
            // It has no end, and clap shows the largest number.
            None => Some(format!("a whole number from {from} on is needed")),
        },
        _ => None,
    }
}

/// The options with which other programs name the broker and the login. Here, they are parts of the URL.
const OF_THE_URL: [&str; 6] = ["--user", "--username", "--password", "--pass", "--host", "--port"];

/// Returns the option if it is unknown, and its value is a part of the URL. Commands that read a password have an option for that.
fn of_the_url(error: &Error) -> Option<String> {
    let text = |kind| error.get(kind).map(ToString::to_string);
    let option = text(ContextKind::InvalidArg).filter(|_| error.kind() == ErrorKind::UnknownArgument)?;
    let reads_one = text(ContextKind::SuggestedArg).is_some_and(|option| option.contains("--password-file"));
    (OF_THE_URL.contains(&&*option) && !reads_one).then_some(option)
}

/// Returns each command of two words: its verb, and its noun.
fn commands(all: &Command) -> impl Iterator<Item = (&str, &Command)> {
    all.get_subcommands().flat_map(|verb| verb.get_subcommands().map(|noun| (verb.get_name(), noun)))
}

/// Returns the name of a noun, and its aliases: the plural, or the singular.
fn names(noun: &Command) -> impl Iterator<Item = &str> {
    std::iter::once(noun.get_name()).chain(noun.get_all_aliases())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::Cli;

    /// The verbs that have nouns.
    const WITH_NOUNS: &str = "declare list show explain check purge delete close add set clear enable disable protect unprotect hash export import \
        reset checkpoint reclaim transfer grow shrink rebalance await authenticate follow make";

    /// The verbs whose arguments follow at once.
    const ALONE: &str =
        "serve send recv status top browse peek get publish move redrive trace doctor bench completion man";

    fn has(list: &str, word: &str) -> bool {
        list.split_whitespace().any(|known| known == word)
    }

    #[test]
    fn every_command_begins_with_a_verb() {
        let all = Cli::command();
        let mut nouns = BTreeSet::new();
        for verb in all.get_subcommands() {
            let name = verb.get_name();
            let list = if verb.has_subcommands() { WITH_NOUNS } else { ALONE };
            assert!(has(list, name), "{name} is no verb of the grammar");
            assert_eq!(verb.get_all_aliases().count(), 0, "{name} has a second name");
        }
        for (verb, noun) in commands(&all) {
            let name = noun.get_name();
            assert!(!noun.has_subcommands(), "{verb} {name} has a third word");
            let first = name.split('-').next().unwrap_or_default();
            assert!(!has(WITH_NOUNS, first) && !has(ALONE, first), "{verb} {name} has a second verb");
            let of_one = |name: &str| name.replace("ies", "y").trim_end_matches('s').to_owned();
            assert!(noun.get_all_aliases().all(|alias| of_one(alias) == of_one(name)), "{verb} {name}");
            assert!(nouns.insert((verb, of_one(name))), "{verb} {name} exists twice");
        }
        // `trace` is the one word that is both: `sluice trace queue`, `sluice list traces`.
        let both = all.get_subcommands().filter(|verb| nouns.iter().any(|(_, noun)| verb.get_name() == noun));
        assert_eq!(both.map(Command::get_name).collect::<Vec<_>>(), ["trace"]);
    }

    #[test]
    fn whoever_begins_with_the_noun_is_shown_the_commands() {
        for (words, suggested) in [
            (&["vhost", "add", "team"][..], "'add vhost'"),
            (&["user", "set-tags", "anna"], "'add user'"),
            (&["limit", "list"], "'list limits'"),
            (&["cluster", "name"], "'set cluster-name'"),
            (&["add", "policy", "p"], "'set policy'"),
            (&["list_links"], "'list links'"),
            (&["declare", "user"], "tip: a similar subcommand exists: 'add user'"),
            (&["declare", "policy"], "tip: a similar subcommand exists: 'set policy'"),
            (&["lst", "queues"], "'list'"),
        ] {
            let told = told(words);
            assert!(told.contains(suggested), "{words:?}: {told}");
        }
        let told = told(&["limit", "list"]);
        assert!(!told.contains("'list'"), "{told}");
    }

    #[test]
    fn whoever_gives_a_part_of_the_url_is_told_where_it_is() {
        for words in [
            &["send", "q", "x", "--password", "p"][..],
            &["list", "queues", "--host=h"],
            &["recv", "q", "--username", "u"],
        ] {
            let told = told(words);
            assert!(told.contains("--url amqp://USER:PASSWORD@HOST:PORT"), "{words:?}: {told}");
            assert!(!told.contains("similar argument"), "{words:?}: {told}");
        }
        let told = told(&["add", "user", "u", "--password", "p"]);
        assert!(told.contains("--password-file"), "{told}");
    }

    #[test]
    fn a_command_of_rabbitmq_is_answered_with_its_row() {
        for (words, answer) in [
            (
                &["add_user", "anna"][..],
                "add_user' is a command of rabbitmqctl. Here: 'sluice add user NAME'",
            ),
            (
                &["rabbitmq-diagnostics", "ping"],
                "ping' is a command of rabbitmqctl. Here: 'sluice check live'",
            ),
            (&["ctl", "eval", "1."], "eval' is a command of rabbitmqctl. Here: none; there is no Erlang"),
        ] {
            assert!(told(words).contains(answer), "{}", told(words));
        }
        // The word is a command of rabbitmq-plugins, but not the first word here.
        assert!(!told(&["list", "enable"]).contains("rabbitmq"));
    }

    #[test]
    fn an_error_about_a_number_says_what_is_needed() {
        for (words, answer) in [
            (&["peek", "q", "x"][..], "invalid value 'x' for '[POSITION]': a whole number is needed"),
            (
                &["check", "certificates", "", "days"],
                "invalid value '' for '<WITHIN>': a number and one of days, weeks, months or years are needed, such as 2 weeks",
            ),
            (&["get", "q", "--count", "1e3"], "'1e3' for '--count <N>': a whole number is needed"),
            (
                &["send", "q", "x", "--ttl", "9999999999"],
                "'9999999999' for '--ttl <MS>': a whole number from 0 to 4294967295 is needed",
            ),
            (&["send", "q", "x", "--count", "0"], "a whole number from 1 on is needed"),
            (&["check", "port", "-1"], "unexpected argument '-1'"),
            (&["check", "port", "65536"], "a whole number from 0 to 65535 is needed"),
            (&["set", "limit", "max-queues", "x"], "a whole number is needed, or for memory and disk a size"),
        ] {
            assert!(told(words).contains(answer), "{}", told(words));
        }
    }

    /// Returns what is answered to words that are no command.
    fn told(words: &[&str]) -> String {
        let words: Vec<String> = words.iter().copied().map(str::to_owned).collect();
        let error = Cli::try_parse_from(std::iter::once("sluice".to_owned()).chain(words.clone()));
        helped(error.expect_err("no such command"), Cli::command(), &words).to_string()
    }

    /// Whatever documents, messages and comments quote as a command is one, and so is what the page offers to copy.
    #[test]
    fn commands_that_are_quoted_exist() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut files =
            vec![root.join("README.md"), root.join("ARCHITECTURE.md"), root.join("sluice.conf.example")];
        for directory in ["docs", "crates", "packaging", "page/src", "tests"] {
            collect(&root.join(directory), &mut files);
        }
        let all = Cli::command();
        let (mut quoted, mut wrong) = (0, Vec::new());
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            let of_page = text.replace("command([\"", "`sluice ").replace("\", \"", " ").replace("\"]", "` ");
            let text = if file.extension().is_some_and(|end| end == "tsx") { of_page } else { text };
            let quotes = text.split("`sluice ").skip(1).chain(text.split("\nsluice ").skip(1));
            // A word in capitals, or a sign, stands for something else.
            for quote in quotes.filter(|quote| quote.starts_with(|c: char| c.is_ascii_lowercase())) {
                let end = quote.find(['`', '"', '\n']).unwrap_or(quote.len());
                quoted += 1;
                if !is_command(&all, &quote[..end]) {
                    wrong.push(format!("{}: sluice {}", file.display(), &quote[..end]));
                }
            }
        }
        assert!(quoted > 300, "only {quoted} commands were found");
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// Collects the files below a directory that people write.
    fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            match path.extension().and_then(|end| end.to_str()) {
                _ if path.is_dir() => collect(&path, files),
                Some("md" | "rs" | "ts" | "tsx" | "mjs" | "py" | "sh" | "yaml" | "service" | "conf") => {
                    files.push(path)
                }
                _ => {}
            }
        }
    }

    /// Returns true if the first words are a verb and, if it has nouns, a noun. Pages join alternatives with `|`, and end early.
    fn is_command(all: &Command, words: &str) -> bool {
        let mut words = words.split([' ', ',', ':', ')']);
        let alternatives = |word: Option<&str>| -> Vec<String> {
            let word = word.unwrap_or_default().replace('\\', "");
            word.split('|').map(str::to_owned).collect()
        };
        let (verbs, nouns) = (alternatives(words.next()), alternatives(words.next()));
        let is_noun = |verb: &Command, noun: &String| {
            let is_word = noun.starts_with(|c: char| c.is_ascii_lowercase());
            !is_word || verb.get_subcommands().any(|known| names(known).any(|name| name == noun))
        };
        verbs.iter().all(|verb| {
            all.find_subcommand(verb)
                .is_some_and(|verb| !verb.has_subcommands() || nouns.iter().all(|noun| is_noun(verb, noun)))
        })
    }
}
