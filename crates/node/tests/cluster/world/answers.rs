//! Clients that change definitions, and what must be true when they are answered.

use std::cell::RefCell;
use std::rc::Rc;

use catalog::{Arguments, Command, DeclareQueue};

use super::{ANSWER_MS, Asked, DECLARATIONS_MAX, Plan, SEEN_MS, World};
use crate::asks::Asks;
use crate::cluster::links::Kind;
use crate::cluster::node::Process;

impl World {
    pub(super) fn ask(&mut self) {
        if !self.has_clients || self.names as usize >= DECLARATIONS_MAX || !self.random.one_in(6) {
            return;
        }
        let at = self.random.index(self.nodes.len());
        let (now_ms, boot) = (self.now_ms, self.nodes[at].boot);
        let Some(process) =
            self.nodes[at].process.as_mut().filter(|process| process.paused_until_ms <= now_ms)
        else {
            return;
        };
        let Some(broker) =
            process.broker.as_mut().filter(|broker| !broker.shards[0].catalog().nodes().is_empty())
        else {
            return;
        };
        self.names += 1;
        let name = format!("q{}", self.names);
        let durable = !self.names.is_multiple_of(2);
        // What is confirmed survives a power cut.
        let arguments: Arguments = match durable {
            true if self.names.is_multiple_of(3) => [("x-queue-type".to_owned(), "quorum".into())].into(),
            true => [("x-fsync".to_owned(), true.into())].into(),
            false => Arguments::default(),
        };
        let mut declare = DeclareQueue::new("/", name.as_str(), arguments);
        declare.durable = durable;
        let command = Command::DeclareQueue(declare);
        let answer = Rc::new(RefCell::new(None));
        let to = answer.clone();
        let shard = self.random.index(broker.shards.len());
        broker.shards[shard].propose(command, Box::new(move |answered| *to.borrow_mut() = Some(answered)));
        self.asked.push(Asked { name, node: at, boot, since_ms: now_ms, answer });
    }

    /// Notes which nodes see each other.
    pub(super) fn look_around(&mut self) {
        for (a, b) in self.networks.keys().copied() {
            let one_way = |from: usize, to: usize| {
                let pipe = &self.pipes[&(from, to, Kind::Data)];
                let process = self.nodes[from].process.as_ref();
                let process = process.filter(|process| process.paused_until_ms <= self.now_ms);
                let number = self.nodes[to].number();
                let supports = |process: &Process| number.is_some_and(|to| process.supported.contains(&to));
                // A node that has just joined has no catalog, and no clients.
                let has_catalog = |process: &Process| {
                    let broker = process.broker.as_ref();
                    broker.is_some_and(|broker| broker.shards.iter().all(|shard| shard.catalog_index() > 0))
                };
                let sees = process.is_some_and(|process| supports(process) && has_catalog(process));
                pipe.is_open && !pipe.is_reset && sees
            };
            match one_way(a, b) && one_way(b, a) {
                true => _ = self.in_sight.entry((a, b)).or_insert(self.now_ms),
                false => _ = self.in_sight.remove(&(a, b)),
            }
            let broker = self.nodes[a].process.as_ref().and_then(|process| process.broker.as_ref());
            if let (Some(broker), Some(number)) = (broker, self.nodes[b].number())
                && broker.shards[0].is_behind(number)
            {
                self.behind.insert((a, b), self.now_ms);
            }
        }
    }

    pub(super) fn take_answers(&mut self) {
        self.look_around();
        let (nodes, history, now_ms) = (&self.nodes, &mut self.history, self.now_ms);
        let (in_sight, behind, plan) = (&self.in_sight, &self.behind, self.plan);
        self.asked.retain(|asked| {
            let node = &nodes[asked.node];
            if let Some(answer) = asked.answer.borrow_mut().take() {
                let number: u64 = asked.name[1..].parse().unwrap();
                if number.is_multiple_of(2) {
                    if answer.is_ok() && node.boot == asked.boot && node.process.is_some() {
                        self.transient.push((asked.name.clone(), asked.node, asked.boot));
                    }
                } else {
                    history.note_answer(asked.node, &asked.name, &answer);
                }
                if answer.is_ok() {
                    // All shards of the node have it.
                    for shard in node
                        .process
                        .iter()
                        .filter_map(|process| process.broker.as_ref())
                        .flat_map(|broker| &broker.shards)
                    {
                        assert!(shard.catalog().listed_queue("/", &asked.name).is_some(), "{}", asked.name);
                    }
                    // So have all nodes in sight.
                    let broker = |at: usize| nodes[at].process.as_ref()?.broker.as_ref();
                    let seen = in_sight.iter().filter(|((a, _), since_ms)| {
                        *a == asked.node && node.boot == asked.boot && **since_ms + SEEN_MS <= now_ms
                    });
                    for ((a, b), _) in seen {
                        let Some(there) = broker(*b) else {
                            continue;
                        };
                        let is_behind = behind.get(&(*a, *b)).is_some_and(|at_ms| *at_ms >= asked.since_ms);
                        assert!(!is_behind || plan != Plan::Quiet, "{} is behind", nodes[*b].name);
                        for shard in &there.shards {
                            assert!(
                                is_behind || shard.catalog().listed_queue("/", &asked.name).is_some(),
                                "{} was declared on {}, which has {} in sight, and is not known there",
                                asked.name,
                                node.name,
                                nodes[*b].name
                            );
                        }
                    }
                }
                return false;
            }
            // A client of a process that has ended gets no answer.
            let Some(process) = node.process.as_ref().filter(|_| node.boot == asked.boot) else {
                return false;
            };
            let is_late = asked.since_ms.max(process.paused_until_ms) + ANSWER_MS < now_ms;
            assert!(!is_late, "{} was asked on {} and is not answered", asked.name, node.name);
            true
        });
    }
}
