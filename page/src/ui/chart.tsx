/** Charts over time. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Point } from "../lib/rates";
import { visible } from "../lib/text";
import { theme } from "../lib/theme";

export interface Line {
  label: string;
  /** The number of the colour, from 1; the style sheet has them. */
  colour: number;
  points: Point[];
}

const HEIGHT = 150;

interface ChartProps {
  title: string;
  lines: Line[];
  format: (value: number) => string;
  /** The length of the time axis, in seconds. */
  span: number;
}

export function Chart({ title, lines, format, span }: ChartProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>();
  const [dark, setDark] = useState(false);
  const chosen = theme.use();
  useEffect(() => {
    const media = matchMedia("(prefers-color-scheme: dark)");
    const update = () => setDark(chosen === "dark" || (chosen === "auto" && media.matches));
    update();
    media.addEventListener("change", update);
    return () => media.removeEventListener("change", update);
  }, [chosen]);
  const shape = lines.map((line) => line.label).join("|");
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const css = getComputedStyle(element);
    const colour = (name: string) => css.getPropertyValue(name).trim();
    const axis: uPlot.Axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    plot.current = new uPlot(
      {
        width: Math.max(200, element.clientWidth),
        height: HEIGHT,
        legend: { show: false },
        cursor: { show: false },
        padding: [8, 8, 0, 0],
        scales: { x: { time: true }, y: { range: (_, __, max) => [0, Math.max(1, (max ?? 0) * 1.1)] } },
        axes: [{ ...axis, size: 28, grid: { show: false }, values: (_, ticks, __, ___, step) => ticks.map((tick) => clock(tick, step)) }, { ...axis, size: 52, values: (_, ticks) => ticks.map((tick) => format(tick)) }],
        series: [{}, ...lines.map((line) => ({ label: line.label, stroke: colour(`--line-${line.colour}`), width: 1.5, points: { show: false }, spanGaps: true }))],
      },
      joined(lines, span),
      element,
    );
    const watch = new ResizeObserver(() => plot.current?.setSize({ width: Math.max(200, element.clientWidth), height: HEIGHT }));
    watch.observe(element);
    return () => {
      watch.disconnect();
      plot.current?.destroy();
      plot.current = undefined;
    };
  }, [shape, dark, span]);
  useEffect(() => {
    plot.current?.setData(joined(lines, span));
  });
  const last = (line: Line) => line.points.at(-1)?.value;
  const spoken = lines.map((line) => `${line.label} ${last(line) === undefined ? "unknown" : format(last(line) ?? 0)}`).join(", ");
  return (
    <figure class="chart">
      <figcaption>{title}</figcaption>
      <div class="plot" ref={box} role="img" aria-label={`${title}: ${visible(spoken)}`} />
      <ul class="legend">
        {lines.map((line) => (
          <li>
            <span class={`key c${line.colour}`} aria-hidden="true" />
            {line.label} <b>{last(line) === undefined ? "–" : format(last(line) ?? 0)}</b>
          </li>
        ))}
      </ul>
    </figure>
  );
}

/** The time of day at a tick, in seconds since the epoch. The seconds are shown if ticks are closer than a minute. */
function clock(tick: number, step: number): string {
  const date = new Date(tick * 1000);
  const two = (n: number) => String(n).padStart(2, "0");
  const minutes = `${two(date.getHours())}:${two(date.getMinutes())}`;
  return step < 60 ? `${minutes}:${two(date.getSeconds())}` : minutes;
}

/** Puts the lines on one time axis, which ends with the newest point. */
function joined(lines: Line[], span: number): uPlot.AlignedData {
  const times = [...new Set(lines.flatMap((line) => line.points.map((point) => point.time)))].sort((a, b) => a - b);
  const end = times.at(-1) ?? Date.now();
  const inside = times.filter((time) => time >= end - span * 1000);
  const axis = [(end - span * 1000) / 1000, ...inside.map((time) => time / 1000)];
  if (inside.length === 0) {
    // Without a second time there is no axis.
    return [[...axis, end / 1000], ...lines.map(() => [null, null])];
  }
  const values = lines.map((line) => {
    const by = new Map(line.points.map((point) => [point.time, point.value]));
    return [null, ...inside.map((time) => by.get(time) ?? null)];
  });
  return [axis, ...values];
}
