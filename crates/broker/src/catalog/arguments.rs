//! Queue arguments (behaviour D.4): which are known, what they may hold, and what they mean to the machine.

use std::collections::BTreeMap;
use std::sync::Arc;

use amqp10::Value;

use super::decide::CatalogError;

/// Arguments of a queue, an exchange or a binding, by name.
pub type Arguments = BTreeMap<String, Value>;

/// How many arguments one declaration may have: it is kept on every shard.
pub(super) const ARGUMENTS_MAX: usize = 256;

/// What a name that the broker makes up begins with. It says nothing of the queue, so it is never kept; where the queue
/// has a name already, as it always has in AMQP 1.0, nobody looks at it (behaviour D.2).
pub(super) const NAME_PREFIX: &str = "x-name-prefix";

/// Milliseconds that a timer may be set to: about 49 days, as the reference.
const TIMER_MS_MAX: u64 = u32::MAX as u64;

/// Arguments that other queue types know and a classic queue refuses.
const OTHER_TYPES: &[&str] = &[
    "x-delivery-limit",
    "x-quorum-initial-group-size",
    "x-quorum-target-group-size",
    "x-dead-letter-strategy",
    "x-max-age",
    "x-stream-max-segment-size-bytes",
    "x-stream-filter-size-bytes",
    "x-initial-cluster-size",
    "x-consumer-timeout",
    "x-consumer-disconnected-timeout",
    "x-member-placement-tag",
    "x-delayed-retry-type",
    "x-delayed-retry-min",
    "x-delayed-retry-max",
];

/// The machine's settings of a classic queue.
///
/// # Errors
/// [`CatalogError::PreconditionFailed`] naming the argument that this queue type does not take, or whose
/// value is not what it must be.
pub fn queue_config(
    vhost: &str,
    name: &Arc<str>,
    auto_delete: bool,
    arguments: &Arguments,
) -> Result<(queue::Config, bool), CatalogError> {
    let invalid = |key: &str, why: &str| CatalogError::PreconditionFailed {
        reason: format!("invalid arg '{key}' for queue '{name}' in vhost '{vhost}': {why}"),
    };
    let mut config = queue::Config {
        name: name.clone(),
        auto_delete,
        single_active_consumer: false,
        max_length: None,
        max_length_bytes: None,
        overflow: queue::Overflow::DropHead,
        message_ttl_ms: None,
        expires_ms: None,
        dead_letter: None,
        max_priority: None,
    };
    let mut fsync = false;
    let mut dead_letter_exchange = None;
    let mut dead_letter_key = None;
    for (key, value) in arguments {
        let number = |max: u64| match value.as_u64() {
            Some(n) if n <= max => Ok(n),
            _ => Err(invalid(key, "a whole number that is not negative is needed")),
        };
        let text = || value.as_str().ok_or_else(|| invalid(key, "a string is needed"));
        let boolean = || value.as_bool().ok_or_else(|| invalid(key, "a boolean is needed"));
        match key.as_str() {
            "x-queue-type" => match text()? {
                "classic" => {}
                other => {
                    return Err(CatalogError::PreconditionFailed {
                        reason: format!(
                            "queue type '{other}' of queue '{name}' in vhost '{vhost}' is not available: \
                             only 'classic' is"
                        ),
                    });
                }
            },
            "x-message-ttl" => config.message_ttl_ms = Some(number(TIMER_MS_MAX)?),
            "x-expires" => match number(TIMER_MS_MAX)? {
                0 => return Err(invalid(key, "it must be above 0")),
                ms => config.expires_ms = Some(ms),
            },
            "x-max-length" => config.max_length = Some(number(u64::MAX)?),
            "x-max-length-bytes" => config.max_length_bytes = Some(number(u64::MAX)?),
            "x-overflow" => {
                config.overflow = match text()? {
                    "drop-head" => queue::Overflow::DropHead,
                    "reject-publish" => queue::Overflow::RejectPublish,
                    "reject-publish-dlx" => queue::Overflow::RejectPublishDlx,
                    _ => {
                        return Err(invalid(
                            key,
                            "drop-head, reject-publish or reject-publish-dlx is needed",
                        ));
                    }
                }
            }
            "x-dead-letter-exchange" => dead_letter_exchange = Some(Arc::from(text()?)),
            "x-dead-letter-routing-key" => dead_letter_key = Some(Arc::from(text()?)),
            "x-max-priority" => match number(255)? {
                0 => return Err(invalid(key, "it must be from 1 to 255")),
                levels => config.max_priority = Some(levels as u8),
            },
            "x-single-active-consumer" => config.single_active_consumer = boolean()?,
            "x-fsync" => fsync = boolean()?,
            "x-queue-leader-locator" => match text()? {
                "client-local" | "balanced" => {}
                _ => return Err(invalid(key, "client-local or balanced is needed")),
            },
            // Classic queues have had only this behaviour for a long time.
            "x-queue-version" if value.as_u64() == Some(2) => {}
            "x-queue-mode" | "x-queue-version" => return Err(invalid(key, "it is not supported any more")),
            other if OTHER_TYPES.contains(&other) => {
                return Err(invalid(key, "queue type 'classic' does not take it"));
            }
            // Arguments that nobody knows are kept and shown: clients leave notes in them.
            _ => {}
        }
    }
    config.dead_letter = match (dead_letter_exchange, dead_letter_key) {
        (Some(exchange), key) => Some(queue::DeadLetter { exchange, key, at_least_once: false }),
        (None, Some(_)) => {
            return Err(invalid("x-dead-letter-routing-key", "it needs x-dead-letter-exchange"));
        }
        (None, None) => None,
    };
    Ok((config, fsync))
}
