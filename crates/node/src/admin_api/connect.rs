//! Connections that the admin API opens for its users. Only their socket differs from others: both ends are in this process.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use broker::admin_api::AdminError;
use catalog::access::Identity;

use super::AdminApi;
use crate::incoming::{Accepted, Incoming, Way};
use crate::runtime::canonical;

impl AdminApi {
    /// Opens a connection to the broker inside this process, for a user who has logged in from `peer`. The returned socket
    /// is that of its client, which speaks AMQP 0.9.1 and logs in as EXTERNAL. In all else, this is a connection like any
    /// other: it counts in limits, people see it, and every permission is checked.
    ///
    /// # Errors
    /// `Impossible` if no file descriptor is free, or if the node stops.
    pub async fn connect(&self, who: &Identity, peer: SocketAddr) -> Result<OwnedFd, AdminError> {
        let admission = &self.inner.admission;
        let impossible = |why: String| AdminError::Impossible(format!("cannot connect to the broker: {why}"));
        tokio::time::timeout(self.inner.deadlines.numbers, admission.wait_for_room())
            .await
            .map_err(|_| impossible("the remaining file descriptors are reserved".to_owned()))?;
        let (client, stream) = UnixStream::pair().map_err(|error| impossible(error.to_string()))?;
        let peer = canonical(peer);
        let (handshake, shard) = admission.begin(Some(peer.ip()));
        // With the number, names differ also while an earlier connection of the same HTTP client is not gone yet.
        let name = format!("{peer} -> http#{}", handshake.number()).into();
        let way = Way::AdminApi { from: peer.ip(), name, who: who.clone() };
        let accepted = Accepted { stream: OwnedFd::from(stream).into(), handshake, way };
        let sent = self.inner.shards[usize::from(shard)].send(Incoming::Accepted(accepted));
        sent.map_err(|_| impossible("the node is stopping".to_owned()))?;
        Ok(client.into())
    }
}
