//! One gate per protocol: the only code that knows both a protocol and the contract.

pub mod amqp10;
