//! What the shards and the connections between nodes hand to each other. The connections are in `cluster`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use catalog::ids::{NodeNumber, ShardId};
use link::{WINDOW, WINDOW_STEP};
use tokio::sync::{Notify, mpsc};

use crate::shard::PeerMail;

/// The bytes of messages of one connection that wait for their shards. With more, nothing is read. The window of the connection alone would not
/// bound them: it counts the first pieces of a long message as taken when they arrive.
const WAITING_MAX: usize = WINDOW;

/// The way of the mail of shards to other nodes. It is bounded by what the shards send in a turn, and by what the connections take: they never
/// wait for a socket before they take the next.
#[derive(Clone, Debug)]
pub(crate) struct MailWay(mpsc::UnboundedSender<(ShardId, Vec<PeerMail>)>);

impl MailWay {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<(ShardId, Vec<PeerMail>)>) {
        let (mail, receiver) = mpsc::unbounded_channel();
        (Self(mail), receiver)
    }

    /// Sends mail of a shard to other nodes. Mail for a node without a connection is dropped.
    pub(crate) fn send(&self, from: ShardId, mail: Vec<PeerMail>) {
        // The connections are gone only when the node stops.
        drop(self.0.send((from, mail)));
    }
}

/// What the shards have taken of one connection, and what waits for them.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// The costs of the messages that were taken and are not acknowledged.
    cost: AtomicUsize,
    /// The bytes of the messages that were not taken.
    waiting: AtomicUsize,
    /// There is something to acknowledge, or room for more.
    enough: Notify,
}

impl Taken {
    /// Returns true if another message may be given to the shards.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) < WAITING_MAX
    }

    /// Returns the costs of the messages that were taken since the last call.
    pub(crate) fn take_cost(&self) -> usize {
        self.cost.swap(0, Ordering::Relaxed)
    }

    /// Waits until there is something to acknowledge, or room again.
    pub(crate) async fn enough(&self) {
        self.enough.notified().await;
    }
}

/// A message of another node that is on its way to a shard. When it is dropped, its sender may send more.
#[derive(Debug)]
pub(crate) struct PeerBytes {
    /// The number of the node that has sent it.
    pub from: NodeNumber,
    pub bytes: Bytes,
    cost: usize,
    taken: Arc<Taken>,
}

impl PeerBytes {
    /// Makes a message that has this cost for the window of its connection.
    pub(crate) fn new(from: NodeNumber, bytes: Bytes, cost: usize, taken: &Arc<Taken>) -> Self {
        taken.waiting.fetch_add(bytes.len(), Ordering::Relaxed);
        Self { from, bytes, cost, taken: taken.clone() }
    }
}

impl Drop for PeerBytes {
    fn drop(&mut self) {
        let before = self.taken.cost.fetch_add(self.cost, Ordering::Relaxed);
        let waited = self.taken.waiting.fetch_sub(self.bytes.len(), Ordering::Relaxed);
        let has_room_again = waited >= WAITING_MAX && waited - self.bytes.len() < WAITING_MAX;
        if has_room_again || before + self.cost >= WINDOW_STEP {
            self.taken.enough.notify_one();
        }
    }
}
