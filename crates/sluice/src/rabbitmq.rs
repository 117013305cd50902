//! The commands of RabbitMQ's tools, and what stands for each of them here. docs/from-rabbitmq.md shows the same table.

/// A tool of RabbitMQ, and its commands. A command that several tools have is in the tool whose name fits best.
pub(crate) struct Tool {
    pub name: &'static str,
    commands: &'static [Command],
}

/// A command of RabbitMQ, and its answer: a command of Sluice in backticks, or `none` and the reason.
type Command = (&'static str, &'static str);

/// Returns the line for an operator who has typed a command of RabbitMQ, alone or after the name of its tool: `list_queues`,
/// `ctl list_queues` or `rabbitmqctl list_queues`. Returns nothing if there is no such command.
pub(crate) fn answer<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<String> {
    let first = words.next()?;
    let named = TOOLS.iter().find(|tool| first == tool.name || first == tool.short_name());
    let (tool, (command, here)) = match named {
        Some(tool) => {
            // Options may come first, such as `-n rabbit@host`. No command has such characters.
            let word = words.find(|word| !word.starts_with('-') && !word.contains('@'))?;
            // Tools share commands. So another tool is looked at, too.
            tool.find(word).or_else(|| find(word))?
        }
        None => find(first)?,
    };
    Some(format!("'{command}' is a command of {}. Here: {}", tool.name, here.replace('`', "'")))
}

/// Finds a command of any tool.
fn find(word: &str) -> Option<(&'static Tool, Command)> {
    TOOLS.iter().find_map(|tool| tool.find(word))
}

impl Tool {
    fn find(&'static self, word: &str) -> Option<(&'static Self, Command)> {
        self.commands.iter().find(|(command, _)| *command == word).map(|found| (self, *found))
    }

    /// Returns the name without that of RabbitMQ: `ctl`, `queues`.
    fn short_name(&self) -> &'static str {
        self.name.trim_start_matches("rabbitmq").trim_start_matches('-')
    }
}

#[rustfmt::skip]
const TOOLS: &[Tool] = &[
    Tool { name: "rabbitmqctl", commands: &[
        ("activate_free_disk_space_monitoring", "none; the free disk space is always watched"),
        ("add_user", "`sluice add user NAME`"),
        ("add_vhost", "`sluice add vhost NAME`"),
        ("authenticate_user", "`sluice authenticate user NAME`"),
        ("autocomplete", "`sluice completion bash`"),
        ("await_online_nodes", "none; a cluster has one node"),
        ("await_startup", "`sluice await ready`"),
        ("cancel_sync_queue", "none; there are no mirrored queues"),
        ("change_cluster_node_type", "none; a cluster has one node"),
        ("change_password", "`sluice set password NAME`"),
        ("clear_auth_backend_cache", "none; the entries of the cache expire after `auth_cache.cache_ttl`"),
        ("clear_global_parameter", "`sluice clear global-parameter NAME`"),
        ("clear_operator_policy", "`sluice clear policy NAME --operator`"),
        ("clear_parameter", "`sluice clear parameter COMPONENT NAME`"),
        ("clear_password", "`sluice clear password NAME`"),
        ("clear_permissions", "`sluice clear permission NAME`"),
        ("clear_policy", "`sluice clear policy NAME`"),
        ("clear_topic_permissions", "`sluice clear topic-permission NAME`"),
        ("clear_user_limits", "`sluice clear limit max-channels --user NAME`"),
        ("clear_vhost_limits", "`sluice clear limit max-queues`"),
        ("close_all_connections", "`sluice close connections --all`"),
        ("close_all_user_connections", "`sluice close user NAME`"),
        ("close_connection", "`sluice close connection NAME`"),
        ("cluster_status", "`sluice show cluster`"),
        ("deactivate_free_disk_space_monitoring", "none; the free disk space is always watched"),
        ("decode", "none; values that begin with `encrypted:` are refused"),
        ("decrypt_conf_value", "none; values that begin with `encrypted:` are refused"),
        ("delete_queue", "`sluice delete queue NAME`"),
        ("delete_shovel", "none; there are no shovels, and `sluice clear parameter shovel NAME` removes the definition of one"),
        ("delete_user", "`sluice delete user NAME`"),
        ("delete_vhost", "`sluice delete vhost NAME`"),
        ("disable_vhost_deletion_protection", "`sluice unprotect vhost NAME`"),
        ("enable_feature_flag", "none; all feature flags are always enabled"),
        ("enable_vhost_deletion_protection", "`sluice protect vhost NAME`"),
        ("encode", "none; values that begin with `encrypted:` are refused"),
        ("encrypt_conf_value", "none; values that begin with `encrypted:` are refused"),
        ("environment", "`sluice show config`"),
        ("eval", "none; there is no Erlang"),
        ("eval_file", "none; there is no Erlang"),
        ("exec", "none; there is no Erlang"),
        ("export_definitions", "`sluice export definitions FILE`"),
        ("federation_status", "none; there is no federation"),
        ("force_boot", "none; a node never waits for others"),
        ("force_gc", "none; there is no garbage collector"),
        ("force_reset", "none; stop the broker and remove its data directory"),
        ("force_standalone_khepri_boot", "none; a node never waits for others"),
        ("forget_cluster_node", "none; a cluster has one node"),
        ("hash_password", "`sluice hash password`"),
        ("help", "`sluice --help`"),
        ("import_definitions", "`sluice import definitions FILE`"),
        ("join_cluster", "none; a cluster has one node"),
        ("list_bindings", "`sluice list bindings`"),
        ("list_channels", "`sluice list channels`"),
        ("list_ciphers", "none; the cipher suites cannot be chosen"),
        ("list_connections", "`sluice list connections`"),
        ("list_consumers", "`sluice list consumers`"),
        ("list_deprecated_features", "`sluice list deprecated-features`"),
        ("list_exchanges", "`sluice list exchanges`"),
        ("list_feature_flags", "`sluice list feature-flags`"),
        ("list_global_parameters", "`sluice list global-parameters`"),
        ("list_hashes", "none; `sluice hash password` uses the hash that `password_hashing` names"),
        ("list_mqtt_connections", "none; there is no MQTT"),
        ("list_operator_policies", "`sluice list policies --operator`"),
        ("list_parameters", "`sluice list parameters`"),
        ("list_permissions", "`sluice list permissions -p VHOST`"),
        ("list_policies", "`sluice list policies`"),
        ("list_queues", "`sluice list queues`"),
        ("list_stomp_connections", "none; there is no STOMP"),
        ("list_topic_permissions", "`sluice list topic-permissions`"),
        ("list_unresponsive_queues", "`sluice explain queue NAME`"),
        ("list_user_limits", "`sluice list limits --user NAME`"),
        ("list_user_permissions", "`sluice list permissions --user NAME`"),
        ("list_user_topic_permissions", "`sluice list topic-permissions --user NAME`"),
        ("list_users", "`sluice list users`"),
        ("list_vhost_limits", "`sluice list limits -p VHOST`"),
        ("list_vhosts", "`sluice list vhosts`"),
        ("node_health_check", "`sluice check ready`"),
        ("ping", "`sluice check live`"),
        ("purge_queue", "`sluice purge queue NAME`"),
        ("reconcile_vhosts", "none; virtual hosts are never stopped"),
        ("rename_cluster_node", "none; a cluster has one node"),
        ("report", "`sluice export report`"),
        ("reset", "none; stop the broker and remove its data directory"),
        ("restart_federation_link", "none; there is no federation"),
        ("restart_shovel", "none; there are no shovels, and `sluice move QUEUE --to-queue OTHER` moves messages"),
        ("restart_vhost", "none; virtual hosts are never stopped"),
        ("resume_listeners", "none; listeners are never suspended"),
        ("rotate_logs", "none; `log.file.rotation.*` rotates the file, and SIGHUP opens it again"),
        ("schema_info", "none; there is no Mnesia"),
        ("set_cluster_name", "`sluice set cluster-name NAME`"),
        ("set_disk_free_limit", "`sluice set limit disk 1GB`"),
        ("set_global_parameter", "`sluice set global-parameter NAME 7`"),
        ("set_log_level", "`sluice set log-level LEVEL`"),
        ("set_operator_policy", "`sluice set policy --operator NAME PATTERN '{\"max-length\":1000}'`"),
        ("set_parameter", "`sluice set parameter COMPONENT NAME 7`"),
        ("set_permissions", "`sluice set permission -p VHOST NAME CONFIGURE WRITE READ`"),
        ("set_permissions_globally", "`sluice set permission -p VHOST NAME CONFIGURE WRITE READ` for each virtual host"),
        ("set_policy", "`sluice set policy NAME PATTERN '{\"max-length\":1000}'`"),
        ("set_topic_permissions", "`sluice set topic-permission NAME EXCHANGE WRITE READ`"),
        ("set_user_limits", "`sluice set limit max-channels 100 --user NAME`"),
        ("set_user_tags", "`sluice set tags NAME TAG`"),
        ("set_vhost_limits", "`sluice set limit max-queues 100`"),
        ("set_vhost_tags", "`sluice add vhost NAME --tags TAG`"),
        ("set_vm_memory_high_watermark", "`sluice set limit memory 0.4`"),
        ("shovel_status", "none; there are no shovels"),
        ("shutdown", "none; send SIGTERM, or `systemctl stop sluice`"),
        ("start_app", "none; the process is the broker: start it with `sluice serve`"),
        ("status", "`sluice status`"),
        ("stop", "none; send SIGTERM, or `systemctl stop sluice`"),
        ("stop_app", "none; send SIGTERM, or `systemctl stop sluice`"),
        ("suspend_listeners", "none; stop the broker, or keep clients away with a firewall"),
        ("sync_queue", "none; there are no mirrored queues"),
        ("trace_off", "none; `sluice trace queue NAME` ends by itself"),
        ("trace_on", "`sluice trace queue NAME`"),
        ("update_cluster_nodes", "none; a cluster has one node"),
        ("update_vhost_metadata", "`sluice add vhost NAME --description TEXT`"),
        ("version", "`sluice --version`"),
        ("wait", "`sluice await ready`"),
    ] },
    Tool { name: "rabbitmq-diagnostics", commands: &[
        ("alarms", "`sluice check alarms`"),
        ("certificates", "`sluice check certificates 2 weeks` names those that expire"),
        ("check_alarms", "`sluice check alarms`"),
        ("check_certificate_expiration", "`sluice check certificates 2 weeks`"),
        ("check_for_quorum_queues_without_an_elected_leader", "`sluice check leaders`"),
        ("check_if_any_deprecated_features_are_used", "`sluice list deprecated-features --used`"),
        ("check_if_metadata_store_is_initialized", "`sluice check ready`"),
        ("check_if_metadata_store_is_initialized_with_data", "`sluice check ready`"),
        ("check_local_alarms", "`sluice check local-alarms`"),
        ("check_port_connectivity", "`sluice check port 5672`"),
        ("check_port_listener", "`sluice check port 5672`"),
        ("check_protocol_listener", "`sluice check protocols amqp`"),
        ("check_running", "`sluice check ready`"),
        ("check_virtual_hosts", "`sluice check virtual-hosts`"),
        ("cipher_suites", "none; the cipher suites cannot be chosen"),
        ("command_line_arguments", "none; `sluice show config` says where each setting is from"),
        ("consume_event_stream", "`sluice follow events`"),
        ("disable_auth_attempt_source_tracking", "none; set `track_auth_attempt_source = false`"),
        ("discover_peers", "none; a cluster has one node"),
        ("enable_auth_attempt_source_tracking", "none; set `track_auth_attempt_source = true`"),
        ("erlang_cookie_hash", "none; there is no Erlang"),
        ("erlang_cookie_sources", "none; there is no Erlang"),
        ("erlang_version", "none; there is no Erlang"),
        ("is_booting", "`sluice check ready` fails until the node has started"),
        ("is_running", "`sluice check ready`"),
        ("list_network_interfaces", "none; `ip address` shows them"),
        ("list_node_auth_attempt_stats", "`sluice list auth-attempts`"),
        ("list_policies_that_match", "`sluice list policies --queue NAME`"),
        ("listeners", "`sluice show overview`"),
        ("log_location", "`sluice show config` prints `log.dir` and `log.file`"),
        ("log_tail", "none; `tail` reads the file of the log"),
        ("log_tail_stream", "`sluice follow log`"),
        ("maybe_stuck", "`sluice check live` fails if a shard does not answer"),
        ("memory_breakdown", "`sluice show memory`"),
        ("message_size_stats", "none; the metrics have the sizes of messages"),
        ("metadata_store_status", "none; each node has the whole catalog"),
        ("observer", "`sluice top`"),
        ("os_env", "none; `sluice show config` says which settings are from the environment"),
        ("remote_shell", "none; there is no Erlang"),
        ("reset_node_auth_attempt_metrics", "`sluice reset auth-attempts`"),
        ("resolve_hostname", "none; `getent hosts NAME` does this"),
        ("resolver_info", "none; the resolver is that of the system"),
        ("runtime_thread_stats", "none; there is no Erlang"),
        ("server_version", "`sluice show version`"),
        ("tls_versions", "none; TLS 1.2 and 1.3, which `ssl_options.versions.*` limits"),
    ] },
    Tool { name: "rabbitmq-queues", commands: &[
        ("add_member", "`sluice add member QUEUE NODE`"),
        ("check_if_new_quorum_queue_replicas_have_finished_initial_sync", "`sluice list members QUEUE`"),
        ("check_if_node_is_mirror_sync_critical", "none; there are no mirrored queues"),
        ("check_if_node_is_quorum_critical", "`sluice check quorum-critical`"),
        ("delete_member", "`sluice delete member QUEUE NODE`"),
        ("force_checkpoint", "`sluice checkpoint queue QUEUE`"),
        ("grow", "`sluice grow groups NODE`"),
        ("grow_to_count", "`sluice grow groups NODE` for each node"),
        ("leader_health_check", "`sluice check leaders`"),
        ("member_with_highest_index", "`sluice list members QUEUE`"),
        ("peek", "`sluice peek QUEUE 1`"),
        ("quorum_status", "`sluice list members QUEUE`"),
        ("rebalance", "`sluice rebalance leaders`"),
        ("reclaim_quorum_memory", "`sluice reclaim memory QUEUE`"),
        ("shrink", "`sluice shrink groups NODE`"),
        ("transfer_leadership", "`sluice transfer leadership QUEUE NODE`"),
    ] },
    Tool { name: "rabbitmq-streams", commands: &[
        ("activate_stream_consumer", "none; there is no stream protocol"),
        ("add_replica", "none; a cluster has one node"),
        ("add_super_stream", "none; there is no stream protocol"),
        ("coordinator_status", "none; a stream has no coordinator"),
        ("delete_replica", "none; a cluster has one node"),
        ("delete_super_stream", "none; there is no stream protocol"),
        ("list_stream_connections", "none; there is no stream protocol, and `sluice list connections` has the consumers of AMQP"),
        ("list_stream_consumer_groups", "none; there is no stream protocol"),
        ("list_stream_consumers", "none; there is no stream protocol, and `sluice list consumers` has the consumers of AMQP"),
        ("list_stream_group_consumers", "none; there is no stream protocol"),
        ("list_stream_publishers", "none; there is no stream protocol, and `sluice list links` has the publishers of AMQP 1.0"),
        ("list_stream_tracking", "none; there is no stream protocol"),
        ("reset_offset", "none; the broker stores no offsets of consumers"),
        ("restart_stream", "none; a cluster has one node"),
        ("set_stream_retention_policy", r#"`sluice set policy NAME PATTERN {"max-age":"7D"} --apply-to streams`"#),
        ("stream_status", "`sluice show queue NAME`"),
        ("update_offset", "none; the broker stores no offsets of consumers"),
    ] },
    Tool { name: "rabbitmq-upgrade", commands: &[
        ("await_online_quorum_plus_one", "`sluice check quorum-critical`"),
        ("await_online_synchronized_mirror", "none; there are no mirrored queues"),
        ("drain", "none; there is no other node that could take over"),
        ("post_upgrade", "none; nothing is left to do after an upgrade"),
        ("revive", "none; a node is never drained"),
    ] },
    Tool { name: "rabbitmq-plugins", commands: &[
        ("directories", "none; plugins have no files, because what Sluice has is built in"),
        ("disable", "`sluice disable plugin NAME`"),
        ("enable", "`sluice enable plugin NAME`"),
        ("is_enabled", "`sluice list plugins`"),
        ("list", "`sluice list plugins`"),
        ("set", "none; plugins cannot be chosen, and `sluice list plugins` shows those that are built in"),
    ] },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use clap::Parser as _;

    use super::*;
    use crate::Cli;

    /// The heading of the table in docs/from-rabbitmq.md.
    const HEADING: &str = "| RabbitMQ | Sluice |\n|---|---|\n";

    fn rows() -> impl Iterator<Item = (&'static Tool, Command)> {
        TOOLS.iter().flat_map(|tool| tool.commands.iter().map(move |row| (tool, *row)))
    }

    #[test]
    fn the_page_has_the_same_table() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/from-rabbitmq.md");
        let page = std::fs::read_to_string(&path).unwrap();
        let start = page.find("\n## Commands\n").expect("the section");
        let start = start + page[start..].find(HEADING).expect("its table") + HEADING.len();
        let end = start + page[start..].find("\n\n").expect("the end of the table") + 1;
        let made: String =
            rows().map(|(tool, (name, here))| format!("| `{} {name}` | {here} |\n", tool.name)).collect();
        if std::env::var_os("UPDATE_COMMANDS").is_some() {
            std::fs::write(&path, format!("{}{made}{}", &page[..start], &page[end..])).unwrap();
            return;
        }
        let stale = "docs/from-rabbitmq.md is stale: UPDATE_COMMANDS=1 cargo test -p sluice the_page_has_the_same_table";
        assert!(page[start..end] == made, "{stale}");
    }

    /// Words in capitals stand for arguments.
    #[test]
    fn commands_of_rabbitmq_have_others_here_or_a_reason() {
        let mut names = BTreeSet::new();
        for (_, (name, here)) in rows() {
            assert!(names.insert(name), "{name} has two rows");
            let codes = here.split('`').skip(1).step_by(2);
            let commands: Vec<&str> = codes.filter(|code| code.starts_with("sluice ")).collect();
            for command in &commands {
                // The shell removes the quotes around a word.
                let words = command.split(' ').map(|word| word.trim_matches('\''));
                match Cli::try_parse_from(words) {
                    Err(error) if error.use_stderr() => panic!("{name}: {command}: {error}"),
                    _ => {}
                }
            }
            assert!(!commands.is_empty() || here.starts_with("none; "), "{name}: {here}");
        }
    }

    #[test]
    fn a_command_is_found_as_an_operator_types_it() {
        let listed = "'list_queues' is a command of rabbitmqctl. Here: 'sluice list queues'";
        for words in [
            "list_queues",
            "ctl list_queues name",
            "rabbitmqctl -n rabbit@host list_queues",
            "rabbitmqctl -q list_queues",
            "diagnostics list_queues",
        ] {
            assert_eq!(answer(words.split(' ')).as_deref(), Some(listed), "{words}");
        }
        let reason = answer(["upgrade", "drain"].into_iter()).unwrap();
        assert_eq!(
            reason,
            "'drain' is a command of rabbitmq-upgrade. Here: none; there is no other node that could take over"
        );
        for words in ["nonsense", "ctl", "ctl nonsense", "ctl -q", ""] {
            assert_eq!(answer(words.split(' ')), None, "{words}");
        }
    }
}
