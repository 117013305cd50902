//! What is traced: the admin API decides, and every shard has a copy.

use std::sync::{Arc, PoisonError};

use broker::admin_api::AdminError;
use broker::traces::{TRACES_MAX, TraceChange, Traces};
use catalog::access::{Identity, Verb};

use super::AdminApi;
use crate::shard::questions::Act;

impl AdminApi {
    /// Returns what is traced.
    ///
    /// # Errors
    /// The user may not read it.
    pub fn traces(&self, who: &Identity) -> Result<Traces, AdminError> {
        self.permit_by_tag(who, Verb::Administer)?;
        Ok(self.current_traces())
    }

    /// Returns true if all messages of the virtual host are traced. Whoever sees the virtual host may know that.
    pub fn is_traced(&self, vhost: &str) -> bool {
        self.current_traces().has_vhost(vhost)
    }

    /// Changes what is traced. When this returns, all shards do so. Returns false if there was no trace to end.
    pub async fn change_traces(&self, who: &Identity, change: TraceChange) -> Result<bool, AdminError> {
        self.permit(who, "", Verb::Administer, &[]).await?;
        self.set_traces(change).await
    }

    /// Returns what is traced now.
    pub(super) fn current_traces(&self) -> Traces {
        let mut traces = self.inner.traces.lock().unwrap_or_else(PoisonError::into_inner);
        traces.remove_over(self.inner.clock.now_ms());
        traces.clone()
    }

    /// Changes what is traced, and waits until every shard knows it.
    pub(super) async fn set_traces(&self, change: TraceChange) -> Result<bool, AdminError> {
        let (result, asked) = {
            let mut traces = self.inner.traces.lock().unwrap_or_else(PoisonError::into_inner);
            let result = traces.change(change, self.inner.clock.now_ms());
            let copy = Arc::new(traces.clone());
            let shards = 0..self.inner.shards.len();
            // The questions are sent under the lock, so that every shard gets the changes in the same order.
            let asked: Result<Vec<_>, _> =
                shards.map(|shard| self.begin_act(shard, |to| Act::SetTraces(copy.clone(), to))).collect();
            (result, asked?)
        };
        for waiting in asked {
            waiting.answer(self.inner.deadlines.change).await?;
        }
        result.map_err(|_| {
            AdminError::Refused(format!(
                "there are {TRACES_MAX} traces, which is the limit: end one of them first"
            ))
        })
    }
}
