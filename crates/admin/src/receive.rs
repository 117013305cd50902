//! Receives the body of a request.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};

use crate::budget::{Budget, Reservation};
use crate::reply::Failure;

/// The largest request body, in bytes. A larger one is refused, as in RabbitMQ.
const BODY_BYTES_MAX: usize = 10_000_000;

/// The smallest size of a piece of a body, in bytes. A piece below this size grows as more of the body
/// arrives.
const PIECE_BYTES: usize = 64 * 1024;

/// The time that a body may take to arrive.
const BODY_TIME_MAX: Duration = Duration::from_secs(30);

/// Reads a body. `announced` is its length in bytes, if the request says it. `held` is the memory that it takes, of `budget`.
///
/// # Errors
/// 400 if the body is too large, incomplete or late; 503 if the budget is used up.
pub(crate) async fn read_body(
    body: Body,
    announced: Option<usize>,
    held: &mut Reservation,
    budget: &Budget,
) -> Result<Vec<u8>, Failure> {
    if announced.is_some_and(|bytes| bytes > BODY_BYTES_MAX) {
        return Err(too_large());
    }
    let read = tokio::time::timeout(BODY_TIME_MAX, collect(body, held, budget.bytes_max())).await;
    read.unwrap_or_else(|_| Err(Failure::bad_request("the body took too long")))
}

/// Reads a body. Holds budget for the bytes received, not for the announced length.
async fn collect(mut body: Body, held: &mut Reservation, bytes_max: usize) -> Result<Vec<u8>, Failure> {
    let mut pieces = Pieces::default();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let broken = |_| Failure::bad_request("the body is incomplete");
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        if pieces.len() + data.len() > BODY_BYTES_MAX {
            return Err(too_large());
        }
        pieces.push(&data);
        if !held.grow_to(pieces.capacity()) {
            return Err(Failure::unavailable(format!(
                "the bodies of all HTTP requests may take {bytes_max} bytes of memory: try again"
            )));
        }
    }
    Ok(pieces.join())
}

/// A body that is being received. A single buffer would be copied each time it grows. The allocator would
/// still keep the old copies when the next body arrives, so that many bodies would use twice the memory that
/// is counted.
#[derive(Debug, Default)]
struct Pieces {
    full: Vec<Vec<u8>>,
    /// The number of bytes in the full pieces, and their capacity.
    full_bytes: usize,
    full_capacity: usize,
    last: Vec<u8>,
}

impl Pieces {
    fn len(&self) -> usize {
        self.full_bytes + self.last.len()
    }

    /// The memory used, in bytes.
    fn capacity(&self) -> usize {
        self.full_capacity + self.last.capacity()
    }

    fn push(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            if self.last.len() == PIECE_BYTES {
                let full = std::mem::replace(&mut self.last, Vec::with_capacity(PIECE_BYTES));
                self.full_bytes += full.len();
                self.full_capacity += full.capacity();
                self.full.push(full);
            }
            let (fits, rest) = data.split_at(data.len().min(PIECE_BYTES - self.last.len()));
            self.last.extend_from_slice(fits);
            data = rest;
        }
    }

    /// Returns the whole body.
    fn join(self) -> Vec<u8> {
        if self.full.is_empty() {
            return self.last;
        }
        let mut whole = Vec::with_capacity(self.len());
        // Each piece is freed as soon as it is copied.
        for piece in self.full.into_iter().chain([self.last]) {
            whole.extend_from_slice(&piece);
        }
        whole
    }
}

fn too_large() -> Failure {
    Failure::bad_request("Exceeded HTTP request body size limit")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_complete_and_uses_little_extra_memory() {
        for sizes in [
            vec![],
            vec![1],
            vec![PIECE_BYTES - 1, 1, 1],
            vec![200_000, 3, 70_000],
            vec![1; 3_000],
            vec![900; 1_000],
        ] {
            let (mut pieces, mut whole) = (Pieces::default(), Vec::new());
            for (number, size) in sizes.into_iter().enumerate() {
                let data = vec![number as u8; size];
                pieces.push(&data);
                whole.extend(data);
                assert_eq!(pieces.len(), whole.len());
                let allowed = whole.len() + whole.len() / 8 + 2 * PIECE_BYTES;
                assert!(pieces.capacity() <= allowed, "{} for {}", pieces.capacity(), whole.len());
            }
            assert_eq!(pieces.join(), whole);
        }
    }
}
