//! Totals over all nodes of a cluster: those of this node, and what the other nodes say about themselves.

use std::collections::HashMap;
use std::sync::Arc;

use broker::admin_api::{AdminError, NodeTotals, OfOthers, VhostNumbers, VhostSums};
use catalog::access::{Identity, Verb};

use super::AdminApi;
use crate::peer::{FarAsk, FarSeen};
use crate::shard::looks;
use crate::shard::questions::PLACES_PER_PART;

impl AdminApi {
    /// Returns the totals of all other nodes. All are asked at the same time, and have a second.
    ///
    /// # Errors
    /// The user may not see them.
    pub async fn totals_of_others(&self, who: &Identity) -> Result<OfOthers<NodeTotals>, AdminError> {
        self.permit(who, "", Verb::ReadAllStatistics, &[]).await?;
        let mut all = OfOthers::default();
        let mut asked = Vec::new();
        for (node, name) in self.others().await? {
            asked.push((name, self.begin_look_at(node, FarAsk::Totals)?));
        }
        for (name, waiting) in asked {
            match waiting.answer(self.far_deadline()).await? {
                Some(FarSeen::Totals(totals)) => all.answered.push((name, *totals)),
                _ => all.missing.push(name),
            }
        }
        Ok(all)
    }

    /// Returns the statistics of the virtual hosts that the user may see. They are the sums over all queues and connections, which each node
    /// visits for it.
    pub async fn vhost_numbers(&self, who: &Identity) -> Result<VhostSums, AdminError> {
        let mut sums = HashMap::<Arc<str>, VhostNumbers>::new();
        for (vhost, numbers) in self.list_everywhere(|from| looks::NumbersOfVhosts { from }).await? {
            *sums.entry(vhost).or_default() += numbers;
        }
        let OfOthers { answered, missing } = self.vhosts_of_others().await?;
        for (vhost, numbers) in answered.into_iter().flat_map(|(_, numbers)| numbers) {
            *sums.entry(vhost).or_default() += numbers;
        }
        let mut visible: Vec<_> = sums.into_iter().collect();
        self.keep_visible(who, Verb::ReadVhost, &mut visible, |(vhost, _)| vhost).await;
        Ok(VhostSums { numbers: visible.into_iter().collect(), missing })
    }

    /// Returns the statistics of virtual hosts of all other nodes. A node that does not answer for a later part is missing as a whole.
    async fn vhosts_of_others(&self) -> Result<OfOthers<HashMap<Arc<str>, VhostNumbers>>, AdminError> {
        let mut all = OfOthers::default();
        let others = self.others().await?.into_iter();
        let mut rest: Vec<_> =
            others.map(|other| (other, HashMap::<Arc<str>, VhostNumbers>::new())).collect();
        for from in (0..).step_by(PLACES_PER_PART) {
            let mut asked = Vec::new();
            for (other, sums) in std::mem::take(&mut rest) {
                let waiting = self.begin_look_at(other.0, FarAsk::Vhosts { from })?;
                asked.push((other, sums, waiting));
            }
            for (other, mut sums, waiting) in asked {
                match waiting.answer(self.far_deadline()).await? {
                    Some(FarSeen::Vhosts { sums: part, has_more }) => {
                        for (vhost, numbers) in part {
                            *sums.entry(vhost).or_default() += numbers;
                        }
                        match has_more {
                            true => rest.push((other, sums)),
                            false => all.answered.push((other.1, sums)),
                        }
                    }
                    _ => all.missing.push(other.1),
                }
            }
            if rest.is_empty() {
                break;
            }
        }
        Ok(all)
    }
}
