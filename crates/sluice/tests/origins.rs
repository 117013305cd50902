//! Who may use the management API in a browser: the settings about hosts and origins.

use crate::broker;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use broker::verb::basic;
use broker::{Broker, Directory, Starting};

/// Sends one request with these headers. Returns the status and the answer.
fn ask(broker: &Broker, login: (&str, &str), method: &str, path: &str, headers: &str) -> (u16, String) {
    let mut socket = TcpStream::connect(("127.0.0.1", broker.http_port)).unwrap();
    let login = basic(login.0, login.1);
    write!(
        socket,
        "{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: 0\r\nAuthorization: {login}\r\n{headers}\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

const GUEST: (&str, &str) = ("guest", "guest");

#[test]
fn a_name_of_another_site_logs_in_nobody_whose_password_is_known() {
    let directory = Directory::new("rebinding");
    let settings = [
        "loopback_users=none",
        "loopback_users.local=true",
        "management.allowed_hosts.1=mq.example",
        "password_hashing=sha256",
    ];
    let broker = Starting::spawn(&directory, &settings).finish();
    for user in ["local", "other"] {
        let body = format!(r#"{{"password":"{user}","tags":"management"}}"#);
        assert_eq!(broker.ask("PUT", &format!("/api/users/{user}"), &body).0, 201);
    }
    let whoami = |login, host: &str| ask(&broker, login, "GET", "/api/whoami", &format!("Host: {host}\r\n"));
    let machine = rustix::system::uname().nodename().to_str().unwrap().to_owned();
    for login in [GUEST, ("local", "local"), ("other", "other")] {
        for host in ["127.0.0.1:15672", "localhost:1", "[::1]", "mq.example:15672", &machine] {
            assert_eq!(whoami(login, host).0, 200, "{login:?} {host}");
        }
        let (status, answer) = whoami(login, "evil.example:15672");
        if login.0 == "other" {
            assert_eq!(status, 200);
        } else {
            assert!(status == 401 && answer.contains("management.allowed_hosts"), "{login:?}: {answer}");
        }
    }
    assert!(
        directory.logged().contains("cannot log in with the host name 'evil.example:15672'"),
        "{}",
        directory.logged()
    );
    // With a password of its own, the user is as any other.
    assert_eq!(broker.ask("PUT", "/api/users/guest", r#"{"password":"own","tags":"administrator"}"#).0, 204);
    assert_eq!(whoami(("guest", "own"), "evil.example").0, 200);
}

#[test]
fn pages_of_listed_origins_and_hosts_may_change_the_broker() {
    let directory = Directory::new("origins");
    let settings = [
        "management.allowed_hosts.proxy=mq.example:8443",
        "management.cors.allow_origins.tools=https://tools.example",
        "password_hashing=sha256",
    ];
    let broker = Starting::spawn(&directory, &settings).finish();
    let put = |headers: &str| {
        ask(&broker, GUEST, "PUT", "/api/vhosts/v", &format!("Host: 127.0.0.1:15672\r\n{headers}"))
    };
    for (headers, passes) in [
        ("", true),
        ("Origin: http://127.0.0.1:15672\r\n", true),
        ("Origin: https://mq.example:8443\r\n", true),
        ("Origin: https://tools.example\r\nSec-Fetch-Site: cross-site\r\n", true),
        ("Origin: https://mq.example\r\n", false),
        ("Origin: http://localhost:15672\r\n", false),
        ("Sec-Fetch-Site: cross-site\r\n", false),
    ] {
        let (status, answer) = put(headers);
        assert_eq!(status == 403, !passes, "{headers}: {answer}");
        assert!(passes || answer.contains("management.allowed_hosts"), "{answer}");
        assert!(!passes || (200..300).contains(&status), "{headers}: {answer}");
    }
    assert!(directory.logged().contains("a page of another origin"), "{}", directory.logged());
    assert!(!directory.logged().contains("a page of any web site"), "{}", directory.logged());

    let directory = Directory::new("any-origin");
    let broker = Starting::spawn(&directory, &["management.cors.allow_origins.1=*"]).finish();
    let headers = "Host: 127.0.0.1\r\nOrigin: https://evil.example\r\nSec-Fetch-Site: cross-site\r\n";
    assert_eq!(ask(&broker, GUEST, "PUT", "/api/vhosts/v", headers).0, 201);
    assert!(directory.logged().contains("management.cors.allow_origins.1 = *"), "{}", directory.logged());
}
