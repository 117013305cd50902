//! The options of connections, senders and receivers.

use std::sync::Arc;
use std::time::Duration;

use amqp10::{Attach, Map, Role, SenderSettleMode, Source, Symbol, Target, TargetArchetype};

use tls::ClientConfig;

use crate::checksum::Checksum;

/// The options of a connection.
#[derive(Clone, Debug)]
pub struct Options {
    pub container_id: String,
    /// The hostname in OPEN. With `None` it is `vhost:NAME` if the URL names a virtual host, and absent
    /// otherwise.
    pub hostname: Option<String>,
    /// The connection is closed when nothing is received for this long. We advertise half of it. Zero means
    /// never.
    pub idle_time_out: Duration,
    /// The largest frame that we accept, in bytes. At least 512.
    pub max_frame_size: u32,
    /// The highest channel number. The number of sessions is one more.
    pub channel_max: u16,
    /// The number of transfer frames that the peer may send on a session before it needs another FLOW. At
    /// least 1.
    pub incoming_window: u32,
    /// The highest link handle of a session.
    pub handle_max: u32,
    /// The properties in OPEN. Keys are symbols.
    pub properties: Option<Map>,
    /// Which servers are trusted, and the certificate of the client. It is needed for a URL with `amqps://`.
    pub tls: Option<Arc<ClientConfig>>,
    /// The time limit for connecting, login and OPEN together, and also for CLOSE.
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
            tls: None,
            handshake_timeout: Duration::from_secs(20),
        }
    }
}

/// The options of a sending link.
#[derive(Clone, Debug, Default)]
pub struct SenderOptions {
    /// The name of the link. `None` means a name that is unique in the session.
    pub name: Option<String>,
    pub settle: Settle,
    /// The properties in ATTACH. Keys are symbols.
    pub properties: Option<Map>,
    pub capabilities: Vec<Symbol>,
    /// Requests a dynamic node. The address must then be `None`.
    pub dynamic: bool,
    /// The checksum that every message gets in its footer.
    pub checksum: Option<Checksum>,
}

/// Whether messages are sent settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Settle {
    /// Every message has an outcome. Delivery is at least once.
    #[default]
    Unsettled,
    /// No message has an outcome. Delivery is at most once.
    Settled,
    /// Each call that sends a message decides.
    Mixed,
}

/// The options of a receiving link.
#[derive(Clone, Debug, Default)]
pub struct ReceiverOptions {
    /// The name of the link. `None` means a name that is unique in the session.
    pub name: Option<String>,
    pub credit: Credit,
    /// True if the peer should send messages settled. Delivery is then at most once.
    pub settled: bool,
    /// The properties in ATTACH. Keys are symbols.
    pub properties: Option<Map>,
    /// The filter set of the source.
    pub filter: Option<Map>,
    pub capabilities: Vec<Symbol>,
    /// Requests a dynamic node. The address must then be `None`.
    pub dynamic: bool,
    /// The largest message that we accept, in bytes. 0 means no limit.
    pub max_message_size: u64,
}

/// How credit is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credit {
    /// The most messages that may be in flight or wait for the reader. Credit is granted again when half of
    /// them are read. At least 1.
    Auto(u32),
    /// Only [`Receiver::flow`](crate::Receiver::flow) grants credit.
    Manual,
}

impl Default for Credit {
    /// Grants 200 credits, and again when 100 messages are read.
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
