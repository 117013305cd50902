//! The recovery of a node, on simulated disks.

use broker::settings::Settings;
use catalog::access::{Access, Users};
use catalog::ids::Origin;
use node::recovery::{Disks, Mutation, Purpose, RecoverError, Recovered, Start, recover};
use wal::{Options, PackOptions};
use wal_testing::{Crash, SimDisk};

/// The directories of a node.
#[derive(Clone)]
pub(crate) struct SimDisks {
    pub log: SimDisk,
    pub packs: SimDisk,
    pub streams: SimDisk,
    pub unclaimed: SimDisk,
}

impl SimDisks {
    pub(crate) fn new(seed: u64) -> Self {
        let [log, packs, streams, unclaimed] = [0, 1, 2, 3].map(|n| SimDisk::new(seed * 4 + n));
        Self { log, packs, streams, unclaimed }
    }

    /// Ends the process. The disks work again.
    pub(crate) fn crash(&self, how: Crash) -> Self {
        let Self { log, packs, streams, unclaimed } = self;
        let crash = |disk: &SimDisk| {
            disk.heal();
            disk.crash(how)
        };
        Self { log: crash(log), packs: crash(packs), streams: crash(streams), unclaimed: crash(unclaimed) }
    }

    /// Recovers as a start does.
    pub(crate) fn start(
        &self,
        log_options: Options,
        access: &Access,
        accept_lost_definitions: bool,
        users: Option<&Users>,
        mutation: Option<Mutation>,
    ) -> Result<Recovered<SimDisk>, RecoverError> {
        let rules = &Settings::default().declare_rules;
        let start = Start { accept_lost_definitions, users, rules, access };
        self.recover(log_options, PackOptions::default(), Purpose::Start(start), mutation)
    }

    /// Recovers for any purpose.
    pub(crate) fn recover(
        &self,
        log_options: Options,
        pack_options: PackOptions,
        purpose: Purpose<'_>,
        mutation: Option<Mutation>,
    ) -> Result<Recovered<SimDisk>, RecoverError> {
        let disks = Disks {
            log: self.log.clone(),
            packs: &mut |_| Ok(Some(self.packs.clone())),
            streams: &mut |_| Ok(Some(self.streams.clone())),
            log_options,
            pack_options,
            unclaimed: &mut |_| Ok(Some(self.unclaimed.clone())),
            keep_damaged: &mut |_, _| Ok(()),
            origin: Origin::default(),
            in_cluster: None,
            mutation,
        };
        recover(disks, purpose)
    }
}

/// Recovers from a log as a start does. There is nothing else.
pub(crate) fn start(
    log: &SimDisk,
    log_options: Options,
    access: &Access,
    accept_lost_definitions: bool,
    users: Option<&Users>,
) -> Result<Recovered<SimDisk>, RecoverError> {
    let disks = SimDisks { log: log.clone(), ..SimDisks::new(0) };
    disks.start(log_options, access, accept_lost_definitions, users, None)
}
