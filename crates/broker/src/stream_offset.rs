//! Stream offsets in text form.

use catalog::span_ms;
use queue::Start;

/// Parses `first`, `last`, `next`, or an age such as `10m`. Returns `None` for anything else. `now_ms` is the time
/// since the epoch.
pub fn parse_offset(text: &str, now_ms: u64) -> Option<Start> {
    Some(match text {
        "first" => Start::First,
        "last" => Start::Last,
        "next" => Start::Next,
        span => Start::Time(now_ms.saturating_sub(span_ms(span).filter(|ms| *ms > 0)?)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_keywords_or_durations() {
        for (text, start) in [
            ("first", Some(Start::First)),
            ("last", Some(Start::Last)),
            ("next", Some(Start::Next)),
            ("10m", Some(Start::Time(400_000))),
            ("1Y", Some(Start::Time(0))),
            ("0s", None),
            ("5", None),
            ("First", None),
            ("", None),
        ] {
            assert_eq!(parse_offset(text, 1_000_000), start, "{text}");
        }
    }
}
