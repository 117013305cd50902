/** Rates and samples, as the broker sends them with each counter: `publish` has `publish_details`. */
import { at, isNumber } from "./text";

export interface Point {
  /** Milliseconds since the epoch. */
  time: number;
  value: number;
}

/** Returns the rate at each point but the first, in events per second. */
export function differences(points: Point[]): Point[] {
  const rates: Point[] = [];
  for (let i = 1; i < points.length; i++) {
    const [before, now] = [points[i - 1], points[i]];
    if (!before || !now || now.time <= before.time) continue;
    rates.push({ time: now.time, value: Math.max(0, ((now.value - before.value) * 1000) / (now.time - before.time)) });
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
