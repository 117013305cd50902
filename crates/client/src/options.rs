//! How connections, senders and receivers are to be.

use std::time::Duration;

use amqp10::{Attach, Map, Role, SenderSettleMode, Source, Symbol, Target, TargetArchetype};

use crate::checksum::Checksum;

/// Of a connection.
#[derive(Clone, Debug)]
pub struct Options {
    pub container_id: String,
    /// OPEN hostname. `None`: `vhost:NAME` if the URL names a virtual host, else absent.
    pub hostname: Option<String>,
    /// The connection is given up when nothing was heard for so long; half of it is advertised. Zero is never.
    pub idle_time_out: Duration,
    /// Largest frame that we take, in bytes; at least 512.
    pub max_frame_size: u32,
    /// Highest channel number: sessions less one.
    pub channel_max: u16,
    /// Transfer frames that the peer may send on a session before it needs another FLOW; at least 1.
    pub incoming_window: u32,
    /// Highest link handle of a session.
    pub handle_max: u32,
    /// OPEN properties; keys are symbols.
    pub properties: Option<Map>,
    /// How long connecting, login and OPEN may take together, and how long CLOSE may.
    pub handshake_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            container_id: "sluice-client".to_owned(),
            hostname: None,
            idle_time_out: Duration::from_secs(60),
            max_frame_size: 128 * 1024,
            channel_max: 255,
            incoming_window: 2048,
            handle_max: 1023,
            properties: None,
            handshake_timeout: Duration::from_secs(20),
        }
    }
}

/// Of a sending link.
#[derive(Clone, Debug, Default)]
pub struct SenderOptions {
    /// `None`: one that is unique on the session.
    pub name: Option<String>,
    pub settle: Settle,
    /// ATTACH properties; keys are symbols.
    pub properties: Option<Map>,
    pub capabilities: Vec<Symbol>,
    /// Ask for a node of our own; the address must be `None`.
    pub dynamic: bool,
    /// Every message gets this checksum in its footer.
    pub checksum: Option<Checksum>,
}

/// Whether messages are sent settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Settle {
    /// Every message has an outcome: at least once.
    #[default]
    Unsettled,
    /// No message has an outcome: at most once.
    Settled,
    /// As each call says.
    Mixed,
}

/// Of a receiving link.
#[derive(Clone, Debug, Default)]
pub struct ReceiverOptions {
    /// `None`: one that is unique on the session.
    pub name: Option<String>,
    pub credit: Credit,
    /// The peer settles on sending: at most once.
    pub settled: bool,
    /// ATTACH properties; keys are symbols.
    pub properties: Option<Map>,
    /// Filter set of the source.
    pub filter: Option<Map>,
    pub capabilities: Vec<Symbol>,
    /// Ask for a node of our own; the address must be `None`.
    pub dynamic: bool,
    /// Largest message we take, in bytes; 0 is no limit.
    pub max_message_size: u64,
}

/// Who grants credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credit {
    /// So many messages may be under way or wait for the reader; topped up when half of them are read. At least 1.
    Auto(u32),
    /// Only [`Receiver::flow`](crate::Receiver::flow).
    Manual,
}

impl Default for Credit {
    /// What behaviour S107 recommends: 200, again at 100.
    fn default() -> Self {
        Self::Auto(200)
    }
}

impl SenderOptions {
    pub(crate) fn attach(self, address: Option<&str>, name: String) -> Attach {
        let mut attach = Attach::new(name, 0, Role::Sender);
        attach.snd_settle_mode = match self.settle {
            Settle::Unsettled => SenderSettleMode::Unsettled,
            Settle::Settled => SenderSettleMode::Settled,
            Settle::Mixed => SenderSettleMode::Mixed,
        };
        attach.source = Some(Source::default());
        attach.target = Some(TargetArchetype::Target(Target {
            address: address.map(str::to_owned),
            capabilities: self.capabilities,
            dynamic: self.dynamic,
            ..Target::default()
        }));
        attach.initial_delivery_count = Some(0);
        attach.properties = self.properties;
        attach
    }
}

impl ReceiverOptions {
    pub(crate) fn attach(self, address: Option<&str>, name: String) -> Attach {
        let mut attach = Attach::new(name, 0, Role::Receiver);
        attach.snd_settle_mode =
            if self.settled { SenderSettleMode::Settled } else { SenderSettleMode::Unsettled };
        attach.source = Some(Source {
            address: address.map(str::to_owned),
            filter: self.filter,
            capabilities: self.capabilities,
            dynamic: self.dynamic,
            ..Source::default()
        });
        attach.target = Some(TargetArchetype::Target(Target::default()));
        attach.max_message_size = (self.max_message_size > 0).then_some(self.max_message_size);
        attach.properties = self.properties;
        attach
    }
}
