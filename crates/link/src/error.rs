//! What ends a connection.

use std::fmt;

use crate::bounds::{LANES_MAX, MESSAGE_MAX, UNFINISHED_MAX, WINDOW};
use crate::frame::{Malformed, Reason, Way};
use crate::hello::{ClusterId, NodeIdentity};

/// Why a handshake failed. The text is for the operator. It never contains the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandshakeError {
    Malformed(Malformed),
    /// A frame of this kind does not belong into this state of the handshake.
    Unexpected(&'static str),
    /// The own name has so many bytes, more than [`NAME_MAX`](crate::NAME_MAX).
    LongName(usize),
    /// The peer understands no format that this node still talks.
    OlderFormat {
        peer: u32,
        own_min: u32,
    },
    /// The peer no longer talks a format that this node understands.
    NewerFormat {
        peer_min: u32,
        own: u32,
    },
    /// One side has a secret, and the other one relies on certificates alone.
    OtherWay {
        own: Way,
    },
    /// The peer speaks TLS, and this node does not.
    PeerUsesTls,
    /// The certificate of the peer is valid for nodes with these names, and not for the one that it says it is.
    NotCertified {
        name: String,
        names: Vec<String>,
    },
    /// The proof of the peer is wrong.
    WrongSecret,
    OtherCluster {
        own: ClusterId,
        peer: ClusterId,
    },
    OwnIdentity(NodeIdentity),
    /// A node that is in no cluster wants to send messages.
    NoCluster {
        node: NodeIdentity,
        name: String,
    },
    /// The acceptor answers for another role than the one that was dialed.
    OtherRole,
    /// The peer refuses the connection and says why.
    Refused {
        reason: Reason,
        text: String,
    },
}

impl HandshakeError {
    /// Returns what the peer is told, if anything. A peer that has not proved who it is learns only of formats, which the hello shows
    /// anyway, and that it has failed. The other reasons are found after the proofs.
    pub(crate) fn refusal(&self) -> Option<(Reason, String)> {
        let reason = match self {
            Self::OlderFormat { .. } | Self::NewerFormat { .. } => Reason::FORMAT,
            Self::OtherWay { .. } | Self::WrongSecret | Self::PeerUsesTls => {
                return Some((Reason::AUTHENTICATION, "authentication failed".to_owned()));
            }
            Self::OtherCluster { .. } => Reason::CLUSTER,
            Self::OwnIdentity(_) | Self::NotCertified { .. } => Reason::IDENTITY,
            Self::NoCluster { .. } => Reason::NO_CLUSTER,
            Self::Malformed(_)
            | Self::Unexpected(_)
            | Self::LongName(_)
            | Self::OtherRole
            | Self::Refused { .. } => return None,
        };
        Some((reason, self.to_string()))
    }
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(malformed) => write!(f, "{malformed}; is the peer a node of a cluster?"),
            Self::Unexpected(kind) => write!(f, "the frame '{kind}' does not belong at this point of the handshake"),
            Self::LongName(bytes) => write!(f, "the name of this node has {bytes} bytes, more than 255"),
            Self::OlderFormat { peer, own_min } => write!(
                f,
                "the peer is too old: it understands messages up to format {peer}, and this node talks format {own_min} or newer"
            ),
            Self::NewerFormat { peer_min, own } => write!(
                f,
                "the peer is too new: it talks format {peer_min} or newer, and this node understands messages up to format {own}"
            ),
            Self::OtherWay { own: Way::Secret } => {
                f.write_str("this node has a cluster secret, and the peer relies on its certificate alone")
            }
            Self::OtherWay { own: Way::Certificates } => {
                f.write_str("this node relies on its certificate alone, and the peer has a cluster secret")
            }
            Self::PeerUsesTls => f.write_str(
                "this node does not use TLS between nodes, and the peer does: set cluster.ssl_options on all nodes, or on none",
            ),
            Self::NotCertified { name, names } => {
                write!(f, "the certificate of the node is not valid for the host of {name:?}: ")?;
                match names.is_empty() {
                    true => f.write_str("it is valid for no host in the list of nodes"),
                    false => write!(f, "of the list of nodes, it is valid for {}", names.join(", ")),
                }
            }
            Self::WrongSecret => f.write_str("the peer has another cluster secret"),
            Self::OtherCluster { own, peer } => {
                write!(f, "the peer belongs to cluster {peer}, and this node to cluster {own}")
            }
            Self::OwnIdentity(node) => write!(
                f,
                "the peer has the identity {node} of this node: the address is this node's own, or the data directory is a copy"
            ),
            Self::NoCluster { node, name } => {
                write!(f, "node {name:?} ({node}) is in no cluster, so it may not send messages of shards")
            }
            Self::OtherRole => f.write_str("the peer answers for another kind of connection than the one that was dialed"),
            Self::Refused { reason: Reason::AUTHENTICATION, .. } => f.write_str(
                "the peer refuses this node because authentication failed: do both nodes have the same cluster secret?",
            ),
            // The text is quoted and escaped, because anything can be in it.
            Self::Refused { text, .. } => write!(f, "the peer refuses this node and says: {text:?}"),
        }
    }
}

impl std::error::Error for HandshakeError {}

impl From<Malformed> for HandshakeError {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

/// What a peer did wrong after the handshake. The connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkError {
    Malformed(Malformed),
    /// A frame of this kind does not belong on this connection, or not in this direction.
    Unexpected(&'static str),
    /// The peer has acknowledged more bytes than it was sent.
    AcknowledgedTooMuch {
        bytes: usize,
        unacknowledged: usize,
    },
    /// The peer has sent more than the window permits.
    WindowExceeded,
    /// The announced message is longer than [`MESSAGE_MAX`].
    LongMessage {
        lane: u64,
        bytes: usize,
    },
    /// More than [`LANES_MAX`] messages are unfinished.
    TooManyUnfinished,
    /// The unfinished messages would have more than [`UNFINISHED_MAX`] bytes.
    TooMuchUnfinished,
    /// The lane has no unfinished message that the piece could continue.
    NoFirstPiece {
        lane: u64,
    },
    /// A message begins before the previous one of its lane has ended.
    Overlap {
        lane: u64,
    },
    /// A message changes its shard between two pieces.
    OtherShard {
        lane: u64,
    },
    /// A piece has not the length that follows from the length of its message, or the message does not end with it as it should.
    PieceLength {
        lane: u64,
    },
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(malformed) => malformed.fmt(f),
            Self::Unexpected(kind) => write!(f, "the frame '{kind}' does not belong on this connection"),
            Self::AcknowledgedTooMuch { bytes, unacknowledged } => {
                write!(f, "the peer acknowledges {bytes} bytes, but only {unacknowledged} are unacknowledged")
            }
            Self::WindowExceeded => write!(f, "the peer has sent more than the window of {WINDOW} bytes"),
            Self::LongMessage { lane, bytes } => {
                write!(f, "lane {lane}: a message of {bytes} bytes is longer than {MESSAGE_MAX}")
            }
            Self::TooManyUnfinished => write!(f, "the peer has more than {LANES_MAX} unfinished messages"),
            Self::TooMuchUnfinished => {
                write!(f, "the unfinished messages of the peer have more than {UNFINISHED_MAX} bytes")
            }
            Self::NoFirstPiece { lane } => {
                write!(f, "lane {lane}: a piece continues a message that has not begun")
            }
            Self::Overlap { lane } => {
                write!(f, "lane {lane}: a message begins before the previous one has ended")
            }
            Self::OtherShard { lane } => write!(f, "lane {lane}: a message changes its shard"),
            Self::PieceLength { lane } => {
                write!(f, "lane {lane}: the length of a piece does not fit its message")
            }
        }
    }
}

impl std::error::Error for LinkError {}

impl From<Malformed> for LinkError {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}
