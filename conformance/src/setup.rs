//! The settings and users of a page's world.

use broker::settings::LinkCredit;

use crate::text::{self, Parsed};
use crate::world::{self, Setup};

/// Applies a setting of the world. Settings must precede everything else.
pub(crate) fn configure(setup: &mut Setup, step: &str, rest: &str) -> Parsed<bool> {
    match step {
        "shards" => setup.shards = rest.trim().parse().map_err(|_| "shards 2")?,
        "user" => {
            let tokens = text::tokens(rest)?;
            let name = tokens.first().ok_or("user name")?.key.clone();
            let refused = |verb: &str| tokens.iter().any(|t| t.key == verb && t.value.as_str() == Some("no"));
            let mut user = world::user(&name, world::permissions(|verb| !refused(verb)));
            if let Some(tag) = tokens.iter().find(|t| t.key == "tag") {
                user.tags.extend(tag.value.as_str().map(str::to_owned));
            }
            if tokens.iter().any(|t| t.key == "nowhere") {
                user.permissions.clear();
            }
            setup.users.push(user);
        }
        "set" => {
            let (key, value) = rest.split_once('=').ok_or("set key=value")?;
            let number: u32 = value.parse().unwrap_or(0);
            let s = &mut setup.settings;
            match key {
                "max_message_size" => s.max_message_size = number.into(),
                "max_link_credit" => s.max_link_credit = number,
                "link_credit" if value == "adaptive" => s.link_credit = LinkCredit::Adaptive,
                "max_queue_credit" => s.max_queue_credit = number,
                "max_incoming_window" => s.max_incoming_window = number,
                "max_unsettled_per_consumer" => s.max_unsettled_per_consumer = number,
                "consumer_timeout" => s.consumer_timeout_ms = number.into(),
                "frame_max" => s.frame_max = number,
                "initial_frame_max" => s.initial_frame_max = number,
                "heartbeat" => s.heartbeat_s = number,
                "channel_max" => s.channel_max = number as u16,
                "channel_max_per_node" => s.session_max = Some(number),
                "consumer_max_per_channel" => s.consumer_max_per_channel = Some(number),
                "connection_max" => s.connection_max = Some(number),
                "unfinished_memory" => s.unfinished_memory = number.into(),
                "unread_output_memory" => s.unread_output_memory = number.into(),
                "permit_transient" => s.declare_rules.permit_transient = value == "true",
                "relaxed_redeclaration" => s.declare_rules.relaxed_redeclaration = value == "true",
                "queues_max" => s.declare_rules.queues_max = Some(number),
                "exchanges_max" => s.declare_rules.exchanges_max = Some(number),
                "session_max_per_connection" => s.session_max_per_connection = number as u16,
                "link_max_per_session" => s.link_max_per_session = number,
                "permit_address_v1" => s.permit_address_v1 = value == "true",
                "durable_by_default" => s.durable_by_default = value == "true",
                "anonymous_login_user" => {
                    s.anonymous_login_user = (value != "none").then(|| value.to_owned());
                }
                _ => return Err(format!("no such setting: {key}")),
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}
