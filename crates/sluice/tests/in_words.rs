//! What the verbs say to an operator in words: the status, lists, alarms, what a verb waits for, and why TLS fails.

use crate::{authority, broker};

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use authority::{Authority, port, start, wait_for};
use broker::verb::{finish, sluice};
use broker::{Broker, Directory, PROGRAM, Starting};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use serde_json::{Value, json};

#[test]
fn the_status_is_in_words() {
    let directory = Directory::new("words");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "q"]).done();
    broker.verb(&["send", "q", "x", "--count", "3"]).done();
    let status = || broker.verb(&["status"]).done();
    let shown = status();
    let port = broker.amqp_port;
    for line in [
        &format!("version            {}, behaves as RabbitMQ 4.3.6", env!("CARGO_PKG_VERSION")),
        "alarms             none",
        &format!("listeners          amqp at 127.0.0.1:{port}"),
        "queues             1, with 3 messages: 3 ready, 0 unacknowledged",
        "connections        0, with 0 sessions of AMQP 1.0, 0 channels of AMQP 0.9.1, 0 consumers",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line} is not in {shown}");
    }
    for part in [
        "\nuptime             ",
        " free, publishers are stopped below 50 MB (47.7 MiB)\n",
        "\nfile descriptors   ",
    ] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    broker.verb(&["set", "limit", "memory", "1kB"]).done();
    while broker.get("/api/nodes").1[0]["mem_alarm"] != true {}
    let shown = status();
    let alarm = shown.lines().find(|line| line.starts_with("alarms")).unwrap();
    assert!(
        alarm.contains("memory: ") && alarm.ends_with("the limit is 1 kB; publishers are stopped"),
        "{shown}"
    );
    broker
        .verb(&["check", "alarms"])
        .refused(1, &["cannot check alarms", "alarm on sluice@localhost: memory: ", "the limit is 1 kB"]);
    let checked = broker.verb(&["check", "alarms", "--json"]);
    assert!(checked.code == 1 && checked.out.contains("\"resource\": \"memory\""), "{checked:?}");
}

#[test]
fn rows_and_columns_of_lists_are_chosen() {
    let directory = Directory::new("words");
    let broker = Broker::start(&directory);
    for (queue, count) in [("few", "9"), ("many", "10"), ("none", "0")] {
        broker.verb(&["declare", "queue", queue]).done();
        if count != "0" {
            broker.verb(&["send", queue, "x", "--count", count]).done();
        }
    }
    let list = |words: &[&str]| broker.verb(&[&["list", "queues"], words].concat());
    let names = |words: &[&str]| {
        let shown = list(words).done();
        shown.lines().skip(1).map(|line| line.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let heading = |words: &[&str]| list(words).done().lines().next().unwrap().to_owned();
    assert!(!heading(&[]).contains("VHOST"), "all are in the default virtual host");
    for column in ["AGE S", "PUBLISH/S", "DELIVER/S"] {
        assert!(heading(&[]).contains(column), "{column}");
    }
    assert_eq!(names(&["--sort", "messages"]), ["none", "few", "many"]);
    assert_eq!(names(&["--sort", "messages", "--reverse"]), ["many", "few", "none"]);
    assert_eq!(names(&["--filter", "messages>0", "--filter", "name~^f"]), ["few"]);
    assert_eq!(names(&["--filter", "age_s>=0", "--sort", "name"]), ["few", "many"]);
    let chosen = list(&["--columns", "messages,name,message_stats.publish", "--filter", "name=few"]).done();
    assert_eq!(chosen, "MESSAGES  NAME  MESSAGE_STATS.PUBLISH\n       9  few                       9");
    let chosen = list(&["--columns", "name,ready", "--filter", "name=few", "--json"]).done();
    let chosen: Value = serde_json::from_str(&chosen).unwrap();
    assert_eq!(chosen, json!([{"name": "few", "messages_ready": 9}]));
    let whole = broker.list("queues");
    assert!(whole[0].get("age_s").is_none() && whole[0].get("message_stats").is_some(), "{whole}");
    list(&["--sort", "size"]).refused(2, &["--sort: there is no column 'size'", "messages", "age-s"]);

    broker.verb(&["add", "vhost", "team"]).done();
    broker.verb(&["declare", "queue", "few", "-p", "team"]).done();
    assert!(heading(&[]).contains("NAME  VHOST  TYPE"));
    assert_eq!(names(&["--filter", "vhost=team"]), ["few"]);
    assert!(!heading(&["-p", "team"]).contains("VHOST"));
    for (what, heading) in [("exchanges", "NAME                VHOST  TYPE"), ("bindings", "VHOST  SOURCE")] {
        let shown = broker.verb(&["list", what]).done();
        assert!(shown.starts_with(heading), "{shown}");
    }
}

/// The verb says on standard error what it waits for, and goes on when the alarm ends.
#[test]
fn send_says_that_an_alarm_stops_it() {
    let directory = Directory::new("words");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "q"]).done();
    broker.verb(&["set", "limit", "memory", "1kB"]).done();
    while broker.get("/api/nodes").1[0]["mem_alarm"] != true {}
    let mut send = Command::new(PROGRAM);
    send.args(["send", "q", "x", "--url", &broker.amqp_url()]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut send = send.spawn().unwrap();
    // On a slow machine it waits for the login, too.
    let mut lines = BufReader::new(send.stderr.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.find(|line| line != "sluice: waiting for the answer of the broker");
    assert_eq!(
        line.as_deref(),
        Some(
            "sluice: waiting for the end of an alarm: the broker has stopped publishers; `sluice status` says why"
        )
    );
    broker.verb(&["clear", "limit", "memory"]).done();
    let done = send.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(done.stdout).unwrap(), "1 message sent to /queues/q: accepted\n");
}

#[test]
fn a_user_without_tags_is_told_how_to_get_some() {
    let directory = Directory::new("words");
    let broker = Broker::start(&directory);
    let added = broker.verb(&["add", "user", "anna", "--no-password"]).done();
    assert!(added.contains("no tags") && added.contains("`sluice set tags`"), "{added}");
    let added = broker.verb(&["add", "user", "bob", "--no-password", "--tags", "management"]).done();
    assert_eq!(added, "user 'bob' is created");
}

/// Misspelt names are taken, as by RabbitMQ, but not in silence.
#[test]
fn unknown_arguments_and_tags_have_a_warning() {
    let directory = Directory::new("words");
    let broker = Broker::start(&directory);
    let warned = |words: &[&str], done: &str, warning: &str| {
        let verb = broker.verb(words);
        assert_eq!((verb.code, verb.out.trim()), (0, done), "{verb:?}");
        assert_eq!(verb.err.trim(), warning, "{words:?}");
    };
    let argument = |name: &'static str| ["--argument", name];
    let queue = [&["declare", "queue", "q"][..], &argument("x-mesage-ttl=5"), &argument("note=1")].concat();
    let unknown = "sluice: warning: argument 'x-mesage-ttl' of queue 'q' is unknown and has no effect; did you mean 'x-message-ttl'?";
    warned(&queue, "queue 'q' is declared", unknown);
    let exchange = [&["declare", "exchange", "e"][..], &argument("x-none=1")].concat();
    let unknown = "sluice: warning: argument 'x-none' of exchange 'e' is unknown and has no effect";
    warned(&exchange, "exchange 'e' is declared", unknown);
    let known =
        [&["declare", "queue", "known"][..], &argument("x-message-ttl=5"), &argument("note=1")].concat();
    warned(&known, "queue 'known' is declared", "");

    let tags = "Those that do: administrator, monitoring, policymaker, management, impersonator";
    let unknown =
        format!("sluice: warning: tag 'managemnt' gives no rights; did you mean 'management'? {tags}");
    let add = ["add", "user", "anna", "--no-password", "--tags", "managemnt,monitoring"];
    warned(&add, "user 'anna' is created", &unknown);
    let unknown = format!("sluice: warning: tag 'team-a' gives no rights. {tags}");
    let of_anna = "the tags of user 'anna' are set";
    warned(&["set", "tags", "anna", "management", "team-a"], of_anna, &unknown);
    warned(&["set", "tags", "anna", "management"], of_anna, "");
}

/// The commands of the management API ask the broker that the variable for AMQP names.
#[test]
fn one_variable_names_the_broker_of_all_commands() {
    let directory = Directory::new("words");
    let broker = Broker::start(&directory);
    let list = |amqp: &str, words: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(["list", "queues"]).args(words);
        finish(command.env("SLUICE_URL", amqp).env_remove("SLUICE_HTTP_URL"), b"")
    };
    // Nothing listens at the usual port of this address.
    let elsewhere = "amqp://anna:secret@127.0.0.9";
    let asked = list(elsewhere, &[]);
    assert_eq!((asked.code, asked.err.contains("127.0.0.9:15672")), (3, true), "{asked:?}");
    assert!(!asked.err.contains("SLUICE_URL"), "{asked:?}");
    // A login must reach no other program than the broker, and no command another broker.
    for (unclear, why) in [
        (
            "amqp://anna:secret@127.0.0.9:5673",
            "does not say at which port the management API of this broker is",
        ),
        (
            "amqp+unix://anna:secret@%2Ftmp%2Fnone.sock",
            "does not say at which port the management API of this broker is",
        ),
        (
            "amqps://anna:secret@127.0.0.9/?heartbeat=30",
            "name the management API with SLUICE_HTTP_URL or --url",
        ),
        ("nothing", "name the management API with SLUICE_HTTP_URL or --url"),
    ] {
        let asked = list(unclear, &[]);
        assert_eq!(asked.code, 2, "{unclear}: {asked:?}");
        assert!(asked.err.contains("SLUICE_URL") && asked.err.contains(why), "{asked:?}");
        assert!(!asked.err.contains("secret"), "{asked:?}");
    }
    let token = directory.path().join("token");
    std::fs::write(&token, "a-token").unwrap();
    let asked = list("amqp://192.0.2.1", &["--token-file", token.to_str().unwrap()]);
    asked.refused(2, &["a token is not sent to it without TLS"]);
    assert_eq!(list(elsewhere, &["--url", &broker.http_url()]).code, 0);
    let refused = list(elsewhere, &["--url", &broker.http_url().replace("guest:guest", "guest:wrong")]);
    refused.refused(1, &["the login of user 'guest' is refused; user and password are in --url http://"]);
    let wrong = broker.amqp_url().replace("guest:guest", "guest");
    broker
        .verb(&["send", "q", "x", "--url", &wrong])
        .refused(1, &["refuses the login of user 'guest'; user and password are in --url amqp://"]);
}

/// Makes certificates with the program, and starts a broker with them. Returns the directory of the files, too.
fn with_tls(directory: &Directory, words: &[&str]) -> (Broker, String) {
    let made = directory.path().join("tls").to_str().unwrap().to_owned();
    let said = sluice(&[&["make", "certificates", &made], words].concat()).done();
    assert!(said.contains("--cacert") && said.contains("valid until 20"), "{said}");
    let settings = [
        "listeners.ssl.default=0".to_owned(),
        "management.ssl.port=0".to_owned(),
        format!("ssl_options.cacertfile={made}/ca.pem"),
        format!("ssl_options.certfile={made}/server.pem"),
        format!("ssl_options.keyfile={made}/server.key"),
        "ssl_options.verify=verify_peer".to_owned(),
        "ssl_cert_login_from=common_name".to_owned(),
    ];
    (start(directory, &settings), made)
}

#[test]
fn certificates_for_a_try_are_made() {
    let directory = Directory::new("words");
    let (broker, made) = with_tls(&directory, &[]);
    broker.verb(&["declare", "queue", "q"]).done();
    let file = |name: &str| Path::new(&made).join(name);
    for (name, mode) in [("ca", 0o600), ("server", 0o600), ("client", 0o600)] {
        let found = file(&format!("{name}.key")).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode, "{name}.key");
        assert!(file(&format!("{name}.pem")).is_file());
    }
    let (amqps, https) = (port(&broker, "amqp/ssl"), port(&broker, "https"));
    let trust = ["--cacert", file("ca.pem").to_str().unwrap()].map(str::to_owned);
    let trust = trust.each_ref().map(String::as_str);
    // Without a user in the URL, the certificate logs in.
    let by_certificate =
        ["--cert", file("client.pem").to_str().unwrap(), "--cert-key", file("client.key").to_str().unwrap()]
            .map(str::to_owned);
    for host in ["localhost", "127.0.0.1"] {
        let url = format!("amqps://{host}:{amqps}");
        let words = ["send", "q", "x", "--url", &url];
        let by_certificate = by_certificate.each_ref().map(String::as_str);
        sluice(&[&words[..], &trust, &by_certificate].concat()).done();
        let url = format!("https://guest:guest@{host}:{https}");
        sluice(&[&["list", "queues", "--url", &url], &trust[..]].concat()).done();
    }
    for words in [&["1", "month"][..], &["1 month"], &["4weeks"]] {
        let said = broker.verb(&[&["check", "certificates"], words].concat()).done();
        assert!(said.starts_with("ok\n") && said.ends_with(" UTC"), "{said}");
        assert!(said.contains("server.pem (CN=localhost) expires on 20"), "{said}");
    }
    let json = broker.verb(&["check", "certificates", "1", "month", "--json"]).done();
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&json).unwrap(),
        serde_json::json!({"status": "ok"})
    );
    for words in [&["2"][..], &["2 apples"], &["soon"], &["2 years", "days"]] {
        let wrong = broker.verb(&[&["check", "certificates"], words].concat());
        assert_eq!(wrong.code, 2, "{wrong:?}");
        assert!(wrong.err.contains("days, weeks, months"), "{wrong:?}");
    }
    broker
        .verb(&["check", "certificates", "2", "years"])
        .refused(1, &["cannot check certificates", "server.pem (CN=localhost) expires on 20", " UTC"]);

    let before = std::fs::read(file("ca.key")).unwrap();
    std::fs::remove_file(file("ca.pem")).unwrap();
    sluice(&["make", "certificates", &made]).refused(2, &["ca.key exists", "nothing is overwritten"]);
    assert!(!file("ca.pem").exists(), "nothing is written");
    assert_eq!(std::fs::read(file("ca.key")).unwrap(), before);
    sluice(&["make", "certificates", &made, "a:1"]).refused(2, &["'a:1' is no host"]);
}

#[test]
fn errors_of_tls_are_in_words() {
    let directory = Directory::new("words");
    let (broker, made) = with_tls(&directory, &["localhost"]);
    let (amqp, http) = (broker.amqp_port, broker.http_port);
    let (amqps, https) = (port(&broker, "amqp/ssl"), port(&broker, "https"));
    let trust = format!("{made}/ca.pem");
    let refused = |verb: &[&str], url: String, parts: &[&str]| {
        sluice(&[verb, &["--url", &url, "--cacert", &trust]].concat()).refused(1, parts);
    };
    let (send, list) = (&["send", "q", "x"], &["list", "queues"]);
    let (without, with) = ("this port does not use TLS", "this port expects TLS");
    refused(send, format!("amqp://guest:guest@localhost:{amqps}"), &[with, "amqps://"]);
    refused(send, format!("amqp://guest:guest@localhost:{https}"), &[with]);
    refused(send, format!("amqps://guest:guest@localhost:{amqp}"), &[without, "amqp://"]);
    refused(send, format!("amqps://guest:guest@localhost:{http}"), &["this port speaks HTTP", "5671"]);
    refused(list, format!("http://guest:guest@localhost:{https}"), &[with, "https://"]);
    refused(list, format!("http://guest:guest@localhost:{amqps}"), &[with]);
    refused(list, format!("https://guest:guest@localhost:{http}"), &[without, "http://"]);
    refused(list, format!("https://guest:guest@localhost:{amqp}"), &["this port speaks AMQP", "15671"]);

    let other = ["certificate is for localhost, and not for '127.0.0.1'"];
    refused(send, format!("amqps://guest:guest@127.0.0.1:{amqps}"), &other);
    refused(list, format!("https://guest:guest@127.0.0.1:{https}"), &other);
    let unknown = ["no trusted authority has signed the server's certificate", "--cacert"];
    let unrelated = Authority::make(directory.path(), "unrelated");
    for (verb, url) in [
        (&send[..], format!("amqps://guest:guest@localhost:{amqps}")),
        (&list[..], format!("https://guest:guest@localhost:{https}")),
    ] {
        let trust = unrelated.path("unrelated.pem");
        sluice(&[verb, &["--url", &url, "--cacert", &trust]].concat()).refused(1, &unknown);
    }
}

#[test]
fn a_certificate_of_ones_own_and_an_expired_one_are_named() {
    let directory = Directory::new("words");
    let authority = Authority::make(directory.path(), "ca");
    authority.sign_expired("server", "server");
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let own = directory.path().join("own");
    std::fs::create_dir(&own).unwrap();
    std::fs::write(own.join("server.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    std::fs::write(own.join("server.key"), key.serialize_pem()).unwrap();
    let own = own.to_str().unwrap();
    for (folder, trust, parts) in [
        (directory.path().to_str().unwrap(), authority.path("ca.pem"), &["has expired: 2001-01-01"][..]),
        (own, format!("{own}/server.pem"), &["is its own authority", "`sluice make certificates`"]),
    ] {
        let data = Directory::new("words");
        let settings = [
            "listeners.ssl.default=0".to_owned(),
            format!("ssl_options.certfile={folder}/server.pem"),
            format!("ssl_options.keyfile={folder}/server.key"),
        ];
        let broker = start(&data, &settings);
        let url = format!("amqps://guest:guest@localhost:{}", port(&broker, "amqp/ssl"));
        sluice(&["send", "q", "x", "--url", &url, "--cacert", &trust]).refused(1, parts);
    }
}

/// Writes bytes to a port, and reads until the broker closes the connection.
fn shout(port: u16, bytes: &[u8]) {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.write_all(bytes).unwrap();
    drop(socket.read_to_end(&mut Vec::new()));
}

#[test]
fn the_log_names_the_protocol_of_a_client_at_the_wrong_port() {
    let directory = Directory::new("words");
    let broker = Starting::spawn(&directory, &[]).finish();
    let hello = b"\x16\x03\x01\x00\xf1\x01\x00\x00\xed\x03\x03\r\n\r\n";
    for (port, bytes, words) in [
        (broker.amqp_port, &b"GET / HTTP/1.1\r\n\r\n"[..], "closing: an HTTP request instead of AMQP 1.0"),
        (broker.amqp_port, hello, "closing: TLS (amqps://) instead of AMQP 1.0"),
        (broker.http_port, hello, "the client speaks TLS, and this port does not use it"),
        (
            broker.http_port,
            b"AMQP\x00\x00\x09\x01\r\n\r\n",
            "the client speaks AMQP, and this is a port of HTTP",
        ),
    ] {
        shout(port, bytes);
        wait_for(&directory, words);
    }
}

#[test]
fn the_help_groups_the_verbs() {
    let help = sluice(&["--help"]).done();
    for heading in
        ["Run a broker:\n  serve ", "Messages:\n  send ", "Groups of quorum queues:\n", "Options:\n"]
    {
        assert!(help.contains(&format!("\n{heading}")), "{heading} is not in {help}");
    }
    assert_eq!(sluice(&["help"]).done(), sluice(&["-h"]).done());
}
