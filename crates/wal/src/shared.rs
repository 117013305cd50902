//! A machine that its own threads share with callers that find them idle (docs/decisions/0015).
//!
//! ```text
//!   the thread       sleeps ── woken ──▶ a round on the machine ──▶ sleeps
//!   its sync thread  a round at the end of each sync
//!   a shard          while the thread sleeps, and nobody uses the machine: one step
//! ```
//!
//! A shard never waits here: if the machine is in use, it hands its work to the thread. The thread waits for
//! one step and one round at most, because no shard begins a step while the thread is awake.

use std::fmt;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// A step that takes longer than this was delayed by the disk. A normal step only writes to the page cache
/// and takes a tenth of this at most. A writer that is faster than the disk is delayed by the system for 10
/// to 200 ms each time.
const SLOW: Duration = Duration::from_millis(5);

/// After a slow step, shards leave all work to the thread for this many times the duration of the step. So a
/// slow disk delays the shards' connections for a fiftieth of the time.
const PAUSE: u32 = 50;

pub(crate) struct Shared<M> {
    state: Mutex<State<M>>,
}

struct State<M> {
    /// The shared machine. `None` once its thread has ended.
    machine: Option<M>,
    paused_until: Option<Instant>,
}

impl<M> State<M> {
    fn is_paused(&self) -> bool {
        self.paused_until.is_some_and(|until| Instant::now() < until)
    }

    /// Called after each step with its start and its duration.
    fn note(&mut self, begun: Instant, took: Duration) {
        if took > SLOW {
            self.paused_until = Some(begun + took * (1 + PAUSE));
        }
    }
}

impl<M> Shared<M> {
    pub(crate) fn new(machine: M) -> Self {
        Self { state: Mutex::new(State { machine: Some(machine), paused_until: None }) }
    }

    /// Runs a round of one of the machine's own threads. Returns `None` once [`Shared::take`] was called.
    pub(crate) fn round<R>(&self, round: impl FnOnce(&mut M) -> R) -> Option<R> {
        self.lock().machine.as_mut().map(round)
    }

    /// Runs a short round on the caller's thread. It is told whether a recent step was slow; then it must write nothing. Returns `None` if
    /// the machine is in use or was taken.
    pub(crate) fn try_round<R>(&self, round: impl FnOnce(&mut M, bool) -> R) -> Option<R> {
        let mut state = self.state.try_lock().ok()?;
        let is_paused = state.is_paused();
        let begun = Instant::now();
        let done = round(state.machine.as_mut()?, is_paused);
        state.note(begun, begun.elapsed());
        Some(done)
    }

    /// Runs one step on the caller's thread. The caller must have seen the machine's thread asleep.
    ///
    /// # Errors
    /// Returns the work unchanged if the machine is in use, if a recent step was slow, or if the step
    /// refuses.
    pub(crate) fn try_step<W, R>(
        &self,
        work: W,
        step: impl FnOnce(&mut M, W) -> Result<R, W>,
    ) -> Result<R, W> {
        let Ok(mut state) = self.state.try_lock() else { return Err(work) };
        if state.is_paused() {
            return Err(work);
        }
        let Some(machine) = &mut state.machine else { return Err(work) };
        let begun = Instant::now();
        let done = step(machine, work);
        state.note(begun, begun.elapsed());
        done
    }

    /// Takes the machine out, when the thread ends.
    pub(crate) fn take(&self) -> Option<M> {
        self.lock().machine.take()
    }

    fn lock(&self) -> MutexGuard<'_, State<M>> {
        // If a step panicked halfway, the machine must not be used again.
        self.state.lock().expect("no step of the machine panics")
    }
}

impl<M> fmt::Debug for Shared<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(shared: &Shared<Vec<u32>>, work: u32) -> Result<usize, u32> {
        shared.try_step(work, |machine, work| {
            if work == 0 {
                return Err(work);
            }
            machine.push(work);
            Ok(machine.len())
        })
    }

    #[test]
    fn work_is_returned_unchanged_if_the_machine_is_in_use_or_taken_or_refuses() {
        let shared = Shared::new(Vec::new());
        assert_eq!((step(&shared, 7), step(&shared, 0)), (Ok(1), Err(0)));
        let inside = shared.round(|machine| (step(&shared, 8), machine.len()));
        assert_eq!(inside, Some((Err(8), 1)));
        assert_eq!(step(&shared, 9), Ok(2));
        assert_eq!(shared.take(), Some(vec![7, 9]));
        assert_eq!((step(&shared, 10), shared.round(|_| ())), (Err(10), None));
    }

    #[test]
    fn after_a_slow_step_only_the_thread_works_for_a_while() {
        let shared = Shared::new(Vec::new());
        let note = |ago, took| shared.lock().note(Instant::now() - ago, took);
        note(Duration::ZERO, SLOW);
        assert_eq!(step(&shared, 1), Ok(1), "that was not slow");
        // The step is so slow that the pause after it outlasts this test.
        let slow = 1000 * SLOW;
        note(slow, slow);
        assert_eq!(step(&shared, 2), Err(2));
        note(slow * (1 + PAUSE), slow);
        assert_eq!(step(&shared, 3), Ok(2), "that was long ago");
    }
}
