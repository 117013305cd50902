// Every cause of "why does nothing move?": how real clients and a slow disk bring a broker into this state.
//
// A scene makes the state, and returns the object to ask about. The broker then names the cause until its clients end.
import { spawn } from "node:child_process";
import { closeSync, openSync, readFileSync, readdirSync, writeSync } from "node:fs";
import { join } from "node:path";
import { until } from "./checks.mjs";
import { ATTACH as ATTACHED, Client, Client091 } from "./wire.mjs";

const path = (...parts) => `/api/${parts.map(encodeURIComponent).join("/")}`;
const quorum = (more) => ({ "x-queue-type": "quorum", ...more });
const STREAM = { "x-queue-type": "stream" };

/** How long a call of the system waits: longer than a scene, in microseconds. */
const CALL_US = 600_000_000;

/** How long a write to a socket takes in the scene of a shard that has no time left, in microseconds. */
const WRITE_US = 20_000;

/** A broker with what scenes need. */
export class Stage {
  constructor(broker) {
    this.broker = broker;
    this.peers = [];
    this.tracers = [];
  }

  async queue(name, args = {}) {
    await this.broker.api("PUT", path("queues", "/", name), { arguments: args });
    return name;
  }

  async client(container, options) {
    const client = await Client.open(this.broker.amqp, container, options);
    this.peers.push(client);
    return client;
  }

  async client091(channels) {
    const client = await Client091.open(this.broker.amqp, channels);
    this.peers.push(client);
    return client;
  }

  /** Puts messages into a queue, and waits until they are confirmed. */
  async fill(queue, count, octets = 20) {
    const shop = await Client.open(this.broker.amqp, "shop");
    const link = await shop.sender("shop", `/queues/${queue}`);
    for (let i = 0; i < count; i++) {
      shop.send(link, octets);
      await shop.confirmed();
    }
    shop.close();
  }

  /** Makes a queue with messages, and attaches a consumer to it. Returns the consumer's connection. */
  async consumer(queue, { args, messages = 3, octets, window, ...receiver } = {}) {
    await this.queue(queue, args);
    await this.fill(queue, messages, octets);
    const client = await this.client("warehouse", window === undefined ? {} : { window });
    client.receiver(`warehouse of ${queue}`, `/queues/${queue}`, receiver);
    return client;
  }

  async ready(queue, count) {
    await until(`${count} messages in ${queue}`, async () => (await this.broker.api("GET", path("queues", "/", queue))).messages_ready === count);
  }

  /**
   * Lets calls of the system wait in one thread of the broker, or in all, until `end`. With `fault` they fail instead. It
   * needs strace, and to be permitted to trace.
   */
  async slow(thread, call, fault = `delay_enter=${CALL_US}`) {
    const tasks = `/proc/${this.broker.process.pid}/task`;
    const threads = readdirSync(tasks).filter((id) => thread === "" || readFileSync(`${tasks}/${id}/comm`, "utf8").trim() === thread);
    const options = ["-e", `trace=${call}`, "-e", `inject=${call}:${fault}`, "-o", "/dev/null", ...threads.flatMap((id) => ["-p", id])];
    const tracer = spawn("strace", options, { stdio: ["ignore", "ignore", "pipe"] });
    let said = "";
    tracer.stderr.on("data", (text) => (said += text));
    tracer.on("error", (error) => (said += error.message));
    this.tracers.push(tracer);
    await until(`strace of the thread '${thread}'`, () => {
      if (tracer.exitCode !== null || tracer.pid === undefined || threads.length === 0) throw new Error(`strace of the thread '${thread}': ${said}`);
      return said.split(" attached").length > threads.length;
    });
  }

  /** Overwrites a part of every pack, the files of messages that left memory. */
  damagePacks() {
    const folder = join(this.broker.folder, "packs");
    for (const name of readdirSync(folder).filter((one) => one.endsWith(".pack"))) {
      const file = openSync(join(folder, name), "r+");
      writeSync(file, Buffer.alloc(100_000, 0x55), 0, 100_000, 100_000);
      closeSync(file);
    }
  }

  async explain({ kind, name }) {
    const where = kind === "queue" ? path("explain", "queues", "/", name) : kind === "link" ? path("explain", "links", "/", name) : path("explain", "connections", name);
    return this.broker.api("GET", where);
  }

  end() {
    for (const peer of this.peers.splice(0)) peer.close();
    for (const tracer of this.tracers.splice(0)) tracer.kill("SIGTERM");
  }
}

const queue = (name) => ({ kind: "queue", name });
const link = (name) => ({ kind: "link", name });
const consumerOf = (name) => link(`warehouse of ${name}`);

/** States that are made at once. */
export const SCENES = {
  async no_credit(stage) {
    await stage.consumer("orders.new");
    return consumerOf("orders.new");
  },
  async unsettled_limit(stage) {
    await stage.queue("orders.prefetch");
    await stage.fill("orders.prefetch", 8);
    const client = await stage.client091([1]);
    await client.consume(1, "orders.prefetch", "warehouse", 5);
    return link("warehouse");
  },
  async requeue_loop(stage) {
    const client = await stage.consumer("orders.failing", { messages: 1, credit: 1_000_000 });
    const giveBack = async () => {
      for (let delivery = 0; ; delivery++) {
        await client.received();
        client.settle(delivery, "released");
      }
    };
    // It ends with its client.
    giveBack().catch(() => {});
    return consumerOf("orders.failing");
  },
  async client_window_closed(stage) {
    await stage.consumer("orders.window", { window: 0, credit: 100 });
    return consumerOf("orders.window");
  },
  async message_too_large(stage) {
    await stage.consumer("photos", { octets: 50_000, credit: 10, largest: 10_000 });
    return consumerOf("photos");
  },
  async socket_not_read(stage) {
    await stage.queue("videos");
    await stage.fill("videos", 24, 1_000_000);
    const client = await stage.client("warehouse");
    client.receiver("warehouse of videos", "/queues/videos", { credit: 1000 });
    client.deafen();
    return consumerOf("videos");
  },
  async giving_way(stage) {
    const args = quorum({ "x-single-active-consumer": true });
    const first = await stage.consumer("payments.sorted", { args, credit: 1 });
    await first.received();
    const better = await stage.client("warehouse 2");
    better.receiver("warehouse 2", "/queues/payments.sorted", { credit: 10, priority: 5 });
    await better.next(ATTACHED);
    first.grant(0, 1, 10);
    return consumerOf("payments.sorted");
  },
  async inactive_single_active_consumer(stage) {
    const first = await stage.consumer("orders.sorted", { args: { "x-single-active-consumer": true } });
    first.receiver("standby", "/queues/orders.sorted", { credit: 10 });
    return link("standby");
  },
  async queue_empty(stage) {
    await stage.consumer("orders.none", { messages: 0, credit: 10 });
    return consumerOf("orders.none");
  },
  async end_of_stream(stage) {
    await stage.consumer("audit", { args: STREAM, credit: 10 });
    return consumerOf("audit");
  },
  async no_consumer(stage) {
    await stage.queue("invoices");
    await stage.fill("invoices", 3);
    return queue("invoices");
  },
  async no_reader(stage) {
    await stage.queue("events", STREAM);
    await stage.fill("events", 3);
    return queue("events");
  },
  async all_unsettled(stage) {
    const client = await stage.consumer("orders.taken", { credit: 10 });
    await client.received(3);
    return queue("orders.taken");
  },
  async all_delayed(stage) {
    const args = quorum({ "x-delayed-retry-type": "all", "x-delayed-retry-min": 3_600_000, "x-delayed-retry-max": 3_600_000 });
    const client = await stage.consumer("payments.retry", { args, credit: 3 });
    await client.received(3);
    for (const delivery of [0, 1, 2]) client.settle(delivery, "failed");
    return queue("payments.retry");
  },
  async over_delivery_limit(stage) {
    const client = await stage.consumer("payments.failing", { args: quorum({ "x-delivery-limit": 1 }), messages: 1, credit: 10 });
    for (const delivery of [0, 1]) {
      await client.received();
      client.settle(delivery, "failed");
    }
    return consumerOf("payments.failing");
  },
  async dead_letters_leaving(stage) {
    await stage.queue("payments.dead", { "x-max-length": 1, "x-overflow": "reject-publish" });
    await stage.fill("payments.dead", 1);
    const dead = { "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "payments.dead" };
    const args = quorum({ ...dead, "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish", "x-message-ttl": 1 });
    await stage.queue("payments", args);
    await stage.fill("payments", 3);
    return queue("payments");
  },
  async queue_full(stage) {
    await stage.queue("jobs", { "x-max-length": 3, "x-overflow": "reject-publish" });
    await stage.fill("jobs", 3);
    const client = await stage.client("shop");
    await client.sender("shop to jobs", "/queues/jobs");
    return link("shop to jobs");
  },
  async delivery_incomplete(stage) {
    await stage.queue("uploads");
    const client = await stage.client("shop");
    client.send(await client.sender("shop to uploads", "/queues/uploads"), 20_000, { end: false });
    return link("shop to uploads");
  },
  async client_silent(stage) {
    await stage.queue("orders.quiet");
    const client = await stage.client("shop");
    await client.sender("shop to orders.quiet", "/queues/orders.quiet");
    return link("shop to orders.quiet");
  },
  async no_links(stage) {
    const before = new Set((await stage.broker.api("GET", "/api/connections")).map((row) => row.name));
    await stage.client("half a program");
    const after = await stage.broker.api("GET", "/api/connections");
    return { kind: "connection", name: after.find((row) => !before.has(row.name)).name };
  },
  async moving(stage) {
    const client = await stage.consumer("clicks", { messages: 1, credit: 1_000_000 });
    const shop = await stage.client("shop");
    const out = await shop.sender("shop to clicks", "/queues/clicks");
    const timer = setInterval(() => {
      shop.send(out, 20);
      client.settle(shop.deliveries - 1, "accepted");
    }, 10);
    stage.peers.push({ close: () => clearInterval(timer) });
    return queue("clicks");
  },
};

/** What the broker of these scenes is started with: one shard, a small memory for messages, and links that may declare queues. */
export const SLOW_SETTINGS = { shards: 1, "classic_queue.backlog_memory": "1MB", "deprecated_features.permit.amqp_address_v1": "true" };

/** States that take a second or more, or need a broker of their own. */
export const LONG = {
  async consumer_timed_out(stage) {
    const client = await stage.consumer("orders.slow", { args: quorum({ "x-consumer-timeout": 1000 }), credit: 10 });
    await client.received(3);
    return consumerOf("orders.slow");
  },
  async queue_damaged(stage) {
    await stage.queue("letters");
    await stage.fill("letters", 40, 60_000);
    stage.damagePacks();
    const client = await stage.client("warehouse");
    client.receiver("warehouse of letters", "/queues/letters", { credit: 1 });
    return queue("letters");
  },
  async alarm(stage) {
    await stage.queue("bookings");
    await stage.broker.down();
    await stage.broker.up({ "disk_free_limit.absolute": "1000TB" });
    const client = await stage.client("shop");
    await client.sender("shop to bookings", "/queues/bookings", { waits: false });
    return link("shop to bookings");
  },
};

/**
 * States that last milliseconds, or are made by a disk. Calls of the system are held up or fail in the broker, so that its
 * disk seems slow or full to it.
 */
export const SLOW = {
  async waiting_for_log(stage) {
    await stage.queue("orders", { "x-fsync": true });
    await stage.slow("log sync", "fdatasync");
    const shop = await stage.client("shop");
    shop.send(await shop.sender("shop to orders", "/queues/orders"), 20);
    return link("shop to orders");
  },
  async waiting_for_commit(stage) {
    await stage.queue("payments", quorum());
    await stage.fill("payments", 1);
    await stage.slow("log sync", "fdatasync");
    const shop = await stage.client("shop");
    shop.send(await shop.sender("shop to payments", "/queues/payments"), 20);
    return link("shop to payments");
  },
  async waiting_for_receipts(stage) {
    await stage.queue("events", { ...STREAM, "x-fsync": true });
    await stage.slow("stream sync", "fdatasync");
    const shop = await stage.client("shop");
    shop.send(await shop.sender("shop to events", "/queues/events"), 20);
    return link("shop to events");
  },
  async held_back(stage) {
    await stage.queue("jobs", { "x-fsync": true });
    const client = await stage.client091([1, 2]);
    client.publish(2, "jobs", "job");
    await stage.ready("jobs", 1);
    await stage.slow("log sync", "fdatasync");
    for (let i = 0; i < 400; i++) client.publish(1, "jobs", "job");
    return link("channel 2");
  },
  async attach_unanswered(stage) {
    await stage.slow("log sync", "fdatasync");
    const client = await stage.client("warehouse");
    client.receiver("warehouse of returns", "/queue/returns", { credit: 10 });
    return consumerOf("returns");
  },
  async reading_backlog(stage) {
    await stage.queue("archive");
    await stage.fill("archive", 40, 60_000);
    await stage.slow("pack reader", "pread64");
    const client = await stage.client("warehouse");
    client.receiver("warehouse of archive", "/queues/archive", { credit: 100 });
    return consumerOf("archive");
  },
  async waiting_for_memory(stage) {
    await stage.queue("reports");
    await stage.slow("packs", "pwritev");
    const shop = await stage.client("shop");
    const out = await shop.sender("shop to reports", "/queues/reports");
    for (let i = 0; i < 80; i++) shop.send(out, 60_000);
    return link("shop to reports");
  },
  async shard_at_limit(stage) {
    const subject = await SCENES.moving(stage);
    // Each write to a socket takes longer than the time until the next message comes.
    await stage.slow("shard-0", "writev", `delay_exit=${WRITE_US}`);
    return subject;
  },
  async log_failed(stage) {
    await stage.queue("emails");
    await stage.fill("emails", 3);
    await stage.slow("", "pwritev", "error=ENOSPC");
    const shop = await stage.client("shop");
    shop.send(await shop.sender("shop to emails", "/queues/emails"), 20);
    return link("shop to emails");
  },
};
