//! Limits of connections and sessions.

use broker::settings::Settings;
use client::ReceiverOptions;

use super::fixture::{Fixture, ROOT};
use super::verbs10::is_refused;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_and_sessions_are_limited() {
    let fixture = Fixture::open("limits", &[]).await;
    fixture.prepare("PUT", "/api/users/dora", r#"{"password":"dora","tags":""}"#).await;
    let body = r#"{"configure":"","write":"","read":""}"#;
    fixture.prepare("PUT", "/api/permissions/%2F/dora", body).await;
    fixture.prepare("PUT", "/api/user-limits/dora/max-connections", r#"{"value":1}"#).await;
    fixture.prepare("PUT", "/api/user-limits/dora/max-channels", r#"{"value":2}"#).await;
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
        refused.contains("session refused for user 'dora': user channel limit (2) is reached"),
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
