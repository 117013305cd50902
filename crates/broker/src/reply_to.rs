//! Direct reply-to: a receiving link that acts as its own queue (docs/compatibility.md, Dynamic nodes). Nothing is
//! stored or declared. The name says where the link is, so that every shard finds it without asking.
//!
//! ```text
//!   amq.rabbitmq.reply-to.<outlet>.<key>      each 16 hexadecimal digits
//! ```
//!
//! The id of the outlet contains the shard and is never reused while the process lives. The key cannot be guessed:
//! nobody can make up a name that reaches a link.

use queue::ConsumerId;

use crate::ids::{ShardId, shard_of};

/// The prefix of all these names.
pub const REPLY_TO_PREFIX: &str = "amq.rabbitmq.reply-to.";

const DIGITS: usize = 16;

/// An outlet that takes replies, as its name identifies it. Only its own shard knows whether it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReplyTo {
    pub outlet: ConsumerId,
    pub key: u64,
}

impl ReplyTo {
    /// Parses a name. Returns `None` if it is not a name of this kind.
    pub fn parse(name: &str) -> Option<Self> {
        let (outlet, key) = name.strip_prefix(REPLY_TO_PREFIX)?.split_once('.')?;
        Some(Self { outlet: ConsumerId(number(outlet)?), key: number(key)? })
    }

    pub fn name(self) -> String {
        format!("{REPLY_TO_PREFIX}{:016x}.{:016x}", self.outlet.0, self.key)
    }

    /// Returns the shard of the outlet, whether the outlet exists or not.
    pub fn shard(self) -> ShardId {
        shard_of(self.outlet.0)
    }
}

/// Parses a number. Each number has only one spelling, so that each outlet has one name.
fn number(digits: &str) -> Option<u64> {
    let ours = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
    (digits.len() == DIGITS && digits.bytes().all(ours)).then(|| u64::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_identifies_the_outlet() {
        let to = ReplyTo { outlet: ConsumerId(0x0300_0000_0100_0007), key: 0xfeed };
        assert_eq!(to.name(), "amq.rabbitmq.reply-to.0300000001000007.000000000000feed");
        assert_eq!((ReplyTo::parse(&to.name()), to.shard()), (Some(to), 3));
    }

    #[test]
    fn other_names_are_refused() {
        for name in [
            "",
            "amq.rabbitmq.reply-to",
            "amq.rabbitmq.reply-to.",
            "amq.rabbitmq.reply-to.0300000001000007",
            "amq.rabbitmq.reply-to.0300000001000007.feed",
            "amq.rabbitmq.reply-to.0300000001000007.000000000000FEED",
            "amq.rabbitmq.reply-to.+300000001000007.000000000000feed",
            "amq.rabbitmq.reply-to.0300000001000007.000000000000feed.1",
            "Amq.rabbitmq.reply-to.0300000001000007.000000000000feed",
        ] {
            assert_eq!(ReplyTo::parse(name), None, "{name}");
        }
    }
}
