//! Where the configuration of the built broker comes from, how it is checked and shown, and what it takes while it runs.

use crate::broker;

use std::process::Command;

use broker::verb::{Did, finish, sluice};
use broker::{Broker, Directory, PROGRAM, Starting};
use serde_json::{Value, json};

/// Writes files of a directory, and returns the path of the first one.
fn write(directory: &Directory, files: &[(&str, &str)]) -> String {
    for (name, text) in files {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    directory.path().join(files[0].0).display().to_string()
}

/// Returns `sluice VERB config` with these words, a file and an environment.
fn config(verb: &str, words: &[&str], file: &str, environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args([verb, "config"]).args(words).args(["--config", file]).envs(environment.iter().copied());
    command
}

#[test]
fn each_value_is_shown_with_its_place() {
    let directory = Directory::new("configuration");
    let files = [
        ("sluice.conf", "shards = 2\ndefault_pass = hunter2\nheartbeat = 9\n"),
        ("conf.d/10.conf", "\nheartbeat = 8\n"),
    ];
    let file = write(&directory, &files);
    let environment = [("SLUICE_CLUSTER_NAME", "shop"), ("SLUICE_DEFAULT_VHOST", "v")];
    let mut show = config("show", &["--only-set", "--json", "--set", "default_vhost=w"], &file, &environment);
    let shown: Value = serde_json::from_str(&finish(&mut show, b"").done()).unwrap();
    let place = |name: &str, line: u32| format!("{}:{line}", directory.path().join(name).display());
    let row = |key: &str, value: &str, from: &str| json!({"key": key, "value": value, "from": from});
    let expected = [
        row("heartbeat", "8", &place("conf.d/10.conf", 2)),
        row("shards", "2", &place("sluice.conf", 1)),
        row("default_pass", "***", &place("sluice.conf", 2)),
        row("default_vhost", "w", "--set"),
        row("cluster_name", "shop", "SLUICE_CLUSTER_NAME"),
    ];
    let mut rows = shown.as_array().unwrap().clone();
    for row in expected {
        let at =
            rows.iter().position(|shown| *shown == row).unwrap_or_else(|| panic!("{row} is not in {rows:?}"));
        rows.remove(at);
    }
    assert_eq!(rows, [json!(null); 0]);

    let table = finish(&mut config("show", &[], &file, &[]), b"").done();
    assert!(
        table.lines().any(|line| line.starts_with("max_message_size ") && line.ends_with(" default")),
        "{table}"
    );
    assert!(!table.contains("hunter2"));
}

/// Requires wrong usage, and one line of error for each of these parts.
#[track_caller]
fn assert_refused(refused: &Did, parts: &[&str]) {
    assert_eq!((refused.code, refused.err.lines().count()), (2, parts.len()), "{refused:?}");
    for (line, part) in refused.err.lines().zip(parts) {
        assert!(line.contains(part), "{part} is not in {line}");
    }
}

#[test]
fn a_check_reports_everything_for_which_the_broker_would_not_start() {
    let directory = Directory::new("configuration");
    let file = write(&directory, &[("sluice.conf", "shards = 2\nheartbeat = 1\nheartbeat = 2\n")]);
    let checked = finish(&mut config("check", &[], &file, &[("SLUICE_PORT", "tcp://10.0.0.1:1")]), b"");
    assert_eq!((checked.code, checked.out), (0, format!("the configuration is valid ({file})\n")));
    assert!(checked.err.contains("sluice.conf:3: 'heartbeat' is already set on line 2"), "{}", checked.err);
    assert!(checked.err.contains("set no key: SLUICE_PORT"), "{}", checked.err);

    let file = write(&directory, &[("sluice.conf", "shard = 2\n"), ("conf.d/a.conf", "\nheartbeat = x\n")]);
    let refused = finish(&mut config("check", &[], &file, &[("SLUICE_LOG__LEVEL", "loud")]), b"");
    assert_refused(
        &refused,
        &["sluice.conf:1: unknown key 'shard'", "conf.d/a.conf:2: 'heartbeat'", "SLUICE_LOG__LEVEL: "],
    );

    std::fs::remove_dir_all(directory.path().join("conf.d")).unwrap();
    let text = "listeners.ssl.default = 5671\nmanagement.ssl.port = 15671\nmanagement.ssl.certfile = /none/c\n\
                management.ssl.keyfile = /none/k\nload_definitions = /none/d\n";
    let file = write(&directory, &[("sluice.conf", text)]);
    let refused = finish(&mut config("check", &[], &file, &[]), b"");
    let problems =
        ["listeners.ssl.default: it needs", "management.ssl.port: ", "load_definitions: /none/d: "];
    assert_refused(&refused, &problems);
}

/// Definitions are examined without a broker. What is missing from them may be in the broker, so that is only a warning.
#[test]
fn a_check_examines_definitions() {
    let directory = Directory::new("configuration");
    let definitions = [
        r#"{"vhosts":[{"name":"v"}],"#,
        r#""permissions":[{"user":"ann","vhost":"v","configure":"","write":"","read":""}],"#,
        r#""policies":[{"vhost":"v","name":"p","pattern":"(","definition":{"max-length":1}}],"#,
        r#""queues":[{"vhost":"v","name":"q","arguments":{"x-queue-type":"foo"}},"#,
        r#"{"vhost":"w","name":"r"}],"#,
        r#""bindings":[{"vhost":"v","source":"x","destination":"q"},{"vhost":"v","source":"amq.topic","destination":"q"}]}"#,
    ];
    let text = definitions.join("\n");
    let conf = "load_definitions = DIR/d.json\n".replace("DIR", directory.path().to_str().unwrap());
    let file = write(&directory, &[("sluice.conf", &conf), ("d.json", &text)]);
    let checked = finish(&mut config("check", &["--data-dir", "/none"], &file, &[]), b"");
    let lines: Vec<&str> = checked.err.lines().collect();
    assert_eq!((checked.code, lines.len()), (2, 5), "{checked:?}");
    for (line, parts) in lines.iter().zip([
        ["line 2: ", "user 'ann' is not among the definitions"],
        ["line 5: ", "vhost 'w' is not among the definitions"],
        ["line 6: ", "exchange 'x' is not among the definitions"],
        ["line 3: policy 'p' in vhost 'v': ", "Validation failed"],
        ["line 4: queue 'q' in vhost 'v': ", "queue type 'foo'"],
    ]) {
        let place = ["sluice.conf:1: load_definitions: ", "d.json: "];
        place.iter().chain(&parts).for_each(|part| assert!(line.contains(part), "{part} is not in {line}"));
    }
}

/// The default type of a queue decides which arguments it may have, as when the broker carries the definitions out.
#[test]
fn a_check_of_definitions_knows_the_default_types_of_queues() {
    let directory = Directory::new("configuration");
    let definitions = [
        r#"{"vhosts":[{"name":"v","default_queue_type":"stream"},{"name":"d"}],"#,
        r#""queues":[{"vhost":"v","name":"q1","arguments":{"x-max-age":"7D"}},"#,
        r#"{"vhost":"d","name":"q2","arguments":{"x-delivery-limit":3}},"#,
        r#"{"vhost":"elsewhere","name":"q3","arguments":{"x-max-age":"7D"}},"#,
        r#"{"vhost":"v","name":"q4","auto_delete":true,"arguments":{"x-max-age":"7D"}},"#,
        r#"{"vhost":"d","name":"q5","arguments":{"x-max-age":"7D"}},"#,
        r#"{"vhost":"v","name":"q6","durable":false,"arguments":{"x-queue-type":"stream"}},"#,
        r#"{"vhost":"elsewhere","name":"q7","arguments":{"x-queue-type":"classic","x-max-age":"7D"}}]}"#,
    ];
    let conf = "load_definitions = DIR/d.json\ndefault_queue_type = quorum\n"
        .replace("DIR", directory.path().to_str().unwrap());
    let file = write(&directory, &[("sluice.conf", &conf), ("d.json", &definitions.join("\n"))]);
    let checked = finish(&mut config("check", &["--data-dir", "/none"], &file, &[]), b"");
    let refused: Vec<&str> = checked.err.lines().filter(|line| !line.contains("is not among")).collect();
    assert_eq!((checked.code, refused.len()), (2, 4), "{checked:?}");
    for (line, why) in refused.iter().zip([
        "line 5: queue 'q4' in vhost 'v': invalid arg 'x-max-age' for queue 'q4' in vhost 'v': queue type 'classic'",
        "line 6: queue 'q5' in vhost 'd': invalid arg 'x-max-age' for queue 'q5' in vhost 'd': queue type 'quorum'",
        "line 7: queue 'q6' in vhost 'v': invalid property 'non-durable'",
        "line 8: queue 'q7' in vhost 'elsewhere': invalid arg 'x-max-age'",
    ]) {
        assert!(line.contains(why), "{why} is not in {line}");
    }
}

#[test]
fn a_check_says_how_many_more_names_a_broker_must_have() {
    let directory = Directory::new("configuration");
    let queues: Vec<String> = (0..23).map(|n| format!(r#"{{"vhost":"v{n}","name":"q"}}"#)).collect();
    let conf = "load_definitions = DIR/d.json\n".replace("DIR", directory.path().to_str().unwrap());
    let text = format!(r#"{{"queues":[{}]}}"#, queues.join(","));
    let file = write(&directory, &[("sluice.conf", &conf), ("d.json", &text)]);
    let checked = finish(&mut config("check", &["--data-dir", "/none"], &file, &[]), b"");
    let lines: Vec<&str> = checked.err.lines().collect();
    assert_eq!((checked.code, lines.len()), (0, 21), "{checked:?}");
    assert!(lines[19].contains("vhost 'v19' is not among the definitions"), "{checked:?}");
    assert!(lines[20].ends_with("d.json: and 3 more that are not among the definitions"), "{checked:?}");
}

/// What is wrong in files that the configuration names is reported with the line that names the file. Each case is a configuration
/// and the whole report, in which `DIR` is the directory.
#[test]
fn a_strict_check_lists_what_should_not_go_into_production() {
    let directory = Directory::new("configuration");
    let files = [
        ("sluice.conf", "listeners.tcp.default = 0.0.0.0:5672\nloopback_users.guest = false\n"),
        ("good.conf", "default_user = ops\ndefault_pass = hunter2\n"),
    ];
    let file = write(&directory, &files);
    finish(&mut config("check", &[], &file, &[]), b"").done();
    let strict = |file: &str| finish(&mut config("check", &["--strict"], file, &[]), b"");
    let did = strict(&file);
    let place = |line: u32| format!("{file}:{line}: ");
    let expected = [
        "sluice: default_pass: a new data directory begins with user 'guest' and the password 'guest'"
            .to_owned(),
        format!("{}loopback_users: user 'guest' may log in from other machines", place(2)),
        "anonymous_login_user: clients without credentials become user 'guest', at 0.0.0.0:5672".to_owned(),
        format!("{}listeners.tcp: passwords and messages cross the network at 0.0.0.0:5672", place(1)),
    ];
    assert_eq!((did.code, did.err.lines().count()), (1, expected.len()), "{did:?}");
    assert!(did.err.lines().zip(&expected).all(|(line, start)| line.starts_with(start)), "{did:?}");
    let good = directory.path().join("good.conf");
    assert!(strict(good.to_str().unwrap()).done().contains("the configuration is valid"));
}

#[test]
fn what_a_setting_names_is_checked_and_reported_with_its_line() {
    let cases = [
        (
            "# no certificate\nlisteners.ssl.default = 5671\n",
            &[
                "DIR/sluice.conf:2: listeners.ssl.default: it needs a certificate: set ssl_options.certfile and \
               ssl_options.keyfile",
            ][..],
        ),
        (
            "listeners.ssl.default = 5671\nssl_options.certfile = DIR/bad.pem\nssl_options.keyfile = DIR/none.key\n",
            &[
                "DIR/sluice.conf:2: ssl_options.certfile: the certificate for listeners.ssl.default: DIR/bad.pem: \
               there is no CERTIFICATE in it",
            ],
        ),
        (
            "management.ssl.port = 15671\n\nmanagement.ssl.keyfile = DIR/none.key\nmanagement.ssl.certfile = DIR/none.pem\n",
            &[
                "DIR/sluice.conf:4: management.ssl.certfile: the certificate for management.ssl.port: cannot read \
               DIR/none.pem: No such file or directory (os error 2)",
            ],
        ),
        (
            "\nload_definitions = DIR/bad.json\n",
            &[
                "DIR/sluice.conf:2: load_definitions: DIR/bad.json: line 2: queue 'q' in vhost '/': 'durable' is \
               not a boolean",
            ],
        ),
        (
            "definitions.import_backend = local_filesystem\ndefinitions.local.path = DIR/none\n",
            &["DIR/sluice.conf:2: definitions.local.path: DIR/none: No such file or directory (os error 2)"],
        ),
        (
            "auth_backends.1 = internal\nauth_backends.2 = ldap\n",
            &[
                "DIR/sluice.conf:2: 'auth_backends.2' cannot be 'ldap': internal, oauth2, http or cache is needed; \
                 Sluice has no other backends",
            ],
        ),
        (
            "auth_backends.1 = http\nauth_http.user_path = ftp://h/\n",
            &["DIR/sluice.conf:2: auth_http.user_path: 'ftp://h/' must be a URL with http:// or https://"],
        ),
        (
            "auth_backends.1 = http\nauth_http.ssl_options.cacertfile = DIR/none.pem\n",
            &[
                "DIR/sluice.conf:2: auth_http.ssl_options.cacertfile: cannot read DIR/none.pem: No such file or \
               directory (os error 2)",
            ],
        ),
        (
            "auth_backends.1 = internal\nauth_backends.2 = oauth2\n",
            &["DIR/sluice.conf:2: auth_oauth2.resource_server_id: it must be set"],
        ),
        (
            "auth_backends.1 = oauth2\nauth_oauth2.resource_server_id = r\n\nauth_oauth2.signing_keys.a = DIR/bad.pem\n",
            &["DIR/sluice.conf:4: auth_oauth2.signing_keys.a: DIR/bad.pem: this is not PEM; a secret needs \
               auth_oauth2.algorithms with HS256, HS384 or HS512"],
        ),
        (
            "http_dispatch.auth_backends.1 = oauth2\nauth_oauth2.resource_server_id = r\nauth_oauth2.issuer = http://h\n",
            &[
                "DIR/sluice.conf:3: auth_oauth2.issuer: 'http://h/.well-known/openid-configuration' must be a URL that starts \
               with https://",
            ],
        ),
        (
            "listeners.ssl.default = 5671\nload_definitions = DIR/none\nauth_backends.1 = oauth2\n",
            &[
                "DIR/sluice.conf:1: listeners.ssl.default: it needs a certificate: set ssl_options.certfile and \
                 ssl_options.keyfile",
                "DIR/sluice.conf:2: load_definitions: DIR/none: No such file or directory (os error 2)",
                "DIR/sluice.conf:3: auth_oauth2.resource_server_id: it must be set",
            ],
        ),
    ];
    let directory = Directory::new("configuration");
    let path = directory.path().display().to_string();
    let files = [
        ("bad.pem", "no certificate\n"),
        ("bad.json", "{\"queues\": [\n{\"name\": \"q\", \"vhost\": \"/\", \"durable\": 1}]}\n"),
    ];
    write(&directory, &files);
    let mut wrong = Vec::new();
    for (text, expected) in cases {
        let file = write(&directory, &[("sluice.conf", &text.replace("DIR", &path))]);
        let refused = finish(&mut config("check", &[], &file, &[]), b"");
        let said = refused.err.replace(&path, "DIR");
        let expected_all = format!("sluice: {}", expected.join("\n"));
        if (refused.code, said.trim_end()) != (2, &expected_all) {
            wrong.push(format!("{text}is:     {said}wanted: {expected_all}"));
        }
        // A start is refused, too, and names the first of these lines, or the second if its file is read earlier.
        let before = directory.logged().len();
        assert!(Starting::spawn_with(&directory, &["--config", &file]).try_finish().is_err(), "{text}");
        let said = directory.logged()[before..].replace(&path, "DIR");
        assert!(expected.iter().any(|line| said.contains(line)), "{text}{said}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn the_environment_names_the_file_and_the_data_directory() {
    let directory = Directory::new("configuration");
    let file =
        write(&directory, &[("sluice.conf", "management.tcp.port = none\nprometheus.tcp.port = none\n")]);
    let data = directory.path().join("of-the-environment");
    let mut command = Command::new(PROGRAM);
    command.args(["serve", "--set", "listeners.tcp.default=none"]);
    command.env("SLUICE_CONFIG_FILE", &file).env("SLUICE_DATA_DIR", &data).env("SLUICE_LOG__LEVEL", "error");
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("Server startup complete") {
        line.clear();
        assert_ne!(std::io::BufRead::read_line(&mut out, &mut line).unwrap(), 0, "the broker did not start");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(data.is_dir());
}

/// Sends SIGHUP, and waits until the log has a line that it had not before.
fn read_again(broker: &Broker, directory: &Directory, line: &str) {
    let count = || directory.logged().matches(line).count();
    let before = count();
    broker.hang_up();
    while count() == before {
        std::thread::yield_now();
    }
}

#[test]
fn a_hangup_uses_what_can_change_and_names_what_needs_a_restart() {
    let directory = Directory::new("configuration");
    let file = write(&directory, &[("sluice.conf", "frame_max = 65536\n")]);
    let broker = Starting::spawn_with(&directory, &["--config", &file]).finish();
    let alarms = || sluice(&["check", "alarms", "--url", &broker.http_url()]).code;
    assert_eq!(alarms(), 0);
    read_again(&broker, &directory, "the configuration was read again: nothing has changed");

    write(
        &directory,
        &[(
            "sluice.conf",
            "frame_max = 4096\nvm_memory_high_watermark.absolute = 1kB\nlog.user.level = none\n",
        )],
    );
    read_again(&broker, &directory, "in use from now on: log.user.level, vm_memory_high_watermark.absolute");
    assert!(directory.logged().contains("these settings have changed and need a restart: frame_max"));
    // The watch over the memory measures in its own thread.
    while alarms() == 0 {}
    let logins = || directory.logged().matches("what=\"login\"").count();
    let before = logins();
    assert_eq!(broker.list("queues"), json!([]));
    assert_eq!(logins(), before, "the level of audit lines has changed");

    write(&directory, &[("sluice.conf", "frames_max = 20\n")]);
    read_again(&broker, &directory, "sluice.conf:1: unknown key 'frames_max'");
    assert_ne!(alarms(), 0, "a configuration that is refused changes nothing");

    write(&directory, &[("sluice.conf", "frame_max = 65536\n")]);
    read_again(&broker, &directory, "in use from now on: log.user.level, vm_memory_high_watermark.absolute");
    while alarms() != 0 {}
    assert_eq!(directory.logged().matches("need a restart").count(), 1, "the setting is as at the start");
    assert!(broker.terminate().success());
}

#[test]
fn a_limit_that_is_lowered_counts_for_the_next_connection() {
    let directory = Directory::new("configuration");
    let file = write(&directory, &[("sluice.conf", "")]);
    let broker = Starting::spawn_with(&directory, &["--config", &file]).finish();
    let send = || sluice(&["send", "orders", "hello", "--url", &broker.amqp_url()]);
    assert_eq!(sluice(&["declare", "queue", "orders", "--url", &broker.http_url()]).code, 0);
    assert_eq!(send().code, 0);
    for (limit, code) in [("0", 1), ("infinity", 0)] {
        write(&directory, &[("sluice.conf", &format!("max_connections = {limit}\n"))]);
        read_again(&broker, &directory, "in use from now on: max_connections");
        let sent = send();
        assert_eq!(sent.code, code, "{sent:?}");
    }
    assert!(broker.terminate().success());
}

#[test]
fn a_running_broker_shows_the_settings_in_force() {
    let directory = Directory::new("running");
    let text = "heartbeat = 9\nframe_max = 64KiB\ndefault_users.ops.password = hunter2\n";
    let file = write(&directory, &[("sluice.conf", text)]);
    let broker = Starting::spawn_with(&directory, &["--config", &file]).finish();
    let row = |key: &str| {
        let (status, answer) = broker.get("/api/config/effective");
        assert_eq!(status, 200);
        let rows = answer["config"].as_array().unwrap().clone();
        rows.into_iter().find(|row| row["key"] == key).unwrap_or_else(|| panic!("{key} is not in {answer}"))
    };
    let of = |key: &str, value: &str, from: &str| json!({"key": key, "value": value, "from": from});
    assert_eq!(row("heartbeat"), of("heartbeat", "9", &format!("{file}:1")));
    assert_eq!(row("frame_max"), of("frame_max", "64KiB", &format!("{file}:2")));
    assert_eq!(row("max_message_size"), of("max_message_size", "16777216", "default"));
    let (_, answer) = broker.get("/api/config/effective");
    assert!(!answer.to_string().contains("hunter2"), "{answer}");
    assert_eq!(row("default_users.ops.password")["value"], "***");

    write(&directory, &[("sluice.conf", "frame_max = 8192\nchannel_max = 5\n")]);
    read_again(&broker, &directory, "in use from now on: channel_max, heartbeat");
    assert_eq!(row("heartbeat"), of("heartbeat", "60", "default"));
    assert_eq!(row("channel_max"), of("channel_max", "5", &format!("{file}:2")));
    assert_eq!(row("frame_max"), of("frame_max", "64KiB", &format!("{file}:2")), "it needs a restart");

    let shown = broker.verb(&["show", "config", "--running", "--only-set", "--json"]).done();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let keys: Vec<&str> = shown.as_array().unwrap().iter().map(|row| row["key"].as_str().unwrap()).collect();
    assert!(keys.contains(&"channel_max") && !keys.contains(&"heartbeat"), "{keys:?}");
    let table = broker.verb(&["show", "config", "--running"]).done();
    assert!(
        table.lines().any(|line| line.starts_with("heartbeat ") && line.ends_with(" default")),
        "{table}"
    );
    broker.verb(&["show", "config", "--running", "--set", "heartbeat=1"]).refused(2, &["--set"]);
    broker.verb(&["show", "config", "--running", "--config", "sluice.conf"]).refused(2, &["--config"]);
    assert!(broker.terminate().success());
}
