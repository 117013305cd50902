//! ATTACH: the rules for links (docs/compatibility.md, Sessions and links, Addresses, Dynamic nodes).

use std::sync::Arc;

use super::address;
use super::asking::Deferred;
use super::dynamic::{Bound, dynamic_node_properties};
use super::intake::Published;
use super::node_address::{self, Format, Node};
use super::outbound::{Consuming, Modes};
use super::refusal::{Refused, no_exchange, not_implemented, on_link};
use super::replies::wants_replies;
use super::{Cx, Gate, LinkRole, error, filter, shown};
use crate::counters::Deprecated;
use crate::intake::{Intake, Target as IntakeTarget};
use crate::outlet::{Outlet, Wanted};
use crate::settings::STATE_MAX;
use amqp10::link::NAME_MAX;
use amqp10::{
    Attach, DeliveryState, Role, SenderSettleMode, Source, Symbol, Target, TargetArchetype, Value, condition,
};
use catalog::access::{Protocol, Resource, Verb};
use catalog::categories::{CHANNEL, PEER};
use catalog::reply_to::ReplyTo;
use catalog::{CatalogError, QueueRecord};
use message::DeliveryMax;

/// The capability of the source with which clients of JMS subscribe to a topic. Each of them expects all messages, and those that
/// read one queue would compete for them. Readers of a stream, and those with a queue of their own behind an exchange, do not.
const TOPIC: &str = "topic";

/// The capability of the source with which clients of JMS share a subscription to a topic.
const SHARED: &str = "shared";

/// The outcomes that a receiver may list.
const OUTCOMES: [&str; 4] =
    ["amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list"];

/// The distribution mode of receivers whose messages stay in the node [3.5.7], and that of all others.
const COPY: &str = "copy";
const MOVE: &str = "move";

impl Gate {
    /// Checks the size of an ATTACH before anything else is known of it. What it says may be kept as long as the link.
    pub(super) fn check_size(&self, attach: &Attach) -> Result<(), Refused> {
        let len = attach.name.len();
        if len > NAME_MAX {
            let what = format!("a link name has at most {NAME_MAX} bytes, not {len},");
            return Err(on_link(condition::INVALID_FIELD, &what, attach));
        }
        if self.kept_bytes() > STATE_MAX {
            let what = format!(
                "the ATTACHes of a connection's links and its properties have at most {STATE_MAX} bytes together,"
            );
            return Err(on_link(condition::RESOURCE_LIMIT_EXCEEDED, &what, attach));
        }
        Ok(())
    }

    pub(super) fn handle_attach(&mut self, session: u16, link: u32, attach: Box<Attach>, cx: &mut Cx<'_>) {
        let result = match attach.role {
            Role::Sender => self.attach_publisher(session, link, &attach, cx),
            Role::Receiver => self.attach_consumer(session, link, &attach, cx),
        };
        match result {
            Ok(()) => {}
            Err(Refused::Unknown(question)) => {
                self.hold(Deferred::Attach { session, link, attach }, question, cx);
            }
            Err(refused) if self.is_unsure(&refused, cx) => {
                self.hold_unsure(Deferred::Attach { session, link, attach }, cx);
            }
            Err(refused) => self.refuse(session, link, &attach, refused, cx),
        }
    }

    /// Refuses an ATTACH. A refused link gets an ATTACH without the terminus that does not exist, and then a DETACH
    /// with the reason [2.6.3].
    pub(super) fn refuse(
        &mut self,
        session: u16,
        link: u32,
        attach: &Attach,
        refused: Refused,
        cx: &mut Cx<'_>,
    ) {
        match refused {
            Refused::Session(error) => self.end(session, error, cx),
            // Everything that a link may need was asked before its node was made.
            Refused::Unknown(question) => self.end(session, super::unauthorized(question.into()), cx),
            Refused::Link(error) => {
                let reply = match attach.role {
                    Role::Sender => Attach {
                        role: Role::Receiver,
                        source: attach.source.clone(),
                        target: None,
                        ..blank_reply(attach)
                    },
                    Role::Receiver => Attach {
                        role: Role::Sender,
                        source: None,
                        target: attach.target.clone(),
                        initial_delivery_count: Some(0),
                        ..blank_reply(attach)
                    },
                };
                if self.answer_attach(session, link, reply, cx) {
                    self.detach(session, link, error, cx);
                    self.conn.forget_attach(session, link);
                }
            }
        }
    }

    /// Answers an ATTACH. If the answer does not fit into the client's frames, ends the session and returns false
    /// [2.7.1].
    pub(super) fn answer_attach(&mut self, session: u16, link: u32, reply: Attach, cx: &mut Cx<'_>) -> bool {
        let name = reply.name.clone();
        let answered = self.conn.attach(session, Some(link), reply).is_some();
        if !answered {
            let max = self.conn.remote_max_frame_size();
            let reason = format!(
                "the answer to ATTACH of link '{}' is larger than the client's max-frame-size of {max} bytes",
                shown(&name)
            );
            self.end(session, error(condition::FRAME_SIZE_TOO_SMALL, reason), cx);
        }
        answered
    }

    fn check_common(attach: &Attach) -> Result<(), Refused> {
        if attach.unsettled.as_ref().is_some_and(|u| !u.is_empty()) || attach.incomplete_unsettled {
            return Err(not_implemented("Link recovery not supported", attach));
        }
        Ok(())
    }

    // ---- the client publishes -----------------------------------------------------------------------------

    fn attach_publisher(
        &mut self,
        session: u16,
        link: u32,
        attach: &Attach,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        let target = match &attach.target {
            Some(TargetArchetype::Coordinator(_)) => {
                return Err(not_implemented("Transactions not supported (AMQP 0.9.1 has them)", attach));
            }
            Some(TargetArchetype::Target(target)) => target.clone(),
            None => Target::default(),
        };
        Self::check_common(attach)?;
        if target.dynamic {
            return self.start_dynamic(
                session,
                link,
                attach,
                &target.capabilities,
                target.address.is_some(),
                cx,
            );
        }
        let Some(address) = &target.address else {
            let intake = self.new_intake(session, link, IntakeTarget::Anywhere, cx)?;
            self.accept_publisher(session, link, attach, target, intake, cx);
            return Ok(());
        };
        if address == address::MANAGEMENT {
            return self.attach_requests(session, link, attach, cx);
        }
        let (node, format) = node_address::of_target(address, cx.settings.permit_address_v1)
            .map_err(|bad| error(condition::INVALID_FIELD, bad.to_string()))?;
        let vhost = self.peer.vhost.clone();
        let (exchange, key, watched) = match node {
            Node::Queue { name, .. } if let Some(to) = ReplyTo::parse(&name) => {
                self.permit_role(Role::Sender, &name, cx)?;
                return self.probe_replies(session, link, attach, to, cx);
            }
            Node::Queue { name, declare: true } if cx.catalog.listed_queue(&vhost, &name).is_none() => {
                return self.make_named_queue((session, link), attach, name, cx);
            }
            Node::Queue { name, .. } => {
                self.permit_role(Role::Sender, &name, cx)?;
                let record = self.known_queue(&name, cx)?;
                (String::new(), Some(name), Some(record))
            }
            Node::Exchange { exchange, key } => (exchange, key, None),
        };
        // Who may not publish is not told whether the exchange exists.
        self.permit(Verb::Publish, &[Resource::Exchange(&exchange)], cx)?;
        let found = cx.catalog.exchange(&vhost, &exchange).ok_or_else(|| no_exchange(&exchange, &vhost))?;
        if found.internal {
            let reason = format!("forbidden to publish to internal exchange '{exchange}' in vhost '{vhost}'");
            return Err(error(condition::UNAUTHORIZED_ACCESS, reason).into());
        }
        let target_of_link = match key {
            Some(key) => IntakeTarget::route(exchange, key),
            None => IntakeTarget::Exchange(exchange.into()),
        };
        let mut intake = self.new_intake(session, link, target_of_link, cx)?;
        if let Some(queue) = watched {
            intake.watch(&queue, cx);
        }
        self.note_format(format, attach, address, cx);
        self.accept_publisher(session, link, attach, target, intake, cx);
        Ok(())
    }

    pub(super) fn new_intake(
        &self,
        session: u16,
        link: u32,
        target: IntakeTarget,
        cx: &mut Cx<'_>,
    ) -> Result<Intake<Published>, Refused> {
        Intake::open(self.address(session, link), Protocol::Amqp10, target, cx).ok_or_else(|| {
            Refused::Link(error(condition::RESOURCE_LIMIT_EXCEEDED, "too many publishers on this shard"))
        })
    }

    pub(super) fn accept_publisher(
        &mut self,
        session: u16,
        link: u32,
        attach: &Attach,
        target: Target,
        intake: Intake<Published>,
        cx: &mut Cx<'_>,
    ) {
        let reply = Attach {
            role: Role::Receiver,
            source: attach.source.clone(),
            target: Some(TargetArchetype::Target(target)),
            max_message_size: Some(cx.settings.max_message_size),
            offered_capabilities: match intake.watched().and_then(|queue| cx.catalog.queue_by_id(queue)) {
                Some(record) if record.is_stream() => stream_capabilities(),
                _ => Vec::new(),
            },
            ..blank_reply(attach)
        };
        self.set_role(session, link, LinkRole::Intake(Box::new(intake)));
        // A route has the key three times: by itself, and in both of its encodings.
        let address_bytes = attach.target.as_ref().map_or(0, address_bytes);
        self.conn.add_attached_bytes(session, link, 2 * address_bytes);
        self.answer_attach(session, link, reply, cx);
        self.touch(session, link);
    }

    /// Counts accepted links to addresses of format v1. Only the first one on the shard is logged.
    pub(super) fn note_format(&self, format: Format, attach: &Attach, address: &str, cx: &mut Cx<'_>) {
        if format == Format::V2 {
            return;
        }
        if cx.counters.deprecated.count(Deprecated::AmqpAddressV1) {
            tracing::warn!(
                name: PEER, target: CHANNEL,
                connection = %self.peer.name,
                link = shown(&attach.name),
                address = shown(address),
                "an address of the deprecated format v1 is in use: use /queues/:queue and \
                 /exchanges/:exchange/:routing-key; further ones are only counted \
                 (sluice_deprecated_feature_uses_total)"
            );
        }
    }

    /// Finds a queue of this virtual host. It may be exclusive to another connection: such queues receive replies, so
    /// everybody who knows the name may publish to them (docs/compatibility.md, Addresses).
    fn known_queue(&self, name: &str, cx: &Cx<'_>) -> Result<Arc<QueueRecord>, Refused> {
        let record = cx.catalog.listed_queue(&self.peer.vhost, name).ok_or_else(|| {
            error(condition::NOT_FOUND, format!("no queue '{name}' in vhost '{}'", self.peer.vhost))
        })?;
        Ok(record.clone())
    }

    /// Finds a queue of this virtual host to consume from. It must not be exclusive to another connection.
    fn usable_queue(&self, name: &str, cx: &Cx<'_>) -> Result<Arc<QueueRecord>, Refused> {
        cx.catalog.usable_queue(&self.peer.vhost, name, self.peer.caller()).map_err(|refused| {
            let condition = match refused {
                CatalogError::Locked { .. } => condition::RESOURCE_LOCKED,
                _ => condition::NOT_FOUND,
            };
            error(condition, refused.to_string()).into()
        })
    }

    // ---- the client consumes --------------------------------------------------------------------------------

    fn attach_consumer(
        &mut self,
        session: u16,
        link: u32,
        attach: &Attach,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        let invalid = |what: &str| on_link(condition::INVALID_FIELD, what, attach);
        let source = attach.source.as_ref().ok_or_else(|| invalid("source must be set"))?;
        Self::check_common(attach)?;
        if let Some(unknown) = source.outcomes.iter().find(|o| !OUTCOMES.contains(&o.as_str())) {
            let what = format!("outcome '{}' not supported", shown(unknown.as_str()));
            return Err(not_implemented(&what, attach));
        }
        if source.capabilities.iter().any(|c| c.as_str() == SHARED) {
            return Err(not_implemented("the capability 'shared' of a source not supported", attach));
        }
        if source.dynamic && wants_replies(source) {
            return self.attach_replies(session, link, attach, source, cx);
        }
        if source.dynamic {
            return self.start_dynamic(
                session,
                link,
                attach,
                &source.capabilities,
                source.address.is_some(),
                cx,
            );
        }
        let address = source.address.as_deref().ok_or_else(|| invalid("source address must be set"))?;
        if address == address::MANAGEMENT {
            return self.attach_responses(session, link, attach, cx);
        }
        let (node, format) = node_address::of_source(address, cx.settings.permit_address_v1)
            .map_err(|bad| invalid(&bad.to_string()))?;
        let (queue, declare) = match node {
            Node::Queue { name, declare } => (name, declare),
            Node::Exchange { exchange, key } => {
                let bind = Bound { exchange: exchange.into(), key: key.unwrap_or_default().into() };
                return self.make_own_queue((session, link), attach, "amq.gen", Some(bind), cx);
            }
        };
        self.permit(Verb::Consume, &[Resource::Queue(&queue)], cx)?;
        if let Some(to) = ReplyTo::parse(&queue) {
            return self.probe_replies(session, link, attach, to, cx);
        }
        let wants_topic = source.capabilities.iter().any(|c| c.as_str() == TOPIC);
        let competes = || not_implemented("the capability 'topic' of a queue not supported", attach);
        if declare && cx.catalog.listed_queue(&self.peer.vhost, &queue).is_none() {
            if wants_topic {
                return Err(competes());
            }
            return self.make_named_queue((session, link), attach, queue, cx);
        }
        let record = self.usable_queue(&queue, cx)?;
        if wants_topic && !record.is_stream() {
            return Err(competes());
        }
        self.attach_outlet(session, link, attach, &record, None, cx)?;
        self.note_format(format, attach, address, cx);
        Ok(())
    }

    pub(super) fn attach_outlet(
        &mut self,
        session: u16,
        link: u32,
        attach: &Attach,
        record: &QueueRecord,
        dynamic: Option<catalog::ids::QueueId>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        let mut attach = attach.clone();
        let mut mode = queue::Mode::Take;
        let (mut left_out, mut filter_bytes) = (Vec::new(), 0);
        if let Some(source) = &mut attach.source {
            if record.is_stream() {
                let accepted = filter::accept(source.filter.as_ref(), cx.now_ms)
                    .map_err(|bad| bad.to_error(&record.name, &record.vhost))?;
                // The answer contains the filters that are in effect.
                source.filter = accepted.filters;
                filter_bytes = accepted.replay.filter_bytes();
                mode = queue::Mode::Replay(Box::new(accepted.replay));
                left_out = accepted.left_out;
            } else {
                check_queue_source(source, record, &attach.name)?;
                if wants_copies(source) {
                    mode = queue::Mode::Browse;
                }
                left_out = filter::leave_out(source.filter.as_ref());
            }
        }
        for filter in &left_out {
            let (connection, link) = (&self.peer.name, shown(&attach.name));
            tracing::warn!(name: PEER, target: CHANNEL, %connection, link, queue = %record.name, vhost = %record.vhost, "{filter}");
        }
        let priority = attach.properties.as_ref().and_then(|p| match p.get("rabbitmq:priority") {
            // Other types of number are ignored, as in RabbitMQ (docs/compatibility.md, Consuming).
            Some(Value::Int(priority)) => Some(*priority),
            _ => None,
        });
        let timeout_ms = attach.properties.as_ref().and_then(|p| match p.get("rabbitmq:consumer-timeout") {
            Some(Value::Uint(ms)) => Some(u64::from(*ms)),
            _ => None,
        });
        let wanted = Wanted {
            mode,
            priority: priority.unwrap_or(0),
            timeout_ms,
            exclusive: false,
            settled: attach.snd_settle_mode == SenderSettleMode::Settled,
            // [2.7.3] 0 means no limit.
            message_bytes_max: attach.max_message_size.filter(|max| *max > 0).map(DeliveryMax::Whole),
            left_out: (!left_out.is_empty()).then(|| left_out.iter().map(ToString::to_string).collect()),
        };
        let at = self.address(session, link);
        let mut outlet = Outlet::open(at, Protocol::Amqp10, record, wanted, cx).ok_or_else(|| {
            Refused::Link(error(condition::RESOURCE_LIMIT_EXCEEDED, "too many consumers on this shard"))
        })?;
        outlet.owned = dynamic;
        let attach = Some(Box::new(attach));
        self.set_role(session, link, LinkRole::Outlet(Box::new(Consuming { outlet, attach, bound: None })));
        self.conn.add_attached_bytes(session, link, filter_bytes);
        Ok(())
    }

    /// Answers the ATTACH after the queue has accepted the consumer.
    pub(super) fn accept_consumer(
        &mut self,
        session: u16,
        link: u32,
        attach: &Attach,
        address: &str,
        modes: Modes,
        cx: &mut Cx<'_>,
    ) {
        let asked = attach.source.clone().unwrap_or_default();
        let mut source = Source {
            // A client finds its link by the address that it asked for.
            address: asked.address.or_else(|| Some(address.to_owned())),
            durable: asked.durable,
            expiry_policy: asked.expiry_policy,
            timeout: asked.timeout,
            dynamic: asked.dynamic,
            distribution_mode: Some(Symbol::from_static(if modes.copies { COPY } else { MOVE })),
            // The answer contains only filters that are in effect (docs/compatibility.md, Stream filters).
            filter: if modes.stream { asked.filter } else { None },
            default_outcome: Some(DeliveryState::Released),
            outcomes: if asked.outcomes.is_empty() {
                OUTCOMES.iter().map(|o| Symbol::from_static(o)).collect()
            } else {
                asked.outcomes.clone()
            },
            capabilities: asked.capabilities.clone(),
            ..Source::default()
        };
        if asked.dynamic {
            source.dynamic_node_properties = Some(dynamic_node_properties());
        }
        let reply = Attach {
            role: Role::Sender,
            snd_settle_mode: if modes.settled {
                SenderSettleMode::Settled
            } else {
                SenderSettleMode::Unsettled
            },
            rcv_settle_mode: attach.rcv_settle_mode,
            source: Some(source),
            target: attach.target.clone(),
            initial_delivery_count: Some(0),
            max_message_size: attach.max_message_size,
            offered_capabilities: if modes.stream { stream_capabilities() } else { Vec::new() },
            ..blank_reply(attach)
        };
        self.answer_attach(session, link, reply, cx);
    }
}

fn address_bytes(target: &TargetArchetype) -> usize {
    match target {
        TargetArchetype::Target(target) => target.address.as_ref().map_or(0, String::len),
        TargetArchetype::Coordinator(_) => 0,
    }
}

/// Returns true if a receiver wants to leave the messages where they are.
fn wants_copies(source: &Source) -> bool {
    source.distribution_mode.as_ref().is_some_and(|mode| mode.as_str() == COPY)
}

/// Refuses a selector on a queue: the client would get the messages that it has excluded (docs/compatibility.md, Stream
/// filters).
fn check_queue_source(source: &Source, queue: &QueueRecord, link: &str) -> Result<(), Refused> {
    if !filter::has_selector(source.filter.as_ref()) {
        return Ok(());
    }
    let QueueRecord { name, vhost, .. } = queue;
    let link = shown(link);
    let reason = format!(
        "queue '{name}' in vhost '{vhost}' does not support a selector, only streams do, on link '{link}'"
    );
    Err(error(condition::NOT_IMPLEMENTED, reason).into())
}

/// Returns the capabilities that streams offer to their clients (docs/compatibility.md, Stream filters). The last one
/// is RabbitMQ's name for selectors.
fn stream_capabilities() -> Vec<Symbol> {
    ["AMQP_FILTEX_PROP_V1_0", "AMQP_FILTEX_SQL_V1_0", "APACHE.ORG:SELECTOR"].map(Symbol::from_static).to_vec()
}

/// Returns a reply with the fields that every reply copies from the request.
fn blank_reply(attach: &Attach) -> Attach {
    let mut reply = Attach::new(attach.name.clone(), 0, Role::Sender);
    reply.snd_settle_mode = attach.snd_settle_mode;
    reply.rcv_settle_mode = attach.rcv_settle_mode;
    reply
}
