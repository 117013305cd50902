//! The certificates and keys of a listener, or between nodes. They are read from files, checked as a whole, and read again when the files
//! change: new connections use the new ones, open connections notice nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::CertificateRevocationListDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion, version};

use crate::certificates::{Certificate, LoginFrom};
use crate::depth::{Depth, LimitedDepth};
use crate::error::{AtFault, TlsError, pem_error, wrong};
use crate::keys::Password;
use crate::mutual;
use crate::pairs::{ByServerName, Pair, certificates};

/// Whether clients must have a certificate (`ssl_options.verify`, `ssl_options.fail_if_no_peer_cert`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// None is asked for.
    #[default]
    None,
    /// One is asked for. Who sends none may log in otherwise; a wrong one is refused.
    Optional,
    /// Who sends none is refused.
    Required,
}

/// The TLS settings of a listener, or between nodes, with the names of RabbitMQ's `ssl_options`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// What these settings begin with, such as `ssl_options`. Errors name it.
    pub setting: &'static str,
    /// The pair for clients that name no server, or one for which no other pair is valid (`certfile`, `keyfile`).
    pub pair: Pair,
    /// Further pairs for clients that name a server (`certfile.NAME`, `keyfile.NAME`), the preferred ones first.
    pub named: Vec<Pair>,
    /// The password of all keys that are encrypted (`password`).
    pub password: Option<Password>,
    /// The authorities whose client certificates are accepted (`cacertfile`). PEM.
    pub authorities: Option<PathBuf>,
    pub verify: Verify,
    pub depth: Depth,
    /// Revoked certificates of clients (`crl_file`). PEM.
    pub revoked: Option<PathBuf>,
    /// True if TLS 1.2 is spoken, and true if TLS 1.3 is (`versions`).
    pub tls12: bool,
    pub tls13: bool,
    pub login_from: LoginFrom,
    /// The host of this node, if these are the certificates between the nodes of a cluster. Then both sides show one, in TLS 1.3, and `verify`,
    /// `depth` and the versions do not count.
    pub host: Option<String>,
}

/// The certificates of a listener, as last read.
#[derive(Debug)]
pub struct Tls {
    options: Options,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    config: Arc<ServerConfig>,
    /// The configuration of sessions that this node begins itself; `None` for a listener.
    dialing: Option<Arc<ClientConfig>>,
    /// The certificate of each pair, the default pair's first.
    certificates: Vec<Certificate>,
    /// What the files looked like when they were read.
    seen: Vec<Option<(SystemTime, u64)>>,
    /// Why the files as they are now cannot be used. The ones before are still in use.
    problem: Option<TlsError>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// A file cannot be read, has not what it should have, or they do not belong together.
    pub fn load(options: Options) -> Result<Self, TlsError> {
        let seen = options.look();
        let Read { config, dialing, certificates } = options.read()?;
        let current = Mutex::new(Current { config, dialing, certificates, seen, problem: None });
        Ok(Self { options, current })
    }

    /// Returns the configuration of new sessions.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.current().config.clone()
    }

    /// Returns the configuration of new sessions with other nodes that this node begins. `None` for a listener.
    pub(crate) fn dialing(&self) -> Option<Arc<ClientConfig>> {
        self.current().dialing.clone()
    }

    /// Returns the server's certificates and their files, the default pair's first.
    pub fn certificates(&self) -> Vec<(&Path, Certificate)> {
        let files = self.options.pairs().map(|pair| pair.certificate.as_path());
        files.zip(self.current().certificates.clone()).collect()
    }

    /// Returns why the files as they are now cannot be used; `None` if they are in use.
    pub fn problem(&self) -> Option<TlsError> {
        self.current().problem.clone()
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Reads the files again, if they have changed or `anyway`. Returns true if they are in use now.
    ///
    /// # Errors
    /// The files cannot be used. What was read before stays in use. The error is returned once for each change.
    pub fn reload(&self, anyway: bool) -> Result<bool, TlsError> {
        let seen = self.options.look();
        if self.current().seen == seen && !anyway {
            return Ok(false);
        }
        let read = self.options.read();
        let mut current = self.current();
        current.seen = seen;
        match read {
            Ok(Read { config, dialing, certificates }) => {
                (current.config, current.dialing) = (config, dialing);
                (current.certificates, current.problem) = (certificates, None);
                Ok(true)
            }
            Err(error) => {
                current.problem = Some(error.clone());
                Err(error)
            }
        }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the files have.
struct Read {
    config: Arc<ServerConfig>,
    dialing: Option<Arc<ClientConfig>>,
    certificates: Vec<Certificate>,
}

impl Options {
    fn pairs(&self) -> impl Iterator<Item = &Pair> {
        [&self.pair].into_iter().chain(&self.named)
    }

    fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let pairs = self.pairs().flat_map(|pair| [&pair.certificate, &pair.key]);
        pairs.chain(&self.authorities).chain(&self.revoked)
    }

    /// Returns when each file was changed, and its length.
    fn look(&self) -> Vec<Option<(SystemTime, u64)>> {
        let look = |path: &PathBuf| {
            let metadata = fs::metadata(path).ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        };
        self.files().map(look).collect()
    }

    fn read(&self) -> Result<Read, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let setting = format!("{}.password", self.setting);
        let password = self.password.as_ref();
        let (default, certificate) = self.pair.read(password, &setting, &provider)?;
        if let Some(host) = &self.host {
            let path = self.authorities.as_ref().ok_or_else(|| {
                let text = format!("it needs {}.cacertfile: the authorities of the nodes", self.setting);
                TlsError::new(AtFault::Key("certfile"), text)
            })?;
            let file = &self.pair.certificate;
            let own = mutual::Own { host, file, pair: default, certificate: &certificate };
            let (config, dialing) = mutual::configurations(path, own, &provider)?;
            let (config, dialing) = (Arc::new(config), Some(Arc::new(dialing)));
            return Ok(Read { config, dialing, certificates: vec![certificate] });
        }
        let (mut named, mut certificates) = (Vec::new(), vec![certificate]);
        for pair in &self.named {
            let (pair, certificate) = pair.read_named(password, &setting, &provider)?;
            named.push(Arc::new(pair));
            certificates.push(certificate);
        }
        let versions: Vec<&'static SupportedProtocolVersion> =
            [(self.tls13, &version::TLS13), (self.tls12, &version::TLS12)]
                .into_iter()
                .filter_map(|(wanted, version)| wanted.then_some(version))
                .collect();
        let builder = ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(&versions);
        let builder = builder.map_err(|error| {
            TlsError::new(AtFault::Key("versions"), format!("the TLS versions cannot be used: {error}"))
        })?;
        let builder = match self.verifier(&provider)? {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let pairs = Arc::new(ByServerName { default: Arc::new(default), named });
        let mut config = builder.with_cert_resolver(pairs);
        if self.verify == Verify::None {
            // A client that comes again skips the costly part of the handshake. The keys of the tickets change every few hours.
            config.ticketer = aws_lc_rs::Ticketer::new().map_err(|error| {
                TlsError::new(AtFault::System, format!("no keys for session tickets: {error}"))
            })?;
            config.send_tls13_tickets = 1;
        } else {
            // The part that is skipped would check whether the client's certificate is still valid.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(Read { config: Arc::new(config), dialing: None, certificates })
    }

    fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
        if self.verify == Verify::None {
            return Ok(None);
        }
        let Some(path) = &self.authorities else {
            let setting = self.setting;
            let text = format!("verify_peer needs {setting}.cacertfile: the authorities of the clients");
            return Err(TlsError::new(AtFault::Key("verify"), text));
        };
        let mut roots = RootCertStore::empty();
        for authority in certificates(path)? {
            roots.add(authority).map_err(|error| wrong(path, error))?;
        }
        let roots = Arc::new(roots);
        let lists = self.revoked.as_deref().map(revocation_lists).transpose()?.unwrap_or_default();
        let mut builder = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
        if !lists.is_empty() {
            // An authority without a list has revoked nothing.
            builder = builder.with_crls(lists.clone()).allow_unknown_revocation_status();
        }
        if self.verify == Verify::Optional {
            builder = builder.allow_unauthenticated();
        }
        let lists_or_roots = self.revoked.as_ref().unwrap_or(path);
        let inner = builder.build().map_err(|error| wrong(lists_or_roots, error))?;
        let algorithms = provider.signature_verification_algorithms;
        let limited = LimitedDepth::new(inner, roots, &lists, algorithms, self.depth);
        Ok(Some(Arc::new(limited.map_err(|error| wrong(lists_or_roots, error))?)))
    }
}

fn revocation_lists(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let read = CertificateRevocationListDer::pem_file_iter(path).and_then(|lists| lists.collect());
    let lists: Vec<_> = read.map_err(|error| pem_error(path, &error))?;
    if lists.is_empty() {
        return Err(wrong(path, "there is no X509 CRL in it"));
    }
    Ok(lists)
}
