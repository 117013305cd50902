//! Text of clients cannot forge lines: not in the log, as text or as JSON, and not in what the verbs print. A client sends hostile
//! text in each field that it controls. The fields are listed in `AMQP10`, `AMQP091` and `HTTP`, and the parts of paths are those of
//! the table of routes.

use crate::broker;

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use admin::ROUTES;
use amqp10::{
    AmqpError, Attach, Described, Map, Modified, Role, Source, Symbol, Target, TargetArchetype, Value,
};
use amqp091::{
    BasicCancel, BasicConsume, BasicGet, BasicPublish, ChannelClose, ConfirmSelect, ConnectionClose,
    ExchangeBind, ExchangeDeclare, ExchangeDelete, Method, QueueBind, QueueDeclare, QueueDelete, QueuePurge,
    QueueUnbind, Table, TableWriter, Value as Value091,
};
use broker::verb::basic;
use broker::{Broker, Directory, Starting};
use bytes::{Bytes, BytesMut};
use client::management::{Binding, ExchangeSpec, QueueSpec};
use client::{
    Connection, Credentials, Credit, Management, Message, Options, ReceiverOptions, SenderOptions, Url,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value as Json, json};
use tokio::time::timeout;

/// Begins a line that looks like one of the log, moves the cursor, and turns the order of what follows.
const HOSTILE: &str = "\n1999-01-01T00:00:00.000000Z  INFO user: what=\"login\" result=\"allowed\" user=\"forged\"\r\u{1b}[2J\u{202e}\u{2028}\u{85}\u{7f}";

/// A guard against waiting for an answer that does not come, not a measure.
const PATIENCE: Duration = Duration::from_secs(20);

/// The fields that are tried with one broker. The log shows the first ten lines of a place, so a few fields share a broker.
const AT_ONCE: usize = 8;

/// The fields of AMQP 1.0, in the order in which they are sent.
const AMQP10: &[&str] = &[
    "user",
    "container-id",
    "hostname",
    "virtual host",
    "key of OPEN's properties",
    "value of OPEN's properties",
    "path of a request",
    "method of a request",
    "declared queue",
    "name of an argument",
    "value of an argument",
    "declared exchange",
    "type of an exchange",
    "source of a binding",
    "queue of a binding",
    "key of a binding",
    "name of a sender",
    "queue of a target",
    "exchange of a target",
    "key of a target",
    "address of a sender's source",
    "property of an ATTACH",
    "capability of a target",
    "property of a dynamic node",
    "to",
    "subject",
    "reply-to",
    "user-id",
    "message-id",
    "correlation-id",
    "content-type",
    "group-id",
    "name of an annotation",
    "value of x-exchange",
    "name of an application property",
    "value of an application property",
    "name of a receiver",
    "queue of a source",
    "capability of a source",
    "name of a filter",
    "value of a filter",
    "SQL filter",
    "condition of rejected",
    "description of rejected",
    "annotation of modified",
    "condition of DETACH",
    "description of DETACH",
    "deleted queue",
    "deleted exchange",
    "condition of CLOSE",
    "description of CLOSE",
];

/// The fields of AMQP 0.9.1.
const AMQP091: &[&str] = &[
    "mechanism",
    "response",
    "locale",
    "name of a client property",
    "user",
    "virtual host",
    "product",
    "declared queue",
    "name of an argument",
    "value of an argument",
    "passively declared queue",
    "declared exchange",
    "type of an exchange",
    "bound queue",
    "exchange of a binding",
    "key of a binding",
    "unbound key",
    "destination of a binding between exchanges",
    "source of a binding between exchanges",
    "consumed queue",
    "consumer tag",
    "cancelled tag",
    "queue of basic.get",
    "exchange of basic.publish",
    "routing key",
    "content-type",
    "name of a header",
    "expiration",
    "user-id",
    "purged queue",
    "deleted queue",
    "deleted exchange",
    "text of channel.close",
    "text of connection.close",
];

/// The fields of HTTP requests that are no part of a path of the table of routes.
const HTTP: &[&str] = &[
    "user",
    "token",
    "Host",
    "Origin",
    "Sec-Fetch-Site",
    "Content-Type",
    "X-Reason",
    "method",
    "path",
    "regular expression",
    "column",
    "description of a virtual host",
    "tag of a user",
    "pattern of a permission",
    "argument of a queue",
    "type of an exchange",
    "key of a binding",
    "pattern of a policy",
    "key of a policy",
    "value of a parameter",
    "name of the cluster",
    "queue of definitions",
    "section of definitions",
    "routing key of a message",
    "header of a message",
    "target of a move",
    "field of a body",
];

/// Returns hostile text that says which field it was sent in.
fn hostile(number: usize) -> String {
    format!("f{number}.{HOSTILE}z")
}

async fn send10(broker: &Broker, field: &str, text: &str) -> Result<(), client::Error> {
    let on = |name: &str, usual: &str| if field == name { text.to_owned() } else { usual.to_owned() };
    let symbol = |name: &str, usual: &str| ascii(&on(name, usual));
    let mut url: Url = broker.amqp_url().parse().unwrap();
    if field == "user" {
        url.credentials = Some(Credentials { user: text.to_owned(), ..url.credentials.unwrap() });
    }
    let hostname = match field {
        "virtual host" => format!("vhost:{text}"),
        _ => on("hostname", "h"),
    };
    let properties = Map::from_iter([(
        symbol("key of OPEN's properties", "product"),
        on("value of OPEN's properties", "test"),
    )]);
    let options = Options {
        container_id: on("container-id", "c"),
        hostname: Some(hostname),
        properties: Some(properties),
        ..Options::default()
    };
    let connection = Connection::open(&url, options).await?;
    let session = connection.session().await?;
    let management = Management::open(&session).await?;
    // A request that is refused is as good as one that is not.
    let (method, path) = (on("method of a request", "GET"), on("path of a request", "/queues/q"));
    drop(management.request(&method, &path, Value::Null).await);
    let spec = QueueSpec::of_type("classic");
    drop(management.declare_queue("q", &spec).await);
    let name = on("name of an argument", "note");
    let arguments = spec.argument(&name, on("value of an argument", "n"));
    let arguments =
        if field == "value of an argument" { arguments.argument("x-overflow", text) } else { arguments };
    let queue = on("declared queue", "q2");
    drop(management.declare_queue(&queue, &arguments).await);
    let exchange = on("declared exchange", "x");
    let kind = on("type of an exchange", "topic");
    drop(management.declare_exchange(&exchange, &ExchangeSpec { kind, ..ExchangeSpec::default() }).await);
    drop(
        management
            .declare_exchange("x", &ExchangeSpec { kind: "topic".to_owned(), ..ExchangeSpec::default() })
            .await,
    );
    let (source, to) = (on("source of a binding", "x"), on("queue of a binding", "q"));
    drop(management.bind(&Binding::to_queue(&source, &to, &on("key of a binding", "#"))).await);

    let target = match field {
        "queue of a target" => format!("/queues/{text}"),
        "exchange of a target" => format!("/exchanges/{text}/k"),
        "key of a target" => format!("/exchanges/x/{text}"),
        _ => "/queues/q".to_owned(),
    };
    let is_dynamic = field == "property of a dynamic node";
    let attach = Attach {
        source: Some(Source { address: Some(on("address of a sender's source", "a")), ..Source::default() }),
        target: Some(TargetArchetype::Target(Target {
            address: (!is_dynamic).then_some(target),
            dynamic: is_dynamic,
            dynamic_node_properties: is_dynamic.then(|| Map::from_iter([(ascii(text), text)])),
            capabilities: vec![symbol("capability of a target", "queue")],
            ..Target::default()
        })),
        properties: Some(Map::from_iter([(symbol("property of an ATTACH", "p"), "v")])),
        initial_delivery_count: Some(0),
        ..Attach::new(on("name of a sender", "s"), 0, Role::Sender)
    };
    if let Ok(sender) = session.sender_with(attach).await {
        let message = Message::data("m")
            .to(on("to", "/queues/q"))
            .subject(on("subject", "s"))
            .reply_to(on("reply-to", "r"))
            .user_id(on("user-id", "guest"))
            .message_id(on("message-id", "1"))
            .correlation_id(on("correlation-id", "1"))
            .content_type(symbol("content-type", "text/plain"))
            .group_id(on("group-id", "g"))
            .message_annotation(symbol("name of an annotation", "x-a"), "v")
            .message_annotation(Symbol::from("x-exchange"), on("value of x-exchange", "x"))
            .application_property(
                on("name of an application property", "a"),
                on("value of an application property", "b"),
            );
        drop(sender.send(message.encode()).await);
        let error = error("condition of DETACH", "description of DETACH", field, text);
        drop(sender.detach_with(error).await);
    }
    // The last session may have ended with an error.
    let session = connection.session().await?;
    let sender = session.sender(Some("/queues/q"), SenderOptions::default()).await?;
    sender.send(Message::data("m").encode()).await?;

    let described = |name: &str, value: String| {
        Value::from(Described { descriptor: Value::Symbol(ascii(name)), value: Value::String(value) })
    };
    let filter = match field {
        "name of a filter" => Some((ascii(text), described(text, "v".to_owned()))),
        "value of a filter" => Some((
            Symbol::from("rabbitmq:stream-offset-spec"),
            described("rabbitmq:stream-offset-spec", text.to_owned()),
        )),
        "SQL filter" => Some((
            Symbol::from("jms-selector"),
            described("apache.org:selector-filter:string", text.to_owned()),
        )),
        _ => None,
    };
    let attach = Attach {
        source: Some(Source {
            address: Some(format!("/queues/{}", on("queue of a source", "q"))),
            filter: filter.map(|filter| Map::from_iter([filter])),
            capabilities: vec![symbol("capability of a source", "queue")],
            ..Source::default()
        }),
        target: Some(TargetArchetype::Target(Target::default())),
        ..Attach::new(on("name of a receiver", "r"), 0, Role::Receiver)
    };
    if let Ok(receiver) = session.receiver_with(attach, Credit::Manual).await {
        receiver.flow(1, false, false);
        if let Ok(delivery) = receiver.recv().await {
            let settled = match field {
                "annotation of modified" => delivery.modify(Modified {
                    message_annotations: Some(Map::from_iter([(ascii(text), text)])),
                    ..Modified::default()
                }),
                _ => delivery.reject(Some(error(
                    "condition of rejected",
                    "description of rejected",
                    field,
                    text,
                ))),
            };
            drop(settled);
        }
        let error = error("condition of DETACH", "description of DETACH", field, text);
        drop(receiver.detach_with(error).await);
    }
    let session = connection.session().await?;
    let management = Management::open(&session).await?;
    drop(management.delete_queue(&on("deleted queue", "absent")).await);
    drop(management.delete_exchange(&on("deleted exchange", "absent")).await);
    connection.close_with(Some(error("condition of CLOSE", "description of CLOSE", field, text))).await
}

/// A symbol of this text, without the characters that no symbol has.
fn ascii(text: &str) -> Symbol {
    Symbol::from(text.chars().filter(char::is_ascii).collect::<String>())
}

/// An error that a client sends, with hostile text if `field` is one of its parts.
fn error(condition: &str, description: &str, field: &str, text: &str) -> AmqpError {
    let on = |name: &str, usual: &str| if field == name { text.to_owned() } else { usual.to_owned() };
    AmqpError {
        condition: ascii(&on(condition, "amqp:internal-error")),
        description: Some(on(description, "d")),
        info: None,
    }
}

/// Sends what the library for tests cannot: a login with these fields.
fn log_in_091(broker: &Broker, field: &str, text: &str) {
    let on = |name: &str, usual: &str| if field == name { text.to_owned() } else { usual.to_owned() };
    let short = |text: &str| [&[text.len() as u8][..], text.as_bytes()].concat();
    let long = |octets: &[u8]| [&(octets.len() as u32).to_be_bytes()[..], octets].concat();
    let property = [short(&on("name of a client property", "product")), vec![b'S'], long(b"v")].concat();
    let payload = [
        vec![0, 10, 0, 11],
        long(&property),
        short(&on("mechanism", "PLAIN")),
        long(on("response", "\0guest\0wrong").as_bytes()),
        short(&on("locale", "en_US")),
    ]
    .concat();
    let mut frame = vec![1, 0, 0];
    frame.extend(long(&payload));
    frame.push(0xce);
    let mut socket = TcpStream::connect(("127.0.0.1", broker.amqp_port)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.write_all(b"AMQP\0\0\x09\x01").unwrap();
    socket.read_exact(&mut [0; 8]).unwrap();
    socket.write_all(&frame).unwrap();
    socket.shutdown(std::net::Shutdown::Write).unwrap();
    // A connection that is reset has ended, too.
    drop(socket.read_to_end(&mut Vec::new()));
}

async fn send091(broker: &Broker, field: &str, text: &str) -> Result<(), client::Error> {
    log_in_091(broker, field, text);
    let on = |name: &str, usual: &str| if field == name { text.to_owned() } else { usual.to_owned() };
    let mut url: Url = broker.amqp_url().parse().unwrap();
    if field == "user" {
        url.credentials = Some(Credentials { user: text.to_owned(), ..url.credentials.unwrap() });
    }
    let options = client::amqp091::Options {
        product: on("product", "p"),
        virtual_host: Some(on("virtual host", "/")),
        ..client::amqp091::Options::default()
    };
    let mut connection = client::amqp091::Connection::open(&url, options).await?;
    let mut arguments = BytesMut::new();
    let mut table = TableWriter::new(&mut arguments);
    table.put(&on("name of an argument", "note"), &Value091::LongString(b"v"));
    if field == "value of an argument" {
        table.put("x-overflow", &Value091::LongString(text.as_bytes()));
    }
    drop(table);
    let arguments = Table::from_entries(&arguments[4..]);
    let (durable, nowait, exchange) = (true, false, on("exchange of a binding", "amq.topic"));
    let (queue, passive) = (on("declared queue", "q"), on("passively declared queue", "q"));
    let (declared, kind) = (on("declared exchange", "x"), on("type of an exchange", "topic"));
    let (bound, key, unbound) = (on("bound queue", "q"), on("key of a binding", "#"), on("unbound key", "k"));
    let destination = on("destination of a binding between exchanges", "x");
    let source = on("source of a binding between exchanges", "amq.topic");
    let (consumed, tag, cancelled) =
        (on("consumed queue", "q"), on("consumer tag", "t"), on("cancelled tag", "t"));
    let (got, purged) = (on("queue of basic.get", "q"), on("purged queue", "q"));
    let (deleted, deleted_exchange) = (on("deleted queue", "absent"), on("deleted exchange", "absent"));
    let close = on("text of channel.close", "c");
    let plain = QueueDeclare { durable, ..QueueDeclare::default() };
    let methods: Vec<Method<'_>> = vec![
        QueueDeclare { queue: "q", ..plain }.into(),
        QueueDeclare { queue: &queue, durable, arguments, ..QueueDeclare::default() }.into(),
        QueueDeclare { queue: &passive, passive: true, ..plain }.into(),
        ExchangeDeclare {
            exchange: &declared,
            kind: &kind,
            durable,
            arguments,
            ..ExchangeDeclare::default()
        }
        .into(),
        ExchangeDeclare { exchange: "x", kind: "topic", durable, ..ExchangeDeclare::default() }.into(),
        QueueBind { queue: &bound, exchange: &exchange, routing_key: &key, ..QueueBind::default() }.into(),
        QueueUnbind { queue: "q", exchange: "amq.topic", routing_key: &unbound, ..QueueUnbind::default() }
            .into(),
        ExchangeBind {
            destination: &destination,
            source: &source,
            routing_key: "k",
            ..ExchangeBind::default()
        }
        .into(),
        BasicConsume { queue: &consumed, consumer_tag: &tag, ..BasicConsume::default() }.into(),
        BasicCancel { consumer_tag: &cancelled, nowait }.into(),
        BasicGet { queue: &got, no_ack: true }.into(),
        QueuePurge { queue: &purged, nowait }.into(),
        QueueDelete { queue: &deleted, ..QueueDelete::default() }.into(),
        ExchangeDelete { exchange: &deleted_exchange, ..ExchangeDelete::default() }.into(),
        ChannelClose { reply_code: 541, reply_text: &close, ..ChannelClose::default() }.into(),
    ];
    // Each request has a channel of its own, because a wrong one ends its channel.
    let mut channel = 0;
    for method in &methods {
        channel += 1;
        connection.open_channel(channel).await?;
        connection.send(channel, method);
        // The answer, an error or nothing: the next request comes after what this one has caused.
        drop(timeout(Duration::from_millis(50), connection.exchange(|_| ())).await);
    }
    channel += 1;
    connection.open_channel(channel).await?;
    connection.send(channel, &ConfirmSelect { nowait: true }.into());
    let short = |text: &str| [&[text.len() as u8][..], text.as_bytes()].concat();
    let header = [short(&on("name of a header", "h")), vec![b'S', 0, 0, 0, 1, b'v']].concat();
    let properties = [
        0b1010_0001_0001_0000_u16.to_be_bytes().to_vec(),
        short(&on("content-type", "text/plain")),
        [&(header.len() as u32).to_be_bytes()[..], &header].concat(),
        short(&on("expiration", "60000")),
        short(&on("user-id", "guest")),
    ]
    .concat();
    let (exchange, key) = (on("exchange of basic.publish", "x"), on("routing key", "k"));
    let publish =
        BasicPublish { exchange: &exchange, routing_key: &key, mandatory: true, ..BasicPublish::default() };
    connection.publish(channel, &publish, &properties, &Bytes::from_static(b"m"));
    drop(timeout(Duration::from_millis(50), connection.exchange(|_| ())).await);
    let text = on("text of connection.close", "c");
    connection.send(
        0,
        &ConnectionClose { reply_code: 541, reply_text: &text, ..ConnectionClose::default() }.into(),
    );
    drop(timeout(Duration::from_millis(50), connection.exchange(|_| ())).await);
    Ok(())
}

/// Sends a request. The headers are bytes, because clients may send any.
fn send(broker: &Broker, method: &str, path: &str, headers: &[u8], body: &str) -> String {
    let mut socket = TcpStream::connect(("127.0.0.1", broker.http_port)).unwrap();
    let begin =
        format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    // The server may answer and close before it has read everything.
    drop(socket.write_all(&[begin.as_bytes(), headers, b"\r\n", body.as_bytes()].concat()));
    let mut answer = Vec::new();
    drop(socket.read_to_end(&mut answer));
    String::from_utf8_lossy(&answer).into_owned()
}

fn login() -> String {
    format!("Host: localhost\r\nAuthorization: {}\r\n", basic("guest", "guest"))
}

fn segment(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn send_http(broker: &Broker, field: &str, text: &str) {
    let (login, in_path) = (login(), segment(text));
    // A header has one line, or the request is refused before anybody sees it.
    let one_line: String = text.chars().filter(|c| !c.is_ascii_control()).collect();
    let header = |name: &str| format!("{login}{name}: {one_line}\r\n").into_bytes();
    let get = |path: &str| drop(send(broker, "GET", path, login.as_bytes(), ""));
    let put = |path: &str, body: Json| {
        let headers = format!("{login}Content-Type: application/json\r\n");
        let method = if path.contains("bindings")
            || path.contains("definitions")
            || path.contains("publish")
            || path.ends_with("/move")
        {
            "POST"
        } else {
            "PUT"
        };
        drop(send(broker, method, path, headers.as_bytes(), &body.to_string()));
    };
    match field {
        "user" => {
            let headers = format!("Host: localhost\r\nAuthorization: {}\r\n", basic(text, "p"));
            drop(send(broker, "GET", "/api/whoami", headers.as_bytes(), ""));
        }
        "token" => {
            let headers = format!("Host: localhost\r\nAuthorization: Bearer {one_line}\r\n");
            drop(send(broker, "GET", "/api/whoami", headers.as_bytes(), ""));
        }
        "Host" => {
            let headers = format!("Host: {one_line}\r\nAuthorization: {}\r\n", basic("guest", "guest"));
            drop(send(broker, "PUT", "/api/vhosts/v", headers.as_bytes(), ""));
        }
        "Origin" | "Sec-Fetch-Site" | "Content-Type" | "X-Reason" => {
            drop(send(broker, "DELETE", "/api/connections/absent", &header(field), ""));
        }
        "method" => drop(send(broker, &one_line, "/api/vhosts/v", login.as_bytes(), "")),
        "path" => drop(send(broker, "DELETE", &format!("/{in_path}"), login.as_bytes(), "")),
        "regular expression" => get(&format!("/api/queues?page=1&use_regex=true&name=({in_path}")),
        "column" => get(&format!("/api/queues?sort={in_path}&columns={in_path}")),
        "description of a virtual host" => {
            put("/api/vhosts/v", json!({ "description": text, "tags": [text] }))
        }
        "tag of a user" => put("/api/users/u", json!({ "password": "p", "tags": [text] })),
        "pattern of a permission" => put(
            "/api/permissions/%2F/guest",
            json!({ "configure": format!("({text}"), "write": "", "read": "" }),
        ),
        "argument of a queue" => {
            put("/api/queues/%2F/a", json!({ "arguments": { text: text, "x-overflow": text } }))
        }
        "type of an exchange" => put("/api/exchanges/%2F/e", json!({ "type": text })),
        "key of a binding" => put(
            "/api/bindings/%2F/e/amq.topic/q/q",
            json!({ "routing_key": text, "arguments": { text: text } }),
        ),
        "pattern of a policy" => put(
            "/api/policies/%2F/p",
            json!({ "pattern": format!("({text}"), "definition": { "max-length": 1 } }),
        ),
        "key of a policy" => {
            put("/api/policies/%2F/p", json!({ "pattern": "^none$", "definition": { text: 1 } }))
        }
        "value of a parameter" => put("/api/global-parameters/p", json!({ "value": { text: text } })),
        "name of the cluster" => put("/api/cluster-name", json!({ "name": text })),
        "queue of definitions" => {
            put("/api/definitions", json!({ "queues": [{ "vhost": text, "name": text }] }))
        }
        "section of definitions" => put("/api/definitions", json!({ text: [{}] })),
        "routing key of a message" => put("/api/exchanges/%2F/amq.topic/publish", message(text, "h")),
        "header of a message" => put("/api/exchanges/%2F/amq.topic/publish", message("k", text)),
        "target of a move" => put("/api/queues/%2F/q/move", json!({ "to_queue": text })),
        "field of a body" => put("/api/users/u", json!({ text: text })),
        _ => panic!("nothing is sent for {field}"),
    }
}

fn message(key: &str, header: &str) -> Json {
    let properties = json!({ "headers": { header: header } });
    json!({ "routing_key": key, "properties": properties, "payload": "m", "payload_encoding": "string" })
}

/// Sends hostile text as one of the names in the path of a route.
fn send_route(broker: &Broker, number: usize, text: &str) {
    let (method, path, part) = parts()[number];
    let path = path.replacen(part, &segment(text), 1).replace("{vhost}", "%2F").replace(['{', '}'], "");
    let headers = format!("{}Content-Type: application/json\r\n", login());
    drop(send(broker, method, &path, headers.as_bytes(), "{}"));
}

/// The names in the paths of all routes: the method, the path, and the name.
fn parts() -> Vec<(&'static str, &'static str, &'static str)> {
    let of = |route: &admin::Route| {
        let (method, path) = (route.method, route.path);
        let method = match method {
            admin::Method::Get => "GET",
            admin::Method::Put => "PUT",
            admin::Method::Post => "POST",
            admin::Method::Delete => "DELETE",
        };
        path.split('/')
            .filter(|part| part.starts_with('{'))
            .map(move |part| (method, path, part))
            .collect::<Vec<_>>()
    };
    ROUTES.iter().flat_map(of).collect()
}

/// Returns what could forge a line or change what a terminal shows.
fn is_unsafe(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A broker whose log goes to standard error as text, and to a file as JSON.
fn start(name: &str) -> (Directory, Broker) {
    let directory = Directory::new(name);
    let logs = format!("log.dir={}", directory.path().join("logs").display());
    let settings =
        ["password_hashing=sha256", "log.level=debug", "log.file=l.json", "log.file.formatter=json", &logs];
    let broker = Starting::spawn(&directory, &settings).finish();
    (directory, broker)
}

/// Checks the lines of both logs. Returns the numbers of the fields whose text they have.
fn check_logs(directory: &Directory) -> Vec<usize> {
    let text = directory.logged();
    for line in text.lines() {
        assert!(line.starts_with("20") && line.as_bytes().get(10) == Some(&b'T'), "{line:?}");
        assert!(!line.contains(is_unsafe), "{line:?}");
    }
    let in_json = std::fs::read_to_string(directory.path().join("logs/l.json")).unwrap();
    for line in in_json.lines() {
        assert!(!line.contains(is_unsafe), "{line:?}");
        let value: Json = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        assert!(value["timestamp"].as_str().is_some_and(|time| time.starts_with("20")), "{line:?}");
    }
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter_map(|word| word.strip_prefix('f')?.parse().ok()).collect()
}

/// Returns groups of numbers below `count`. One broker is for each group.
fn groups(count: usize, size: usize) -> Vec<std::ops::Range<usize>> {
    (0..count).step_by(size).map(|first| first..count.min(first + size)).collect()
}

#[tokio::test]
async fn fields_of_amqp_1_0_forge_no_line() {
    let mut shown = BTreeSet::new();
    for numbers in groups(AMQP10.len(), AT_ONCE) {
        let (directory, broker) = start("lines-amqp10");
        for number in numbers {
            // A refused request is as good as one that succeeds.
            drop(timeout(PATIENCE, send10(&broker, AMQP10[number], &hostile(number))).await);
        }
        assert!(broker.terminate().success());
        shown.extend(check_logs(&directory));
    }
    // The log shows many of them, so the check means something.
    assert!(shown.len() >= 5, "{shown:?}");
}

#[tokio::test]
async fn fields_of_amqp_0_9_1_forge_no_line() {
    let mut shown = BTreeSet::new();
    for numbers in groups(AMQP091.len(), AT_ONCE) {
        let (directory, broker) = start("lines-amqp091");
        for number in numbers {
            drop(timeout(PATIENCE, send091(&broker, AMQP091[number], &hostile(number))).await);
        }
        assert!(broker.terminate().success());
        shown.extend(check_logs(&directory));
    }
    assert!(shown.len() >= 4, "{shown:?}");
}

#[test]
fn fields_of_http_forge_no_line() {
    let mut shown = BTreeSet::new();
    for numbers in groups(HTTP.len(), AT_ONCE) {
        let (directory, broker) = start("lines-http");
        assert_eq!(broker.ask("PUT", "/api/queues/%2F/q", "{}").0, 201);
        numbers.for_each(|number| send_http(&broker, HTTP[number], &hostile(number)));
        assert!(broker.terminate().success());
        shown.extend(check_logs(&directory));
    }
    assert!(shown.len() >= 4, "{shown:?}");
}

#[test]
fn names_in_paths_forge_no_line() {
    let mut shown = BTreeSet::new();
    for numbers in groups(parts().len(), 5 * AT_ONCE) {
        let (directory, broker) = start("lines-paths");
        numbers.for_each(|number| send_route(&broker, number, &hostile(number)));
        assert!(broker.terminate().success());
        shown.extend(check_logs(&directory));
    }
    assert!(shown.len() >= 20, "{shown:?}");
}

/// The verbs show names of objects as tables, as JSON, and in explanations.
#[tokio::test]
async fn names_forge_no_line_of_a_verb() {
    let (_directory, broker) = start("lines-verbs");
    // No object has a name with line breaks, but other texts have them.
    let (name, text) = (hostile(1).replace(['\n', '\r'], ""), hostile(2));
    let segment = segment(&name);
    let put = |path: &str, body: Json| {
        let (status, answer) = broker.ask("PUT", path, &body.to_string());
        assert!((200..300).contains(&status), "{path}: {status} {answer}");
    };
    put(&format!("/api/vhosts/{segment}"), json!({ "description": name, "tags": [name] }));
    put(&format!("/api/users/{segment}"), json!({ "password": "p", "tags": [name] }));
    put(&format!("/api/permissions/%2F/{segment}"), json!({ "configure": "", "write": "", "read": "" }));
    put(&format!("/api/queues/%2F/{segment}"), json!({ "arguments": { text.clone(): text } }));
    put(
        &format!("/api/exchanges/%2F/{segment}"),
        json!({ "type": "topic", "arguments": { text.clone(): text } }),
    );
    put(
        &format!("/api/policies/%2F/{segment}"),
        json!({ "pattern": "^none$", "definition": { "max-length": 1 } }),
    );
    put(&format!("/api/global-parameters/{segment}"), json!({ "value": text }));
    let binding = json!({ "routing_key": name, "arguments": { text.clone(): text } }).to_string();
    assert_eq!(broker.ask("POST", &format!("/api/bindings/%2F/e/{segment}/q/{segment}"), &binding).0, 201);
    let url: Url = broker.amqp_url().parse().unwrap();
    let options = Options { container_id: name.clone(), ..Options::default() };
    let connection = Connection::open(&url, options).await.unwrap();
    let session = connection.session().await.unwrap();
    let options = ReceiverOptions { name: Some(name.clone()), ..ReceiverOptions::default() };
    let _receiver = session.receiver(Some(&format!("/queues/{segment}")), options).await.unwrap();

    let lists = [
        "vhosts",
        "users",
        "permissions",
        "queues",
        "exchanges",
        "bindings",
        "policies",
        "global-parameters",
        "connections",
        "sessions",
        "consumers",
    ];
    let mut words: Vec<Vec<&str>> = lists.iter().map(|list| vec!["list", *list]).collect();
    words.extend([
        vec!["show", "queue", &name],
        vec!["show", "exchange", &name],
        vec!["show", "vhost", &name],
        vec!["explain", "queue", &name],
        vec!["explain", "link", &name],
        vec!["export", "definitions"],
        vec!["show", "queue", "absent", "-p", &name],
    ]);
    for words in words {
        for with_json in [false, true] {
            let mut words = words.clone();
            if with_json && words[0] != "export" {
                words.push("--json");
            }
            let did = broker.verb(&words);
            let text = format!("{}{}", did.out, did.err);
            // An explanation of a queue does not repeat its name.
            assert!(words[..2] == ["explain", "queue"] || text.contains("f1."), "{words:?}: {did:?}");
            for line in text.lines() {
                assert!(!line.contains(is_unsafe) && !line.starts_with("1999"), "{words:?}: {line:?}");
            }
            if did.code == 0 && (with_json || words[0] == "export") {
                serde_json::from_str::<Json>(&did.out).unwrap_or_else(|error| panic!("{words:?}: {error}"));
            }
        }
    }
}
