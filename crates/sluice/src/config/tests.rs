mod schema;
mod secrets;

use std::path::Path;

use node::Limit;

use super::*;

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(text, "sluice.conf", &[]).map_err(|e| e.to_string())
}

fn set(argument: &str) -> Result<Config, String> {
    Config::parse("", "", &[argument.to_owned()]).map_err(|e| e.to_string())
}

#[test]
fn an_empty_file_gives_the_defaults() {
    let config = parse("\n  # only a comment\n").unwrap();
    assert_eq!(config.amqp_listeners, ["127.0.0.1:5672".parse().unwrap()]);
    assert_eq!(config.management, Some("127.0.0.1:15672".parse().unwrap()));
    assert_eq!(config.prometheus, Some("127.0.0.1:15692".parse().unwrap()));
    assert_eq!(config.loopback_users, ["guest"]);
    assert!(config.shards.count() >= 1);
}

/// Setting a key to the default in the table changes nothing.
#[test]
fn the_defaults_in_the_table_are_the_defaults() {
    for key in keys::all().filter(|key| key.sample.is_empty()) {
        let name = key.name.replace('*', key.star);
        let config = set(&format!("{name}={}", key.default)).unwrap();
        assert_eq!(format!("{config:?}"), format!("{:?}", Config::default()), "{name}");
        assert_eq!(config.default_pass, Config::default().default_pass, "{name}");
        assert!(!key.doc.is_empty() && !key.doc.contains('\n'), "{name}");
    }
}

#[test]
fn every_form_of_a_line_is_read() {
    let config = parse(
        "listeners.tcp.default=0.0.0.0:5673\n  shards = 3   # as many\n\
         default_user = 'adm#in'\ndefault_pass = 'a # b'  # quoted\nheartbeat = 1\nheartbeat = 2\n\
         log.level = warning\r\nmanagement.tcp.ip = ::1\nprometheus.tcp.port = none\n",
    )
    .unwrap();
    assert_eq!(config.amqp_listeners, ["0.0.0.0:5673".parse().unwrap()]);
    assert_eq!((config.shards, config.settings.heartbeat_s, config.log.level), (Shards::Count(3), 2, "warn"));
    assert!(config.log.category_levels.is_empty(), "that of all lines");
    let both = parse("log.user.level = debug\nlog.queue.level = info\nlog.level = error\nlog.queue.level =")
        .unwrap();
    assert_eq!((both.log.level, both.log.category_levels), ("error", [("user", "debug")].into()));
    assert_eq!(config.default_user, "adm#in");
    assert_eq!(config.default_pass.expose(), b"a # b");
    assert_eq!(config.management, Some("[::1]:15672".parse().unwrap()));
    assert_eq!(config.prometheus, None);
}

#[test]
fn listeners_are_ports_or_addresses() {
    assert_eq!(set("listeners.tcp.default=1").unwrap().amqp_listeners, ["127.0.0.1:1".parse().unwrap()]);
    assert_eq!(set("listeners.tcp.default=[::]:0").unwrap().amqp_listeners, ["[::]:0".parse().unwrap()]);
    assert!(set("listeners.tcp.default=none").unwrap().amqp_listeners.is_empty());
    assert!(set("listeners.tcp.default=65536").is_err());
    assert!(set("listeners.tcp.default=localhost:1").is_err());
}

#[test]
fn the_default_user_follows_the_settings() {
    let config = parse(
        "default_vhost = shop\ndefault_user_tags.administrator = false\ndefault_user_tags.monitoring = true\n\
         default_permissions.write = ^(?!amq\\.)\n",
    )
    .unwrap();
    assert_eq!(config.settings.default_vhost, "shop");
    assert_eq!(config.default_tags, ["monitoring"]);
    assert_eq!(config.default_permissions.patterns(), [".*", "^(?!amq\\.)", ".*"]);
    assert!(parse("default_permissions.write = q(").is_err());
}

#[test]
fn loopback_users_have_two_forms() {
    let users = |text: &str| parse(text).unwrap().loopback_users;
    assert!(users("loopback_users = none").is_empty());
    assert!(users("loopback_users.guest = false").is_empty());
    assert_eq!(users("loopback_users.a = true"), ["guest", "a"]);
    assert_eq!(users("loopback_users = none\nloopback_users.b = true\nloopback_users.b = true"), ["b"]);
    assert!(parse("loopback_users. = true").is_err());
}

#[test]
fn anonymous_can_be_switched_off() {
    assert_eq!(set("anonymous_login_user=none").unwrap().settings.anonymous_login_user, None);
    assert_eq!(set("anonymous_login_user=a").unwrap().settings.anonymous_login_user.as_deref(), Some("a"));
}

#[test]
fn set_is_applied_after_the_file() {
    let config = Config::parse("shards = 2", "f", &["shards=4".into(), "heartbeat = 5".into()]).unwrap();
    assert_eq!((config.shards, config.settings.heartbeat_s), (Shards::Count(4), 5));
}

/// Tests which values are refused, and with which messages.
#[test]
fn refusals_name_their_place() {
    let lines = [
        ("\n\nshard = 2", "sluice.conf:3: unknown key 'shard'; did you mean 'shards'?"),
        ("nonsense.key = 2", "sluice.conf:1: unknown key 'nonsense.key'"),
        ("data_dir = /x", "sluice.conf:1: unknown key 'data_dir'"),
        ("shards", "sluice.conf:1: 'key = value' is needed"),
        (
            "shards = two",
            "sluice.conf:1: 'shards' cannot be 'two': a whole number from 1 to 256 is needed, or auto",
        ),
        (
            "frame_max = 511",
            "sluice.conf:1: 'frame_max' cannot be '511': a number of bytes from 512 to 16777216 is needed",
        ),
        (
            "amqp10.durable_by_default = yes",
            "sluice.conf:1: 'amqp10.durable_by_default' cannot be 'yes': true or false is needed",
        ),
        (
            "log.level = loud",
            "sluice.conf:1: 'log.level' cannot be 'loud': \
          trace, debug, info, warning, error, critical or none is needed",
        ),
        ("default_user = 'x", "sluice.conf:1: 'default_user': the quote is not closed"),
        ("default_user = 'x' y", "sluice.conf:1: 'default_user': there is text after the closing quote"),
    ];
    for (text, refusal) in lines {
        assert_eq!(parse(text).unwrap_err(), refusal);
    }
    let arguments = [
        ("heartbeats=1", "--set: unknown key 'heartbeats'; did you mean 'heartbeat'?"),
        ("heartbeat", "--set heartbeat: KEY=VALUE is needed"),
        ("heartbeat=-1", "--set: 'heartbeat' cannot be '-1': a whole number from 0 to 65535 is needed"),
        ("management.tcp.ip=here", "--set: 'management.tcp.ip' cannot be 'here': an IP address is needed"),
    ];
    for (argument, refusal) in arguments {
        assert_eq!(set(argument).unwrap_err(), refusal);
    }
}

#[test]
fn all_problems_are_reported_at_once() {
    let text = "a = 1\nshards = 3\nb.c = 2\n\nheartbeat = x\nnothing\nssl_options.dhfile = /d\n";
    let refused = Config::parse(text, "f", &["d=1".into()]).unwrap_err().to_string();
    let places: Vec<&str> = refused.lines().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(places, ["f:1", "f:3", "f:5", "f:6", "f:7", "--set"], "{refused}");
    let refused = parse(&"a = 1\n".repeat(52)).unwrap_err();
    assert_eq!((refused.lines().count(), refused.lines().last()), (51, Some("and 2 more")));
}

#[test]
fn a_file_of_rabbitmq_starts_with_a_warning() {
    let config = parse(
        "listeners.tcp.default = 5672\nlog.journald = true\nheartbeat = 30\nlog.syslog = false\n\
         cluster_formation.dns.hostname = h\ncollect_statistics = fine\n",
    )
    .unwrap();
    assert_eq!(config.settings.heartbeat_s, 30);
    assert_eq!(
        config.warnings,
        [
            "sluice.conf: keys of RabbitMQ that have no effect here: log.journald (line 2), log.syslog (line 4), \
          cluster_formation.dns.hostname (line 5), collect_statistics (line 6)"
        ]
    );
    // A key on the command line is meant for this broker. So a key without effect is an error there.
    assert!(set("log.journald=true").unwrap_err().contains("unknown key"));
    // A typo is reported as a typo, even if RabbitMQ has many keys with the same prefix.
    let refused = parse("log.levl = info").unwrap_err();
    assert!(refused.ends_with("did you mean 'log.level'?"), "{refused}");
}

#[test]
fn keys_that_protect_are_refused() {
    let refused = parse("\nmqtt.listeners.ssl.default = 8883").unwrap_err();
    assert!(
        refused.starts_with("sluice.conf:2: 'mqtt.listeners.ssl.default' is a key of RabbitMQ"),
        "{refused}"
    );
    assert!(refused.contains("not be encrypted"), "{refused}");
}

#[test]
fn the_old_name_of_a_key_goes_on_working() {
    for name in ["max_unsettled_per_consumer", "amqp10.max_unsettled_per_link"] {
        let config = parse(&format!("{name} = 7")).unwrap();
        assert_eq!(config.settings.max_unsettled_per_consumer, 7, "{name}");
    }
    let sets = ["max_unsettled_per_consumer=8".to_owned()];
    let config = Config::parse("amqp10.max_unsettled_per_link = 7", "sluice.conf", &sets).unwrap();
    assert_eq!(config.settings.max_unsettled_per_consumer, 8);
}

#[test]
fn a_node_has_the_name_of_its_machine_unless_it_is_given_one() {
    let name = |text: &str| parse(text).map(|config| config.settings.node_name);
    let own = name("").unwrap();
    assert!(own.strip_prefix("sluice@").is_some_and(|host| !host.is_empty()), "{own}");
    assert_eq!(name("node.name = auto"), Ok(own));
    assert_eq!(name("node.name = rabbit@a-1.example").as_deref(), Ok("rabbit@a-1.example"));
    for wrong in ["", "rabbit", "@h", "rabbit@", "a b@h", "a/b@h", "a@b@c", &format!("a@{}", "h".repeat(254))]
    {
        let refused = name(&format!("node.name = {wrong}")).unwrap_err();
        assert!(refused.contains("NAME@HOST"), "{refused}");
    }
}

#[test]
fn encrypted_values_are_refused() {
    for key in ["default_pass", "ssl_options.password", "cluster_name"] {
        let refused = parse(&format!("{key} = encrypted:abc+123==")).unwrap_err();
        assert!(refused.starts_with(&format!("sluice.conf:1: '{key}' is encrypted:...")), "{refused}");
        assert!(!refused.contains("abc"), "{refused}");
    }
    assert!(parse("config_entry_decoder.passphrase = secret").is_ok());
}

#[test]
fn a_repeated_key_is_a_warning() {
    let config = parse("heartbeat = 1\nshards = 2\nheartbeat = 2\nheartbeat = 3\n").unwrap();
    assert_eq!(config.settings.heartbeat_s, 3);
    assert_eq!(
        config.warnings,
        [
            "sluice.conf:3: 'heartbeat' is already set on line 1; this line counts",
            "sluice.conf:4: 'heartbeat' is already set on line 3; this line counts",
        ]
    );
}

#[test]
fn a_relative_memory_limit_is_at_most_one() {
    assert!(set("vm_memory_high_watermark.relative=1").is_ok());
    let refused = set("vm_memory_high_watermark.relative=1.1").unwrap_err();
    assert!(refused.ends_with("a number above 0 and up to 1 is needed, such as 0.6"), "{refused}");
    assert!(
        set("disk_free_limit.relative=1.5").is_ok(),
        "of the disk more may be wanted than there is memory"
    );
}

#[test]
fn bounds_are_checked_at_both_ends() {
    let cases = [
        ("max_message_size", "1", "0"),
        ("max_message_size", "536870912", "536870913"),
        ("frame_max", "512", "511"),
        ("frame_max", "16777216", "16777217"),
        ("heartbeat", "65535", "65536"),
        ("handshake_timeout", "1", "0"),
        ("session_max_per_connection", "65535", "65536"),
        ("link_max_per_session", "1", "0"),
        ("amqp10.max_link_credit", "1", "0"),
        ("amqp10.max_queue_credit", "65535", "65536"),
        ("amqp10.max_incoming_window", "1", "0"),
        ("max_unsettled_per_consumer", "0", "4294967296"),
        ("amqp10.max_unsettled_per_link", "0", "4294967296"),
        ("consumer_timeout", "1", "0"),
        ("consumer_timeout", "4294967295", "4294967296"),
        ("management.tcp.port", "65535", "65536"),
        ("prometheus.tcp.port", "0", "+1"),
        ("shards", "256", "257"),
    ];
    for (key, good, bad) in cases {
        assert!(set(&format!("{key}={good}")).is_ok(), "{key}={good}");
        assert!(set(&format!("{key}={bad}")).is_err(), "{key}={bad}");
    }
}

/// A key that counts on SIGHUP must have an effect then, and another one must have none.
#[test]
fn the_settings_that_a_running_broker_takes_are_those_whose_keys_say_so() {
    let shown = |settings: &broker::settings::Settings| format!("{settings:?}");
    let before = Config::default().settings;
    let mut reloaded = 0;
    for key in super::keys::all() {
        let name = key.name.replace('*', key.star);
        for value in ["7", "8191", "50000000", "true", "false", "adaptive", "quorum", "infinity", "x"] {
            let Ok(Config { settings: after, .. }) = set(&format!("{name}={value}")) else { continue };
            if shown(&after) != shown(&before) {
                let is_taken = shown(&before.reloaded(&after)) == shown(&after);
                assert_eq!(is_taken, key.reloads, "{name} = {value}");
                reloaded += usize::from(is_taken);
            }
        }
    }
    assert!(reloaded > 10, "{reloaded}");
}

/// Checks what the example file says: the order of the lines does not matter, and `none` restores the other
/// form.
#[test]
fn one_form_of_a_limit_replaces_the_other() {
    let (memory, disk) = ("vm_memory_high_watermark", "disk_free_limit");
    let limits = |lines: [&str; 2], sets: &[String]| {
        let alarms = Config::parse(&lines.join("\n"), "", sets).unwrap().alarms;
        (alarms.memory, alarms.disk_free)
    };
    for [memory_first, memory_second, disk_first, disk_second] in [
        ["absolute = 1GB", "relative = 0.4", "relative = 0.5", "absolute = 1MB"],
        ["relative = 0.4", "absolute = 1GB", "absolute = 1MB", "relative = 0.5"],
    ] {
        let memory = limits([&format!("{memory}.{memory_first}"), &format!("{memory}.{memory_second}")], &[]);
        assert_eq!(memory.0, Limit::Absolute(1_000_000_000));
        let disk = limits([&format!("{disk}.{disk_first}"), &format!("{disk}.{disk_second}")], &[]);
        assert_eq!(disk.1, Limit::Relative(0.5));
    }
    let file = [&*format!("{memory}.absolute = 1GB"), &*format!("{disk}.relative = 0.5")];
    let sets = [format!("{memory}.absolute=none"), format!("{disk}.relative=none")];
    assert_eq!(limits(file, &sets), (Limit::Relative(0.6), Limit::Absolute(50_000_000)));
}

/// Some editors write a byte order mark.
#[test]
fn a_byte_order_mark_is_no_key() {
    assert_eq!(parse("\u{feff}shards = 3").unwrap().shards, Shards::Count(3));
}

#[test]
fn secrets_are_never_shown() {
    let config = set("default_pass=hunter2").unwrap();
    assert_eq!(config.default_pass.expose(), b"hunter2");
    assert!(!format!("{config:?}").contains("hunter2"));
    assert!(format!("{config:?}").contains("default_pass: ***"));
    let long = "hunter2".repeat(60);
    for refused in [
        format!("default_pass={long}"),
        "defaultpass=hunter2".into(),
        "default_pass hunter2".into(),
        "default_pass:hunter2".into(),
    ] {
        assert!(!set(&refused).unwrap_err().contains("hunter2"), "{refused}");
        assert!(!parse(&refused).unwrap_err().contains("hunter2"), "{refused}");
    }
}

#[test]
fn a_file_is_named_in_its_errors() {
    let sources = Sources { file: Some("/nowhere/sluice.conf".into()), sets: Vec::new() };
    let error = Config::load(&sources).unwrap_err();
    assert!(error.to_string().starts_with("/nowhere/sluice.conf: cannot be read: "), "{error}");
}

/// Compares a file of the repository with what the program makes of its tables. With `UPDATE_EXAMPLE`, writes it.
fn assert_made(file: &str, made: &str, test: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    if std::env::var_os("UPDATE_EXAMPLE").is_some() {
        std::fs::write(&path, made).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == made, "{file} is stale: UPDATE_EXAMPLE=1 cargo test -p sluice {test}");
}

/// Returns the content of `sluice.conf.example`: every key with its description and its default or a sample, commented
/// out.
fn example() -> String {
    let mut text = String::from(
        "# Configuration of Sluice. Every key is listed with its default.\n\
         # Remove the comment sign before a line to change its key. sluice serve --config FILE reads the file.\n\
         # A variable of the environment can set a key, too: SLUICE_LOG__LEVEL sets log.level.\n",
    );
    for key in keys::all() {
        let line = match key.sample {
            "" => format!("{} = {}", key.name.replace('*', key.star), key.default),
            sample => sample.to_owned(),
        };
        text.push_str(&format!("\n# {}\n# {line}\n", key.doc));
    }
    text
}

/// The example file in the root of the repository is generated from the table.
#[test]
fn the_example_is_up_to_date() {
    let made = example();
    assert_made("sluice.conf.example", &made, "the_example");
    // Without its comment signs, the example sets every key to its default.
    let keys = made.lines().filter_map(|l| l.strip_prefix("# ")).filter(|l| l.contains(" = "));
    let (samples, keys): (Vec<&str>, Vec<&str>) =
        keys.partition(|line| keys::all().any(|key| key.sample == *line));
    parse(&samples.join("\n")).unwrap();
    let config = parse(&keys.join("\n")).unwrap();
    assert_eq!(format!("{config:?}"), format!("{:?}", Config::default()));
}

#[test]
fn tls_is_set_with_rabbitmqs_keys() {
    let config = parse(
        "listeners.ssl.default = 0.0.0.0:5671\nssl_options.certfile = /c\nssl_options.keyfile = /k\n\
         ssl_options.cacertfile = /ca\nssl_options.verify = verify_peer\nssl_options.versions.1 = tlsv1.3\n\
         ssl_cert_login_from = subject_alternative_name\nssl_cert_login_san_type = email\n\
         ssl_options.honor_cipher_order = true\nmanagement.ssl.port = 15671\nprometheus.ssl.certfile = /p\n\
         prometheus.ssl.keyfile = /q\nssl_options.depth = 2\nssl_options.password = secret\n\
         ssl_options.keyfile.b.c = /bk\nssl_options.certfile.b.c = /bc\nssl_options.certfile.a = /ac\n\
         ssl_options.keyfile.a = /ak\n",
    )
    .unwrap();
    assert_eq!(config.tls_listeners, ["0.0.0.0:5671".parse().unwrap()]);
    assert!(!format!("{config:?}").contains("secret"));
    let options = config.tls.unwrap();
    let named: Vec<_> = options.named.iter().map(|pair| pair.certificate.to_str().unwrap()).collect();
    assert_eq!((named, options.depth), (vec!["/ac", "/bc"], tls::Depth(2)));
    assert_eq!(options.password, Some(tls::Password::new("secret")));
    assert_eq!((options.verify, options.tls12, options.tls13), (tls::Verify::Optional, false, true));
    assert_eq!(options.login_from, tls::LoginFrom::AlternativeName(tls::NameKind::Email, 0));
    assert_eq!(config.management_tls, Some("127.0.0.1:15671".parse().unwrap()));
    assert_eq!(config.management_certificates.unwrap().pair, options.pair);
    let prometheus = config.prometheus_certificates.unwrap();
    assert_eq!(prometheus.pair.certificate, std::path::Path::new("/p"));
    assert_eq!((prometheus.setting, prometheus.password), ("prometheus.ssl", None));
    assert_eq!(config.prometheus_tls, None);
    assert_eq!(config.warnings.len(), 1, "honor_cipher_order has no effect");
    for (wrong, why) in [
        ("ssl_options.fail_if_no_peer_cert = true", "ssl_options.verify = verify_peer"),
        ("ssl_options.crl_file = /r", "ssl_options.verify = verify_peer"),
        ("management.ssl.certfile = /c", "management.ssl.keyfile"),
        ("prometheus.ssl.keyfile = /k", "prometheus.ssl.certfile"),
        ("ssl_options.password = secret", "ssl_options.keyfile"),
        ("management.ssl.password = secret", "management.ssl.keyfile"),
        ("ssl_options.certfile.a = /c", "ssl_options.keyfile.a"),
        ("ssl_options.keyfile.a = /k", "ssl_options.certfile.a"),
        ("ssl_options.certfile.a = /c\nssl_options.keyfile.a = /k", "ssl_options.certfile"),
    ] {
        let said = parse(wrong).unwrap_err().to_string();
        assert!(said.contains(&format!("it has no effect without {why}")), "{said}");
        assert!(!said.contains("secret"), "{said}");
    }
    for wrong in [
        "ssl_options.versions.1 = tlsv1.1",
        "ssl_options.verify = yes",
        "ssl_options.depth = 256",
        "ssl_options.certfile. = /c",
        "ssl_options.certfile.a/b = /c",
    ] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
    let said = parse("ssl_options.password = 'se\tcret'").unwrap_err().to_string();
    assert!(said.contains("'ssl_options.password' cannot be '***'"), "{said}");
    // That a password is empty is no secret. An image whose user has not set one starts with this error.
    let said = parse("default_pass =").unwrap_err().to_string();
    assert!(said.contains("'default_pass' cannot be ''"), "{said}");
    let pairs = |count| {
        let pair = |n| format!("ssl_options.certfile.{n} = /c\nssl_options.keyfile.{n} = /k\n");
        let all: String = (0..count).map(pair).collect();
        parse(&format!("ssl_options.certfile = /c\nssl_options.keyfile = /k\n{all}"))
    };
    assert!(pairs(tls::NAMED_PAIRS_MAX).is_ok());
    let said = pairs(tls::NAMED_PAIRS_MAX + 1).unwrap_err().to_string();
    assert!(said.contains("at most 64 further certificates"), "{said}");
}

#[test]
fn proxies_are_trusted_by_address() {
    let config = parse(
        "proxy_protocol = true\nproxy_protocol.trusted.1 = 10.0.0.0/8\nproxy_protocol.trusted.lb = 192.0.2.7\n\
         proxy_protocol.trusted.2 = ::1\nproxy_protocol.trusted.1 = 172.16.0.0/12\n",
    )
    .unwrap();
    let proxies = config.proxies.unwrap();
    for (address, is_trusted) in
        [("172.16.0.1", true), ("192.0.2.7", true), ("::1", true), ("10.0.0.1", false), ("192.0.2.8", false)]
    {
        assert_eq!(proxies.contains(address.parse().unwrap()), is_trusted, "{address}");
    }
    assert_eq!(
        set("proxy_protocol.trusted.1=10.0.0.1").unwrap_err(),
        "--set: proxy_protocol.trusted: it has no effect without proxy_protocol = true"
    );
    let off = parse("proxy_protocol.trusted.1 = 10.0.0.1\nproxy_protocol.trusted.1 =\n").unwrap();
    assert_eq!(off.proxies, None, "an empty value takes the address away");
    assert_eq!(
        set("proxy_protocol=true").unwrap_err(),
        "--set: proxy_protocol: nobody could connect: set proxy_protocol.trusted.1 to the address of the proxy, or to its network"
    );
    assert_eq!(
        parse("proxy_protocol.trusted.1 = 10.0.0.5/8").unwrap_err(),
        "sluice.conf:1: 'proxy_protocol.trusted.1' cannot be '10.0.0.5/8': \
         the address has bits outside the network: 10.0.0.0/8 is needed"
    );
    assert!(set("proxy_protocol.trusted.1=proxy.example").is_err());
    assert!(set("proxy_protocol.trusted.=10.0.0.1").is_err());
}

#[test]
fn a_unix_socket_has_a_path_and_permissions() {
    let config =
        parse("listeners.unix.default = /run/sluice/amqp.sock\nlisteners.unix.mode = 0660\n").unwrap();
    assert_eq!(config.unix_listener.as_deref(), Some("/run/sluice/amqp.sock"));
    assert_eq!(config.unix_mode, 0o660);
    assert_eq!(set("listeners.unix.default=none").unwrap().unix_listener, None);
    let long = format!("listeners.unix.default=/{}", "x".repeat(107));
    for wrong in ["listeners.unix.default=amqp.sock", "listeners.unix.default=", &long] {
        assert!(set(wrong).unwrap_err().contains("an absolute path of at most 107 bytes is needed, or none"));
    }
    for wrong in ["66", "0680", "1777", "+660", "00660", ""] {
        assert!(set(&format!("listeners.unix.mode={wrong}")).is_err(), "{wrong}");
    }
    assert_eq!(set("listeners.unix.mode=660").unwrap().unix_mode, 0o660);
}

#[test]
fn definitions_come_from_one_place() {
    let path = |text: &str| {
        let config = Config::parse(text, "c", &[]).map_err(|error| error.to_string())?;
        Ok::<_, String>((config.load_definitions, config.definitions_key))
    };
    assert_eq!(path("load_definitions = /d"), Ok((Some("/d".into()), "load_definitions")));
    let backend = "definitions.import_backend = local_filesystem\n";
    let local = "definitions.local.path = /d\n";
    assert_eq!(path(&format!("{backend}{local}")), Ok((Some("/d".into()), "definitions.local.path")));
    assert!(path(&format!("{backend}{local}load_definitions = /d")).is_ok(), "both name the same");
    for (text, problem) in [
        (
            format!("{backend}{local}load_definitions = /e"),
            "c:2: definitions.local.path: load_definitions names other definitions: only one of the keys is possible",
        ),
        (
            backend.to_owned(),
            "c:1: definitions.import_backend: it has no effect without definitions.local.path",
        ),
        (
            local.to_owned(),
            "c:1: definitions.local.path: it has no effect without definitions.import_backend = local_filesystem",
        ),
        (
            "definitions.import_backend = https".to_owned(),
            "c:1: 'definitions.import_backend' cannot be 'https': local_filesystem or none is needed: definitions are read from files only",
        ),
    ] {
        assert_eq!(path(&text), Err(problem.to_owned()));
    }
}

#[test]
fn no_value_of_a_secret_key_is_shown() {
    const MARKER: &str = "Zq0-marker";
    let secret: Vec<_> = keys::all().filter(|key| key.secret).collect();
    assert!(secret.len() >= 5);
    let mut refused = 0;
    for key in secret {
        for part in ["x.password", "x.pasword", "password", "x"] {
            let name = key.name.replace('*', part);
            for bad in [
                MARKER.to_owned(),
                format!("{MARKER}\u{0}"),
                format!("'{MARKER}"),
                format!("'{MARKER}' more"),
                format!("{MARKER} = {MARKER}"),
                MARKER.repeat(10_000),
            ] {
                for read in [
                    parse(&format!("{name} = {bad}")),
                    parse(&format!("{name} {bad}")),
                    parse(&format!("{name}x = {bad}")),
                    set(&format!("{name}={bad}")),
                    set(&format!("{name} {bad}")),
                ] {
                    refused += usize::from(read.is_err());
                    let shown = read.map_or_else(|why| why, |config| format!("{config:?}"));
                    assert!(!shown.contains(MARKER), "{name}: {shown:?}");
                }
            }
        }
    }
    assert!(refused > 100, "{refused}");
}

/// RabbitMQ reads `ab#cd` as `ab`. Who writes that has probably meant a password with a `#`.
#[test]
fn a_value_with_a_sign_of_comments_needs_quotes() {
    for text in ["default_pass = ab#cd", "default_pass = ab#cd # more"] {
        assert_eq!(
            parse(text).unwrap_err(),
            "sluice.conf:1: 'default_pass': a # inside a value needs quotes: write 'VALUE'; before a comment, it needs a space"
        );
    }
    assert_eq!(parse("default_pass = 'ab#cd'# a comment").unwrap().default_pass.expose(), b"ab#cd");
    assert_eq!(parse("default_pass = ab #cd").unwrap().default_pass.expose(), b"ab");
    assert_eq!(set("default_pass=ab#cd").unwrap().default_pass.expose(), b"ab#cd");
}

#[test]
fn the_older_key_of_definitions_is_taken() {
    let config = parse("management.load_definitions = /d").unwrap();
    assert_eq!(
        (config.load_definitions, config.definitions_key),
        (Some("/d".into()), "management.load_definitions")
    );
    assert!(parse("management.load_definitions = /d\nload_definitions = /d").is_ok(), "both name the same");
    assert_eq!(
        parse("management.load_definitions = /d\nload_definitions = /e").unwrap_err(),
        "sluice.conf:1: management.load_definitions: load_definitions names other definitions: only one of the keys is possible"
    );
}

#[test]
fn a_name_of_another_kind_says_what_to_write() {
    let refused = set("ssl_cert_login_san_type=other_name").unwrap_err();
    assert!(
        refused.contains("dns, ip, email or uri is needed: names of the kind other_name are not read"),
        "{refused}"
    );
}

#[test]
fn a_login_server_has_a_time_to_connect_and_one_to_answer() {
    let http = parse("auth_http.connection_timeout = 7\nauth_http.request_timeout = 8").unwrap().auth_http;
    assert_eq!((http.connect_timeout_ms, http.timeout_ms), (7, 8));
    assert!(parse("auth_http.connection_timeout = 0").is_err());
}
