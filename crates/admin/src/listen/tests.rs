use axum::routing::get;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::OwnedReadHalf;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::ports::Counts;

/// The time within which a condition must be met. After it, the test fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// A time that is so long that no test waits for it.
const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(50);

const BOUNDS: Bounds = Bounds { places: 8, head: LONG, idle: LONG, stall: LONG, finish: LONG, retry: LONG };

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";

/// The size of a response that no socket buffer can hold.
const LARGE: usize = 64 << 20;

fn start(listener: TcpListener, tls: Option<Arc<Tls>>, bounds: Bounds) -> (SocketAddr, Ports) {
    let (address, ports) = (listener.local_addr().unwrap(), Ports::with_bytes(1, 1, 3 * LARGE / 2));
    let router = Router::new()
        .route("/", get(|| async { "ok" }))
        .route("/large", get(|| async { vec![b'x'; LARGE] }))
        .route("/never", get(|| async { std::future::pending::<&str>().await }));
    let counted = ports.clone();
    tokio::spawn(async move { run(listener, tls, router, bounds, &counted, std::future::pending()).await });
    (address, ports)
}

async fn port(bounds: Bounds) -> (SocketAddr, Ports) {
    start(TcpListener::bind("127.0.0.1:0").await.unwrap(), None, bounds)
}

/// A port that speaks TLS, and how a client connects to it.
struct Encrypted {
    address: SocketAddr,
    ports: Ports,
    connector: TlsConnector,
}

impl Encrypted {
    async fn start(name: &str, bounds: Bounds) -> Self {
        let folder = std::env::temp_dir().join(format!("sluice-listen-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (certificate, key) = (folder.join("server.pem"), folder.join("server.key"));
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let trust = tls::ClientOptions { authorities: Some(certificate.clone()), identity: None };
        let connector = TlsConnector::from(trust.load().unwrap());
        let pair = tls::Pair { certificate, key };
        let options = tls::Options { pair, tls12: true, tls13: true, ..tls::Options::default() };
        let tls = Tls::load(options).unwrap();
        std::fs::remove_dir_all(folder).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, ports) = start(listener, Some(Arc::new(tls)), bounds);
        Self { address, ports, connector }
    }

    async fn connect(&self) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        self.connector.connect("localhost".try_into().unwrap(), stream).await.unwrap()
    }
}

async fn send(to: SocketAddr, sent: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.write_all(sent).await.unwrap();
    stream
}

/// Reads a response with a two-byte body.
async fn read_answer(stream: &mut TcpStream) {
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\nok") {
        let read = tokio::time::timeout(PATIENCE, stream.read_buf(&mut answer)).await.unwrap().unwrap();
        assert!(read > 0, "closed behind {:?}", String::from_utf8_lossy(&answer));
    }
}

/// Reads until the peer closes. Returns the number of bytes; a reset counts as a close.
async fn is_closed(mut stream: OwnedReadHalf) -> u64 {
    let mut sink = tokio::io::sink();
    let closed = tokio::io::copy(&mut stream, &mut sink);
    tokio::time::timeout(PATIENCE, closed).await.expect("it stays open").unwrap_or(0)
}

#[tokio::test]
async fn a_slow_head_times_out() {
    let (address, _) = port(Bounds { head: SHORT, ..BOUNDS }).await;
    let (silent, _writer) = send(address, b"").await.into_split();
    is_closed(silent).await;
    let (slow, mut writer) = send(address, b"GET / HTTP/1.1\r\nHost: h\r\n").await.into_split();
    let trickle = async {
        // The loop ends when the peer has closed.
        while writer.write_all(b"X-A: b\r\n").await.is_ok() {
            tokio::time::sleep(SHORT / 10).await;
        }
    };
    tokio::time::timeout(PATIENCE, trickle).await.expect("it stays open");
    is_closed(slow).await;
}

#[tokio::test]
async fn an_idle_connection_has_its_own_timeout() {
    let (address, _) = port(Bounds { head: SHORT, ..BOUNDS }).await;
    let mut kept = send(address, REQUEST).await;
    read_answer(&mut kept).await;
    tokio::time::sleep(2 * SHORT).await;
    kept.write_all(REQUEST).await.unwrap();
    read_answer(&mut kept).await;
    // The time for the head of the next request starts with its first byte.
    kept.write_all(&REQUEST[..5]).await.unwrap();
    is_closed(kept.into_split().0).await;

    let (address, _) = port(Bounds { idle: SHORT, ..BOUNDS }).await;
    let mut idle = send(address, REQUEST).await;
    read_answer(&mut idle).await;
    is_closed(idle.into_split().0).await;
}

#[tokio::test]
async fn a_port_that_cannot_accept_stops_immediately() {
    // The socket is bound but does not listen, so every attempt fails.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let listener = TcpListener::from_std(socket.into()).unwrap();
    let ports = Ports::new(1);
    let run = run(listener, None, Router::new(), BOUNDS, &ports, sleep(SHORT));
    tokio::time::timeout(PATIENCE, run).await.expect("it waits until it may accept again").unwrap();
}

#[tokio::test]
async fn a_connection_that_reads_nothing_is_closed() {
    let (address, _) = port(Bounds { stall: SHORT, ..BOUNDS }).await;
    let (unread, _writer) = send(address, b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n").await.into_split();
    // The server gives up within this time, as the number of bytes shows.
    tokio::time::sleep(20 * SHORT).await;
    let taken = is_closed(unread).await;
    assert!(taken < LARGE as u64, "{taken}");
}

#[tokio::test]
async fn an_encrypted_connection_that_reads_nothing_is_closed() {
    let port = Encrypted::start("unread", Bounds { stall: SHORT, ..BOUNDS }).await;
    let mut stream = port.connect().await;
    // Small responses wait for the socket only after they were encrypted.
    let send_without_end = async { while stream.write_all(REQUEST).await.is_ok() {} };
    tokio::time::timeout(PATIENCE, send_without_end).await.expect("it stays open");
}

#[tokio::test]
async fn a_handshake_can_lose_its_place() {
    let port = Encrypted::start("handshake", BOUNDS).await;
    let mut silent = Vec::new();
    for _ in 0..BOUNDS.places {
        silent.push(TcpStream::connect(port.address).await.unwrap());
    }
    drop(port.connect().await);
    is_closed(silent.swap_remove(0).into_split().0).await;
    assert!(port.ports.counts().evicted > 0);
}

#[tokio::test]
async fn a_new_connection_replaces_only_a_waiting_one() {
    let (address, ports) = port(BOUNDS).await;
    let mut answered = send(address, REQUEST).await;
    read_answer(&mut answered).await;
    let mut working = Vec::new();
    for _ in 0..3 {
        working.push(send(address, b"GET /never HTTP/1.1\r\nHost: h\r\n\r\n").await);
    }
    // Three requests occupy three of the four places of an address; only the waiting connection can lose its
    // place.
    for evicted in 1..4 {
        let mut newcomer = send(address, REQUEST).await;
        read_answer(&mut newcomer).await;
        is_closed(std::mem::replace(&mut answered, newcomer).into_split().0).await;
        assert_eq!(ports.counts(), Counts { evicted, ..Counts::default() });
    }
    working.push(send(address, b"GET /never HTTP/1.1\r\nHost: h\r\n\r\n").await);
    is_closed(answered.into_split().0).await;
    let refused = send(address, b"").await;
    is_closed(refused.into_split().0).await;
    assert_eq!(ports.counts(), Counts { evicted: 4, refused: 1 });
    for stream in &working {
        let open = stream.try_read(&mut [0]).unwrap_err();
        assert_eq!(open.kind(), io::ErrorKind::WouldBlock);
    }
}

#[tokio::test]
async fn a_head_has_a_bound() {
    let (address, _) = port(BOUNDS).await;
    let mut stream = send(address, b"GET / HTTP/1.1\r\nHost: h\r\nX-A: ").await;
    // The server closes before it has received everything.
    let _ = stream.write_all(&vec![b'x'; 2 * BUFFER_BYTES_MAX]).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 431"), "{}", String::from_utf8_lossy(&answer));
}

#[tokio::test]
async fn a_head_of_32_kib_is_the_largest() {
    let (address, _) = port(BOUNDS).await;
    for (bytes, status) in [(BUFFER_BYTES_MAX, "200"), (BUFFER_BYTES_MAX + 1, "431"), (40_000, "431")] {
        let (begin, end) = ("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX-A: ", "\r\n\r\n");
        let head = format!("{begin}{}{end}", "x".repeat(bytes - begin.len() - end.len()));
        let mut answer = String::new();
        send(address, head.as_bytes()).await.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer.split(' ').nth(1), Some(status), "{bytes}");
    }
}

#[tokio::test]
async fn whole_responses_share_a_budget() {
    let (address, ports) = port(BOUNDS).await;
    let large = b"GET /large HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    let mut unread = send(address, large).await;
    let mut begun = [0; 8];
    unread.read_exact(&mut begun).await.unwrap();
    assert_eq!(ports.answers().used(), LARGE);
    let mut refused = String::new();
    send(address, large).await.read_to_string(&mut refused).await.unwrap();
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    assert!(refused.contains("HTTP answers that were not read yet may take"), "{refused}");
    is_closed(unread.into_split().0).await;
    let given_back = async {
        while ports.answers().used() > 0 {
            tokio::time::sleep(SHORT).await;
        }
    };
    tokio::time::timeout(PATIENCE, given_back).await.expect("nothing is given back");
    let whole = is_closed(send(address, large).await.into_split().0).await;
    assert!(whole > LARGE as u64, "{whole}");
}
