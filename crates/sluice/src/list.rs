//! `sluice list`: lists the broker's objects as a table or as JSON.

use std::borrow::Cow;
use std::time::SystemTime;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::columns;
use crate::failure::Failure;
use crate::http::Api;
use crate::objects::{self, segment};
use crate::plugins;
use crate::rows::Selection;
use crate::table::{self, Column};
use crate::watch::Watch;

#[derive(Args, Debug)]
pub(crate) struct List {
    #[command(subcommand)]
    what: What,
    /// Print the response of the management API
    #[arg(long, global = true)]
    json: bool,
    /// List only the contents of this virtual host
    #[arg(long, short = 'p', global = true, value_name = "NAME")]
    vhost: Option<String>,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    watch: Watch,
    #[command(flatten)]
    api: Api,
}

/// The columns that `sluice list queues` shows only if a row has something there.
const OPTIONAL: [&str; 5] = ["messages_delayed", "messages_dlx", "first_offset", "next_offset", "segments"];

/// The fields that [`measure`] adds.
const MEASURED: [&str; 3] = ["age_s", "publish_rate", "deliver_rate"];

/// The field that [`name_client`] adds.
const CLIENT_NAME: &str = "client_name";

#[derive(Debug, Subcommand)]
enum What {
    /// Queues and streams
    #[command(alias = "queue")]
    Queues,
    /// Exchanges
    #[command(alias = "exchange")]
    Exchanges,
    /// Bindings
    #[command(alias = "binding")]
    Bindings(Ends),
    /// Connections over both protocols
    #[command(alias = "connection")]
    Connections {
        /// List only the connections of this user
        #[arg(long, value_name = "NAME")]
        user: Option<String>,
    },
    /// Sessions of AMQP 1.0
    #[command(alias = "session")]
    Sessions {
        /// List only the sessions of this connection: the name that `sluice list connections` shows
        connection: Option<String>,
    },
    /// Channels of AMQP 0.9.1
    #[command(alias = "channel")]
    Channels {
        /// List only the channels of this connection
        #[arg(long, value_name = "NAME")]
        connection: Option<String>,
    },
    /// Consumers over both protocols
    #[command(alias = "consumer")]
    Consumers,
    /// Links of AMQP 1.0
    #[command(alias = "link")]
    Links,
    /// Virtual hosts
    #[command(alias = "vhost")]
    Vhosts,
    /// Users and their tags
    #[command(alias = "user")]
    Users {
        /// List only users who have no permissions in any virtual host
        #[arg(long)]
        without_permissions: bool,
    },
    /// What each user may do, by virtual host
    #[command(alias = "permission")]
    Permissions(OfUser),
    /// The routing keys that users may publish with and bind with, by virtual host and exchange
    #[command(alias = "topic-permission")]
    TopicPermissions(OfUser),
    /// Limits of virtual hosts and users
    #[command(alias = "limit")]
    Limits {
        /// List only the limits of this user
        #[arg(long, value_name = "NAME", conflicts_with = "vhost")]
        user: Option<String>,
    },
    /// Policies
    #[command(alias = "policy")]
    Policies {
        /// Operator policies, which limit the other ones
        #[arg(long)]
        operator: bool,
        /// List only those that match this queue; the first of them applies
        #[arg(long, value_name = "NAME")]
        queue: Option<String>,
    },
    /// Parameters of components in virtual hosts
    #[command(alias = "parameter")]
    Parameters {
        /// List only the parameters of this component
        #[arg(long, value_name = "NAME")]
        component: Option<String>,
    },
    /// Parameters of the whole cluster
    #[command(alias = "global-parameter")]
    GlobalParameters,
    /// Members of the Raft group of a quorum queue, and how far their logs have come
    #[command(alias = "member")]
    Members { queue: String },
    /// Traces that run
    #[command(alias = "trace")]
    Traces,
    /// Feature flags of RabbitMQ: all of them are enabled
    FeatureFlags,
    /// Plugins of RabbitMQ whose work the broker does: all of them are built in
    #[command(alias = "plugin")]
    Plugins,
    /// Features that clients should no longer use
    DeprecatedFeatures {
        /// List only those that were used since the start
        #[arg(long)]
        used: bool,
    },
    /// Logins since the start, by protocol
    AuthAttempts {
        /// By source; needs the setting track_auth_attempt_source
        #[arg(long)]
        by_source: bool,
    },
}

/// Whose permissions are listed.
#[derive(Args, Debug)]
struct OfUser {
    /// List only those of this user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
}

/// The ends of the bindings that are listed.
#[derive(Args, Debug)]
struct Ends {
    /// List only the bindings from this exchange
    #[arg(long, value_name = "EXCHANGE")]
    from: Option<String>,
    /// List only the bindings to this queue
    #[arg(long, value_name = "QUEUE")]
    to_queue: Option<String>,
    /// List only the bindings to this exchange
    #[arg(long, value_name = "EXCHANGE", conflicts_with = "to_queue")]
    to_exchange: Option<String>,
}

/// Prints the list.
///
/// # Errors
/// The broker's error.
pub(crate) fn run(list: &List) -> Result<(), Failure> {
    let List { what, vhost, selection, api, .. } = list;
    let words = format!("list {}", what.noun());
    let make = async || {
        let mut rows = Vec::new();
        for path in what.paths(vhost.as_deref(), api, &words).await? {
            rows.extend(table::list(api, &words, &path).await?);
        }
        if what.has_vhosts() {
            rows.retain(|row| vhost.as_ref().is_none_or(|vhost| row["vhost"] == vhost.as_str()));
        }
        if matches!(what, What::Policies { queue: Some(_), .. }) {
            // Of equal priorities, the first by name applies. The rows are in the order of their names.
            rows.sort_by_key(|row| std::cmp::Reverse(row["priority"].as_i64()));
        }
        match what {
            What::Links => rows = rows.iter().flat_map(links).collect(),
            What::Plugins => rows = rows.iter().flat_map(plugins::of_node).collect(),
            What::Queues => rows.iter_mut().for_each(measure),
            What::Connections { .. } => rows.iter_mut().for_each(name_client),
            _ => {}
        }
        let shown = what.shown(&rows, vhost.is_some());
        let columns = selection.apply(&mut rows, what.columns(), shown)?;
        if list.json {
            rows = selection.project(rows, &columns);
            let fields =
                rows.iter_mut().filter(|_| !selection.chooses_columns()).filter_map(Value::as_object_mut);
            let is_added = |name: &str| name == CLIENT_NAME || MEASURED.contains(&name);
            fields.for_each(|fields| fields.retain(|name, _| !is_added(name)));
        }
        Ok(table::list_text(rows, &columns, list.json))
    };
    crate::amqp::block_on(list.watch.print(make))
}

/// Returns the time, in seconds since the epoch.
fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs())
}

/// Adds to a queue what its table shows and the API does not have in this form: the age of its first message in seconds, null if it has none,
/// and the messages that were published to it and delivered from it per second, with one decimal. The rates are null until the broker has the
/// two samples that they need: then the API says so, and its rates are 0.
pub(crate) fn measure(queue: &mut Value) {
    measure_at(queue, now_s());
}

fn measure_at(queue: &mut Value, now_s: u64) {
    let age = queue["head_message_timestamp"].as_u64().map(|at| now_s.saturating_sub(at));
    let stats = &queue["message_stats"];
    let are_known = stats["rates_are_known"] != false;
    let rate = |field: &str| {
        let rate = stats[field]["rate"].as_f64().filter(|_| are_known);
        rate.map(|rate| (rate * 10.0).round() / 10.0)
    };
    let (published, delivered) = (rate("publish_details"), rate("deliver_get_details"));
    for (field, value) in MEASURED.into_iter().zip([age.into(), published.into(), delivered.into()]) {
        queue[field] = value;
    }
}

/// Adds to a connection the name that its client has given: the container of AMQP 1.0, or `connection_name` of AMQP 0.9.1. A client without
/// one has the name of its product.
pub(crate) fn name_client(connection: &mut Value) {
    let properties = &connection["client_properties"];
    let names = [&connection["container_id"], &properties["connection_name"], &properties["product"]];
    let name = names.into_iter().find(|name| name.is_string()).cloned();
    connection[CLIENT_NAME] = name.unwrap_or_default();
}

impl Ends {
    /// Returns the path of the bindings with these ends. Without a virtual host, the names are of the default one.
    fn path(&self, vhost: Option<&str>) -> String {
        let default = vhost.unwrap_or("/");
        let pair = |from: &str, kind: char, to: &str| {
            format!("/api/bindings/{}/e/{}/{kind}/{}", segment(default), segment(from), segment(to))
        };
        match (&self.from, &self.to_queue, &self.to_exchange) {
            (Some(from), Some(to), _) => pair(from, 'q', to),
            (Some(from), None, Some(to)) => pair(from, 'e', to),
            (Some(from), None, None) => format!("{}/bindings/source", objects::exchange(default, from).path),
            (None, Some(to), _) => format!("{}/bindings", objects::queue(default, to).path),
            (None, None, Some(to)) => format!("{}/bindings/destination", objects::exchange(default, to).path),
            (None, None, None) => in_vhost("bindings", vhost),
        }
    }
}

impl OfUser {
    /// Returns the path of permissions: those of the user, or those of all virtual hosts or of one.
    fn path(&self, list: &str, vhost: Option<&str>) -> String {
        match &self.user {
            Some(user) => format!("/api/users/{}/{list}", segment(user)),
            None => of_vhosts(list, vhost),
        }
    }
}

/// Returns the path of a list: in all virtual hosts, or in one.
fn in_vhost(list: &str, vhost: Option<&str>) -> String {
    match vhost {
        Some(vhost) => format!("/api/{list}/{}", segment(vhost)),
        None => format!("/api/{list}"),
    }
}

/// Returns the path of a list that is part of each virtual host: of all of them, or of one.
fn of_vhosts(list: &str, vhost: Option<&str>) -> String {
    match vhost {
        Some(vhost) => format!("/api/vhosts/{}/{list}", segment(vhost)),
        None => format!("/api/{list}"),
    }
}

impl What {
    /// Returns the word for the objects of this list.
    fn noun(&self) -> Cow<'static, str> {
        let noun = match self {
            Self::Queues => "queues",
            Self::Exchanges => "exchanges",
            Self::Bindings(_) => "bindings",
            Self::Connections { .. } => "connections",
            Self::Sessions { .. } => "sessions",
            Self::Channels { .. } => "channels",
            Self::Consumers => "consumers",
            Self::Links => "links",
            Self::Vhosts => "vhosts",
            Self::Users { .. } => "users",
            Self::Permissions(_) => "permissions",
            Self::TopicPermissions(_) => "topic permissions",
            Self::Limits { .. } => "limits",
            Self::Policies { operator: false, .. } => "policies",
            Self::Policies { operator: true, .. } => "operator policies",
            Self::Parameters { .. } => "parameters",
            Self::GlobalParameters => "global parameters",
            Self::Members { queue } => return format!("members of queue '{queue}'").into(),
            Self::Traces => "traces",
            Self::FeatureFlags => "feature flags",
            Self::Plugins => "plugins",
            Self::DeprecatedFeatures { .. } => "deprecated features",
            Self::AuthAttempts { .. } => "logins",
        };
        noun.into()
    }

    /// Returns the paths of the list, whose rows are joined. Some paths contain the name of the node, which is asked for.
    async fn paths(&self, vhost: Option<&str>, api: &Api, words: &str) -> Result<Vec<String>, Failure> {
        Ok(vec![match self {
            Self::Queues => in_vhost("queues", vhost),
            Self::Exchanges => in_vhost("exchanges", vhost),
            Self::Bindings(ends) => ends.path(vhost),
            Self::Connections { user: Some(user) } => format!("/api/connections/username/{}", segment(user)),
            Self::Connections { user: None } | Self::Links => of_vhosts("connections", vhost),
            Self::Sessions { connection: Some(name) } => {
                format!("/api/connections/{}/sessions", segment(name))
            }
            Self::Sessions { connection: None } => of_vhosts("sessions", vhost),
            Self::Channels { connection: Some(name) } => {
                format!("/api/connections/{}/channels", segment(name))
            }
            Self::Channels { connection: None } => of_vhosts("channels", vhost),
            Self::Consumers => in_vhost("consumers", vhost),
            Self::Vhosts => "/api/vhosts".to_owned(),
            Self::Users { without_permissions: false } => "/api/users".to_owned(),
            Self::Users { without_permissions: true } => "/api/users/without-permissions".to_owned(),
            Self::Permissions(of) => of.path("permissions", vhost),
            Self::TopicPermissions(of) => of.path("topic-permissions", vhost),
            Self::Limits { user: Some(user) } => format!("/api/user-limits/{}", segment(user)),
            Self::Limits { user: None } => match vhost {
                Some(vhost) => format!("/api/vhost-limits/{}", segment(vhost)),
                None => return Ok(vec!["/api/vhost-limits".to_owned(), "/api/user-limits".to_owned()]),
            },
            Self::Policies { operator, queue } => {
                let list = if *operator { "operator-policies" } else { "policies" };
                match queue {
                    Some(queue) => {
                        format!("{}?queue={}", in_vhost(list, vhost.or(Some("/"))), segment(queue))
                    }
                    None => in_vhost(list, vhost),
                }
            }
            // No route lists the parameters of all components in one virtual host.
            Self::Parameters { component: None } => "/api/parameters".to_owned(),
            Self::Parameters { component: Some(component) } => {
                in_vhost(&format!("parameters/{}", segment(component)), vhost)
            }
            Self::GlobalParameters => "/api/global-parameters".to_owned(),
            Self::Members { queue } => {
                format!("/api/queues/quorum/{}/{}/status", segment(vhost.unwrap_or("/")), segment(queue))
            }
            Self::Traces => in_vhost("traces", vhost),
            Self::FeatureFlags => "/api/feature-flags".to_owned(),
            Self::Plugins => "/api/nodes".to_owned(),
            Self::DeprecatedFeatures { used: true } => "/api/deprecated-features/used".to_owned(),
            Self::DeprecatedFeatures { used: false } => "/api/deprecated-features".to_owned(),
            Self::AuthAttempts { by_source } => {
                let by_source = if *by_source { "/source" } else { "" };
                format!("/api/auth/attempts/{}{by_source}", segment(&api.node(words).await?))
            }
        }])
    }

    /// Returns true if each row of the list names its virtual host.
    fn has_vhosts(&self) -> bool {
        matches!(
            self,
            Self::Connections { .. }
                | Self::Channels { .. }
                | Self::Links
                | Self::Permissions(_)
                | Self::TopicPermissions(_)
                | Self::Parameters { .. }
        )
    }

    /// Returns the columns that are shown for these rows. The virtual host is shown if a row has another one than the default. Of a list
    /// for one virtual host it is not shown.
    fn shown(&self, rows: &[Value], of_one_vhost: bool) -> Vec<Column> {
        let names_vhost = matches!(
            self,
            Self::Queues | Self::Exchanges | Self::Bindings(_) | Self::Consumers | Self::Links
        );
        let any = |field: &str, is_something: fn(&Value) -> bool| {
            rows.iter().any(|row| is_something(table::field_of(row, field)))
        };
        let is_shown = |field: &str| match field {
            "vhost" | "/queue/vhost" if names_vhost => {
                !of_one_vhost && any(field, |vhost| vhost.as_str().is_some_and(|vhost| vhost != "/"))
            }
            // The first offset of a stream may be 0.
            field if field.starts_with("messages_") && OPTIONAL.contains(&field) => {
                any(field, |count| !count.is_null() && *count != 0)
            }
            field if OPTIONAL.contains(&field) => any(field, |value| !value.is_null()),
            _ => true,
        };
        self.columns().iter().copied().filter(|(_, field)| is_shown(field)).collect()
    }

    fn columns(&self) -> &'static [Column] {
        match self {
            Self::Queues => columns::QUEUES,
            Self::Exchanges => columns::EXCHANGES,
            Self::Bindings(_) => columns::BINDINGS,
            Self::Connections { .. } => columns::CONNECTIONS,
            Self::Sessions { connection: None } => columns::SESSIONS,
            Self::Sessions { connection: Some(_) } => columns::SESSIONS_OF_CONNECTION,
            Self::Channels { .. } => columns::CHANNELS,
            Self::Consumers => columns::CONSUMERS,
            Self::Links => columns::LINKS,
            Self::Vhosts => columns::VHOSTS,
            Self::Users { .. } => columns::USERS,
            Self::Permissions(_) => columns::PERMISSIONS,
            Self::TopicPermissions(_) => columns::TOPIC_PERMISSIONS,
            Self::Limits { .. } => columns::LIMITS,
            Self::Parameters { .. } => columns::PARAMETERS,
            Self::GlobalParameters => columns::GLOBAL_PARAMETERS,
            Self::Members { .. } => columns::MEMBERS,
            Self::Policies { .. } => columns::POLICIES,
            Self::Traces => columns::TRACES,
            Self::FeatureFlags => columns::FEATURE_FLAGS,
            Self::Plugins => columns::PLUGINS,
            Self::DeprecatedFeatures { .. } => columns::DEPRECATED_FEATURES,
            Self::AuthAttempts { by_source: true } => columns::AUTH_ATTEMPTS_BY_SOURCE,
            Self::AuthAttempts { by_source: false } => columns::AUTH_ATTEMPTS,
        }
    }
}

/// Returns a row for each link of a connection. `unsettled` counts the messages that one side has sent and
/// the other has not settled, and `age_ms` is the age of the oldest of them. `direction` is as the broker sees it.
pub(crate) fn links(connection: &Value) -> Vec<Value> {
    let sessions = connection["sessions"].as_array().into_iter().flatten();
    let links = sessions.flat_map(|session| {
        let of = |field: &str, direction: &'static str, names: [&'static str; 3]| {
            let [address, unsettled, age_ms] = names;
            let links = session[field].as_array().into_iter().flatten();
            let row = move |link: &Value| {
                json!({
                    "link_name": link["link_name"],
                    "connection": connection["name"],
                    "vhost": connection["vhost"],
                    "session": session["channel_number"],
                    "handle": link["handle"],
                    "direction": direction,
                    "address": link[address],
                    "credit": link["credit"],
                    "unsettled": link[unsettled],
                    "age_ms": link[age_ms],
                    "delivery_count": link["delivery_count"],
                })
            };
            links.map(row).collect::<Vec<_>>()
        };
        let incoming = ["target_address", "unconfirmed_messages", "unconfirmed_age_ms"];
        let outgoing = ["source_address", "unsettled_deliveries", "unacknowledged_age_ms"];
        let (incoming, outgoing) =
            (of("incoming_links", "in", incoming), of("outgoing_links", "out", outgoing));
        [incoming, outgoing].concat()
    });
    links.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_a_table() {
        let member = json!({
            "Node Name": "n@h", "Raft State": "leader", "Membership": "voter", "Last Log Index": 12, "Last Written": 12,
            "Last Applied": 11, "Commit Index": 11, "Snapshot Index": 1, "Term": 2, "Log Entries": 11, "Log Bytes": 1024,
        });
        let expected = "\
NODE  STATE   TERM  LAST  WRITTEN  COMMITTED  APPLIED  BASE  ENTRIES  BYTES
n@h   leader     2    12       12         11       11     1       11   1024
";
        let members = What::Members { queue: "q".to_owned() };
        assert_eq!(table::list_text(vec![member], members.columns(), false), expected);
    }

    /// Two backends may know different users by one name.
    #[test]
    fn namesakes_among_connections_are_told_apart() {
        let connection = |name: &str, backend: &str| {
            json!({
                "name": name, "user": "anna", "auth_backend": backend, "vhost": "/", "protocol": "AMQP 1-0",
                "container_id": "c", "channels": 1, "recv_oct": 2, "send_oct": 3,
            })
        };
        let mut rows = vec![connection("a", "internal"), connection("b", "oauth2")];
        rows.iter_mut().for_each(name_client);
        let expected = "\
NAME  USER  BACKEND   VHOST  PROTOCOL  CLIENT  CHANNELS  RECEIVED  SENT
a     anna  internal  /      AMQP 1-0  c              1         2     3
b     anna  oauth2    /      AMQP 1-0  c              1         2     3
";
        let connections = What::Connections { user: None };
        assert_eq!(table::list_text(rows, connections.columns(), false), expected);
    }

    #[test]
    fn connections_of_both_protocols_have_the_name_of_their_client() {
        let mut rows = vec![
            json!({"name": "a", "container_id": "shop", "client_properties": {"product": "p"}}),
            json!({"name": "b", "client_properties": {"product": "pika", "connection_name": "billing"}}),
            json!({"name": "c", "client_properties": {"product": "pika"}}),
            json!({"name": "d", "client_properties": {}}),
        ];
        rows.iter_mut().for_each(name_client);
        let connections = What::Connections { user: None };
        let columns = [connections.columns()[0], connections.columns()[5]];
        let expected = "NAME  CLIENT\na     shop\nb     billing\nc     pika\nd     -\n";
        assert_eq!(table::list_text(rows, &columns, false), expected);
    }

    #[test]
    fn queues_have_their_age_and_their_rates() {
        let mut queue = json!({
            "head_message_timestamp": 1000,
            "message_stats": {"publish_details": {"rate": 1.26}, "deliver_get_details": {"rate": 0.0}},
        });
        measure_at(&mut queue, 1061);
        assert_eq!(MEASURED.map(|field| queue[field].clone()), [json!(61), json!(1.3), json!(0.0)]);
        // A rate needs two samples.
        queue["message_stats"]["rates_are_known"] = false.into();
        measure_at(&mut queue, 1061);
        assert_eq!(MEASURED.map(|field| queue[field].clone()), [json!(61), Value::Null, Value::Null]);
        let mut empty = json!({"head_message_timestamp": null});
        measure_at(&mut empty, 1061);
        assert_eq!(MEASURED.map(|field| empty[field].clone()), [Value::Null, Value::Null, Value::Null]);
    }

    #[test]
    fn columns_without_contents_are_not_shown() {
        let shown = |rows: &[Value], of_one_vhost| {
            let shown = What::Queues.shown(rows, of_one_vhost);
            let shown: Vec<&str> = shown.into_iter().map(|(heading, _)| heading).collect();
            ["VHOST", "DELAYED", "SEGMENTS", "MESSAGES"].map(|heading| shown.contains(&heading))
        };
        let stream = json!({"vhost": "/", "first_offset": 0});
        assert!(What::Queues.shown(&[stream], false).contains(&("FIRST", "first_offset")));
        let mut rows = vec![json!({"vhost": "/", "messages": 0, "messages_delayed": 0, "segments": null})];
        assert_eq!(shown(&rows, false), [false, false, false, true]);
        rows.push(json!({"vhost": "team", "messages_delayed": 1, "segments": 2}));
        assert_eq!(shown(&rows, false), [true; 4]);
        assert_eq!(shown(&rows, true), [false, true, true, true]);
        assert_eq!(shown(&rows[1..], false), [true; 4], "one virtual host that is not the default");
    }

    #[test]
    fn limits_of_virtual_hosts_and_users_are_one_table() {
        let rows = vec![
            json!({ "vhost": "team", "value": { "max-queues": 100 } }),
            json!({ "user": "anna", "value": { "max-channels": 7 } }),
        ];
        let expected = "\
VHOST  USER  LIMITS
team   -     max-queues=100
-      anna  max-channels=7
";
        assert_eq!(table::list_text(rows, What::Limits { user: None }.columns(), false), expected);
    }
}
