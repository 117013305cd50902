/** Reads MessagePack and CBOR, and writes them as JSON is written, with what JSON has not: octets, tags, numbers of 64 bits. */

/** Deeper values are hostile, or no such format. */
const DEPTH_MAX = 64;

const utf8 = new TextDecoder("utf-8", { fatal: true });

class Octets {
  private at = 0;
  private readonly view: DataView;

  constructor(private readonly octets: Uint8Array) {
    this.view = new DataView(octets.buffer, octets.byteOffset, octets.byteLength);
  }

  get left(): number {
    return this.octets.length - this.at;
  }

  /** Takes octets. Throws a `RangeError` if there are not as many. */
  take(count: number): Uint8Array {
    if (count > this.left) throw new RangeError("cut short");
    this.at += count;
    return this.octets.subarray(this.at - count, this.at);
  }

  peek(): number | undefined {
    return this.octets[this.at];
  }

  unsigned(size: 1 | 2 | 4 | 8): bigint {
    return this.take(size).reduce((value, octet) => (value << 8n) | BigInt(octet), 0n);
  }

  signed(size: 1 | 2 | 4 | 8): bigint {
    return BigInt.asIntN(size * 8, this.unsigned(size));
  }

  /** A number of things, of which each takes at least an octet. */
  count(size: 1 | 2 | 4 | 8): number {
    return this.fits(this.unsigned(size));
  }

  fits(count: bigint | number): number {
    if (count > this.left) throw new RangeError("cut short");
    return Number(count);
  }

  float(size: 4 | 8): string {
    const at = this.at;
    this.take(size);
    return number(size === 4 ? this.view.getFloat32(at) : this.view.getFloat64(at));
  }

  half(): string {
    const bits = Number(this.unsigned(2));
    const exponent = (bits >> 10) & 0x1f;
    const fraction = bits & 0x3ff;
    const size = exponent === 0 ? fraction * 2 ** -24 : exponent === 31 ? (fraction ? NaN : Infinity) : (1 + fraction / 1024) * 2 ** (exponent - 15);
    return number(bits & 0x8000 ? -size : size);
  }

  text(count: number): string {
    return JSON.stringify(utf8.decode(this.take(count)));
  }

  binary(count: number): string {
    return `h'${Array.from(this.take(count), (octet) => octet.toString(16).padStart(2, "0")).join("")}'`;
  }
}

function number(value: number): string {
  return Number.isInteger(value) && Math.abs(value) < 1e21 ? value.toFixed(1) : String(value);
}

type Read = (octets: Octets, depth: number) => string;

/** Writes entries between two brackets, each in a line of its own. */
function block(open: string, entries: string[], close: string): string {
  return entries.length === 0 ? open + close : `${open}\n  ${entries.join(",\n").replaceAll("\n", "\n  ")}\n${close}`;
}

function list(octets: Octets, depth: number, count: number, read: Read): string {
  return block("[", Array.from({ length: octets.fits(count) }, () => read(octets, depth)), "]");
}

function map(octets: Octets, depth: number, count: number, read: Read): string {
  return block("{", Array.from({ length: octets.fits(count) }, () => `${read(octets, depth)}: ${read(octets, depth)}`), "}");
}

function messagePack(octets: Octets, depth: number): string {
  if (depth > DEPTH_MAX) throw new RangeError("too deep");
  const [first = 0] = octets.take(1);
  const inner = depth + 1;
  if (first <= 0x7f) return String(first);
  if (first <= 0x8f) return map(octets, inner, first & 0x0f, messagePack);
  if (first <= 0x9f) return list(octets, inner, first & 0x0f, messagePack);
  if (first <= 0xbf) return octets.text(first & 0x1f);
  if (first >= 0xe0) return String(first - 0x100);
  const extension = (count: number) => `ext(${octets.signed(1)}, ${octets.binary(count)})`;
  switch (first) {
    case 0xc0: return "null";
    case 0xc2: return "false";
    case 0xc3: return "true";
    case 0xc4: return octets.binary(octets.count(1));
    case 0xc5: return octets.binary(octets.count(2));
    case 0xc6: return octets.binary(octets.count(4));
    case 0xc7: return extension(octets.count(1));
    case 0xc8: return extension(octets.count(2));
    case 0xc9: return extension(octets.count(4));
    case 0xca: return octets.float(4);
    case 0xcb: return octets.float(8);
    case 0xcc: return String(octets.unsigned(1));
    case 0xcd: return String(octets.unsigned(2));
    case 0xce: return String(octets.unsigned(4));
    case 0xcf: return String(octets.unsigned(8));
    case 0xd0: return String(octets.signed(1));
    case 0xd1: return String(octets.signed(2));
    case 0xd2: return String(octets.signed(4));
    case 0xd3: return String(octets.signed(8));
    case 0xd4: return extension(1);
    case 0xd5: return extension(2);
    case 0xd6: return extension(4);
    case 0xd7: return extension(8);
    case 0xd8: return extension(16);
    case 0xd9: return octets.text(octets.count(1));
    case 0xda: return octets.text(octets.count(2));
    case 0xdb: return octets.text(octets.count(4));
    case 0xdc: return list(octets, inner, octets.count(2), messagePack);
    case 0xdd: return list(octets, inner, octets.count(4), messagePack);
    case 0xde: return map(octets, inner, octets.count(2), messagePack);
    case 0xdf: return map(octets, inner, octets.count(4), messagePack);
    default: throw new RangeError("no such type");
  }
}

/** Ends lists, maps, texts and octets that do not say how long they are [RFC 8949, 3.2.1]. */
const BREAK = 0xff;

function cbor(octets: Octets, depth: number): string {
  if (depth > DEPTH_MAX) throw new RangeError("too deep");
  const [first = 0] = octets.take(1);
  const [major, info] = [first >> 5, first & 0x1f];
  const inner = depth + 1;
  if (major === 7) {
    switch (info) {
      case 20: return "false";
      case 21: return "true";
      case 22: return "null";
      case 23: return "undefined";
      case 25: return octets.half();
      case 26: return octets.float(4);
      case 27: return octets.float(8);
      default: throw new RangeError("no such value");
    }
  }
  const until = (entry: () => string) => {
    const entries: string[] = [];
    while (octets.peek() !== BREAK) entries.push(entry());
    octets.take(1);
    return entries;
  };
  if (info === 31) {
    switch (major) {
      case 2:
      case 3: return `(_ ${until(() => cbor(octets, inner)).join(", ")})`;
      case 4: return block("[", until(() => cbor(octets, inner)), "]");
      case 5: return block("{", until(() => `${cbor(octets, inner)}: ${cbor(octets, inner)}`), "}");
      default: throw new RangeError("no such length");
    }
  }
  const size = ([1, 2, 4, 8] as const)[info - 24];
  if (info >= 24 && size === undefined) throw new RangeError("no such length");
  const value = size === undefined ? BigInt(info) : octets.unsigned(size);
  switch (major) {
    case 0: return String(value);
    case 1: return String(-1n - value);
    case 2: return octets.binary(octets.fits(value));
    case 3: return octets.text(octets.fits(value));
    case 4: return list(octets, inner, octets.fits(value), cbor);
    case 5: return map(octets, inner, octets.fits(value), cbor);
    default: return `${value}(${cbor(octets, inner)})`;
  }
}

/** Returns the value as text, or undefined if the octets are not exactly one value of the format. */
function whole(octets: Uint8Array, read: Read): string | undefined {
  try {
    const reader = new Octets(octets);
    const text = read(reader, 0);
    return reader.left === 0 ? text : undefined;
  } catch {
    // Another format, or cut short: the octets are shown instead.
    return undefined;
  }
}

export interface Compact {
  kind: "MessagePack" | "CBOR";
  text: string;
  /** True if the octets could be the other format as well. */
  unsure: boolean;
}

/**
 * Recognises MessagePack and CBOR. Without a content type that says so, only maps and lists are recognised: any octet is a
 * number in both formats.
 */
export function compact(octets: Uint8Array, contentType: string): Compact | undefined {
  const says = (name: string) => contentType.includes(name);
  const first = octets[0] ?? 0;
  const pack = says("msgpack") || (!says("cbor") && ((first >= 0x80 && first <= 0x9f) || (first >= 0xdc && first <= 0xdf))) ? whole(octets, messagePack) : undefined;
  const concise = says("cbor") || (!says("msgpack") && ((first >= 0x80 && first <= 0xbf) || first === 0xd9)) ? whole(octets, cbor) : undefined;
  if (pack !== undefined) return { kind: "MessagePack", text: pack, unsure: concise !== undefined };
  return concise === undefined ? undefined : { kind: "CBOR", text: concise, unsure: false };
}
