//! Logins are checked on a thread of their own, one after the other: a slow check holds up other logins and nothing else.

use std::io;
use std::sync::mpsc;

use broker::access::Login;
use broker::ids::ShardId;
use queue::Ticket;
use tokio::sync::oneshot;

use crate::incoming::{Checked, Incoming, Shards};

/// The way to the thread that checks. What waits there is bounded by the connections that have not logged in, and by the
/// HTTP requests in flight.
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
    /// Starts the thread. It ends when nobody can ask any more.
    ///
    /// # Errors
    /// The thread does not start.
    pub fn start(shards: Shards, check: impl Fn(&Login) -> Checked + Send + 'static) -> io::Result<Self> {
        let (questions, asked) = mpsc::channel();
        std::thread::Builder::new().name("logins".into()).spawn(move || {
            for question in asked {
                match question {
                    Question::Shard(shard, ticket, login) => {
                        if let Some(to) = shards.get(usize::from(shard)) {
                            // A shard that has ended waits for nothing.
                            drop(to.send(Incoming::Login(ticket, check(&login))));
                        }
                    }
                    // Whoever has given up meanwhile is not waited for.
                    Question::Desk(_, reply) if reply.is_closed() => {}
                    Question::Desk(login, reply) => drop(reply.send(check(&login))),
                }
            }
        })?;
        Ok(Self { questions })
    }

    /// Has the login of a connection checked. The answer comes to its shard.
    pub fn ask(&self, shard: ShardId, ticket: Ticket, login: Login) {
        // Without the thread the connection is given up at its deadline.
        drop(self.questions.send(Question::Shard(shard, ticket, login)));
    }

    /// Has a login at the desk checked.
    pub fn ask_for_desk(&self, login: Login) -> oneshot::Receiver<Checked> {
        let (reply, answer) = oneshot::channel();
        drop(self.questions.send(Question::Desk(login, reply)));
        answer
    }
}
