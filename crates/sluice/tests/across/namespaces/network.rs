//! The namespaces and the devices between them. They end with the namespace of the test.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};

use crate::nodes::{Place, wait_until};

const NODES: usize = 3;
/// The port on which nodes listen for each other.
const PORT: u16 = 25_672;
/// Nobody has this hardware address.
const NOBODY: &str = "02:00:00:00:ff:ff";

pub(super) struct Network {
    /// Processes that do nothing but have a namespace.
    holders: Vec<Child>,
}

impl Network {
    /// Makes the namespaces. This process must have a network namespace of its own.
    pub(super) fn new() -> Self {
        ip(&[], "link set lo up");
        ip(&[], "link add cluster type bridge");
        ip(&[], "link set cluster up");
        let own = std::fs::read_link("/proc/self/ns/net").unwrap();
        let mut network = Self { holders: Vec::new() };
        for at in 0..NODES {
            let number = at + 1;
            let mut command = Command::new("unshare");
            command.args(["-n", "sleep", "infinity"]).stdin(Stdio::null());
            let holder = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let pid = holder.id();
            network.holders.push(holder);
            wait_until("there is a namespace", || {
                std::fs::read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|namespace| namespace != own)
            });
            ip(
                &[],
                &format!("link add n{number} type veth peer name eth0 address {} netns {pid}", hardware(at)),
            );
            ip(&[], &format!("link set n{number} master cluster up"));
            ip(&[], &format!("link add c{number} type veth peer name clients netns {pid}"));
            ip(&[], &format!("address add 10.1.{number}.1/24 dev c{number}"));
            ip(&[], &format!("link set c{number} up"));
            let inside = network.by(at);
            ip(&inside, "link set lo up");
            ip(&inside, &format!("address add {}/24 dev eth0", address(at)));
            ip(&inside, "link set eth0 up");
            ip(&inside, &format!("address add {}/24 dev clients", network.place(at).host));
            ip(&inside, "link set clients up");
        }
        network.heal();
        network
    }

    /// Returns the addresses on which the nodes listen for each other.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        (0..NODES).map(|at| SocketAddr::from((address(at), PORT))).collect()
    }

    /// Returns where a node runs.
    pub(super) fn place(&self, at: usize) -> Place {
        Place { by: self.by(at), host: format!("10.1.{}.2", at + 1) }
    }

    /// Returns the beginning of a command that runs in a namespace.
    fn by(&self, at: usize) -> Vec<String> {
        ["nsenter", "-n", "-t", &self.holders[at].id().to_string()].map(str::to_owned).to_vec()
    }

    /// Loses what one node sends to another.
    pub(super) fn lose(&self, from: usize, to: usize) {
        self.set_neighbor(from, to, NOBODY);
    }

    /// Gives a node the network, or takes it away.
    pub(super) fn set_port(&self, at: usize, up: bool) {
        ip(&[], &format!("link set n{} {}", at + 1, if up { "up" } else { "down" }));
    }

    /// Heals everything.
    pub(super) fn heal(&self) {
        for from in 0..NODES {
            self.set_port(from, true);
            for to in (0..NODES).filter(|to| *to != from) {
                self.set_neighbor(from, to, &hardware(to));
            }
        }
    }

    fn set_neighbor(&self, from: usize, to: usize, hardware: &str) {
        let neighbor = format!("neigh replace {} lladdr {hardware} dev eth0 nud permanent", address(to));
        ip(&self.by(from), &neighbor);
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for holder in &mut self.holders {
            drop(holder.kill());
            drop(holder.wait());
        }
    }
}

fn address(at: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, at as u8 + 1)
}

fn hardware(at: usize) -> String {
    format!("02:00:00:00:00:{:02x}", at + 1)
}

/// Runs `ip` with these words, by a command or in the namespace of this process.
fn ip(by: &[String], words: &str) {
    let mut command = match by {
        [] => Command::new("ip"),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg("ip");
            command
        }
    };
    let output = command.args(words.split(' ')).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
}
