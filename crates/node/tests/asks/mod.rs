//! Questions to shards, as the admin API asks them. A test passes a callback for each answer.

use std::cell::RefCell;
use std::collections::BTreeMap;

use catalog::{Answer, CatalogError, Command};
use node::questions::{Question, Reply};
use node::shard::Shard;

pub(crate) type Then = Box<dyn FnOnce(Reply)>;
type OnAnswer = Box<dyn FnOnce(Result<Answer, CatalogError>)>;

thread_local! {
    /// The last number, and the callbacks for answers, by number.
    static ASKED: RefCell<(u64, BTreeMap<u64, Then>)> = const { RefCell::new((0, BTreeMap::new())) };
}

pub(crate) trait Asks {
    /// Proposes a change of the catalog.
    fn propose(&mut self, command: Command, then: OnAnswer);

    /// Calls the callbacks of the answers that have arrived. Called after a turn.
    fn take_replies(&mut self);
}

impl Asks for Shard {
    fn propose(&mut self, command: Command, then: OnAnswer) {
        let then = Box::new(|reply| match reply {
            Reply::Changed(result) => then(result),
            other => panic!("{other:?}"),
        });
        self.handle_question(keep(then), Question::Change(command, "guest".into()));
    }

    fn take_replies(&mut self) {
        for (number, reply) in self.poll_replies() {
            let then = ASKED.with_borrow_mut(|(_, waiting)| waiting.remove(&number));
            then.expect("each question is answered once")(reply);
        }
    }
}

/// Stores the callback of an answer. Returns the number for the question.
pub(crate) fn keep(then: Then) -> u64 {
    ASKED.with_borrow_mut(|(last, waiting)| {
        *last += 1;
        waiting.insert(*last, then);
        *last
    })
}
