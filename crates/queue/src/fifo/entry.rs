//! One message in the queue.

use message::Message;

/// One message in the queue.
///
/// ```text
///   Publish ──► ready ──deliver──► unsettled ──accepted──► gone
///                │ ▲                  │ │                   ▲
///                │ └────requeue───────┘ │ rejected          │
///                │                      ▼                   │
///                └─expire, drop head─► leaving ─DeadLettered┘
/// ```
///
/// Without anywhere to send dead letters, the arrows to `leaving` go to `gone`.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub body: Body,
    pub seq: u64,
    /// Arrival, in milliseconds since the epoch.
    pub at_ms: u64,
    pub delivery_count: u32,
    pub redelivered: bool,
    /// Facts are said of it: it must survive.
    pub journaled: bool,
    /// Where it stands in a run on the disk; then that is what survives, and the body can be read again.
    pub spot: Option<Spot>,
}

/// The message itself, or what the queue must know of it while it is only on the disk.
#[derive(Clone, Debug)]
pub(super) enum Body {
    Here(Message),
    Away { bytes: u64, ttl_ms: Option<u32>, priority: Option<u8> },
}

/// A place in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub run: u32,
    /// The byte of the run at which its block begins.
    pub block: u32,
    /// Messages of the run in front of it.
    pub index: u32,
}

/// What a record holds beside the bare message: its head and those of the message's stored form, about.
const STORED_OVERHEAD: u64 = 80;

/// What a message takes in memory beside its bytes, about.
const MEMORY_OVERHEAD: u64 = size_of::<Entry>() as u64 + 32;

impl Entry {
    /// One that has just arrived.
    pub fn new(message: Message, seq: u64, at_ms: u64) -> Self {
        Self {
            delivery_count: message.delivery_count(),
            body: Body::Here(message),
            seq,
            at_ms,
            redelivered: false,
            journaled: false,
            spot: None,
        }
    }

    /// The message, if it is in memory.
    pub fn message(&self) -> Option<&Message> {
        match &self.body {
            Body::Here(message) => Some(message),
            Body::Away { .. } => None,
        }
    }

    /// Neither delivered nor written to a run: what can be read again from the message alone.
    pub fn is_fresh(&self) -> bool {
        let count = self.message().map(Message::delivery_count);
        self.spot.is_none() && !self.redelivered && count == Some(self.delivery_count)
    }

    pub fn is_here(&self) -> bool {
        matches!(self.body, Body::Here(_))
    }

    /// Bytes of the message.
    pub fn len(&self) -> u64 {
        match &self.body {
            Body::Here(message) => message.len(),
            Body::Away { bytes, .. } => *bytes,
        }
    }

    pub fn priority(&self) -> Option<u8> {
        match &self.body {
            Body::Here(message) => message.priority(),
            Body::Away { priority, .. } => *priority,
        }
    }

    pub fn ttl_ms(&self) -> Option<u32> {
        match &self.body {
            Body::Here(message) => message.ttl_ms(),
            Body::Away { ttl_ms, .. } => *ttl_ms,
        }
    }

    /// Lets go of the body if it can be read again.
    pub fn forget_body(&mut self) {
        if self.spot.is_some() && self.is_here() {
            self.body = Body::Away { bytes: self.len(), ttl_ms: self.ttl_ms(), priority: self.priority() };
        }
    }

    /// When it dies of age, given the time to live that the queue imposes.
    pub fn expires_ms(&self, queue_ttl_ms: Option<u64>) -> Option<u64> {
        let own = self.ttl_ms().map(u64::from);
        let ttl = own.into_iter().chain(queue_ttl_ms).min()?;
        Some(self.at_ms.saturating_add(ttl))
    }

    /// About the bytes of its record.
    pub fn stored_bytes(&self) -> u64 {
        self.len() + STORED_OVERHEAD
    }

    /// About the bytes that it takes in memory.
    pub fn memory_bytes(&self) -> u64 {
        MEMORY_OVERHEAD + if self.is_here() { self.len() } else { 0 }
    }

    /// Another delivery ended without success; true if that changed its marks.
    pub fn mark_returned(&mut self, failed: bool) -> bool {
        let changed = failed || !self.redelivered;
        self.redelivered = true;
        self.delivery_count = self.delivery_count.saturating_add(u32::from(failed));
        changed
    }
}
