//! What this node knows about one other listed node: its connections, its words, and whether it is alive.

use std::fmt;

use crate::word::{Beat, Life, State};

/// Between two beats. Ten of them may be lost or late before silence ends support. One costs a word of some 120 bytes to each node.
pub const BEAT_MS: u64 = 200;

/// Without an acknowledgement of a beat that was sent less than this ago, support ends. It is longer than a pause that a busy host or a
/// lost packet causes, and short enough that clients wait only some seconds.
pub const SILENCE_MS: u64 = 2_000;

/// A connection that this node dialed is closed if the other node has not dialed back for so long. Nobody acknowledges what is sent over it,
/// so it may be dead. It is longer than the 5 s between two tries to dial plus [`SILENCE_MS`]. Otherwise each of two nodes could close its
/// connection before the other one has dialed.
pub const ONE_SIDED_MS: u64 = 8_000;

/// The age of the oldest unsynced write at which the disk counts as stalled. A disk that is only busy is faster.
pub const UNSYNCED_MAX_MS: u32 = 5_000;

/// Syncs that are faster than this are good.
pub const GOOD_SYNC_MS: u32 = 1_000;

/// After a stall, the disk must be good for so long. Otherwise leaders would move to and fro with each stall.
pub const GOOD_SYNCS_MS: u64 = 30_000;

/// The age of the oldest unfinished turn of a shard at which the node counts as stuck. It is as bad as silence.
pub const TURN_MAX_MS: u32 = 2_000;

/// The age of the oldest unanswered append at which the node counts as stuck. It is as bad as a stalled disk, which is the likely cause.
pub const UNANSWERED_MAX_MS: u64 = 5_000;

/// Why a node is not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It was not seen since this node started.
    NeverSeen,
    /// Its connections ended, and its port refuses new ones: the process is gone.
    Gone,
    /// No heartbeat of it arrives.
    Silent,
    /// Its heartbeats arrive, but do not acknowledge those of this node.
    Unacknowledged,
    /// Its disk does not sync, or has not been good for long enough since.
    DiskStalled,
    /// A turn of one of its shards does not end.
    TurnStalled,
    /// One of its shards does not answer an append.
    AppendUnanswered,
    /// It was started again.
    Restarted,
    /// Another node has its name now.
    Replaced,
    /// It is not a member of this node's cluster, or not yet.
    NotMember,
    /// It says that it has the number of another member.
    OtherNumber,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NeverSeen => "it was not seen since this node started",
            Self::Gone => "its process has ended",
            Self::Silent => "nothing is heard from it",
            Self::Unacknowledged => "it is heard, but does not hear this node",
            Self::DiskStalled => "its disk stalls, or stalled less than 30 s ago",
            Self::TurnStalled => "one of its shards is stuck",
            Self::AppendUnanswered => "one of its shards does not answer",
            Self::Restarted => "it was restarted",
            Self::Replaced => "another node has its name now",
            Self::NotMember => "it is not a member of the cluster of this node",
            Self::OtherNumber => "it says that it has the number of another member",
        })
    }
}

/// Which of the two connections with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that this node dialed, over which it sends.
    Dialed,
    /// The one that the other node dialed, over which it sends.
    Accepted,
}

/// The state of the disk, as heard in the words of one life.
#[derive(Debug, Default)]
struct Disk {
    is_stalled: bool,
    /// While stalled: since when all words said that syncs are good.
    good_since_ms: Option<u64>,
}

/// What is known of the present life of a node. A later boot starts with the default.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) beat: Option<Beat>,
    /// When `beat` arrived.
    heard_at_ms: u64,
    /// When this node sent the newest beat that was acknowledged.
    acknowledged_ms: Option<u64>,
    /// Until when the node certainly supports this node.
    pub(crate) supports_until_ms: u64,
    /// This node has dialed this life before.
    was_dialed: bool,
    /// After the dialed connection had ended, the port refused.
    is_refused: bool,
    disk: Disk,
    pub(crate) unanswered_ms: u64,
    pub(crate) round_trip_ms: Option<u64>,
    pub(crate) clock_difference_ms: Option<i64>,
}

#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) name: String,
    pub(crate) life: Option<Life>,
    pub(crate) known: Known,
    /// Since when the connection that this node dialed is open.
    dialed_ms: Option<u64>,
    /// Since when the connection that the node dialed is open.
    accepted_ms: Option<u64>,
    /// When that connection ended last.
    accept_closed_ms: u64,
    /// When the last word arrived over it.
    word_ms: u64,
}

impl Peer {
    pub(crate) fn new(name: String) -> Self {
        Self {
            name,
            life: None,
            known: Known::default(),
            dialed_ms: None,
            accepted_ms: None,
            accept_closed_ms: 0,
            word_ms: 0,
        }
    }

    pub(crate) fn is_open(&self, side: Side) -> bool {
        match side {
            Side::Dialed => self.dialed_ms.is_some(),
            Side::Accepted => self.accepted_ms.is_some(),
        }
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.dialed_ms.is_some() || self.accepted_ms.is_some()
    }

    pub(crate) fn open(&mut self, side: Side, now_ms: u64) {
        self.known.is_refused = false;
        match side {
            Side::Dialed => {
                self.known.was_dialed = true;
                self.dialed_ms = Some(now_ms);
            }
            Side::Accepted => self.accepted_ms = Some(now_ms),
        }
    }

    pub(crate) fn close(&mut self, side: Side, now_ms: u64) {
        match side {
            Side::Dialed => self.dialed_ms = None,
            Side::Accepted => {
                self.accepted_ms = None;
                self.accept_closed_ms = now_ms;
            }
        }
    }

    pub(crate) fn refuse(&mut self) {
        self.known.is_refused = self.dialed_ms.is_none() && self.known.was_dialed;
    }

    fn is_gone(&self) -> bool {
        self.known.is_refused && self.accepted_ms.is_none()
    }

    pub(crate) fn take_word(&mut self, now_ms: u64) {
        self.word_ms = now_ms;
    }

    /// Takes a beat. `sent_ms` is when this node sent the beat that this one acknowledges, if that is recent.
    pub(crate) fn take_beat(&mut self, beat: Beat, sent_ms: Option<u64>, now_ms: u64, clock_ms: u64) {
        let known = &mut self.known;
        let was_silent = now_ms.saturating_sub(known.heard_at_ms) >= SILENCE_MS;
        known.heard_at_ms = now_ms;
        if let Some(sent_ms) = sent_ms {
            known.acknowledged_ms = known.acknowledged_ms.max(Some(sent_ms));
            let round_trip_ms = (now_ms - sent_ms).saturating_sub(u64::from(beat.held_ms));
            known.round_trip_ms = Some(round_trip_ms);
            let theirs = i128::from(beat.clock_ms) + i128::from(round_trip_ms / 2);
            known.clock_difference_ms = i64::try_from(theirs - i128::from(clock_ms)).ok();
        }
        let unsynced_ms = beat.health.oldest_unsynced_ms;
        let disk = &mut known.disk;
        disk.is_stalled |= unsynced_ms >= UNSYNCED_MAX_MS;
        if unsynced_ms >= GOOD_SYNC_MS || !disk.is_stalled {
            disk.good_since_ms = None;
        } else if was_silent || disk.good_since_ms.is_none() {
            disk.good_since_ms = Some(now_ms);
        }
        if disk.good_since_ms.is_some_and(|since_ms| now_ms - since_ms >= GOOD_SYNCS_MS) {
            *disk = Disk::default();
        }
        known.beat = Some(beat);
    }

    pub(crate) fn state(&self) -> Option<State> {
        self.known.beat.map(|beat| beat.state)
    }

    /// Returns how long ago the newest beat arrived, in milliseconds.
    pub(crate) fn held_ms(&self, now_ms: u64) -> u32 {
        now_ms.saturating_sub(self.known.heard_at_ms).try_into().unwrap_or(u32::MAX)
    }

    /// Returns until when the acknowledgements that arrived suffice.
    pub(crate) fn in_sight_until_ms(&self, needs_acknowledgement: bool) -> u64 {
        let known = &self.known;
        let since_ms = match needs_acknowledgement {
            true => known.acknowledged_ms,
            false => known.beat.map(|_| known.heard_at_ms),
        };
        since_ms.map_or(0, |since_ms| since_ms + SILENCE_MS)
    }

    /// Returns why words do not go to and fro; `None` if they do.
    pub(crate) fn out_of_sight(&self, now_ms: u64, needs_acknowledgement: bool) -> Option<Why> {
        if self.life.is_none() {
            Some(Why::NeverSeen)
        } else if self.is_gone() {
            Some(Why::Gone)
        } else if now_ms < self.in_sight_until_ms(needs_acknowledgement) {
            None
        } else if self.accepted_ms.is_some() && now_ms < self.in_sight_until_ms(false) {
            Some(Why::Unacknowledged)
        } else {
            Some(Why::Silent)
        }
    }

    /// Returns what the node or its shards say that ends support.
    pub(crate) fn ill(&self) -> Option<Why> {
        let turn_ms = self.known.beat.map_or(0, |beat| beat.health.oldest_turn_ms);
        if self.known.disk.is_stalled {
            Some(Why::DiskStalled)
        } else if turn_ms >= TURN_MAX_MS {
            Some(Why::TurnStalled)
        } else if self.known.unanswered_ms >= UNANSWERED_MAX_MS {
            Some(Why::AppendUnanswered)
        } else {
            None
        }
    }

    /// Returns the connection that must be closed. Either nothing arrives over it, or nobody acknowledges what is sent over it.
    pub(crate) fn dead_side(&self, now_ms: u64) -> Option<Side> {
        let is_over = |since_ms: u64, bound_ms| now_ms.saturating_sub(since_ms) >= bound_ms;
        if self.accepted_ms.is_some_and(|since_ms| is_over(since_ms.max(self.word_ms), SILENCE_MS)) {
            return Some(Side::Accepted);
        }
        let dialed_ms = self.dialed_ms?;
        let is_dead = match self.accepted_ms {
            Some(accepted_ms) => {
                let acknowledged_ms = self.known.acknowledged_ms.unwrap_or(0);
                is_over(dialed_ms.max(accepted_ms).max(acknowledged_ms), SILENCE_MS)
            }
            None => is_over(dialed_ms.max(self.accept_closed_ms), ONE_SIDED_MS),
        };
        is_dead.then_some(Side::Dialed)
    }
}
