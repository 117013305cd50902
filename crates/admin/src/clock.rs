//! The time of day, and how the API shows it.

use std::time::{SystemTime, UNIX_EPOCH};

use time::OffsetDateTime;

/// Returns the time in milliseconds since the epoch; 0 if the clock of the system is before it.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Shows a time as RabbitMQ does: `2026-01-31T23:59:59.000+00:00`.
pub fn utc(ms: u64) -> String {
    // The calendar ends with the year 9999, long after any time that a clock shows.
    let time = OffsetDateTime::from_unix_timestamp((ms / 1000) as i64).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let ((year, month, day), (hour, minute, second)) = (time.to_calendar_date(), time.to_hms());
    let (month, ms) = (u8::from(month), ms % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}+00:00")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_utc() {
        for (ms, shown) in [
            (0, "1970-01-01T00:00:00.000+00:00"),
            (951_782_400_000, "2000-02-29T00:00:00.000+00:00"),
            (951_868_799_999, "2000-02-29T23:59:59.999+00:00"),
            (951_868_800_000, "2000-03-01T00:00:00.000+00:00"),
            (1_767_225_599_001, "2025-12-31T23:59:59.001+00:00"),
            (1_772_323_200_000, "2026-03-01T00:00:00.000+00:00"),
        ] {
            assert_eq!(utc(ms), shown);
        }
    }
}
