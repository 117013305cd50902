/** Reads what a dead letter says of its deaths: the annotation `x-opt-deaths` of AMQP 1.0 or the header `x-death` of 0.9.1. */
import { isNumber } from "./text";

export interface Death {
  queue: string;
  /** The reason in words. */
  why: string;
  count: number | undefined;
  /** The time of the last such death, in milliseconds since the epoch. */
  at: number | undefined;
  exchange: string;
  keys: string[];
}

/** RabbitMQ's reasons. */
const REASONS: Record<string, string> = {
  expired: "its time to live ended",
  rejected: "a consumer rejected it",
  maxlen: "the queue was full",
  delivery_limit: "it was delivered in vain too often",
};

/** The annotation or header that counts redrives. */
const REDRIVEN = "x-opt-sluice-redriven";

type Fields = Record<string, unknown>;

const isFields = (value: unknown): value is Fields => typeof value === "object" && value !== null && !Array.isArray(value);
const text = (value: unknown): string => (typeof value === "string" ? value : "");

const section = (value: unknown, key: string): unknown => (isFields(value) ? value[key] : undefined);

/** Returns how often a dead letter was sent back to where it died. */
export function redriven(row: object): number {
  const fields = row as Fields;
  const found = [section(fields.message_annotations, REDRIVEN), section(section(fields.properties, "headers"), REDRIVEN)];
  return found.find(isNumber) ?? 0;
}

/** Returns the deaths of a message, the newest first. Entries that are no deaths are left out. */
export function deaths(row: object): Death[] {
  const fields = row as Fields;
  const annotation = section(fields.message_annotations, "x-opt-deaths");
  const header = section(section(fields.properties, "headers"), "x-death");
  const entries = Array.isArray(annotation) ? annotation : Array.isArray(header) ? header : [];
  return entries.filter(isFields).filter((entry) => typeof entry.queue === "string").map((entry) => ({
    queue: text(entry.queue),
    why: REASONS[text(entry.reason)] ?? text(entry.reason),
    count: isNumber(entry.count) ? entry.count : undefined,
    // AMQP 0.9.1 has seconds.
    at: isNumber(entry["last-time"]) ? entry["last-time"] : isNumber(entry.time) ? entry.time * 1000 : undefined,
    exchange: text(entry.exchange),
    keys: Array.isArray(entry["routing-keys"]) ? entry["routing-keys"].map(text) : [],
  }));
}
