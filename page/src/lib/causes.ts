/** What to do about each cause that `/api/explain` names. docs/operations.md has the same table. */

export type Tone = "good" | "calm" | "warn" | "bad";

const ADVICE: Record<string, [Tone, string]> = {
  log_failed: ["bad", "Look in the broker's log for the file and the reason. The disk may be full or failing."],
  queue_damaged: ["bad", "Messages of this queue are damaged on the disk, and it is closed. See the operations manual."],
  alarm: ["bad", "Memory or disk is short, so publishing is stopped. Drain queues, or give the broker memory or disk."],
  socket_not_read: ["warn", "The client does not read what is sent to it. Look at the client and its network."],
  attach_unanswered: ["warn", "If this stays so, writing the log may be slow: look at the disk."],
  waiting_for_memory: ["warn", "The backlog is larger than its memory. A faster disk, more consumers or fewer messages help."],
  waiting_for_log: ["warn", "Messages wait until the log has written them: look at the disk."],
  waiting_for_commit: ["warn", "Messages wait until the log of the quorum queue is synced: look at the disk."],
  waiting_for_receipts: ["warn", "The broker is overloaded: look at the CPU."],
  held_back: ["warn", "A publisher on the connection sends more than its queues take. Publish on a connection of its own."],
  client_window_closed: ["warn", "The client accepts no more transfers. Look at what it does with those that it has."],
  message_too_large: ["warn", "The next message is larger than the client takes. Let the client take larger ones, or take the message out."],
  consumer_timed_out: ["warn", "The consumer held messages for too long. Fix it, or raise the consumer timeout."],
  unsettled_limit: ["warn", "The client holds as many messages as it may, and acknowledges none."],
  no_credit: ["warn", "The client asks for no messages: it stopped reading, or its prefetch is 0."],
  inactive_single_active_consumer: ["calm", "Nothing to do, unless the active consumer is stuck: ask about the queue."],
  reading_backlog: ["calm", "Nothing to do, unless this stays so: then the disk is slow."],
  queue_full: ["warn", "The queue is at its length limit and refuses messages. Add consumers, or raise max-length."],
  no_consumer: ["warn", "Messages wait and nobody is attached. Start a consumer."],
  all_unsettled: ["warn", "Everything is delivered and not acknowledged. Find the consumer that holds the messages, or wait for it."],
  all_delayed: ["calm", "All messages wait for their retry. Nothing to do, unless the delays are longer than intended."],
  dead_letters_leaving: ["calm", "All messages are being dead-lettered. Ask about the queue that gets them."],
  delivery_incomplete: ["warn", "The client has sent a part of a message and not its end. Look at the client and its network."],
  over_delivery_limit: ["warn", "Messages failed more often than the delivery limit allows. Look at the dead letters and at the consumer."],
  queue_empty: ["calm", "There is nothing to deliver. If messages are expected, look at the publishers."],
  end_of_stream: ["calm", "The consumer has everything. If more is expected, look at the publishers, or at the filter."],
  no_reader: ["calm", "Nobody reads the stream. Its messages stay until its limits remove them."],
  client_silent: ["calm", "The link has credit, and its client sends nothing. Look at the client."],
  no_links: ["calm", "The connection has no links. Look at the client."],
  nothing: ["calm", "No cause was found. Ask again; if the answer stays the same, report it with the numbers."],
  moving: ["good", "Messages move. Nothing to do."],
};

/** Returns the tone and the advice of a cause. A broker newer than this page may name an unknown one. */
export function advice(cause: string): [Tone, string] {
  const known = Object.hasOwn(ADVICE, cause) ? ADVICE[cause] : undefined;
  return known ?? ["warn", "See the operations manual of this version of the broker."];
}
