//! The answers to looks: those of the shard, with the figures of the test in them.

use std::any::Any;
use std::sync::Arc;

use broker::admin_api::{BudgetRow, QueueNumbers};
use broker::explain::{LogFacts, Troubles, Wanted};
use catalog::ExchangeId;
use catalog::QueueRecord;
use node::shard::Shard;
use node::shard::looks::{
    CatalogGroup, Connections, CountsOfExchanges, Links, LinksSeen, NumbersOfVhosts, Reports, Sums, Totals,
    TroublesSeen, UsedQueues, WhatIsWrong,
};
use node::shard::questions::{AnyLook, Asked, Look, Part};

use super::{NOW_MS, State};

/// Answers a look. Shards other than the first have nothing but their figures.
pub(super) fn answer(state: &mut State, shard: &mut Shard, number: u8, look: Box<dyn AnyLook>) {
    let is_first = number == 0;
    let rest = answered(look, |Sums| {
        let mut totals = if is_first { shard.totals() } else { Totals::default() };
        if is_first {
            totals.depth.ready = state.ready.values().sum();
            totals.counters = state.counters.clone();
            totals.counters.connections = state.connections.len() as u64;
            totals.commit_latency_ms = 1_250;
            totals.budgets =
                [("one", 1), ("two", 2)].map(|(name, n)| BudgetRow { name, used: n, limit: 10 * n }).into();
        }
        totals.shard = state.shards[usize::from(number)];
        Box::new(totals)
    });
    let rest = rest.and_then(|look| {
        answered(look, |Connections { names, from, .. }: Connections| {
            // Every part has one connection.
            let count = if is_first { state.connections.len() } else { 0 };
            let row = state.connections.get(from).filter(|_| is_first).cloned();
            let row = row.filter(|row| names.is_none_or(|names| names.contains(&row.name)));
            Part { rows: row.into_iter().collect(), next: (from + 1 < count).then_some(from + 1) }
        })
    });
    let rest = rest.and_then(|look| {
        answered(look, |CountsOfExchanges(ids): CountsOfExchanges| {
            let counts = |id| name_of(shard, id).and_then(|name| state.exchange_counts.get(&*name).copied());
            ids.into_iter().map(|id| counts(id).filter(|_| is_first).unwrap_or_default()).collect()
        })
    });
    let rest = rest.and_then(|look| {
        answered(look, |NumbersOfVhosts { .. }| {
            state.vhost_walks += usize::from(is_first);
            let rows = state.vhost_numbers.iter().filter(|_| is_first);
            Part { rows: rows.map(|(name, numbers)| (name.as_str().into(), *numbers)).collect(), next: None }
        })
    });
    let rest = rest.and_then(|look| {
        answered(look, |UsedQueues { .. }| {
            let passed = |queue: &QueueRecord| state.published.get(&*queue.name).copied().unwrap_or(0);
            let all = shard.catalog().queues().filter(|_| is_first).map(|queue| (queue.id, passed(&queue)));
            Part { rows: all.filter(|(_, passed)| *passed > 0).collect(), next: None }
        })
    });
    let rest = rest.and_then(|look| {
        answered(look, |Links { wanted, .. }: Links| {
            let rows = state.facts.iter().filter(|facts| match &wanted {
                Wanted::Connection(name) => *facts.name == **name,
                Wanted::Link { vhost, .. } => vhost.as_ref().is_none_or(|vhost| *facts.vhost == **vhost),
                Wanted::Consumers(_) => false,
            });
            let part = Part { rows: rows.cloned().collect(), next: None };
            LinksSeen { part, log: LogFacts::default(), shard: shard.facts() }
        })
    });
    let rest = rest.and_then(|look| {
        answered(look, |look: Reports| {
            state.reports.push(look.0.len());
            let ids = look.0.clone();
            let mut all = look.answer(shard);
            for (id, numbers) in ids.into_iter().zip(&mut all) {
                let queue = shard.catalog().queue_by_id(id);
                if let (Some(queue), Some(QueueNumbers { report, group })) = (queue, numbers) {
                    state.set_report(&queue, report);
                    *group = state.groups.get(&*queue.name).copied();
                }
            }
            all
        })
    });
    let rest = rest.and_then(|look| {
        answered(look, |WhatIsWrong { .. }| {
            let queues: Vec<_> = shard.catalog().queues().collect();
            let rows = queues.into_iter().map(|queue| {
                let mut troubles = Troubles { queues: 1, ..Troubles::default() };
                let mut report = shard.queue_report(queue.id).unwrap_or_default();
                state.set_report(&queue, &mut report);
                let is_led = state.groups.get(&*queue.name).is_none_or(|group| group.is_healthy());
                troubles.add_queue(&queue, &report, is_led, NOW_MS);
                (queue.vhost.clone(), troubles)
            });
            let part = Part { rows: rows.collect(), next: None };
            TroublesSeen { part, comers: Vec::new(), log: LogFacts::default(), shard: shard.facts() }
        })
    });
    let rest = rest.and_then(|look| {
        answered(look, |CatalogGroup| state.sight.clone().unwrap_or_else(|| shard.catalog_sight()))
    });
    if let Some(look) = rest {
        look.answer(shard);
    }
}

/// Answers a look of this type. Returns every other look.
fn answered<L: Look>(
    look: Box<dyn AnyLook>,
    answer: impl FnOnce(L) -> L::Answer,
) -> Option<Box<dyn AnyLook>> {
    let any: &dyn Any = &*look;
    if !any.is::<Asked<L>>() {
        return Some(look);
    }
    let any: Box<dyn Any> = look;
    let Asked { look, to } = *any.downcast::<Asked<L>>().expect("a look of this type");
    to.send(answer(look));
    None
}

fn name_of(shard: &Shard, id: ExchangeId) -> Option<Arc<str>> {
    let catalog = shard.catalog();
    let mut all = (0..catalog.exchange_places()).filter_map(|place| catalog.exchange_at(place));
    all.find(|(_, found, _)| *found == id).map(|(exchange, ..)| exchange.name.clone())
}
