//! The moment at which the broker is killed.

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use super::copies::{Copied, kill_at_copy};
use crate::broker::Broker;

/// The interval at which the data directory is inspected.
const CHECK_INTERVAL: Duration = Duration::from_micros(100);

/// The event to wait for before the kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// Waits until this many messages are confirmed.
    Confirmed(u64),
    /// Waits until the log has begun a file.
    Roll,
    /// Waits until this many packs were begun.
    Pack(u64),
    /// Waits until the log has released a file. Then it is about to evacuate the next one: to copy its live
    /// records to the end of the log.
    GivenBack,
    /// Waits until a copy and its original are both on the disk.
    Copy(Copied),
}

impl Moment {
    /// Returns a number that grows when the event happens.
    fn mark(self, data: &Path) -> u64 {
        let numbers = |folder: &Path, suffix: &str| -> Vec<u64> {
            let names =
                std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
            names.filter_map(|name| name.to_str()?.strip_suffix(suffix)?.parse().ok()).collect()
        };
        match self {
            Self::Confirmed(_) | Self::Copy(_) => 0,
            Self::Roll => numbers(data, ".log").into_iter().max().unwrap_or(0),
            Self::Pack(_) => numbers(&data.join("packs"), ".pack").into_iter().max().unwrap_or(0),
            Self::GivenBack => numbers(data, ".log").into_iter().min().unwrap_or(0),
        }
    }

    /// Waits for the event, and kills the broker after `delay`. Returns the number of copies whose originals
    /// still exist, if that is the event.
    ///
    /// # Errors
    /// The publishers have ended first. The broker is killed in this case, too.
    pub(super) fn wait_and_kill(
        self,
        broker: Broker,
        data: &Path,
        seed: u64,
        confirmed: &mpsc::Receiver<()>,
        delay: Duration,
    ) -> Result<usize, &'static str> {
        if let Self::Copy(copied) = self {
            let ended = || confirmed.try_recv() == Err(mpsc::TryRecvError::Disconnected);
            return kill_at_copy(broker, data, copied, seed, ended);
        }
        let reached = self.wait(data, confirmed);
        std::thread::sleep(delay);
        broker.kill();
        if reached { Ok(0) } else { Err("the publishers ended before the kill") }
    }

    /// Waits for the event. Returns false if the publishers have ended first.
    fn wait(self, data: &Path, confirmed: &mpsc::Receiver<()>) -> bool {
        let steps = match self {
            Self::Confirmed(_) => return confirmed.recv().is_ok(),
            Self::Pack(packs) => packs,
            Self::Roll | Self::GivenBack | Self::Copy(_) => 1,
        };
        let before = self.mark(data);
        while self.mark(data) < before + steps {
            if confirmed.try_recv() == Err(mpsc::TryRecvError::Disconnected) {
                return false;
            }
            std::thread::sleep(CHECK_INTERVAL);
        }
        true
    }
}
