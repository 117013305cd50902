//! Messages that wait for a consumer, in order.

use std::collections::{BTreeMap, VecDeque};

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
    pub message: Message,
    pub seq: u64,
    /// Arrival, in milliseconds since the epoch.
    pub at_ms: u64,
    pub delivery_count: u32,
    pub redelivered: bool,
    /// The journal knows it, and must be told what becomes of it.
    pub journaled: bool,
}

impl Entry {
    /// When it dies of age, given the time to live that the queue imposes.
    pub fn expires_ms(&self, queue_ttl_ms: Option<u64>) -> Option<u64> {
        let own = self.message.ttl_ms().map(u64::from);
        let ttl = match (own, queue_ttl_ms) {
            (Some(own), Some(queue)) => own.min(queue),
            (own, queue) => own.or(queue)?,
        };
        Some(self.at_ms.saturating_add(ttl))
    }

    /// About the bytes of its record.
    pub fn stored_bytes(&self) -> u64 {
        self.message.len() + STORED_OVERHEAD
    }

    /// Another delivery ended without success; true if that changed its marks.
    pub fn mark_returned(&mut self, failed: bool) -> bool {
        let changed = failed || !self.redelivered;
        self.redelivered = true;
        self.delivery_count = self.delivery_count.saturating_add(u32::from(failed));
        changed
    }
}

/// What a record holds beside the bare message: its head and those of the message's stored form, about.
const STORED_OVERHEAD: u64 = 80;

/// A backlog this small keeps its memory.
const KEPT_CAPACITY: usize = 1024;

/// One level of priority.
#[derive(Default)]
struct Level {
    /// Ascending by seq.
    fifo: VecDeque<Entry>,
    /// What came back and lies behind the head of `fifo`. The head of the level is the lower of the two.
    returned: BTreeMap<u64, Entry>,
}

impl Level {
    fn is_empty(&self) -> bool {
        self.fifo.is_empty() && self.returned.is_empty()
    }

    fn returned_is_next(&self) -> bool {
        match (self.returned.first_key_value(), self.fifo.front()) {
            (Some((seq, _)), Some(front)) => *seq < front.seq,
            (returned, _) => returned.is_some(),
        }
    }

    fn head(&self) -> Option<&Entry> {
        if self.returned_is_next() {
            self.returned.first_key_value().map(|(_, entry)| entry)
        } else {
            self.fifo.front()
        }
    }

    fn pop(&mut self) -> Option<Entry> {
        if self.returned_is_next() {
            return self.returned.pop_first().map(|(_, entry)| entry);
        }
        let entry = self.fifo.pop_front();
        // A long backlog that has drained gives its memory back; the factor keeps the copying rare.
        if self.fifo.capacity() > KEPT_CAPACITY && self.fifo.len() < self.fifo.capacity() / 8 {
            self.fifo.shrink_to(self.fifo.capacity() / 4);
        }
        entry
    }

    /// Back to its place by seq. The front of `fifo` costs nothing, so a whole range should come back last
    /// first.
    fn put_back(&mut self, entry: Entry) {
        if self.fifo.front().is_none_or(|front| entry.seq < front.seq) {
            self.fifo.push_front(entry);
        } else {
            self.returned.insert(entry.seq, entry);
        }
    }

    fn drain(&mut self) -> impl Iterator<Item = Entry> + use<> {
        let fifo = std::mem::take(&mut self.fifo);
        std::mem::take(&mut self.returned).into_values().chain(fifo)
    }
}

/// Ready messages: the highest level first, by seq within a level.
pub(super) struct Ready {
    levels: Vec<Level>,
    /// Bit n: level n is not empty.
    occupied: [u64; 4],
    len: u64,
    bytes: u64,
}

impl Ready {
    pub fn new(max_priority: Option<u8>) -> Self {
        let levels = usize::from(max_priority.unwrap_or(0)) + 1;
        Self {
            levels: std::iter::repeat_with(Level::default).take(levels).collect(),
            occupied: [0; 4],
            len: 0,
            bytes: 0,
        }
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The highest level that is not empty.
    pub fn top(&self) -> Option<usize> {
        (0..4).rev().find_map(|word| {
            let bits = self.occupied[word];
            (bits != 0).then(|| word * 64 + 63 - bits.leading_zeros() as usize)
        })
    }

    /// Levels that are not empty, the highest first.
    pub fn occupied(&self) -> impl Iterator<Item = usize> + use<> {
        let occupied = self.occupied;
        (0..4usize).rev().flat_map(move |word| {
            let mut bits = occupied[word];
            std::iter::from_fn(move || {
                let bit = 63u32.checked_sub(bits.leading_zeros())?;
                bits &= !(1 << bit);
                Some(word * 64 + bit as usize)
            })
        })
    }

    pub fn head(&self, level: usize) -> Option<&Entry> {
        self.levels[level].head()
    }

    /// Behind everything of its level; its seq is the highest so far.
    pub fn push(&mut self, entry: Entry) {
        let level = self.enter(&entry);
        self.levels[level].fifo.push_back(entry);
    }

    /// Back to where it was.
    pub fn put_back(&mut self, entry: Entry) {
        let level = self.enter(&entry);
        self.levels[level].put_back(entry);
    }

    pub fn pop(&mut self, level: usize) -> Option<Entry> {
        let entry = self.levels[level].pop()?;
        if self.levels[level].is_empty() {
            self.occupied[level / 64] &= !(1 << (level % 64));
        }
        self.len -= 1;
        self.bytes -= entry.message.len();
        Some(entry)
    }

    /// Takes everything out, level by level.
    pub fn drain(&mut self) -> impl Iterator<Item = Entry> + '_ {
        (self.occupied, self.len, self.bytes) = ([0; 4], 0, 0);
        self.levels.iter_mut().rev().flat_map(Level::drain)
    }

    /// Sorts everything anew into another number of levels.
    pub fn relevel(&mut self, max_priority: Option<u8>) {
        let levels = usize::from(max_priority.unwrap_or(0)) + 1;
        if levels == self.levels.len() {
            return;
        }
        let mut entries: Vec<Entry> = self.drain().collect();
        entries.sort_unstable_by_key(|entry| entry.seq);
        *self = Self::new(max_priority);
        for entry in entries {
            self.push(entry);
        }
    }

    fn enter(&mut self, entry: &Entry) -> usize {
        self.len += 1;
        self.bytes += entry.message.len();
        let level = usize::from(entry.message.priority().unwrap_or(0)).min(self.levels.len() - 1);
        self.occupied[level / 64] |= 1 << (level % 64);
        level
    }

    /// Those between `first` and `last`, by level; the cost is that of what is found.
    pub fn range(&self, first: u64, last: u64) -> impl Iterator<Item = &Entry> {
        self.levels.iter().flat_map(move |level| {
            let from = level.fifo.partition_point(|entry| entry.seq < first);
            let returned = level.returned.range(first..=last.max(first)).map(|(_, entry)| entry);
            level.fifo.range(from..).take_while(move |entry| entry.seq <= last).chain(returned)
        })
    }

    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.levels.iter().flat_map(|level| level.fifo.iter().chain(level.returned.values()))
    }
}
