//! First starts of three nodes, in any order and with pauses between them, while connections between them are cut or end, and nodes are killed.
//!
//! In each round these rules must hold:
//!
//! 1. A node that cannot form the cluster now says in its log what it waits for.
//! 2. When all is well again, the nodes are members of one cluster, and each of them takes changes.
//!
//! ```text
//! FIRST_STARTS=100 FIRST_STARTS_SEED=.. cargo test --profile ci -p sluice --test program first_starts:: -- --nocapture
//! ```

use std::collections::BTreeSet;
use std::io::Write as _;
use std::time::Duration;

use random::Random;
use serde_json::Value;

use crate::broker::Starting;
use crate::nodes::{Cluster, Node, wait_until};

/// The number of rounds without `FIRST_STARTS`.
const ROUNDS: u64 = 3;
/// The longest pauses between two starts, and between two faults.
const PAUSE_MS: u64 = 400;
const FAULTS_MAX: u64 = 5;
/// A node that has not begun to wait after this time has formed the cluster.
const SAID_AFTER: Duration = Duration::from_millis(500);

#[test]
fn first_starts_in_any_order_form_one_cluster() {
    let (rounds, seed) = (number("FIRST_STARTS").unwrap_or(ROUNDS), number("FIRST_STARTS_SEED").unwrap_or(1));
    for round in 0..rounds {
        let said = form(&mut Random(seed.wrapping_mul(1_000_003).wrapping_add(round)));
        writeln!(std::io::stderr(), "first starts: FIRST_STARTS_SEED={seed}, round {round}: {said}").unwrap();
    }
}

/// A node that was started, and how much had been logged before.
struct Started {
    process: Starting,
    logged: usize,
}

impl Started {
    fn new(node: &Node) -> Self {
        Self { logged: node.directory.logged().len(), process: node.spawn() }
    }
}

/// Lets three nodes form a cluster. Returns what happened.
fn form(random: &mut Random) -> String {
    let mut cluster = Cluster::new("first-start", &[]);
    let mut started: [Option<Started>; 3] = [const { None }; 3];
    let mut told = Vec::new();
    let mut order = [0, 1, 2];
    order.swap(0, random.index(3));
    order.swap(1, 1 + random.index(2));
    for at in order {
        if random.one_in(2) {
            told.push(disturb(random, &cluster, &mut started));
        }
        started[at] = Some(Started::new(&cluster.nodes[at]));
        told.push(format!("start {}", at + 1));
        pause(random);
    }
    for _ in 0..random.below(FAULTS_MAX) {
        told.push(disturb(random, &cluster, &mut started));
        pause(random);
    }
    std::thread::sleep(SAID_AFTER);
    for (node, started) in cluster.nodes.iter().zip(&started) {
        let from = started.as_ref().unwrap().logged;
        wait_until("it says what it waits for, or is a member", || {
            let logged = node.directory.logged();
            let since = &logged[from..];
            since.contains("this node waits for") || since.contains("is in sight, as number")
        });
    }
    cluster.pipes.heal();
    for (node, started) in cluster.nodes.iter_mut().zip(started) {
        node.broker = Some(started.unwrap().process.finish());
    }
    let ids: BTreeSet<String> = cluster.nodes.iter().map(id_of_cluster).collect();
    assert_eq!(ids.len(), 1, "{told:?}: {ids:?}");
    for (at, node) in cluster.nodes.iter().enumerate() {
        wait_until("it takes a change", || node.declare(&format!("queue-{at}")).0 < 300);
    }
    cluster.stop();
    told.join(", ")
}

/// Cuts or ends connections, or kills a node that has been started and starts it again. Returns what was done.
fn disturb(random: &mut Random, cluster: &Cluster, started: &mut [Option<Started>; 3]) -> String {
    let a = random.index(3);
    let b = (a + 1 + random.index(2)) % 3;
    let what = match random.below(5) {
        0 => {
            cluster.pipes.cut(a, b);
            "cut"
        }
        1 => {
            cluster.pipes.cut_way(a, b);
            "cut the way of"
        }
        2 => {
            cluster.pipes.end(a, b);
            "end connections of"
        }
        3 => {
            cluster.pipes.heal();
            return "heal".to_owned();
        }
        _ => {
            let Some(before) = started[a].take() else { return "nothing".to_owned() };
            before.process.kill();
            started[a] = Some(Started::new(&cluster.nodes[a]));
            return format!("kill {}", a + 1);
        }
    };
    format!("{what} {} and {}", a + 1, b + 1)
}

fn pause(random: &mut Random) {
    std::thread::sleep(Duration::from_millis(random.below(PAUSE_MS)));
}

/// Returns the cluster of which a node says that it is a member.
fn id_of_cluster(node: &Node) -> String {
    let (status, rows) = node.broker().get("/api/nodes");
    assert_eq!(status, 200, "{rows}");
    let own = rows.as_array().unwrap().iter().find(|row| row["name"] == node.name.as_str());
    match &own.unwrap()["cluster"]["id"] {
        Value::String(id) => id.clone(),
        other => panic!("{}: {other}", node.name),
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not '{text}'")))
}
