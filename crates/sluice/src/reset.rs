//! `sluice reset`: sets counts of the node to zero.

use clap::{Args, Subcommand};
use hyper::Method;

use crate::amqp::block_on;
use crate::failure::Failure;
use crate::http::Api;
use crate::objects::segment;
use crate::output::print;

#[derive(Args, Debug)]
pub(crate) struct Reset {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    api: Api,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The logins that `sluice list auth-attempts` shows, by protocol and by source. The metrics go on
    AuthAttempts,
}

/// Resets, and prints one line.
///
/// # Errors
/// The broker's error.
pub(crate) fn run(reset: &Reset) -> Result<(), Failure> {
    let Reset { what: What::AuthAttempts, api } = reset;
    block_on(async {
        let words = "reset the counts of logins";
        let path = format!("/api/auth/attempts/{}", segment(&api.node(words).await?));
        api.ask(words, Method::DELETE, &path, None).await?;
        print("the counts of logins are zero\n")
    })
}
