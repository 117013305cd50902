//! Ports on which another client holds many connections.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use amqp10::sasl::Secret;
use axum::Router;
use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{ConnectInfo, Request};
use axum::http::Response;
use broker::admin_api::QueueSpec;
use catalog::access::Identity;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use node::AdminApi;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::http::{Server, request};
use super::test_node::TestNode;
use crate::pages::PAGE_BYTES;
use crate::{Ports, management_router, metrics_router};

/// The number of connections of the other client. It is more than the port has places.
const CROWD: usize = 1_100;

/// The time within which a response must arrive.
const PATIENCE: Duration = Duration::from_secs(20);

/// The credentials `guest:guest`, encoded.
const LOGIN: &str = "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n";

/// Opens connections that have all sent this part of a request.
async fn crowd(to: SocketAddr, sent: &str) -> Vec<TcpStream> {
    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        let mut stream = TcpStream::connect(to).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        crowd.push(stream);
    }
    crowd
}

#[tokio::test]
async fn health_checks_answer_on_a_crowded_port() {
    let answered = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    for sent in ["", "GET /api/health/che", answered] {
        let server = Server::start().await;
        let _crowd = crowd(server.management, sent).await;
        for _ in 0..3 {
            let check = request(server.management, "GET", "/api/health/checks/alarms", LOGIN, "");
            let check =
                timeout(PATIENCE, check).await.unwrap_or_else(|_| panic!("no answer behind {sent:?}"));
            assert_eq!((check.status, &*check.body), (200, r#"{"status":"ok"}"#));
        }
    }
}

/// The number of queues. With eleven measures each, the metrics have about 3 MB of text.
const QUEUES: usize = 4_000;

async fn guest(api: &AdminApi) -> Identity {
    api.login("guest", &Secret::new("guest"), [127, 0, 0, 1].into()).await.unwrap()
}

async fn declare_queues(api: &AdminApi, names: impl Iterator<Item = String>) {
    let who = guest(api).await;
    for name in names {
        let (durable, auto_delete) = (true, false);
        let (vhost, name, arguments) = ("/".into(), name.into(), Default::default());
        let spec = QueueSpec { vhost, name, durable, auto_delete, arguments };
        api.declare_queue(&who, spec).await.unwrap();
    }
}

/// Declares queues named `q0000` and so on.
async fn declare_many_queues(api: &AdminApi) {
    declare_queues(api, (0..QUEUES).map(|number| format!("q{number:04}"))).await;
}

/// Sends a request without reading the response; the receive buffer is small.
async fn ask_and_do_not_read(to: SocketAddr, request: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(to).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Waits until the admin API makes no more rows, and returns their number.
async fn rows_in_the_end(server: &Server) -> usize {
    let mut before = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let rows = server.api.state().reports.iter().sum();
        if rows > 0 && rows == before {
            return rows;
        }
        before = rows;
    }
}

#[tokio::test]
async fn unread_responses_are_not_generated() {
    let server = Server::start().await;
    declare_many_queues(&server.api).await;
    let (metrics, management) = (server.metrics, server.management);
    let per_object = "GET /metrics/per-object HTTP/1.1\r\nHost: h\r\n\r\n".to_owned();
    let list = format!("GET /api/queues HTTP/1.1\r\nHost: h\r\n{LOGIN}\r\n");
    for (to, asked, rows_of_one) in [(metrics, per_object, 11 * QUEUES), (management, list, QUEUES)] {
        server.api.state().reports.clear();
        let mut unread = Vec::new();
        for _ in 0..20 {
            unread.push(ask_and_do_not_read(to, &asked).await);
        }
        let made = timeout(PATIENCE, rows_in_the_end(&server)).await.unwrap();
        assert!(made < 20 * rows_of_one / 4, "{made} rows of 20 times {rows_of_one}");
    }
}

#[tokio::test]
async fn an_answer_of_many_pages_is_whole() {
    let server = Server::start().await;
    declare_many_queues(&server.api).await;
    let page = request(server.metrics, "GET", "/metrics/per-object", "", "").await;
    assert_eq!(page.header("content-length"), None);
    for family in ["queue_messages_ready", "queue_consumers", "queue_messages_acked_total"] {
        let head = format!("# TYPE rabbitmq_{family} ");
        assert_eq!(page.body.matches(&head).count(), 1);
        let (_, behind) = page.body.split_once(&head).unwrap();
        let samples: Vec<&str> = behind.lines().skip(2).take_while(|line| !line.starts_with('#')).collect();
        assert_eq!(samples.len(), QUEUES);
        assert!(samples.iter().all(|line| line.starts_with(&format!("rabbitmq_{family}{{vhost="))));
    }
    let list = request(server.management, "GET", "/api/queues?columns=name", LOGIN, "").await;
    let names: Vec<String> = (0..QUEUES).map(|number| format!("{{\"name\":\"q{number:04}\"}}")).collect();
    assert_eq!(list.body, format!("[{}]", names.join(",")));
}

/// Returns the response of a router. There is no socket, which would buffer a part of it.
async fn answer(router: &Router, path: &str) -> Response<Body> {
    let login = LOGIN.trim().strip_prefix("Authorization: ").unwrap();
    let request = Request::get(path).header("host", "h").header("authorization", login);
    let mut request = request.body(Body::empty()).unwrap();
    request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 1))));
    TowerToHyperService::new(router.clone()).call(request).await.unwrap()
}

/// Reads the rest of a body, page by page.
async fn pages(mut body: Body) -> Vec<Bytes> {
    let mut pages = Vec::new();
    while let Some(page) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        pages.push(page.unwrap().into_data().unwrap());
    }
    pages
}

/// Checks that a client that reads nothing costs no more than a page and a row, however long the names are.
#[tokio::test]
async fn a_page_ends_with_the_row_that_fills_it() {
    let (api, ports) = (TestNode::new(), Ports::default());
    declare_queues(&api, (0..600).map(|number| format!("{number:0200}"))).await;
    let (list, metrics) = (management_router(api.api(), ports.clone()), metrics_router(api.api(), ports));
    for (router, path, row_max) in [
        (&list, "/api/queues", 2_000),
        (&list, "/api/definitions", 2_000),
        (&list, "/api/definitions/%2F", 2_000),
        (&metrics, "/metrics/per-object", 400),
    ] {
        let pages = pages(answer(router, path).await.into_body()).await;
        let sizes: Vec<usize> = pages.iter().map(Bytes::len).collect();
        // The first page of metrics has all figures of the node, whose number does not grow.
        let is_small =
            sizes[0] < 2 * PAGE_BYTES && sizes[1..].iter().all(|size| *size < PAGE_BYTES + row_max);
        assert!(sizes.len() > 10 && is_small, "{sizes:?}");
    }
}

#[tokio::test]
async fn unread_lists_count_their_queue_ids() {
    let (api, ports) = (TestNode::new(), Ports::with_bytes(1, 1, QUEUES * 20));
    declare_many_queues(&api).await;
    let router = management_router(api.api(), ports.clone());
    let unread = [answer(&router, "/api/queues").await, answer(&router, "/api/queues").await];
    assert_eq!(ports.answers().used(), 2 * QUEUES * 8);
    let refused = answer(&router, "/api/queues").await;
    assert_eq!(refused.status(), 503);
    let reason = pages(refused.into_body()).await.concat();
    let reason = String::from_utf8_lossy(&reason);
    assert!(reason.contains("may take 80000 bytes of memory: ask for pages"), "{reason}");
    assert_eq!(answer(&router, "/api/queues?page=1").await.status(), 200, "a page needs no list");
    for unread in unread {
        pages(unread.into_body()).await;
    }
    assert_eq!(ports.answers().used(), 0);
    assert_eq!(answer(&router, "/api/queues").await.status(), 200);
}

#[tokio::test]
async fn unread_definitions_count_their_references() {
    let (api, ports) = (TestNode::new(), Ports::with_bytes(1, 1, QUEUES * 20));
    declare_many_queues(&api).await;
    let router = management_router(api.api(), ports.clone());
    let unread = answer(&router, "/api/definitions").await;
    let one = ports.answers().used();
    assert!((QUEUES * 8..QUEUES * 10).contains(&one), "{one}");
    let second = answer(&router, "/api/definitions/%2F").await;
    assert_eq!(answer(&router, "/api/definitions").await.status(), 503);
    let text = pages(unread.into_body()).await.concat();
    let all: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(all["queues"].as_array().unwrap().len(), QUEUES);
    drop(second);
    assert_eq!(ports.answers().used(), 0);
}

/// Checks that a list whose client does not read keeps no deleted queues in memory, and does not show them.
#[tokio::test]
async fn an_unread_list_keeps_no_deleted_queue() {
    let api = TestNode::new();
    declare_many_queues(&api).await;
    let unread = answer(&management_router(api.api(), Ports::default()), "/api/queues").await;
    let last = format!("q{:04}", QUEUES - 1);
    let record = api.with_catalog(|catalog| {
        catalog.listed_queue("/", &last).map(|record| Arc::downgrade(&record)).unwrap()
    });
    api.delete_queue(&guest(&api).await, "/", &last, false, false).await.unwrap();
    assert!(record.upgrade().is_none(), "the list keeps it");
    let list = pages(unread.into_body()).await.concat();
    let list: Vec<serde_json::Value> = serde_json::from_slice(&list).unwrap();
    assert_eq!(list.len(), QUEUES - 1);
    assert_eq!(list[QUEUES - 2]["name"], format!("q{:04}", QUEUES - 2));
}

/// Returns the head and a part of the body of a request to declare a queue.
fn put(announced: usize, sent: usize) -> String {
    let head =
        format!("PUT /api/queues/%2F/q HTTP/1.1\r\nHost: h\r\n{LOGIN}Content-Length: {announced}\r\n\r\n");
    format!("{head}{{\"note\":\"{}", "x".repeat(sent))
}

#[tokio::test]
async fn bodies_share_a_budget() {
    let server = Server::start_with(Ports::with_bytes(100, 1 << 20, 1 << 20)).await;
    // A body that was only announced costs nothing.
    let mut held = vec![ask_and_do_not_read(server.management, &put(9_000_000, 0)).await];
    let mut refused = Vec::new();
    for _ in 0..8 {
        held.push(ask_and_do_not_read(server.management, &put(900_000, 400_000)).await);
    }
    let some_are_refused = async {
        while refused.is_empty() {
            for stream in &mut held {
                let mut answer = [0; 1024];
                if let Ok(read @ 1..) = stream.try_read(&mut answer) {
                    refused.push(String::from_utf8_lossy(&answer[..read]).into_owned());
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, some_are_refused).await.expect("everybody is read");
    for answer in refused {
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        assert!(
            answer.contains("the bodies of all HTTP requests may take 1048576 bytes of memory"),
            "{answer}"
        );
    }
    drop(held);
    let there_is_room_again = async {
        let body = format!("{{\"note\":\"{}\"}}", "x".repeat(400_000));
        while server.ask(Some("guest"), "PUT", "/api/queues/%2F/q", &body).await.status != 201 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, there_is_room_again).await.expect("nothing is given back");
}
