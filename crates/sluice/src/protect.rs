//! `sluice protect` and `sluice unprotect`: whether a virtual host may be deleted.

use clap::{Args, Subcommand};
use hyper::Method;

use crate::amqp::block_on;
use crate::failure::Failure;
use crate::http::Api;
use crate::objects::{self, Object};
use crate::output::print;

#[derive(Debug, Subcommand)]
pub(crate) enum Protect {
    /// A virtual host: it cannot be deleted
    Vhost(VirtualHost),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Unprotect {
    /// A virtual host: it may be deleted again
    Vhost(VirtualHost),
}

#[derive(Args, Debug)]
pub(crate) struct VirtualHost {
    name: String,
    #[command(flatten)]
    api: Api,
}

/// Protects a virtual host from deletion, and prints one line.
///
/// # Errors
/// The broker's error, for example that there is no such virtual host.
pub(crate) fn protect(protect: &Protect) -> Result<(), Failure> {
    let Protect::Vhost(vhost) = protect;
    vhost.change("protect", Method::POST, "is protected from deletion")
}

/// Allows the deletion of a virtual host again, and prints one line.
///
/// # Errors
/// The broker's error, for example that there is no such virtual host.
pub(crate) fn unprotect(unprotect: &Unprotect) -> Result<(), Failure> {
    let Unprotect::Vhost(vhost) = unprotect;
    vhost.change("unprotect", Method::DELETE, "may be deleted")
}

impl VirtualHost {
    fn change(&self, verb: &str, method: Method, done: &str) -> Result<(), Failure> {
        let Object { words, path } = objects::vhost(&self.name);
        let path = format!("{path}/deletion/protection");
        block_on(async {
            self.api.ask(&format!("{verb} {words}"), method, &path, None).await?;
            print(&format!("{words} {done}\n"))
        })
    }
}
