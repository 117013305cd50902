//! Three processes of the built program that form a cluster and keep one catalog. Each listens for the others on an address of its own of the
//! loopback network.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::broker::{PROGRAM, Starting, serve, verb};
use crate::nodes::{Node, nodes, start, wait_until, wait_until_all_vote};

fn wait_until_equal(nodes: &[Node]) {
    wait_until("the catalogs are equal", || {
        let first = nodes[0].definitions();
        nodes.iter().all(|node| node.definitions() == first)
    });
}

#[test]
fn three_nodes_keep_one_catalog() {
    let mut nodes = nodes("cluster", 3);
    start(&mut nodes, &[2, 0, 1]);
    assert_eq!(nodes[1].declare("first").0, 201);
    let user = json!({ "password": "a password", "tags": "" }).to_string();
    assert_eq!(nodes[2].broker().ask("PUT", "/api/users/somebody", &user).0, 201);
    wait_until("all have the queue", || nodes.iter().all(|node| node.has_queue("first")));
    wait_until_equal(&nodes);
    let (_, users) = nodes[0].broker().get("/api/users");
    assert!(users.as_array().unwrap().iter().any(|user| user["name"] == "somebody"), "{users}");
    // Until then the founder alone decides.
    wait_until_all_vote(&nodes);
    // What a client was told on one node is found on the others.
    for (at, node) in nodes.iter().enumerate() {
        let path = format!("/api/users/of-node-{at}");
        assert_eq!(node.broker().ask("PUT", &path, &user).0, 201);
        for other in &nodes {
            let (status, found) = other.broker().get(&path);
            assert_eq!(status, 200, "{path}: {found}");
        }
    }
    for killed in 0..3 {
        nodes[killed].kill();
        let other = (killed + 1) % 3;
        let queue = format!("without-{killed}");
        // While the others elect a leader, there may be none for longer than a request waits.
        wait_until("the others decide", || [201, 204].contains(&nodes[other].declare(&queue).0));
        nodes[killed].start();
        wait_until("it has the queue", || nodes[killed].has_queue(&queue));
    }
    wait_until_equal(&nodes);
    nodes[1].broker().stop();
    let missed = format!("node {},", nodes[1].name);
    let is_missed = |line: &str| {
        let whys = ["does not count as alive: nothing is heard", "does not count as alive: it is heard, but"];
        line.contains(&missed) && whys.iter().any(|why| line.contains(why))
    };
    let is_missed = || nodes[0].directory.logged().lines().any(is_missed);
    wait_until("the stopped one is missed", is_missed);
    wait_until("the others decide", || nodes[0].declare("while-stopped").0 < 300);
    nodes[1].broker().resume();
    wait_until("it has the queue", || nodes[1].has_queue("while-stopped"));
    nodes[0].kill();
    nodes[1].kill();
    let (status, answer) = nodes[2].declare("in-a-minority");
    assert_eq!(status, 503, "{answer}");
    let reason = answer["reason"].as_str().unwrap();
    assert!(nodes[..2].iter().all(|node| reason.contains(&node.name)), "{reason}");
    let (_, definitions) = nodes[2].broker().get("/api/definitions");
    assert!(definitions["queues"].as_array().unwrap().len() >= 4, "it still has what it had: {definitions}");
    start(&mut nodes, &[0, 1]);
    wait_until("all decide again", || nodes.iter().all(|node| node.declare("last").0 < 300));
    wait_until_equal(&nodes);
    assert!(nodes.iter().all(|node| node.has_queue("last") && node.has_queue("first")));
    for node in nodes {
        assert!(node.broker.unwrap().terminate().success());
    }
}

#[test]
fn a_node_without_a_majority_refuses_logins_if_it_is_set_to() {
    let mut nodes = nodes("cluster-refusing", 3);
    nodes.iter_mut().for_each(|node| node.sets.push("cluster.minority_logins=refuse".to_owned()));
    start(&mut nodes, &[0, 1, 2]);
    wait_until_all_vote(&nodes);
    assert_eq!(nodes[2].declare("used").0, 201);
    let mut recv = Command::new(PROGRAM);
    recv.args(["recv", "used", "--count", "1", "--url", &nodes[2].broker().amqp_url()]);
    let recv = recv.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("it consumes", || nodes[2].broker().get("/api/queues/%2F/used").1["consumers"] == 1);
    nodes[0].kill();
    nodes[1].kill();
    wait_until("logins over HTTP are refused", || nodes[2].broker().get("/api/overview").0 == 503);
    let (_, answer) = nodes[2].broker().get("/api/overview");
    assert!(answer["reason"].as_str().unwrap().contains("sees no majority"), "{answer}");
    let send = |node: &Node| {
        let words = ["send", "used", "x", "--url", &node.broker().amqp_url()];
        Command::new(PROGRAM).args(words).output().unwrap()
    };
    let refused = send(&nodes[2]);
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && told.contains("sees no majority"), "{told}");
    start(&mut nodes, &[0, 1]);
    wait_until("logins are accepted again", || nodes[2].broker().get("/api/overview").0 == 200);
    // The consumer was there all the time.
    assert!(send(&nodes[2]).status.success());
    assert_eq!(String::from_utf8(recv.wait_with_output().unwrap().stdout).unwrap().trim(), "x");
    for node in nodes {
        assert!(node.broker.unwrap().terminate().success());
    }
}

#[test]
fn nodes_with_different_secrets_form_no_cluster() {
    let mut nodes = nodes("cluster-secret", 2);
    nodes[1].sets[2] = "cluster.secret=another secret of more than 20 bytes".to_owned();
    let started: Vec<Starting> = nodes.iter().map(Node::spawn).collect();
    wait_until("both say why", || {
        nodes.iter().all(|node| node.directory.logged().contains("have the same cluster secret?"))
    });
    for (node, starting) in nodes.iter().zip(started) {
        let (status, printed) = starting.terminate();
        assert!(status.success(), "a node that waits can be stopped: {status:?}");
        assert!(!printed.contains("Server startup complete"), "{printed}");
        let log = node.directory.logged();
        assert!(!log.contains("secret of more") && !log.contains("has founded"), "{log}");
        let said = log.matches("have the same cluster secret?").count();
        assert!(said <= 2, "the same is not said again: {log}");
    }
}

/// A node is who its directory says, whatever its name and its address are.
#[test]
fn a_node_with_another_name_and_address_is_the_same_one() {
    let mut nodes = nodes("cluster-renamed", 3);
    start(&mut nodes, &[0, 1, 2]);
    wait_until_all_vote(&nodes);
    assert_eq!(nodes[1].declare("q").0, 201);
    for node in &mut nodes {
        assert!(node.broker.take().unwrap().terminate().success());
    }
    let old = nodes[1].name.clone();
    let (_, host) = old.split_once('@').unwrap();
    let (network, _) = host.rsplit_once('.').unwrap();
    let new = format!("renamed@{network}.99");
    for node in &mut nodes {
        for set in &mut node.sets {
            *set = set
                .replace(&old, &new)
                .replace(&format!("listener={host}:"), &format!("listener={network}.99:"));
        }
    }
    nodes[1].name.clone_from(&new);
    start(&mut nodes, &[0, 1, 2]);
    wait_until("all know the new name", || {
        nodes.iter().all(|node| {
            let (_, rows) = node.broker().get("/api/nodes");
            let names: Vec<_> = rows.as_array().unwrap().iter().map(|row| row["name"].clone()).collect();
            names.len() == 3 && names.contains(&Value::from(&*new))
        })
    });
    wait_until("its queue is there", || {
        let (status, row) = nodes[0].broker().get("/api/queues/%2F/q");
        status == 200 && row["node"] == new.as_str() && row["state"] == "running"
    });
    assert!(
        !nodes[2].directory.logged().contains("the cluster knows this node"),
        "only one has another name"
    );
    for node in nodes {
        assert!(node.broker.unwrap().terminate().success());
    }
}

#[test]
fn a_node_that_has_lost_its_data_does_not_replace_the_one_it_was() {
    let mut nodes = nodes("cluster-wiped", 2);
    start(&mut nodes, &[0, 1]);
    nodes[1].kill();
    let data = nodes[1].directory.path().join("data");
    let without_settings = verb::finish(&mut serve(&data), b"");
    assert_eq!(without_settings.code, 1, "{without_settings:?}");
    let told = without_settings.err.trim_end().lines().last().unwrap();
    assert!(told.contains("node 2 of cluster") && told.contains("cluster.listener"), "{told}");
    let before = nodes[1].directory.logged();
    let identity = before.split_once("identity of the data directory: ").unwrap().1[..32].to_owned();
    std::fs::remove_dir_all(&data).unwrap();
    let starting = nodes[1].spawn();
    let told = format!("it would replace the member of the same name with the identity {identity}");
    wait_until("it says whom it would replace", || nodes[1].directory.logged().contains(&told));
    assert!(starting.terminate().0.success());
}

impl Node {
    /// Returns the row of a node, as this node shows it.
    fn row(&self, of: &Self) -> Value {
        let (status, row) = self.broker().get(&format!("/api/nodes/{}", of.name));
        assert_eq!(status, 200, "{row}");
        row
    }

    fn says(&self, words: &[&str]) -> String {
        self.broker().verb(words).done()
    }

    /// Begins to send a message over AMQP, and returns when an alarm has stopped that.
    fn send(&self, queue: &str) -> Child {
        let mut send = Command::new(PROGRAM);
        send.args(["send", queue, "x", "--url", &self.broker().amqp_url()]);
        let mut send = send.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(send.stderr.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.contains("waiting for the end of an alarm")), "an alarm stops it");
        send
    }

    /// Returns the alarms that this node knows, and whether a request to publish is refused because of them.
    fn alarms(&self) -> (Vec<String>, bool) {
        let (_, answer) = self.broker().get("/api/health/checks/alarms");
        let alarms = answer["alarms"].as_array().into_iter().flatten();
        let alarms = alarms.map(|alarm| {
            format!("{} {}", alarm["resource"].as_str().unwrap(), alarm["node"].as_str().unwrap())
        });
        let message =
            r#"{"properties": {}, "routing_key": "nowhere", "payload": "x", "payload_encoding": "string"}"#;
        let (status, _) = self.broker().ask("POST", "/api/exchanges/%2F/amq.default/publish", message);
        (alarms.collect(), status == 503)
    }
}

#[test]
fn each_node_shows_the_others_and_their_alarms() {
    let mut nodes = nodes("cluster-seen", 3);
    start(&mut nodes, &[0, 1, 2]);
    wait_until("all vote, and see each other", || {
        nodes.iter().all(|node| {
            let rows: Vec<Value> = nodes.iter().map(|other| node.row(other)).collect();
            rows.iter().all(|row| row["running"] == true && row["votes"] == true)
                && rows.iter().filter(|row| row["leads"] == true).count() == 1
        })
    });
    for (at, node) in nodes.iter().enumerate() {
        let (_, all) = node.broker().get("/api/nodes");
        assert_eq!(all.as_array().unwrap().len(), 3, "{all}");
        let own = node.row(node);
        assert_eq!((&own["state"], &own["cluster"]["majority"]), (&json!("this_node"), &json!(true)));
        assert_eq!((&own["partitions"], own["cluster_links"].as_array().unwrap().len()), (&json!([]), 2));
        let other = node.row(&nodes[(at + 1) % 3]);
        assert_eq!((&other["state"], &other["type"]), (&json!("in_sight"), &json!("disc")));
        assert!(other["round_trip_ms"].is_u64() && other["mem_used"].is_null(), "{other}");
        let shown = node.says(&["show", "cluster"]);
        assert!(shown.ends_with("All 3 nodes are in sight."), "{shown}");
    }
    let ids: Vec<Value> = nodes.iter().map(|node| node.row(node)["cluster"]["id"].clone()).collect();
    assert!(ids.iter().all(|id| id.is_string() && *id == ids[0]), "{ids:?}");

    // The alarm of one node stops the publishers of all, until it ends. A node that starts meanwhile stops its publishers, too.
    assert_eq!(nodes[0].alarms(), (vec![], false));
    for (at, queue) in [(0, "first"), (2, "third")] {
        assert_eq!(nodes[at].declare(queue).0, 201);
    }
    nodes[1].says(&["set", "limit", "disk", "1000TB"]);
    let alarm = format!("disk {}", nodes[1].name);
    let have_alarm = |nodes: &[Node]| nodes.iter().all(|node| node.alarms() == (vec![alarm.clone()], true));
    wait_until("all nodes have the alarm", || have_alarm(&nodes));
    assert_eq!(nodes[0].broker().get("/api/health/checks/local-alarms").0, 200);
    let logged = format!("disk alarm of node {}: publishers are stopped here, too", nodes[1].name);
    wait_until("the log names the node", || nodes[0].directory.logged().contains(&logged));
    let status = nodes[0].says(&["status"]);
    let (own, others) = status.split_once("\n\n").unwrap();
    assert!(own.contains("alarms             none") && others.contains("alarms  disk: "), "{status}");
    let explained = nodes[0].says(&["explain"]);
    assert!(explained.contains(&format!("node '{}': disk_alarm 1", nodes[1].name)), "{explained}");
    nodes[2].kill();
    nodes[2].start();
    wait_until("it knows the alarm again", || have_alarm(&nodes));
    let waiting = [nodes[0].send("first"), nodes[2].send("third")];
    nodes[1].says(&["clear", "limit", "disk"]);
    wait_until("the alarm has ended", || nodes.iter().all(|node| node.alarms() == (vec![], false)));
    let sent = waiting.map(|send| String::from_utf8(send.wait_with_output().unwrap().stdout).unwrap());
    assert_eq!(
        sent,
        ["first", "third"].map(|queue| format!("1 message sent to /queues/{queue}: accepted\n"))
    );

    // It also ends when the node is lost.
    nodes[1].says(&["set", "limit", "disk", "1000TB"]);
    wait_until("all nodes have the alarm", || have_alarm(&nodes));
    nodes[1].kill();
    wait_until("the alarm has ended", || nodes[0].alarms() == (vec![], false));
    wait_until("it is missing", || nodes[0].row(&nodes[1])["state"] == "missing");
    let row = nodes[0].row(&nodes[1]);
    // On a slow machine, silence may be noticed before the port refuses.
    let whys = ["its process has ended", "nothing is heard from it"];
    let is_said = whys.iter().any(|why| row["state_text"].as_str().unwrap().starts_with(why));
    assert!(row["running"] == false && is_said, "{row}");
    assert_eq!(nodes[0].row(&nodes[0])["partitions"], json!([nodes[1].name]));
    let shown = nodes[0].says(&["show", "cluster"]);
    assert!(shown.ends_with(&format!("Start or repair {}.", nodes[1].name)), "{shown}");
    let explained = nodes[0].says(&["explain"]);
    assert!(explained.starts_with("critical: 1 node of the cluster does not count as alive"), "{explained}");

    nodes[2].kill();
    wait_until("it is in a minority", || nodes[0].row(&nodes[0])["cluster"]["majority"] == false);
    let shown = nodes[0].says(&["show", "cluster"]);
    assert!(shown.contains("This node is in a minority"), "{shown}");
    assert!(shown.ends_with(&format!("{}, {}.", nodes[1].name, nodes[2].name)), "{shown}");
    let explained = nodes[0].says(&["explain"]);
    assert!(explained.starts_with("critical: 2 nodes that vote are out of sight"), "{explained}");
    assert_eq!(nodes[0].broker().get("/api/health/checks/reached-target-cluster-size").0, 503);
    assert!(nodes[0].broker.take().unwrap().terminate().success());
}

impl Node {
    fn publish(&self, queue: &str) {
        let message =
            json!({ "properties": {}, "routing_key": queue, "payload": "x", "payload_encoding": "string" });
        let (status, answer) =
            self.broker().ask("POST", "/api/exchanges/%2F/amq.default/publish", &message.to_string());
        assert_eq!((status, &answer["routed"]), (200, &json!(true)), "{answer}");
    }

    /// Returns the rows of these queues, as this node lists them.
    fn listed<const N: usize>(&self, path: &str, queues: [&str; N]) -> [Value; N] {
        let (status, rows) = self.broker().get(path);
        assert_eq!(status, 200, "{rows}");
        let rows = rows.as_array().unwrap();
        queues.map(|queue| {
            rows.iter()
                .find(|row| row["name"] == queue)
                .unwrap_or_else(|| panic!("{queue}: {rows:?}"))
                .clone()
        })
    }
}

#[test]
fn each_node_lists_the_queues_of_all_nodes_with_their_numbers() {
    let mut nodes = nodes("cluster-lists", 3);
    start(&mut nodes, &[0, 1, 2]);
    for (at, queue) in [(0, "first"), (1, "second"), (1, "used")] {
        assert_eq!(nodes[at].declare(queue).0, 201);
        wait_until("all have the queue", || nodes.iter().all(|node| node.has_queue(queue)));
    }
    nodes[0].publish("first");
    (0..3).for_each(|_| nodes[1].publish("second"));
    let mut recv = Command::new(PROGRAM);
    recv.args(["recv", "used", "--count", "1", "--url", &nodes[2].broker().amqp_url()]);
    let recv = recv.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();

    let is_right = |node: &Node| {
        let [first, second, used] = node.listed("/api/queues", ["first", "second", "used"]);
        first["messages"] == 1 && second["messages_ready"] == 3 && used["consumers"] == 1
    };
    wait_until("all list the same numbers", || nodes.iter().all(is_right));
    let totals = |node: &Node, messages: u64, missing: &[&str]| {
        let (status, overview) = node.broker().get("/api/overview");
        assert_eq!(status, 200, "{overview}");
        let (_, vhost) = node.broker().get("/api/vhosts/%2F");
        let (_, vhosts) = node.broker().get("/api/vhosts");
        assert_eq!(vhosts[0]["messages"], vhost["messages"]);
        let missing_in =
            [&overview, &vhost, &vhosts[0]].map(|shown| shown["missing_nodes"] == json!(missing));
        (overview["queue_totals"]["messages"] == messages && vhost["messages"] == messages)
            && missing_in == [true; 3]
            && overview["object_totals"]["consumers"] == 1
            && overview["object_totals"]["connections"] == 1
    };
    for node in &nodes {
        wait_until("totals are over all nodes", || totals(node, 4, &[]));
        let [first, second] = node.listed("/api/queues?sort=name", ["first", "second"]);
        assert_eq!((&first["node"], &second["node"]), (&json!(nodes[0].name), &json!(nodes[1].name)));
        assert_eq!((&second["state"], &second["messages"]), (&json!("running"), &json!(3)));
        let (_, second) = node.broker().get("/api/queues/%2F/second");
        assert_eq!((&second["messages_ready"], &second["consumers"]), (&json!(3), &json!(0)), "{second}");
    }

    // A node that stands still is waited for once, and what it does not say is not shown as 0.
    nodes[1].broker().stop();
    for node in [&nodes[0], &nodes[2]] {
        for path in ["/api/queues", "/api/queues?sort=messages", "/api/queues?page=1"] {
            let path = path.to_owned();
            let rows = match path.ends_with("page=1") {
                false => node.listed(&path, ["first", "second"]),
                true => {
                    let (status, page) = node.broker().get(&path);
                    assert_eq!(status, 200, "{page}");
                    ["first", "second"].map(|queue| {
                        let rows = page["items"].as_array().unwrap();
                        rows.iter().find(|row| row["name"] == queue).unwrap().clone()
                    })
                }
            };
            let [first, second] = rows;
            assert_eq!((&first["state"], &first["messages"]), (&json!("running"), &json!(1)), "{first}");
            assert_eq!(
                (&second["state"], &second["node"]),
                (&json!("down"), &json!(nodes[1].name)),
                "{second}"
            );
            for number in ["messages", "messages_ready", "consumers", "message_stats"] {
                assert!(second.get(number).is_none(), "{number}: {second}");
            }
        }
        let (status, second) = node.broker().get("/api/queues/%2F/second");
        assert_eq!((status, &second["state"]), (200, &json!("down")), "{second}");
        // Totals are without it, and say so.
        assert!(totals(node, 1, &[&nodes[1].name]), "{}", node.broker().get("/api/overview").1);
        let status = node.says(&["status"]);
        assert!(status.contains(&format!("{}, which did not answer", nodes[1].name)), "{status}");
        let (status, why) = node.broker().get("/api/explain/queues/%2F/second");
        assert_eq!(status, 503, "{why}");
        let reason = why["reason"].as_str().unwrap();
        assert!(reason.contains(&nodes[1].name) && reason.contains("does not answer"), "{reason}");
        assert!(node.says(&["list", "queues"]).contains("second"));
    }
    nodes[1].broker().resume();
    wait_until("all list the same numbers again", || nodes.iter().all(is_right));
    nodes[1].publish("used");
    assert_eq!(String::from_utf8(recv.wait_with_output().unwrap().stdout).unwrap().trim(), "x");
    for node in nodes {
        assert!(node.broker.unwrap().terminate().success());
    }
}

/// Returns the nodes of the rows of a list, in order.
fn nodes_of(node: &Node, path: &str) -> Vec<String> {
    let (status, rows) = node.broker().get(path);
    assert_eq!(status, 200, "{path}: {rows}");
    let node_of = |row: &Value| {
        let node = row.get("node").unwrap_or(&row["channel_details"]["node"]);
        node.as_str().unwrap_or_else(|| panic!("{row}")).to_owned()
    };
    let mut nodes: Vec<String> = rows.as_array().unwrap().iter().map(node_of).collect();
    nodes.sort();
    nodes
}

#[test]
fn each_node_lists_and_closes_the_connections_of_all_nodes() {
    let mut nodes = nodes("cluster-connections", 3);
    start(&mut nodes, &[0, 1, 2]);
    wait_until_all_vote(&nodes);
    assert_eq!(nodes[0].declare("used").0, 201);
    wait_until("all have the queue", || nodes.iter().all(|node| node.has_queue("used")));
    let recv = |at: usize| {
        let mut recv = Command::new(PROGRAM);
        recv.args(["recv", "used", "--url", &nodes[at].broker().amqp_url()]);
        recv.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut clients = [recv(1), recv(2)];
    let both = [nodes[1].name.clone(), nodes[2].name.clone()];
    for node in &nodes {
        for path in ["/api/connections", "/api/vhosts/%2F/connections", "/api/sessions", "/api/consumers"] {
            wait_until(path, || nodes_of(node, path) == both);
        }
        let (_, queue) = node.broker().get("/api/queues/%2F/used");
        assert_eq!(queue["consumer_details"].as_array().map(Vec::len), Some(2), "{queue}");
    }
    let (_, rows) = nodes[0].broker().get("/api/connections");
    let row = |at: usize| {
        let mut rows = rows.as_array().unwrap().iter();
        let row = rows.find(|row| row["node"] == json!(nodes[at].name)).unwrap();
        row["name"].as_str().unwrap().replace(' ', "%20").replace('>', "%3E")
    };
    let (second, third) = (format!("/api/connections/{}", row(1)), format!("/api/connections/{}", row(2)));
    let (status, shown) = nodes[0].broker().get(&second);
    assert_eq!((status, &shown["node"], &shown["user"]), (200, &json!(nodes[1].name), &json!("guest")));
    let (status, why) = nodes[0].broker().get(&format!("/api/explain/connections/{}", row(1)));
    let reason = why["reason"].as_str().unwrap();
    assert!(
        status == 400 && reason.ends_with(&format!("is on node '{}': ask that node", nodes[1].name)),
        "{why}"
    );
    let (status, why) = nodes[1].broker().get(&format!("/api/explain/connections/{}", row(1)));
    assert_eq!(status, 200, "{why}");

    // A node that stands still is waited for once. Its rows are missing, and nothing of it is closed.
    nodes[1].broker().stop();
    for path in ["/api/connections", "/api/sessions", "/api/consumers"] {
        assert_eq!(nodes_of(&nodes[0], path), [nodes[2].name.clone()], "{path}");
    }
    assert_eq!(nodes[0].broker().ask("DELETE", &second, "").0, 404);
    wait_until("it is out of sight", || nodes[0].row(&nodes[1])["running"] == false);
    assert_eq!(nodes_of(&nodes[0], "/api/connections"), [nodes[2].name.clone()]);
    nodes[1].broker().resume();
    wait_until("its client is listed again", || nodes_of(&nodes[0], "/api/connections") == both);

    assert_eq!(nodes[0].broker().ask("DELETE", &third, "").0, 204);
    wait_until("it is closed", || nodes[0].broker().get(&third).0 == 404);
    assert!(!clients[1].wait().unwrap().success(), "its client was closed");
    assert_eq!(nodes[0].broker().get(&second).0, 200, "the other one is open");
    assert_eq!(nodes[0].broker().ask("DELETE", &third, "").0, 404);
    clients[0].kill().unwrap();
    clients[0].wait().unwrap();
    for node in nodes {
        assert!(node.broker.unwrap().terminate().success());
    }
}
