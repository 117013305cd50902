//! Direct reply-to: a receiving link that acts as its own queue (docs/compatibility.md, Dynamic nodes). Nothing is
//! stored or declared. The name says where the link is, so that every shard finds it without asking.
//!
//! ```text
//!   amq.rabbitmq.reply-to.<node>.<boot>.<outlet>.<key>
//!       node, boot: 8 hexadecimal digits each;   outlet: 16;   key: 16 characters of base64url
//! ```
//!
//! The id of the outlet contains the shard and is never reused while the process lives. The key cannot be guessed:
//! nobody can make up a name that reaches a link. A name of another node or of an earlier start reaches nobody, like that of a
//! link that has ended.

use queue::ConsumerId;

use crate::ids::{NodeId, Origin};
use crate::unguessable::Key;

/// The prefix of all these names.
const REPLY_TO_PREFIX: &str = "amq.rabbitmq.reply-to.";

/// An outlet that takes replies, as its name identifies it. Only its own shard knows whether it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReplyTo {
    pub origin: Origin,
    pub outlet: ConsumerId,
    pub key: Key,
}

impl ReplyTo {
    /// Parses a name. Returns `None` if it is not a name of this kind.
    pub fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(REPLY_TO_PREFIX)?.split('.');
        let mut next = || parts.next();
        let to = Self {
            origin: Origin {
                node: NodeId(u32::try_from(number(next()?, 8)?).ok()?),
                boot: u32::try_from(number(next()?, 8)?).ok()?,
            },
            outlet: ConsumerId(number(next()?, 16)?),
            key: Key::parse(next()?)?,
        };
        next().is_none().then_some(to)
    }

    pub fn name(self) -> String {
        let Self { origin: Origin { node, boot }, outlet, key } = self;
        format!("{REPLY_TO_PREFIX}{:08x}.{boot:08x}.{:016x}.{key}", node.0, outlet.0)
    }
}

/// Parses a number. Each number has only one spelling, so that each outlet has one name.
fn number(text: &str, digits: usize) -> Option<u64> {
    let ours = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
    (text.len() == digits && text.bytes().all(ours)).then(|| u64::from_str_radix(text, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_identifies_the_outlet() {
        let key = Key::parse("GuessesAreFutile").unwrap();
        let origin = Origin { node: NodeId(0xfeed_f00d), boot: 17 };
        let to = ReplyTo { origin, outlet: ConsumerId(0x0300_0000_0100_0007), key };
        assert_eq!(to.name(), "amq.rabbitmq.reply-to.feedf00d.00000011.0300000001000007.GuessesAreFutile");
        assert_eq!(ReplyTo::parse(&to.name()), Some(to));
    }

    #[test]
    fn other_names_are_refused() {
        for name in [
            "",
            "amq.rabbitmq.reply-to",
            "amq.rabbitmq.reply-to.",
            "amq.rabbitmq.reply-to.0300000001000007.000000000000feed",
            "amq.rabbitmq.reply-to.feedf00d.00000011.0300000001000007",
            "amq.rabbitmq.reply-to.feedf00d.00000011.0300000001000007.GuessesAreFutil",
            "amq.rabbitmq.reply-to.feedf00d.00000011.0300000001000007.GuessesAre/utile",
            "amq.rabbitmq.reply-to.FEEDF00D.00000011.0300000001000007.GuessesAreFutile",
            "amq.rabbitmq.reply-to.feedf00d.11.0300000001000007.GuessesAreFutile",
            "amq.rabbitmq.reply-to.feedf00d.00000011.+300000001000007.GuessesAreFutile",
            "amq.rabbitmq.reply-to.feedf00d.00000011.0300000001000007.GuessesAreFutile.1",
            "Amq.rabbitmq.reply-to.feedf00d.00000011.0300000001000007.GuessesAreFutile",
        ] {
            assert_eq!(ReplyTo::parse(name), None, "{name}");
        }
    }
}
