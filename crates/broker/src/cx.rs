//! The context of a gate, and of the components that it calls: what they may read and write.

use bytes::BytesMut;
use catalog::Catalog;
use catalog::access::{Access, Login};
use catalog::ids::ShardId;
use message::DeliveryHeads;
use queue::Ticket;

use crate::counters::Counters;
use crate::credit_budget::CreditBudget;
use crate::exchange_counts::ExchangeCounters;
use crate::ids::Registry;
use crate::input::Input;
use crate::mail::{ConsumerAddress, Post, PublisherAddress, TicketOwner};
use crate::placements::Placements;
use crate::searches::Searches;
use crate::settings::Settings;
use crate::traces::Traces;
use crate::unguessable::Names;
use crate::watchers::Watchers;

/// The parts of the shard that its gates may read and write. The context is made once for a series of calls,
/// not for each message.
#[derive(Debug)]
pub struct Cx<'a> {
    pub now_ms: u64,
    pub shard: ShardId,
    pub catalog: &'a Catalog,
    /// True if the catalog may lack what a client has declared on another node. What is not found is then no error yet: the gate holds what
    /// the client wants ([`Post::unsure`]), and handles it again when the node has caught up.
    pub may_lag: bool,
    pub placements: &'a Placements,
    pub access: &'a Access,
    pub settings: &'a Settings,
    /// If this many bytes of a connection's output are unwritten, no more messages are requested for it. A request should not
    /// bring more than this, either.
    pub output_room: usize,
    /// What is traced. `None` if nothing is.
    pub traces: Option<&'a Traces>,
    pub consumers: &'a mut Registry<ConsumerAddress>,
    pub publishers: &'a mut Registry<PublisherAddress>,
    /// The owners of tickets: each receives the answer to a request.
    pub tickets: &'a mut Registry<TicketOwner>,
    pub watchers: &'a mut Watchers,
    pub post: &'a mut Post,
    /// The buffer to which small messages are copied.
    pub batch_buffer: &'a mut BytesMut,
    /// The bytes of the read that is being handled.
    pub input: Input<'a>,
    /// Makes the encoded heads of deliveries.
    pub heads: &'a mut DeliveryHeads,
    pub counters: &'a mut Counters,
    pub exchange_counters: &'a mut ExchangeCounters,
    /// The share of the turn that messages may take to find their routes.
    pub searches: &'a mut Searches,
    /// The bytes that publishers may be promised beyond the fixed credit.
    pub budget: &'a mut CreditBudget,
    /// The last number that was drawn. See [`Cx::draw`].
    pub unique: &'a mut u64,
    /// Makes names that nobody can guess.
    pub names: Names,
}

impl Cx<'_> {
    /// Returns the name of the cluster, as clients see it.
    pub fn cluster_name(&self) -> &str {
        self.catalog.cluster_name().unwrap_or(&self.settings.cluster_name)
    }

    /// Has a login checked. If the catalog may lack its user, the node catches up first.
    pub fn check_login(&mut self, ticket: Ticket, login: Login) {
        if self.may_lag && self.catalog.users().get(login.credentials.user()).is_none() {
            self.post.unsure.push((ticket, Some(login)));
        } else {
            self.post.logins.push((ticket, login));
        }
    }

    /// Has a new token of a client checked that has logged in. If the catalog may lack what the client may do now, the node catches up first.
    pub fn check_renewal(&mut self, ticket: Ticket, login: Login) {
        match self.may_lag {
            true => self.post.unsure.push((ticket, Some(login))),
            false => self.post.logins.push((ticket, login)),
        }
    }

    /// Draws a number for exchanges that choose at random. No two messages of the node get the same
    /// number.
    pub fn draw(&mut self) -> u64 {
        *self.unique += 1;
        u64::from(self.shard) << 56 | *self.unique
    }
}
