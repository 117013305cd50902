//! Responses that are generated page by page. The next page is generated when the socket has taken the
//! previous one.
//!
//! A client that does not read costs one page of memory, however long its response is.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::Frame;

use crate::reply::Failure;

/// A page is full at this many bytes. It ends with the row that fills it.
pub(crate) const PAGE_BYTES: usize = 16 * 1024;

/// A page, and the source of the next pages, if there are any.
type Made<S> = Result<(String, Option<S>), Failure>;

/// Generates the pages of one response.
pub(crate) trait Source: Sized + Send + 'static {
    fn next_page(self) -> impl Future<Output = Made<Self>> + Send;
}

/// Returns the body of a response. A single page has a `Content-Length`; otherwise the end is marked in the
/// body.
///
/// # Errors
/// The first page failed. If a later page fails, the response is cut off, and the client sees that it is
/// incomplete.
pub(crate) async fn body<S: Source>(source: S) -> Result<Body, Failure> {
    let (page, rest) = source.next_page().await?;
    Ok(match rest {
        None => Body::from(page),
        Some(rest) => Body::new(Pages { state: State::Ready(page, Some(rest)) }),
    })
}

struct Pages<S> {
    state: State<S>,
}

enum State<S> {
    /// A page to send, and the source of the next page if there is one.
    Ready(String, Option<S>),
    /// The next page was not requested yet.
    Waiting(S),
    Making(Pin<Box<dyn Future<Output = Made<S>> + Send>>),
    Done,
}

// `Pages` itself need not be pinned: only its future is pinned, and the future has its own box.
impl<S> Unpin for Pages<S> {}

impl<S: Source> HttpBody for Pages<S> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        loop {
            match std::mem::replace(&mut self.state, State::Done) {
                State::Ready(page, rest) => {
                    self.state = rest.map_or(State::Done, State::Waiting);
                    return Poll::Ready(Some(Ok(Frame::data(page.into()))));
                }
                State::Waiting(source) => self.state = State::Making(Box::pin(source.next_page())),
                State::Making(mut making) => {
                    if let Poll::Ready(made) = making.as_mut().poll(cx) {
                        let (page, rest) = made.map_err(|failure| io::Error::other(failure.reason))?;
                        self.state = State::Ready(page, rest);
                    } else {
                        self.state = State::Making(making);
                        return Poll::Pending;
                    }
                }
                State::Done => return Poll::Ready(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::body::to_bytes;

    /// A source for tests that counts down to 0, and counts the pages that it made. It fails at the end if
    /// `fails` is set.
    struct Numbers {
        left: usize,
        made: Arc<AtomicUsize>,
        fails: bool,
    }

    impl Source for Numbers {
        async fn next_page(mut self) -> Made<Self> {
            tokio::task::yield_now().await;
            self.made.fetch_add(1, Ordering::Relaxed);
            self.left -= 1;
            match (self.left, self.fails) {
                (0, true) => Err(Failure::unavailable("no answer in time")),
                (0, false) => Ok(("0".into(), None)),
                (left, _) => Ok((format!("{left},"), Some(self))),
            }
        }
    }

    fn numbers(left: usize, fails: bool) -> (Numbers, Arc<AtomicUsize>) {
        let made = Arc::new(AtomicUsize::new(0));
        (Numbers { left, made: made.clone(), fails }, made)
    }

    #[tokio::test]
    async fn a_page_is_made_when_somebody_asks_for_it() {
        let (source, made) = numbers(3, false);
        let mut body = body(source).await.unwrap();
        assert_eq!(made.load(Ordering::Relaxed), 1, "the first one decides about the status");
        for expected in 1..=3 {
            let frame = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
            assert!(frame.unwrap().unwrap().is_data());
            assert_eq!(made.load(Ordering::Relaxed), expected);
        }
        assert!(std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await.is_none());
    }

    #[tokio::test]
    async fn one_page_has_a_length_and_a_failure_shows() {
        let single = body(numbers(1, false).0).await.unwrap();
        assert_eq!(single.size_hint().exact(), Some(1));
        assert_eq!(to_bytes(body(numbers(3, false).0).await.unwrap(), 99).await.unwrap(), "2,1,0");
        assert_eq!(body(numbers(1, true).0).await.unwrap_err().status, 503);
        assert!(to_bytes(body(numbers(3, true).0).await.unwrap(), 99).await.is_err());
    }
}
