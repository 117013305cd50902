//! Browsing of streams.

use broker::desk::{BrowsedRow, Start};
use bytes::Bytes;
use client::{Body, Message};

use super::http::Server;

fn row(offset: u64, message: Bytes) -> BrowsedRow {
    BrowsedRow { offset, exchange: "x".into(), routing_key: "k".into(), message }
}

#[tokio::test]
async fn messages_of_a_stream_are_shown() {
    let server = Server::start().await;
    let message = Message::data("é!").durable(true).subject("s").application_property("a", 1u32);
    let annotated = message.message_annotation("x-stream-offset", 7i64);
    let list = Message::new(Body::Sequence(vec![vec![1u32.into(), 2u32.into()]]));
    server.desk.state().messages = vec![
        row(7, annotated.encode()),
        row(8, Message::data(Bytes::from_static(b"\xff\x00\x01")).encode()),
        row(9, list.encode()),
        row(10, Bytes::from_static(b"\xff")),
    ];
    server
        .check(
            "guest",
            r#"
            PUT /api/queues/%2F/c -> 201
            PUT /api/queues/%2F/s {"arguments":{"x-queue-type":"stream"}} -> 201
            GET /api/queues/%2F/none/messages -> 404 {"error":"object_not_found","reason":"no queue 'none' in vhost '/'"}
            GET /api/queues/nope/s/messages -> 404 {"error":"object_not_found","reason":"no vhost 'nope'"}
            GET /api/queues/%2F/c/messages -> 400 {"error":"bad_request","reason":"queue 'c' in vhost '/' is a classic queue: only the messages of a stream can be browsed"}
            GET /api/queues/%2F/s/messages?count=1 -> 200 [{"offset":7,"exchange":"x","routing_key":"k","redelivered":false,"payload_bytes":3,"payload_encoding":"string","payload":"é!","header":{"durable":true},"message_annotations":{"x-stream-offset":7},"properties":{"subject":"s"},"application_properties":{"a":1}}]

            # Text is cut between characters, octets anywhere. An unreadable message is shown with an error.
            GET /api/queues/%2F/s/messages?truncate=1 -> 200 [{"offset":7,"exchange":"x","routing_key":"k","redelivered":false,"payload_bytes":3,"payload_encoding":"string","payload":"","header":{"durable":true},"message_annotations":{"x-stream-offset":7},"properties":{"subject":"s"},"application_properties":{"a":1}},{"offset":8,"exchange":"x","routing_key":"k","redelivered":false,"payload_bytes":3,"payload_encoding":"base64","payload":"/w=="},{"offset":9,"exchange":"x","routing_key":"k","redelivered":false,"payload_bytes":5,"payload_encoding":"string","payload":"["},{"offset":10,"exchange":"x","routing_key":"k","redelivered":false,"error":"the message cannot be read: ..

            GET /api/queues/%2F/s/messages?count=0 -> 400 {"error":"bad_request","reason":"count '0' is not a number from 1 to 1000"}
            GET /api/queues/%2F/s/messages?count=1001 -> 400 {"error":"bad_request","reason":"count '1001' is not a number from 1 to 1000"}
            GET /api/queues/%2F/s/messages?count=x -> 400 {"error":"bad_request","reason":"'count' is not a whole number"}
            GET /api/queues/%2F/s/messages?offset=soon -> 400 {"error":"bad_request","reason":"offset 'soon' is not first, last, next, a whole number or a time span such as 10m (units: Y M D h m s)"}
            GET /api/queues/%2F/s/messages?at=-1 -> 400 {"error":"bad_request","reason":"'at' is not a whole number"}
            GET /api/queues/%2F/s/messages?at=1&offset=1 -> 400 {"error":"bad_request","reason":"offset and at exclude each other"}
            "#,
        )
        .await;
}

#[tokio::test]
async fn where_browsing_starts() {
    let server = Server::start().await;
    server.check("guest", r#"PUT /api/queues/%2F/s {"arguments":{"x-queue-type":"stream"}} -> 201"#).await;
    for query in ["", "?offset=last", "?offset=next&count=1000", "?offset=5&count=1", "?at=1700000000000"] {
        let path = format!("/api/queues/%2F/s/messages{query}");
        let answer = server.ask(Some("guest"), "GET", &path, "").await;
        assert_eq!((answer.status, answer.body.as_str()), (200, "[]"));
    }
    let looks = [
        (Start::First, 10),
        (Start::Last, 10),
        (Start::Next, 1000),
        (Start::Offset(5), 1),
        (Start::Time(1_700_000_000_000), 10),
    ];
    assert_eq!(server.desk.state().looks, looks);
    // The offset `1h` means one hour before now.
    server.ask(Some("guest"), "GET", "/api/queues/%2F/s/messages?offset=1h", "").await;
    server.ask(Some("guest"), "GET", "/api/queues/%2F/s/messages?offset=2h", "").await;
    match server.desk.state().looks[5..] {
        [(Start::Time(one), _), (Start::Time(two), _)] => assert!(two + 3_000_000 < one),
        ref other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn messages_are_moved_and_dead_letters_redriven() {
    let server = Server::start().await;
    server
        .check(
            "guest",
            r#"
            PUT /api/queues/%2F/dead -> 201
            POST /api/queues/%2F/dead/redrive -> 200 {"redriven":7,"skipped":1,"left":2,"died_until":1700000000000,"ended":"time","reason":"the time of one request is over: repeat it to go on"}
            POST /api/queues/%2F/dead/redrive {"count":3,"died_until":9} -> 200 {"redriven":3,"skipped":1,"left":2,"died_until":9,"ended":"time","reason":"the time of one request is over: repeat it to go on"}
            POST /api/queues/%2F/dead/redrive {"count":"many"} -> 400 {"error":"bad_request","reason":"count \"many\" is not a whole number from 1 on"}
            POST /api/queues/%2F/dead/move {"to_queue":"q"} -> 200 {"moved":7,"skipped":1,"left":2,"until_seq":9,"ended":"time","reason":"the time of one request is over: repeat it to go on"}
            POST /api/queues/%2F/dead/move {"to_exchange":"x","count":3,"until_seq":5} -> 200 {"moved":3,"skipped":1,"left":2,"until_seq":5,"ended":"time","reason":"the time of one request is over: repeat it to go on"}
            POST /api/queues/%2F/dead/move -> 400 {"error":"bad_request","reason":"to_queue or to_exchange is needed"}
            POST /api/queues/%2F/none/redrive -> 404 {"error":"object_not_found","reason":"no queue 'none' in vhost '/'"}
            "#,
        )
        .await;
}
