//! Says on a terminal that a request with long work is still being carried out.

use std::time::Duration;

use crate::output::show_progress;

/// The time between two lines. Most requests are answered before the first one.
const TICK: Duration = Duration::from_secs(2);

/// Waits for a request. If standard error is a terminal, writes a line there every 2 seconds. `words` names the operation.
pub(crate) async fn watched<T>(words: &str, request: impl Future<Output = T>) -> T {
    watched_with(words, request, TICK, show_progress).await
}

async fn watched_with<T>(
    words: &str,
    request: impl Future<Output = T>,
    tick: Duration,
    mut say: impl FnMut(&str),
) -> T {
    let mut request = std::pin::pin!(request);
    let mut ticks = tokio::time::interval(tick);
    // The first tick is at once.
    ticks.tick().await;
    let mut waited = Duration::ZERO;
    loop {
        tokio::select! {
            biased;
            answer = &mut request => return answer,
            _ = ticks.tick() => {
                waited += tick;
                say(&format!("{words}: the broker is at work, {} s so far", waited.as_secs()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn a_line_is_written_at_each_tick_until_the_answer() {
        let (enough, mut lines) = (Notify::new(), Vec::new());
        let answer = watched_with(
            "import the definitions",
            async {
                enough.notified().await;
                7
            },
            Duration::from_millis(1),
            |line| {
                lines.push(line.to_owned());
                if lines.len() == 3 {
                    enough.notify_one();
                }
            },
        );
        assert_eq!(answer.await, 7);
        assert_eq!(lines[0], "import the definitions: the broker is at work, 0 s so far");
        assert!(lines.len() >= 3, "{lines:?}");
    }

    #[tokio::test]
    async fn an_answer_that_is_there_needs_no_line() {
        let say = |line: &str| panic!("{line}");
        assert_eq!(watched_with("grow", std::future::ready(7), Duration::from_millis(1), say).await, 7);
    }
}
