//! Browsing of streams.

use broker::admin_api::{BrowsedRow, Start};
use bytes::Bytes;
use client::{Body, Message};
use serde_json::Value;

use super::http::Server;

fn row(offset: u64, message: Bytes) -> BrowsedRow {
    BrowsedRow { offset, exchange: "x".into(), routing_key: "k".into(), message }
}

#[tokio::test]
async fn messages_of_a_stream_are_shown() {
    let server = Server::start().await;
    let message = Message::data("é!").durable(true).subject("s").application_property("a", 1u32);
    let list = Message::new(Body::Sequence(vec![vec![1u32.into(), 2u32.into()]]));
    server.api.state().messages = vec![
        row(7, message.encode()),
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
            GET /api/queues/%2F/none/messages -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no queue 'none' in vhost '/'"}
            GET /api/queues/nope/s/messages -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no vhost 'nope'"}
            GET /api/queues/%2F/c/messages -> 400 {"error":"bad_request","reason":"queue 'c' in vhost '/' is a classic queue: only the messages of a stream can be browsed"}
            GET /api/queues/%2F/s/messages?count=1 -> 200 [{"offset":7,"exchange":"x","routing_key":"k","redelivered":false,"payload_bytes":3,"payload_encoding":"string","payload":"é!","header":{"durable":true,"first_acquirer":true,"delivery_count":0},"message_annotations":{"x-exchange":"x","x-routing-key":"k","x-stream-offset":7},"properties":{"subject":"s"},"application_properties":{"a":1}}]

            # Text is cut between characters, octets anywhere. An unreadable message is shown with an error.
            GET /api/queues/%2F/s/messages?truncate=1 -> 200 [{"offset":7,"exchange":"x","routing_key":"k","redelivered":false,"payload_bytes":3,"payload_encoding":"string","payload":"","header":{"durable":true,"first_acquirer":true,"delivery_count":0},"message_annotations":{"x-exchange":"x","x-routing-key":"k","x-stream-offset":7},"properties":{"subject":"s"},"application_properties":{"a":1}},{"offset":8,"exchange":"x","routing_key":"k","redelivered":false,"payload_bytes":3,"payload_encoding":"base64","payload":"/w==","header":{"durable":false,"first_acquirer":true,"delivery_count":0},"message_annotations":{"x-exchange":"x","x-routing-key":"k","x-stream-offset":8}},{"offset":9,"exchange":"x","routing_key":"k","redelivered":false,"payload_bytes":5,"payload_encoding":"string","payload":"[","header":{"durable":false,"first_acquirer":true,"delivery_count":0},"message_annotations":{"x-exchange":"x","x-routing-key":"k","x-stream-offset":9}},{"offset":10,"exchange":"x","routing_key":"k","redelivered":false,"error":"the message cannot be read: ..

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
    assert_eq!(server.api.state().looks, looks);
    // The offset `1h` means one hour before now.
    server.ask(Some("guest"), "GET", "/api/queues/%2F/s/messages?offset=1h", "").await;
    server.ask(Some("guest"), "GET", "/api/queues/%2F/s/messages?offset=2h", "").await;
    match server.api.state().looks[5..] {
        [(Start::Time(one), _), (Start::Time(two), _)] => assert!(two + 3_000_000 < one),
        ref other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn messages_are_searched() {
    let server = Server::start().await;
    let message = |offset: u64| {
        let country = if offset.is_multiple_of(2) { "DE" } else { "fr" };
        row(offset, Message::data(format!("body {offset}")).application_property("country", country).encode())
    };
    server.api.state().messages = (1..=12_000).map(message).collect();
    server
        .check(
            "guest",
            r#"
            PUT /api/queues/%2F/q -> 201
            PUT /api/queues/%2F/s {"arguments":{"x-queue-type":"stream"}} -> 201
            GET /api/queues/%2F/none/search -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no queue 'none' in vhost '/'"}
            GET /api/queues/%2F/q/search?from=x -> 400 {"error":"bad_request","reason":"position 'x' is not a whole number"}
            GET /api/queues/%2F/s/search?from=soon -> 400 {"error":"bad_request","reason":"offset 'soon' is not first, ..
            GET /api/queues/%2F/s/search?from=last&since=5 -> 400 {"error":"bad_request","reason":"since excludes every from but an offset"}
            GET /api/queues/%2F/q/search?count=0 -> 400 {"error":"bad_request","reason":"count '0' is not a number from 1 to 1000"}
            "#,
        )
        .await;
    // The answer does not tell which queues exist.
    for queue in ["q", "none"] {
        let refused = format!("GET /api/queues/%2F/{queue}/search -> 401 {{\"error\":\"not_authorised\",..");
        server.check("powerless", &refused).await;
    }
    for (query, first, found, scanned, next) in [
        // Without a filter, as many are looked at as are wanted.
        ("", 1, 10, 10, Some(11)),
        ("?from=11998", 11_998, 3, 3, None),
        ("?filter=Country%3Dde&count=3", 2, 3, 6, Some(7)),
        ("?filter=country%3Dde&count=3&from=7", 8, 3, 6, Some(13)),
        ("?filter=BODY+11999", 0, 0, 10_000, Some(10_001)),
        ("?filter=BODY+11999&from=10001", 11_999, 1, 2000, None),
        ("?since=11000000&until=11002500&count=1000&from=9000", 11_000, 3, 3001, None),
    ] {
        for (queue, place) in [("q", "position"), ("s", "offset")] {
            let answer =
                server.ask(Some("guest"), "GET", &format!("/api/queues/%2F/{queue}/search{query}"), "").await;
            let answer: Value = serde_json::from_str(&answer.body).unwrap();
            let rows = answer["messages"].as_array().unwrap();
            let seen = rows.first().map_or(0, |row| row[place].as_u64().unwrap());
            assert_eq!((seen, rows.len(), answer["next"].as_u64()), (first, found, next), "{queue}{query}");
            // A stream is read from the first offset of the time on, and to the last one.
            let is_by_time = query.contains("since");
            assert_eq!(
                answer["scanned"],
                if is_by_time && queue == "s" { 3 } else { scanned },
                "{queue}{query}"
            );
        }
    }
    let answer = server.ask(Some("guest"), "GET", "/api/queues/%2F/s/search?since=99000000", "").await;
    assert_eq!(answer.body, r#"{"scanned":0,"next":null,"messages":[]}"#);
    let answer = server.ask(Some("guest"), "GET", "/api/queues/%2F/q/search?count=1&truncate=2", "").await;
    assert!(
        answer.body.contains(r#""payload_bytes":6,"payload_encoding":"string","payload":"bo""#),
        "{}",
        answer.body
    );
}

/// The broker finds a text in the octets of a body. What is packed otherwise is for the caller to decode.
#[tokio::test]
async fn messages_that_the_caller_has_to_decode_are_bounded() {
    let server = Server::start().await;
    // The number 7 in MessagePack, which is no text and does not contain the digit.
    let message = |offset: u64| match offset % 10 {
        0 => row(offset, Message::data(b"\x81\xa17\x07".to_vec()).encode()),
        5 => row(offset, Message::data("a text").encode()),
        _ => row(offset, Message::data(b"\x81\xa1n\x07".to_vec()).encode()),
    };
    server.api.state().messages = (1..=100).map(message).collect();
    server.check("guest", "PUT /api/queues/%2F/q -> 201").await;
    for (query, found, undecoded, scanned, next) in [
        ("filter=7", vec![10, 20, 30], 0, 30, Some(31)),
        ("filter=7&undecoded=1000", vec![10, 20, 30], 24, 30, Some(31)),
        ("filter=7&undecoded=4", vec![], 4, 4, Some(5)),
        ("filter=7&undecoded=4&from=5", vec![], 4, 5, Some(10)),
        ("filter=text&undecoded=0&from=90", vec![95], 0, 11, None),
        // Without a text, nothing has to be looked for.
        ("undecoded=1000", vec![1, 2, 3], 0, 3, Some(4)),
    ] {
        let path = format!("/api/queues/%2F/q/search?count=3&{query}");
        let answer = server.ask(Some("guest"), "GET", &path, "").await;
        let answer: Value = serde_json::from_str(&answer.body).unwrap();
        let (other, matching): (Vec<_>, Vec<_>) =
            answer["messages"].as_array().unwrap().iter().partition(|row| row["undecoded"] == true);
        let places: Vec<u64> = matching.iter().map(|row| row["position"].as_u64().unwrap()).collect();
        assert_eq!((places, other.len()), (found, undecoded), "{query}");
        assert_eq!((answer["scanned"].as_u64(), answer["next"].as_u64()), (Some(scanned), next), "{query}");
    }
    server
        .check("guest", r#"GET /api/queues/%2F/q/search?undecoded=1001 -> 400 {"error":"bad_request","reason":"undecoded '1001' is more than 1000"}"#)
        .await;
}

/// The next request, from where the first one says, has the error.
#[tokio::test]
async fn what_a_search_has_found_is_not_lost_with_an_error_behind_it() {
    let server = Server::start().await;
    let message = |offset: u64| row(offset, Message::data(format!("body {offset}")).encode());
    server.api.state().messages = (1..=2_000).map(message).collect();
    server.api.state().damaged_from = Some(700);
    server
        .check(
            "guest",
            r#"
            PUT /api/queues/%2F/q -> 201
            PUT /api/queues/%2F/s {"arguments":{"x-queue-type":"stream"}} -> 201
            GET /api/queues/%2F/q/search?filter=body+600&truncate=0 -> 200 {"scanned":699,"next":700,"messages":[{"position":600,..
            GET /api/queues/%2F/s/search?filter=body+600&truncate=0 -> 200 {"scanned":699,"next":700,"messages":[{"offset":600,..
            GET /api/queues/%2F/q/search?from=700 -> 400 {"error":"bad_request","reason":"queue 'q' in vhost '/' is damaged on the disk"}
            GET /api/queues/%2F/s/search?from=700 -> 400 {"error":"bad_request","reason":"queue 's' in vhost '/' is damaged on the disk"}
            "#,
        )
        .await;
}

#[tokio::test]
async fn messages_are_moved_and_dead_letters_redriven() {
    let server = Server::start().await;
    server
        .check(
            "guest",
            r#"
            PUT /api/queues/%2F/dead -> 201
            PUT /api/queues/%2F/q -> 201
            POST /api/bindings/%2F/e/amq.fanout/q/q {} -> 201
            "#,
        )
        .await;
    server.api.publish("dead", 7);
    server
        .check(
            "guest",
            r#"
            POST /api/queues/%2F/dead/redrive {"died_until":9} -> 200 {"redriven":0,"skipped":7,"left":7,"died_until":9,"ended":"done","reason":"all messages were looked at"}
            POST /api/queues/%2F/dead/redrive {"count":"many"} -> 400 {"error":"bad_request","reason":"count \"many\" is not a whole number from 1 on"}
            POST /api/queues/%2F/dead/move {"to_queue":"q","count":3} -> 200 {"moved":3,"skipped":0,"left":4,"until_seq":7,"ended":"count","reason":"as many messages as wanted were moved"}
            POST /api/queues/%2F/dead/move {"to_exchange":"amq.fanout","until_seq":5} -> 200 {"moved":2,"skipped":2,"left":2,"until_seq":5,"ended":"done","reason":"all messages were looked at"}
            POST /api/queues/%2F/dead/move -> 400 {"error":"bad_request","reason":"to_queue or to_exchange is needed"}
            POST /api/queues/%2F/none/redrive -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no queue 'none' in vhost '/'"}
            "#,
        )
        .await;
}
