//! Which servers the verbs trust, and how they show who they are.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use tls::{ClientConfig, ClientOptions};

use crate::failure::Failure;

/// TLS of a verb.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Trust {
    /// The authorities whose servers are trusted, in PEM (default: those that the system trusts)
    #[arg(long, global = true, env = "SLUICE_CACERT", value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// The client's certificate, in PEM, for a server that asks for one
    #[arg(long, global = true, env = "SLUICE_CERT", value_name = "FILE", requires = "cert_key")]
    cert: Option<PathBuf>,
    /// The key of the client's certificate, in PEM
    #[arg(long, global = true, env = "SLUICE_CERT_KEY", value_name = "FILE")]
    cert_key: Option<PathBuf>,
}

impl Trust {
    /// Reads the files.
    ///
    /// # Errors
    /// A usage failure: a file cannot be used.
    pub(crate) fn load(&self) -> Result<Arc<ClientConfig>, Failure> {
        let options = ClientOptions {
            authorities: self.cacert.clone(),
            identity: self.cert.clone().zip(self.cert_key.clone()),
        };
        options.load().map_err(|error| Failure::usage(error.to_string()))
    }
}
