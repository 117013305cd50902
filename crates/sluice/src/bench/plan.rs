//! What a pattern needs: queues, an exchange, and the addresses of senders and receivers.

use client::management::{Binding, ExchangeSpec, QueueSpec};
use client::{Connection, Error, Management};
use percent_encoding::utf8_percent_encode;

use super::{ADDRESS, Bench, EXCHANGE_ADDRESS, Pattern, Protocol};
use crate::amqp::SEGMENT;
use crate::failure::Failure;

/// The default number of receivers of a fan-out, and of senders of a fan-in.
const FAN: u32 = 4;

/// The queues of a run, and where each endpoint attaches. Over AMQP 0.9.1, names are used instead of addresses.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub queues: Vec<String>,
    /// The name of a fanout exchange that is bound to all the queues.
    pub exchange: Option<String>,
    /// The address to which each sender sends. Over AMQP 0.9.1: the exchange if there is one, otherwise the queue.
    pub senders: Vec<String>,
    /// The address from which each receiver receives.
    pub receivers: Vec<String>,
    /// The number of receivers that get each message.
    pub copies: u64,
}

impl Plan {
    pub(super) fn of(bench: &Bench) -> Self {
        let prefix = bench.queue.as_str();
        let template = |given: &Option<String>, default: &str, place: &str, name: &str| match bench.protocol {
            Protocol::Amqp10 => fill(given.as_deref().unwrap_or(default), place, name),
            Protocol::Amqp091 => name.to_owned(),
        };
        let address = |queue: &String| template(&bench.address, ADDRESS, "{queue}", queue);
        let many = |n: u32| -> Vec<String> { (1..=n).map(|i| format!("{prefix}-{i}")).collect() };
        match bench.pattern {
            Pattern::Pair | Pattern::Connections => {
                let queues = many(bench.pairs.unwrap_or(1));
                let addresses: Vec<String> = queues.iter().map(address).collect();
                Self { queues, exchange: None, senders: addresses.clone(), receivers: addresses, copies: 1 }
            }
            Pattern::FanIn => {
                let queue = prefix.to_owned();
                let repeat = |n: u32| vec![address(&queue); n as usize];
                let (senders, receivers) = (bench.senders.unwrap_or(FAN), bench.receivers.unwrap_or(1));
                Self {
                    senders: repeat(senders),
                    receivers: repeat(receivers),
                    exchange: None,
                    copies: 1,
                    queues: vec![queue],
                }
            }
            Pattern::FanOut => {
                let queues = many(bench.receivers.unwrap_or(FAN));
                let target = template(&bench.exchange_address, EXCHANGE_ADDRESS, "{exchange}", prefix);
                Self {
                    exchange: Some(prefix.to_owned()),
                    senders: vec![target; bench.senders.unwrap_or(1) as usize],
                    receivers: queues.iter().map(address).collect(),
                    copies: queues.len() as u64,
                    queues,
                }
            }
        }
    }
}

fn fill(template: &str, place: &str, name: &str) -> String {
    template.replace(place, &utf8_percent_encode(name, SEGMENT).to_string())
}

/// The objects that a run has declared and must delete.
pub(super) struct Declared {
    connection: Connection,
    management: Management,
    queues: Vec<String>,
    exchange: Option<String>,
}

impl Declared {
    /// Declares what the plan needs.
    ///
    /// # Errors
    /// The broker's error; or that a queue of this name already has messages, which belong to somebody else.
    pub(super) async fn make(bench: &Bench, plan: &Plan) -> Result<Self, Failure> {
        let (connection, _) = bench.connect().await?;
        let open = async {
            let session = connection.session().await?;
            Management::open(&session).await
        };
        let management = open.await.map_err(|e| failed("reach the management node", &e))?;
        let mut declared = Self { connection, management, queues: Vec::new(), exchange: None };
        match declared.declare(plan).await {
            Ok(()) => Ok(declared),
            Err(failure) => {
                declared.delete().await;
                Err(failure)
            }
        }
    }

    async fn declare(&mut self, plan: &Plan) -> Result<(), Failure> {
        for queue in &plan.queues {
            let answer = self.management.declare_queue(queue, &QueueSpec::default()).await;
            let answer = answer.map_err(|e| failed(&format!("declare queue '{queue}'"), &e))?;
            if answer.status == 201 {
                self.queues.push(queue.clone());
            } else if answer.value.messages > 0 {
                let messages = answer.value.messages;
                let line = format!("queue '{queue}' has {messages} messages: choose another --queue");
                return Err(Failure::failed(line));
            }
        }
        let Some(exchange) = &plan.exchange else { return Ok(()) };
        let spec = ExchangeSpec { kind: "fanout".to_owned(), ..ExchangeSpec::default() };
        let answer = self.management.declare_exchange(exchange, &spec).await;
        answer.map_err(|e| failed(&format!("declare exchange '{exchange}'"), &e))?;
        self.exchange = Some(exchange.clone());
        for queue in &plan.queues {
            let bound = self.management.bind(&Binding::to_queue(exchange, queue, "")).await;
            bound.map_err(|e| failed(&format!("bind queue '{queue}'"), &e))?;
        }
        Ok(())
    }

    /// Deletes what was declared. An object that cannot be deleted is left, and named on standard error.
    pub(super) async fn delete(self) {
        for queue in &self.queues {
            if let Err(error) = self.management.delete_queue(queue).await {
                super::say(&format!("sluice: cannot delete queue '{queue}': {error}"));
            }
        }
        if let Some(exchange) = &self.exchange
            && let Err(error) = self.management.delete_exchange(exchange).await
        {
            super::say(&format!("sluice: cannot delete exchange '{exchange}': {error}"));
        }
        // The run is over, so the way in which its last connection ends does not change the result.
        drop(self.connection.close().await);
    }
}

fn failed(what: &str, error: &Error) -> Failure {
    Failure::failed(format!("cannot {what}: {error}"))
}
