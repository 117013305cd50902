//! Definitions: what is imported is exported again, and what is wrong is imported not at all.

use amqp10::sasl::Secret;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use catalog::AccountChange;
use catalog::access::{Hashing, Identity, PasswordHash};

use super::http::Server;
use super::test_node::TestNode;
use crate::{Definitions, Reading};

/// As RabbitMQ 4.3 writes it, with a shovel, federation, and a user of its own.
const FROM_RABBITMQ: &str = r#"{
 "rabbit_version": "4.3.6",
 "rabbitmq_definition_format": "cluster",
 "users": [
  {"name": "anna", "password_hash": "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR", "hashing_algorithm": "rabbit_password_hashing_sha256", "tags": ["management"], "limits": {"max-connections": 9}}
 ],
 "vhosts": [
  {"name": "team", "description": "ours", "metadata": {"description": "ours", "tags": ["t"], "default_queue_type": "classic"}, "tags": ["t"], "default_queue_type": "classic"}
 ],
 "permissions": [
  {"user": "anna", "vhost": "team", "configure": "^(?!amq\\.).*", "write": ".*", "read": ""}
 ],
 "topic_permissions": [
  {"user": "anna", "vhost": "team", "exchange": "amq.topic", "write": "^{username}", "read": ".*"}
 ],
 "parameters": [
  {"value": {"src-uri": "amqp://", "src-queue": "a", "dest-uri": ["amqp://h", "amqps://i"], "dest-queue": "b"}, "vhost": "team", "component": "shovel", "name": "s"},
  {"value": {"uri": "amqp://h"}, "vhost": "team", "component": "federation-upstream", "name": "u"},
  {"value": {"max-length": 100}, "vhost": "team", "component": "operator_policy_of_none", "name": "o"},
  {"value": {"pattern": "^q", "definition": {"max-length": 100}, "priority": 1, "apply-to": "queues"}, "vhost": "team", "component": "operator_policy", "name": "o"},
  {"value": {"max-queues": 50}, "vhost": "team", "component": "vhost-limits", "name": "limits"}
 ],
 "global_parameters": [{"name": "cluster_name", "value": "rabbit@h"}],
 "policies": [
  {"vhost": "team", "name": "f", "pattern": "^fed", "apply-to": "exchanges", "definition": {"federation-upstream-set": "all"}, "priority": 0}
 ],
 "queues": [
  {"name": "q", "vhost": "team", "durable": true, "auto_delete": false, "type": "quorum", "arguments": {"x-queue-type": "quorum", "x-delivery-limit": 5}},
  {"name": "c", "vhost": "team", "type": "classic", "durable": true, "auto_delete": false, "arguments": {}}
 ],
 "exchanges": [
  {"name": "x", "vhost": "team", "type": "topic", "durable": true, "auto_delete": false, "internal": false, "arguments": {}}
 ],
 "bindings": [
  {"source": "x", "vhost": "team", "destination": "q", "destination_type": "queue", "routing_key": "a.#", "arguments": {}}
 ]
}"#;

/// An export of RabbitMQ 4.3.6 with its plugins for shovels and federation, as it was made.
const EXPORT: &str = include_str!("rabbitmq-4.3.json");

#[tokio::test]
async fn a_real_export_moves_over() {
    let server = Server::start().await;
    let answer = server.ask(Some("guest"), "POST", "/api/definitions", EXPORT).await;
    assert_eq!(answer.status, 204, "{}", answer.body);
    let exported = server.ask(Some("guest"), "GET", "/api/definitions", "").await.body;
    let (was, is): (serde_json::Value, serde_json::Value) =
        (serde_json::from_str(EXPORT).unwrap(), serde_json::from_str(&exported).unwrap());
    let names = |all: &serde_json::Value, section: &str| {
        let rows = all[section].as_array().unwrap().iter().filter(|row| row["vhost"] == "shop");
        let mut names: Vec<String> =
            rows.map(|row| row["name"].to_string() + &row["user"].to_string()).collect();
        names.sort();
        names
    };
    for section in ["queues", "exchanges", "policies", "parameters", "permissions", "topic_permissions"] {
        assert_eq!(names(&is, section), names(&was, section), "{section}");
        assert!(!names(&is, section).is_empty(), "{section}");
    }
    assert_eq!(was["bindings"].as_array().unwrap().len(), is["bindings"].as_array().unwrap().len());
    let hashes = |all: &serde_json::Value| {
        let mut users = all["users"].as_array().unwrap().iter();
        users.find(|user| user["name"] == "anna").unwrap()["password_hash"].clone()
    };
    assert_eq!(hashes(&is), hashes(&was));
}

#[tokio::test]
async fn what_rabbitmq_exports_moves_over_and_is_exported_again() {
    let server = Server::start().await;
    let answer = server.ask(Some("guest"), "POST", "/api/definitions", FROM_RABBITMQ).await;
    assert_eq!(answer.status, 204, "{}", answer.body);
    server
        .check(
            "guest",
            r#"
            GET /api/users/anna?columns=password_hash,tags,limits -> 200 {"password_hash":"kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR","tags":["management"],"limits":{"max-connections":9}}
            GET /api/vhosts/team?columns=description,tags,limits -> 200 {"description":"ours","tags":["t"],"limits":{"max-queues":50}}
            GET /api/permissions/team/anna?columns=configure,read -> 200 {"configure":"^(?!amq\\.).*","read":""}
            GET /api/topic-permissions/team/anna/amq.topic?columns=write -> 200 {"write":"^{username}"}
            GET /api/parameters/shovel -> 200 [{"vhost":"team","component":"shovel","name":"s","value":{"src-uri":"amqp://","src-queue":"a","dest-uri":["amqp://h","amqps://i"],"dest-queue":"b"}}]
            GET /api/global-parameters -> 200 [{"name":"cluster_name","value":"rabbit@h"}]
            "#,
        )
        .await;
    let exported = server.ask(Some("guest"), "GET", "/api/definitions", "").await.body;
    let of_vhost = server.ask(Some("guest"), "GET", "/api/definitions/team", "").await.body;
    let sections = |text: &str| -> serde_json::Value { serde_json::from_str(text).unwrap() };
    let (was, is) = (sections(FROM_RABBITMQ), sections(&exported));
    for section in ["topic_permissions", "policies", "exchanges", "global_parameters"] {
        assert_eq!(is[section], was[section], "{section}");
    }
    assert_eq!(is["parameters"].as_array().unwrap().len(), 5, "{}", is["parameters"]);
    assert_eq!(is["queues"].as_array().unwrap().len(), 2);
    assert_eq!(is["bindings"], was["bindings"]);

    // Into another broker, and into another virtual host.
    let other = Server::start().await;
    let answer = other.ask(Some("guest"), "POST", "/api/definitions", &exported).await;
    assert_eq!(answer.status, 204, "{}", answer.body);
    assert_eq!(other.ask(Some("guest"), "GET", "/api/definitions", "").await.body, exported);
    other.check("guest", "PUT /api/vhosts/copy -> 201").await;
    let answer = other.ask(Some("guest"), "POST", "/api/definitions/copy", &of_vhost).await;
    assert_eq!(answer.status, 204, "{}", answer.body);
    let copy = other.ask(Some("guest"), "GET", "/api/definitions/copy", "").await.body;
    assert_eq!(sections(&copy)["bindings"], sections(&of_vhost)["bindings"]);
    // Once more changes nothing.
    assert_eq!(other.ask(Some("guest"), "POST", "/api/definitions", &exported).await.status, 204);
}

#[tokio::test]
async fn a_virtual_host_is_exported_with_its_settings_and_gets_them_again() {
    let server = Server::start().await;
    server
        .check(
            "guest",
            r#"
            PUT /api/vhosts/team {"description":"ours","tags":"a,b","default_queue_type":"quorum"} -> 201
            PUT /api/vhost-limits/team/max-queues {"value":9} -> 204
            PUT /api/vhosts/copy -> 201
            "#,
        )
        .await;
    let exported = server.ask(Some("guest"), "GET", "/api/definitions/team", "").await.body;
    let head: serde_json::Value = serde_json::from_str(&exported).unwrap();
    assert_eq!(head["limits"], serde_json::json!({ "max-queues": 9 }));
    let metadata =
        serde_json::json!({ "description": "ours", "tags": ["a", "b"], "default_queue_type": "quorum" });
    assert_eq!((&head["metadata"], &head["description"]), (&metadata, &metadata["description"]));
    assert_eq!(server.ask(Some("guest"), "POST", "/api/definitions/copy", &exported).await.status, 204);
    server
        .check(
            "guest",
            r#"
            GET /api/vhosts/copy?columns=description,tags,default_queue_type,limits -> 200 {"description":"ours","tags":["a","b"],"default_queue_type":"quorum","limits":{"max-queues":9}}
            # What is not in the definitions stays.
            POST /api/definitions/copy {"metadata":{"description":"others"},"limits":[]} -> 204
            GET /api/vhosts/copy?columns=description,tags,default_queue_type,limits -> 200 {"description":"others","tags":["a","b"],"default_queue_type":"quorum","limits":{"max-queues":9}}
            POST /api/definitions/copy {"limits":{"max-x":1}} -> 400 {"error":"bad_request","reason":"line 1: vhost 'copy': 'max-x' is not a limit of a vhost"}
            "#,
        )
        .await;
}

#[tokio::test]
async fn whoever_imports_a_virtual_host_gets_permissions_in_it() {
    let server = Server::start().await;
    let text = r#"{"vhosts":[{"name":"team"},{"name":"other"}],"permissions":[{"user":"guest","vhost":"other","configure":"","write":"","read":"^r"}]}"#;
    assert_eq!(server.ask(Some("guest"), "POST", "/api/definitions", text).await.status, 204);
    server
        .check(
            "guest",
            r#"
            GET /api/permissions/team/guest?columns=configure,write,read -> 200 {"configure":".*","write":".*","read":".*"}
            GET /api/permissions/other/guest?columns=configure,write,read -> 200 {"configure":"","write":"","read":"^r"}
            "#,
        )
        .await;
}

#[tokio::test]
async fn users_are_imported_with_passwords_and_with_hashes_of_each_length() {
    let server = Server::start().await;
    let sha512 = STANDARD.encode([7; 68]);
    let text = format!(
        r#"{{"users":[
            {{"name":"anna","password":"anna","tags":"administrator"}},
            {{"name":"long","password_hash":"{sha512}","tags":""}},
            {{"name":"old","password_hash":"{}","tags":""}}
        ]}}"#,
        STANDARD.encode([7; 20])
    );
    let answer = server.ask(Some("guest"), "POST", "/api/definitions", &text).await;
    assert_eq!(answer.status, 204, "{}", answer.body);
    assert_eq!(server.ask(Some("anna"), "GET", "/api/whoami", "").await.status, 200);
    server
        .check(
            "guest",
            r#"
            GET /api/users/long?columns=hashing_algorithm -> 200 {"hashing_algorithm":"rabbit_password_hashing_sha512"}
            GET /api/users/old?columns=hashing_algorithm -> 200 {"hashing_algorithm":"rabbit_password_hashing_md5"}
            "#,
        )
        .await;
}

/// Older versions of RabbitMQ write operator policies so.
#[tokio::test]
async fn operator_policies_may_be_lists_of_pairs() {
    let server = Server::start().await;
    for (name, value) in [
        (
            "a",
            r#"[["pattern","^q"],["definition",[["max-length",100]]],["priority",1],["apply-to","queues"]]"#,
        ),
        ("b", r#"{"pattern":"^q","definition":[["max-length",100]],"priority":1,"apply-to":"queues"}"#),
    ] {
        let text = format!(
            r#"{{"parameters":[{{"vhost":"/","component":"operator_policy","name":"{name}","value":{value}}}]}}"#
        );
        let answer = server.ask(Some("guest"), "POST", "/api/definitions", &text).await;
        assert_eq!(answer.status, 204, "{}", answer.body);
        let path = format!("/api/operator-policies/%2F/{name}");
        let shown = server.ask(Some("guest"), "GET", &path, "").await.body;
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!((&shown["pattern"], &shown["definition"]["max-length"]), (&"^q".into(), &100.into()));
    }
    let wrong =
        r#"{"parameters":[{"vhost":"/","component":"operator_policy","name":"c","value":[["pattern"]]}]}"#;
    let answer = server.ask(Some("guest"), "POST", "/api/definitions", wrong).await;
    assert!(answer.body.contains("'value' is neither an object nor a list of pairs"), "{}", answer.body);
}

#[tokio::test]
async fn an_import_into_a_vhost_changes_nothing_else() {
    let server = Server::start().await;
    server.check("guest", "PUT /api/vhosts/copy -> 201").await;
    let answer = server.ask(Some("guest"), "POST", "/api/definitions/copy", FROM_RABBITMQ).await;
    assert_eq!(answer.status, 204, "{}", answer.body);
    let names = async |path: &str| -> Vec<String> {
        let rows = server.ask(Some("guest"), "GET", path, "").await.body;
        let rows: Vec<serde_json::Value> = serde_json::from_str(&rows).unwrap();
        rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    };
    let given: serde_json::Value = serde_json::from_str(FROM_RABBITMQ).unwrap();
    let mut queues: Vec<_> =
        given["queues"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    queues.sort_unstable();
    assert_eq!(names("/api/queues/copy").await, queues);
    assert_eq!(names("/api/queues").await, queues);
    assert_eq!(names("/api/vhosts").await, ["/", "copy"]);
    assert!(!names("/api/users").await.contains(&"anna".to_owned()));
    assert_eq!(names("/api/global-parameters").await, [""; 0]);
}

#[tokio::test]
async fn wrong_definitions_change_nothing_and_say_where() {
    let server = Server::start().await;
    let before = server.ask(Some("guest"), "GET", "/api/definitions", "").await.body;
    let refused = async |text: &str| {
        let answer = server.ask(Some("guest"), "POST", "/api/definitions", text).await;
        assert_eq!(answer.status, 400, "{}", answer.body);
        assert_eq!(server.ask(Some("guest"), "GET", "/api/definitions", "").await.body, before);
        serde_json::from_str::<serde_json::Value>(&answer.body).unwrap()["reason"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let many = "{\n\"vhosts\": [{\"name\": \"v\"}],\n\"queues\": [\n{\"name\": \"a\", \"vhost\": \"v\"},\n\n{\"name\": \"b\", \"vhost\": \"w\"}]}";
    assert_eq!(refused(many).await, "line 6: queue 'b' in vhost 'w': no vhost 'w'");
    let several = "{\"exchanges\": [\n{\"name\": \"x\", \"vhost\": \"/\", \"type\": \"x-odd\"},\n{\"vhost\": \"/\"}],\n\"cats\": []}";
    let reason = refused(several).await;
    assert!(
        reason.contains("line 2: exchange 'x' in vhost '/': the exchange type 'x-odd' is unknown"),
        "{reason}"
    );
    assert!(reason.contains("line 3: exchange '?' in vhost '/': 'name' is missing"), "{reason}");
    assert!(reason.contains("line 4: 'cats' is not a section of definitions"), "{reason}");
    let reason = refused("{\n\"users\": {}}").await;
    assert_eq!(reason, "line 2: 'users' is not a list");
    assert!(refused("{\n \"users\": [").await.starts_with("line 2: not a JSON object"));
    let reason = refused("{\"permissions\": [{\"user\":\"guest\",\"vhost\":\"/\",\"configure\":\"(\",\"write\":\"\",\"read\":\"\"}]}").await;
    assert!(
        reason.starts_with("line 1: permissions of user 'guest' in vhost '/': configure: the pattern"),
        "{reason}"
    );
    for (fields, why) in [
        (r#""password":"""#, "'password' is empty"),
        (r#""password":7"#, "'password' is not a string"),
        (r#""password":"p","password_hash":"aaaa""#, "both_password_and_password_hash_are_provided"),
        (
            r#""password_hash":"AAAA""#,
            "'password_hash' is a hash of none of rabbit_password_hashing_md5, rabbit_password_hashing_sha256, \
             rabbit_password_hashing_sha512, argon2id in Base64",
        ),
        (
            r#""password_hash":"kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR","hashing_algorithm":"rabbit_password_hashing_sha512""#,
            "'password_hash' is not a hash of rabbit_password_hashing_sha512 in Base64, but may be one of \
             rabbit_password_hashing_sha256",
        ),
    ] {
        let reason = refused(&format!(r#"{{"users": [{{"name":"u","tags":"",{fields}}}]}}"#)).await;
        assert_eq!(reason, format!("line 1: user 'u': {why}"));
    }
    for (component, value, why) in [
        ("shovel", "7", "'value' is not an object"),
        ("shovel", r#"{"src-queue":"a","dest-uri":"amqp://","dest-queue":"b"}"#, "'src-uri' is missing"),
        (
            "shovel",
            r#"{"src-uri":"amqp://","src-queue":"a","dest-uri":null,"dest-queue":"b"}"#,
            "'dest-uri' is not a URI or a list of URIs",
        ),
        (
            "shovel",
            r#"{"src-uri":"amqp://","dest-uri":"amqp://","dest-queue":"b"}"#,
            "one of 'src-queue' and 'src-exchange' is needed",
        ),
        (
            "shovel",
            r#"{"src-uri":"amqp://","src-queue":"a","src-exchange":"x","dest-uri":"amqp://"}"#,
            "'src-queue' and 'src-exchange' exclude each other",
        ),
        ("shovel", r#"{"src-protocol":"mqtt"}"#, "'src-protocol' is none of amqp091, amqp10, local"),
        (
            "shovel",
            r#"{"src-uri":"amqp://","src-queue":"a","dest-protocol":"amqp10","dest-uri":"amqp://"}"#,
            "'dest-address' is missing",
        ),
        (
            "shovel",
            r#"{"src-uri":"amqp://","src-queue":"a","dest-uri":"amqp://","ack-mode":"never"}"#,
            "'ack-mode' is none of on-confirm, on-publish, no-ack",
        ),
        ("federation-upstream", "{}", "'uri' is missing"),
        ("federation-upstream", r#"{"uri":null}"#, "'uri' is not a URI or a list of URIs"),
        ("federation-upstream", r#"{"uri":[]}"#, "'uri' is not a URI or a list of URIs"),
        ("federation-upstream", r#"{"uri":["amqp://a","http://b"]}"#, "'uri' is not a URI or a list of URIs"),
        ("federation-upstream", r#"{"uri":"amqp://a","max-hops":"1"}"#, "'max-hops' is not a number"),
        ("federation-upstream-set", r#"[{"uri":"amqp://a"}]"#, "an entry of the set has no 'upstream'"),
        ("federation-upstream-set", "{}", "'value' is not a list"),
    ] {
        let entry = format!(r#"{{"vhost":"/","component":"{component}","name":"p","value":{value}}}"#);
        let reason = refused(&format!(r#"{{"parameters": [{entry}]}}"#)).await;
        let shown = format!("line 1: parameter 'p' of component '{component}' in vhost '/'");
        assert_eq!(reason, format!("{shown}: Validation failed: {why}"));
        // One that is set on its own is refused for the same reason.
        let body = format!(r#"{{"value":{value}}}"#);
        let answer =
            server.ask(Some("guest"), "PUT", &format!("/api/parameters/{component}/%2F/p"), &body).await;
        assert_eq!(answer.status, 400);
        assert!(answer.body.contains(&format!("Validation failed: {why}")), "{}", answer.body);
    }
}

#[tokio::test]
async fn several_files_are_one_import_that_names_the_wrong_file() {
    let api = TestNode::new();
    let who = Identity::internal("guest", "administrator");
    let of = |queue: &str| {
        let mut definitions = Definitions::default();
        let reading = Reading { skip_unknown: true, ..Reading::default() };
        let first = r#"{"vhosts":[{"name":"v"}],"exchanges":[{"name":"x","vhost":"v","type":"x-odd"}]}"#;
        definitions.add_file("1.json", first, reading).unwrap();
        definitions.add_file("2.json", &format!("{{\"queues\":[\n{queue}]}}"), reading).unwrap();
        let bound = r#"{"bindings":[{"source":"x","vhost":"v","destination":"q"}]}"#;
        definitions.add_file("3.json", bound, reading).unwrap();
        definitions
    };
    let wrong = of(r#"{"name":"q","vhost":"w"}"#);
    let warnings = wrong.warnings();
    assert!(warnings[0].starts_with("1.json: exchange 'x'"), "{warnings:?}");
    assert!(warnings[1].starts_with("3.json: binding from 'x' to 'q'"), "{warnings:?}");
    let refused = wrong.import_at_start(&api, &who, false).await.unwrap_err();
    assert_eq!(refused.reason, "2.json: line 2: queue 'q' in vhost 'w': no vhost 'w'");
    assert_eq!(api.vhosts(&who).await.unwrap().len(), 1);

    let right = r#"{"name":"q","vhost":"v"}"#;
    assert!(of(right).import_at_start(&api, &who, true).await.unwrap());
    assert!(!of(right).import_at_start(&api, &who, true).await.unwrap(), "unchanged");
    assert!(of(right).import_at_start(&api, &who, false).await.unwrap(), "not asked for");
    assert!(of(r#"{"name":"r","vhost":"v"}"#).import_at_start(&api, &who, true).await.unwrap());
    assert!(of(right).import_at_start(&api, &who, true).await.unwrap(), "others were carried out since");
    // An import over HTTP is the last one then.
    Definitions::parse("{}", Reading::default()).unwrap().import(&api, &who).await.unwrap();
    assert!(api.parameters(&who).await.unwrap().is_empty());
    assert!(of(right).import_at_start(&api, &who, true).await.unwrap());
}

#[tokio::test]
async fn the_hash_of_an_import_is_not_exported() {
    let server = Server::start().await;
    let hash = r#"{"global_parameters":[{"name":"imported_definition_hash_value","value":"00"},{"name":"g","value":1}]}"#;
    let answer = server.ask(Some("guest"), "POST", "/api/definitions", hash).await;
    assert_eq!(answer.status, 204, "{}", answer.body);
    server.check("guest", r#"GET /api/global-parameters -> 200 [{"name":"g","value":1}]"#).await;
    server
        .check("guest", r#"PUT /api/global-parameters/imported_definition_hash_value {"value":"00"} -> 201"#)
        .await;
    let exported = server.ask(Some("guest"), "GET", "/api/definitions", "").await.body;
    assert!(!exported.contains("imported_definition_hash_value"), "{exported}");
}

#[tokio::test]
async fn parameters_are_set_listed_and_cleared() {
    let server = Server::start().await;
    server
        .check(
            "guest",
            r#"
            PUT /api/parameters/ours/%2F/s {"value":{"a":1}} -> 201
            PUT /api/parameters/ours/%2F/s {"value":{"a":2}} -> 204
            GET /api/parameters/ours/%2F -> 200 [{"vhost":"/","component":"ours","name":"s","value":{"a":2}}]
            GET /api/parameters/ours/%2F/s -> 200 {"vhost":"/","component":"ours","name":"s","value":{"a":2}}
            GET /api/parameters/ours/%2F/t -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no parameter 't'"}
            GET /api/parameters/other -> 200 []
            GET /api/parameters/ours/absent -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no vhost 'absent'"}
            PUT /api/parameters/ours/absent/s {"value":1} -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no vhost 'absent'"}
            PUT /api/parameters/ours/%2F/s {} -> 400 {"error":"bad_request","reason":"'value' is missing"}
            DELETE /api/parameters/ours/%2F/s -> 204
            DELETE /api/parameters/ours/%2F/s -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no parameter 's'"}
            PUT /api/global-parameters/g {"value":"v"} -> 201
            GET /api/global-parameters/g -> 200 {"name":"g","value":"v"}
            GET /api/global-parameters/h -> 404 {"error":"Object Not Found",..
            GET /api/global-parameters -> 200 [{"name":"g","value":"v"}]
            DELETE /api/global-parameters/g -> 204
            GET /api/parameters -> 200 []
            "#,
        )
        .await;
}

#[tokio::test]
async fn the_cluster_is_named_by_a_global_parameter() {
    let server = Server::start().await;
    server
        .check(
            "guest",
            r#"
            PUT /api/cluster-name {"name":"ours é"} -> 204
            GET /api/cluster-name -> 200 {"name":"ours é"}
            GET /api/global-parameters -> 200 [{"name":"cluster_name","value":"ours é"}]
            GET /api/overview?columns=cluster_name -> 200 {"cluster_name":"ours é"}
            PUT /api/cluster-name {} -> 400 {"error":"bad_request","reason":"'name' is missing"}
            PUT /api/cluster-name {"name":7} -> 400 {"error":"bad_request","reason":"the name of a cluster is a text of..
            PUT /api/cluster-name {"name":""} -> 400 {"error":"bad_request",..
            PUT /api/global-parameters/cluster_name {"value":"a\"b"} -> 400 {"error":"bad_request",..
            POST /api/definitions {"global_parameters":[{"name":"cluster_name","value":[]}]} -> 400 {"error":"bad_request","reason":"line 1: global parameter 'cluster_name': the name of a cluster..
            POST /api/definitions {"global_parameters":[{"name":"cluster_name","value":"theirs"}]} -> 204
            GET /api/cluster-name -> 200 {"name":"theirs"}
            DELETE /api/global-parameters/cluster_name -> 204
            GET /api/cluster-name -> 200 {"name":"c"}
            "#,
        )
        .await;
    server.check("own", r#"PUT /api/cluster-name {"name":"x"} -> 401 {"error":"not_authorised",.."#).await;
}

#[tokio::test]
async fn a_section_of_null_has_no_entries() {
    let server = Server::start().await;
    let sections = [
        "users",
        "vhosts",
        "permissions",
        "topic_permissions",
        "parameters",
        "global_parameters",
        "policies",
        "queues",
        "exchanges",
        "bindings",
    ];
    let text = sections.map(|section| format!("\"{section}\":null")).join(",");
    server
        .check(
            "guest",
            &format!(
                r#"
                POST /api/definitions {{{text}}} -> 204
                POST /api/definitions/%2F {{"queues":null}} -> 204
                POST /api/definitions {{"queues":{{}}}} -> 400 {{"error":"bad_request","reason":"line 1: 'queues' is not a list"}}
                POST /api/definitions {{"queues":[null]}} -> 400 {{"error":"bad_request","reason":"line 1: an entry of 'queues' is not an object"}}
                "#
            ),
        )
        .await;
}

#[tokio::test]
async fn limits_of_null_are_none_and_limits_may_be_lists_of_pairs() {
    let server = Server::start().await;
    server
        .check(
            "guest",
            r#"
            POST /api/definitions {"vhosts":[{"name":"v","limits":null,"metadata":null}],"users":[{"name":"u","tags":"","limits":null}],"limits":null} -> 204
            GET /api/vhost-limits/v -> 200 []
            POST /api/definitions/v {"limits":null,"metadata":null} -> 204
            POST /api/definitions {"users":[{"name":"u","tags":"","limits":[["max-connections",3],["max-channels",4]]}]} -> 204
            GET /api/user-limits/u -> 200 [{"user":"u","value":{"max-connections":3,"max-channels":4}}]
            POST /api/definitions {"users":[{"name":"u","tags":"","limits":[]}]} -> 204
            POST /api/definitions {"users":[{"name":"u","tags":"","limits":7}]} -> 400 {"error":"bad_request","reason":"line 1: user 'u': 'limits' is neither an object nor a list of pairs"}
            "#,
        )
        .await;
}

/// A broker must start with the definitions that it has started with before.
#[test]
fn a_component_that_rabbitmq_would_refuse_is_a_warning_at_the_start() {
    let text = r#"{"parameters":[{"vhost":"/","component":"shovel","name":"s","value":{"src-queue":"a","dest-queue":"b"}}]}"#;
    assert!(Definitions::parse(text, Reading::default()).is_err());
    let lenient = Reading { warns_of_components: true, ..Reading::default() };
    let definitions = Definitions::parse(text, lenient).unwrap();
    let warnings = definitions.warnings();
    assert_eq!(
        warnings[0],
        "parameter 's' of component 'shovel' in vhost '/': Validation failed: 'src-uri' is missing"
    );
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    // The name of the cluster has an effect.
    let name = r#"{"global_parameters":[{"name":"cluster_name","value":7}]}"#;
    assert!(Definitions::parse(name, lenient).is_err());
}

/// Otherwise each start would write all users again.
#[tokio::test]
async fn a_user_keeps_the_hash_that_is_of_the_password() {
    let api = TestNode::new();
    let who = Identity::internal("guest", "administrator");
    let known = Hashing::Sha256.hash([9; 16], &Secret::new("secret".to_owned()));
    let change = |hash: PasswordHash| AccountChange::SetUser { name: "anna".into(), hash, tags: [].into() };
    api.change_account(&who, change(known.clone())).await.unwrap();
    let import = async |password: &str| {
        let text = format!(r#"{{"users":[{{"name":"anna","password":"{password}","tags":""}}]}}"#);
        let definitions = Definitions::parse(&text, Reading::default()).unwrap();
        definitions.import(&api, &who).await.unwrap();
        api.users(&who).unwrap().get("anna").unwrap().hash.clone()
    };
    assert_eq!(import("secret").await, known);
    assert!(import("other").await.is_of(&Secret::new("other".to_owned())));
    // The configured algorithm replaces another one.
    let old = Hashing::Sha512.hash([9; 16], &Secret::new("secret".to_owned()));
    api.change_account(&who, change(old)).await.unwrap();
    assert_eq!(import("secret").await.hashing(), Hashing::Sha256);
}

/// Definitions name the type of each queue, and a virtual host may add it.
#[tokio::test]
async fn a_queue_with_as_many_arguments_as_possible_is_imported_again() {
    let server = Server::start().await;
    server.check("guest", r#"PUT /api/vhosts/team {"default_queue_type":"quorum"} -> 201"#).await;
    let arguments: serde_json::Map<String, serde_json::Value> =
        (0..256).map(|at| (format!("note-{at}"), at.into())).collect();
    let body = serde_json::json!({ "arguments": arguments }).to_string();
    for vhost in ["%2F", "team"] {
        let path = format!("/api/queues/{vhost}/q");
        let answer = server.ask(Some("guest"), "PUT", &path, &body).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        let answer = server.ask(Some("guest"), "PUT", &path, &body).await;
        assert_eq!(answer.status, 204, "{}", answer.body);
    }
    let exported = server.ask(Some("guest"), "GET", "/api/definitions", "").await.body;
    for other in [server, Server::start().await] {
        let answer = other.ask(Some("guest"), "POST", "/api/definitions", &exported).await;
        assert_eq!(answer.status, 204, "{}", answer.body);
        let again = other.ask(Some("guest"), "GET", "/api/definitions", "").await.body;
        let rows: serde_json::Value = serde_json::from_str(&again).unwrap();
        let counts: Vec<usize> = rows["queues"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["arguments"].as_object().unwrap().len())
            .collect();
        assert!(counts.iter().all(|count| (256..=257).contains(count)) && counts.len() == 2, "{counts:?}");
        let more = body.replacen(r#""note-0""#, r#""note":0,"note-0""#, 1);
        let answer = other.ask(Some("guest"), "PUT", "/api/queues/%2F/r", &more).await;
        assert_eq!(answer.status, 400, "{}", answer.body);
        assert!(answer.body.contains("more than 256 arguments"), "{}", answer.body);
    }
}

/// A value of one byte takes many times that in memory.
#[tokio::test]
async fn the_arguments_of_a_declaration_are_bounded_in_bytes() {
    let server = Server::start().await;
    let of = |values: usize| format!(r#"{{"arguments":{{"x":[{}]}}}}"#, vec!["0"; values].join(","));
    let answer = server.ask(Some("guest"), "PUT", "/api/queues/%2F/q", &of(1_000)).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
    for (method, path) in [
        ("PUT", "/api/queues/%2F/r"),
        ("PUT", "/api/exchanges/%2F/r"),
        ("POST", "/api/bindings/%2F/e/amq.headers/q/q"),
    ] {
        let answer = server.ask(Some("guest"), method, path, &of(10_000)).await;
        assert_eq!(answer.status, 400, "{path}: {}", answer.body);
        assert!(answer.body.contains("more than 65536 bytes"), "{path}: {}", answer.body);
    }
}

#[tokio::test]
async fn limits_of_a_virtual_host_that_does_not_exist_are_refused() {
    let server = Server::start().await;
    let limits =
        r#""parameters":[{"vhost":"w","component":"vhost-limits","name":"limits","value":{"max-queues":1}}]"#;
    let answer = server.ask(Some("guest"), "POST", "/api/definitions", &format!("{{{limits}}}")).await;
    assert_eq!(answer.status, 400, "{}", answer.body);
    let why = "line 1: parameter 'limits' of component 'vhost-limits' in vhost 'w': no vhost 'w'";
    assert!(answer.body.contains(why), "{}", answer.body);
    server.check("guest", r#"GET /api/vhosts?columns=name -> 200 [{"name":"/"}]"#).await;
    let both = format!(r#"{{"vhosts":[{{"name":"w"}}],{limits}}}"#);
    let answer = server.ask(Some("guest"), "POST", "/api/definitions", &both).await;
    assert_eq!(answer.status, 204, "{}", answer.body);
    server.check("guest", r#"GET /api/vhosts/w?columns=limits -> 200 {"limits":{"max-queues":1}}"#).await;
}

/// RabbitMQ keeps them as parameters, but refuses some of them here, too.
#[tokio::test]
async fn what_has_a_route_of_its_own_is_no_parameter() {
    let server = Server::start().await;
    for (component, body, route) in [
        ("vhost-limits", r#"{"value":{"max-queues":1}}"#, "PUT /api/vhost-limits/VHOST/NAME"),
        ("policy", r#"{"value":{"pattern":"q"}}"#, "PUT /api/policies/VHOST/NAME"),
        ("operator_policy", r#"{"value":{"pattern":"q"}}"#, "PUT /api/operator-policies/VHOST/NAME"),
    ] {
        let path = format!("/api/parameters/{component}/%2F/p");
        let answer = server.ask(Some("guest"), "PUT", &path, body).await;
        assert_eq!(answer.status, 400, "{}", answer.body);
        let why = format!("parameters of component '{component}' are set with {route}");
        assert!(answer.body.contains(&why), "{}", answer.body);
        server.check("guest", &format!("DELETE {path} -> 404 {{..")).await;
    }
    let policy = r#"{"parameters":[{"vhost":"/","component":"policy","name":"p","value":{"pattern":"q","definition":{"max-length":1}}}]}"#;
    let answer = server.ask(Some("guest"), "POST", "/api/definitions", policy).await;
    assert_eq!(answer.status, 400, "{}", answer.body);
    assert!(answer.body.contains("the section 'policies'"), "{}", answer.body);
}

/// An older version has kept parameters that have no effect. An import would make them take effect, so they are not exported.
#[tokio::test]
async fn parameters_that_an_older_version_has_kept_are_not_exported() {
    use catalog::ParameterKey;
    let server = Server::start().await;
    let who = server.api.login("guest", &Secret::new("guest"), [127, 0, 0, 1].into()).await.unwrap();
    for component in ["vhost-limits", "policy", "operator_policy", "ours"] {
        let key = ParameterKey { vhost: Some("/".into()), component: component.into(), name: "p".into() };
        let value = r#"{"max-queues":1,"pattern":"q","definition":{"max-length":1}}"#.into();
        server.api.change_parameter(&who, key, Some(value)).await.unwrap();
    }
    for path in ["/api/definitions", "/api/definitions/%2F"] {
        let exported = server.ask(Some("guest"), "GET", path, "").await.body;
        let exported: serde_json::Value = serde_json::from_str(&exported).unwrap();
        let components: Vec<_> = exported["parameters"].as_array().unwrap().iter().collect();
        assert_eq!(components.len(), 1, "{components:?}");
        assert_eq!(components[0]["component"], "ours");
    }
    // They can still be cleared.
    server.check("guest", "DELETE /api/parameters/policy/%2F/p -> 204").await;
}

#[tokio::test]
async fn unknown_limits_of_users_are_refused() {
    let server = Server::start().await;
    for limits in [r#"{"max-cats":3}"#, r#"[["max-cats",3]]"#] {
        let text = format!(r#"{{"users":[{{"name":"u","tags":"","limits":{limits}}}]}}"#);
        let answer = server.ask(Some("guest"), "POST", "/api/definitions", &text).await;
        assert_eq!(answer.status, 400, "{}", answer.body);
        assert!(
            answer.body.contains("line 1: user 'u': 'max-cats' is not a limit of a user"),
            "{}",
            answer.body
        );
    }
}
