//! The recovery of a node, on simulated disks.

use broker::settings::Settings;
use catalog::access::{Access, Users};
use node::recovery::{Disks, Purpose, RecoverError, Recovered, Start, recover};
use wal::{Options, PackOptions};
use wal_testing::SimDisk;

/// Recovers as a start does. There are neither packs nor streams.
pub(crate) fn start(
    log: &SimDisk,
    log_options: Options,
    access: &Access,
    accept_lost_definitions: bool,
    users: Option<&Users>,
) -> Result<Recovered<SimDisk>, RecoverError> {
    let disks = Disks {
        log: log.clone(),
        packs: SimDisk::new(0),
        streams: SimDisk::new(0),
        log_options,
        pack_options: PackOptions::default(),
        keep_damaged: &mut |_, _| Ok(()),
    };
    let rules = &Settings::default().declare_rules;
    recover(disks, Purpose::Start(Start { accept_lost_definitions, users, rules, access }))
}
