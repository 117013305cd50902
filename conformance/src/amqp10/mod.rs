//! The frames of AMQP 1.0 in the notation of a page.

pub mod receive;
pub mod send;
pub mod track;
