//! When the file of the log is rotated by date: RabbitMQ's notation, such as `$D0` for each midnight.

/// The seconds of an hour and of a day. Leap seconds do not count in the time since the epoch.
const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// 1 January 1970 was a Thursday, counted from Sunday.
const WEEKDAY_OF_THE_EPOCH: u64 = 4;

/// The most days between two rotations: those of a long month and one more.
const DAYS_MAX: u64 = 32;

/// The hours at which the file is rotated, in UTC, as are the times in its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    days: Days,
    hour: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Days {
    All,
    /// The day of the week, from 0 for Sunday to 6.
    OfWeek(u64),
    /// The day of the month, from 1 to 31. A shorter month has no such day, and its last day counts.
    OfMonth(u64),
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
        day * DAY + self.hour * HOUR
    }

    fn has(self, day: u64) -> bool {
        match self.days {
            Days::All => true,
            Days::OfWeek(wanted) => (day + WEEKDAY_OF_THE_EPOCH) % 7 == wanted,
            Days::OfMonth(wanted) => {
                let (of_month, is_last) = (day_of_month(day), day_of_month(day + 1) == 1);
                of_month == wanted || (is_last && of_month < wanted)
            }
        }
    }
}

fn number(text: &str, range: std::ops::RangeInclusive<u64>) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| is_plain && range.contains(number))
}

/// Returns the day of the month of a day since the epoch, from 1. Years begin in March here, so that a leap day is the last day
/// of its year.
fn day_of_month(day: u64) -> u64 {
    /// The days from 1 March of the year 0 to the epoch, and those of 400, 100 and 4 years.
    const TO_EPOCH: u64 = 719_468;
    const YEARS_400: u64 = 146_097;
    const YEARS_100: u64 = 36_524;
    const YEARS_4: u64 = 1_461;
    let of_400 = (day + TO_EPOCH) % YEARS_400;
    let year = (of_400 - of_400 / (YEARS_4 - 1) + of_400 / YEARS_100 - of_400 / (YEARS_400 - 1)) / 365;
    let of_year = of_400 - (365 * year + year / 4 - year / 100);
    // Five months have 153 days: 31, 30, 31, 30, 31.
    let month = (5 * of_year + 2) / 153;
    of_year - (153 * month + 2) / 5 + 1
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
    fn days_of_months_follow_the_calendar() {
        // 1 January 1970, and the ends of February in 1999, 2000, 2024 and 2100.
        for (day, expected) in [
            (0, 1),
            (30, 31),
            (31, 1),
            (10_650, 28),
            (10_651, 1),
            (11_016, 29),
            (11_017, 1),
            (19_782, 29),
            (19_783, 1),
            (47_540, 28),
            (47_541, 1),
        ] {
            assert_eq!(day_of_month(day), expected, "{day}");
        }
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
