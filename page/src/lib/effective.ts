/** The settings that are in force for a queue: those of its arguments and of its policies together. */
import type { QueueRow } from "./names";
import { bytes, count, duration, isNumber } from "./text";

/** What people want to see of a queue's settings, in this order. */
export interface Setting {
  /** The name in a column, which is short. What has none is shown on the page of a queue only. */
  short: string;
  /** The name on the page of a queue. */
  label: string;
  value: string;
  /** The exchange that the value names. */
  exchange?: string;
}

/** The keys that have an effect on streams, and the one of them that has none on queues. A policy may have keys for other types. */
const OF_STREAMS = ["max-length-bytes", "max-age"];
const OF_STREAMS_ONLY = "max-age";

/** The seconds of each unit of a span such as `7D`. */
const UNITS: Record<string, number> = { s: 1, m: 60, h: 3600, D: 86_400, M: 30 * 86_400, Y: 365 * 86_400 };

function seconds(span: unknown): number {
  const [, digits, unit] = /^(\d+)([smhDMY])$/.exec(String(span)) ?? [];
  return unit === undefined ? Infinity : Number(digits) * (UNITS[unit] ?? Infinity);
}

/**
 * The broker merges an argument and a policy so (crates/catalog/src/policy.rs): the smaller number or span counts if both have
 * one, the overflow is that of the policy, and of other values the argument counts.
 */
function effective(row: QueueRow, key: string): unknown {
  if (row.type === "stream" ? !OF_STREAMS.includes(key) : key === OF_STREAMS_ONLY) return undefined;
  if (key === "delivery-limit" && row.type !== "quorum") return undefined;
  const [own, policy] = [row.arguments?.[`x-${key}`], row.effective_policy_definition?.[key]];
  if (own === undefined || policy === undefined) return own ?? policy;
  // Quorum queues have no such overflow, so that of their argument stays.
  if (key === "overflow") return policy === "reject-publish-dlx" && row.type === "quorum" ? own : policy;
  if (key === "max-age") return seconds(policy) < seconds(own) ? policy : own;
  // A negative number means no limit.
  if (key === "delivery-limit" && isNumber(own) && isNumber(policy) && (own < 0 || policy < 0)) return Math.max(own, policy);
  if (isNumber(own) && isNumber(policy)) return Math.min(own, policy);
  return own;
}

/** Returns true if the queue refuses messages at its length limit. */
export function rejects(row: QueueRow): boolean {
  const overflow = effective(row, "overflow");
  return overflow === "reject-publish" || (overflow === "reject-publish-dlx" && row.type === "classic");
}

/** Milliseconds as a time span; a span below a second as it is. */
function span(ms: number): string {
  return ms < 1000 ? `${count(ms)} ms` : duration(ms);
}

/** Returns the settings of a queue that limit it, or that decide where its messages go. */
export function settings(row: QueueRow): Setting[] {
  const found: Setting[] = [];
  const number = (key: string, short: string, label: string, format: (value: number) => string) => {
    const value = effective(row, key);
    if (isNumber(value)) found.push({ short, label, value: format(value) });
  };
  const text = (key: string, short: string, label: string) => {
    const value = effective(row, key);
    if (typeof value === "string") found.push({ short, label, value });
  };
  const exchange = effective(row, "dead-letter-exchange");
  if (typeof exchange === "string") found.push({ short: "DLX", label: "Dead letters go to the exchange", value: exchange === "" ? "(default)" : exchange, exchange });
  text("dead-letter-routing-key", "", "Their routing key");
  number("message-ttl", "TTL", "Time to live of messages", span);
  number("max-length", "max", "Most messages", count);
  number("max-length-bytes", "max", "Most bytes", bytes);
  text("max-age", "age", "Keeps messages for");
  text("overflow", "full", "At the limit");
  number("expires", "expires", "Deleted when unused for", span);
  number("delivery-limit", "tries", "Failed deliveries of a message at most", (value) => (value < 0 ? "no limit" : count(value)));
  if (row.arguments?.["x-single-active-consumer"] === true) found.push({ short: "SAC", label: "Single active consumer", value: "yes" });
  number("max-priority", "priorities", "Highest priority", count);
  return found;
}
