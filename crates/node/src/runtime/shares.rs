//! How much each connection may read before others are read.
//!
//! The connections of a shard that have something to read form a ring. Each reads its share, and then lets the others read. One
//! round of the ring takes the time that a client waits for at most before its message is read. So the more connections
//! have more to read, the less each of them reads in a round.

use std::cell::Cell;

/// The most reads that one turn processes. Without this bound, the input of thousands of connections would be
/// in memory at once.
const READS_MAX: usize = 64;

/// A read counts once, and once more for each 16 KiB that it brings, so a turn processes about 1 MiB. A
/// consumer is sent a part of that before its socket is read again. With turns of 16 MiB a fast publisher of
/// large messages outran its consumer.
const READ_BYTES: usize = 16 * 1024;

/// What the connections of a shard read.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// The reads that the next turn will process.
    reads: Cell<usize>,
    /// The number of connections that have used their share, and probably have more to read.
    waiting: Cell<usize>,
}

impl Shares {
    /// Called when a turn processes what was read.
    pub fn clear(&self) {
        self.reads.set(0);
    }

    /// Counts a read that the next turn will process. Returns true if that turn must process no more.
    pub fn add(&self, bytes: usize) -> bool {
        self.reads.set(self.reads.get() + reads_of(bytes));
        self.reads.get() >= READS_MAX
    }

    /// Returns how many reads a connection may make before others are read.
    fn share(&self) -> usize {
        (READS_MAX / (self.waiting.get() + 1)).max(1)
    }

    /// Returns the most bytes that a connection may read at once.
    pub fn read_max(&self) -> usize {
        self.share() * READ_BYTES
    }

    /// Says that a connection waits until others were read. It does so until the result is dropped.
    pub fn wait(&self) -> Waits<'_> {
        Waits::new(&self.waiting)
    }
}

fn reads_of(bytes: usize) -> usize {
    1 + bytes / READ_BYTES
}

/// What one connection has read since others were read.
#[derive(Debug, Default)]
pub(super) struct Used(usize);

impl Used {
    /// Counts a read. Returns true if the connection has used its share, and must let others read. A new share begins then.
    pub fn add(&mut self, bytes: usize, shares: &Shares) -> bool {
        self.0 += reads_of(bytes);
        let is_used = self.0 >= shares.share();
        if is_used {
            self.0 = 0;
        }
        is_used
    }
}

/// Counts a connection that waits, also if its task is ended meanwhile.
pub(super) struct Waits<'a>(&'a Cell<usize>);

impl<'a> Waits<'a> {
    pub fn new(waiting: &'a Cell<usize>) -> Self {
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

    /// Lets connections that always have more to read do so, one after the other. Returns the bytes of each round, and how often
    /// a turn came.
    fn rounds(connections: usize, read_max: usize, count: usize) -> (Vec<usize>, usize) {
        let (shares, mut turns) = (Shares::default(), 0);
        let mut waits: Vec<Option<Waits<'_>>> = (0..connections).map(|_| None).collect();
        let mut used: Vec<Used> = (0..connections).map(|_| Used::default()).collect();
        let mut round = || {
            let mut bytes = 0;
            for (waits, used) in waits.iter_mut().zip(&mut used) {
                *waits = None;
                loop {
                    let read = read_max.min(shares.read_max());
                    bytes += read;
                    let is_turn = shares.add(read);
                    if is_turn {
                        shares.clear();
                        turns += 1;
                    }
                    if used.add(read, &shares) || is_turn {
                        *waits = Some(shares.wait());
                        break;
                    }
                }
            }
            bytes
        };
        ((0..count).map(|_| round()).collect(), turns)
    }

    #[test]
    fn a_round_of_many_connections_is_short() {
        const MIB: usize = 1 << 20;
        for read_max in [READ_BYTES, 2 * READ_BYTES, 16 * READ_BYTES] {
            let (alone, _) = rounds(1, read_max, 2);
            assert!(alone.iter().all(|bytes| (MIB / 2..=MIB).contains(bytes)), "{alone:?} of one connection");
            for connections in [10, 100, 1_000] {
                let (bytes, turns) = rounds(connections, read_max, 4);
                let most = MIB.max(connections * READ_BYTES);
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
    fn a_connection_that_ends_waits_no_longer() {
        let shares = Shares::default();
        let waits = [shares.wait(), shares.wait(), shares.wait()];
        assert_eq!(shares.read_max(), READS_MAX / 4 * READ_BYTES);
        drop(waits);
        assert_eq!(shares.read_max(), READS_MAX * READ_BYTES);
    }
}
