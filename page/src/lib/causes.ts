/** How the causes that `/api/explain` names are shown. What they mean and what to do, the broker says itself. */

export type Tone = "good" | "calm" | "warn" | "bad";

/** The causes that are no warning. */
const TONES: Record<string, Tone> = {
  log_failed: "bad",
  queue_damaged: "bad",
  alarm: "bad",
  reading_backlog: "calm",
  inactive_single_active_consumer: "calm",
  all_delayed: "calm",
  dead_letters_leaving: "calm",
  queue_empty: "calm",
  end_of_stream: "calm",
  no_reader: "calm",
  client_silent: "calm",
  no_links: "calm",
  moving: "good",
};

/** Returns the tone of a cause. A broker newer than this page may name an unknown one. */
export function toneOf(cause: string): Tone {
  return (Object.hasOwn(TONES, cause) ? TONES[cause] : undefined) ?? "warn";
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
  link_acknowledged_a_second: "It acknowledges in a second",
  link_returned_a_second: "It gives back in a second",
  link_revoked: "Taken back",
  link_message_max_bytes: "The client accepts",
  link_frame_max_bytes: "Largest frame of the client",
  queue_staged: "Not synced",
  queue_ready: "Ready messages",
  queue_unsettled: "Not acknowledged",
  queue_delayed: "Wait for their retry",
  queue_leaving: "Dead letters on their way",
  queue_over_limit: "Failed too often",
  queue_looped_a_minute: "Given back in the last minute",
  queue_expired: "Expired since the start",
  queue_over_length: "Dropped by the length limit",
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
  clock_difference_ms: "Differs by",
  connection_consumers: "Consumers",
  connection_filters_left_out: "Filters that are not in effect",
  connection_oldest_ms: "The oldest delivery waits for",
  connection_unsettled: "Held by its consumers",
  disk_free_bytes: "Free",
  disk_free_limit_bytes: "Alarm below",
  memory_limit_bytes: "Alarm above",
  memory_used_bytes: "Used",
  node_missing_ms: "For",
  queue_oldest_ms: "The oldest message waits for",
  queue_ready_bytes: "Their size",
  queue_rejected: "Refused in all",
  queue_rejected_a_minute: "Refused in the last minute",
};

/** Returns the words for a number of an answer. */
export function label(name: string): string {
  return (Object.hasOwn(LABELS, name) ? LABELS[name] : undefined) ?? name.replaceAll("_", " ");
}
