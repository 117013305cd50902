//! Users, permissions and virtual hosts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use catalog::access::{AuthAttempts, Protocol};

use super::http::{Server, request};
use super::test_node::{Options, TestNode};
use crate::Ports;

#[tokio::test]
async fn users_are_created_changed_and_deleted() {
    let server = Server::start().await;
    server
        .check(
            "guest",
            r#"
            PUT /api/users/anna {"password":"anna","tags":"management, policymaker"} -> 201
            GET /api/users/anna?columns=name,tags,hashing_algorithm,limits -> 200 {"name":"anna","hashing_algorithm":"rabbit_password_hashing_sha256","tags":["management","policymaker"],"limits":{}}
            PUT /api/users/anna {"password":"anna","tags":["management"]} -> 204
            GET /api/users/anna?columns=tags -> 200 {"tags":["management"]}
            GET /api/users/without-permissions?columns=name -> 200 [{"name":"anna"}]
            PUT /api/users/nobody {"tags":""} -> 201
            GET /api/users/nobody?columns=password_hash,tags -> 200 {"password_hash":"","tags":[]}
            PUT /api/users/old {"password_hash":"kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR","tags":""} -> 201
            GET /api/users/old?columns=password_hash -> 200 {"password_hash":"kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"}
            POST /api/users/bulk-delete {"users":["nobody","old","absent"]} -> 204
            GET /api/users/old -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no user 'old'"}
            DELETE /api/users/old -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no user 'old'"}
            "#,
        )
        .await;
    assert_eq!(server.ask(Some("anna"), "GET", "/api/whoami", "").await.status, 200);
    server.check("guest", "DELETE /api/users/anna -> 204").await;
    assert_eq!(server.ask(Some("anna"), "GET", "/api/whoami", "").await.status, 401);
}

/// Whoever changes a part of a user need not read the rest, which somebody else may change at the same time.
#[tokio::test]
async fn a_part_of_a_user_is_changed_and_the_rest_stays() {
    let server = Server::start().await;
    server
        .check(
            "guest",
            r#"
            POST /api/users/anna {"tags":"management"} -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no user 'anna'"}
            PUT /api/users/anna {"password":"anna","tags":"monitoring"} -> 201
            POST /api/users/anna {"tags":"management"} -> 204
            GET /api/users/anna?columns=tags -> 200 {"tags":["management"]}
            "#,
        )
        .await;
    assert_eq!(server.ask(Some("anna"), "GET", "/api/whoami", "").await.status, 200);
    server
        .check(
            "guest",
            r#"
            POST /api/users/anna {"password_hash":""} -> 204
            GET /api/users/anna?columns=password_hash,tags -> 200 {"password_hash":"","tags":["management"]}
            POST /api/users/anna {"password":"anna"} -> 204
            POST /api/users/anna {} -> 400 {"error":"bad_request","reason":"there are neither 'tags' nor a 'password' to change"}
            POST /api/users/anna {"tags":null} -> 400 {"error":"bad_request","reason":"'tags' is neither a list of texts nor text with commas"}
            POST /api/users/anna {"tags":"","password":null} -> 400 {"error":"bad_request","reason":"'password' is null: text is needed"}
            POST /api/users/anna {"password":""} -> 400 {"error":"bad_request","reason":"'password' is empty"}
            GET /api/users/anna?columns=tags -> 200 {"tags":["management"]}
            "#,
        )
        .await;
    assert_eq!(server.ask(Some("anna"), "GET", "/api/whoami", "").await.status, 200);
}

#[tokio::test]
async fn a_user_is_added_only_if_the_name_is_free() {
    let server = Server::start().await;
    let add = async |password: &str| {
        let login = STANDARD.encode("guest:guest");
        let headers = format!("Authorization: Basic {login}\r\nIf-None-Match: *\r\n");
        let body = format!(r#"{{"password":"{password}","tags":"management"}}"#);
        request(server.management, "PUT", "/api/users/anna", &headers, &body).await
    };
    assert_eq!(add("anna").await.status, 201);
    let refused = add("other").await;
    assert_eq!(
        (refused.status, &*refused.body),
        (412, r#"{"error":"precondition_failed","reason":"user 'anna' exists already"}"#)
    );
    assert_eq!(server.ask(Some("anna"), "GET", "/api/whoami", "").await.status, 200);
}

#[tokio::test]
async fn a_password_is_hashed_and_the_hash_makes_a_user() {
    let server = Server::start().await;
    let of_path = server.ask(Some("guest"), "GET", "/api/auth/hash_password/pass%20w%2Ford", "").await;
    let of_body =
        server.ask(Some("guest"), "POST", "/api/auth/hash_password", r#"{"password":"pass w/ord"}"#).await;
    assert_ne!(of_path.body, of_body.body, "each has a salt of its own");
    for (user, answer) in [("u", of_path), ("v", of_body)] {
        assert_eq!(answer.status, 200);
        let hash =
            answer.body.strip_prefix(r#"{"ok":""#).and_then(|rest| rest.strip_suffix(r#""}"#)).unwrap();
        let body = format!(r#"{{"password_hash":"{hash}","tags":"management"}}"#);
        server.check("guest", &format!("PUT /api/users/{user} {body} -> 201")).await;
        let login = STANDARD.encode(format!("{user}:pass w/ord"));
        let login = format!("Authorization: Basic {login}\r\n");
        assert_eq!(request(server.management, "GET", "/api/whoami", &login, "").await.status, 200);
    }
    server
        .check(
            "guest",
            r#"
            POST /api/auth/hash_password {"password":""} -> 400 {"error":"bad_request","reason":"'password' is empty"}
            POST /api/auth/hash_password {} -> 400 {"error":"bad_request","reason":"'password' is missing"}
            GET /api/auth/hash_password// -> 400 {"error":"bad_request","reason":"'password' is empty"}
            "#,
        )
        .await;
    server
        .check("monitor", r#"GET /api/auth/hash_password/p -> 401 {"error":"not_authorised","reason":"Not administrator user"}"#)
        .await;
}

/// A client may send every field that it knows. A password that is missing by mistake must not lock a user out.
#[tokio::test]
async fn a_password_of_null_is_none_only_beside_a_hash() {
    let server = Server::start().await;
    server
        .check(
            "guest",
            r#"
            PUT /api/users/anna {"password":"anna","tags":"management"} -> 201
            PUT /api/users/anna {"password":null,"tags":"management"} -> 400 {"error":"bad_request","reason":"'password' is null: text is needed"}
            PUT /api/users/anna {"password":null,"password_hash":null,"tags":"management"} -> 400 {"error":"bad_request","reason":"'password' is null: text is needed"}
            PUT /api/users/anna {"password_hash":null,"tags":"management"} -> 400 {"error":"bad_request","reason":"'password_hash' is null: text is needed"}
            "#,
        )
        .await;
    assert_eq!(server.ask(Some("anna"), "GET", "/api/whoami", "").await.status, 200);
    server
        .check(
            "guest",
            r#"
            PUT /api/users/old {"password":null,"password_hash":"kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR","tags":""} -> 201
            GET /api/users/old?columns=password_hash -> 200 {"password_hash":"kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"}
            PUT /api/users/old {"password":null,"password_hash":"","tags":""} -> 204
            GET /api/users/old?columns=password_hash -> 200 {"password_hash":""}
            POST /api/definitions {"users":[{"name":"b","password":null,"password_hash":"kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR","tags":""},{"name":"c","password":null,"tags":""}]} -> 204
            GET /api/users/b?columns=password_hash -> 200 {"password_hash":"kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"}
            GET /api/users/c?columns=password_hash -> 200 {"password_hash":""}
            "#,
        )
        .await;
}

#[tokio::test]
async fn a_wrong_user_is_refused_and_changes_nothing() {
    let server = Server::start().await;
    server
        .check(
            "guest",
            r#"
            PUT /api/users/u {"password":"p"} -> 400 {"error":"bad_request","reason":"tags_not_present"}
            PUT /api/users/u {"password":"p","tags":7} -> 400 {"error":"bad_request","reason":"'tags' is neither a list of texts nor text with commas"}
            PUT /api/users/u {"password":"p","tags":["a\nb"]} -> 400 {"error":"bad_request","reason":"tag name 'a\\nb' contains a line break"}
            PUT /api/users/u {"password":"p","tags":"1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33"} -> 400 {"error":"bad_request","reason":"user 'u' has 33 tags: at most 32 are possible"}
            PUT /api/users/u {"password":"","tags":""} -> 400 {"error":"bad_request","reason":"'password' is empty"}
            PUT /api/users/u {"password":"p","password_hash":"aaaa","tags":""} -> 400 {"error":"bad_request","reason":"both_password_and_password_hash_are_provided"}
            PUT /api/users/u {"password_hash":"aaaa","tags":""} -> 400 {"error":"bad_request","reason":"'password_hash' is a hash of none of rabbit_password_hashing_md5, rabbit_password_hashing_sha256, rabbit_password_hashing_sha512, argon2id in Base64"}
            PUT /api/users/u {"password_hash":"aaaa","hashing_algorithm":"rot13","tags":""} -> 400 {"error":"bad_request","reason":"'hashing_algorithm' is none of rabbit_password_hashing_md5, rabbit_password_hashing_sha256, rabbit_password_hashing_sha512, argon2id"}
            POST /api/users/bulk-delete {"users":"guest"} -> 400 {"error":"bad_request","reason":"'users' is not a list of names"}
            POST /api/users/bulk-delete {"users":["guest",1]} -> 400 {"error":"bad_request","reason":"'users' is not a list of names"}
            GET /api/users/u -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no user 'u'"}
            GET /api/users/guest?columns=name -> 200 {"name":"guest"}
            "#,
        )
        .await;
}

#[tokio::test]
async fn permissions_are_set_shown_and_cleared() {
    let server = Server::start().await;
    server
        .check(
            "guest",
            r#"
            PUT /api/vhosts/team {} -> 201
            GET /api/vhosts/team/permissions -> 200 [{"user":"guest","vhost":"team","configure":".*","write":".*","read":".*"}]
            DELETE /api/permissions/team/guest -> 204
            PUT /api/vhosts/team {} -> 204
            GET /api/vhosts/team/permissions -> 200 []
            GET /api/vhosts/absent/permissions -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no vhost 'absent'"}
            GET /api/vhosts?columns=name -> 200 [{"name":"/"},{"name":"team"}]
            PUT /api/permissions/team/app {"configure":"^$","write":".*","read":""} -> 201
            PUT /api/permissions/team/app {"configure":"^$","write":".*","read":".*"} -> 204
            GET /api/permissions/team/app -> 200 {"user":"app","vhost":"team","configure":"^$","write":".*","read":".*"}
            GET /api/vhosts/team/permissions -> 200 [{"user":"app","vhost":"team","configure":"^$","write":".*","read":".*"}]
            GET /api/users/app/permissions?columns=vhost -> 200 [{"vhost":"/"},{"vhost":"team"}]
            GET /api/permissions?columns=user&sort=vhost&sort_reverse=true -> 200 [{"user":"app"},..
            PUT /api/permissions/team/app {"configure":"^(?!amq\\.).*","write":"^a|^b","read":".*"} -> 204
            GET /api/permissions/team/app?columns=configure,write -> 200 {"configure":"^(?!amq\\.).*","write":"^a|^b"}
            PUT /api/permissions/team/app {"configure":"","write":"a(","read":".*"} -> 400 {"error":"bad_request","reason":"write: the pattern is not a regular expression: ..
            PUT /api/permissions/team/app {"configure":"a(?!b)","write":"","read":".*"} -> 400 {"error":"bad_request","reason":"configure: the pattern has a look-ahead that is not behind a ^ at its start: only there it can be checked in linear time"}
            PUT /api/permissions/team/app {"configure":"","write":".*"} -> 400 {"error":"bad_request","reason":"'read' is missing"}
            PUT /api/permissions/team/absent {"configure":"","write":"","read":""} -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no user 'absent'"}
            PUT /api/permissions/absent/app {"configure":"","write":"","read":""} -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no vhost 'absent'"}
            DELETE /api/permissions/team/app -> 204
            DELETE /api/permissions/team/app -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"user 'app' has no permissions in vhost 'team'"}
            DELETE /api/vhosts/team -> 204
            DELETE /api/vhosts/team -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no vhost 'team'"}
            "#,
        )
        .await;
}

#[tokio::test]
async fn topic_permissions_are_set_shown_and_cleared() {
    let server = Server::start().await;
    server
        .check(
            "guest",
            r#"
            GET /api/topic-permissions -> 200 []
            GET /api/topic-permissions/%2F/app -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"user 'app' has no topic permissions in vhost '/'"}
            PUT /api/topic-permissions/%2F/app {"exchange":"amq.topic","write":"^{username}\\.","read":".*"} -> 201
            PUT /api/topic-permissions/%2F/app {"exchange":"amq.topic","write":"^{username}\\.","read":""} -> 204
            PUT /api/topic-permissions/%2F/app {"exchange":"other","write":"^a","read":"^b"} -> 201
            GET /api/topic-permissions/%2F/app -> 200 [{"user":"app","vhost":"/","exchange":"amq.topic","write":"^{username}\\.","read":""},{"user":"app","vhost":"/","exchange":"other","write":"^a","read":"^b"}]
            GET /api/topic-permissions/%2F/app/other -> 200 {"user":"app","vhost":"/","exchange":"other","write":"^a","read":"^b"}
            GET /api/users/app/topic-permissions?columns=exchange -> 200 [{"exchange":"amq.topic"},{"exchange":"other"}]
            GET /api/users/absent/topic-permissions -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no user 'absent'"}
            GET /api/vhosts/%2F/topic-permissions?columns=user -> 200 [{"user":"app"},{"user":"app"}]
            GET /api/vhosts/absent/topic-permissions -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no vhost 'absent'"}
            PUT /api/topic-permissions/%2F/app {"write":"^a","read":"^b"} -> 400 {"error":"bad_request","reason":"'exchange' is missing"}
            PUT /api/topic-permissions/%2F/app {"exchange":"x","write":"(","read":"^b"} -> 400 {"error":"bad_request","reason":"write: the pattern is not a regular expression: ..
            PUT /api/topic-permissions/%2F/absent {"exchange":"x","write":"","read":""} -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no user 'absent'"}
            PUT /api/topic-permissions/%2F/app/third {"write":"^a","read":"^b"} -> 201
            PUT /api/topic-permissions/%2F/app/third {"exchange":"third","write":"^a","read":"^c"} -> 204
            PUT /api/topic-permissions/%2F/app/third {"exchange":"other","write":"^a","read":"^c"} -> 400 {"error":"bad_request","reason":"'exchange' is not the exchange of the path, 'third'"}
            PUT /api/topic-permissions/%2F/app/third {"write":"^a"} -> 400 {"error":"bad_request","reason":"'read' is missing"}
            PUT /api/topic-permissions/absent/app/third {"write":"^a","read":"^c"} -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no vhost 'absent'"}
            GET /api/topic-permissions/%2F/app/third -> 200 {"user":"app","vhost":"/","exchange":"third","write":"^a","read":"^c"}
            DELETE /api/topic-permissions/%2F/app/third -> 204
            DELETE /api/topic-permissions/%2F/app/other -> 204
            DELETE /api/topic-permissions/%2F/app/other -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"user 'app' has no topic permissions for exchange 'other' in vhost '/'"}
            DELETE /api/topic-permissions/%2F/app -> 204
            GET /api/topic-permissions -> 200 []
            "#,
        )
        .await;
}

#[tokio::test]
async fn virtual_hosts_have_settings_and_limits() {
    let server = Server::start().await;
    server
        .check(
            "guest",
            r#"
            PUT /api/vhosts/team {"description":"ours","tags":"a, b","default_queue_type":"quorum","tracing":false} -> 201
            GET /api/vhosts/team?columns=name,description,tags,default_queue_type,protected_from_deletion,limits -> 200 {"name":"team","description":"ours","tags":["a","b"],"default_queue_type":"quorum","protected_from_deletion":false,"limits":{}}
            PUT /api/vhosts/team {"tags":["c"],"default_queue_type":"undefined"} -> 204
            GET /api/vhosts/team?columns=description,tags,default_queue_type -> 200 {"description":"ours","tags":["c"],"default_queue_type":"classic"}
            PUT /api/vhosts/team {"default_queue_type":"fast"} -> 400 {"error":"bad_request","reason":"'default_queue_type' is not classic, quorum or stream"}
            PUT /api/vhosts/team {"tracing":1} -> 400 {"error":"bad_request","reason":"'tracing' is not a boolean"}
            PUT /api/vhosts/team {"colour":"red"} -> 400 {"error":"bad_request","reason":"'colour' is not a property of a vhost"}
            GET /api/vhost-limits -> 200 []
            PUT /api/vhost-limits/team/max-queues {"value":1} -> 204
            PUT /api/vhost-limits/team/max-connections {"value":5} -> 204
            GET /api/vhost-limits/team -> 200 [{"vhost":"team","value":{"max-connections":5,"max-queues":1}}]
            GET /api/vhost-limits/absent -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no vhost 'absent'"}
            PUT /api/vhost-limits/absent/max-queues {"value":1} -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no vhost 'absent'"}
            PUT /api/vhost-limits/team/max-cats {"value":1} -> 400 {"error":"bad_request","reason":"'max-cats' is not a limit of a vhost: there are max-connections and max-queues"}
            PUT /api/vhost-limits/team/max-queues {"value":"1"} -> 400 {"error":"bad_request","reason":"'value' is not a whole number below 4294967296"}
            PUT /api/queues/team/a -> 201
            PUT /api/queues/team/a -> 204
            PUT /api/queues/team/b -> 400 {"error":"bad_request","reason":"cannot declare queue 'b': queue limit in vhost 'team' (1) is reached"}
            PUT /api/vhost-limits/team/max-connections {"value":-1} -> 204
            DELETE /api/vhost-limits/team/max-queues -> 204
            PUT /api/queues/team/b -> 201
            GET /api/vhost-limits -> 200 []
            GET /api/vhosts/team/deletion/protection -> 200 {"protected_from_deletion":false}
            POST /api/vhosts/team/deletion/protection -> 204
            GET /api/vhosts/team/deletion/protection -> 200 {"protected_from_deletion":true}
            GET /api/vhosts/absent/deletion/protection -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no vhost 'absent'"}
            DELETE /api/vhosts/team -> 400 {"error":"bad_request","reason":"vhost 'team' is protected from deletion"}
            DELETE /api/vhosts/team/deletion/protection -> 204
            DELETE /api/vhosts/team -> 204
            GET /api/vhosts/team -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no vhost 'team'"}
            POST /api/vhosts/team/deletion/protection -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no vhost 'team'"}
            "#,
        )
        .await;
}

#[tokio::test]
async fn users_have_limits() {
    let server = Server::start().await;
    server
        .check(
            "guest",
            r#"
            PUT /api/user-limits/app/max-connections {"value":2} -> 204
            PUT /api/user-limits/app/max-channels {"value":0} -> 204
            GET /api/user-limits/app -> 200 [{"user":"app","value":{"max-connections":2,"max-channels":0}}]
            GET /api/users/app?columns=limits -> 200 {"limits":{"max-connections":2,"max-channels":0}}
            PUT /api/users/app {"password":"app","tags":""} -> 204
            DELETE /api/user-limits/app/max-channels -> 204
            GET /api/user-limits -> 200 [{"user":"app","value":{"max-connections":2}}]
            PUT /api/user-limits/absent/max-channels {"value":0} -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no user 'absent'"}
            PUT /api/user-limits/app/max-queues {"value":0} -> 400 {"error":"bad_request","reason":"'max-queues' is not a limit of a user: there are max-connections and max-channels"}
            GET /api/user-limits/absent -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no user 'absent'"}
            "#,
        )
        .await;
}

#[tokio::test]
async fn logins_are_counted() {
    let node = TestNode::with(Options { tracks_sources: true, ..Options::default() });
    let server = Server::start_on(node, Ports::default()).await;
    server.api.state().counters.over_mut(Protocol::Amqp10).auth_attempts =
        AuthAttempts { all: 3, succeeded: 1, failed: 1 };
    let ann = |succeeds| {
        server.api.access().sources().count(Protocol::Http, [192, 0, 2, 1].into(), "ann", succeeds)
    };
    [true, false, true].into_iter().for_each(ann);
    server
        .check(
            "monitor",
            r#"
            GET /api/auth/attempts/n@h -> 200 [{"protocol":"amqp091","auth_attempts":0,"auth_attempts_failed":0,"auth_attempts_succeeded":0},{"protocol":"amqp10","auth_attempts":3,"auth_attempts_failed":1,"auth_attempts_succeeded":1},{"protocol":"http","auth_attempts":1,"auth_attempts_failed":0,"auth_attempts_succeeded":1}]
            GET /api/auth/attempts/n%40h/source -> 200 [{"protocol":"http","auth_attempts":2,"auth_attempts_failed":0,"auth_attempts_succeeded":2,"remote_address":"127.0.0.1","username":"monitor"},{"protocol":"http","auth_attempts":3,"auth_attempts_failed":1,"auth_attempts_succeeded":2,"remote_address":"192.0.2.1","username":"ann"}]
            GET /api/auth/attempts/nope -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no node 'nope'"}
            GET /api/auth/attempts/nope/source -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no node 'nope'"}
            DELETE /api/auth/attempts/n@h -> 401 {"error":"not_authorised","reason":"Not administrator user"}
            "#,
        )
        .await;
    server
        .check(
            "guest",
            r#"
            DELETE /api/auth/attempts/nope/source -> 404 {"error":..
            DELETE /api/auth/attempts/n@h/source -> 204
            GET /api/auth/attempts/n@h -> 200 [{"protocol":"amqp091","auth_attempts":0,"auth_attempts_failed":0,"auth_attempts_succeeded":0},{"protocol":"amqp10","auth_attempts":0,"auth_attempts_failed":0,"auth_attempts_succeeded":0},{"protocol":"http","auth_attempts":1,"auth_attempts_failed":0,"auth_attempts_succeeded":1}]
            DELETE /api/auth/attempts/n@h -> 204
            "#,
        )
        .await;
}
