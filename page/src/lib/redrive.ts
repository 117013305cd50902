/** The request to redrive dead letters, and the command that does the same. */

/** The fields of the window, as people fill them in. An empty one is no filter. */
export interface Filters {
  number: string;
  reason: string;
  /** The queue in which the messages died. */
  queue: string;
  /** A number and a unit: s, m, h or d. */
  older: string;
  rate: string;
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
  const { number, reason, queue, older, rate, to, other } = filters;
  return {
    ...(number !== "" && { count: Number(number) }),
    ...(reason !== "" && { reason }),
    ...(queue !== "" && { queue }),
    ...(older !== "" && { older_than: Number(older.slice(0, -1)) * (SECONDS[older.slice(-1)] ?? NaN) }),
    ...(rate !== "" && { rate: Number(rate) }),
    ...(to === "exchange" && { to }),
    ...(to === "other" && { to_queue: other }),
    ...(until !== undefined && { died_until: until }),
  };
}

/** Returns the options of `sluice redrive`. */
export function options(filters: Filters): [string, string][] {
  const { number, reason, queue, older, rate, to, other } = filters;
  const all: [string, string][] = [
    ["--count", number],
    ["--reason", reason],
    ["--from-queue", queue],
    ["--older-than", older],
    ["--rate", rate],
    ["--to", to === "exchange" ? to : ""],
    ["--to-queue", to === "other" ? other || "OTHER_QUEUE" : ""],
  ];
  return all.filter(([, value]) => value !== "");
}
