//! Checks logins on a separate thread, one after the other: a slow check delays only other logins.

use std::io;
use std::sync::mpsc;

use broker::access::Login;
use broker::ids::ShardId;
use queue::Ticket;
use tokio::sync::oneshot;

use crate::incoming::{Checked, Incoming, Shards};

/// The handle to the thread that checks logins. Its waiting list is bounded by the connections that have not
/// logged in and the HTTP requests in flight.
#[derive(Clone, Debug)]
pub(crate) struct Logins {
    questions: mpsc::Sender<Question>,
}

#[derive(Debug)]
enum Question {
    Shard(ShardId, Ticket, Login),
    Desk(Login, oneshot::Sender<Checked>),
}

impl Logins {
    /// Starts the thread. It ends when the last handle is dropped.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(shards: Shards, check: impl Fn(&Login) -> Checked + Send + 'static) -> io::Result<Self> {
        let (questions, asked) = mpsc::channel();
        std::thread::Builder::new().name("logins".into()).spawn(move || {
            for question in asked {
                match question {
                    Question::Shard(shard, ticket, login) => {
                        if let Some(to) = shards.get(usize::from(shard)) {
                            // Sending fails if the shard has ended. Then it needs no answer.
                            drop(to.send(Incoming::Login(ticket, check(&login))));
                        }
                    }
                    // The caller has given up, so the login is not checked.
                    Question::Desk(_, reply) if reply.is_closed() => {}
                    Question::Desk(login, reply) => drop(reply.send(check(&login))),
                }
            }
        })?;
        Ok(Self { questions })
    }

    /// Checks the login of a connection. The shard receives the result as [`Incoming::Login`].
    pub fn ask(&self, shard: ShardId, ticket: Ticket, login: Login) {
        // If the thread has ended, the connection is closed at its deadline.
        drop(self.questions.send(Question::Shard(shard, ticket, login)));
    }

    /// Checks a login at the desk.
    pub fn ask_for_desk(&self, login: Login) -> oneshot::Receiver<Checked> {
        let (reply, answer) = oneshot::channel();
        drop(self.questions.send(Question::Desk(login, reply)));
        answer
    }
}
