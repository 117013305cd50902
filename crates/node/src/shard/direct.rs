//! Links that receive replies directly, without a queue: publishes and probes to them, from any shard.

use std::sync::Arc;

use broker::ids::shard_of;
use broker::mail::{ConsumerAddress, Direct, Mail};
use catalog::ids::QueueId;
use catalog::reply_to::ReplyTo;
use queue::{Effect, Publish, Refusal, Report, Requester, Verdict};

use super::Shard;
use super::receipts::Receipt;

impl Shard {
    /// Sends a request to the shard of the link. A name with an invalid shard is answered here.
    pub(super) fn dispatch_direct(&mut self, to: ReplyTo, vhost: Arc<str>, request: Direct) {
        let Some((vhost, request)) = self.reply_to_node(to, vhost, request) else { return };
        let of_name = shard_of(to.outlet.0);
        let shard = if self.mail.shards().contains(&of_name) { of_name } else { self.here.id };
        self.do_or_send(shard, Mail::Direct { to, vhost, request });
    }

    pub(super) fn handle_direct(&mut self, to: ReplyTo, vhost: &str, request: Direct) {
        let at = match self.connections.consumer(to.outlet) {
            Some(ConsumerAddress::Gate(at)) => Some(at),
            // Replies go to the node of their link, which has its own consumers.
            Some(ConsumerAddress::Seat(_)) | None => None,
        };
        let at = at.filter(|at| {
            self.connections.get(at.connection).is_some_and(|c| c.gate.takes_replies(*at, vhost, to))
        });
        match request {
            Direct::Publish(Publish { publisher, seq, message, .. }) => {
                match at {
                    Some(at) => {
                        self.gates().with(at.connection, |gate, cx| gate.handle_reply(at, &message, cx));
                    }
                    // There is no link with this key: it is closed or never existed. A publisher cannot tell
                    // the two apart.
                    None => self.counters.replies_dropped += 1,
                }
                let (queue, verdict) = (QueueId::NONE, Verdict::Accepted);
                self.mail.receipts.push(Receipt { queue, publisher, first: seq, last: seq, verdict });
            }
            Direct::Probe(ticket) => {
                let effect = match at {
                    Some(_) => Effect::Report {
                        ticket,
                        report: Box::new(Report { consumers: 1, ..Report::default() }),
                    },
                    None => Effect::Refused { requester: Requester::Ticket(ticket), why: Refusal::NotFound },
                };
                self.carry_out(QueueId::NONE, effect);
            }
        }
    }
}
