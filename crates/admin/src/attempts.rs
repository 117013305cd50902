//! `/api/auth/attempts` and the metrics of logins: how many there were, by protocol or by source.

use broker::admin_api::{AttemptsRow, Overview};
use catalog::access::{AuthAttempts, Protocol};
use serde_json::{Value, json};

use crate::call::Call;
use crate::exposition::{Exposition, Kind};
use crate::pages::PAGE_BYTES;
use crate::reply::{Failure, Reply};
use crate::shape;

pub(crate) async fn list(call: &Call<'_>, by_source: bool) -> Result<Reply, Failure> {
    let rows = call.api.auth_attempts(&call.who, call.param(0), by_source).await?;
    let order: &[&str] = if by_source { &["remote_address", "username", "protocol"] } else { &["protocol"] };
    Ok(Reply::Json(shape::list(rows.iter().map(to_json).collect(), &call.query, order).await?))
}

/// Resets the counts by protocol and those by source together, as RabbitMQ does.
pub(crate) async fn reset(call: &Call<'_>) -> Result<Reply, Failure> {
    call.api.reset_auth_attempts(&call.who, call.param(0)).await?;
    Ok(Reply::NoContent)
}

fn to_json(AttemptsRow { protocol, source, attempts }: &AttemptsRow) -> Value {
    let mut row = json!({
        "protocol": protocol.as_str(),
        "auth_attempts": attempts.all,
        "auth_attempts_failed": attempts.failed,
        "auth_attempts_succeeded": attempts.succeeded,
    });
    if let Some((address, user)) = source {
        row["remote_address"] = json!(address);
        row["username"] = json!(**user);
    }
    row
}

/// A metric of logins: its name, the name for one source, help, and how to read it.
type Figure = (&'static str, &'static str, &'static str, fn(&AuthAttempts) -> u64);

const FIGURES: &[Figure] = &[
    ("auth_attempts_total", "auth_attempts_detailed_total", "Authentication attempts", |a| a.all),
    (
        "auth_attempts_succeeded_total",
        "auth_attempts_detailed_succeeded_total",
        "Authentication attempts that succeeded",
        |a| a.succeeded,
    ),
    (
        "auth_attempts_failed_total",
        "auth_attempts_detailed_failed_total",
        "Authentication attempts that failed",
        |a| a.failed,
    ),
];

/// Adds the sums over all protocols to a page of metrics.
pub(crate) fn sums(page: &mut Exposition, overview: &Overview) {
    let sum = overview.counters.traffic().auth_attempts;
    for (name, _, help, of) in FIGURES {
        page.family(Kind::Counter, name, help).sample(&[], of(&sum));
    }
}

/// Adds a row for each protocol to a page of metrics. `prefix` is the start of the names.
pub(crate) fn by_protocol(page: &mut Exposition, prefix: &str, overview: &Overview) {
    for (name, _, help, of) in FIGURES {
        let mut family = page.named(Kind::Counter, format!("{prefix}{name}"), help);
        for protocol in Protocol::ALL {
            let attempts = &overview.counters.over(protocol).auth_attempts;
            family.sample(&[("protocol", protocol.as_str())], of(attempts));
        }
    }
}

/// Generates the metrics of each source, page by page: sources may have long names.
#[derive(Debug)]
pub(crate) struct BySource {
    /// The start of the names.
    prefix: &'static str,
    rows: Vec<AttemptsRow>,
    /// The index of the next figure in [`FIGURES`], and its next row.
    figure: usize,
    from: usize,
}

impl BySource {
    pub(crate) fn new(prefix: &'static str, rows: Vec<AttemptsRow>) -> Self {
        Self { prefix, rows, figure: 0, from: 0 }
    }

    /// Adds rows to a page until it is full. Returns true if all rows are on it or on an earlier one.
    pub(crate) fn add_to(&mut self, page: &mut Exposition) -> bool {
        if self.rows.is_empty() {
            return true;
        }
        while let Some((_, name, help, of)) = FIGURES.get(self.figure) {
            if page.len() >= PAGE_BYTES {
                return false;
            }
            let name = format!("{}{name}", self.prefix);
            let mut family = match self.from {
                0 => page.named(Kind::Counter, name.as_str(), &format!("{help}, by source")),
                _ => page.same_named(&name),
            };
            while let Some(AttemptsRow { protocol, source, attempts }) = self.rows.get(self.from)
                && family.page_len() < PAGE_BYTES
            {
                let (address, user) = source.as_ref().map_or(("", ""), |(address, user)| (address, user));
                let labels =
                    [("remote_address", address), ("username", user), ("protocol", protocol.as_str())];
                family.sample(&labels, of(attempts));
                self.from += 1;
            }
            if self.from == self.rows.len() {
                (self.figure, self.from) = (self.figure + 1, 0);
            }
        }
        true
    }
}
