//! Dynamic sources and targets (behaviour B.7): a queue of the connection's own, declared for the link and gone with it.

use std::sync::Arc;

use amqp10::types::Described;
use amqp10::{Attach, Flow, Map, Role, Symbol, Target, TargetArchetype, Value, condition, descriptor};
use message::Route;

use super::address::queue_address;
use super::attach::{Refused, not_implemented, on_link};
use super::inbound::Target as IntakeTarget;
use super::{Cx, Gate, Waiting, error};
use crate::access::{Permission, Resource};
use crate::catalog::{Answer, Arguments, CatalogError, Command, DeclareQueue, QueueRecord};

/// The capability by which a client asks for a queue of its own (behaviour B.7).
const TEMPORARY_QUEUE: &str = "temporary-queue";

/// Names of dynamic queues: the ids of container and link are part of them if they are shorter than this.
const DYNAMIC_NAME_IDS_MAX: usize = 150;

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
            let what = format!("a dynamic terminus without the capability {TEMPORARY_QUEUE}");
            return Err(not_implemented(&what, attach));
        }
        *cx.unique += 1;
        let random = format!("{:x}.{:x}", self.id.0, *cx.unique);
        let (container, name) = (&self.client.container_id, &attach.name);
        let queue = if container.len() + name.len() < DYNAMIC_NAME_IDS_MAX {
            format!("amq.dyn-{container}-{name}-{random}")
        } else {
            format!("amq.dyn.gen-{random}")
        };
        self.authorize(Resource::Queue(&queue), Permission::Configure, cx)?;
        match attach.role {
            Role::Receiver => self.authorize(Resource::Queue(&queue), Permission::Read, cx)?,
            Role::Sender => self.authorize(Resource::Exchange(""), Permission::Write, cx)?,
        }
        let command = Command::DeclareQueue(DeclareQueue {
            exclusive: true,
            connection: Some(self.id),
            internal: true,
            home: Some(cx.shard),
            ..DeclareQueue::new(self.vhost.clone(), queue, Arguments::new())
        });
        let waiting = Waiting::Dynamic { session, link, attach: Box::new(attach.clone()), flow: None };
        let ticket = self.ticket(waiting, cx).ok_or_else(|| {
            Refused::Link(error(condition::RESOURCE_LIMIT_EXCEEDED, "no more requests on this shard"))
        })?;
        cx.post.propose(Some(ticket), command);
        Ok(())
    }

    /// A FLOW for a link that nobody has yet: the newest counts, but every echo is to be answered.
    pub(super) fn put_off_flow(&mut self, at: (u16, u32), new: &Flow) {
        let mut waiting = self.waiting.values_mut();
        let flow = waiting.find_map(|waiting| match waiting {
            Waiting::Dynamic { session, link, flow, .. } if (*session, *link) == at => Some(flow),
            _ => None,
        });
        if let Some(flow) = flow {
            let echo = new.echo || flow.as_ref().is_some_and(|flow| flow.echo);
            *flow = Some(Box::new(Flow { drain: new.drain, echo, ..Flow::default() }));
        }
    }

    pub(super) fn finish_dynamic(
        &mut self,
        session: u16,
        link: u32,
        attach: Box<Attach>,
        result: Result<Answer, CatalogError>,
        cx: &mut Cx<'_>,
    ) {
        let record = match result {
            Ok(Answer::Queue { record, .. }) => record,
            Ok(Answer::Done { .. } | Answer::Policy { .. }) => return,
            Err(refused) => {
                let error = error(condition::INTERNAL_ERROR, refused.to_string());
                self.refuse(session, link, &attach, Refused::Link(error), cx);
                return;
            }
        };
        if !self.awaits_reply(session, link, &attach) {
            self.delete_queue(record.id, cx);
            return;
        }
        let result = match attach.role {
            Role::Receiver => self.attach_outlet(session, link, &attach, &record, Some(record.id), cx),
            Role::Sender => self.finish_dynamic_target(session, link, &attach, &record, cx),
        };
        if let Err(refused) = result {
            self.delete_queue(record.id, cx);
            self.refuse(session, link, &attach, refused, cx);
        }
    }

    /// Whether the link whose ATTACH has been put off is still there and waits. One that has a role is another, of the same
    /// name.
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
        let route = Arc::new(Route::new("", vec![record.name.clone()]));
        let target_of_link = IntakeTarget::Exchange { exchange: "".into(), route, cached: None };
        let mut intake = self.new_intake(session, link, target_of_link, cx)?;
        intake.dynamic = Some(record.id);
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

/// lifetime-policy delete-on-close [3.5.10], supported-dist-modes move (behaviour B.7).
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
