//! When the broker is killed.

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use crate::broker::Broker;
use crate::copies::{Copied, kill_at_copy};

/// How often the data directory is looked at for the moment to kill.
const LOOK: Duration = Duration::from_micros(100);

/// What the kill waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// So many messages are confirmed.
    Confirmed(u64),
    /// The log has begun a file.
    Roll,
    /// So many packs have been begun.
    Pack(u64),
    /// The log has given a file back, and is about to evacuate the next one.
    GivenBack,
    /// A copy stands beside what it was made from.
    Copy(Copied),
}

impl Moment {
    /// What grows at this moment.
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

    /// Waits for it, and kills the broker so much later. Returns how many copies stood beside what they were made from,
    /// if that is the moment.
    ///
    /// # Errors
    /// The publishers have ended before; then it is killed, too.
    pub fn wait_and_kill(
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

    /// False if the publishers have ended before.
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
            std::thread::sleep(LOOK);
        }
        true
    }
}
