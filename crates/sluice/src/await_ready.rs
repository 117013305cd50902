//! `sluice await`: waits for the broker, for scripts that start it.

use std::time::Duration;

use clap::{Args, Subcommand};
use hyper::StatusCode;

use crate::failure::Failure;
use crate::http::{Api, Ask, Unanswered};
use crate::output::print;

/// The time between two questions.
const PAUSE: Duration = Duration::from_millis(500);

const PATH: &str = "/api/health/checks/ready-to-serve-clients";

#[derive(Debug, Subcommand)]
pub(crate) enum Await {
    /// Wait until the node has started and takes connections: until `sluice check ready` succeeds
    Ready(Ready),
}

#[derive(Args, Debug)]
pub(crate) struct Ready {
    /// Give up after this time
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    timeout: u32,
    #[command(flatten)]
    api: Api,
}

/// Waits, and prints one line.
///
/// # Errors
/// The node is not ready in time, and why; or waiting does not help: the login is refused, the certificate is wrong, or the port
/// is that of AMQP or of another server.
pub(crate) fn run(Await::Ready(ready): &Await) -> Result<(), Failure> {
    crate::amqp::block_on(ready.wait())
}

impl Ready {
    async fn wait(&self) -> Result<(), Failure> {
        let mut last = Failure::nobody("the URL", "no answer in time");
        let attempts = async {
            loop {
                match self.ask().await? {
                    None => return print("the node is ready\n"),
                    Some(why) => last = why,
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        let done = tokio::time::timeout(Duration::from_secs(self.timeout.into()), attempts).await;
        done.unwrap_or_else(|_| {
            Err(Failure { line: format!("not ready after {} s: {}", self.timeout, last.line), ..last })
        })
    }

    /// Asks once. Returns why the node is not ready yet.
    async fn ask(&self) -> Result<Option<Failure>, Failure> {
        let what = "check readiness";
        match self.api.attempt(Ask::get(what, PATH)).await {
            Ok((status, _)) if status.is_success() => Ok(None),
            Ok((status, value)) if may_pass(status) => Ok(Some(self.api.refused(what, status, &value))),
            Ok((status, value)) => Err(self.api.refused(what, status, &value)),
            Err(Unanswered { failure, may_pass: true }) => Ok(Some(failure)),
            Err(Unanswered { failure, .. }) => Err(failure),
        }
    }
}

/// Returns true if the same request may get another answer later. The broker answers with 503 until it is ready, and a proxy in
/// front of it with other statuses.
fn may_pass(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
}
