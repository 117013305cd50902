//! What can be said of definitions without a broker: what every broker refuses, and what a broker must have already.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use broker::settings::QueueType;
use catalog::{AccountChange, Command, Destination};

use super::{Definitions, Problem};

/// The most names that a broker must have and that are shown. The file of a whole broker has none.
const NEEDED_MAX: usize = 20;

impl Definitions {
    /// Returns what every broker refuses, each with its line: policies, such as a pattern that is no regular expression, and arguments
    /// of queues, such as an unknown type. `default` is the type of new queues whose declarations and virtual hosts name none. The
    /// type of a queue is unknown if neither it nor its virtual host is among the definitions: nothing is said of such a queue.
    pub fn refused(&self, default: QueueType) -> Vec<String> {
        let mut refused = self.refused_commands(default);
        // Entries are in the order in which they are carried out. Files follow each other.
        refused.sort_by_key(|(at, problem)| (self.file_of(*at).map(|(before, _)| *before), problem.line));
        let shown = |(at, problem): (usize, Problem)| format!("{}{problem}", self.file_prefix(at));
        refused.into_iter().map(shown).collect()
    }

    /// Returns the same as problems, each with the number of its command.
    pub(super) fn refused_commands(&self, default: QueueType) -> Vec<(usize, Problem)> {
        let mut defaults = HashMap::new();
        for command in &self.commands {
            if let Command::Account(AccountChange::SetVhost { name, patch, .. }) = command {
                defaults.insert(name, patch.default_queue_type.flatten().unwrap_or(default));
            }
        }
        let refused = |command: &Command| match command {
            Command::SetPolicy(set) => set.clone().check().err().map(|error| error.to_string()),
            Command::DeclareQueue(of) => match defaults.get(&of.vhost) {
                Some(default) => of.clone().settings(*default).err().map(|error| error.to_string()),
                // The type is named, so the default has no effect.
                None if of.names_type() => of.clone().settings(default).err().map(|error| error.to_string()),
                None => None,
            },
            _ => None,
        };
        let wrong = |(at, command)| {
            let error = refused(command)?;
            let (line, shown) = &self.entries[at];
            Some((at, Problem { line: *line, what: format!("{shown}: {error}{}", self.how_to_skip(at)) }))
        };
        self.commands.iter().enumerate().filter_map(wrong).collect()
    }

    /// Returns the names that the definitions use and do not define, each with the line that uses it first. A broker that does
    /// not have them refuses the definitions. `vhost` and `user` are those that a new broker has. The last line says how many more
    /// there are, if they are very many.
    pub fn needed(&self, vhost: &str, user: &str) -> Vec<String> {
        let mut names = Names::default();
        names.add("vhost", "", vhost);
        if !self.has_users {
            names.add("user", "", user);
        }
        for command in &self.commands {
            match command {
                Command::Account(AccountChange::SetVhost { name, .. }) => names.add("vhost", "", name),
                Command::Account(AccountChange::SetUser { name, .. }) => names.add("user", "", name),
                Command::DeclareQueue(of) => names.add("queue", &of.vhost, &of.name),
                Command::DeclareExchange(of) => names.add("exchange", &of.vhost, &of.name),
                _ => {}
            }
        }
        let mut needed = BTreeMap::new();
        for (at, command) in self.commands.iter().enumerate() {
            for name in used(command) {
                if !names.0.contains(&name) {
                    needed.entry(name).or_insert(at);
                }
            }
        }
        let mut needed: Vec<(Name, usize)> = needed.into_iter().collect();
        needed.sort_by_key(|(_, at)| *at);
        let line = |((kind, _, name), at): (Name, usize)| {
            format!(
                "{}: {kind} '{name}' is not among the definitions, so the broker must have it",
                self.place(at)
            )
        };
        let more = needed.len().saturating_sub(NEEDED_MAX);
        let mut lines: Vec<String> = needed.into_iter().take(NEEDED_MAX).map(line).collect();
        if more > 0 {
            lines.push(format!("and {more} more that are not among the definitions"));
        }
        lines
    }
}

/// What it is, its virtual host if it is in one, and its name.
type Name = (&'static str, Arc<str>, Arc<str>);

#[derive(Default)]
struct Names(HashSet<Name>);

impl Names {
    fn add(&mut self, kind: &'static str, vhost: &str, name: &str) {
        self.0.insert((kind, vhost.into(), name.into()));
    }
}

/// Returns the names that must exist before the command.
fn used(command: &Command) -> Vec<Name> {
    let none = || Arc::from("");
    let vhost = |name: &Arc<str>| ("vhost", none(), name.clone());
    let user = |name: &Arc<str>| ("user", none(), name.clone());
    match command {
        Command::DeclareQueue(of) => vec![vhost(&of.vhost)],
        Command::DeclareExchange(of) => vec![vhost(&of.vhost)],
        Command::SetPolicy(of) => vec![vhost(&of.vhost)],
        Command::SetParameter { key, .. } => key.vhost.iter().map(vhost).collect(),
        Command::Account(
            AccountChange::SetPermissions { user: who, vhost: to, .. }
            | AccountChange::SetTopicPermissions { user: who, vhost: to, .. },
        ) => vec![vhost(to), user(who)],
        Command::Bind(of, _) => {
            // Every virtual host has these exchanges.
            let exchange = |name: &Arc<str>| {
                let is_built_in = name.is_empty() || name.starts_with("amq.");
                (!is_built_in).then(|| ("exchange", of.vhost.clone(), name.clone()))
            };
            let destination = match &of.destination {
                Destination::Exchange(name) => exchange(name),
                Destination::Queue(name) => Some(("queue", of.vhost.clone(), name.clone())),
            };
            std::iter::once(vhost(&of.vhost)).chain(exchange(&of.source)).chain(destination).collect()
        }
        _ => Vec::new(),
    }
}
