//! How a request wants to see what is counted: not at all, or with rates and samples.

use std::sync::Arc;

use broker::admin_api::PassedCounts;
use serde_json::Value;

use crate::call::Call;
use crate::reply::Failure;
use crate::samples::{Ranges, Samples};

/// How the rows of a request are shown. Each kind of row has its own methods, beside its routes.
pub(crate) struct View<'a> {
    /// False if `disable_stats` omits all that is counted.
    pub stats: bool,
    pub ranges: Ranges,
    pub samples: &'a Samples,
}

impl<'a> View<'a> {
    /// Reads the query of a request.
    ///
    /// # Errors
    /// As [`Ranges::of`].
    pub(crate) fn of(call: &Call<'a>) -> Result<Self, Failure> {
        let (stats, samples) = (!call.query.flag("disable_stats"), call.ports.samples());
        Ok(Self { stats, ranges: Ranges::of(&call.query)?, samples })
    }

    /// Adds what passed over a channel or session, which has this number on its connection.
    pub(crate) fn add_passed(
        &self,
        body: &mut Value,
        connection: &Arc<str>,
        number: u16,
        counts: &PassedCounts,
    ) {
        if self.stats {
            body["message_stats"] = self.samples.channel(connection, number, counts, &self.ranges).into();
        }
    }
}
