//! What the list of troubles says about each of them. `docs/operations/slow.md` has the same rows.

use super::texts::{GIVE_UP, LIMIT};
use super::trouble::Trouble;

impl Trouble {
    /// Returns the word for this trouble, for programs. Its meaning never changes.
    pub const fn word(self) -> &'static str {
        match self {
            Self::ClusterMinority => "cluster_minority",
            Self::NodeMissing => "node_missing",
            Self::LinkOneWay => "link_one_way",
            Self::ClocksApart => "clocks_apart",
            Self::LogFailed => "log_failed",
            Self::QueueDamaged => "queue_damaged",
            Self::GroupWithoutLeader => "group_without_leader",
            Self::Alarm => "alarm",
            Self::QueueRejects => "queue_rejects",
            Self::CertificateEnded => "certificate_ended",
            Self::QueueWithoutConsumer => "queue_without_consumer",
            Self::RequeueLoop => "requeue_loop",
            Self::ConsumerHoldsAll => "consumer_holds_all",
            Self::ShardAtLimit => "shard_at_limit",
            Self::AlarmNear => "alarm_near",
            Self::ClientsReconnect => "clients_reconnect",
            Self::CertificateEndsSoon => "certificate_ends_soon",
            Self::CertificateUnusable => "certificate_unusable",
            Self::FilterLeftOut => "filter_left_out",
            Self::QueueFull => "queue_full",
            Self::MessagesWithoutConsumer => "messages_without_consumer",
        }
    }

    /// Returns the sentence for this trouble of `count` objects.
    pub fn sentence(self, count: u64) -> String {
        let (one, many) = match self {
            Self::ClusterMinority => (
                "node that votes is out of sight: definitions cannot be changed here",
                "nodes that vote are out of sight: definitions cannot be changed here",
            ),
            Self::NodeMissing => {
                ("node of the cluster does not count as alive", "nodes of the cluster do not count as alive")
            }
            Self::LinkOneWay => (
                "node of the cluster can be reached in one direction only",
                "nodes of the cluster can be reached in one direction only",
            ),
            Self::ClocksApart => (
                "node has a clock that differs from the one here by more than a second",
                "nodes have clocks that differ from the one here by more than a second",
            ),
            Self::LogFailed => (
                "shard cannot store its log or its backlog on the disk: messages are refused",
                "shards cannot store their logs or their backlogs on the disk: messages are refused",
            ),
            Self::QueueDamaged => (
                "queue or stream is damaged on the disk, and is closed",
                "queues and streams are damaged on the disk, and are closed",
            ),
            Self::GroupWithoutLeader => (
                "quorum queue has no leader, and stands still",
                "quorum queues have no leader, and stand still",
            ),
            Self::Alarm => ("alarm stops all publishers", "alarms stop all publishers"),
            Self::QueueRejects => (
                "queue is at its length limit, and has refused messages within the last minute",
                "queues are at their length limits, and have refused messages within the last minute",
            ),
            Self::CertificateEnded => ("certificate has ended", "certificates have ended"),
            Self::QueueWithoutConsumer => (
                "queue grows, and no client consumes from it",
                "queues grow, and no client consumes from them",
            ),
            Self::RequeueLoop => (
                "queue gets its messages back from consumers again and again, and none leaves it",
                "queues get their messages back from consumers again and again, and none leaves them",
            ),
            Self::ConsumerHoldsAll => (
                "connection has consumers that hold all they may, and have settled nothing for minutes",
                "connections have consumers that hold all they may, and have settled nothing for minutes",
            ),
            Self::ShardAtLimit => {
                ("shard has no time left for more work", "shards have no time left for more work")
            }
            Self::AlarmNear => {
                ("alarm is near: publishers will be stopped", "alarms are near: publishers will be stopped")
            }
            Self::ClientsReconnect => (
                "client address connects again and again, and leaves within seconds",
                "client addresses connect again and again, and leave within seconds",
            ),
            Self::CertificateEndsSoon => {
                ("certificate ends within two weeks", "certificates end within two weeks")
            }
            Self::CertificateUnusable => (
                "certificate was changed, and the new one cannot be used",
                "certificates were changed, and the new ones cannot be used",
            ),
            Self::FilterLeftOut => (
                "connection has consumers with a filter that is not in effect",
                "connections have consumers with a filter that is not in effect",
            ),
            Self::QueueFull => (
                "queue is at its length limit, and will refuse the next message",
                "queues are at their length limits, and will refuse the next message",
            ),
            Self::MessagesWithoutConsumer => {
                ("queue has messages that no client consumes", "queues have messages that no client consumes")
            }
        };
        format!("{count} {}", if count == 1 { one } else { many })
    }

    /// Says what it means.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::ClusterMinority => {
                "More than half of the nodes that vote must be in sight to change definitions. Until then, clients cannot declare or \
                 delete anything on this node. Its own queues work."
            }
            Self::NodeMissing => {
                "This node hears nothing of it, or it stands still. Nobody can use its queues from here."
            }
            Self::LinkOneWay => {
                "A firewall or a route between the two nodes lets connections pass in one direction only. Neither of the two counts the \
                 other one as alive, so nobody can use the queues of the one on the other."
            }
            Self::ClocksApart => "Times of messages, of users' tokens and in logs differ between the nodes.",
            Self::LogFailed => {
                "The broker cannot write to its disk. It refuses durable messages until it can, so that none is lost."
            }
            Self::QueueDamaged => {
                "A file on the disk was changed or is broken. These queues deliver nothing and accept nothing. All others work."
            }
            Self::GroupWithoutLeader => {
                "A quorum queue without a leader delivers nothing and confirms nothing until one is elected."
            }
            Self::Alarm => {
                "Memory or disk space is short. Nobody can publish until this ends. Consumers still get messages."
            }
            Self::QueueRejects => {
                "The overflow of the queue is reject-publish: at its limit, it refuses messages. Publishers without confirms lose \
                 them without a notice."
            }
            Self::CertificateEnded => "Clients that check certificates refuse to connect over TLS.",
            Self::QueueWithoutConsumer => {
                "Publishers fill the queue, and nobody empties it. In the end, memory or disk space is short, and all publishers \
                 are stopped."
            }
            Self::RequeueLoop => {
                "The queue delivers what comes back at once, and it comes back again. The work is never done, and costs time on both sides."
            }
            Self::ConsumerHoldsAll => {
                "A consumer gets no more until it acknowledges some of what it holds. What it holds goes to nobody else."
            }
            Self::ShardAtLimit => {
                "One core does all the work of the queues and connections of this shard. The other cores cannot help it. More \
                 messages only wait longer."
            }
            Self::AlarmNear => {
                "Memory or disk has come nine tenths of the way to its limit. At the limit, nobody can publish."
            }
            Self::ClientsReconnect => {
                "Each connection costs a login and work on both sides. A client may fail soon after it has connected, and try \
                 again; or it connects for each message."
            }
            Self::CertificateEndsSoon => {
                "From then on, clients that check certificates refuse to connect over TLS."
            }
            Self::CertificateUnusable => "The broker goes on with the old certificate, which may end.",
            Self::FilterLeftOut => {
                "The broker cannot use the filter: it is unknown or invalid, or the queue is not a stream. So the consumer gets messages \
                 that it did not ask for."
            }
            Self::QueueFull => {
                "The overflow of the queue is reject-publish. It has as many messages as it may, and refuses further ones."
            }
            Self::MessagesWithoutConsumer => {
                "The messages stay until somebody consumes or removes them. Nothing has been published there within the last minute."
            }
        }
    }

    /// Says what to do, step by step.
    pub const fn advice(self) -> &'static [&'static str] {
        match self {
            Self::ClusterMinority => &[
                "Start the missing nodes, or repair the network to them. `sluice show cluster` says since when and why each is missing.",
                "See \"Minority\" in the operations manual of clusters.",
            ],
            Self::NodeMissing => &[
                "`sluice show cluster` says since when it is missing, and why.",
                "If it runs, look at its log, its disk and the network between the nodes.",
            ],
            Self::LinkOneWay => &[
                "Look whether each of the two nodes can connect to the port of cluster.listener of the other one.",
                "`sluice show cluster` on both nodes says which direction works.",
            ],
            Self::ClocksApart => &["Let a time service such as NTP set the clocks of all nodes."],
            Self::LogFailed => &[
                "Look in the broker's log for the file and the reason.",
                "If the disk is full, free some space: the broker then goes on by itself.",
                "See \"When the disk fails\" in the operations manual.",
            ],
            Self::QueueDamaged => &[
                "The broker's log names the file.",
                "See \"When the log is damaged\" in the operations manual.",
            ],
            Self::GroupWithoutLeader => &[
                "This lasts for moments after a start. If it stays so, look at the disk of the broker: it is slow to sync.",
                "`sluice explain queue NAME` says what a queue waits for.",
            ],
            Self::Alarm => &[
                "Let consumers empty the queues, or purge queues that nobody needs.",
                "Give the broker more memory or disk space, or set another limit: see \"Alarms\" in the operations manual.",
            ],
            Self::QueueRejects => &[
                "Add consumers, so that the queue empties.",
                "Raise max-length or max-length-bytes if the limit is too low.",
                "Let publishers use confirms, so that they notice what is refused.",
            ],
            Self::CertificateEnded | Self::CertificateEndsSoon => &[
                "Replace the files of the certificate and its key. The broker takes the new ones without a restart.",
            ],
            Self::QueueWithoutConsumer => &[
                "Start a consumer. If it runs already, look whether it is connected, and whether it names this queue and this \
                 virtual host.",
                "If nobody needs the messages, remove the binding that brings them, or give the queue a length limit or a time \
                 to live.",
            ],
            Self::RequeueLoop => &[
                "`sluice explain queue NAME` names the consumer, and says how often it gives messages back.",
                GIVE_UP,
                LIMIT,
            ],
            Self::ConsumerHoldsAll => &[
                "Look at the client: it may be slow, hang, or never acknowledge.",
                "If it only works long on each message, set a smaller prefetch and start more clients.",
                "If it hangs, close its connection: others then get the messages.",
            ],
            Self::ShardAtLimit => &[
                "If its queues share the shard, set more shards (shards = N) and restart the broker.",
                "If one queue fills it, use several queues, or a stream with several consumers. Fewer, larger messages help.",
                "If other programs take the CPU, the broker needs more of it.",
            ],
            Self::AlarmNear => &[
                "Look for queues that grow, and add consumers.",
                "Give the broker more memory or disk space before the alarm stops publishers.",
            ],
            Self::ClientsReconnect => &[
                "The broker's log says why connections of this address ended.",
                "Let a client that fails wait longer before it tries again.",
                "Let a client keep its connection open, instead of connecting for each message.",
            ],
            Self::CertificateUnusable => &[
                "The broker's log says what is wrong with the new files. Often the key does not belong to the certificate.",
            ],
            Self::FilterLeftOut => &[
                "`sluice explain connection NAME` names the filters and the reasons. So does the broker's log.",
                "Correct the filter, or let the client ask for none.",
            ],
            Self::QueueFull => &[
                "Add consumers, so that the queue empties.",
                "Raise max-length or max-length-bytes if the limit is too low.",
            ],
            Self::MessagesWithoutConsumer => &[
                "If a client should consume them, start it.",
                "If they are dead letters, look at why they died: `sluice redrive` sends them back.",
                "If nobody needs them, purge the queue.",
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_trouble_is_in_the_operators_page() {
        let page = include_str!("../../../../docs/operations/slow.md");
        for trouble in Trouble::ALL {
            let row = format!("| `{}` | {} |", trouble.word(), trouble.severity().word());
            assert!(page.contains(&row), "{row} is not in docs/operations/slow.md");
        }
        assert!(Trouble::ALL.is_sorted(), "in the order of the enum");
        assert!(Trouble::ALL.is_sorted_by_key(|trouble| trouble.severity()), "the critical ones first");
    }

    #[test]
    fn sentences_count() {
        let sentence = |count| Trouble::QueueWithoutConsumer.sentence(count);
        assert_eq!(sentence(1), "1 queue grows, and no client consumes from it");
        assert_eq!(sentence(123), "123 queues grow, and no client consumes from them");
    }
}
