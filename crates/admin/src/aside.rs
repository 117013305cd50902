//! Work on large bodies, on threads beside the one that serves all HTTP requests.

use tokio::sync::Semaphore;

use crate::reply::Failure;

/// The largest body that is parsed on the thread of all requests, in bytes. It takes about a millisecond.
const PARSED_HERE_BYTES_MAX: usize = 64 * 1024;

/// Larger bodies are parsed on other threads, at most so many at once, so that cores are left for messages. Others wait.
static PARSERS: Semaphore = Semaphore::const_new(2);

/// Does work on a body of this size: on another thread if it is large, so that this one serves other requests meanwhile.
///
/// # Errors
/// 503 if the work has failed, or the broker stops.
pub(crate) async fn aside<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    if bytes <= PARSED_HERE_BYTES_MAX {
        return Ok(work());
    }
    let unparsed = || Failure::unavailable("the body was not parsed: try again");
    let permit = PARSERS.acquire().await.map_err(|_| unparsed())?;
    // The work goes on if the client has gone meanwhile, so the permit belongs to it.
    let work = move || {
        let done = work();
        drop(permit);
        done
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| unparsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_bodies_are_parsed_on_another_thread() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let here = std::thread::current().id();
        let thread = |bytes| {
            let work = || std::thread::current().id();
            runtime.block_on(aside(bytes, work)).unwrap()
        };
        assert_eq!(thread(PARSED_HERE_BYTES_MAX), here);
        assert_ne!(thread(PARSED_HERE_BYTES_MAX + 1), here);
        let failed: Result<(), _> =
            runtime.block_on(aside(usize::MAX, || panic!("the work of a test fails")));
        assert_eq!(failed.unwrap_err().status, 503);
    }
}
