//! Outgoing deliveries and credit reports. They leave in one order, as far as the peer's window and the
//! socket allow [2.5.6, 2.6.14].

use bytes::Bytes;

use super::Session;
use crate::credit::SenderCredit;
use crate::link::{End, Link, LinkState};
use crate::performative::{
    TAG_MAX, TransferHead, put_flow_frame, put_transfer_frame, transfer_frame_overhead_max,
};
use crate::{Flow, Map};
use buffers::{Output, PayloadOf};

/// If this many bytes of output are unwritten, deliveries wait in the session instead of the output.
/// There they can still be dropped when their link is detached.
pub const OUTPUT_HIGH_WATER: usize = buffers::HIGH_WATER;

/// Output that waits for the peer's window or for the socket, in order.
#[derive(Debug)]
pub(super) enum Pending {
    Delivery {
        link: u32,
        delivery: Box<Waiting>,
        /// The number of payload bytes that are already in the output.
        sent: usize,
        /// The delivery-id, once the first transfer of the delivery is in the output.
        id: Option<u32>,
    },
    /// `credit` is the credit at the time of the report. So it does not include deliveries that are queued
    /// after the report.
    Report { link: u32, report: Report, credit: SenderCredit },
}

/// What a FLOW reports about a link on which we send, besides its credit [2.7.4].
#[derive(Debug, Default)]
pub(super) struct Report {
    available: u32,
    drain: bool,
    /// The properties of the link state. `None` if the report is about credit.
    properties: Option<Map>,
}

/// A delivery to send. Its payload is `head` followed by `bare`. The payload is borrowed, so a delivery that
/// can be sent at once is not copied.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    pub tag: Tag,
    pub settled: bool,
    /// The sender cannot take the delivery back. It is sent even if its credit was just withdrawn [2.6.7].
    pub irrevocable: bool,
    pub message_format: u32,
    /// Header and annotations for this delivery.
    pub head: &'a [u8],
    /// The bare message as it was received, as the end of a shared buffer.
    pub bare: Part<'a>,
    /// The sender's own number for the delivery. It is returned when the delivery is settled.
    pub cookie: u64,
}

/// The bytes of a shared buffer from `from` to its end.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    pub of: &'a Bytes,
    /// Where the part begins. At most the length of the buffer.
    pub from: usize,
}

/// A delivery that waits to be sent. It has its own copy of the head and shares the buffer of the bare
/// message.
#[derive(Debug)]
pub(super) struct Waiting {
    tag: Tag,
    settled: bool,
    irrevocable: bool,
    message_format: u32,
    head: Bytes,
    bare: Bytes,
    cookie: u64,
}

/// A delivery-tag [2.8.7].
#[derive(Clone, Copy, Debug, Default)]
pub struct Tag {
    bytes: [u8; TAG_MAX],
    len: u8,
}

impl<'a> Outgoing<'a> {
    /// Creates a delivery with a payload in one piece, for tests and small senders.
    pub fn whole(tag: Tag, settled: bool, message: &'a Bytes, cookie: u64) -> Self {
        let bare = Part { of: message, from: 0 };
        Self { tag, settled, irrevocable: settled, message_format: 0, head: &[], bare, cookie }
    }

    fn to_waiting(self) -> Waiting {
        let Self { tag, settled, irrevocable, message_format, head, bare, cookie } = self;
        let (head, bare) = (Bytes::copy_from_slice(head), bare.of.slice(bare.from..));
        Waiting { tag, settled, irrevocable, message_format, head, bare, cookie }
    }
}

impl Part<'_> {
    pub fn len(&self) -> usize {
        self.of.len() - self.from
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Waiting {
    fn bytes(&self) -> usize {
        self.head.len() + self.bare.len()
    }

    fn as_outgoing(&self) -> Outgoing<'_> {
        let Self { tag, settled, irrevocable, message_format, ref head, ref bare, cookie } = *self;
        let bare = Part { of: bare, from: 0 };
        Outgoing { tag, settled, irrevocable, message_format, head, bare, cookie }
    }
}

impl Tag {
    /// Returns the number as a tag: big-endian in four bytes, or in eight if it needs more.
    pub fn from_number(number: u64) -> Self {
        let (mut bytes, wide) = ([0; TAG_MAX], number.to_be_bytes());
        let len = if number <= u64::from(u32::MAX) {
            bytes[..4].copy_from_slice(&wide[4..]);
            4
        } else {
            bytes[..8].copy_from_slice(&wide);
            8
        };
        Self { bytes, len }
    }

    /// Creates a tag of at most 32 bytes. The rest is cut off.
    pub fn new(tag: &[u8]) -> Self {
        let len = tag.len().min(TAG_MAX);
        let mut bytes = [0; TAG_MAX];
        bytes[..len].copy_from_slice(&tag[..len]);
        Self { bytes, len: len as u8 }
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl Session {
    /// The number of deliveries and reports that wait for the peer's window or the socket.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// The bytes of the deliveries that wait. They are in memory until they are sent.
    pub fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    /// Returns the bare message of the waiting delivery that was sent in part.
    pub(crate) fn begun(&self) -> Option<&Bytes> {
        match self.pending.front()? {
            Pending::Delivery { delivery, id: Some(_), .. } => Some(&delivery.bare),
            _ => None,
        }
    }

    /// Returns true if a delivery of this link waits.
    pub fn has_pending(&self, link: u32) -> bool {
        self.pending.iter().any(|p| matches!(p, Pending::Delivery { link: l, .. } if *l == link))
    }

    /// Spends credit and sends a delivery, or appends it to the pending output. Returns false, and does
    /// nothing, if there is no such link, or if there is no credit and the delivery is not irrevocable.
    pub(crate) fn send(
        &mut self,
        link: u32,
        delivery: &Outgoing<'_>,
        max_frame: usize,
        out: &mut Output,
    ) -> bool {
        let Some(Link { end: End::Sending(sending), state, peer_detached, .. }) = self.link_mut(link) else {
            return false;
        };
        if *state == LinkState::Detaching || *peer_detached {
            return false;
        }
        if delivery.irrevocable {
            sending.credit.spend_anyway();
        } else if !sending.credit.spend() {
            return false;
        }
        let mut sent = 0;
        let mut id = None;
        if self.pending.is_empty() && self.transmit(link, delivery, &mut sent, &mut id, max_frame, out) {
            return true;
        }
        let delivery = Box::new(delivery.to_waiting());
        self.pending_bytes += delivery.bytes();
        self.pending.push_back(Pending::Delivery { link, delivery, sent, id });
        true
    }

    /// Reports our credit on a link on which we send, after the pending deliveries. With `drain`, uses up the
    /// remaining credit first [2.6.7].
    pub(crate) fn report_credit(&mut self, link: u32, available: u32, drain: bool, out: &mut Output) {
        self.report(link, Report { available, drain, properties: None }, out);
    }

    /// Reports the state of a link on which we send, after the pending deliveries. Its credit does not
    /// change. Nothing is sent if the peer has been told the same state last.
    pub(crate) fn report_state(&mut self, link: u32, available: u32, properties: Map, out: &mut Output) {
        self.report(link, Report { available, drain: false, properties: Some(properties) }, out);
    }

    fn report(&mut self, link: u32, report: Report, out: &mut Output) {
        let Some(Link { end: End::Sending(sending), state, .. }) = self.link_mut(link) else { return };
        if *state == LinkState::Detaching {
            return;
        }
        if report.drain {
            sending.credit.drain();
        }
        let credit = sending.credit;
        if self.pending.is_empty() {
            self.put_report(link, report, credit, out);
            return;
        }
        // At most one report of each kind waits per link, the newest. So a peer that floods us with FLOWs
        // gets one answer. The search starts at the back, where the last report of a flood is. A state report
        // never replaces a credit report.
        let states = report.properties.is_some();
        let old = |p: &Pending| match p {
            Pending::Report { link: l, report, .. } => *l == link && report.properties.is_some() == states,
            Pending::Delivery { .. } => false,
        };
        if let Some(at) = self.pending.iter().rposition(old) {
            self.pending.remove(at);
        }
        self.pending.push_back(Pending::Report { link, report, credit });
    }

    fn put_report(&mut self, link: u32, report: Report, credit: SenderCredit, out: &mut Output) {
        let Report { available, drain, properties } = report;
        if let Some(properties) = &properties
            && !self.note_reported(link, properties)
        {
            return;
        }
        let flow = Flow {
            drain,
            delivery_count: Some(credit.delivery_count()),
            link_credit: Some(credit.credit()),
            properties,
            ..self.flow(Some(link), Some(available))
        };
        put_flow_frame(out.buffer(), self.channel, &flow);
    }

    /// Notes what is reported of the state of a link. Returns false if the peer knows it: a state may have changed back
    /// while its report waited.
    #[cold]
    fn note_reported(&mut self, link: u32, properties: &Map) -> bool {
        let Some(Link { end: End::Sending(sending), .. }) = self.link_mut(link) else { return false };
        if sending.reported.as_deref() == Some(properties) {
            return false;
        }
        sending.reported = Some(Box::new(properties.clone()));
        true
    }

    /// Sends pending output as far as the peer's window and the output allow.
    pub(crate) fn pump(&mut self, max_frame: usize, out: &mut Output) {
        while let Some(front) = self.pending.pop_front() {
            match front {
                Pending::Report { link, report, credit } => self.put_report(link, report, credit, out),
                Pending::Delivery { link, delivery, mut sent, mut id } => {
                    if !self.transmit(link, &delivery.as_outgoing(), &mut sent, &mut id, max_frame, out) {
                        self.pending.push_front(Pending::Delivery { link, delivery, sent, id });
                        return;
                    }
                    self.pending_bytes -= delivery.bytes();
                }
            }
        }
    }

    /// Writes as many transfers of one delivery as the window and the output allow. Returns true when the
    /// last one is in the output.
    fn transmit(
        &mut self,
        link: u32,
        delivery: &Outgoing<'_>,
        sent: &mut usize,
        id: &mut Option<u32>,
        max_frame: usize,
        out: &mut Output,
    ) -> bool {
        let total = delivery.head.len() + delivery.bare.len();
        loop {
            let before = out.len();
            if self.remote_incoming_window == 0 || before >= OUTPUT_HIGH_WATER {
                return false;
            }
            let mut head = TransferHead { handle: link, ..TransferHead::default() };
            if id.is_none() {
                let next = self.next_delivery_id;
                self.next_delivery_id = next.wrapping_add(1);
                *id = Some(next);
                self.unsettled.push(next, (!delivery.settled).then_some((link, delivery.cookie)));
                head.delivery_id = *id;
                head.delivery_tag = Some(delivery.tag.as_slice());
                head.message_format = Some(delivery.message_format);
                head.settled = Some(delivery.settled);
            }
            let overhead = transfer_frame_overhead_max(delivery.tag.as_slice().len());
            let room = max_frame.saturating_sub(overhead).max(1);
            let n = room.min(total - *sent);
            head.more = *sent + n < total;
            put_transfer_frame(out.buffer(), self.channel, &head, n);
            let (from, to) = (*sent, *sent + n);
            let h = delivery.head.len();
            if from < h {
                out.buffer().extend_from_slice(&delivery.head[from..to.min(h)]);
            }
            if to > h {
                let Part { of, from: start } = delivery.bare;
                let (first, end) = (start + from.max(h) - h, start + to - h);
                out.put_payload(of, first, end, from > h, PayloadOf::Delivery);
            }
            // The peer takes frames of any size. A smaller one exceeds the mark by so little that it does not matter.
            if n >= OUTPUT_HIGH_WATER {
                out.note_delivery(before);
            }
            *sent = to;
            self.next_outgoing_id = self.next_outgoing_id.wrapping_add(1);
            self.remote_incoming_window -= 1;
            if !head.more {
                return true;
            }
        }
    }

    /// Drops the pending output of a link. A delivery that was partly sent is aborted [2.7.5].
    pub(super) fn abort_pending(&mut self, link: u32, out: &mut Output) {
        let begun = self.pending.iter().find_map(|p| match p {
            Pending::Delivery { link: l, id: Some(id), .. } if *l == link => Some(*id),
            _ => None,
        });
        self.pending.retain(|p| match p {
            Pending::Delivery { link: l, .. } | Pending::Report { link: l, .. } => *l != link,
        });
        let deliveries = self.pending.iter().map(|pending| match pending {
            Pending::Delivery { delivery, .. } => delivery.bytes(),
            Pending::Report { .. } => 0,
        });
        self.pending_bytes = deliveries.sum();
        // If the peer's window is closed, no abort can be sent. The DETACH alone then ends the delivery.
        if let Some(id) = begun
            && self.remote_incoming_window > 0
        {
            let head = TransferHead {
                handle: link,
                delivery_id: Some(id),
                aborted: true,
                ..TransferHead::default()
            };
            put_transfer_frame(out.buffer(), self.channel, &head, 0);
            self.next_outgoing_id = self.next_outgoing_id.wrapping_add(1);
            self.remote_incoming_window -= 1;
        }
    }
}
