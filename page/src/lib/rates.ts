/** Rates: from the broker if it has them, else from the counters that the page itself has polled. */
import { at, isNumber } from "./text";

export interface Point {
  /** Milliseconds since the epoch. */
  time: number;
  value: number;
}

/** The most points of a series: an hour at an interval of two seconds. Older ones are dropped. */
const POINTS_MAX = 1_800;

/** Remembers counters of this visit. The key names the object and the field. */
export class History {
  private series = new Map<string, Point[]>();

  add(key: string, time: number, value: unknown): void {
    if (!isNumber(value)) return;
    const points = this.series.get(key) ?? [];
    const last = points.at(-1);
    if (last && last.time >= time) return;
    // A counter that went back belongs to a broker that was started again.
    if (last && value < last.value && key.startsWith("count:")) points.length = 0;
    points.push({ time, value });
    if (points.length > POINTS_MAX) points.shift();
    this.series.set(key, points);
  }

  points(key: string): Point[] {
    return this.series.get(key) ?? [];
  }

  clear(): void {
    this.series.clear();
  }
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

/** Returns RabbitMQ's samples of a field, oldest first; undefined if the broker keeps none. */
export function samples(row: unknown, field: string): Point[] | undefined {
  const list = at(row, `${field}_details.samples`);
  if (!Array.isArray(list) || list.length === 0) return undefined;
  return (list as { sample?: unknown; timestamp?: unknown }[])
    .flatMap(({ sample, timestamp }) => (isNumber(sample) && isNumber(timestamp) ? [{ time: timestamp, value: sample }] : []))
    .sort((a, b) => a.time - b.time);
}

/** Returns the present rate of a counter. */
export function present(row: unknown, field: string, polled: Point[]): number | undefined {
  const said = at(row, `${field}_details.rate`);
  if (isNumber(said)) return said;
  return differences(polled.slice(-2))[0]?.value;
}
