//! The little that a client of a page keeps in mind, so that a page need not number everything.

use std::collections::{BTreeMap, BTreeSet};

/// One session as the client counts it.
#[derive(Debug, Default)]
pub struct SessionTrack {
    pub next_outgoing_id: u32,
    pub next_delivery_id: u32,
    pub next_incoming_id: u32,
    /// Handles in the middle of a delivery.
    pub partial: BTreeSet<u32>,
    /// Deliveries received, by the client's own handle.
    pub received: BTreeMap<u32, u32>,
    /// The client's handles by the broker's, for links on which it receives.
    pub by_remote: BTreeMap<u32, u32>,
    /// Broker's handles in the middle of a delivery.
    pub remote_partial: BTreeSet<u32>,
    names: BTreeMap<String, u32>,
}

/// All sessions of a client, by its channels.
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

    /// The broker has attached its sending end.
    pub fn attached(&mut self, name: &str, remote: u32) {
        if let Some(handle) = self.names.get(name) {
            self.by_remote.insert(remote, *handle);
        }
    }

    /// A TRANSFER has come.
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

    /// The broker counts otherwise, as after a drain.
    pub fn delivery_count(&mut self, remote: u32, count: u32) {
        let handle = self.by_remote.get(&remote).copied().unwrap_or(remote);
        if let Some(received) = self.received.get_mut(&handle) {
            *received = count;
        }
    }
}
