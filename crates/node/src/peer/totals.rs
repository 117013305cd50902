//! The encoding of totals, between nodes. Numbers are little-endian.
//!
//! ```text
//!  totals       connections, sessions, channels, consumers: u64 | depth | passed, see [`super::rows`]
//!                 | opened and closed connections, opened and closed channels, declared, created and deleted queues: u64
//!  virtual host name text | depth | received bytes, sent bytes: u64 | passed
//!  depth        ready, unsettled, delayed, leaving: u64
//! ```

use std::sync::Arc;

use broker::admin_api::{Churn, Depth, NodeTotals, VhostNumbers};
use bytes::{BufMut, Bytes};

use super::fields::{get_count, get_text, put_text};
use super::rows::{get_passed, put_passed};

/// A virtual host, and what a shard has of it.
pub type FarVhost = (Arc<str>, VhostNumbers);

pub(super) fn put_totals(totals: &NodeTotals, out: &mut Vec<u8>) {
    let NodeTotals { connections, sessions, channels, consumers, depth, passed, churn } = totals;
    put_counts([*connections, *sessions, *channels, *consumers], out);
    put_depth(depth, out);
    put_passed(passed, out);
    let Churn {
        connections_opened,
        connections_closed,
        channels_opened,
        channels_closed,
        queues_declared,
        queues_created,
        queues_deleted,
    } = *churn;
    put_counts([connections_opened, connections_closed, channels_opened, channels_closed], out);
    put_counts([queues_declared, queues_created, queues_deleted], out);
}

pub(super) fn get_totals(bytes: &mut Bytes) -> Option<NodeTotals> {
    Some(NodeTotals {
        connections: get_count(bytes)?,
        sessions: get_count(bytes)?,
        channels: get_count(bytes)?,
        consumers: get_count(bytes)?,
        depth: get_depth(bytes)?,
        passed: get_passed(bytes)?,
        churn: Churn {
            connections_opened: get_count(bytes)?,
            connections_closed: get_count(bytes)?,
            channels_opened: get_count(bytes)?,
            channels_closed: get_count(bytes)?,
            queues_declared: get_count(bytes)?,
            queues_created: get_count(bytes)?,
            queues_deleted: get_count(bytes)?,
        },
    })
}

/// Appends a virtual host. Its length says when a part of an answer is long enough.
pub(crate) fn put_vhost((name, numbers): &FarVhost, out: &mut Vec<u8>) {
    let VhostNumbers { depth, recv_bytes, send_bytes, counts } = numbers;
    put_text(name, out);
    put_depth(depth, out);
    put_counts([*recv_bytes, *send_bytes], out);
    put_passed(counts, out);
}

pub(super) fn get_vhost(bytes: &mut Bytes) -> Option<FarVhost> {
    let name = get_text(bytes)?.into();
    let depth = get_depth(bytes)?;
    let (recv_bytes, send_bytes) = (get_count(bytes)?, get_count(bytes)?);
    Some((name, VhostNumbers { depth, recv_bytes, send_bytes, counts: get_passed(bytes)? }))
}

fn put_depth(depth: &Depth, out: &mut Vec<u8>) {
    let Depth { ready, unsettled, delayed, leaving } = *depth;
    put_counts([ready, unsettled, delayed, leaving], out);
}

fn get_depth(bytes: &mut Bytes) -> Option<Depth> {
    Some(Depth {
        ready: get_count(bytes)?,
        unsettled: get_count(bytes)?,
        delayed: get_count(bytes)?,
        leaving: get_count(bytes)?,
    })
}

fn put_counts<const N: usize>(counts: [u64; N], out: &mut Vec<u8>) {
    counts.into_iter().for_each(|count| out.put_u64_le(count));
}
