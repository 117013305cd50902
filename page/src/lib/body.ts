/** Recognises what the body of a message is, and shows it as that. */
import { AmqpReader } from "./amqp";
import { compact } from "./compact";

export type Kind = "empty" | "JSON" | "text" | "AMQP value" | "MessagePack" | "CBOR" | "hex";

export interface Shown {
  kind: Kind;
  text: string;
  /** What else is known: a compression, for example. */
  note?: string;
}

export interface Message {
  payload?: string;
  payload_encoding?: string;
  payload_bytes?: number;
  properties?: { content_type?: unknown; content_encoding?: unknown; type?: unknown };
}

/** Formats that begin with known octets. */
const MAGIC: [number[], string][] = [
  [[0x1f, 0x8b], "gzip"],
  [[0x28, 0xb5, 0x2f, 0xfd], "Zstandard"],
  [[0x04, 0x22, 0x4d, 0x18], "LZ4"],
  [[0x50, 0x4b, 0x03, 0x04], "ZIP"],
  [[0x89, 0x50, 0x4e, 0x47], "PNG"],
  [[0xff, 0xd8, 0xff], "JPEG"],
  [[0x25, 0x50, 0x44, 0x46], "PDF"],
  [[0xff, 0x06, 0x00, 0x00, 0x73, 0x4e, 0x61, 0x50, 0x70, 0x59], "Snappy"],
];

/** What a body is: its text, or its octets if it is nothing else. */
export type Body = Shown | Octets;

interface Octets {
  kind: "hex";
  octets: Uint8Array;
  note?: string;
}

export function recognise(message: Message): Shown {
  const body = read(message);
  const shown = "octets" in body ? { ...body, text: hex(body.octets) } : body;
  const payload = message.payload ?? "";
  const whole = message.payload_bytes;
  const have = message.payload_encoding === "base64" ? decode64(payload).length : new TextEncoder().encode(payload).length;
  if (whole !== undefined && whole > have) {
    const cut = `the first ${have.toLocaleString("en-US")} of ${whole.toLocaleString("en-US")} octets`;
    return { kind: shown.kind, text: shown.text, note: shown.note ? `${shown.note}, ${cut}` : cut };
  }
  return { kind: shown.kind, text: shown.text, ...(shown.note ? { note: shown.note } : {}) };
}

/** Recognises a body, and does not write its octets as text yet, which takes long for a large one. */
export function read(message: Message): Body {
  const payload = message.payload ?? "";
  if (payload.length === 0) return { kind: "empty", text: "" };
  return message.payload_encoding === "base64" ? binary(message, decode64(payload)) : textual(message, payload);
}

function textual(message: Message, payload: string): Body {
  const begins = payload.trimStart()[0] ?? "";
  const says = String(message.properties?.content_type ?? "").includes("json");
  if (says || begins === "{" || begins === "[") {
    try {
      return { kind: "JSON", text: pretty(payload) };
    } catch {
      return { kind: "text", text: payload, ...(says ? { note: "its content type says JSON, but it is none" } : {}) };
    }
  }
  if (message.properties?.type === "amqp-1.0") {
    const value = amqp(new TextEncoder().encode(payload));
    if (value !== undefined) return { kind: "AMQP value", text: value };
  }
  // Text with many control characters is easier to read as octets.
  const controls = payload.match(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g)?.length ?? 0;
  if (controls * 10 > payload.length) return { kind: "hex", octets: new TextEncoder().encode(payload) };
  return { kind: "text", text: payload };
}

function binary(message: Message, octets: Uint8Array): Body {
  if (message.properties?.type === "amqp-1.0") {
    const value = amqp(octets);
    if (value !== undefined) return { kind: "AMQP value", text: value };
  }
  const decoded = compact(octets, String(message.properties?.content_type ?? ""));
  if (decoded !== undefined) return { kind: decoded.kind, text: decoded.text, ...(decoded.unsure ? { note: "it could be CBOR as well" } : {}) };
  const magic = MAGIC.find(([start]) => start.every((octet, i) => octets[i] === octet));
  return { kind: "hex", octets, ...(magic ? { note: magic[1] } : {}) };
}

/**
 * Indents JSON. Numbers keep their digits, which `JSON.parse` would round, and names that occur twice stay.
 *
 * Throws a `SyntaxError` if the text is not JSON.
 */
export function pretty(text: string): string {
  JSON.parse(text);
  let out = "";
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/gs)) {
    if (token === "{" || token === "[") {
      depth += 1;
      out += token + line();
    } else if (token === "}" || token === "]") {
      depth -= 1;
      const open = out.trimEnd();
      out = open.endsWith("{") || open.endsWith("[") ? open + token : out + line() + token;
    } else if (token === ",") {
      out += token + line();
    } else {
      out += token === ":" ? ": " : token;
    }
  }
  return out;
}

/** Octets as in `hexdump -C`: offset, sixteen octets, and those that are ASCII. */
export function hex(octets: Uint8Array): string {
  const lines: string[] = [];
  for (let start = 0; start < octets.length; start += 16) {
    const row = Array.from(octets.subarray(start, start + 16));
    const left = digits(row.slice(0, 8)).padEnd(23);
    const right = digits(row.slice(8)).padEnd(23);
    const ascii = row.map((octet) => (octet >= 0x20 && octet < 0x7f ? String.fromCharCode(octet) : ".")).join("");
    lines.push(`${start.toString(16).padStart(8, "0")}  ${left}  ${right}  ${ascii}`);
  }
  return lines.join("\n");
}

/** Octets in two digits each, between spaces. */
export function digits(octets: ArrayLike<number>): string {
  return Array.from(octets, (octet) => octet.toString(16).padStart(2, "0")).join(" ");
}

export function decode64(text: string): Uint8Array {
  try {
    const characters = atob(text);
    const octets = new Uint8Array(characters.length);
    for (let at = 0; at < octets.length; at++) octets[at] = characters.charCodeAt(at);
    return octets;
  } catch {
    // The API always sends base64. If it does not, the text itself is shown.
    return new TextEncoder().encode(text);
  }
}

/** Returns the values of an AMQP 1.0 body, or undefined if the octets are none. */
function amqp(octets: Uint8Array): string | undefined {
  try {
    const reader = new AmqpReader(octets);
    const values: string[] = [];
    while (!reader.ended) values.push(reader.value());
    return values.length > 0 ? values.join("\n") : undefined;
  } catch {
    // Not AMQP, or cut short: the octets are shown instead.
    return undefined;
  }
}
