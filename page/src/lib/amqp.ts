/** Reads values in the encoding of AMQP 1.0 (part 1 of the standard) and writes them as text. */

/** The deepest nesting that is read. Deeper values are refused, so that hostile ones cannot exhaust the stack. */
const DEPTH_MAX = 32;

/**
 * The most characters of all descriptors that are shown. An array has one descriptor, which is shown at each item, so a
 * hostile array could take gigabytes. A body with more is refused.
 */
const DESCRIPTORS_MAX = 1024 * 1024;

/** The descriptors of the sections of a body [3.2.6 to 3.2.8]. */
const SECTIONS: Record<string, string> = { "117": "data", "118": "sequence", "119": "value" };

export class AmqpReader {
  private at = 0;
  /** The number of characters of descriptors so far. */
  private described = 0;
  private readonly view: DataView;

  constructor(private readonly octets: Uint8Array) {
    this.view = new DataView(octets.buffer, octets.byteOffset, octets.byteLength);
  }

  get ended(): boolean {
    return this.at >= this.octets.length;
  }

  /** Reads one value. Throws a `RangeError` if it is incomplete or has an unknown type. */
  value(depth = 0): string {
    return this.reader(depth)();
  }

  /** Reads a constructor [1.2]. Returns the function that reads a value of it: an array has one constructor for all items. */
  private reader(depth: number): () => string {
    if (depth > DEPTH_MAX) throw new RangeError("nested too deeply");
    const code = this.take(1)[0] ?? 0;
    if (code !== 0x00) return () => this.ofType(code, depth);
    const descriptor = this.value(depth + 1);
    const described = this.reader(depth + 1);
    const section = SECTIONS[descriptor];
    const before = section === "value" ? "" : `${section ?? `@${descriptor}`} `;
    return () => {
      this.described += before.length;
      if (this.described > DESCRIPTORS_MAX) throw new RangeError("too many descriptors");
      return before + described();
    };
  }

  private ofType(code: number, depth: number): string {
    switch (code) {
      case 0x40: return "null";
      case 0x41: return "true";
      case 0x42: return "false";
      case 0x43: case 0x44: return "0";
      case 0x45: return "[]";
      case 0x50: case 0x52: case 0x53: return String(this.view.getUint8(this.step(1)));
      case 0x51: case 0x54: case 0x55: return String(this.view.getInt8(this.step(1)));
      case 0x56: return this.view.getUint8(this.step(1)) === 0 ? "false" : "true";
      case 0x60: return String(this.view.getUint16(this.step(2)));
      case 0x61: return String(this.view.getInt16(this.step(2)));
      case 0x70: return String(this.view.getUint32(this.step(4)));
      case 0x71: return String(this.view.getInt32(this.step(4)));
      case 0x72: return String(this.view.getFloat32(this.step(4)));
      case 0x73: return JSON.stringify(String.fromCodePoint(this.view.getUint32(this.step(4))));
      case 0x80: return String(this.view.getBigUint64(this.step(8)));
      case 0x81: return String(this.view.getBigInt64(this.step(8)));
      case 0x82: return String(this.view.getFloat64(this.step(8)));
      case 0x83: return new Date(Number(this.view.getBigInt64(this.step(8)))).toISOString();
      case 0x74: return `decimal32 ${this.hex(4)}`;
      case 0x84: return `decimal64 ${this.hex(8)}`;
      case 0x94: return `decimal128 ${this.hex(16)}`;
      case 0x98: return this.hex(16).replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
      case 0xa0: return `0x${this.hex(this.view.getUint8(this.step(1)))}`;
      case 0xb0: return `0x${this.hex(this.view.getUint32(this.step(4)))}`;
      case 0xa1: return this.text(this.view.getUint8(this.step(1)), '"');
      case 0xb1: return this.text(this.view.getUint32(this.step(4)), '"');
      case 0xa3: return this.text(this.view.getUint8(this.step(1)), "");
      case 0xb3: return this.text(this.view.getUint32(this.step(4)), "");
      case 0xc0: case 0xd0: return this.items(code === 0xc0, depth, (list) => `[${list.join(", ")}]`);
      case 0xc1: case 0xd1:
        return this.items(code === 0xc1, depth, (list) => {
          const pairs = list.flatMap((key, i) => (i % 2 === 0 ? [`${key}: ${list[i + 1] ?? "null"}`] : []));
          return `{${pairs.join(", ")}}`;
        });
      case 0xe0: case 0xf0: return this.array(code === 0xe0, depth);
      default: throw new RangeError(`unknown type 0x${code.toString(16)}`);
    }
  }

  private items(small: boolean, depth: number, join: (list: string[]) => string): string {
    const count = this.head(small);
    return join(Array.from({ length: count }, () => this.value(depth + 1)));
  }

  private array(small: boolean, depth: number): string {
    const count = this.head(small);
    const item = this.reader(depth + 1);
    return `[${Array.from({ length: count }, item).join(", ")}]`;
  }

  /** Reads size and count of a list, map or array. Each item has at least one octet, except items without octets of an array. */
  private head(small: boolean): number {
    const width = small ? 1 : 4;
    const read = () => (small ? this.view.getUint8(this.step(1)) : this.view.getUint32(this.step(4)));
    const size = read();
    if (size < width || this.at + size > this.octets.length) throw new RangeError("incomplete");
    const count = read();
    if (count > size) throw new RangeError("more items than octets");
    return count;
  }

  private text(length: number, quote: string): string {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(this.take(length));
    return quote ? JSON.stringify(text) : text;
  }

  private hex(length: number): string {
    return Array.from(this.take(length), (octet) => octet.toString(16).padStart(2, "0")).join("");
  }

  private take(length: number): Uint8Array {
    const from = this.step(length);
    return this.octets.subarray(from, from + length);
  }

  private step(length: number): number {
    const from = this.at;
    if (from + length > this.octets.length) throw new RangeError("incomplete");
    this.at = from + length;
    return from;
  }
}
