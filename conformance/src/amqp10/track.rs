//! The state that a client of a page tracks, so that a page need not give every number.

use std::collections::{BTreeMap, BTreeSet};

/// The counters of one session on the client's side.
#[derive(Debug, Default)]
pub struct SessionTrack {
    pub next_outgoing_id: u32,
    pub next_delivery_id: u32,
    pub next_incoming_id: u32,
    /// The client's handles with a delivery that is not complete.
    pub partial: BTreeSet<u32>,
    /// The number of deliveries received, by the client's handle.
    pub received: BTreeMap<u32, u32>,
    /// Maps the broker's handles to the client's, for links on which the client receives.
    pub by_remote: BTreeMap<u32, u32>,
    /// The broker's handles with a delivery that is not complete.
    pub remote_partial: BTreeSet<u32>,
    names: BTreeMap<String, u32>,
}

/// All sessions of a client, by the client's channels.
#[derive(Debug, Default)]
pub struct Track(BTreeMap<u16, SessionTrack>);

impl Track {
    pub fn begin(&mut self, channel: u16) {
        self.0.insert(channel, SessionTrack::default());
    }

    pub fn session(&mut self, channel: u16) -> &mut SessionTrack {
        self.0.entry(channel).or_default()
    }
}

impl SessionTrack {
    pub fn name(&mut self, name: &str, handle: u32) {
        self.names.insert(name.to_owned(), handle);
    }

    /// Called when the broker has attached its sending end.
    pub fn attached(&mut self, name: &str, remote: u32) {
        if let Some(handle) = self.names.get(name) {
            self.by_remote.insert(remote, *handle);
        }
    }

    /// Called when a TRANSFER is received.
    pub fn transfer(&mut self, remote: u32, more: bool) {
        self.next_incoming_id = self.next_incoming_id.wrapping_add(1);
        if more {
            self.remote_partial.insert(remote);
            return;
        }
        self.remote_partial.remove(&remote);
        let handle = self.by_remote.get(&remote).copied().unwrap_or(remote);
        let received = self.received.entry(handle).or_default();
        *received = received.wrapping_add(1);
    }

    /// Called when the broker sets another delivery-count, as after a drain.
    pub fn delivery_count(&mut self, remote: u32, count: u32) {
        let handle = self.by_remote.get(&remote).copied().unwrap_or(remote);
        if let Some(received) = self.received.get_mut(&handle) {
            *received = count;
        }
    }
}
