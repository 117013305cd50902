//! The steps of TLS handshakes, on threads beside the shards: a step signs with the server's key or makes a shared key, some
//! 50 us with ECDSA and up to 1 ms with RSA. So clients that come in thousands delay each other, and not the messages of
//! those that are there.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

/// The threads may use this fraction of all cores (one half), so that shards have the others.
const CORES_PART: usize = 2;

/// The most threads. At 1 ms a step, which is the longest, eight threads make 8,000 steps a second.
const THREADS_MAX: usize = 8;

/// The handle to the threads. They end when the last handle is dropped.
#[derive(Clone, Debug)]
pub(crate) struct TlsSteps(Sender<Step>);

#[derive(Debug)]
struct Step {
    session: Box<tls::Session>,
    input: Vec<u8>,
    reply: oneshot::Sender<Stepped>,
}

/// What a step has led to.
#[derive(Debug)]
pub(crate) struct Stepped {
    pub session: Box<tls::Session>,
    /// What the client has sent behind its handshake.
    pub plain: Vec<u8>,
    pub result: Result<tls::Received, tls::Error>,
}

impl TlsSteps {
    /// Starts the threads.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn start() -> io::Result<Self> {
        let (steps, receiver) = mpsc::channel();
        let receiver = Arc::new(Mutex::new(receiver));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for number in 0..(cores / CORES_PART).clamp(1, THREADS_MAX) {
            let receiver = receiver.clone();
            std::thread::Builder::new().name(format!("tls-{number}")).spawn(move || {
                while let Some(step) = next(&receiver) {
                    step.make();
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
    pub(crate) async fn make(&self, session: Box<tls::Session>, input: Vec<u8>) -> io::Result<Stepped> {
        let (reply, stepped) = oneshot::channel();
        let ended = "the threads of TLS handshakes have ended";
        self.0.send(Step { session, input, reply }).map_err(|_| io::Error::other(ended))?;
        stepped.await.map_err(|_| io::Error::other(ended))
    }
}

/// Waits for the next step. Returns `None` when there is no handle any more.
fn next(steps: &Mutex<Receiver<Step>>) -> Option<Step> {
    steps.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

impl Step {
    fn make(self) {
        let Self { mut session, mut input, reply } = self;
        if reply.is_closed() {
            return;
        }
        let mut plain = Vec::new();
        let result = session.receive(&mut input, |piece| plain.extend_from_slice(piece));
        // If the connection has gone meanwhile, nobody needs the result.
        drop(reply.send(Stepped { session, plain, result }));
    }
}
