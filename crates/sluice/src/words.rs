//! Numbers in words, for people.

use time::OffsetDateTime;

/// Returns the number and the noun: `1 queue`, `2 queues`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Returns a size: `17 B`, `38.3 MiB`. A whole number of kB, MB, ... is also shown as such, because it was set so: `50 MB (47.7 MiB)`.
pub(crate) fn bytes(bytes: u64) -> String {
    const DECIMAL: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    const BINARY: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut whole, mut unit) = (bytes, 0);
    while whole != 0 && whole.is_multiple_of(1000) && unit + 1 < DECIMAL.len() {
        (whole, unit) = (whole / 1000, unit + 1);
    }
    let decimal = (whole < 1000).then(|| format!("{whole} {}", DECIMAL[unit]));
    let (mut size, mut unit) = (bytes as f64, 0);
    while size >= 1023.95 && unit + 1 < BINARY.len() {
        (size, unit) = (size / 1024.0, unit + 1);
    }
    let shown = format!("{size:.1}");
    let binary = format!("{} {}", shown.strip_suffix(".0").unwrap_or(&shown), BINARY[unit]);
    match decimal {
        Some(decimal) if unit == 0 => decimal,
        Some(decimal) => format!("{decimal} ({binary})"),
        None => binary,
    }
}

/// Returns a duration with its two largest units: `3 days 4 h`, `12 s`.
pub(crate) fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{} {} h", counted(days, "day"), hours % 24),
    }
}

/// Returns a time, given in seconds since the epoch: `2026-11-29 08:59 UTC`. A time that no calendar has is shown as the number.
pub(crate) fn moment(seconds: i64) -> String {
    let Ok(time) = OffsetDateTime::from_unix_timestamp(seconds) else { return seconds.to_string() };
    let (year, month, day) = (time.year(), u8::from(time.month()), time.day());
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", time.hour(), time.minute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_words() {
        assert_eq!([0, 1, 2].map(|n| counted(n, "queue")), ["0 queues", "1 queue", "2 queues"]);
        for (number, words) in [
            (0, "0 B"),
            (1, "1 B"),
            (1000, "1 kB"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (50_000_000, "50 MB (47.7 MiB)"),
            (67_108_864, "64 MiB"),
            (40_148_992, "38.3 MiB"),
            (1_048_575, "1 MiB"),
            (15_165_635_788, "14.1 GiB"),
            (u64::MAX, "16777216 TiB"),
        ] {
            assert_eq!(bytes(number), words);
        }
        for (ms, words) in [
            (999, "0 s"),
            (59_999, "59 s"),
            (61_000, "1 min 1 s"),
            (7_500_000, "2 h 5 min"),
            (86_400_000, "1 day 0 h"),
            (187_200_000, "2 days 4 h"),
        ] {
            assert_eq!(duration(ms), words);
        }
        assert_eq!(moment(1_795_942_685), "2026-11-29 08:58 UTC");
        assert_eq!(moment(i64::MAX), i64::MAX.to_string());
    }
}
