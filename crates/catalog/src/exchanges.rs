//! The exchanges of the catalog, by name and by place.

use std::sync::Arc;

use super::{Binding, Catalog, Exchange, Vhost, exchange};
use crate::ExchangeId;

impl Catalog {
    pub(super) fn table_at(&self, place: usize) -> Option<&exchange::Table> {
        let (vhost, name) = self.exchange_places.get(place)?;
        self.vhosts.get(vhost)?.exchanges.get(name)
    }

    /// Returns the number of words that the keys of further bindings of an exchange may have, if its type limits it.
    pub(super) fn binding_room(&self, vhost: &str, exchange: &str) -> Option<usize> {
        self.vhosts.get(vhost)?.exchanges.get(exchange)?.room()
    }

    pub fn exchange(&self, vhost: &str, name: &str) -> Option<Arc<Exchange>> {
        let vhost = self.vhosts.get(vhost)?;
        Some(vhost.exchanges.get(name)?.current(&vhost.policies, self.policies).into_owned())
    }

    pub fn exchanges(&self) -> impl Iterator<Item = Arc<Exchange>> {
        self.vhosts.values().flat_map(|vhost| {
            let tables = vhost.exchanges.values();
            tables.map(|table| table.current(&vhost.policies, self.policies).into_owned())
        })
    }

    /// Returns the number of exchanges.
    pub fn exchange_count(&self) -> usize {
        self.exchange_places.len()
    }

    /// Returns a number above the places of all exchanges.
    pub fn exchange_places(&self) -> usize {
        self.exchange_places.capacity()
    }

    /// Returns the exchange at a place, its id, and the number of bindings that begin at it.
    pub fn exchange_at(&self, place: usize) -> Option<(Arc<Exchange>, ExchangeId, usize)> {
        let (vhost, name) = self.exchange_places.get(place)?;
        let vhost = self.vhosts.get(vhost)?;
        let table = vhost.exchanges.get(name)?;
        let exchange = table.current(&vhost.policies, self.policies).into_owned();
        Some((exchange, table.id, table.bindings.len()))
    }

    /// Does the same as [`Catalog::refresh_queue_at`] for the exchange at this place.
    pub fn refresh_exchange_at(&mut self, place: usize) {
        let Some((vhost, name)) = self.exchange_places.get(place) else { return };
        if let Some(vhost) = self.vhosts.get_mut(vhost)
            && let Some(table) = vhost.exchanges.get_mut(name)
        {
            table.refresh(&vhost.policies, self.policies);
        }
    }

    /// Adds a virtual host with the exchanges that every virtual host has from the start.
    pub(super) fn add_vhost_with_exchanges(&mut self, name: &Arc<str>) {
        self.vhosts.insert(name.clone(), Vhost::default());
        Exchange::predeclared(name).for_each(|exchange| self.add_exchange(Arc::new(exchange)));
    }

    /// Adds an exchange. An exchange that exists keeps its bindings.
    pub(super) fn add_exchange(&mut self, exchange: Arc<Exchange>) {
        let Some(vhost) = self.vhosts.get_mut(&exchange.vhost) else { return };
        let is_default = exchange.name.is_empty();
        let table = vhost.exchanges.entry(exchange.name.clone()).or_insert_with(|| {
            let place = self.exchange_places.insert((exchange.vhost.clone(), exchange.name.clone()));
            let id = ExchangeId { place: place as u32, since: self.version };
            let mut table = exchange::Table::new(exchange, id);
            table.refresh(&vhost.policies, self.policies);
            table
        });
        if is_default {
            vhost.default_exchange = Some(table.id);
        }
    }

    /// Frees the places of exchanges, in their order: new exchanges must get the same places on every shard.
    pub(super) fn free_places(&mut self, exchanges: impl Iterator<Item = ExchangeId>) {
        let mut places: Vec<usize> = exchanges.map(|id| id.place as usize).collect();
        places.sort_unstable();
        for place in places {
            self.exchange_places.remove(place);
        }
    }

    pub(super) fn table_mut(&mut self, binding: &Binding) -> Option<&mut exchange::Table> {
        self.vhosts.get_mut(&binding.vhost)?.exchanges.get_mut(&binding.source)
    }
}
