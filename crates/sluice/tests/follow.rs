//! The lines of the log and the events on a terminal (`sluice follow`).

use crate::broker;

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use broker::verb::{ask_as, basic, finish};
use broker::{Broker, Directory, PROGRAM, Starting};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// A `sluice follow` that runs. It is killed when dropped.
struct Following {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Following {
    /// Starts it, and waits until its queue has a consumer.
    fn start(broker: &Broker, words: &[&str]) -> Self {
        let consumers = || queues(broker).iter().filter(|queue| queue["consumers"] == 1).count();
        let before = consumers();
        let mut command = Command::new(PROGRAM);
        command.arg("follow").args(words).env("SLUICE_URL", broker.amqp_url());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while consumers() == before {
            assert!(child.try_wait().unwrap().is_none(), "{words:?} has ended");
        }
        Self { child, lines }
    }

    /// Returns the next line with this text.
    fn line_with(&mut self, text: &str) -> String {
        self.lines.by_ref().map(Result::unwrap).find(|line| line.contains(text)).expect("the line comes")
    }

    fn interrupt(mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Returns the queues of programs that follow something.
fn queues(broker: &Broker) -> Vec<Value> {
    let all = broker.list("queues");
    let own = |queue: &&Value| queue["name"].as_str().unwrap().starts_with("sluice-follow-");
    all.as_array().unwrap().iter().filter(own).cloned().collect()
}

#[test]
fn lines_of_the_log_come_to_the_terminal() {
    let directory = Directory::new("follow");
    let broker = Starting::spawn(&directory, &["log.exchange=true", "password_hashing=sha256"]).finish();
    let mut following = Following::start(&broker, &["log", "--level", "warning"]);
    let queue = queues(&broker).remove(0);
    assert_eq!((&queue["exclusive"], &queue["arguments"]["x-max-length"]), (&json!(true), &json!(10_000)));
    assert!(queue["arguments"]["x-max-length-bytes"].is_u64(), "{queue}");
    // A name that would clear the screen.
    let hostile = "a\u{1b}[2Jb";
    assert_eq!(ask_as(broker.http_port, &basic(hostile, "wrong"), "GET", "/api/whoami", "").0, 401);
    let line = following.line_with("what=\"login\"");
    assert!(line.contains("user=\"a\\u{1b}[2Jb\"") && line.contains(" WARN "), "escaped once: {line:?}");
    assert_eq!(following.interrupt(), Some(0));
    while !queues(&broker).is_empty() {}
    assert!(broker.terminate().success());
}

#[test]
fn events_come_to_the_terminal() {
    let directory = Directory::new("follow");
    let settings = ["event_exchange.enabled=true", "event_exchange.vhost=audit"];
    let broker = Starting::spawn(&directory, &settings).finish();
    assert_eq!(broker.ask("PUT", "/api/vhosts/audit", "{}").0, 201);
    let words = ["events", "-p", "audit", "--key", "exchange.*", "--key", "user.created"];
    let mut following = Following::start(&broker, &words);
    broker.verb(&["declare", "queue", "q"]).done();
    broker.verb(&["declare", "exchange", "x"]).done();
    // The first event is that of the exchange: the keys leave that of the queue out.
    let line = following.lines.next().unwrap().unwrap();
    let (time, event) = line.split_once(' ').unwrap();
    assert!(time.starts_with("20") && time.ends_with("+00:00"), "{line}");
    assert!(event.starts_with("exchange.created  ") && event.contains("  name=x"), "{line}");
    assert!(event.contains("  user_who_performed_action=guest"), "{line}");
    let mut in_json = Following::start(&broker, &["events", "-p", "audit", "--json"]);
    broker.verb(&["delete", "exchange", "x"]).done();
    let event: Value = serde_json::from_str(&in_json.line_with("exchange.deleted")).unwrap();
    assert_eq!(event["application_properties"]["name"], "x");
    following.line_with("exchange.deleted");

    // Whoever follows is told that the broker is gone.
    assert!(broker.terminate().success());
    for mut following in [following, in_json] {
        assert_eq!(following.child.wait().unwrap().code(), Some(1));
        let told = std::io::read_to_string(following.child.stderr.take().unwrap()).unwrap();
        assert!(told.starts_with("sluice: cannot follow the events at 127.0.0.1:"), "{told}");
    }
}

#[test]
fn the_operator_is_told_what_the_broker_needs() {
    let directory = Directory::new("follow");
    let broker = Broker::start(&directory);
    broker.verb(&["follow", "log"]).refused(1, &["amq.rabbitmq.log", "log.exchange = true"]);
    broker.verb(&["follow", "events"]).refused(1, &["amq.rabbitmq.event", "event_exchange.enabled = true"]);
    assert_eq!(queues(&broker), [json!(null); 0]);
    let mut command = Command::new(PROGRAM);
    let url = format!("amqp://guest:wrong@127.0.0.1:{}", broker.amqp_port);
    finish(command.args(["follow", "log", "--url", &url]), b"").refused(1, &["refuses the login"]);
    assert!(broker.terminate().success());
    assert_eq!(finish(command_to_nobody().args(["follow", "log"]), b"").code, 3);
}

fn command_to_nobody() -> Command {
    let mut command = Command::new(PROGRAM);
    command.env("SLUICE_URL", "amqp://guest:guest@127.0.0.1:1");
    command
}
