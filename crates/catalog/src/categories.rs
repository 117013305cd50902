//! Categories of the log, which are the `tracing` targets of its lines. Their names are RabbitMQ's, and `log.NAME.level` sets
//! the level of each. Other lines have the part of the program that writes them as their target.

/// Connections, from the socket to the login.
pub const CONNECTION: &str = "connection";

/// What happens on channels of AMQP 0.9.1, and on sessions and links of AMQP 1.0.
pub const CHANNEL: &str = "channel";

/// Queues and streams.
pub const QUEUE: &str = "queue";

/// The Raft groups of quorum queues.
pub const RA: &str = "ra";

/// Who did what; see [`crate::audit`].
pub const USER: &str = "user";

/// All categories.
pub const ALL: [&str; 5] = [CONNECTION, CHANNEL, QUEUE, RA, USER];

/// The name of an event that a peer can cause at any rate. The program limits the rate of such lines.
pub const PEER: &str = "peer";

/// The name of an event about a change that a user has made. It has the field `user`. The program limits the rate of such lines for each
/// user apart, and permits far more of them.
pub const USER_CHANGE: &str = "user change";
