//! One end of a link [2.6].
//!
//! ```text
//!               ATTACH received            attach()
//!      (none) ------------------> Half ------------------> Attached
//!      (none) --attach()--------> Half --ATTACH received-> Attached
//!                                                             |
//!                         DETACH received (answered by detach())   detach() sent
//!                                     |                            |
//!                                   (none)                     Detaching --DETACH received--> (none)
//!
//!      Half --detach()--> Detaching, if we proposed the link: the peer's ATTACH and DETACH have not arrived yet.
//! ```

use bytes::Bytes;

use crate::credit::{ReceiverCredit, SenderCredit};
use crate::parts::Parts;
use crate::violation::Violation;
use crate::{DeliveryState, Map, ReceiverSettleMode, SenderSettleMode, Transfer};
use buffers::Chunk;

/// The longest name of a link and of a container, in bytes. The protocol sets no maximum. Names that clients make have some 100.
pub const NAME_MAX: usize = 2048;

/// Our end of a link, sending or receiving, with its credit.
#[derive(Debug)]
pub enum End {
    Sending(Sending),
    Receiving(Receiving),
}

/// The sending end.
#[derive(Debug)]
pub struct Sending {
    pub credit: SenderCredit,
    /// The properties of the last state report that was sent. `None` if there was none.
    pub(crate) reported: Option<Box<Map>>,
}

/// The receiving end.
#[derive(Debug, Default)]
pub struct Receiving {
    pub credit: ReceiverCredit,
    /// The incomplete delivery, if there is one.
    partial: Option<Partial>,
}

/// The states of a link. See the diagram above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    Half,
    Attached,
    Detaching,
}

/// A link of a session. Its number within the session is our handle for it.
#[derive(Debug)]
pub struct Link {
    pub name: String,
    /// The bytes that count for the link: those of the peer's ATTACH, or of the name if we have proposed the link.
    pub(crate) attached_bytes: usize,
    pub state: LinkState,
    pub end: End,
    /// The peer's handle, once its ATTACH is received.
    pub remote_handle: Option<u32>,
    /// The peer has sent DETACH, and we have not answered it yet.
    pub(crate) peer_detached: bool,
    pub snd_settle_mode: SenderSettleMode,
    pub rcv_settle_mode: ReceiverSettleMode,
    /// The size limit of a delivery on this link, in bytes. 0 means no limit. On a receiving link it is our
    /// limit, on a sending link the peer's.
    pub max_message_size: u64,
    /// Our initial delivery-count, if we send.
    pub(crate) initial_delivery_count: u32,
}

#[derive(Debug)]
struct Partial {
    delivery_id: u32,
    tag: Bytes,
    settled: bool,
    rcv_settle_mode: ReceiverSettleMode,
    message_format: u32,
    /// The peer resumes a delivery of an earlier attach. Its payload is not retained.
    resumed: bool,
    parts: Parts,
}

/// What both sides agreed on in their ATTACH frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// The size limit of a delivery, in bytes. 0 means no limit.
    pub max_message_size: u64,
    pub snd_settle_mode: SenderSettleMode,
    pub rcv_settle_mode: ReceiverSettleMode,
}

/// A complete delivery from the peer.
#[derive(Debug)]
pub struct Delivery<'a> {
    pub id: u32,
    pub tag: Chunk<'a>,
    pub message_format: u32,
    /// True if the sender has settled the delivery and expects no disposition.
    pub settled: bool,
    /// Says which side settles first. `Second` means that we settle after the sender. The mode is that of the
    /// link, unless the transfer has its own [2.7.5].
    pub rcv_settle_mode: ReceiverSettleMode,
    pub message: Chunk<'a>,
}

/// What a transfer did to a delivery.
#[derive(Debug)]
pub(crate) enum Progress {
    /// The last transfer of a delivery has arrived.
    Complete(Box<Delivery<'static>>),
    /// This transfer is the complete delivery.
    Whole(Whole),
    Incomplete,
    /// The delivery was aborted, or it resumes a delivery that we do not know.
    Discarded,
    /// The transfer is ignored, because its session has ended or its link is detached [2.5.5].
    Ignored,
}

/// The resolved fields of a delivery of one transfer. The [`Delivery`] is built later, where it is returned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whole {
    id: u32,
    settled: bool,
    rcv_settle_mode: ReceiverSettleMode,
}

impl Whole {
    #[inline]
    pub(crate) fn borrowed<'a>(
        self,
        transfer: &Transfer<'_>,
        frame: &'a [u8],
        payload_at: usize,
    ) -> Delivery<'a> {
        let tag = transfer.delivery_tag.unwrap_or_default();
        let tag_at = (tag.as_ptr() as usize).wrapping_sub(frame.as_ptr() as usize);
        let tag = frame.get(tag_at..tag_at.wrapping_add(tag.len())).unwrap_or_default();
        let message = frame.get(payload_at..).unwrap_or_default();
        self.delivery(transfer, Chunk::Borrowed(tag), Chunk::Borrowed(message))
    }

    #[inline]
    pub(crate) fn owned<'a>(self, transfer: &Transfer<'_>, frame: &Bytes, payload_at: usize) -> Delivery<'a> {
        let tag = frame.slice_ref(transfer.delivery_tag.unwrap_or_default());
        let message = frame.slice(payload_at.min(frame.len())..);
        self.delivery(transfer, Chunk::Owned(tag), Chunk::Owned(message))
    }

    #[inline(always)]
    fn delivery<'a>(self, transfer: &Transfer<'_>, tag: Chunk<'a>, message: Chunk<'a>) -> Delivery<'a> {
        let Self { id, settled, rcv_settle_mode } = self;
        let message_format = transfer.message_format.unwrap_or(0);
        Delivery { id, tag, message_format, settled, rcv_settle_mode, message }
    }
}

impl Link {
    /// Returns the credit of a sending link; 0 for a receiving link.
    pub fn sender_credit(&self) -> SenderCredit {
        match &self.end {
            End::Sending(sending) => sending.credit,
            End::Receiving(_) => SenderCredit::default(),
        }
    }

    /// Returns the credit of a receiving link; 0 for a sending link.
    pub fn receiver_credit(&self) -> ReceiverCredit {
        match &self.end {
            End::Receiving(receiving) => receiving.credit,
            End::Sending(_) => ReceiverCredit::default(),
        }
    }

    /// Whether a delivery is arriving: its first transfer was received, its last was not.
    pub fn is_receiving(&self) -> bool {
        matches!(&self.end, End::Receiving(Receiving { partial: Some(_), .. }))
    }

    pub(crate) fn terms(&self) -> Terms {
        let Self { max_message_size, snd_settle_mode, rcv_settle_mode, .. } = *self;
        Terms { max_message_size, snd_settle_mode, rcv_settle_mode }
    }

    /// Returns true if we proposed the link and the peer has not answered.
    pub(crate) fn awaits_attach(&self) -> bool {
        self.remote_handle.is_none() && !self.peer_detached
    }

    /// Returns true if the peer proposed the link and we have not answered.
    pub fn awaits_answer(&self) -> bool {
        self.state == LinkState::Half && !self.awaits_attach()
    }

    pub fn is_sending(&self) -> bool {
        matches!(self.end, End::Sending(_))
    }

    /// Drops the incomplete delivery. Returns the bytes of memory that it took.
    pub(crate) fn forget_partial(&mut self) -> usize {
        match &mut self.end {
            End::Receiving(receiving) => {
                receiving.partial.take().map_or(0, |partial| partial.parts.capacity())
            }
            End::Sending(_) => 0,
        }
    }
}

impl Sending {
    pub(crate) fn starting_at(initial_delivery_count: u32) -> Self {
        Self { credit: SenderCredit::starting_at(initial_delivery_count), reported: None }
    }
}

impl Receiving {
    pub(crate) fn starting_at(initial_delivery_count: u32) -> Self {
        Self { credit: ReceiverCredit::starting_at(initial_delivery_count), partial: None }
    }

    /// Returns the bytes of memory that the incomplete delivery takes.
    #[inline(always)]
    pub(crate) fn partial_bytes(&self) -> usize {
        self.partial.as_ref().map_or(0, |partial| partial.parts.capacity())
    }

    /// Handles one TRANSFER. The order of the checks is that of RabbitMQ.
    #[inline(always)]
    pub(crate) fn handle_transfer(
        &mut self,
        transfer: &Transfer<'_>,
        frame: &Chunk<'_>,
        payload_at: usize,
        terms: Terms,
    ) -> Result<Progress, Violation> {
        match &mut self.partial {
            Some(partial) => partial.check_continuation(transfer)?,
            None if self.credit.spend() => {}
            None => return Err(Violation::TransferLimitExceeded),
        }
        let settled = match &self.partial {
            Some(partial) => partial.settled,
            None => transfer.settled.unwrap_or(false),
        };
        if transfer.aborted {
            self.partial = None;
            return Ok(Progress::Discarded);
        }
        terms.check_modes(transfer, settled)?;
        let payload = frame.get(payload_at..).unwrap_or_default();
        let partial = match &mut self.partial {
            Some(partial) => partial,
            None => {
                // [2.7.5] The first transfer of a delivery carries its id.
                let Some(id) = transfer.delivery_id else {
                    return Err(Violation::InconsistentDelivery("missing delivery-id"));
                };
                let rcv_settle_mode = transfer.rcv_settle_mode.unwrap_or(terms.rcv_settle_mode);
                if !transfer.more && !transfer.resume {
                    terms.check_size(payload.len())?;
                    return Ok(Progress::Whole(Whole { id, settled, rcv_settle_mode }));
                }
                self.partial.insert(Partial {
                    delivery_id: id,
                    tag: Bytes::copy_from_slice(transfer.delivery_tag.unwrap_or_default()),
                    settled,
                    rcv_settle_mode,
                    message_format: transfer.message_format.unwrap_or(0),
                    resumed: transfer.resume,
                    parts: Parts::default(),
                })
            }
        };
        if !partial.resumed {
            terms.check_size(partial.parts.len() + payload.len())?;
            partial.parts.push(payload);
        }
        if transfer.more {
            return Ok(Progress::Incomplete);
        }
        Ok(self.partial.take().map_or(Progress::Incomplete, Partial::complete))
    }
}

impl Terms {
    fn check_modes(self, transfer: &Transfer<'_>, settled: bool) -> Result<(), Violation> {
        match self.snd_settle_mode {
            SenderSettleMode::Settled if !settled && !transfer.more => {
                return Err(Violation::SettledMismatch);
            }
            SenderSettleMode::Unsettled if settled => return Err(Violation::SettledMismatch),
            _ => {}
        }
        if transfer.state.as_ref().is_some_and(DeliveryState::is_transactional) {
            return Err(Violation::NoTransaction);
        }
        let second = transfer.rcv_settle_mode == Some(ReceiverSettleMode::Second);
        if second && !settled && self.rcv_settle_mode == ReceiverSettleMode::First {
            return Err(Violation::SettleModeSecond);
        }
        Ok(())
    }

    fn check_size(self, bytes: usize) -> Result<(), Violation> {
        let max = self.max_message_size;
        if max > 0 && bytes as u64 > max { Err(Violation::MessageSizeExceeded { max }) } else { Ok(()) }
    }
}

impl Partial {
    /// This function is not inlined, so that the path of a delivery with only one transfer stays short.
    #[inline(never)]
    fn check_continuation(&mut self, transfer: &Transfer<'_>) -> Result<(), Violation> {
        if transfer.delivery_id.is_some_and(|id| id != self.delivery_id) {
            return Err(Violation::InconsistentDelivery("delivery-id"));
        }
        if transfer.delivery_tag.is_some_and(|tag| tag != &self.tag[..]) {
            return Err(Violation::InconsistentDelivery("delivery-tag"));
        }
        match transfer.settled {
            // The sender may leave `settled` out until the last transfer [2.7.5].
            Some(false) if self.settled => return Err(Violation::InconsistentDelivery("settled")),
            Some(settled) => self.settled |= settled,
            None => {}
        }
        Ok(())
    }

    /// [2.6.13] A resumed delivery that is not in our unsettled map is ignored. Links are never recovered, so
    /// that map is always empty.
    fn complete(self) -> Progress {
        if self.resumed {
            return Progress::Discarded;
        }
        Progress::Complete(Box::new(Delivery {
            id: self.delivery_id,
            tag: Chunk::Owned(self.tag),
            message_format: self.message_format,
            settled: self.settled,
            rcv_settle_mode: self.rcv_settle_mode,
            message: Chunk::Owned(self.parts.join()),
        }))
    }
}
