//! The faults, and their end.

use wal_testing::Crash;

use super::{Plan, World};
use crate::cluster::links::{Kind, Network};
use crate::cluster::node::{DiskState, SimNode};
use crate::world::{Contents, Fault, Place, Suspects, make_fault};

/// A process stands still for so long.
const PAUSE_MIN_MS: u64 = 100;
const PAUSE_MAX_MS: u64 = 5000;

impl World {
    pub(super) fn trouble(&mut self) {
        if self.plan == Plan::Quiet || !self.random.one_in(150) {
            return;
        }
        let pairs: Vec<(usize, usize)> = self.networks.keys().copied().collect();
        let pair = pairs[self.random.index(pairs.len())];
        let kinds = match self.plan {
            Plan::Quiet => 0,
            Plan::Cuts => 7,
            Plan::Kills => 9,
            // The first damage is the last one.
            Plan::Damage => 12,
        };
        match self.random.below(kinds) {
            0 => self.networks.values_mut().for_each(|network| *network = Network::default()),
            1 => self.networks.entry(pair).or_default().is_cut = true,
            2 => {
                for pair in [pair, (pair.1, pair.0)] {
                    self.networks.entry(pair).or_default().is_cut = true;
                }
            }
            3 => {
                // A node is cut off.
                let of_node = self.networks.iter_mut().filter(|((a, b), _)| *a == pair.0 || *b == pair.0);
                of_node.for_each(|(_, network)| network.is_cut = true);
            }
            4 => self.networks.entry(pair).or_default().delay_ms = self.random.below(300),
            5 => {
                let paused_ms = self.now_ms + self.random.between(PAUSE_MIN_MS, PAUSE_MAX_MS);
                if let Some(process) = &mut self.nodes[pair.0].process {
                    process.paused_until_ms = process.paused_until_ms.max(paused_ms);
                }
            }
            6 => self.nodes[pair.0].clock.jump(&mut self.random),
            7 => self.start(pair.0),
            8 => {
                let how = if self.random.one_in(2) { Crash::Power } else { Crash::Process };
                self.kill(pair.0, how);
            }
            _ => self.damage(pair.0),
        }
    }

    fn kill(&mut self, at: usize, how: Crash) {
        if self.nodes[at].process.is_none() {
            return;
        }
        self.nodes[at].kill(how);
        let now_ms = self.now_ms;
        let pipes: Vec<_> =
            self.pipes.keys().copied().filter(|(from, to, _)| *from == at || *to == at).collect();
        for (from, to, kind) in pipes {
            let Some(pipe) = self.pipes.get_mut(&(from, to, kind)) else { continue };
            if to == at {
                pipe.reset();
            } else if std::mem::take(pipe).is_open && kind == Kind::Heartbeats {
                pipe.dial_ms = now_ms;
                self.close_accepted(from, to);
            }
        }
    }

    /// Kills a process, and wipes or damages its disk. Only one node has that in a run, and only when the cluster can do without it. The machine keeps
    /// its power: after a power cut, damage at the end of a log cannot be told from what was never synced.
    fn damage(&mut self, at: usize) {
        let knows_three_voters = |node: &mut SimNode| {
            let broker = node.process.as_mut().and_then(|process| process.broker.as_mut());
            broker.is_some_and(|broker| broker.shards[0].catalog_sight().voters.len() == 3)
        };
        if self.hurt.is_some() || !self.nodes.iter_mut().all(knows_three_voters) {
            return;
        }
        self.kill(at, Crash::Process);
        let (node, random) = (&mut self.nodes[at], &mut self.random);
        let places = [Place::Message, Place::Definition, Place::Log, Place::LogFile];
        let place = match random.below(6) {
            0 => {
                node.wipe(random);
                self.hurt = Some((at, None));
                return;
            }
            n => places[(n as usize).min(places.len()) - 1],
        };
        let Fault { suspects, .. } = make_fault(place, &node.disks, &Contents::of(&node.disks.log), random);
        node.disk = DiskState::Damaged;
        let suspects = match suspects {
            Suspects::All | Suspects::Queues => None,
            Suspects::Only(owners) => Some(owners),
        };
        self.hurt = Some((at, suspects));
    }

    pub(super) fn start(&mut self, at: usize) {
        if self.nodes[at].process.is_none() {
            self.nodes[at].start(&self.listed, self.now_ms, &mut self.random, self.mistake);
        }
    }

    /// Heals the network, and starts what has ended. Nothing else is done from outside.
    pub(super) fn heal(&mut self) {
        self.networks.values_mut().for_each(|network| *network = Network::default());
        (0..self.nodes.len()).for_each(|at| self.start(at));
        for process in self.nodes.iter_mut().filter_map(|node| node.process.as_mut()) {
            process.paused_until_ms = process.paused_until_ms.min(self.now_ms);
        }
    }
}
