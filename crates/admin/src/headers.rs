//! The headers that protect browsers, on every response, and CORS: whether pages of other origins may use the API.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, header};
use axum::middleware::Next;

use crate::header_options::HeaderOptions;
use crate::ports::Ports;
use crate::reply::{Failure, respond};
use crate::routes::{self, Found, find};

/// The headers of an answer that must not be stored without asking again. Answers about the web page say more.
const CACHE_CONTROL: HeaderValue = HeaderValue::from_static("no-cache");

/// Answers OPTIONS, passes other requests on, and adds the headers to the response.
pub(crate) async fn add(State(ports): State<Ports>, request: Request, next: Next) -> Response<Body> {
    let options = ports.headers();
    let origin = allowed_origin(request.headers(), &options.origins);
    let mut response = if *request.method() == Method::OPTIONS {
        describe(&request, origin.is_some(), options)
    } else {
        next.run(request).await
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, options.policy.clone());
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.entry(header::CACHE_CONTROL).or_insert(CACHE_CONTROL);
    if let Some(hsts) = options.hsts.as_ref().filter(|_| ports.is_tls()) {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, hsts.clone());
    }
    if !options.origins.is_empty() {
        // A cache must not give the answer for one origin to another.
        headers.append(header::VARY, HeaderValue::from_static("origin"));
    }
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    }
    response
}

/// Returns the origin of the request, if its pages may use the API. A page without an origin of its own sends `null`, and may
/// not.
fn allowed_origin(headers: &HeaderMap, origins: &[String]) -> Option<HeaderValue> {
    let origin = headers.get(header::ORIGIN)?;
    let text = origin.to_str().ok().filter(|text| *text != "null")?;
    origins.iter().any(|allowed| allowed == "*" || allowed == text).then(|| origin.clone())
}

/// Answers OPTIONS: which methods the path has. It needs no login, because browsers ask without one.
fn describe(request: &Request, is_allowed: bool, options: &HeaderOptions) -> Response<Body> {
    let methods = match find(None, request.uri().path()) {
        Found::OtherMethods(methods) => methods,
        Found::BadPath => return respond(Err(Failure::bad_request("the path is not UTF-8"))),
        Found::Nothing | Found::Route { .. } => return respond(Err(Failure::unknown_path())),
    };
    let mut response = Response::new(Body::empty());
    let headers = response.headers_mut();
    let mut put = |name: HeaderName, value: &str| {
        // The values are names of methods and numbers, so each is a valid header.
        HeaderValue::from_str(value).into_iter().for_each(|value| _ = headers.insert(name.clone(), value));
    };
    let methods = routes::allowed(&methods);
    put(header::ALLOW, &methods);
    if is_allowed {
        put(header::ACCESS_CONTROL_ALLOW_METHODS, &methods);
        put(header::ACCESS_CONTROL_MAX_AGE, &options.max_age_s.to_string());
        // As in RabbitMQ, all headers are allowed that the browser asks for.
        let asked = request.headers().get(header::ACCESS_CONTROL_REQUEST_HEADERS);
        asked.into_iter().for_each(|asked| {
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
        });
    }
    response
}
