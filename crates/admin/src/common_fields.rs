//! Fields that connections, sessions, channels and consumers have in common: names, addresses and ages.

use serde_json::Value;

/// Returns the name of a channel or session, as RabbitMQ forms it.
pub(crate) fn channel_name(connection: &str, number: u16) -> String {
    format!("{connection} ({number})")
}

/// Returns the connection and the number that [`channel_name`] has combined.
pub(crate) fn split_name(name: &str) -> Option<(&str, u16)> {
    let (connection, number) = name.strip_suffix(')')?.rsplit_once(" (")?;
    Some((connection, number.parse().ok()?))
}

/// Adds the age of the oldest message that waits. There is no field if none waits.
pub(crate) fn put_age(shown: &mut Value, field: &str, age_ms: Option<u64>) {
    if let Some(age_ms) = age_ms {
        shown[field] = age_ms.into();
    }
}

/// An address as it is shown: the host, and the port or null.
pub(crate) type Address<'a> = (&'a str, Value);

/// Returns the addresses of the peer and of the broker from the name of a connection.
pub(crate) fn addresses(name: &str) -> (Address<'_>, Address<'_>) {
    let (peer, here) = name.split_once(" -> ").unwrap_or((name, ""));
    match here.starts_with("unix:") {
        // A Unix domain socket has a path and no port, and its clients have no address of their own.
        true => ((here, Value::Null), (here, Value::Null)),
        false => (host_and_port(peer), host_and_port(here)),
    }
}

fn host_and_port(address: &str) -> Address<'_> {
    match address.rsplit_once(':') {
        Some((host, port)) => {
            (host.trim_matches(['[', ']']), port.parse::<u16>().map_or(Value::Null, Value::from))
        }
        None => (address, Value::Null),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_channel_has_that_of_its_connection() {
        let connection = "127.0.0.1:1 -> [::1]:2";
        assert_eq!(split_name(&channel_name(connection, 7)), Some((connection, 7)));
        for name in ["", "c", "c (", "c (x)", "c (70000)", "c(1)"] {
            assert_eq!(split_name(name), None, "{name}");
        }
    }
}
