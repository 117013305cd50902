//! The table of all keys.

use std::path::PathBuf;

use amqp10::sasl::Secret;
use catalog::pattern::Pattern;
use node::Limit;

use super::key::{Key, Set, key, put, reloads, starred};
use super::values::{
    SHARDS_MAX, Shards, binary_bytes, boolean, bytes, bytes_within, direct_writes, file, free_name,
    import_backend, ip, link_credit, login_name, maximum, mode, name_kind, network, node_name, number,
    or_none, own_node_name, pair_name, part, password, password_hashing, port, queue_type, share,
    socket_path, text, tls_version, verify,
};
use super::wrong::Wrong;
use super::{Draft, cluster, events, listeners, logins, logs, mechanisms, oauth2, page_login, web};

/// The bounds of the frame size, in bytes. A frame must be able to hold an OPEN, and one read buffer must
/// hold a frame.
const FRAME_MAX: std::ops::RangeInclusive<u32> = 512..=16 * 1024 * 1024;

/// The bounds of the size of a frame before OPEN, in bytes. Whoever connects can make the broker hold one.
const INITIAL_FRAME_MAX: std::ops::RangeInclusive<u32> = 8192..=1024 * 1024;

/// The bounds of a credit or a window. With 0, no message would ever move. The upper bound limits the number
/// of messages that one peer can have outstanding.
const CREDIT: std::ops::RangeInclusive<u32> = 1..=65_535;

/// The bounds of the number of connections that have not logged in. With 0, nobody could log in. Each takes
/// about 12 KiB.
const HANDSHAKES: std::ops::RangeInclusive<usize> = 1..=1_000_000;

/// The bounds of the time between two samples, in milliseconds. A sample asks every shard, which must not happen all the
/// time. An hour of samples must have more than one.
const STATISTICS_MS: std::ops::RangeInclusive<u64> = 1_000..=60_000;

/// Returns all keys, in the order of the example file.
pub(super) fn all() -> impl Iterator<Item = &'static Key> {
    listeners::KEYS
        .iter()
        .chain(KEYS)
        .chain(mechanisms::KEYS)
        .chain(logs::KEYS)
        .chain(logins::KEYS)
        .chain(oauth2::KEYS)
        .chain(web::KEYS)
        .chain(page_login::KEYS)
        .chain(events::KEYS)
        .chain(cluster::KEYS)
}

/// A password, which is never shown. By default there is none.
const fn password_of(name: &'static str, doc: &'static str, set: Set) -> Key {
    Key { secret: true, ..key(name, "", doc, set) }
}

/// The keys that are in no file of their own.
const KEYS: &[Key] = &[
    key(
        "listeners.unix.default",
        "none",
        "The path of a Unix domain socket for AMQP clients on this machine, or none. The file is made at the start and removed at the stop.",
        |c, _, v| put(&mut c.unix_listener, or_none(v, socket_path)),
    ),
    key(
        "listeners.unix.mode",
        "0600",
        "The permissions of that file, in octal: who may write to it may connect.",
        |c, _, v| put(&mut c.unix_mode, mode(v)),
    ),
    key(
        "proxy_protocol",
        "false",
        "Whether AMQP clients connect over proxies that send a header of the PROXY protocol (version 1 or 2). Then only the proxies of proxy_protocol.trusted.N may connect, with TLS and without.",
        |c, _, v| put(&mut c.proxy_protocol, boolean(v)),
    ),
    key(
        "proxy_protocol.trusted.*",
        "",
        "The address of a proxy, or a network of proxies: 10.0.0.5 or 10.0.0.0/8. Any name may stand for N.",
        |c, name, v| {
            let (name, proxy) = (free_name(name)?, network(v)?);
            c.trusted_proxies.remove(&name);
            c.trusted_proxies.extend(proxy.map(|proxy| (name, proxy)));
            Ok(())
        },
    ),
    key(
        "ssl_options.certfile",
        "",
        "The file of the server's certificate and those of its authorities, in PEM. It is read again when it changes.",
        |c, _, v| put(&mut c.tls.certificate, file(v)),
    ),
    key("ssl_options.keyfile", "", "The file of the private key, in PEM.", |c, _, v| {
        put(&mut c.tls.key, file(v))
    }),
    password_of(
        "ssl_options.password",
        "The password of the private keys, if they are encrypted.",
        |c, _, v| put(&mut c.tls.password, password(v)),
    ),
    key(
        "ssl_options.certfile.*",
        "",
        "The file of a further certificate. A client that asks for a server name for which it is valid gets it.",
        |c, name, v| put(&mut named_pair(c, name)?.0, file(v)),
    ),
    key(
        "ssl_options.keyfile.*",
        "",
        "The file of its private key. Both keys end with the same name.",
        |c, name, v| put(&mut named_pair(c, name)?.1, file(v)),
    ),
    key(
        "ssl_options.cacertfile",
        "",
        "The file of the authorities whose client certificates are accepted, in PEM.",
        |c, _, v| put(&mut c.tls.authorities, file(v)),
    ),
    key(
        "ssl_options.verify",
        "verify_none",
        "Whether clients are asked for a certificate: verify_peer or verify_none.",
        |c, _, v| put(&mut c.tls.verify, verify(v)),
    ),
    key(
        "ssl_options.fail_if_no_peer_cert",
        "false",
        "Whether a client that sends no certificate is refused, if one is asked for.",
        |c, _, v| put(&mut c.tls.required, boolean(v)),
    ),
    key(
        "ssl_options.depth",
        "10",
        "How many authorities may be between a client's certificate and a trusted authority.",
        |c, _, v| put(&mut c.tls.depth, number(v, 0..=u8::MAX).map(tls::Depth)),
    ),
    key("ssl_options.crl_file", "", "The file of revoked client certificates (CRLs), in PEM.", |c, _, v| {
        put(&mut c.tls.revoked, file(v))
    }),
    Key {
        sample: "ssl_options.versions.1 = tlsv1.3",
        ..key(
            "ssl_options.versions.*",
            "",
            "A version of TLS that is spoken, here as an example: tlsv1.2 or tlsv1.3. Without any, both are.",
            |c, _, v| {
                c.tls.versions.push(tls_version(v)?);
                Ok(())
            },
        )
    },
    key(
        "ssl_cert_login_from",
        "distinguished_name",
        "The name in a client's certificate that is its user with SASL EXTERNAL: distinguished_name, common_name or subject_alternative_name.",
        |c, _, v| put(&mut c.login_name, login_name(v)),
    ),
    key(
        "ssl_cert_login_san_type",
        "dns",
        "The kind of that subject_alternative_name: dns, ip, email or uri.",
        |c, _, v| put(&mut c.login_san.0, name_kind(v)),
    ),
    key(
        "ssl_cert_login_san_index",
        "0",
        "The place of that subject_alternative_name among those of its kind, from 0 on.",
        |c, _, v| put(&mut c.login_san.1, number(v, 0..=1000)),
    ),
    key("management.ssl.ip", "127.0.0.1", "The IP address of the management API over HTTPS.", |c, _, v| {
        put(&mut c.management_tls.0, ip(v))
    }),
    key(
        "management.ssl.port",
        "none",
        "The port of the management API over HTTPS, or none. The usual port is 15671.",
        |c, _, v| put(&mut c.management_tls.1, or_none(v, port)),
    ),
    key(
        "management.ssl.certfile",
        "",
        "The file of its certificate, if it is not ssl_options.certfile.",
        |c, _, v| put(&mut c.management_ssl.certificate, file(v)),
    ),
    key("management.ssl.keyfile", "", "The file of its private key.", |c, _, v| {
        put(&mut c.management_ssl.key, file(v))
    }),
    password_of("management.ssl.password", "The password of that key, if it is encrypted.", |c, _, v| {
        put(&mut c.management_ssl.password, password(v))
    }),
    key("prometheus.ssl.ip", "127.0.0.1", "The IP address of the metrics over HTTPS.", |c, _, v| {
        put(&mut c.prometheus_tls.0, ip(v))
    }),
    key(
        "prometheus.ssl.port",
        "none",
        "The port of the metrics over HTTPS, or none. The usual port is 15691.",
        |c, _, v| put(&mut c.prometheus_tls.1, or_none(v, port)),
    ),
    key(
        "prometheus.ssl.certfile",
        "",
        "The file of its certificate, if it is not ssl_options.certfile.",
        |c, _, v| put(&mut c.prometheus_ssl.certificate, file(v)),
    ),
    key("prometheus.ssl.keyfile", "", "The file of its private key.", |c, _, v| {
        put(&mut c.prometheus_ssl.key, file(v))
    }),
    password_of("prometheus.ssl.password", "The password of that key, if it is encrypted.", |c, _, v| {
        put(&mut c.prometheus_ssl.password, password(v))
    }),
    key("management.tcp.ip", "127.0.0.1", "The IP address of the management HTTP API.", |c, _, v| {
        put(&mut c.management.0, ip(v))
    }),
    key("management.tcp.port", "15672", "The port of the management HTTP API, or none.", |c, _, v| {
        put(&mut c.management.1, or_none(v, port))
    }),
    key(
        "prometheus.tcp.ip",
        "127.0.0.1",
        "The IP address of the metrics, which need no password.",
        |c, _, v| put(&mut c.prometheus.0, ip(v)),
    ),
    key("prometheus.tcp.port", "15692", "The port of the metrics, or none.", |c, _, v| {
        put(&mut c.prometheus.1, or_none(v, port))
    }),
    key(
        "collect_statistics_interval",
        "5000",
        "The time between two samples of the statistics that the management API shows rates of, in milliseconds: 1000 to 60000.",
        |c, _, v| put(&mut c.statistics_ms, number(v, STATISTICS_MS)),
    ),
    key(
        "shards",
        "auto",
        "The number of event loops: 1 to 256, or auto for one up to 7 cores, and then one for each 4.",
        |c, _, v| {
            let count = number(v, 1..=SHARDS_MAX).map(Shards::Count);
            let shards = if v == "auto" { Ok(Shards::auto()) } else { count };
            put(&mut c.shards, shards.map_err(|need| format!("{need}, or auto")))
        },
    ),
    key(
        "load_definitions",
        "",
        "A file of definitions, as RabbitMQ or sluice export definitions writes it, that is carried out at each start, or a directory of such files *.json. If it has users, default_user is not created.",
        |c, _, v| put(&mut c.load_definitions, file(v)),
    ),
    key("management.load_definitions", "", "The same as load_definitions.", |c, _, v| {
        put(&mut c.management_definitions, file(v))
    }),
    key(
        "definitions.import_backend",
        "none",
        "local_filesystem, if definitions.local.path is used instead of load_definitions, or none.",
        |c, _, v| put(&mut c.has_local_definitions, import_backend(v)),
    ),
    key("definitions.local.path", "", "The same as load_definitions.", |c, _, v| {
        put(&mut c.local_definitions, file(v))
    }),
    key(
        "definitions.skip_if_unchanged",
        "false",
        "Whether a start skips definitions that have not changed since they were carried out.",
        |c, _, v| put(&mut c.skip_unchanged_definitions, boolean(v)),
    ),
    key(
        "definitions.skip_unknown",
        "false",
        "Whether exchanges of unknown types, unknown keys of policies, and arguments that no queue takes are left out of definitions, with a warning, and do not stop the import.",
        |c, _, v| put(&mut c.skip_unknown_definitions, boolean(v)),
    ),
    key("default_user", "guest", "The user that a new broker has.", |c, _, v| {
        put(&mut c.default_user, text(v))
    }),
    Key {
        secret: true,
        ..key("default_pass", "guest", "The password of that user.", |c, _, v| {
            put(&mut c.default_pass, text(v).map(Secret::new))
        })
    },
    key("default_user_tags.administrator", "true", "Whether that user has this tag.", |c, _, v| {
        set_tag(c, "administrator", v)
    }),
    key("default_user_tags.monitoring", "false", "Likewise.", |c, _, v| set_tag(c, "monitoring", v)),
    key("default_user_tags.policymaker", "false", "Likewise.", |c, _, v| set_tag(c, "policymaker", v)),
    key("default_user_tags.management", "false", "Likewise.", |c, _, v| set_tag(c, "management", v)),
    key("default_user_tags.impersonator", "false", "Likewise.", |c, _, v| set_tag(c, "impersonator", v)),
    key(
        "default_permissions.configure",
        ".*",
        "The names of what that user may configure, as a regular expression: .* for all, ^$ for none.",
        |c, _, v| put(&mut c.default_permissions.configure, Pattern::of_permission(v)),
    ),
    key("default_permissions.write", ".*", "The names of what that user may write.", |c, _, v| {
        put(&mut c.default_permissions.write, Pattern::of_permission(v))
    }),
    key("default_permissions.read", ".*", "The names of what that user may read.", |c, _, v| {
        put(&mut c.default_permissions.read, Pattern::of_permission(v))
    }),
    key(
        "default_vhost",
        "/",
        "The virtual host of default_user, and of clients that do not name one.",
        |c, _, v| put(&mut c.settings.default_vhost, text(v)),
    ),
    Key {
        sample: "default_limits.vhosts.1.max_queues = 100",
        ..key(
            "default_limits.vhosts.*",
            "",
            "A limit of new virtual hosts, here as an example: max_connections or max_queues, -1 for none. The name may be any. With pattern, a regular expression, the limits of this name are only for virtual hosts that it matches; of several names the first counts.",
            |c, part, v| c.defaults.set_limit(part, v),
        )
    },
    Key {
        sample: "default_policies.operator.short-lived.expires = 1800000",
        ..key(
            "default_policies.operator.*",
            "",
            "An operator policy of new virtual hosts, here as an example: vhost_pattern and queue_pattern, regular expressions, apply_to, and what it sets, such as max_length or message_ttl.",
            |c, part, v| c.defaults.set_operator_policy(part, v),
        )
    },
    Key {
        sample: "default_users.monitor.tags = monitoring",
        secret: true,
        ..key(
            "default_users.*",
            "",
            "A user who gets permissions in new virtual hosts, and is created with the first of them, here as an example: vhost_pattern, password, tags (with commas between), configure, write and read. A user without a password cannot log in with one. Patterns that are not set match everything.",
            |c, part, v| c.defaults.set_user(part, v),
        )
    },
    key(
        "loopback_users",
        "guest",
        "Users who may connect from this machine only: one name, or none.",
        |c, _, v| put(&mut c.loopback_users, or_none(v, text).map(|user| user.into_iter().collect())),
    ),
    starred(
        "guest",
        key(
            "loopback_users.*",
            "true",
            "Whether this user may connect from this machine only.",
            |c, user, v| {
                let (user, only) = (free_name(user)?, boolean(v)?);
                c.loopback_users.retain(|known| *known != user);
                if only {
                    c.loopback_users.push(user);
                }
                Ok(())
            },
        ),
    ),
    key(
        "password_hashing",
        "argon2id",
        "The algorithm of new passwords: argon2id, or RabbitMQ's sha256 or sha512.",
        |c, _, v| put(&mut c.password_hashing, password_hashing(v)),
    ),
    key(
        "track_auth_attempt_source",
        "false",
        "Whether logins are counted by address and user, too, for /api/auth/attempts/NODE/source and the metrics.",
        |c, _, v| put(&mut c.tracks_login_sources, boolean(v)),
    ),
    key(
        "anonymous_login_user",
        "guest",
        "The user as which clients without credentials log in, or none to refuse such clients.",
        |c, _, v| put(&mut c.settings.anonymous_login_user, or_none(v, text)),
    ),
    key(
        "max_message_size",
        "16777216",
        "The size of the largest accepted message in bytes, up to 536870912.",
        |c, _, v| put(&mut c.settings.max_message_size, bytes_within(v, bytes, 1..=536_870_912)),
    ),
    key(
        "frame_max",
        "131072",
        "The size of the largest accepted frame in bytes, 512 to 16777216.",
        |c, _, v| put(&mut c.settings.frame_max, bytes_within(v, binary_bytes, FRAME_MAX)),
    ),
    key(
        "initial_frame_max",
        "8192",
        "The size of the largest accepted frame before a client has opened its connection, 8192 to 1048576. A token must fit into it.",
        |c, _, v| put(&mut c.settings.initial_frame_max, bytes_within(v, binary_bytes, INITIAL_FRAME_MAX)),
    ),
    reloads(key(
        "heartbeat",
        "60",
        "Seconds after which a silent connection is closed; 0 means never.",
        |c, _, v| put(&mut c.settings.heartbeat_s, number(v, 0..=65_535)),
    )),
    reloads(key(
        "handshake_timeout",
        "10000",
        "Milliseconds that the opening of a connection may take.",
        |c, _, v| put(&mut c.settings.handshake_timeout_ms, number(v, 1..=3_600_000)),
    )),
    key(
        "handshake_max",
        "4096",
        "The most connections that have not logged in, up to 1000000. For another one, the oldest of them is closed.",
        |c, _, v| put(&mut c.settings.handshake_max, number(v, HANDSHAKES)),
    ),
    key(
        "handshake_max_per_address",
        "2048",
        "The same limit for one address (for IPv6, a network of 64 bits).",
        |c, _, v| put(&mut c.settings.handshake_max_per_address, number(v, HANDSHAKES)),
    ),
    reloads(key(
        "session_max_per_connection",
        "64",
        "The most sessions of one connection, up to 65535.",
        |c, _, v| put(&mut c.settings.session_max_per_connection, number(v, 1..=u16::MAX)),
    )),
    reloads(key(
        "channel_max",
        "2047",
        "The highest channel number of an AMQP 0.9.1 connection. 0 means no limit.",
        |c, _, v| put(&mut c.settings.channel_max, number(v, 0..=u16::MAX)),
    )),
    reloads(key("link_max_per_session", "256", "The most links of one session.", |c, _, v| {
        put(&mut c.settings.link_max_per_session, number(v, 1..=u32::MAX))
    })),
    key(
        "amqp10.max_link_credit",
        "170",
        "The link credit of a publisher: the messages that it may send before it needs new credit.",
        |c, _, v| put(&mut c.settings.max_link_credit, number(v, CREDIT)),
    ),
    key(
        "amqp10.link_credit",
        "auto",
        "How a publisher's link credit is set. fixed: as amqp10.max_link_credit says. adaptive: more, as long as that brings more confirms per second. auto: adaptive for streams and for queues with x-fsync; for other queues, adaptive up to 1,024 durable messages.",
        |c, _, v| put(&mut c.settings.link_credit, link_credit(v)),
    ),
    key(
        "amqp10.max_queue_credit",
        "256",
        "The most messages that a consumer's link requests from its queue at once.",
        |c, _, v| put(&mut c.settings.max_queue_credit, number(v, CREDIT)),
    ),
    key(
        "amqp10.max_incoming_window",
        "400",
        "The incoming window of a session: the transfers that it may send before it needs a new window. It is larger if amqp10.link_credit raises the credit of one of its links.",
        |c, _, v| put(&mut c.settings.max_incoming_window, number(v, CREDIT)),
    ),
    reloads(key(
        "max_unsettled_per_consumer",
        "100000",
        "The most unsettled deliveries of a consumer; 0 means no limit. Its old name is amqp10.max_unsettled_per_link.",
        |c, _, v| put(&mut c.settings.max_unsettled_per_consumer, number(v, 0..=u32::MAX)),
    )),
    key(
        "default_queue_type",
        "classic",
        "The type of a queue whose declaration names none: classic, quorum or stream. A queue that is exclusive, deleted automatically or not durable is always classic.",
        |c, _, v| put(&mut c.settings.declare_rules.default_type, queue_type(v)),
    ),
    reloads(key(
        "max_connections",
        "infinity",
        "The most open connections of the node: a number, or infinity.",
        |c, _, v| put(&mut c.settings.connection_max, maximum(v)),
    )),
    reloads(key(
        "consumer_max_per_channel",
        "infinity",
        "The most consumers of a channel of AMQP 0.9.1: a number, or infinity.",
        |c, _, v| put(&mut c.settings.consumer_max_per_channel, maximum(v)),
    )),
    reloads(key(
        "channel_max_per_node",
        "infinity",
        "The most sessions and channels of all connections together: a number, or infinity.",
        |c, _, v| put(&mut c.settings.session_max, maximum(v)),
    )),
    key("vhost_max", "infinity", "The most virtual hosts: a number, or infinity.", |c, _, v| {
        put(&mut c.settings.declare_rules.vhosts_max, maximum(v))
    }),
    key("cluster_queue_limit", "infinity", "The most queues: a number, or infinity.", |c, _, v| {
        put(&mut c.settings.declare_rules.queues_max, maximum(v))
    }),
    key(
        "cluster_exchange_limit",
        "infinity",
        "The most exchanges, with those that each virtual host has from the start: a number, or infinity.",
        |c, _, v| put(&mut c.settings.declare_rules.exchanges_max, maximum(v)),
    ),
    key(
        "quorum_queue.property_equivalence.relaxed_checks_on_redeclaration",
        "false",
        "Whether clients may declare an existing quorum queue as if it were classic: with another type, exclusive, deleted automatically or not durable.",
        |c, _, v| put(&mut c.settings.declare_rules.relaxed_redeclaration, boolean(v)),
    ),
    reloads(key(
        "consumer_timeout",
        "1800000",
        "Milliseconds for which a consumer of a quorum queue may hold a delivery. Then the delivery returns to the queue, and the consumer gets no more until it has settled it; over AMQP 0.9.1 the consumer is cancelled. Queues (x-consumer-timeout), policies (consumer-timeout) and consumers may set another time.",
        |c, _, v| put(&mut c.settings.consumer_timeout_ms, number(v, 1..=u64::from(u32::MAX))),
    )),
    key(
        "amqp10.unfinished_memory",
        "256MiB",
        "The memory for incomplete deliveries of all connections. Above it, the user who uses most loses the largest connection. At least twice max_message_size: less is raised to that.",
        |c, _, v| put(&mut c.settings.unfinished_memory, bytes(v)),
    ),
    key(
        "unread_output_memory",
        "256MiB",
        "The memory for what clients do not read, of all connections. Above it, the user who uses most loses the largest connection. At least twice max_message_size and 1.25 MiB: less is raised to that.",
        |c, _, v| put(&mut c.settings.unread_output_memory, bytes(v)),
    ),
    key(
        "client_state_memory",
        "256MiB",
        "The memory for what is kept for clients: names, properties, links and consumers, of all connections. The first 8 KiB of each connection do not count. Above it, the user who uses most loses the largest connection. At least 4 MiB and twice frame_max: less is raised to that.",
        |c, _, v| put(&mut c.settings.client_state_memory, bytes(v)),
    ),
    key("amqp10.durable_by_default", "true", "Whether a message without a header is durable.", |c, _, v| {
        put(&mut c.settings.durable_by_default, boolean(v))
    }),
    key(
        "deprecated_features.permit.amqp_address_v1",
        "false",
        "Whether AMQP 1.0 clients may use addresses of format v1: /queue/Q, /exchange/X/K, /topic/K, /amq/queue/Q, Q.",
        |c, _, v| put(&mut c.settings.permit_address_v1, boolean(v)),
    ),
    key(
        "deprecated_features.permit.transient_nonexcl_queues",
        "true",
        "Whether queues may be neither durable nor exclusive. RabbitMQ 4.3 denies them by default.",
        |c, _, v| put(&mut c.settings.declare_rules.permit_transient, boolean(v)),
    ),
    key(
        "classic_queue.backlog_memory",
        "64MiB",
        "The memory for messages in queues, ready or unsettled. Other messages are on disk.",
        |c, _, v| put(&mut c.storage.backlog_memory, bytes(v)),
    ),
    key(
        "stream.reader_memory",
        "256MiB",
        "The memory for data of streams that was read but not yet sent to consumers, of all connections.",
        |c, _, v| put(&mut c.settings.reader_memory, bytes(v)),
    ),
    key(
        "data_dir.direct_writes",
        "auto",
        "Whether light traffic that waits for syncs is written past the page cache, which takes less CPU and time. auto: on ext4 and XFS. true: on every file system that allows it; it must sync a direct write with RWF_DSYNC. false: never.",
        |c, _, v| put(&mut c.storage.direct_writes, direct_writes(v)),
    ),
    key(
        "data_dir.group_access",
        "false",
        "Whether the group of the data directory may use what is in it, for containers whose user is another one after each start. Otherwise everything in it is its owner's alone.",
        |c, _, v| put(&mut c.has_group_access, boolean(v)),
    ),
    key(
        "accept_lost_definitions",
        "false",
        "Whether to start even if definitions may be lost in a damaged log. Then every remaining durable queue is closed, and its messages are kept.",
        |c, _, v| put(&mut c.accept_lost_definitions, boolean(v)),
    ),
    reloads(key(
        "vm_memory_high_watermark.relative",
        "0.6",
        "Publishers are stopped when the broker uses more than this part of the available memory.",
        |c, _, v| put(&mut c.alarms.memory, share(v).map(Limit::Relative)),
    )),
    reloads(key(
        "vm_memory_high_watermark.absolute",
        "none",
        "The same in bytes (1GB, 512MiB; docs/operations/start.md has all units). It replaces the relative limit.",
        |c, _, v| put(&mut c.memory_instead, or_none(v, bytes).map(|limit| limit.map(Limit::Absolute))),
    )),
    reloads(key(
        "disk_free_limit.absolute",
        "50MB",
        "Publishers are stopped when the file system of the data directory has less free space than this.",
        |c, _, v| put(&mut c.alarms.disk_free, bytes(v).map(Limit::Absolute)),
    )),
    reloads(key(
        "disk_free_limit.relative",
        "none",
        "The same as a part of the memory. It replaces the absolute limit.",
        |c, _, v| put(&mut c.disk_free_instead, or_none(v, part).map(|limit| limit.map(Limit::Relative))),
    )),
    key("compat.product", "RabbitMQ", "The product name that clients see.", |c, _, v| {
        put(&mut c.settings.compat_product, text(v))
    }),
    key("compat.version", "4.3.6", "The product version that clients see.", |c, _, v| {
        put(&mut c.settings.compat_version, text(v))
    }),
    key(
        "compat.erlang",
        "true",
        "The HTTP API shows a version of Erlang and of its crypto library that tools can parse. `false`: it shows that there is none.",
        |c, _, v| put(&mut c.compat_erlang, boolean(v)),
    ),
    key(
        "node.name",
        "auto",
        "The name of the node that clients see, such as rabbit@host. auto: sluice@ and the name of the machine.",
        |c, _, v| {
            put(&mut c.settings.node_name, if v == "auto" { Ok(own_node_name()) } else { node_name(v) })
        },
    ),
    key("cluster_name", "sluice@localhost", "The cluster name that clients see.", |c, _, v| {
        put(&mut c.settings.cluster_name, text(v))
    }),
];

/// Old names of keys, which go on working, and the names that the keys have now.
const RENAMED: &[(&str, &str)] = &[("amqp10.max_unsettled_per_link", "max_unsettled_per_consumer")];

/// Returns the name that a key has now.
pub(super) fn current_name(name: &str) -> &str {
    RENAMED.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new)
}

/// Returns the key with this name, and the text that matches its `*`.
pub(super) fn find(name: &str) -> Option<(&'static Key, &str)> {
    let name = current_name(name);
    all().find_map(|key| match key.name.strip_suffix('*') {
        Some(prefix) => name.strip_prefix(prefix).map(|part| (key, part)),
        None => (key.name == name).then_some((key, "")),
    })
}

/// Returns the names of all keys.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    all().map(|key| key.name)
}

/// Returns the certificate and the key of the pair with this name.
fn named_pair<'a>(
    draft: &'a mut Draft,
    name: &str,
) -> Result<&'a mut (Option<PathBuf>, Option<PathBuf>), Wrong> {
    let named = &mut draft.tls.named;
    if !named.contains_key(name) && named.len() == tls::NAMED_PAIRS_MAX {
        let need = format!("at most {} further certificates are possible", tls::NAMED_PAIRS_MAX);
        return Err(Wrong::Name(need));
    }
    Ok(named.entry(pair_name(name)?).or_default())
}

fn set_tag(draft: &mut Draft, tag: &str, value: &str) -> Result<(), Wrong> {
    let has = boolean(value)?;
    draft.default_tags.retain(|known| known != tag);
    draft.default_tags.extend(has.then(|| tag.to_owned()));
    Ok(())
}
