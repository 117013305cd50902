//! The state that the driver and all handles of a connection share: the endpoint and the waiting tasks.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use amqp10::{
    AmqpError, Attach, Connection as Endpoint, DeliveryState, DispositionRange, Fault, Open, Radius, Role,
    Run, Symbol, Tag, condition,
};
use bytes::Bytes;
use ranges::replace_joined;
use slab::Slab;

use crate::error::{Error, Scope};
use crate::outcomes::Outcomes;
use crate::url::Credentials;

/// The state of a connection behind a lock. The lock is held only briefly, and never across an await.
pub(crate) struct Shared {
    state: Mutex<State>,
}

pub(crate) struct State {
    pub(crate) endpoint: Endpoint,
    pub(crate) credentials: Option<Credentials>,
    /// Our OPEN, until it is sent. Then `None`.
    pub(crate) open: Option<Open>,
    /// The peer's OPEN.
    pub(crate) remote_open: Option<Box<Open>>,
    /// The reason why the connection is closed. `None` while it is open.
    pub(crate) closed: Option<Error>,
    /// True when the task of the connection has ended and the socket is released.
    pub(crate) done: bool,
    pub(crate) sessions: Slab<SessionState>,
    /// The keys of `sessions`, by our channel number.
    pub(crate) by_channel: Vec<Option<usize>>,
    pub(crate) links: Slab<LinkState>,
    /// Tasks that wait for OPEN or for the end of the connection.
    pub(crate) wakers: Wakers,
    driver: Option<Waker>,
    runs: Vec<Run>,
    /// Sessions with a disposition that is not yet written.
    settling: Vec<usize>,
    /// Sending links whose peer requested a credit report. Each is answered after the tasks that wait for its
    /// credit were scheduled, so that they can use the credit first.
    reports: Vec<usize>,
}

pub(crate) struct SessionState {
    pub(crate) channel: Option<u16>,
    pub(crate) begun: bool,
    pub(crate) closed: Option<Error>,
    /// The keys of `State::links` by link number.
    pub(crate) by_number: Vec<Option<usize>>,
    pub(crate) wakers: Wakers,
    /// Deliveries that were settled with one state and not yet reported to the peer.
    settling: Option<DispositionRange>,
    /// True if links wait until the session has nothing pending.
    pub(crate) starved: bool,
    pub(crate) next_name: u64,
}

pub(crate) struct LinkState {
    pub(crate) session: usize,
    /// The channel and the number of the link, as long as the endpoint has the link.
    pub(crate) number: Option<(u16, u32)>,
    /// The peer's ATTACH.
    pub(crate) attached: Option<Box<Attach>>,
    pub(crate) closed: Option<Error>,
    pub(crate) wakers: Wakers,
    /// Sending: the outcomes of messages.
    pub(crate) outcomes: Outcomes,
    /// True if the peer of a sending link has requested a drain.
    drain: bool,
    /// Receiving: deliveries that wait for the reader. At most as many as credit was granted.
    pub(crate) inbox: VecDeque<Received>,
    /// Receiving: the number of deliveries received since the link was attached.
    pub(crate) received: u64,
    pub(crate) draining: bool,
}

/// A delivery in the inbox.
pub(crate) struct Received {
    pub(crate) id: u32,
    pub(crate) tag: Tag,
    pub(crate) settled: bool,
    pub(crate) message_format: u32,
    pub(crate) message: Bytes,
}

/// Tasks that wait for an event.
#[derive(Default)]
pub(crate) struct Wakers(Vec<Waker>);

impl Wakers {
    pub(crate) fn register(&mut self, cx: &Context<'_>) {
        if !self.0.iter().any(|w| w.will_wake(cx.waker())) {
            self.0.push(cx.waker().clone());
        }
    }

    pub(crate) fn wake(&mut self) {
        self.0.drain(..).for_each(Waker::wake);
    }
}

impl Shared {
    pub(crate) fn new(endpoint: Endpoint, credentials: Option<Credentials>, open: Open) -> Self {
        let state = State {
            endpoint,
            credentials,
            open: Some(open),
            remote_open: None,
            closed: None,
            done: false,
            sessions: Slab::new(),
            by_channel: Vec::new(),
            links: Slab::new(),
            wakers: Wakers::default(),
            driver: None,
            runs: Vec::new(),
            settling: Vec::new(),
            reports: Vec::new(),
        };
        Self { state: Mutex::new(state) }
    }

    /// A poisoned lock is ignored: the code under the lock does not panic half-way.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `ask` returns a result. `ask` must register the task with the right wakers.
    pub(crate) async fn wait<T>(&self, mut ask: impl FnMut(&mut State, &Context<'_>) -> Poll<T>) -> T {
        std::future::poll_fn(|cx| ask(&mut self.lock(), cx)).await
    }
}

impl State {
    pub(crate) fn set_driver(&mut self, cx: &Context<'_>) {
        match &mut self.driver {
            Some(waker) => waker.clone_from(cx.waker()),
            None => self.driver = Some(cx.waker().clone()),
        }
    }

    /// Wakes the driver, because there is something to write.
    pub(crate) fn wake_driver(&mut self) {
        if let Some(waker) = self.driver.take() {
            waker.wake();
        }
    }

    pub(crate) fn session_by_channel(&self, channel: u16) -> Option<usize> {
        self.by_channel.get(usize::from(channel)).copied().flatten()
    }

    pub(crate) fn link_by_number(&self, channel: u16, link: u32) -> Option<usize> {
        let session = self.sessions.get(self.session_by_channel(channel)?)?;
        session.by_number.get(link as usize).copied().flatten()
    }

    // ---- sessions -----------------------------------------------------------------------------------------

    /// Begins a session. Returns the key of its state.
    pub(crate) fn begin(&mut self) -> Result<usize, Error> {
        if let Some(error) = &self.closed {
            return Err(error.clone());
        }
        let channel = self.endpoint.begin(None, true).ok_or(Error::Exhausted(Scope::Session))?;
        let key = self.sessions.insert(SessionState {
            channel: Some(channel),
            begun: false,
            closed: None,
            by_number: Vec::new(),
            wakers: Wakers::default(),
            settling: None,
            starved: false,
            next_name: 0,
        });
        let at = usize::from(channel);
        if self.by_channel.len() <= at {
            self.by_channel.resize(at + 1, None);
        }
        self.by_channel[at] = Some(key);
        self.wake_driver();
        Ok(key)
    }

    /// Marks the session and its links as closed for this reason.
    pub(crate) fn close_session(&mut self, key: usize, error: &Error) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        session.closed.get_or_insert_with(|| error.clone());
        if let Some(channel) = session.channel.take()
            && let Some(slot) = self.by_channel.get_mut(usize::from(channel))
        {
            *slot = None;
        }
        session.settling = None;
        let links: Vec<usize> = session.by_number.drain(..).flatten().collect();
        session.wakers.wake();
        for link in links {
            self.close_link(link, error);
        }
    }

    // ---- links --------------------------------------------------------------------------------------------

    /// Proposes a link. Returns the key of its state.
    pub(crate) fn attach(&mut self, session: usize, attach: Attach) -> Result<usize, Error> {
        let Some(s) = self.sessions.get(session) else { return Err(Error::Closed) };
        if let Some(error) = &s.closed {
            return Err(error.clone());
        }
        let channel = s.channel.ok_or(Error::Closed)?;
        let number = self.endpoint.attach(channel, None, attach).ok_or(Error::Exhausted(Scope::Link))?;
        let key = self.links.insert(LinkState {
            session,
            number: Some((channel, number)),
            attached: None,
            closed: None,
            wakers: Wakers::default(),
            outcomes: Outcomes::default(),
            drain: false,
            inbox: VecDeque::new(),
            received: 0,
            draining: false,
        });
        let by_number = &mut self.sessions[session].by_number;
        if by_number.len() <= number as usize {
            by_number.resize(number as usize + 1, None);
        }
        by_number[number as usize] = Some(key);
        self.wake_driver();
        Ok(key)
    }

    /// Marks the link as closed for this reason. Deliveries that have arrived can still be read.
    pub(crate) fn close_link(&mut self, key: usize, error: &Error) {
        let Some(link) = self.links.get_mut(key) else { return };
        link.closed.get_or_insert_with(|| error.clone());
        if let Some((_, number)) = link.number.take()
            && let Some(session) = self.sessions.get_mut(link.session)
            && let Some(slot) = session.by_number.get_mut(number as usize)
        {
            *slot = None;
        }
        link.outcomes.wake_all();
        link.wakers.wake();
    }

    /// Sends DETACH after the dispositions, if that was not done before.
    pub(crate) fn detach(&mut self, key: usize, error: Option<AmqpError>) {
        if let Some((channel, number)) = self.links.get(key).and_then(|l| l.number) {
            self.flush_dispositions();
            self.endpoint.detach(channel, number, error);
            self.wake_driver();
        }
    }

    // ---- dispositions --------------------------------------------------------------------------------------

    /// Settles a delivery. Consecutive deliveries with the same outcome share one frame.
    pub(crate) fn settle(&mut self, session: usize, id: u32, state: DeliveryState) {
        let Some(s) = self.sessions.get_mut(session) else { return };
        if s.settling.is_none() {
            self.settling.push(session);
        }
        let next = DispositionRange { first: id, last: id, settled: true, state };
        if let Some(ended) = replace_joined(&mut s.settling, next) {
            put_disposition(&mut self.endpoint, s.channel, &ended);
        }
        self.wake_driver();
    }

    pub(crate) fn flush_dispositions(&mut self) {
        for key in self.settling.drain(..) {
            let Some(s) = self.sessions.get_mut(key) else { continue };
            if let Some(ended) = s.settling.take() {
                put_disposition(&mut self.endpoint, s.channel, &ended);
            }
        }
    }

    /// Answers the requests for a credit report.
    pub(crate) fn flush_reports(&mut self) {
        for key in std::mem::take(&mut self.reports) {
            let Some(link) = self.links.get_mut(key) else { continue };
            let drain = std::mem::take(&mut link.drain);
            if let Some((channel, number)) = link.number {
                self.endpoint.report_credit(channel, number, 0, drain);
            }
        }
    }

    pub(crate) fn report_later(&mut self, key: usize, drain: bool) {
        if let Some(link) = self.links.get_mut(key) {
            link.drain |= drain;
            self.reports.push(key);
            self.wake_driver();
        }
    }

    /// Handles the peer's disposition of our deliveries `first..=last`.
    pub(crate) fn resolve(
        &mut self,
        channel: u16,
        (first, last): (u32, u32),
        settled: bool,
        state: Option<DeliveryState>,
    ) {
        let state = match state {
            Some(state) if settled || state.is_outcome() => state,
            // The peer settled the message without an outcome, so it is unknown whether the message was
            // received.
            None if settled => DeliveryState::Released,
            _ => return,
        };
        let mut runs = std::mem::take(&mut self.runs);
        self.endpoint.resolve(channel, first, last, true, &mut runs);
        for run in runs.drain(..) {
            if !settled {
                let ids = (run.first_id, run.last_id);
                self.endpoint.disposition(channel, Role::Sender, ids, true, &state);
            }
            if let Some(key) = self.link_by_number(channel, run.link)
                && let Some(link) = self.links.get_mut(key)
            {
                let full = link.outcomes.is_full();
                link.outcomes.resolve(run.first_cookie, run.last_cookie, &state);
                if full {
                    link.wakers.wake();
                }
            }
        }
        self.runs = runs;
    }

    // ---- closing ------------------------------------------------------------------------------------------

    /// Handles a violation by the peer: closes the link, the session or the connection.
    pub(crate) fn fault(&mut self, fault: Fault) {
        let error = Error::Protocol(fault.violation.clone());
        let reason = Some(fault.violation.to_error());
        match (fault.radius(), fault.session, fault.link) {
            (Radius::Link, Some(channel), Some(number)) => {
                self.endpoint.detach(channel, number, reason);
                if let Some(key) = self.link_by_number(channel, number) {
                    self.close_link(key, &error);
                }
            }
            (Radius::Session, Some(channel), _) => {
                self.endpoint.end(channel, reason);
                if let Some(key) = self.session_by_channel(channel) {
                    self.close_session(key, &error);
                }
            }
            _ => {
                let opened = self.open.is_none();
                if opened {
                    self.endpoint.close(reason, true);
                }
                self.close_all(&error);
            }
        }
    }

    /// Marks the connection and everything on it as closed for this reason.
    pub(crate) fn close_all(&mut self, error: &Error) {
        self.closed.get_or_insert_with(|| error.clone());
        let keys: Vec<usize> = self.sessions.iter().map(|(key, _)| key).collect();
        for key in keys {
            self.close_session(key, error);
        }
        self.wakers.wake();
    }

    pub(crate) fn refuse_link(&mut self, channel: u16, number: u32, attach: &Attach) {
        let role = if attach.role == Role::Sender { Role::Receiver } else { Role::Sender };
        let mut answer = Attach::new(attach.name.clone(), 0, role);
        answer.initial_delivery_count = (role == Role::Sender).then_some(0);
        self.endpoint.attach(channel, Some(number), answer);
        self.endpoint.detach(channel, number, Some(not_allowed("links are attached by the client")));
    }
}

/// Sends a disposition to the peer, unless the session is closed.
fn put_disposition(endpoint: &mut Endpoint, channel: Option<u16>, settled: &DispositionRange) {
    if let Some(channel) = channel {
        let DispositionRange { first, last, settled, state } = settled;
        endpoint.disposition(channel, Role::Receiver, (*first, *last), *settled, state);
    }
}

pub(crate) fn not_allowed(why: &str) -> AmqpError {
    let condition: Symbol = condition::NOT_ALLOWED;
    AmqpError { condition, description: Some(why.to_owned()), info: None }
}
