//! AMQP 1.0: the type codec, frames, SASL and the sans-IO endpoints, for both roles.
