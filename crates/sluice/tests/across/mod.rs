//! Clients on one node of a cluster whose queues are on another: a publisher on the first node, a queue on the second, and a consumer on the
//! third. All bytes between the nodes go through pipes ([`crate::nodes::pipes`]).

mod amqp091;
mod amqp10;
mod client091;
mod cuts;
mod http;
mod kills;
mod namespaces;

use client::{Connection, Options, Session};

use crate::broker::Broker;
use crate::nodes::Cluster;

/// The nodes by what they have.
const PUBLISHER: usize = 0;
const QUEUE: usize = 1;
const CONSUMER: usize = 2;

/// Runs a story. It may block, because the connections of its clients have a thread of their own.
fn run(story: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.unwrap().block_on(story);
}

/// Opens a session of AMQP 1.0.
async fn session(broker: &Broker) -> (Connection, Session) {
    let connection = Connection::open(&broker.amqp_url().parse().unwrap(), Options::default()).await.unwrap();
    let session = connection.session().await.unwrap();
    (connection, session)
}

impl Cluster {
    /// Returns the ready and the unacknowledged messages of a queue, as its own node counts them.
    fn messages(&self, queue: &str) -> (u64, u64) {
        let (status, row) = self.broker(QUEUE).get(&format!("/api/queues/%2F/{queue}"));
        assert_eq!(status, 200, "{row}");
        let count = |field: &str| row[field].as_u64().unwrap();
        (count("messages_ready"), count("messages_unacknowledged"))
    }
}
