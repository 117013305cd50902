//! What a handler answers, and how a refusal looks: `{"error": .., "reason": ..}` with the reference's status.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use broker::catalog::CatalogError;
use broker::desk::DeskError;
use serde_json::{Value, json};

/// What a handler answers.
#[derive(Debug)]
pub enum Reply {
    /// 200 with a body.
    Json(Value),
    /// 200 with a body that is JSON already: a long list.
    Rows(Body),
    /// 201, and where the new thing is, relative to the host.
    Created(Option<String>),
    /// 204.
    NoContent,
    /// 503 with a body: a health check that failed.
    Unhealthy(Value),
    /// 200, for people.
    Page(String),
}

/// Why a request was not carried out.
#[derive(Debug)]
pub struct Failure {
    pub status: StatusCode,
    pub error: &'static str,
    pub reason: String,
    /// The verbs that the path knows, for 405.
    pub allow: Option<String>,
    /// Asks the client for other credentials.
    pub challenge: bool,
}

impl Failure {
    fn new(status: StatusCode, error: &'static str, reason: impl Into<String>) -> Self {
        Self { status, error, reason: reason.into(), allow: None, challenge: false }
    }

    /// 400, in one of the reference's words for it.
    pub fn bad(error: &'static str, reason: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error, reason)
    }

    pub fn bad_request(reason: impl Into<String>) -> Self {
        Self::bad("bad_request", reason)
    }

    pub fn not_found(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "object_not_found", reason)
    }

    /// Nobody known asks: 401 with a challenge.
    pub fn not_authenticated() -> Self {
        let failure = Self::new(StatusCode::UNAUTHORIZED, "not_authorized", "Not_Authorized");
        Self { challenge: true, ..failure }
    }

    /// Somebody known asks for what he may not have. The reference says 401 here too.
    pub fn not_authorised(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "not_authorised", reason)
    }

    pub fn method_not_allowed(allow: String) -> Self {
        let failure =
            Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", format!("allowed: {allow}"));
        Self { allow: Some(allow), ..failure }
    }

    pub fn unavailable(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "service_unavailable", reason)
    }
}

impl From<DeskError> for Failure {
    fn from(error: DeskError) -> Self {
        match error {
            DeskError::LoginRefused(_) => Self::not_authenticated(),
            DeskError::AccessRefused(reason) => Self::not_authorised(reason),
            DeskError::Catalog(CatalogError::NotFound { reason }) => Self::not_found(reason),
            DeskError::Catalog(CatalogError::Forbidden { reason }) => Self::not_authorised(reason),
            DeskError::Catalog(CatalogError::Busy { reason }) => Self::unavailable(reason),
            DeskError::Catalog(
                CatalogError::PreconditionFailed { reason }
                | CatalogError::Inequivalent { reason }
                | CatalogError::Locked { reason }
                | CatalogError::Invalid { reason },
            )
            | DeskError::Refused(reason) => Self::bad_request(reason),
            DeskError::TimedOut => Self::unavailable("no answer in time"),
        }
    }
}

/// The answer as it goes out.
pub fn respond(result: Result<Reply, Failure>) -> Response<Body> {
    match result {
        Ok(Reply::Json(body)) => json_response(StatusCode::OK, body.to_string()),
        Ok(Reply::Rows(body)) => json_response(StatusCode::OK, body),
        Ok(Reply::Unhealthy(body)) => json_response(StatusCode::SERVICE_UNAVAILABLE, body.to_string()),
        Ok(Reply::Created(location)) => {
            let mut response = empty(StatusCode::CREATED);
            if let Some(location) = location.and_then(|l| HeaderValue::try_from(l).ok()) {
                response.headers_mut().insert(header::LOCATION, location);
            }
            response
        }
        Ok(Reply::NoContent) => empty(StatusCode::NO_CONTENT),
        Ok(Reply::Page(text)) => {
            let mut response = Response::new(Body::from(text));
            let kind = HeaderValue::from_static("text/html; charset=utf-8");
            response.headers_mut().insert(header::CONTENT_TYPE, kind);
            response
        }
        Err(failure) => {
            let body = json!({ "error": failure.error, "reason": failure.reason });
            let mut response = json_response(failure.status, body.to_string());
            if failure.challenge {
                let realm = HeaderValue::from_static("Basic realm=\"Sluice Management\"");
                response.headers_mut().insert(header::WWW_AUTHENTICATE, realm);
            }
            if let Some(allow) = failure.allow.and_then(|a| HeaderValue::try_from(a).ok()) {
                response.headers_mut().insert(header::ALLOW, allow);
            }
            response
        }
    }
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

fn json_response(status: StatusCode, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
