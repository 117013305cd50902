//! Exchanges and bindings: the rules for declarations, and what is removed together with a deleted object.

use std::sync::Arc;

use hashbrown::HashMap;

use super::super::exchange::{ALTERNATE, Exchange, ExchangeKind};
use super::super::{Binding, Caller, Catalog, Change, Destination, RESERVED_PREFIX};
use super::{
    Answer, CatalogError, Decision, DeclareExchange, check_arguments, check_memory, check_name,
    check_not_default, check_text, difference, quoted,
};

impl Catalog {
    /// Returns the changes that remove every binding to `destination`, which is being deleted. Auto-delete exchanges
    /// that lose their last binding are deleted too, with the bindings to them. If `destination` is an exchange, the
    /// caller removes the bindings from it.
    pub(super) fn unbind_all(&self, vhost: &Arc<str>, destination: &Destination) -> Vec<Change> {
        let (mut changes, mut deleted) = (Vec::new(), Vec::new());
        let Some(v) = self.vhosts.get(vhost) else { return changes };
        // For each exchange that loses bindings, the number that it has left. So an exchange that is bound to several
        // deleted objects loses its last binding once, and a cycle of exchanges ends.
        let mut left: HashMap<&str, usize> = HashMap::new();
        if let Destination::Exchange(name) = destination {
            left.insert(name, 0);
        }
        let mut todo = vec![destination.clone()];
        while let Some(destination) = todo.pop() {
            for table in v.exchanges.values() {
                let name = &table.exchange.name;
                let before = left.get(&**name).copied().unwrap_or(table.bindings.len());
                if before == 0 {
                    continue;
                }
                let unbound = changes.len();
                changes.extend(table.bindings.to(&destination).cloned().map(Change::Unbound));
                let gone = changes.len() - unbound;
                if gone == 0 {
                    continue;
                }
                left.insert(name, before - gone);
                if gone == before && table.exchange.auto_delete {
                    todo.push(Destination::Exchange(name.clone()));
                    deleted.push(Change::ExchangeDeleted { vhost: vhost.clone(), name: name.clone() });
                }
            }
        }
        // The exchanges come after all bindings, so that no change refers to an exchange that does not exist.
        changes.append(&mut deleted);
        changes
    }

    pub(super) fn declare_exchange(&self, declare: DeclareExchange) -> Result<Decision, CatalogError> {
        let DeclareExchange { vhost, name, kind, durable, auto_delete, internal, arguments } = declare;
        check_not_default(&name)?;
        check_name("exchange", &name)?;
        check_arguments(&arguments)?;
        self.check_vhost(&vhost)?;
        let Some(kind) = ExchangeKind::parse(&kind) else {
            return Err(CatalogError::Invalid { reason: format!("unknown exchange type '{kind}'") });
        };
        if arguments.get(ALTERNATE).is_some_and(|value| value.as_str().is_none()) {
            return Err(CatalogError::PreconditionFailed {
                reason: format!("invalid arg '{ALTERNATE}' for exchange '{name}': a string is needed"),
            });
        }
        kind.check_arguments(&name, &arguments)?;
        let exchange =
            Exchange { durable, auto_delete, internal, ..Exchange::new(vhost, name, kind, arguments) };
        if let Some(known) = self.exchange(&exchange.vhost, &exchange.name) {
            let differs = |what: &str, got: String, current: String| CatalogError::Inequivalent {
                reason: format!(
                    "inequivalent arg '{what}' for exchange '{}' in vhost '{}': received {got} but current is \
                     {current}",
                    exchange.name, exchange.vhost
                ),
            };
            return Err(if known.kind != exchange.kind {
                differs("type", quoted(exchange.kind.as_str()), quoted(known.kind.as_str()))
            } else if known.durable != exchange.durable {
                differs("durable", quoted(exchange.durable), quoted(known.durable))
            } else if known.auto_delete != exchange.auto_delete {
                differs("auto_delete", quoted(exchange.auto_delete), quoted(known.auto_delete))
            } else if known.internal != exchange.internal {
                differs("internal", quoted(exchange.internal), quoted(known.internal))
            } else if let Some((key, got, current)) =
                difference(kind.known_arguments().iter().copied(), &exchange.arguments, &known.arguments)
            {
                differs(key, got, current)
            } else {
                return Ok(Decision { changes: Vec::new(), answer: Answer::Done { changed: false } });
            });
        }
        let count = self.exchange_count();
        if let Some(max) = self.rules.exchanges_max.filter(|max| count >= *max as usize) {
            let name = &exchange.name;
            let reason =
                format!("cannot declare exchange '{name}': exchange limit in cluster ({max}) is reached");
            return Err(CatalogError::LimitReached { reason });
        }
        if exchange.name.starts_with(RESERVED_PREFIX) {
            return Err(CatalogError::Forbidden {
                reason: format!(
                    "exchange name '{}' contains reserved prefix '{RESERVED_PREFIX}*'",
                    exchange.name
                ),
            });
        }
        check_memory(&exchange.arguments)?;
        let change = Change::ExchangeDeclared(Arc::new(exchange));
        Ok(Decision { changes: vec![change], answer: Answer::Done { changed: true } })
    }

    pub(super) fn delete_exchange(
        &self,
        vhost: &Arc<str>,
        name: &Arc<str>,
        if_unused: bool,
    ) -> Result<Decision, CatalogError> {
        check_not_default(name)?;
        check_name("exchange", name)?;
        if name.starts_with(RESERVED_PREFIX) && !self.rules.is_left_over(vhost, name) {
            return Err(CatalogError::Forbidden {
                reason: format!("deletion of system exchange '{name}' in vhost '{vhost}' not allowed"),
            });
        }
        let Some(table) = self.vhosts.get(vhost).and_then(|v| v.exchanges.get(name)) else {
            return Ok(Decision { changes: Vec::new(), answer: Answer::Done { changed: false } });
        };
        if if_unused && table.bindings.len() > 0 {
            return Err(CatalogError::PreconditionFailed {
                reason: format!("exchange '{name}' in vhost '{vhost}' in use"),
            });
        }
        let mut changes: Vec<Change> = table.bindings.iter().cloned().map(Change::Unbound).collect();
        changes.extend(self.unbind_all(vhost, &Destination::Exchange(name.clone())));
        changes.push(Change::ExchangeDeleted { vhost: vhost.clone(), name: name.clone() });
        Ok(Decision { changes, answer: Answer::Done { changed: true } })
    }

    fn check_binding(&self, binding: &Binding) -> Result<(), CatalogError> {
        check_not_default(&binding.source)?;
        check_arguments(&binding.arguments)?;
        check_text("routing key", &binding.key)?;
        check_name("exchange", &binding.source)?;
        match &binding.destination {
            Destination::Exchange(name) => {
                check_not_default(name)?;
                check_name("exchange", name)
            }
            Destination::Queue(name) => check_name("queue", name),
        }
    }

    pub(super) fn bind(&self, binding: Binding, caller: Caller) -> Result<Decision, CatalogError> {
        self.check_binding(&binding)?;
        let vhost = &binding.vhost;
        self.check_vhost(vhost)?;
        let Some(table) = self.vhosts.get(vhost).and_then(|v| v.exchanges.get(&binding.source)) else {
            return Err(CatalogError::no_exchange(vhost, &binding.source));
        };
        match &binding.destination {
            Destination::Queue(name) => {
                let queue = self.usable_queue(vhost, name, caller)?;
                table.exchange.kind.check_queue(&queue)?;
            }
            Destination::Exchange(name) if self.exchange(vhost, name).is_none() => {
                return Err(CatalogError::no_exchange(vhost, name));
            }
            _ => {}
        }
        table.exchange.kind.check_binding(&binding)?;
        if table.bindings.has(&binding) {
            return Ok(Decision { changes: Vec::new(), answer: Answer::Done { changed: false } });
        }
        check_memory(&binding.arguments)?;
        table.check_room(&binding)?;
        let change = Change::Bound(Arc::new(binding));
        Ok(Decision { changes: vec![change], answer: Answer::Done { changed: true } })
    }

    pub(super) fn unbind(&self, binding: Binding, caller: Caller) -> Result<Decision, CatalogError> {
        self.check_binding(&binding)?;
        let vhost = &binding.vhost;
        if let Destination::Queue(name) = &binding.destination
            && let Some(queue) = self.listed_queue(vhost, name)
        {
            queue.check_caller(caller)?;
        }
        let table = self.vhosts.get(vhost).and_then(|v| v.exchanges.get(&binding.source));
        let Some(table) = table.filter(|t| t.bindings.has(&binding)) else {
            return Ok(Decision { changes: Vec::new(), answer: Answer::Done { changed: false } });
        };
        let last = table.bindings.len() == 1 && table.exchange.auto_delete;
        let mut changes = vec![Change::Unbound(Arc::new(binding.clone()))];
        if last {
            changes.extend(self.unbind_all(vhost, &Destination::Exchange(binding.source.clone())));
            changes.push(Change::ExchangeDeleted { vhost: vhost.clone(), name: binding.source });
        }
        Ok(Decision { changes, answer: Answer::Done { changed: true } })
    }
}
