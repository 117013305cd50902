// A broker of the test's own, its clients, and what is in it.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The time that the broker may take to start, in milliseconds. */
const START_MS = 60_000;

/** The number of characters of a client's standard error that are kept, the last ones. A client that runs for long may write much. */
const SAID_MAX = 2_000;

/** The number of lines of a client's standard error that a failure shows. The last line is the reason why the client has ended. */
const LINES_SHOWN = 3;

/** Names that would do harm if a page took them for markup, for an address, or for a line of a terminal. */
export const HOSTILE = [
  "<script>alert(1)</script>",
  '"><img src=x onerror=alert(1)>',
  "javascript:alert(1)",
  "a/b?c=d&e#f%2F",
  "bell\u0007\u001b[31mred\ttab",
  "\u202egnp.reversed",
  "größe 🐇 名前",
];

/** The ports that the system gives to nobody who asks for any port: another test's connection could take one of those while a broker is down. */
const PORTS = { first: 10_000, after: 32_768 };

/** Returns ports that nobody listens on. */
export async function freePorts(count) {
  const ports = new Set();
  while (ports.size < count) {
    const port = PORTS.first + Math.floor(Math.random() * (PORTS.after - PORTS.first));
    const server = createServer();
    const free = await new Promise((done) => server.once("error", () => done(false)).listen(port, "127.0.0.1", () => done(true)));
    if (free) await new Promise((done) => server.close(done));
    if (free) ports.add(port);
  }
  return [...ports];
}

export class Broker {
  /** Starts a broker. `more` are further settings. */
  static async start(program, more = {}) {
    const broker = new Broker();
    broker.program = program;
    broker.folder = mkdtempSync(join(tmpdir(), "sluice-page-"));
    [broker.amqp, broker.http, broker.metrics] = await freePorts(3);
    broker.url = `http://127.0.0.1:${broker.http}`;
    broker.clients = [];
    await broker.up(more);
    return broker;
  }

  /** Starts the process with two event loops, and waits until it answers. `more` are further settings. */
  async up(more = {}) {
    const set = { shards: 2, ...more, "listeners.tcp.default": `127.0.0.1:${this.amqp}`, "management.tcp.ip": "127.0.0.1", "management.tcp.port": this.http, "prometheus.tcp.port": this.metrics };
    const options = Object.entries(set).flatMap(([key, value]) => ["--set", `${key}=${value}`]);
    this.process = spawn(this.program, ["serve", "--data-dir", this.folder, ...options], { stdio: ["ignore", "ignore", "pipe"] });
    this.said = "";
    this.process.stderr.on("data", (text) => (this.said += text));
    const until = Date.now() + START_MS;
    while (Date.now() < until) {
      if (this.process.exitCode !== null) break;
      try {
        if ((await fetch(this.url)).status === 200) return;
      } catch {
        // It does not listen yet.
      }
      await new Promise((done) => setTimeout(done, 50));
    }
    throw new Error(`the broker did not start:\n${this.said}`);
  }

  /** Ends the process and its clients. A client may still be busy with the end of its connection. */
  async down() {
    await ended(this.process, "SIGTERM");
    for (const { child } of this.clients.splice(0)) await ended(child, "SIGKILL");
  }

  async stop() {
    for (const { child } of this.clients.splice(0)) await ended(child, "SIGKILL");
    await this.down();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Sends a request to the HTTP API. Returns the JSON of the answer. */
  async api(method, path, body, user = "guest:guest") {
    const headers = { authorization: `Basic ${Buffer.from(user).toString("base64")}`, "content-type": "application/json" };
    const response = await fetch(this.url + path, { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text ? JSON.parse(text) : null;
  }

  /** Runs a command of the program to its end. */
  command(...words) {
    const env = { ...process.env, SLUICE_URL: `amqp://guest:guest@127.0.0.1:${this.amqp}`, SLUICE_HTTP_URL: `http://guest:guest@127.0.0.1:${this.http}` };
    const child = spawn(this.program, words, { env, stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    child.stdout.on("data", (text) => (said += text));
    child.stderr.on("data", (text) => (said += text));
    return new Promise((done, fail) => child.on("exit", (code) => (code === 0 ? done(said) : fail(new Error(`sluice ${words.join(" ")}: ${said}`)))));
  }

  /** Runs a line that the page offers to be copied, in a shell, as people do. */
  line(text) {
    const env = { ...process.env, SLUICE_URL: `amqp://guest:guest@127.0.0.1:${this.amqp}`, SLUICE_HTTP_URL: `http://guest:guest@127.0.0.1:${this.http}` };
    const child = spawn("bash", ["-c", `sluice() { "$SLUICE_BIN" "$@"; }\n${text}`], { env, stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    child.stdout.on("data", (more) => (said += more));
    child.stderr.on("data", (more) => (said += more));
    return new Promise((done, fail) => child.on("exit", (code) => (code === 0 ? done(said) : fail(new Error(`${text}: ${said}`)))));
  }

  /** Starts a command that runs until the broker is stopped. See `lost`. */
  client(...words) {
    const env = { ...process.env, SLUICE_URL: `amqp://guest:guest@127.0.0.1:${this.amqp}` };
    const child = spawn(this.program, words, { env, stdio: ["ignore", "ignore", "pipe"] });
    const client = { child, words, said: "", end: null };
    child.stderr.on("data", (text) => (client.said = (client.said + text).slice(-SAID_MAX)));
    // Unlike "exit", this event follows the last of the client's output.
    child.on("close", (code, signal) => (client.end = code === null ? `signal ${signal}` : `exit code ${code}`));
    this.clients.push(client);
  }

  /** Forgets a client that the test itself has ended, so that `lost` does not name it. Returns false until one has ended with this text. */
  forget(text) {
    const at = this.clients.findIndex(({ end, said }) => end !== null && said.includes(text));
    if (at !== -1) this.clients.splice(at, 1);
    return at !== -1;
  }

  /** Returns a text for each client that has ended while the broker runs: how it has ended, and what it has said last. */
  lost() {
    const lines = (said) => said.trim().split("\n").slice(-LINES_SHOWN).join("\n");
    return this.clients.filter(({ end }) => end !== null).map(({ words, end, said }) => `'sluice ${words.join(" ")}' has ended with ${end}: ${lines(said)}`);
  }
}

function ended(child, signal) {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((done) => {
    child.once("exit", done);
    child.kill(signal);
  });
}

const at = (...parts) => `/api/${parts.map(encodeURIComponent).join("/")}`;

/** Fills the broker: queues of all types, hostile names, bindings, policies, users, messages. */
export async function fill(broker) {
  const put = (path, body = {}) => broker.api("PUT", path, body);
  const post = (path, body = {}) => broker.api("POST", path, body);
  const queues = Array.from({ length: 120 }, (_, i) => ({ vhost: "/", name: `load.${String(i).padStart(3, "0")}`, durable: true, auto_delete: false, arguments: {} }));
  await post("/api/definitions", { queues });
  await put(at("vhosts", "team <b>&"), { description: "for the tests", tags: "a,b" });
  for (const name of HOSTILE) {
    await put(at("queues", "/", name), { arguments: { note: name } });
    await put(at("exchanges", "/", `x ${name}`), { type: "topic" });
    await post(at("bindings", "/", "e", `x ${name}`, "q", name), { routing_key: `${name}.#`, arguments: {} });
    await put(at("policies", "/", name), { pattern: "^never$", definition: { "max-length": 10 }, "apply-to": "queues" });
    await put(at("users", name), { password: "p", tags: "management" });
    await put(at("vhosts", name), {});
    await put(at("parameters", "tool", "/", name), { component: "tool", vhost: "/", name, value: { note: name } });
    await put(at("global-parameters", name), { name, value: name });
  }
  await put(at("queues", "/", "orders"), { arguments: { "x-single-active-consumer": true } });
  await put(at("queues", "/", "payments"), { arguments: { "x-queue-type": "quorum", "x-delivery-limit": 5 } });
  await put(at("queues", "/", "audit"), { arguments: { "x-queue-type": "stream" } });
  await put(at("queues", "/", "invoices"), { arguments: { "x-max-length": 1000 } });
  await put(at("queues", "/", "dead letters"), {});
  const late = { "x-message-ttl": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead letters" };
  await put(at("queues", "/", "late"), { arguments: late });
  await put(at("exchanges", "/", "shop"), { type: "topic", arguments: { "alternate-exchange": "unrouted" } });
  await put(at("exchanges", "/", "unrouted"), { type: "fanout" });
  await put(at("exchanges", "/", "billing"), { type: "headers" });
  await post(at("bindings", "/", "e", "shop", "q", "orders"), { routing_key: "order.*", arguments: {} });
  await post(at("bindings", "/", "e", "shop", "e", "billing"), { routing_key: "order.paid", arguments: {} });
  await post(at("bindings", "/", "e", "billing", "q", "invoices"), { routing_key: "", arguments: { "x-match": "any", country: "DE" } });
  await post(at("bindings", "/", "e", "unrouted", "q", "audit"), { routing_key: "", arguments: {} });
  await put(at("policies", "/", "short"), { pattern: "^load\\.00", definition: { "max-length": 5000 }, "apply-to": "queues", priority: 1 });
  await put(at("operator-policies", "/", "ceiling"), { pattern: ".*", definition: { "max-length": 100000 }, "apply-to": "queues" });
  await put(at("users", "viewer"), { password: "viewer", tags: "management" });
  await put(at("permissions", "/", "viewer"), { configure: "", write: "", read: "^orders$" });
  await put(at("users", "nobody"), { password: "nobody", tags: "" });
  await put(at("users", "temporary"), { password: "temporary", tags: "administrator" });
  await put(at("vhost-limits", "/", "max-connections"), { value: 1000 });
  await put(at("topic-permissions", "/", "viewer"), { exchange: "amq.topic", write: "^a", read: ".*" });
}

/** Puts messages of several kinds into the queue "invoices". */
export async function messages(broker) {
  const send = (body, ...more) => broker.command("send", ...more, "/queues/invoices", body);
  await send('{"invoice":12345678901234567890,"lines":[{"item":"<b>rope</b>","price":9.50}],"paid":false}', "--property", "country=DE", "--subject", "first");
  await send("Dear customer,\nyour invoice is attached.\u0007", "--property", "x=<img src=x onerror=alert(1)>");
  await send("");
  const file = join(broker.folder, "body.bin");
  writeFileSync(file, Buffer.from([0x1f, 0x8b, 0x08, 0x00, 0xff, 0xfe, 0x00, 0x80]));
  await broker.command("send", "--file", file, "/queues/invoices");
  // {"late": true} in MessagePack. It expires, and becomes a dead letter.
  writeFileSync(file, Buffer.from([0x81, 0xa4, 0x6c, 0x61, 0x74, 0x65, 0xc3]));
  await broker.command("send", "--file", file, "/queues/late");
  await broker.command("send", "--count", "20", "/queues/audit", "an event of the stream");
}

/** The queues of the clients that `traffic` starts. */
const TRAFFIC_QUEUES = ["flow-1", "flow-2", "old-1"];

/** Starts clients of both protocols that run until the broker is stopped. */
export async function traffic(broker) {
  // `sluice bench` refuses a queue that has messages. A message that was in flight when the broker was stopped is in its queue again.
  for (const name of TRAFFIC_QUEUES) {
    await broker.api("PUT", at("queues", "/", name), {});
    await broker.api("DELETE", `${at("queues", "/", name)}/contents`);
  }
  broker.client("bench", "--queue", "flow", "--pairs", "2", "--rate", "150", "--duration", "3600");
  broker.client("bench", "--protocol", "amqp091", "--queue", "old", "--pairs", "1", "--rate", "80", "--duration", "3600");
  broker.client("recv", "/queues/orders");
  broker.client("recv", "--credit", "7", "/queues/orders");
}
