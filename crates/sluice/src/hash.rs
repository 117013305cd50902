//! `sluice hash`: the hash of a password, as definitions have it.

use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::{Value, json};

use crate::amqp::block_on;
use crate::failure::Failure;
use crate::http::{Api, Ask};
use crate::password::PasswordFrom;

#[derive(Debug, Subcommand)]
pub(crate) enum Hash {
    /// A password, for definitions; it is asked for, or read from standard input
    Password(Password),
}

#[derive(Args, Debug)]
pub(crate) struct Password {
    #[command(flatten)]
    password: PasswordFrom,
    /// Print the response of the management API
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    api: Api,
}

/// Prints the hash.
///
/// # Errors
/// The broker's error, or there is no password.
pub(crate) fn run(hash: &Hash) -> Result<(), Failure> {
    let Hash::Password(Password { password, json, api }) = hash;
    let fields = json!({ "password": password.read("Password to hash")? });
    let ask = Ask::new("hash a password", Method::POST, "/api/auth/hash_password").with(Some(&fields));
    let shown = |answer: &Value| format!("{}\n", answer["ok"].as_str().unwrap_or_default());
    block_on(ask.print(api, *json, shown))
}
