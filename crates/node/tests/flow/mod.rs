//! Flow control on whole shards: the real gates, queues and mail, without sockets, clock and disk.

mod changing;
mod client;
mod isolation;
mod model;
mod readers;
pub(crate) mod world;
