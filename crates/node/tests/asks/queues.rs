//! Questions to queues, as the admin API asks them.

use catalog::ids::QueueId;
use node::shard::Shard;
use node::shard::questions::{Act, Question};
use queue::{Effect, Request, Ticket};

use crate::asks::keep;

pub(crate) trait AsksQueues {
    /// Sends a request to a queue. Returns the number of the question.
    fn ask(
        &mut self,
        queue: QueueId,
        request: impl FnOnce(Ticket) -> Request,
        then: Box<dyn FnOnce(Effect)>,
    ) -> u64;
}

impl AsksQueues for Shard {
    fn ask(
        &mut self,
        queue: QueueId,
        request: impl FnOnce(Ticket) -> Request,
        then: Box<dyn FnOnce(Effect)>,
    ) -> u64 {
        let to = keep(then);
        let number = to.number;
        self.handle_question(Question::Act(Act::Request { queue, request: request(Ticket(0)), to }));
        number
    }
}
