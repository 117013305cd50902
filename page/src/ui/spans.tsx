/** The time span of the charts of a view. It is in the address. */
import type { JSX } from "preact";
import { change, place } from "../lib/place";

/** The spans: label, length in seconds, and the distance of the samples that the broker is asked for. */
const SPANS: [string, number, number][] = [["1 min", 60, 5], ["10 min", 600, 5], ["1 h", 3600, 60], ["8 h", 28_800, 600], ["1 day", 86_400, 1800]];

/** The groups of figures of which the broker sends samples. */
const PARTS = ["lengths", "msg_rates", "data_rates", "node_stats"];

/** For how long the broker keeps samples of connections, channels, sessions and virtual hosts, in seconds. */
export const BRIEF = 600;

/** The span of the charts unless the view has another, or the user chooses. */
const STANDARD = "10 min";

interface Span {
  label: string;
  seconds: number;
  /** The parameters with which the broker sends samples. */
  query: string;
  /** The label of the span that is shown unless the user chooses. */
  standard: string;
}

/** Returns the chosen span, or the standard one of the view. A hook. */
export function useSpan(standard = STANDARD): Span {
  const chosen = place.use().query["span"] ?? standard;
  const [label, seconds, step] = SPANS.find(([one]) => one === chosen) ?? SPANS.find(([one]) => one === standard) ?? ["", 60, 5];
  return { label, seconds, standard, query: PARTS.map((part) => `${part}_age=${seconds}&${part}_incr=${step}`).join("&") };
}

/** `longest` is how far the samples reach back, in seconds, if that is not a day. */
export function SpanChoice({ now, longest = Number.POSITIVE_INFINITY }: { now: Span; longest?: number }): JSX.Element {
  return (
    <div class="segments" role="group" aria-label="Time span">
      {SPANS.filter(([, seconds]) => seconds <= longest).map(([label]) => <button type="button" aria-pressed={label === now.label} onClick={() => change({ span: label === now.standard ? undefined : label })}>{label}</button>)}
    </div>
  );
}
