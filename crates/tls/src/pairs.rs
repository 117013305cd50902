//! Certificates with their keys, and which of them a client gets.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::certificates::{Certificate, Name};
use crate::error::{TlsError, pem_error, wrong};
use crate::keys::{Password, private_key};

/// The most further pairs of a listener. Each handshake may compare its name with all of them, which takes some microseconds
/// for each.
pub const NAMED_PAIRS_MAX: usize = 64;

/// The files of a certificate and its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    /// The certificate of the server, followed by those of the authorities up to, but without, the root. PEM.
    pub certificate: PathBuf,
    /// The private key. PEM.
    pub key: PathBuf,
}

impl Pair {
    /// Reads the files. `setting` names the password of the key.
    ///
    /// # Errors
    /// A file cannot be read, has not what it should have, or they do not belong together.
    pub(crate) fn read(
        &self,
        password: Option<&Password>,
        setting: &str,
        provider: &CryptoProvider,
    ) -> Result<(CertifiedKey, Certificate), TlsError> {
        let chain = certificates(&self.certificate)?;
        let certificate = chain.first().and_then(|der| Certificate::parse(der));
        let certificate =
            certificate.ok_or_else(|| wrong(&self.certificate, "the first certificate cannot be parsed"))?;
        let key = private_key(&self.key, password, Some(setting))?;
        let pair = CertifiedKey::from_der(chain, key, provider).map_err(|error| {
            let (certificate, key) = (self.certificate.display(), self.key.display());
            let text =
                format!("the certificate {certificate} and the key {key} cannot be used together: {error}");
            TlsError::of_file(&self.key, text)
        })?;
        Ok((pair, certificate))
    }

    /// Reads the files of a further pair, which must be valid for some name.
    ///
    /// # Errors
    /// Those of [`Pair::read`], or no client would get the certificate.
    pub(crate) fn read_named(
        &self,
        password: Option<&Password>,
        setting: &str,
        provider: &CryptoProvider,
    ) -> Result<(CertifiedKey, Certificate), TlsError> {
        let (pair, certificate) = self.read(password, setting, provider)?;
        if !certificate.alternative_names.iter().any(|name| matches!(name, Name::Dns(_))) {
            let why = "no client would get this certificate, because it has no DNS name (subjectAltName)";
            return Err(wrong(&self.certificate, why));
        }
        Ok((pair, certificate))
    }
}

/// Reads the certificates of a file.
///
/// # Errors
/// The file cannot be read, or has none.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(path).and_then(|all| all.collect::<Result<Vec<_>, _>>());
    let all = read.map_err(|error| pem_error(path, &error))?;
    if all.is_empty() {
        return Err(wrong(path, "there is no CERTIFICATE in it"));
    }
    Ok(all)
}

/// Gives each client the certificate for the name that it asks for.
#[derive(Debug)]
pub(crate) struct ByServerName {
    /// For clients that name no server, or one for which no further pair is valid.
    pub default: Arc<CertifiedKey>,
    /// The further pairs. The first that is valid for the name and whose key the client can use counts.
    pub named: Vec<Arc<CertifiedKey>>,
}

impl ResolvesServerCert for ByServerName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().and_then(|name| ServerName::try_from(name).ok());
        let fits = |pair: &&Arc<CertifiedKey>| {
            let certificate = pair.end_entity_cert().and_then(ParsedCertificate::try_from);
            let is_valid = |name| certificate.is_ok_and(|valid| verify_server_name(&valid, name).is_ok());
            name.as_ref().is_some_and(is_valid) && pair.key.choose_scheme(hello.signature_schemes()).is_some()
        };
        Some(self.named.iter().find(fits).unwrap_or(&self.default).clone())
    }
}

#[cfg(test)]
mod tests {
    use rustls::ClientConnection;

    use super::*;
    use crate::testing::{Files, connect, options};
    use crate::{ClientOptions, Tls};

    #[test]
    fn the_name_that_a_client_asks_for_picks_the_certificate() {
        let files = Files::make("names");
        let mut options = options(&files);
        options.named = vec![
            files.pair("one", &["one.example"]),
            files.pair("all", &["*.all.test", "other.test"]),
            files.pair("late", &["late.test", "one.example"]),
        ];
        let tls = Tls::load(options.clone()).unwrap();
        for (asked, got) in [
            ("one.example", "CN=one"),
            ("ONE.example", "CN=one"),
            ("two.all.test", "CN=all"),
            ("other.test", "CN=all"),
            ("late.test", "CN=late"),
            ("localhost", "CN=first"),
        ] {
            assert_eq!(server_of(&tls, &files, asked).as_deref(), Ok(got), "{asked}");
        }
        // These are not certified, so the client gets the default pair, and does not trust it. An address is no name.
        for asked in ["all.test", "a.b.all.test", "127.0.0.1"] {
            let refused = server_of(&tls, &files, asked).unwrap_err();
            assert!(refused.contains("localhost"), "{refused}");
        }
        let shown: Vec<_> = tls.certificates().into_iter().map(|(_, of)| of.subject).collect();
        assert_eq!(shown, ["CN=first", "CN=one", "CN=all", "CN=late"]);

        // All pairs are read again, and checked as a whole.
        files.pair("all", &["new.test"]);
        assert_eq!(tls.reload(false), Ok(true));
        assert_eq!(server_of(&tls, &files, "new.test").as_deref(), Ok("CN=all"));
        std::fs::copy(&options.named[0].key, &options.named[2].key).unwrap();
        let why = tls.reload(false).unwrap_err().to_string();
        assert!(why.contains("late.key cannot be used together"), "{why}");
        assert_eq!(server_of(&tls, &files, "one.example").as_deref(), Ok("CN=one"));
    }

    #[test]
    fn a_pair_that_no_client_would_get_is_refused() {
        let files = Files::make("nameless");
        let mut options = options(&files);
        options.named = vec![files.pair("bare", &[])];
        let why = Tls::load(options).unwrap_err().to_string();
        assert!(why.contains("bare.pem: no client would get this certificate"), "{why}");
    }

    #[test]
    fn encrypted_keys_of_a_listener_need_their_password() {
        let files = Files::make("encrypted");
        let mut options = options(&files);
        let data = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
        files.certify(&data.join("plain.pem"));
        options.pair.key = data.join("pbkdf2.pem");
        let why = Tls::load(options.clone()).unwrap_err().to_string();
        assert!(why.ends_with("set ssl_options.password"), "{why}");
        options.password = Some(crate::Password::new("secret"));
        let tls = Tls::load(options).unwrap();
        assert_eq!(server_of(&tls, &files, "localhost").as_deref(), Ok("CN=certified"));
    }

    /// Returns the subject of the certificate that a client gets which asks for a name, or why it is not trusted.
    fn server_of(tls: &Tls, files: &Files, name: &str) -> Result<String, String> {
        let config = ClientOptions { authorities: Some(files.authority.clone()), identity: None };
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut client = ClientConnection::new(config.load().unwrap(), name).unwrap();
        connect(&mut client, tls).map_err(|error| error.to_string())?;
        let certificate = client.peer_certificates().and_then(|all| Certificate::parse(all.first()?));
        Ok(certificate.unwrap().subject)
    }
}
