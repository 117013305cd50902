/** Charts over time. The values at one time are shown under the mouse, and with the arrow keys. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { type Point, differences, samples } from "../lib/rates";
import { DASH, bytes, rate, short, time, visible } from "../lib/text";
import { theme } from "../lib/theme";

export interface Line {
  label: string;
  /** The number of the colour, from 1; the style sheet has them. */
  colour: number;
  points: Point[];
}

/** What a chart shows: the words behind its title, how a value is written, and whether its axis counts in powers of two. */
export interface Unit {
  words: string;
  format: (value: number) => string;
  binary?: boolean;
}

export const PER_SECOND: Unit = { words: "messages per second", format: (value) => rate(value) };
export const MESSAGES: Unit = { words: "messages", format: short };
export const BYTES: Unit = { words: "bytes", format: (value) => bytes(value), binary: true };
export const BYTES_PER_SECOND: Unit = { words: "bytes per second", format: (value) => `${bytes(value)}/s`, binary: true };

/** Returns the lines of counters, whose rates are shown. */
export function rateLines(row: unknown, fields: [string, string][]): Line[] {
  return fields.map(([field, label], i) => ({ label, colour: i + 1, points: differences(samples(row, field)) }));
}

/** Returns the lines of values that are shown as they are. */
export function valueLines(row: unknown, fields: [string, string][]): Line[] {
  return fields.map(([field, label], i) => ({ label, colour: i + 1, points: samples(row, field) }));
}

const HEIGHT = 150;

/** The least distance of two times on the axis, in pixels: a time with seconds takes 50 of them. */
const TIME_SPACE = 72;

/** The distances of lines on an axis of bytes. */
const BINARY_STEPS = [1, 1024, 1024 ** 2, 1024 ** 3, 1024 ** 4].flatMap((unit) => [1, 2, 4, 8, 16, 32, 64, 128, 256, 512].map((n) => n * unit));

interface ChartProps {
  title: string;
  unit: Unit;
  lines: Line[];
  /** The length of the time axis, in seconds. */
  span: number;
}

export function Chart({ title, unit, lines, span }: ChartProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>();
  const [dark, setDark] = useState(false);
  /** The time that the keyboard has chosen. It stays chosen when the line moves on. */
  const held = useRef<number>();
  /** The time under the mouse or of the keyboard, in milliseconds since the epoch. */
  const [shown, setShown] = useState<number | null>(null);
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
    const under = (now: uPlot) => {
      // New samples move the line below the cursor before the time that was chosen is found again.
      if (held.current !== undefined) return setShown(held.current);
      const index = now.cursor.idx;
      const at = index === null || index === undefined ? undefined : now.data[0][index];
      setShown(at === undefined || index === 0 ? null : Math.round(at * 1000));
    };
    plot.current = new uPlot(
      {
        width: Math.max(200, element.clientWidth),
        height: HEIGHT,
        legend: { show: false },
        cursor: { x: true, y: false, drag: { x: false, y: false }, points: { size: 6 } },
        // The last time stands below the end of the axis, half of it to the right.
        padding: [8, 28, 0, 0],
        scales: { x: { time: true }, y: { range: (_, __, max) => [0, Math.max(1, (max ?? 0) * 1.1)] } },
        axes: [
          { ...axis, size: 28, space: TIME_SPACE, grid: { show: false }, values: (_, ticks, __, ___, step) => ticks.map((tick) => clock(tick, step)) },
          { ...axis, size: (_, labels) => 14 + 6.2 * Math.max(2, ...(labels ?? []).map((label) => label.length)), values: (_, ticks) => ticks.map((tick) => unit.format(tick)), ...(unit.binary ? { incrs: BINARY_STEPS } : {}) },
        ],
        series: [{}, ...lines.map((line) => ({ label: line.label, stroke: colour(`--line-${line.colour}`), width: 1.5, points: { show: alone }, spanGaps: false }))],
        hooks: { setCursor: [under] },
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
    if (held.current !== undefined) move(held.current);
  }, [lines, span]);
  const times = inside(lines, span);
  const at = shown !== null && times.includes(shown) ? shown : undefined;
  const place = (time: number) => lines.map((line) => ({ line, value: line.points.find((point) => point.time === time)?.value ?? null }));
  const newest = times.at(-1);
  const now = newest === undefined ? lines.map((line) => ({ line, value: null })) : place(newest);
  const written = (value: number | null) => (value === null ? DASH : unit.format(value));
  const spoken = `${at === undefined ? "now" : time(at)}: ${(at === undefined ? now : place(at)).map(({ line, value }) => `${line.label} ${value === null ? "unknown" : unit.format(value)}`).join(", ")}`;
  const move = (to: number | undefined) => {
    const drawn = plot.current;
    if (!drawn || to === undefined) return;
    const left = drawn.valToPos(to / 1000, "x");
    drawn.setCursor({ left, top: 0 });
  };
  const hide = () => {
    held.current = undefined;
    plot.current?.setCursor({ left: -10, top: -10 });
    setShown(null);
  };
  const key = (event: KeyboardEvent) => {
    const index = at === undefined ? times.length : times.indexOf(at);
    const to = { ArrowLeft: Math.max(0, index - 1), ArrowRight: Math.min(times.length - 1, index + 1), Home: 0, End: times.length - 1 }[event.key];
    if (event.key === "Escape") hide();
    if (to === undefined) return;
    event.preventDefault();
    held.current = times[to];
    move(times[to]);
  };
  const left = at === undefined || !plot.current ? 0 : plot.current.valToPos(at / 1000, "x") + plot.current.bbox.left / devicePixelRatio;
  const width = box.current?.clientWidth ?? 0;
  return (
    <figure class="chart">
      <figcaption>{title} <span class="unit">({unit.words})</span></figcaption>
      <div class="plotted">
        <div
          class="plot"
          ref={box}
          role="slider"
          tabIndex={0}
          aria-label={`${title} in ${unit.words}`}
          aria-valuemin={0}
          aria-valuemax={Math.max(0, times.length - 1)}
          aria-valuenow={Math.max(0, at === undefined ? times.length - 1 : times.indexOf(at))}
          aria-valuetext={visible(spoken)}
          onKeyDown={key}
          onBlur={hide}
          onMouseMove={() => (held.current = undefined)}
        />
        {at !== undefined && (
          <div class="under" aria-hidden="true" style={left > width / 2 ? { right: `${width - left + 10}px` } : { left: `${left + 10}px` }}>
            <b>{time(at).slice(11)}</b>
            {place(at).map(({ line, value }) => <span><span class={`key c${line.colour}`} />{line.label} <b>{written(value)}</b></span>)}
          </div>
        )}
      </div>
      <ul class="legend">
        {now.map(({ line, value }) => <li><span class={`key c${line.colour}`} aria-hidden="true" />{line.label} <b>{written(value)}</b></li>)}
      </ul>
    </figure>
  );
}

/** Shows the point of a value that has no neighbour, because it has no line. */
function alone(plot: uPlot, line: number): boolean {
  return (plot.data[line] ?? []).filter((value) => value !== null && value !== undefined).length === 1;
}

/** The time of day at a tick, in seconds since the epoch. The seconds are shown if ticks are closer than a minute. */
function clock(tick: number, step: number): string {
  const date = new Date(tick * 1000);
  const two = (n: number) => String(n).padStart(2, "0");
  const minutes = `${two(date.getHours())}:${two(date.getMinutes())}`;
  return step < 60 ? `${minutes}:${two(date.getSeconds())}` : minutes;
}

/** Returns the times of all points of the axis, which ends with the newest one. They are in milliseconds since the epoch. */
function inside(lines: Line[], span: number): number[] {
  const times = [...new Set(lines.flatMap((line) => line.points.map((point) => point.time)))].sort((a, b) => a - b);
  const end = times.at(-1) ?? 0;
  return times.filter((time) => time >= end - span * 1000);
}

/** Puts the lines on one time axis. */
function joined(lines: Line[], span: number): uPlot.AlignedData {
  const times = inside(lines, span);
  const end = times.at(-1) ?? Date.now();
  const axis = [(end - span * 1000) / 1000, ...times.map((time) => time / 1000)];
  if (times.length === 0) {
    // Without a second time there is no axis.
    return [[...axis, end / 1000], ...lines.map(() => [null, null])];
  }
  const values = lines.map((line) => {
    const by = new Map(line.points.map((point) => [point.time, point.value]));
    return [null, ...times.map((time) => by.get(time) ?? null)];
  });
  return [axis, ...values];
}
