//! The web page is served without a login, compressed, and from the cache of the browser.

use super::http::{Server, request};

#[tokio::test]
async fn the_page_and_its_files_are_cached_by_their_content() {
    let server = Server::start().await;
    let page = server.ask(None, "GET", "/", "").await;
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(page.header("cache-control"), Some("no-cache"));
    assert!(page.body.contains("Content-Security-Policy"), "{}", page.body);
    let known = format!("If-None-Match: \"other\", {}\r\n", page.header("etag").unwrap());
    let again = request(server.management, "GET", "/", &known, "").await;
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    let changed = request(server.management, "GET", "/", "If-None-Match: W/\"old\"\r\n", "").await;
    assert_eq!(changed.status, 200);

    let style = page.body.split('"').find(|part| part.ends_with(".css")).unwrap();
    let plain = server.ask(None, "GET", style, "").await;
    assert_eq!(plain.header("content-type"), Some("text/css; charset=utf-8"));
    assert_eq!(plain.header("cache-control"), Some("public, max-age=31536000, immutable"));
    assert_eq!(plain.header("content-encoding"), None);
    let packed = request(server.management, "HEAD", style, "Accept-Encoding: br, gzip\r\n", "").await;
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    let bytes =
        |answer: &super::http::Answer| answer.header("content-length").unwrap().parse::<usize>().unwrap();
    assert!(bytes(&packed) * 2 < bytes(&plain), "{} of {}", bytes(&packed), bytes(&plain));
}

#[tokio::test]
async fn only_files_of_the_page_are_served() {
    let server = Server::start().await;
    for path in ["/assets/nope.js", "/assets/..%2Findex.html", "/assets/", "/index.html"] {
        assert_eq!(server.ask(None, "GET", path, "").await.status, 404, "{path}");
    }
    assert_eq!(server.ask(None, "POST", "/", "").await.status, 405);
}
