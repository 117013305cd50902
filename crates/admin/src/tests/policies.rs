//! `/api/policies` and `/api/operator-policies`, and their effect on existing queues.

use super::http::Server;

#[tokio::test]
async fn policies() {
    let server = Server::start().await;
    server
        .check(
            "policymaker",
            r#"
            GET /api/policies -> 200 []
            GET /api/policies/nope -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no vhost 'nope'"}
            GET /api/policies/%2F/p -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no policy 'p' in vhost '/'"}
            PUT /api/policies/%2F/p {"pattern":"^q","definition":{"max-length":5,"overflow":"reject-publish"}} -> 201
            PUT /api/policies/%2F/p {"pattern":"^q","definition":{"max-length":5,"overflow":"reject-publish"}} -> 204
            PUT /api/policies/%2F/p {"pattern":"^q","definition":{"max-length":7},"priority":-1,"apply-to":"queues"} -> 204
            GET /api/policies/%2F/p -> 200 {"vhost":"/","name":"p","pattern":"^q","apply-to":"queues","definition":{"max-length":7},"priority":-1}
            GET /api/policies/%2F?columns=name,priority -> 200 [{"name":"p","priority":-1}]

            # Invalid policies.
            PUT /api/policies/%2F/r {"definition":{}} -> 400 {"error":"bad_request","reason":"'pattern' is missing"}
            PUT /api/policies/%2F/r {"pattern":""} -> 400 {"error":"bad_request","reason":"'definition' is missing"}
            PUT /api/policies/%2F/r {"pattern":"","definition":{}} -> 400 {"error":"bad_request","reason":"Validation failed: the definition is empty"}
            PUT /api/policies/%2F/r {"pattern":"","definition":7} -> 400 {"error":"bad_request","reason":"'definition' is not an object"}
            PUT /api/policies/%2F/r {"pattern":"(","definition":{"expires":1}} -> 400 {"error":"bad_request","reason":"Validation failed: the pattern is not a regular expression..
            PUT /api/policies/%2F/r {"pattern":"","definition":{"nope":1}} -> 400 {"error":"bad_request","reason":"Validation failed: 'nope' is not recognised: there is no such policy setting"}
            PUT /api/policies/%2F/r {"pattern":"","definition":{"expires":1},"apply-to":"some"} -> 400 {"error":"bad_request","reason":"Validation failed: apply-to 'some' must be ..
            PUT /api/policies/%2F/r {"pattern":"","definition":{"expires":1},"priority":"high"} -> 400 {"error":"bad_request","reason":"'priority' is not a whole number"}
            PUT /api/policies/nope/r {"pattern":"","definition":{"expires":1}} -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no vhost 'nope'"}

            # Queues and exchanges show their policies.
            PUT /api/queues/%2F/q -> 201
            GET /api/queues/%2F/q?columns=policy,operator_policy,effective_policy_definition -> 200 {"policy":"p","operator_policy":null,"effective_policy_definition":{"max-length":7}}
            PUT /api/policies/%2F/x {"pattern":"^amq.topic$","definition":{"alternate-exchange":"amq.fanout"},"apply-to":"exchanges"} -> 201
            GET /api/exchanges/%2F/amq.topic?columns=policy -> 200 {"policy":"x"}
            GET /api/exchanges/%2F/amq.fanout?columns=policy -> 200 {}

            # The policies that match a queue, whether they apply or not.
            PUT /api/policies/%2F/streams {"pattern":"","definition":{"max-length-bytes":5},"apply-to":"streams"} -> 201
            PUT /api/policies/%2F/less {"pattern":"","definition":{"max-length":5},"priority":-7} -> 201
            GET /api/policies/%2F?queue=q&columns=name -> 200 [{"name":"less"},{"name":"p"}]
            GET /api/operator-policies/%2F?queue=q -> 200 []
            GET /api/policies/%2F?queue=nope -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no queue 'nope' in vhost '/'"}
            GET /api/policies?queue=q -> 400 {"error":"bad_request","reason":"'queue' needs the path of a virtual host: /api/policies/VHOST"}
            DELETE /api/policies/%2F/streams -> 204
            DELETE /api/policies/%2F/less -> 204

            # Policymakers may read operator policies but not set them.
            GET /api/operator-policies -> 200 []
            PUT /api/operator-policies/%2F/o {"pattern":"","definition":{"max-length":3}} -> 401 {"error":"not_authorised","reason":"configure access to operator policy 'o' in vhost '/' refused for user 'policymaker'"}
            "#,
        )
        .await;
    server
        .check(
            "guest",
            r#"
            PUT /api/operator-policies/%2F/o {"pattern":"","definition":{"max-length":3}} -> 201
            PUT /api/operator-policies/%2F/r {"pattern":"","definition":{"dead-letter-exchange":""}} -> 400 {"error":"bad_request","reason":"Validation failed: 'dead-letter-exchange' is not recognised: there is no such operator policy setting"}
            GET /api/operator-policies/%2F?columns=name -> 200 [{"name":"o"}]
            GET /api/policies?columns=name -> 200 [{"name":"p"},{"name":"x"}]
            GET /api/queues/%2F/q?columns=policy,operator_policy,effective_policy_definition -> 200 {"policy":"p","operator_policy":"o","effective_policy_definition":{"max-length":3}}
            DELETE /api/operator-policies/%2F/o -> 204
            DELETE /api/operator-policies/%2F/o -> 404 {"error":"Object Not Found","reason":"Not Found","detail":"no operator policy 'o' in vhost '/'"}
            DELETE /api/policies/%2F/p -> 204
            GET /api/queues/%2F/q?columns=policy,operator_policy,effective_policy_definition -> 200 {"policy":null,"operator_policy":null,"effective_policy_definition":{}}
            "#,
        )
        .await;
    server
        .check(
            "monitor",
            r#"
            GET /api/policies?columns=name -> 200 [{"name":"x"}]
            PUT /api/policies/%2F/y {"pattern":"","definition":{"expires":1}} -> 401 {"error":"not_authorised","reason":"configure access to policy 'y' in vhost '/' refused for user 'monitor'"}
            DELETE /api/policies/%2F/x -> 401 {"error":"not_authorised","reason":"configure access to policy 'x' in vhost '/' refused for user 'monitor'"}
            "#,
        )
        .await;
}
