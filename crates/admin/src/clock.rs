//! The time of day.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the time in milliseconds since the epoch; 0 if the clock of the system is before it.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
