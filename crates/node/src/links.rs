//! What the shards and the connections between nodes hand to each other. The connections are in `cluster`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

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

/// The bytes that wait to be sent to each node, by its place in the list of nodes.
#[derive(Clone, Debug)]
pub(crate) struct Waiting(Arc<[AtomicU64]>);

impl Waiting {
    pub(crate) fn new(places: usize) -> Self {
        Self((0..places).map(|_| AtomicU64::new(0)).collect())
    }

    /// Returns the bytes for the node at a place. `None` if there is no such place.
    pub(crate) fn of(&self, place: usize) -> Option<u64> {
        self.0.get(place).map(|bytes| bytes.load(Ordering::Relaxed))
    }

    /// Returns the part of one connection to the node at this place.
    pub(crate) fn part(&self, place: usize) -> WaitingPart {
        WaitingPart { all: self.clone(), place, bytes: 0 }
    }
}

/// The bytes that wait for one connection. They are counted for its node until this is dropped.
#[derive(Debug)]
pub(crate) struct WaitingPart {
    all: Waiting,
    place: usize,
    bytes: u64,
}

impl WaitingPart {
    pub(crate) fn set(&mut self, bytes: u64) {
        if let Some(all) = self.all.0.get(self.place).filter(|_| self.bytes != bytes) {
            // The difference may be negative; the sum is not.
            all.fetch_add(bytes.wrapping_sub(self.bytes), Ordering::Relaxed);
            self.bytes = bytes;
        }
    }
}

impl Drop for WaitingPart {
    fn drop(&mut self) {
        self.set(0);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_bytes_are_the_sum_over_the_connections_of_a_node() {
        let waiting = Waiting::new(2);
        let (mut one, mut two) = (waiting.part(1), waiting.part(1));
        one.set(100);
        two.set(20);
        one.set(70);
        assert_eq!((waiting.of(0), waiting.of(1), waiting.of(2)), (Some(0), Some(90), None));
        drop(one);
        assert_eq!(waiting.of(1), Some(20));
    }
}
