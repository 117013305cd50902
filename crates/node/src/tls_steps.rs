//! The steps of TLS handshakes, on threads beside those that serve: a step signs with the server's key or makes a shared key, some
//! 50 us with ECDSA and up to 1 ms with RSA. So clients that come in thousands delay each other, and not the messages of
//! those that are there. Handshakes between nodes have a thread of their own, so that they wait for no client.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

/// The threads for clients may use this fraction of all cores (one half), so that shards have the others.
const CORES_PART: usize = 2;

/// The most threads for clients. At 1 ms a step, which is the longest, eight threads make 8,000 steps a second.
const THREADS_MAX: usize = 8;

/// The handle to the threads. They end when the last handle is dropped.
#[derive(Clone, Debug)]
pub(crate) struct TlsSteps(Sender<Step>);

/// What a thread does.
type Step = Box<dyn FnOnce() + Send>;

/// What a step has led to.
#[derive(Debug)]
pub(crate) struct Stepped {
    pub session: Box<tls::Session>,
    /// What the client has sent behind its handshake.
    pub plain: Vec<u8>,
    pub result: Result<tls::Received, tls::Error>,
}

impl TlsSteps {
    /// Starts the threads for clients.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn start() -> io::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::start_threads("tls", (cores / CORES_PART).clamp(1, THREADS_MAX))
    }

    /// Starts the thread for connections between nodes.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start_for_nodes() -> io::Result<Self> {
        Self::start_threads("tls-nodes", 1)
    }

    fn start_threads(name: &str, count: usize) -> io::Result<Self> {
        let (steps, receiver) = mpsc::channel();
        let receiver = Arc::new(Mutex::new(receiver));
        for number in 0..count {
            let receiver = receiver.clone();
            std::thread::Builder::new().name(format!("{name}-{number}")).spawn(move || {
                while let Some(step) = next(&receiver) {
                    step();
                }
            })?;
        }
        Ok(Self(steps))
    }

    /// Handles the input of a session whose handshake is not complete. A connection has at most one step on its way, and steps
    /// are made in their order. If the caller gives up before, the step is not made.
    ///
    /// # Errors
    /// The threads have ended.
    pub(crate) async fn make(
        &self,
        mut session: Box<tls::Session>,
        mut input: Vec<u8>,
    ) -> io::Result<Stepped> {
        self.run(move || {
            let mut plain = Vec::new();
            let result = session.receive(&mut input, |piece| plain.extend_from_slice(piece));
            Stepped { session, plain, result }
        })
        .await
    }

    /// Does some work on a thread, and returns its result. If the caller gives up before it begins, it is not done.
    ///
    /// # Errors
    /// The threads have ended.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let (reply, done) = oneshot::channel();
        let step = move || {
            if !reply.is_closed() {
                // If the connection has gone meanwhile, nobody needs the result.
                drop(reply.send(work()));
            }
        };
        let ended = "the threads of TLS handshakes have ended";
        self.0.send(Box::new(step)).map_err(|_| io::Error::other(ended))?;
        done.await.map_err(|_| io::Error::other(ended))
    }
}

/// Waits for the next step. Returns `None` when there is no handle any more.
fn next(steps: &Mutex<Receiver<Step>>) -> Option<Step> {
    steps.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}
