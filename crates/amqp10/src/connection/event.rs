//! The result of handling a frame of the peer: an event to act on, or a fault.

use crate::link::Delivery;
use crate::violation::{Radius, Violation};
use crate::{
    AmqpError, Attach, Begin, DeliveryState, Detach, Flow, Open, Role, SaslCode, SaslInit, SaslMechanisms,
};

/// What the peer requests or reports. Sessions and links have our own numbers here.
#[derive(Debug)]
pub enum Event<'a> {
    /// Server: SASL-INIT is received. Answer with [`sasl_outcome`](super::Connection::sasl_outcome).
    SaslInit(SaslInit),
    /// Client: choose a mechanism with [`sasl_init`](super::Connection::sasl_init).
    SaslMechanisms(SaslMechanisms),
    /// Client: any code except `Ok` is final.
    SaslOutcome(SaslCode),
    /// Server: a protocol header was exchanged. In state `Sasl`, call
    /// [`sasl_mechanisms`](super::Connection::sasl_mechanisms) now; the second time SASL is complete. Client:
    /// SASL is complete; call [`open`](super::Connection::open) now.
    HeaderExchanged,
    Open(Box<Open>),
    Close(Option<AmqpError>),
    /// The peer began a session (answer with [`begin`](super::Connection::begin)) or answered our BEGIN. If it needs the number
    /// of a session that the peer has ended and whose END was not answered, that END is answered first.
    Begin {
        session: u16,
        begin: Begin,
        answered: bool,
    },
    /// The peer ended the session. Unless `answered`, answer with [`end`](super::Connection::end).
    End {
        session: u16,
        error: Option<AmqpError>,
        answered: bool,
    },
    /// The peer proposed a link or answered our ATTACH. As with sessions, a DETACH that was not answered is answered first if
    /// the link needs the number.
    Attach {
        session: u16,
        link: u32,
        attach: Box<Attach>,
    },
    /// The peer detached the link. Unless `answered`, answer with [`detach`](super::Connection::detach).
    Detach {
        session: u16,
        link: u32,
        detach: Detach,
        answered: bool,
    },
    Flow {
        session: u16,
        link: Option<u32>,
        flow: Flow,
    },
    /// A complete delivery.
    Transfer {
        session: u16,
        link: u32,
        delivery: Delivery<'a>,
    },
    /// A delivery that is not completed: the sender aborted it, or resumed a delivery that we do not know.
    /// Its credit is spent.
    Discarded {
        session: u16,
        link: u32,
    },
    /// The peer reported the state of deliveries. Call [`resolve`](super::Connection::resolve) to find which
    /// of our deliveries it means.
    Disposition {
        session: u16,
        role: Role,
        settled: bool,
        state: Option<DeliveryState>,
        first: u32,
        last: u32,
    },
}

/// A violation, and the session and link in which it occurred.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    pub violation: Violation,
    pub session: Option<u16>,
    pub link: Option<u32>,
}

impl Fault {
    pub(super) fn connection(violation: Violation) -> Self {
        Self { violation, session: None, link: None }
    }

    pub fn radius(&self) -> Radius {
        match (self.violation.sentence().0, self.session, self.link) {
            (Radius::Link, Some(_), Some(_)) => Radius::Link,
            (Radius::Link | Radius::Session, Some(_), _) => Radius::Session,
            _ => Radius::Connection,
        }
    }
}
