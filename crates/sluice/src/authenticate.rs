//! `sluice authenticate`: tries the password of a user.

use clap::{Args, Subcommand};
use hyper::StatusCode;

use crate::failure::Failure;
use crate::http::{Api, Ask};
use crate::output::print;
use crate::password::PasswordFrom;

/// The reason with which the management API refuses a user who is logged in, but has no tag. It is that of RabbitMQ.
const NO_TAG: &str = "Not management user";

#[derive(Debug, Subcommand)]
pub(crate) enum Authenticate {
    /// Log in as a user, whose password is asked for, or read from standard input. The user needs no tag
    User(User),
}

#[derive(Args, Debug)]
pub(crate) struct User {
    name: String,
    #[command(flatten)]
    password: PasswordFrom,
    #[command(flatten)]
    api: Api,
}

/// Logs in, and prints one line.
///
/// # Errors
/// The login is refused, or there is no password.
pub(crate) fn run(Authenticate::User(User { name, password, api }): &Authenticate) -> Result<(), Failure> {
    if name.contains(':') {
        return Err(Failure::usage(format!(
            "user '{name}' cannot log in over HTTP, because the name has a colon"
        )));
    }
    let password = password.read_known(name)?;
    let api = api.logged_in_as(name, &password)?;
    let what = format!("authenticate user '{name}'");
    crate::amqp::block_on(async {
        let (status, answer) = api.exchange(Ask::get(&what, "/api/whoami")).await?;
        let lacks_tag = status == StatusCode::UNAUTHORIZED && answer["reason"] == NO_TAG;
        if !status.is_success() && !lacks_tag {
            return Err(api.refused(&what, status, &answer));
        }
        print(&format!("user '{name}' is authenticated\n"))
    })
}
