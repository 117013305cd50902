//! A broker with an object in every state, and what brings an object back to its state after a request has changed it.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use broker::settings::Settings;
use catalog::AccountChange;
use catalog::access::Identity;
use client::management::{Binding, QueueSpec};
use client::{Connection, Management, ReceiverOptions, SenderOptions, Session, Url};

use super::client::{Answered, Http};
use super::http;
use super::model::{Does, Kind, Origin, Question, State, Vhost, Who};
use crate::doors::Subject;
use crate::doors::fixture::{Fixture, ROOT};
use crate::doors::verbs091;

/// Another queue, a stream, a quorum queue and two exchanges, which are in all virtual hosts.
pub(super) const TARGET: &str = "zz-target";
pub(super) const STREAM: &str = "zz-stream";
pub(super) const GROUP: &str = "zz-group";
pub(super) const SOURCE: &str = "zz-source";
pub(super) const SINK: &str = "zz-sink";

/// The routing key of every binding, which is its properties key, too.
pub(super) const KEY: &str = "kk";

/// How many damaged queues there are. Some users delete them, and they cannot be damaged again.
const DAMAGED: usize = 30;

/// The virtual hosts that are there all the time.
pub(super) const VHOSTS: [Vhost; 4] = [Vhost::Default, Vhost::Team, Vhost::Foreign, Vhost::Closing];

impl Vhost {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Default => "/",
            Self::Team => "vv-team",
            Self::Closing => "vv-closing",
            Self::Foreign => "vv-foreign",
            Self::Absent => "vv-absent",
            Self::Deleted => "vv-brief",
        }
    }

    /// The name in a path.
    pub(super) fn segment(self) -> &'static str {
        if self == Self::Default { "%2F" } else { self.name() }
    }
}

impl Origin {
    pub(super) fn headers(self) -> &'static str {
        match self {
            Self::Program => "",
            Self::OwnPage => "Origin: http://h\r\nSec-Fetch-Site: same-origin\r\n",
            Self::ListedPage => "Origin: https://tools.example\r\nSec-Fetch-Site: cross-site\r\n",
            Self::OtherPage => "Origin: http://evil.example\r\nSec-Fetch-Site: cross-site\r\n",
        }
    }
}

impl Who {
    pub(super) fn name(self) -> String {
        format!("{}-{}", self.tag, self.rights)
    }

    pub(super) fn all() -> Vec<Self> {
        let tags = ["", "management", "policymaker", "monitoring", "administrator"];
        let rights = ["absent", "none", "configure", "write", "read", "all"];
        tags.iter().flat_map(|&tag| rights.iter().map(move |&rights| Self { tag, rights })).collect()
    }
}

/// The connections of a user who may do everything, which others may see or not: one of each protocol.
pub(super) struct Watched {
    _of_10: Connection,
    of_091: client::amqp091::Connection,
    pub name_10: String,
    pub name_091: String,
}

pub(super) struct World {
    pub fixture: Fixture,
    pub http: Http,
    /// The HTTP client of the user who may do everything.
    own: Http,
    /// The connections of the exclusive queues.
    owners: Vec<Connection>,
    pub watched: BTreeMap<Vhost, Watched>,
    /// The damaged queues that were not deleted yet.
    damaged: Vec<String>,
}

/// A request of the user who may do everything: its method, its path and its body.
type Step = (&'static str, String, String);

fn step(method: &'static str, path: String, body: impl Into<String>) -> Step {
    (method, path, body.into())
}

impl World {
    pub(super) async fn open(name: &str) -> Self {
        let names: Vec<String> = Who::all().into_iter().map(Who::name).collect();
        let is_one = |subject: &Subject| names.iter().any(|name| name == subject.name());
        let subjects: Vec<_> = Subject::all().into_iter().filter(is_one).collect();
        let fixture = Fixture::open_with(name, &subjects, Settings::default()).await;
        let damaged: Vec<String> = (0..DAMAGED).map(|number| format!("zz-damaged-{number:02}")).collect();
        let connection = fixture.connect(ROOT).await.unwrap();
        let session = connection.session().await.unwrap();
        for queue in &damaged {
            fixture.prepare("PUT", &format!("/api/queues/%2F/{queue}"), "{}").await;
            send(&session, queue, spoilt(queue)).await;
        }
        connection.close().await.unwrap();
        let spoilt: Vec<String> = damaged.iter().map(|queue| spoilt(queue)).collect();
        let fixture = fixture.damage(&spoilt).await;
        let (http, own) = (Http::new(fixture.http), Http::new(fixture.http));
        let mut world = Self { fixture, http, own, owners: Vec::new(), watched: BTreeMap::new(), damaged };
        for vhost in VHOSTS {
            world.fill(vhost).await;
        }
        let close = AccountChange::CloseVhost { name: Vhost::Closing.name().into() };
        let root = Identity::internal(ROOT, "administrator");
        world.fixture.node.api().change_account(&root, close).await.unwrap();
        world
    }

    /// Makes a virtual host with everything in it.
    async fn fill(&mut self, vhost: Vhost) {
        let at = vhost.segment();
        if vhost != Vhost::Default {
            self.add_vhost(vhost, &Who::all()).await;
        }
        for (queue, kind) in [(TARGET, "classic"), (STREAM, "stream"), (GROUP, "quorum")] {
            let body = format!(r#"{{"arguments":{{"x-queue-type":"{kind}"}}}}"#);
            self.fixture.prepare("PUT", &format!("/api/queues/{at}/{queue}"), &body).await;
        }
        for exchange in [SOURCE, SINK] {
            self.fixture
                .prepare("PUT", &format!("/api/exchanges/{at}/{exchange}"), r#"{"type":"topic"}"#)
                .await;
        }
        let url = Url { virtual_host: Some(vhost.name().to_owned()), ..self.fixture.url(ROOT) };
        let owner = Connection::open(&url, client::Options::default()).await.unwrap();
        let session = owner.session().await.unwrap();
        let management = Management::open(&session).await.unwrap();
        let own = QueueSpec { exclusive: true, ..QueueSpec::default() };
        management.declare_queue("zz-owned", &own).await.unwrap();
        management.bind(&Binding::to_queue(SOURCE, "zz-owned", KEY)).await.unwrap();
        send(&session, "zz-owned", "private".to_owned()).await;
        send(&session, GROUP, "m".to_owned()).await;
        send(&session, STREAM, "m".to_owned()).await;
        if vhost == Vhost::Closing {
            // Nobody may be connected to it.
            owner.close().await.unwrap();
        } else {
            std::mem::forget((management, session));
            self.owners.push(owner);
            let watched = self.watch(vhost).await;
            self.watched.insert(vhost, watched);
        }
        for kind in [
            Kind::Queue,
            Kind::ToQueue,
            Kind::Exchange,
            Kind::FromExchange,
            Kind::ToExchange,
            Kind::ExchangeToExchange,
            Kind::Policy,
            Kind::OperatorPolicy,
            Kind::User,
            Kind::Parameter,
            Kind::Trace,
        ] {
            for state in http::states(kind, vhost) {
                if matches!(state, State::There | State::Internal | State::Predeclared | State::Damaged) {
                    self.restore(kind, vhost, *state).await;
                }
            }
        }
    }

    /// Makes a virtual host with the permissions of these users.
    async fn add_vhost(&mut self, vhost: Vhost, users: &[Who]) {
        let name = vhost.name();
        self.root("PUT", &format!("/api/vhosts/{name}"), "{}").await;
        if vhost == Vhost::Foreign {
            return;
        }
        for who in users.iter().filter(|who| who.rights != "absent") {
            let right = |right: &str| if [right, "all"].contains(&who.rights) { ".*" } else { "" };
            let (configure, write, read) = (right("configure"), right("write"), right("read"));
            let body = format!(r#"{{"configure":"{configure}","write":"{write}","read":"{read}"}}"#);
            let path = format!("/api/permissions/{name}/{}", who.name());
            self.root("PUT", &path, &body).await;
        }
    }

    async fn watch(&self, vhost: Vhost) -> Watched {
        let url = Url { virtual_host: Some(vhost.name().to_owned()), ..self.fixture.url(ROOT) };
        let before = self.connections().await;
        let of_10 = Connection::open(&url, client::Options::default()).await.unwrap();
        let session = of_10.session().await.unwrap();
        let name = Some(link(vhost).to_owned());
        let options = ReceiverOptions { name, ..ReceiverOptions::default() };
        let receiver = session.receiver(Some(&format!("/queues/{TARGET}")), options).await.unwrap();
        std::mem::forget((session, receiver));
        let mut of_091 = verbs091::connect(&url).await.unwrap();
        of_091.open_channel(1).await.unwrap();
        let rows = self.connections().await;
        let mut new = rows.into_iter().filter(|row| !before.contains(row));
        let mut named = |protocol: &str| new.find(|(_, of)| of == protocol).unwrap().0;
        Watched { name_10: named("AMQP 1-0"), name_091: named("AMQP 0-9-1"), _of_10: of_10, of_091 }
    }

    /// Returns the names and the protocols of all connections. Those of AMQP 1.0 come first.
    async fn connections(&self) -> Vec<(String, String)> {
        let (_, rows) = self.fixture.ask(ROOT, "GET", "/api/connections?columns=name,protocol", "").await;
        let rows: serde_json::Value = serde_json::from_str(&rows).unwrap();
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let mut rows: Vec<_> =
            rows.as_array().unwrap().iter().map(|row| (text(&row["name"]), text(&row["protocol"]))).collect();
        rows.sort_by(|a, b| b.1.cmp(&a.1));
        rows
    }

    /// Returns the name of an object.
    pub(super) fn name(&self, kind: Kind, state: State) -> String {
        let is_exchange =
            matches!(kind, Kind::Exchange | Kind::FromExchange | Kind::ToExchange | Kind::ExchangeToExchange);
        match state {
            State::There | State::Internal if is_exchange && state == State::Internal => {
                "zz-internal".to_owned()
            }
            State::There | State::Internal => "zz-there".to_owned(),
            State::Exclusive => "zz-owned".to_owned(),
            State::Damaged => self.damaged.last().cloned().unwrap_or_default(),
            State::Default => "amq.default".to_owned(),
            State::Predeclared => "amq.topic".to_owned(),
            State::Absent => "zz-absent".to_owned(),
            State::Deleted => "zz-brief".to_owned(),
        }
    }

    /// Returns the requests that bring an object into its state, or into being if the state says that it is deleted meanwhile.
    fn steps(&self, kind: Kind, vhost: Vhost, state: State) -> Vec<Step> {
        let (at, name) = (vhost.segment(), self.name(kind, state));
        let is_there = matches!(state, State::There | State::Internal | State::Deleted);
        let object = match kind {
            Kind::Queue | Kind::ToQueue => format!("/api/queues/{at}/{name}"),
            Kind::Exchange | Kind::FromExchange | Kind::ToExchange | Kind::ExchangeToExchange => {
                format!("/api/exchanges/{at}/{name}")
            }
            Kind::Policy => format!("/api/policies/{at}/{name}"),
            Kind::OperatorPolicy => format!("/api/operator-policies/{at}/{name}"),
            Kind::User => format!("/api/users/{name}"),
            Kind::Parameter => format!("/api/parameters/ours/{at}/{name}"),
            Kind::Trace => format!("/api/traces/{at}/{name}"),
            Kind::Vhost | Kind::Connection => return Vec::new(),
        };
        if state == State::Absent {
            return vec![step("DELETE", object, "")];
        }
        let body = match kind {
            Kind::Exchange | Kind::FromExchange | Kind::ToExchange | Kind::ExchangeToExchange => {
                exchange_body(state).to_owned()
            }
            Kind::Policy | Kind::OperatorPolicy => POLICY.to_owned(),
            Kind::User => USER.to_owned(),
            Kind::Parameter => PARAMETER.to_owned(),
            Kind::Trace => TRACE.to_owned(),
            _ => "{}".to_owned(),
        };
        let mut steps = Vec::new();
        if is_there {
            steps.push(step("PUT", object, body));
        }
        let bind = |source: &str, letter: &str, to: &str| {
            step(
                "POST",
                format!("/api/bindings/{at}/e/{source}/{letter}/{to}"),
                format!(r#"{{"routing_key":"{KEY}"}}"#),
            )
        };
        let is_bound = is_there || state == State::Damaged || state == State::Predeclared;
        // A deletion takes all bindings away. What is deleted meanwhile needs only those that the question is about.
        let is = |of: Kind, others: &[Kind]| {
            is_bound
                && (kind == of
                    || others.contains(&kind) && state != State::Deleted && vhost != Vhost::Deleted)
        };
        if kind == Kind::Queue && is_there {
            let body = MESSAGE.replace("KEY", &name);
            steps.push(step("POST", format!("/api/exchanges/{at}/amq.default/publish"), body));
        }
        if is(Kind::ToQueue, &[Kind::Queue]) {
            steps.push(bind(SOURCE, "q", &name));
        }
        let exchanges = [Kind::Exchange, Kind::FromExchange, Kind::ToExchange, Kind::ExchangeToExchange];
        if is(Kind::FromExchange, &exchanges) {
            steps.push(bind(&name, "q", TARGET));
        }
        if is(Kind::ToExchange, &exchanges) {
            steps.push(bind(SOURCE, "e", &name));
        }
        if is(Kind::ExchangeToExchange, &exchanges) {
            steps.push(bind(&name, "e", SINK));
        }
        if kind == Kind::User {
            let body = r#"{"configure":"","write":"","read":""}"#;
            steps.push(step("PUT", format!("/api/permissions/%2F/{name}"), body));
            let body = r#"{"exchange":"amq.topic","write":"","read":""}"#;
            steps.push(step("PUT", format!("/api/topic-permissions/%2F/{name}"), body));
            let body = r#"{"value":100000}"#;
            steps.push(step("PUT", format!("/api/user-limits/{name}/max-connections"), body));
        }
        steps
    }

    /// Brings an object back into its state, after a request has changed it.
    pub(super) async fn restore(&mut self, kind: Kind, vhost: Vhost, state: State) {
        if vhost == Vhost::Absent {
            self.root("DELETE", &format!("/api/vhosts/{}", vhost.name()), "").await;
            return;
        }
        if kind == Kind::Connection {
            let watched = self.watch(vhost).await;
            self.watched.insert(vhost, watched);
        }
        for (method, path, body) in self.steps(kind, vhost, state) {
            self.root(method, &path, &body).await;
        }
    }

    /// Called after a request has succeeded that may have changed an object, or that has made it.
    pub(super) async fn changed(&mut self, question: Question) {
        let Question { kind, vhost, state, does, .. } = question;
        match (kind, state, does) {
            (Kind::Queue, State::Damaged, Does::Delete) => {
                self.damaged.pop();
                assert!(!self.damaged.is_empty(), "there are too few damaged queues");
                self.restore(Kind::ToQueue, vhost, state).await;
            }
            (Kind::Connection, State::There, Does::Close) => self.restore(kind, vhost, state).await,
            (Kind::Connection, ..) => {}
            (_, State::Deleted, _) => self.delete(kind, vhost, state).await,
            _ if vhost == Vhost::Deleted => self.delete(kind, vhost, state).await,
            (
                _,
                _,
                Does::Inspect
                | Does::InspectBindings
                | Does::SendTo
                | Does::Publish
                | Does::Send
                | Does::Open,
            ) => {}
            _ => self.restore(kind, vhost, state).await,
        }
    }

    /// Makes a virtual host and deletes it, for questions about a deleted one.
    pub(super) async fn deleted(&mut self, question: Question) {
        let Question { vhost, who, .. } = question;
        if vhost == Vhost::Deleted {
            self.add_vhost(vhost, &[who]).await;
            self.delete(Kind::Vhost, vhost, State::There).await;
        }
    }

    /// Deletes an object, or its virtual host.
    pub(super) async fn delete(&mut self, kind: Kind, vhost: Vhost, state: State) {
        if vhost == Vhost::Deleted {
            self.root("DELETE", &format!("/api/vhosts/{}", vhost.name()), "").await;
            return;
        }
        if let Some((_, path, _)) = self.steps(kind, vhost, State::Deleted).into_iter().next() {
            assert_eq!(state, State::Deleted);
            self.root("DELETE", &path, "").await;
        }
    }

    /// Makes what will be deleted while a request arrives.
    pub(super) async fn make(&mut self, kind: Kind, vhost: Vhost, who: Who) {
        if vhost == Vhost::Deleted {
            self.add_vhost(vhost, &[who]).await;
            let is_binding = matches!(
                kind,
                Kind::ToQueue | Kind::FromExchange | Kind::ToExchange | Kind::ExchangeToExchange
            );
            if is_binding {
                for exchange in [SOURCE, SINK] {
                    let path = format!("/api/exchanges/{}/{exchange}", vhost.name());
                    self.root("PUT", &path, exchange_body(State::There)).await;
                }
                self.root("PUT", &format!("/api/queues/{}/{TARGET}", vhost.name()), "{}").await;
            }
            for (method, path, body) in self.steps(kind, vhost, State::There) {
                self.root(method, &path, &body).await;
            }
            return;
        }
        for (method, path, body) in self.steps(kind, vhost, State::Deleted) {
            self.root(method, &path, &body).await;
        }
    }

    /// Sends a request as the user who may do everything.
    async fn root(&mut self, method: &str, path: &str, body: &str) -> Answered {
        let head = self.head(ROOT, Origin::Program, method, path, body.len());
        self.own.send(&format!("{head}\r\n{body}")).await;
        self.own.receive(&format!("{method} {path}")).await
    }

    /// Returns the head of a request, without the empty line at its end.
    pub(super) fn head(&self, user: &str, origin: Origin, method: &str, path: &str, length: usize) -> String {
        let credentials = STANDARD.encode(format!("{user}:{user}"));
        let more = origin.headers();
        format!(
            "{method} {path} HTTP/1.1\r\nHost: h\r\nAuthorization: Basic {credentials}\r\nContent-Length: {length}\r\n{more}"
        )
    }

    /// Checks that the exclusive queues are as their connections have left them, and ends the broker.
    pub(super) async fn close(self) {
        for owner in self.owners {
            let session = owner.session().await.unwrap();
            let receiver =
                session.receiver(Some("/queues/zz-owned"), ReceiverOptions::default()).await.unwrap();
            let first = client::Message::decode(&receiver.recv().await.unwrap().message).unwrap();
            assert_eq!(
                first.body,
                client::Body::Data(vec!["private".into()]),
                "nobody has taken its message"
            );
            owner.close().await.unwrap();
        }
        drop(self.watched.into_values().map(|watched| watched.of_091).collect::<Vec<_>>());
        self.fixture.close();
    }
}

/// Returns the name over AMQP, where the default exchange has none.
pub(super) fn amqp_name(name: &str) -> &str {
    if name == "amq.default" { "" } else { name }
}

/// The name of the link of a watched connection.
pub(super) fn link(vhost: Vhost) -> &'static str {
    match vhost {
        Vhost::Default => "zz-link-default",
        Vhost::Team => "zz-link-team",
        _ => "zz-link-foreign",
    }
}

pub(super) const POLICY: &str = r#"{"pattern":"^none$","definition":{"max-length":1}}"#;
pub(super) const USER: &str = r#"{"password":"p","tags":""}"#;
pub(super) const PARAMETER: &str = r#"{"value":1}"#;
pub(super) const TRACE: &str = r#"{"queue":"zz-target","seconds":3600}"#;
pub(super) const MESSAGE: &str =
    r#"{"properties":{},"routing_key":"KEY","payload":"m","payload_encoding":"string"}"#;

/// Returns the body that declares an exchange of a state.
pub(super) fn exchange_body(state: State) -> &'static str {
    match state {
        State::Internal => r#"{"type":"topic","internal":true}"#,
        _ => r#"{"type":"topic"}"#,
    }
}

fn spoilt(queue: &str) -> String {
    format!("this message of {queue} is spoilt")
}

async fn send(session: &Session, queue: &str, body: String) {
    let sender = session.sender(Some(&format!("/queues/{queue}")), SenderOptions::default()).await.unwrap();
    sender.send(client::Message::data(body.into_bytes()).durable(true).encode()).await.unwrap();
}
