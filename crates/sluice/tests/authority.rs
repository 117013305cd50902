//! Certificates for tests, and brokers that have them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, RevokedCertParams, SanType, SerialNumber,
    SigningKey as _, date_time_ymd,
};
use tls::ClientOptions;
use tokio_rustls::rustls::ClientConnection;

use crate::broker::{Broker, Directory, Starting};

/// An authority that signs certificates into files of a directory.
pub(crate) struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn make(folder: &Path, name: &str) -> Self {
        let mut params = params(name, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let made = params.self_signed(&key).unwrap();
        std::fs::write(folder.join(format!("{name}.pem")), made.pem()).unwrap();
        Self { folder: folder.to_owned(), issuer: Issuer::new(params, key) }
    }

    /// Writes `file.pem` and `file.key`.
    pub(crate) fn sign(&self, file: &str, common_name: &str) {
        self.sign_params(file, params(common_name, file));
    }

    fn sign_params(&self, file: &str, params: CertificateParams) {
        let key = KeyPair::generate().unwrap();
        let made = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.folder.join(format!("{file}.pem")), made.pem()).unwrap();
        std::fs::write(self.folder.join(format!("{file}.key")), key.serialize_pem()).unwrap();
    }

    /// Writes `file.pem` and `file.key`. The certificate is for this host, and has this extended key usage.
    pub(crate) fn sign_for(&self, file: &str, host: &str, usage: Option<ExtendedKeyUsagePurpose>) {
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, file);
        params.extended_key_usages = usage.into_iter().collect();
        self.sign_params(file, params);
    }

    /// Writes `file.pem` and `file.key`. The certificate has this serial number.
    pub(crate) fn sign_numbered(&self, file: &str, common_name: &str, serial: u64) {
        let mut params = params(common_name, file);
        params.serial_number = Some(SerialNumber::from(serial));
        self.sign_params(file, params);
    }

    /// Writes `file.pem` and `file.key`. The certificate has expired in the year 2001.
    pub(crate) fn sign_expired(&self, file: &str, common_name: &str) {
        let mut params = params(common_name, file);
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(2001, 1, 1);
        self.sign_params(file, params);
    }

    /// Writes `file.pem` and `file.key`. The certificate is one of X.509 version 1, which has no extensions.
    pub(crate) fn sign_version_1(&self, file: &str, common_name: &str) {
        let key = KeyPair::generate().unwrap();
        let made = params(common_name, file).signed_by(&key, &self.issuer).unwrap();
        let parts = elements(content(made.der()));
        let [signed, algorithm, _signature] = parts[..] else { panic!("{parts:?}") };
        // The version has the tag 0 of its context, and the extensions have 3 (RFC 5280, 4.1).
        let fields = elements(content(signed)).into_iter().filter(|field| ![0xa0, 0xa3].contains(&field[0]));
        let signed = element(0x30, &fields.collect::<Vec<_>>().concat());
        let signature = self.issuer.key().sign(&signed).unwrap();
        // A bit string begins with the number of bits that its last byte lacks.
        let signature = element(3, &[&[0], &signature[..]].concat());
        let der = element(0x30, &[&signed[..], algorithm, &signature].concat());
        let pem =
            format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", STANDARD.encode(der));
        std::fs::write(self.folder.join(format!("{file}.pem")), pem).unwrap();
        std::fs::write(self.folder.join(format!("{file}.key")), key.serialize_pem()).unwrap();
    }

    /// Writes `file.pem` for a key that exists already, with these DNS names.
    pub(crate) fn certify(&self, file: &str, key: &Path, names: &[&str]) {
        let key = KeyPair::from_pem(&std::fs::read_to_string(key).unwrap()).unwrap();
        let mut params = params(file, file);
        params.subject_alt_names =
            names.iter().map(|name| SanType::DnsName((*name).try_into().unwrap())).collect();
        let made = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.folder.join(format!("{file}.pem")), made.pem()).unwrap();
    }

    /// Writes `file.pem` and `file.key` of a client, whose chain has an authority in between.
    pub(crate) fn sign_indirectly(&self, file: &str, common_name: &str) {
        let mut between = params("between", "between");
        between.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let made = between.signed_by(&key, &self.issuer).unwrap();
        let between = Authority { folder: self.folder.clone(), issuer: Issuer::new(between, key) };
        between.sign(file, common_name);
        let path = self.folder.join(format!("{file}.pem"));
        let chain = std::fs::read_to_string(&path).unwrap() + &made.pem();
        std::fs::write(path, chain).unwrap();
    }

    /// Writes `file.pem`, a list that revokes the certificates with these serial numbers.
    pub(crate) fn revoke(&self, file: &str, serials: &[u64]) {
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(4096, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = params.signed_by(&self.issuer).unwrap();
        std::fs::write(self.folder.join(format!("{file}.pem")), list.pem().unwrap()).unwrap();
    }

    pub(crate) fn path(&self, file: &str) -> String {
        self.folder.join(file).to_str().unwrap().to_owned()
    }

    /// The settings of a broker whose certificate is in `server.pem`.
    pub(crate) fn settings(&self) -> Vec<String> {
        vec![
            "listeners.ssl.default=0".to_owned(),
            "management.ssl.port=0".to_owned(),
            format!("ssl_options.certfile={}", self.path("server.pem")),
            format!("ssl_options.keyfile={}", self.path("server.key")),
        ]
    }

    /// Returns what a client trusts, and the certificate that it shows.
    pub(crate) fn client(&self, file: Option<&str>) -> ClientOptions {
        let path = |ending: &str| file.map(|file| self.path(&format!("{file}.{ending}")).into());
        ClientOptions {
            authorities: Some(self.path("ca.pem").into()),
            identity: path("pem").zip(path("key")),
        }
    }
}

fn params(common_name: &str, other: &str) -> CertificateParams {
    let mut params =
        CertificateParams::new(vec!["localhost".to_owned(), format!("{other}.example")]).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "ours");
    params.distinguished_name.push(DnType::CommonName, common_name);
    params
}

/// Returns the length of an element of DER without its content, and that of the content.
fn lengths(der: &[u8]) -> (usize, usize) {
    match usize::from(der[1]) {
        short @ ..0x80 => (2, short),
        long => {
            let octets = &der[2..2 + (long & 0x7f)];
            (2 + octets.len(), octets.iter().fold(0, |length, octet| length << 8 | usize::from(*octet)))
        }
    }
}

/// Splits DER into its elements.
fn elements(mut der: &[u8]) -> Vec<&[u8]> {
    let mut all = Vec::new();
    while !der.is_empty() {
        let (head, content) = lengths(der);
        let (one, rest) = der.split_at(head + content);
        all.push(one);
        der = rest;
    }
    all
}

fn content(element: &[u8]) -> &[u8] {
    &element[lengths(element).0..]
}

/// Returns an element of DER with this tag and content.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut element = vec![tag];
    match u8::try_from(content.len()) {
        Ok(short @ ..0x80) => element.push(short),
        _ => {
            let octets = content.len().to_be_bytes();
            let octets = &octets[octets.iter().take_while(|octet| **octet == 0).count()..];
            element.push(0x80 | u8::try_from(octets.len()).unwrap());
            element.extend(octets);
        }
    }
    element.extend(content);
    element
}

pub(crate) fn start(directory: &Directory, settings: &[String]) -> Broker {
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    Starting::spawn(directory, &settings).finish()
}

pub(crate) fn port(broker: &Broker, protocol: &str) -> u64 {
    let listeners = broker.get("/api/overview").1["listeners"].clone();
    let found = listeners.as_array().unwrap().iter().find(|row| row["protocol"] == protocol).cloned();
    found.unwrap_or_else(|| panic!("no {protocol} in {listeners}"))["port"].as_u64().unwrap()
}

/// Returns the subject of the certificate that a client gets which asks for this name.
pub(crate) fn server_of(port: u64, authority: &Authority, name: &str) -> Result<String, String> {
    server_at(("127.0.0.1", u16::try_from(port).unwrap()), authority.path("ca.pem"), name)
}

/// Returns the subject of the certificate that somebody gets who trusts these authorities, connects to this address, and asks for this name.
pub(crate) fn server_at(address: (&str, u16), authorities: String, name: &str) -> Result<String, String> {
    let options = ClientOptions { authorities: Some(authorities.into()), identity: None };
    let name = name.to_owned().try_into().unwrap();
    let mut client = ClientConnection::new(options.load().unwrap(), name).unwrap();
    let mut socket = std::net::TcpStream::connect(address).unwrap();
    while client.is_handshaking() {
        client.complete_io(&mut socket).map_err(|error| error.to_string())?;
    }
    let certificate = client.peer_certificates().and_then(|all| tls::Certificate::parse(all.first()?));
    Ok(certificate.unwrap().subject)
}

/// Waits until the log has these words.
pub(crate) fn wait_for(directory: &Directory, words: &str) {
    while !directory.logged().contains(words) {
        std::thread::sleep(Duration::from_millis(50));
    }
}
