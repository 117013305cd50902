// amqplib with what the checks need.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import amqp from 'amqplib';

const PATIENCE_MS = 30_000; // a guard against hanging, not a measure
export const QUIET_MS = 150; // the time in which a message that must not arrive would arrive
export const QUEUE_TYPE = process.env.SLUICE_QUEUE_TYPE;
export const QUORUM = QUEUE_TYPE === 'quorum';
export const AMQPS = process.env.SLUICE_AMQPS;
export const url = (rest = '', login = 'guest:guest') => `amqp://${login}@${process.env.SLUICE_AMQP}${rest}`;
const open = new Set();

/** Rejects if nothing happens for too long. */
export async function soon(promise, what) {
    const clock = new AbortController();
    const late = sleep(PATIENCE_MS, null, { signal: clock.signal })
        .then(() => { throw new Error(`no ${what}`); }, () => {});
    try {
        return await Promise.race([promise, late]);
    } finally {
        clock.abort();
    }
}

/** Connects. A check needs not close what it opens: `closeAll` does. */
export async function connect(to = url(), options = {}) {
    const connection = await soon(amqp.connect(to, options), 'connection');
    connection.on('error', error => { connection.failure = error; });
    connection.on('close', () => open.delete(connection));
    open.add(connection);
    return connection;
}

export async function closeAll() {
    await Promise.all([...open].map(connection => connection.close()));
}

/** Opens a channel, on a connection of its own if none is given. */
export async function channel(connection) {
    return watched(await (connection ?? await connect()).createChannel());
}

export async function confirming(connection) {
    return watched(await (connection ?? await connect()).createConfirmChannel());
}

function watched(on) {
    on.closed = new Promise(resolve => on.on('error', resolve));
    return on;
}

/** The options of a connection with TLS, which shows a certificate if one is named. */
export function overTls(certificate) {
    const file = name => readFileSync(`${process.env.SLUICE_TLS}/${name}`);
    const own = certificate ? { cert: file(`${certificate}.pem`), key: file(`${certificate}.key`) } : {};
    return { ca: [file('ca.pem')], servername: 'localhost', ...own };
}

/** Declares a durable queue of the type that is tested, and publishes these messages to it. */
export async function onQueue(on, queue, bodies = [], options = {}) {
    const { arguments: more, ...rest } = options;
    const declared = await on.assertQueue(queue, {
        durable: true, ...rest, arguments: { 'x-queue-type': QUEUE_TYPE, ...more } });
    for (const body of bodies) on.sendToQueue(queue, Buffer.from(body), { persistent: true });
    if (on.waitForConfirms) await on.waitForConfirms();
    return declared;
}

/** Waits until the queue has a message, and returns it. */
export async function get(on, queue, options = { noAck: true }) {
    const deadline = Date.now() + PATIENCE_MS;
    for (;;) {
        const message = await on.get(queue, options);
        if (message) return message;
        assert.ok(Date.now() < deadline, `no message in ${queue}`);
        await sleep(5);
    }
}

export const text = message => message.content.toString();

/** Stores what arrives. */
export class Consumer {
    static async on(channel, queue, options = {}) {
        const consumer = new Consumer();
        consumer.arrived = [];
        const take = message => {
            consumer.arrived.push(message);
            consumer.wake?.();
        };
        consumer.tag = (await channel.consume(queue, take, options)).consumerTag;
        return consumer;
    }

    async take(count) {
        while (this.arrived.length < count) {
            await soon(new Promise(resolve => { this.wake = resolve; }), `${count} messages`);
        }
        return this.arrived.splice(0, count);
    }

    async texts(count) {
        return (await this.take(count)).map(text);
    }

    /** Waits a short time, and expects that nothing arrives. */
    async nothing() {
        await sleep(QUIET_MS);
        assert.deepEqual(this.arrived, []);
    }
}

/** Resolves to the arguments of an event. */
export const event = (emitter, name) => soon(once(emitter, name), name);

/** Expects that the broker closes the channel with this code and text. */
export async function refused(on, code, words, attempt) {
    const failed = Promise.resolve(attempt()).catch(() => {}); // amqplib reports the error in both places
    const error = await soon(on.closed, `error ${code}`);
    await failed;
    assert.equal(error.code, code, error.message);
    assert.ok(error.message.includes(words), error.message);
    assert.equal(on.connection.failure, undefined);
}
