//! One message in the queue.

use message::{Annotations, Message};

use crate::{Fact, Load, Marks};

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
    /// 0 for one that the queue did not take.
    pub seq: u64,
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
    Here {
        message: Message,
        /// Arrival, in milliseconds since the epoch.
        at_ms: u64,
    },
    Away {
        bytes: u32,
        /// See [`Entry::priority`].
        priority: u8,
        annotations: Blocks,
    },
}

/// Bytes of a message's own annotations, rounded up to whole [`BLOCK`]s, so that they fit into what is kept of a message
/// on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Blocks(u8);

/// As many of these as can be counted are more than a message with annotations of consumers may have.
const BLOCK: usize = 128;

const _: () = assert!(u8::MAX as usize * BLOCK > Annotations::BYTES_MAX);

impl Blocks {
    fn of(bytes: usize) -> Self {
        Self(u8::try_from(bytes.div_ceil(BLOCK)).unwrap_or(u8::MAX))
    }

    /// At least as many bytes as it was made of, or more than [`Annotations::BYTES_MAX`].
    pub fn bytes(self) -> usize {
        usize::from(self.0) * BLOCK
    }
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

impl Spot {
    /// The block in which it stands.
    pub fn load(&self) -> Load {
        Load { run: self.run, block: self.block }
    }
}

/// An [`Entry`] whose body is only on the disk, in the form in which many are kept. When it arrived and when it dies is
/// known of its run alone, until it is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reference {
    pub seq: u64,
    pub spot: Spot,
    bytes: u32,
    pub delivery_count: u32,
    pub redelivered: bool,
    pub journaled: bool,
    priority: u8,
    annotations: Blocks,
}

const _: () = assert!(size_of::<Option<Reference>>() <= 32, "what is kept of a message on the disk");

/// An entry that is kept by itself: it takes no more than it needs.
#[derive(Debug)]
pub(super) enum Lone {
    Here(Box<Entry>),
    Away(Reference),
}

/// What a record holds beside the bare message: its head and those of the message's stored form, about.
const STORED_OVERHEAD: u64 = 80;

/// About the bytes of a message's record.
pub fn stored_bytes(message: &Message) -> u64 {
    message.len() + STORED_OVERHEAD
}

/// What a message takes in memory beside its bytes, about: its entry, and what has come around it and stays in the same copy.
pub(super) const MEMORY_OVERHEAD: u64 = size_of::<Entry>() as u64 + 64;

impl Entry {
    /// One that has just arrived.
    pub fn new(message: Message, seq: u64, at_ms: u64) -> Self {
        Self {
            delivery_count: message.delivery_count(),
            body: Body::Here { message, at_ms },
            seq,
            redelivered: false,
            journaled: false,
            spot: None,
        }
    }

    /// The message, if it is in memory.
    pub fn message(&self) -> Option<&Message> {
        match &self.body {
            Body::Here { message, .. } => Some(message),
            Body::Away { .. } => None,
        }
    }

    /// Neither delivered nor written to a run: what can be read again from the message alone.
    pub fn is_fresh(&self) -> bool {
        let count = self.message().map(Message::delivery_count);
        self.spot.is_none() && !self.redelivered && count == Some(self.delivery_count)
    }

    pub fn is_here(&self) -> bool {
        matches!(self.body, Body::Here { .. })
    }

    /// Bytes of the message.
    pub fn len(&self) -> u64 {
        match &self.body {
            Body::Here { message, .. } => message.len(),
            Body::Away { bytes, .. } => u64::from(*bytes),
        }
    }

    /// Bytes of a delivery of it, if it is in memory.
    pub fn delivery_bytes(&self) -> Option<u64> {
        Some(self.message()?.delivery_bytes(self.delivery_count, self.redelivered))
    }

    /// Whether a delivery of it takes so many bytes at most. False if it is not in memory.
    pub fn fits(&self, max_bytes: u64) -> bool {
        self.message().is_some_and(|message| message.fits(max_bytes, self.delivery_count, self.redelivered))
    }

    /// Its priority; 0 if it has none.
    pub fn priority(&self) -> u8 {
        match &self.body {
            Body::Here { message, .. } => message.priority().unwrap_or(0),
            Body::Away { priority, .. } => *priority,
        }
    }

    /// The time to live of its own, if it is in memory.
    pub fn ttl_ms(&self) -> Option<u32> {
        self.message()?.ttl_ms()
    }

    /// Lets go of the body if it can be read again.
    pub fn forget_body(&mut self) {
        if let Some(Reference { bytes, priority, annotations, .. }) = self.reference() {
            self.body = Body::Away { bytes, priority, annotations };
        }
    }

    /// What is kept of it without its body; `None` if it stands in no run.
    pub fn reference(&self) -> Option<Reference> {
        let spot = self.spot?;
        let Self { seq, delivery_count, redelivered, journaled, .. } = *self;
        // A message's own offsets are of 32 bits.
        let bytes = u32::try_from(self.len()).unwrap_or(u32::MAX);
        Some(Reference {
            seq,
            spot,
            bytes,
            delivery_count,
            redelivered,
            journaled,
            priority: self.priority(),
            annotations: match &self.body {
                Body::Here { message, .. } => Blocks::of(message.annotations().len()),
                Body::Away { annotations, .. } => *annotations,
            },
        })
    }

    /// When it dies of age, given the time to live that the queue imposes; of one that is not in memory its run tells.
    pub fn expires_ms(&self, queue_ttl_ms: Option<u64>) -> Option<u64> {
        let Body::Here { message, at_ms } = &self.body else { return None };
        let own = message.ttl_ms().map(u64::from);
        let ttl = own.into_iter().chain(queue_ttl_ms).min()?;
        Some(at_ms.saturating_add(ttl))
    }

    /// What is written of it, if it is in memory.
    pub fn put(&self) -> Option<Fact> {
        let Body::Here { message, at_ms } = &self.body else { return None };
        Some(Fact::Put { seq: self.seq, message: message.clone(), at_ms: *at_ms })
    }

    /// What deliveries have left on it, but for its annotations.
    pub fn marks(&self) -> Marks {
        let Self { delivery_count, redelivered, .. } = *self;
        Marks { delivery_count, redelivered, ..Marks::default() }
    }

    /// About the bytes of its record.
    pub fn stored_bytes(&self) -> u64 {
        self.len() + STORED_OVERHEAD
    }

    /// About the bytes that it takes in memory and would not as a [`Reference`].
    pub fn memory_bytes(&self) -> u64 {
        if self.is_here() { MEMORY_OVERHEAD + self.len() } else { 0 }
    }

    /// Another delivery ended without success; true if that changed its marks.
    pub fn mark_returned(&mut self, failed: bool) -> bool {
        let changed = failed || !self.redelivered;
        self.redelivered = true;
        self.delivery_count = self.delivery_count.saturating_add(u32::from(failed));
        changed
    }
}

impl From<Reference> for Entry {
    fn from(reference: Reference) -> Self {
        let Reference { seq, spot, bytes, delivery_count, redelivered, journaled, priority, annotations } =
            reference;
        let body = Body::Away { bytes, priority, annotations };
        Self { body, seq, delivery_count, redelivered, journaled, spot: Some(spot) }
    }
}

impl Reference {
    /// As of an entry.
    pub fn marks(&self) -> Marks {
        let Self { delivery_count, redelivered, .. } = *self;
        Marks { delivery_count, redelivered, ..Marks::default() }
    }

    /// The entry, read again.
    pub fn filled(self, message: Message, at_ms: u64) -> Entry {
        Entry { body: Body::Here { message, at_ms }, ..Entry::from(self) }
    }
}

impl Lone {
    pub fn here(&self) -> Option<&Entry> {
        match self {
            Self::Here(entry) => Some(entry),
            Self::Away(_) => None,
        }
    }

    pub fn here_mut(&mut self) -> Option<&mut Entry> {
        match self {
            Self::Here(entry) => Some(entry),
            Self::Away(_) => None,
        }
    }

    /// If it stands in a run.
    pub fn reference(&self) -> Option<Reference> {
        match self {
            Self::Here(entry) => entry.reference(),
            Self::Away(reference) => Some(*reference),
        }
    }

    pub fn spot_mut(&mut self) -> Option<&mut Spot> {
        match self {
            Self::Here(entry) => entry.spot.as_mut(),
            Self::Away(reference) => Some(&mut reference.spot),
        }
    }

    /// Takes no more memory than it needs now.
    pub fn narrow(&mut self) {
        if let Self::Here(entry) = self
            && !entry.is_here()
            && let Some(reference) = entry.reference()
        {
            *self = Self::Away(reference);
        }
    }
}

impl From<Entry> for Lone {
    fn from(entry: Entry) -> Self {
        match entry.reference().filter(|_| !entry.is_here()) {
            Some(reference) => Self::Away(reference),
            None => Self::Here(Box::new(entry)),
        }
    }
}

impl From<Lone> for Entry {
    fn from(lone: Lone) -> Self {
        match lone {
            Lone::Here(entry) => *entry,
            Lone::Away(reference) => reference.into(),
        }
    }
}
