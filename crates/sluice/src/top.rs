//! `sluice top`: the busiest queues or links, with their rates, again and again.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use hyper::{Method, StatusCode};
use rustix::termios::tcgetwinsize;
use serde_json::Value;

use crate::failure::Failure;
use crate::http::{Api, Ask};
use crate::list::links;
use crate::objects::segment;
use crate::output::{complain, redraw};
use crate::table::{Column, cell, table};
use crate::watch::seconds;

/// The most queues that are asked for at once: those with the most messages. More would cost the broker too much every few
/// seconds.
const QUEUES_MAX: usize = 500;

/// The rows that are shown if the output is no terminal, or does not say how high it is.
const ROWS: usize = 20;

/// The lines above the rows: three of the node, an empty one, and the headings. One more is left below.
const LINES: usize = 6;

#[derive(Args, Debug)]
pub(crate) struct Top {
    #[arg(value_enum, default_value_t = What::Queues)]
    what: What,
    /// The seconds between two answers; rates are over this time
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = seconds)]
    every: u64,
    /// End after this many answers
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u64>::new().range(1..))]
    count: Option<u64>,
    #[command(flatten)]
    api: Api,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    #[value(alias = "queue")]
    Queues,
    /// Links of AMQP 1.0
    #[value(alias = "link")]
    Links,
}

/// What is counted of one row. A smaller number than before belongs to a new object of this name, or to the delivery count of
/// a link, which wraps around: its rate is 0 once.
type Counts = Vec<u64>;

/// What is known at one time.
struct Seen {
    at: Instant,
    overview: Value,
    /// How busy the shards are. `None` for users who may not see the node.
    shards: Option<String>,
    /// The rows, each with what identifies it and what is counted of it.
    rows: Vec<(String, Counts, Value)>,
}

/// Shows the rows until the verb is interrupted.
///
/// # Errors
/// The first answer failed, or nobody reads the output any more.
pub(crate) fn run(top: &Top) -> Result<(), Failure> {
    crate::amqp::block_on(async {
        let mut sees_nodes = true;
        let mut last = top.look(&mut sees_nodes).await?;
        let mut shown = 0;
        loop {
            tokio::time::sleep(Duration::from_secs(top.every)).await;
            match top.look(&mut sees_nodes).await {
                Ok(seen) => {
                    redraw(&top.what.show(&last, &seen, rows_of_terminal()))?;
                    last = seen;
                }
                Err(failure) => complain(&failure),
            }
            shown += 1;
            if top.count.is_some_and(|count| shown >= count) {
                return Ok(());
            }
        }
    })
}

/// Returns the number of rows for which there is room.
fn rows_of_terminal() -> usize {
    let rows =
        tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_row)).filter(|rows| *rows > 0);
    rows.map_or(ROWS, |rows| rows.saturating_sub(LINES).max(1))
}

impl Top {
    /// Asks for what is shown. `sees_nodes` becomes false once the broker refuses to show the node. Then it is not asked again, because
    /// each refusal is a line in its log.
    async fn look(&self, sees_nodes: &mut bool) -> Result<Seen, Failure> {
        let words = "show what moves";
        let (_, overview) = self.api.ask(words, Method::GET, "/api/overview", None).await?;
        let mut shards = None;
        let node = format!("/api/nodes/{}?columns=processors,shards", segment(&cell(&overview["node"])));
        if *sees_nodes && let Ok((status, node)) = self.api.exchange(Ask::get(words, &node)).await {
            *sees_nodes = !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
            shards = crate::status::shards(&node);
        }
        let path = match self.what {
            What::Queues => {
                format!("/api/queues?page=1&page_size={QUEUES_MAX}&sort=messages&sort_reverse=true")
            }
            What::Links => "/api/connections".to_owned(),
        };
        let (_, answer) = self.api.ask(words, Method::GET, &path, None).await?;
        let rows = match self.what {
            What::Queues => answer["items"].as_array().into_iter().flatten().map(queue).collect(),
            What::Links => answer.as_array().into_iter().flatten().flat_map(links).map(link).collect(),
        };
        Ok(Seen { at: Instant::now(), overview, shards, rows })
    }
}

fn queue(row: &Value) -> (String, Counts, Value) {
    let stats = &row["message_stats"];
    let counts = ["publish", "deliver_get", "ack"].map(|field| stats[field].as_u64().unwrap_or_default());
    // A queue whose node does not answer has no counts. When it has some again, they are no rate.
    let counts = if stats.is_object() { counts.to_vec() } else { Vec::new() };
    (format!("{}\0{}", row["vhost"], row["name"]), counts, row.clone())
}

fn link(row: Value) -> (String, Counts, Value) {
    let name = format!("{}\0{}\0{}\0{}", row["connection"], row["session"], row["direction"], row["handle"]);
    let count = row["delivery_count"].as_u64().unwrap_or_default();
    (name, vec![count], row)
}

const QUEUES: &[Column] = &[
    ("QUEUE", "name"),
    ("VHOST", "vhost"),
    ("TYPE", "type"),
    ("READY", "messages_ready"),
    ("UNACKNOWLEDGED", "messages_unacknowledged"),
    ("CONSUMERS", "consumers"),
    ("IN/S", "rate_0"),
    ("OUT/S", "rate_1"),
    ("ACKS/S", "rate_2"),
];
const LINKS: &[Column] = &[
    ("LINK", "link_name"),
    ("ADDRESS", "address"),
    ("DIRECTION", "direction"),
    ("CREDIT", "credit"),
    ("UNSETTLED", "unsettled"),
    ("MESSAGES/S", "rate_0"),
    ("CONNECTION", "connection"),
];

impl What {
    /// Renders the node and its busiest rows, at most `most`. The rates are those between two times.
    fn show(self, before: &Seen, now: &Seen, most: usize) -> String {
        let seconds = (now.at - before.at).as_secs_f64().max(f64::MIN_POSITIVE);
        let rate = |from: u64, to: u64| (to.saturating_sub(from) as f64 / seconds).round() as u64;
        let earlier: HashMap<&str, &Counts> =
            before.rows.iter().map(|(name, counts, _)| (name.as_str(), counts)).collect();
        let mut rows: Vec<(u64, u64, Value)> = now
            .rows
            .iter()
            .map(|(name, counts, row)| {
                let mut row = row.clone();
                // A row that is new has no rate yet.
                let from = earlier.get(name.as_str()).copied().unwrap_or(counts);
                let rates = from.iter().zip(counts).map(|(from, to)| rate(*from, *to));
                let mut moved = 0;
                for (i, rate) in rates.enumerate() {
                    moved += rate;
                    row[format!("rate_{i}")] = rate.into();
                }
                (moved, row["messages_ready"].as_u64().unwrap_or_default(), row)
            })
            .collect();
        rows.sort_by_key(|(moved, ready, _)| std::cmp::Reverse((*moved, *ready)));
        rows.truncate(most);
        let rows: Vec<Value> = rows.into_iter().map(|(_, _, row)| row).collect();
        let columns = match self {
            Self::Queues => QUEUES,
            Self::Links => LINKS,
        };
        let (old, new) = (&before.overview["message_stats"], &now.overview["message_stats"]);
        let missing = |seen: &Seen| seen.overview["missing_nodes"].clone();
        // The sums of other nodes are no rate.
        let is_same = missing(before) == missing(now);
        let total = |field: &str| match is_same {
            true => rate(old[field].as_u64().unwrap_or_default(), new[field].as_u64().unwrap_or_default())
                .to_string(),
            false => "-".to_owned(),
        };
        let without: Vec<String> = missing(now).as_array().into_iter().flatten().map(cell).collect();
        let without = match without.is_empty() {
            true => String::new(),
            false => format!("  without {}", without.join(", ")),
        };
        let shards = now.shards.as_ref().map(|shards| format!("shards: {shards}\n")).unwrap_or_default();
        let (objects, queues) = (&now.overview["object_totals"], &now.overview["queue_totals"]);
        format!(
            "{}  {} connections  {} channels  {} consumers  {} queues  {} ready  {} unacknowledged{without}\n\
             per second: {} published  {} confirmed  {} delivered  {} acknowledged\n{shards}\n{}",
            cell(&now.overview["node"]),
            objects["connections"],
            objects["channels"],
            objects["consumers"],
            objects["queues"],
            queues["messages_ready"],
            queues["messages_unacknowledged"],
            total("publish"),
            total("confirm"),
            total("deliver_get"),
            total("ack"),
            table(columns, &rows),
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen(at: Instant, publish: u64, queues: &[(&str, u64, u64)]) -> Seen {
        let row = |(name, published, ready): &(&str, u64, u64)| {
            queue(&json!({
                "name": name, "vhost": "/", "type": "classic", "messages_ready": ready, "consumers": 0,
                "messages_unacknowledged": 0, "message_stats": {"publish": published, "deliver_get": 0, "ack": 0},
            }))
        };
        let overview = json!({
            "node": "sluice@h", "message_stats": {"publish": publish},
            "object_totals": {"connections": 1, "channels": 0, "consumers": 0, "queues": 3},
            "queue_totals": {"messages_ready": 7, "messages_unacknowledged": 0},
        });
        let shards = Some("1 on 2 cores, busy 42 %".to_owned());
        Seen { at, overview, shards, rows: queues.iter().map(row).collect() }
    }

    #[test]
    fn the_busiest_queues_come_first_with_their_rates() {
        let start = Instant::now();
        let before = seen(start, 100, &[("idle", 5, 9), ("busy", 100, 0), ("again", 50, 0)]);
        let now = start + Duration::from_secs(2);
        // `again` was deleted and declared again, and `new` was not there before.
        let now = seen(now, 300, &[("idle", 5, 9), ("busy", 300, 1), ("again", 10, 0), ("new", 10, 2)]);
        let expected = "\
sluice@h  1 connections  0 channels  0 consumers  3 queues  7 ready  0 unacknowledged
per second: 100 published  0 confirmed  0 delivered  0 acknowledged
shards: 1 on 2 cores, busy 42 %

QUEUE  VHOST  TYPE     READY  UNACKNOWLEDGED  CONSUMERS  IN/S  OUT/S  ACKS/S
busy   /      classic      1               0          0   100      0       0
idle   /      classic      9               0          0     0      0       0
new    /      classic      2               0          0     0      0       0
";
        assert_eq!(What::Queues.show(&before, &now, 3), expected);
        let of_a_stranger = Seen { shards: None, ..now };
        assert!(!What::Queues.show(&before, &of_a_stranger, 3).contains("shards"));
    }
}
