//! Performatives: the first value in every frame body [2.7].
//!
//! Most frames of a busy connection are transfer, disposition and flow. A transfer borrows from its frame,
//! and nothing is allocated for it. The types of the other performatives are generated and owned.

use bytes::BytesMut;

use crate::composites::{
    AmqpError, Attach, Begin, Close, DeliveryState, Detach, Disposition, End, Flow, Open, Role,
};
use crate::decode::{DecodeError, Reader};
use crate::descriptor;
use crate::encode::{Encode, ListWriter};
use crate::frame::{FrameKind, begin_frame, end_frame};

mod disposition;
mod sasl_frame;
mod transfer;

use self::disposition::{decode_accepted, put_accepted_frame};
pub use sasl_frame::{SaslFrame, put_sasl_frame};
pub(crate) use transfer::TAG_MAX;
pub use transfer::{Transfer, TransferHead, put_transfer_frame, transfer_frame_overhead_max};

/// The performative of an AMQP frame [2.7].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Performative<'a> {
    /// [2.7.1]
    Open(Box<Open>),
    /// [2.7.2]
    Begin(Begin),
    /// [2.7.3]
    Attach(Box<Attach>),
    /// [2.7.4]
    Flow(Flow),
    /// [2.7.5]
    Transfer(Transfer<'a>),
    /// [2.7.6]
    Disposition(Disposition),
    /// [2.7.7]
    Detach(Detach),
    /// [2.7.8]
    End(End),
    /// [2.7.9]
    Close(Close),
}

impl<'a> Performative<'a> {
    /// Reads the performative at the start of a frame body that is not empty. Returns its length in bytes,
    /// too. The payload of a transfer follows it.
    ///
    /// # Errors
    /// The descriptor is not a performative, a field is malformed, or bytes follow a performative other than
    /// transfer.
    #[inline]
    pub fn decode(body: &'a [u8]) -> Result<(Self, usize), DecodeError> {
        match Transfer::decode_plain(body) {
            Some((transfer, payload)) => Ok((Self::Transfer(transfer), body.len() - payload.len())),
            None => Self::decode_any(body),
        }
    }

    /// Decodes a performative in any encoding, and reports errors. Called if the fast decoder does not
    /// recognize the encoding.
    fn decode_any(body: &'a [u8]) -> Result<(Self, usize), DecodeError> {
        match decode_accepted(body) {
            Some(disposition) => Ok((Self::Disposition(disposition), body.len())),
            None => Self::decode_in_full(body),
        }
    }

    fn decode_in_full(body: &'a [u8]) -> Result<(Self, usize), DecodeError> {
        let mut reader = Reader::new(body);
        let code = reader.read_descriptor()?;
        if code == descriptor::TRANSFER {
            let transfer = Transfer::decode_fields(&mut reader)?;
            return Ok((Self::Transfer(transfer), reader.position()));
        }
        let performative = Self::decode_control(code, &mut reader)?;
        reader.expect_end()?;
        Ok((performative, reader.position()))
    }

    fn decode_control(code: u64, reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(match code {
            descriptor::FLOW => Self::Flow(Flow::decode_fields(reader)?),
            descriptor::DISPOSITION => Self::Disposition(Disposition::decode_fields(reader)?),
            descriptor::OPEN => Self::Open(Box::new(Open::decode_fields(reader)?)),
            descriptor::BEGIN => Self::Begin(Begin::decode_fields(reader)?),
            descriptor::ATTACH => Self::Attach(Box::new(Attach::decode_fields(reader)?)),
            descriptor::DETACH => Self::Detach(Detach::decode_fields(reader)?),
            descriptor::END => Self::End(End::decode_fields(reader)?),
            descriptor::CLOSE => Self::Close(Close::decode_fields(reader)?),
            _ => return Err(DecodeError::UnknownDescriptor { offset: 0 }),
        })
    }

    /// Returns the name in the specification, for logs and errors.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Open(_) => "open",
            Self::Begin(_) => "begin",
            Self::Attach(_) => "attach",
            Self::Flow(_) => "flow",
            Self::Transfer(_) => "transfer",
            Self::Disposition(_) => "disposition",
            Self::Detach(_) => "detach",
            Self::End(_) => "end",
            Self::Close(_) => "close",
        }
    }
}

impl Encode for Performative<'_> {
    fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Open(open) => open.encode(out),
            Self::Begin(begin) => begin.encode(out),
            Self::Attach(attach) => attach.encode(out),
            Self::Flow(flow) => flow.encode(out),
            Self::Transfer(transfer) => transfer.encode(out),
            Self::Disposition(disposition) => disposition.encode(out),
            Self::Detach(detach) => detach.encode(out),
            Self::End(end) => end.encode(out),
            Self::Close(close) => close.encode(out),
        }
    }
}

/// Appends a disposition frame [2.7.6] for the deliveries `first..=last`. Without `last` it is for `first`
/// alone. `role` is our role on the link.
pub fn put_disposition_frame(
    out: &mut BytesMut,
    channel: u16,
    role: Role,
    first: u32,
    last: Option<u32>,
    settled: bool,
    state: &DeliveryState,
) {
    if matches!(state, DeliveryState::Accepted) {
        return put_accepted_frame(out, channel, role, first, last, settled);
    }
    let start = begin_frame(out, FrameKind::Amqp, channel);
    let mut list = ListWriter::new(out, descriptor::DISPOSITION);
    list.put(&role);
    list.put(&first);
    list.optional(&last);
    list.or(&settled, &false);
    list.put(state);
    list.finish();
    end_frame(out, start, 0);
}

/// Appends a flow frame [2.7.4].
pub fn put_flow_frame(out: &mut BytesMut, channel: u16, flow: &Flow) {
    put_frame(out, channel, flow);
}

/// Appends a frame with a performative and no payload.
pub fn put_frame<P: Encode + ?Sized>(out: &mut BytesMut, channel: u16, performative: &P) {
    let start = begin_frame(out, FrameKind::Amqp, channel);
    performative.encode(out);
    end_frame(out, start, 0);
}

/// Appends a frame without payload. Returns false, and writes nothing, if it is larger than `size_max` bytes.
pub fn put_frame_within<P: Encode + ?Sized>(
    out: &mut BytesMut,
    channel: u16,
    performative: &P,
    size_max: usize,
) -> bool {
    let start = out.len();
    put_frame(out, channel, performative);
    let fits = out.len() - start <= size_max;
    if !fits {
        out.truncate(start);
    }
    fits
}

/// The most bytes that a frame with an error needs besides the error itself.
const AROUND_ERROR_MAX: usize = 64;

impl AmqpError {
    /// Shortens the error so that it fits a frame of `size_max` bytes [2.7.1]. First the info is removed,
    /// then the end of the description.
    #[must_use]
    pub fn within(mut self, size_max: usize) -> Self {
        let room = size_max.saturating_sub(AROUND_ERROR_MAX);
        let size = |error: &Self| {
            let mut encoded = BytesMut::new();
            error.encode(&mut encoded);
            encoded.len()
        };
        if size(&self) > room {
            self.info = None;
        }
        let too_much = size(&self).saturating_sub(room);
        if let Some(description) = self.description.as_mut().filter(|_| too_much > 0) {
            let kept = description.floor_char_boundary(description.len().saturating_sub(too_much));
            description.truncate(kept);
        }
        self
    }
}

#[cfg(test)]
mod tests;
