//! A thread that is handed work: it writes the log, writes packs, or reads them.
//!
//! Each round it takes everything that was handed over since the last one. Handing over takes one short lock
//! and never waits for the disk. The thread is woken only when it sleeps.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A handle to a thread that does work `W` and ends with an `R`. When the last clone is dropped, the thread
/// finishes its work and ends.
#[derive(Debug)]
pub(crate) struct Worker<W, R> {
    inner: Arc<Inner<W, R>>,
}

impl<W, R> Clone for Worker<W, R> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<W: Default + Send + 'static, R: Send + 'static> Worker<W, R> {
    /// Starts a thread with `run`, which must take work from the inbox until the inbox ends.
    ///
    /// # Errors
    /// The errors of starting a thread.
    pub(crate) fn spawn(
        name: &str,
        run: impl FnOnce(&Arc<Inbox<W>>) -> R + Send + 'static,
    ) -> io::Result<Self> {
        let inbox = Arc::new(Inbox::default());
        let theirs = Arc::clone(&inbox);
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || run(&theirs))?;
        Ok(Self { inner: Arc::new(Inner { inbox, thread: Mutex::new(Some(thread)) }) })
    }

    /// Adds to the work of the next round. Does nothing once the thread was stopped.
    pub(crate) fn add(&self, add: impl FnOnce(&mut W)) {
        let state = self.inner.inbox.lock();
        if !state.stop {
            self.inner.inbox.ring(state, add);
        }
    }

    /// Returns true if the thread sleeps, has no work and was not stopped. Then the caller may do one step of
    /// the thread's work itself. The thread wakes once some time later; see [`Inbox::take_or_nap`].
    pub(crate) fn is_idle(&self) -> bool {
        let inbox = &self.inner.inbox;
        let mut state = inbox.lock();
        let is_idle = state.asleep && !state.has_work && !state.stop;
        state.was_active |= is_idle;
        let wakes = is_idle && std::mem::take(&mut state.without_timeout);
        drop(state);
        if wakes {
            inbox.bell.notify_one();
        }
        is_idle
    }

    /// Waits until everything handed over is done. Returns the result of the thread; `None` if a clone was
    /// stopped before.
    ///
    /// # Errors
    /// [`io::ErrorKind::BrokenPipe`]: the thread has panicked.
    pub(crate) fn stop(self) -> io::Result<Option<R>> {
        self.inner.inbox.stop();
        let thread = self.inner.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ended = thread.map(JoinHandle::join).transpose();
        ended.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

#[derive(Debug)]
struct Inner<W, R> {
    inbox: Arc<Inbox<W>>,
    thread: Mutex<Option<JoinHandle<R>>>,
}

impl<W, R> Drop for Inner<W, R> {
    fn drop(&mut self) {
        self.inbox.stop();
    }
}

/// The work that the thread has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Inbox<W> {
    state: Mutex<State<W>>,
    bell: Condvar,
}

#[derive(Debug, Default)]
struct State<W> {
    work: W,
    /// True if something was added to `work` and not taken yet.
    has_work: bool,
    asleep: bool,
    /// True if the thread sleeps without a timeout.
    without_timeout: bool,
    /// True if the thread or another did work since the thread last began to nap.
    was_active: bool,
    stop: bool,
}

/// The duration of a nap.
const NAP: Duration = Duration::from_millis(50);

/// The result of [`Inbox::take_or_nap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Work,
    /// No work was handed over during a nap; other threads may have done steps themselves.
    Idle,
    End,
}

impl<W> Inbox<W> {
    /// Waits for work and swaps it with `into`, which must be empty. The memory of `into` is reused. Returns
    /// false when the thread must end. If `expects` is true, the thread waits for an [`Inbox::answer`], so it
    /// is not told to end yet.
    pub(crate) fn take(&self, into: &mut W, expects: bool) -> bool {
        let mut state = self.lock();
        while !state.has_work && (!state.stop || expects) {
            state.asleep = true;
            state = self.bell.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.asleep = false;
        std::mem::swap(&mut state.work, into);
        std::mem::take(&mut state.has_work)
    }

    /// Like [`Inbox::take`], but returns [`Taken::Idle`] when a [`NAP`] has passed since the last work,
    /// whether the thread or another did it. It does so once per idle period, and again after every nap in
    /// which others did work.
    pub(crate) fn take_or_nap(&self, into: &mut W, expects: bool) -> Taken {
        let mut state = self.lock();
        while !state.has_work && (!state.stop || expects) {
            state.asleep = true;
            if std::mem::take(&mut state.was_active) {
                let (woken, nap) = self.bell.wait_timeout(state, NAP).unwrap_or_else(PoisonError::into_inner);
                state = woken;
                if nap.timed_out() && !state.has_work && !state.stop {
                    state.asleep = false;
                    return Taken::Idle;
                }
                state.was_active |= !nap.timed_out();
            } else {
                state.without_timeout = true;
                state = self.bell.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.without_timeout = false;
            }
        }
        state.asleep = false;
        state.was_active = true;
        std::mem::swap(&mut state.work, into);
        if std::mem::take(&mut state.has_work) { Taken::Work } else { Taken::End }
    }

    /// Adds the answer of another thread, even after a stop.
    pub(crate) fn answer(&self, add: impl FnOnce(&mut W)) {
        self.ring(self.lock(), add);
    }

    fn ring(&self, mut state: MutexGuard<'_, State<W>>, add: impl FnOnce(&mut W)) {
        add(&mut state.work);
        state.has_work = true;
        let wake = std::mem::take(&mut state.asleep);
        drop(state);
        if wake {
            self.bell.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self) {
        self.lock().stop = true;
        self.bell.notify_one();
    }
}
