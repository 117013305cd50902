//! A whole node with all its entry points, and clients that ask it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use admin::HeaderOptions;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use broker::settings::Settings;
use catalog::access::{Access, Identity, Permissions, Topics};
use client::{Connection, Error, Options, Url};
use node::{AlarmLimits, Node, NodeOptions, StorageLimits};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use wal::files::Sharing;

use super::{Subject, tokens};

/// A user with all permissions. It has a connection that others may or may not see.
pub(super) const ROOT: &str = "root";

/// The origin whose pages may use the API.
pub(super) const LISTED: &str = "https://tools.example";

/// Who makes a user send a request: a program, or a page in the browser that remembers the user's login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    Program,
    OwnPage,
    OtherPage,
}

impl From {
    /// The headers that say so.
    fn headers(self) -> &'static str {
        match self {
            Self::Program => "",
            Self::OwnPage => "Origin: http://h\r\n",
            Self::OtherPage => "Origin: http://evil.example\r\n",
        }
    }
}

/// A node with all its entry points.
pub(super) struct Fixture {
    pub node: Node,
    pub amqp: SocketAddr,
    pub http: SocketAddr,
    data_dir: PathBuf,
    /// The tokens of the users who have one. The password of the others is their name.
    tokens: HashMap<String, String>,
}

impl Fixture {
    pub(super) async fn open(name: &str, subjects: &[Subject]) -> Self {
        // The test binds a queue for its link, and uses an address of format v1 to do so.
        Self::open_with(name, subjects, Settings { permit_address_v1: true, ..Settings::default() }).await
    }

    pub(super) async fn open_with(name: &str, subjects: &[Subject], settings: Settings) -> Self {
        let data_dir =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("doors-{name}-{}", std::process::id()));
        Self::open_at(data_dir, subjects, settings).await
    }

    /// Stops the node, damages the records in the log that contain these bytes, and starts the node again.
    pub(super) async fn damage(self, records: &[impl AsRef<[u8]>]) -> Self {
        self.node.stop("its log is damaged").unwrap();
        let is_log = |path: &PathBuf| path.extension().is_some_and(|end| end == "log");
        let files = std::fs::read_dir(&self.data_dir).unwrap().map(|entry| entry.unwrap().path());
        let mut hits = 0;
        for path in files.filter(is_log) {
            let mut bytes = std::fs::read(&path).unwrap();
            for what in records.iter().map(AsRef::as_ref) {
                if let Some(at) = bytes.windows(what.len()).position(|bytes| bytes == what) {
                    bytes[at] ^= 1;
                    hits += 1;
                }
            }
            std::fs::write(&path, bytes).unwrap();
        }
        assert_eq!(hits, records.len(), "the bytes of each record are in one file");
        Self::open_at(self.data_dir, &[], Settings::default()).await
    }

    async fn open_at(data_dir: PathBuf, subjects: &[Subject], settings: Settings) -> Self {
        let root = Subject {
            identity: Identity::internal(ROOT, "administrator"),
            rights: Some(Permissions::ALL),
            topics: Topics::new(),
            has_token: false,
        };
        let users = subjects.iter().filter(|subject| !subject.has_token).chain([&root]);
        let tokens: HashMap<String, String> = subjects
            .iter()
            .filter(|subject| subject.has_token)
            .map(|subject| (subject.name().to_owned(), tokens::of(subject)))
            .collect();
        let node_name = settings.node_name.clone();
        let node = Node::start(NodeOptions {
            settings,
            access: Access::new(users.map(Subject::user)).tracking_sources(true),
            backends: (!tokens.is_empty()).then(|| tokens::backends(&data_dir)),
            shards: 2,
            data_dir: data_dir.clone(),
            sharing: Sharing::Owner,
            alarms: AlarmLimits::default(),
            storage: StorageLimits::default(),
            reserved_descriptors: 0,
            cluster: None,
            accept_lost_definitions: false,
        })
        .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let amqp = listener.local_addr().unwrap();
        tokio::spawn(node.listen(listener));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let http = listener.local_addr().unwrap();
        let (settings, mut changes) = admin::SettingsInForce::with_changes();
        tokio::spawn(async move {
            while let Some(change) = changes.recv().await {
                change.answer.send(Ok(())).unwrap();
            }
        });
        let ports = admin::Ports::default().naming_node(&node_name).with_settings(settings);
        let headers = HeaderOptions { origins: vec![LISTED.to_owned()], ..HeaderOptions::default() };
        let ports = ports.with_headers(headers);
        let router = admin::management_router(node.api().clone(), ports.clone());
        tokio::spawn(admin::serve(listener, None, router, ports, std::future::pending()));
        Self { node, amqp, http, data_dir, tokens }
    }

    pub(super) async fn connect(&self, user: &str) -> Result<Connection, Error> {
        Connection::open(&self.url(user), Options::default()).await
    }

    pub(super) fn url(&self, user: &str) -> Url {
        format!("amqp://{user}:{}@{}", self.password(user), self.amqp).parse().unwrap()
    }

    fn password<'a>(&'a self, user: &'a str) -> &'a str {
        self.tokens.get(user).map_or(user, String::as_str)
    }

    pub(super) async fn ask(&self, user: &str, method: &str, path: &str, body: &str) -> (u16, String) {
        self.ask_from(From::Program, user, method, path, body).await
    }

    pub(super) async fn ask_from(
        &self,
        from: From,
        user: &str,
        method: &str,
        path: &str,
        body: &str,
    ) -> (u16, String) {
        let mut socket = TcpStream::connect(self.http).await.unwrap();
        let credentials = STANDARD.encode(format!("{user}:{}", self.password(user)));
        let (length, more) = (body.len(), from.headers());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: h\r\nAuthorization: Basic {credentials}\r\n\
             Connection: close\r\nContent-Length: {length}\r\n{more}\r\n{body}"
        );
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
    }

    /// Sends a request as the user who may do everything.
    pub(super) async fn prepare(&self, method: &str, path: &str, body: &str) {
        let (status, answer) = self.ask(ROOT, method, path, body).await;
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
    }

    pub(super) fn close(self) {
        self.node.stop("the test is over").unwrap();
        drop(std::fs::remove_dir_all(self.data_dir));
    }
}
