//! An HTTP server says who a client is and what it may do, as with RabbitMQ's HTTP backend (docs/operations/logins.md, Backends).
//!
//! ```text
//!   user_path      username, password                                            allow [tags] | deny [reason]
//!   vhost_path     username, vhost, ip, tags                                     allow | deny
//!   resource_path  username, vhost, resource, name, permission, tags             allow | deny
//!   topic_path     username, vhost, resource, name, permission, routing_key, ..  allow | deny
//! ```

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use catalog::access::{
    About, Answering, Authorizer, Checking, Credentials, ExternalBackend, Identity, Login, LoginRefused,
    Question,
};
use catalog::categories::PEER;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request, StatusCode, Uri};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tls::ClientOptions;
use tokio::sync::Semaphore;
use web::{Bounds, Server};

use crate::setting::SettingError;
use crate::url::{has_user, hide, shown};

/// The most requests for logins at the same time, and for permissions. Others wait. So a slow server does not make the broker open thousands of connections.
const REQUESTS_MAX: usize = 64;

/// The largest answer in bytes: `allow` and some tags.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The settings `auth_http.*`.
#[derive(Clone, Debug)]
pub struct Options {
    pub user_path: String,
    pub vhost_path: String,
    pub resource_path: String,
    pub topic_path: String,
    /// True for POST with a form as the body, false for GET with a query.
    pub is_post: bool,
    /// How long the broker may take to connect, in milliseconds.
    pub connect_timeout_ms: u64,
    /// How long each further step of a request may take, in milliseconds.
    pub timeout_ms: u64,
    /// The authorities that have signed the certificate of the server. `None`: those of the system.
    pub authorities: Option<std::path::PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        let path = |name| format!("http://localhost:8000/auth/{name}");
        Self {
            user_path: path("user"),
            vhost_path: path("vhost"),
            resource_path: path("resource"),
            topic_path: path("topic"),
            is_post: false,
            connect_timeout_ms: 15_000,
            timeout_ms: 15_000,
            authorities: None,
        }
    }
}

/// One of the URLs.
#[derive(Debug)]
struct Endpoint {
    url: Uri,
    server: Server,
}

impl Endpoint {
    fn parse(setting: &str, url: &str, tls: &Arc<tls::ClientConfig>) -> Result<Self, SettingError> {
        let wrong = || {
            let why = format!("'{}' must be a URL with http:// or https://", hide(url).escape_debug());
            SettingError::new(setting, why)
        };
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let (tls, port) = match uri.scheme_str() {
            Some("http") => (None, 80),
            Some("https") => (Some(tls.clone()), 443),
            _ => return Err(wrong()),
        };
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
        if has_user(&uri) {
            return Err(SettingError::new(setting, "the URL must not have a user and a password"));
        }
        let host = host.trim_matches(['[', ']']).to_owned();
        let server = Server { host, port: uri.port_u16().unwrap_or(port), tls };
        Ok(Self { url: uri, server })
    }

    /// Returns true if passwords leave this machine without TLS.
    fn is_open(&self) -> bool {
        let is_here = self.server.host == "localhost"
            || self.server.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        self.server.tls.is_none() && !is_here
    }
}

/// An answer of the server.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Allow(Vec<String>),
    Deny,
}

/// The backend `http`.
#[derive(Debug)]
pub struct Http {
    user: Endpoint,
    vhost: Endpoint,
    resource: Endpoint,
    topic: Endpoint,
    is_post: bool,
    bounds: Bounds,
    /// The places for logins, and those for clients that are in, who never wait behind strangers.
    logins: Semaphore,
    questions: Semaphore,
}

impl Http {
    /// Reads the settings. The server is not asked yet.
    ///
    /// # Errors
    /// A URL or a file cannot be used; the error names the key.
    pub fn load(options: &Options) -> Result<Arc<Self>, SettingError> {
        let trusted = ClientOptions { authorities: options.authorities.clone(), identity: None };
        let tls = trusted.load();
        let tls = tls.map_err(|error| SettingError::new("auth_http.ssl_options.cacertfile", error))?;
        let place = |name: &str, url: &str| Endpoint::parse(&format!("auth_http.{name}"), url, &tls);
        let http = Self {
            user: place("user_path", &options.user_path)?,
            vhost: place("vhost_path", &options.vhost_path)?,
            resource: place("resource_path", &options.resource_path)?,
            topic: place("topic_path", &options.topic_path)?,
            is_post: options.is_post,
            bounds: Bounds {
                connect: Duration::from_millis(options.connect_timeout_ms),
                patience: Duration::from_millis(options.timeout_ms),
                body_bytes_max: ANSWER_BYTES_MAX,
            },
            logins: Semaphore::new(REQUESTS_MAX),
            questions: Semaphore::new(REQUESTS_MAX),
        };
        if http.user.is_open() {
            tracing::warn!(
                "auth_http.user_path: passwords are sent to {} without TLS; use https://",
                http.user.server.host
            );
        }
        Ok(Arc::new(http))
    }

    /// Asks one of the URLs. The error names no value of `fields`.
    async fn ask(
        &self,
        place: &Endpoint,
        room: &Semaphore,
        fields: &[(&str, &str)],
    ) -> Result<Answer, String> {
        let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", shown(&place.url));
        let request = self.request(place, fields).map_err(|error| failed(&error))?;
        let _permit = room.acquire().await.map_err(|error| failed(&error))?;
        let (status, body) = place.server.send(request, self.bounds).await.map_err(|error| failed(&error))?;
        if !matches!(status, StatusCode::OK | StatusCode::CREATED) {
            return Err(failed(&format!("the answer is {status}")));
        }
        answer(&body).ok_or_else(|| failed(&"the answer is neither allow nor deny"))
    }

    fn request(
        &self,
        place: &Endpoint,
        fields: &[(&str, &str)],
    ) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
        let encode = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
        let pairs: Vec<String> =
            fields.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
        let form = pairs.join("&");
        let authority = place.url.authority().map_or("", |authority| authority.as_str());
        let request = Request::builder().header(HOST, authority);
        let path = place.url.path_and_query().map_or("/", |path| path.as_str());
        match self.is_post {
            true => request
                .method(Method::POST)
                .uri(path)
                .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
                .body(Full::new(form.into())),
            false => {
                let joint = if place.url.query().is_some() { '&' } else { '?' };
                request.method(Method::GET).uri(format!("{path}{joint}{form}")).body(Full::default())
            }
        }
    }
}

/// Reads `allow` with tags, or `deny` with a reason, whatever the case of the letters.
fn answer(body: &[u8]) -> Option<Answer> {
    let mut words = std::str::from_utf8(body).ok()?.split_ascii_whitespace();
    match words.next()?.to_ascii_lowercase().as_str() {
        "allow" => Some(Answer::Allow(words.map(|tag| tag.trim_matches(',').to_owned()).collect())),
        "deny" => Some(Answer::Deny),
        _ => None,
    }
}

impl ExternalBackend for Http {
    fn check<'a>(self: Arc<Self>, login: &'a Login) -> Checking<'a> {
        Box::pin(async move {
            let refused = |why: &str| LoginRefused::External(format!("http: {why}"));
            let password;
            let mut fields = Vec::new();
            let user = match &login.credentials {
                Credentials::Plain { user, password: secret } => {
                    password = String::from_utf8(secret.expose().to_vec())
                        .map_err(|_| refused("the password is not UTF-8"))?;
                    fields.extend([("username", user.as_str()), ("password", password.as_str())]);
                    user.as_str()
                }
                // The client is known by its certificate or by another backend, or is anybody. The server decides without a password.
                Credentials::Certificate { .. }
                | Credentials::Anonymous { .. }
                | Credentials::Authenticated { .. } => {
                    let user = login.credentials.user();
                    fields.push(("username", user));
                    user
                }
            };
            match self.ask(&self.user, &self.logins, &fields).await {
                Ok(Answer::Allow(tags)) => {
                    // The tags come from the backend that has authenticated the user, as in RabbitMQ.
                    let tags: Arc<[String]> = match &login.credentials {
                        Credentials::Authenticated { tags, .. } => tags.clone(),
                        _ => tags.into(),
                    };
                    let authorizer =
                        OfLogin { http: self.clone(), ip: login.from.to_string(), tags: tags.join(" ") };
                    Ok(Identity::remote(user.into(), tags, Arc::new(authorizer)))
                }
                Ok(Answer::Deny) => Err(refused("the server refuses the login")),
                Err(why) => {
                    tracing::error!(name: PEER, "the HTTP authentication server cannot be asked: {why}");
                    Err(LoginRefused::Unavailable("http: the server cannot be asked".to_owned()))
                }
            }
        })
    }
}

/// Asks for the permissions of one login.
#[derive(Debug)]
struct OfLogin {
    http: Arc<Http>,
    ip: String,
    tags: String,
}

impl Authorizer for OfLogin {
    fn ask<'a>(&'a self, user: &'a str, question: &'a Question) -> Answering<'a> {
        let Http { vhost, resource, topic, .. } = &*self.http;
        let mut fields = vec![("username", user), ("vhost", question.vhost.as_str())];
        let place = match &question.about {
            About::Vhost => {
                fields.push(("ip", &self.ip));
                vhost
            }
            About::Queue { name, permission } => {
                fields.extend([("resource", "queue"), ("name", name), ("permission", permission.as_str())]);
                resource
            }
            About::Exchange { name, permission } => {
                fields.extend([
                    ("resource", "exchange"),
                    ("name", name),
                    ("permission", permission.as_str()),
                ]);
                resource
            }
            About::Key { exchange, key, permission } => {
                fields.extend([
                    ("resource", "topic"),
                    ("name", exchange),
                    ("permission", permission.as_str()),
                    ("routing_key", key),
                    ("variable_map.username", user),
                    ("variable_map.vhost", &question.vhost),
                ]);
                topic
            }
        };
        fields.push(("tags", &self.tags));
        Box::pin(async move {
            match self.http.ask(place, &self.http.questions, &fields).await {
                Ok(answer) => answer != Answer::Deny,
                Err(why) => {
                    tracing::error!(name: PEER, "the HTTP authentication server cannot be asked: {why}");
                    false
                }
            }
        })
    }
}

#[cfg(test)]
mod tests;
