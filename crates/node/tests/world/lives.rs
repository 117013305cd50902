//! The lives of the world: a process starts on the disks, runs, and ends.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use catalog::access::Users;
use node::recovery::{Mutation, Purpose, RecoverError, Recovered, Start};
use node::shard::Occupancy;
use node::{StorageLimits, make_shards};
use wal::{Options, PackOptions, PackReader};
use wal_testing::{Crash, SimDisk};

use super::streams::StreamWorld;
use super::{RESERVE_PART, World};
use crate::recovered::SimDisks;

/// Packs are small, so that there are many of them.
pub(super) const PACKS: PackOptions = PackOptions { pack_bytes: 8 * 1024, garbage_allowed: 20 * 1024 };

impl World {
    /// Starts a process on the disk as it is.
    pub(super) fn start(&mut self) {
        let recovered = self.recover(false, None, None).expect("disks that only crashed can be recovered");
        let Recovered { restored, recovery, .. } = &recovered;
        assert_eq!(recovery.damage, [], "a crash is not damage");
        assert_eq!(restored.unreadable, Vec::<String>::new());
        assert!(
            restored.unclaimed.is_empty(),
            "whatever a crash leaves has an owner: {:?}",
            restored.unclaimed
        );
        self.run(recovered);
    }

    /// Recovers as a start does.
    pub(super) fn recover(
        &mut self,
        accept_lost_definitions: bool,
        users: Option<&Users>,
        mutation: Option<Mutation>,
    ) -> Result<Recovered<SimDisk>, RecoverError> {
        let seed = Some(self.random.next());
        let start = Start {
            accept_lost_definitions,
            users,
            rules: &self.settings.declare_rules,
            access: &self.access,
        };
        self.disks().recover(self.log_options(seed), PACKS, Purpose::Start(start), mutation)
    }

    /// The disks as they are.
    pub(super) fn disks(&self) -> SimDisks {
        SimDisks {
            log: self.disk.clone(),
            packs: self.packs_disk.clone(),
            streams: self.streams.as_ref().map_or_else(|| SimDisk::new(0), StreamWorld::disk),
            unclaimed: self.unclaimed_disk.clone(),
        }
    }

    pub(super) fn log_options(&self, seed: Option<u64>) -> Options {
        let (file_bytes, reserve_bytes) = (16 * 1024, self.reserve_bytes);
        let direct_after = self.direct_after.unwrap_or(u32::MAX);
        Options { file_bytes, seed, reserve_bytes, direct_after, ..Options::default() }
    }

    /// Runs what was recovered from the disks.
    pub(super) fn run(&mut self, recovered: Recovered<SimDisk>) {
        let Recovered { restored, log, packs, streams, .. } = recovered;
        let reserve_bytes = self.reserve_bytes;
        if let Some(world) = &mut self.streams {
            world.start(streams);
        }
        let log_size = log.size();
        self.log = Some(log);
        self.packs = Some((packs, PackReader::new(self.packs_disk.clone())));
        let (garbage_allowed, backlog_memory, unwritten_max) = (20 * 1024, 24 * 1024, self.unwritten_max);
        let limits = StorageLimits {
            garbage_allowed,
            backlog_memory,
            reserve_bytes,
            unwritten_max,
            ..StorageLimits::default()
        };
        self.shards =
            make_shards(restored, self.shard_count, &self.settings, &self.access, limits, self.now_ms);
        self.shards[0].note_log_size(log_size);
        // In most worlds a turn walks so few rows that an evacuation takes many turns, with other events
        // between them.
        let rows = [4, 20, 60, 1000][self.random.next() as usize % 4];
        self.shards.iter_mut().for_each(|shard| shard.walk_at_most(rows));
        self.occupancy = self.follows.then(|| Arc::new(Occupancy::new(self.shard_count)));
        if let Some(occupancy) = &self.occupancy {
            self.shards.iter_mut().for_each(|shard| shard.follow_queues(occupancy.clone()));
        }
        self.mail = BTreeMap::new();
        self.to_log = Vec::new();
        (self.sync, self.fill) = (None, None);
        self.from_log = VecDeque::new();
        self.to_packs = VecDeque::new();
        self.from_packs = VecDeque::new();
        self.to_reader = VecDeque::new();
        self.from_reader = VecDeque::new();
        self.released = Vec::new();
        self.forget = None;
        self.clients = Vec::new();
        self.story.in_flight = 0;
        self.others.iter_mut().for_each(|(_, story)| story.in_flight = 0);
    }

    pub(crate) fn crash(&mut self, how: Crash) {
        self.kill(how);
        self.start();
    }

    /// Ends the process, or cuts the power.
    pub(super) fn kill(&mut self, how: Crash) {
        self.never_written += self.shards.iter().map(|shard| shard.counters.never_written).sum::<u64>();
        self.disk.heal();
        self.packs_disk.heal();
        self.unclaimed_disk.heal();
        self.log = None;
        self.packs = None;
        self.disk = self.disk.crash(how);
        self.packs_disk = self.packs_disk.crash(how);
        self.unclaimed_disk = self.unclaimed_disk.crash(how);
        if let Some(streams) = &mut self.streams {
            streams.crash(how);
        }
    }

    /// Limits the log's disk and reserves a part of it. From now on no more is in flight than the reserve is
    /// meant for: a handover that does not fit into it would wait for others to free space
    /// (docs/decisions/0014).
    pub(crate) fn limit(&mut self, bytes: u64, reserve_bytes: u64) {
        self.reserve_bytes = reserve_bytes;
        self.story.in_flight_max = reserve_bytes / RESERVE_PART;
        self.disk.limit(bytes);
        self.crash(Crash::Process);
    }
}
