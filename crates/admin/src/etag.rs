//! Tags of answers. A client that has an answer already is told so with 304 [RFC 9110, 13.1.2], and gets no body.
//!
//! Only answers that are in memory as a whole have a tag. It is a hash of the body, so the answer is made each time; the body is
//! not sent again.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::reply::json_response;

/// The bytes of the hash that a tag has. Two answers have the same tag once in 2^128.
const TAG_BYTES: usize = 16;

/// The tags of the answers that a client has.
#[derive(Debug)]
pub(crate) struct Known(Vec<String>);

impl Known {
    /// Reads the header `If-None-Match`. Returns `None` if the request is no GET, whose answers have no tag.
    pub(crate) fn of(method: &Method, headers: &HeaderMap) -> Option<Self> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return None;
        }
        let values = headers.get_all(header::IF_NONE_MATCH).into_iter();
        let tags = values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
        // A weak tag counts as well, because a proxy makes tags weak when it compresses answers.
        Some(Self(tags.map(|tag| tag.trim().trim_start_matches("W/").to_owned()).collect()))
    }

    /// Returns true if the client has the answer with this tag, which may be weak.
    pub(crate) fn has(&self, tag: &str) -> bool {
        let tag = tag.trim_start_matches("W/");
        self.0.iter().any(|known| known == tag || known == "*")
    }

    /// Returns the response: 200 with the body, or 304 if the client has it.
    pub(crate) fn respond(&self, body: &Value) -> Response<Body> {
        let body = body.to_string();
        let hash = Sha256::digest(body.as_bytes());
        let tag = format!("\"{}\"", URL_SAFE_NO_PAD.encode(&hash[..TAG_BYTES]));
        let mut response = if self.has(&tag) {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        } else {
            json_response(StatusCode::OK, body)
        };
        if let Ok(tag) = HeaderValue::try_from(tag) {
            response.headers_mut().insert(header::ETAG, tag);
        }
        response
    }
}
