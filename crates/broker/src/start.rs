//! Where a reader of a stream begins, in words.

use queue::Start;

use crate::catalog::span_ms;

/// `first`, `last`, `next`, or how long ago, such as `10m` (behaviour B.9); `None` for anything else. `now_ms` counts from
/// the epoch.
pub fn start_of(text: &str, now_ms: u64) -> Option<Start> {
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
    fn words_and_spans() {
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
            assert_eq!(start_of(text, 1_000_000), start, "{text}");
        }
    }
}
