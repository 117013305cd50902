//! The messages that arrive while an alarm stops publishing. They have crossed the FLOW that closed the window of their
//! session. They are held, and handled when the alarm ends. If their link or session ends before, they are released.

use std::collections::VecDeque;

use amqp10::{Delivery, DeliveryState};

use super::asking::copy_of;
use super::{Cx, Gate, LinkRole, Phase, role_in};
use crate::settings::Settings;

/// The bytes that the transfers of all sessions of a connection may have after their windows were closed, in addition to one
/// message of the largest size. More is a window violation. A socket's buffers hold about as much, so a client that sends small
/// messages and obeys its windows never comes here.
const MARGIN_BYTES: usize = 256 * 1024;

/// A message that is held.
#[derive(Debug)]
pub(super) struct HeldTransfer {
    session: u16,
    link: u32,
    delivery: Box<Delivery<'static>>,
}

/// The messages of a connection that are held, in the order in which they arrived.
#[derive(Debug)]
pub(super) struct Margin {
    held: VecDeque<HeldTransfer>,
    /// The bytes of memory that they take.
    bytes: usize,
    bytes_max: usize,
}

impl Margin {
    pub(super) fn new(settings: &Settings) -> Self {
        let message = usize::try_from(settings.max_message_size).unwrap_or(usize::MAX);
        Self { held: VecDeque::new(), bytes: 0, bytes_max: message.saturating_add(MARGIN_BYTES) }
    }

    /// Returns the number of bytes that may arrive in one alarm.
    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Returns the bytes of memory that the messages take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn push(&mut self, held: HeldTransfer) {
        self.bytes += held.bytes();
        self.held.push_back(held);
    }

    fn push_front(&mut self, held: HeldTransfer) {
        self.bytes += held.bytes();
        self.held.push_front(held);
    }

    fn pop(&mut self) -> Option<HeldTransfer> {
        let held = self.held.pop_front()?;
        self.bytes -= held.bytes();
        if self.held.is_empty() {
            self.held = VecDeque::new();
        }
        Some(held)
    }

    /// Removes the messages of a session, or of one of its links.
    pub(super) fn take(&mut self, session: u16, link: Option<u32>) -> Vec<HeldTransfer> {
        if self.held.is_empty() {
            return Vec::new();
        }
        let is_of =
            |held: &HeldTransfer| held.session == session && link.is_none_or(|link| held.link == link);
        let (taken, kept): (VecDeque<HeldTransfer>, _) =
            std::mem::take(&mut self.held).into_iter().partition(is_of);
        self.held = kept;
        self.bytes = self.held.iter().map(HeldTransfer::bytes).sum();
        taken.into()
    }
}

impl HeldTransfer {
    fn bytes(&self) -> usize {
        size_of::<Self>() + size_of::<Delivery<'_>>() + self.delivery.tag.len() + self.delivery.message.len()
    }
}

impl Gate {
    /// Holds a message until the alarm ends.
    #[cold]
    pub(super) fn hold_in_margin(&mut self, session: u16, link: u32, delivery: &Delivery<'_>) {
        self.margin.push(HeldTransfer { session, link, delivery: copy_of(delivery) });
    }

    /// Holds a message that was held before those of the margin arrived. Those of links that have ended are dropped.
    pub(super) fn hold_before_margin(&mut self, session: u16, link: u32, delivery: Box<Delivery<'static>>) {
        if matches!(role_in(&mut self.sessions, session, link), Some(LinkRole::Intake(_))) {
            self.margin.push_front(HeldTransfer { session, link, delivery });
        }
    }

    /// Releases the messages of a session, or of one of its links, that the client has ended: it may send them again elsewhere.
    pub(super) fn release_margin(&mut self, session: u16, link: Option<u32>) {
        for held in self.margin.take(session, link) {
            self.note_disposition(session, &held.delivery, DeliveryState::Released);
        }
    }

    /// Handles the messages that were held, if publishing is not stopped. If somebody must be asked about one of them, the
    /// others wait for the answer, too.
    pub(super) fn publish_margin(&mut self, cx: &mut Cx<'_>) {
        while !self.blocked
            && self.phase == Phase::Open
            && let Some(HeldTransfer { session, link, delivery }) = self.margin.pop()
        {
            self.handle_transfer(session, link, &delivery, cx);
        }
    }
}
