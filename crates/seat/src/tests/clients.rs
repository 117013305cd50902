//! Requests of clients that keep to the contract.

use queue::{Attach, ConsumerId, ConsumerTimeout, Mode, Outcome, Request, SettleAnswer, Ticket};
use random::Random;

use super::publish;

/// Makes requests of clients that keep to the contract.
pub(super) struct Clients {
    random: Random,
    next: u64,
    /// Each with the count of its grants.
    pub(super) consumers: Vec<(ConsumerId, u32)>,
    holder: Option<ConsumerId>,
    seqs: [u64; 2],
}

impl Clients {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: Random(seed ^ 0x5ea7), next: 0, consumers: Vec::new(), holder: None, seqs: [0; 2] }
    }

    fn id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Returns the makings of one request, twice.
    pub(super) fn request(&mut self) -> [Request; 2] {
        let seed = self.random.next();
        let kind = self.random.below(100);
        let id = self.id();
        let at = self.random.index(self.consumers.len());
        let consumer = self.consumers.get(at).map(|(consumer, _)| *consumer);
        let publisher = self.random.index(2);
        match (kind, consumer) {
            (0..40, _) | (55..90, None) => self.seqs[publisher] += 1,
            (40..48, _) => self.consumers.push((ConsumerId(id), 0)),
            (84..88, _) => self.holder = self.holder.or(Some(ConsumerId(id))),
            (88..90, Some(_)) => _ = self.consumers.remove(at),
            _ => {}
        }
        let (seqs, holder) = (self.seqs, self.holder);
        [(); 2].map(|()| {
            let mut random = Random(seed);
            match (kind, consumer) {
                (0..40, _) | (55..90, None) => {
                    let seq = seqs[publisher];
                    publish(publisher as u64, seq, (publisher as u64) << 32 | seq, random.index(3000))
                }
                (40..48, _) => Request::Attach(Attach {
                    consumer: ConsumerId(id),
                    mode: if random.one_in(6) { Mode::Browse } else { Mode::Take },
                    priority: random.index(3) as i32,
                    exclusive: random.one_in(12),
                    settled: random.one_in(4),
                    delivery_count: random.index(3) as u32,
                    message_bytes_max: None,
                    timeout: ConsumerTimeout::default(),
                }),
                (55..68, Some(consumer)) => Request::Grant {
                    consumer,
                    delivery_count: random.index(20) as u32,
                    credit: random.index(12) as u32,
                    drain: random.one_in(4),
                    echo: random.one_in(3),
                },
                (68..82, Some(consumer)) => {
                    let first = 1 + random.below(12);
                    Request::Settle {
                        consumer,
                        first,
                        last: first + random.below(4),
                        outcome: match random.below(5) {
                            0 => Outcome::Released,
                            1 => Outcome::Rejected,
                            2 => Outcome::Modified {
                                failed: true,
                                undeliverable_here: false,
                                annotations: None,
                            },
                            _ => Outcome::Accepted,
                        },
                        answer: if random.one_in(2) { SettleAnswer::Made } else { SettleAnswer::Never },
                    }
                }
                (82..84, Some(consumer)) => Request::Cancel { consumer },
                (84..88, Some(_)) => Request::Fetch {
                    ticket: Ticket(id),
                    holder: holder.unwrap_or(ConsumerId(id)),
                    n: 1 + random.index(3) as u32,
                    settled: random.one_in(2),
                },
                (88..90, Some(consumer)) => Request::Detach { consumer, failed: random.one_in(2) },
                (90..93, _) => Request::Purge { ticket: Ticket(id) },
                (93..98, _) => Request::Report { ticket: Ticket(id) },
                (98, _) => {
                    Request::Delete { ticket: Ticket(id), if_unused: true, if_empty: random.one_in(2) }
                }
                _ => Request::Use,
            }
        })
    }
}
