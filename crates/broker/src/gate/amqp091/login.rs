//! Login and opening of the connection (docs/from-rabbitmq.md, AMQP 0.9.1).

use amqp10::Map;
use amqp10::sasl::{EXTERNAL, Secret};
use amqp091::sasl::AMQPLAIN;
use amqp091::{
    ConnectionOpen, ConnectionStartOk, ConnectionUpdateSecret, ReplyCode, State, Table, TableWriter, Value,
    sasl,
};
use bytes::{Bytes, BytesMut};
use catalog::access::{AccessRefused, Credentials, Identity, LoginRefused, Refusal};
use catalog::categories::{CONNECTION, PEER};
use catalog::names::cut;
use queue::Ticket;

use super::arguments::shown;
use super::held::Deferred;
use super::{Gate, Phase, Waiting, refusal, take};
use crate::cx::Cx;
use crate::intake::Awaited;
use crate::peer::{Ends, OpenRefused};
use crate::settings::{PROPERTIES_MAX, SLUICE_VERSION};

/// The extensions of RabbitMQ that this gate has, as the server's capabilities.
const CAPABILITIES: [&str; 9] = [
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
];

/// Stands for the mechanism of a client whose response to `connection.start` cannot be used.
const NO_MECHANISM: &str = "";

/// The delay before a refused login is answered, in milliseconds. RabbitMQ answers at once. Some clients, such as
/// php-amqplib, wait for an answer for 3 s only.
const REFUSAL_DELAY_MS: u64 = 1000;

/// The delay before the socket is closed without an answer, in milliseconds. RabbitMQ waits as long.
const SILENT_CLOSE_DELAY_MS: u64 = 3000;

/// The program at the other end.
#[derive(Debug, Default)]
pub(super) struct Client {
    /// The client's properties, in the form that people are shown.
    pub properties: Map,
    /// The bytes of memory that they take.
    pub property_bytes: usize,
    /// True if the client takes `basic.cancel` from the broker.
    pub is_told_of_cancel: bool,
    /// True if the client takes `connection.blocked`.
    pub is_told_of_blocking: bool,
    /// True if the client wants to know why its login was refused.
    wants_reason: bool,
}

impl Client {
    fn new(properties: Table<'_>) -> Self {
        let capabilities = match properties.get("capabilities") {
            Some(Value::Table(capabilities)) => capabilities,
            _ => Table::EMPTY,
        };
        let has = |name: &str| matches!(capabilities.get(name), Some(Value::Bool(true)));
        let properties = shown(properties);
        Self {
            property_bytes: properties.heap_bytes(),
            properties,
            is_told_of_cancel: has("consumer_cancel_notify"),
            is_told_of_blocking: has("connection.blocked"),
            wants_reason: has("authentication_failure_close"),
        }
    }
}

impl Gate {
    pub(super) fn offer_mechanisms(&mut self, cx: &Cx<'_>) {
        let mut mechanisms = self.peer.mechanisms(cx);
        // Clients take the first one that they know.
        mechanisms.insert(1, AMQPLAIN);
        // The node speaks AMQP 0.9.1 to itself.
        mechanisms.extend(self.peer.vouched.as_ref().map(|_| EXTERNAL));
        let properties = server_properties(cx);
        self.conn.start(&mechanisms.join(" "), Table::from_entries(&properties[4..]));
    }

    /// Starts a login check. No more input is handled before the result arrives.
    pub(super) fn handle_start_ok(&mut self, start_ok: &ConnectionStartOk<'_>, cx: &mut Cx<'_>) {
        self.client = Client::new(start_ok.client_properties);
        let bytes = self.client.property_bytes;
        if bytes > PROPERTIES_MAX {
            self.client = Client::default();
            let text =
                format!("client properties take at most {PROPERTIES_MAX} bytes of memory, not {bytes}");
            return self.fail(refusal::connection(ReplyCode::ResourceError, text), cx);
        }
        if self.peer.log_in_vouched(start_ok.mechanism) {
            return self.conn.tune();
        }
        let response = start_ok.response.expose();
        let credentials = match start_ok.mechanism {
            AMQPLAIN => amqplain(response).map(|credentials| (AMQPLAIN, credentials)),
            other => self.peer.credentials(cut(other), response, cx),
        };
        let (mechanism, credentials) = match credentials {
            Ok(credentials) => credentials,
            Err(reason) => {
                self.peer.count_attempt(cx);
                return self.refuse_login(NO_MECHANISM, "", &Refusal::other(reason), cx);
            }
        };
        let user: Box<str> = cut(credentials.user()).into();
        let login = self.peer.login(credentials, cx);
        match self.wait(Waiting::Login { mechanism, user: user.clone() }, cx) {
            Ok(ticket) => {
                self.phase = Phase::Login;
                cx.check_login(ticket, login);
            }
            Err(_) => {
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
            Some(Waiting::Renewal) => return self.finish_renewal(result, cx),
            _ => return,
        };
        // RabbitMQ checks this with the login, not when the virtual host is opened.
        let result = result.map_err(|refused| Refusal::from(&refused)).and_then(|identity| {
            let allowed = cx.access.check_origin(&identity, self.peer.address);
            allowed.map(|()| identity).map_err(|refused| Refusal::other(refused.reason))
        });
        match result {
            Ok(identity) => {
                self.peer.log_in(identity, mechanism, cx);
                self.phase = Phase::Handshake;
                self.conn.tune();
            }
            Err(refusal) => self.refuse_login(mechanism, &user, &refusal, cx),
        }
    }

    fn refuse_login(&mut self, mechanism: &'static str, user: &str, refusal: &Refusal, cx: &mut Cx<'_>) {
        self.peer.mechanism = mechanism;
        let delay_ms = if self.is_told_of_refusal() { REFUSAL_DELAY_MS } else { SILENT_CLOSE_DELAY_MS };
        match self.peer.refuse_login(mechanism, user, refusal, delay_ms, cx) {
            true => self.phase = Phase::Refused,
            false => self.handle_disconnect(cx),
        }
    }

    /// Returns true if the client receives `connection.close` with the reason. If not, only its socket is closed. As in
    /// RabbitMQ, this happens to clients that do not ask for the reason, and to those whose response is malformed or whose
    /// mechanism is not offered.
    fn is_told_of_refusal(&self) -> bool {
        self.client.wants_reason && self.peer.mechanism != NO_MECHANISM
    }

    /// Called some time after the login was refused.
    pub(super) fn report_refusal(&mut self, cx: &Cx<'_>) {
        if self.is_told_of_refusal() {
            let text = format!(
                "Login was refused using authentication mechanism {}. For details see the broker logfile.",
                self.peer.mechanism
            );
            self.conn.fail(&refusal::connection(ReplyCode::AccessRefused, text));
        }
        self.await_close_ok(cx);
    }

    /// Called when the connection was not opened in time.
    pub(super) fn time_out_handshake(&mut self, cx: &mut Cx<'_>) {
        let ms = cx.settings.handshake_timeout_ms;
        let login = self.waiting.values().find_map(|waiting| match waiting {
            Waiting::Login { mechanism, user } => Some((*mechanism, user.clone())),
            _ => None,
        });
        match login {
            Some((mechanism, user)) => {
                let refusal =
                    Refusal::other(format!("it was not checked within the handshake timeout of {ms} ms"));
                // The socket is closed without an answer in any case.
                let _ = self.peer.refuse_login(mechanism, &user, &refusal, 0, cx);
            }
            None => tracing::warn!(
                name: PEER, target: CONNECTION, connection = %self.peer.name,
                "closing: the connection was not opened within the handshake timeout of {ms} ms"
            ),
        }
        self.handle_disconnect(cx);
    }

    pub(super) fn handle_open(&mut self, vhost: &str, cx: &mut Cx<'_>) {
        self.peer.vhost = vhost.into();
        let refused = match self.peer.open(cx) {
            Ok(()) => {
                self.conn.open_ok();
                self.phase = Phase::Open;
                tracing::info!(
                    name: PEER, target: CONNECTION,
                    connection = %self.peer.name,
                    user = %self.peer.identity.as_ref().map_or("", |i| &i.user),
                    vhost = %cut(&self.peer.vhost).escape_default(),
                    "connection open"
                );
                self.peer.emit_opened(&self.client.properties, cx);
                return;
            }
            Err(OpenRefused::Denied(AccessRefused { question: Some(question), .. })) => {
                return self.hold(Deferred::Open(vhost.into()), Awaited::Answer(question), cx);
            }
            Err(OpenRefused::NoVhost(_) | OpenRefused::Denied(_)) if cx.may_lag && !self.peer.is_remote() => {
                return self.hold(Deferred::Open(vhost.into()), Awaited::Catalog, cx);
            }
            // RabbitMQ's words, for which clients look.
            Err(OpenRefused::NoVhost(_)) => format!("vhost {} not found", vhost.escape_default()),
            Err(OpenRefused::Denied(refused)) => refused.reason,
            Err(OpenRefused::Full(reason)) => reason,
        };
        let failed = (ConnectionOpen::CLASS_ID, ConnectionOpen::METHOD_ID);
        self.refuse_method(0, failed, refusal::Refused::new(ReplyCode::NotAllowed, refused), cx);
    }

    /// Starts the check of a new token (`connection.update-secret`). A login that does not expire stays as it is. As in
    /// RabbitMQ, it is answered without a check, because clients renew the secret whatever the broker uses it for.
    pub(super) fn handle_update_secret(&mut self, update: &ConnectionUpdateSecret<'_>, cx: &mut Cx<'_>) {
        if self.peer.expires_ms().is_none() {
            return self.conn.update_secret_ok();
        }
        let token = Secret::new(Bytes::copy_from_slice(update.new_secret.expose()));
        let login = self.peer.login_again(token, cx);
        match self.wait(Waiting::Renewal, cx) {
            Ok(ticket) => cx.check_renewal(ticket, login),
            Err(refused) => {
                let failed = (ConnectionUpdateSecret::CLASS_ID, ConnectionUpdateSecret::METHOD_ID);
                self.refuse_method(0, failed, refused, cx);
            }
        }
    }

    /// Called when a new token was checked. The connection ends if it does not count.
    fn finish_renewal(&mut self, result: Result<Identity, LoginRefused>, cx: &mut Cx<'_>) {
        match self.peer.renew(result, cx) {
            Ok(()) => {
                self.resume(cx);
                self.handle_renewal(cx);
                // The connection ends if the new token does not allow its virtual host.
                if self.conn.state() == State::Opened {
                    self.conn.update_secret_ok();
                }
            }
            Err(Ends::Now(why)) => {
                self.resume(cx);
                self.refuse_renewal(why, cx);
            }
            // Nothing is read until then.
            Err(Ends::Later) => {}
        }
    }

    pub(super) fn refuse_renewal(&mut self, why: String, cx: &mut Cx<'_>) {
        self.fail(refusal::connection(ReplyCode::NotAllowed, why), cx);
    }
}

/// Reads a response of AMQPLAIN.
fn amqplain(response: &[u8]) -> Result<Credentials, String> {
    let login = sasl::parse_amqplain(response).map_err(|malformed| malformed.to_string())?;
    let password = Secret::new(Bytes::copy_from_slice(login.password.expose()));
    Ok(Credentials::Plain { user: login.user.to_owned(), password })
}

/// Returns what the broker says about itself, as a table with its length.
fn server_properties(cx: &Cx<'_>) -> BytesMut {
    let mut table = BytesMut::new();
    let mut properties = TableWriter::new(&mut table);
    let mut put = |key: &str, value: &str| properties.put(key, &Value::LongString(value.as_bytes()));
    put("product", &cx.settings.compat_product);
    put("version", &cx.settings.compat_version);
    put("sluice_version", SLUICE_VERSION);
    put("cluster_name", cx.cluster_name());
    put("platform", "Rust");
    let mut capabilities = properties.table("capabilities");
    CAPABILITIES.iter().for_each(|name| capabilities.put(name, &Value::Bool(true)));
    drop(capabilities);
    drop(properties);
    table
}
