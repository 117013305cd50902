//! Links and their handles: ATTACH and DETACH, in both directions [2.6.2, 2.6.3, 2.6.6].

use super::{Session, SessionEvent, SessionFault};
use crate::link::{End, Link, LinkState, Receiving, Sending};
use crate::performative::{put_frame, put_frame_within};
use crate::violation::Violation;
use crate::{AmqpError, Attach, Detach, Role};
use buffers::Output;

impl Session {
    pub(super) fn handle_attach(
        &mut self,
        attach: Box<Attach>,
        frame_bytes: usize,
        out: &mut Output,
    ) -> Result<Option<SessionEvent>, SessionFault> {
        if attach.handle > self.handle_max {
            return Err((None, Violation::HandleMax { handle: attach.handle, max: self.handle_max }));
        }
        let remote = attach.handle as usize;
        if self.by_remote_handle.get(remote).copied().flatten().is_some() {
            return Err((None, Violation::HandleInUse(attach.handle)));
        }
        let sending = attach.role == Role::Receiver;
        // The answer to our ATTACH has the same name as our link and the opposite role. If two of our links
        // match, it answers the older one, which we have detached in the meantime.
        let ours = self
            .links()
            .filter(|(_, l)| l.awaits_attach() && l.is_sending() == sending && l.name == attach.name)
            .max_by_key(|(_, l)| l.state == LinkState::Detaching);
        let (link, answers_ours) = match ours {
            Some((link, _)) => (link, true),
            None => {
                let end = if sending {
                    End::Sending(Sending::starting_at(0))
                } else {
                    let initial = attach.initial_delivery_count.unwrap_or(0);
                    End::Receiving(Receiving::starting_at(initial))
                };
                self.free_handle(out);
                let link = self.insert_link(Link {
                    name: attach.name.clone(),
                    attached_bytes: frame_bytes,
                    state: LinkState::Half,
                    end,
                    remote_handle: None,
                    peer_detached: false,
                    snd_settle_mode: attach.snd_settle_mode,
                    rcv_settle_mode: attach.rcv_settle_mode,
                    max_message_size: attach.max_message_size.unwrap_or(0),
                    initial_delivery_count: 0,
                });
                if link > self.handle_max {
                    // The peer uses every handle that it may use, and an old link still waits for the peer's
                    // DETACH. So no handle of ours is free.
                    return Err((None, Violation::HandleMax { handle: link, max: self.handle_max }));
                }
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

    /// Answers the DETACH of a link now if every handle is in use. The peer may use the handle of that link again, and its
    /// answer waits for something that is not worth refusing a link.
    fn free_handle(&mut self, out: &mut Output) {
        if self.links.len() <= self.handle_max as usize || self.links.iter().any(Option::is_none) {
            return;
        }
        let waits = |link: &Link| link.peer_detached && link.state == LinkState::Attached;
        let waiting = self.links().find(|(_, link)| waits(link)).map(|(number, _)| number);
        waiting.into_iter().for_each(|link| self.detach(link, None, out));
    }

    /// Returns the bytes of the peer's ATTACHes. A link may keep anything of its ATTACH: its name, its address, its filters.
    pub fn attached_bytes(&self) -> usize {
        self.attached_bytes
    }

    /// Returns the number of links, also of those that wait for the peer's DETACH.
    pub fn link_count(&self) -> usize {
        self.link_count
    }

    /// Counts more bytes for a link, until it is gone.
    pub(crate) fn add_attached_bytes(&mut self, link: u32, bytes: usize) {
        if let Some(l) = self.link_mut(link) {
            l.attached_bytes += bytes;
            self.attached_bytes += bytes;
        }
    }

    /// Frees the name of a link that the peer has proposed and we have refused. Nobody asks for it any more, but the link exists
    /// until the peer's DETACH arrives.
    pub(crate) fn forget_attach(&mut self, link: u32) {
        if let Some(l) = self.link_mut(link)
            && l.state == LinkState::Detaching
            && l.remote_handle.is_some()
        {
            l.name = String::new();
            let freed = std::mem::take(&mut l.attached_bytes);
            self.attached_bytes -= freed;
        }
    }

    fn insert_link(&mut self, link: Link) -> u32 {
        self.link_count += 1;
        self.attached_bytes += link.attached_bytes;
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

    pub(super) fn by_handle(&self, handle: u32) -> Option<u32> {
        self.by_remote_handle.get(handle as usize).copied().flatten()
    }

    pub(super) fn handle_detach(&mut self, detach: Detach) -> Result<Option<SessionEvent>, SessionFault> {
        let Some(link) = self.by_handle(detach.handle) else {
            // fe2o3-amqp answers the DETACH of a refused link twice. RabbitMQ ignores the second one, too.
            return Ok(None);
        };
        let answered = self.link(link).is_some_and(|l| l.state == LinkState::Detaching);
        if answered {
            self.drop_link(link);
        } else if let Some(l) = self.link_mut(link) {
            // The peer sends nothing more on this link. We have not answered its DETACH yet.
            let handle = l.remote_handle.take();
            l.peer_detached = true;
            self.partial_bytes -= l.forget_partial();
            if let Some(slot) = handle.and_then(|h| self.by_remote_handle.get_mut(h as usize)) {
                *slot = None;
            }
        }
        Ok(Some(SessionEvent::Detach { link, detach, answered }))
    }

    fn drop_link(&mut self, link: u32) {
        if let Some(slot) = self.links.get_mut(link as usize)
            && let Some(mut removed) = slot.take()
        {
            self.partial_bytes -= removed.forget_partial();
            self.link_count -= 1;
            self.attached_bytes -= removed.attached_bytes;
            let handle = removed.remote_handle;
            if let Some(slot) = handle.and_then(|handle| self.by_remote_handle.get_mut(handle as usize)) {
                *slot = None;
            }
        }
    }

    /// Answers the peer's ATTACH on `link`, or proposes a new link if `link` is `None`. `attach.handle` is
    /// filled in. Returns the link's number, or `None` if all handles are in use or the frame would be larger
    /// than `max_frame`.
    pub(crate) fn attach(
        &mut self,
        link: Option<u32>,
        mut attach: Attach,
        max_frame: usize,
        out: &mut Output,
    ) -> Option<u32> {
        let sending = attach.role == Role::Sender;
        let initial = attach.initial_delivery_count.unwrap_or(0);
        if link.is_none() && self.links().count() > self.handle_max as usize {
            return None;
        }
        let number = link.unwrap_or_else(|| {
            self.insert_link(Link {
                name: attach.name.clone(),
                attached_bytes: attach.name.len(),
                state: LinkState::Half,
                end: if sending {
                    End::Sending(Sending::starting_at(initial))
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
        if !put_frame_within(out.buffer(), self.channel, &attach, max_frame) {
            if link.is_none() {
                self.drop_link(number);
            }
            return None;
        }
        if let Some(l) = self.link_mut(number) {
            if let End::Sending(sending) = &mut l.end
                && l.state == LinkState::Half
            {
                sending.credit.restart_at(initial);
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
        Some(number)
    }

    /// Detaches the link, or answers the peer's DETACH. Pending deliveries of the link are dropped.
    pub(crate) fn detach(&mut self, link: u32, error: Option<AmqpError>, out: &mut Output) {
        let Some(l) = self.link_mut(link) else { return };
        if l.state == LinkState::Detaching {
            return;
        }
        let peer_is_gone = l.peer_detached;
        l.state = LinkState::Detaching;
        // The incomplete delivery of the link is freed now, because the peer's DETACH may never arrive.
        self.partial_bytes -= l.forget_partial();
        self.abort_pending(link, out);
        self.unsettled.forget_link(link);
        let detach = Detach { handle: link, closed: true, error };
        put_frame(out.buffer(), self.channel, &detach);
        if peer_is_gone {
            self.drop_link(link);
        }
    }
}
