//! Handles the events of the endpoint and wakes the tasks that wait for them.

use amqp10::sasl::{ANONYMOUS, EXTERNAL, PLAIN, encode_plain};
use amqp10::{
    Attach, Begin, Chunk, Detach, Event, Flow, Role, SaslCode, SaslInit, SaslMechanisms, Symbol, Tag,
};
use bytes::Bytes;

use crate::error::{Error, Scope};
use crate::state::{Received, State, not_allowed};

impl State {
    /// Handles one event of the endpoint. An error closes the connection.
    pub(crate) fn handle_event(&mut self, event: Event<'static>) -> Result<(), Error> {
        match event {
            Event::SaslMechanisms(mechanisms) => return self.handle_mechanisms(&mechanisms),
            Event::SaslOutcome(SaslCode::Ok) | Event::SaslInit(_) | Event::Discarded { .. } => {}
            Event::SaslOutcome(code) => return Err(Error::Login(code)),
            Event::HeaderExchanged => {
                if let Some(open) = self.open.take() {
                    self.endpoint.open(open);
                }
            }
            Event::Open(open) => {
                self.remote_open = Some(open);
                self.wakers.wake();
            }
            Event::Close(error) => {
                self.endpoint.close(None, true);
                self.close_all(&Error::remote(Scope::Connection, error));
            }
            Event::Begin { session, begin, answered } => self.handle_begin(session, &begin, answered),
            Event::End { session, error, answered } => {
                if !answered {
                    self.flush_dispositions();
                    self.endpoint.end(session, None);
                }
                if let Some(key) = self.session_by_channel(session) {
                    self.close_session(key, &Error::remote(Scope::Session, error));
                }
            }
            Event::Attach { session, link, attach } => self.handle_attach(session, link, attach),
            Event::Detach { session, link, detach, answered } => {
                self.handle_detach(session, link, detach, answered);
            }
            Event::Flow { session, link, flow } => self.handle_flow(session, link, flow),
            Event::Transfer { session, link, delivery } => {
                let received = Received {
                    id: delivery.id,
                    tag: Tag::new(&delivery.tag),
                    settled: delivery.settled,
                    message_format: delivery.message_format,
                    message: owned(delivery.message),
                };
                if let Some(key) = self.link_by_number(session, link)
                    && let Some(link) = self.links.get_mut(key)
                {
                    link.received += 1;
                    link.inbox.push_back(received);
                    link.wakers.wake();
                }
            }
            Event::Disposition { session, role: Role::Receiver, settled, state, first, last } => {
                self.resolve(session, (first, last), settled, state);
            }
            // We always settle together with the outcome, so the sender's dispositions add nothing.
            Event::Disposition { role: Role::Sender, .. } => {}
        }
        Ok(())
    }

    fn handle_mechanisms(&mut self, offered: &SaslMechanisms) -> Result<(), Error> {
        let offers = |name: &str| offered.sasl_server_mechanisms.iter().any(|m| m == name);
        let init = match &self.credentials {
            Some(credentials) if offers(PLAIN) => {
                let response = encode_plain(&credentials.user, &credentials.password);
                SaslInit {
                    initial_response: Some(amqp10::sasl::Secret::new(response)),
                    ..SaslInit::new(Symbol::from_static(PLAIN))
                }
            }
            None if offers(EXTERNAL) => SaslInit::new(Symbol::from_static(EXTERNAL)),
            None if offers(ANONYMOUS) => SaslInit::new(Symbol::from_static(ANONYMOUS)),
            _ => return Err(Error::Mechanism),
        };
        self.endpoint.sasl_init(init);
        Ok(())
    }

    fn handle_begin(&mut self, channel: u16, _begin: &Begin, answered: bool) {
        if !answered {
            self.endpoint.begin(Some(channel), false);
            self.endpoint.end(channel, Some(not_allowed("sessions are begun by the client")));
            return;
        }
        if let Some(session) = self.session_by_channel(channel).and_then(|key| self.sessions.get_mut(key)) {
            session.begun = true;
            session.wakers.wake();
        }
    }

    fn handle_attach(&mut self, channel: u16, number: u32, attach: Box<Attach>) {
        match self.link_by_number(channel, number).and_then(|key| self.links.get_mut(key)) {
            Some(link) => {
                link.attached = Some(attach);
                link.wakers.wake();
            }
            None => self.refuse_link(channel, number, &attach),
        }
    }

    fn handle_detach(&mut self, channel: u16, number: u32, detach: Detach, answered: bool) {
        if !answered {
            self.flush_dispositions();
            self.endpoint.detach(channel, number, None);
        }
        if let Some(key) = self.link_by_number(channel, number) {
            self.close_link(key, &Error::remote(Scope::Link, detach.error));
        }
    }

    fn handle_flow(&mut self, channel: u16, number: Option<u32>, flow: Flow) {
        let Some(number) = number else { return };
        let Some(key) = self.link_by_number(channel, number) else { return };
        let sending =
            self.endpoint.session(channel).and_then(|s| s.link(number)).is_some_and(amqp10::Link::is_sending);
        if sending && (flow.drain || flow.echo) {
            self.report_later(key, flow.drain);
        }
        if let Some(link) = self.links.get_mut(key) {
            link.wakers.wake();
        }
    }
}

fn owned(chunk: Chunk<'static>) -> Bytes {
    match chunk {
        Chunk::Owned(bytes) => bytes,
        Chunk::Borrowed(bytes) => Bytes::from_static(bytes),
    }
}
