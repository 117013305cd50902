//! The methods of the class exchange.

use std::sync::Arc;

use amqp091::{
    ExchangeBind, ExchangeBindOk, ExchangeDeclare, ExchangeDeclareOk, ExchangeDelete, ExchangeDeleteOk,
    ExchangeUnbind, ExchangeUnbindOk, Method, ReplyCode,
};
use catalog::access::{self, Resource, Verb};
use catalog::{CatalogError, Command, DeclareExchange, Destination};

use super::arguments::{arguments, without_line_breaks};
use super::{Gate, Refused};
use crate::cx::Cx;

/// The type of the exchange that a federation link of RabbitMQ declares on the broker that it reads from. Only RabbitMQ's
/// plugin has it. A link that is refused with 503 declares a fanout exchange instead, and then checks itself how far a
/// message has come. It does not understand 406, the code for other unknown types.
const FEDERATION_UPSTREAM: &str = "x-federation-upstream";

impl Gate {
    pub(super) fn declare_exchange(
        &mut self,
        channel: u16,
        declare: &ExchangeDeclare<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        let name: Arc<str> = without_line_breaks(declare.exchange).into();
        let vhost = self.peer.vhost.clone();
        let answer = (!declare.nowait).then_some(Method::ExchangeDeclareOk(ExchangeDeclareOk));
        if declare.passive {
            self.permit(Verb::Inspect, &[Resource::Exchange(&name)], cx)?;
            if cx.catalog.exchange(&vhost, &name).is_none() {
                return Err(CatalogError::no_exchange(&vhost, &name).into());
            }
            answer.iter().for_each(|answer| self.conn.send(channel, answer));
            return Ok(());
        }
        if declare.kind == FEDERATION_UPSTREAM {
            let text = format!("unknown exchange type '{FEDERATION_UPSTREAM}'");
            return Err(Refused::new(ReplyCode::CommandInvalid, text));
        }
        let arguments = arguments(declare.arguments);
        access::permit_exchange(&name, &arguments, |verb, on| self.permit(verb, on, cx))?;
        let command = Command::DeclareExchange(DeclareExchange {
            vhost,
            name,
            kind: declare.kind.to_owned(),
            durable: declare.durable,
            auto_delete: declare.auto_delete,
            internal: declare.internal,
            arguments,
        });
        self.propose(channel, command, (ExchangeDeclare::CLASS_ID, ExchangeDeclare::METHOD_ID), answer, cx)
    }

    pub(super) fn delete_exchange(
        &mut self,
        channel: u16,
        delete: &ExchangeDelete<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        let name: Arc<str> = without_line_breaks(delete.exchange).into();
        self.permit(Verb::DeleteExchange, &[Resource::Exchange(&name)], cx)?;
        let vhost = self.peer.vhost.clone();
        let command = Command::DeleteExchange { vhost, name, if_unused: delete.if_unused };
        let answer = (!delete.nowait).then_some(Method::ExchangeDeleteOk(ExchangeDeleteOk));
        self.propose(channel, command, (ExchangeDelete::CLASS_ID, ExchangeDelete::METHOD_ID), answer, cx)
    }

    pub(super) fn bind_exchange(
        &mut self,
        channel: u16,
        bind: &ExchangeBind<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        let destination = Destination::Exchange(without_line_breaks(bind.destination).into());
        let binding = self.binding(destination, bind.source, bind.routing_key, bind.arguments)?;
        let answer = (!bind.nowait).then_some(Method::ExchangeBindOk(ExchangeBindOk));
        let failed = (ExchangeBind::CLASS_ID, ExchangeBind::METHOD_ID);
        self.propose_binding(channel, Verb::Bind, binding, failed, answer, cx)
    }

    pub(super) fn unbind_exchange(
        &mut self,
        channel: u16,
        unbind: &ExchangeUnbind<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        let destination = Destination::Exchange(without_line_breaks(unbind.destination).into());
        let binding = self.binding(destination, unbind.source, unbind.routing_key, unbind.arguments)?;
        let answer = (!unbind.nowait).then_some(Method::ExchangeUnbindOk(ExchangeUnbindOk));
        let failed = (ExchangeUnbind::CLASS_ID, ExchangeUnbind::METHOD_ID);
        self.propose_binding(channel, Verb::Unbind, binding, failed, answer, cx)
    }
}
