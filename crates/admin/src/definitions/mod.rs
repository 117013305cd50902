//! Definitions: everything but the messages, as one JSON file in RabbitMQ's form. `/api/definitions` and `load_definitions`.

mod export;
mod import;
mod passwords;
mod unchanged;

pub(crate) use export::{get, get_of_vhost};
pub use import::{Definitions, Problem, Problems, Reading};
pub(crate) use import::{post, post_to_vhost};
