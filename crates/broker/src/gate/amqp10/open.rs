//! Login and OPEN (docs/compatibility.md, Connections).

use amqp10::link::NAME_MAX;
use amqp10::{AmqpError, ConnectionState, Map, Open, SaslCode, SaslInit, Symbol, Value, condition};
use catalog::access::{AccessRefused, Identity, LoginRefused, Refusal};
use catalog::categories::{CONNECTION, PEER};
use catalog::names::cut;

use queue::Ticket;

use super::asking::Deferred;
use super::ends::HeldAnswer;
use super::{Client, Cx, Gate, Phase, Waiting, error, shown, shown_error, take};
use crate::peer::OpenRefused;
use crate::settings::{PROPERTIES_MAX, SLUICE_VERSION};

/// The hostname in OPEN names a virtual host in this form. Any other hostname means the default virtual host.
const VHOST_PREFIX: &str = "vhost:";

/// The delay before the outcome of a refused login is sent, in milliseconds. RabbitMQ waits as long.
const REFUSAL_DELAY_MS: u64 = 3000;

impl Gate {
    pub(super) fn offer_mechanisms(&mut self, cx: &mut Cx<'_>) {
        if self.conn.state() != ConnectionState::Sasl {
            return;
        }
        let mechanisms = self.peer.mechanisms(cx).into_iter().map(Symbol::from_static).collect();
        self.conn.sasl_mechanisms(mechanisms);
    }

    /// Starts a login check. No more input is handled before the result arrives.
    pub(super) fn handle_sasl_init(&mut self, init: &SaslInit, cx: &mut Cx<'_>) {
        let response = init.initial_response.as_ref().map_or(&[][..], |r| r.expose());
        let (mechanism, credentials) = match self.peer.credentials(init.mechanism.as_str(), response, cx) {
            Ok(credentials) => credentials,
            Err(reason) => {
                self.peer.count_attempt(cx);
                return self.refuse_login(init.mechanism.as_str(), "", &Refusal::other(reason), cx);
            }
        };
        let user: Box<str> = cut(credentials.user()).into();
        let login = self.peer.login(credentials, cx);
        match self.ticket(Waiting::Login { mechanism, user: user.clone() }, cx) {
            Some(ticket) => {
                self.phase = Phase::Login;
                cx.check_login(ticket, login);
            }
            None => {
                let refusal = Refusal::other("too many requests in flight on this shard");
                self.refuse_login(mechanism, &user, &refusal, cx);
            }
        }
    }

    /// Called with the result of a login check. A late result has no effect.
    pub fn handle_login(&mut self, ticket: Ticket, result: Result<Identity, LoginRefused>, cx: &mut Cx<'_>) {
        cx.tickets.remove(ticket.0);
        let (mechanism, user) = match take(&mut self.waiting, ticket) {
            Some(Waiting::Login { mechanism, user }) if self.phase == Phase::Login => (mechanism, user),
            Some(Waiting::Management { pair, request }) => {
                return self.finish_renewal(pair, request, result, cx);
            }
            _ => return,
        };
        match result {
            Ok(identity) => {
                self.peer.log_in(identity, mechanism, cx);
                self.phase = Phase::Handshake;
                self.conn.sasl_outcome(SaslCode::Ok);
            }
            Err(refused) => self.refuse_login(mechanism, &user, &(&refused).into(), cx),
        }
    }

    fn refuse_login(&mut self, mechanism: &str, user: &str, refusal: &Refusal, cx: &mut Cx<'_>) {
        let is_told = self.peer.refuse_login(mechanism, user, refusal, REFUSAL_DELAY_MS, cx);
        self.phase = if is_told { Phase::Refused } else { Phase::Done };
    }

    /// Called when the login was not checked in time. The client may try again [5.3.3.6].
    pub(super) fn time_out_login(&mut self, cx: &mut Cx<'_>) {
        let login = self.waiting.values().find_map(|waiting| match waiting {
            Waiting::Login { mechanism, user } => Some((*mechanism, user.clone())),
            _ => None,
        });
        let (mechanism, user) = login.unwrap_or_default();
        let ms = cx.settings.handshake_timeout_ms;
        let refusal = Refusal::other(format!("it was not checked within the handshake timeout of {ms} ms"));
        // The handshake is over, so nothing waits.
        if self.peer.refuse_login(mechanism, &user, &refusal, REFUSAL_DELAY_MS, cx) {
            self.conn.sasl_outcome(SaslCode::SysTemp);
        }
        self.phase = Phase::Done;
    }

    pub(super) fn report_refusal(&mut self) {
        self.conn.sasl_outcome(SaslCode::Auth);
        self.phase = Phase::Done;
    }

    pub(super) fn time_out_handshake(&mut self, cx: &mut Cx<'_>) {
        let ms = cx.settings.handshake_timeout_ms;
        let reason = format!("no OPEN within the handshake timeout of {ms} ms");
        self.fail(error(condition::RESOURCE_LIMIT_EXCEEDED, reason), cx);
    }

    /// Returns true if the state of the protocol allows sending an error.
    pub(super) fn can_send_error(&self) -> bool {
        matches!(self.conn.state(), ConnectionState::Opening | ConnectionState::Opened)
    }

    pub(super) fn handle_open(&mut self, open: Open, cx: &mut Cx<'_>) {
        let len = open.container_id.len();
        if len > NAME_MAX {
            let reason = format!("a container-id has at most {NAME_MAX} bytes, not {len}");
            return self.fail(error(condition::INVALID_FIELD, reason), cx);
        }
        let property_bytes = open.properties.as_ref().map_or(0, Map::heap_bytes);
        if property_bytes > PROPERTIES_MAX {
            let reason = format!(
                "the properties of OPEN take at most {PROPERTIES_MAX} bytes of memory, not {property_bytes}"
            );
            return self.fail(error(condition::RESOURCE_LIMIT_EXCEEDED, reason), cx);
        }
        let hostname = open.hostname.as_deref().unwrap_or_default();
        self.peer.vhost = hostname.strip_prefix(VHOST_PREFIX).unwrap_or(&cx.settings.default_vhost).into();
        match self.peer.open(cx) {
            Ok(()) => {}
            Err(OpenRefused::Denied(AccessRefused { question: Some(question), .. })) => {
                return self.hold(Deferred::Open(Box::new(open)), question, cx);
            }
            Err(OpenRefused::Denied(_) | OpenRefused::NoVhost(_)) if cx.may_lag && !self.peer.is_remote() => {
                return self.hold_unsure(Deferred::Open(Box::new(open)), cx);
            }
            Err(OpenRefused::Denied(refused) | OpenRefused::NoVhost(refused)) => {
                return self.fail(super::unauthorized(refused), cx);
            }
            Err(OpenRefused::Full(reason)) => {
                return self.fail(error(condition::RESOURCE_LIMIT_EXCEEDED, reason), cx);
            }
        }
        self.client = Client { container_id: open.container_id, properties: open.properties, property_bytes };
        self.conn.open(open_frame(cx));
        self.phase = Phase::Open;
        tracing::info!(
            name: PEER, target: CONNECTION,
            connection = %self.peer.name,
            user = %self.peer.identity.as_ref().map_or("", |i| &i.user),
            vhost = shown(&self.peer.vhost),
            container = shown(&self.client.container_id),
            "connection open"
        );
        self.peer.emit_opened(self.client.properties.as_ref().unwrap_or(&Map::new()), cx);
    }

    /// Sends OPEN if it has not been sent, so that a CLOSE with the error can follow.
    pub(super) fn send_open_if_needed(&mut self, cx: &Cx<'_>) {
        if matches!(self.phase, Phase::Handshake | Phase::Login)
            && self.conn.state() == ConnectionState::Opening
        {
            self.conn.open(open_frame(cx));
        }
    }

    pub(super) fn handle_close(&mut self, error: Option<&AmqpError>, cx: &mut Cx<'_>) {
        if let Some(error) = error {
            tracing::info!(name: PEER, target: CONNECTION, connection = %self.peer.name, "client closed the connection: {}", shown_error(error));
        }
        if self.phase == Phase::Done {
            return;
        }
        self.leave_all_sessions(cx);
        self.own.delete_all(self.peer.key, cx);
        // Exclusive and dynamic queues are deleted before CLOSE is answered. See [`crate::own_queues`].
        self.answer_after_deletions(HeldAnswer::Close, 0, cx);
    }

    pub(super) fn answer_close(&mut self, cx: &mut Cx<'_>) {
        self.send_open_if_needed(cx);
        self.conn.close(None, true);
        self.phase = Phase::Done;
    }
}

fn open_frame(cx: &Cx<'_>) -> Open {
    let mut properties = Map::new();
    let mut put =
        |key: &'static str, value: &str| properties.insert(Symbol::from_static(key), Value::from(value));
    put("node", &cx.settings.node_name);
    put("product", &cx.settings.compat_product);
    put("version", &cx.settings.compat_version);
    put("sluice_version", SLUICE_VERSION);
    put("cluster_name", cx.cluster_name());
    put("platform", "Rust");
    Open {
        container_id: cx.cluster_name().to_owned(),
        offered_capabilities: vec![
            Symbol::from_static("LINK_PAIR_V1_0"),
            Symbol::from_static("ANONYMOUS-RELAY"),
        ],
        properties: Some(properties),
        ..Open::default()
    }
}
