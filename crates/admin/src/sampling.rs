//! Takes samples of the node at intervals.

use std::time::Duration;

use node::AdminApi;
use tokio::time::MissedTickBehavior;

use crate::clock::now_ms;
use crate::ports::Ports;

/// Takes samples until the node stops.
///
/// `every` is the time between two samples.
pub async fn run(api: AdminApi, ports: Ports, every: Duration) {
    let mut timer = tokio::time::interval(every);
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        timer.tick().await;
        // A shard that does not answer in time is overloaded. The next sample may work.
        if let Err(error) = ports.samples().take(&api, now_ms()).await {
            tracing::debug!("a sample of the statistics is missing: {error:?}");
        }
    }
}
