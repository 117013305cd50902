// Clients of both protocols as bytes. They do only what a test tells them to: they grant no credit, settle nothing and
// read nothing by themselves, as clients do about which people ask why nothing moves.
import { connect } from "node:net";
import { HOSTILE } from "./broker.mjs";
import { PATIENCE_MS } from "./browser.mjs";

const NULL = Buffer.from([0x40]);
const TRUE = Buffer.from([0x41]);
const FALSE = Buffer.from([0x42]);
export const ATTACH = 0x12;
const [OPEN, BEGIN, FLOW, TRANSFER, DISPOSITION] = [0x10, 0x11, 0x13, 0x14, 0x15];
const SASL_INIT = 0x41;
const [COORDINATES, TARGET] = [0x28, 0x29];
/** The outcomes of a delivery [3.4]. `failed` is "modified" with delivery-failed. */
const OUTCOMES = { accepted: [0x24], released: [0x26], failed: [0x27, TRUE] };
/** A window that no test fills. */
const MANY = 2 ** 31 - 1;
/** The octets of a message in one frame. The broker takes frames of 128 KiB. */
const FRAME = 100_000;

function uint32(number) {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(number);
  return bytes;
}

const uint = (number) => Buffer.concat([Buffer.from([0x70]), uint32(number)]);
const ulong = (number) => Buffer.concat([Buffer.from([0x80]), uint32(Math.floor(number / 2 ** 32)), uint32(number % 2 ** 32)]);
const int = (number) => Buffer.concat([Buffer.from([0x71]), uint32(number)]);
const sized = (code, bytes) => Buffer.concat([Buffer.from([code]), uint32(bytes.length), bytes]);
const string = (text) => sized(0xb1, Buffer.from(text));
const binary = (bytes) => sized(0xb0, Buffer.from(bytes));
const symbol = (text) => sized(0xb3, Buffer.from(text));

function described(code, ...fields) {
  const body = Buffer.concat([uint32(fields.length), ...fields]);
  return Buffer.concat([Buffer.from([0x00, 0x53, code]), sized(0xd0, body)]);
}

const map = (...items) => sized(0xd1, Buffer.concat([uint32(items.length), ...items]));

function frame(body, channel = 0, kind = 0) {
  return Buffer.concat([uint32(body.length + 8), Buffer.from([2, kind, channel >> 8, channel & 255]), body]);
}

/** The part that both protocols share: a socket, and the frames that have arrived. */
class Peer {
  constructor(port) {
    this.input = Buffer.alloc(0);
    this.arrived = [];
    this.socket = connect(port, "127.0.0.1");
    this.socket.setNoDelay(true);
    // The broker may be stopped before its clients.
    this.socket.on("error", () => {});
    this.socket.on("data", (bytes) => {
      this.input = Buffer.concat([this.input, bytes]);
      for (let size = this.whole(); size > 0; size = this.whole()) {
        this.arrived.push(this.frameOf(this.input.subarray(0, size)));
        this.input = this.input.subarray(size);
      }
      this.wake?.();
    });
    this.socket.on("close", () => {
      this.closed = true;
      this.wake?.();
    });
  }

  write(...bytes) {
    this.socket.write(Buffer.concat(bytes));
  }

  /** Waits for frames of this kind, and returns the first of them. All frames before it are dropped. */
  async next(kind) {
    for (const end = Date.now() + PATIENCE_MS; Date.now() < end; ) {
      const at = this.arrived.findIndex((one) => one.kind === kind);
      if (at >= 0) return this.arrived.splice(0, at + 1).at(-1);
      if (this.closed) throw new Error(`the broker closed the connection instead of sending ${kind.toString(16)}: ${this.input.toString("latin1")}`);
      // Whatever comes first: a frame, the end, or the time to look at the clock.
      await new Promise((done) => {
        this.wake = done;
        setTimeout(done, 1000).unref();
      });
    }
    throw new Error(`the broker has not sent ${kind.toString(16)} within ${PATIENCE_MS} ms`);
  }

  /** Reads nothing from now on, as a program does that hangs. */
  deafen() {
    this.socket.pause();
  }

  close() {
    clearInterval(this.beats);
    this.socket.destroy();
  }
}

/** A connection of AMQP 1.0 with one session. */
export class Client extends Peer {
  /** `window` is the number of transfers that the client accepts: the incoming-window of its session. */
  /** `properties` are symbols and texts, one after the other. */
  static async open(port, container, { window = MANY, properties = [] } = {}) {
    const client = new Client(port);
    Object.assign(client, { window, links: 0, deliveries: 0 });
    const login = described(SASL_INIT, symbol("PLAIN"), binary("\0guest\0guest"), NULL);
    client.write(Buffer.from("AMQP\x03\x01\x00\x00", "latin1"), frame(login, 0, 1), Buffer.from("AMQP\x00\x01\x00\x00", "latin1"));
    const more = properties.length > 0 ? [NULL, NULL, NULL, NULL, NULL, NULL, NULL, map(...properties)] : [];
    client.write(frame(described(OPEN, string(container), NULL, ...more)), frame(described(BEGIN, NULL, uint(0), uint(window), uint(MANY))));
    await client.next(BEGIN);
    return client;
  }

  /** Returns the length of the first item of the input if it is complete, and otherwise 0. */
  whole() {
    if (this.input.length < 8) return 0;
    const size = this.input.toString("latin1", 0, 4) === "AMQP" ? 8 : this.input.readUInt32BE(0);
    return this.input.length < size ? 0 : size;
  }

  frameOf(bytes) {
    return { kind: bytes.length > 10 && bytes[5] === 0 ? bytes[10] : -1 };
  }

  /** Sends a heartbeat from time to time until it is closed. Without, the broker closes the connection after a minute or two. */
  beat() {
    this.beats = setInterval(() => this.write(frame(Buffer.alloc(0))), 10_000);
  }

  /** Attaches a publisher. It waits for the credit, unless there will be none. */
  async sender(name, address, { waits = true } = {}) {
    const handle = this.links++;
    this.write(frame(described(ATTACH, string(name), uint(handle), FALSE, NULL, NULL, described(COORDINATES, NULL), described(TARGET, string(address)), NULL, FALSE, uint(0))));
    await this.next(waits ? FLOW : ATTACH);
    return handle;
  }

  /** Attaches a consumer. `largest` is its max-message-size. It does not wait for the answer. */
  receiver(name, address, { credit = 0, largest, priority = 0 } = {}) {
    const handle = this.links++;
    const properties = map(symbol("rabbitmq:priority"), int(priority));
    const more = [NULL, NULL, NULL, largest === undefined ? NULL : ulong(largest), NULL, NULL, properties];
    this.write(frame(described(ATTACH, string(name), uint(handle), TRUE, NULL, NULL, described(COORDINATES, string(address)), described(TARGET, NULL), ...more)));
    if (credit > 0) this.grant(handle, 0, credit);
    return handle;
  }

  /** Grants credit. `count` is the number of deliveries that the link has got. */
  grant(handle, count, credit) {
    this.write(frame(described(FLOW, uint(count), uint(this.window), uint(0), uint(MANY), uint(handle), uint(count), uint(credit))));
  }

  async received(count = 1) {
    for (let i = 0; i < count; i++) await this.next(TRANSFER);
  }

  /** Sends a message of this many octets. Without `end`, its last frame is missing. */
  send(handle, octets, { end = true } = {}) {
    const number = this.deliveries++;
    const message = Buffer.concat([Buffer.from([0x00, 0x53, 0x75]), binary(Buffer.alloc(octets, "x"))]);
    for (let at = 0; at < message.length; at += FRAME) {
      const more = at + FRAME < message.length || !end;
      const head = at === 0 ? [uint(number), binary(uint32(number)), uint(0), FALSE] : [NULL, NULL, NULL, NULL];
      this.write(frame(Buffer.concat([described(TRANSFER, uint(handle), ...head, more ? TRUE : FALSE), message.subarray(at, at + FRAME)])));
    }
  }

  /** Waits until the broker has settled a message that this client sent. */
  async confirmed() {
    await this.next(DISPOSITION);
  }

  /** Settles a delivery. `outcome` is a name of OUTCOMES. */
  settle(delivery, outcome) {
    this.write(frame(described(DISPOSITION, TRUE, uint(delivery), uint(delivery), TRUE, described(...OUTCOMES[outcome]))));
  }
}

const short = (text) => Buffer.concat([Buffer.from([Buffer.byteLength(text)]), Buffer.from(text)]);
const long = (text) => Buffer.concat([uint32(Buffer.byteLength(text)), Buffer.from(text)]);
/** The methods that are used, as (class, method). */
const M = { startOk: [10, 11], tune: [10, 30], tuneOk: [10, 31], open: [10, 40], openOk: [10, 41], channelOpen: [20, 10], channelOpenOk: [20, 11], qos: [60, 10], qosOk: [60, 11], consume: [60, 20], consumeOk: [60, 21], publish: [60, 40] };
const code = ([group, method]) => group * 65_536 + method;

/** A connection of AMQP 0.9.1. */
export class Client091 extends Peer {
  /** `properties` is the table of the client, encoded. */
  static async open(port, channels, properties = Buffer.alloc(0)) {
    const client = new Client091(port);
    client.write(Buffer.from("AMQP\x00\x00\x09\x01", "latin1"));
    client.method(0, M.startOk, long(properties), short("PLAIN"), long("\0guest\0guest"), short("en_US"));
    await client.next(code(M.tune));
    // No limits, and no heartbeat.
    client.method(0, M.tuneOk, Buffer.alloc(8));
    client.method(0, M.open, short("/"), short(""), Buffer.from([0]));
    await client.next(code(M.openOk));
    for (const channel of channels) {
      client.method(channel, M.channelOpen, short(""));
      await client.next(code(M.channelOpenOk));
    }
    return client;
  }

  whole() {
    if (this.input.length < 7) return 0;
    const size = this.input.readUInt32BE(3) + 8;
    return this.input.length < size ? 0 : size;
  }

  frameOf(bytes) {
    return { kind: bytes[0] === 1 ? bytes.readUInt32BE(7) : -1 };
  }

  part(kind, channel, body) {
    this.write(Buffer.from([kind, channel >> 8, channel & 255]), uint32(body.length), body, Buffer.from([0xce]));
  }

  method(channel, [group, method], ...fields) {
    this.part(1, channel, Buffer.concat([Buffer.from([group >> 8, group & 255, method >> 8, method & 255]), ...fields]));
  }

  async consume(channel, queue, tag, prefetch) {
    this.method(channel, M.qos, uint32(0), Buffer.from([prefetch >> 8, prefetch & 255, 0]));
    await this.next(code(M.qosOk));
    this.method(channel, M.consume, Buffer.alloc(2), short(queue), short(tag), Buffer.from([0]), uint32(0));
    await this.next(code(M.consumeOk));
  }

  /** Publishes a durable message to a queue. */
  publish(channel, queue, body) {
    this.method(channel, M.publish, Buffer.alloc(2), short(""), short(queue), Buffer.from([0]));
    const size = Buffer.concat([uint32(0), uint32(body.length)]);
    this.part(2, channel, Buffer.concat([Buffer.from([0, 60, 0, 0]), size, Buffer.from([0x10, 0x00, 2])]));
    this.part(3, channel, Buffer.from(body));
  }
}

/** Opens connections of both protocols for each hostile name: as container id, link name, consumer tag and property of the client. */
export async function hostile(port) {
  const clients = [];
  for (const [i, name] of HOSTILE.entries()) {
    const note = HOSTILE[(i + 1) % HOSTILE.length];
    const ten = await Client.open(port, name, { properties: [symbol("note"), string(note), symbol("product"), string(name)] });
    clients.push(ten);
    ten.beat();
    ten.receiver(name, "/queues/late");
    const old = await Client091.open(port, [1], Buffer.concat([short("note"), Buffer.from("S"), long(name), short("product"), Buffer.from("S"), long(note)]));
    clients.push(old);
    await old.consume(1, "late", name, 5);
  }
  return clients;
}
