//! The client at the other end of a connection: who it is, where it comes from, and what it may do. Every gate has one, and
//! translates its errors for the client.

use std::net::IpAddr;
use std::sync::Arc;

use amqp10::sasl::{self, Secret};
use catalog::access::{
    AccessRefused, ConnectionLimits, CountedConnection, Credentials, Failed, Full, Identity, Login,
    LoginRefused, Protocol, Refusal, Resource, SessionLimits, SessionsFull, Verb, permit_binding,
};
use catalog::ids::ConnectionId;
use catalog::names::cut;
use catalog::{Caller, DEFAULT_VHOST};
use queue::Ticket;

use crate::admin_api::PassedCounts;
use crate::audit::{Actor, Rate};
use crate::cx::Cx;
use crate::intake::Sender;
use crate::mail::TicketOwner;
use crate::secured::Secured;
use crate::settings::Settings;

/// A client.
#[derive(Debug)]
pub struct Peer {
    pub id: ConnectionId,
    /// The key of the connection in the shard's table of connections.
    pub key: usize,
    /// The address that counts for limits and for `loopback_users`. A client of a Unix domain socket has a loopback address.
    pub address: IpAddr,
    /// The name that people see.
    pub name: Arc<str>,
    pub protocol: Protocol,
    pub connected_at_ms: u64,
    /// When the handshake ends: the connection is not open, or the client is told that its login was refused.
    pub handshake_deadline_ms: u64,
    /// The user who has logged in.
    pub identity: Option<Identity>,
    /// The user of a client that the node has connected itself, for somebody who has logged in already. This client logs in
    /// as EXTERNAL, and its login is not checked again.
    pub vouched: Option<Identity>,
    /// True if the client has logged in as that user.
    is_vouched: bool,
    /// The SASL mechanism of the accepted login.
    pub mechanism: &'static str,
    /// The virtual host that the connection is open to.
    pub vhost: Arc<str>,
    /// What passed over the channels and sessions that have ended. `None` before the connection is open.
    pub past: Option<PassedCounts>,
    /// What TLS says about the connection, if it speaks TLS.
    pub secured: Option<Arc<Secured>>,
    /// True if an event has announced that the connection is open. Another one follows at its end.
    pub(crate) is_announced: bool,
    /// The place among the open connections, from the opening to the end.
    counted: Option<CountedConnection>,
    /// New credentials that were refused, and for which the connection will end.
    refused_renewal: Option<Box<RefusedRenewal>>,
}

/// New credentials that were refused. Who guesses waits for the end of the connection.
#[derive(Debug)]
struct RefusedRenewal {
    why: String,
    due_ms: u64,
}

/// How a connection ends whose new credentials do not count.
#[derive(Debug)]
pub enum Ends {
    /// At once, for this reason.
    Now(String),
    /// Some time later. Until then it is as it was.
    Later,
}

/// Why a client may not open its connection.
#[derive(Debug)]
pub enum OpenRefused {
    /// There is no virtual host of this name.
    NoVhost(AccessRefused),
    /// The client may not use the virtual host, or not from its address, or its token has expired. The reason may also be a
    /// question that must be asked first.
    Denied(AccessRefused),
    /// There are as many connections as allowed.
    Full(String),
}

impl Peer {
    /// Returns who uses queues through this connection.
    pub fn caller(&self) -> Caller {
        Caller::Connection(self.id)
    }

    /// Creates the client of a new connection, which speaks AMQP 1.0 until its first bytes say otherwise.
    pub fn new(
        id: ConnectionId,
        key: usize,
        address: IpAddr,
        name: Arc<str>,
        settings: &Settings,
        now_ms: u64,
    ) -> Self {
        Self {
            id,
            key,
            address,
            name,
            protocol: Protocol::Amqp10,
            connected_at_ms: now_ms,
            handshake_deadline_ms: now_ms + settings.handshake_timeout_ms,
            identity: None,
            vouched: None,
            is_vouched: false,
            mechanism: "",
            vhost: DEFAULT_VHOST.into(),
            past: None,
            secured: None,
            is_announced: false,
            counted: None,
            refused_renewal: None,
        }
    }

    /// Returns the client for the gate of another protocol. It has not logged in.
    pub fn speaking(&self, protocol: Protocol) -> Self {
        let Self { id, key, address, connected_at_ms, handshake_deadline_ms, .. } = *self;
        Self {
            id,
            key,
            address,
            name: self.name.clone(),
            protocol,
            connected_at_ms,
            handshake_deadline_ms,
            identity: None,
            vouched: self.vouched.clone(),
            is_vouched: self.is_vouched,
            mechanism: "",
            vhost: DEFAULT_VHOST.into(),
            past: None,
            secured: self.secured.clone(),
            is_announced: false,
            counted: None,
            refused_renewal: None,
        }
    }

    /// Returns the publisher of the client's messages. `part` counts only for messages, not for checks of permissions.
    pub fn sender(&self, part: u16) -> Sender<'_> {
        Sender { vhost: &self.vhost, identity: self.identity.as_ref(), connection: &self.name, part }
    }

    /// Creates a ticket whose answer returns to this connection. Returns `None` if too many requests of the shard are in
    /// flight.
    pub fn ticket(&self, cx: &mut Cx<'_>) -> Option<Ticket> {
        cx.tickets.insert(TicketOwner::Gate(self.key)).map(Ticket)
    }

    // ---- login ------------------------------------------------------------------------------------------------

    /// Returns the SASL mechanisms that the client may use, of those that all protocols have.
    pub fn mechanisms(&self, cx: &Cx<'_>) -> Vec<&'static str> {
        let mut mechanisms = vec![sasl::PLAIN];
        mechanisms.extend(self.certificate_user().map(|_| sasl::EXTERNAL));
        mechanisms.extend(self.anonymous_user(cx).map(|_| sasl::ANONYMOUS));
        mechanisms
    }

    /// Reads the client's response. Returns it with the name of the mechanism.
    ///
    /// # Errors
    /// Says what is wrong with the response, or that the mechanism is not offered.
    pub fn credentials(
        &self,
        mechanism: &str,
        response: &[u8],
        cx: &Cx<'_>,
    ) -> Result<(&'static str, Credentials), String> {
        match (mechanism, self.anonymous_user(cx)) {
            (sasl::PLAIN, _) => Ok((sasl::PLAIN, Credentials::parse_plain(response)?)),
            (sasl::ANONYMOUS, Some(user)) => {
                Ok((sasl::ANONYMOUS, Credentials::Anonymous { user: user.to_owned() }))
            }
            (sasl::ANONYMOUS, None) => Err(LoginRefused::AnonymousDisabled.to_string()),
            (sasl::EXTERNAL, _) => match self.certificate_user() {
                Some(user) => Ok((sasl::EXTERNAL, Credentials::Certificate { user: user.to_owned() })),
                None => Err("EXTERNAL needs TLS and a client certificate that names a user".to_owned()),
            },
            (other, _) => Err(format!("mechanism '{}' is not offered", other.escape_default())),
        }
    }

    /// Returns the user that a client without credentials becomes. There is none at a listener that demands certificates: who
    /// has one says who they are.
    fn anonymous_user<'a>(&self, cx: &'a Cx<'_>) -> Option<&'a str> {
        let demands_certificate = self.secured.as_ref().is_some_and(|secured| secured.demands_certificate);
        cx.settings.anonymous_login_user.as_deref().filter(|_| !demands_certificate)
    }

    /// Returns the user whom the client's certificate names.
    fn certificate_user(&self) -> Option<&str> {
        self.secured.as_ref()?.peer.as_ref()?.user.as_deref()
    }

    /// Returns true if somebody else than the catalog decides what the client may do.
    pub fn is_remote(&self) -> bool {
        self.identity.as_ref().is_some_and(|who| who.remote.is_some())
    }

    /// Counts a login, and returns it to be checked.
    pub fn login(&self, credentials: Credentials, cx: &mut Cx<'_>) -> Login {
        self.count_attempt(cx);
        Login { credentials, from: self.address, at_ms: cx.now_ms }
    }

    /// Counts a login with a new token of a client that has logged in, and returns it to be checked.
    pub fn login_again(&self, token: Secret, cx: &mut Cx<'_>) -> Login {
        let user = self.identity.as_ref().map_or(String::new(), |who| who.user.to_string());
        self.login(Credentials::Plain { user, password: token }, cx)
    }

    /// Counts a login.
    pub fn count_attempt(&self, cx: &mut Cx<'_>) {
        cx.counters.over_mut(self.protocol).auth_attempts.all += 1;
    }

    /// Counts the result of a login.
    pub fn count_login(&self, user: &str, succeeded: bool, cx: &mut Cx<'_>) {
        let attempts = &mut cx.counters.over_mut(self.protocol).auth_attempts;
        *if succeeded { &mut attempts.succeeded } else { &mut attempts.failed } += 1;
        cx.access.sources().count(self.protocol, self.address, user, succeeded);
    }

    /// Called when a login was accepted.
    pub fn log_in(&mut self, identity: Identity, mechanism: &'static str, cx: &mut Cx<'_>) {
        self.count_login(&identity.user, true, cx);
        self.identity = Some(identity);
        self.mechanism = mechanism;
        self.actor().logged_in();
        self.emit_login(self.actor().user, mechanism, None, cx);
    }

    /// Returns true if the node itself has made the connection, for a request over HTTP.
    pub fn is_of_node(&self) -> bool {
        self.is_vouched
    }

    /// Logs in the client that [`Peer::vouched`] describes. Returns false, and does nothing, for any other client and
    /// mechanism. The login is not counted: it was counted where the user logged in.
    pub fn log_in_vouched(&mut self, mechanism: &str) -> bool {
        if mechanism != sasl::EXTERNAL {
            return false;
        }
        let Some(identity) = self.vouched.take() else { return false };
        self.identity = Some(identity);
        self.mechanism = sasl::EXTERNAL;
        self.is_vouched = true;
        true
    }

    /// Gives the client more time for the handshake: the broker has not read its socket for `late_ms`.
    pub fn forgive_lateness(&mut self, late_ms: u64) {
        self.handshake_deadline_ms = self.handshake_deadline_ms.saturating_add(late_ms);
    }

    /// Called when a login was refused. The client is told at [`Peer::handshake_deadline_ms`], after `delay_ms` at the
    /// latest, or later if its password is wrong and its address guesses passwords. The delay ends with the handshake timeout,
    /// so that a guesser cannot keep a connection longer than a silent client.
    ///
    /// Returns false if the socket must be closed at once, without an answer.
    #[must_use = "false closes the socket"]
    pub fn refuse_login(
        &mut self,
        mechanism: &str,
        user: &str,
        refusal: &Refusal,
        delay_ms: u64,
        cx: &mut Cx<'_>,
    ) -> bool {
        self.count_login(user, false, cx);
        let failed = cx.access.fail(self.address, user, refusal, cx.now_ms, delay_ms);
        let (delay_ms, is_told) = match failed {
            Failed::Refused => (delay_ms, true),
            Failed::Waits { ms } => (ms, true),
            Failed::Closed => (0, false),
        };
        let reason = failed.told(&refusal.reason);
        Actor { user, mechanism, ..self.actor() }.login_refused(&reason);
        self.emit_login(user, mechanism, Some(&reason), cx);
        self.handshake_deadline_ms = self.handshake_deadline_ms.min(cx.now_ms + delay_ms);
        is_told
    }

    /// Returns when the token of the client expires, in milliseconds since the epoch.
    pub fn expires_ms(&self) -> Option<u64> {
        self.identity.as_ref()?.token.as_ref().map(|token| token.expires_ms)
    }

    /// Returns true if the token of the client has expired.
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.expires_ms().is_some_and(|expires_ms| now_ms >= expires_ms)
    }

    /// Called when new credentials of a client that has logged in were checked. Takes the rights of a new token. The caller
    /// checks again what the client uses.
    ///
    /// # Errors
    /// The new credentials do not count. The connection must end for this reason: at once, or when
    /// [`Peer::take_refused_renewal`] returns it.
    pub fn renew(&mut self, result: Result<Identity, LoginRefused>, cx: &mut Cx<'_>) -> Result<(), Ends> {
        let user = self.identity.as_ref().map(|who| who.user.clone()).unwrap_or_default();
        self.count_login(&user, result.is_ok(), cx);
        let identity = result.map_err(|refused| {
            let refusal = Refusal::from(&refused);
            let failed = cx.access.fail(self.address, &user, &refusal, cx.now_ms, 0);
            let reason = failed.told(&refusal.reason);
            self.actor().login_refused(&reason);
            self.emit_login(&user, self.mechanism, Some(&reason), cx);
            let why = "the new credentials are refused".to_owned();
            let Failed::Waits { ms } = failed else { return Ends::Now(why) };
            // A client has one refusal that waits.
            if self.refused_renewal.is_some() {
                return Ends::Now(why);
            }
            self.refused_renewal = Some(Box::new(RefusedRenewal { why, due_ms: cx.now_ms + ms }));
            Ends::Later
        })?;
        self.take_identity(&user, identity, cx).map_err(Ends::Now)
    }

    /// Returns why the connection must end now, if its new credentials were refused some time ago.
    pub fn take_refused_renewal(&mut self, now_ms: u64) -> Option<String> {
        let refused = self.refused_renewal.take_if(|refused| now_ms >= refused.due_ms);
        refused.map(|refused| refused.why)
    }

    /// Returns when the client's token expires, or when its connection ends because new credentials were refused.
    pub fn next_deadline(&self) -> Option<u64> {
        let refused = self.refused_renewal.as_ref().map(|refused| refused.due_ms);
        self.expires_ms().into_iter().chain(refused).min()
    }

    fn take_identity(&mut self, user: &Arc<str>, identity: Identity, cx: &mut Cx<'_>) -> Result<(), String> {
        if self.identity.as_ref().is_some_and(|who| who.owner() != identity.owner()) {
            return Err(format!("the new credentials are not those of user '{user}'"));
        }
        // Every link would have to be asked for again before it may go on.
        if identity.remote.is_some() {
            return Err("a login that an HTTP server has checked cannot be renewed".to_owned());
        }
        self.identity = Some(identity);
        self.actor().logged_in();
        self.emit_login(user, self.mechanism, None, cx);
        Ok(())
    }

    // ---- places -----------------------------------------------------------------------------------------------

    /// Opens the connection to the virtual host [`Peer::vhost`], and takes a place among the open connections.
    ///
    /// # Errors
    /// The client may not, or not now.
    pub fn open(&mut self, cx: &Cx<'_>) -> Result<(), OpenRefused> {
        let because = |reason: String| OpenRefused::Denied(AccessRefused::because(reason));
        let Some(identity) = &self.identity else { return Err(because("login required".to_owned())) };
        cx.access.check_origin(identity, self.address).map_err(OpenRefused::Denied)?;
        if let Some(why) = cx.access.refuses_all() {
            return Err(OpenRefused::Full(format!("connection refused: {why}")));
        }
        if self.is_expired(cx.now_ms) {
            return Err(because("credential expired".to_owned()));
        }
        if !cx.catalog.has_vhost(&self.vhost) {
            let reason = format!("vhost '{}' not found", self.vhost.escape_default());
            return Err(OpenRefused::NoVhost(AccessRefused::because(reason)));
        }
        self.permit(Verb::OpenVhost, &[], cx).map_err(OpenRefused::Denied)?;
        let limits = ConnectionLimits {
            node: cx.settings.connection_max,
            vhost: cx.catalog.vhost_settings(&self.vhost).and_then(|vhost| vhost.max_connections),
            user: cx.catalog.users().limits_of(identity).max_connections,
        };
        let (vhost, user) = (&self.vhost, &identity.user);
        let counted = cx.access.connection_counts().open(vhost, identity.counted_as(), limits).map_err(|full| {
            OpenRefused::Full(match full {
                Full::Node(max) => format!("connection refused: node connection limit ({max}) is reached"),
                Full::Vhost(max) => format!(
                    "access to vhost '{vhost}' refused for user '{user}': connection limit ({max}) is reached"
                ),
                Full::User(max) => {
                    format!("connection refused for user '{user}': user connection limit ({max}) is reached")
                }
            })
        })?;
        self.counted = Some(counted);
        self.past = Some(PassedCounts::default());
        Ok(())
    }

    /// Gives up the place among the open connections.
    pub fn leave(&mut self) {
        self.counted = None;
    }

    /// Counts a session or channel that begins.
    ///
    /// # Errors
    /// The reason for which it must end: there are as many as allowed.
    pub fn begin_session(&mut self, cx: &Cx<'_>) -> Result<(), String> {
        let (Some(counted), Some(identity)) = (&mut self.counted, &self.identity) else { return Ok(()) };
        let user = &identity.user;
        let limits = SessionLimits {
            node: cx.settings.session_max,
            user: cx.catalog.users().limits_of(identity).max_channels,
        };
        counted.begin_session(limits).map_err(|full| match full {
            SessionsFull::Node(max) => format!(
                "number of channels opened on node '{}' has reached the maximum allowed limit of {max}",
                cx.settings.node_name
            ),
            SessionsFull::User(max) => format!(
                "number of channels opened for user '{user}' has reached the maximum allowed user limit of {max}"
            ),
        })
    }

    /// Counts a session or channel that has ended.
    pub fn end_session(&mut self, counts: PassedCounts) {
        self.past.iter_mut().for_each(|past| *past += counts);
        self.counted.iter_mut().for_each(CountedConnection::end_session);
    }

    // ---- permissions ------------------------------------------------------------------------------------------

    /// Checks by the table of verbs that the client may do this.
    ///
    /// # Errors
    /// The client may not, or it must be asked first.
    pub fn permit(&self, verb: Verb, on: &[Resource<'_>], cx: &Cx<'_>) -> Result<(), AccessRefused> {
        let Some(identity) = &self.identity else { return Err(AccessRefused::because("login required")) };
        cx.catalog.users().permit(identity, &self.vhost, verb, on)
    }

    /// Checks that the client may make a binding, or remove it, which `verb` says.
    ///
    /// # Errors
    /// As [`Peer::permit`].
    pub fn permit_binding(
        &self,
        verb: Verb,
        destination: Resource<'_>,
        source: &str,
        key: &str,
        cx: &Cx<'_>,
    ) -> Result<(), AccessRefused> {
        let topic = cx.catalog.is_topic(&self.vhost, source).then_some(key);
        permit_binding(verb, destination, source, topic, |verb, on| self.permit(verb, on, cx))
    }

    /// Checks that the connection may stay open after the rights of users, or the virtual hosts, have changed.
    ///
    /// # Errors
    /// The reason for which it must end.
    pub fn recheck(&self, cx: &Cx<'_>) -> Result<(), String> {
        if !cx.catalog.has_vhost(&self.vhost) {
            return Err(format!("vhost '{}' is deleted", self.vhost));
        }
        if let Some(who) = &self.identity
            && who.is_of_catalog
            && cx.catalog.users().get(&who.user).is_none()
        {
            return Err(format!("user '{}' is deleted", who.user));
        }
        match self.permit(Verb::OpenVhost, &[], cx) {
            Err(AccessRefused { question: None, reason }) => Err(reason),
            _ => Ok(()),
        }
    }

    // ---- the audit log ----------------------------------------------------------------------------------------

    /// Returns the client for audit lines.
    pub fn actor(&self) -> Actor<'_> {
        Actor {
            user: self.identity.as_ref().map_or("", |who| &who.user),
            // The name of a connection is the address of the client, and that of the listener.
            peer: self.name.split_once(" -> ").map_or(&*self.name, |(peer, _)| peer),
            protocol: self.protocol,
            mechanism: self.mechanism,
        }
    }

    /// Writes that the client has deleted something or the messages in it.
    pub fn deleted(&self, what: &str, name: &str) {
        let rate = self.identity.as_ref().map_or(Rate::Limited, |who| Rate::of(who, self.protocol));
        self.actor().changed(what, &format!("vhost={} name={}", cut(&self.vhost), cut(name)), rate);
    }

    /// Writes that the client has done what it may not do, and what ends for that reason. Requests of HTTP that open a connection
    /// write a line of their own.
    pub fn refused(&self, ended: &str, place: &str, why: &str) {
        if self.is_vouched {
            return;
        }
        self.actor().refused(ended, &format!("vhost={}{place}", cut(&self.vhost)), why);
    }
}
