/** Rates and samples, as the broker sends them with each counter: `publish` has `publish_details`. */
import { at, isNumber } from "./text";

export interface Point {
  /** Milliseconds since the epoch. */
  time: number;
  /** Null where nobody knows the value: the line of a chart has a gap there. */
  value: number | null;
}

/** Returns the rate at each point but the first, in events per second. It is unknown where the counter has started again. */
export function differences(points: Point[]): Point[] {
  const rates: Point[] = [];
  for (let i = 1; i < points.length; i++) {
    const [before, now] = [points[i - 1], points[i]];
    if (!before || !now || now.time <= before.time) continue;
    const isKnown = before.value !== null && now.value !== null && now.value >= before.value;
    rates.push({ time: now.time, value: isKnown ? (((now.value ?? 0) - (before.value ?? 0)) * 1000) / (now.time - before.time) : null });
  }
  return rates;
}

/** Returns the samples of a field, oldest first. There are none if the broker began to sample the object a moment ago. */
export function samples(row: unknown, field: string): Point[] {
  const list = at(row, `${field}_details.samples`);
  if (!Array.isArray(list)) return [];
  return (list as { sample?: unknown; timestamp?: unknown }[])
    .flatMap(({ sample, timestamp }) => (isNumber(sample) && isNumber(timestamp) ? [{ time: timestamp, value: sample }] : []))
    .sort((a, b) => a.time - b.time);
}

/** Returns the present rate of a field. It is undefined until the broker has two samples, because it then sends 0. */
export function rateOf(of: unknown, field: string): number | undefined {
  const now = at(of, `${field}_details.rate`);
  return isNumber(now) && at(of, "rates_are_known") !== false ? now : undefined;
}
