//! The client's side: which servers are trusted, and the certificate that the client shows.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};

use crate::error::{AtFault, TlsError, wrong};
use crate::keys::private_key;
use crate::pairs::certificates;

/// The TLS settings of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientOptions {
    /// The authorities whose servers are trusted, in PEM. `None`: those that the system trusts.
    pub authorities: Option<PathBuf>,
    /// The certificate and the key of the client, in PEM.
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl ClientOptions {
    /// Reads the files.
    ///
    /// # Errors
    /// A file cannot be read, or has not what it should have.
    pub fn load(&self) -> Result<Arc<ClientConfig>, TlsError> {
        let mut roots = RootCertStore::empty();
        match &self.authorities {
            Some(path) => {
                for authority in certificates(path)? {
                    roots.add(authority).map_err(|error| wrong(path, error))?;
                }
            }
            None => {
                // Some that the system has may be of a kind that rustls does not know.
                let (_, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder
            .map_err(|error| TlsError::new(AtFault::System, format!("TLS: {error}")))?
            .with_root_certificates(roots);
        let config = match &self.identity {
            Some((certificate, key)) => builder
                .with_client_auth_cert(certificates(certificate)?, private_key(key, None, None)?)
                .map_err(|error| wrong(certificate, error))?,
            None => builder.with_no_client_auth(),
        };
        Ok(Arc::new(config))
    }
}
