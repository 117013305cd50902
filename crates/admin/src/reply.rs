//! The results of handlers, and how errors look: `{"error": .., "reason": ..}` with RabbitMQ's status. A 404 has RabbitMQ's texts
//! there, and says what is missing in `detail`.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use broker::admin_api::AdminError;
use catalog::CatalogError;
use serde_json::{Value, json};

use crate::budget::Reservation;
use crate::page_file::{self, Served};

/// The result of a handler.
#[derive(Debug)]
pub(crate) enum Reply {
    /// 200 with a body.
    Json(Value),
    /// 200 with a body that already is JSON: a long list.
    Rows(Body),
    /// 200 with such a body, whose memory is counted in the budget for responses already.
    Counted(String, Reservation),
    /// 201 with the location of the new object, relative to the host.
    Created(Option<String>),
    /// 204 without a body.
    NoContent,
    /// 503 with a body: a failed health check.
    Unhealthy(Value),
    /// 200 with a file of the web page, or 304.
    File(Served),
}

/// Why a request was not carried out.
#[derive(Debug)]
pub struct Failure {
    pub status: StatusCode,
    pub error: &'static str,
    pub reason: String,
    /// What is missing, for 404, where programs know RabbitMQ's reason.
    pub detail: Option<String>,
    /// For 405: the methods that the path supports.
    pub allow: Option<String>,
    /// True if the response asks the client for other credentials.
    pub challenge: bool,
    /// For 503: the time after which the client may try again, in seconds, if it is known.
    pub retry_after_s: Option<u64>,
    /// True if the connection is closed after the response.
    pub closes: bool,
}

/// The time after which a client may repeat a request that an alarm has refused, in seconds. An alarm ends when consumers have
/// made room, which takes longer than the second between two measurements.
const ALARM_RETRY_S: u64 = 5;

/// The error of a 404 whose reason says which kind of object is missing.
const NAMED_NOT_FOUND: &str = "not_found";

impl Failure {
    fn new(status: StatusCode, error: &'static str, reason: impl Into<String>) -> Self {
        Self {
            status,
            error,
            reason: reason.into(),
            detail: None,
            allow: None,
            challenge: false,
            retry_after_s: None,
            closes: false,
        }
    }

    /// 400 with one of RabbitMQ's error names.
    pub fn bad(error: &'static str, reason: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error, reason)
    }

    pub fn bad_request(reason: impl Into<String>) -> Self {
        Self::bad("bad_request", reason)
    }

    /// 404 with RabbitMQ's texts. `detail` says what there is not.
    pub fn not_found(detail: impl Into<String>) -> Self {
        let failure = Self::new(StatusCode::NOT_FOUND, "Object Not Found", "Not Found");
        Self { detail: Some(detail.into()), ..failure }
    }

    /// 404: no route has the path of the request.
    pub fn unknown_path() -> Self {
        Self::not_found("the API has no such path")
    }

    /// Changes a 404 to RabbitMQ's texts for the routes of messages, where `reason` says which kind of object is missing. Does nothing
    /// if the reason says this already, or to another failure.
    #[must_use]
    pub fn naming(self, reason: &str) -> Self {
        if self.status != StatusCode::NOT_FOUND || self.error == NAMED_NOT_FOUND {
            return self;
        }
        Self { error: NAMED_NOT_FOUND, reason: reason.to_owned(), ..self }
    }

    /// Returns the sentence for people: the detail if there is one, and otherwise the reason.
    pub fn text(&self) -> &str {
        self.detail.as_deref().unwrap_or(&self.reason)
    }

    /// 401 with a challenge: the sender is not authenticated.
    pub fn not_authenticated() -> Self {
        let failure = Self::new(StatusCode::UNAUTHORIZED, "not_authorized", "Not_Authorized");
        Self { challenge: true, ..failure }
    }

    /// 401: the user is known but lacks permission. RabbitMQ answers 401 here, too.
    pub fn not_authorised(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "not_authorised", reason)
    }

    /// 403: nobody may send such a request, whoever logs in.
    pub fn forbidden(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", reason)
    }

    /// 412: the condition of the request is not met [RFC 9110, 13.1].
    pub fn precondition_failed(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::PRECONDITION_FAILED, "precondition_failed", reason)
    }

    /// 415: the body has a type that is not read.
    pub fn unsupported_media_type(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", reason)
    }

    pub fn method_not_allowed(allow: String) -> Self {
        let failure =
            Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", format!("allowed: {allow}"));
        Self { allow: Some(allow), ..failure }
    }

    /// 501: Sluice does not have what the request is about.
    pub fn missing(instead: &str) -> Self {
        Self::new(StatusCode::NOT_IMPLEMENTED, "not_implemented", instead)
    }

    pub fn unavailable(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "service_unavailable", reason)
    }

    /// 503: an alarm stops publishers.
    pub fn alarm(reason: impl Into<String>) -> Self {
        Self { retry_after_s: Some(ALARM_RETRY_S), ..Self::unavailable(reason) }
    }
}

impl From<AdminError> for Failure {
    fn from(error: AdminError) -> Self {
        match error {
            AdminError::LoginRefused(_) | AdminError::LoginWaits { .. } => Self::not_authenticated(),
            AdminError::LoginClosed(_) => Self { closes: true, ..Self::not_authenticated() },
            AdminError::AccessRefused(reason) => Self::not_authorised(reason),
            AdminError::Catalog(error @ CatalogError::InBatch { .. }) => Self::bad_request(error.to_string()),
            AdminError::Catalog(CatalogError::NotFound { reason }) => Self::not_found(reason),
            AdminError::Catalog(CatalogError::Forbidden { reason }) => Self::not_authorised(reason),
            AdminError::Catalog(
                CatalogError::Busy { reason }
                | CatalogError::Unavailable { reason }
                | CatalogError::OutcomeUnknown { reason },
            ) => Self::unavailable(reason),
            AdminError::Catalog(
                CatalogError::PreconditionFailed { reason }
                | CatalogError::Inequivalent { reason }
                | CatalogError::Locked { reason }
                | CatalogError::LimitReached { reason }
                | CatalogError::Denied { reason }
                | CatalogError::Invalid { reason },
            )
            | AdminError::Refused(reason) => Self::bad_request(reason),
            // As in RabbitMQ.
            AdminError::Impossible(reason) => Self::unavailable(reason),
            AdminError::TimedOut => Self::unavailable("no answer in time"),
        }
    }
}

/// Builds the HTTP response.
pub(crate) fn respond(result: Result<Reply, Failure>) -> Response<Body> {
    match result {
        Ok(Reply::Json(body)) => json_response(StatusCode::OK, body.to_string()),
        Ok(Reply::Rows(body)) => json_response(StatusCode::OK, body),
        Ok(Reply::Counted(text, held)) => {
            let mut response = json_response(StatusCode::OK, text);
            response.extensions_mut().insert(Arc::new(held));
            response
        }
        Ok(Reply::Unhealthy(body)) => json_response(StatusCode::SERVICE_UNAVAILABLE, body.to_string()),
        Ok(Reply::Created(location)) => {
            let mut response = empty(StatusCode::CREATED);
            if let Some(location) = location.and_then(|l| HeaderValue::try_from(l).ok()) {
                response.headers_mut().insert(header::LOCATION, location);
            }
            response
        }
        Ok(Reply::NoContent) => empty(StatusCode::NO_CONTENT),
        Ok(Reply::File(served)) => page_file::respond(&served),
        Err(failure) => {
            let mut body = json!({ "error": failure.error, "reason": failure.reason });
            if let Some(detail) = failure.detail {
                body["detail"] = detail.into();
            }
            let mut response = json_response(failure.status, body.to_string());
            if failure.challenge {
                let realm = HeaderValue::from_static("Basic realm=\"Sluice Management\"");
                response.headers_mut().insert(header::WWW_AUTHENTICATE, realm);
            }
            if let Some(allow) = failure.allow.and_then(|a| HeaderValue::try_from(a).ok()) {
                response.headers_mut().insert(header::ALLOW, allow);
            }
            if let Some(seconds) = failure.retry_after_s {
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            }
            if failure.closes {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
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

/// Builds a response whose body is JSON.
pub(crate) fn json_response(status: StatusCode, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
