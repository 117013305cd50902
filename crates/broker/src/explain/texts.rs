//! What each cause means and what to do about it: the one table for the HTTP API, the command and the web page.
//! `docs/why.md` shows each with a picture.

use super::Cause;

/// What a cause means, what to do about it step by step, and the names of the numbers that show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    pub meaning: &'static str,
    /// Empty if there is nothing to do.
    pub advice: &'static [&'static str],
    pub(super) numbers: &'static [&'static str],
}

/// The text for a queue that only delays its messages.
pub(super) const DELAYS: Text = Text {
    meaning: "Nobody consumes from the queue. It has a dead-letter exchange, so its messages wait until they expire and go there.",
    advice: &["Nothing, if the queue is to delay messages. Otherwise start a consumer."],
    numbers: &["queue_ready", "queue_consumers"],
};

/// The text for a consumer that has used up the credit that it granted.
pub(super) const CREDIT_USED_UP: Text = Text {
    meaning: "Credit is the number of messages that a client asks for. This client has got all that it asked for, and has not asked \
              again.",
    advice: &[
        "If it acknowledges messages, it is only slow: start more clients, or let it ask for more at once.",
        "If it acknowledges none, look at what it does with those that it holds: it may hang.",
    ],
    numbers: &["link_unsettled", "link_acknowledged_a_second", "link_credit", "queue_ready"],
};

/// The text for a queue that has refused messages within the last minute.
pub(super) const REJECTS: Text = Text {
    meaning: "The queue has as many messages as it may (max-length), and it is set to refuse more. Publishers without confirms do not \
              notice.",
    advice: &["Add consumers, so that it empties, or raise max-length."],
    numbers: &["queue_rejected_a_minute", "queue_rejected", "queue_ready", "queue_consumers"],
};

/// The text for an empty queue whose limits have removed or refused messages.
pub(super) const EMPTIED: Text = Text {
    meaning: "There is nothing to deliver. Limits have removed or refused messages: these waited for longer than they may (message-ttl), \
              or there were more than the queue may have (max-length).",
    advice: &[
        "If none may be lost, add consumers, raise the limit, or give the queue a dead-letter exchange, which gets what is removed.",
        "If other messages are expected, look at the publishers. The routing try-out of the web page shows which queues a message \
         would reach.",
    ],
    numbers: &["queue_expired", "queue_over_length", "queue_rejected", "queue_ready", "queue_consumers"],
};

/// The text for an empty queue that nobody consumes from.
pub(super) const UNUSED: Text = Text {
    meaning: "There is nothing to deliver. No consumer is attached that would get a message.",
    advice: &[
        "If messages are expected, look at the publishers. The routing try-out of the web page shows which queues a message \
         would reach.",
    ],
    numbers: &["queue_ready", "queue_consumers"],
};

/// What a client does about a message that it cannot handle.
pub(super) const GIVE_UP: &str =
    "Let the client reject what it cannot handle without requeue: to dead-letter or drop it.";

/// What ends a loop of returns.
pub(super) const LIMIT: &str = "x-delivery-limit of a quorum queue counts basic.reject and modified with delivery-failed, not basic.nack and released.";

const fn text(
    meaning: &'static str,
    advice: &'static [&'static str],
    numbers: &'static [&'static str],
) -> Text {
    Text { meaning, advice, numbers }
}

impl Cause {
    /// Returns the text for this cause.
    pub const fn text(self) -> Text {
        match self {
            Self::LogFailed => text(
                "The broker cannot write to its disk. It refuses messages until it can, so that none is lost.",
                &[
                    "Look in the broker's log for the file and the reason.",
                    "Often the disk is full: free some space. The broker then goes on by itself.",
                ],
                &["link_unconfirmed", "log_receipts_held", "queue_ready"],
            ),
            Self::QueueDamaged => text(
                "Messages of this queue are damaged on the disk. The queue is closed: it delivers nothing and accepts nothing.",
                &[
                    "The broker's log names the file. The operations manual says how to continue, under \"When the log is damaged\".",
                ],
                &["queue_ready", "queue_consumers"],
            ),
            Self::SocketNotRead => text(
                "The broker has sent data, and the client does not read it.",
                &[
                    "Look at the client: it may hang, be overloaded, or have lost its network.",
                    "If it will not come back, close its connection.",
                ],
                &["connection_unwritten_bytes", "session_pending", "link_unsettled"],
            ),
            Self::Alarm => text(
                "Memory or disk space is short, or the broker is stopping. Nobody can publish until this ends. Consumers still get \
                 messages.",
                &[
                    "`sluice status` and the head of the web page name the alarm.",
                    "Let consumers empty the queues, or give the broker more memory or disk space.",
                    "`sluice set limit memory 0.8` and `sluice set limit disk 50MB` change the limits until the broker stops.",
                ],
                &[],
            ),
            Self::AttachUnanswered => text(
                "The client has asked for this link, and the broker has not answered yet: it waits for the queue, or until the queue \
                 is made.",
                &["This usually takes milliseconds. If it stays so, the disk is slow: look at the disk."],
                &["link_credit"],
            ),
            Self::WaitingForMemory => text(
                "Too many messages wait in memory, and the disk does not take them as fast as they come. So publishers wait for their \
                 confirms.",
                &["Add consumers, publish less, or use a faster disk. More memory only delays it."],
                &["link_unconfirmed", "memory_receipts_held", "queue_ready"],
            ),
            Self::WaitingForLog => text(
                "The broker confirms a message when its log has written the message. The log is not that far yet.",
                &[
                    "Look at the disk of the broker: it is slow. Queues with x-fsync wait longest, because they wait for the disk to \
                     sync.",
                ],
                &["link_unconfirmed", "log_receipts_held"],
            ),
            Self::WaitingForCommit => text(
                "A quorum queue delivers and confirms a message when the log has synced it to the disk. The log is not that far yet.",
                &["Look at the disk of the broker: it is slow to sync."],
                &["link_unconfirmed", "queue_staged", "log_groups_held"],
            ),
            Self::WaitingForReceipts => text(
                "A queue has messages of this client and has not confirmed them yet. It waits neither for memory nor for the log.",
                &[
                    "The broker may be overloaded: look at the CPU.",
                    "A stream with x-fsync waits for the disk to sync: look at the disk.",
                ],
                &["link_unconfirmed"],
            ),
            Self::HeldBack => text(
                "A publisher on the connection sends more than its queues take. Until they catch up, the broker reads nothing from the \
                 connection, not even acknowledgements.",
                &[
                    "Ask about the connection: the answer names the channel.",
                    "Let the client publish and consume on different connections.",
                ],
                &["link_unconfirmed", "link_credit", "log_receipts_held"],
            ),
            Self::ClientWindowClosed => text(
                "The client says how many transfers its session accepts: its window. The window is used up, so deliveries wait in the \
                 broker.",
                &[
                    "Look at what the client does with the deliveries that it has. A larger window helps a client that is only slow.",
                ],
                &["session_pending", "session_remote_incoming_window"],
            ),
            Self::MessageTooLarge => text(
                "The client has said how large a message may be (max-message-size), or a frame with its headers (frame_max). The next \
                 message is larger, and those behind it do not overtake it.",
                &[
                    "Let the client accept larger messages, start one that does, or take this message out of the queue.",
                ],
                &[
                    "queue_next_header_bytes",
                    "link_frame_max_bytes",
                    "queue_next_bytes",
                    "link_message_max_bytes",
                    "queue_ready",
                ],
            ),
            Self::ConsumerTimedOut => text(
                "The client held messages for longer than the consumer timeout. They went back to the queue, and this client gets no \
                 more until it has settled them.",
                &[
                    "Look at the client: it may hang. If its work takes that long, raise the consumer timeout.",
                ],
                &["link_revoked", "link_unsettled", "queue_ready"],
            ),
            Self::GivingWay => text(
                "The queue has a single active consumer, and a better one takes over when this one has acknowledged what it holds. Until \
                 then nobody gets more.",
                &["Let the client acknowledge it. If it does not, it may hang: look at what it does."],
                &["link_unsettled", "queue_ready", "queue_consumers"],
            ),
            Self::RequeueLoop => text(
                "The client gives messages back with requeue, and the queue delivers them again at once.",
                &[GIVE_UP, LIMIT],
                &["link_returned_a_second", "queue_looped_a_minute", "queue_unsettled"],
            ),
            Self::UnsettledLimit => text(
                "The client holds as many messages as it may: its prefetch (basic.qos) or that of its channel in AMQP 0.9.1, the limit of the \
                 link in AMQP 1.0. It gets more when it acknowledges some.",
                &[
                    "If it acknowledges messages, it is only slow: start more clients.",
                    "If it acknowledges none, find out why: it may hang, or never do it.",
                ],
                &["link_unsettled", "link_unsettled_max", "link_acknowledged_a_second", "queue_ready"],
            ),
            Self::NoCredit => text(
                "Credit is the number of messages that a client asks for. This client has asked for none, so it gets none.",
                &["Look at the client: it may have paused, it may never ask, or its prefetch is 0."],
                &["link_credit", "link_unsettled", "queue_ready"],
            ),
            Self::ReadingBacklog => text(
                "The next message is on the disk, and the broker is reading it.",
                &[
                    "Nothing: this takes milliseconds. If it stays so, the disk is slow or fails. Then the broker's log reports it.",
                ],
                &["queue_ready", "link_credit"],
            ),
            Self::InactiveConsumer => text(
                "The queue has a single active consumer: one consumer gets all messages, and the others wait for their turn. This one \
                 waits.",
                &[
                    "Nothing while the active one works. The page of the queue shows which one is active: ask about that one.",
                ],
                &["queue_ready", "queue_unsettled", "queue_consumers"],
            ),
            Self::QueueFull => text(
                "The queue has as many messages as it may (max-length), and it is set to refuse more.",
                &["Add consumers, so that it empties, or raise max-length."],
                &["queue_ready", "queue_consumers"],
            ),
            Self::NoConsumer => text(
                "Messages wait in the queue, and no client takes them.",
                &[
                    "Start a consumer. If it runs already, look whether it is connected, and whether it names this queue and this \
                     virtual host.",
                ],
                &["queue_ready", "queue_consumers", "queue_expired", "queue_over_length"],
            ),
            Self::AllUnsettled => text(
                "All messages of the queue are with consumers, which have not acknowledged them. They stay in the queue until then.",
                &[
                    "The list of consumers shows who holds how many. Wait for that client, or repair it. If its connection ends, others \
                     get the messages.",
                ],
                &["queue_unsettled", "queue_consumers", "queue_ready"],
            ),
            Self::AllDelayed => text(
                "All messages of the queue have failed, and each waits a while before it is tried again.",
                &[
                    "Nothing, unless the wait is longer than intended: look at x-delayed-retry-min and x-delayed-retry-max of the queue.",
                ],
                &["queue_delayed", "queue_ready"],
            ),
            Self::DeadLettersLeaving => text(
                "All messages of the queue are dead letters, and the queue that should get them has not taken them yet.",
                &["Ask about the queue that gets the dead letters: it may be full, slow or missing."],
                &["queue_leaving", "queue_ready"],
            ),
            Self::DeliveryIncomplete => text(
                "The client has sent the beginning of a message, and the rest has not arrived.",
                &["Look at the client and its network: it may hang, or be slow."],
                &["session_incomplete_bytes"],
            ),
            Self::OverDeliveryLimit => text(
                "The queue is empty: its last message failed more often than the delivery limit allows, so it was dead-lettered or \
                 dropped.",
                &[
                    "Look at the dead letters, and at why the consumer fails. Without a dead-letter exchange such messages are dropped.",
                ],
                &["queue_over_limit", "queue_ready"],
            ),
            Self::QueueEmpty => text(
                "There is nothing to deliver. Consumers wait for messages.",
                &[
                    "If messages are expected, look at the publishers. The routing try-out of the web page shows which queues a message \
                     would reach.",
                ],
                &["queue_ready", "queue_consumers"],
            ),
            Self::EndOfStream => text(
                "The consumer has every message of the stream that it has asked for.",
                &[
                    "If more are expected, look at the publishers, at the offset from which the client reads, and at its filter.",
                ],
                &["queue_ready", "link_credit"],
            ),
            Self::NoReader => text(
                "Nobody reads the stream. Its messages stay until its limits remove them.",
                &["Nothing, unless a client should be reading it."],
                &["queue_ready", "queue_consumers"],
            ),
            Self::ClientSilent => text(
                "The broker waits for this client: it may send messages, and sends none.",
                &["Nothing, unless messages of it are expected. Then look at the client."],
                &["link_credit", "link_unconfirmed"],
            ),
            Self::NoLinks => text(
                "The client is connected, and has opened nothing to publish or to consume with.",
                &[
                    "Look at the client: it may be idle, or the broker may have refused its link. Then the broker's log has the reason.",
                ],
                &["links"],
            ),
            Self::ShardAtLimit => text(
                "Their shard has no time left. One core does all the work of this queue and of those that share its shard. The other \
                 cores cannot help it.",
                &[
                    "If the queue shares its shard, set more shards (shards = N) and restart the broker.",
                    "If it fills the shard alone, use several queues, or a stream with several consumers. Fewer, larger messages help.",
                    "If other programs take the CPU, the broker needs more of it.",
                ],
                &["shard", "shard_busy_percent", "shard_queues", "node_shards"],
            ),
            Self::Moving => text(
                "Messages moved while the broker looked, or nothing stops the next one.",
                &["Nothing. If no message arrives and this answer stays, report it with the numbers."],
                &["queue_ready", "queue_unsettled", "queue_consumers"],
            ),
        }
    }
}
