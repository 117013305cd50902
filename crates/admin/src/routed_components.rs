//! The components of RabbitMQ whose parameters have a route of their own.

use crate::reply::Failure;

/// The component of the parameters that are operator policies.
pub(crate) const OPERATOR_POLICY: &str = "operator_policy";

/// The component and the name of the parameter with the limits of a virtual host.
pub(crate) const VHOST_LIMITS: (&str, &str) = ("vhost-limits", "limits");

/// The components whose parameters have a route of their own, that route, and their section of definitions. RabbitMQ keeps them
/// among the parameters. Here such a parameter would have no effect, until an import of the definitions gave it one.
const WITH_ROUTES: [(&str, &str, &str); 3] = [
    (VHOST_LIMITS.0, "/api/vhost-limits", "parameters"),
    ("policy", "/api/policies", "policies"),
    (OPERATOR_POLICY, "/api/operator-policies", "parameters"),
];

/// Returns true if parameters of this component have a route of their own, and are never kept as parameters.
pub(crate) fn has_route(component: &str) -> bool {
    WITH_ROUTES.iter().any(|(known, ..)| *known == component)
}

/// Refuses a parameter that has a route of its own.
///
/// # Errors
/// 400, whose reason names the route.
pub(crate) fn check_component(component: &str) -> Result<(), Failure> {
    let Some((_, route, section)) = WITH_ROUTES.iter().find(|(known, ..)| *known == component) else {
        return Ok(());
    };
    Err(Failure::bad_request(format!(
        "parameters of component '{component}' are set with PUT {route}/VHOST/NAME, and in definitions in the section '{section}'"
    )))
}
