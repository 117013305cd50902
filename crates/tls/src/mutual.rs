//! The configurations of TLS between the nodes of a cluster. Each side shows its certificate, and verifies that of the other one.
//!
//! The certificate of a node is that of a server for the host of the node, whichever side has dialed. So the certificate of a client is none of a
//! node, although the same authority has signed it, and a certificate for servers alone is enough.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::{Resumption, verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, ParsedCertificate};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig,
    SignatureScheme, version,
};

use crate::certificates::Certificate;
use crate::error::{AtFault, TlsError, wrong};
use crate::pairs::{ByServerName, certificates};

/// The certificate of this node.
pub(crate) struct Own<'a> {
    /// The host of this node.
    pub host: &'a str,
    pub file: &'a Path,
    pub pair: CertifiedKey,
    pub certificate: &'a Certificate,
}

/// Reads the authorities from `path`, and makes the configurations of both sides. Neither resumes a session: that would skip the certificates.
///
/// # Errors
/// The file cannot be used, or the certificate is not valid for the host of this node.
pub(crate) fn configurations(
    path: &Path,
    own: Own<'_>,
    provider: &Arc<CryptoProvider>,
) -> Result<(ServerConfig, ClientConfig), TlsError> {
    let Own { host, file, pair, certificate } = own;
    let mut roots = RootCertStore::empty();
    for authority in certificates(path)? {
        roots.add(authority).map_err(|error| wrong(path, error))?;
    }
    if ServerName::try_from(host).is_err() {
        return Err(wrong(file, format!("no certificate can be valid for {host:?}, the host of this node")));
    }
    if !pair.end_entity_cert().is_ok_and(|der| is_valid_for(der, host)) {
        let names: Vec<String> = certificate.alternative_names.iter().map(ToString::to_string).collect();
        let names = if names.is_empty() { "no host".to_owned() } else { names.join(", ") };
        let why = format!("the certificate is for {names}, and not for {host}, the host of this node");
        return Err(wrong(file, why));
    }
    let system = |error| TlsError::new(AtFault::System, format!("TLS: {error}"));
    let roots = Arc::new(roots);
    let algorithms = provider.signature_verification_algorithms;
    let verifier = NodeVerifier { roots: roots.clone(), algorithms };
    let mut accepting = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&version::TLS13])
        .map_err(system)?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_cert_resolver(Arc::new(ByServerName { default: Arc::new(pair.clone()), named: Vec::new() }));
    accepting.session_storage = Arc::new(NoServerSessionStorage {});
    accepting.send_tls13_tickets = 0;
    let mut dialing = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&version::TLS13])
        .map_err(system)?
        .with_root_certificates(roots)
        .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(pair)));
    dialing.resumption = Resumption::disabled();
    Ok((accepting, dialing))
}

/// Returns true if a certificate is valid for a host: a DNS name, or an IP address.
pub(crate) fn is_valid_for(der: &CertificateDer<'_>, host: &str) -> bool {
    let Ok(host) = ServerName::try_from(host) else { return false };
    ParsedCertificate::try_from(der).is_ok_and(|certificate| verify_server_name(&certificate, &host).is_ok())
}

/// Verifies the certificate of a node that has dialed. It must be one that a server could have. For which node it is valid is checked when the peer has
/// said which node it is.
#[derive(Debug)]
struct NodeVerifier {
    roots: Arc<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for NodeVerifier {
    fn verify_client_cert(
        &self,
        peer: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let peer = ParsedCertificate::try_from(peer)?;
        verify_server_cert_signed_by_trust_anchor(&peer, &self.roots, others, now, self.algorithms.all)?;
        Ok(ClientCertVerified::assertion())
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // A node has one certificate only.
        &[]
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        peer: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, peer, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        peer: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, peer, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
