//! The time of day, and how the API shows it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the time in milliseconds since the epoch; 0 if the clock of the system is before it.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Shows a time as RabbitMQ does: `2026-01-31T23:59:59.000+00:00`.
pub fn utc(ms: u64) -> String {
    const DAY_S: u64 = 86_400;
    let (s, ms) = (ms / 1000, ms % 1000);
    let (days, second) = (s / DAY_S, s % DAY_S);
    // Howard Hinnant's civil_from_days: years begin in March, so that a leap day is the last one of a year.
    let since_march_0 = days + 719_468;
    let (era, day_of_era) = (since_march_0 / 146_097, since_march_0 % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
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
