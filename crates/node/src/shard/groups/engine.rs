//! The engine of one group, which rests while the group has nothing to do.

use replica::{Group, Member, Options, Progress, Resting, Round};

/// The number of rounds of the chores without an entry after which an engine rests. One that rests too early is soon woken
/// again, which takes some microseconds. With more rounds, more engines would be awake at the same time, and their memory
/// would be scattered between what stays.
const QUIET_ROUNDS: u8 = 2;

/// The engine of a group. A resting one takes a few hundred bytes instead of a few KiB, and wakes when it is needed.
pub(in crate::shard) struct Engine {
    state: State,
    /// The last index at the latest round of the chores, and the number of rounds since which it is the same.
    seen: u64,
    quiet: u8,
}

enum State {
    Awake(Box<Group>),
    Resting(Resting),
}

impl Engine {
    pub(crate) fn new(group: Group) -> Self {
        Self { state: State::Awake(Box::new(group)), seen: 0, quiet: 0 }
    }

    /// Returns the engine, awake.
    pub(crate) fn wake(&mut self) -> &mut Group {
        if let State::Resting(resting) = &self.state {
            self.state = State::Awake(Box::new(resting.clone().wake(Options::default())));
        }
        match &mut self.state {
            State::Awake(group) => group,
            State::Resting(_) => unreachable!("it was woken above"),
        }
    }

    pub(crate) fn me(&self) -> Member {
        match &self.state {
            State::Awake(group) => group.me(),
            State::Resting(resting) => resting.me(),
        }
    }

    #[cfg(test)]
    pub(crate) fn standing(&self) -> replica::Standing {
        match &self.state {
            State::Awake(group) => group.standing(),
            State::Resting(resting) => resting.standing(),
        }
    }

    /// Returns how far the log of the group has come. All entries of a resting group are applied.
    pub(crate) fn progress(&self) -> Progress {
        match &self.state {
            State::Awake(group) => group.progress(),
            State::Resting(resting) => {
                let last = resting.last().index;
                Progress { last, written: last, committed: last, applied: last }
            }
        }
    }

    /// See [`Group::is_settled`].
    pub(crate) fn is_settled(&self) -> bool {
        match &self.state {
            State::Awake(group) => group.is_settled(),
            State::Resting(_) => true,
        }
    }

    /// Returns the next round. A resting engine has none.
    pub(crate) fn poll_round(&mut self) -> Option<Round> {
        match &mut self.state {
            State::Awake(group) => group.poll_round(),
            State::Resting(_) => None,
        }
    }

    /// Called once in each round of the chores. Returns true if the engine rests from now on.
    pub(crate) fn rest_if_quiet(&mut self) -> bool {
        let State::Awake(group) = &self.state else { return false };
        let last = group.last().index;
        if std::mem::replace(&mut self.seen, last) != last {
            self.quiet = 0;
            return false;
        }
        self.quiet = self.quiet.saturating_add(1);
        self.quiet >= QUIET_ROUNDS && self.rest()
    }

    /// Returns true if the engine rests: it has nothing to do until somebody needs its queue.
    pub(crate) fn rests(&self) -> bool {
        matches!(self.state, State::Resting(_))
    }

    /// Lets the engine rest at once if it has nothing to do. Returns true if it rests.
    pub(crate) fn rest(&mut self) -> bool {
        if let State::Awake(group) = &self.state
            && let Some(resting) = group.rest()
        {
            self.state = State::Resting(resting);
        }
        self.rests()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use replica::Role;

    use super::super::hosted::Hosted;
    use super::*;

    fn synced(engine: &mut Engine) {
        while let Some(round) = engine.poll_round() {
            engine.wake().on_synced(round.number);
        }
    }

    #[test]
    fn a_quiet_engine_rests_and_still_leads_when_it_wakes() {
        let (slot, _) = Hosted::founding(1, &[1], Bytes::from_static(b"state"));
        let mut engine = slot.engine;
        synced(&mut engine);
        engine.wake().campaign().unwrap();
        synced(&mut engine);
        let before = (engine.standing(), engine.progress());
        assert_eq!(before.0.role, Role::Leader);
        let rounds = (1..).find(|_| engine.rest_if_quiet());
        // The first round only notes the last index.
        assert_eq!(rounds, Some(u32::from(QUIET_ROUNDS) + 1));
        assert_eq!((engine.standing(), engine.progress()), before);
        assert!(engine.poll_round().is_none() && engine.is_settled());
        let index = engine.wake().propose(before.0.term, Bytes::from_static(b"facts")).unwrap();
        assert_eq!(index, before.1.last + 1);
        synced(&mut engine);
        assert_eq!(engine.progress().applied, index);
        assert!(!engine.rest_if_quiet(), "it was not quiet since the last round");
    }

    #[test]
    fn an_engine_with_an_entry_on_its_way_does_not_rest() {
        let (slot, _) = Hosted::founding(1, &[1], Bytes::from_static(b"state"));
        let mut engine = slot.engine;
        synced(&mut engine);
        engine.wake().campaign().unwrap();
        synced(&mut engine);
        let term = engine.standing().term;
        engine.wake().propose(term, Bytes::from_static(b"facts")).unwrap();
        let round = engine.poll_round().unwrap();
        assert!((0..2 * QUIET_ROUNDS).all(|_| !engine.rest_if_quiet()));
        engine.wake().on_synced(round.number);
        synced(&mut engine);
        assert!(engine.rest_if_quiet());
    }
}
