//! Transactions of AMQP 0.9.1 on whole shards and the real log: generated orders of methods are compared with a naive model, and a
//! broker that is killed after every step has what its answers have promised.

mod broker;
mod crashes;
mod model;
mod remote;
