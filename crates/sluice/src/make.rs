//! `sluice make certificates`: an authority of one's own, and certificates of a server and a client that it has signed, to try TLS.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::{Args, Subcommand};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use time::{Duration, OffsetDateTime};
use wal::files::{create_directory, create_new};

use crate::failure::Failure;
use crate::output::print;
use crate::words::moment;

/// The certificates are valid since so long, because the clocks of other machines may be slow.
const VALID_SINCE: Duration = Duration::hours(1);

/// The most days for which certificates are valid. X.509 has four digits for the year.
const DAYS_MAX: i64 = 36_500;

/// The mode of a file that holds a key: only its owner reads it.
const KEY_MODE: u32 = 0o600;

/// The mode of a certificate, which clients need, too.
const CERTIFICATE_MODE: u32 = 0o644;

/// The mode of the directory.
const DIRECTORY_MODE: u32 = 0o755;

#[derive(Debug, Subcommand)]
pub(crate) enum Make {
    /// An authority, a certificate of a server and one of a client, with their keys, to try TLS
    #[command(alias = "certificate")]
    Certificates(Certificates),
}

#[derive(Args, Debug)]
pub(crate) struct Certificates {
    /// The directory to write the files to; it is created if it does not exist
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The names and addresses of the server (default: localhost, 127.0.0.1, ::1 and the name of this machine)
    #[arg(value_name = "HOST")]
    hosts: Vec<String>,
    /// The common name of the client: the user, if the broker logs in by certificate
    #[arg(long, value_name = "NAME", default_value = "guest")]
    client: String,
    /// The days for which the certificates are valid
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(i64).range(1..=DAYS_MAX))]
    days: i64,
}

/// Makes the files, and prints what each is for.
///
/// # Errors
/// A usage failure if a host is no name, or if one of the files exists; a failure if a file cannot be written.
pub(crate) fn run(make: &Make) -> Result<(), Failure> {
    let Make::Certificates(certificates) = make;
    certificates.make()
}

/// A file: its name, its content, and whether it is a key.
type Made = (&'static str, String, bool);

impl Certificates {
    fn make(&self) -> Result<(), Failure> {
        let directory = &self.directory;
        let hosts = if self.hosts.is_empty() { default_hosts() } else { self.hosts.clone() };
        let made = self.files(&hosts)?;
        let existing = made.iter().map(|(name, ..)| directory.join(name)).find(|path| path.exists());
        if let Some(path) = existing {
            return Err(Failure::usage(format!(
                "{} exists: nothing is overwritten; name another directory",
                path.display()
            )));
        }
        let failed =
            |what: &Path, error| Failure::failed(format!("cannot write {}: {error}", what.display()));
        if !directory.is_dir() {
            create_directory(directory, DIRECTORY_MODE).map_err(|error| failed(directory, error))?;
        }
        for (name, content, is_key) in &made {
            let path = directory.join(name);
            write(&path, content, *is_key).map_err(|error| failed(&path, error))?;
        }
        print(&self.explained(&hosts))
    }

    /// Returns the files for these hosts.
    fn files(&self, hosts: &[String]) -> Result<Vec<Made>, Failure> {
        let failed = |error: rcgen::Error| Failure::failed(format!("cannot make certificates: {error}"));
        let (not_before, not_after) = self.validity();
        let named = |common_name: &str, mut params: CertificateParams| {
            params.distinguished_name = DistinguishedName::new();
            params.distinguished_name.push(DnType::CommonName, common_name);
            (params.not_before, params.not_after) = (not_before, not_after);
            params
        };
        let mut authority = named("Sluice authority for tries", CertificateParams::default());
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().map_err(failed)?;
        let (ca, ca_key) = (authority.self_signed(&key).map_err(failed)?.pem(), key.serialize_pem());
        let issuer = Issuer::new(authority, key);
        let signed = |mut params: CertificateParams, purpose| {
            params.extended_key_usages = vec![purpose];
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.use_authority_key_identifier_extension = true;
            let key = KeyPair::generate()?;
            Ok((params.signed_by(&key, &issuer)?.pem(), key.serialize_pem()))
        };
        let of_hosts = subject(hosts)?;
        let common_name = hosts.first().map_or("", String::as_str);
        let (server, server_key) =
            signed(named(common_name, of_hosts), ExtendedKeyUsagePurpose::ServerAuth).map_err(failed)?;
        let client = named(&self.client, CertificateParams::default());
        let (client, client_key) = signed(client, ExtendedKeyUsagePurpose::ClientAuth).map_err(failed)?;
        Ok(vec![
            ("ca.pem", ca, false),
            ("ca.key", ca_key, true),
            ("server.pem", server, false),
            ("server.key", server_key, true),
            ("client.pem", client, false),
            ("client.key", client_key, true),
        ])
    }

    /// Returns the first and the last moment of the certificates.
    fn validity(&self) -> (OffsetDateTime, OffsetDateTime) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let now = i64::try_from(now).ok().and_then(|now| OffsetDateTime::from_unix_timestamp(now).ok());
        let now = now.unwrap_or(OffsetDateTime::UNIX_EPOCH);
        (now - VALID_SINCE, now + Duration::days(self.days))
    }

    /// Says what the files are for.
    fn explained(&self, hosts: &[String]) -> String {
        let dir = self.directory.display();
        let host = hosts.first().map_or("localhost", String::as_str);
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        format!(
            "{dir}/ca.pem      the authority, which clients trust; ca.key signs further certificates\n\
             {dir}/server.pem  the server's certificate for {}, and server.key\n\
             {dir}/client.pem  the certificate of client '{}', and client.key\n\
             They are valid until {}.\n\n\
             sluice serve --set listeners.ssl.default=5671 --set ssl_options.certfile={dir}/server.pem \
             --set ssl_options.keyfile={dir}/server.key\n\
             sluice send QUEUE BODY --url amqps://USER:PASSWORD@{host} --cacert {dir}/ca.pem\n",
            hosts.join(", "),
            self.client,
            moment(self.validity().1.unix_timestamp()),
        )
    }
}

/// Returns the parameters with these names and addresses.
fn subject(hosts: &[String]) -> Result<CertificateParams, Failure> {
    let is_wrong = |host: &&String| {
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || "-._*".contains(c);
        host.parse::<std::net::IpAddr>().is_err() && (host.is_empty() || !host.chars().all(is_of_name))
    };
    if let Some(wrong) = hosts.iter().find(is_wrong) {
        return Err(Failure::usage(format!(
            "'{wrong}' is no host: a DNS name in ASCII or an IP address is needed, without port and brackets"
        )));
    }
    CertificateParams::new(hosts)
        .map_err(|error| Failure::usage(format!("cannot certify the hosts: {error}")))
}

/// Returns the names that most tries use: those of the loopback addresses, and the name of this machine.
fn default_hosts() -> Vec<String> {
    let mut hosts = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if !hosts.contains(&name) && subject(std::slice::from_ref(&name)).is_ok() {
        hosts.push(name);
    }
    hosts
}

/// Writes a file that must not exist.
fn write(path: &Path, content: &str, is_key: bool) -> std::io::Result<()> {
    let mode = if is_key { KEY_MODE } else { CERTIFICATE_MODE };
    create_new(OpenOptions::new().write(true), path, mode)?.write_all(content.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_or_addresses() {
        let hosts =
            |hosts: &[&str]| subject(&hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>());
        let params = hosts(&["localhost", "::1", "10.0.0.1", "*.example", "host_1"]).unwrap();
        assert_eq!(params.subject_alt_names.len(), 5);
        for wrong in ["", "a b", "localhost:5671", "[::1]", "ä.example", "amqps://h"] {
            assert_eq!(hosts(&[wrong]).unwrap_err().code, crate::failure::USAGE, "{wrong}");
        }
        assert!(default_hosts().len() >= 3);
    }
}
