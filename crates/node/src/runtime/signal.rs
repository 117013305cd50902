//! Wakes a task of the same thread. A turn does this several times, so it is cheaper than `tokio::sync::Notify`, which any thread may use.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

/// A signal for one task.
#[derive(Default)]
pub(super) struct Signal {
    is_set: Cell<bool>,
    waiter: Cell<Option<Waker>>,
}

impl Signal {
    /// Wakes the task that waits. If none does, the next wait ends at once.
    pub(super) fn set(&self) {
        if !self.is_set.replace(true)
            && let Some(waiter) = self.waiter.take()
        {
            waiter.wake();
        }
    }

    /// Waits until the signal is set, and clears it. Only one task may wait.
    pub(super) async fn wait(&self) {
        poll_fn(|cx| self.poll(cx)).await;
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        if self.is_set.take() {
            return Poll::Ready(());
        }
        let waiter = self.waiter.take().filter(|waiter| waiter.will_wake(cx.waker()));
        self.waiter.set(Some(waiter.unwrap_or_else(|| cx.waker().clone())));
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_signal_wakes_the_task_that_waits_once_and_is_kept_for_one_that_does_not() {
        let (signal, wakes) = (Signal::default(), Arc::<Wakes>::default());
        let waker = Waker::from(wakes.clone());
        let cx = Context::from_waker(&waker);
        let woken = || wakes.0.load(Ordering::Relaxed);
        signal.set();
        signal.set();
        assert_eq!((signal.poll(&cx), woken()), (Poll::Ready(()), 0), "set before");
        assert_eq!(
            (signal.poll(&cx), signal.poll(&cx)),
            (Poll::Pending, Poll::Pending),
            "two signals are one"
        );
        signal.set();
        signal.set();
        assert_eq!((woken(), signal.poll(&cx)), (1, Poll::Ready(())));
        assert_eq!(signal.poll(&cx), Poll::Pending);
    }

    #[test]
    fn the_last_task_that_asked_is_woken() {
        let (signal, first, second) = (Signal::default(), Arc::<Wakes>::default(), Arc::<Wakes>::default());
        for wakes in [&first, &second] {
            let waker = Waker::from(wakes.clone());
            assert_eq!(signal.poll(&Context::from_waker(&waker)), Poll::Pending);
        }
        signal.set();
        assert_eq!((first.0.load(Ordering::Relaxed), second.0.load(Ordering::Relaxed)), (0, 1));
    }
}
