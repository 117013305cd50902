//! The frames of AMQP 1.0 in the notation of a page.

pub(crate) mod receive;
pub(crate) mod send;
pub(crate) mod track;
