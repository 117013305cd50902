//! When the file of the log is rotated by date: RabbitMQ's notation, such as `$D0` for each midnight.

use time::{Date, OffsetDateTime};

/// The seconds of an hour and of a day. Leap seconds do not count in the time since the epoch.
const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// The most days between two rotations: those of a long month and one more.
const DAYS_MAX: u64 = 32;

/// The hours at which the file is rotated, in UTC, as are the times in its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    days: Days,
    hour: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Days {
    All,
    /// The day of the week, from 0 for Sunday to 6.
    OfWeek(u8),
    /// The day of the month, from 1 to 31. A shorter month has no such day, and its last day counts.
    OfMonth(u8),
}

impl Schedule {
    /// Parses `$D<hour>`, `$W<day of the week>D<hour>` or `$M<day of the month>D<hour>`. Hours are from 0 to 23, days of the
    /// week from 0 (Sunday) to 6, days of the month from 1 to 31.
    ///
    /// # Errors
    /// What is needed instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parsed = || {
            let text = text.strip_prefix('$')?;
            let (days, hour) = text.split_once('D')?;
            let days = match days.split_at_checked(1) {
                None => Days::All,
                Some(("W", day)) => Days::OfWeek(number(day, 0..=6)?),
                Some(("M", day)) => Days::OfMonth(number(day, 1..=31)?),
                Some(_) => return None,
            };
            Some(Self { days, hour: number(hour, 0..=23)? })
        };
        parsed().ok_or_else(|| {
            "$D and an hour (0 to 23) is needed, such as $D0 for each midnight; $W0D23 is each Sunday at 23:00, and $M1D0 the \
             first day of each month"
                .to_owned()
        })
    }

    /// Returns the first time after `seconds` at which the file is rotated. Times are in seconds since the epoch.
    pub fn next(self, seconds: u64) -> u64 {
        let today = seconds / DAY;
        let mut hours = (today..=today + DAYS_MAX).filter(|day| self.has(*day)).map(|day| self.at(day));
        // Each kind of day comes within the range, so there is a time. Without one, nothing would be rotated.
        hours.find(|at| *at > seconds).unwrap_or(u64::MAX)
    }

    fn at(self, day: u64) -> u64 {
        day * DAY + u64::from(self.hour) * HOUR
    }

    fn has(self, day: u64) -> bool {
        let Some(date) = date(day) else { return false };
        match self.days {
            Days::All => true,
            Days::OfWeek(wanted) => date.weekday().number_days_from_sunday() == wanted,
            Days::OfMonth(wanted) => date.day() == wanted.min(date.month().length(date.year())),
        }
    }
}

fn number(text: &str, range: std::ops::RangeInclusive<u8>) -> Option<u8> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| is_plain && range.contains(number))
}

/// Returns the date of a day since the epoch; `None` after the year 9999.
fn date(day: u64) -> Option<Date> {
    let seconds = i64::try_from(day * DAY).ok()?;
    Some(OffsetDateTime::from_unix_timestamp(seconds).ok()?.date())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 27 November 2026, a Friday, at 00:30 UTC.
    const FRIDAY: u64 = 1_795_739_400;

    #[test]
    fn a_schedule_names_an_hour_and_maybe_a_day() {
        let next = |text: &str, seconds| Schedule::parse(text).unwrap().next(seconds);
        let midnight = FRIDAY / DAY * DAY;
        assert_eq!(next("$D0", FRIDAY), midnight + DAY);
        assert_eq!(next("$D23", FRIDAY), midnight + 23 * HOUR);
        assert_eq!(next("$D0", midnight), midnight + DAY, "the time itself is over");
        assert_eq!(next("$D0", midnight - 1), midnight);
        assert_eq!(next("$W5D0", FRIDAY), midnight + 7 * DAY);
        assert_eq!(next("$W5D16", FRIDAY), midnight + 16 * HOUR);
        assert_eq!(next("$W0D23", FRIDAY), midnight + 2 * DAY + 23 * HOUR);
        assert_eq!(next("$M1D0", FRIDAY), midnight + 4 * DAY);
        assert_eq!(next("$M27D1", FRIDAY), midnight + HOUR);
        assert_eq!(next("$M27D0", FRIDAY), midnight + 30 * DAY);
        assert_eq!(next("$M31D0", FRIDAY), midnight + 3 * DAY, "November has 30 days");
    }

    #[test]
    fn the_last_day_of_a_short_month_counts() {
        let last = Schedule::parse("$M31D0").unwrap();
        // 31 January 1970, and the ends of February in 1999, 2000, 2024 and 2100.
        for day in [30, 10_650, 11_016, 19_782, 47_540] {
            assert!(last.has(day) && !last.has(day - 1) && !last.has(day + 1), "{day}");
        }
        assert_eq!(last.next(u64::MAX / 2), u64::MAX, "a time that is no date");
    }

    #[test]
    fn other_schedules_are_refused() {
        for text in
            ["", "D0", "$", "$D", "$D24", "$D-1", "$D+1", "$W7D0", "$WD0", "$M0D0", "$M32D0", "$Y1D0", "$D0 "]
        {
            assert!(Schedule::parse(text).unwrap_err().contains("$D0"), "{text}");
        }
    }
}
