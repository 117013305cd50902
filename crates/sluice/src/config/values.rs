//! Parsers of values. On failure, each returns a message that says what is needed.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use broker::settings::{LinkCredit, QueueType};
use catalog::access::{Hashing, Maximum};
use hyper::Uri;
use identity::url::{has_user, hide};
use node::DirectWrites;
use node::proxy::{Network, NetworkError};
use tls::{NameKind, Password};

use super::wrong::Wrong;
use super::{LoginName, TlsVersion};

/// The most event loops.
pub(super) const SHARDS_MAX: usize = 256;

/// The longest path of a Unix domain socket, in bytes. Linux has no room for a longer one and its end.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// The number of cores for each event loop, if no number is set. One event loop handles more messages than a small machine can
/// send and receive, and costs less CPU a message than two do (docs/decisions/0048).
const CORES_PER_SHARD: usize = 4;

/// The number of event loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shards {
    /// As many as suit a machine with this number of cores.
    Auto { cores: usize },
    /// This number, from 1 to [`SHARDS_MAX`].
    Count(usize),
}

impl Shards {
    /// As many as suit the cores that this process can use, or one if their number is unknown.
    pub(crate) fn auto() -> Self {
        Self::Auto { cores: std::thread::available_parallelism().map_or(1, NonZeroUsize::get) }
    }

    pub(crate) fn count(self) -> usize {
        match self {
            Self::Auto { cores } => (cores / CORES_PER_SHARD).clamp(1, SHARDS_MAX),
            Self::Count(count) => count,
        }
    }
}

/// The number, and why it is this one.
impl fmt::Display for Shards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto { cores } => {
                write!(
                    f,
                    "{} (shards = auto: one for each {CORES_PER_SHARD} of {cores} cores, at least one)",
                    self.count()
                )
            }
            Self::Count(count) => write!(f, "{count} (shards = {count})"),
        }
    }
}

/// Parses a limit: a number, or `infinity` for none.
pub(super) fn maximum(value: &str) -> Result<Maximum, String> {
    match value {
        "infinity" => Ok(None),
        number_of => number(number_of, 0..=u32::MAX).map(Some).map_err(|why| format!("infinity or {why}")),
    }
}

/// The highest number of an entry of a list.
const INDEX_MAX: u32 = 1000;

/// A list of values by their numbers, such as `auth_backends.1`.
pub(super) type Numbered<T> = BTreeMap<u32, T>;

/// Parses the number at the end of a key, of an entry of a list.
///
/// # Errors
/// A message that says what is needed.
pub(super) fn index(n: &str) -> Result<u32, Wrong> {
    number(n, 0..=INDEX_MAX).map_err(|need| Wrong::Name(format!("the key must end with a number: {need}")))
}

/// Parses text, or nothing.
///
/// # Errors
/// A message that says what is needed.
pub(super) fn optional(value: &str) -> Result<Option<String>, String> {
    if value.is_empty() { Ok(None) } else { text(value).map(Some) }
}

/// Parses a URL that is asked, or nothing. With a user and a password, whoever reads the settings or the log would see them.
///
/// # Errors
/// A message that says what is needed.
pub(super) fn optional_url(value: &str) -> Result<Option<String>, String> {
    if value.is_empty() { Ok(None) } else { url(value).map(Some) }
}

/// Like [`optional_url`], but not nothing.
///
/// # Errors
/// A message that says what is needed.
pub(super) fn url(value: &str) -> Result<String, String> {
    let parsed = text(value)?.parse::<Uri>();
    // One that cannot be parsed is refused when it is used.
    let has_user = parsed.map_or_else(|_| hide(value).contains('@'), |url| has_user(&url));
    match has_user {
        true => Err("a URL without a user and a password is needed".into()),
        false => Ok(value.into()),
    }
}

/// Parses `verify_peer` where nothing else is safe.
///
/// # Errors
/// A message that says what is needed.
pub(super) fn verified(value: &str) -> Result<(), String> {
    match value {
        "verify_peer" => Ok(()),
        _ => Err("verify_peer is needed: whoever can pose as the server could let anybody in".to_owned()),
    }
}

/// Checks a key about the TLS of a server that is asked: one that Sluice has, or one whose value is what Sluice does anyway.
///
/// # Errors
/// Whether the key or its value is wrong.
pub(super) fn tls_of_server(key: &str, value: &str) -> Result<(), Wrong> {
    let wrong = |need: &str| Err(Wrong::Value(need.to_owned()));
    match (key, value) {
        ("verify" | "peer_verification", value) => Ok(verified(value)?),
        ("hostname_verification", "wildcard") | ("crl_check", "false") => Ok(()),
        ("hostname_verification", _) => {
            wrong("wildcard is needed: the name of the server is always checked, and may have a wildcard")
        }
        ("crl_check", _) => wrong("false is needed: no list of revoked certificates is asked for"),
        // A client always gets a certificate.
        ("fail_if_no_peer_cert", value) => Ok(boolean(value).map(drop)?),
        // The library bounds the chain itself.
        ("depth", value) => Ok(number(value, 1..=u8::MAX).map(drop)?),
        _ => Err(Wrong::Name(format!(
            "there is no key '{key}': verify, hostname_verification, depth and cacertfile are possible"
        ))),
    }
}

/// Parses a whole number within bounds.
///
/// # Errors
/// A message that says what is needed.
pub(super) fn number<T: FromStr + PartialOrd + Copy + std::fmt::Display>(
    value: &str,
    bounds: RangeInclusive<T>,
) -> Result<T, String> {
    let need = || format!("a whole number from {} to {} is needed", bounds.start(), bounds.end());
    // Rust accepts a leading `+`; a value here must consist of digits only.
    if !value.bytes().all(|b| b.is_ascii_digit()) {
        return Err(need());
    }
    value.parse().ok().filter(|n| bounds.contains(n)).ok_or_else(need)
}

/// Parses a number of bytes, optionally with a unit of RabbitMQ, whatever the case of its letters: k, kB, M, MB, ... are powers of
/// 1000, and Ki, KiB, Mi, MiB, ... powers of 1024.
///
/// # Errors
/// A message that says what is needed.
pub(super) fn bytes(value: &str) -> Result<u64, String> {
    size(value, 1000)
}

/// Like [`bytes`], for keys whose units RabbitMQ always reads as powers of 1024.
///
/// # Errors
/// A message that says what is needed.
pub(super) fn binary_bytes(value: &str) -> Result<u64, String> {
    size(value, 1024)
}

/// Parses a number of bytes whose units without an `i` are powers of `base`.
fn size(value: &str, base: u64) -> Result<u64, String> {
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let size = unit(&value[digits.len()..], base).and_then(|unit| {
        let count: u64 = number(digits, 0..=u64::MAX).ok()?;
        count.checked_mul(unit)
    });
    size.ok_or_else(|| "a number of bytes is needed, such as 1048576, 50MB or 1GiB".into())
}

/// Returns the number of bytes of a unit. The empty one is 1.
fn unit(unit: &str, base: u64) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    let Some(prefix) = unit.chars().next() else { return Some(1) };
    let power = "kmgtp".find(prefix)? as u32 + 1;
    match &unit[1..] {
        "" | "b" => Some(base.pow(power)),
        "i" | "ib" => Some(1024_u64.pow(power)),
        _ => None,
    }
}

/// Parses a number of bytes within bounds. `parse` reads its unit.
///
/// # Errors
/// A message that says what is needed.
pub(super) fn bytes_within<T: TryFrom<u64> + FromStr + PartialOrd + Copy + std::fmt::Display>(
    value: &str,
    parse: fn(&str) -> Result<u64, String>,
    bounds: RangeInclusive<T>,
) -> Result<T, String> {
    let size = parse(value).ok().and_then(|size| T::try_from(size).ok());
    size.filter(|size| bounds.contains(size))
        .ok_or_else(|| format!("a number of bytes from {} to {} is needed", bounds.start(), bounds.end()))
}

/// Parses a ratio above 0 and up to 1000.
///
/// # Errors
/// A message that says what is needed.
pub(super) fn part(value: &str) -> Result<f64, String> {
    let plain = value.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let part = value.parse::<f64>().ok().filter(|p| plain && *p > 0.0 && *p <= 1000.0);
    part.ok_or_else(|| "a number above 0 is needed, such as 0.6".into())
}

/// Parses a ratio above 0 and up to 1.
///
/// # Errors
/// A message that says what is needed.
pub(super) fn share(value: &str) -> Result<f64, String> {
    part(value)
        .ok()
        .filter(|share| *share <= 1.0)
        .ok_or_else(|| "a number above 0 and up to 1 is needed, such as 0.6".into())
}

/// Parses `true` or `false`.
///
/// # Errors
/// A message that says what is needed.
pub(super) fn boolean(value: &str) -> Result<bool, String> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("true or false is needed".into()),
    }
}

/// Parses `true`, `false` or `auto`.
///
/// # Errors
/// A message that says what is needed.
pub(super) fn direct_writes(value: &str) -> Result<DirectWrites, String> {
    match value {
        "auto" => Ok(DirectWrites::Known),
        "true" => Ok(DirectWrites::All),
        "false" => Ok(DirectWrites::None),
        _ => Err("true, false or auto is needed".into()),
    }
}

/// Parses text: not empty, at most 255 bytes, and without control characters.
///
/// # Errors
/// A message that says what is needed.
pub(super) fn text(value: &str) -> Result<String, String> {
    if value.is_empty() || value.len() > 255 || value.contains(char::is_control) {
        return Err("text of 1 to 255 bytes without control characters is needed".into());
    }
    Ok(value.into())
}

/// Reads the part of a name that the operator chooses, if any text will do.
///
/// # Errors
/// [`Wrong::Name`].
pub(super) fn free_name(part: &str) -> Result<String, Wrong> {
    text(part).map_err(Wrong::Name)
}

/// Parses the name of a node: `NAME@HOST`. Paths of the HTTP API and metrics have it, so it is plain text.
///
/// # Errors
/// What is needed instead.
pub(super) fn node_name(value: &str) -> Result<String, String> {
    let is_plain = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
    };
    match value.split_once('@') {
        Some((name, host)) if value.len() <= 255 && is_plain(name) && is_plain(host) => Ok(value.into()),
        _ => Err("NAME@HOST of letters, digits and -._ is needed, of at most 255 bytes".into()),
    }
}

/// Returns the name of a node that has none in its configuration: `sluice@`, and the name of the machine up to its first dot, as
/// in RabbitMQ.
pub(super) fn own_node_name() -> String {
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let host = machine.split('.').next().unwrap_or_default();
    node_name(&format!("sluice@{host}")).unwrap_or_else(|_| "sluice@localhost".into())
}

/// Parses `none`, or a value that `parse` accepts.
///
/// # Errors
/// The message of `parse`, extended by `none`.
pub(super) fn or_none<T>(
    value: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    if value == "none" {
        return Ok(None);
    }
    parse(value).map(Some).map_err(|need| format!("{need}, or none"))
}

/// Parses an IP address. An IPv6 address may be in brackets.
///
/// # Errors
/// A message that says what is needed.
pub(super) fn ip(value: &str) -> Result<IpAddr, String> {
    value.trim_matches(['[', ']']).parse().map_err(|_| "an IP address is needed".into())
}

/// Parses a port. 0 means any free port.
///
/// # Errors
/// A message that says what is needed.
pub(super) fn port(value: &str) -> Result<u16, String> {
    number(value, 0..=u16::MAX)
}

/// Parses `ip:port`, or a port of the loopback address.
///
/// # Errors
/// A message that says what is needed.
pub(super) fn listener(value: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = port(value) {
        return Ok(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port));
    }
    value.parse().map_err(|_| match value {
        socket if socket.starts_with("local:") => {
            "listeners.unix.default has the path of a Unix domain socket".into()
        }
        _ => "a port from 0 to 65535 or ip:port is needed, not the name of a host; an IPv6 address is in brackets: [::1]:5672".into(),
    })
}

/// Parses the path of a Unix domain socket.
///
/// # Errors
/// A message that says what is needed.
pub(super) fn socket_path(value: &str) -> Result<String, String> {
    let is_path = value.starts_with('/') && !value.contains(char::is_control);
    if !is_path || value.len() > SOCKET_PATH_BYTES_MAX {
        return Err(format!("an absolute path of at most {SOCKET_PATH_BYTES_MAX} bytes is needed"));
    }
    Ok(value.into())
}

/// Parses the permissions of a file, in octal.
///
/// # Errors
/// A message that says what is needed.
pub(super) fn mode(value: &str) -> Result<u32, String> {
    let is_octal = (3..=4).contains(&value.len()) && value.bytes().all(|b| matches!(b, b'0'..=b'7'));
    let mode = u32::from_str_radix(value, 8).ok().filter(|mode| is_octal && *mode <= 0o777);
    mode.ok_or_else(|| "permissions in octal are needed, such as 0600 or 0660".into())
}

/// Parses an address or a network; nothing is none.
///
/// # Errors
/// A message that says what is needed.
pub(super) fn network(value: &str) -> Result<Option<Network>, String> {
    if value.is_empty() {
        return Ok(None);
    }
    value.parse().map(Some).map_err(|error: NetworkError| error.to_string())
}

/// Parses the path of a file. An empty one is none.
pub(super) fn file(value: &str) -> Result<Option<PathBuf>, String> {
    Ok((!value.is_empty()).then(|| value.into()))
}

/// Parses the password of a private key. An empty one is none.
///
/// # Errors
/// A message that says what is needed.
pub(super) fn password(value: &str) -> Result<Option<Password>, String> {
    if value.is_empty() {
        return Ok(None);
    }
    text(value).map(|password| Some(Password::new(password)))
}

/// Parses the name that an operator gives to a certificate and its key.
///
/// # Errors
/// A message that says what is needed.
pub(super) fn pair_name(name: &str) -> Result<String, Wrong> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.is_empty() || name.len() > 255 || !name.bytes().all(fits) {
        return Err(Wrong::name("a name of 1 to 255 letters, digits, '.', '_' or '-' is needed behind it"));
    }
    Ok(name.to_owned())
}

/// Parses `local_filesystem` or `none`. Returns true for the first.
///
/// # Errors
/// A message that says what is needed.
pub(super) fn import_backend(value: &str) -> Result<bool, String> {
    match value {
        "local_filesystem" => Ok(true),
        "none" => Ok(false),
        _ => Err("local_filesystem or none is needed: definitions are read from files only".into()),
    }
}

/// Parses `verify_peer` or `verify_none`. Returns true for the first.
pub(super) fn verify(value: &str) -> Result<bool, String> {
    match value {
        "verify_peer" => Ok(true),
        "verify_none" => Ok(false),
        _ => Err("verify_peer or verify_none is needed".into()),
    }
}

/// Parses the name of `ssl_cert_login_from`.
pub(super) fn login_name(value: &str) -> Result<LoginName, String> {
    match value {
        "distinguished_name" => Ok(LoginName::Distinguished),
        "common_name" => Ok(LoginName::Common),
        "subject_alternative_name" => Ok(LoginName::Alternative),
        _ => Err("distinguished_name, common_name or subject_alternative_name is needed".into()),
    }
}

/// Parses a kind of alternative names.
pub(super) fn name_kind(value: &str) -> Result<NameKind, String> {
    match value {
        "dns" => Ok(NameKind::Dns),
        "ip" => Ok(NameKind::Ip),
        "email" => Ok(NameKind::Email),
        "uri" => Ok(NameKind::Uri),
        "other_name" => {
            Err("dns, ip, email or uri is needed: names of the kind other_name are not read".into())
        }
        _ => Err("dns, ip, email or uri is needed".into()),
    }
}

/// Parses a version of TLS.
pub(super) fn tls_version(value: &str) -> Result<TlsVersion, String> {
    match value {
        "tlsv1.2" => Ok(TlsVersion::Tls12),
        "tlsv1.3" => Ok(TlsVersion::Tls13),
        _ => Err("tlsv1.2 or tlsv1.3 is needed: older versions are not safe".into()),
    }
}

/// Parses `auto`, `fixed` or `adaptive`.
///
/// # Errors
/// A message that says what is needed.
pub(super) fn link_credit(value: &str) -> Result<LinkCredit, String> {
    match value {
        "auto" => Ok(LinkCredit::Auto),
        "fixed" => Ok(LinkCredit::Fixed),
        "adaptive" => Ok(LinkCredit::Adaptive),
        _ => Err("auto, fixed or adaptive is needed".into()),
    }
}

/// Parses the name of a queue type.
///
/// # Errors
/// The value is another word. The text says what is needed.
pub(super) fn queue_type(value: &str) -> Result<QueueType, String> {
    [QueueType::Classic, QueueType::Quorum, QueueType::Stream]
        .into_iter()
        .find(|of| of.name() == value)
        .ok_or_else(|| "classic, quorum or stream is needed".into())
}

/// Parses the name of an algorithm for passwords.
///
/// # Errors
/// A message that says what is needed.
pub(super) fn password_hashing(value: &str) -> Result<Hashing, String> {
    match value {
        "argon2id" => Ok(Hashing::Argon2id),
        "sha256" => Ok(Hashing::Sha256),
        "sha512" => Ok(Hashing::Sha512),
        "md5" => Err("MD5 is only read from definitions: argon2id, sha256 or sha512 is needed".into()),
        _ => Err("argon2id, sha256 or sha512 is needed".into()),
    }
}

/// Parses a log level by RabbitMQ's name. Returns it as a tracing filter spells it.
///
/// # Errors
/// A message that says what is needed.
pub(super) fn log_level(value: &str) -> Result<&'static str, String> {
    Ok(match value {
        "trace" => "trace",
        "debug" => "debug",
        "info" => "info",
        "warning" | "warn" => "warn",
        "error" | "critical" => "error",
        "none" => "off",
        _ => return Err("trace, debug, info, warning, error, critical or none is needed".into()),
    })
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    fn set(argument: &str) -> Result<Config, String> {
        Config::parse("", "", &[argument.to_owned()]).map_err(|error| error.to_string())
    }

    #[test]
    fn one_event_loop_is_enough_for_seven_cores() {
        let counts = [1, 2, 4, 7, 8, 16, 64, 4096].map(|cores| super::Shards::Auto { cores }.count());
        assert_eq!(counts, [1, 1, 1, 1, 2, 4, 16, 256]);
        let said = super::Shards::Auto { cores: 8 }.to_string();
        assert_eq!(said, "2 (shards = auto: one for each 4 of 8 cores, at least one)");
    }

    #[test]
    fn sizes_take_the_units_of_rabbitmq() {
        for (text, size) in [
            ("1000000", 1_000_000),
            ("1KB", 1_000),
            ("1k", 1_000),
            ("1Kb", 1_000),
            ("512mb", 512_000_000),
            ("3M", 3_000_000),
            ("2G", 2_000_000_000),
            ("1tb", 1_000_000_000_000),
            ("1P", 1_000_000_000_000_000),
            ("1kiB", 1 << 10),
            ("1ki", 1 << 10),
            ("7MIB", 7 << 20),
            ("4Gi", 4 << 30),
            ("1gib", 1 << 30),
            ("1TiB", 1 << 40),
            ("1Pi", 1 << 50),
        ] {
            let limit = set(&format!("disk_free_limit.absolute={text}")).unwrap().alarms.disk_free;
            assert_eq!(limit, node::Limit::Absolute(size), "{text}");
        }
        for wrong in
            ["", "kB", "1B", "1ib", "1 MB", "1.5GB", "-1", "1XB", "1MBB", "1\u{212a}B", "99999999999P"]
        {
            let refused = set(&format!("disk_free_limit.absolute={wrong}")).unwrap_err();
            assert!(refused.contains("such as 1048576, 50MB or 1GiB"), "{wrong}: {refused}");
        }
    }

    /// RabbitMQ reads the units of some keys as powers of 1024.
    #[test]
    fn the_units_of_frames_are_powers_of_1024() {
        for text in ["frame_max=128KB", "frame_max=128kb", "frame_max=128KiB", "frame_max=131072"] {
            assert_eq!(set(text).unwrap().settings.frame_max, 128 * 1024, "{text}");
        }
        assert_eq!(set("initial_frame_max=16kb").unwrap().settings.initial_frame_max, 16 * 1024);
        assert_eq!(set("max_message_size=128MB").unwrap().settings.max_message_size, 128_000_000);
        let refused = set("frame_max=17MB").unwrap_err();
        assert!(refused.contains("512 to 16777216"), "{refused}");
        let policy = set("default_policies.operator.a.max_length_bytes=1KB").unwrap().defaults;
        assert!(format!("{policy:?}").contains("1024"), "{policy:?}");
    }
}
