//! Nodes that are made for a link (docs/compatibility.md, Dynamic nodes). A dynamic source or target is an exclusive
//! queue that is declared for the link and deleted with it. An address of format v1 may name a queue that is declared
//! if it does not exist.

use std::sync::Arc;

use amqp10::types::Described;
use amqp10::{Attach, Flow, Map, Role, Symbol, Target, TargetArchetype, Value, condition, descriptor};
use catalog::access::{Resource, Verb};
use catalog::{Answer, Arguments, Binding, CatalogError, Command, DeclareQueue, Destination, QueueRecord};

use super::address::queue_address;
use super::node_address::Format;
use super::refusal::{Refused, no_exchange, not_implemented, on_link};
use super::{Cx, Gate, LinkRole, Waiting, error};
use crate::intake::Target as IntakeTarget;

/// The capability by which a client asks for an exclusive queue.
const TEMPORARY_QUEUE: &str = "temporary-queue";

/// The name of a dynamic queue includes the ids of container and link only if they are shorter than this together, in
/// bytes.
const DYNAMIC_NAME_IDS_MAX: usize = 150;

/// A command to the catalog for a link whose node does not exist yet.
#[derive(Debug)]
pub(super) enum Step {
    /// Declares an exclusive queue. If `bind` is set, the queue is bound next.
    Own { bind: Option<Bound> },
    /// Binds the exclusive queue that was declared.
    Bind { queue: Arc<QueueRecord>, bound: Bound },
    /// Declares the queue that the address names. It is not exclusive.
    Named { name: Arc<str> },
}

/// The exchange and the key of a binding.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    pub exchange: Arc<str>,
    pub key: Arc<str>,
}

impl Gate {
    pub(super) fn start_dynamic(
        &mut self,
        session: u16,
        link: u32,
        attach: &Attach,
        capabilities: &[Symbol],
        has_address: bool,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        if has_address {
            return Err(on_link(condition::INVALID_FIELD, "a dynamic terminus must have no address", attach));
        }
        if !capabilities.iter().any(|c| c.as_str() == TEMPORARY_QUEUE) {
            let what = format!(
                "a dynamic terminus without the capability {TEMPORARY_QUEUE} (there are no temporary topics: use a temporary \
                 queue)"
            );
            return Err(not_implemented(&what, attach));
        }
        self.make_own_queue((session, link), attach, "amq.dyn", None, cx)
    }

    /// Declares an exclusive queue for a link, binds it if `bind` is set, and then attaches the link to it.
    pub(super) fn make_own_queue(
        &mut self,
        (session, link): (u16, u32),
        attach: &Attach,
        prefix: &str,
        bind: Option<Bound>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        let key = cx.names.key()?;
        let (container, name) = (&self.client.container_id, &attach.name);
        let queue = if container.len() + name.len() < DYNAMIC_NAME_IDS_MAX {
            format!("{prefix}-{container}-{name}-{key}")
        } else {
            format!("{prefix}.gen-{key}")
        };
        let own = Resource::Queue(&queue);
        self.permit(Verb::DeclareQueue, &[own], cx)?;
        self.permit_role(attach.role, &queue, cx)?;
        if let Some(Bound { exchange, key }) = &bind {
            self.permit_binding(Verb::Bind, own, exchange, key, cx)?;
            if cx.catalog.exchange(&self.peer.vhost, exchange).is_none() {
                return Err(no_exchange(exchange, &self.peer.vhost).into());
            }
        }
        let command = Command::DeclareQueue(DeclareQueue {
            exclusive: true,
            connection: Some(self.peer.id),
            internal: true,
            ..DeclareQueue::new(self.peer.vhost.clone(), queue, Arguments::new())
        });
        self.make((session, link), Box::new(attach.clone()), Step::Own { bind }, command, cx)
    }

    /// Declares a queue that a link names and that does not exist. It is durable, classic and not exclusive.
    pub(super) fn make_named_queue(
        &mut self,
        at: (u16, u32),
        attach: &Attach,
        name: String,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        self.permit(Verb::DeclareQueue, &[Resource::Queue(&name)], cx)?;
        let mut arguments = Arguments::new();
        arguments.insert("x-queue-type".into(), Value::String("classic".into()));
        let name: Arc<str> = name.into();
        let command =
            Command::DeclareQueue(DeclareQueue::new(self.peer.vhost.clone(), name.clone(), arguments));
        self.make(at, Box::new(attach.clone()), Step::Named { name }, command, cx)
    }

    fn make(
        &mut self,
        (session, link): (u16, u32),
        attach: Box<Attach>,
        step: Step,
        command: Command,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        let waiting = Waiting::Making { session, link, attach, step, flow: None };
        let ticket = self.ticket(waiting, cx).ok_or_else(|| {
            Refused::Link(error(
                condition::RESOURCE_LIMIT_EXCEEDED,
                "too many requests in flight on this shard",
            ))
        })?;
        cx.post.propose(Some(ticket), command);
        Ok(())
    }

    /// Stores a FLOW for a link that has no role yet. The newest FLOW counts, but an echo in any of them is answered.
    pub(super) fn defer_flow(&mut self, at: (u16, u32), new: &Flow) {
        let mut waiting = self.waiting.values_mut();
        let flow = waiting.find_map(|waiting| match waiting {
            Waiting::Making { session, link, flow, .. } if (*session, *link) == at => Some(flow),
            _ => None,
        });
        if let Some(flow) = flow {
            let echo = new.echo || flow.as_ref().is_some_and(|flow| flow.echo);
            *flow = Some(Box::new(Flow { drain: new.drain, echo, ..Flow::default() }));
        }
    }

    /// Continues to make the node of a link after the catalog has answered a step.
    pub(super) fn continue_making(
        &mut self,
        at: (u16, u32),
        attach: Box<Attach>,
        step: Step,
        result: Result<Answer, CatalogError>,
        cx: &mut Cx<'_>,
    ) {
        let (session, link) = at;
        let waits = self.awaits_reply(session, link, &attach);
        let (queue, bind, bound, refused) = match (step, result) {
            (Step::Named { name }, result) => {
                if waits {
                    self.finish_named(at, attach, &name, result.err(), cx);
                }
                return;
            }
            (Step::Own { bind }, Ok(Answer::Queue { record, .. })) => {
                // The connection owns the queue until the link does: either of them may end before the next answer.
                self.own.add(record.id);
                (Some(record), bind, None, None)
            }
            (Step::Own { .. }, Err(refused)) => (None, None, None, Some(refused)),
            (Step::Own { .. }, Ok(_)) => return,
            (Step::Bind { queue, bound }, result) => (Some(queue), None, Some(bound), result.err()),
        };
        let result = match (refused, &queue, bind) {
            (Some(refused), ..) => Err(Refused::Link(error(condition::INTERNAL_ERROR, refused.to_string()))),
            (None, Some(queue), Some(bind)) if waits => self.bind_own_queue(at, &attach, queue, bind, cx),
            (None, Some(queue), None) if waits => self.attach_own_queue(at, &attach, queue, bound, cx),
            _ => Ok(()),
        };
        let is_with_link = self.role_of(session, link).is_some();
        match queue {
            Some(queue) if result.is_err() || !waits => self.own.delete(queue.id, self.peer.key, cx),
            Some(queue) if is_with_link => {
                self.own.forget(queue.id);
                // A receiver gets such a queue without an address, or by an address of format v1.
                let source = attach.source.as_ref().filter(|_| attach.role == Role::Receiver);
                let address = source.and_then(|source| source.address.as_deref());
                address.into_iter().for_each(|address| self.note_format(Format::V1, &attach, address, cx));
            }
            _ => {}
        }
        if let (Err(refused), true) = (result, waits) {
            self.refuse(session, link, &attach, refused, cx);
        }
    }

    fn attach_own_queue(
        &mut self,
        (session, link): (u16, u32),
        attach: &Attach,
        queue: &Arc<QueueRecord>,
        bound: Option<Bound>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        // The permissions may have been taken away in the meantime.
        self.permit_role(attach.role, &queue.name, cx)?;
        if let Some(Bound { exchange, key }) = &bound {
            self.permit_binding(Verb::Bind, Resource::Queue(&queue.name), exchange, key, cx)?;
        }
        match attach.role {
            Role::Receiver => self.attach_outlet(session, link, attach, queue, Some(queue.id), cx)?,
            Role::Sender => self.finish_dynamic_target(session, link, attach, queue, cx)?,
        }
        if let Some(LinkRole::Outlet(link)) = self.role(session, link) {
            link.bound = bound.map(Box::new);
        }
        Ok(())
    }

    fn bind_own_queue(
        &mut self,
        at: (u16, u32),
        attach: &Attach,
        queue: &Arc<QueueRecord>,
        bound: Bound,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        let Bound { exchange, key } = bound.clone();
        let binding = Binding {
            vhost: self.peer.vhost.clone(),
            source: exchange,
            destination: Destination::Queue(queue.name.clone()),
            key,
            arguments: Arguments::new(),
        };
        let step = Step::Bind { queue: queue.clone(), bound };
        self.make(at, Box::new(attach.clone()), step, Command::Bind(binding, self.peer.caller()), cx)
    }

    /// Called when the queue that a link names has been declared, possibly by somebody else.
    fn finish_named(
        &mut self,
        (session, link): (u16, u32),
        attach: Box<Attach>,
        name: &str,
        refused: Option<CatalogError>,
        cx: &mut Cx<'_>,
    ) {
        match refused.filter(|_| cx.catalog.listed_queue(&self.peer.vhost, name).is_none()) {
            None => self.handle_attach(session, link, attach, cx),
            Some(refused) => {
                let error = error(condition::PRECONDITION_FAILED, refused.to_string());
                self.refuse(session, link, &attach, Refused::Link(error), cx);
            }
        }
    }

    /// Returns true if the link whose ATTACH was deferred still exists and waits. A link with a role is a newer one of
    /// the same name.
    pub(super) fn awaits_reply(&self, session: u16, link: u32, attach: &Attach) -> bool {
        let l = self.conn.session(session).and_then(|s| s.link(link));
        l.is_some_and(|l| l.remote_handle.is_some() && l.awaits_answer() && l.name == attach.name)
            && self.sessions.get(usize::from(session)).is_some_and(Option::is_some)
            && self.role_of(session, link).is_none()
    }

    fn finish_dynamic_target(
        &mut self,
        session: u16,
        link: u32,
        attach: &Attach,
        record: &QueueRecord,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        let target_of_link = IntakeTarget::to_queue(record.name.clone());
        let mut intake = self.new_intake(session, link, target_of_link, cx)?;
        intake.owned = Some(record.id);
        let Some(TargetArchetype::Target(asked)) = attach.target.clone() else { return Ok(()) };
        let target = Target {
            address: Some(queue_address(&record.name)),
            dynamic_node_properties: Some(dynamic_node_properties()),
            ..asked
        };
        self.accept_publisher(session, link, attach, target, intake, cx);
        Ok(())
    }
}

/// Returns the properties of a dynamic node: lifetime-policy delete-on-close [3.5.10] and supported-dist-modes move
/// (docs/compatibility.md, Dynamic nodes).
pub(super) fn dynamic_node_properties() -> Map {
    let mut map = Map::new();
    let policy =
        Described { descriptor: Value::Ulong(descriptor::DELETE_ON_CLOSE), value: Value::List(Vec::new()) };
    let policy = Value::Described(Box::new(policy));
    map.insert(Symbol::from_static("lifetime-policy"), policy);
    let modes = amqp10::Array::symbols([Symbol::from_static("move")]);
    map.insert(Symbol::from_static("supported-dist-modes"), Value::Array(modes));
    map
}
