//! `--watch`: shows an answer again and again.

use std::time::Duration;

use clap::Args;

use crate::failure::Failure;
use crate::output::{complain, print, redraw};

/// The most seconds between two answers: a day. A longer time is probably a mistake.
const SECONDS_MAX: u64 = 86_400;

#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Watch {
    /// Show it again every SECONDS (2 if none are given), until interrupted
    #[arg(long, global = true, value_name = "SECONDS", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "2", value_parser = seconds)]
    watch: Option<u64>,
}

/// Parses the seconds between two answers.
pub(crate) fn seconds(text: &str) -> Result<u64, String> {
    let seconds = text.parse().ok().filter(|seconds| (1..=SECONDS_MAX).contains(seconds));
    seconds.ok_or_else(|| format!("a number of seconds from 1 to {SECONDS_MAX} is needed"))
}

impl Watch {
    /// Prints what `make` returns: once, or until the verb is interrupted. On a terminal, each answer replaces the one
    /// before. A broker that goes away is waited for.
    ///
    /// # Errors
    /// The first answer failed, or nobody reads the output any more.
    pub(crate) async fn print(self, make: impl AsyncFn() -> Result<String, Failure>) -> Result<(), Failure> {
        let first = make().await?;
        let Some(seconds) = self.watch else { return print(&first) };
        redraw(&first)?;
        loop {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            match make().await {
                Ok(text) => redraw(&text)?,
                // The last answer stays on the screen, with this below it.
                Err(failure) => complain(&failure),
            }
        }
    }
}
