//! The catalog as the owner of its Raft group. The member is on the deciding shard.
//!
//! ```text
//!   offer ──> entry ──> groups ──> storage ──synced──> groups ──handle_committed──> every shard applies the entry
//! ```

use bytes::Bytes;
use catalog::categories::RA;
use catalog::{Pending, decode_entry};
use replica::{Entry, Payload, Standing};

use crate::facts::definitions::content;
use crate::shard::Shard;
use crate::shard::groups::{self, GroupId, Hosted, Owner};

struct CatalogOwner<'a> {
    shard: &'a mut Shard,
}

impl Owner for CatalogOwner<'_> {
    fn id(&self) -> GroupId {
        GroupId::Catalog
    }

    fn shard(&mut self) -> &mut Shard {
        self.shard
    }

    fn hosted(&mut self) -> Option<&mut Hosted> {
        self.shard.metadata.decider.as_mut().map(|decider| &mut decider.hosted)
    }

    /// Drops the decisions of a leadership that has ended. A later leader may commit their entries: these name who is to be answered.
    fn handle_standing(&mut self, _standing: Standing) {
        let metadata = &mut self.shard.metadata;
        let Some(decider) = &mut metadata.decider else { return };
        decider.held.extend(decider.pending.take_line());
        decider.pending = Pending::new(&metadata.catalog);
    }

    fn handle_committed(&mut self, entry: Entry, is_mine: bool) {
        let Entry { at, payload } = entry;
        match payload {
            Payload::Empty if is_mine => {
                let decider = self.shard.metadata.decider.as_mut();
                let held = decider.map(|decider| std::mem::take(&mut decider.held));
                for (command, asker) in held.into_iter().flatten() {
                    self.shard.offer(command, asker);
                }
            }
            Payload::Empty | Payload::Change(_) => {}
            Payload::Facts(_) if is_mine => self.shard.commit_mine(at.index),
            Payload::Facts(facts) => match decode_entry(at.index, &facts) {
                Some(entry) => self.shard.spread(entry),
                None => {
                    tracing::error!(target: RA, index = at.index, "an entry of the catalog is damaged");
                }
            },
        }
    }

    /// Returns the number of the definitions that were written for the base.
    fn base(&mut self) -> Bytes {
        let metadata = &self.shard.metadata;
        let definitions = metadata.decider.as_ref().map_or(0, |decider| decider.definitions);
        content(definitions, metadata.founding.as_ref().map_or(0, |founding| founding.noted))
    }

    /// Nothing: the content of a base has no definitions, and no node can ask another one for them yet.
    fn install(&mut self, _content: Bytes) {
        tracing::error!(target: RA, "the catalog has been sent a base without its definitions");
    }
}

impl Shard {
    /// Hands the entries of the decisions of this turn to the log.
    pub(in crate::shard) fn propose_of_catalog(&mut self) {
        if let Some(decider) = &mut self.metadata.decider {
            decider.hosted.is_listed = false;
        }
        groups::pump(&mut CatalogOwner { shard: self });
    }

    /// Called when the records of a round of the catalog's group are synced. Decides the commands that waited for others.
    pub(in crate::shard) fn round_of_catalog_synced(&mut self, number: u64) {
        groups::handle_synced(&mut CatalogOwner { shard: self }, number);
        self.offer_line();
        self.send_answers();
    }

    /// Writes the base of the catalog's group: so many definitions before it are the whole catalog. Returns false if there is no base now.
    pub(in crate::shard) fn write_catalog_base(&mut self, definitions: u64) -> bool {
        if let Some(decider) = &mut self.metadata.decider {
            decider.definitions = definitions;
        }
        groups::write_base(&mut CatalogOwner { shard: self }).is_some()
    }
}
