//! Flow control on whole shards: the real gates, queues and mail, without sockets, clock and disk.

#[path = "../asks/mod.rs"]
mod asks;
#[path = "../asks/queues.rs"]
mod asks_queues;
mod changing;
mod client;
mod isolation;
mod model;
mod world;
