//! What a queue must hold after a kill.
//!
//! *Sent* is every message that a publisher has handed to its client; *confirmed* those with the outcome accepted.
//! *Before* is what consumers got from the queue before the kill, and accepted; *after* is what came when it was
//! drained. Each publisher numbers its messages in the order of sending. Then:
//!
//! 1. Nothing is lost: each confirmed message is in *before* or in *after*.
//! 2. Nothing is invented: what came was sent, octet by octet.
//! 3. Nothing is doubled: no message came twice before the kill, none twice after. One that came before may come again
//!    after, because its acceptance may not have been written. A message that was sent but not confirmed may or may
//!    not be there; as nobody sends it again, it is there once at most.
//!    Dead letters are the exception: one that was on its way may come twice.
//! 4. Nothing is out of order: what one consumer got of one publisher before, and after, is in the order of sending. Dead
//!    letters, which may come again, have none.

use std::collections::HashSet;

use crate::content::Id;

/// What the publishers know, by publisher.
#[derive(Debug, Default)]
pub struct Ledger {
    /// How many messages were sent: numbers 0 to below this.
    pub sent: Vec<u64>,
    pub confirmed: Vec<HashSet<u64>>,
}

/// What came from a queue, by consumer, in the order of arrival.
#[derive(Debug, Default)]
pub struct Came {
    pub before: Vec<Vec<Id>>,
    pub after: Vec<Vec<Id>>,
}

/// Figures that are allowed to be anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Not confirmed, but there.
    pub unconfirmed_came: u64,
    /// Came before the kill, and again after it.
    pub came_again: u64,
}

/// Compares; `twice` if a message may come twice after the kill.
///
/// # Errors
/// The first rule that is broken, with the message.
pub fn judge(ledger: &Ledger, came: &Came, twice: bool) -> Result<Figures, String> {
    let before = gather(ledger, &came.before, false).map_err(|why| format!("before the kill {why}"))?;
    let after = gather(ledger, &came.after, twice).map_err(|why| format!("after the kill {why}"))?;
    for (publisher, confirmed) in ledger.confirmed.iter().enumerate() {
        let lost = |number: &&u64| {
            let id = Id { publisher, number: **number };
            !before.contains(&id) && !after.contains(&id)
        };
        if let Some(first) = confirmed.iter().filter(lost).min() {
            let count = confirmed.iter().filter(lost).count();
            return Err(format!(
                "{count} confirmed messages of publisher {publisher} are lost, first {first}"
            ));
        }
    }
    let unconfirmed = |id: &&Id| !ledger.confirmed[id.publisher].contains(&id.number);
    Ok(Figures {
        unconfirmed_came: before.union(&after).filter(unconfirmed).count() as u64,
        came_again: before.intersection(&after).count() as u64,
    })
}

/// All that the consumers got, each message once and each publisher's in order, unless they may come twice.
fn gather(ledger: &Ledger, consumers: &[Vec<Id>], twice: bool) -> Result<HashSet<Id>, String> {
    let mut all = HashSet::new();
    for sequence in consumers {
        let mut last = vec![None; ledger.sent.len()];
        for id in sequence {
            if ledger.sent.get(id.publisher).is_none_or(|sent| id.number >= *sent) {
                return Err(format!("{id:?} came, which nobody sent"));
            }
            let new = all.insert(*id);
            if twice {
                continue;
            }
            if !new {
                return Err(format!("{id:?} came twice"));
            }
            let last = &mut last[id.publisher];
            if *last > Some(id.number) {
                return Err(format!("{id:?} came behind number {last:?}"));
            }
            *last = Some(id.number);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(numbers: &[u64]) -> Vec<Id> {
        numbers.iter().map(|number| Id { publisher: 0, number: *number }).collect()
    }

    /// Five were sent, 0 to 2 confirmed.
    fn judged(before: &[&[u64]], after: &[&[u64]]) -> Result<Figures, String> {
        let ledger = Ledger { sent: vec![5], confirmed: vec![[0, 1, 2].into()] };
        let lists = |lists: &[&[u64]]| lists.iter().map(|l| ids(l)).collect();
        judge(&ledger, &Came { before: lists(before), after: lists(after) }, false)
    }

    #[test]
    fn what_is_allowed() {
        let figures = |unconfirmed_came, came_again| Ok(Figures { unconfirmed_came, came_again });
        assert_eq!(judged(&[], &[&[0, 1, 2]]), figures(0, 0));
        assert_eq!(judged(&[], &[&[0, 2, 4], &[1, 3]]), figures(2, 0));
        assert_eq!(judged(&[&[0, 1, 3]], &[&[1, 2]]), figures(1, 1));
    }

    #[test]
    fn what_is_not() {
        for (before, after, why) in [
            (&[&[0][..]][..], &[&[2][..]][..], "lost"),
            (&[], &[&[0, 1, 2, 5]], "nobody sent"),
            (&[], &[&[0, 1, 1, 2]], "twice"),
            (&[], &[&[0, 1], &[1, 2]], "twice"),
            (&[&[0, 0]], &[&[0, 1, 2]], "twice"),
            (&[], &[&[1, 0, 2]], "behind"),
        ] {
            let refused = judged(before, after).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
