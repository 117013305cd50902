//! The entry of one message, in full and in compact form.

use message::{Annotations, Message};

use crate::{Fact, Load, Marks};

/// A message in the queue.
///
/// ```text
///   Publish ──► ready ──deliver──► unsettled ──accepted──► gone
///                │ ▲                  │ │                   ▲
///                │ └────requeue───────┘ │ rejected          │
///                │                      ▼                   │
///                └─expire, drop head─► leaving ─DeadLettered┘
/// ```
///
/// Without a dead-letter exchange, the arrows to `leaving` go to `gone`.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub body: Body,
    /// The sequence number. 0 for a message that the queue did not accept.
    pub seq: u64,
    pub delivery_count: u32,
    pub redelivered: bool,
    /// How the message left the last time, if it came back unsent ([`Outcome::Unsent`](crate::Outcome)) and was not sent since.
    /// Messages behind it may have left before it, as with one that was delivered.
    pub came_back: Option<Leave>,
    /// True if the message must survive a restart. Only such messages have facts.
    pub journaled: bool,
    /// The message's position in a run on the disk. If it is known, a restart restores the message from the run, and its
    /// body can be freed and read again.
    pub spot: Option<Spot>,
}

/// How a message leaves for a client. Both are counted apart; see [`Report`](crate::Report).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leave {
    /// To a consumer.
    Pushed,
    /// To a client that fetched it.
    Fetched,
}

/// The message itself, or what the queue must know of it while only the disk has it.
#[derive(Clone, Debug)]
pub(super) enum Body {
    InMemory {
        message: Message,
        /// The arrival time in milliseconds since the epoch.
        at_ms: u64,
    },
    OnDisk {
        bytes: u32,
        /// See [`Entry::priority`].
        priority: Option<u8>,
        annotations: Blocks,
    },
}

/// The size of a message's own annotations, rounded up to whole [`BLOCK`]s. It fits into the few bytes that are kept in
/// memory for a message on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Blocks(u8);

/// The unit of [`Blocks`], in bytes. The largest value of [`Blocks`] is more than [`Annotations::BYTES_MAX`].
const BLOCK: usize = 128;

const _: () = assert!(u8::MAX as usize * BLOCK > Annotations::BYTES_MAX);

impl Blocks {
    fn of(bytes: usize) -> Self {
        Self(u8::try_from(bytes.div_ceil(BLOCK)).unwrap_or(u8::MAX))
    }

    /// Returns at least the original number of bytes, or more than [`Annotations::BYTES_MAX`].
    pub(super) fn bytes(self) -> usize {
        usize::from(self.0) * BLOCK
    }
}

/// A position in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub run: u32,
    /// The offset in the run at which the block begins, in bytes.
    pub block: u32,
    /// The number of messages in the run before this one.
    pub index: u32,
}

impl Spot {
    /// Returns the block that contains the message.
    pub(super) fn load(&self) -> Load {
        Load { run: self.run, block: self.block }
    }
}

/// The compact form of an [`Entry`] whose body is only on the disk. Until the body is read, its arrival and expiry
/// times are known only as bounds of the whole run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reference {
    pub seq: u64,
    pub spot: Spot,
    bytes: u32,
    pub delivery_count: u32,
    flags: Flags,
    priority: Option<u8>,
    annotations: Blocks,
}

/// `redelivered`, `journaled` and `came_back` of an [`Entry`], in one byte.
#[derive(Clone, Copy, Debug)]
struct Flags(u8);

impl Flags {
    const REDELIVERED: u8 = 1;
    const JOURNALED: u8 = 2;
    const CAME_BACK_PUSHED: u8 = 4;
    const CAME_BACK_FETCHED: u8 = 8;

    fn of(entry: &Entry) -> Self {
        let redelivered = if entry.redelivered { Self::REDELIVERED } else { 0 };
        let journaled = if entry.journaled { Self::JOURNALED } else { 0 };
        let came_back = match entry.came_back {
            None => 0,
            Some(Leave::Pushed) => Self::CAME_BACK_PUSHED,
            Some(Leave::Fetched) => Self::CAME_BACK_FETCHED,
        };
        Self(redelivered | journaled | came_back)
    }

    fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }

    fn came_back(self) -> Option<Leave> {
        match self {
            _ if self.has(Self::CAME_BACK_PUSHED) => Some(Leave::Pushed),
            _ if self.has(Self::CAME_BACK_FETCHED) => Some(Leave::Fetched),
            _ => None,
        }
    }
}

const _: () = assert!(size_of::<Option<Reference>>() <= 32, "a reference takes at most 32 bytes");

/// An entry that is stored on its own, in as little memory as possible.
#[derive(Debug)]
pub(super) enum Lone {
    Full(Box<Entry>),
    Compact(Reference),
}

/// The approximate size of the headers in a record, in bytes.
const STORED_OVERHEAD: u64 = 80;

/// Returns the approximate size of a message's record, in bytes.
pub fn stored_bytes(message: &Message) -> u64 {
    message.len() + STORED_OVERHEAD
}

/// The approximate memory of a message besides its bytes: its entry, and other data in the same buffer.
const MEMORY_OVERHEAD: u64 = size_of::<Entry>() as u64 + 64;

impl Entry {
    /// Returns the entry of a message that has just arrived.
    pub(super) fn new(message: Message, seq: u64, at_ms: u64) -> Self {
        Self {
            delivery_count: message.delivery_count(),
            body: Body::InMemory { message, at_ms },
            seq,
            redelivered: false,
            came_back: None,
            journaled: false,
            spot: None,
        }
    }

    /// Returns the message, if it is in memory.
    pub(super) fn message(&self) -> Option<&Message> {
        match &self.body {
            Body::InMemory { message, .. } => Some(message),
            Body::OnDisk { .. } => None,
        }
    }

    /// Returns true if the message has never left its place, and is in no run. The message alone then restores the entry.
    pub(super) fn is_fresh(&self) -> bool {
        let count = self.message().map(Message::delivery_count);
        self.spot.is_none()
            && !self.redelivered
            && self.came_back.is_none()
            && count == Some(self.delivery_count)
    }

    pub(super) fn is_in_memory(&self) -> bool {
        matches!(self.body, Body::InMemory { .. })
    }

    /// Returns the size of the message, in bytes.
    pub(super) fn len(&self) -> u64 {
        match &self.body {
            Body::InMemory { message, .. } => message.len(),
            Body::OnDisk { bytes, .. } => u64::from(*bytes),
        }
    }

    /// Returns the size of the message with everything that limits in bytes do not count. Of a message on the disk, this
    /// is not known, and the result is that of [`Entry::len`].
    fn whole_len(&self) -> u64 {
        match &self.body {
            Body::InMemory { message, .. } => message.bytes_in_memory(),
            Body::OnDisk { bytes, .. } => u64::from(*bytes),
        }
    }

    /// Returns the priority of the message, if it has one.
    pub(super) fn priority(&self) -> Option<u8> {
        match &self.body {
            Body::InMemory { message, .. } => message.priority(),
            Body::OnDisk { priority, .. } => *priority,
        }
    }

    /// Returns the message's own time to live, if the message is in memory.
    pub(super) fn ttl_ms(&self) -> Option<u64> {
        self.message()?.ttl_ms()
    }

    /// Frees the body if it can be read again.
    #[inline(always)]
    pub(super) fn free_body(&mut self) {
        if self.spot.is_some() {
            self.compact();
        }
    }

    #[cold]
    fn compact(&mut self) {
        if let Some(Reference { bytes, priority, annotations, .. }) = self.reference() {
            self.body = Body::OnDisk { bytes, priority, annotations };
        }
    }

    /// Returns the compact form without the body, or `None` if the message is in no run.
    pub(super) fn reference(&self) -> Option<Reference> {
        let spot = self.spot?;
        let Self { seq, delivery_count, .. } = *self;
        // Offsets within a message have 32 bits, so its size fits.
        let bytes = u32::try_from(self.len()).unwrap_or(u32::MAX);
        Some(Reference {
            seq,
            spot,
            bytes,
            delivery_count,
            flags: Flags::of(self),
            priority: self.priority(),
            annotations: match &self.body {
                Body::InMemory { message, .. } => Blocks::of(message.annotations_len()),
                Body::OnDisk { annotations, .. } => *annotations,
            },
        })
    }

    /// Returns when the message expires, given the time to live of the queue. `None` if it never does, or if it is
    /// not in memory. Then [`Ages`](crate::Ages) of its run apply.
    pub(super) fn expires_ms(&self, queue_ttl_ms: Option<u64>) -> Option<u64> {
        let Body::InMemory { message, at_ms } = &self.body else { return None };
        let own = message.ttl_ms();
        let ttl = own.into_iter().chain(queue_ttl_ms).min()?;
        Some(at_ms.saturating_add(ttl))
    }

    /// Returns the fact that stores the message, if it is in memory.
    pub(super) fn put(&self) -> Option<Fact> {
        let Body::InMemory { message, at_ms } = &self.body else { return None };
        Some(Fact::Put { seq: self.seq, message: message.clone(), at_ms: *at_ms })
    }

    /// Returns what deliveries have changed on the message, without annotations.
    pub(super) fn marks(&self) -> Marks {
        let Self { delivery_count, redelivered, .. } = *self;
        Marks { delivery_count, redelivered, ..Marks::default() }
    }

    /// Returns the approximate size of its record, in bytes.
    pub(super) fn stored_bytes(&self) -> u64 {
        self.len() + STORED_OVERHEAD
    }

    /// Returns the approximate memory that turning the entry into a [`Reference`] would free, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        if self.is_in_memory() { MEMORY_OVERHEAD + self.whole_len() } else { 0 }
    }

    /// Marks a delivery that ended without success. Returns true if the marks changed.
    pub(super) fn mark_returned(&mut self, failed: bool) -> bool {
        let changed = failed || !self.redelivered;
        self.redelivered = true;
        self.came_back = None;
        self.delivery_count = self.delivery_count.saturating_add(u32::from(failed));
        changed
    }
}

impl From<Reference> for Entry {
    fn from(reference: Reference) -> Self {
        let (redelivered, journaled) = (reference.redelivered(), reference.journaled());
        let Reference { seq, spot, bytes, delivery_count, flags, priority, annotations } = reference;
        let body = Body::OnDisk { bytes, priority, annotations };
        Self {
            body,
            seq,
            delivery_count,
            redelivered,
            came_back: flags.came_back(),
            journaled,
            spot: Some(spot),
        }
    }
}

impl Reference {
    pub(super) fn redelivered(&self) -> bool {
        self.flags.has(Flags::REDELIVERED)
    }

    pub(super) fn journaled(&self) -> bool {
        self.flags.has(Flags::JOURNALED)
    }

    /// Returns the entry with the body that was read.
    pub(super) fn filled(self, message: Message, at_ms: u64) -> Entry {
        Entry { body: Body::InMemory { message, at_ms }, ..Entry::from(self) }
    }
}

impl Lone {
    pub(super) fn entry(&self) -> Option<&Entry> {
        match self {
            Self::Full(entry) => Some(entry),
            Self::Compact(_) => None,
        }
    }

    pub(super) fn entry_mut(&mut self) -> Option<&mut Entry> {
        match self {
            Self::Full(entry) => Some(entry),
            Self::Compact(_) => None,
        }
    }

    /// Returns the compact form, if the message is in a run.
    pub(super) fn reference(&self) -> Option<Reference> {
        match self {
            Self::Full(entry) => entry.reference(),
            Self::Compact(reference) => Some(*reference),
        }
    }

    pub(super) fn spot_mut(&mut self) -> Option<&mut Spot> {
        match self {
            Self::Full(entry) => entry.spot.as_mut(),
            Self::Compact(reference) => Some(&mut reference.spot),
        }
    }

    /// Converts a compact form to an entry.
    pub(super) fn widen(&mut self) {
        if let Self::Compact(reference) = *self {
            *self = Self::Full(Box::new(reference.into()));
        }
    }

    /// Converts the entry to its compact form, if the body is not in memory.
    pub(super) fn narrow(&mut self) {
        if let Self::Full(entry) = self
            && !entry.is_in_memory()
            && let Some(reference) = entry.reference()
        {
            *self = Self::Compact(reference);
        }
    }
}

impl From<Entry> for Lone {
    fn from(entry: Entry) -> Self {
        match entry.reference().filter(|_| !entry.is_in_memory()) {
            Some(reference) => Self::Compact(reference),
            None => Self::Full(Box::new(entry)),
        }
    }
}

impl From<Lone> for Entry {
    fn from(lone: Lone) -> Self {
        match lone {
            Lone::Full(entry) => *entry,
            Lone::Compact(reference) => reference.into(),
        }
    }
}
