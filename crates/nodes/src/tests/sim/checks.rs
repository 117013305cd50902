//! What must hold in a simulation.

use super::{Dial, Path, Violation, World, name, pair};
use crate::word::{Body, Word};
use crate::{Directory, Member, Reason, SILENCE_MS, State, Waits};

impl World {
    /// Checks that all running nodes are members of one cluster and support each other, or wait for what they should.
    pub(in crate::tests) fn check_healed(&self) -> Result<(), Violation> {
        let clusters = self.clusters();
        let holders = self.hosts.iter().filter(|host| host.directory == Directory::Holds).count();
        for at in 0..self.hosts.len() {
            let Some(nodes) = self.nodes(at) else { continue };
            let (waits, host) = (nodes.waits(), &self.hosts[at]);
            let has_namesake = || {
                let members = clusters.first().and_then(|cluster| self.catalogs.get(cluster));
                let is_namesake = |m: &Member| m.name == name(at) && m.node != host.life.node;
                members.is_some_and(|members| members.iter().any(is_namesake))
            };
            let is_right = match &waits {
                Waits::Nothing => matches!(host.directory, Directory::Member { .. }),
                Waits::Holders(names) => clusters.is_empty() && holders > 1 && names.len() == holders,
                Waits::NotAdmitted { reason: Reason::WouldReplace(_), .. } => has_namesake(),
                _ => false,
            };
            if !is_right {
                return Err(format!("{} waits for {waits:?}, with {:?}", name(at), host.directory));
            }
            for (other, host) in self.hosts.iter().enumerate().filter(|(other, _)| *other != at) {
                let Directory::Member { number, .. } = host.directory else { continue };
                let is_member = waits == Waits::Nothing && host.process.is_some();
                if is_member && !(nodes.supports(number) && nodes.acknowledged_within(number, 1_500)) {
                    let view = &nodes.view().nodes[other];
                    return Err(format!("{} does not support {}: {view}", name(at), name(other)));
                }
                let raised = host.process.as_ref().map(|process| process.health.alarms).unwrap_or_default();
                let counted = nodes.view().nodes[other].alarms;
                if is_member && counted != raised {
                    return Err(format!(
                        "{} counts {counted:?} of {}, not {raised:?}",
                        name(at),
                        name(other)
                    ));
                }
            }
        }
        Ok(())
    }

    pub(super) fn check(&mut self) {
        if self.clusters().len() > 1 {
            self.fail(format!("two clusters: {:?}", self.clusters()));
        }
        for one in 0..self.hosts.len() {
            for other in (0..self.hosts.len()).filter(|other| *other != one) {
                self.check_pair(one, other);
            }
        }
        let hosts = &self.hosts;
        self.connections.retain(|id, connection| {
            let dials = hosts[connection.from].process.as_ref().map(|process| &process.dials[connection.to]);
            let is_dialed =
                matches!(dials, Some(Dial::Trying(dialed, _) | Dial::Open(dialed)) if dialed == id);
            let is_quiet = connection.there.is_empty() && connection.back.is_empty();
            is_dialed || connection.accepted.is_some() || !is_quiet
        });
    }

    fn check_pair(&mut self, one: usize, other: usize) {
        self.check_alarms(one, other);
        let is_open = self.paths[one][other].0 == Path::Open && self.paths[other][one].0 == Path::Open;
        if [self.paths[one][other].0, self.paths[other][one].0].contains(&Path::Refuses) {
            self.refused_ms.insert(pair(one, other), self.now_ms);
        }
        if is_open {
            self.cut_ms.remove(&pair(one, other));
        } else {
            self.cut_ms.entry(pair(one, other)).or_insert(self.now_ms);
        }
        let ago_ms = |time_ms: Option<&u64>| time_ms.map_or(u64::MAX, |time_ms| self.now_ms - time_ms);
        let Directory::Member { number: mine, .. } = self.hosts[one].directory else { return };
        let Directory::Member { number, .. } = self.hosts[other].directory else { return };
        let (Some(here), Some(there)) = (&self.hosts[one].process, &self.hosts[other].process) else {
            return;
        };
        if self.cut_ms.contains_key(&pair(one, other))
            && ago_ms(self.cut_ms.get(&pair(one, other))) >= 3_000
            && here.supports.contains_key(&number)
        {
            self.fail(format!("{} supports {} over a cut", name(one), name(other)));
            return;
        }
        // A restarted node votes for nobody for some time, and a refused connection is a wrong guess.
        let is_excepted = self.now_ms - there.started_ms < SILENCE_MS + 100
            || ago_ms(self.refused_ms.get(&pair(one, other))) < SILENCE_MS + 100;
        let is_supported = there.supports.get(&mine) == Some(&self.hosts[one].life.boot);
        if self.is_exact && !is_excepted && !is_supported && here.nodes.acknowledged_within(number, 1_500) {
            self.fail(format!("{} counts on {}, which does not support it", name(one), name(other)));
        }
    }

    pub(super) fn check_founding(&mut self, at: usize) {
        for other in 0..self.hosts.len() {
            let ago_ms = self.heard_ms.get(&(at, other)).map_or(u64::MAX, |time_ms| self.now_ms - time_ms);
            if other != at && ago_ms > SILENCE_MS + 100 {
                self.fail(format!("{} founds without {}", name(at), name(other)));
            }
            if self.hosts[other].list != self.hosts[at].list {
                self.fail(format!("{} founds, but {} has another list", name(at), name(other)));
            }
        }
    }

    /// Checks that a node says what is on its disk.
    pub(super) fn check_word(&mut self, at: usize, word: &[u8]) {
        let host = &self.hosts[at];
        let is_pending = host.process.as_ref().is_some_and(|process| process.persisting.is_some());
        let says = match Word::decode(word).expect("a proper word").body {
            Body::Beat(beat) => beat.state,
            Body::Admitted { cluster, .. } => {
                self.talk += 1;
                if !matches!(host.directory, Directory::Member { cluster: own, .. } if own == cluster) {
                    self.fail(format!("{} admits to another cluster", name(at)));
                }
                return;
            }
            Body::Join | Body::NotAdmitted(_) => {
                self.talk += 1;
                return;
            }
        };
        let is_true = match (host.directory, says) {
            (Directory::Empty | Directory::Holds, State::Pending(_)) => is_pending,
            (Directory::Empty, State::Empty) | (Directory::Holds, State::Holds) => !is_pending,
            (Directory::Member { cluster, number }, State::Member { cluster: said, number: said_number }) => {
                (cluster, number) == (said, said_number)
            }
            _ => false,
        };
        if !is_true {
            self.fail(format!("{} says {says:?}, but has {:?} on disk", name(at), host.directory));
        }
    }
}
