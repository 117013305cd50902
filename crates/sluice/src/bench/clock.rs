//! Precise timing. Tokio's timers have a resolution of one millisecond; with them, a late sender would look
//! like a slow broker.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

pub(super) const SECOND_NS: u64 = 1_000_000_000;

/// Returns `CLOCK_MONOTONIC` in nanoseconds. It is the same in all processes of a machine.
pub(super) fn now_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// Returns the CPU time of this process so far (all threads, user and system), in nanoseconds.
pub(super) fn cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ProcessCPUTime))
}

fn nanoseconds(time: Timespec) -> u64 {
    // Neither clock returns a negative time.
    time.tv_sec as u64 * SECOND_NS + time.tv_nsec as u64
}

/// Paces a sender: says when each message is due.
pub(super) struct Pacer {
    timer: AsyncFd<OwnedFd>,
    start_ns: u64,
    /// The rate of the sender, in messages per second.
    rate: u32,
}

impl Pacer {
    /// Creates a pacer that starts at `start_ns`.
    ///
    /// # Errors
    /// The process has too many open files.
    pub(super) fn new(start_ns: u64, rate: u32) -> std::io::Result<Self> {
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        #[expect(
            deprecated,
            reason = "AsyncFd::new was replaced by an unsafe function because some types can change their descriptor; an OwnedFd cannot"
        )]
        let timer = AsyncFd::new(timer)?;
        Ok(Self { timer, start_ns, rate })
    }

    /// Returns when message `n` is due, in nanoseconds.
    pub(super) fn due_ns(&self, n: u64) -> u64 {
        let after = u128::from(n) * u128::from(SECOND_NS) / u128::from(self.rate);
        self.start_ns + after as u64
    }

    /// Waits until message `n` is due, and returns that time in nanoseconds.
    pub(super) async fn due(&self, n: u64) -> std::io::Result<u64> {
        let due_ns = self.due_ns(n);
        while now_ns() < due_ns {
            self.sleep_until(due_ns).await?;
        }
        Ok(due_ns)
    }

    async fn sleep_until(&self, at_ns: u64) -> std::io::Result<()> {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let at = Timespec { tv_sec: (at_ns / SECOND_NS) as _, tv_nsec: (at_ns % SECOND_NS) as _ };
        let once = Itimerspec { it_interval: zero, it_value: at };
        timerfd_settime(self.timer.get_ref(), TimerfdTimerFlags::ABSTIME, &once)?;
        let mut ready = self.timer.readable().await?;
        let mut expirations = [0; 8];
        let read = rustix::io::read(self.timer.get_ref(), &mut expirations);
        ready.clear_ready();
        match read {
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
