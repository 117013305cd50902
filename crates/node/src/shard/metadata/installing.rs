//! Replaces the catalog by that of another node, which has sent a base: this node lacks entries that nobody keeps any more.
//!
//! ```text
//!   base of the leader ──> the node shard ──> Mail::Installed ──> every shard: replace; end what is gone; visit everything again
//! ```

use std::sync::Arc;

use broker::ids::{NODE_SHARD, Where};
use broker::mail::Mail;
use catalog::{Catalog, Change, QueueRecord};

use super::Metadata;
use crate::shard::Shard;

impl Shard {
    /// Installs the catalog of a base on every shard of the node. Called on the node shard, whose member has got the base.
    pub(super) fn install_catalog(&mut self, catalog: Arc<Catalog>, index: u64) {
        for to in self.mail.shards().filter(|to| *to != self.here.id) {
            self.mail.send(to, Mail::Installed { catalog: catalog.clone(), index });
        }
        self.handle_installed(&catalog, index);
        if let Metadata { catalog, decider: Some(decider), .. } = &mut self.metadata {
            decider.reset(catalog);
        }
        self.note_users_changed(index);
        self.metadata.access.publish(self.metadata.catalog.users().clone());
        self.answer_installed(index);
        self.send_answers();
        // What this node proposes may have waited for its start, which the base may have.
        self.tend_catalog_soon();
    }

    /// Called on every shard. The state is that after the entry `index`.
    pub(in crate::shard) fn handle_installed(&mut self, catalog: &Catalog, index: u64) {
        let gone: Vec<Arc<QueueRecord>> =
            self.metadata.catalog.queues().filter(|old| catalog.queue_by_id(old.id).is_none()).collect();
        let vhosts: Vec<Arc<str>> = self
            .metadata
            .catalog
            .vhosts()
            .filter(|old| catalog.vhost_settings(old).is_none())
            .cloned()
            .collect();
        gone.iter().for_each(|record| self.end_forgotten(record.id));
        self.metadata.catalog.install(catalog);
        // In the order of their ids: all shards number placements alike.
        for (queue, node) in self.metadata.catalog.queues_elsewhere(self.here.number) {
            if self.metadata.placements.home(queue) == Where::Unplaced {
                self.metadata.placements.place(queue, Where::On(node));
            }
        }
        if self.here.id == NODE_SHARD {
            self.found_installed();
        }
        for record in gone {
            self.metadata.placements.forget(record.id);
            self.queue_forgotten(record.id, &record.name);
        }
        vhosts.iter().for_each(|vhost| self.past.forget(vhost));
        let catalog = &self.metadata.catalog;
        let starts = catalog.nodes().iter().map(|(number, node)| (*number, catalog.start_of(node.id())));
        let starts: Vec<_> = starts.collect();
        starts.into_iter().for_each(|(node, boot)| self.end_earlier_seats(node, boot));
        self.walks.policies.begin();
        self.walks.exchanges.begin();
        self.walks.rights.begin();
        self.metadata.applied = index;
        self.handle_early_asks();
        match self.here.id == NODE_SHARD {
            true => self.note_applied(index, self.here.id),
            false => self.mail.send_applied(NODE_SHARD, index),
        }
    }

    /// Lets the groups of quorum queues be founded whose declarations the base has, and no entry.
    fn found_installed(&mut self) {
        let node = self.here.number;
        let unplaced =
            |record: &Arc<QueueRecord>| self.metadata.placements.home(record.id) == Where::Unplaced;
        let mine =
            |record: &Arc<QueueRecord>| record.is_quorum() && record.members.has(node) && unplaced(record);
        let mut founded: Vec<Arc<QueueRecord>> = self.metadata.catalog.queues().filter(mine).collect();
        founded.sort_by_key(|record| record.id);
        for record in founded {
            let (declared, home) = (record.declared, self.here.id);
            let change = Change::QueueDeclared(record);
            self.follow_founding(&change, declared);
            self.place_declared(&change, home);
        }
    }
}
