//! How much each connection may read before others are read.
//!
//! The connections of a shard that have something to read form a ring. Each reads its share, and then lets the others read. One
//! round of the ring takes the time that a client waits for at most before its message is read. So the more connections
//! have more to read, the less each of them reads in a round. A connection whose socket was emptied has no more to read, however
//! often its client sends something.

use std::cell::Cell;

use crate::shard::FAIR_PART;

/// The most reads that one turn processes. Without this bound, the input of thousands of connections would be
/// in memory at once.
const READS_MAX: usize = 64;

/// A read counts once, and once more for each 16 KiB that it brings, so a turn processes about 1 MiB. A
/// consumer is sent a part of that before its socket is read again. With turns of 16 MiB a fast publisher of
/// large messages outran its consumer.
const READ_BYTES: usize = 16 * 1024;

/// The most bytes of one read are never fewer than this. Whatever the size of the large frames in it, those that are complete are
/// a fair part of the read buffer, and stay there. Of messages that are not small it holds about as many as a read of small ones.
const READ_MIN: usize = 2 * FAIR_PART;

/// What the connections of a shard read.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// The reads that the next turn will process.
    reads: Cell<usize>,
    /// The number of connections that let others read, and probably have more to read.
    waiting: Cell<usize>,
}

impl Shares {
    /// Called when a turn processes what was read.
    pub(super) fn clear(&self) {
        self.reads.set(0);
    }

    /// Counts a read that the next turn will process. Returns true if that turn must process no more.
    pub(super) fn add(&self, bytes: usize) -> bool {
        self.reads.set(self.reads.get() + reads_of(bytes));
        self.reads.get() >= READS_MAX
    }

    /// Returns how many reads a connection may make before others are read. It is a turn if at most one other waits: a publisher
    /// and its consumer do not hinder each other.
    fn share(&self) -> usize {
        (READS_MAX / self.waiting.get().max(1)).max(1)
    }

    /// Returns the most bytes that a connection may read at once.
    pub(super) fn read_max(&self) -> usize {
        (self.share() * READ_BYTES).max(READ_MIN)
    }

    /// Says that a connection waits until others were read. It does so until the result is dropped.
    pub(super) fn wait(&self) -> Waits<'_> {
        Waits::new(&self.waiting)
    }
}

fn reads_of(bytes: usize) -> usize {
    1 + bytes / READ_BYTES
}

/// What one read has brought.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub bytes: usize,
    /// True if the read took as much as it could, so that the socket probably has more.
    pub is_full: bool,
}

impl Taken {
    /// The peer has closed its side.
    pub(super) const END: Self = Self { bytes: 0, is_full: false };

    /// `max` is the most bytes that the read could take.
    pub(super) fn new(bytes: usize, max: usize) -> Self {
        Self { bytes, is_full: bytes >= max }
    }
}

/// What one connection has read since others were read.
#[derive(Debug, Default)]
pub(super) struct Used(usize);

impl Used {
    /// Counts a read. Returns true if the connection has used its share, and must let others read. A read that has emptied the
    /// socket does not count: others are read next anyway.
    pub(super) fn add(&mut self, taken: Taken, shares: &Shares) -> bool {
        self.0 = if taken.is_full { self.0 + reads_of(taken.bytes) } else { 0 };
        self.0 >= shares.share()
    }

    /// Called when others are read.
    pub(super) fn clear(&mut self) {
        self.0 = 0;
    }
}

/// Counts a connection that waits, also if its task is ended meanwhile.
pub(super) struct Waits<'a>(&'a Cell<usize>);

impl<'a> Waits<'a> {
    pub(super) fn new(waiting: &'a Cell<usize>) -> Self {
        waiting.set(waiting.get() + 1);
        Self(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// A connection of the model: the most bytes of one read, and what its client sends between two rounds.
    #[derive(Clone, Copy)]
    struct Client {
        read_max: usize,
        sends: usize,
    }

    const fn busy(read_max: usize) -> Client {
        Client { read_max, sends: usize::MAX }
    }

    /// Lets the connections read in rounds, as the tasks of `super::sockets` do. Returns the reads of each connection in each round,
    /// and how often a turn came.
    fn rounds(clients: &[Client], count: usize) -> (Vec<Vec<Vec<usize>>>, usize) {
        let (shares, mut turns) = (Shares::default(), 0);
        let mut waits: Vec<Option<Waits<'_>>> = clients.iter().map(|_| None).collect();
        let mut used: Vec<Used> = clients.iter().map(|_| Used::default()).collect();
        let mut round = || {
            let mut all = Vec::new();
            for ((client, waits), used) in clients.iter().zip(&mut waits).zip(&mut used) {
                *waits = None;
                let (mut left, mut reads) = (client.sends, Vec::new());
                while left > 0 {
                    let max = client.read_max.min(shares.read_max());
                    let bytes = left.min(max);
                    left -= bytes;
                    reads.push(bytes);
                    let taken = Taken::new(bytes, max);
                    let mut yields = used.add(taken, &shares);
                    if shares.add(bytes) {
                        shares.clear();
                        turns += 1;
                        yields = true;
                    }
                    if yields {
                        used.clear();
                        *waits = taken.is_full.then(|| shares.wait());
                        break;
                    }
                }
                all.push(reads);
            }
            all
        };
        ((0..count).map(|_| round()).collect(), turns)
    }

    fn sum(reads: &[Vec<usize>]) -> usize {
        reads.iter().flatten().sum()
    }

    #[test]
    fn a_round_of_many_connections_is_short() {
        for read_max in [READ_BYTES, 2 * READ_BYTES, 16 * READ_BYTES] {
            for connections in [10, 100, 1_000] {
                let (reads, turns) = rounds(&vec![busy(read_max); connections], 4);
                let bytes: Vec<_> = reads.iter().map(|round| sum(round)).collect();
                let most = MIB.max(connections * READ_MIN.min(read_max));
                assert!(
                    bytes[0] <= 8 * most,
                    "{bytes:?} of {connections}: nobody knows at first how many they are"
                );
                assert!(bytes[1..].iter().all(|bytes| *bytes <= 2 * most), "{bytes:?} of {connections}");
                assert!(turns <= 1 + bytes.iter().sum::<usize>() / (MIB / 2), "{turns} turns of {bytes:?}");
            }
        }
    }

    #[test]
    fn reads_stay_large_enough_for_large_frames_to_stay_in_place() {
        let (reads, _) = rounds(&vec![busy(16 * READ_BYTES); 1_000], 4);
        assert!(reads.iter().flatten().flatten().all(|bytes| *bytes >= 2 * FAIR_PART), "{:?}", reads[3]);
    }

    #[test]
    fn a_busy_connection_reads_as_much_beside_many_that_send_little() {
        for sends in [1, 100, READ_BYTES - 1] {
            let clients: Vec<_> = std::iter::once(busy(16 * READ_BYTES))
                .chain([Client { read_max: 2 * READ_BYTES, sends }; 200])
                .collect();
            let (reads, _) = rounds(&clients, 200);
            for round in &reads {
                assert!(
                    round[0].iter().all(|bytes| *bytes == 16 * READ_BYTES),
                    "{:?} beside {sends}",
                    round[0]
                );
                assert!(round[1..].iter().all(|reads| *reads == [sends]), "{sends}: {:?}", &round[1..]);
            }
            let bytes: usize = reads.iter().map(|round| sum(&round[..1])).sum();
            assert!(bytes / reads.len() >= MIB / 2, "{} bytes a round beside {sends}", bytes / reads.len());
        }
    }

    #[test]
    fn one_or_two_busy_connections_read_full_turns() {
        for read_max in [READ_BYTES, 2 * READ_BYTES, 16 * READ_BYTES] {
            let turn = vec![read_max; READS_MAX.div_ceil(reads_of(read_max))];
            for connections in [1, 2] {
                let (reads, turns) = rounds(&vec![busy(read_max); connections], 4);
                assert!(reads.iter().flatten().all(|reads| *reads == turn), "{reads:?}");
                assert_eq!(turns, 4 * connections);
            }
        }
    }

    #[test]
    fn a_connection_that_ends_waits_no_longer() {
        let shares = Shares::default();
        let waits = [shares.wait(), shares.wait(), shares.wait(), shares.wait()];
        assert_eq!(shares.read_max(), READS_MAX / 4 * READ_BYTES);
        drop(waits);
        assert_eq!(shares.read_max(), READS_MAX * READ_BYTES);
    }
}
