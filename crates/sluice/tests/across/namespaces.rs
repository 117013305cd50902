//! Three nodes, each in a network namespace of its own, joined by a bridge. The network between them is cut, one link or one direction of it is
//! cut, it flaps, and nodes are killed and stopped, while clients publish and consume.
//!
//! ```text
//!   node 1   10.0.0.1 eth0 ── n1 ┐
//!   node 2   10.0.0.2 eth0 ── n2 ┼ bridge "cluster"      10.1.N.2 clients ── cN 10.1.N.1   the clients of node N
//!   node 3   10.0.0.3 eth0 ── n3 ┘
//! ```
//!
//! A direction is cut by a neighbor with a wrong hardware address: what is sent to it is lost, and nobody is told.
//!
//! The data of node 1 is on a small disk, which other files fill. That of node 2 is on a disk of `false_disk`, whose syncs can stand still.
//!
//! In each round, one fault comes after the other. At its end, the network is healed and all nodes run. Then these rules must hold:
//!
//! 1. Each confirmed message was delivered and accepted.
//! 2. Unless a node was killed or lost for so long that consumers end, no message was delivered twice, and those of a publisher came in their
//!    order.
//!
//! The test runs itself again in a new namespace, as [`crate::small_disk`] does. If the system allows no namespace, the test says so and passes,
//! except in CI.
//!
//! ```text
//! NETWORK_ROUNDS=50 NETWORK_SEED=.. cargo test --profile ci -p sluice --test program namespaces:: -- --nocapture
//! ```

mod disks;
mod network;
mod traffic;

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use random::Random;

use self::disks::Disks;
use self::network::Network;
use self::traffic::Traffic;
use crate::nodes::{Node, nodes_on, start, wait_until, wait_until_all_vote};

/// The number of rounds without `NETWORK_ROUNDS`. Each kind of fault comes once in them. Later rounds choose at random.
const ROUNDS: u64 = 4;
const FAULTS_PER_ROUND: usize = 2;

/// How long a fault lasts: longer than it takes until a silent node counts as dead, and than requests wait that were not sent.
const FAULT: Duration = Duration::from_secs(6);
/// Some faults of later rounds last this long: longer than consumers outlive the loss of the node of their queue. One in [`LONG_ONES`] does.
const LONG_FAULT: Duration = Duration::from_secs(65);
const LONG_ONES: u64 = 8;
/// The time between faults.
const CALM: Duration = Duration::from_secs(1);
/// The time after syncs have stood still. A node whose disk does not answer counts as alive again after half a minute without trouble.
const LONG_CALM: Duration = Duration::from_secs(35);
/// How long a link that flaps stays as it is.
const FLAP: Duration = Duration::from_millis(300);

/// Commands that make a namespace for a network and for mounts: as a user with user namespaces, as root, and on CI machines.
const NAMESPACES: [&[&str]; 3] =
    [&["unshare", "-rnm"], &["unshare", "-nm"], &["sudo", "-n", "-E", "unshare", "-nm"]];
/// What the test does in the namespace, with `ip` and a further namespace.
const PROBE: &str =
    "ip link add cluster type bridge && ip link add left type veth peer name right && unshare -n true";

/// What happens to the node or to the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// A node loses the network.
    Alone,
    /// What one node sends to another is lost.
    OneWay,
    /// Two nodes lose each other, and not the third.
    OneLink,
    /// A node loses the network again and again.
    Flapping,
    Stopped,
    Killed,
    /// The disk of a node has no byte left.
    FullDisk,
    /// The disk of a node ends no sync.
    SlowDisk,
}

const FAULTS: [Fault; 8] = [
    Fault::OneLink,
    Fault::Killed,
    Fault::Flapping,
    Fault::OneWay,
    Fault::Alone,
    Fault::Stopped,
    Fault::FullDisk,
    Fault::SlowDisk,
];

#[test]
fn a_network_that_fails_loses_nothing() {
    let works = |namespace: &&&[&str]| {
        let mut probe = Command::new(namespace[0]);
        probe.args(&namespace[1..]).args(["sh", "-c", PROBE]).stdin(Stdio::null());
        let status = probe.stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let Some(namespace) = NAMESPACES.iter().find(works) else {
        assert!(std::env::var_os("CI").is_none(), "no network namespace can be made here");
        return say("skipped: no network namespace can be made here");
    };
    let mut command = Command::new(namespace[0]);
    command.args(&namespace[1..]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "across::namespaces::in_a_namespace", "--include-ignored", "--nocapture"]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    said.lines().filter(|line| line.starts_with("network: ")).for_each(say);
}

#[test]
#[ignore = "needs the namespace that the other test makes"]
fn in_a_namespace() {
    let rounds = number("NETWORK_ROUNDS").unwrap_or(ROUNDS);
    let seed = number("NETWORK_SEED").unwrap_or(1);
    let mut random = Random(seed);
    let network = Network::new();
    let mut nodes = nodes_on("network", &network.addresses());
    let disks = Disks::mount(&mut nodes);
    for (at, node) in nodes.iter_mut().enumerate() {
        node.place = Some(network.place(at));
        node.sets.push("loopback_users=none".to_owned());
    }
    start(&mut nodes, &[0, 1, 2]);
    wait_until_all_vote(&nodes);
    let queues = traffic::QUEUES;
    for (at, queue) in queues.into_iter().enumerate() {
        let kind = if at == 1 { "quorum" } else { "classic" };
        nodes[at].broker().verb(&["declare", "queue", queue, "--type", kind]).done();
    }
    let knows = |node: &Node| queues.into_iter().all(|queue| node.has_queue(queue));
    wait_until("all nodes have the queues", || nodes.iter().all(knows));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut seed_before = 0;
    for round in 0..rounds {
        let seeds = [random.next(), seed_before];
        seed_before = seeds[0];
        let traffic = Traffic::new(seeds);
        let clients = runtime.block_on(async { traffic.start(&nodes) });
        let first = round as usize * FAULTS_PER_ROUND;
        let mut fault = |at: usize| match FAULTS.get(at) {
            Some(fault) => (*fault, FAULT),
            None => {
                let lasts = if random.next().is_multiple_of(LONG_ONES) { LONG_FAULT } else { FAULT };
                (FAULTS[random.next() as usize % FAULTS.len()], lasts)
            }
        };
        let faults: Vec<(Fault, Duration)> = (first..first + FAULTS_PER_ROUND).map(&mut fault).collect();
        for (fault, lasts) in &faults {
            inflict(*fault, *lasts, &mut random, (&network, &disks), &mut nodes, &traffic);
            std::thread::sleep(if *fault == Fault::SlowDisk { LONG_CALM } else { CALM });
        }
        wait_until("all nodes decide", || {
            let declared = |at: usize| nodes[at].declare(&format!("after-{round}-{at}")).0;
            (0..nodes.len()).all(|at| declared(at) < 300)
        });
        let ends_consumers = |fault: &(Fault, Duration)| fault.0 == Fault::Killed || fault.1 == LONG_FAULT;
        let said = runtime.block_on(clients.finish(&traffic, &nodes, faults.iter().any(ends_consumers)));
        say(&format!("network: NETWORK_SEED={seed}, round {round}: {faults:?}: {said}"));
    }
    drop(runtime);
    for node in nodes {
        assert!(node.broker.unwrap().terminate().success(), "{}", node.name);
    }
    disks.unmount();
}

/// Lets a fault happen to a node, and ends it.
fn inflict(
    fault: Fault,
    lasts: Duration,
    random: &mut Random,
    (network, disks): (&Network, &Disks),
    nodes: &mut [Node],
    traffic: &Traffic,
) {
    let victim = random.next() as usize % nodes.len();
    let other = (victim + 1 + random.next() as usize % (nodes.len() - 1)) % nodes.len();
    match fault {
        Fault::Alone => network.set_port(victim, false),
        Fault::OneWay => network.lose(victim, other),
        Fault::OneLink => {
            network.lose(victim, other);
            network.lose(other, victim);
        }
        Fault::Flapping => {
            for at in 0..lasts.as_millis() / FLAP.as_millis() {
                network.set_port(victim, at % 2 == 1);
                std::thread::sleep(FLAP);
            }
        }
        Fault::Stopped => nodes[victim].broker().stop(),
        Fault::Killed => nodes[victim].kill(),
        Fault::FullDisk => disks.fill(),
        Fault::SlowDisk => disks.hold_syncs(true),
    }
    if fault != Fault::Flapping {
        std::thread::sleep(lasts);
    }
    match fault {
        Fault::Stopped => nodes[victim].broker().resume(),
        Fault::Killed => {
            nodes[victim].start();
            traffic.set_url(victim, nodes[victim].broker());
        }
        Fault::FullDisk => disks.clean(),
        Fault::SlowDisk => disks.hold_syncs(false),
        Fault::Alone | Fault::OneWay | Fault::OneLink | Fault::Flapping => network.heal(),
    }
}

fn say(line: &str) {
    let mut out = std::io::stderr();
    writeln!(out, "{line}").unwrap();
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not '{text}'")))
}
