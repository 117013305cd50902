//! Certificates for tests.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};

use crate::files::{Options, Tls};

/// An authority, and a server's certificate and key, in files.
pub struct Files {
    pub authority: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl Files {
    pub fn make(folder: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("sluice-tls-{}-{folder}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut authority = params("authority");
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

    /// Makes a new certificate with a new key.
    pub fn renew(&self, name: &str) {
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

/// Returns the certificates of a listener that asks clients for nothing.
pub fn server(files: &Files) -> Tls {
    let options = Options {
        certificate: files.certificate.clone(),
        key: files.key.clone(),
        tls12: true,
        tls13: true,
        ..Options::default()
    };
    Tls::load(options).unwrap()
}
