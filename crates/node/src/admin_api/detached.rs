//! An admin API whose shards are played by its owner: simulations, and tests of those who use the admin API.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use broker::admin_api::UnclaimedSums;
use broker::explain::Resources;
use broker::settings::Settings;
use catalog::access::Access;
use catalog::ids::ShardId;
use tokio::sync::mpsc;

use super::{AdminApi, Run, Ways};
use crate::admission::Admission;
use crate::clock::Clock;
use crate::cluster_view::SeenNodes;
use crate::handshakes::Handshakes;
use crate::incoming::{Accepted, Incoming};
use crate::logins::Logins;
use crate::notices::NoticeWay;
use crate::shard::Occupancy;
use crate::shard::questions::Question;

/// What an admin API without a node needs to know.
#[derive(Debug)]
pub struct Detached {
    /// The number of shards.
    pub shards: ShardId,
    pub settings: Arc<Settings>,
    pub access: Arc<Access>,
    pub identity: wal::Identity,
    /// The listeners, as in [`broker::admin_api::Overview::listeners`].
    pub listeners: Vec<(String, String, u16)>,
    /// The memory and the disk. The owner may change them at any time.
    pub resources: Arc<Mutex<Resources>>,
    /// The nodes of the cluster.
    pub nodes: SeenNodes,
}

/// Something that the admin API sends to a shard.
pub enum ToShard {
    /// A connection that the admin API has opened. It is open until this is dropped.
    Connection(OpenConnection),
    Question(Question),
    /// Nobody waits for the answer to the question of this number any more.
    GiveUp(u64),
}

/// A connection that nobody serves.
pub struct OpenConnection {
    _accepted: Accepted,
}

/// The end of the channel from the admin API to one shard.
pub struct ShardEnd(mpsc::UnboundedReceiver<Incoming>);

impl ShardEnd {
    /// Waits for the next message. Returns `None` when the admin API is gone.
    pub async fn next(&mut self) -> Option<ToShard> {
        loop {
            match self.0.recv().await? {
                Incoming::Question(question) => return Some(ToShard::Question(question)),
                Incoming::GiveUp(number) => return Some(ToShard::GiveUp(number)),
                Incoming::Accepted(accepted) => {
                    return Some(ToShard::Connection(OpenConnection { _accepted: accepted }));
                }
                _ => {}
            }
        }
    }
}

impl AdminApi {
    /// Creates an admin API without a node. Also returns the end of the channel to each shard, by its number.
    ///
    /// # Errors
    /// The threads that check passwords cannot be started.
    pub fn detached(detached: Detached) -> io::Result<(Self, Vec<ShardEnd>)> {
        let Detached { shards: count, settings, access, identity, listeners, resources, nodes } = detached;
        let (shards, ends): (Vec<_>, Vec<_>) = (0..count)
            .map(|_| {
                let (shard, channel) = mpsc::unbounded_channel();
                (shard, ShardEnd(channel))
            })
            .unzip();
        let clock = Clock::start();
        let logins = Logins::start(shards.clone(), access.clone(), None, clock)?;
        let handshakes = Handshakes::new(settings.handshake_max, settings.handshake_max_per_address);
        let admission = Admission::new(0, handshakes, Arc::new(Occupancy::new(count)), shards.clone());
        let ways = Ways { notices: NoticeWay::new(shards.clone()), shards };
        let run = Run { clock, identity, unclaimed: UnclaimedSums::default(), nodes };
        let api = Self::new(ways, settings, access, logins, run, resources, Arc::new(admission));
        *api.inner.listeners.lock().unwrap_or_else(PoisonError::into_inner) = listeners;
        Ok((api, ends))
    }
}
