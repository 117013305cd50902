//! What the two nodes say to each other about queues.

use std::sync::Arc;

use catalog::ids::QueueId;
use catalog::reply_to::ReplyTo;
use message::Message;
use queue::{Effect, Request, Ticket, Verdict};

/// Something that the node of the links asks of the node that has the queues. The ids in it are those of the asking node.
#[derive(Debug)]
pub enum Ask {
    /// A request to a queue, other than a publish.
    Request { queue: QueueId, request: Request },
    /// Publishes to a queue. Answered by one [`Answer::Receipt`].
    Publish { queue: QueueId, number: u64, pipelines: bool, message: Message },
    /// Sends a message to a link that takes replies. Answered by an accepting receipt.
    Reply { to: ReplyTo, vhost: Arc<str>, number: u64, message: Message },
    /// Asks whether such a link exists. Answered by [`Effect::Report`] or [`Effect::Refused`].
    Probe { to: ReplyTo, vhost: Arc<str>, ticket: Ticket },
}

/// An answer to the node of the links. The ids in it are those of that node.
#[derive(Debug)]
pub enum Answer {
    /// For a consumer or a ticket.
    Effect(Effect),
    /// The verdict on the publishes with these numbers, which are all to one queue.
    Receipt { first: u64, last: u64, verdict: Verdict },
}
