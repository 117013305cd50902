//! The logins and the new passwords that wait for a thread, or for a place at other backends.

use std::collections::VecDeque;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use catalog::access::{Access, Standing, network};
use hashbrown::HashMap;

use super::Question;

/// The number of waiting questions above which those are looked for whose askers have gone. It is small against the memory of a
/// node: 256 logins of 8 KiB take 2 MiB.
const SWEEP_MIN: usize = 256;

/// A question, and by what it takes turns.
#[derive(Debug)]
pub(super) struct Entry {
    pub question: Question,
    pub standing: Standing,
    network: IpAddr,
    /// The name of the user. Only logins that may be guesses have one.
    name: Box<str>,
}

impl Entry {
    pub(super) fn new(question: Question, access: &Access) -> Self {
        // New passwords share a network of their own.
        let network = question.login().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |login| network(login.from));
        let mut entry = Self { question, standing: Standing::Calm, network, name: "".into() };
        entry.update(access);
        entry
    }

    /// Finds out anew what is known about the login.
    fn update(&mut self, access: &Access) {
        let Some(login) = self.question.login() else { return };
        self.standing = access.standing(login);
        if matches!(self.standing, Standing::Suspect { .. }) {
            self.name = access.name_of(login).into();
        }
    }
}

/// The questions that wait. Each connection and each HTTP request in flight has at most one. Those whose askers have gone are removed
/// before they are twice as many, so the bounds of connections and requests are the bound of the line.
#[derive(Debug, Default)]
pub(super) struct Line {
    waiting: Mutex<Waiting>,
    bell: Condvar,
}

/// The logins of a network that may be guesses. Users who have logged in from there within the last day take turns with all others.
/// Within these, users take turns.
type ByUser = Turns<bool, Turns<Box<str>, VecDeque<Entry>>>;

#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Logins that were right within the last minute. They need no slow hash.
    known: VecDeque<Entry>,
    /// By network.
    calm: Turns<IpAddr, VecDeque<Entry>>,
    /// Logins that may be guesses, by network.
    suspect: Turns<IpAddr, ByUser>,
    len: usize,
    /// The number of questions above which the next search for gone askers begins.
    sweep_above: usize,
    has_ended: bool,
}

/// A queue of questions.
trait Queue: Default {
    fn push(&mut self, entry: Entry);
    fn pop(&mut self) -> Option<Entry>;
    fn is_empty(&self) -> bool;

    /// Returns the number of questions.
    fn count(&self) -> usize;

    /// Removes the questions whose askers have gone.
    fn take_gone(&mut self, gone: &mut Vec<Question>);
}

impl Queue for VecDeque<Entry> {
    fn push(&mut self, entry: Entry) {
        self.push_back(entry);
    }

    fn pop(&mut self) -> Option<Entry> {
        self.pop_front()
    }

    fn is_empty(&self) -> bool {
        Self::is_empty(self)
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn take_gone(&mut self, gone: &mut Vec<Question>) {
        let (left, stay): (Self, Self) = self.drain(..).partition(|entry| entry.question.is_gone());
        *self = stay;
        gone.extend(left.into_iter().map(|entry| entry.question));
    }
}

/// Queues that take turns, by their keys.
#[derive(Debug)]
struct Turns<K, Q> {
    by_key: HashMap<K, Q>,
    /// The keys in `by_key`, the next one first.
    next: VecDeque<K>,
}

impl<K, Q> Default for Turns<K, Q> {
    fn default() -> Self {
        Self { by_key: HashMap::new(), next: VecDeque::new() }
    }
}

impl<K: Key, Q: Queue> Queue for Turns<K, Q> {
    fn push(&mut self, entry: Entry) {
        let key = K::of(&entry);
        let own = self.by_key.entry(key.clone()).or_default();
        if own.is_empty() {
            self.next.push_back(key);
        }
        own.push(entry);
    }

    /// Removes the first question of the queue whose turn it is.
    fn pop(&mut self) -> Option<Entry> {
        let key = self.next.pop_front()?;
        let own = self.by_key.get_mut(&key)?;
        let entry = own.pop();
        if own.is_empty() {
            self.by_key.remove(&key);
        } else {
            self.next.push_back(key);
        }
        entry
    }

    fn is_empty(&self) -> bool {
        self.next.is_empty()
    }

    fn count(&self) -> usize {
        self.by_key.values().map(Q::count).sum()
    }

    fn take_gone(&mut self, gone: &mut Vec<Question>) {
        self.by_key.retain(|_, own| {
            own.take_gone(gone);
            !own.is_empty()
        });
        self.next.retain(|key| self.by_key.contains_key(key));
    }
}

/// What questions take turns by.
trait Key: Clone + Eq + Hash {
    fn of(entry: &Entry) -> Self;
}

impl Key for IpAddr {
    fn of(entry: &Entry) -> Self {
        entry.network
    }
}

/// Whether the user is known at the address.
impl Key for bool {
    fn of(entry: &Entry) -> Self {
        entry.standing == Standing::Suspect { is_proven: true }
    }
}

impl Key for Box<str> {
    fn of(entry: &Entry) -> Self {
        entry.name.clone()
    }
}

impl Waiting {
    /// Adds a question. Returns those whose askers were found to have gone.
    pub(super) fn push(&mut self, entry: Entry) -> Vec<Question> {
        self.len += 1;
        self.place(entry);
        let mut gone = Vec::new();
        if self.len > self.sweep_above.max(SWEEP_MIN) {
            self.known.take_gone(&mut gone);
            self.calm.take_gone(&mut gone);
            self.suspect.take_gone(&mut gone);
            self.len -= gone.len();
            self.sweep_above = 2 * self.len;
        }
        gone
    }

    /// Returns the number of logins of an address that wait, without those that were right within the last minute.
    pub(super) fn count(&self, from: IpAddr) -> usize {
        let network = network(from);
        let calm = self.calm.by_key.get(&network).map_or(0, Queue::count);
        calm + self.suspect.by_key.get(&network).map_or(0, Queue::count)
    }

    fn place(&mut self, entry: Entry) {
        match entry.standing {
            Standing::Known => self.known.push(entry),
            Standing::Calm => self.calm.push(entry),
            Standing::Suspect { .. } => self.suspect.push(entry),
        }
    }

    /// Removes the next question for a thread. Only the thread that `takes_suspects` is for gets those that may be guesses, each after
    /// one of the others.
    fn pop(&mut self, takes_suspects: bool, last_was_suspect: bool, access: &Access) -> Option<Entry> {
        if let Some(entry) = self.known.pop() {
            self.len -= 1;
            return Some(entry);
        }
        match (takes_suspects, last_was_suspect) {
            (false, _) => self.pop_calm(access),
            (true, true) => self.pop_calm(access).or_else(|| self.pop_suspect()),
            (true, false) => self.pop_suspect().or_else(|| self.pop_calm(access)),
        }
    }

    /// Removes the next login that may be a guess.
    pub(super) fn pop_suspect(&mut self) -> Option<Entry> {
        let entry = self.suspect.pop();
        self.len -= usize::from(entry.is_some());
        entry
    }

    /// Removes the next of the other questions. Since they came, so many logins of their address may have failed that they may be
    /// guesses now.
    fn pop_calm(&mut self, access: &Access) -> Option<Entry> {
        while let Some(mut entry) = self.calm.pop() {
            entry.update(access);
            if !matches!(entry.standing, Standing::Suspect { .. }) {
                self.len -= 1;
                return Some(entry);
            }
            self.suspect.push(entry);
        }
        None
    }
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a question. Returns those whose askers were found to have gone.
    pub(super) fn push(&self, entry: Entry) -> Vec<Question> {
        let is_suspect = matches!(entry.standing, Standing::Suspect { .. });
        let gone = self.lock().push(entry);
        // A thread that takes no suspects may be the one that wakes up.
        if is_suspect {
            self.bell.notify_all();
        } else {
            self.bell.notify_one();
        }
        gone
    }

    /// Waits for the next question of a thread. Returns `None` when the line has ended.
    pub(super) fn next(
        &self,
        takes_suspects: bool,
        last_was_suspect: bool,
        access: &Access,
    ) -> Option<Entry> {
        let mut waiting = self.lock();
        loop {
            if waiting.has_ended {
                return None;
            }
            if let Some(next) = waiting.pop(takes_suspects, last_was_suspect, access) {
                return Some(next);
            }
            // Logins that may be guesses now are for the other thread.
            if !takes_suspects && !waiting.suspect.is_empty() {
                self.bell.notify_all();
            }
            waiting = self.bell.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns the number of logins of an address that wait; see [`Waiting::count`].
    pub(super) fn count(&self, from: IpAddr) -> usize {
        self.lock().count(from)
    }

    pub(super) fn end(&self) {
        self.lock().has_ended = true;
        self.bell.notify_all();
    }
}

#[cfg(test)]
mod tests;
