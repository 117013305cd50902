//! One end of a session [2.5]: windows, link handles, delivery-ids and the ordered queue of what waits for the
//! peer's window.
//!
//! ```text
//!   (none) --BEGIN received--> Half --begin()----------> Mapped --end()--> Ending --END received--> (none)
//!   (none) --begin()---------> Half --BEGIN received---> Mapped --END received, answered---------> (none)
//!
//!   Half --end()--> Ending, if we began the session: the peer's BEGIN and END are still to come.
//! ```

use std::collections::VecDeque;

use bytes::Bytes;

use crate::chunk::Chunk;
use crate::credit::SenderCredit;
use crate::link::{End, Link, LinkState, Progress, Receiving};
use crate::output::Output;
use crate::performative::{
    TransferHead, put_disposition_frame, put_flow_frame, put_frame, put_transfer_frame,
};
use crate::unsettled::{Run, Unsettled};
use crate::violation::Violation;
use crate::{
    AmqpError, Attach, Begin, DeliveryState, Detach, Disposition, End as EndPerformative, Flow, Performative,
    Role, Transfer, serial,
};

/// What we tell the peer of our outgoing window: only its incoming window limits us (behaviour S106).
const OUTGOING_WINDOW: u32 = u32::MAX;

/// Above this many bytes of unwritten output, deliveries wait in the session, where they can still be
/// forgotten with their link, instead of in the connection's output.
pub const OUTPUT_HIGH_WATER: usize = 256 * 1024;

/// The most a delivery-tag may hold [2.8.7].
const TAG_MAX: usize = 32;

/// See the drawing above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    Half,
    Mapped,
    Ending,
}

/// How a session starts.
#[derive(Clone, Copy, Debug)]
pub struct SessionConfig {
    /// Transfer frames that the peer may send before it needs another FLOW.
    pub incoming_window: u32,
    /// Highest link handle.
    pub handle_max: u32,
}

/// A session of a connection. Its number within the connection is our channel.
#[derive(Debug)]
pub struct Session {
    pub(crate) channel: u16,
    pub(crate) remote_channel: Option<u16>,
    /// The peer has sent END, and ours is still to come.
    pub(crate) peer_ended: bool,
    pub(crate) state: SessionState,
    config: SessionConfig,
    /// Serial id of the next transfer frame from the peer.
    next_incoming_id: u32,
    /// Transfer frames the peer may still send, as far as we have told it.
    incoming_window: u32,
    /// While false the window is not opened again: intake cannot take more.
    window_open: bool,
    /// Frames tolerated beyond a window that we have closed: those that were under way (behaviour B.2).
    margin: u32,
    first_outgoing_id: u32,
    next_outgoing_id: u32,
    /// Transfer frames that we may still send.
    remote_incoming_window: u32,
    next_delivery_id: u32,
    /// The highest handle that both sides can use.
    handle_max: u32,
    links: Vec<Option<Link>>,
    /// Our link number by the peer's handle.
    by_remote_handle: Vec<Option<u32>>,
    pending: VecDeque<Pending>,
    unsettled: Unsettled,
}

/// Output that waits for the peer's window or for the socket, in order.
#[derive(Debug)]
enum Pending {
    Delivery {
        link: u32,
        delivery: Outgoing,
        sent: usize,
        id: Option<u32>,
    },
    /// `credit` as it stood when it was reported: deliveries that wait behind the report are not in it.
    Credit {
        link: u32,
        available: u32,
        drain: bool,
        credit: SenderCredit,
    },
}

/// A delivery to send: `head` and then `bare` are its payload.
#[derive(Clone, Debug)]
pub struct Outgoing {
    pub tag: Tag,
    pub settled: bool,
    pub message_format: u32,
    /// Header and annotations, made for this delivery.
    pub head: Bytes,
    /// The bare message, as it came.
    pub bare: Bytes,
    /// The sender's own number for the delivery; comes back when it is settled.
    pub cookie: u64,
}

/// A delivery-tag [2.8.7].
#[derive(Clone, Copy, Debug, Default)]
pub struct Tag {
    bytes: [u8; TAG_MAX],
    len: u8,
}

impl Tag {
    /// The shortest big-endian form of at least four bytes.
    pub fn from_number(number: u64) -> Self {
        match u32::try_from(number) {
            Ok(short) => Self::new(&short.to_be_bytes()),
            Err(_) => Self::new(&number.to_be_bytes()),
        }
    }

    /// At most 32 bytes; the rest is cut off.
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

/// What a session has to say of a frame.
#[derive(Debug)]
pub(crate) enum SessionEvent<'a> {
    Attach { link: u32, attach: Box<Attach> },
    Detach { link: u32, detach: Detach, answered: bool },
    Flow { link: Option<u32>, flow: Flow },
    Transfer { link: u32, delivery: crate::Delivery<'a> },
    Aborted { link: u32 },
    Disposition { role: Role, settled: bool, state: Option<DeliveryState>, first: u32, last: u32 },
}

/// A violation and the link that it concerns, if it is only that.
pub(crate) type SessionFault = (Option<u32>, Violation);

impl Session {
    pub(crate) fn new(channel: u16, config: SessionConfig, first_id: u32) -> Self {
        Self {
            channel,
            remote_channel: None,
            peer_ended: false,
            state: SessionState::Half,
            config,
            next_incoming_id: 0,
            incoming_window: 0,
            window_open: true,
            margin: 0,
            first_outgoing_id: first_id,
            next_outgoing_id: first_id,
            remote_incoming_window: 0,
            next_delivery_id: first_id,
            handle_max: config.handle_max,
            links: Vec::new(),
            by_remote_handle: Vec::new(),
            pending: VecDeque::new(),
            unsettled: Unsettled::default(),
        }
    }

    // ---- what can be asked of it ------------------------------------------------------------------------

    pub fn link(&self, link: u32) -> Option<&Link> {
        self.links.get(link as usize)?.as_ref()
    }

    fn link_mut(&mut self, link: u32) -> Option<&mut Link> {
        self.links.get_mut(link as usize)?.as_mut()
    }

    pub fn links(&self) -> impl Iterator<Item = (u32, &Link)> {
        self.links.iter().enumerate().filter_map(|(i, l)| Some((i as u32, l.as_ref()?)))
    }

    pub fn state(&self) -> SessionState {
        self.state
    }

    /// We have begun it and the peer has not answered.
    pub(crate) fn awaits_begin(&self) -> bool {
        self.remote_channel.is_none()
    }

    pub fn next_incoming_id(&self) -> u32 {
        self.next_incoming_id
    }

    pub fn incoming_window(&self) -> u32 {
        self.incoming_window
    }

    pub fn next_outgoing_id(&self) -> u32 {
        self.next_outgoing_id
    }

    pub fn remote_incoming_window(&self) -> u32 {
        self.remote_incoming_window
    }

    pub fn handle_max(&self) -> u32 {
        self.handle_max
    }

    /// Deliveries sent and not settled.
    pub fn unsettled_len(&self) -> usize {
        self.unsettled.len()
    }

    /// Deliveries and credit replies that wait for the peer's window or the socket.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// Whether a delivery of this link waits.
    pub fn has_pending(&self, link: u32) -> bool {
        self.pending.iter().any(|p| matches!(p, Pending::Delivery { link: l, .. } if *l == link))
    }

    /// Bytes of deliveries whose last transfer has not come.
    pub fn partial_bytes(&self) -> usize {
        self.links().map(|(_, l)| l.partial_bytes()).sum()
    }

    // ---- what the peer says ---------------------------------------------------------------------------

    pub(crate) fn handle_begin(&mut self, begin: &Begin) {
        self.next_incoming_id = begin.next_outgoing_id;
        self.remote_incoming_window = begin.incoming_window;
        self.handle_max = self.config.handle_max.min(begin.handle_max);
    }

    pub(crate) fn handle_frame<'a>(
        &mut self,
        performative: Performative<'_>,
        frame: &Chunk<'a>,
        payload_at: usize,
        out: &mut Output,
    ) -> Result<Option<SessionEvent<'a>>, SessionFault> {
        if self.state == SessionState::Ending {
            // [2.5.5] What was under way when we ended the session is discarded.
            return Ok(None);
        }
        match performative {
            Performative::Transfer(transfer) => self.handle_transfer(&transfer, frame, payload_at, out),
            Performative::Flow(flow) => self.handle_flow(flow, out),
            Performative::Disposition(disposition) => Ok(Some(handle_disposition(disposition))),
            Performative::Attach(attach) => self.handle_attach(attach),
            Performative::Detach(detach) => self.handle_detach(detach),
            _ => Err((None, Violation::UnexpectedFrame("frame on a session"))),
        }
    }

    fn handle_attach<'a>(&mut self, attach: Box<Attach>) -> Result<Option<SessionEvent<'a>>, SessionFault> {
        if attach.handle > self.handle_max {
            return Err((None, Violation::HandleMax { handle: attach.handle, max: self.handle_max }));
        }
        let remote = attach.handle as usize;
        if self.by_remote_handle.get(remote).copied().flatten().is_some() {
            return Err((None, Violation::HandleInUse(attach.handle)));
        }
        let sending = attach.role == Role::Receiver;
        // The answer to an ATTACH of ours has the same name and the other role.
        // If there are two, to the older one, which we have given up meanwhile.
        let ours = self
            .links()
            .filter(|(_, l)| l.awaits_attach() && l.is_sending() == sending && l.name == attach.name)
            .max_by_key(|(_, l)| l.state == LinkState::Detaching);
        let (link, answers_ours) = match ours {
            Some((link, _)) => (link, true),
            None => {
                let end = if sending {
                    End::Sending(SenderCredit::starting_at(0))
                } else {
                    let initial = attach.initial_delivery_count.unwrap_or(0);
                    End::Receiving(Receiving::starting_at(initial))
                };
                let link = self.insert_link(Link {
                    name: attach.name.clone(),
                    state: LinkState::Half,
                    end,
                    remote_handle: None,
                    peer_detached: false,
                    snd_settle_mode: attach.snd_settle_mode,
                    rcv_settle_mode: attach.rcv_settle_mode,
                    max_message_size: attach.max_message_size.unwrap_or(0),
                    initial_delivery_count: 0,
                });
                (link, false)
            }
        };
        if self.by_remote_handle.len() <= remote {
            self.by_remote_handle.resize(remote + 1, None);
        }
        self.by_remote_handle[remote] = Some(link);
        if let Some(l) = self.link_mut(link) {
            l.remote_handle = Some(attach.handle);
            if l.state == LinkState::Detaching {
                return Ok(None);
            }
            if answers_ours {
                l.state = LinkState::Attached;
                l.snd_settle_mode = attach.snd_settle_mode;
                l.rcv_settle_mode = attach.rcv_settle_mode;
                match &mut l.end {
                    End::Receiving(r) => {
                        r.credit.restart_at(attach.initial_delivery_count.unwrap_or(0));
                    }
                    End::Sending(_) => l.max_message_size = attach.max_message_size.unwrap_or(0),
                }
            }
        }
        Ok(Some(SessionEvent::Attach { link, attach }))
    }

    fn insert_link(&mut self, link: Link) -> u32 {
        match self.links.iter().position(Option::is_none) {
            Some(free) => {
                self.links[free] = Some(link);
                free as u32
            }
            None => {
                self.links.push(Some(link));
                (self.links.len() - 1) as u32
            }
        }
    }

    fn by_handle(&self, handle: u32) -> Option<u32> {
        self.by_remote_handle.get(handle as usize).copied().flatten()
    }

    fn handle_detach<'a>(&mut self, detach: Detach) -> Result<Option<SessionEvent<'a>>, SessionFault> {
        let Some(link) = self.by_handle(detach.handle) else {
            // fe2o3-amqp answers the DETACH of a refused link twice. The reference ignores this too.
            return Ok(None);
        };
        let answered = self.link(link).is_some_and(|l| l.state == LinkState::Detaching);
        if answered {
            self.drop_link(link);
        } else if let Some(l) = self.link_mut(link) {
            // The peer sends nothing more on it; our DETACH is still to come.
            let handle = l.remote_handle.take();
            l.peer_detached = true;
            if let Some(slot) = handle.and_then(|h| self.by_remote_handle.get_mut(h as usize)) {
                *slot = None;
            }
        }
        Ok(Some(SessionEvent::Detach { link, detach, answered }))
    }

    fn drop_link(&mut self, link: u32) {
        if let Some(slot) = self.links.get_mut(link as usize)
            && let Some(gone) = slot.take()
            && let Some(handle) = gone.remote_handle
            && let Some(slot) = self.by_remote_handle.get_mut(handle as usize)
        {
            *slot = None;
        }
    }

    fn handle_transfer<'a>(
        &mut self,
        transfer: &Transfer<'_>,
        frame: &Chunk<'a>,
        payload_at: usize,
        out: &mut Output,
    ) -> Result<Option<SessionEvent<'a>>, SessionFault> {
        self.next_incoming_id = self.next_incoming_id.wrapping_add(1);
        if self.incoming_window > 0 {
            self.incoming_window -= 1;
        } else if self.margin > 0 {
            self.margin -= 1;
        } else {
            return Err((None, Violation::WindowViolation));
        }
        if self.window_open && self.incoming_window <= self.config.incoming_window / 2 {
            self.open_window(out);
        }
        let Some(link) = self.by_handle(transfer.handle) else {
            return Err((None, Violation::UnattachedHandle(transfer.handle)));
        };
        let Some(l) = self.link_mut(link) else {
            return Err((None, Violation::UnattachedHandle(transfer.handle)));
        };
        if l.state == LinkState::Detaching {
            return Ok(None);
        }
        let (max, mode) = (l.max_message_size, l.snd_settle_mode);
        let End::Receiving(receiving) = &mut l.end else {
            return Err((None, Violation::UnexpectedFrame("TRANSFER on a link on which we send")));
        };
        match receiving.handle_transfer(transfer, frame, payload_at, max, mode) {
            Ok(Progress::Complete(delivery)) => Ok(Some(SessionEvent::Transfer { link, delivery })),
            Ok(Progress::Incomplete) => Ok(None),
            Ok(Progress::Aborted) => Ok(Some(SessionEvent::Aborted { link })),
            Err(violation) => Err((Some(link), violation)),
        }
    }

    fn handle_flow<'a>(
        &mut self,
        flow: Flow,
        out: &mut Output,
    ) -> Result<Option<SessionEvent<'a>>, SessionFault> {
        // [2.5.6] An absent next-incoming-id means that the peer has not seen our BEGIN: the initial id.
        let next_incoming_id = flow.next_incoming_id.unwrap_or(self.first_outgoing_id);
        if serial::distance(next_incoming_id, self.next_outgoing_id) > 0 {
            return Err((None, Violation::WindowViolation));
        }
        let in_flight = self.next_outgoing_id.wrapping_sub(next_incoming_id);
        self.remote_incoming_window = flow.incoming_window.saturating_sub(in_flight);
        let mut link = None;
        let mut answer = flow.echo && flow.handle.is_none();
        if let Some(handle) = flow.handle {
            let Some(number) = self.by_handle(handle) else {
                return Err((None, Violation::UnattachedHandle(handle)));
            };
            link = Some(number);
            if let Some(l) = self.link_mut(number) {
                if l.state == LinkState::Detaching {
                    link = None;
                }
                let initial = l.initial_delivery_count;
                match &mut l.end {
                    End::Sending(credit) => {
                        credit.handle_flow(flow.delivery_count, flow.link_credit.unwrap_or(0), initial);
                    }
                    End::Receiving(receiving) => {
                        if let Some(count) = flow.delivery_count {
                            receiving.credit.handle_flow(count);
                        }
                        answer = flow.echo;
                    }
                }
            }
        }
        if answer {
            self.put_flow(link, None, out);
        }
        Ok(Some(SessionEvent::Flow { link, flow }))
    }

    // ---- what we say ----------------------------------------------------------------------------------

    pub(crate) fn put_begin(&mut self, out: &mut Output) {
        self.incoming_window = if self.window_open { self.config.incoming_window } else { 0 };
        let begin = Begin {
            remote_channel: self.remote_channel,
            next_outgoing_id: self.next_outgoing_id,
            incoming_window: self.incoming_window,
            outgoing_window: OUTGOING_WINDOW,
            handle_max: self.handle_max,
            ..Begin::default()
        };
        put_frame(out.buffer(), self.channel, &begin);
    }

    /// Sends END. What waits is forgotten: nothing may follow.
    pub(crate) fn put_end(&mut self, error: Option<AmqpError>, out: &mut Output) {
        self.pending.clear();
        self.unsettled = Unsettled::default();
        self.links.clear();
        self.by_remote_handle.clear();
        put_frame(out.buffer(), self.channel, &EndPerformative { error });
    }

    /// Attaches: answers the peer's ATTACH on `link`, or with `None` proposes a new link. `attach.handle` is
    /// filled in. Returns the link's number; `None` if all handles are in use.
    pub(crate) fn attach(&mut self, link: Option<u32>, mut attach: Attach, out: &mut Output) -> Option<u32> {
        let sending = attach.role == Role::Sender;
        let initial = attach.initial_delivery_count.unwrap_or(0);
        if link.is_none() && self.links().count() > self.handle_max as usize {
            return None;
        }
        let number = link.unwrap_or_else(|| {
            self.insert_link(Link {
                name: attach.name.clone(),
                state: LinkState::Half,
                end: if sending {
                    End::Sending(SenderCredit::starting_at(initial))
                } else {
                    End::Receiving(Receiving::default())
                },
                remote_handle: None,
                peer_detached: false,
                snd_settle_mode: attach.snd_settle_mode,
                rcv_settle_mode: attach.rcv_settle_mode,
                max_message_size: 0,
                initial_delivery_count: initial,
            })
        });
        attach.handle = number;
        if let Some(l) = self.link_mut(number) {
            if let End::Sending(credit) = &mut l.end
                && l.state == LinkState::Half
            {
                credit.restart_at(initial);
                l.initial_delivery_count = initial;
            }
            if l.remote_handle.is_some() {
                l.state = LinkState::Attached;
            }
            l.snd_settle_mode = attach.snd_settle_mode;
            l.rcv_settle_mode = attach.rcv_settle_mode;
            if !sending {
                l.max_message_size = attach.max_message_size.unwrap_or(0);
            }
        }
        put_frame(out.buffer(), self.channel, &attach);
        Some(number)
    }

    /// Detaches, or answers the peer's DETACH. Deliveries of the link that wait are forgotten.
    pub(crate) fn detach(&mut self, link: u32, error: Option<AmqpError>, out: &mut Output) {
        let Some(l) = self.link_mut(link) else { return };
        if l.state == LinkState::Detaching {
            return;
        }
        let peer_is_gone = l.peer_detached;
        l.state = LinkState::Detaching;
        self.abort_pending(link, out);
        self.unsettled.forget_link(link);
        let detach = Detach { handle: link, closed: true, error };
        put_frame(out.buffer(), self.channel, &detach);
        if peer_is_gone {
            self.drop_link(link);
        }
    }

    /// Forgets what waits of a link; a delivery of which some transfers are out is aborted [2.7.5].
    fn abort_pending(&mut self, link: u32, out: &mut Output) {
        let begun = self.pending.iter().find_map(|p| match p {
            Pending::Delivery { link: l, id: Some(id), .. } if *l == link => Some(*id),
            _ => None,
        });
        self.pending.retain(|p| match p {
            Pending::Delivery { link: l, .. } | Pending::Credit { link: l, .. } => *l != link,
        });
        // Without window the DETACH alone has to tell it.
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

    /// Grants credit on a link on which we receive.
    pub(crate) fn grant(&mut self, link: u32, credit: u32, drain: bool, echo: bool, out: &mut Output) {
        if let Some(Link { end: End::Receiving(receiving), .. }) = self.link_mut(link) {
            receiving.credit.grant(credit);
            let flow = Flow { drain, echo, ..self.flow(Some(link), None) };
            put_flow_frame(out.buffer(), self.channel, &flow);
        }
    }

    /// Spends credit and sends a delivery, or lets it wait behind those that wait already. False without link,
    /// or without credit if the delivery is unsettled: nothing was sent. A settled one is sent even when its
    /// credit has just been withdrawn: its queue has given it up already.
    pub(crate) fn send(&mut self, link: u32, delivery: Outgoing, max_frame: usize, out: &mut Output) -> bool {
        let Some(Link { end: End::Sending(credit), state, peer_detached, .. }) = self.link_mut(link) else {
            return false;
        };
        if *state == LinkState::Detaching || *peer_detached {
            return false;
        }
        if delivery.settled {
            credit.spend_anyway();
        } else if !credit.spend() {
            return false;
        }
        let mut sent = 0;
        let mut id = None;
        if self.pending.is_empty() && self.transmit(link, &delivery, &mut sent, &mut id, max_frame, out) {
            return true;
        }
        self.pending.push_back(Pending::Delivery { link, delivery, sent, id });
        true
    }

    /// Reports our credit on a link on which we send, behind the deliveries that wait. With `drain` what is
    /// left of the credit is used up first [2.6.7].
    pub(crate) fn report_credit(&mut self, link: u32, available: u32, drain: bool, out: &mut Output) {
        let Some(Link { end: End::Sending(credit), state, .. }) = self.link_mut(link) else { return };
        if *state == LinkState::Detaching {
            return;
        }
        if drain {
            credit.drain();
        }
        let credit = *credit;
        if self.pending.is_empty() {
            self.put_credit(link, available, drain, credit, out);
            return;
        }
        // One report of a link waits at a time, the newest: whoever floods us with FLOWs is told once. It is looked
        // for from the back, where the last one of a flood is.
        let old = |p: &Pending| matches!(p, Pending::Credit { link: l, .. } if *l == link);
        if let Some(at) = self.pending.iter().rposition(old) {
            self.pending.remove(at);
        }
        self.pending.push_back(Pending::Credit { link, available, drain, credit });
    }

    fn put_credit(&mut self, link: u32, available: u32, drain: bool, credit: SenderCredit, out: &mut Output) {
        let flow = Flow {
            drain,
            delivery_count: Some(credit.delivery_count()),
            link_credit: Some(credit.credit()),
            ..self.flow(Some(link), Some(available))
        };
        put_flow_frame(out.buffer(), self.channel, &flow);
    }

    /// Sends what waits, as far as window and output allow.
    pub(crate) fn pump(&mut self, max_frame: usize, out: &mut Output) {
        while let Some(front) = self.pending.pop_front() {
            match front {
                Pending::Credit { link, available, drain, credit } => {
                    self.put_credit(link, available, drain, credit, out);
                }
                Pending::Delivery { link, delivery, mut sent, mut id } => {
                    if !self.transmit(link, &delivery, &mut sent, &mut id, max_frame, out) {
                        self.pending.push_front(Pending::Delivery { link, delivery, sent, id });
                        return;
                    }
                }
            }
        }
    }

    /// Sends transfers of one delivery; true when the last one is out.
    fn transmit(
        &mut self,
        link: u32,
        delivery: &Outgoing,
        sent: &mut usize,
        id: &mut Option<u32>,
        max_frame: usize,
        out: &mut Output,
    ) -> bool {
        let total = delivery.head.len() + delivery.bare.len();
        loop {
            if self.remote_incoming_window == 0 || out.len() >= OUTPUT_HIGH_WATER {
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
            let overhead = crate::performative::transfer_frame_overhead_max(delivery.tag.as_slice().len());
            let room = max_frame.saturating_sub(overhead).max(1);
            let n = room.min(total - *sent);
            head.more = *sent + n < total;
            put_transfer_frame(out.buffer(), self.channel, &head, n);
            let (from, to) = (*sent, *sent + n);
            let h = delivery.head.len();
            if from < h {
                out.put_payload(&delivery.head, from, to.min(h));
            }
            if to > h {
                out.put_payload(&delivery.bare, from.max(h) - h, to - h);
            }
            *sent = to;
            self.next_outgoing_id = self.next_outgoing_id.wrapping_add(1);
            self.remote_incoming_window -= 1;
            if !head.more {
                return true;
            }
        }
    }

    /// Tells the peer what became of `first..=last`.
    pub(crate) fn disposition(
        &mut self,
        role: Role,
        (first, last): (u32, u32),
        settled: bool,
        state: &DeliveryState,
        out: &mut Output,
    ) {
        let last = (last != first).then_some(last);
        put_disposition_frame(out.buffer(), self.channel, role, first, last, settled, state);
    }

    /// Resolves a DISPOSITION of the receiver to our own numbers.
    pub(crate) fn resolve(&mut self, first: u32, last: u32, settle: bool, runs: &mut Vec<Run>) {
        self.unsettled.resolve(first, last, settle, runs);
    }

    /// Closes the window for what the peer sends, or opens it again. `margin` frames more are tolerated:
    /// those that were under way.
    pub(crate) fn set_window_open(&mut self, open: bool, out: &mut Output) {
        if self.window_open == open {
            return;
        }
        self.window_open = open;
        if self.state != SessionState::Mapped {
            return;
        }
        if open {
            self.open_window(out);
        } else {
            self.incoming_window = 0;
            self.margin = self.config.incoming_window;
            self.put_flow(None, None, out);
        }
    }

    fn open_window(&mut self, out: &mut Output) {
        self.incoming_window = self.config.incoming_window;
        self.margin = 0;
        if self.state == SessionState::Mapped {
            self.put_flow(None, None, out);
        }
    }

    fn put_flow(&mut self, link: Option<u32>, available: Option<u32>, out: &mut Output) {
        let flow = self.flow(link, available);
        put_flow_frame(out.buffer(), self.channel, &flow);
    }

    fn flow(&self, link: Option<u32>, available: Option<u32>) -> Flow {
        let credit = link.and_then(|l| self.link(l)).map(|l| match &l.end {
            End::Sending(credit) => (credit.delivery_count(), credit.credit()),
            End::Receiving(receiving) => (receiving.credit.delivery_count(), receiving.credit.credit()),
        });
        // [2.7.4] A receiver that has not seen the sender's ATTACH does not know its delivery-count.
        let unknown = link.and_then(|l| self.link(l)).is_some_and(|l| !l.is_sending() && l.awaits_attach());
        Flow {
            // [2.7.4] Absent while the peer's BEGIN has not come.
            next_incoming_id: (!self.awaits_begin()).then_some(self.next_incoming_id),
            incoming_window: self.incoming_window,
            next_outgoing_id: self.next_outgoing_id,
            outgoing_window: OUTGOING_WINDOW,
            handle: link,
            delivery_count: credit.map(|c| c.0).filter(|_| !unknown),
            link_credit: credit.map(|c| c.1),
            available,
            ..Flow::default()
        }
    }
}

fn handle_disposition<'a>(disposition: Disposition) -> SessionEvent<'a> {
    SessionEvent::Disposition {
        role: disposition.role,
        settled: disposition.settled,
        state: disposition.state,
        first: disposition.first,
        last: disposition.last.unwrap_or(disposition.first),
    }
}
