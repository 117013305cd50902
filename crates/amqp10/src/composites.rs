//! The composites of the standard: the types inside performatives and sections. Nearly all are generated. The delivery states
//! [3.4] and the targets of links [2.7.3] are choices of several, and written here.

use bytes::{BufMut, BytesMut};

use crate::decode::{DecodeError, Field, Reader};
use crate::encode::{Encode, put_value};
use crate::types::{Described, Value};

mod generated;

pub use generated::*;

/// The state of a delivery, as one end reports it [3.4]. All states are final except `Received` and some of
/// `Other`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryState {
    /// How much of the message has arrived; not final [3.4.1].
    Received(Received),
    /// [3.4.2]
    Accepted,
    /// [3.4.3]
    Rejected(Option<AmqpError>),
    /// [3.4.4]
    Released,
    /// [3.4.5]
    Modified(Modified),
    /// Any other described value, such as the states of transactions [4.5.5, 4.5.8]. It is not interpreted.
    Other(Box<Described>),
}

/// The encoding of `accepted` that nearly all dispositions contain.
pub(crate) const ACCEPTED: [u8; 4] = [0x00, 0x53, 0x24, 0x45];

impl DeliveryState {
    /// Reads a state that must be present.
    ///
    /// # Errors
    /// The value is malformed, null, or not described.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        Self::read(reader)?.ok_or(DecodeError::WrongType { offset, code: 0x40, expected: "delivery-state" })
    }

    /// Returns true if the state makes the delivery part of a transaction [4.5.8].
    pub fn is_transactional(&self) -> bool {
        let Self::Other(described) = self else { return false };
        match &described.descriptor {
            Value::Ulong(code) => *code == descriptor::TRANSACTIONAL_STATE,
            Value::Symbol(name) => {
                descriptor::from_symbol(name.as_str()) == Some(descriptor::TRANSACTIONAL_STATE)
            }
            _ => false,
        }
    }

    /// Returns true for the four outcomes with which a receiver settles.
    pub fn is_outcome(&self) -> bool {
        !matches!(self, Self::Received(_) | Self::Other(_))
    }
}

impl Field for DeliveryState {
    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.take_null() {
            Ok(None)
        } else if reader.take_exact(&ACCEPTED) {
            Ok(Some(DeliveryState::Accepted))
        } else {
            read_state(reader).map(Some)
        }
    }
}

#[inline(never)]
fn read_state(reader: &mut Reader<'_>) -> Result<DeliveryState, DecodeError> {
    let (offset, code) = (reader.offset(), reader.peek());
    let mut ahead = reader.clone();
    let state = match ahead.read_descriptor() {
        Ok(descriptor::ACCEPTED) => {
            Accepted::decode_fields(&mut ahead)?;
            DeliveryState::Accepted
        }
        Ok(descriptor::RELEASED) => {
            Released::decode_fields(&mut ahead)?;
            DeliveryState::Released
        }
        Ok(descriptor::REJECTED) => DeliveryState::Rejected(Rejected::decode_fields(&mut ahead)?.error),
        Ok(descriptor::MODIFIED) => DeliveryState::Modified(Modified::decode_fields(&mut ahead)?),
        Ok(descriptor::RECEIVED) => DeliveryState::Received(Received::decode_fields(&mut ahead)?),
        _ => match reader.read_value()? {
            Value::Described(described) => return Ok(DeliveryState::Other(described)),
            _ => {
                let code = code.unwrap_or_default();
                return Err(DecodeError::WrongType { offset, code, expected: "delivery-state" });
            }
        },
    };
    *reader = ahead;
    Ok(state)
}

impl Encode for DeliveryState {
    #[inline]
    fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Accepted => out.put_slice(&ACCEPTED),
            Self::Released => out.put_slice(&[0x00, 0x53, 0x26, 0x45]),
            Self::Rejected(None) => out.put_slice(&[0x00, 0x53, 0x25, 0x45]),
            Self::Rejected(error) => Rejected { error: error.clone() }.encode(out),
            Self::Modified(modified) => modified.encode(out),
            Self::Received(received) => received.encode(out),
            Self::Other(described) => {
                out.put_u8(0x00);
                put_value(out, &described.descriptor);
                put_value(out, &described.value);
            }
        }
    }
}

/// The possible kinds of target of a link [2.7.3, 4.5.1].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetArchetype {
    /// A node that accepts messages [3.5.4].
    Target(Target),
    /// The transaction coordinator of the peer [4.5.1].
    Coordinator(Coordinator),
}

impl Field for TargetArchetype {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.take_null() {
            return Ok(None);
        }
        let offset = reader.offset();
        Ok(Some(match reader.read_descriptor()? {
            descriptor::TARGET => Self::Target(Target::decode_fields(reader)?),
            descriptor::COORDINATOR => Self::Coordinator(Coordinator::decode_fields(reader)?),
            _ => return Err(DecodeError::UnknownDescriptor { offset }),
        }))
    }
}

impl Encode for TargetArchetype {
    fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Target(target) => target.encode(out),
            Self::Coordinator(coordinator) => coordinator.encode(out),
        }
    }
}
