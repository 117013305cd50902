//! The methods of the class queue.

use std::sync::Arc;

use amqp10::Value as CatalogValue;
use amqp091::{
    Method, QueueBind, QueueBindOk, QueueDeclare, QueueDeclareOk, QueueDelete, QueueDeleteOk, QueuePurge,
    QueuePurgeOk, QueueUnbind, QueueUnbindOk, ReplyCode,
};
use catalog::access::{self, Resource, Verb};
use catalog::reply_to::ReplyTo;
use catalog::{Answer, Binding, CatalogError, Command, DeclareQueue, Destination, QueueRecord};
use queue::{Effect, Refusal, Report, Request};

use super::arguments::{NAME_PREFIX, arguments, generated_name, without_line_breaks};
use super::{Gate, Refused, Waiting, refusal};
use crate::cx::Cx;
use crate::intake::Awaited;

/// What a method about a queue waits for.
#[derive(Debug)]
pub(super) enum QueueStep {
    /// The catalog's answer to a declaration. With `wants_answer`, the client waits for `queue.declare-ok`.
    Declared {
        wants_answer: bool,
    },
    /// The numbers of messages and consumers of a queue that exists.
    Counted {
        name: Arc<str>,
        wants_answer: bool,
    },
    /// Whether the consumer of direct replies of this name exists.
    Probed {
        name: Arc<str>,
        wants_answer: bool,
    },
    Purged {
        name: Arc<str>,
        wants_answer: bool,
    },
    Deleted {
        name: Arc<str>,
        wants_answer: bool,
    },
}

impl QueueStep {
    /// Returns the class and the number of the method.
    fn method(&self) -> (u16, u16) {
        match self {
            Self::Declared { .. } | Self::Counted { .. } | Self::Probed { .. } => {
                (QueueDeclare::CLASS_ID, QueueDeclare::METHOD_ID)
            }
            Self::Purged { .. } => (QueuePurge::CLASS_ID, QueuePurge::METHOD_ID),
            Self::Deleted { .. } => (QueueDelete::CLASS_ID, QueueDelete::METHOD_ID),
        }
    }
}

impl Gate {
    /// Returns the name of the queue that a method means. An empty name stands for the queue that was declared last on the
    /// channel.
    pub(super) fn queue_name(&mut self, channel: u16, name: &str) -> Result<Arc<str>, Refused> {
        match without_line_breaks(name) {
            name if !name.is_empty() => Ok(name.into()),
            _ => match self.channel(channel).and_then(|channel| channel.last_queue.clone()) {
                Some(last) => Ok(last),
                None => Err(Refused::new(ReplyCode::NotFound, "no previously declared queue")),
            },
        }
    }

    /// Returns the queue of this name, if the connection may use it.
    pub(super) fn queue_of(&self, name: &str, cx: &Cx<'_>) -> Result<Arc<QueueRecord>, Refused> {
        Ok(cx.catalog.usable_queue(&self.peer.vhost, name, self.peer.caller())?)
    }

    pub(super) fn declare_queue(
        &mut self,
        channel: u16,
        declare: &QueueDeclare<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        let wants_answer = !declare.nowait;
        if declare.passive {
            return self.inspect_queue(channel, declare.queue, wants_answer, cx);
        }
        let vhost = self.peer.vhost.clone();
        let arguments = arguments(declare.arguments);
        let name = without_line_breaks(declare.queue);
        let is_generated = name.is_empty();
        let name: Arc<str> = match is_generated {
            true => generated_name(arguments.get(NAME_PREFIX), cx)?,
            false => name.into(),
        };
        // Such a queue would be there for ever, and nobody would know its name.
        let kind =
            arguments.get("x-queue-type").and_then(CatalogValue::as_str).filter(|kind| *kind != "classic");
        if let Some(kind) = kind.filter(|_| is_generated) {
            let text = format!("Cannot declare a server-named queue for type {}", kind.escape_default());
            return Err(refusal::precondition_failed(text));
        }
        access::permit_queue(&name, &arguments, |verb, on| self.permit(verb, on, cx))?;
        let declare = DeclareQueue {
            durable: declare.durable,
            exclusive: declare.exclusive,
            auto_delete: declare.auto_delete,
            connection: Some(self.peer.id),
            internal: is_generated,
            ..DeclareQueue::new(vhost, name, arguments)
        };
        let ticket = self.wait(Waiting::Queue { channel, step: QueueStep::Declared { wants_answer } }, cx)?;
        cx.post.propose(Some(ticket), Command::DeclareQueue(declare));
        Ok(())
    }

    /// Handles a passive declaration: it only asks whether the queue exists.
    fn inspect_queue(
        &mut self,
        channel: u16,
        name: &str,
        wants_answer: bool,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        // An empty name does not stand for the queue that was declared last, as in RabbitMQ.
        let name: Arc<str> = without_line_breaks(name).into();
        self.permit(Verb::Inspect, &[Resource::Queue(&name)], cx)?;
        if let Some(to) = ReplyTo::parse(&name) {
            let ticket =
                self.wait(Waiting::Queue { channel, step: QueueStep::Probed { name, wants_answer } }, cx)?;
            cx.post.probe(&self.peer.vhost, to, ticket);
            return Ok(());
        }
        let record = self.queue_of(&name, cx)?;
        // As in RabbitMQ, the question counts as a use of the queue (`x-expires`).
        cx.post.request(record.id, Request::Use);
        self.count_queue(channel, &record, wants_answer, cx)
    }

    /// Asks a queue for its numbers of messages and consumers.
    fn count_queue(
        &mut self,
        channel: u16,
        record: &QueueRecord,
        wants_answer: bool,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        let name = record.name.clone();
        let ticket =
            self.wait(Waiting::Queue { channel, step: QueueStep::Counted { name, wants_answer } }, cx)?;
        cx.post.request(record.id, Request::Report { ticket });
        Ok(())
    }

    /// Called when the catalog has answered a declaration.
    pub(super) fn finish_declaration(
        &mut self,
        channel: u16,
        step: QueueStep,
        result: Result<Answer, CatalogError>,
        cx: &mut Cx<'_>,
    ) {
        let method = step.method();
        let QueueStep::Declared { wants_answer } = step else { return };
        match result {
            Ok(Answer::Queue { record, created }) => {
                if created && record.exclusive == Some(self.peer.id) {
                    self.own.add(record.id);
                }
                if created {
                    self.answer_declare(channel, &record.name, &Report::default(), wants_answer);
                } else if let Err(refused) = self.count_queue(channel, &record, wants_answer, cx) {
                    self.refuse_method(channel, method, refused, cx);
                }
            }
            Ok(Answer::Done { .. } | Answer::Set { .. }) => {}
            Err(error) => self.refuse_method(channel, method, error.into(), cx),
        }
    }

    fn answer_declare(&mut self, channel: u16, name: &Arc<str>, report: &Report, wants_answer: bool) {
        if let Some(state) = self.channel(channel) {
            state.last_queue = Some(name.clone());
        }
        if wants_answer {
            let count = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
            let answer = QueueDeclareOk {
                queue: name,
                message_count: count(report.ready),
                consumer_count: count(u64::from(report.consumers)),
            };
            self.conn.send(channel, &Method::QueueDeclareOk(answer));
        }
    }

    /// Called when a queue has answered.
    pub(super) fn finish_queue_step(
        &mut self,
        channel: u16,
        step: QueueStep,
        effect: &Effect,
        cx: &mut Cx<'_>,
    ) {
        let method = step.method();
        match (step, effect) {
            (QueueStep::Counted { name, wants_answer }, Effect::Report { report, .. }) => {
                self.answer_declare(channel, &name, report, wants_answer);
            }
            (QueueStep::Probed { name, wants_answer }, Effect::Report { .. }) => {
                let report = Report { consumers: 1, ..Report::default() };
                self.answer_declare(channel, &name, &report, wants_answer);
            }
            (QueueStep::Purged { name, wants_answer }, Effect::Done { messages, .. }) => {
                self.peer.deleted("queue.purge", &name);
                if wants_answer {
                    let message_count = u32::try_from(*messages).unwrap_or(u32::MAX);
                    self.conn.send(channel, &Method::QueuePurgeOk(QueuePurgeOk { message_count }));
                }
            }
            (QueueStep::Deleted { name, wants_answer }, Effect::Done { messages, .. }) => {
                self.peer.deleted("queue.delete", &name);
                self.answer_delete(channel, *messages, wants_answer);
            }
            // A queue that does not exist is as good as deleted.
            (QueueStep::Deleted { wants_answer, .. }, Effect::Refused { why: Refusal::NotFound, .. }) => {
                self.answer_delete(channel, 0, wants_answer);
            }
            (
                QueueStep::Counted { name, .. }
                | QueueStep::Probed { name, .. }
                | QueueStep::Purged { name, .. }
                | QueueStep::Deleted { name, .. },
                Effect::Refused { why, .. },
            ) => {
                let refused = refusal::by_queue(*why, &name, &self.peer.vhost, cx.catalog);
                self.refuse_method(channel, method, refused, cx);
            }
            _ => {}
        }
    }

    fn answer_delete(&mut self, channel: u16, messages: u64, wants_answer: bool) {
        if wants_answer {
            let message_count = u32::try_from(messages).unwrap_or(u32::MAX);
            self.conn.send(channel, &Method::QueueDeleteOk(QueueDeleteOk { message_count }));
        }
    }

    pub(super) fn purge_queue(
        &mut self,
        channel: u16,
        purge: &QueuePurge<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        let name = self.queue_name(channel, purge.queue)?;
        self.permit(Verb::PurgeQueue, &[Resource::Queue(&name)], cx)?;
        let record = self.queue_of(&name, cx)?;
        if record.is_stream() {
            let text = format!(
                "queue.purge not supported by stream queues queue '{name}' in vhost '{}'",
                self.peer.vhost
            );
            return Err(refusal::not_implemented(&text));
        }
        let step = QueueStep::Purged { name, wants_answer: !purge.nowait };
        let ticket = self.wait(Waiting::Queue { channel, step }, cx)?;
        cx.post.request(record.id, Request::Purge { ticket });
        Ok(())
    }

    pub(super) fn delete_queue(
        &mut self,
        channel: u16,
        delete: &QueueDelete<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        let name = self.queue_name(channel, delete.queue)?;
        self.permit(Verb::DeleteQueue, &[Resource::Queue(&name)], cx)?;
        let vhost = &self.peer.vhost;
        let wants_answer = !delete.nowait;
        if cx.catalog.listed_queue(vhost, &name).is_none() {
            if cx.may_lag {
                return Err(Refused::Awaits(Awaited::Catalog));
            }
            self.answer_delete(channel, 0, wants_answer);
            return Ok(());
        }
        let record = self.queue_of(&name, cx)?;
        if (record.is_quorum() || record.is_stream()) && (delete.if_unused || delete.if_empty) {
            let what = if delete.if_unused { "if-unused" } else { "if-empty" };
            let text = format!(
                "cannot delete queue '{name}' in vhost '{vhost}'. queue.delete operations with {what} flag set are not supported by {} queues",
                record.kind()
            );
            return Err(refusal::not_implemented(&text));
        }
        let step = QueueStep::Deleted { name, wants_answer };
        let ticket = self.wait(Waiting::Queue { channel, step }, cx)?;
        self.own.forget(record.id);
        let QueueDelete { if_unused, if_empty, .. } = *delete;
        cx.post.request(record.id, Request::Delete { ticket, if_unused, if_empty });
        Ok(())
    }

    pub(super) fn bind_queue(
        &mut self,
        channel: u16,
        bind: &QueueBind<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        let (queue, key) = self.bound(channel, bind.queue, bind.routing_key)?;
        let binding = self.binding(Destination::Queue(queue), bind.exchange, &key, bind.arguments)?;
        let answer = (!bind.nowait).then_some(Method::QueueBindOk(QueueBindOk));
        self.propose_binding(
            channel,
            Verb::Bind,
            binding,
            (QueueBind::CLASS_ID, QueueBind::METHOD_ID),
            answer,
            cx,
        )
    }

    pub(super) fn unbind_queue(
        &mut self,
        channel: u16,
        unbind: &QueueUnbind<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        let (queue, key) = self.bound(channel, unbind.queue, unbind.routing_key)?;
        let binding = self.binding(Destination::Queue(queue), unbind.exchange, &key, unbind.arguments)?;
        let answer = Some(Method::QueueUnbindOk(QueueUnbindOk));
        let failed = (QueueUnbind::CLASS_ID, QueueUnbind::METHOD_ID);
        self.propose_binding(channel, Verb::Unbind, binding, failed, answer, cx)
    }

    /// Returns the queue and the key of a binding. If both are empty, both stand for the queue that was declared last.
    fn bound(&mut self, channel: u16, queue: &str, key: &str) -> Result<(Arc<str>, Arc<str>), Refused> {
        let name = self.queue_name(channel, queue)?;
        let key = if queue.is_empty() && key.is_empty() { name.clone() } else { key.into() };
        Ok((name, key))
    }

    pub(super) fn binding(
        &self,
        destination: Destination,
        source: &str,
        key: &str,
        table: amqp091::Table<'_>,
    ) -> Result<Binding, Refused> {
        Ok(Binding {
            vhost: self.peer.vhost.clone(),
            source: without_line_breaks(source).into(),
            destination,
            key: key.into(),
            arguments: arguments(table),
        })
    }

    /// Asks the catalog to make a binding, or to remove it, which `verb` says.
    pub(super) fn propose_binding(
        &mut self,
        channel: u16,
        verb: Verb,
        binding: Binding,
        failed: (u16, u16),
        answer: Option<Method<'static>>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        self.peer.permit_binding(verb, (&binding.destination).into(), &binding.source, &binding.key, cx)?;
        // As in RabbitMQ, a binding of a queue that does not exist is gone, so it is no error to remove it.
        if let (Verb::Bind, Destination::Queue(name)) = (verb, &binding.destination) {
            self.queue_of(name, cx)?;
        }
        let caller = self.peer.caller();
        let command = match verb {
            Verb::Unbind => Command::Unbind(binding, caller),
            _ => Command::Bind(binding, caller),
        };
        self.propose(channel, command, failed, answer, cx)
    }

    /// Asks the catalog to carry out a command. Then the client receives `answer`.
    pub(super) fn propose(
        &mut self,
        channel: u16,
        command: Command,
        failed: (u16, u16),
        answer: Option<Method<'static>>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        let ticket = self.wait(Waiting::Command { channel, failed, answer }, cx)?;
        cx.post.propose(Some(ticket), command);
        Ok(())
    }
}
