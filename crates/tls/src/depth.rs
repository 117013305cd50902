//! How many authorities may stand between a client's certificate and a trusted authority.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, RootCertStore,
    SignatureScheme,
};
use webpki::{
    CertRevocationList, EndEntityCert, KeyUsage, OwnedCertRevocationList, RevocationOptionsBuilder,
    UnknownStatusPolicy, VerifiedPath,
};

/// The most certificates of authorities between a client's certificate and a trusted authority (`depth`). Authorities that
/// issued their certificate themselves do not count, as in Erlang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depth(pub u8);

impl Default for Depth {
    /// The default of Erlang, and so of RabbitMQ. rustls itself follows six.
    fn default() -> Self {
        Self(10)
    }
}

/// Accepts the certificates that another verifier accepts, if a trusted authority is near enough.
#[derive(Debug)]
pub(crate) struct LimitedDepth {
    inner: Arc<dyn ClientCertVerifier>,
    roots: Arc<RootCertStore>,
    revoked: Vec<CertRevocationList<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
    depth: Depth,
}

impl LimitedDepth {
    /// `inner` must have been made from the same authorities and lists.
    ///
    /// # Errors
    /// A list cannot be parsed.
    pub(crate) fn new(
        inner: Arc<dyn ClientCertVerifier>,
        roots: Arc<RootCertStore>,
        revoked: &[CertificateRevocationListDer<'static>],
        algorithms: WebPkiSupportedAlgorithms,
        depth: Depth,
    ) -> Result<Self, webpki::Error> {
        let parse = |list: &CertificateRevocationListDer<'_>| {
            OwnedCertRevocationList::from_der(list).map(CertRevocationList::from)
        };
        let revoked = revoked.iter().map(parse).collect::<Result<_, _>>()?;
        Ok(Self { inner, roots, revoked, algorithms, depth })
    }

    /// Returns true if a valid path with few enough authorities leads to a trusted one.
    fn is_near(&self, peer: &CertificateDer<'_>, others: &[CertificateDer<'_>], now: UnixTime) -> bool {
        let Ok(peer) = EndEntityCert::try_from(peer) else { return false };
        let lists: Vec<&CertRevocationList<'_>> = self.revoked.iter().collect();
        // There are no options without lists. An authority without a list has revoked nothing.
        let revocation = RevocationOptionsBuilder::new(&lists).ok();
        let revocation = revocation.map(|all| all.with_status_policy(UnknownStatusPolicy::Allow).build());
        let is_short = |path: &VerifiedPath<'_>| {
            let counts = path.intermediate_certificates().filter(|by| by.issuer() != by.subject());
            if counts.count() <= usize::from(self.depth.0) {
                Ok(())
            } else {
                // Another path may be shorter: an authority may have several certificates.
                Err(webpki::Error::MaximumPathDepthExceeded)
            }
        };
        let (algorithms, roots, usage) = (self.algorithms.all, &self.roots.roots, KeyUsage::client_auth());
        peer.verify_for_usage(algorithms, roots, others, now, usage, revocation, Some(&is_short)).is_ok()
    }
}

impl ClientCertVerifier for LimitedDepth {
    fn verify_client_cert(
        &self,
        peer: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.inner.verify_client_cert(peer, others, now)?;
        // A path has each certificate at most once, so with few of them the paths need not be looked at.
        if others.len() > usize::from(self.depth.0) && !self.is_near(peer, others, now) {
            let why = OtherError(Arc::new(TooFar(self.depth)));
            return Err(CertificateError::Other(why).into());
        }
        Ok(verified)
    }

    fn offer_client_auth(&self) -> bool {
        self.inner.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.inner.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        peer: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, peer, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        peer: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, peer, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// The trusted authority is too far away.
struct TooFar(Depth);

// rustls shows reasons of others in this form only.
impl fmt::Debug for TooFar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for TooFar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let depth = self.0.0;
        write!(f, "more than {depth} authorities are between it and a trusted one (ssl_options.depth)")
    }
}

impl std::error::Error for TooFar {}

#[cfg(test)]
mod tests {
    use rustls::ClientConnection;
    use rustls::pki_types::ServerName;

    use super::*;
    use crate::testing::{Files, connect, options};
    use crate::{ClientOptions, Tls, Verify};

    #[test]
    fn authorities_in_between_are_counted() {
        let files = Files::make("depth");
        let refused = |depth, client: &str| {
            let mut options = options(&files);
            (options.authorities, options.verify) = (Some(files.authority.clone()), Verify::Required);
            options.depth = Depth(depth);
            let tls = Tls::load(options).unwrap();
            let pair = (files.path(&format!("{client}.pem")), files.path(&format!("{client}.key")));
            let config = ClientOptions { authorities: Some(files.authority.clone()), identity: Some(pair) };
            let name = ServerName::try_from("localhost").unwrap();
            let mut client = ClientConnection::new(config.load().unwrap(), name).unwrap();
            connect(&mut client, &tls).err().map(|error| error.to_string())
        };
        for (between, file) in ["near", "next", "far"].into_iter().enumerate() {
            files.client(file, between);
            for depth in 0..3 {
                match refused(depth, file) {
                    None => assert!(between <= usize::from(depth), "{file} {depth}"),
                    Some(why) => {
                        assert!(between > usize::from(depth), "{file} {depth}: {why}");
                        let says = format!("more than {depth} authorities are between it and a trusted one");
                        assert!(why.contains(&says), "{why}");
                    }
                }
            }
            assert_eq!(refused(Depth::default().0, file), None);
        }
        // Certificates that are not part of the path do not count: such as the trusted authority's own.
        let chain = std::fs::read_to_string(files.path("near.pem")).unwrap();
        let authority = std::fs::read_to_string(&files.authority).unwrap();
        std::fs::write(files.path("near.pem"), format!("{chain}{authority}")).unwrap();
        assert_eq!(refused(0, "near"), None);
        std::fs::write(files.path("near.pem"), format!("{chain}{chain}{authority}")).unwrap();
        assert_eq!(refused(0, "near"), None);
    }
}
