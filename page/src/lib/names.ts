/** The rows of the API, as far as the page reads them. Every field may be missing: other versions may not have it. */

export interface Page<T> {
  items: T[];
  page: number;
  page_count: number;
  page_size: number;
  filtered_count: number;
  total_count: number;
}

export interface QueueRow {
  /** The nodes with a member of the group of a quorum queue or stream, and those whose member runs. */
  members?: string[];
  online?: string[];
  name: string;
  vhost: string;
  type?: string;
  state?: string;
  durable?: boolean;
  auto_delete?: boolean;
  exclusive?: boolean;
  arguments?: Record<string, unknown>;
  unknown_arguments?: Record<string, string | null>;
  policy?: string | null;
  operator_policy?: string | null;
  effective_policy_definition?: Record<string, unknown>;
  node?: string;
  leader?: string | null;
  messages?: number;
  messages_ready?: number;
  messages_unacknowledged?: number;
  consumers?: number;
  consumer_details?: ConsumerRow[];
  message_stats?: Record<string, unknown>;
}

export interface ConsumerRow {
  consumer_tag: string;
  queue: { name: string; vhost: string };
  ack_required?: boolean;
  active?: boolean;
  activity_status?: string;
  exclusive?: boolean;
  prefetch_count?: number;
  messages_unacknowledged?: number;
  unacknowledged_age_ms?: number;
  arguments?: Record<string, unknown>;
  channel_details?: { name?: string; connection_name?: string; user?: string; number?: number };
}

export interface BindingRow {
  source: string;
  vhost: string;
  destination: string;
  destination_type: string;
  routing_key: string;
  arguments: Record<string, unknown>;
  properties_key: string;
}

export interface ExchangeRow {
  name: string;
  vhost: string;
  type: string;
  durable?: boolean;
  auto_delete?: boolean;
  internal?: boolean;
  arguments?: Record<string, unknown>;
  unknown_arguments?: Record<string, string | null>;
  policy?: string;
  message_stats?: Record<string, unknown>;
}

export interface LinkRow {
  handle: number;
  link_name: string;
  target_address?: string | null;
  source_address?: string | null;
  queue_name?: string | null;
  snd_settle_mode?: string;
  send_settled?: boolean;
  max_message_size?: number | null;
  delivery_count?: number | null;
  credit?: number;
  unconfirmed_messages?: number;
  unsettled_deliveries?: number;
  /** How long the oldest message waits. */
  unconfirmed_age_ms?: number;
  unacknowledged_age_ms?: number;
}

export interface SessionRow {
  channel_number: number;
  handle_max?: number;
  incoming_window?: number;
  remote_incoming_window?: number;
  outgoing_unsettled_deliveries?: number;
  outgoing_pending_deliveries?: number;
  message_stats?: Record<string, unknown>;
  incoming_links: LinkRow[];
  outgoing_links: LinkRow[];
}

/** A session in the list of all sessions. */
export interface OwnedSessionRow extends SessionRow {
  name: string;
  user?: string;
  vhost?: string;
  container_id?: string;
  connection_details: { name: string };
}

export interface ConnectionRow {
  name: string;
  vhost: string;
  user: string;
  state?: string;
  protocol?: string;
  container_id?: string;
  client_properties?: Record<string, unknown>;
  channels?: number;
  channel_max?: number;
  frame_max?: number;
  ssl?: boolean;
  ssl_protocol?: string;
  ssl_cipher?: string;
  auth_mechanism?: string;
  connected_at?: number;
  recv_oct?: number;
  send_oct?: number;
  sessions?: SessionRow[];
}

export interface ChannelRow {
  name: string;
  number?: number;
  user?: string;
  vhost?: string;
  state?: string;
  confirm?: boolean;
  transactional?: boolean;
  consumer_count?: number;
  messages_unacknowledged?: number;
  messages_unconfirmed?: number;
  unconfirmed_age_ms?: number;
  unacknowledged_age_ms?: number;
  messages_uncommitted?: number;
  acks_uncommitted?: number;
  prefetch_count?: number;
  global_prefetch_count?: number;
  connection_details?: { name?: string };
  message_stats?: Record<string, unknown>;
  consumer_details?: ConsumerRow[];
}

export interface Overview {
  sluice_version?: string;
  product_version?: string;
  cluster_name?: string;
  node?: string;
  uptime?: number;
  default_queue_type?: string;
  exchange_types?: { name: string; enabled?: boolean }[];
  message_stats?: Record<string, unknown>;
  churn_rates?: Record<string, unknown>;
  queue_totals?: Record<string, unknown>;
  object_totals?: Record<string, unknown>;
  /** The nodes of a cluster that did not answer. The totals are without them. */
  missing_nodes?: string[];
  listeners?: { node?: string; protocol?: string; ip_address?: string; port?: number }[];
}

/** A node. Of a node other than the one that answers, only its name and its state are known. */
export interface NodeRow {
  name: string;
  running?: boolean;
  /** The state in words, with its reason. */
  state_text?: string;
  os_pid?: string;
  uptime?: number;
  processors?: number;
  mem_used?: number | null;
  mem_limit?: number;
  mem_alarm?: boolean;
  disk_free?: number;
  disk_free_limit?: number;
  disk_free_alarm?: boolean;
  certificate_alarm?: boolean;
  fd_used?: number | null;
  fd_total?: number | null;
  budgets?: { name: string; used: number; limit: number }[];
  shards?: ShardRow[];
}

/** An event loop of a node, which has one thread. */
export interface ShardRow {
  number: number;
  /** For which part of the time its thread was awake, from 0 to 1. */
  busy?: number;
  at_limit?: boolean;
  connections?: number;
  queues?: number;
}

export interface AlarmAnswer {
  status: string;
  reason?: string;
  alarms?: { node?: string; resource?: string }[];
}

/** One of the causes why nothing moves. */
export interface CauseRow {
  cause: string;
  sentence: string;
  meaning?: string;
  /** What to do, step by step. */
  advice?: string[];
  at?: { connection?: string; session?: number; handle?: number; link?: string } | null | undefined;
  numbers?: Record<string, unknown>;
}

/** The answer to "why does nothing move?". Its own fields are those of the worst cause, but with all numbers. */
export interface Explained extends CauseRow {
  kind: string;
  name: string;
  notes?: string[];
  /** All causes, the worst first. */
  causes?: CauseRow[];
}

export interface MessageRow {
  position?: number;
  offset?: number;
  seq?: number;
  /** When it arrived in its queue, in milliseconds since the epoch. */
  arrived_at?: number;
  exchange?: string;
  routing_key?: string;
  redelivered?: boolean;
  delivery_count?: number;
  acquired_count?: number;
  message_count?: number;
  payload?: string;
  payload_bytes?: number;
  payload_encoding?: string;
  /** True if the broker has not found the text that is looked for, and the body is to be decoded. */
  undecoded?: boolean;
  properties?: Record<string, unknown>;
  error?: string;
  [section: string]: unknown;
}

/** What is said about an argument that the broker does not know, behind its name. `meant` is the known name that is closest. */
export function withoutEffect(meant: string | null): string {
  return meant === null ? "has no effect" : `has no effect; did you mean ${meant}?`;
}
