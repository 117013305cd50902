/** What each cause that `/api/explain` names means, and what to do about it. docs/why.md shows all of them. */

export type Tone = "good" | "calm" | "warn" | "bad";

export interface Cause {
  tone: Tone;
  means: string;
  advice: string;
  /** The numbers that show it, by the names of the answer. */
  numbers: string[];
}

const CAUSES: Record<string, Cause> = {
  log_failed: {
    tone: "bad",
    means: "The broker cannot write to its disk. It refuses messages until it can, so that none is lost.",
    advice: "Look in the broker's log for the file and the reason. Often the disk is full: free some space. The broker then goes on by itself.",
    numbers: ["link_unconfirmed", "log_receipts_held", "queue_ready"],
  },
  queue_damaged: {
    tone: "bad",
    means: "Messages of this queue are damaged on the disk. The queue is closed: it delivers nothing and accepts nothing.",
    advice: "The broker's log names the file. The operations manual says how to continue, under “When the log is damaged”.",
    numbers: ["queue_ready", "queue_consumers"],
  },
  socket_not_read: {
    tone: "warn",
    means: "The broker has sent data, and the client does not read it.",
    advice: "Look at the client: it may hang, be overloaded, or have lost its network. If it will not come back, close its connection.",
    numbers: ["connection_unwritten_bytes", "session_pending", "link_unsettled"],
  },
  alarm: {
    tone: "bad",
    means: "Memory or disk space is short, or the broker is stopping. Nobody can publish until this ends. Consumers still get messages.",
    advice: "The header names the alarm. Let consumers empty the queues, or give the broker more memory or disk space.",
    numbers: [],
  },
  attach_unanswered: {
    tone: "warn",
    means: "The client has asked for this link, and the broker has not answered yet: it waits for the queue, or until the queue is made.",
    advice: "This usually takes milliseconds. If it stays so, the disk is slow: look at the disk.",
    numbers: ["link_credit"],
  },
  waiting_for_memory: {
    tone: "warn",
    means: "Too many messages wait in memory, and the disk does not take them as fast as they come. So publishers wait for their confirms.",
    advice: "Add consumers, publish less, or use a faster disk. More memory only delays it.",
    numbers: ["link_unconfirmed", "memory_receipts_held", "queue_ready"],
  },
  waiting_for_log: {
    tone: "warn",
    means: "The broker confirms a message when its log has written the message. The log is not that far yet.",
    advice: "Look at the disk of the broker: it is slow. Queues with x-fsync wait longest, because they wait for the disk to sync.",
    numbers: ["link_unconfirmed", "log_receipts_held"],
  },
  waiting_for_commit: {
    tone: "warn",
    means: "A quorum queue delivers and confirms a message when the log has synced it to the disk. The log is not that far yet.",
    advice: "Look at the disk of the broker: it is slow to sync.",
    numbers: ["link_unconfirmed", "queue_staged", "log_groups_held"],
  },
  waiting_for_receipts: {
    tone: "warn",
    means: "A queue has messages of this client and has not confirmed them yet. It waits neither for memory nor for the log.",
    advice: "The broker may be overloaded: look at the CPU. A stream with x-fsync waits for the disk to sync: look at the disk.",
    numbers: ["link_unconfirmed"],
  },
  held_back: {
    tone: "warn",
    means: "A publisher on the connection sends more than its queues take. Until they catch up, the broker reads nothing from the connection, not even acknowledgements.",
    advice: "Ask about the connection: the answer names the channel. Let the client publish and consume on different connections.",
    numbers: ["link_unconfirmed", "link_credit", "log_receipts_held"],
  },
  client_window_closed: {
    tone: "warn",
    means: "The client says how many transfers its session accepts: its window. The window is used up, so deliveries wait in the broker.",
    advice: "Look at what the client does with the deliveries that it has. A larger window helps a client that is only slow.",
    numbers: ["session_pending", "session_remote_incoming_window"],
  },
  message_too_large: {
    tone: "warn",
    means: "The client has said how large a message may be (max-message-size), or a frame with its headers (frame_max). The next message is larger, and those behind it do not overtake it.",
    advice: "Let the client accept larger messages, start one that does, or take this message out of the queue.",
    numbers: ["queue_next_header_bytes", "link_frame_max_bytes", "queue_next_bytes", "link_message_max_bytes", "queue_ready"],
  },
  consumer_timed_out: {
    tone: "warn",
    means: "The client held messages for longer than the consumer timeout. They went back to the queue, and this client gets no more until it has settled them.",
    advice: "Look at the client: it may hang. If its work takes that long, raise the consumer timeout.",
    numbers: ["link_revoked", "link_unsettled", "queue_ready"],
  },
  unsettled_limit: {
    tone: "warn",
    means: "The client holds as many messages as it may: its prefetch, that of its channel, or the limit of the link. It gets more when it acknowledges some.",
    advice: "Find out why the client acknowledges none: it may be slow, hang, or never do it. If it is only slow, start more clients.",
    numbers: ["link_unsettled", "link_unsettled_max", "queue_ready"],
  },
  no_credit: {
    tone: "warn",
    means: "Credit is the number of messages that a client asks for. This client asks for none, so it gets none.",
    advice: "Look at the client: it may have paused, it may not ask again after its first messages, or its prefetch is 0.",
    numbers: ["link_credit", "link_unsettled", "queue_ready"],
  },
  reading_backlog: {
    tone: "calm",
    means: "The next message is on the disk, and the broker is reading it.",
    advice: "Nothing to do: this takes milliseconds. If it stays so, the disk is slow or fails. Then the broker's log reports it.",
    numbers: ["queue_ready", "link_credit"],
  },
  giving_way: {
    tone: "warn",
    means: "The queue has a single active consumer, and a better one takes over when this one has acknowledged what it holds. Until then nobody gets more.",
    advice: "Let the client acknowledge it. If it does not, it may hang: look at what it does.",
    numbers: ["link_unsettled", "queue_ready", "queue_consumers"],
  },
  inactive_single_active_consumer: {
    tone: "calm",
    means: "The queue has a single active consumer: one consumer gets all messages, and the others wait for their turn. This one waits.",
    advice: "Nothing to do while the active one works. The page of the queue shows which one is active: ask about that one.",
    numbers: ["queue_ready", "queue_unsettled", "queue_consumers"],
  },
  queue_full: {
    tone: "warn",
    means: "The queue has as many messages as it may (max-length), and it is set to refuse more.",
    advice: "Add consumers, so that it empties, or raise max-length.",
    numbers: ["queue_ready", "queue_consumers"],
  },
  no_consumer: {
    tone: "warn",
    means: "Messages wait in the queue, and no client takes them.",
    advice: "Start a consumer. If it runs already, look whether it is connected, and whether it names this queue and this virtual host.",
    numbers: ["queue_ready", "queue_consumers"],
  },
  all_unsettled: {
    tone: "warn",
    means: "All messages of the queue are with consumers, which have not acknowledged them. They stay in the queue until then.",
    advice: "The list of consumers shows who holds how many (“Unacked”). Wait for that client, or repair it. If its connection ends, others get the messages.",
    numbers: ["queue_unsettled", "queue_consumers", "queue_ready"],
  },
  all_delayed: {
    tone: "calm",
    means: "All messages of the queue have failed, and each waits a while before it is tried again.",
    advice: "Nothing to do, unless the wait is longer than intended: look at x-delayed-retry-min and x-delayed-retry-max of the queue.",
    numbers: ["queue_delayed", "queue_ready"],
  },
  dead_letters_leaving: {
    tone: "calm",
    means: "All messages of the queue are dead letters, and the queue that should get them has not taken them yet.",
    advice: "Ask about the queue that gets the dead letters: it may be full, slow or missing.",
    numbers: ["queue_leaving", "queue_ready"],
  },
  delivery_incomplete: {
    tone: "warn",
    means: "The client has sent the beginning of a message, and the rest has not arrived.",
    advice: "Look at the client and its network: it may hang, or be slow.",
    numbers: ["session_incomplete_bytes"],
  },
  over_delivery_limit: {
    tone: "warn",
    means: "The queue is empty: its last message failed more often than the delivery limit allows, so it was dead-lettered or dropped.",
    advice: "Look at the dead letters, and at why the consumer fails. Without a dead-letter exchange such messages are dropped.",
    numbers: ["queue_over_limit", "queue_ready"],
  },
  queue_empty: {
    tone: "calm",
    means: "There is nothing to deliver. Consumers wait for messages.",
    advice: "If messages are expected, look at the publishers. The routing try-out shows which queues a message would reach.",
    numbers: ["queue_ready", "queue_consumers"],
  },
  end_of_stream: {
    tone: "calm",
    means: "The consumer has every message of the stream that it has asked for.",
    advice: "If more are expected, look at the publishers, at the offset from which the client reads, and at its filter.",
    numbers: ["queue_ready", "link_credit"],
  },
  no_reader: {
    tone: "calm",
    means: "Nobody reads the stream. Its messages stay until its limits remove them.",
    advice: "Nothing to do, unless a client should be reading it.",
    numbers: ["queue_ready", "queue_consumers"],
  },
  client_silent: {
    tone: "calm",
    means: "The broker waits for this client: it may send messages, and sends none.",
    advice: "Nothing to do, unless messages of it are expected. Then look at the client.",
    numbers: ["link_credit", "link_unconfirmed"],
  },
  shard_at_limit: {
    tone: "warn",
    means: "Their shard has no time left. One core does all the work of this queue and of those that share its shard. The other cores cannot help it.",
    advice: "If the queue shares its shard, set more shards (shards = N) and restart the broker. If it fills the shard alone, use several queues, or a stream with several consumers. Fewer, larger messages help. If other programs take the CPU, the broker needs more of it.",
    numbers: ["shard", "shard_busy_percent", "shard_queues", "node_shards"],
  },
  no_links: {
    tone: "calm",
    means: "The client is connected, and has opened nothing to publish or to consume with.",
    advice: "Look at the client: it may be idle, or the broker may have refused its link. Then the broker's log has the reason.",
    numbers: ["links"],
  },
  moving: {
    tone: "good",
    means: "Messages moved while the broker looked, or nothing stops the next one.",
    advice: "Nothing. If no message arrives and this answer stays, report it with the numbers.",
    numbers: ["queue_ready", "queue_unsettled", "queue_consumers"],
  },
};

/** Returns what is known about a cause. A broker newer than this page may name an unknown one. */
export function cause(word: string): Cause {
  const known = Object.hasOwn(CAUSES, word) ? CAUSES[word] : undefined;
  return known ?? { tone: "warn", means: "This page does not know this answer.", advice: "See the operations manual of this version of the broker.", numbers: [] };
}

/** The numbers that causes name, in words. */
const LABELS: Record<string, string> = {
  connection_unwritten_bytes: "Not read by the client",
  session_pending: "Deliveries that wait",
  session_remote_incoming_window: "Transfers that the client accepts",
  session_incomplete_bytes: "Arrived of the message",
  links: "Links",
  link_credit: "Credit",
  link_unconfirmed: "Not confirmed to this client",
  link_unsettled: "Held by this client",
  link_unsettled_max: "It may hold",
  link_revoked: "Taken back",
  link_message_max_bytes: "The client accepts",
  link_frame_max_bytes: "Largest frame of the client",
  queue_staged: "Not synced",
  queue_ready: "Ready messages",
  queue_unsettled: "Not acknowledged",
  queue_delayed: "Wait for their retry",
  queue_leaving: "Dead letters on their way",
  queue_over_limit: "Failed too often",
  queue_consumers: "Consumers",
  queue_next_bytes: "Size of the next message",
  queue_next_header_bytes: "Frame with its headers",
  shard: "Shard",
  shard_busy_percent: "Busy",
  shard_queues: "Queues of this shard",
  node_shards: "Shards of the node",
  log_receipts_held: "Confirms that wait for the log",
  log_groups_held: "Quorum queues that wait for the log",
  memory_receipts_held: "Confirms that wait for memory",
  certificate_days: "Days left",
  connection_consumers: "Consumers",
  connection_oldest_ms: "The oldest delivery waits for",
  connection_unsettled: "Held by its consumers",
  disk_free_bytes: "Free",
  disk_free_limit_bytes: "Alarm below",
  memory_limit_bytes: "Alarm above",
  memory_used_bytes: "Used",
  queue_oldest_ms: "The oldest message waits for",
  queue_ready_bytes: "Their size",
  queue_rejected_a_minute: "Refused in the last minute",
};

/** Returns the words for a number of an answer. */
export function label(name: string): string {
  return (Object.hasOwn(LABELS, name) ? LABELS[name] : undefined) ?? name.replaceAll("_", " ");
}
