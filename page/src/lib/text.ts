/** How names, numbers and times are shown. */

/** What is shown where the broker says nothing. */
export const DASH = "–";

/** A part of a text. The escaped ones stand for characters that cannot be seen. */
export interface Piece {
  text: string;
  escaped: boolean;
}

/** Control characters, and those that reorder or hide text. With the flag `g`, only for `replace`, `search` and `matchAll`. */
export const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/gu;

const SHORT: Record<string, string> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

function escape(character: string): string {
  return SHORT[character] ?? `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
}

/** Splits a name into what can be seen and what must be escaped. */
export function pieces(name: string): Piece[] {
  const found: Piece[] = [];
  let done = 0;
  for (const match of name.matchAll(HIDDEN)) {
    if (match.index > done) found.push({ text: name.slice(done, match.index), escaped: false });
    found.push({ text: escape(match[0]), escaped: true });
    done = match.index + match[0].length;
  }
  if (done < name.length) found.push({ text: name.slice(done), escaped: false });
  return found;
}

/** Returns a name on one line, with hidden characters escaped. */
export function visible(name: string): string {
  return name.replace(HIDDEN, escape);
}

export function isNumber(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value);
}

/** A number with separators: 1,234,567. */
export function count(value: unknown): string {
  return isNumber(value) ? value.toLocaleString("en-US") : DASH;
}

/** A short number for charts: 1.2M. */
export function short(value: number): string {
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]] as const) {
    if (Math.abs(value) >= size) return `${trim(value / size)}${unit}`;
  }
  return trim(value);
}

function trim(value: number): string {
  const places = Math.abs(value) >= 100 || Number.isInteger(value) ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toFixed(places).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
}

/** Events in a second: 12.3/s. */
export function rate(value: unknown): string {
  if (!isNumber(value)) return DASH;
  return `${value >= 100 ? Math.round(value).toLocaleString("en-US") : trim(value)}/s`;
}

/** Octets in a second: 1.5 MiB/s. */
export function bytesRate(value: unknown): string {
  return isNumber(value) ? `${bytes(value)}/s` : DASH;
}

/** A part of a whole, from 0 to 1: 42 %. */
export function percent(value: unknown): string {
  return isNumber(value) ? `${Math.round(value * 100)} %` : DASH;
}

/** Octets with a binary unit: 1.5 MiB. */
export function bytes(value: unknown): string {
  if (!isNumber(value)) return DASH;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${trim(size)} ${units[unit]}`;
}

/** Octets that somebody has set. A whole number of kB, MB, ... is also shown as such, as on the command line: 50 MB (47.7 MiB). */
export function setBytes(value: unknown): string {
  if (!isNumber(value)) return DASH;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let whole = value;
  let unit = 0;
  while (whole > 0 && whole % 1000 === 0 && unit < units.length - 1) {
    whole /= 1000;
    unit += 1;
  }
  return unit > 0 && whole < 1000 ? `${whole} ${units[unit]} (${bytes(value)})` : bytes(value);
}

/** A time span from milliseconds: its two largest units. */
export function duration(ms: unknown): string {
  if (!isNumber(ms) || ms < 0) return DASH;
  const seconds = Math.floor(ms / 1000);
  const parts = [[Math.floor(seconds / 86400), "d"], [Math.floor(seconds / 3600) % 24, "h"], [Math.floor(seconds / 60) % 60, "min"], [seconds % 60, "s"]] as const;
  const first = parts.findIndex(([n]) => n > 0);
  if (first < 0) return "0 s";
  return parts.slice(first, first + 2).filter(([n]) => n > 0).map(([n, unit]) => `${n} ${unit}`).join(" ");
}

/** A point in time, from milliseconds since the epoch, in the time zone of the browser. */
export function time(ms: unknown): string {
  if (!isNumber(ms)) return DASH;
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return DASH;
  const two = (n: number) => String(n).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** Returns the value at a path such as `message_stats.publish`. */
export function at(row: unknown, dotted: string): unknown {
  return dotted.split(".").reduce<unknown>(
    (value, key) => (typeof value === "object" && value !== null ? (value as Record<string, unknown>)[key] : undefined),
    row,
  );
}
