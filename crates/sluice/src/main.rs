//! The `sluice` program: the broker, and the verbs that users and operators need in a shell.
#![deny(unsafe_code)]

mod add;
mod alarms;
mod allocator;
mod amqp;
mod authenticate;
mod await_ready;
mod backends;
mod bench;
mod browse;
mod certificates;
mod check;
mod clear;
mod close;
mod columns;
mod config;
mod configuration;
mod declare;
mod definitions;
mod delete;
mod doctor;
mod escape;
mod explain;
mod failure;
mod first_user;
mod follow;
mod grammar;
mod hash;
mod help;
mod http;
mod limits;
mod list;
mod log;
mod make;
mod manual;
mod messages;
mod move_messages;
mod moving;
mod node_settings;
mod objects;
mod output;
mod password;
mod peek;
mod plugins;
mod private_file;
mod production;
mod progress;
mod protect;
mod quorum;
mod rabbitmq;
mod recv;
mod redrive;
mod reload;
mod report;
mod reset;
mod rows;
mod send;
mod serve;
mod set;
mod show;
mod speaks;
mod status;
mod systemd;
mod table;
mod tags;
mod top;
mod trace;
mod trust;
mod unix_socket;
mod watch;
mod words;

use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::failure::OK;

/// Sluice, a message broker: AMQP 1.0 with RabbitMQ 4's behaviour.
#[derive(Debug, Parser)]
#[command(name = "sluice", version, long_version = LONG_VERSION.as_str(), after_help = EXIT_CODES)]
#[command(propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

/// What `--version` says: the version, the commit if the variable `SLUICE_COMMIT` named it to the build, the platform and the allocator.
static LONG_VERSION: LazyLock<String> = LazyLock::new(|| {
    let commit = option_env!("SLUICE_COMMIT").unwrap_or("unknown");
    let libc = if cfg!(target_env = "musl") { "musl" } else { "gnu" };
    format!(
        "{}\ncommit: {commit}\ntarget: {}-{}-{libc}\nallocator: jemalloc",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::ARCH,
        std::env::consts::OS,
    )
});

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  the broker refused, or something failed on the way
  2  wrong usage or configuration
  3  nobody answers there";

/// The verbs. [`help::grouped`] has their order in the help.
#[derive(Debug, Subcommand)]
enum Verb {
    /// Run the broker in the foreground
    Serve(serve::Serve),
    /// Make certificates for a try of TLS
    #[command(subcommand)]
    Make(make::Make),
    /// Declare a queue, an exchange or a binding
    Declare(declare::Declare),
    /// Send a message and wait for its outcome
    Send(send::Send),
    /// Print messages and accept them, until interrupted
    Recv(recv::Recv),
    /// Show the node at a glance: alarms, limits, listeners, totals and memory budgets
    Status(status::Status),
    /// List queues, connections, users, policies and everything else that there is more than one of
    List(list::List),
    /// Show all that is known about one object, or the settings of the broker
    #[command(subcommand)]
    Show(show::Show),
    /// Explain why nothing moves at a queue, a link or a connection
    Explain(explain::Explain),
    /// Show the busiest queues or links with their rates, again and again
    Top(top::Top),
    /// Check the health of the node, or its settings, for scripts
    #[command(subcommand)]
    Check(check::Check),
    /// Wait until the broker is ready, for scripts that start it
    #[command(subcommand)]
    Await(await_ready::Await),
    /// Show messages of a queue or a stream, from any position, without consuming them
    Browse(browse::Browse),
    /// Show a ready message of a queue without taking it
    Peek(peek::Peek),
    /// Take messages of a queue over the management API, or look at them
    Get(messages::Get),
    /// Publish a message to an exchange over the management API
    Publish(messages::Publish),
    /// Print the lines of the log, or events, as they come
    Follow(follow::Follow),
    /// Print the messages that pass through a queue or a connection, for a limited time
    Trace(trace::TraceArgs),
    /// Move the messages of a queue to another queue or to an exchange
    Move(move_messages::Move),
    /// Send dead letters of a queue back to where they died
    Redrive(redrive::Redrive),
    /// Delete the messages of a queue
    Purge(declare::Purge),
    /// Delete a queue, an exchange, a binding, users, a virtual host or a member of a group
    Delete(delete::Delete),
    /// Close connections, with a reason
    Close(close::Close),
    /// Add a user, a virtual host or a member of a group
    Add(add::Add),
    /// Set a password, tags, permissions, limits, policies, parameters or the name of the cluster
    Set(set::Set),
    /// Remove a password, permissions, limits, policies or parameters
    Clear(clear::Clear),
    /// Say what the broker has instead of a plugin of RabbitMQ: it is built in, or does not exist
    #[command(subcommand)]
    Enable(plugins::Enable),
    /// Say that a plugin of RabbitMQ cannot be disabled, or does not exist
    #[command(subcommand)]
    Disable(plugins::Disable),
    /// Protect a virtual host from deletion
    #[command(subcommand)]
    Protect(protect::Protect),
    /// Allow the deletion of a virtual host again
    #[command(subcommand)]
    Unprotect(protect::Unprotect),
    /// Try the password of a user
    #[command(subcommand)]
    Authenticate(authenticate::Authenticate),
    /// Print the hash of a password
    #[command(subcommand)]
    Hash(hash::Hash),
    /// Write the definitions to a file, in RabbitMQ's form, or a report for support
    #[command(subcommand)]
    Export(definitions::Export),
    /// Carry out a file of definitions, of Sluice or of RabbitMQ
    #[command(subcommand)]
    Import(definitions::Import),
    /// Set counts of the node to zero
    Reset(reset::Reset),
    /// Write a new base of the log of a quorum queue
    #[command(subcommand)]
    Checkpoint(quorum::Checkpoint),
    /// Free memory of a quorum queue
    #[command(subcommand)]
    Reclaim(quorum::Reclaim),
    /// Make the member on a node the leader of a quorum queue
    #[command(subcommand)]
    Transfer(quorum::Transfer),
    /// Add members on a node to the groups of quorum queues
    #[command(subcommand)]
    Grow(quorum::Grow),
    /// Remove the members on a node from the groups of quorum queues
    #[command(subcommand)]
    Shrink(quorum::Shrink),
    /// Distribute the leaders of queues over the nodes
    #[command(subcommand)]
    Rebalance(quorum::Rebalance),
    /// Say what is in the data directory of a broker that does not run, and what a start would do
    Doctor(doctor::Doctor),
    /// Put load on a broker and measure it
    Bench(bench::Bench),
    /// Print the script that completes these verbs in a shell
    Completion(manual::Completion),
    /// Write the manual pages of these verbs
    Man(manual::Man),
}

fn main() -> ExitCode {
    let parsed = help::grouped(Cli::command()).try_get_matches();
    let parsed = parsed.and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = parsed.unwrap_or_else(|error| {
        // An argument that is not UTF-8 is no command of RabbitMQ.
        let words: Vec<String> =
            std::env::args_os().skip(1).map_while(|word| word.into_string().ok()).collect();
        grammar::helped(error, Cli::command(), &words).exit()
    });
    let done = match cli.verb {
        Verb::Serve(serve) => serve::run(&serve),
        Verb::Make(make) => make::run(&make),
        Verb::Declare(declare) => declare::declare(&declare),
        Verb::Send(send) => send::run(&send),
        Verb::Recv(recv) => recv::run(&recv),
        Verb::Status(status) => status::run(&status),
        Verb::List(list) => list::run(&list),
        Verb::Show(show) => show::run(&show),
        Verb::Explain(explain) => explain::run(&explain),
        Verb::Top(top) => top::run(&top),
        Verb::Check(check) => check::run(&check),
        Verb::Await(what) => await_ready::run(&what),
        Verb::Browse(browse) => browse::run(&browse),
        Verb::Peek(peek) => peek::run(&peek),
        Verb::Get(get) => messages::get(&get),
        Verb::Publish(publish) => messages::publish(&publish),
        Verb::Follow(follow) => follow::run(&follow),
        Verb::Trace(trace) => trace::run(&trace),
        Verb::Move(arguments) => move_messages::run(&arguments),
        Verb::Redrive(redrive) => redrive::run(&redrive),
        Verb::Purge(purge) => declare::purge(&purge),
        Verb::Delete(delete) => delete::run(&delete),
        Verb::Close(close) => close::run(&close),
        Verb::Add(add) => add::run(&add),
        Verb::Set(set) => set::run(&set),
        Verb::Clear(clear) => clear::run(&clear),
        Verb::Enable(enable) => plugins::enable(&enable),
        Verb::Disable(disable) => plugins::disable(&disable),
        Verb::Protect(protect) => protect::protect(&protect),
        Verb::Unprotect(unprotect) => protect::unprotect(&unprotect),
        Verb::Authenticate(what) => authenticate::run(&what),
        Verb::Hash(hash) => hash::run(&hash),
        Verb::Export(export) => definitions::export(&export),
        Verb::Import(import) => definitions::import(&import),
        Verb::Reset(reset) => reset::run(&reset),
        Verb::Checkpoint(checkpoint) => quorum::checkpoint(&checkpoint),
        Verb::Reclaim(reclaim) => quorum::reclaim(&reclaim),
        Verb::Transfer(transfer) => quorum::transfer(&transfer),
        Verb::Grow(grow) => quorum::grow(&grow),
        Verb::Shrink(shrink) => quorum::shrink(&shrink),
        Verb::Rebalance(rebalance) => quorum::rebalance(&rebalance),
        Verb::Doctor(doctor) => doctor::run(&doctor),
        Verb::Bench(bench) => bench::run(bench),
        Verb::Completion(completion) => manual::complete(&completion, Cli::command()),
        Verb::Man(man) => manual::write_pages(&man, Cli::command()),
    };
    let code = match done {
        Ok(()) => OK,
        Err(failure) => {
            output::complain(&failure);
            failure.code
        }
    };
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_long_version_names_the_build() {
        let long = Cli::command().render_long_version();
        let version = env!("CARGO_PKG_VERSION");
        assert!(long.starts_with(&format!("sluice {version}\ncommit: ")), "{long}");
        assert!(long.contains("\ntarget: ") && long.contains("\nallocator: jemalloc"), "{long}");
        assert_eq!(Cli::command().render_version(), format!("sluice {version}\n"));
    }

    /// Variables that are arguments must not be taken for settings.
    #[test]
    fn all_variables_of_arguments_are_known() {
        fn variables(command: &clap::Command, all: &mut std::collections::BTreeSet<String>) {
            let of_arguments = command.get_arguments().filter_map(|argument| argument.get_env());
            all.extend(
                of_arguments.filter_map(|name| Some(name.to_str()?.strip_prefix("SLUICE_")?.to_owned())),
            );
            command.get_subcommands().for_each(|verb| variables(verb, all));
        }
        let mut all = std::collections::BTreeSet::new();
        variables(&Cli::command(), &mut all);
        assert!(all.iter().eq(config::ARGUMENTS), "{all:?}");
    }

    #[test]
    fn verbs_read_as_documented() {
        for words in [
            "check config --config sluice.conf --set a=b --strict",
            "show config --only-set --json",
            "doctor ./data --json",
            "check live --metrics-url http://127.0.0.1:15692",
            "send q body --count 3 --property a=b --property c=d --durable false --ttl 5 --subject s --settled",
            "send /queues/q --file f --url amqp://h",
            "send q -",
            "send q body --url amqps://h --cacert ca.pem",
            "recv q --cert c.pem --cert-key k.pem --url amqps://h",
            "list queues --url https://h --cacert ca.pem",
            "recv q --count 2 --credit 10 --json --timeout 3",
            "recv s --offset 10m --filter x=1 --filter-value a --filter-value b --match-unfiltered",
            "recv s --at 1700000000000",
            "send s body --filter-value a",
            "move a --to-queue b",
            "move a --to-exchange x --key k --count 3 --header a=b --header c= --rate 9 --seq 7 -p v --json --url http://h",
            "redrive q",
            "redrive q --count 3 --reason delivery_limit --from-queue a --older-than 1h --younger-than 1d --rate 9 --json",
            "redrive q --to exchange -p v --url http://h",
            "redrive q --to-queue r --seq 7 --header a=b",
            "declare queue q --type classic --argument x-max-length=3 --url http://h",
            "declare --url http://h queues q",
            "declare exchange x --type fanout",
            "declare binding x q --key k",
            "declare bindings x y --to-exchange",
            "delete queue q --if-empty --if-unused",
            "delete exchanges x",
            "delete binding x q --key k --argument a=1",
            "list queues --json",
            "list connections --url http://h",
            "list links -p v --json",
            "list queues --vhost v",
            "send q body -p v",
            "recv q --vhost v",
            "declare queue q -p v",
            "declare -p v exchange x",
            "delete binding x q --vhost v",
            "status --json --url http://h",
            "explain queue q --json",
            "trace queue q --for 5m --limit 10 --json -p v",
            "trace connection c",
            "explain --url http://h link l --connection c",
            "explain connection c",
            "explain address 192.0.2.1",
            "explain address 2001:db8::1 --json",
            "publish x body --key k --property content_type=text/plain --property priority=3 --header a=1",
            "publish amq.default --file f -p v --durable false --json --url http://h",
            "get q",
            "get q --count 3 --ackmode reject_requeue_false --base64 --truncate 10 -p v --json",
            "peek q",
            "peek q 3 -p v --json --url http://h",
            "list members q -p v --json --watch",
            "checkpoint queue q -p v --json",
            "reclaim memory q --url http://h",
            "add member q n@h -p v --json",
            "delete member q n@h",
            "delete unclaimed 0000000001000002 --data-dir ./data",
            "transfer leadership q n@h",
            "grow groups n@h",
            "shrink groups n@h --json",
            "rebalance leaders --url http://h",
            "add user u --tags management,monitoring",
            "add --url http://h user u --no-password",
            "set password u --password-file f --url http://h",
            "set tags u",
            "set tags u administrator monitoring",
            "delete user u v",
            "authenticate user anna --password-file f --url http://h",
            "hash password",
            "hash password --password-file f --json",
            "list users --json",
            "list users --without-permissions",
            "list permissions --user u -p v",
            "list topic-permissions --user u",
            "add vhost v",
            "add vhost v --description ours --tags a,b --default-queue-type quorum",
            "protect vhost v",
            "unprotect vhost v --url http://h",
            "set limit max-queues 3 -p v",
            "set limit max-channels 3 --user u",
            "clear limit max-connections --user u",
            "list limits --json",
            "list limits -p v",
            "list limits --user u",
            "export definitions",
            "export definitions f -p v",
            "follow log --level warning -p v",
            "follow events --key queue.* --key user.# --json --url amqp://h",
            "export report",
            "export report -o f --log l --url http://h",
            "set log-level debug",
            "set log-level none --category user --url http://h",
            "set log-level info --output console",
            "clear log-level --category default",
            "show log-level --json",
            "set limit memory 0.5",
            "set limit disk 1GiB --url http://h",
            "clear limit disk",
            "import definitions f",
            "import definitions - --url https://h --cacert ca.pem",
            "delete vhost v",
            "list vhosts --json",
            "set permission u .* .* .* -p v",
            "set permission -p v u ^a|^b ^(?!amq) .*",
            "clear password u",
            "clear permission u",
            "list permissions -p v --json",
            "set topic-permission u amq.topic ^a .*",
            "clear topic-permission u",
            "clear topic-permission u amq.topic -p v",
            "list topic-permissions",
            "purge queue q -p v",
            "close connection c --reason r",
            "close connections --all --delay 100 -p v",
            "close user u",
            "await ready",
            "await ready --timeout 5 --url http://h",
            "check alarms --json",
            "check certificates 2 weeks",
            "check port 5672",
            "check protocols amqp,amqps",
            "check leaders -p v",
            "set policy p ^a {} --apply-to queues --priority -1 -p v",
            "set policy p .* {\"max-length\":1} --operator",
            "clear policy p --operator -p v",
            "list policies --json --operator",
            "list policies --queue q -p v",
            "set parameter shovel s {\"a\":1} -p v",
            "set parameter c n -7",
            "clear parameter c n",
            "list parameters --component c -p v",
            "set global-parameter n \"text\"",
            "set global-parameter n 7",
            "clear global-parameter n",
            "list global-parameters",
            "show cluster-name --json",
            "set cluster-name n --url http://h",
            "list bindings --from x --to-queue q -p v",
            "list bindings --to-exchange x",
            "list connections --user u",
            "list sessions c",
            "list sessions -p v",
            "list channels --connection c",
            "list traces -p v",
            "list feature-flags",
            "list plugins --json",
            "enable plugin rabbitmq_management rabbitmq_prometheus",
            "disable plugins rabbitmq_mqtt",
            "list deprecated-features --used",
            "list auth-attempts --by-source --watch",
            "reset auth-attempts",
            "show overview --watch=5",
            "show whoami --json",
            "show memory --percent",
            "show queue q -p v",
            "show policy p --operator",
            "show parameter c n",
            "browse s --offset 10m --count 5 --truncate 9 -p v",
            "browse s --at 1700000000000",
            "check leaders --pattern ^a",
            "check virtual-hosts",
            "check quorum-critical",
            "list queues --watch",
            "list queues --watch=5 --json",
            "explain queue q --watch",
            "status --watch=1",
            "completion bash",
            "top",
            "top links --every 5 --count 2",
            "man d",
        ] {
            let parsed = Cli::try_parse_from(std::iter::once("sluice").chain(words.split(' ')));
            assert!(parsed.is_ok(), "{words}: {}", parsed.unwrap_err());
        }
        for words in [
            "",
            "send",
            "send q body --file f",
            "send q body --cert c.pem",
            "send q body --count 0",
            "send q body --property a",
            "send q body --durable maybe",
            "recv",
            "recv q --count 0",
            "recv q --credit 0",
            "recv s --offset soon",
            "recv s --offset first --at 1",
            "recv s --match-unfiltered",
            "move a",
            "move a b",
            "move a --to-queue b --to-exchange x",
            "move a --to-queue b --key k",
            "move a --to-queue b --header a",
            "move a --to-queue b --count 0",
            "redrive",
            "redrive q --count 0",
            "redrive q --reason dead",
            "redrive q --older-than 1",
            "redrive q --to exchange --to-queue r",
            "declare queue",
            "declare binding x",
            "list",
            "list everybody",
            "status q",
            "explain queue",
            "explain queue q --connection c",
            "explain exchange x",
            "explain address somewhere",
            "publish",
            "publish x body --file f",
            "publish x body --property colour=red",
            "publish x body --property priority=high",
            "get",
            "get q --count 0",
            "get q --ackmode keep",
            "peek",
            "peek q first",
            "trace queue",
            "trace exchange x",
            "trace queue q --for 2h",
            "trace queue q --limit 0",
            "list members",
            "checkpoint",
            "checkpoint queue",
            "add member q",
            "grow groups",
            "rebalance leaders n@h",
            "add user u secret",
            "add user u -p v",
            "hash password secret",
            "authenticate user",
            "authenticate user anna secret",
            "add user u --no-password --password-file f",
            "delete user",
            "delete user u -p v",
            "add",
            "enable",
            "enable plugin",
            "disable rabbitmq_mqtt",
            "set limit max-queues",
            "import definitions",
            "set limit max-queues many",
            "set limit max-channels 3 --user u -p v",
            "list limits --user u -p v",
            "set permission u .* .*",
            "set topic-permission u amq.topic .*",
            "purge",
            "close connection",
            "close connection c --delay 100",
            "close connection c --all",
            "close connection c --reason ü",
            "await",
            "await ready --timeout 0",
            "check",
            "check certificates 2 moons",
            "check port 70000",
            "check config --url http://h",
            "show config --watch",
            "set policy p .* 7",
            "set policy p .* nonsense",
            "set parameter c n nonsense",
            "set parameter c n",
            "list parameters c",
            "clear global-parameter c n",
            "show cluster-name n",
            "list bindings --to-queue q --to-exchange x",
            "list queues --from x",
            "show",
            "show queue",
            "show user u -p v",
            "browse s --at 1 --offset first",
            "browse s --count 0",
            "reset",
            "list queues --watch=0",
            "list queues --watch=soon",
            "completion cmd.exe",
            "top users",
            "top --every 0",
            "man",
            "nonsense",
        ] {
            let words = std::iter::once("sluice").chain(words.split(' ').filter(|w| !w.is_empty()));
            let words: Vec<&str> = words.collect();
            let refused = Cli::try_parse_from(&words).map(|_| ()).map_err(|e| e.exit_code());
            assert_eq!(refused, Err(i32::from(failure::USAGE)), "{words:?}");
        }
    }
}
