//! Requests to the management HTTP API, one connection each.

use std::env::VarError;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use clap::Args;
use http_body_util::Full;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName};
use hyper::{Method, Request, StatusCode, Uri};
use percent_encoding::{percent_decode_str, utf8_percent_encode};
use serde_json::Value;
use web::{Bounds, Server, WebError};

use crate::amqp::SEGMENT;
use crate::failure::Failure;
use crate::first_user::GUEST;
use crate::speaks::{self, Speaks};
use crate::trust::Trust;

const DEFAULT_PORT: u16 = 15672;
const DEFAULT_TLS_PORT: u16 = 15671;
/// Where a broker on this machine listens.
const LOOPBACK: &str = "127.0.0.1";
/// The variable that names the broker for the commands that speak AMQP.
const AMQP_URL: &str = "SLUICE_URL";
/// The time that each step may take: to connect, and to receive the response.
const PATIENCE: Duration = Duration::from_secs(20);
/// The largest response body, in bytes. A larger one is a failure.
const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Why there is no response to a request.
#[derive(Debug)]
pub(crate) struct Unanswered {
    pub failure: Failure,
    /// True if the same request may get a response later: nobody listened, or the connection was closed.
    pub may_pass: bool,
}

impl From<Failure> for Unanswered {
    /// Describes a failure that stays.
    fn from(failure: Failure) -> Self {
        Self { failure, may_pass: false }
    }
}

/// A request to the management API.
#[derive(Debug)]
pub(crate) struct Ask<'a> {
    /// Names in errors what cannot be done.
    pub what: &'a str,
    pub method: Method,
    pub path: &'a str,
    /// The text of the body; empty if there is none.
    pub body: String,
    /// Further headers.
    pub headers: &'a [(HeaderName, &'a str)],
}

impl<'a> Ask<'a> {
    /// Creates a request without a body and without further headers.
    pub(crate) fn new(what: &'a str, method: Method, path: &'a str) -> Self {
        Self { what, method, path, body: String::new(), headers: &[] }
    }

    /// Creates a request that reads something.
    pub(crate) fn get(what: &'a str, path: &'a str) -> Self {
        Self::new(what, Method::GET, path)
    }

    /// Adds a body of JSON, if there is one.
    #[must_use]
    pub(crate) fn with(self, body: Option<&Value>) -> Self {
        Self { body: body.map(Value::to_string).unwrap_or_default(), ..self }
    }
}

/// The management API to send requests to.
#[derive(Args, Clone, Debug)]
pub(crate) struct Api {
    /// The URL of the management API, with user and password; without a user, guest logs in at a broker on this machine, and
    /// another broker is not asked (default: host, user and password of SLUICE_URL, or http://guest:guest@127.0.0.1:15672)
    #[arg(long, global = true, env = "SLUICE_HTTP_URL", hide_env_values = true, value_name = "URL")]
    url: Option<String>,
    /// Log in with the token in this file, instead of a user and a password
    #[arg(long, global = true, env = "SLUICE_HTTP_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// True if the login was asked for, so that it is not the one of the URL.
    #[arg(skip)]
    has_other_login: bool,
    #[command(flatten)]
    trust: Trust,
}

impl Api {
    /// Returns where the API is. If only the variable for AMQP names the broker, the API is on the same machine, at its usual port.
    fn url(&self) -> Result<Url, Failure> {
        if let Some(text) = &self.url {
            return Url::parse(text).map_err(|why| Failure::usage(format!("--url: {why}")));
        }
        let Some(amqp) = amqp_url()? else { return Ok(Url::usual()) };
        let unclear = |why: &str| Failure::usage(format!("{AMQP_URL} {why}: {NAME_IT}"));
        // A login must not reach another program than the broker. So nothing is guessed.
        let url = Url::beside(&amqp)
            .ok_or_else(|| unclear("does not say at which port the management API of this broker is"))?;
        if self.token_file.is_some() && !url.tls && !url.is_on_this_machine() {
            return Err(unclear("names another machine, and a token is not sent to it without TLS"));
        }
        Ok(url)
    }

    /// Returns the API at another URL, with the same certificates.
    pub(crate) fn at(&self, url: &str) -> Self {
        Self { url: Some(url.to_owned()), ..self.clone() }
    }

    /// Returns the API at a URL to which no login is sent, unless it has one.
    ///
    /// # Errors
    /// The URL is invalid.
    pub(crate) fn without_login(url: &str, trust: &Trust) -> Result<Self, String> {
        let parsed = Url::parse(url)?;
        let url = match parsed.credentials {
            Some(_) => url.to_owned(),
            None => format!("{}://:@{}", parsed.scheme(), parsed.place()),
        };
        Ok(Self { url: Some(url), token_file: None, has_other_login: false, trust: trust.clone() })
    }

    /// Returns the API with the login of another user.
    ///
    /// # Errors
    /// A usage failure if the URL is invalid.
    pub(crate) fn logged_in_as(&self, user: &str, password: &str) -> Result<Self, Failure> {
        let url = self.url()?;
        let [user, password] = [user, password].map(|text| utf8_percent_encode(text, SEGMENT));
        let url = format!("{}://{user}:{password}@{}", url.scheme(), url.place());
        Ok(Self { token_file: None, has_other_login: true, ..self.at(&url) })
    }

    /// Sends a request with a JSON body or without one, and returns the status and body of a successful response. `what` names the
    /// operation that failed.
    ///
    /// # Errors
    /// The errors of [`Api::send`].
    pub(crate) async fn ask(
        &self,
        what: &str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(StatusCode, Value), Failure> {
        self.send(Ask::new(what, method, path).with(body)).await
    }

    /// Sends a request, and returns the status and body of a successful response.
    ///
    /// # Errors
    /// A usage failure if the URL is invalid; [`Failure::nobody`] if nobody answers; otherwise the broker's
    /// reason.
    pub(crate) async fn send(&self, ask: Ask<'_>) -> Result<(StatusCode, Value), Failure> {
        let what = ask.what;
        let (status, value) = self.exchange(ask).await?;
        if status.is_success() { Ok((status, value)) } else { Err(self.refused(what, status, &value)) }
    }

    /// Like [`Api::send`], but also returns the status and body of a response that is not successful.
    ///
    /// # Errors
    /// A usage failure if the URL is invalid; [`Failure::nobody`] if nobody answers, or not the management API.
    pub(crate) async fn exchange(&self, ask: Ask<'_>) -> Result<(StatusCode, Value), Failure> {
        self.attempt(ask).await.map_err(|unanswered| unanswered.failure)
    }

    /// Like [`Api::exchange`], but also says whether a failure may pass.
    ///
    /// # Errors
    /// The errors of [`Api::exchange`].
    pub(crate) async fn attempt(&self, ask: Ask<'_>) -> Result<(StatusCode, Value), Unanswered> {
        let (status, octets) = self.octets(ask).await?;
        Ok((status, serde_json::from_slice(&octets).unwrap_or(Value::Null)))
    }

    /// Like [`Api::attempt`], but returns the body as it is.
    async fn octets(&self, ask: Ask<'_>) -> Result<(StatusCode, Bytes), Unanswered> {
        let url = self.url()?;
        let (what, place) = (ask.what, url.place());
        let failed = |why: &dyn fmt::Display| Failure::failed(format!("cannot {what} at {place}: {why}"));
        let login = self.login(&url)?;
        let request = url.request(ask, login).map_err(|error| failed(&error))?;
        let tls = if url.tls { Some(self.trust.load()?) } else { None };
        let server = Server { host: url.host.clone(), port: url.port, tls };
        let bounds = Bounds { connect: PATIENCE, patience: PATIENCE, body_bytes_max: ANSWER_BYTES_MAX };
        match server.send(request, bounds).await {
            Ok(answer) => Ok(answer),
            Err(error @ (WebError::Unreachable(_) | WebError::TimedOut)) => {
                Err(Unanswered { failure: Failure::nobody(place, error), may_pass: true })
            }
            Err(error) => {
                let may_pass = matches!(error, WebError::Http(_) | WebError::TlsBroken(_));
                match url.misunderstood(&error).await {
                    Some(why) => Err(failed(&why).into()),
                    None => Err(Unanswered { failure: failed(&error), may_pass }),
                }
            }
        }
    }

    /// Returns the metrics of the same broker. `listeners` are those of its overview. The port of the metrics needs no login, so none
    /// is sent to it.
    ///
    /// # Errors
    /// The broker has no such listener, or it cannot be reached from here.
    pub(crate) async fn metrics(&self, what: &str, listeners: &Value) -> Result<String, Failure> {
        let of_metrics =
            |row: &&Value| row["protocol"].as_str().is_some_and(|protocol| protocol.ends_with("/prometheus"));
        let listener = listeners.as_array().into_iter().flatten().find(of_metrics);
        let listener = listener.ok_or_else(|| self.failed(what, "no port serves metrics"))?;
        let url = self.url()?;
        let scheme = if listener["protocol"] == "https/prometheus" { "https" } else { "http" };
        let url =
            Url { port: listener["port"].as_u64().and_then(|port| port.try_into().ok()).unwrap_or(0), ..url };
        let metrics = Self { token_file: None, ..self.at(&format!("{scheme}://:@{}", url.place())) };
        let answer = metrics.octets(Ask::get(what, "/metrics")).await;
        let (status, octets) = answer.map_err(|unanswered| unanswered.failure)?;
        match status.is_success() {
            true => Ok(String::from_utf8_lossy(&octets).into_owned()),
            false => Err(metrics.failed(what, &format!("the answer is {status}"))),
        }
    }

    /// Returns the failure of an operation whose response was not successful.
    pub(crate) fn refused(&self, what: &str, status: StatusCode, value: &Value) -> Failure {
        if is_refused_login(status, value) {
            return match &self.token_file {
                Some(file) => self.failed(what, &format!("the token in {} is refused", file.display())),
                None => {
                    let how = if self.has_other_login { "" } else { HOW_TO_LOG_IN };
                    self.failed(what, &format!("the login of user '{}' is refused{how}", self.user()))
                }
            };
        }
        // Where there is a detail, the reason is one for programs.
        match value["detail"].as_str().or(value["reason"].as_str()) {
            Some(reason) => match tag_needed(reason).filter(|_| self.token_file.is_none()) {
                Some(tag) => {
                    let user = self.user();
                    self.failed(
                        what,
                        &format!("{reason}: user '{user}' needs the tag {tag} (an administrator gives it: sluice set tags)"),
                    )
                }
                None => self.failed(what, reason),
            },
            // The management API always gives a reason. So this is another server, such as the one for
            // metrics.
            None if status == StatusCode::NOT_FOUND => self.failed(
                what,
                "this is not the management API; its port is set by management.tcp.port, 15672 by default",
            ),
            None => self.failed(what, &format!("the answer is {status}")),
        }
    }

    fn user(&self) -> String {
        let url = self.url().ok();
        url.and_then(|url| url.login().map(|(user, _)| user.to_owned())).unwrap_or_default()
    }

    /// Returns the value of the header `Authorization`. `None` if the user is empty: then nobody is to log in.
    fn login(&self, url: &Url) -> Result<Option<String>, Failure> {
        let Some(file) = &self.token_file else {
            let (user, password) = url.login().ok_or_else(|| {
                let (scheme, place) = (url.scheme(), url.place());
                Failure::usage(format!(
                    "--url: it names no user for {place}: {scheme}://USER:PASSWORD@{place} or --token-file is needed"
                ))
            })?;
            let basic = || format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
            return Ok((!user.is_empty()).then(basic));
        };
        let token = std::fs::read_to_string(file);
        let token =
            token.map_err(|error| Failure::usage(format!("--token-file: {}: {error}", file.display())))?;
        Ok(Some(format!("Bearer {}", token.trim())))
    }

    /// Returns the name of the node that answers, for paths that contain it.
    ///
    /// # Errors
    /// The errors of [`Api::ask`], or the response does not name the node.
    pub(crate) async fn node(&self, what: &str) -> Result<String, Failure> {
        let (_, overview) = self.ask(what, Method::GET, "/api/overview", None).await?;
        let node = overview["node"].as_str().map(str::to_owned);
        node.ok_or_else(|| self.failed(what, "the overview does not name the node"))
    }

    /// Returns the failure of an operation whose response was successful but not usable.
    pub(crate) fn failed(&self, what: &str, why: &str) -> Failure {
        let place = self.url().map_or_else(|_| String::new(), |url| url.place());
        Failure::failed(format!("cannot {what} at {place}: {why}"))
    }
}

/// Says how to log in as another user.
const HOW_TO_LOG_IN: &str =
    "; user and password are in --url http://USER:PASSWORD@HOST:PORT, or in SLUICE_HTTP_URL or SLUICE_URL";

/// Returns the least tag that a user needs who was refused for this reason.
fn tag_needed(reason: &str) -> Option<&'static str> {
    match reason {
        "Not management user" => Some("management"),
        "Not monitor user" => Some("monitoring"),
        "Not administrator user" => Some("administrator"),
        _ => None,
    }
}

/// Returns true if the response says that the user, the password or the token is wrong. A user who only lacks a tag gets another one.
pub(crate) fn is_refused_login(status: StatusCode, value: &Value) -> bool {
    status == StatusCode::UNAUTHORIZED && value["error"] == "not_authorized"
}

/// The virtual host in which names are looked up.
#[derive(Args, Debug)]
pub(crate) struct Vhost {
    /// The virtual host
    #[arg(long, short = 'p', global = true, value_name = "NAME", default_value = "/")]
    pub vhost: String,
}

/// How to say where the API is.
const NAME_IT: &str = "name the management API with SLUICE_HTTP_URL or --url";

/// Returns what the variable for AMQP says, if it is set and not empty.
fn amqp_url() -> Result<Option<client::Url>, Failure> {
    match std::env::var(AMQP_URL) {
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => {
            Err(Failure::usage(format!("{AMQP_URL}: it is not UTF-8; {NAME_IT}")))
        }
        Ok(text) if text.is_empty() => Ok(None),
        Ok(text) => {
            text.parse().map(Some).map_err(|why| Failure::usage(format!("{AMQP_URL}: {why}; {NAME_IT}")))
        }
    }
}

/// `http://user:password@host:port`, or `https://` with TLS.
struct Url {
    host: String,
    port: u16,
    tls: bool,
    /// User and password. `None` if the URL names no user.
    credentials: Option<(String, String)>,
}

impl Url {
    /// Returns the URL of a new broker on this machine.
    fn usual() -> Self {
        let guest = (GUEST.to_owned(), GUEST.to_owned());
        Self { host: LOOPBACK.to_owned(), port: DEFAULT_PORT, tls: false, credentials: Some(guest) }
    }

    /// Returns the URL of the management API of the broker that has this URL for AMQP, at its usual port. `None` if AMQP is at another
    /// port than its usual one: then the API probably is, too.
    fn beside(amqp: &client::Url) -> Option<Self> {
        let (host, tls) = match &amqp.address {
            client::Address::Port { host, port: client::url::DEFAULT_PORT, tls: false } => {
                (host.clone(), false)
            }
            client::Address::Port { host, port: client::url::DEFAULT_TLS_PORT, tls: true } => {
                (host.clone(), true)
            }
            client::Address::Port { .. } | client::Address::Socket(_) => return None,
        };
        let login = |known: &client::Credentials| {
            (known.user.clone(), String::from_utf8_lossy(known.password.expose()).into_owned())
        };
        let port = if tls { DEFAULT_TLS_PORT } else { DEFAULT_PORT };
        Some(Self { host, port, tls, credentials: amqp.credentials.as_ref().map(login) })
    }

    /// Parses the URL. User and password are percent-decoded.
    fn parse(text: &str) -> Result<Self, String> {
        let uri: Uri = text.parse().map_err(|_| "http://USER:PASSWORD@HOST:PORT is needed".to_owned())?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err("the URL must start with http:// or https://".to_owned()),
        };
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err("the URL must end after host and port".to_owned());
        }
        let authority = uri.authority().map_or("", |a| a.as_str());
        let (login, address) = match authority.rsplit_once('@') {
            Some((login, address)) => (Some(login.split_once(':').unwrap_or((login, ""))), address),
            None => (None, authority),
        };
        let decode = |text: &str| {
            let decoded = percent_decode_str(text).decode_utf8();
            decoded.map(|d| d.into_owned()).map_err(|_| "an invalid percent escape".to_owned())
        };
        let port_is_bad =
            uri.port().is_none() && address.rsplit_once(':').is_some_and(|(_, p)| !p.contains(']'));
        if port_is_bad {
            return Err("the port must be a number from 1 to 65535".to_owned());
        }
        Ok(Self {
            host: uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned(),
            port: uri.port_u16().unwrap_or(if tls { DEFAULT_TLS_PORT } else { DEFAULT_PORT }),
            tls,
            credentials: match login {
                Some((user, password)) => Some((decode(user)?, decode(password)?)),
                None => None,
            },
        })
    }

    fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }

    /// Returns user and password: those of the URL. Without them, those that a new broker has, which it takes from its own
    /// machine only. A broker elsewhere gets no password that nobody has given for it.
    fn login(&self) -> Option<(&str, &str)> {
        match &self.credentials {
            Some((user, password)) => Some((user, password)),
            None => self.is_on_this_machine().then_some((GUEST, GUEST)),
        }
    }

    fn is_on_this_machine(&self) -> bool {
        let is_loopback = |address: IpAddr| address.to_canonical().is_loopback();
        self.host.eq_ignore_ascii_case("localhost") || self.host.parse().is_ok_and(is_loopback)
    }

    fn place(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// Returns in words why a response is missing, if the port speaks another protocol or a certificate is wrong.
    async fn misunderstood(&self, error: &WebError) -> Option<String> {
        let of_tls = match error {
            WebError::Tls(error) | WebError::TlsBroken(error) => Some(error),
            _ => None,
        };
        if let Some(why) = of_tls.and_then(|error| speaks::of_certificate(error, &self.host)) {
            return Some(why);
        }
        let (why, setting, port) = match (speaks::probe(&self.host, self.port).await, self.tls) {
            (Some(Speaks::Amqp), true) => ("this port speaks AMQP", "management.ssl.port", DEFAULT_TLS_PORT),
            (Some(Speaks::Amqp), false) => ("this port speaks AMQP", "management.tcp.port", DEFAULT_PORT),
            (Some(Speaks::Http), true) => {
                return Some("this port does not use TLS: the URL must begin with http://".to_owned());
            }
            (Some(Speaks::Tls), false) => {
                return Some("this port expects TLS: the URL must begin with https://".to_owned());
            }
            _ => {
                return of_tls
                    .filter(|error| speaks::is_without_tls(error))
                    .map(|_| "this port does not use TLS".to_owned());
            }
        };
        Some(format!("{why}; the port of the management API is set by {setting}, {port} by default"))
    }

    fn request(
        &self,
        ask: Ask<'_>,
        login: Option<String>,
    ) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
        let Ask { method, path, body, headers, .. } = ask;
        let request =
            headers.iter().fold(Request::builder(), |request, (name, value)| request.header(name, *value));
        let request = login.into_iter().fold(request, |request, login| request.header(AUTHORIZATION, login));
        request
            .method(method)
            .uri(path)
            .header(HOST, self.place())
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_user_and_place() {
        let parts = |text| Url::parse(text).map(|u| (u.place(), u.credentials));
        let parsed = |place: &str, user: &str, password: &str| {
            Ok((place.into(), Some((user.into(), password.into()))))
        };
        assert_eq!(parts("http://u:p%40@h:1"), parsed("h:1", "u", "p@"));
        assert_eq!(parts("http://h"), Ok(("h:15672".into(), None)));
        assert_eq!(parts("https://h"), Ok(("h:15671".into(), None)));
        assert_eq!(parts("http://u@[::1]/"), parsed("[::1]:15672", "u", ""));
    }

    #[test]
    fn the_api_is_beside_the_broker_that_a_variable_names() {
        let beside = |text: &str| {
            let url = Url::beside(&text.parse().unwrap())?;
            let login = url.login().map(|(user, password)| format!("{user}:{password}"));
            Some((format!("{}://{}", url.scheme(), url.place()), login))
        };
        let at = |place: &str, login: Option<&str>| Some((place.to_owned(), login.map(str::to_owned)));
        assert_eq!(beside("amqp://u:p%40@h/v"), at("http://h:15672", Some("u:p@")));
        assert_eq!(beside("amqp://u:p@[::1]"), at("http://[::1]:15672", Some("u:p")));
        assert_eq!(beside("amqps://u:p@h"), at("https://h:15671", Some("u:p")));
        assert_eq!(beside("amqp://h"), at("http://h:15672", None));
        for unclear in ["amqp://u:p@h:5673", "amqps://u:p@h:5672", "amqp+unix://u:p@%2Frun%2Famqp.sock"] {
            assert_eq!(beside(unclear), None, "{unclear}");
        }
    }

    #[test]
    fn no_password_is_sent_to_a_machine_for_which_none_is_given() {
        let login = |text| Url::parse(text).unwrap().login().map(|(user, _)| user.to_owned());
        for here in ["http://127.0.0.1", "http://127.0.0.2:1", "http://[::1]", "https://LOCALHOST:15671"] {
            assert_eq!(login(here).as_deref(), Some("guest"), "{here}");
        }
        for there in
            ["http://broker", "http://192.0.2.1", "https://[2001:db8::1]", "http://localhost.example"]
        {
            assert_eq!(login(there), None, "{there}");
        }
        assert_eq!(login("http://ann@broker").as_deref(), Some("ann"));
    }

    #[test]
    fn a_request_without_a_user_has_no_login() {
        let header = |api: &Api| {
            let url = api.url().unwrap();
            let request = url.request(Ask::get("look", "/metrics"), api.login(&url).unwrap()).unwrap();
            request.headers().get(AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned())
        };
        let api = |url: &str| Api::without_login(url, &Trust::default()).unwrap();
        assert_eq!(header(&api("http://localhost:1")), None);
        assert_eq!(header(&api("https://broker")), None);
        assert_eq!(header(&api("http://u:p@broker")).as_deref(), Some("Basic dTpw"));
    }

    #[test]
    fn invalid_urls_are_refused() {
        for text in ["", "h:1", "ftp://h", "amqp://h", "http://", "http://h/api", "http://h?x", "http://h:x"]
        {
            assert!(Url::parse(text).is_err(), "{text}");
        }
    }
}
