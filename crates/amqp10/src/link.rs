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
//!      Half --detach()--> Detaching, if we proposed the link: the peer's ATTACH and DETACH are still to come.
//! ```

use bytes::{Bytes, BytesMut};

use crate::chunk::Chunk;
use crate::credit::{ReceiverCredit, SenderCredit};
use crate::violation::Violation;
use crate::{ReceiverSettleMode, SenderSettleMode, Transfer};

/// Our end of a link: sending or receiving, with its credit.
#[derive(Debug)]
pub enum End {
    Sending(SenderCredit),
    Receiving(Receiving),
}

/// The receiving end.
#[derive(Debug, Default)]
pub struct Receiving {
    pub credit: ReceiverCredit,
    /// A delivery whose last transfer has not come yet.
    partial: Option<Partial>,
}

/// See the drawing above.
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
    pub state: LinkState,
    pub end: End,
    /// The peer's handle, once its ATTACH has come.
    pub remote_handle: Option<u32>,
    /// The peer has sent DETACH, and ours is still to come.
    pub(crate) peer_detached: bool,
    pub snd_settle_mode: SenderSettleMode,
    pub rcv_settle_mode: ReceiverSettleMode,
    /// Largest delivery this link takes, in bytes; 0 is no limit. Ours if we receive, the peer's if we send.
    pub max_message_size: u64,
    /// Our initial delivery-count, if we send.
    pub(crate) initial_delivery_count: u32,
}

#[derive(Debug)]
struct Partial {
    delivery_id: u32,
    tag: Bytes,
    settled: bool,
    message_format: u32,
    bytes: BytesMut,
}

/// A whole delivery from the peer.
#[derive(Debug)]
pub struct Delivery<'a> {
    pub id: u32,
    pub tag: Chunk<'a>,
    pub message_format: u32,
    /// The sender has settled it: it expects no disposition.
    pub settled: bool,
    pub message: Chunk<'a>,
}

/// What a transfer made of a delivery.
#[derive(Debug)]
pub(crate) enum Progress<'a> {
    Complete(Delivery<'a>),
    Incomplete,
    Aborted,
}

impl Link {
    /// Credit of a sending link; 0 for a receiving one.
    pub fn sender_credit(&self) -> SenderCredit {
        match &self.end {
            End::Sending(credit) => *credit,
            End::Receiving(_) => SenderCredit::default(),
        }
    }

    /// Credit of a receiving link.
    pub fn receiver_credit(&self) -> ReceiverCredit {
        match &self.end {
            End::Receiving(receiving) => receiving.credit,
            End::Sending(_) => ReceiverCredit::default(),
        }
    }

    /// We have proposed it and the peer has not answered.
    pub(crate) fn awaits_attach(&self) -> bool {
        self.remote_handle.is_none() && !self.peer_detached
    }

    pub fn is_sending(&self) -> bool {
        matches!(self.end, End::Sending(_))
    }

    /// Bytes of the delivery under way.
    pub(crate) fn partial_bytes(&self) -> usize {
        match &self.end {
            End::Receiving(Receiving { partial: Some(partial), .. }) => partial.bytes.len(),
            _ => 0,
        }
    }
}

impl Receiving {
    pub(crate) fn starting_at(initial_delivery_count: u32) -> Self {
        Self { credit: ReceiverCredit::starting_at(initial_delivery_count), partial: None }
    }

    /// One TRANSFER; the checks are those of behaviour B.4, in its order.
    pub(crate) fn handle_transfer<'a>(
        &mut self,
        transfer: &Transfer<'_>,
        frame: &Chunk<'a>,
        payload_at: usize,
        max_message_size: u64,
        snd_settle_mode: SenderSettleMode,
    ) -> Result<Progress<'a>, Violation> {
        let payload = frame.from(payload_at);
        let first = self.partial.is_none();
        if let Some(partial) = &mut self.partial {
            if transfer.delivery_id.is_some_and(|id| id != partial.delivery_id) {
                return Err(Violation::InconsistentDelivery("delivery-id"));
            }
            if transfer.delivery_tag.is_some_and(|tag| tag != &partial.tag[..]) {
                return Err(Violation::InconsistentDelivery("delivery-tag"));
            }
            match transfer.settled {
                // A sender may settle late, with the last transfer [2.7.5].
                Some(false) if partial.settled => return Err(Violation::InconsistentDelivery("settled")),
                Some(settled) => partial.settled |= settled,
                None => {}
            }
        } else if !self.credit.spend() {
            return Err(Violation::TransferLimitExceeded);
        }
        let settled = match &self.partial {
            Some(partial) => partial.settled,
            None => transfer.settled.unwrap_or(false),
        };
        if transfer.aborted {
            self.partial = None;
            return Ok(Progress::Aborted);
        }
        match snd_settle_mode {
            SenderSettleMode::Settled if !settled && !transfer.more => {
                return Err(Violation::SettledMismatch);
            }
            SenderSettleMode::Unsettled if settled => return Err(Violation::SettledMismatch),
            _ => {}
        }
        if !settled && transfer.rcv_settle_mode == Some(ReceiverSettleMode::Second) {
            return Err(Violation::SettleModeSecond);
        }
        let so_far = self.partial.as_ref().map_or(0, |p| p.bytes.len());
        if max_message_size > 0 && (so_far + payload.len()) as u64 > max_message_size {
            return Err(Violation::MessageSizeExceeded { max: max_message_size });
        }
        if first {
            // [2.7.5] The first transfer of a delivery carries its id.
            let Some(id) = transfer.delivery_id else {
                return Err(Violation::InconsistentDelivery("missing delivery-id"));
            };
            let tag = transfer.delivery_tag.unwrap_or_default();
            let message_format = transfer.message_format.unwrap_or(0);
            if !transfer.more {
                let tag = frame.sub(tag);
                return Ok(Progress::Complete(Delivery {
                    id,
                    tag,
                    message_format,
                    settled,
                    message: payload,
                }));
            }
            self.partial = Some(Partial {
                delivery_id: id,
                tag: Bytes::copy_from_slice(tag),
                settled,
                message_format,
                bytes: BytesMut::from(&payload[..]),
            });
            return Ok(Progress::Incomplete);
        }
        let Some(partial) = &mut self.partial else { return Ok(Progress::Incomplete) };
        partial.bytes.extend_from_slice(&payload);
        if transfer.more {
            return Ok(Progress::Incomplete);
        }
        let Some(partial) = self.partial.take() else { return Ok(Progress::Incomplete) };
        Ok(Progress::Complete(Delivery {
            id: partial.delivery_id,
            tag: Chunk::Owned(partial.tag),
            message_format: partial.message_format,
            settled: partial.settled,
            message: Chunk::Owned(partial.bytes.freeze()),
        }))
    }
}
