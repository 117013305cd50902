//! What people are shown of a connection of this protocol only.

/// The part of [`crate::desk::ConnectionRow`] that other protocols do not have.
#[derive(Clone, Debug)]
pub struct Amqp10Row {
    pub container_id: String,
    pub client_properties: Option<amqp10::Map>,
    pub channel_max: u16,
    pub frame_max: u32,
    pub sessions: Vec<SessionRow>,
}

/// A link of a session.
#[derive(Clone, Debug)]
pub struct LinkRow {
    pub handle: u32,
    pub name: String,
    /// The client publishes on it.
    pub incoming: bool,
    pub source_address: Option<String>,
    pub target_address: Option<String>,
    pub snd_settle_mode: &'static str,
    pub max_message_size: u64,
    pub delivery_count: u32,
    pub credit: u32,
    /// Publishing: messages without receipt. Consuming: deliveries not settled.
    pub unsettled: u64,
}

/// A session of a connection.
#[derive(Clone, Debug)]
pub struct SessionRow {
    pub channel: u16,
    pub handle_max: u32,
    pub next_incoming_id: u32,
    pub incoming_window: u32,
    pub next_outgoing_id: u32,
    pub remote_incoming_window: u32,
    pub outgoing_unsettled: u64,
    /// Deliveries that wait for the client's window or socket; of links that read streams, one each.
    pub outgoing_pending: u64,
    pub links: Vec<LinkRow>,
}
