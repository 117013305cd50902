//! What programs with rabbitmq_http_client do, the client of RabbitMQ's management API in Rust. rabbitmqadmin v2 is made with
//! it, too.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Debug;
use std::future::Future;
use std::time::{Duration, Instant};

use lapin::options::{BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties};
use rabbitmq_http_client::api::{Client, ClientBuilder, HttpClientError};
use rabbitmq_http_client::commons::{
    BindingDestinationType, ExchangeType, PaginationParams, PolicyTarget, QueueType, SupportedProtocol,
    UserLimitTarget, VirtualHostLimitTarget,
};
use rabbitmq_http_client::error::Error as ClientError;
use rabbitmq_http_client::password_hashing;
use rabbitmq_http_client::requests::{
    BindingDeletionParams, EnforcedLimitParams, ExchangeParams, GlobalRuntimeParameterDefinition,
    Permissions, PolicyParams, QueueParams, RuntimeParameterDefinition, StreamParams, TopicPermissions,
    UserParams, VirtualHostParams, XArguments,
};
use rabbitmq_http_client::responses::ReachabilityProbeOutcome;
use serde_json::{Map, Value, json};

type Checked<T = ()> = Result<T, Box<dyn Error>>;
type Http = Client<String, String, String>;

/// A guard against hanging, not a measure.
const PATIENCE: Duration = Duration::from_secs(30);
/// The virtual host of all checks.
const VHOST: &str = "/";

fn of(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// Returns true if the broker is RabbitMQ, which needs plugins for some of what is tried here.
fn is_rabbitmq() -> bool {
    of("SLUICE_AGAINST") == "rabbitmq"
}

fn login(user: &str, password: &str) -> Checked<Http> {
    let endpoint = format!("http://{}/api", of("SLUICE_HTTP"));
    let builder = ClientBuilder::new()
        .with_endpoint(endpoint)
        .with_basic_auth_credentials(user.to_owned(), password.to_owned());
    Ok(builder.build()?)
}

fn admin() -> Checked<Http> {
    login("guest", "guest")
}

fn queue_type() -> QueueType {
    QueueType::from(of("SLUICE_QUEUE_TYPE").as_str())
}

fn arguments(value: Value) -> XArguments {
    value.as_object().cloned()
}

fn fields(value: Value) -> Map<String, Value> {
    arguments(value).unwrap_or_default()
}

fn expect<T: PartialEq + Debug>(found: T, wanted: T) -> Checked {
    if found == wanted { Ok(()) } else { Err(format!("found {found:?}, wanted {wanted:?}").into()) }
}

/// Expects an answer with this status. The client drops the reason of some.
fn refused<T: Debug>(result: Result<T, HttpClientError>, wanted: u16) -> Checked {
    let found = match result {
        Err(ClientError::NotFound) => 404,
        Err(
            ClientError::ClientErrorResponse { status_code, .. }
            | ClientError::ServerErrorResponse { status_code, .. }
            | ClientError::HealthCheckFailed { status_code, .. },
        ) => status_code.as_u16(),
        other => return Err(format!("found {other:?}, wanted an answer with {wanted}").into()),
    };
    expect(found, wanted)
}

/// Repeats a question until the answer is yes: RabbitMQ shows statistics some seconds later.
async fn until<F: Future<Output = Checked<bool>>>(what: &str, ask: impl Fn() -> F) -> Checked {
    let end = Instant::now() + PATIENCE;
    while !ask().await? {
        if Instant::now() > end {
            return Err(format!("{what}: not in time").into());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

async fn who_and_what_is_there() -> Checked {
    let admin = admin()?;
    expect(admin.current_user().await?.name, "guest".to_owned())?;
    expect(admin.server_version().await?, "4.3.6".to_owned())?;
    let overview = admin.overview().await?;
    expect(overview.listeners.iter().any(|listener| listener.protocol == "amqp"), true)?;
    let nodes = admin.list_nodes().await?;
    expect((nodes.len(), &nodes[0].name, nodes[0].being_drained), (1, &overview.node, false))?;
    let node = admin.get_node_info(&overview.node).await?;
    expect((node.uptime > 0, node.fd_total > 0, node.memory_high_watermark > 0), (true, true, true))?;
    admin.list_node_plugins(&overview.node).await?;
    admin.list_all_cluster_plugins().await?;
    let attempts = admin.auth_attempts_statistics(&overview.node).await?;
    expect(
        attempts.iter().any(|row| row.protocol == SupportedProtocol::HTTP && row.success_count > 0),
        true,
    )?;
    match admin.probe_reachability().await {
        ReachabilityProbeOutcome::Reached(details) => expect(details.current_user.name, "guest".to_owned())?,
        ReachabilityProbeOutcome::Unreachable(error) => return Err(error),
    }
    refused(login("guest", "wrong")?.overview().await, 401)
}

async fn the_cluster_has_a_name() -> Checked {
    let admin = admin()?;
    let before = admin.get_cluster_name().await?.name;
    admin.set_cluster_name("of a check").await?;
    expect(admin.get_cluster_name().await?.name, "of a check".to_owned())?;
    admin.set_cluster_name(&before).await?;
    admin.set_cluster_tags(fields(json!({ "region": "here" }))).await?;
    expect(admin.get_cluster_tags().await?.0, fields(json!({ "region": "here" })))?;
    Ok(admin.clear_cluster_tags().await?)
}

async fn features_old_and_new() -> Checked {
    let admin = admin()?;
    admin.list_feature_flags().await?;
    admin.enable_all_stable_feature_flags().await?;
    let deprecated = admin.list_all_deprecated_features().await?;
    expect(deprecated.0.iter().any(|feature| feature.name == "global_qos"), true)?;
    admin.list_deprecated_features_in_use().await?;
    Ok(())
}

async fn exchanges_queues_and_bindings() -> Checked {
    let admin = admin()?;
    admin.declare_exchange(VHOST, &ExchangeParams::durable_topic("shop", None)).await?;
    admin.declare_exchange(VHOST, &ExchangeParams::durable_headers("billing", None)).await?;
    let random = ExchangeParams::new("any", ExchangeType::LocalRandom, true, false, None);
    admin.declare_exchange(VHOST, &random).await?;
    let queue = QueueParams::new("a b/ä", queue_type(), true, false, arguments(json!({ "x-max-length": 7 })));
    admin.declare_queue(VHOST, &queue).await?;
    let found = admin.get_queue_info(VHOST, "a b/ä").await?;
    expect(
        (found.queue_type, found.durable, found.state),
        (of("SLUICE_QUEUE_TYPE"), true, "running".to_owned()),
    )?;
    expect(found.arguments.get("x-max-length").cloned(), Some(json!(7)))?;

    admin.bind_queue(VHOST, "a b/ä", "shop", Some("new.*"), None).await?;
    let kept = arguments(json!({ "x-match": "any", "country": "DE" }));
    admin.bind_exchange(VHOST, "billing", "shop", Some("paid"), kept.clone()).await?;
    let keys = |rows: Vec<rabbitmq_http_client::responses::BindingInfo>| -> BTreeSet<String> {
        rows.into_iter().map(|row| format!("{} {}", row.source, row.routing_key)).collect()
    };
    let set = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<BTreeSet<_>>();
    expect(keys(admin.list_queue_bindings(VHOST, "a b/ä").await?), set(&[" a b/ä", "shop new.*"]))?;
    let of_source = admin.list_exchange_bindings_with_source(VHOST, "shop").await?;
    let paid = of_source.iter().find(|row| row.routing_key == "paid").ok_or("no binding")?;
    expect(Some(&paid.arguments.0), kept.as_ref())?;
    expect(keys(of_source), set(&["shop new.*", "shop paid"]))?;
    let to = admin.list_exchange_bindings_with_destination(VHOST, "billing").await?;
    expect(keys(to), set(&["shop paid"]))?;
    expect(admin.list_bindings_in(VHOST).await?.len() >= 3, true)?;
    let unbind = BindingDeletionParams {
        virtual_host: VHOST,
        source: "shop",
        destination: "billing",
        destination_type: BindingDestinationType::Exchange,
        routing_key: "paid",
        arguments: kept,
    };
    admin.delete_binding(&unbind, false).await?;
    admin.delete_binding(&unbind, true).await?;
    expect(admin.get_exchange_info(VHOST, "shop").await?.exchange_type, "topic".to_owned())?;
    admin.delete_exchanges(VHOST, &["shop", "billing", "any"], false).await?;
    admin.delete_queue(VHOST, "a b/ä", false).await?;
    admin.delete_queue(VHOST, "a b/ä", true).await?;
    refused(admin.get_queue_info(VHOST, "a b/ä").await, 404)
}

async fn queues_are_listed_by_page_and_by_type() -> Checked {
    let admin = admin()?;
    for i in 0..5 {
        let name = format!("page.{i}");
        admin.declare_queue(VHOST, &QueueParams::new(&name, queue_type(), true, false, None)).await?;
    }
    expect(admin.list_queues_in_paged(VHOST, &PaginationParams::new(2, 2)).await?.len(), 2)?;
    let mut page = Some(PaginationParams::first_page(3));
    let mut count = 0;
    while let Some(params) = page {
        let rows = admin.list_queues_paged(&params).await?;
        count += rows.len();
        page = (rows.len() == 3).then(|| params.next_page()).flatten();
    }
    expect(count, admin.list_queues().await?.len())?;
    expect(admin.list_queues_with_details().await?.len(), count)?;
    let typed = [admin.list_classic_queues_in(VHOST).await?, admin.list_quorum_queues_in(VHOST).await?];
    expect(typed.iter().map(Vec::len).sum::<usize>(), count)?;
    let names: Vec<String> = (0..5).map(|i| format!("page.{i}")).collect();
    admin.delete_queues(VHOST, &names.iter().map(String::as_str).collect::<Vec<_>>(), false).await?;
    Ok(())
}

async fn streams() -> Checked {
    let admin = admin()?;
    let params = StreamParams::with_expiration_and_length_limit("log", "1D", 1_000_000);
    admin.declare_stream(VHOST, &params).await?;
    let node = admin.overview().await?.node;
    let found = admin.get_stream_info(VHOST, "log").await?;
    expect((found.queue_type.as_str(), found.leader), ("stream", Some(node)))?;
    expect(found.arguments.get("x-max-age").cloned(), Some(json!("1D")))?;
    expect(admin.list_streams().await?.len(), 1)?;
    if !is_rabbitmq() {
        // The plugin of streams has these.
        expect(
            admin.list_stream_connections().await?.len() + admin.list_stream_publishers().await?.len(),
            0,
        )?;
        expect(admin.list_stream_consumers().await?.len(), 0)?;
    }
    Ok(admin.delete_stream(VHOST, "log", false).await?)
}

async fn messages() -> Checked {
    let admin = admin()?;
    admin.declare_queue(VHOST, &QueueParams::new("box", queue_type(), true, false, None)).await?;
    let properties =
        fields(json!({ "content_type": "text/plain", "headers": { "n": 1 }, "delivery_mode": 2 }));
    for payload in ["one", "two"] {
        let sent = admin.publish_message(VHOST, "amq.default", "box", payload, properties.clone()).await?;
        expect(sent.routed, true)?;
    }
    let nowhere = admin.publish_message(VHOST, "amq.default", "nowhere", "x", Map::new()).await?;
    expect(nowhere.routed, false)?;
    until("two messages", || async { Ok(admin.get_queue_info(VHOST, "box").await?.message_count == 2) })
        .await?;
    let looked = admin.get_messages(VHOST, "box", 1, "ack_requeue_true").await?;
    expect((looked[0].payload.as_str(), looked[0].redelivered), ("one", false))?;
    let taken = admin.get_messages(VHOST, "box", 10, "ack_requeue_false").await?;
    let payloads: Vec<&str> = taken.iter().map(|message| message.payload.as_str()).collect();
    expect((payloads, taken[0].redelivered), (vec!["one", "two"], true))?;
    expect(taken[0].properties.0.get("content_type"), Some(&json!("text/plain")))?;
    expect(admin.get_messages(VHOST, "box", 1, "ack_requeue_false").await?.len(), 0)?;
    admin.publish_message(VHOST, "amq.default", "box", "three", Map::new()).await?;
    admin.purge_queue(VHOST, "box").await?;
    until("no message", || async { Ok(admin.get_queue_info(VHOST, "box").await?.message_count == 0) })
        .await?;
    Ok(admin.delete_queue(VHOST, "box", false).await?)
}

async fn policies_of_users_and_operators() -> Checked {
    let admin = admin()?;
    let policy = |name, definition: Value| {
        PolicyParams::new(VHOST, name, "^p$", fields(definition)).apply_to(PolicyTarget::Queues).priority(3)
    };
    admin.declare_policy(&policy("short", json!({ "max-length": 5 }))).await?;
    admin.declare_operator_policy(&policy("ceiling", json!({ "max-length": 3 }))).await?;
    let found = admin.get_policy(VHOST, "short").await?;
    expect((found.priority, found.pattern.as_str()), (3, "^p$"))?;
    admin.declare_queue(VHOST, &QueueParams::new("p", queue_type(), true, false, None)).await?;
    until("a policy", || async {
        let queue = admin.get_queue_info(VHOST, "p").await?;
        Ok(queue.policy.as_deref() == Some("short") && queue.operator_policy.as_deref() == Some("ceiling"))
    })
    .await?;
    expect(admin.list_matching_policies(VHOST, "p", PolicyTarget::Queues).await?.len(), 1)?;
    expect(
        admin.list_policies_in(VHOST).await?.len() + admin.list_operator_policies_in(VHOST).await?.len(),
        2,
    )?;
    expect(admin.list_operator_policies().await?[0].name.as_str(), "ceiling")?;
    refused(admin.declare_policy(&policy("bad", json!({ "no-such-key": 1 }))).await, 400)?;
    admin.delete_policies_in(VHOST, vec!["short"]).await?;
    admin.delete_operator_policy(VHOST, "ceiling", false).await?;
    Ok(admin.delete_queue(VHOST, "p", false).await?)
}

async fn virtual_hosts_users_and_permissions() -> Checked {
    let admin = admin()?;
    let vhost = VirtualHostParams::named("team/ä")
        .with_description("ours")
        .with_tags(vec!["a", "b"])
        .with_default_queue_type(QueueType::Quorum);
    admin.create_vhost(&vhost).await?;
    let found = admin.get_vhost("team/ä").await?;
    expect(
        (found.description.as_deref(), found.default_queue_type.as_deref()),
        (Some("ours"), Some("quorum")),
    )?;
    admin.enable_vhost_deletion_protection("team/ä").await?;
    expect(admin.delete_vhost("team/ä", false).await.is_err(), true)?;
    admin.disable_vhost_deletion_protection("team/ä").await?;

    let salt = password_hashing::salt();
    let hash = password_hashing::base64_encoded_salted_password_hash_sha256(&salt, "secret");
    admin.create_user(&UserParams::management("ann", &hash)).await?;
    admin.create_user(&UserParams::without_tags("bob", &hash)).await?;
    expect(admin.list_users_without_permissions().await?.len(), 2)?;
    let permissions = Permissions { user: "ann", vhost: "team/ä", configure: "^x", read: "", write: ".*" };
    admin.grant_permissions(&permissions).await?;
    expect(admin.get_permissions("team/ä", "ann").await?.configure.as_str(), "^x")?;
    expect(admin.list_permissions_of("ann").await?.len(), 1)?;
    expect(admin.list_permissions_in("team/ä").await?.len(), 2)?;
    let topics =
        TopicPermissions { user: "ann", vhost: "team/ä", exchange: "amq.topic", read: ".*", write: "^a" };
    admin.declare_topic_permissions(&topics).await?;
    expect(admin.get_topic_permissions_of("team/ä", "ann").await?.write.as_str(), "^a")?;
    expect(admin.list_topic_permissions_in("team/ä").await?.len(), 1)?;

    let ann = login("ann", "secret")?;
    expect(ann.list_vhosts().await?.len(), 1)?;
    refused(ann.declare_queue("team/ä", &QueueParams::new_quorum_queue("y", None)).await, 401)?;
    ann.declare_queue("team/ä", &QueueParams::new_quorum_queue("x", None)).await?;
    refused(ann.list_users().await, 401)?;
    refused(login("bob", "secret")?.overview().await, 401)?;

    admin.clear_topic_permissions("team/ä", "ann", false).await?;
    admin.clear_permissions("team/ä", "ann", false).await?;
    admin.clear_permissions("team/ä", "ann", true).await?;
    admin.delete_users(vec!["ann", "bob"]).await?;
    refused(ann.current_user().await, 401)?;
    Ok(admin.delete_vhost("team/ä", false).await?)
}

async fn limits() -> Checked {
    let admin = admin()?;
    let vhost = EnforcedLimitParams::new(VirtualHostLimitTarget::MaxQueues, 100);
    admin.set_vhost_limit(VHOST, vhost).await?;
    expect(admin.list_vhost_limits(VHOST).await?[0].limits.0.get("max-queues"), Some(&json!(100)))?;
    admin.clear_vhost_limit(VHOST, VirtualHostLimitTarget::MaxQueues).await?;
    let user = EnforcedLimitParams::new(UserLimitTarget::MaxConnections, 100);
    admin.set_user_limit("guest", user).await?;
    expect(admin.list_user_limits("guest").await?[0].limits.0.get("max-connections"), Some(&json!(100)))?;
    Ok(admin.clear_user_limit("guest", UserLimitTarget::MaxConnections).await?)
}

async fn parameters() -> Checked {
    let admin = admin()?;
    let value = fields(json!({ "a": 1 }));
    admin
        .upsert_global_runtime_parameter(&GlobalRuntimeParameterDefinition {
            name: "motto",
            value: value.clone(),
        })
        .await?;
    admin.get_global_runtime_parameter("motto").await?;
    admin.list_global_runtime_parameters().await?;
    admin.clear_global_runtime_parameter("motto").await?;
    refused(admin.get_global_runtime_parameter("motto").await, 404)?;
    if is_rabbitmq() {
        return Ok(());
    }
    let value = fields(json!({ "uri": "amqp://h" }));
    let upstream =
        RuntimeParameterDefinition { name: "up", vhost: VHOST, component: "federation-upstream", value };
    admin.upsert_runtime_parameter(&upstream).await?;
    expect(admin.list_runtime_parameters_of_component_in("federation-upstream", VHOST).await?.len(), 1)?;
    expect(admin.list_federation_upstreams().await?.len(), 1)?;
    admin.clear_runtime_parameter("federation-upstream", VHOST, "up", false).await?;
    expect(admin.list_federation_links().await?.len() + admin.list_shovels_in(VHOST).await?.len(), 0)
}

async fn definitions_go_out_and_in() -> Checked {
    let admin = admin()?;
    admin.declare_queue(VHOST, &QueueParams::new("kept", queue_type(), true, false, None)).await?;
    let all = admin.export_cluster_wide_definitions_as_data().await?;
    expect(all.queues.iter().any(|queue| queue.name == "kept"), true)?;
    expect(all.users.iter().any(|user| user.password_hash.is_some()), true)?;
    let text = admin.export_cluster_wide_definitions().await?;
    admin.delete_queue(VHOST, "kept", false).await?;
    admin.import_cluster_wide_definitions(serde_json::from_str(&text)?).await?;
    expect(admin.get_queue_info(VHOST, "kept").await?.queue_type, of("SLUICE_QUEUE_TYPE"))?;
    expect(admin.export_vhost_definitions_as_data(VHOST).await?.queues.len(), 1)?;
    let text = admin.export_vhost_definitions(VHOST).await?;
    admin.delete_queue(VHOST, "kept", false).await?;
    admin.import_vhost_definitions(VHOST, serde_json::from_str(&text)?).await?;
    Ok(admin.delete_queue(VHOST, "kept", false).await?)
}

async fn connections_channels_and_consumers() -> Checked {
    let admin = admin()?;
    admin.declare_queue(VHOST, &QueueParams::new("watched", queue_type(), true, false, None)).await?;
    let url = format!("amqp://guest:guest@{}", of("SLUICE_AMQP"));
    let options = ConnectionProperties::default().with_connection_name("a program".into());
    let connection = Connection::connect(&url, options).await?;
    let channel = connection.create_channel().await?;
    channel.basic_qos(7, BasicQosOptions::default()).await?;
    let _consumer = channel
        .basic_consume("watched".into(), "tag".into(), BasicConsumeOptions::default(), FieldTable::default())
        .await?;
    until("a channel with its consumer", || async {
        let channels = admin.list_channels().await?;
        Ok(channels.len() == 1 && channels[0].consumer_count == 1)
    })
    .await?;
    until("a connection with its name", || async {
        let all = admin.list_connections().await?;
        Ok(all.len() == 1
            && all[0].channel_count == 1
            && all[0].client_properties.connection_name == "a program")
    })
    .await?;
    let name = admin.list_connections().await?[0].name.clone();
    let channels = admin.list_channels_in(VHOST).await?;
    expect((channels[0].id, channels[0].prefetch_count), (1, 7))?;
    expect(admin.list_channels_on(&name).await?.len(), 1)?;
    expect(admin.get_channel_info(&channels[0].name).await?.name.as_str(), channels[0].name.as_str())?;
    let consumers = admin.list_consumers_in(VHOST).await?;
    expect(
        (consumers[0].consumer_tag.as_str(), consumers[0].queue.name.as_str(), consumers[0].prefetch_count),
        ("tag", "watched", 7),
    )?;
    expect(admin.list_user_connections("guest").await?.len(), 1)?;
    expect(admin.list_connections_in(VHOST).await?.len(), 1)?;
    expect(admin.get_connection_info(&name).await?.username.as_str(), "guest")?;
    admin.close_connection(&name, Some("a check"), false).await?;
    until("a closed connection", || async { Ok(!connection.status().connected()) }).await?;
    admin.close_user_connections("guest", Some("a check"), true).await?;
    admin.close_connection("no such connection", None, true).await?;
    Ok(admin.delete_queue(VHOST, "watched", false).await?)
}

async fn health_checks() -> Checked {
    let admin = admin()?;
    admin.health_check_cluster_wide_alarms().await?;
    admin.health_check_local_alarms().await?;
    admin.health_check_if_node_is_quorum_critical().await?;
    let port = of("SLUICE_HTTP").rsplit(':').next().unwrap_or_default().parse()?;
    // Over HTTP it is only a listener of RabbitMQ that is counted.
    if is_rabbitmq() {
        admin.health_check_port_listener(port).await?;
    }
    let port = of("SLUICE_AMQP").rsplit(':').next().unwrap_or_default().parse()?;
    admin.health_check_port_listener(port).await?;
    refused(admin.health_check_port_listener(1).await, 503)?;
    admin.health_check_protocol_listener(SupportedProtocol::AMQP).await?;
    refused(admin.health_check_protocol_listener(SupportedProtocol::MQTT).await, 503)?;
    Ok(admin.rebalance_queue_leaders().await?)
}

/// Runs every check, or those named on the command line.
#[tokio::main]
async fn main() {
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    let (mut passed, mut failed) = (0, 0);
    macro_rules! run {
        ($($check:ident),* $(,)?) => {$(
            if chosen.is_empty() || chosen.iter().any(|name| name == stringify!($check)) {
                match $check().await {
                    Ok(()) => {
                        println!("ok   {}", stringify!($check));
                        passed += 1;
                    }
                    Err(error) => {
                        println!("FAIL {}: {error}", stringify!($check));
                        failed += 1;
                    }
                }
            }
        )*};
    }
    run!(
        who_and_what_is_there,
        the_cluster_has_a_name,
        features_old_and_new,
        exchanges_queues_and_bindings,
        queues_are_listed_by_page_and_by_type,
        streams,
        messages,
        policies_of_users_and_operators,
        virtual_hosts_users_and_permissions,
        limits,
        parameters,
        definitions_go_out_and_in,
        connections_channels_and_consumers,
        health_checks,
    );
    println!("rabbitmq-http-client: {passed} passed, {failed} failed");
    std::process::exit(i32::from(failed > 0));
}
