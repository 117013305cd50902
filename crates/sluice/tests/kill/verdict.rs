//! Judges what a queue holds after a kill.
//!
//! *Sent* is every message that a publisher handed to its client. *Confirmed* are those with the outcome
//! accepted. *Before* is what consumers received and accepted before the kill. *After* is what they received
//! when the queue was drained. Each publisher numbers its messages in the order of sending. Then:
//!
//! 1. Nothing is lost: each confirmed message is in *before* or in *after*.
//! 2. Nothing is invented: every message received was sent, with the same octets.
//! 3. Nothing is doubled: no message occurs twice in *before* or twice in *after*. A message may be in both: its
//!    acceptance may not have been written before the kill. A message that was sent but not confirmed may be there,
//!    at most once, as nobody sends it again. Dead letters are the exception: one that was in flight may occur twice.
//! 4. Nothing is out of order: what one consumer received of one publisher, before or after, is in the order of
//!    sending. Dead letters may be repeated, so the rule applies to the first occurrence of each.

use std::collections::HashSet;

use super::content::Id;

/// What the publishers know. The index is the publisher.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The number of messages that each publisher sent. Their numbers are below this.
    pub sent: Vec<u64>,
    pub confirmed: Vec<HashSet<u64>>,
}

/// The messages that consumers received from a queue, in the order of arrival. The index is the consumer.
#[derive(Debug, Default)]
pub(super) struct Came {
    pub before: Vec<Vec<Id>>,
    pub after: Vec<Vec<Id>>,
}

/// Figures for the report. The test passes with any values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    /// The number of messages that were not confirmed but were received.
    pub unconfirmed_came: u64,
    /// The number of messages that were received before the kill and again after it.
    pub came_again: u64,
}

/// Checks the rules. If `twice` is set, a message may occur twice after the kill. Then one consumer must have received
/// everything before the kill, and one everything after it: the first occurrence of a message is not known otherwise.
///
/// # Errors
/// The first broken rule, with the message.
pub(super) fn judge(ledger: &Ledger, came: &Came, twice: bool) -> Result<Figures, String> {
    let before = gather(ledger, &came.before, None).map_err(|why| format!("before the kill {why}"))?;
    // What was accepted before the kill may come back behind its successors, when the queue in which it expired has
    // not noted that its dead letter arrived.
    let repeated = twice.then_some(&before);
    let after = gather(ledger, &came.after, repeated).map_err(|why| format!("after the kill {why}"))?;
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

/// Returns all messages that the consumers received. Each must occur once, and each publisher's in order. With
/// `repeated`, a message may occur again, and those in this set may occur anywhere.
fn gather(
    ledger: &Ledger,
    consumers: &[Vec<Id>],
    repeated: Option<&HashSet<Id>>,
) -> Result<HashSet<Id>, String> {
    let mut all = HashSet::new();
    for sequence in consumers {
        let mut last = vec![None; ledger.sent.len()];
        for id in sequence {
            if ledger.sent.get(id.publisher).is_none_or(|sent| id.number >= *sent) {
                return Err(format!("{id:?} was received but never sent"));
            }
            let new = all.insert(*id);
            if repeated.is_some_and(|before| !new || before.contains(id)) {
                continue;
            }
            if !new {
                return Err(format!("{id:?} was received twice"));
            }
            let last = &mut last[id.publisher];
            if *last > Some(id.number) {
                return Err(format!("{id:?} was received after number {last:?}"));
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

    /// Judges a case in which five messages were sent, and the messages 0 to 2 are confirmed.
    fn judged(before: &[&[u64]], after: &[&[u64]]) -> Result<Figures, String> {
        judged_as(before, after, false)
    }

    fn judged_as(before: &[&[u64]], after: &[&[u64]], twice: bool) -> Result<Figures, String> {
        let ledger = Ledger { sent: vec![5], confirmed: vec![[0, 1, 2].into()] };
        let lists = |lists: &[&[u64]]| lists.iter().map(|l| ids(l)).collect();
        judge(&ledger, &Came { before: lists(before), after: lists(after) }, twice)
    }

    #[test]
    fn allowed_histories_pass() {
        let figures = |unconfirmed_came, came_again| Ok(Figures { unconfirmed_came, came_again });
        assert_eq!(judged(&[], &[&[0, 1, 2]]), figures(0, 0));
        assert_eq!(judged(&[], &[&[0, 2, 4], &[1, 3]]), figures(2, 0));
        assert_eq!(judged(&[&[0, 1, 3]], &[&[1, 2]]), figures(1, 1));
    }

    #[test]
    fn a_dead_letter_may_come_again_but_not_late() {
        let judged = |before: &[&[u64]], after: &[u64]| judged_as(before, &[after], true);
        assert!(judged(&[], &[0, 1, 0, 2, 1]).is_ok());
        assert!(judged(&[&[0, 1]], &[2, 0, 3, 1]).is_ok());
        for (before, after, why) in [
            (&[][..], &[1, 0, 2][..], "received after number"),
            (&[&[0][..]], &[2, 0, 1], "received after number"),
            (&[&[0]], &[0, 2, 0], "lost"),
            (&[&[0, 0]], &[1, 2], "twice"),
        ] {
            let refused = judged(before, after).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn forbidden_histories_fail() {
        for (before, after, why) in [
            (&[&[0][..]][..], &[&[2][..]][..], "lost"),
            (&[], &[&[0, 1, 2, 5]], "never sent"),
            (&[], &[&[0, 1, 1, 2]], "twice"),
            (&[], &[&[0, 1], &[1, 2]], "twice"),
            (&[&[0, 0]], &[&[0, 1, 2]], "twice"),
            (&[], &[&[1, 0, 2]], "received after number"),
        ] {
            let refused = judged(before, after).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
