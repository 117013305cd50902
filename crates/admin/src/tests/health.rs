//! Checks of the health.

use broker::admin_api::GroupRow;
use broker::explain::Resources;

use super::http::Server;
use super::test_node::{Options, TestNode};
use super::{connection, quorum};
use crate::Ports;
use crate::health::check_alarms;
use crate::reply::Reply;

#[tokio::test]
async fn health_checks() {
    let server = Server::start().await;
    let healthy = r#"
        GET /api/health/checks/alarms -> 200 {"status":"ok"}
        GET /api/health/checks/local-alarms -> 200 {"status":"ok"}
        GET /api/health/checks/ready-to-serve-clients -> 200 {"status":"ok"}
        GET /api/health/checks/virtual-hosts -> 200 {"status":"ok"}
        GET /api/health/checks/is-in-service -> 200 {"status":"ok"}
        GET /api/health/checks/node-is-quorum-critical -> 200 {"status":"ok"}
        GET /api/health/checks/metadata-store/initialized/with-data -> 200 {"status":"ok"}
        GET /api/health/checks/reached-target-cluster-size -> 200 {"status":"ok"}
        GET /api/health/checks/port-listener/5672 -> 200 {"status":"ok","port":5672}
        GET /api/health/checks/port-listener/1 -> 503 {"status":"failed","reason":"No active listener","missing":1,"ports":[5672,15672]}
        GET /api/health/checks/port-listener/x -> 400 {"error":"bad_request","reason":"a port number is needed"}
        GET /api/health/checks/protocol-listener/amqp10,amqp091 -> 200 {"status":"ok"}
        GET /api/health/checks/protocol-listener/mqtt,amqp -> 503 {"status":"failed","reason":"No active listener","missing":["mqtt"],"protocols":["amqp","http"]}
        GET /api/health/checks/below-node-connection-limit -> 200 {"status":"ok","current":0,"limit":2}
        GET /api/health/checks/quorum-queues-without-elected-leaders/all-vhosts -> 200 {"status":"ok"}
        GET /api/health/checks/quorum-queues-without-elected-leaders/vhost/nope -> 404 {"error":"Object Not Found",..
        GET /api/health/checks/nope -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"the API has no such path"}
        "#;
    server.check("own", healthy).await;
    server.check("own", r#"PUT /api/queues/%2F/r {"arguments":{"x-queue-type":"quorum"}} -> 201"#).await;
    // A queue that is not in use has no leader yet. It gets one as soon as a client needs it.
    let asleep =
        r#"GET /api/health/checks/quorum-queues-without-elected-leaders/all-vhosts -> 200 {"status":"ok"}"#;
    server.check("own", asleep).await;
    server.api.state().groups.insert("r".into(), quorum::group());
    server.check("own", asleep).await;
    let resting = GroupRow { leads: false, rests: true, ..quorum::group() };
    server.api.state().groups.insert("r".into(), resting);
    server.check("own", asleep).await;
    server.api.state().damaged.push("r".into());
    let damaged = r#"GET /api/health/checks/quorum-queues-without-elected-leaders/all-vhosts -> 503 {"status":"failed",.."#;
    server.check("own", damaged).await;
    server.api.state().damaged.clear();
    server.api.state().groups.insert("r".into(), GroupRow { rests: false, ..resting });
    server.api.state().connections = vec![connection("a", "own"), connection("b", "own")];
    server.api.resources().memory_alarm = true;
    server
        .check(
            "own",
            r#"
            GET /api/health/checks/alarms -> 503 {"status":"failed","reason":"There are alarms in effect in the cluster","alarms":[{"node":"n@h","resource":"memory"}]}
            GET /api/health/checks/local-alarms -> 503 {"status":"failed","reason":"There are alarms in effect on the local node","alarms":[{"node":"n@h","resource":"memory"}]}
            GET /api/health/checks/below-node-connection-limit -> 503 {"status":"failed","reason":"node connection limit is reached","current":2,"limit":2}
            GET /api/health/checks/quorum-queues-without-elected-leaders/vhost/%2F -> 503 {"status":"failed","reason":"There are quorum queues without an elected leader","queues":[{"name":"r","vhost":"/"}]}
            GET /api/health/checks/quorum-queues-without-elected-leaders/vhost/%2F/pattern/^r -> 503 {"status":"failed",..
            GET /api/health/checks/quorum-queues-without-elected-leaders/vhost/%2F/pattern/^q -> 200 {"status":"ok"}
            GET /api/health/checks/quorum-queues-without-elected-leaders/all-vhosts/pattern/r$ -> 503 {"status":"failed",..
            GET /api/health/checks/quorum-queues-without-elected-leaders/all-vhosts/pattern/( -> 400 {"error":"bad_request","reason":"the pattern is not a regular expression: ..
            "#,
        )
        .await;
    *server.api.resources() = Resources { disk_alarm: true, ..Resources::default() };
    server
        .check(
            "own",
            r#"GET /api/health/checks/local-alarms -> 503 {"status":"failed","reason":"There are alarms in effect on the local node","alarms":[{"node":"n@h","resource":"disk"}]}"#,
        )
        .await;
    let deaf = TestNode::with(Options { listens: false, ..Options::default() });
    let server = Server::start_on(deaf, Ports::default()).await;
    server
        .check(
            "own",
            r#"GET /api/health/checks/ready-to-serve-clients -> 503 {"status":"failed","reason":"There is no listener for clients"}"#,
        )
        .await;
}

#[test]
fn an_alarm_of_another_node_is_not_local() {
    let of = |node| match check_alarms(vec![("memory", "other@h".into()), ("disk", "n@h".into())], node) {
        Reply::Unhealthy(answer) => answer.to_string(),
        _ => String::new(),
    };
    let disk = r#"{"node":"n@h","resource":"disk"}"#;
    let all = format!(
        r#"{{"status":"failed","reason":"There are alarms in effect in the cluster","alarms":[{{"node":"other@h","resource":"memory"}},{disk}]}}"#
    );
    let local = format!(
        r#"{{"status":"failed","reason":"There are alarms in effect on the local node","alarms":[{disk}]}}"#
    );
    assert_eq!((of(None), of(Some("n@h")), of(Some("idle@h"))), (all, local, String::new()));
}
