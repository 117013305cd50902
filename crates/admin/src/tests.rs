//! Transcripts of the whole API over real sockets, with an admin API in memory.

mod accounts;
mod bindings;
mod bodies;
mod browse;
mod channels;
mod cluster;
mod crowd;
mod dashboard;
mod definitions;
mod explanations;
mod headers;
mod health;
mod http;
mod left_out;
mod lists;
mod metrics;
mod origins;
mod page;
mod page_login;
mod parts;
mod policies;
mod quorum;
mod rates;
mod test_node;

use broker::admin_api::amqp10_rows::{Amqp10Row, LinkRow, SessionRow};
use broker::admin_api::{ConnectionRow, ConsumerRow, PassedCounts, ProtocolRow};
use broker::settings::SLUICE_VERSION;
use catalog::access::Authority;

use self::http::{Server, raw, request};
use crate::routes::{Action, ROUTES, Route};

/// Fewer logins than an address may fail before the answers to its failures wait.
const STRANGERS_MAX: usize = 15;

/// Every route requires authentication: all requests pass through the same function.
#[tokio::test]
async fn every_route_requires_authentication() {
    for routes in ROUTES.chunks(STRANGERS_MAX) {
        let server = Server::start().await;
        for Route { method: verb, path: pattern, action, .. } in routes {
            let path = pattern.replace(['{', '}'], "");
            let nobody = server.ask(None, &verb.to_string(), &path, "not json").await;
            let stranger = server.ask(Some("stranger"), &verb.to_string(), &path, "not json").await;
            let untagged = server.ask(Some("app"), &verb.to_string(), &path, "not json").await;
            if let Action::Index | Action::Asset | Action::PageLogin = *action {
                assert_eq!(nobody.status, if *action == Action::Asset { 404 } else { 200 });
                continue;
            }
            for refused in [&nobody, &stranger] {
                assert_eq!(refused.status, 401, "{verb} {pattern}");
                assert_eq!(refused.header("www-authenticate"), Some("Basic realm=\"Sluice Management\""));
                assert_eq!(refused.body, r#"{"error":"not_authorized","reason":"Not_Authorized"}"#);
            }
            assert_eq!(untagged.status, 401, "{verb} {pattern}");
            assert_eq!(untagged.header("www-authenticate"), None);
            assert_eq!(untagged.body, r#"{"error":"not_authorised","reason":"Not management user"}"#);
        }
    }
}

#[tokio::test]
async fn invalid_credentials_are_refused() {
    let server = Server::start().await;
    for header in [
        "Authorization: Bearer x\r\n",
        "Authorization: Basic\r\n",
        "Authorization: Basic ???\r\n",
        "Authorization: Basic Z3Vlc3Q=\r\n",
        "Authorization: Basic /w==\r\n",
        "Authorization: B\u{e9}\u{e9}\u{e9}\u{e9}\r\n",
    ] {
        assert_eq!(
            request(server.management, "GET", "/api/whoami", header, "").await.status,
            401,
            "{header}"
        );
    }
    let long = format!("Authorization: Basic {}\r\n", "Z3Vlc3Q6Z3Vlc3Q=".repeat(400));
    assert_eq!(request(server.management, "GET", "/api/whoami", &long, "").await.status, 401);
    let any_case = "Authorization: bASIC Z3Vlc3Q6Z3Vlc3Q=\r\n";
    assert_eq!(request(server.management, "GET", "/api/whoami", any_case, "").await.status, 200);
}

/// The peer's address matters for users who may connect from this machine only.
#[tokio::test]
async fn the_peer_address_is_checked() {
    let api = test_node::TestNode::new();
    let headers = [("authorization".parse().unwrap(), "Basic Z3Vlc3Q6Z3Vlc3Q=".parse().unwrap())];
    let headers = headers.into_iter().collect();
    let (ports, uri) = (crate::Ports::default(), "/api/whoami".parse().unwrap());
    let from = async |peer: &str| {
        crate::auth::authenticate(&api, &ports, &uri, &headers, peer.parse().unwrap()).await
    };
    assert_eq!(&*from("[::ffff:127.0.0.1]:1").await.unwrap().who.user, "guest");
    assert_eq!(from("10.0.0.1:1").await.unwrap_err().status, 401);
}

#[tokio::test]
async fn a_server_stops_on_request() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let router = crate::management_router(test_node::TestNode::new().api(), crate::Ports::default());
    let server = tokio::spawn(crate::serve(listener, None, router, crate::Ports::default(), async {
        drop(stopped.await);
    }));
    assert_eq!(request(address, "GET", "/", "", "").await.status, 200);
    // A connection that never sends anything does not keep the server running.
    let _idle = tokio::net::TcpStream::connect(address).await.unwrap();
    stop.send(()).unwrap();
    server.await.unwrap().unwrap();
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_request_names_one_host() {
    let server = Server::start().await;
    for (address, path) in [(server.management, "/"), (server.metrics, "/metrics")] {
        for (version, hosts, status) in [
            ("1.1", "Host: h\r\n", 200),
            ("1.1", "", 400),
            ("1.1", "Host: h\r\nHost: h\r\n", 400),
            ("1.0", "", 200),
            ("1.0", "Host: h\r\nHost: g\r\n", 400),
        ] {
            let text = format!("GET {path} HTTP/{version}\r\n{hosts}Connection: close\r\n\r\n");
            assert_eq!(raw(address, &text).await.status, status, "{text}");
        }
    }
}

#[tokio::test]
async fn values_in_errors_are_json() {
    let server = Server::start().await;
    server
        .check(
            "guest",
            r#"
            PUT /api/queues/%2F/q {"arguments":{"x-max-length":5}} -> 201
            PUT /api/queues/%2F/q {"arguments":{"x-max-length":1.23e29}} -> 400 {"error":"bad_request","reason":"inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received '1.23e29' but current is '5'"}
            PUT /api/queues/%2F/q {"arguments":{"x-max-length":{"a":[1.23e29,null]}}} -> 400 {"error":"bad_request","reason":"inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received '{\"a\":[1.23e29,null]}' but current is '5'"}
            "#,
        )
        .await;
}

#[tokio::test]
async fn unknown_paths_and_methods_are_refused() {
    let server = Server::start().await;
    server
        .check(
            "guest",
            r#"
            GET /api -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"the API has no such path"}
            GET /api/nope -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"the API has no such path"}
            GET /api/queues/%2F/q/nope -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"the API has no such path"}
            GET /api/queues///q -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"the API has no such path"}
            GET /api/queues/%ff/q -> 400 {"error":"bad_request","reason":"the path is not UTF-8"}
            POST /api/overview -> 405 {"error":"method_not_allowed","reason":"allowed: HEAD, GET, OPTIONS"}
            PATCH /api/queues/%2F/q -> 405 {"error":"method_not_allowed","reason":"allowed: HEAD, GET, PUT, DELETE, OPTIONS"}
            GET /api/queues/%2F/q/contents -> 405 {"error":"method_not_allowed","reason":"allowed: DELETE, OPTIONS"}
            "#,
        )
        .await;
    let refused = server.ask(Some("guest"), "POST", "/api/queues/%2F/q", "").await;
    assert_eq!(refused.header("allow"), Some("HEAD, GET, PUT, DELETE, OPTIONS"));
    assert_eq!(refused.header("content-type"), Some("application/json"));
}

#[tokio::test]
async fn queues() {
    let server = Server::start().await;
    server
        .check(
            "guest",
            r#"
            GET /api/queues -> 200 []
            GET /api/queues/%2F -> 200 []
            GET /api/queues/nope -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no vhost 'nope'"}
            GET /api/queues/%2F/q -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no queue 'q' in vhost '/'"}
            PUT /api/queues/nope/q -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no vhost 'nope'"}

            # An empty body, an empty object and null mean the same declaration: durable.
            PUT /api/queues/%2F/q -> 201
            PUT /api/queues/%2F/q {} -> 204
            PUT /api/queues/%2F/q null -> 204
            PUT /api/queues/%2F/q {"durable":"true","auto_delete":null,"arguments":[],"node":"x","unknown":1} -> 204
            PUT /api/queues/%2F/q {"auto_delete":true} -> 400 {"error":"bad_request","reason":"inequivalent arg 'auto_delete' for queue 'q' in vhost '/': received 'true' but current is 'false'"}
            GET /api/queues/%2F/q -> 200 {"name":"q","vhost":"/","type":"classic","durable":true,"auto_delete":false,"exclusive":false,"arguments":{},"policy":null,"operator_policy":null,"effective_policy_definition":{},"node":"n@h","state":"running","message_bytes":0,"message_bytes_ready":0,"message_bytes_unacknowledged":0,"message_bytes_dlx":0,"messages_dlx":0,"messages_delayed":0,"consumers":0,"head_message_timestamp":null,"messages":0,"messages_details":{"rate":0.0},"messages_ready":0,"messages_ready_details":{"rate":0.0},"messages_unacknowledged":0,"messages_unacknowledged_details":{"rate":0.0},"rates_are_known":false,"message_stats":{"publish":0,"publish_details":{"rate":0.0},"deliver":0,"deliver_details":{"rate":0.0},"deliver_no_ack":0,"deliver_no_ack_details":{"rate":0.0},"get":0,"get_details":{"rate":0.0},"get_no_ack":0,"get_no_ack_details":{"rate":0.0},"deliver_get":0,"deliver_get_details":{"rate":0.0},"redeliver":0,"redeliver_details":{"rate":0.0},"ack":0,"ack_details":{"rate":0.0},"expired":0,"expired_details":{"rate":0.0},"dropped":0,"dropped_details":{"rate":0.0},"dead_lettered":0,"dead_lettered_details":{"rate":0.0},"publish_rejected":0,"publish_rejected_details":{"rate":0.0},"annotations_refused":0,"annotations_refused_details":{"rate":0.0},"rates_are_known":false},"consumer_details":[]}
            GET /api/queues/%2F/q/ -> 200 {"name":"q",..
            GET /api/queues/%2F/q?columns=name,message_stats.ack,nope -> 200 {"name":"q","message_stats":{"ack":0}}
            GET /api/queues/%2F/q?disable_stats=true -> 200 {"name":"q","vhost":"/","type":"classic","durable":true,"auto_delete":false,"exclusive":false,"arguments":{},"policy":null,"operator_policy":null,"effective_policy_definition":{},"node":"n@h","state":"running"}
            GET /api/queues/%2F/q?disable_stats=true&enable_queue_totals=true&columns=messages -> 200 {"messages":0}

            # Invalid bodies.
            PUT /api/queues/%2F/r [] -> 400 {"error":"bad_request","reason":"not_json"}
            PUT /api/queues/%2F/r "{}" -> 400 {"error":"bad_request","reason":"not_json"}
            PUT /api/queues/%2F/r {"durable": -> 400 {"error":"bad_request","reason":"not_json"}
            PUT /api/queues/%2F/r {"durable":1} -> 400 {"error":"bad_request","reason":"'durable' is not a boolean"}
            PUT /api/queues/%2F/r {"exclusive":true} -> 400 {"error":"bad_request","reason":"an exclusive queue must..
            PUT /api/queues/%2F/r {"arguments":7} -> 400 {"error":"bad_request","reason":"'arguments' is not an object"}
            PUT /api/queues/%2F/r {"arguments":{"x-max-length":"many"}} -> 400 {"error":"bad_request","reason":"invalid arg 'x-max-length' for queue 'r' in vhost '/': ..
            PUT /api/queues/%2F/r {"arguments":{"x-queue-type":"jms"}} -> 400 {"error":"bad_request","reason":"queue type 'jms'..
            PUT /api/queues/%2F/amq.r -> 401 {"error":"not_authorised","reason":"queue name 'amq.r' contains reserved prefix 'amq.*'"}

            # Arguments keep their types, and names their characters.
            PUT /api/queues/%2F/a%2Fb%20c%23%C3%A4 {"arguments":{"x-max-length":5,"note":[1.5,{"k":[true]}]}} -> 201
            GET /api/queues/%2F/a%2Fb%20c%23%C3%A4?columns=name,arguments -> 200 {"name":"a/b c#ä","arguments":{"note":[1.5,{"k":[true]}],"x-max-length":5}}
            PUT /api/queues/%2F/a%2Fb%20c%23%C3%A4 {"arguments":{"x-max-length":5,"note":[1.5,{"k":[true]}]}} -> 204

            # Deleting and purging.
            PUT /api/queues/%2F/full -> 201
            "#,
        )
        .await;
    server.api.publish("full", 3);
    server
        .check(
            "guest",
            r#"
            GET /api/queues/%2F/full?columns=messages,message_bytes -> 200 {"message_bytes":30,"messages":3}
            DELETE /api/queues/%2F/full?if-empty=true&if-unused=true -> 400 {"error":"bad_request","reason":"queue 'full' in vhost '/' not empty"}
            DELETE /api/queues/%2F/full/contents -> 204
            DELETE /api/queues/%2F/full?if-empty=true -> 204
            DELETE /api/queues/%2F/full -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no queue 'full' in vhost '/'"}
            DELETE /api/queues/%2F/full/contents -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no queue 'full' in vhost '/'"}
            GET /api/queues?columns=name -> 200 [{"name":"a/b c#ä"},{"name":"q"}]
            "#,
        )
        .await;
}

#[tokio::test]
async fn a_body_has_a_bound() {
    let server = Server::start().await;
    let large = format!("{{\"note\":\"{}\"}}", "x".repeat(10_000_001));
    let answer = server.ask(Some("guest"), "PUT", "/api/queues/%2F/q", &large).await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.body, r#"{"error":"bad_request","reason":"Exceeded HTTP request body size limit"}"#);
    let fits = format!("{{\"note\":\"{}\"}}", "x".repeat(9_000_000));
    assert_eq!(server.ask(Some("guest"), "PUT", "/api/queues/%2F/q", &fits).await.status, 201);
}

#[tokio::test]
async fn the_admin_api_checks_permissions() {
    let server = Server::start().await;
    server.check("guest", "PUT /api/queues/%2F/q -> 201").await;
    server
        .check(
            "powerless",
            r#"
            GET /api/queues/%2F/q?columns=name -> 200 {"name":"q"}
            PUT /api/queues/%2F/r -> 401 {"error":"not_authorised","reason":"configure access to queue 'r' in vhost '/' refused for user 'powerless'"}
            DELETE /api/queues/%2F/q -> 401 {"error":"not_authorised","reason":"configure access to..
            DELETE /api/queues/%2F/q/contents -> 401 {"error":"not_authorised","reason":"read access to..
            GET /api/queues/%2F/q/messages -> 401 {"error":"not_authorised","reason":"read access to..
            PUT /api/exchanges/%2F/x -> 401 {"error":"not_authorised","reason":"configure access to exchange..
            POST /api/bindings/%2F/e/amq.topic/q/q {} -> 401 {"error":"not_authorised","reason":"write access to queue..
            GET /api/nodes -> 401 {"error":"not_authorised","reason":"Not monitor user"}
            "#,
        )
        .await;
}

#[tokio::test]
async fn exchanges() {
    let server = Server::start().await;
    server
        .check(
            "guest",
            r#"
            GET /api/exchanges?columns=name,type -> 200 [{"name":"","type":"direct"},{"name":"amq.direct","type":"direct"},{"name":"amq.fanout","type":"fanout"},{"name":"amq.headers","type":"headers"},{"name":"amq.match","type":"headers"},{"name":"amq.rabbitmq.trace","type":"topic"},{"name":"amq.topic","type":"topic"}]
            GET /api/exchanges/%2F?columns=vhost&page=1&page_size=1 -> 200 {"filtered_count":7,"item_count":1,"items":[{"vhost":"/"}],"page":1,"page_count":7,"page_size":1,"total_count":7}
            GET /api/exchanges/nope -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no vhost 'nope'"}
            GET /api/exchanges/%2F/amq.default?columns=name,durable -> 200 {"name":"","durable":true}
            GET /api/exchanges/%2F/x -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no exchange 'x' in vhost '/'"}
            PUT /api/exchanges/%2F/x {"type":"topic","arguments":{"alternate-exchange":"amq.fanout"}} -> 201
            PUT /api/exchanges/%2F/x {"type":"topic","arguments":{"alternate-exchange":"amq.fanout"}} -> 204
            PUT /api/exchanges/%2F/x {"type":"fanout"} -> 400 {"error":"bad_request","reason":"inequivalent arg 'type' for exchange 'x'..
            PUT /api/exchanges/%2F/y {"type":"nope"} -> 400 {"error":"bad_request","reason":"unknown exchange type 'nope'"}
            PUT /api/exchanges/%2F/y {"type":"x-consistent-hash","arguments":{"hash-header":"h","hash-property":"timestamp"}} -> 400 {"error":"bad_request","reason":"invalid arguments for exchange 'y': 'hash-header' and 'hash-property' are mutually exclusive"}
            PUT /api/exchanges/%2F/y {"type":7} -> 400 {"error":"bad_request","reason":"'type' is not a string"}
            PUT /api/exchanges/%2F/amq.default {"type":"direct"} -> 401 {"error":"not_authorised","reason":"operation not permitted on the default exchange"}
            GET /api/exchanges/%2F/x?disable_stats=true -> 200 {"name":"x","vhost":"/","type":"topic","durable":true,"auto_delete":false,"internal":false,"arguments":{"alternate-exchange":"amq.fanout"}}
            PUT /api/queues/%2F/q -> 201
            POST /api/bindings/%2F/e/x/q/q {"routing_key":"a"} -> 201
            DELETE /api/exchanges/%2F/x?if-unused=true -> 400 {"error":"bad_request","reason":"exchange 'x' in vhost '/' in use"}
            DELETE /api/exchanges/%2F/x -> 204
            DELETE /api/exchanges/%2F/x -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no exchange 'x' in vhost '/'"}
            DELETE /api/exchanges/%2F/amq.topic -> 401 {"error":"not_authorised","reason":"deletion of system exchange 'amq.topic' in vhost '/' not allowed"}
            "#,
        )
        .await;
}

#[tokio::test]
async fn lists_are_paged_sorted_and_cut() {
    let server = Server::start().await;
    for i in 1..=5 {
        server.check("guest", &format!("PUT /api/queues/%2F/Q{i} -> 201")).await;
        server.api.state().ready.insert(format!("Q{i}"), 10 - i);
    }
    server.api.state().reports.clear();
    server
        .check(
            "guest",
            r#"
            GET /api/queues?page=1&page_size=2&columns=name -> 200 {"filtered_count":5,"item_count":2,"items":[{"name":"Q1"},{"name":"Q2"}],"page":1,"page_count":3,"page_size":2,"total_count":5}
            GET /api/queues/%2F?page=3&page_size=2&columns=name&pagination=true -> 200 {"filtered_count":5,"item_count":1,"items":[{"name":"Q5"}],"page":3,"page_count":3,"page_size":2,"total_count":5}
            "#,
        )
        .await;
    assert_eq!(server.api.state().reports, [2, 1], "a page costs a page");
    server
        .check(
            "guest",
            r#"
            GET /api/queues?page=1&columns=page -> 200 {"filtered_count":5,"item_count":5,"items":[{},{},{},{},{}],"page":1,"page_count":1,"page_size":100,"total_count":5}
            GET /api/queues?page=2&page_size=5 -> 200 {"filtered_count":5,"item_count":0,"items":[],"page":2,"page_count":1,"page_size":5,"total_count":5}
            GET /api/queues?page=3&page_size=5 -> 400 {"error":"page_out_of_range","reason":"Page out of range, page: 3 page size: 5, len: 5"}
            GET /api/queues?page=0 -> 400 {"error":"invalid_pagination_parameters",..
            GET /api/queues?page=1&page_size=501 -> 400 {"error":"invalid_pagination_parameters","reason":"Invalid pagination parameters: page number 1, page size 501"}
            GET /api/queues?page=1&page_size=500&columns=name -> 200 {"filtered_count":5,..
            GET /api/queues?page=99999999999999999999 -> 400 {"error":"bad_request","reason":"'page' is not a whole number"}
            GET /api/queues?page=18446744073709551615&page_size=500 -> 400 {"error":"page_out_of_range",..
            GET /api/queues?page=x -> 400 {"error":"bad_request","reason":"'page' is not a whole number"}
            GET /api/queues?page=1&name=q3&columns=name -> 200 {"filtered_count":1,"item_count":1,"items":[{"name":"Q3"}],"page":1,"page_count":1,"page_size":100,"total_count":5}
            GET /api/queues?page=1&name=^q[24]$&use_regex=true&columns=name -> 200 {"filtered_count":2,"item_count":2,"items":[{"name":"Q2"},{"name":"Q4"}],"page":1,"page_count":1,"page_size":100,"total_count":5}
            GET /api/queues?page=1&name=^(?!q[1-4])&use_regex=true&columns=name -> 200 {"filtered_count":1,"item_count":1,"items":[{"name":"Q5"}],"page":1,"page_count":1,"page_size":100,"total_count":5}
            GET /api/queues?page=1&name=q.&columns=name -> 200 {"filtered_count":0,..
            GET /api/queues?page=1&name=q(&use_regex=true -> 400 {"error":"bad_request","reason":"name 'q(': the pattern is not a regular expression: ..
            GET /api/queues?page=1&name=q(?=1)&use_regex=true -> 400 {"error":"bad_request","reason":"name 'q(?=1)': the pattern has a look-ahead that is not ..
            GET /api/queues?page=1&name=&use_regex=true&columns=x -> 200 {"filtered_count":5,..
            GET /api/queues?sort=messages&columns=name -> 200 [{"name":"Q5"},{"name":"Q4"},{"name":"Q3"},{"name":"Q2"},{"name":"Q1"}]
            GET /api/queues?sort=message_stats.publish&columns=name -> 200 [{"name":"Q1"},..
            GET /api/queues?sort=&sort_reverse=true&columns=name -> 200 [{"name":"Q5"},..
            GET /api/queues?sort=messages&sort_reverse=true&page=1&page_size=1&columns=name,messages -> 200 {"filtered_count":5,"item_count":1,"items":[{"name":"Q1","messages":9}],..
            GET /api/queues?columns= -> 200 [{},{},{},{},{}]
            "#,
        )
        .await;
}

fn connection(name: &str, user: &str) -> ConnectionRow {
    let link = |handle, incoming, address: &str| LinkRow {
        handle,
        name: format!("l{handle}"),
        incoming,
        source_address: (!incoming).then(|| address.to_owned()),
        target_address: incoming.then(|| address.to_owned()),
        snd_settle_mode: "mixed",
        max_message_size: 16,
        delivery_count: 4,
        credit: 166,
        unsettled: 2,
        unsettled_age_ms: Some(1200),
        consumer_timeout: false,
        consumer: (!incoming).then(|| ConsumerRow {
            tag: format!("l{handle}").into(),
            queue: "a/b".into(),
            settled: false,
            exclusive: false,
            priority: 0,
            active: None,
            browses: false,
            prefetch: 166,
            unsettled: 2,
            unsettled_age_ms: None,
            timeout_ms: 9,
            arguments: amqp10::Map::default(),
        }),
    };
    ConnectionRow {
        name: name.into(),
        user: user.into(),
        authority: Authority::Internal,
        auth_mechanism: "PLAIN",
        vhost: "/".into(),
        secured: None,
        connected_at_ms: 1,
        recv_bytes: 2,
        send_bytes: 3,
        node: "n@h".into(),
        protocol: ProtocolRow::Amqp10(Amqp10Row {
            container_id: "c".into(),
            client_properties: Some([(amqp10::Symbol::from_static("product"), "p")].into_iter().collect()),
            channel_max: 63,
            frame_max: 131_072,
            sessions: vec![SessionRow {
                channel: 0,
                handle_max: 255,
                next_incoming_id: 1,
                incoming_window: 400,
                next_outgoing_id: 2,
                remote_incoming_window: 2048,
                outgoing_unsettled: 3,
                outgoing_pending: 4,
                counts: PassedCounts::default(),
                links: vec![link(0, true, "/exchanges/x/k"), link(1, false, "/queues/a%2Fb")],
            }],
        }),
    }
}

#[tokio::test]
async fn connections() {
    let server = Server::start().await;
    server.api.state().connections =
        vec![connection("[::1]:2 -> [::1]:5672", "own"), connection("10.0.0.1:1 -> 10.0.0.2:5672", "guest")];
    server
        .check(
            "guest",
            r#"
            GET /api/connections?columns=name -> 200 [{"name":"10.0.0.1:1 -> 10.0.0.2:5672"},{"name":"[::1]:2 -> [::1]:5672"}]
            GET /api/connections/10.0.0.1:1%20-%3E%2010.0.0.2:5672?disable_stats=true -> 200 {"name":"10.0.0.1:1 -> 10.0.0.2:5672","node":"n@h","type":"network","state":"running","user":"guest","auth_backend":"internal","auth_mechanism":"PLAIN","vhost":"/","peer_host":"10.0.0.1","peer_port":1,"host":"10.0.0.2","port":5672,"ssl":false,"connected_at":1,"protocol":"AMQP 1-0","container_id":"c","client_properties":{"product":"p"},"channels":1,"channel_max":63,"frame_max":131072,"sessions":[{"channel_number":0,"handle_max":255,"next_incoming_id":1,"incoming_window":400,"next_outgoing_id":2,"remote_incoming_window":2048,"outgoing_unsettled_deliveries":3,"outgoing_pending_deliveries":4,"incoming_links":[{"handle":0,"link_name":"l0","target_address":"/exchanges/x/k","snd_settle_mode":"mixed","max_message_size":16,"delivery_count":4,"credit":166,"unconfirmed_messages":2,"unconfirmed_age_ms":1200}],"outgoing_links":[{"handle":1,"link_name":"l1","source_address":"/queues/a%2Fb","queue_name":"a/b","send_settled":false,"max_message_size":16,"delivery_count":4,"credit":166,"unsettled_deliveries":2,"consumer_timeout":false,"unacknowledged_age_ms":1200}]}]}
            GET /api/connections/10.0.0.1:1%20-%3E%2010.0.0.2:5672/sessions?disable_stats=true -> 200 [{"channel_number":0,"handle_max":255,"next_incoming_id":1,"incoming_window":400,"next_outgoing_id":2,"remote_incoming_window":2048,"outgoing_unsettled_deliveries":3,"outgoing_pending_deliveries":4,"incoming_links":[{"handle":0,"link_name":"l0","target_address":"/exchanges/x/k","snd_settle_mode":"mixed","max_message_size":16,"delivery_count":4,"credit":166,"unconfirmed_messages":2,"unconfirmed_age_ms":1200}],"outgoing_links":[{"handle":1,"link_name":"l1","source_address":"/queues/a%2Fb","queue_name":"a/b","send_settled":false,"max_message_size":16,"delivery_count":4,"credit":166,"unsettled_deliveries":2,"consumer_timeout":false,"unacknowledged_age_ms":1200}]}]
            GET /api/connections/username/own?columns=user -> 200 [{"user":"own"}]
            GET /api/connections/username/nobody -> 200 []
            GET /api/vhosts/%2F/connections?columns=user -> 200 [{"user":"guest"},{"user":"own"}]
            GET /api/vhosts/nope/connections -> 404 {"error":"Object Not Found",..
            GET /api/connections/nope -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no connection 'nope'"}
            GET /api/sessions?columns=name,node,user,vhost,container_id,channel_number,incoming_window,connection_details,incoming_links.link_name -> 200 [{"channel_number":0,"incoming_window":400,"incoming_links":[{"link_name":"l0"}],"name":"10.0.0.1:1 -> 10.0.0.2:5672 (0)",..
            GET /api/vhosts/%2F/sessions?columns=name&sort=incoming_window -> 200 [{"name":"10.0.0.1:1 -> 10.0.0.2:5672 (0)"},{"name":"[::1]:2 -> [::1]:5672 (0)"}]
            GET /api/sessions?page=1&name=OWN&columns=name,user -> 200 {"filtered_count":1,"item_count":1,"items":[{"name":"[::1]:2 -> [::1]:5672 (0)","user":"own"}],..
            GET /api/vhosts/nope/sessions -> 404 {"error":"Object Not Found",..
            GET /api/connections/nope/sessions -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no connection 'nope'"}
            DELETE /api/connections/nope -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no connection 'nope'"}
            "#,
        )
        .await;
    server
        .check(
            "own",
            r#"
            GET /api/connections?columns=user,peer_host -> 200 [{"user":"own","peer_host":"::1"}]
            GET /api/connections/10.0.0.1:1%20-%3E%2010.0.0.2:5672 -> 401 {"error":"not_authorised","reason":"User not authorised to access object"}
            GET /api/connections/10.0.0.1:1%20-%3E%2010.0.0.2:5672/sessions -> 401 {"error":"not_authorised",..
            DELETE /api/connections/10.0.0.1:1%20-%3E%2010.0.0.2:5672 -> 401 {"error":"not_authorised",..
            DELETE /api/connections/%5B::1%5D:2%20-%3E%20%5B::1%5D:5672 -> 204
            GET /api/connections -> 200 []
            "#,
        )
        .await;
    server
        .check(
            "monitor",
            r#"
            GET /api/connections/10.0.0.1:1%20-%3E%2010.0.0.2:5672?columns=user -> 200 {"user":"guest"}
            DELETE /api/connections/10.0.0.1:1%20-%3E%2010.0.0.2:5672 -> 401 {"error":"not_authorised",..
            "#,
        )
        .await;
    server.check("guest", "DELETE /api/connections/10.0.0.1:1%20-%3E%2010.0.0.2:5672 -> 204").await;
    // The text of RabbitMQ, where the request gives no reason.
    assert_eq!(
        server.api.state().close_reasons.last().map(String::as_str),
        Some("Closed via management plugin")
    );
}

#[tokio::test]
async fn overview_and_nodes() {
    let server = Server::start().await;
    server
        .check(
            "guest",
            &r#"
            GET /api/whoami -> 200 {"name":"guest","tags":["administrator"],"is_internal_user":true,"auth_backend":"internal","permissions":[{"user":"guest","vhost":"/","configure":".*","write":".*","read":".*"}]}
            GET /api/overview?columns=product_name,product_version,rabbitmq_version,sluice_version,cluster_name,node,message_stats.publish,object_totals.queues -> 200 {"product_name":"RabbitMQ","product_version":"4.3.6","rabbitmq_version":"4.3.6","sluice_version":"VERSION","cluster_name":"c","node":"n@h","object_totals":{"queues":0},"message_stats":{"publish":9}}
            GET /api/overview?columns=listeners -> 200 {"listeners":[{"node":"n@h","protocol":"amqp","ip_address":"127.0.0.1","port":5672,"socket_opts":{}},{"node":"n@h","protocol":"http","ip_address":"127.0.0.1","port":15672,"socket_opts":{}}]}
            GET /api/overview?columns=contexts -> 200 {"contexts":[{"node":"n@h","description":"RabbitMQ Management","path":"/","ip":"127.0.0.1","port":"15672","ssl_opts":[],"ssl":false}]}
            GET /api/overview?columns=disable_stats,enable_queue_totals,is_op_policy_updating_enabled,cluster_tags,node_tags,statistics_db_event_queue -> 200 {"disable_stats":false,"enable_queue_totals":false,"is_op_policy_updating_enabled":true,"cluster_tags":{},"node_tags":{},"statistics_db_event_queue":0}
            PUT /api/global-parameters/cluster_tags {"value":{"region":"eu"}} -> 201
            GET /api/overview?columns=cluster_tags -> 200 {"cluster_tags":{"region":"eu"}}
            DELETE /api/global-parameters/cluster_tags -> 204
            GET /api/overview?columns=erlang_version,erlang_full_version,crypto_lib_version -> 200 {"erlang_version":"27.3.4","erlang_full_version":"Erlang/OTP 27 [erts-15.2.7] [source] [64-bit]","crypto_lib_version":"OpenSSL 3.5.4 30 Sep 2025"}
            GET /api/global-parameters/internal_cluster_id -> 200 {"name":"internal_cluster_id","value":"rabbitmq-cluster-id-0a000000000000000000000000000000"}
            GET /api/vhosts?disable_stats=true -> 200 [{"name":"/","description":"","tags":[],"default_queue_type":"classic","protected_from_deletion":false,"limits":{},"metadata":{"description":"","tags":[],"default_queue_type":"classic"},"tracing":false,"deleting":false,"cluster_state":{"n@h":"running"}}]
            GET /api/vhosts/%2F?columns=name -> 200 {"name":"/"}
            GET /api/vhosts/nope -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no vhost 'nope'"}
            GET /api/nodes?columns=name,running,node_id,boots -> 200 [{"name":"n@h","running":true,"node_id":"0a000000000000000000000000000000","boots":3}]
            GET /api/nodes/n@h?columns=mem_alarm,disk_free_alarm -> 200 {"mem_alarm":false,"disk_free_alarm":false}
            GET /api/nodes/n@h?columns=budgets -> 200 {"budgets":[{"name":"one","used":1,"limit":10},{"name":"two","used":2,"limit":20},{"name":"http_bodies","used":0,"limit":33554432},{"name":"http_answers","used":0,"limit":67108864}]}
            GET /api/nodes/nope/memory/relative -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no node 'nope'"}
            GET /api/nodes/nope/memory -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no node 'nope'"}
            GET /api/version -> 200 "4.3.6"
            GET /api/cluster-name -> 200 {"name":"c"}
            GET /api/nodes?columns=being_drained,partitions,rates_mode,rabbitmq_version -> 200 [{"rabbitmq_version":"4.3.6","being_drained":false,"partitions":[],"rates_mode":"basic"}]
            GET /api/nodes/n@h?columns=proc_used,proc_total,run_queue,sockets_used,sockets_total,contexts.port -> 200 {"proc_used":0,"proc_total":1048576,"run_queue":0,"sockets_used":0,"sockets_total":2,"contexts":[{"port":"15672"}]}
            GET /api/extensions -> 200 []
            GET /api/feature-flags?columns=name,state,stability&page=1&page_size=1&name=stream_queue -> 200 {"filtered_count":1,"item_count":1,"items":[{"name":"stream_queue","state":"enabled","stability":"required"}],..
            GET /api/feature-flags?columns=name,state,stability&page=1&page_size=1&name=rabbitmq_4.3.0 -> 200 {"filtered_count":1,"item_count":1,"items":[{"name":"rabbitmq_4.3.0","state":"enabled","stability":"stable"}],..
            PUT /api/feature-flags/khepri_db/enable {"name":"khepri_db"} -> 204
            PUT /api/feature-flags/nope/enable {"name":"nope"} -> 400 {"error":"bad_request","reason":"unsupported: there is no feature flag 'nope'"}
            GET /api/deprecated-features?columns=name,state,uses -> 200 [{"name":"amqp_address_v1","state":"denied","uses":0},{"name":"amqp_filter_set_bug","state":"denied","uses":0},{"name":"classic_queue_mirroring","state":"denied","uses":0},{"name":"global_qos","state":"permitted","uses":1},{"name":"management_metrics_collection","state":"permitted","uses":0},{"name":"queue_master_locator","state":"denied","uses":0},{"name":"ram_node_type","state":"denied","uses":0},{"name":"transient_nonexcl_queues","state":"permitted","uses":0}]
            GET /api/deprecated-features?columns=desc,doc_url,deprecation_phase&page=1&page_size=1 -> 200 {"filtered_count":8,"item_count":1,"items":[{"desc":"Links of AMQP 1.0 to addresses of format v1","doc_url":"","deprecation_phase":"denied_by_default"}],"page":1,"page_count":8,"page_size":1,"total_count":8}
            GET /api/deprecated-features/used?columns=name -> 200 [{"name":"global_qos"}]
            POST /api/vhosts/%2F/start/n@h -> 204
            POST /api/vhosts/%2F/start/other -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no node 'other'"}
            GET /api/nodes/nope -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no node 'nope'"}
            HEAD /api/whoami -> 200
            "#.replace("VERSION", SLUICE_VERSION),
        )
        .await;
    server.api.state().stuck = true;
    let busy = r#"GET /api/overview -> 503 {"error":"service_unavailable","reason":"no answer in time"}"#;
    server.check("guest", busy).await;
    // Only the figures of virtual hosts need an answer of the shards.
    server.check("guest", r#"GET /api/vhosts?columns=name,cluster_state -> 200 [{"name":"/","cluster_state":{"n@h":"running"}}]"#).await;
    server.check("guest", "POST /api/vhosts/%2F/start/n@h -> 204").await;
}
