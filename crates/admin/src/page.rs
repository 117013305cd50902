//! The web page of the management port: static files, which are part of the program. Anybody may load them. The page
//! itself asks for a login and then uses the HTTP API.
//!
//! The files are built from `page/` in the repository; `page/check` compares them with what its sources build.

use axum::http::{HeaderMap, Method, header};

use crate::etag::Known;
use crate::page_file::{File, Served};
use crate::reply::{Failure, Reply};

/// All files. The one with the path `/` loads the others.
const FILES: &[File] = include!("../../../page/dist/files.rs");

/// Returns the page.
///
/// # Errors
/// 404 if the program was built without a page.
pub(crate) fn index(headers: &HeaderMap) -> Result<Reply, Failure> {
    serve("/", headers)
}

/// Returns a file that the page loads.
///
/// # Errors
/// 404 if there is none with this name.
pub(crate) fn asset(name: &str, headers: &HeaderMap) -> Result<Reply, Failure> {
    serve(&format!("/assets/{name}"), headers)
}

fn serve(path: &str, headers: &HeaderMap) -> Result<Reply, Failure> {
    let file = FILES.iter().find(|file| file.path == path);
    let file = file.ok_or_else(|| Failure::not_found(format!("the page has no file '{path}'")))?;
    let known = Known::of(&Method::GET, headers).is_some_and(|known| known.has(file.etag));
    Ok(Reply::File(Served { file, gzip: accepts_gzip(headers), known }))
}

/// Returns true if the client takes gzip. A weight of zero refuses it [RFC 9110, 12.5.3].
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|entry| {
        let (coding, weight) = entry.trim().split_once(';').unwrap_or((entry.trim(), ""));
        let weight = weight.trim().strip_prefix("q=").map(|weight| weight.trim_end_matches(['0', '.']));
        coding.trim().eq_ignore_ascii_case("gzip") && weight != Some("")
    })
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn the_page_loads_files_that_there_are() {
        let page = FILES.iter().find(|file| file.path == "/").unwrap();
        let text = std::str::from_utf8(page.plain).unwrap();
        let loaded: Vec<&str> = text.split('"').filter(|part| part.starts_with("/assets/")).collect();
        assert!(loaded.len() >= 3, "{loaded:?}");
        for path in loaded {
            assert!(FILES.iter().any(|file| file.path == path), "{path}");
        }
    }

    #[test]
    fn gzip_is_sent_to_those_who_take_it() {
        for (value, takes) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("deflate,gzip; q=1", true),
            ("gzip;q=0", false),
            ("gzip;q=0.000, br", false),
            ("identity", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            assert_eq!(accepts_gzip(&headers), takes, "{value}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
