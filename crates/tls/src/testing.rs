//! Certificates for tests.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};
use rustls::{ClientConnection, ServerConnection};

use crate::files::{Options, Tls};
use crate::pairs::Pair;

/// An authority, and a server's certificate and key, in files.
pub(crate) struct Files {
    pub authority: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

fn params(name: &str) -> CertificateParams {
    named(CertificateParams::new(vec!["localhost".to_owned()]).unwrap(), name)
}

fn named(mut params: CertificateParams, name: &str) -> CertificateParams {
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl Files {
    pub(crate) fn make(folder: &str) -> Self {
        Self::make_named(folder, "authority")
    }

    /// Makes them with this name of the authority.
    pub(crate) fn make_named(folder: &str, name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("sluice-tls-{}-{folder}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut authority = params(name);
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let made = authority.self_signed(&key).unwrap();
        let path = |name: &str| folder.join(name);
        std::fs::write(path("ca.pem"), made.pem()).unwrap();
        let files = Self {
            authority: path("ca.pem"),
            certificate: path("server.pem"),
            key: path("server.key"),
            issuer: Issuer::new(authority, key),
        };
        files.renew("first");
        files
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.key.with_file_name(file)
    }

    /// Makes a further pair that is valid for these names.
    pub(crate) fn pair(&self, name: &str, names: &[&str]) -> Pair {
        let (key, names) = (KeyPair::generate().unwrap(), names.iter().map(|name| (*name).to_owned()));
        let params = named(CertificateParams::new(names.collect::<Vec<_>>()).unwrap(), name);
        self.write(name, &params, &key)
    }

    /// Signs a certificate, and writes it with its key to files of this name.
    pub(crate) fn write(&self, name: &str, params: &CertificateParams, key: &KeyPair) -> Pair {
        let made = params.signed_by(key, &self.issuer).unwrap();
        let pair =
            Pair { certificate: self.path(&format!("{name}.pem")), key: self.path(&format!("{name}.key")) };
        std::fs::write(&pair.certificate, made.pem()).unwrap();
        std::fs::write(&pair.key, key.serialize_pem()).unwrap();
        pair
    }

    /// Makes the server's certificate for an existing key.
    pub(crate) fn certify(&self, key: &Path) {
        let key = KeyPair::from_pem(&std::fs::read_to_string(key).unwrap()).unwrap();
        let made = params("certified").signed_by(&key, &self.issuer).unwrap();
        std::fs::write(&self.certificate, made.pem()).unwrap();
    }

    /// Makes a client's certificate with this number of authorities between it and the trusted one.
    pub(crate) fn client(&self, name: &str, between: usize) {
        let mut chain = String::new();
        let mut last: Option<Issuer<'static, KeyPair>> = None;
        for number in 0..between {
            let mut params = params(&format!("authority {number}"));
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let key = KeyPair::generate().unwrap();
            let made = params.signed_by(&key, last.as_ref().unwrap_or(&self.issuer)).unwrap();
            chain.insert_str(0, &made.pem());
            last = Some(Issuer::new(params, key));
        }
        let key = KeyPair::generate().unwrap();
        let made = params(name).signed_by(&key, last.as_ref().unwrap_or(&self.issuer)).unwrap();
        chain.insert_str(0, &made.pem());
        std::fs::write(self.path(&format!("{name}.pem")), chain).unwrap();
        std::fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    /// Makes a new certificate with a new key.
    pub(crate) fn renew(&self, name: &str) {
        let key = KeyPair::generate().unwrap();
        let made = params(name).signed_by(&key, &self.issuer).unwrap();
        std::fs::write(&self.certificate, made.pem()).unwrap();
        std::fs::write(&self.key, key.serialize_pem()).unwrap();
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let folder = self.key.parent().unwrap();
        std::fs::remove_dir_all(folder).unwrap();
    }
}

/// Returns the settings of a listener that asks clients for nothing.
pub(crate) fn options(files: &Files) -> Options {
    Options {
        setting: "ssl_options",
        pair: Pair { certificate: files.certificate.clone(), key: files.key.clone() },
        tls12: true,
        tls13: true,
        ..Options::default()
    }
}

/// Returns the certificates of a listener that asks clients for nothing.
pub(crate) fn server(files: &Files) -> Tls {
    Tls::load(options(files)).unwrap()
}

/// Makes a whole handshake.
///
/// # Errors
/// One of both refuses the other.
pub(crate) fn connect(client: &mut ClientConnection, tls: &Tls) -> Result<(), rustls::Error> {
    let mut server = ServerConnection::new(tls.config())?;
    // The server speaks last, because with TLS 1.3 it may refuse a client that has finished already.
    while client.is_handshaking() || server.is_handshaking() || client.wants_write() {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).unwrap();
        }
        let mut rest = &wire[..];
        while !rest.is_empty() {
            server.read_tls(&mut rest).unwrap();
            server.process_new_packets()?;
        }
        let mut wire = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut wire).unwrap();
        }
        let mut rest = &wire[..];
        while !rest.is_empty() {
            client.read_tls(&mut rest).unwrap();
            client.process_new_packets()?;
        }
    }
    Ok(())
}
