//! What TLS says about a connection. Gates show it to people, and log clients in by their certificates.

/// The properties of a TLS connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secured {
    /// The version, as RabbitMQ writes it: `tlsv1.3`.
    pub protocol: &'static str,
    /// The cipher suite, by its name in the standard.
    pub cipher: &'static str,
    /// True if the listener refuses clients without a certificate.
    pub demands_certificate: bool,
    /// The client's certificate, which was verified.
    pub peer: Option<PeerCertificate>,
}

/// A client's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerCertificate {
    pub subject: String,
    pub issuer: String,
    /// From when to when it is valid, in seconds since the epoch.
    pub not_before: i64,
    pub not_after: i64,
    /// The user that the client becomes with SASL EXTERNAL (`ssl_cert_login_from`). `None` if the certificate has no such
    /// name.
    pub user: Option<String>,
}
