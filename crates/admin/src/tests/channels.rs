//! Channels of AMQP 0.9.1, and the consumers of both protocols.

use broker::admin_api::amqp091_rows::{Amqp091Row, ChannelRow};
use broker::admin_api::{ConnectionRow, ConsumerRow, PassedCounts, ProtocolRow};

use super::connection;
use super::http::Server;

pub(super) const NAME: &str = "10.0.0.1:1 -> 10.0.0.2:5672";

fn consumer(tag: &str, active: Option<bool>) -> ConsumerRow {
    ConsumerRow {
        tag: tag.into(),
        queue: "q".into(),
        settled: false,
        exclusive: active.is_none(),
        priority: if active.is_none() { 3 } else { 0 },
        active,
        browses: false,
        prefetch: 10,
        unsettled: 2,
        unsettled_age_ms: active.is_none().then_some(1500),
        timeout_ms: 7,
        arguments: [("x-stream-offset".to_owned(), "last")].into_iter().collect(),
    }
}

fn channel(number: u16, consumers: Vec<ConsumerRow>) -> ChannelRow {
    ChannelRow {
        number,
        confirms: number == 1,
        transactional: number == 2,
        uncommitted: 4,
        uncommitted_settlements: 5,
        unconfirmed: 6,
        unconfirmed_age_ms: (number == 1).then_some(60_000),
        unsettled: 7,
        unsettled_age_ms: (number == 1).then_some(7000),
        prefetch: 10,
        shared_prefetch: 0,
        consumers,
        counts: PassedCounts::default(),
    }
}

pub(super) fn connection_of_091(user: &str, is_held_back: bool) -> ConnectionRow {
    ConnectionRow {
        protocol: ProtocolRow::Amqp091(Amqp091Row {
            client_properties: [("product".to_owned(), "p")].into_iter().collect(),
            channel_max: 2047,
            frame_max: 131_072,
            heartbeat_s: 60,
            is_blocked: false,
            is_held_back,
            channels: vec![
                channel(1, vec![consumer("a", None), consumer("b", Some(true))]),
                channel(2, vec![consumer("c", Some(false))]),
            ],
        }),
        ..connection(NAME, user)
    }
}

#[tokio::test]
async fn channels_and_consumers() {
    let server = Server::start().await;
    server.api.state().connections =
        vec![connection_of_091("guest", true), connection("[::1]:2 -> [::1]:5672", "own")];
    server
        .check(
            "guest",
            r#"
            GET /api/connections/username/guest?columns=protocol,state,channels,channel_max,timeout,client_properties -> 200 [{"state":"flow","protocol":"AMQP 0-9-1","client_properties":{"product":"p"},"channels":2,"channel_max":2047,"timeout":60}]
            GET /api/channels?columns=name,state,consumer_count -> 200 [{"name":"10.0.0.1:1 -> 10.0.0.2:5672 (1)","state":"flow","consumer_count":2},{"name":"10.0.0.1:1 -> 10.0.0.2:5672 (2)","state":"flow","consumer_count":1}]
            GET /api/channels?columns=unacknowledged_age_ms,unconfirmed_age_ms -> 200 [{"unacknowledged_age_ms":7000,"unconfirmed_age_ms":60000},{}]
            GET /api/consumers?columns=unacknowledged_age_ms -> 200 [{"unacknowledged_age_ms":1500},{},{},{}]
            GET /api/vhosts/%2F/channels?columns=number&sort=number&sort_reverse=true -> 200 [{"number":2},{"number":1}]
            GET /api/vhosts/nope/channels -> 404 {"error":"Object Not Found",..
            GET /api/connections/10.0.0.1:1%20-%3E%2010.0.0.2:5672/channels?columns=number,transactional,confirm -> 200 [{"number":1,"confirm":true,"transactional":false},{"number":2,"confirm":false,"transactional":true}]
            GET /api/connections/%5B::1%5D:2%20-%3E%20%5B::1%5D:5672/channels -> 200 []
            GET /api/channels/10.0.0.1:1%20-%3E%2010.0.0.2:5672%20(2)?disable_stats=true -> 200 {"name":"10.0.0.1:1 -> 10.0.0.2:5672 (2)","number":2,"node":"n@h","user":"guest","user_who_performed_action":"guest","vhost":"/","state":"flow","confirm":false,"transactional":true,"consumer_count":1,"messages_unacknowledged":7,"messages_unconfirmed":6,"messages_uncommitted":4,"acks_uncommitted":5,"prefetch_count":10,"global_prefetch_count":0,"connection_details":{"name":"10.0.0.1:1 -> 10.0.0.2:5672","peer_host":"10.0.0.1","peer_port":1},"consumer_details":[{"consumer_tag":"c","queue":{"name":"q","vhost":"/"},"ack_required":true,"active":false,"activity_status":"waiting","exclusive":false,"prefetch_count":10,"consumer_timeout":7,"messages_unacknowledged":2,"arguments":{"x-stream-offset":"last"},"channel_details":{"name":"10.0.0.1:1 -> 10.0.0.2:5672 (2)","number":2,"node":"n@h","connection_name":"10.0.0.1:1 -> 10.0.0.2:5672","peer_host":"10.0.0.1","peer_port":1,"user":"guest"}}]}
            GET /api/channels/10.0.0.1:1%20-%3E%2010.0.0.2:5672%20(3) -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no channel '10.0.0.1:1 -> 10.0.0.2:5672 (3)'"}
            GET /api/channels/%5B::1%5D:2%20-%3E%20%5B::1%5D:5672%20(0) -> 404 {"error":"Object Not Found",..
            GET /api/channels/nope -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no channel 'nope'"}
            GET /api/consumers?columns=consumer_tag,consumer_timeout,activity_status,exclusive,arguments,channel_details.number -> 200 [{"consumer_tag":"a","activity_status":"up","exclusive":true,"consumer_timeout":7,"arguments":{"x-stream-offset":"last","x-priority":3},"channel_details":{"number":1}},{"consumer_tag":"b","activity_status":"single_active","exclusive":false,"consumer_timeout":7,"arguments":{"x-stream-offset":"last"},"channel_details":{"number":1}},{"consumer_tag":"c","activity_status":"waiting","exclusive":false,"consumer_timeout":7,"arguments":{"x-stream-offset":"last"},"channel_details":{"number":2}},{"consumer_tag":"l1","activity_status":"up","exclusive":false,"consumer_timeout":9,"arguments":{},"channel_details":{"number":0}}]
            GET /api/consumers/%2F?columns=queue.name -> 200 [{"queue":{"name":"q"}},{"queue":{"name":"q"}},{"queue":{"name":"q"}},{"queue":{"name":"a/b"}}]
            GET /api/consumers?page=1&name=A/&columns=consumer_tag -> 200 {"filtered_count":1,"item_count":1,"items":[{"consumer_tag":"l1"}],"page":1,"page_count":1,"page_size":100,"total_count":4}
            GET /api/consumers?page=1&name=10.0.0.1:1&columns=consumer_tag&sort=consumer_tag&sort_reverse=true -> 200 {"filtered_count":3,"item_count":3,"items":[{"consumer_tag":"c"},{"consumer_tag":"b"},{"consumer_tag":"a"}],..
            GET /api/consumers/%2F?page=1&name=OWN&columns=queue.name -> 200 {"filtered_count":1,"item_count":1,"items":[{"queue":{"name":"a/b"}}],..
            GET /api/consumers?page=1&name=%5Eb$&use_regex=true&columns=consumer_tag -> 200 {"filtered_count":1,"item_count":1,"items":[{"consumer_tag":"b"}],..
            GET /api/consumers?page=1&name=single_active -> 200 {"filtered_count":0,..
            GET /api/consumers/nope -> 404 {"error":"Object Not Found",..
            "#,
        )
        .await;
    server
        .check(
            "own",
            r#"
            GET /api/channels -> 200 []
            GET /api/channels/10.0.0.1:1%20-%3E%2010.0.0.2:5672%20(2) -> 401 {"error":"not_authorised",..
            GET /api/consumers?columns=consumer_tag -> 200 [{"consumer_tag":"l1"}]
            DELETE /api/connections/username/guest -> 401 {"error":"not_authorised",..
            DELETE /api/connections/username/own -> 204
            GET /api/consumers -> 200 []
            "#,
        )
        .await;
    assert_eq!(server.api.state().connections.len(), 1, "the connection of another user is open");
}

#[tokio::test]
async fn a_queue_names_its_consumers() {
    let server = Server::start().await;
    server.api.state().connections =
        vec![connection_of_091("guest", true), connection("[::1]:2 -> [::1]:5672", "own")];
    server.check("guest", "PUT /api/queues/%2F/q -> 201").await;
    server
        .check("guest", r#"GET /api/queues/%2F/q?columns=consumer_details -> 200 {"consumer_details":[]}"#)
        .await;
    server.api.state().consumers = 3;
    server
        .check(
            "guest",
            r#"
            GET /api/queues/%2F/q?columns=consumer_details.consumer_tag,consumers -> 200 {"consumers":3,"consumer_details":[{"consumer_tag":"a"},{"consumer_tag":"b"},{"consumer_tag":"c"}]}
            GET /api/queues/%2F/q?columns=consumers -> 200 {"consumers":3}
            GET /api/queues/%2F/q?columns=consumer_details&disable_stats=true -> 200 {}
            "#,
        )
        .await;
    // Others see the consumers of their own connections only.
    server
        .check("own", r#"GET /api/queues/%2F/q?columns=consumer_details -> 200 {"consumer_details":[]}"#)
        .await;
}
