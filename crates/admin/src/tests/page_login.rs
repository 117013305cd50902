//! How users of the web page log in.

use axum::http::StatusCode;

use super::http::{Server, request};
use crate::{PageLogin, Ports};

#[tokio::test]
async fn the_page_asks_where_its_users_log_in() {
    let server = Server::start().await;
    let answer = server.ask(None, "GET", "/api/auth", "").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, r#"{"oauth_enabled":false}"#));

    for allows_passwords in [true, false] {
        let login = PageLogin {
            client_id: "page".to_owned(),
            provider_url: "https://idp".to_owned(),
            scopes: "openid".to_owned(),
            allows_passwords,
        };
        let server = Server::start_with(Ports::default().with_page_login(Some(login))).await;
        let answer = server.ask(None, "GET", "/api/auth", "").await;
        let expected = format!(
            r#"{{"oauth_enabled":true,"oauth_client_id":"page","oauth_provider_url":"https://idp","oauth_scopes":"openid","oauth_disable_basic_auth":{}}}"#,
            !allows_passwords
        );
        assert_eq!((answer.status, answer.body), (200, expected));
        let with_password = server.ask(Some("guest"), "GET", "/api/whoami", "").await;
        let expected = if allows_passwords { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
        assert_eq!(with_password.status, expected.as_u16());
        // Tokens are checked in any case: the admin API of the tests knows none.
        let token = request(server.management, "GET", "/api/whoami", "Authorization: Bearer t\r\n", "").await;
        assert_eq!(token.status, 401);
    }
}
