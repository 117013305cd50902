//! What the broker tells systemd, if a unit of `Type=notify` has started it: that it is ready, reads its configuration again,
//! lives, and stops. Without systemd, all of this does nothing.

use std::time::Duration;

use catalog::access::Identity;
use node::AdminApi;
use sd_notify::NotifyState;

/// Says that clients can connect.
pub(crate) fn ready() {
    tell(&[NotifyState::Ready, NotifyState::Status("takes connections")]);
}

/// Says that the configuration is read again. [`ready`] follows.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(error) => tracing::warn!("systemd cannot be told of the reload: there is no clock: {error}"),
    }
}

/// Says that the broker stops.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("stops")]);
}

/// Tells the watchdog that the broker lives, as long as every shard answers, until the task ends. If a shard hangs, systemd
/// ends the broker and starts it again (`WatchdogSec=`).
pub(crate) async fn feed_watchdog(api: AdminApi) {
    let Some(period) = sd_notify::watchdog_enabled() else { return };
    let who = Identity::metrics_reader();
    loop {
        match api.overview(&who).await {
            Ok(_) => tell(&[NotifyState::Watchdog]),
            Err(error) => {
                tracing::warn!("the watchdog of systemd is not told that the broker lives: {error:?}")
            }
        }
        tokio::time::sleep(pause(period)).await;
    }
}

/// Returns the time between two messages, if systemd waits for this long. Some can be late or missing: a busy shard may take
/// longer to answer.
fn pause(period: Duration) -> Duration {
    period / 4
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!("systemd cannot be told about the broker: {error}");
    }
}
