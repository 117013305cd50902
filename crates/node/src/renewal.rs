//! Replaces outdated password hashes.

use broker::ids::NODE_SHARD;
use broker::mail::{Mail, Proposal};
use catalog::access::{Access, Login, Renewal};
use catalog::categories::PEER;
use catalog::{AccountChange, Command};

use crate::incoming::{Incoming, Shards};
use crate::randomness::random;

/// Called on a thread that checks logins, after a login was right. Proposes a new hash if that of the user is outdated. Nobody
/// waits for the change: if it fails, the next login proposes it again.
pub(crate) fn renew_hash(access: &Access, login: &Login, shards: &Shards) {
    let Some(Renewal { user, outdated, password }) = access.renewal(login) else { return };
    let Ok(salt) = random() else { return };
    let (old, new) = (outdated.hashing().name(), access.hashing());
    tracing::info!(name: PEER, "the {old} hash of user '{user}' is replaced by {}", new.name());
    let hash = new.hash(salt, password);
    let command = Command::Account(AccountChange::RenewHash { user, outdated, hash });
    if let Some(shard) = shards.get(usize::from(NODE_SHARD)) {
        // Sending fails if the node stops.
        let mail = Mail::Propose(Proposal { ticket: None, by: None, from: NODE_SHARD, command });
        drop(shard.send(Incoming::Mail(vec![mail])));
    }
}
