//! What a gate, and the rooms that it speaks to, may look at and write to.

use std::hash::RandomState;

use bytes::BytesMut;
use message::DeliveryHeads;

use crate::access::Access;
use crate::catalog::Catalog;
use crate::counters::Counters;
use crate::credit_budget::CreditBudget;
use crate::ids::{Registry, ShardId};
use crate::input::Input;
use crate::mail::{GateAddress, Post, PublisherAddress, TicketOwner};
use crate::placements::Placements;
use crate::settings::Settings;
use crate::watchers::Watchers;

/// The shard as its gates see it. It is made once for a run of calls, not for each message.
#[derive(Debug)]
pub struct Cx<'a> {
    pub now_ms: u64,
    pub shard: ShardId,
    pub catalog: &'a Catalog,
    pub placements: &'a Placements,
    pub access: &'a Access,
    pub settings: &'a Settings,
    pub consumers: &'a mut Registry<GateAddress>,
    pub publishers: &'a mut Registry<PublisherAddress>,
    /// Who gets the answer to a request.
    pub tickets: &'a mut Registry<TicketOwner>,
    pub watchers: &'a mut Watchers,
    pub post: &'a mut Post,
    /// The batch buffer, where small messages live.
    pub batch_buffer: &'a mut BytesMut,
    /// The read that is being handled.
    pub input: Input<'a>,
    /// Makes the heads of deliveries.
    pub heads: &'a mut DeliveryHeads,
    pub counters: &'a mut Counters,
    /// Bytes that publishers may be promised beyond the fixed credit.
    pub budget: &'a mut CreditBudget,
    /// The last number that was given out; see [`Cx::draw`].
    pub unique: &'a mut u64,
    /// Makes names of reply links that cannot be guessed. Decides nothing else.
    pub reply_keys: &'a RandomState,
}

impl Cx<'_> {
    /// Draws a number for exchanges that choose by chance. No two messages of the node get the same.
    pub fn draw(&mut self) -> u64 {
        *self.unique += 1;
        u64::from(self.shard) << 56 | *self.unique
    }
}
