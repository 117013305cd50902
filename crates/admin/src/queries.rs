//! The parameters of queries, for the OpenAPI document. A test sends requests to each route, and compares the parameters that its
//! handler reads with this table.

use serde_json::{Value, json};

use crate::routes::Action;

/// A parameter of a query.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub name: &'static str,
    /// The type in OpenAPI.
    kind: &'static str,
    about: &'static str,
}

impl Parameter {
    const fn new(name: &'static str, kind: &'static str, about: &'static str) -> Self {
        Self { name, kind, about }
    }

    /// Returns the parameter in OpenAPI.
    pub(crate) fn schema(&self) -> Value {
        let Self { name, kind, about } = self;
        json!({ "name": name, "in": "query", "description": about, "schema": { "type": kind } })
    }
}

/// The parameters of every list ([`crate::shape`]). A list also has the columns.
const PAGES: &[Parameter] = &[
    Parameter::new(
        "page",
        "integer",
        "The number of the page, from 1. Without it, the answer is a list of all rows.",
    ),
    Parameter::new("page_size", "integer", "The rows of a page: 1 to 500, 100 if it is missing."),
    Parameter::new(
        "name",
        "string",
        "The page has only rows whose name contains this text. A consumer is found by its tag, queue, channel or user, and a session also by its container and user.",
    ),
    Parameter::new("use_regex", "boolean", "True if name is a regular expression."),
    Parameter::new("type", "string", "The page has only rows of this type, for example quorum."),
    Parameter::new("state", "string", "The page has only rows in this state, for example running."),
    Parameter::new(
        "policy",
        "string",
        "The page has only rows for which this policy or operator policy is in force.",
    ),
    Parameter::new(
        "problem",
        "boolean",
        "True for a page of objects with a problem: damaged, held back, members that do not run, or messages that nobody consumes.",
    ),
    Parameter::new("sort", "string", "The column to sort by."),
    Parameter::new("sort_reverse", "boolean", "True to sort from the last to the first."),
];

const COLUMNS: &[Parameter] = &[Parameter::new(
    "columns",
    "string",
    "The fields to show, separated by commas. a.b is the field b of the field a.",
)];

const DISABLE_STATS: &[Parameter] =
    &[Parameter::new("disable_stats", "boolean", "True to omit everything that is counted.")];

const TOTALS: &[Parameter] = &[Parameter::new(
    "enable_queue_totals",
    "boolean",
    "True to show the numbers of messages although disable_stats is true.",
)];

/// The ranges of samples ([`crate::samples::Ranges`]). Only with both parameters of a range are there samples.
const SAMPLES: &[Parameter] = &[
    Parameter::new(
        "lengths_age",
        "integer",
        "How far the samples of numbers of messages reach back, in seconds.",
    ),
    Parameter::new("lengths_incr", "integer", "The time between these samples, in seconds."),
    Parameter::new(
        "msg_rates_age",
        "integer",
        "How far the samples of counted messages reach back, in seconds.",
    ),
    Parameter::new("msg_rates_incr", "integer", "The time between these samples, in seconds."),
    Parameter::new(
        "data_rates_age",
        "integer",
        "How far the samples of received and sent bytes reach back, in seconds.",
    ),
    Parameter::new("data_rates_incr", "integer", "The time between these samples, in seconds."),
    Parameter::new("node_stats_age", "integer", "How far the samples of a node reach back, in seconds."),
    Parameter::new("node_stats_incr", "integer", "The time between these samples, in seconds."),
];

const OF_QUEUE: &[Parameter] = &[Parameter::new(
    "queue",
    "string",
    "Only the policies that match this queue of the virtual host. The one with the highest priority applies.",
)];

const TRUNCATE: &[Parameter] =
    &[Parameter::new("truncate", "integer", "Only so many bytes of each payload are shown.")];

const BROWSE: &[Parameter] = &[
    Parameter::new(
        "offset",
        "string",
        "Where to start: first, last, next, an offset, or a time span such as 10m.",
    ),
    Parameter::new(
        "at",
        "integer",
        "Instead of offset: the time of the first message, in milliseconds since 1970.",
    ),
];

const COUNT: &[Parameter] =
    &[Parameter::new("count", "integer", "The most messages to show: 1 to 1000, 10 if it is missing.")];

const SEARCH: &[Parameter] = &[
    Parameter::new(
        "from",
        "string",
        "Where to start: the position of a ready message, from 1; in a stream an offset, first, last, or a time span such as \
         10m.",
    ),
    Parameter::new(
        "filter",
        "string",
        "Only messages with this text in their body, or in a line NAME=VALUE of their keys, properties, headers or \
         annotations.",
    ),
    Parameter::new(
        "undecoded",
        "integer",
        "With filter: so many messages more, 0 to 1000, whose body is no text and does not match as it is. Each has undecoded=true: \
         the caller decodes it and looks for the text.",
    ),
    Parameter::new(
        "since",
        "string",
        "Only messages that arrived at this time or later: milliseconds since 1970, or a time span such as 10m.",
    ),
    Parameter::new("until", "string", "Only messages that arrived at this time or earlier, as since."),
];

const IF_UNUSED: &[Parameter] =
    &[Parameter::new("if-unused", "boolean", "True to delete it only if nothing uses it.")];

const IF_EMPTY: &[Parameter] =
    &[Parameter::new("if-empty", "boolean", "True to delete the queue only if it has no messages.")];

const CONNECTION: &[Parameter] = &[Parameter::new(
    "connection",
    "string",
    "The connection of the link. It is needed if several links have this name.",
)];

const IMPORT: &[Parameter] = &[
    Parameter::new(
        "skip_unknown",
        "boolean",
        "True to leave out exchanges of unknown types and unknown keys of policies.",
    ),
    Parameter::new(
        "dry_run",
        "boolean",
        "True to change nothing, and to answer with warnings and with names that the broker must have already.",
    ),
    Parameter::new("report", "boolean", "True to answer with the number of entries and with warnings."),
];

/// All groups of parameters.
const ALL: [&[Parameter]; 14] = [
    PAGES,
    COLUMNS,
    DISABLE_STATS,
    TOTALS,
    SAMPLES,
    OF_QUEUE,
    TRUNCATE,
    BROWSE,
    COUNT,
    SEARCH,
    IF_UNUSED,
    IF_EMPTY,
    CONNECTION,
    IMPORT,
];

/// Returns all parameters. Each name is there once.
pub(crate) fn all() -> impl Iterator<Item = &'static Parameter> {
    ALL.into_iter().flatten()
}

/// Returns the parameters that the handler of an action reads.
pub(crate) fn of(action: Action) -> impl Iterator<Item = &'static Parameter> {
    groups(action).iter().copied().flatten()
}

const fn groups(action: Action) -> &'static [&'static [Parameter]] {
    match action {
        Action::ListQueues => &[PAGES, COLUMNS, DISABLE_STATS, TOTALS, SAMPLES],
        Action::Overview | Action::GetQueue => &[COLUMNS, DISABLE_STATS, TOTALS, SAMPLES],
        Action::ListNodes
        | Action::ListConnections
        | Action::ListConnectionsInVhost
        | Action::ListConnectionsOfUser
        | Action::ListChannels
        | Action::ListChannelsInVhost
        | Action::ListChannelsOfConnection
        | Action::ListSessions
        | Action::ListSessionsInVhost
        | Action::ListSessionsOfConnection
        | Action::ListExchanges
        | Action::ListVhosts => &[PAGES, COLUMNS, DISABLE_STATS, SAMPLES],
        Action::GetNode
        | Action::GetConnection
        | Action::GetChannel
        | Action::GetExchange
        | Action::GetVhost => &[COLUMNS, DISABLE_STATS, SAMPLES],
        Action::ListParameters
        | Action::ListGlobalParameters
        | Action::ListTraces
        | Action::VhostLimits
        | Action::UserLimits
        | Action::ListAuthAttempts
        | Action::ListAuthAttemptsBySource
        | Action::ListUsers
        | Action::ListUsersWithoutPermissions
        | Action::PermissionsOfUser
        | Action::PermissionsInVhost
        | Action::ListPermissions
        | Action::TopicPermissionsOfUser
        | Action::TopicPermissionsInVhost
        | Action::TopicPermissionsOfUserInVhost
        | Action::ListTopicPermissions
        | Action::QueueBindings
        | Action::SourceBindings
        | Action::DestinationBindings
        | Action::ListBindings
        | Action::PairBindings(_)
        | Action::ListConsumers
        | Action::ListConsumersInVhost
        | Action::EmptyList
        | Action::ListFeatureFlags
        | Action::DeprecatedFeatures(_) => &[PAGES, COLUMNS],
        Action::ListPolicies(_) => &[PAGES, COLUMNS, OF_QUEUE],
        Action::Whoami
        | Action::GetTrace
        | Action::GetUser
        | Action::GetPermissions
        | Action::GetTopicPermissions
        | Action::GetParameter
        | Action::GetGlobalParameter
        | Action::GetPolicy(_)
        | Action::GetBinding(_) => &[COLUMNS],
        Action::ExplainLink | Action::ExplainLinkOfVhost => &[CONNECTION],
        Action::BrowseQueue => &[BROWSE, COUNT, TRUNCATE],
        Action::PeekQueue => &[TRUNCATE],
        Action::SearchQueue => &[SEARCH, COUNT, TRUNCATE],
        Action::DeleteQueue => &[IF_UNUSED, IF_EMPTY],
        Action::DeleteExchange => &[IF_UNUSED],
        Action::PostDefinitions | Action::PostDefinitionsOfVhost => &[IMPORT],
        _ => &[],
    }
}
