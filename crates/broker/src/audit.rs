//! Audit lines of the log: who did what, from where, and whether it was allowed. Everything that writes such a line calls
//! [`Actor`], so that all lines have the same fields (docs/operations/watch.md, Who did what).
//!
//! No field has a secret. A name that a client sends is cut, and `tracing` quotes it. The log escapes control characters where it writes
//! the line.

use catalog::access::{Identity, Protocol};
use catalog::categories::{PEER, USER, USER_CHANGE};
use catalog::names::{NAME_CHARS_MAX, cut, cut_to};

/// The maximum number of characters of a reason, which may repeat several names.
const REASON_CHARS_MAX: usize = 4 * NAME_CHARS_MAX;

/// Who does something.
#[derive(Clone, Copy, Debug)]
pub struct Actor<'a> {
    /// The user. For a login that is refused, the name that the client sent.
    pub user: &'a str,
    /// The address of the client.
    pub peer: &'a str,
    pub protocol: Protocol,
    /// The mechanism of the login: that of SASL, or the scheme of HTTP authentication.
    pub mechanism: &'a str,
}

/// How many lines about changes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// All of them.
    Every,
    /// Very many of each user in a period. The others are counted.
    PerUser,
    /// The first ones of all users in a period. The others are counted.
    Limited,
}

impl Rate {
    /// Returns the rate for the changes of a user. Every change of an administrator is written. Other users could fill the disk, or
    /// push the other lines out of files that are rotated. Over AMQP, applications delete queues and exchanges as often as they like.
    /// Over HTTP, people and their scripts make changes, and each request logs in, so only a flood of them is cut off.
    pub fn of(who: &Identity, protocol: Protocol) -> Self {
        match protocol {
            _ if who.has_tag("administrator") => Self::Every,
            Protocol::Http => Self::PerUser,
            Protocol::Amqp10 | Protocol::Amqp091 => Self::Limited,
        }
    }
}

/// Writes one line. A place in the code is limited apart from others, so each kind of line has its own.
macro_rules! line {
    ($level:ident, $name:expr, $actor:expr, $what:expr, $on:expr, $result:literal, $reason:expr) => {
        tracing::$level!(
            name: $name,
            target: USER,
            what = $what,
            result = $result,
            user = cut($actor.user),
            peer = $actor.peer,
            protocol = $actor.protocol.as_str(),
            mechanism = cut($actor.mechanism),
            on = $on,
            reason = $reason,
        )
    };
}

impl Actor<'_> {
    /// Writes that a client has logged in. Over HTTP each request logs in, so such lines are for debugging.
    pub fn logged_in(self) {
        let (what, on, reason) = ("login", None::<&str>, None::<&str>);
        match self.protocol {
            Protocol::Amqp10 | Protocol::Amqp091 => line!(info, PEER, self, what, on, "allowed", reason),
            Protocol::Http => line!(debug, PEER, self, what, on, "allowed", reason),
        }
    }

    /// Writes that a login is refused.
    pub fn login_refused(self, reason: &str) {
        line!(warn, PEER, self, "login", None::<&str>, "refused", Some(cut_to(reason, REASON_CHARS_MAX)));
    }

    /// Writes that something was changed.
    pub fn changed(self, what: &str, on: &str, rate: Rate) {
        let reason = None::<&str>;
        match rate {
            Rate::Every => line!(info, "change", self, what, Some(on), "allowed", reason),
            Rate::PerUser => line!(info, USER_CHANGE, self, what, Some(on), "allowed", reason),
            Rate::Limited => line!(info, PEER, self, what, Some(on), "allowed", reason),
        }
    }

    /// Writes that a client left before the answer, so that nobody knows here whether something was changed.
    pub fn left(self, what: &str, on: &str, rate: Rate) {
        let reason = Some("the client left before the answer");
        match rate {
            Rate::Every => line!(info, "change", self, what, Some(on), "unknown", reason),
            Rate::PerUser => line!(info, USER_CHANGE, self, what, Some(on), "unknown", reason),
            Rate::Limited => line!(info, PEER, self, what, Some(on), "unknown", reason),
        }
    }

    /// Writes that a change was permitted but not carried out.
    pub fn failed(self, what: &str, on: &str, reason: &str) {
        line!(info, PEER, self, what, Some(on), "failed", Some(cut_to(reason, REASON_CHARS_MAX)));
    }

    /// Writes that the user may not do this.
    pub fn refused(self, what: &str, on: &str, reason: &str) {
        line!(warn, PEER, self, what, Some(on), "refused", Some(cut_to(reason, REASON_CHARS_MAX)));
    }
}
