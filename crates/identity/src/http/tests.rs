use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Mutex;

use amqp10::sasl::Secret;
use catalog::access::{Permission, Resource, Users, Verb};
use percent_encoding::percent_decode_str;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

type Asked = Arc<Mutex<Vec<(String, BTreeMap<String, String>)>>>;

/// A server that knows ann, who may use the virtual host `v`, and there queues whose name begins with `ann`.
async fn serve(asked: Asked) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
            // The test sends small requests, whose body is in the first or the second read.
            while !is_whole(&request) {
                let read = stream.read(&mut buffer).await.unwrap();
                request.extend_from_slice(&buffer[..read]);
            }
            let text = String::from_utf8(request).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            let path = head.split(' ').nth(1).unwrap();
            let (path, query) = path.split_once('?').unwrap_or((path, ""));
            let form = format!("{query}&{body}");
            let decode = |text: &str| percent_decode_str(text).decode_utf8().unwrap().into_owned();
            let fields: BTreeMap<String, String> = form
                .split('&')
                .filter_map(|pair| pair.split_once('='))
                .map(|(name, value)| (name.to_owned(), decode(value)))
                .collect();
            let of = |name: &str| fields.get(name).map_or("", String::as_str);
            let (status, answer) = match path {
                "/user" if of("username") == "broken" => ("500 Oh", "allow"),
                "/user" if of("username") == "strange" => ("200 OK", "<html>"),
                "/user" if (of("username"), of("password")) == ("ann", "p&=/ä") => {
                    ("200 OK", "Allow monitoring, x")
                }
                "/user" if of("username") == "ann" && !fields.contains_key("password") => {
                    ("200 OK", "allow administrator")
                }
                "/vhost" if of("vhost") == "v" => ("200 OK", "allow"),
                "/resource" if of("name").starts_with("ann") => ("200 OK", "allow\n"),
                "/topic" if of("routing_key") == "eu" => ("201 Created", "allow"),
                _ => ("200 OK", "deny because of something"),
            };
            asked.lock().unwrap().push((path.to_owned(), fields.clone()));
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{answer}", answer.len());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    port
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0)
}

fn options(port: u16) -> Options {
    let path = |name: &str| format!("http://127.0.0.1:{port}/{name}");
    Options {
        user_path: path("user"),
        vhost_path: path("vhost"),
        resource_path: path("resource"),
        topic_path: path("topic?fixed=1"),
        ..Options::default()
    }
}

fn login(user: &str, password: &'static str) -> Login {
    let credentials = Credentials::Plain { user: user.into(), password: Secret::new(password) };
    Login { credentials, from: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), at_ms: 0 }
}

/// Asks until it is known whether the user may do this.
async fn may(who: &Identity, vhost: &str, verb: Verb, on: Resource<'_>) -> bool {
    loop {
        match Users::default().permit(who, vhost, verb, &[on]) {
            Ok(()) => return true,
            Err(refused) => match refused.question {
                Some(question) => who.remote.as_ref().unwrap().ask(&question).await,
                None => return false,
            },
        }
    }
}

#[tokio::test]
async fn the_server_decides_logins_and_permissions() {
    for is_post in [false, true] {
        let asked = Asked::default();
        let port = serve(asked.clone()).await;
        let http = Http::load(&Options { is_post, ..options(port) }).unwrap();
        let who = http.clone().check(&login("ann", "p&=/ä")).await.unwrap();
        assert_eq!((&*who.user, &*who.tags), ("ann", &["monitoring".to_owned(), "x".to_owned()][..]));
        let queue = |name| Resource::Queue(name);
        assert!(may(&who, "v", Verb::OpenVhost, queue("")).await);
        assert!(!may(&who, "w", Verb::OpenVhost, queue("")).await);
        assert!(may(&who, "v", Verb::Consume, queue("ann.1")).await);
        assert!(!may(&who, "v", Verb::Consume, queue("bob.1")).await);
        assert!(!may(&who, "v", Verb::Publish, Resource::Exchange("")).await);
        assert!(may(&who, "v", Verb::PublishTopic, Resource::Topic { exchange: "x", key: "eu" }).await);
        assert!(!may(&who, "v", Verb::PublishTopic, Resource::Topic { exchange: "x", key: "us" }).await);
        let before = asked.lock().unwrap().len();
        assert!(may(&who, "v", Verb::Consume, queue("ann.1")).await, "known");
        let asked = asked.lock().unwrap();
        assert_eq!(asked.len(), before);
        let fields = |at: usize| {
            let (path, fields) = &asked[at];
            let all: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("{path} {}", all.join(" "))
        };
        assert_eq!(fields(0), "/user password=p&=/ä username=ann");
        assert_eq!(fields(1), "/vhost ip=10.0.0.1 tags=monitoring x username=ann vhost=v");
        assert_eq!(
            fields(3),
            "/resource name=ann.1 permission=read resource=queue tags=monitoring x username=ann vhost=v"
        );
        assert_eq!(asked[5].1["name"], "amq.default");
        let topic = &asked[6].1;
        assert_eq!(topic["routing_key"], "eu");
        assert_eq!((&*topic["permission"], &*topic["variable_map.vhost"]), (Permission::Write.as_str(), "v"));
    }
}

/// The server gets no password, and cannot make an administrator of the user of another backend.
#[tokio::test]
async fn a_user_who_is_authenticated_already_keeps_the_tags() {
    let asked = Asked::default();
    let http = Http::load(&options(serve(asked.clone()).await)).unwrap();
    let of = |user: &str| Login {
        credentials: Credentials::Authenticated { user: user.into(), tags: ["own".to_owned()].into() },
        ..login("", "")
    };
    let who = http.clone().check(&of("ann")).await.unwrap();
    assert_eq!((&*who.user, &*who.tags), ("ann", &["own".to_owned()][..]));
    assert!(may(&who, "v", Verb::OpenVhost, Resource::Queue("")).await);
    {
        let asked = asked.lock().unwrap();
        assert_eq!(asked[0].1.keys().collect::<Vec<_>>(), ["username"]);
        assert_eq!(asked[1].1["tags"], "own");
    }
    assert_eq!(http.check(&of("bob")).await.unwrap_err().to_string(), "http: the server refuses the login");
}

#[tokio::test]
async fn no_answer_is_no_login() {
    let port = serve(Asked::default()).await;
    let http = Http::load(&options(port)).unwrap();
    let refused = async |user: &str| http.clone().check(&login(user, "p")).await.unwrap_err().to_string();
    assert_eq!(refused("bob").await, "http: the server refuses the login");
    assert_eq!(refused("broken").await, "http: the server cannot be asked");
    assert_eq!(refused("strange").await, "http: the server cannot be asked");
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let http = Http::load(&options(closed)).unwrap();
    assert_eq!(
        http.check(&login("ann", "p")).await.unwrap_err().to_string(),
        "http: the server cannot be asked"
    );
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let refused = |options: Options| Http::load(&options).unwrap_err().to_string();
    let path = |url: &str| Options { vhost_path: url.into(), ..Options::default() };
    for url in ["", "localhost:8000", "ftp://h/", "http://"] {
        assert!(refused(path(url)).starts_with("auth_http.vhost_path: '"), "{url}");
    }
    let gone = Options { authorities: Some("/nothing/here".into()), ..Options::default() };
    let gone = refused(gone);
    assert!(
        gone.starts_with("auth_http.ssl_options.cacertfile: ") && gone.contains("/nothing/here"),
        "{gone}"
    );
}
