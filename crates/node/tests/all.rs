//! The tests of whole shards and nodes. One binary, because linking one for each file takes minutes.

mod asks;
#[path = "asks/queues.rs"]
mod asks_queues;
mod quiet;
mod recovered;
mod world;

mod clocks;
mod cluster;
mod corpus;
mod damage;
mod endings;
mod flow;
mod formats;
mod founding;
mod guessing;
mod links;
mod quarantine;
mod queue_settings;
mod reset;
mod transactions;
mod two_shards;
mod unclaimed;
mod users;
mod users_copy;
mod walks;
