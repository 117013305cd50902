//! The life of connections: opening, login, closing, and deadlines.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};

use broker::cx::Cx;
use broker::gate::{Ending, Gate};
use broker::ids::NODE_SHARD;
use broker::mail::{Mail, TicketOwner};
use broker::searches::{Own, Waiter};
use catalog::access::{Identity, Login, LoginRefused, Question, Remote};
use catalog::categories::{CONNECTION, PEER};
use queue::Ticket;

use super::Conn;
use super::held::uncount;
use crate::shard::Shard;

impl Shard {
    /// Adds a connection that [`super::Occupancy`] counts already. Returns its key.
    pub fn connect(&mut self, peer: SocketAddr, local: SocketAddr) -> usize {
        self.connect_named(peer.ip(), name(peer, local))
    }

    /// Like [`Self::connect`], for a connection with another name. Limits and rights are those of the address.
    pub fn connect_named(&mut self, peer: IpAddr, name: Arc<str>) -> usize {
        let key = self.connections.open(self.here, &self.metadata, peer, name);
        self.counters.connections_opened += 1;
        self.counters.connections += 1;
        self.touch(key);
        key
    }

    /// Like [`Self::connect_named`], for a client whose user is known already.
    pub fn connect_vouched(&mut self, peer: IpAddr, name: Arc<str>, who: Identity) -> usize {
        let key = self.connect_named(peer, name);
        if let Some(conn) = self.connections.get_mut(key) {
            conn.gate.peer_mut().vouched = Some(who);
        }
        key
    }

    /// Called when a proxy has said who its client is, before any other input of the connection.
    pub fn set_peer(&mut self, key: usize, peer: SocketAddr, local: SocketAddr) {
        if let Some(conn) = self.connections.get_mut(key) {
            let client = conn.gate.peer_mut();
            (client.address, client.name) = (peer.ip(), name(peer, local));
        }
    }

    /// Returns the logins that connections ask for. They are checked elsewhere, and [`Shard::handle_login`]
    /// takes the results.
    pub fn poll_logins(&mut self) -> Vec<(Ticket, Login)> {
        std::mem::take(&mut self.mail.post.logins)
    }

    /// Returns what tells whether the connection of a login is still there.
    pub(crate) fn login_alive(&mut self, ticket: Ticket) -> Weak<()> {
        let Some(TicketOwner::Gate(key)) = self.connections.ticket_owner(ticket) else {
            return Weak::new();
        };
        let conn = self.connections.get_mut(key);
        conn.map_or_else(Weak::new, |conn| Arc::downgrade(conn.login_alive.get_or_insert_default()))
    }

    /// Handles the result of a login. It is ignored if the connection has closed meanwhile.
    pub fn handle_login(&mut self, ticket: Ticket, result: Result<Identity, LoginRefused>) {
        let Some(TicketOwner::Gate(key)) = self.connections.ticket_owner(ticket) else { return };
        self.pass_answer(key, ticket, |gate, cx| gate.handle_login(ticket, result, cx));
    }

    /// Returns the questions that gates have about permissions. They are asked elsewhere, and [`Shard::handle_permission`] is
    /// called then.
    pub fn poll_questions(&mut self) -> Vec<(Ticket, Arc<Remote>, Box<Question>)> {
        std::mem::take(&mut self.mail.post.permissions)
    }

    /// Called when a question was answered. The answer is ignored if the connection has closed meanwhile.
    pub fn handle_permission(&mut self, ticket: Ticket) {
        self.handle_awaited(ticket);
    }

    /// Called when the node has caught up with the catalog, or cannot soon. What is not found now does not exist, as far as this node can
    /// know.
    pub(in crate::shard) fn handle_caught_up(&mut self, ticket: Ticket) {
        let login = self.connections.unsure_logins.remove(&ticket);
        match (self.connections.ticket_owner(ticket), login) {
            (Some(TicketOwner::Gate(_)), Some(login)) => self.mail.post.logins.push((ticket, login)),
            (Some(TicketOwner::Gate(key)), None) => self.pass_answer(key, ticket, |gate, cx| {
                cx.may_lag = false;
                gate.handle_awaited(ticket, cx);
            }),
            (Some(TicketOwner::AdminApi), _) => self.answer_caught_up(ticket),
            _ => {}
        }
    }

    /// Lets the node catch up with the catalog, for a ticket that has not found something.
    pub(in crate::shard) fn begin_catching_up(&mut self, ticket: Ticket, login: Option<Login>) {
        if let Some(login) = login {
            self.connections.unsure_logins.insert(ticket, login);
        }
        self.do_or_send(NODE_SHARD, Mail::Miss(ticket));
    }

    fn handle_awaited(&mut self, ticket: Ticket) {
        let Some(TicketOwner::Gate(key)) = self.connections.ticket_owner(ticket) else { return };
        self.pass_answer(key, ticket, |gate, cx| gate.handle_awaited(ticket, cx));
    }

    /// Finds every route that is not cached in parts, and takes this many steps in a turn. For tests.
    pub fn search_all(&mut self, steps: u64) {
        self.connections.searches().search_all(steps);
    }

    /// Goes on with the searches for routes, as far as this turn may. Messages whose routes are found are handled again.
    pub(in crate::shard) fn search(&mut self) {
        self.connections.searches().begin_turn();
        while self.connections.is_searching() {
            let (catalog, steps) = (self.metadata.catalog(), &mut self.counters.routing_steps);
            match self.connections.searches().go_on(catalog, steps) {
                Some(Waiter::Connection(ticket)) => self.handle_awaited(ticket),
                Some(Waiter::Own(Own::DeadLetter(queue, _))) => self.continue_dead_letters(queue),
                Some(Waiter::Own(Own::Moves(publisher))) => self.continue_moves(publisher),
                Some(Waiter::Own(Own::Histories)) => self.continue_replays(),
                Some(Waiter::Own(Own::Notices)) => self.continue_notices(),
                None => return,
            }
            self.connections.searches().end_found();
        }
    }

    /// Passes the answer to a ticket to its gate. Continues with the input that arrived while the gate waited for it.
    pub(in crate::shard) fn pass_answer(
        &mut self,
        key: usize,
        ticket: Ticket,
        pass: impl FnOnce(&mut Gate, &mut Cx<'_>),
    ) {
        self.gates().with(key, |gate, cx| pass(gate, cx));
        self.connections.remove_ticket(ticket);
        self.continue_input(key);
    }

    pub fn conn(&mut self, key: usize) -> Option<&mut Conn> {
        self.connections.get_mut(key)
    }

    /// Returns true if the client has logged in and opened the connection.
    pub fn is_open(&self, key: usize) -> bool {
        self.connections.conns.get(key).is_some_and(|c| c.gate.phase().is_open())
    }

    /// Called when the socket is closed.
    pub fn disconnect(&mut self, key: usize) {
        self.gates().with(key, |gate, cx| {
            gate.handle_disconnect(cx);
            gate.peer().emit_closed(cx);
        });
        if self.connections.conns.contains(key) {
            let mut conn = self.connections.conns.remove(key);
            self.keep_numbers(&conn);
            self.note_brief(&conn);
            self.connections.deadlines.forget(key, &mut conn.noted_ms);
            *self.connections.open.of(&conn.gate) -= conn.sessions;
            tracing::info!(name: PEER, target: CONNECTION, connection = %conn.gate.peer().name, "connection gone");
            uncount(&self.connections.held, self.here.id, key, &mut conn);
            self.counters.connections_closed += 1;
            self.counters.connections -= 1;
            self.uncount();
        }
    }

    /// Called when a connection's output was offered to its socket, which has taken `written` bytes.
    pub fn note_written(&mut self, key: usize, written: usize) {
        let now_ms = self.here.now_ms;
        let Some(conn) = self.connections.conns.get_mut(key) else { return };
        conn.send_bytes += written as u64;
        conn.unwritten_bytes = conn.gate.output().len();
        if written > 0 {
            conn.gate.handle_written(written, now_ms);
        }
        self.count_unread(key);
        if written > 0 {
            // The client may have been given as many answers as it may leave unread.
            self.continue_input(key);
        }
    }

    /// Called when the node stops. The next turns tell every connection why.
    pub fn shut_down(&mut self, why: &str) {
        self.stopping = true;
        self.connections.ending = Some(why.into());
        self.walks.ending.begin();
    }

    /// Continues to tell connections that publishing is stopped or may continue, that rights have changed, and that the node
    /// stops.
    pub(in crate::shard) fn walk_connections(&mut self) {
        let places = self.connections.places();
        let blocked = self.connections.is_blocked();
        for key in self.walks.blocked.part(places, &mut self.rows) {
            self.gates().with(key, |gate, cx| gate.set_blocked(blocked, cx));
            self.continue_input(key);
        }
        for key in self.walks.rights.part(places, &mut self.rows) {
            self.gates().with(key, |gate, cx| gate.recheck_rights(cx));
        }
        if let Some(why) = self.connections.ending() {
            for key in self.walks.ending.part(places, &mut self.rows) {
                self.gates().with(key, |gate, cx| gate.end(Ending::NodeStops, &why, cx));
            }
        }
    }

    /// Closes one connection for an operator.
    pub fn close(&mut self, key: usize, why: &str) {
        self.gates().with(key, |gate, cx| gate.end(Ending::Operator, why, cx));
    }

    /// Stops or resumes publishing on every connection, because of an alarm.
    pub fn set_blocked(&mut self, blocked: bool) {
        self.connections.blocked = blocked;
        self.walks.blocked.begin();
        if blocked {
            self.report_size_again();
        }
    }

    /// Stops publishing on every connection, because the node stops. Freeing the log would only make the stop longer.
    pub fn stop_publishing(&mut self) {
        self.connections.blocked = true;
        self.walks.blocked.begin();
    }

    /// Returns true if a turn has work for a connection. Heartbeats of thousands of connections, and parts of
    /// large frames, need no turn.
    pub fn is_dirty(&self) -> bool {
        !self.connections.dirty.is_empty()
    }

    /// Marks a connection as having something to write or to close.
    pub fn touch(&mut self, key: usize) {
        self.connections.touch(key);
    }

    /// Takes the connections with something to write or to close. Call it after [`Shard::turn`].
    pub fn take_dirty(&mut self, into: &mut Vec<usize>) {
        // A connection that this turn has ended holds no incomplete data any more.
        for i in 0..self.connections.dirty.len() {
            self.count_unfinished(self.connections.dirty[i]);
            self.count_state(self.connections.dirty[i]);
        }
        for key in self.connections.dirty.drain(..) {
            // A connection that has closed or moved leaves its key behind, which a new one may have by now.
            if let Some(conn) = self.connections.conns.get_mut(key).filter(|conn| conn.dirty) {
                conn.dirty = false;
                into.push(key);
                let sessions = conn.gate.session_count() as u64;
                let open = self.connections.open.of(&conn.gate);
                *open = *open - std::mem::replace(&mut conn.sessions, sessions) + sessions;
                // Every event that brings a deadline nearer marks the connection as dirty.
                self.connections.deadlines.note(key, &mut conn.noted_ms, conn.gate.next_deadline());
            }
        }
    }

    /// Handles connections whose deadline has passed. If they are too many for this turn, the others stay
    /// due.
    pub(in crate::shard) fn connection_timeouts(&mut self) {
        if self.connections.next_check().is_none_or(|at| at > self.here.now_ms) {
            return;
        }
        let rows_max = self.rows.left_for_due();
        let due = self.connections.deadlines.take_due(self.here.now_ms, rows_max);
        self.rows.count(due.len());
        // If there were more, the next turn handles the rest.
        if due.len() < rows_max {
            self.connections.checked_ms = self.here.now_ms;
        }
        for key in due {
            let Some(conn) = self.connections.conns.get_mut(key) else { continue };
            conn.noted_ms = None;
            match conn.gate.next_deadline() {
                Some(due) if due <= self.here.now_ms => {
                    self.gates().with(key, |gate, cx| gate.handle_timeout(cx));
                }
                later => self.connections.deadlines.note(key, &mut conn.noted_ms, later),
            }
        }
    }
}

/// Returns the name of a connection between two addresses.
fn name(peer: SocketAddr, local: SocketAddr) -> Arc<str> {
    format!("{peer} -> {local}").into()
}
