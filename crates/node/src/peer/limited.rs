//! The encoding of connections and sessions that count for limits of the cluster. Numbers are little-endian.
//!
//! ```text
//!  clients      list of virtual hosts: name text, connections u32 | list of users: name text, connections u32, sessions u32
//! ```

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};
use catalog::access::LimitedCounts;

use super::fields::{get_list, get_text, put_list, put_text};

/// The most virtual hosts and users together that a node tells about, so that a message is short: with usual names, 16 KiB. The limits of further
/// ones count on each node for itself.
pub(crate) const LIMITED_MAX: usize = 500;

pub(super) fn put_limited(counts: &LimitedCounts, out: &mut Vec<u8>) {
    let LimitedCounts { vhosts, users } = counts;
    put_list(vhosts, out, |(name, connections), out| {
        put_text(name, out);
        out.put_u32_le(*connections);
    });
    put_list(users, out, |(name, connections, sessions), out| {
        put_text(name, out);
        out.put_u32_le(*connections);
        out.put_u32_le(*sessions);
    });
}

pub(super) fn get_limited(mut bytes: Bytes) -> Option<LimitedCounts> {
    let vhosts = get_list(&mut bytes, |bytes| Some((get_name(bytes)?, bytes.try_get_u32_le().ok()?)))?;
    let users = get_list(&mut bytes, |bytes| {
        Some((get_name(bytes)?, bytes.try_get_u32_le().ok()?, bytes.try_get_u32_le().ok()?))
    })?;
    let counts = LimitedCounts { vhosts, users };
    (bytes.is_empty() && counts.len() <= LIMITED_MAX).then_some(counts)
}

fn get_name(bytes: &mut Bytes) -> Option<Arc<str>> {
    get_text(bytes).map(Arc::from)
}
