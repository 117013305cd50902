//! Management over AMQP: the node `/management` and its link pairs (docs/compatibility.md, Management over AMQP).

mod request;

use std::collections::VecDeque;

use amqp10::{
    Attach, Delivery, Outgoing, Role, SenderSettleMode, Source, Tag, Target, TargetArchetype, Value,
    condition,
};
use bytes::Bytes;
use catalog::access::{self, Identity, LoginRefused, Resource};
use catalog::ids::QueueId;
use catalog::reply_to::ReplyTo;
use catalog::{Answer, Binding, CatalogError, Command, Destination};
use queue::{Effect, Refusal, Request, Ticket};

use self::request::{Parsed, Reply, Verb};
use super::address::MANAGEMENT;
use super::outbound::refused_by_queue;
use super::refusal::{Refused, on_link};
use super::{Cx, Gate, LinkRole, Waiting, error};
use crate::peer::Ends;

pub(super) use self::request::Pending;

/// The maximum number of requests in flight on one pair.
const CREDIT: u32 = 8;

/// The link property that makes two links a pair.
const PAIRED: &str = "paired";

/// The number that a waiting request has instead of its pair, if the pair no longer exists.
const NO_PAIR: u32 = u32::MAX;

/// Two links with one name: requests arrive on one, responses leave on the other.
#[derive(Debug)]
pub(super) struct Pair {
    name: String,
    session: u16,
    requests: Option<u32>,
    responses: Option<u32>,
    next_tag: u64,
    /// Requests that wait for the one before them. So responses keep the order of the requests, and each request sees
    /// the effect of the one before it. At most [`CREDIT`].
    backlog: VecDeque<Parsed>,
    /// True while a request is in flight or its response waits.
    busy: bool,
    /// A response that waits for credit, because the client withdrew the credit while the request was in
    /// flight.
    response: Option<Bytes>,
}

impl Gate {
    pub(super) fn attach_requests(
        &mut self,
        session: u16,
        link: u32,
        attach: &Attach,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        if attach.snd_settle_mode != SenderSettleMode::Settled {
            return Err(on_link(
                condition::INVALID_FIELD,
                "the sender of a management link pair must use snd-settle-mode settled",
                attach,
            ));
        }
        let pair = self.join_pair(session, link, attach)?;
        let reply = Attach {
            snd_settle_mode: attach.snd_settle_mode,
            source: attach.source.clone(),
            target: Some(TargetArchetype::Target(Target {
                address: Some(MANAGEMENT.into()),
                ..Target::default()
            })),
            max_message_size: Some(u64::from(cx.settings.frame_max)),
            properties: attach.properties.clone(),
            ..Attach::new(attach.name.clone(), 0, Role::Receiver)
        };
        self.set_role(session, link, LinkRole::Requests { pair });
        self.answer_attach(session, link, reply, cx);
        self.conn.grant(session, link, CREDIT, false, false);
        Ok(())
    }

    pub(super) fn attach_responses(
        &mut self,
        session: u16,
        link: u32,
        attach: &Attach,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        let pair = self.join_pair(session, link, attach)?;
        let reply = Attach {
            snd_settle_mode: SenderSettleMode::Settled,
            rcv_settle_mode: attach.rcv_settle_mode,
            source: Some(Source { address: Some(MANAGEMENT.into()), ..Source::default() }),
            target: attach.target.clone(),
            initial_delivery_count: Some(0),
            properties: attach.properties.clone(),
            ..Attach::new(attach.name.clone(), 0, Role::Sender)
        };
        self.set_role(session, link, LinkRole::Responses { pair });
        self.answer_attach(session, link, reply, cx);
        Ok(())
    }

    /// Joins the pair of the other link, or makes a new pair.
    fn join_pair(&mut self, session: u16, link: u32, attach: &Attach) -> Result<u32, Refused> {
        let paired = attach.properties.as_ref().and_then(|p| p.get(PAIRED));
        if paired.and_then(Value::as_bool) != Some(true) {
            let reason = format!("a link to {MANAGEMENT} needs the property {PAIRED} = true");
            return Err(error(condition::INVALID_FIELD, reason).into());
        }
        let requests = attach.role == Role::Sender;
        let known =
            self.pairs.iter().find(|(_, p)| p.name == attach.name && p.session == session).map(|(i, _)| i);
        let at = known.unwrap_or_else(|| {
            let name = attach.name.clone();
            self.pairs.insert(Pair {
                name,
                session,
                requests: None,
                responses: None,
                next_tag: 0,
                backlog: VecDeque::new(),
                busy: false,
                response: None,
            })
        });
        let Some(pair) = self.pairs.get_mut(at) else { return Ok(0) };
        let half = if requests { &mut pair.requests } else { &mut pair.responses };
        if half.is_some() {
            let reason =
                format!("the management link pair '{}' has a link in this direction already", attach.name);
            return Err(error(condition::PRECONDITION_FAILED, reason).into());
        }
        *half = Some(link);
        Ok(at as u32)
    }

    /// Called when one link of a pair has ended. The other link waits for a new one of its name. The pair is removed
    /// with its last link. Without a response link, the request in flight is carried out, and its response is dropped.
    pub(super) fn drop_pair_link(&mut self, pair: u32, role: Role) {
        let Some(p) = self.pairs.get_mut(pair as usize) else { return };
        match role {
            Role::Sender => p.requests = None,
            Role::Receiver => {
                (p.responses, p.busy, p.response) = (None, false, None);
                p.backlog.clear();
                for waiting in self.waiting.values_mut() {
                    // The pair of the waiting request is replaced. So its answer goes neither to the next
                    // response link of this pair, nor to the next pair with this number.
                    if let Waiting::Management { pair: of, .. } = waiting
                        && *of == pair
                    {
                        *of = NO_PAIR;
                    }
                }
            }
        }
        if p.requests.is_none() && p.responses.is_none() {
            self.pairs.remove(pair as usize);
        }
    }

    /// Called when credit for responses has arrived, or when requests were read. Continues with the waiting
    /// requests. Grants credit for more requests unless too many wait.
    pub(super) fn regulate_management(&mut self, session: u16, pair: u32, cx: &mut Cx<'_>) {
        self.send_response(pair);
        self.next_request(pair, cx);
        let Some(p) = self.pairs.get(pair as usize) else { return };
        let Some(link) = p.requests else { return };
        let room = p.backlog.len() < CREDIT as usize;
        let Some(l) = self.conn.session(session).and_then(|s| s.link(link)) else { return };
        if room && l.receiver_credit().credit() <= CREDIT / 2 {
            self.conn.grant(session, link, CREDIT, false, false);
        }
    }

    pub(super) fn handle_management_request(
        &mut self,
        session: u16,
        link: u32,
        pair: u32,
        delivery: &Delivery<'_>,
        cx: &mut Cx<'_>,
    ) {
        if self.pairs.get(pair as usize).is_none_or(|p| p.responses.is_none()) {
            let reason = "a management request arrived before its response link was attached";
            self.end(session, error(condition::PRECONDITION_FAILED, reason), cx);
            return;
        }
        self.touch(session, link);
        let parsed = match request::parse(&delivery.message, &self.peer.vhost) {
            Ok(parsed) => parsed,
            Err(reason) => {
                self.end(session, error(condition::DECODE_ERROR, reason), cx);
                return;
            }
        };
        if let Some(p) = self.pairs.get_mut(pair as usize) {
            p.backlog.push_back(parsed);
        }
        self.next_request(pair, cx);
    }

    /// Carries out the waiting requests, one after the other.
    pub(super) fn next_request(&mut self, pair: u32, cx: &mut Cx<'_>) {
        while self.may_respond(pair)
            && let Some(p) = self.pairs.get_mut(pair as usize).filter(|p| !p.busy)
            && let Some(parsed) = p.backlog.pop_front()
        {
            p.busy = true;
            let pending = Pending { session: p.session, message_id: parsed.message_id, verb: Verb::Other };
            match parsed.verb {
                Ok(verb) => self.carry_out(pair, Pending { verb, ..pending }, cx),
                Err(reply) => self.respond(pair, pending, reply),
            }
        }
    }

    /// Checks the permissions of a request. Then asks the catalog or a queue, or answers at once.
    pub(super) fn carry_out(&mut self, pair: u32, pending: Pending, cx: &mut Cx<'_>) {
        match self.permit_request(&pending.verb, cx) {
            Ok(()) => {}
            // A missing permission ends the session (docs/compatibility.md, Management over AMQP).
            // If the pair has ended meanwhile, its session may have, too.
            Err(_) if pair == NO_PAIR => return,
            Err(refused) if self.is_unsure(&refused, cx) => {
                return self.catch_up(Waiting::Management { pair, request: pending }, cx);
            }
            Err(Refused::Session(error) | Refused::Link(error)) => {
                return self.end(pending.session, error, cx);
            }
            Err(Refused::Unknown(question)) => {
                return self.ask(Waiting::Management { pair, request: pending }, question, cx);
            }
        }
        let vhost = self.peer.vhost.clone();
        match &pending.verb {
            Verb::GetQueue { name } => match cx.catalog.listed_queue(&vhost, name) {
                None if let Some(to) = ReplyTo::parse(name) => {
                    if let Some(ticket) = self.ticket(Waiting::Management { pair, request: pending }, cx) {
                        cx.post.probe(&vhost, to, ticket);
                    }
                }
                None if cx.may_lag => self.catch_up(Waiting::Management { pair, request: pending }, cx),
                None => {
                    let reply = Reply::not_found(&vhost, name);
                    self.respond(pair, pending, reply);
                }
                Some(record) => {
                    self.ask_queue(pair, pending, record.id, |ticket| Request::Report { ticket }, cx)
                }
            },
            Verb::DeclareQueue(declare) => {
                let mut declare = declare.clone();
                declare.connection = Some(self.peer.id);
                self.propose(pair, pending, Command::DeclareQueue(declare), cx);
            }
            Verb::DeleteQueue { name } | Verb::PurgeQueue { name } => {
                let purge = matches!(pending.verb, Verb::PurgeQueue { .. });
                match cx.catalog.usable_queue(&vhost, name, self.peer.caller()) {
                    Err(CatalogError::NotFound { .. }) if cx.may_lag => {
                        self.catch_up(Waiting::Management { pair, request: pending }, cx);
                    }
                    Err(CatalogError::NotFound { .. }) if purge => {
                        let reply = Reply::not_found(&vhost, name);
                        self.respond(pair, pending, reply);
                    }
                    Err(CatalogError::NotFound { .. }) => {
                        self.respond(pair, pending, Reply::message_count(0));
                    }
                    Err(refused) => self.respond(pair, pending, Reply::from_error(&refused)),
                    Ok(record) => {
                        if !purge {
                            self.own.forget(record.id);
                        }
                        let request = |ticket| {
                            if purge {
                                Request::Purge { ticket }
                            } else {
                                Request::Delete { ticket, if_unused: false, if_empty: false }
                            }
                        };
                        self.ask_queue(pair, pending, record.id, request, cx);
                    }
                }
            }
            Verb::DeclareExchange(declare) => {
                let command = Command::DeclareExchange(declare.clone());
                self.propose(pair, pending, command, cx);
            }
            Verb::DeleteExchange { name } => {
                let command = Command::DeleteExchange { vhost, name: name.clone(), if_unused: false };
                self.propose(pair, pending, command, cx);
            }
            // The binding may not exist, so that no command would check the queue.
            Verb::Unbind { destination: Destination::Queue(name), .. }
                if let Err(locked @ CatalogError::Locked { .. }) =
                    cx.catalog.usable_queue(&vhost, name, self.peer.caller()) =>
            {
                self.respond(pair, pending, Reply::from_error(&locked));
            }
            Verb::Bind(binding) => {
                let command = Command::Bind(binding.clone(), self.peer.caller());
                self.propose(pair, pending, command, cx);
            }
            Verb::Unbind { source, destination, key, hash } => {
                let all = cx.catalog.bindings_between(&vhost, source, destination);
                let mut found = all.into_iter().filter(|b| b.key == *key && b.arguments.hash_name() == *hash);
                match (found.next(), found.next()) {
                    // The hash is short, so that the wrong one could be removed.
                    (Some(_), Some(_)) => {
                        let why = "several bindings that differ in their arguments have this location";
                        self.respond(pair, pending, Reply::error(400, why.into()));
                    }
                    (Some(binding), None) => {
                        let command = Command::Unbind((*binding).clone(), self.peer.caller());
                        self.propose(pair, pending, command, cx);
                    }
                    (None, _) => self.respond(pair, pending, Reply::no_content()),
                }
            }
            Verb::ListBindings { source, destination, key } => {
                let all = cx.catalog.bindings_between(&vhost, source, destination);
                let rows = all.iter().filter(|b| key.as_ref().is_none_or(|key| b.key == *key));
                let reply = Reply::bindings(rows.map(|b| &**b));
                self.respond(pair, pending, reply);
            }
            Verb::RenewToken(token) => {
                let login = self.peer.login_again(token.clone(), cx);
                if let Some(ticket) = self.ticket(Waiting::Management { pair, request: pending }, cx) {
                    cx.check_renewal(ticket, login);
                }
            }
            Verb::Other => {}
        }
    }

    /// Called when new credentials were checked. The connection ends if they do not count (docs/compatibility.md, Security).
    pub(super) fn finish_renewal(
        &mut self,
        pair: u32,
        pending: Pending,
        result: Result<Identity, LoginRefused>,
        cx: &mut Cx<'_>,
    ) {
        match self.peer.renew(result, cx) {
            Ok(()) => {
                self.handle_renewal(cx);
                self.respond(pair, pending, Reply::no_content());
                self.next_request(pair, cx);
            }
            Err(Ends::Now(why)) => self.refuse_renewal(why, cx),
            // The request has no answer until then.
            Err(Ends::Later) => {}
        }
    }

    pub(super) fn refuse_renewal(&mut self, why: String, cx: &mut Cx<'_>) {
        self.fail(error(condition::UNAUTHORIZED_ACCESS, why), cx);
    }

    /// Asks the table of verbs for each verb that a request needs.
    fn permit_request(&self, verb: &Verb, cx: &Cx<'_>) -> Result<(), Refused> {
        let ask = |verb, on: &[Resource<'_>]| self.permit(verb, on, cx);
        let one = |verb, resource| ask(verb, &[resource]);
        match verb {
            Verb::GetQueue { name } => one(access::Verb::Inspect, Resource::Queue(name)),
            Verb::DeclareQueue(declare) => access::permit_queue(&declare.name, &declare.arguments, ask),
            Verb::DeleteQueue { name } => one(access::Verb::DeleteQueue, Resource::Queue(name)),
            Verb::PurgeQueue { name } => one(access::Verb::PurgeQueue, Resource::Queue(name)),
            Verb::DeclareExchange(declare) => access::permit_exchange(&declare.name, &declare.arguments, ask),
            Verb::DeleteExchange { name } => one(access::Verb::DeleteExchange, Resource::Exchange(name)),
            Verb::Bind(Binding { source, destination, key, .. }) => {
                self.permit_binding(access::Verb::Bind, destination.into(), source, key, cx)
            }
            Verb::Unbind { source, destination, key, .. } => {
                self.permit_binding(access::Verb::Unbind, destination.into(), source, key, cx)
            }
            Verb::ListBindings { source, destination, .. } => {
                ask(access::Verb::InspectBindings, &[destination.into(), Resource::Exchange(source)])
            }
            // Everybody may renew what is their own.
            Verb::RenewToken(_) | Verb::Other => Ok(()),
        }
    }

    fn ask_queue(
        &mut self,
        pair: u32,
        request: Pending,
        queue: QueueId,
        ask: impl FnOnce(Ticket) -> Request,
        cx: &mut Cx<'_>,
    ) {
        if let Some(ticket) = self.ticket(Waiting::Management { pair, request }, cx) {
            cx.post.request(queue, ask(ticket));
        }
    }

    fn propose(&mut self, pair: u32, request: Pending, command: Command, cx: &mut Cx<'_>) {
        if let Some(ticket) = self.ticket(Waiting::Management { pair, request }, cx) {
            cx.post.propose(Some(ticket), command);
        }
    }

    /// Called when a queue has answered.
    pub(super) fn finish_queue_request(
        &mut self,
        pair: u32,
        pending: Pending,
        effect: Effect,
        cx: &mut Cx<'_>,
    ) {
        let reply = match effect {
            Effect::Done { messages, .. } => {
                match &pending.verb {
                    Verb::DeleteQueue { name } => self.peer.deleted("DELETE /queues/{name}", name),
                    Verb::PurgeQueue { name } => self.peer.deleted("DELETE /queues/{name}/messages", name),
                    _ => {}
                }
                Reply::message_count(messages)
            }
            Effect::Report { report, .. } => {
                let Verb::GetQueue { name } = &pending.verb else { return };
                match cx.catalog.listed_queue(&self.peer.vhost, name) {
                    Some(record) => Reply::queue(200, &record, &report, cx.settings),
                    None if ReplyTo::parse(name).is_some() => {
                        Reply::volatile_queue(&self.peer.vhost, name, cx.settings)
                    }
                    None => Reply::not_found(&self.peer.vhost, name),
                }
            }
            Effect::Refused { why, .. } => match (&pending.verb, why) {
                (Verb::DeleteQueue { .. }, Refusal::NotFound) => Reply::message_count(0),
                (Verb::GetQueue { name } | Verb::PurgeQueue { name }, Refusal::NotFound) => {
                    Reply::not_found(&self.peer.vhost, name)
                }
                (Verb::GetQueue { name } | Verb::PurgeQueue { name } | Verb::DeleteQueue { name }, why) => {
                    Reply::error(400, refused_by_queue(why, name, &self.peer.vhost, cx.catalog).1)
                }
                _ => return,
            },
            _ => return,
        };
        let deleted = match &pending.verb {
            Verb::DeleteQueue { name } => Some(name.clone()),
            _ => None,
        };
        self.respond(pair, pending, reply);
        if let Some(queue) = deleted {
            self.detach_all_from_deleted(&queue, cx);
        }
        self.next_request(pair, cx);
    }

    /// Called when the catalog has answered a request.
    pub(super) fn finish_command(
        &mut self,
        pair: u32,
        pending: Pending,
        result: Result<Answer, CatalogError>,
        cx: &mut Cx<'_>,
    ) {
        let reply = match result {
            Ok(Answer::Queue { record, created }) => {
                if created && record.exclusive == Some(self.peer.id) {
                    self.own.add(record.id);
                }
                if created {
                    Reply::queue(201, &record, &queue::Report::default(), cx.settings)
                } else {
                    // The answer needs the statistics of the queue, which only the queue knows. So the queue
                    // is asked next.
                    let name = record.name.clone();
                    let pending = Pending { verb: Verb::GetQueue { name }, ..pending };
                    self.ask_queue(pair, pending, record.id, |ticket| Request::Report { ticket }, cx);
                    return;
                }
            }
            Ok(Answer::Done { changed: true }) if let Verb::DeleteExchange { name } = &pending.verb => {
                self.peer.deleted("DELETE /exchanges/{name}", name);
                Reply::no_content()
            }
            Ok(Answer::Done { .. } | Answer::Set { .. }) => Reply::no_content(),
            Err(refused) => Reply::from_error(&refused),
        };
        self.respond(pair, pending, reply);
        self.next_request(pair, cx);
    }

    /// Returns true if a response could be sent. A request waits until there is credit for its response. Client
    /// libraries grant it from another task, shortly after the ATTACH (docs/decisions/0006).
    fn may_respond(&self, pair: u32) -> bool {
        let Some(p) = self.pairs.get(pair as usize) else { return false };
        let link = p.responses.and_then(|l| self.conn.session(p.session).and_then(|s| s.link(l)));
        link.is_some_and(|l| l.sender_credit().credit() > 0)
    }

    fn respond(&mut self, pair: u32, pending: Pending, reply: Reply) {
        let Some(p) = self.pairs.get_mut(pair as usize) else { return };
        p.response = Some(reply.encode(pending.message_id));
        self.send_response(pair);
    }

    /// Sends the waiting response, if there is credit for it.
    fn send_response(&mut self, pair: u32) {
        if !self.may_respond(pair) {
            return;
        }
        let Some(p) = self.pairs.get_mut(pair as usize) else { return };
        let Some((link, message)) = p.responses.zip(p.response.take()) else { return };
        p.next_tag += 1;
        p.busy = false;
        let tag = Tag::from_number(p.next_tag);
        self.conn.send(p.session, link, &Outgoing::whole(tag, true, &message, 0));
    }
}
