//! The thread of the nodes: carries out what the machine (`nodes::Nodes`) decides, and tells it what happens.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ::nodes::{Alarms, Event, Health, Nodes, Side, View, Waits, Why};
use bytes::Bytes;
use catalog::categories::PEER;
use link::{ClusterId, Hello, NodeIdentity, Role};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{AbortHandle, spawn_local};

use super::accept::accept_all;
use super::beats::{dial_for_ever, read_words, refuse};
use super::inputs::{Input, Running};
use super::members::{self, Me, Progress};
use super::messages::{Order, Orders};
use super::said::Said;
use super::sending::Target;
use super::sockets::{Introduction, NotOpened, Opened};
use crate::cluster_settings::ListedNode;
use crate::incoming::Incoming;

/// Between two renewals of the view, if nothing important has happened.
const SHOWN_AGAIN: Duration = Duration::from_secs(1);

/// What must be on disk before the machine says it to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Found { cluster: ClusterId },
    Join { cluster: ClusterId, number: u32 },
}

/// The ends of the channels of the thread.
pub(super) struct Channels {
    pub inputs: mpsc::Receiver<Input>,
    /// For the tasks of this thread.
    pub to_inputs: mpsc::Sender<Input>,
    pub steps: std::sync::mpsc::Sender<Step>,
    pub orders: Orders,
    pub view: watch::Sender<View>,
    pub progress: watch::Sender<Progress>,
}

/// A connection for heartbeats that another node has dialed.
struct Accepted {
    number: u64,
    reader: AbortHandle,
}

pub(super) struct Thread {
    nodes: Nodes,
    /// The time 0 of the machine.
    started: Instant,
    listed: Vec<ListedNode>,
    introduction: Rc<RefCell<Introduction>>,
    channels: Channels,
    /// The words for each node that this node has dialed.
    dialed: Vec<Option<mpsc::Sender<Bytes>>>,
    accepted: Vec<Option<Accepted>>,
    /// The number of the last accepted connection.
    last_accepted: u64,
    /// End the pauses between tries to dial.
    kicks: Vec<Rc<Notify>>,
    /// The names of the supported members, by number.
    supported: BTreeMap<u32, String>,
    /// The alarms of the other nodes.
    alarms: Vec<Alarms>,
    running: Option<Running>,
    /// The nodes that want to be admitted. They wait until the shards run.
    asked: members::Asked,
    /// The other end, until the shards run.
    questions: Option<mpsc::UnboundedReceiver<(NodeIdentity, String)>>,
    said_of_dialed: Said<usize>,
    said_of_accepted: Said<IpAddr>,
    waits: Waits,
    /// When the view was renewed last.
    shown: Instant,
}

impl Thread {
    pub(super) fn new(
        nodes: Nodes,
        started: Instant,
        listed: Vec<ListedNode>,
        introduction: Introduction,
        channels: Channels,
    ) -> Self {
        let count = listed.len();
        let (asked, questions) = mpsc::unbounded_channel();
        Self {
            nodes,
            started,
            listed,
            introduction: Rc::new(RefCell::new(introduction)),
            channels,
            dialed: vec![None; count],
            accepted: (0..count).map(|_| None).collect(),
            last_accepted: 0,
            kicks: (0..count).map(|_| Rc::default()).collect(),
            supported: BTreeMap::new(),
            alarms: vec![Alarms::default(); count],
            running: None,
            asked,
            questions: Some(questions),
            said_of_dialed: Said::default(),
            said_of_accepted: Said::default(),
            waits: Waits::Nothing,
            shown: started,
        }
    }

    /// Runs until the node stops.
    pub(super) async fn run(mut self, listener: TcpListener) {
        let own = self.introduction.borrow().hello.name.clone();
        spawn_local(accept_all(listener, self.introduction.clone(), self.channels.to_inputs.clone()));
        for (peer, node) in self.listed.iter().enumerate().filter(|(_, node)| node.name != own) {
            let (node, kick) = (node.clone(), self.kicks[peer].clone());
            let (introduction, inputs) = (self.introduction.clone(), self.channels.to_inputs.clone());
            spawn_local(dial_for_ever(peer, node, introduction, inputs, kick));
        }
        loop {
            self.carry_out();
            let due = self.started + Duration::from_millis(self.nodes.next_timeout());
            let input = tokio::select! {
                biased;
                input = self.channels.inputs.recv() => input,
                () = tokio::time::sleep_until(due.into()) => None,
            };
            let health = self.health();
            self.nodes.handle_health(health);
            let clock_ms =
                SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
            self.nodes.handle_time(self.started.elapsed().as_millis() as u64, clock_ms);
            // A connection that is closed now must not be taken for one that opens with the input.
            self.carry_out();
            match input {
                Some(Input::Stop) => return,
                Some(input) => self.take(input),
                None => self.show_sometimes(),
            }
        }
    }

    /// Renews what others see of the nodes, if it is old.
    fn show_sometimes(&mut self) {
        if self.shown.elapsed() >= SHOWN_AGAIN {
            self.show();
        }
    }

    fn show(&mut self) {
        self.shown = Instant::now();
        self.channels.view.send_replace(self.nodes.view());
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Dialed { peer, hello, words } => self.take_dialed(peer, &hello, words),
            Input::DialEnded { peer, why } => {
                self.dialed[peer] = None;
                if let Some(why) = why {
                    self.say_of_dialed(peer, &why, true);
                    self.nodes.handle_failed(peer, why);
                }
                self.nodes.handle_closed(peer);
            }
            Input::NotDialed { peer, error } => {
                self.say_of_dialed(peer, &error.to_string(), error.is_wrong());
                match error {
                    NotOpened::Refused => self.nodes.handle_refused(peer),
                    error => self.nodes.handle_failed(peer, error.to_string()),
                }
            }
            Input::Accepted(opened) => match opened.hello.role {
                Role::Heartbeats => self.take_accepted(opened),
                Role::Shard(_) => self.channels.orders.accepted(opened),
            },
            Input::NotAccepted { from, error } => {
                let why = error.to_string();
                if self.said_of_accepted.is_news(from, &why) {
                    tracing::warn!(name: PEER, "a connection to cluster.listener from {from} is refused: {why}");
                }
            }
            Input::Word { peer, connection, word } => {
                let is_newest =
                    self.accepted[peer].as_ref().is_some_and(|newest| newest.number == connection);
                if is_newest && let Err(malformed) = self.nodes.handle_word(peer, &word) {
                    let name = &self.listed[peer].name;
                    tracing::error!(name: PEER, "a word of node {name} is malformed: {malformed}");
                    self.end_accepted(peer);
                    self.nodes.handle_accept_closed(peer);
                }
            }
            Input::AcceptEnded { peer, connection } => {
                if self.accepted[peer].as_ref().is_some_and(|newest| newest.number == connection) {
                    self.accepted[peer] = None;
                    self.nodes.handle_accept_closed(peer);
                }
            }
            Input::Persisted { cluster, number } => {
                let hello = &mut self.introduction.borrow_mut().hello;
                (hello.cluster, hello.number) = (cluster, number);
                self.nodes.handle_persisted();
            }
            Input::Running(running) => self.take_running(*running),
            Input::Members(members) => self.nodes.handle_members(members),
            Input::Admitted { node, result } => self.nodes.handle_admitted(node, result),
            // It ends the loop.
            Input::Stop => {}
        }
    }

    fn take_dialed(&mut self, peer: usize, hello: &Hello, words: mpsc::Sender<Bytes>) {
        self.dialed[peer] = Some(words);
        match self.nodes.handle_dialed(peer, hello) {
            Ok(()) => {
                let ListedNode { name, host, port } = &self.listed[peer];
                self.said_of_dialed.forget(&peer);
                tracing::info!("connected to node {name} at {host}:{port}");
                self.note_boot(hello);
            }
            // The machine closes the connection.
            Err(refusal) => self.say_of_dialed(peer, &refusal.to_string(), true),
        }
    }

    fn take_accepted(&mut self, opened: Opened) {
        let from = opened.stream.peer_addr().map(|address| address.ip());
        match self.nodes.handle_accepted(&opened.hello) {
            Ok(peer) => {
                if let Ok(from) = from {
                    self.said_of_accepted.forget(&from);
                }
                self.note_boot(&opened.hello);
                self.end_accepted(peer);
                self.last_accepted += 1;
                let number = self.last_accepted;
                let words = read_words(peer, number, opened, self.channels.to_inputs.clone());
                let reader = spawn_local(words).abort_handle();
                self.accepted[peer] = Some(Accepted { number, reader });
                if self.dialed[peer].is_none() {
                    // It can be reached now.
                    self.kicks[peer].notify_one();
                }
            }
            Err(refusal) => {
                let why = refusal.to_string();
                if let Ok(from) = from
                    && self.said_of_accepted.is_news(from, &why)
                {
                    tracing::warn!(
                        name: PEER, "a connection of node {:?} from {from} is refused: {why}", opened.hello.name
                    );
                }
                spawn_local(refuse(opened.stream, why));
            }
        }
    }

    /// Connections for messages of an earlier boot are closed.
    fn note_boot(&self, hello: &Hello) {
        self.channels.orders.give(Order::Boot { node: hello.node, boot: hello.boot });
    }

    fn end_accepted(&mut self, peer: usize) {
        if let Some(before) = self.accepted[peer].take() {
            before.reader.abort();
        }
    }

    fn say_of_dialed(&mut self, peer: usize, why: &str, is_wrong: bool) {
        if !self.said_of_dialed.is_news(peer, why) {
            return;
        }
        let ListedNode { name, host, port } = &self.listed[peer];
        match is_wrong {
            true => tracing::warn!(name: PEER, "no connection to node {name} at {host}:{port}: {why}"),
            false => tracing::info!(name: PEER, "no connection to node {name} at {host}:{port}: {why}"),
        }
    }

    fn take_running(&mut self, running: Running) {
        for node in self.supported.keys() {
            tell_support(&running, *node, true);
        }
        running.publishers.set_others(self.alarms.iter().any(|alarms| alarms.any()));
        let introduction = self.introduction.borrow().clone();
        let Hello { node, boot, number, name, .. } = introduction.hello.clone();
        self.channels.orders.give(Order::Run { shards: running.shards.clone(), introduction });
        let me = Me { node, boot, number, name };
        let (inputs, progress) = (self.channels.to_inputs.clone(), self.channels.progress.clone());
        spawn_local(members::tend(me, running.api.clone(), inputs.clone(), progress));
        if let Some(questions) = self.questions.take() {
            spawn_local(members::admit(node, running.api.clone(), inputs, questions));
        }
        self.running = Some(running);
    }

    /// Returns how this node is.
    fn health(&self) -> Health {
        let Some(running) = &self.running else { return Health::default() };
        let now = Instant::now();
        let worst = |ages: fn(&crate::runtime::Punctuality, Instant) -> u64| {
            let worst = running.punctuality.iter().map(|shard| ages(shard, now)).max().unwrap_or(0);
            worst.try_into().unwrap_or(u32::MAX)
        };
        let resources = *running.resources.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Health {
            oldest_unsynced_ms: worst(crate::runtime::Punctuality::unlogged_ms),
            oldest_turn_ms: worst(crate::runtime::Punctuality::unfinished_ms),
            alarms: Alarms { memory: resources.memory_alarm, disk: resources.disk_alarm },
        }
    }

    fn carry_out(&mut self) {
        while let Some(event) = self.nodes.poll() {
            match event {
                Event::Send { peer, word } => {
                    if let Some(words) = &self.dialed[peer] {
                        // A word that does not fit is lost. The machine closes a connection that stands still.
                        drop(words.try_send(word.into()));
                    }
                }
                Event::Close { peer, side: Side::Dialed } => self.dialed[peer] = None,
                Event::Close { peer, side: Side::Accepted } => self.end_accepted(peer),
                // The receiver is gone only if the start has failed.
                Event::Found { cluster } => _ = self.channels.steps.send(Step::Found { cluster }),
                Event::Join { cluster, number } => {
                    let _ = self.channels.steps.send(Step::Join { cluster, number });
                }
                // The task ends with this thread. The machine asks once for each node until it gets the answer.
                Event::AskToAdmit { node, name } => drop(self.asked.send((node, name))),
                Event::Support { number, ended, .. } => self.change_support(number, ended),
                Event::Alarms { peer, alarms } => self.change_alarms(peer, alarms),
                Event::Clocks { peer, ahead_ms, are_apart } => self.say_of_clocks(peer, ahead_ms, are_apart),
                Event::OtherCluster { peer, ours, theirs } => {
                    let name = &self.listed[peer].name;
                    tracing::error!("node {name} is a member of cluster {theirs}, and this node of {ours}");
                }
            }
        }
        let waits = self.nodes.waits();
        if waits != self.waits {
            if waits != Waits::Nothing {
                tracing::info!("forming a cluster: this node waits for {waits}");
            }
            self.waits = waits;
            self.show();
        }
    }

    /// Stops publishers while any other node has an alarm.
    fn change_alarms(&mut self, peer: usize, now: Alarms) {
        let before = std::mem::replace(&mut self.alarms[peer], now);
        let name = &self.listed[peer].name;
        let is_supported = self.supported.values().any(|supported| supported == name);
        for (what, was_set, is_set) in
            [("memory", before.memory, now.memory), ("disk", before.disk, now.disk)]
        {
            match (was_set, is_set) {
                (false, true) => {
                    tracing::warn!("{what} alarm of node {name}: publishers are stopped here, too")
                }
                (true, false) if is_supported => tracing::info!("{what} alarm of node {name} cleared"),
                (true, false) => tracing::info!("{what} alarm of node {name} does not count any more"),
                _ => {}
            }
        }
        if let Some(running) = &self.running {
            running.publishers.set_others(self.alarms.iter().any(|alarms| alarms.any()));
        }
        self.show();
    }

    fn say_of_clocks(&self, peer: usize, ahead_ms: i64, are_apart: bool) {
        let (here, there) = (&self.introduction.borrow().hello.name, &self.listed[peer].name);
        let direction = if ahead_ms < 0 { "behind" } else { "ahead of" };
        let ms = ahead_ms.unsigned_abs();
        match are_apart {
            true => tracing::warn!(
                "the clock of node {there} is {ms} ms {direction} that of node {here}: set both by a time service"
            ),
            false => tracing::info!("the clocks of nodes {there} and {here} agree again"),
        }
    }

    fn change_support(&mut self, number: u32, ended: Option<::nodes::Why>) {
        match ended {
            None => {
                let view = self.nodes.view();
                let nodes = view.nodes.into_iter().enumerate();
                // It has just been found there.
                let Some((place, node)) =
                    nodes.into_iter().find(|(_, node)| node.number == number && !node.is_me)
                else {
                    return;
                };
                tracing::info!("node {} is in sight, as number {number}", node.name);
                let target = Target { number, node: node.node };
                self.channels.orders.give(Order::Target { place, target });
                self.supported.insert(number, node.name);
            }
            Some(why) => {
                let name = self.supported.remove(&number).unwrap_or_default();
                tracing::warn!("node {name}, number {number}, does not count as alive: {why}");
            }
        }
        if let Some(running) = &self.running {
            tell_support(running, number, ended.is_none());
            if ended == Some(Why::Gone) {
                tell(running, || Incoming::Gone { node: number });
            }
        }
        self.show();
    }
}

fn tell_support(running: &Running, node: u32, supported: bool) {
    tell(running, || Incoming::Support { node, supported });
}

/// Tells all shards.
fn tell(running: &Running, what: impl Fn() -> Incoming) {
    for shard in &running.shards {
        // A shard that has ended needs to know nothing.
        drop(shard.send(what()));
    }
}
