//! Alarms of hosts, and a naive model of those that count.

use std::collections::BTreeMap;

use super::{Violation, World, name};
use crate::word::{Body, State, Word};
use crate::{Alarms, Health, Life};

/// What a process has seen of the alarms of other hosts.
#[derive(Default)]
pub(super) struct SeenAlarms {
    /// What its machine has told, by host.
    told: BTreeMap<usize, Alarms>,
    /// The number and the alarms in the last beat that has arrived, by host.
    heard: BTreeMap<usize, (u32, Alarms)>,
}

impl SeenAlarms {
    /// Notes a word that arrives for this life of the receiver.
    pub(super) fn note_word(&mut self, from: usize, receiver: Life, word: &[u8]) {
        let Word { to, body: Body::Beat(beat), .. } = Word::decode(word).expect("a proper word") else {
            return;
        };
        if let State::Member { number, .. } = beat.state
            && to == receiver
        {
            self.heard.insert(from, (number, beat.health.alarms));
        }
    }

    pub(super) fn note_told(&mut self, host: usize, alarms: Alarms) -> Result<(), Violation> {
        match self.told.insert(host, alarms).unwrap_or_default() == alarms {
            true => Err(format!("the alarms of {} are told twice", name(host))),
            false => Ok(()),
        }
    }
}

impl World {
    /// Sets the health of a host. Its alarms stay as they are.
    pub(in crate::tests) fn set_health(&mut self, at: usize, health: Health) {
        if let Some(process) = &mut self.hosts[at].process {
            process.health = Health { alarms: process.health.alarms, ..health };
            process.nodes.handle_health(process.health);
        }
    }

    /// Raises and clears alarms of any host.
    pub(super) fn change_alarms(&mut self) {
        let at = self.alarms.index(self.hosts.len());
        let alarms = Alarms { memory: self.alarms.one_in(2), disk: self.alarms.one_in(3) };
        if let Some(process) = &mut self.hosts[at].process {
            process.health.alarms = alarms;
            process.nodes.handle_health(process.health);
        }
    }

    /// Checks that the alarms of a host are those of the model: what its last beat said, while it is supported.
    pub(super) fn check_alarms(&mut self, one: usize, other: usize) {
        let Some(here) = &self.hosts[one].process else { return };
        let SeenAlarms { told, heard } = &here.alarms;
        let heard = heard.get(&other).filter(|(number, _)| here.supports.contains_key(number));
        let (heard, told) = (
            heard.map(|(_, alarms)| *alarms).unwrap_or_default(),
            told.get(&other).copied().unwrap_or_default(),
        );
        if told != heard {
            self.fail(format!("{} counts {told:?} of {}, not {heard:?}", name(one), name(other)));
        }
    }
}
