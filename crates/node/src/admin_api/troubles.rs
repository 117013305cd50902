//! Lists everything that is not well, as far as the user may see it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use broker::admin_api::AdminError;
use broker::explain::{Comer, Kind, LogFacts, Object, ShardFacts, Trouble, Troubles};
use catalog::access::{Authority, Identity, Resource, UserRef, Verb};

use super::AdminApi;
use crate::shard::looks::{TroublesSeen, WhatIsWrong};

impl AdminApi {
    /// Returns everything that is not well, as far as the user may see it. Certificates are not known here.
    pub async fn troubles(&self, who: &Identity) -> Result<Troubles, AdminError> {
        self.permit(who, "", Verb::ReadOverview, &[]).await?;
        let is_monitor = self.permit(who, "", Verb::ReadNodes, &[]).await.is_ok();
        let resources = self.resources();
        let mut all = Troubles::default();
        let cluster = self.cluster_view().await?;
        cluster.add_troubles(is_monitor, &mut all);
        if self.permit(who, "", Verb::ReadAlarms, &[]).await.is_ok() {
            resources.add_alarms(&self.inner.node, &mut all);
            cluster.add_alarms_of_others(&mut all);
        }
        if is_monitor {
            resources.add_near(&self.inner.node, &mut all);
        }
        // Whoever may not read the connections of others is asked about their own only.
        let owner = who.owner();
        let of = (!is_monitor).then(|| (owner.authority, Arc::<str>::from(owner.name)));
        let mut all_comers: HashMap<Comer, u64> = HashMap::new();
        let mut by_vhost: BTreeMap<Arc<str>, Troubles> = BTreeMap::new();
        for shard in 0..self.inner.shards.len() {
            let mut from = Some(0);
            while let Some(place) = from {
                let look = WhatIsWrong { of: of.clone(), from: place };
                let TroublesSeen { part, comers, log, shard } = self.look(shard, look).await?;
                from = part.next;
                for (comer, count) in comers {
                    *all_comers.entry(comer).or_default() += count;
                }
                for (vhost, troubles) in part.rows {
                    by_vhost.entry(vhost).or_default().merge(troubles);
                }
                // Every part repeats the state of the shard and of its log.
                if from.is_none() {
                    add_shard(&mut all, log, shard, is_monitor);
                }
            }
        }
        for (comer, count) in all_comers {
            by_vhost.entry(comer.vhost.clone()).or_default().add_comer(&comer, count);
        }
        for (vhost, troubles) in by_vhost {
            if self.sees_all_of(who, &vhost, of.as_ref()).await {
                all.merge(troubles);
            }
        }
        Ok(all)
    }

    /// Returns true if the user may see queues in the virtual host, and the connections there: all, or those of this user.
    async fn sees_all_of(&self, who: &Identity, vhost: &str, of: Option<&(Authority, Arc<str>)>) -> bool {
        let owner =
            of.map_or(UserRef::internal(""), |(authority, name)| UserRef { authority: *authority, name });
        self.permit(who, vhost, Verb::ReadQueue, &[]).await.is_ok()
            && self.permit(who, vhost, Verb::ReadConnection, &[Resource::Connection(owner)]).await.is_ok()
    }
}

/// Adds the troubles of a shard itself. That it refuses messages is told to everybody, its load only to who may read it.
fn add_shard(all: &mut Troubles, log: LogFacts, shard: ShardFacts, is_monitor: bool) {
    let object = |numbers, weight| {
        let (vhost, name) = (None, shard.number.to_string().into());
        Object { kind: Kind::Shard, vhost, name, numbers, weight }
    };
    if log.failed {
        let numbers = vec![("log_receipts_held", log.receipts_held)];
        all.add(Trouble::LogFailed, object(numbers, log.receipts_held));
    }
    if shard.is_at_limit && is_monitor {
        let numbers = vec![
            ("shard_busy_percent", shard.busy_percent),
            ("shard_queues", shard.queues),
            ("node_shards", shard.shards),
        ];
        all.add(Trouble::ShardAtLimit, object(numbers, shard.busy_percent));
    }
}
