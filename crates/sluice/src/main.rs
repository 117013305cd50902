//! The `sluice` program: the broker, and the verbs that users and operators need in a shell.
#![deny(unsafe_code)]

mod accounts;
mod allocator;
mod amqp;
mod backends;
mod bench;
mod browse;
mod certificates;
mod check;
mod close;
mod cluster;
mod config;
mod configuration;
mod declare;
mod definitions;
mod doctor;
mod explain;
mod failure;
mod first_user;
mod http;
mod limits;
mod list;
mod log;
mod manual;
mod messages;
mod move_messages;
mod moving;
mod output;
mod parameters;
mod password;
mod peek;
mod policies;
mod progress;
mod quorum;
mod recv;
mod redrive;
mod reload;
mod reset;
mod send;
mod serve;
mod show;
mod status;
mod systemd;
mod table;
mod top;
mod trace;
mod trust;
mod unix_socket;
mod watch;

use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{CommandFactory as _, Parser, Subcommand};

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

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run the broker in the foreground
    Serve(serve::Serve),
    /// Check or show the configuration of the broker
    Config(configuration::Configuration),
    /// Send a message and wait for its outcome
    Send(send::Send),
    /// Print messages and accept them, until interrupted
    Recv(recv::Recv),
    /// Move the messages of a queue to another queue or to an exchange
    Move(move_messages::Move),
    /// Send dead letters of a queue back to where they died
    Redrive(redrive::Redrive),
    /// Declare a queue, an exchange or a binding
    Declare(declare::Declare),
    /// Delete a queue, an exchange or a binding
    Delete(declare::Delete),
    /// Delete the messages of a queue
    Purge(declare::Purge),
    /// List queues, exchanges, bindings, connections, links and more
    List(list::List),
    /// Show all that is known about one object, such as a queue or a connection
    Show(show::Show),
    /// Show the busiest queues or links with their rates, again and again
    Top(top::Top),
    /// Show an overview of the node, and how much of each memory budget is used
    Status(status::Status),
    /// Explain why nothing moves at a queue, a link or a connection
    Explain(explain::Explain),
    /// Publish a message to an exchange over the management API
    Publish(messages::Publish),
    /// Take messages of a queue over the management API, or look at them
    Get(messages::Get),
    /// Show a ready message of a queue without taking it
    Peek(peek::Peek),
    /// Show messages of a stream, from any position, without consuming them
    Browse(browse::Browse),
    /// Print the messages that pass through a queue or a connection, for a limited time
    Trace(trace::TraceArgs),
    /// Close connections, with a reason
    Close(close::Close),
    /// Check the health of the node, for scripts
    Check(check::Check),
    /// Look into the Raft groups of quorum queues, and maintain them
    Quorum(quorum::Quorum),
    /// Create, change, list and delete users
    User(accounts::User),
    /// Add, list and delete virtual hosts
    Vhost(accounts::VirtualHost),
    /// Set, list and clear what users may do in a virtual host
    Permission(accounts::Permission),
    /// Set, list and clear limits of virtual hosts and users
    Limit(accounts::Limit),
    /// Set, list and clear policies, which configure queues and exchanges by their names
    Policy(policies::Policy),
    /// Set, list and clear runtime parameters, which are named values of components
    Parameter(parameters::Parameter),
    /// Show or change the name of the cluster
    Cluster(cluster::Cluster),
    /// Set counts of the node to zero
    Reset(reset::Reset),
    /// Export or import everything but the messages, in RabbitMQ's form
    Definitions(definitions::Verb),
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
    let done = match Cli::parse().verb {
        Verb::Serve(serve) => serve::run(&serve),
        Verb::Config(configuration) => configuration::run(&configuration),
        Verb::Send(send) => send::run(&send),
        Verb::Recv(recv) => recv::run(&recv),
        Verb::Move(arguments) => move_messages::run(&arguments),
        Verb::Redrive(redrive) => redrive::run(&redrive),
        Verb::Declare(declare) => declare::declare(&declare),
        Verb::Delete(delete) => declare::delete(&delete),
        Verb::Purge(purge) => declare::purge(&purge),
        Verb::List(list) => list::run(&list),
        Verb::Show(show) => show::run(&show),
        Verb::Top(top) => top::run(&top),
        Verb::Status(status) => status::run(&status),
        Verb::Explain(explain) => explain::run(&explain),
        Verb::Publish(publish) => messages::publish(&publish),
        Verb::Get(get) => messages::get(&get),
        Verb::Peek(peek) => peek::run(&peek),
        Verb::Browse(browse) => browse::run(&browse),
        Verb::Trace(trace) => trace::run(&trace),
        Verb::Close(close) => close::run(&close),
        Verb::Check(check) => check::run(&check),
        Verb::Quorum(quorum) => quorum::run(&quorum),
        Verb::User(user) => accounts::user(&user),
        Verb::Vhost(vhost) => accounts::vhost(&vhost),
        Verb::Permission(permission) => accounts::permission(&permission),
        Verb::Limit(limit) => accounts::limit(&limit),
        Verb::Policy(policy) => policies::run(&policy),
        Verb::Parameter(parameter) => parameters::run(&parameter),
        Verb::Cluster(cluster) => cluster::run(&cluster),
        Verb::Reset(reset) => reset::run(&reset),
        Verb::Definitions(verb) => definitions::run(&verb),
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
            "config check --config sluice.conf --set a=b",
            "config show --only-set --json",
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
            "publish x body --key k --property content_type=text/plain --property priority=3 --header a=1",
            "publish amq.default --file f -p v --durable false --json --url http://h",
            "get q",
            "get q --count 3 --ackmode reject_requeue_false --base64 --truncate 10 -p v --json",
            "peek q",
            "peek q 3 -p v --json --url http://h",
            "quorum status q --json",
            "quorum quorum_status q -p v",
            "quorum checkpoint q",
            "quorum force_checkpoint q",
            "quorum reclaim-memory q",
            "quorum reclaim_quorum_memory q",
            "quorum add-member q n@h",
            "quorum delete_member q n@h",
            "quorum transfer-leadership q n@h",
            "quorum grow n@h",
            "quorum shrink n@h",
            "quorum rebalance",
            "user add u --tags management,monitoring",
            "user add_user u --no-password",
            "user change-password u --password-file f --url http://h",
            "user set-tags u",
            "user set_user_tags u administrator monitoring",
            "user delete u v",
            "user hash-password",
            "user hash_password --password-file f",
            "user list --json",
            "user permissions u",
            "vhost add v",
            "vhost add v --description ours --tags a,b --default-queue-type quorum",
            "vhost protect v",
            "vhost disable_vhost_deletion_protection v",
            "limit set max-queues 3 -p v",
            "limit set max-channels 3 --user u",
            "limit clear max-connections --user u",
            "limit list --json",
            "definitions export",
            "definitions export_definitions f -p v",
            "definitions import f",
            "definitions import - --url https://h --cacert ca.pem",
            "vhost delete_vhost v",
            "vhost list --json",
            "permission set u .* .* .* -p v",
            "permission set_permissions -p v u ^a|^b ^(?!amq) .*",
            "permission clear u",
            "permission list -p v --json",
            "permission set-topic u amq.topic ^a .*",
            "permission clear-topic u",
            "permission clear-topic u amq.topic",
            "permission list-topic",
            "purge queue q -p v",
            "close connection c --reason r",
            "close close_all_user_connections u",
            "check alarms --json",
            "check certificates 2 weeks",
            "check check_port_listener 5672",
            "check protocols amqp,amqps",
            "check leaders -p v",
            "policy set p ^a {} --apply-to queues --priority -1 -p v",
            "policy set_policy p .* {\"max-length\":1} --operator",
            "policy clear p --operator",
            "policy list --json",
            "parameter set shovel s {\"a\":1} -p v",
            "parameter set_parameter c n -7",
            "parameter clear c n --json",
            "parameter clear_parameter c n",
            "parameter list --component c -p v",
            "parameter list_parameters --json",
            "parameter set-global n \"text\"",
            "parameter set_global_parameter n 7",
            "parameter clear-global n",
            "parameter list_global_parameters",
            "cluster name",
            "cluster set_cluster_name n --url http://h",
            "list bindings --from x --to-queue q -p v",
            "list bindings --to-exchange x",
            "list connections --user u",
            "list sessions c",
            "list sessions -p v",
            "list channels --connection c",
            "list traces -p v",
            "list list_feature_flags",
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
            "user list --without-permissions",
            "user topic-permissions u",
            "check leaders --pattern ^a",
            "check check_virtual_hosts",
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
            "explain",
            "explain queue",
            "explain queue q --connection c",
            "explain exchange x",
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
            "quorum",
            "quorum status",
            "quorum add-member q",
            "user add u secret",
            "user hash-password secret",
            "user add u --no-password --password-file f",
            "user delete",
            "vhost",
            "limit set max-queues",
            "definitions import",
            "limit set max-queues many",
            "limit set max-channels 3 --user u -p v",
            "permission set u .* .*",
            "permission set-topic u amq.topic .*",
            "purge",
            "close connection",
            "close connection c --reason ü",
            "check",
            "check certificates 2 moons",
            "check port 70000",
            "policy set p .* 7",
            "policy set p .* nonsense",
            "parameter set c n nonsense",
            "parameter set c n",
            "parameter list c",
            "parameter clear-global c n",
            "cluster",
            "list bindings --to-queue q --to-exchange x",
            "list queues --from x",
            "show",
            "show queue",
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
