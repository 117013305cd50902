//! Requests on their way to the machines of queues and streams, in runs.

use std::vec;

use broker::ids::QueueId;
use queue::Request;

/// Requests of one queue that are applied in a row, before others have their turn: what the machine has to say of them stays
/// in the nearest caches.
pub(super) const RUN_MAX: usize = 64;

/// Requests that were sent together. Each is taken out where it is used, for it is large.
pub(super) type Requests<'a> = vec::Drain<'a, (QueueId, Request)>;

/// Whether a request concerns consumers, and stays on their shard.
pub(super) fn is_of_readers(request: &Request) -> bool {
    matches!(
        request,
        Request::Attach(_)
            | Request::Cancel { .. }
            | Request::Detach { .. }
            | Request::Grant { .. }
            | Request::Settle { .. }
            | Request::Browse { .. }
            | Request::GiveUp { .. }
    )
}
