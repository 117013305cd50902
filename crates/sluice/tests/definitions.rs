//! Definitions as operators use them: a file of RabbitMQ at the start, an export, and an import into another broker.

use crate::broker;

use std::os::unix::fs::PermissionsExt as _;

use broker::verb::Did;
use broker::{Broker, Directory, Starting};
use serde_json::{Value, json};

/// RabbitMQ's hash of the password `test12`, from its documentation.
const HASH: &str = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR";

fn definitions() -> Value {
    json!({
        "rabbit_version": "4.3.6",
        "users": [{
            "name": "ops", "password_hash": HASH, "hashing_algorithm": "rabbit_password_hashing_sha256",
            "tags": ["administrator"], "limits": {},
        }],
        "vhosts": [{ "name": "/" }, { "name": "shop", "default_queue_type": "quorum" }],
        "permissions": [{ "user": "ops", "vhost": "shop", "configure": ".*", "write": ".*", "read": "^(?!amq\\.).*" }],
        "parameters": [{ "vhost": "shop", "component": "shovel", "name": "s", "value": { "src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://h" } }],
        "policies": [{
            "vhost": "shop", "name": "p", "pattern": "^(?!amq\\.)", "apply-to": "queues", "priority": 1,
            "definition": { "max-length": 10 },
        }],
        "queues": [{ "name": "orders", "vhost": "shop", "durable": true, "auto_delete": false, "arguments": {} }],
        "exchanges": [{ "name": "x", "vhost": "shop", "type": "topic", "durable": true }],
        "bindings": [{
            "source": "x", "vhost": "shop", "destination": "orders", "destination_type": "queue",
            "routing_key": "order.#", "arguments": {},
        }],
    })
}

fn as_ops(broker: &Broker, words: &[&str]) -> Did {
    let amqp = format!("amqp://ops:test12@127.0.0.1:{}/shop", broker.amqp_port);
    let http = broker.http_url().replace("guest:guest@", "ops:test12@");
    let mut command = std::process::Command::new(broker::PROGRAM);
    broker::verb::finish(command.args(words).env("SLUICE_URL", amqp).env("SLUICE_HTTP_URL", http), b"")
}

fn start(directory: &Directory, file: &str) -> Broker {
    Starting::spawn(directory, &[&format!("load_definitions={file}")]).finish()
}

#[test]
fn a_file_of_rabbitmq_moves_over_with_one_setting() {
    let directory = Directory::new("definitions");
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("in.json"), definitions().to_string()).unwrap();
    let broker = start(&directory, &path("in.json"));
    // The old password counts, and there is no user but those of the file.
    as_ops(&broker, &["send", "/exchanges/x/order.1", "one tea"]).done();
    assert_eq!(as_ops(&broker, &["recv", "orders", "--count", "1"]).done(), "one tea");
    broker.verb(&["list", "queues"]).refused(1, &["the login of user 'guest' is refused"]);
    assert!(
        directory
            .logged()
            .contains("parameter 's' of component 'shovel' in vhost 'shop' is kept, but has no effect")
    );
    let queues: Value = serde_json::from_str(&as_ops(&broker, &["list", "queues", "--json"]).done()).unwrap();
    assert_eq!((&queues[0]["type"], &queues[0]["policy"]), (&json!("quorum"), &json!("p")));

    // What is exported is imported by another broker, and the file is carried out at each start without harm.
    as_ops(&broker, &["add", "user", "late", "--no-password"]).done();
    let exported = as_ops(&broker, &["export", "definitions", &path("out.json")]);
    assert_eq!((exported.code, &*exported.out), (0, ""), "{exported:?}");
    let says = format!("sluice: {}: 2 users, 2 virtual hosts, ", path("out.json"));
    assert!(exported.err.starts_with(&says) && exported.err.contains(", 1 queue, "), "{exported:?}");
    as_ops(&broker, &["export", "definitions", &path("in.json")])
        .refused(2, &["in.json exists", "--force overwrites it"]);
    assert_eq!(as_ops(&broker, &["export", "definitions", &path("out.json"), "--force"]).code, 0);
    let printed = as_ops(&broker, &["export", "definitions", "-"]).done();
    assert!(printed.starts_with('{'), "{printed}");
    let mode = std::fs::metadata(path("out.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it has hashes of passwords");
    assert!(broker.terminate().success());
    let broker = start(&directory, &path("in.json"));
    assert!(as_ops(&broker, &["list", "users"]).done().contains("late"));
    let second = Directory::new("definitions");
    let other = Broker::start(&second);
    assert_eq!(
        other.verb(&["import", "definitions", &path("out.json")]).done(),
        format!(
            "warning: parameter 's' of component 'shovel' in vhost 'shop' is kept, but has no effect: there is no such \
             component\nthe definitions of {} are imported",
            path("out.json")
        )
    );
    let export = |broker: &Broker| as_ops(broker, &["export", "definitions", "-p", "shop"]).done();
    assert_eq!(export(&other), export(&broker));
    // An import is as durable as any other declaration.
    assert!(other.terminate().success());
    assert_eq!(export(&Broker::start(&second)), export(&broker));
}

/// The file is an export of RabbitMQ 4.3.6. The user's password there was `her old password`.
#[test]
fn users_of_rabbitmq_log_in_with_their_old_passwords() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../admin/src/tests/rabbitmq-4.3.json");
    let directory = Directory::new("definitions");
    let broker = start(&directory, file);
    let amqp = format!("amqp://anna:her%20old%20password@127.0.0.1:{}/shop", broker.amqp_port);
    let as_anna = |words: &[&str]| {
        let mut command = std::process::Command::new(broker::PROGRAM);
        broker::verb::finish(command.args(words).env("SLUICE_URL", &amqp), b"")
    };
    as_anna(&["send", "/exchanges/t/order.1", "one tea"]).done();
    assert_eq!(as_anna(&["recv", "orders", "--count", "1"]).done(), "one tea");
    as_anna(&["recv", "log", "--count", "1"])
        .refused(1, &["read access to queue 'log' in vhost 'shop' refused"]);
}

#[test]
fn an_import_prints_what_has_no_effect_and_can_be_tried_first() {
    let directory = Directory::new("definitions");
    let path = directory.path().join("in.json").to_str().unwrap().to_owned();
    let exchange = json!({ "vhost": "/", "name": "later", "type": "x-delayed-message" });
    std::fs::write(
        &path,
        json!({ "exchanges": [exchange], "queues": [{ "vhost": "/", "name": "q" }] }).to_string(),
    )
    .unwrap();
    let broker = Broker::start(&directory);
    broker.verb(&["import", "definitions", &path]).refused(1, &["is unknown", "--skip-unknown"]);
    let warning = "warning: exchange 'later' in vhost '/' is left out: the exchange type 'x-delayed-message' is unknown";
    assert_eq!(
        broker.verb(&["import", "definitions", &path, "--skip-unknown", "--dry-run"]).done(),
        format!("{warning}\nthe definitions of {path} could be imported, and nothing was changed")
    );
    assert_eq!(broker.verb(&["list", "queues", "--json"]).done(), "[]");
    assert_eq!(
        broker.verb(&["import", "definitions", &path, "--skip-unknown"]).done(),
        format!("{warning}\nthe definitions of {path} are imported")
    );
}

#[test]
fn an_md5_hash_is_replaced_at_the_first_login() {
    let directory = Directory::new("definitions");
    let path = directory.path().join("in.json").to_str().unwrap().to_owned();
    let mut old = definitions();
    // MD5 of the same salt and password as HASH.
    old["users"][0]["password_hash"] = json!("kI3GChNpte2FApYFXScl+0dIluk=");
    old["users"][0]["hashing_algorithm"] = json!("rabbit_password_hashing_md5");
    std::fs::write(&path, old.to_string()).unwrap();
    let broker = start(&directory, &path);
    let user = |broker: &Broker| -> Value {
        let users: Vec<Value> =
            serde_json::from_str(&as_ops(broker, &["list", "users", "--json"]).done()).unwrap();
        users[0].clone()
    };
    as_ops(&broker, &["send", "/exchanges/x/order.1", "one tea"]).done();
    // Changes are carried out in their order, so the hash is replaced before this one is answered.
    as_ops(&broker, &["add", "vhost", "other"]).done();
    let renewed = user(&broker);
    assert_eq!(renewed["hashing_algorithm"], "argon2id");
    assert_eq!(renewed["tags"], json!(["administrator"]));
    assert!(directory.logged().contains("the rabbit_password_hashing_md5 hash of user 'ops' is replaced"));
    // Nothing replaces it once more, and it survives a restart.
    assert!(broker.terminate().success());
    let broker = Broker::start(&directory);
    assert_eq!(as_ops(&broker, &["recv", "orders", "--count", "1"]).done(), "one tea");
    assert_eq!(user(&broker)["password_hash"], renewed["password_hash"]);
}

#[test]
fn a_directory_is_carried_out_in_the_order_of_its_files_and_skipped_while_unchanged() {
    let directory = Directory::new("definitions");
    let files = directory.path().join("definitions.d");
    std::fs::create_dir(&files).unwrap();
    let write = |name: &str, text: &str| std::fs::write(files.join(name), text).unwrap();
    let all = definitions();
    let part = |sections: &[&str]| {
        let sections = sections.iter().map(|name| ((*name).to_owned(), all[*name].clone()));
        Value::Object(sections.collect()).to_string()
    };
    // The second file needs the first.
    write("20-queues.json", &part(&["queues", "exchanges", "bindings"]));
    write("10-users.json", &part(&["vhosts", "users", "permissions"]));
    write(".swap.json", "of an editor");
    write("README", "not definitions");
    let local = format!("definitions.local.path={}", files.display());
    let sets = ["definitions.import_backend=local_filesystem", &local, "definitions.skip_if_unchanged=true"];
    let start = || Starting::spawn(&directory, &sets);
    let queues = |broker: &Broker| {
        let words = ["list", "queues", "-p", "shop", "--json"];
        let rows: Vec<Value> = serde_json::from_str(&as_ops(broker, &words).done()).unwrap();
        rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let broker = start().finish();
    as_ops(&broker, &["send", "/exchanges/x/order.1", "one tea"]).done();
    as_ops(&broker, &["delete", "queue", "orders", "-p", "shop"]).done();
    assert!(broker.terminate().success());

    let broker = start().finish();
    assert_eq!(queues(&broker), [""; 0], "the definitions are not carried out again");
    assert!(directory.logged().contains("the definitions have not changed since they were carried out"));
    assert!(broker.terminate().success());

    write("30-more.json", r#"{"queues":[{"name":"late","vhost":"shop"}]}"#);
    let broker = start().finish();
    assert_eq!(queues(&broker), ["late", "orders"]);
    // After another import, those of the start are no longer the last ones.
    let other = directory.path().join("other.json");
    std::fs::write(&other, "{}").unwrap();
    as_ops(&broker, &["delete", "queue", "orders", "-p", "shop"]).done();
    as_ops(&broker, &["import", "definitions", other.to_str().unwrap()]).done();
    assert!(broker.terminate().success());
    let broker = start().finish();
    assert_eq!(queues(&broker), ["late", "orders"]);
    assert!(broker.terminate().success());

    write("30-more.json", "{\"queues\":[\n{\"name\":\"later\",\"vhost\":\"absent\"}]}");
    write("40-wrong.json", "{");
    start().try_finish().err().expect("a file is wrong");
    assert!(directory.logged().contains("40-wrong.json: line 1: not a JSON object"));
    std::fs::remove_file(files.join("40-wrong.json")).unwrap();
    start().try_finish().err().expect("an entry is wrong");
    let reason =
        "definitions.local.path: 30-more.json: line 2: queue 'later' in vhost 'absent': no vhost 'absent'";
    assert!(directory.logged().contains(reason));
}

#[test]
fn wrong_definitions_stop_the_start_with_their_line() {
    let directory = Directory::new("definitions");
    let path = directory.path().join("in.json");
    let run = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let data = directory.path().join("data");
        let mut words = vec!["serve", "--data-dir", data.to_str().unwrap()];
        let load = format!("load_definitions={}", path.display());
        for set in ["listeners.tcp.default=0", "management.tcp.port=none", "prometheus.tcp.port=none", &load]
        {
            words.extend(["--set", set]);
        }
        let did = broker::verb::sluice(&words);
        assert_eq!(did.code, 1, "{did:?}");
        did.err.lines().last().unwrap_or_default().to_owned()
    };
    let last = run("{\n\"users\":\n[{}]}");
    assert!(last.contains("in.json: line 3: user '?': 'name' is missing"), "{last}");
    let last = run("{\n\"queues\": [\n{\"name\": \"q\", \"vhost\": \"absent\"}]}");
    assert!(
        last.contains("load_definitions: line 3: queue 'q' in vhost 'absent': no vhost 'absent'"),
        "{last}"
    );
}

/// A broker starts with the definitions that it has started with before. What is wrong in them has no effect.
#[test]
fn a_shovel_that_rabbitmq_would_refuse_does_not_stop_the_start() {
    let directory = Directory::new("definitions");
    let path = directory.path().join("in.json");
    let shovel = json!({
        "vhost": "/", "component": "shovel", "name": "s", "value": {"src-queue": "a", "dest-queue": "b"},
    });
    let guest = json!({"name": "guest", "password": "guest", "tags": "administrator", "limits": null});
    let all = json!({
        "vhosts": [{"name": "/", "limits": null}], "users": [guest], "parameters": [shovel], "limits": null,
    });
    std::fs::write(&path, all.to_string()).unwrap();
    let broker = start(&directory, path.to_str().unwrap());
    let (status, kept) = broker.get("/api/parameters/shovel/%2F/s");
    assert_eq!((status, &kept["value"]["src-queue"]), (200, &"a".into()));
    let logged = directory.logged();
    assert!(
        logged.contains("'s' of component 'shovel' in vhost '/': Validation failed: 'src-uri' is missing")
    );
    // Who sends it now sees the reason at once.
    let (status, refused) = broker.ask("POST", "/api/definitions", &all.to_string());
    assert_eq!(status, 400, "{refused}");

    // The next start finds the password unchanged, and keeps its hash.
    let hash = |broker: &Broker| broker.get("/api/users/guest").1["password_hash"].clone();
    let before = hash(&broker);
    assert!(broker.terminate().success());
    let broker = start(&directory, path.to_str().unwrap());
    assert!(before.is_string());
    assert_eq!(hash(&broker), before);
}
