//! Logins on a node that is in a minority of its cluster. On the deciding shard.

use broker::settings::MinorityLogins;
use catalog::categories::PEER;

use crate::shard::Shard;

impl Shard {
    /// Refuses logins while less than a majority is in sight, if the settings say so. Called when the support of a node begins or ends, and with
    /// the chores.
    pub(in crate::shard) fn refuse_in_minority(&mut self) {
        let is_concerned = self.metadata.decider.is_some()
            && self.metadata.settings.minority_logins == MinorityLogins::Refuse
            && self.metadata.may_lag();
        if !is_concerned {
            return;
        }
        let is_refusing = !self.sees_majority();
        if self.metadata.access.set_refusing(is_refusing) {
            match is_refusing {
                true => tracing::warn!(
                    name: PEER,
                    "this node sees no majority of its cluster: logins are refused (cluster.minority_logins = refuse)"
                ),
                false => {
                    tracing::info!(name: PEER, "this node sees a majority of its cluster: logins are accepted")
                }
            }
        }
    }
}
