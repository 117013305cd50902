//! A file of the web page, and the response with it.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};

/// A file of the page.
#[derive(Debug)]
pub(crate) struct File {
    /// The path in the address, from the root.
    pub path: &'static str,
    pub content_type: &'static str,
    pub etag: &'static str,
    pub plain: &'static [u8],
    pub gzip: &'static [u8],
}

/// The page loads the others by names that change with their content, so it must be asked for each time.
const CACHE_OF_PAGE: HeaderValue = HeaderValue::from_static("no-cache");

/// The name of the file has a hash of its content, so the content never changes.
const CACHE_OF_OTHERS: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

/// A file in the form that a client asked for.
#[derive(Debug)]
pub(crate) struct Served {
    pub file: &'static File,
    pub gzip: bool,
    /// True if the client has this content already.
    pub known: bool,
}

/// Builds the HTTP response.
pub(crate) fn respond(Served { file, gzip, known }: &Served) -> Response<Body> {
    let mut response = match (known, gzip) {
        (true, _) => Response::new(Body::empty()),
        (false, true) => Response::new(Body::from(file.gzip)),
        (false, false) => Response::new(Body::from(file.plain)),
    };
    if *known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    headers.insert(header::ETAG, HeaderValue::from_static(file.etag));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    headers.insert(header::CACHE_CONTROL, if file.path == "/" { CACHE_OF_PAGE } else { CACHE_OF_OTHERS });
    if !known {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(file.content_type));
        if *gzip {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
    }
    response
}
