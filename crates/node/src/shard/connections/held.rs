//! What connections hold that counts for a budget of the whole node ([`ClientBudget`]). When one of these budgets is exceeded,
//! the user who holds most loses connections ([`crate::ledger`]).
//!
//! A delivery that arrives in one frame and one read is never counted.

use std::sync::Arc;

use broker::client_budget::{ClientBudget, STATE_UNCHARGED, Unread, output_room};
use broker::gate::Ending;
use broker::mail::Mail;
use bytes::BytesMut;
use catalog::ids::ShardId;

use super::{Conn, Connections};
use crate::ledger::{Ledger, Owner, Victim};
use crate::shard::Shard;

/// A shard looks whether the budget is exceeded when what its connections hold has changed by this many bytes. So the shard
/// may exceed the budget by this much unnoticed.
const STEP_BYTES: u64 = 64 * 1024;

/// The most bytes that a client is still sent when its connection is closed for the memory that it uses. The reason can only
/// follow a whole frame. This is the largest frame of a client that has not asked for larger ones.
const LEFT_MAX: usize = 128 * 1024;

/// The bytes that a TLS session keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Encrypted {
    /// What has arrived of a record, or of a message of the handshake. It counts as unfinished.
    pub unread: usize,
    /// What the socket did not take. It counts as unread output, and no connection is closed for it.
    pub unsent: usize,
}

/// What the connections of this shard hold for one budget.
#[derive(Debug)]
pub(super) struct BudgetUse {
    ledger: Arc<Ledger>,
    /// The bytes that the shard held when it looked last.
    seen: u64,
}

impl BudgetUse {
    pub(super) fn new(ledger: Arc<Ledger>) -> Self {
        Self { ledger, seen: 0 }
    }

    /// Returns true if it is time to look and the shard holds more than at the last time.
    fn has_grown(&mut self, shard: ShardId) -> bool {
        let used = self.ledger.used(shard);
        if used.abs_diff(self.seen) < STEP_BYTES {
            return false;
        }
        used > std::mem::replace(&mut self.seen, used)
    }
}

impl Connections {
    /// Returns the bytes that connections of this shard hold for a budget, and this shard's part of the limit.
    pub(crate) fn held(&self, budget: ClientBudget, here: ShardId) -> (u64, u64) {
        let ledger = &self.held[budget as usize].ledger;
        (ledger.held(here), ledger.limit_part(here))
    }

    /// Looks how much all connections of the node have not read. Called once a turn.
    pub(crate) fn look_at_unread(&mut self) {
        let ledger = &self.held[ClientBudget::Unread as usize].ledger;
        self.output_room = output_room(ledger.held_by_all(), ledger.limit());
    }
}

impl Shard {
    /// Recounts the incomplete deliveries and frames of a connection. Called when they may have changed.
    pub(in crate::shard) fn count_unfinished(&mut self, key: usize) {
        let Some(conn) = self.connections.conns.get_mut(key) else { return };
        let phase = conn.gate.phase();
        let bytes = match phase.listens() || phase.keeps_input() {
            true => conn.gate.incomplete_bytes() + conn.partial.len() + conn.partial_taken,
            false => {
                // The rest of the input is ignored.
                conn.partial = BytesMut::new();
                0
            }
        };
        let bytes = bytes + conn.encrypted.unread;
        self.count(ClientBudget::Unfinished, key, bytes);
    }

    /// Recounts what is kept for a client. Called when its connection was marked as dirty: everything that is kept is answered.
    #[inline]
    pub(super) fn count_state(&mut self, key: usize) {
        let Some(conn) = self.connections.conns.get(key) else { return };
        if conn.is_shed {
            return;
        }
        let bytes = conn.gate.state_bytes();
        // A client of AMQP 0.9.1 sends its properties before it logs in, and may send nothing more.
        self.check_owner(key);
        let uncharged = bytes.min(STATE_UNCHARGED);
        self.count_uncharged(ClientBudget::State, key, uncharged);
        self.count(ClientBudget::State, key, bytes - uncharged);
    }

    /// Called when the TLS session of a connection may keep more or less than before.
    pub(crate) fn note_encrypted(&mut self, key: usize, encrypted: Encrypted) {
        let Some(conn) = self.connections.conns.get_mut(key) else { return };
        if encrypted != std::mem::replace(&mut conn.encrypted, encrypted) {
            self.count_unfinished(key);
            self.count_unread(key);
        }
    }

    /// Recounts what a connection has not read. Called when it may have changed.
    #[inline]
    pub(super) fn count_unread(&mut self, key: usize) {
        let Some(conn) = self.connections.conns.get(key) else { return };
        let Unread { charged, uncharged } = conn.gate.unread();
        // What readers of streams have in memory counts in their own budget until it is written.
        let of_readers = conn.reader_memory.as_ref().map_or(0, |memory| memory.bytes() as usize);
        let waiting = of_readers.min(uncharged);
        let charged = charged - (of_readers - waiting).min(conn.gate.deliveries_held()).min(charged);
        let uncharged = uncharged - waiting + conn.encrypted.unsent;
        // A connection that is closed for its memory is not closed twice.
        let (charged, uncharged) = if conn.is_shed { (0, charged + uncharged) } else { (charged, uncharged) };
        self.count_uncharged(ClientBudget::Unread, key, uncharged);
        self.count(ClientBudget::Unread, key, charged);
    }

    #[inline]
    fn count_uncharged(&mut self, budget: ClientBudget, key: usize, bytes: usize) {
        let Connections { conns, held, .. } = &mut self.connections;
        let Some(conn) = conns.get_mut(key) else { return };
        let (place, after) = (&mut conn.uncharged[budget as usize], bytes as u64);
        if after != *place {
            let before = std::mem::replace(place, after);
            held[budget as usize].ledger.change_uncharged(self.here.id, before, after);
        }
    }

    #[inline]
    fn count(&mut self, budget: ClientBudget, key: usize, bytes: usize) {
        let Some(conn) = self.connections.conns.get(key) else { return };
        let bytes = bytes as u64;
        if bytes != conn.held[budget as usize] && !conn.is_shed {
            self.count_change(budget, key, bytes);
        }
    }

    /// If the client has logged in or opened its connection since the last count, charges what it holds to its user.
    #[inline]
    fn check_owner(&mut self, key: usize) {
        let Connections { conns, held, .. } = &mut self.connections;
        let Some(conn) = conns.get_mut(key) else { return };
        let peer = conn.gate.peer();
        let user = peer.identity.as_ref().map(|who| (who.authority(), &who.user));
        if conn.owner.is(user, &peer.vhost) {
            return;
        }
        let user = user.map(|(authority, name)| (authority, name.clone()));
        let owner = Owner { user, vhost: peer.vhost.clone() };
        for (held, bytes) in held.iter().zip(conn.held).filter(|(_, bytes)| *bytes > 0) {
            held.ledger.change(self.here.id, &conn.owner, key, bytes, 0);
            held.ledger.change(self.here.id, &owner, key, 0, bytes);
        }
        conn.owner = owner;
    }

    fn count_change(&mut self, budget: ClientBudget, key: usize, bytes: u64) {
        self.check_owner(key);
        let here = self.here.id;
        let Connections { conns, held, .. } = &mut self.connections;
        let Some(conn) = conns.get_mut(key) else { return };
        let before = std::mem::replace(&mut conn.held[budget as usize], bytes);
        let held = &mut held[budget as usize];
        held.ledger.change(here, &conn.owner, key, before, bytes);
        if held.has_grown(here) && self.shed(budget) {
            // A partial frame alone causes no turn, but the mail to another shard needs one.
            self.touch(key);
        }
    }

    /// While the node is over its limit, closes the connection that must go, or asks its shard to do so. Returns true if
    /// another shard was asked.
    pub(in crate::shard) fn shed(&mut self, budget: ClientBudget) -> bool {
        loop {
            let ledger = &self.connections.held[budget as usize].ledger;
            match ledger.victim() {
                Some(victim) if victim.shard == self.here.id => {
                    let limit = ledger.limit();
                    self.shed_connection(budget, limit, &victim);
                }
                Some(victim) => {
                    self.mail.send(victim.shard, Mail::Shed(budget));
                    return true;
                }
                None => return false,
            }
        }
    }

    fn shed_connection(&mut self, budget: ClientBudget, limit: u64, victim: &Victim) {
        let Victim { key, bytes, of_user, .. } = *victim;
        let (what, setting) = (budget.what(), budget.setting());
        let why = format!(
            "{what} take more than the {limit} bytes of {setting}; the connections of this user hold most of all users, \
             {of_user} bytes, and this connection most of them, {bytes} bytes"
        );
        let Some(conn) = self.connections.conns.get_mut(key) else { return };
        // What it has not read stays until its socket is closed and closes nobody any more, so it must be little.
        let is_open = conn.gate.phase().is_open();
        let output = conn.gate.output();
        let drops = budget == ClientBudget::Unread || output.held() > LEFT_MAX;
        let is_told = !drops || output.drop_unbegun(LEFT_MAX) && is_open;
        self.gates().with(key, |gate, cx| gate.end(Ending::TooMuchMemory, &why, cx));
        let Connections { conns, held, .. } = &mut self.connections;
        let Some(conn) = conns.get_mut(key) else { return };
        conn.partial = BytesMut::new();
        conn.is_shed = true;
        conn.is_cut |= !is_told;
        uncount(held, self.here.id, key, conn);
        // What is left of a frame that was begun stays until the peer has read it, or the socket is closed.
        self.count_unread(key);
    }
}

/// Stops counting a connection that leaves the shard.
pub(super) fn uncount(held: &[BudgetUse], here: ShardId, key: usize, conn: &mut Conn) {
    for (held, bytes) in held.iter().zip(&mut conn.held) {
        if *bytes > 0 {
            held.ledger.change(here, &conn.owner, key, std::mem::take(bytes), 0);
        }
    }
    for (held, bytes) in held.iter().zip(&mut conn.uncharged).filter(|(_, bytes)| **bytes > 0) {
        held.ledger.change_uncharged(here, std::mem::take(bytes), 0);
    }
}
