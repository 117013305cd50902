//! Explanations, and the list of what is not well.

use std::time::{SystemTime, UNIX_EPOCH};

use amqp10::sasl::Secret;
use broker::explain::{
    AddressFacts, ConnectionFacts, LinkFacts, LinkId, Role, SessionFacts, ShardFacts, Trouble,
};
use catalog::access::{Authority, Credentials, Guessing, Login};

use super::http::Server;
use crate::explain::address_to_json;

#[tokio::test]
async fn explanations() {
    let server = Server::start().await;
    let place = LinkId { connection: "a -> b".into(), session: 0, handle: 1, name: "l/1".into() };
    let link = LinkFacts {
        place,
        role: Role::Publishing { queue: None, unconfirmed: 2 },
        answered: true,
        credit: 3,
        delivery_count: 4,
        session: Some(SessionFacts { incoming_window: 5, remote_incoming_window: 6, pending: 0 }),
        incomplete_bytes: 7,
    };
    server.api.state().facts = vec![ConnectionFacts {
        name: "a -> b".into(),
        user: "guest".into(),
        authority: Authority::Internal,
        vhost: "/".into(),
        blocked: false,
        held_back: false,
        unwritten_bytes: 0,
        shard: ShardFacts::default(),
        links: vec![link],
    }];
    // So many at once are above the bound for longer than this test takes.
    let at_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    for n in 0..70 {
        let credentials = Credentials::Plain { user: format!("user-{n}"), password: Secret::new("wrong") };
        server.api.access().note_failure(&Login { credentials, from: "2001:db8::1".parse().unwrap(), at_ms });
    }
    let pages = [
        (
            "guest",
            r#"
            PUT /api/queues/%2F/q {} -> 201
            GET /api/explain/links/l%2F1 -> 200 {"kind":"link","name":"l/1","cause":"waiting_for_receipts","sentence":"a queue has not given its receipts yet","at":{"connection":"a -> b","session":0,"handle":1,"link":"l/1"},"numbers":{"connection_unwritten_bytes":0,"session_incoming_window":5,"session_remote_incoming_window":6,"session_pending":0,"session_incomplete_bytes":7,"link_credit":3,"link_delivery_count":4,"link_unconfirmed":2,"log_receipts_held":0,"log_groups_held":0,"memory_receipts_held":0},"notes":[],"causes":[{"cause":"waiting_for_receipts","sentence":"a queue has not given its receipts yet","meaning":"A queue has messages of this client and has not confirmed them yet. It waits neither for memory nor for the log.","advice":["The broker may be overloaded: look at the CPU.","A stream with x-fsync waits for the disk to sync: look at the disk."],"at":{"connection":"a -> b","session":0,"handle":1,"link":"l/1"},"numbers":{"link_unconfirmed":2}}]}
            GET /api/explain/links/l%2F1?connection=a%20-%3E%20b -> 200 {"kind":"link",..
            GET /api/explain/links/l%2F1?connection=c -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no link 'l/1'"}
            GET /api/explain/links/%2F/l%2F1 -> 200 {"kind":"link","name":"l/1","cause":"waiting_for_receipts",..
            GET /api/explain/links/other/l%2F1 -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no link 'l/1' in vhost 'other'"}
            GET /api/explain/queues/other/q -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no vhost 'other'"}
            GET /api/explain/queues/%2F/q -> 200 {"kind":"queue","name":"q","cause":"queue_empty","sentence":"the queue is empty","at":null,"numbers":{"queue_staged":0,"queue_ready":0,"queue_unsettled":0,"queue_delayed":0,"queue_leaving":0,"queue_over_limit":0,"queue_consumers":0,"log_receipts_held":0,"log_groups_held":0,"memory_receipts_held":0},"notes":[],"causes":[{"cause":"queue_empty",..
            GET /api/explain -> 200 {"troubles":[],"looked_at":{"queues":1,"connections":0}}
            GET /api/explain/queues/%2F/nope -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no queue 'nope' in vhost '/'"}
            GET /api/explain/connections/a%20-%3E%20b -> 200 {"kind":"connection","name":"a -> b","cause":"waiting_for_receipts",..
            GET /api/explain/connections/nope -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no connection 'nope'"}
            "#,
        ),
        (
            "monitor",
            r#"
            GET /api/explain/links/l%2F1 -> 200 {"kind":"link",..
            GET /api/explain/addresses/127.0.0.1 -> 200 {"kind":"address","name":"127.0.0.1","cause":"logins_calm","sentence":"no login of the address waits","at":null,"numbers":{"failed_logins_waiting":0,"failed_logins_waiting_max":64,"failures":0,"failures_max":60,"failures_of_one_user_max":20,"logins_unchecked":0},"notes":[],"causes":[{"cause":"logins_calm",..
            GET /api/explain/addresses/2001:db8::1 -> 200 {"kind":"address","name":"2001:db8::1","cause":"failed_logins_wait",..
            GET /api/explain/addresses/nowhere -> 400 {"error":"bad_request","reason":"'nowhere' is no IP address"}
            "#,
        ),
        (
            "own",
            r#"
            GET /api/explain/links/l%2F1 -> 401 {"error":"not_authorised","reason":"read access to connection of user 'guest' in vhost '/' refused for user 'own'"}
            GET /api/explain/links/%2F/l%2F1 -> 401 {"error":"not_authorised",..
            GET /api/explain/connections/a%20-%3E%20b -> 401 {"error":"not_authorised",..
            GET /api/explain/addresses/127.0.0.1 -> 401 {"error":"not_authorised",..
            GET /api/explain/addresses/nowhere -> 401 {"error":"not_authorised",..
            "#,
        ),
        ("powerless", "GET /api/explain/queues/%2F/q -> 401 {\"error\":\"not_authorised\",.."),
    ];
    for (user, page) in pages {
        server.check(user, page).await;
    }
}

#[test]
fn explanations_of_addresses() {
    let guessing = Guessing { failures: 61, waiting: 3 };
    let guesser = address_to_json("127.0.0.1", &AddressFacts { guessing, unchecked: 2 }).to_string();
    assert!(guesser.starts_with(r#"{"kind":"address","name":"127.0.0.1","cause":"failed_logins_wait","sentence":"many logins of the address have failed, so the answers to failed ones wait","at":null,"numbers":{"failed_logins_waiting":3,"failed_logins_waiting_max":64,"failures":61,"failures_max":60,"failures_of_one_user_max":20,"logins_unchecked":2},"notes":["find the client with the wrong password (the log names the users), and correct or stop it; right passwords are let in as soon as they are checked, and one failure is forgiven each second"],"causes":[{"cause":"failed_logins_wait","#), "{guesser}");
    let other = AddressFacts { guessing: Guessing::default(), unchecked: 2 };
    let other = address_to_json("2001:db8::1", &other).to_string();
    assert!(
        other.starts_with(r#"{"kind":"address","name":"2001:db8::1","cause":"logins_unchecked","#),
        "{other}"
    );
}

#[tokio::test]
async fn troubles() {
    let server = Server::start().await;
    let page = r#"
        PUT /api/vhosts/other -> 201
        PUT /api/queues/%2F/full -> 201
        PUT /api/queues/other/full -> 201
        PUT /api/queues/other/empty -> 201
        GET /api/explain -> 200 {"troubles":[],"looked_at":{"queues":3,"connections":0}}
        "#;
    server.check("guest", page).await;
    server.api.state().ready.insert("full".into(), 7);
    let here = r#"{"kind":"queue","name":"full","numbers":{"queue_ready":7,"queue_ready_bytes":70,"queue_oldest_ms":1},"vhost":"/"}"#;
    let there = here.replace(r#""vhost":"/""#, r#""vhost":"other""#);
    let list = |sentence: &str, objects: &[&str], queues| {
        format!(
            r#"GET /api/explain -> 200 {{"troubles":[{{"cause":"queue_without_consumer","severity":"warning","sentence":"{sentence}","meaning":{},"advice":{},"objects":[{}],"count":{}}}],"looked_at":{{"queues":{queues},"connections":0}}}}"#,
            serde_json::to_string(Trouble::QueueWithoutConsumer.meaning()).unwrap(),
            serde_json::to_string(Trouble::QueueWithoutConsumer.advice()).unwrap(),
            objects.join(","),
            objects.len(),
        )
    };
    let both = list("2 queues grow, and no client consumes from them", &[here, &there], 3);
    server.check("guest", &both).await;
    let one = list("1 queue grows, and no client consumes from it", &[here], 1);
    for user in ["monitor", "own", "powerless"] {
        server.check(user, &one).await;
    }
    server.check("app", r#"GET /api/explain -> 401 {"error":"not_authorised",.."#).await;
}
