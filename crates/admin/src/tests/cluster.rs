//! What is shown of a cluster.

use broker::explain::{ConnectionFacts, LinkFacts, LinkId, Role, ShardFacts};
use catalog::KnownNode;
use catalog::access::Authority;
use node::shard::looks::CatalogSight;
use node::{ClusterNode, ClusterView, NodeState};
use serde_json::{Value, json};

use super::http::{Server, request};

/// Returns another node, of which nothing is known but its place.
fn node(number: u32, name: &str, state: NodeState) -> ClusterNode {
    let here = ClusterView::alone(name.into()).nodes.remove(0);
    ClusterNode { number: Some(number), address: Some((name[2..].into(), 25_672)), state, ..here }
}

/// A server on the node `n@h` in a cluster with `b@b`, which is in sight and decides, and `c@c`, which is missing.
async fn server() -> Server {
    let server = Server::start().await;
    let b = ClusterNode {
        node_id: Some("0b".into()),
        boots: Some(9),
        why: "in order".into(),
        since_ms: Some(5_000),
        is_linked: (true, true),
        round_trip_ms: Some(2),
        waiting_bytes: Some(77),
        clock_ahead_ms: Some(-3),
        ..node(2, "b@b", NodeState::InSight)
    };
    let c = ClusterNode {
        why: "nothing is heard from it".into(),
        since_ms: Some(61_000),
        ..node(3, "c@c", NodeState::Missing)
    };
    *server.api.cluster() = ClusterView {
        cluster: Some("0c".into()),
        nodes: vec![b, node(1, "n@h", NodeState::Here), c],
        ..ClusterView::alone("n@h".into())
    };
    let known = |number: u32, name: &str| (number, KnownNode { identity: [1; 16], name: name.into() });
    server.api.state().sight = Some(CatalogSight {
        nodes: vec![known(1, "n@h"), known(2, "b@b"), known(3, "c@c")],
        here: 1,
        leader: Some(2),
        voters: vec![1, 2, 3],
        has_majority: true,
        applied: 12,
    });
    server
}

#[tokio::test]
async fn nodes_show_what_is_known_of_them() {
    let server = server().await;
    server
        .check(
            "guest",
            r#"
            GET /api/nodes?columns=name,running,state -> 200 [{"name":"b@b","running":true,"state":"in_sight"},{"name":"c@c","running":false,"state":"missing"},{"name":"n@h","running":true,"state":"this_node"}]
            GET /api/nodes/n@h?columns=number,votes,leads,address,partitions,cluster,cluster_links,node_id -> 200 {"partitions":["c@c"],"cluster_links":[{"name":"b@b","peer_addr":"b","peer_port":25672,"to":true,"from":true}],"cluster":{"id":"0c","leader":"b@b","majority":true,"minority_ms":null,"applied_index":12},"node_id":"0a000000000000000000000000000000","votes":true,"leads":false,"number":1,"address":"h:25672"}
            GET /api/nodes/b@b -> 200 {"name":"b@b","type":"disc","running":true,"state":"in_sight","state_text":"in order","votes":true,"leads":true,"number":2,"address":"b:25672","state_ms":5000,"node_id":"0b","boots":9,"round_trip_ms":2,"waiting_bytes":77,"clock_ahead_ms":-3,"clocks_apart":false,"mem_alarm":false,"disk_free_alarm":false}
            GET /api/nodes/c@c -> 200 {"name":"c@c","type":"disc","running":false,"state":"missing","state_text":"nothing is heard from it","votes":true,"leads":false,"number":3,"address":"c:25672","state_ms":61000}
            GET /api/nodes/d@d -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no node 'd@d'"}
            GET /api/overview?columns=cluster_name,node -> 200 {"cluster_name":"c","node":"n@h"}
            GET /api/global-parameters/internal_cluster_id -> 200 {"name":"internal_cluster_id","value":"rabbitmq-cluster-id-0c"}
            "#,
        )
        .await;
    server
        .check("own", r#"GET /api/nodes/b@b -> 401 {"error":"not_authorised","reason":"Not monitor user"}"#)
        .await;
}

#[tokio::test]
async fn health_checks_know_the_cluster() {
    let server = server().await;
    server
        .check(
            "own",
            r#"
            GET /api/health/checks/node-is-quorum-critical -> 503 {"status":"failed","reason":"The other nodes that vote and are alive are no majority: without this node, the cluster cannot change definitions","queues":[]}
            GET /api/health/checks/reached-target-cluster-size -> 503 {"status":"failed","reason":"Nodes of the cluster do not count as alive","missing":["c@c"]}
            GET /api/health/checks/alarms -> 200 {"status":"ok"}
            "#,
        )
        .await;
    server.api.cluster().nodes[2].state = NodeState::InSight;
    server.api.cluster().nodes[0].memory_alarm = true;
    server
        .check(
            "own",
            r#"
            GET /api/health/checks/node-is-quorum-critical -> 200 {"status":"ok"}
            GET /api/health/checks/reached-target-cluster-size -> 200 {"status":"ok"}
            GET /api/health/checks/alarms -> 503 {"status":"failed","reason":"There are alarms in effect in the cluster","alarms":[{"node":"b@b","resource":"memory"}]}
            GET /api/health/checks/local-alarms -> 200 {"status":"ok"}
            POST /api/exchanges/%2F/amq.default/publish {"properties":{},"routing_key":"q","payload":"x","payload_encoding":"string"} -> 503 {"error":"service_unavailable","reason":"publishing is stopped: memory alarm on node 'b@b'"}
            "#,
        )
        .await;
    server.check("guest", r#"GET /api/nodes/b@b?columns=mem_alarm,disk_free_alarm -> 200 {"mem_alarm":true,"disk_free_alarm":false}"#).await;
}

#[tokio::test]
async fn troubles_of_the_cluster_come_first() {
    let server = server().await;
    server.api.resources().memory_alarm = true;
    server.api.cluster().nodes[0].clocks_apart = true;
    let troubles = async |user: &str| {
        let answer = server.ask(Some(user), "GET", "/api/explain", "").await;
        let body: Value = serde_json::from_str(&answer.body).unwrap();
        let rows = body["troubles"].as_array().unwrap().iter();
        let row = |row: &Value| {
            let objects = row["objects"].as_array().unwrap().iter();
            let names: Vec<&str> = objects.filter_map(|object| object["name"].as_str()).collect();
            format!("{} {}", row["cause"].as_str().unwrap(), names.join(" "))
        };
        rows.map(row).collect::<Vec<_>>()
    };
    assert_eq!(troubles("guest").await, ["node_missing c@c", "alarm n@h", "clocks_apart b@b"]);
    assert_eq!(troubles("own").await, ["node_missing c@c", "alarm n@h"], "clocks are for monitors");
    if let Some(sight) = &mut server.api.state().sight {
        sight.has_majority = false;
    }
    server.api.cluster().nodes[0].disk_alarm = true;
    assert_eq!(troubles("own").await, ["cluster_minority c@c", "node_missing c@c", "alarm b@b n@h"]);
}

#[tokio::test]
async fn an_explanation_names_the_nodes_whose_alarms_they_are() {
    let server = server().await;
    server.api.cluster().nodes[0].disk_alarm = true;
    server.api.resources().memory_alarm = true;
    let place = LinkId { connection: "a".into(), session: 0, handle: 1, name: "l".into() };
    let link = LinkFacts {
        place,
        role: Role::Publishing { queue: None, unconfirmed: 0 },
        answered: true,
        credit: 3,
        delivery_count: 4,
        session: None,
        incomplete_bytes: 0,
    };
    server.api.state().facts = vec![ConnectionFacts {
        name: "a".into(),
        user: "guest".into(),
        authority: Authority::Internal,
        vhost: "/".into(),
        blocked: true,
        held_back: false,
        unwritten_bytes: 0,
        shard: ShardFacts::default(),
        links: vec![link],
    }];
    let answer = server.ask(Some("guest"), "GET", "/api/explain/links/l", "").await;
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(body["cause"], "alarm", "{body}");
    assert_eq!(body["notes"], json!(["memory alarm of node 'n@h'", "disk alarm of node 'b@b'"]));
}

#[tokio::test]
async fn metrics_show_the_peers() {
    let server = server().await;
    let page = request(server.metrics, "GET", "/metrics", "", "").await.body;
    for line in [
        "sluice_cluster_nodes 3",
        "sluice_cluster_nodes_in_sight 2",
        "sluice_cluster_leader_known 1",
        "sluice_cluster_majority 1",
        "rabbitmq_unreachable_cluster_peers_count 1",
        r#"sluice_cluster_peer_up{peer="b@b"} 1"#,
        r#"sluice_cluster_peer_up{peer="c@c"} 0"#,
        r#"sluice_cluster_peer_waiting_bytes{peer="b@b"} 77"#,
        r#"sluice_cluster_peer_clocks_apart{peer="b@b"} 0"#,
        r#"sluice_cluster_peer_round_trip_seconds{peer="b@b"} 0.002"#,
        r#"rabbitmq_cluster_permanent_id="0c""#,
    ] {
        assert!(page.contains(line), "{line} is not in {page}");
    }
    assert!(!page.contains(r#"waiting_bytes{peer="c@c"}"#), "what is not known has no sample");
}
