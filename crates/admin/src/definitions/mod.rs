//! Definitions: everything but the messages, as one JSON file in RabbitMQ's form. `/api/definitions` and `load_definitions`.

mod export;
mod import;
mod passwords;
mod unchanged;

pub use export::{get, get_of_vhost};
pub use import::{Definitions, Problem, Problems, Reading, post, post_to_vhost};

/// The component of the parameters that are operator policies.
const OPERATOR_POLICY: &str = "operator_policy";

/// The component and the name of the parameter with the limits of a virtual host.
const VHOST_LIMITS: (&str, &str) = ("vhost-limits", "limits");
