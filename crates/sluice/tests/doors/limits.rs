//! Limits of connections and sessions.

use broker::settings::Settings;
use client::{Error, ReceiverOptions};

use super::fixture::{Fixture, ROOT};
use super::verbs10::is_refused;
use super::verbs091;

/// Starts a broker with the user dora, who may have one connection and two sessions or channels.
async fn with_limited_user(name: &str) -> Fixture {
    let fixture = Fixture::open(name, &[]).await;
    fixture.prepare("PUT", "/api/users/dora", r#"{"password":"dora","tags":""}"#).await;
    let body = r#"{"configure":"","write":"","read":""}"#;
    fixture.prepare("PUT", "/api/permissions/%2F/dora", body).await;
    fixture.prepare("PUT", "/api/user-limits/dora/max-connections", r#"{"value":1}"#).await;
    fixture.prepare("PUT", "/api/user-limits/dora/max-channels", r#"{"value":2}"#).await;
    fixture
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_and_sessions_are_limited() {
    let fixture = with_limited_user("limits").await;
    let first = fixture.connect("dora").await.unwrap();
    let refused = fixture.connect("dora").await.err().unwrap();
    assert_eq!(refused.condition(), Some("amqp:resource-limit-exceeded"));
    let reason = "connection refused for user 'dora': user connection limit (1) is reached";
    assert!(refused.to_string().contains(reason), "{refused}");

    let sessions = [first.session().await.unwrap(), first.session().await.unwrap()];
    let refused = match first.session().await {
        Ok(third) => third.closed().await.to_string(),
        Err(refused) => refused.to_string(),
    };
    assert!(
        refused.contains(
            "number of channels opened for user 'dora' has reached the maximum allowed user limit of 2"
        ),
        "{refused}"
    );
    let [ended, _open] = sessions;
    ended.end().await.unwrap();
    let again = first.session().await.unwrap();
    assert!(
        again
            .receiver(Some("/queues/absent"), ReceiverOptions::default())
            .await
            .is_err_and(|e| is_refused(&e))
    );

    // A connection that ends makes room.
    first.close().await.unwrap();
    let second = fixture.connect("dora").await.unwrap();
    fixture.prepare("PUT", "/api/vhost-limits/%2F/max-connections", r#"{"value":1}"#).await;
    let refused = fixture.connect(ROOT).await.err().unwrap().to_string();
    let reason = "access to vhost '/' refused for user 'root': connection limit (1) is reached";
    assert!(refused.contains(reason), "{refused}");
    second.close().await.unwrap();
    fixture.connect(ROOT).await.unwrap().close().await.unwrap();
    fixture.close();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_and_channels_of_amqp_0_9_1_are_limited() {
    let fixture = with_limited_user("limits091").await;
    let connect = async |user: &str| verbs091::connect(&fixture.url(user)).await;
    // The whole connection is refused, or ends, with 530.
    let says = |refused: Error, reason: &str| match refused {
        Error::Refused { channel: None, code: 530, text } => {
            assert_eq!(text, format!("NOT_ALLOWED - {reason}"))
        }
        other => panic!("{other} instead of {reason}"),
    };
    let mut first = connect("dora").await.unwrap();
    let refused = connect("dora").await.err().unwrap();
    says(refused, "connection refused for user 'dora': user connection limit (1) is reached");

    first.open_channel(1).await.unwrap();
    first.open_channel(2).await.unwrap();
    first.close_channel(1).await.unwrap();
    first.open_channel(3).await.unwrap();
    let refused = first.open_channel(4).await.unwrap_err();
    says(
        refused,
        "number of channels opened for user 'dora' has reached the maximum allowed user limit of 2",
    );

    // A connection that ends makes room.
    drop(first);
    let second = loop {
        if let Ok(second) = connect("dora").await {
            break second;
        }
    };
    fixture.prepare("PUT", "/api/vhost-limits/%2F/max-connections", r#"{"value":1}"#).await;
    let refused = connect(ROOT).await.err().unwrap();
    says(refused, "access to vhost '/' refused for user 'root': connection limit (1) is reached");
    second.close().await.unwrap();
    connect(ROOT).await.unwrap().close().await.unwrap();
    fixture.close();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sessions_of_the_node_are_limited() {
    let settings = Settings { session_max: Some(2), ..Settings::default() };
    let fixture = Fixture::open_with("sessions", &[], settings).await;
    let (first, second) = (fixture.connect(ROOT).await.unwrap(), fixture.connect(ROOT).await.unwrap());
    let _sessions = [first.session().await.unwrap(), second.session().await.unwrap()];
    let refused = match second.session().await {
        Ok(third) => third.closed().await.to_string(),
        Err(refused) => refused.to_string(),
    };
    let reason =
        "number of channels opened on node 'sluice@localhost' has reached the maximum allowed limit of 2";
    assert!(refused.contains("amqp:resource-limit-exceeded") && refused.contains(reason), "{refused}");
    first.close().await.unwrap();
    let session = second.session().await.unwrap();
    session.end().await.unwrap();
    fixture.close();
}
