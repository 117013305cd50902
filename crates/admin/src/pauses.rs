//! Pauses of long work. One thread serves all HTTP requests, so work that follows the number of objects lets others run in between.
//! When the client closes its connection, the work ends at the next pause.

use catalog::pattern::Pattern;

use crate::reply::Failure;

/// The steps after which other tasks of the thread have their turn: about a millisecond. A step is one of [`Pattern::steps`], some 10 to
/// 40 ns. The match of one text is not interrupted.
const STEPS_PER_TURN: u64 = 32 * 1024;

/// The most steps that the matches of one request take together: some 5 seconds at worst. A hundred thousand names of usual length and
/// patterns as people write them take less.
const MATCH_STEPS_MAX: u64 = 128 * 1024 * 1024;

/// The steps of showing a row as JSON.
pub(crate) const ROW_STEPS: u64 = 256;

/// Counts the steps of one request.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    /// The steps of this turn.
    steps: u64,
}

impl Pauses {
    /// Counts steps. Lets other tasks run if this turn has taken its share.
    pub(crate) async fn count(&mut self, steps: u64) {
        self.steps = self.steps.saturating_add(steps);
        if self.steps >= STEPS_PER_TURN {
            self.steps = 0;
            tokio::task::yield_now().await;
        }
    }
}

/// Matches texts with a pattern that a client has chosen.
#[derive(Debug)]
pub(crate) struct Matches<'a> {
    pattern: &'a Pattern,
    steps: u64,
    pauses: Pauses,
}

impl<'a> Matches<'a> {
    pub(crate) fn new(pattern: &'a Pattern) -> Self {
        Self { pattern, steps: 0, pauses: Pauses::default() }
    }

    /// Returns true if the text matches.
    ///
    /// # Errors
    /// 400 if the matches of the request would take too many steps.
    pub(crate) async fn is_match(&mut self, text: &str) -> Result<bool, Failure> {
        let steps = self.pattern.steps(text.len());
        self.steps = self.steps.saturating_add(steps);
        check(self.pattern, self.steps)?;
        self.pauses.count(steps).await;
        Ok(self.pattern.is_match(text))
    }
}

/// Checks the steps that a pattern takes for all texts of a request.
///
/// # Errors
/// 400 if they are too many.
pub(crate) fn check(pattern: &Pattern, steps: u64) -> Result<(), Failure> {
    if steps <= MATCH_STEPS_MAX {
        return Ok(());
    }
    let text = pattern.as_str();
    Err(Failure::bad_request(format!(
        "the pattern '{text}' is too costly for so many names: it may take more than {MATCH_STEPS_MAX} steps. Begin it with ^, use \
         less repetitions, or ask for a part of the name without use_regex"
    )))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Runs work to its end, and returns what it returns with the number of its pauses.
    pub(crate) fn pauses_of<T>(work: impl Future<Output = T>) -> (T, usize) {
        let (mut work, mut pauses) = (pin!(work), 0);
        loop {
            match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(done) => return (done, pauses),
                Poll::Pending => pauses += 1,
            }
        }
    }

    #[test]
    fn a_turn_ends_after_its_steps() {
        let count = |each: u64, times: usize| {
            pauses_of(async {
                let mut pauses = Pauses::default();
                for _ in 0..times {
                    pauses.count(each).await;
                }
            })
            .1
        };
        assert_eq!(count(1, 1000), 0);
        assert_eq!(count(STEPS_PER_TURN / 4, 1000), 250);
        assert_eq!(count(u64::MAX, 10), 10);
    }

    #[test]
    fn matches_of_costly_patterns_pause_and_end() {
        let name = "n".repeat(251);
        let costly = Pattern::of_search("(?:.?.?.?.?){120}z").unwrap();
        let (found, pauses) = pauses_of(async {
            let mut matches = Matches::new(&costly);
            for matched in 0..10_000 {
                match matches.is_match(&name).await {
                    Ok(is_match) => assert!(!is_match),
                    Err(failure) => return (matched, failure.text().to_owned()),
                }
            }
            (10_000, String::new())
        });
        let (matched, why) = found;
        assert!(matched > 0 && matched < 1_000 && why.contains("too costly"), "{matched} {why}");
        assert_eq!(pauses, matched, "each match is a turn");
    }

    #[test]
    fn patterns_as_people_write_them_may_search_many_names() {
        let name = "team-17.orders.of-the-region.eu-central-1.retry";
        for pattern in ["^team-17\\.", "orders", "^team-[0-9]+\\..*retry$", "retry$", "^(team-1|team-17)\\."]
        {
            let pattern = Pattern::of_search(pattern).unwrap();
            let (steps, all) = (pattern.steps(name.len()), 100_000);
            assert!(check(&pattern, all * steps).is_ok(), "{pattern:?} {steps}");
        }
    }
}
