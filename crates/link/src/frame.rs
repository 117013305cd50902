//! The encoding of frames. Numbers are little-endian.
//!
//! ```text
//!  frame       length u32, of the whole frame | kind u8 | ...
//!    1 hello     nonce 32 bytes | way u8 (0 certificates, 1 secret) | oldest format u32 | format u32 | role u16 |
//!                node 16 bytes | boot u64 | cluster 16 bytes | number u32 | name, to the end
//!    2 proof     HMAC-SHA-256, 32 bytes
//!    3 refused   reason u8 | text, to the end
//!    4 piece     lane u64 | shard u8 | flags u8 (1 first, 2 last) | if first: length of the message u32 |
//!                bytes, to the end
//!    5 window    bytes u32
//!    6 word      bytes, to the end
//!  role        0 heartbeats, 1 + n shard n
//! ```
//!
//! A decoder accepts exactly what the encoder writes. It never panics, and allocates no more than the length of the input.
//! The layouts of hello and refused never change: nodes of all formats read them.

use bytes::{Buf, Bytes, BytesMut};

use crate::hello::{ClusterId, Hello, NodeIdentity, Role};

/// The longest frame in bytes, with its head. A frame of one lane delays the other lanes by no more than this.
pub const FRAME_MAX: usize = 64 * 1024;
/// The longest name of a node in bytes.
pub const NAME_MAX: usize = 255;
/// The longest text of a refusal in bytes. It goes to a log, so it is one line.
pub const TEXT_MAX: usize = 255;
/// The longest word in bytes. Nodes say little about themselves, and a word must not delay the next heartbeat.
pub const WORD_MAX: usize = 32 * 1024;
/// The bytes of a message in one piece. A piece that is not the last of its message has exactly this length.
pub const PIECE_MAX: usize = FRAME_MAX - PIECE_HEAD - TOTAL;
/// The longest frame of a handshake in bytes. A peer that has proved nothing cannot make this node keep more.
pub(crate) const HANDSHAKE_FRAME_MAX: usize = HEAD + 32 + 1 + 4 + 4 + 2 + 16 + 8 + 16 + 4 + NAME_MAX;

/// Length and kind.
const HEAD: usize = 5;
/// The head of a piece: frame head, lane, shard, flags.
const PIECE_HEAD: usize = HEAD + 8 + 1 + 1;
/// The length of the message, in its first piece.
const TOTAL: usize = 4;

const FIRST: u8 = 1;
const LAST: u8 = 2;

/// The bytes are not a valid frame. The text names the part that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "malformed frame: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

/// A random number that each side draws for one handshake.
pub type Nonce = [u8; 32];

/// How a side proves who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The connection is TLS, and both certificates were verified before the first frame.
    Certificates,
    /// Both sides know a secret.
    Secret,
}

/// Why a side refuses the other one. Later formats may add codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason(pub u8);

impl Reason {
    /// The two nodes have no common format.
    pub const FORMAT: Self = Self(1);
    /// The proof is wrong, or the two sides prove themselves in different ways. Nothing more is said.
    pub const AUTHENTICATION: Self = Self(2);
    /// The two nodes belong to different clusters.
    pub const CLUSTER: Self = Self(3);
    /// The two nodes have one identity.
    pub const IDENTITY: Self = Self(4);
    /// The node that dials is in no cluster, so it may not send messages.
    pub const NO_CLUSTER: Self = Self(5);
}

/// The first frame of each side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    pub nonce: Nonce,
    pub way: Way,
    /// The oldest format that the node can still talk.
    pub format_min: u32,
    pub hello: Hello,
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub lane: u64,
    /// The shard of the receiver.
    pub shard: u8,
    /// The length of the whole message in bytes. Only the first piece has it.
    pub total: Option<u32>,
    pub is_last: bool,
    /// At most [`PIECE_MAX`] bytes.
    pub bytes: Bytes,
}

impl Piece {
    /// Returns the length of the frame in bytes: what the piece takes of the window.
    pub fn frame_len(&self) -> usize {
        PIECE_HEAD + self.total.map_or(0, |_| TOTAL) + self.bytes.len()
    }
}

/// A frame. The encoder relies on the bounds of the constants: a decoder refuses a frame with longer contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    Hello(Greeting),
    Proof([u8; 32]),
    Refused {
        reason: Reason,
        /// At most [`TEXT_MAX`] bytes.
        text: String,
    },
    Piece(Piece),
    /// The receiver has taken so many bytes of pieces, with their heads.
    Window {
        bytes: u32,
    },
    /// At most [`WORD_MAX`] bytes.
    Word(Bytes),
}

impl Frame {
    /// Returns the name of the kind, for error messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Hello(_) => "hello",
            Self::Proof(_) => "proof",
            Self::Refused { .. } => "refused",
            Self::Piece(_) => "piece",
            Self::Window { .. } => "window",
            Self::Word(_) => "word",
        }
    }

    pub fn encode(&self, into: &mut Vec<u8>) {
        let start = into.len();
        into.extend_from_slice(&[0; HEAD]);
        let kind = match self {
            Self::Hello(greeting) => {
                put_greeting(into, greeting);
                1
            }
            Self::Proof(proof) => {
                into.extend_from_slice(proof);
                2
            }
            Self::Refused { reason, text } => {
                into.push(reason.0);
                into.extend_from_slice(text.as_bytes());
                3
            }
            Self::Piece(piece) => {
                let Piece { lane, shard, total, is_last, bytes } = piece;
                into.extend_from_slice(&lane.to_le_bytes());
                let first = if total.is_some() { FIRST } else { 0 };
                into.extend_from_slice(&[*shard, first | if *is_last { LAST } else { 0 }]);
                if let Some(total) = total {
                    into.extend_from_slice(&total.to_le_bytes());
                }
                into.extend_from_slice(bytes);
                4
            }
            Self::Window { bytes } => {
                into.extend_from_slice(&bytes.to_le_bytes());
                5
            }
            Self::Word(bytes) => {
                into.extend_from_slice(bytes);
                6
            }
        };
        let length = into.len() - start;
        debug_assert!(length <= FRAME_MAX, "a frame of {length} bytes");
        into[start..start + 4].copy_from_slice(&(length as u32).to_le_bytes());
        into[start + 4] = kind;
    }

    /// Takes one frame from the front of `buffer`. Returns `None`, and takes nothing, if the frame is not complete. The bytes of a
    /// piece or word are a slice of the buffer.
    ///
    /// # Errors
    ///
    /// [`Malformed`] as soon as the head is wrong, or when the frame is complete. The connection must be closed then.
    pub fn take(buffer: &mut BytesMut) -> Result<Option<Self>, Malformed> {
        Self::take_within(buffer, FRAME_MAX)
    }

    /// [`take`](Self::take) with another bound for the length of the frame.
    pub(crate) fn take_within(buffer: &mut BytesMut, frame_max: usize) -> Result<Option<Self>, Malformed> {
        let Some(length) = buffer.first_chunk() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if !(HEAD..=frame_max).contains(&length) {
            return Err(Malformed("length of the frame"));
        }
        if buffer.get(4).is_some_and(|kind| !(1..=6).contains(kind)) {
            return Err(KIND);
        }
        if buffer.len() < length {
            return Ok(None);
        }
        let mut reader = Reader(buffer.split_to(length).freeze());
        reader.0.advance(4);
        let frame = match reader.u8()? {
            1 => Self::Hello(reader.greeting()?),
            2 => Self::Proof(reader.array()?),
            3 => Self::Refused { reason: Reason(reader.u8()?), text: reader.text(TEXT_MAX)? },
            4 => Self::Piece(reader.piece()?),
            5 => Self::Window { bytes: reader.u32()? },
            6 => Self::Word(reader.rest(WORD_MAX)?),
            _ => return Err(KIND),
        };
        if reader.0.is_empty() { Ok(Some(frame)) } else { Err(CONTENT) }
    }
}

fn put_greeting(into: &mut Vec<u8>, greeting: &Greeting) {
    let Greeting { nonce, way, format_min, hello } = greeting;
    let Hello { role, node, boot, cluster, number, format, name } = hello;
    let role = match role {
        Role::Heartbeats => 0,
        Role::Shard(shard) => 1 + u16::from(*shard),
    };
    into.extend_from_slice(nonce);
    into.push(u8::from(*way == Way::Secret));
    into.extend_from_slice(&format_min.to_le_bytes());
    into.extend_from_slice(&format.to_le_bytes());
    into.extend_from_slice(&role.to_le_bytes());
    into.extend_from_slice(&node.0);
    into.extend_from_slice(&boot.to_le_bytes());
    into.extend_from_slice(&cluster.0);
    into.extend_from_slice(&number.to_le_bytes());
    into.extend_from_slice(name.as_bytes());
}

struct Reader(Bytes);

const KIND: Malformed = Malformed("kind of the frame");
const CONTENT: Malformed = Malformed("length of the content");

impl Reader {
    fn u8(&mut self) -> Result<u8, Malformed> {
        self.0.try_get_u8().map_err(|_| CONTENT)
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        self.0.try_get_u16_le().map_err(|_| CONTENT)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.0.try_get_u32_le().map_err(|_| CONTENT)
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        self.0.try_get_u64_le().map_err(|_| CONTENT)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let mut array = [0; N];
        self.0.try_copy_to_slice(&mut array).map_err(|_| CONTENT)?;
        Ok(array)
    }

    fn rest(&mut self, max: usize) -> Result<Bytes, Malformed> {
        if self.0.len() <= max { Ok(self.0.split_off(0)) } else { Err(CONTENT) }
    }

    fn text(&mut self, max: usize) -> Result<String, Malformed> {
        let bytes = self.rest(max)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| Malformed("text is not UTF-8"))?;
        Ok(text.to_owned())
    }

    fn greeting(&mut self) -> Result<Greeting, Malformed> {
        let nonce = self.array()?;
        let way = match self.u8()? {
            0 => Way::Certificates,
            1 => Way::Secret,
            _ => return Err(Malformed("way of authentication")),
        };
        let (format_min, format) = (self.u32()?, self.u32()?);
        let role = match self.u16()? {
            0 => Role::Heartbeats,
            role => Role::Shard(u8::try_from(role - 1).map_err(|_| Malformed("role"))?),
        };
        let hello = Hello {
            role,
            node: NodeIdentity(self.array()?),
            boot: self.u64()?,
            cluster: ClusterId(self.array()?),
            number: self.u32()?,
            format,
            name: self.text(NAME_MAX)?,
        };
        Ok(Greeting { nonce, way, format_min, hello })
    }

    fn piece(&mut self) -> Result<Piece, Malformed> {
        let (lane, shard, flags) = (self.u64()?, self.u8()?, self.u8()?);
        if flags & !(FIRST | LAST) != 0 {
            return Err(Malformed("flags of the piece"));
        }
        let total = if flags & FIRST != 0 { Some(self.u32()?) } else { None };
        let bytes = self.rest(PIECE_MAX)?;
        Ok(Piece { lane, shard, total, is_last: flags & LAST != 0, bytes })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn role() -> impl Strategy<Value = Role> {
        prop_oneof![Just(Role::Heartbeats), any::<u8>().prop_map(Role::Shard)]
    }

    fn greeting() -> impl Strategy<Value = Greeting> {
        let numbers =
            (any::<[u8; 32]>(), any::<bool>(), any::<u32>(), any::<u64>(), any::<u32>(), any::<u32>());
        let ids = (role(), any::<[u8; 16]>(), any::<[u8; 16]>(), "\\PC{0,60}");
        (numbers, ids).prop_map(
            |((nonce, secret, format_min, boot, number, format), (role, node, cluster, name))| {
                let way = if secret { Way::Secret } else { Way::Certificates };
                let (node, cluster) = (NodeIdentity(node), ClusterId(cluster));
                Greeting {
                    nonce,
                    way,
                    format_min,
                    hello: Hello { role, node, boot, cluster, number, format, name },
                }
            },
        )
    }

    fn bytes(max: usize) -> impl Strategy<Value = Bytes> {
        prop_oneof![0..100_usize, max - 1..=max]
            .prop_map(|length| Bytes::from_iter((0..length).map(|at| at as u8)))
    }

    fn frame() -> impl Strategy<Value = Frame> {
        let piece = (any::<u64>(), any::<u8>(), any::<Option<u32>>(), any::<bool>(), bytes(PIECE_MAX));
        prop_oneof![
            greeting().prop_map(Frame::Hello),
            any::<[u8; 32]>().prop_map(Frame::Proof),
            (any::<u8>(), "\\PC{0,60}")
                .prop_map(|(code, text)| Frame::Refused { reason: Reason(code), text }),
            piece.prop_map(|(lane, shard, total, is_last, bytes)| {
                Frame::Piece(Piece { lane, shard, total, is_last, bytes })
            }),
            any::<u32>().prop_map(|bytes| Frame::Window { bytes }),
            bytes(WORD_MAX).prop_map(Frame::Word),
        ]
    }

    proptest! {
        /// A frame is read as it was written, as soon as its last byte is there and not earlier.
        #[test]
        fn frames_are_read_as_written(frame in frame(), next in any::<u8>()) {
            let mut encoded = Vec::new();
            frame.encode(&mut encoded);
            if let Frame::Piece(piece) = &frame {
                prop_assert_eq!(piece.frame_len(), encoded.len());
            }
            let mut buffer = BytesMut::from(&encoded[..encoded.len() - 1]);
            prop_assert_eq!(Frame::take(&mut buffer), Ok(None));
            buffer.extend_from_slice(&[*encoded.last().unwrap(), next]);
            prop_assert_eq!(Frame::take(&mut buffer), Ok(Some(frame)));
            prop_assert_eq!(&buffer[..], &[next]);
        }

        /// Bytes that are accepted are exactly what the encoder writes.
        #[test]
        fn nothing_else_is_read(frame in frame(), at in any::<prop::sample::Index>(), value in any::<u8>(), early in any::<bool>()) {
            let mut encoded = Vec::new();
            frame.encode(&mut encoded);
            let at = if early { at.index(encoded.len().min(20)) } else { at.index(encoded.len()) };
            encoded[at] = value;
            let mut buffer = BytesMut::from(&encoded[..]);
            if let Ok(Some(read)) = Frame::take(&mut buffer) {
                let mut again = Vec::new();
                read.encode(&mut again);
                prop_assert_eq!(&again[..], &encoded[..encoded.len() - buffer.len()]);
            }
        }
    }

    #[test]
    fn bounds_are_checked_before_the_content_arrives() {
        for (head, error) in [
            (vec![4, 0, 0, 0], "length of the frame"),
            (vec![1, 0, 1, 0], "length of the frame"),
            (vec![9, 0, 0, 0, 7], "kind of the frame"),
        ] {
            assert_eq!(Frame::take(&mut BytesMut::from(&head[..])), Err(Malformed(error)));
        }
        let long = [
            Frame::Word(vec![0; WORD_MAX + 1].into()),
            Frame::Refused { reason: Reason::FORMAT, text: "x".repeat(TEXT_MAX + 1) },
        ];
        for frame in long {
            let mut encoded = Vec::new();
            frame.encode(&mut encoded);
            assert_eq!(Frame::take(&mut BytesMut::from(&encoded[..])), Err(CONTENT));
        }
    }
}
