//! Questions to shards, as the admin API asks them. A test passes a callback for each answer.

use std::cell::RefCell;

use catalog::{Answer, CatalogError, Command};
use node::shard::Shard;
use node::shard::questions::{Act, AnswerTo, Look, Question};

/// Calls the callback of an answer if it has arrived. Returns false if it may still arrive.
type Poll = Box<dyn FnMut() -> bool>;
type OnAnswer = Box<dyn FnOnce(Result<Answer, CatalogError>)>;

thread_local! {
    /// The last number, and the answers that have not arrived.
    static ASKED: RefCell<(u64, Vec<Poll>)> = const { RefCell::new((0, Vec::new())) };
}

pub(crate) trait Asks {
    /// Proposes a change of the catalog.
    fn propose(&mut self, command: Command, then: OnAnswer);

    /// Looks at the shard.
    fn ask_look<L: Look>(&mut self, look: L, then: impl FnOnce(L::Answer) + 'static);

    /// Calls the callbacks of the answers that have arrived. Called after a turn.
    fn take_replies(&mut self);
}

impl Asks for Shard {
    fn propose(&mut self, command: Command, then: OnAnswer) {
        self.handle_question(Question::Act(Act::Change { command, by: "guest".into(), to: keep(then) }));
    }

    fn ask_look<L: Look>(&mut self, look: L, then: impl FnOnce(L::Answer) + 'static) {
        self.handle_question(Question::look(look, keep(then)));
    }

    fn take_replies(&mut self) {
        let mut waiting = ASKED.with_borrow_mut(|(_, waiting)| std::mem::take(waiting));
        waiting.retain_mut(|poll| !poll());
        ASKED.with_borrow_mut(|(_, more)| {
            waiting.append(more);
            *more = waiting;
        });
    }
}

/// Stores the callback of an answer. Returns where the answer must go.
pub(crate) fn keep<T: 'static>(then: impl FnOnce(T) + 'static) -> AnswerTo<T> {
    ASKED.with_borrow_mut(|(last, waiting)| {
        *last += 1;
        let (to, mut answer) = AnswerTo::new(*last);
        let mut then = Some(then);
        waiting.push(Box::new(move || match answer.try_recv() {
            Ok(answer) => {
                then.take().expect("each question is answered once")(answer);
                true
            }
            Err(_) => answer.is_terminated(),
        }));
        to
    })
}
