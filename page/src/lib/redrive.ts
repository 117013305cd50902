/** The requests to redrive dead letters and to move messages, and the commands that do the same. */

/** The fields of the window, as people fill them in. An empty one is no filter. */
export interface Filters {
  number: string;
  reason: string;
  /** The queue in which the messages died. */
  queue: string;
  /** A number and a unit: s, m, h or d. */
  older: string;
  rate: string;
  /** `NAME=VALUE`: a header or an application property. */
  header: string;
  /** "queue", "exchange" or "other". */
  to: string;
  /** The queue that gets the messages, if `to` is "other". */
  other: string;
}

/** The answer of the broker. */
export interface Redriven {
  redriven: number;
  skipped: number;
  left: number;
  died_until: number;
  ended: string;
  reason: string;
}

const SECONDS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** Returns the body of the request. `until` is the `died_until` of the answer before, if the request goes on. */
export function body(filters: Filters, until?: number): Record<string, unknown> {
  const { number, reason, queue, older, rate, header, to, other } = filters;
  return {
    ...(number !== "" && { count: Number(number) }),
    ...(reason !== "" && { reason }),
    ...(queue !== "" && { queue }),
    ...(older !== "" && { older_than: Number(older.slice(0, -1)) * (SECONDS[older.slice(-1)] ?? NaN) }),
    ...(rate !== "" && { rate: Number(rate) }),
    ...headers(header),
    ...(to === "exchange" && { to }),
    ...(to === "other" && { to_queue: other }),
    ...(until !== undefined && { died_until: until }),
  };
}

/** Returns the options of `sluice redrive`. */
export function options(filters: Filters): [string, string][] {
  const { number, reason, queue, older, rate, header, to, other } = filters;
  const all: [string, string][] = [
    ["--count", number],
    ["--reason", reason],
    ["--from-queue", queue],
    ["--older-than", older],
    ["--rate", rate],
    ["--header", header],
    ["--to", to === "exchange" ? to : ""],
    ["--to-queue", to === "other" ? other || "OTHER_QUEUE" : ""],
  ];
  return all.filter(([, value]) => value !== "");
}

/** Returns the field of a request for `NAME=VALUE`. A value may have more equals signs. */
function headers(header: string): Record<string, unknown> {
  if (header === "") return {};
  const at = header.indexOf("=");
  return { headers: { [header.slice(0, at)]: header.slice(at + 1) } };
}

/** What the window to move messages has in its fields. An empty field is no filter. */
export interface Wish {
  /** "queue" or "exchange": what `target` names. */
  to: string;
  target: string;
  /** The routing key at an exchange. Empty keeps the key of each message. */
  key: string;
  number: string;
  header: string;
  rate: string;
}

/** The answer of the broker to a move. */
export interface Moved {
  moved: number;
  skipped: number;
  left: number;
  until_seq: number;
  ended: string;
  reason: string;
}

/** Returns the body of the request. `until` is the `until_seq` of the answer before, if the request goes on. */
export function moveBody(wish: Wish, until?: number): Record<string, unknown> {
  const { to, target, key, number, header, rate } = wish;
  return {
    ...(to === "exchange" ? { to_exchange: target, ...(key !== "" && { routing_key: key }) } : { to_queue: target }),
    ...(number !== "" && { count: Number(number) }),
    ...headers(header),
    ...(rate !== "" && { rate: Number(rate) }),
    ...(until !== undefined && { until_seq: until }),
  };
}

/** Returns the options of `sluice move`. */
export function moveOptions(wish: Wish): [string, string][] {
  const { to, target, key, number, header, rate } = wish;
  const all: [string, string][] = [
    to === "exchange" ? ["--to-exchange", target || "EXCHANGE"] : ["--to-queue", target || "OTHER_QUEUE"],
    ["--key", to === "exchange" ? key : ""],
    ["--count", number],
    ["--header", header],
    ["--rate", rate],
  ];
  return all.filter(([, value]) => value !== "");
}
