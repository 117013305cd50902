//! The budgets of a node for memory that connections hold. When one is exceeded, the user who holds most loses connections.

use crate::settings::Settings;

/// If more than this part of the budget for unread output is used (one half), connections get messages only while little of
/// their output is unwritten: [`CROWDED_ROOM`]. So consumers that fall behind, however many, do not use up the budget. It is
/// clients that do not read answers who do.
const CROWDED_PART: u64 = 2;

/// The bytes of output that a connection may have unwritten and still get messages, when there is a crowd.
const CROWDED_ROOM: usize = 16 * 1024;

/// The bytes of what is kept for a client ([`ClientBudget::State`]) for which no connection is closed. So ordinary clients are never
/// closed for what they keep, however many they are: the properties of known clients take some 2 KiB, and there is room for five
/// links or consumers besides. The number of connections has limits of its own.
pub const STATE_UNCHARGED: usize = 8 * 1024;

/// Returns the bytes of output that a connection may have unwritten and still get messages, given what all connections of the
/// node have not read.
pub fn output_room(unread: u64, limit: u64) -> usize {
    if unread > limit / CROWDED_PART { CROWDED_ROOM } else { buffers::HIGH_WATER }
}

/// The memory in use for what a client has not read, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// Answers, and as many bytes of deliveries as a connection may have unwritten in a crowd. A connection may be closed for
    /// them.
    pub charged: usize,
    /// The other deliveries. The queue was asked for them when the client had room, and their payloads may be shared with
    /// other connections. So no client is closed for them.
    pub uncharged: usize,
}

impl Unread {
    /// `all` is everything that is unread, and `answers` the part of it that is no delivery.
    pub fn new(all: usize, answers: usize) -> Self {
        let deliveries = all.saturating_sub(answers);
        let charged = answers + deliveries.min(CROWDED_ROOM);
        Self { charged, uncharged: deliveries.saturating_sub(CROWDED_ROOM) }
    }
}

/// A budget for memory that connections hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientBudget {
    /// Deliveries and frames whose end has not arrived.
    Unfinished,
    /// What waits to be written: output, and the deliveries of AMQP 1.0 that wait in their session.
    Unread,
    /// What the broker keeps for clients as long as they want it: names, properties, links and consumers.
    State,
}

impl ClientBudget {
    pub const ALL: [Self; 3] = [Self::Unfinished, Self::Unread, Self::State];

    /// The name in listings and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unfinished => "unfinished_deliveries",
            Self::Unread => "unread_output",
            Self::State => "client_state",
        }
    }

    /// Says what takes the memory, for people.
    pub const fn what(self) -> &'static str {
        match self {
            Self::Unfinished => "incomplete deliveries",
            Self::Unread => "bytes that clients do not read",
            Self::State => "names, properties, links and consumers",
        }
    }

    /// The setting of the limit.
    pub const fn setting(self) -> &'static str {
        match self {
            Self::Unfinished => "amqp10.unfinished_memory",
            Self::Unread => "unread_output_memory",
            Self::State => "client_state_memory",
        }
    }

    /// Returns what all connections of the node together may hold, in bytes.
    pub fn limit(self, settings: &Settings) -> u64 {
        match self {
            Self::Unfinished => settings.node_unfinished_memory(),
            Self::Unread => settings.node_unread_memory(),
            Self::State => settings.node_state_memory(),
        }
    }
}
