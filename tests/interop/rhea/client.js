// rhea with promises, as the checks need it.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { setImmediate as written } from 'node:timers/promises';
import rhea from 'rhea';

const PATIENCE_MS = 30_000; // a guard against hanging, not a measure
const [host, port] = process.env.SLUICE_AMQP.split(':');

export const GUEST = { username: 'guest', password: 'guest' };
export const file = name => readFileSync(`${process.env.SLUICE_TLS}/${name}`);
export const bodies = messages => messages.map(message => message.body);

/** The options of a connection with TLS, which shows a certificate if one is named. */
export function overTls(certificate) {
    const [host, port] = process.env.SLUICE_AMQPS.split(':');
    const own = certificate ? { cert: file(`${certificate}.pem`), key: file(`${certificate}.key`) } : {};
    return { host, port, transport: 'tls', servername: 'localhost', ca: [file('ca.pem')], ...own };
}

/** Sends one request to the management API, as guest. */
export async function http(status, method, path, body) {
    const answer = await fetch(`http://${process.env.SLUICE_HTTP}/api/${path}`, {
        method, body: JSON.stringify(body),
        headers: { authorization: `Basic ${btoa('guest:guest')}`, 'content-type': 'application/json' },
    });
    assert.equal(answer.status, status, `${method} ${path}: ${await answer.text()}`);
}

export const SETTLED = 1;
/** The type of the queues that checks declare, streams excepted. */
export const QUEUE_TYPE = process.env.SLUICE_QUEUE_TYPE;

/** Resolves to the event `what` of a link; rejects if the link, its session or its connection ends before. */
function event(link, what) {
    const ended = link.is_receiver() ? 'receiver_close' : 'sender_close';
    let failed = () => {};
    return guarded(link.connection, (resolve, reject) => {
        link.once(what, resolve);
        if (what !== ended) link.once(ended, failed = () => reject(problem(link)));
    }).finally(() => link.removeListener(ended, failed));
}

/** A promise that is rejected when the connection fails, or nothing happens for too long. */
async function guarded(connection, start) {
    let timer;
    const patience = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error('timed out')), PATIENCE_MS);
    });
    try {
        return await Promise.race([new Promise(start), patience, connection.failure]);
    } finally {
        clearTimeout(timer);
    }
}

/** Resolves to the link; rejects if the broker refuses it: an attach without its terminus, then a detach. */
function attached(link) {
    const [kind, terminus] = link.is_receiver() ? ['receiver', 'source'] : ['sender', 'target'];
    return guarded(link.connection, (resolve, reject) => {
        link.once(`${kind}_open`, () => link[terminus]?.value && resolve(link)); // rhea shows null as an object of value null
        link.once(`${kind}_close`, () => reject(problem(link)));
    });
}

/** rhea reads the properties of a FLOW but does not hand them on: what they say of the link goes to `link.active`. */
function keepState(link) {
    const onFlow = link.on_flow;
    link.active = [];
    link.on_flow = frame => {
        const { properties } = frame.performative;
        if (properties) {
            link.active.push(properties['rabbitmq:active']);
            link.emit('state');
        }
        onFlow.call(link, frame);
    };
}

function problem({ error }) {
    return Object.assign(new Error(`${error?.condition}: ${error?.description}`), { condition: error?.condition });
}

/** A connection with one session, and the links that the checks ask of it. */
export class Client {
    static async connect(options = GUEST) {
        const client = new Client();
        const connection = rhea.create_container().connect({ host, port, reconnect: false, ...options });
        connection.failure = new Promise((_, reject) => {
            connection.on('connection_error', ({ error }) => reject(problem({ error: error ?? connection.error })));
            connection.on('session_error', ({ session }) => reject(problem(session)));
            connection.on('disconnected', ({ error }) => reject(error ?? new Error('disconnected')));
        });
        connection.failure.catch(() => {}); // whoever waits is told
        client.connection = connection;
        await guarded(connection, resolve => connection.once('connection_open', resolve));
        return client;
    }

    async close() {
        this.connection.close();
        await guarded(this.connection, resolve => this.connection.once('connection_close', resolve));
    }

    /** Is rejected with the error when the broker closes the connection. */
    closed() {
        return guarded(this.connection, () => {});
    }

    sender(target, options = {}) {
        return attached(this.connection.open_sender({ target, ...options }));
    }

    receiver(source, options = {}) {
        const link = this.connection.open_receiver({ source, credit_window: 0, autoaccept: false, ...options });
        keepState(link);
        return attached(link);
    }

    /** Sends durable messages, each with `to` if there is one, and returns the outcomes. */
    async send(address, bodies, to = undefined) {
        const sender = new Sender(await this.sender(to === undefined ? address : {}));
        const outcomes = bodies.map(body => sender.send({ durable: true, to: to || undefined, body }));
        const result = await Promise.all(outcomes);
        await sender.close();
        return result;
    }

    /** Declares a queue with these messages in it. */
    async onQueue(name, ...bodies) {
        await (await this.manage()).queue(name);
        assert.deepEqual(await this.send(`/queues/${name}`, bodies), bodies.map(() => 'accepted'));
    }

    async consumer(queue, options = {}) {
        return new Consumer(await this.receiver(`/queues/${queue}`, options));
    }

    async manage() {
        const name = `pair-${this.pairs = (this.pairs ?? 0) + 1}`;
        const options = { name, properties: { paired: true }, snd_settle_mode: SETTLED };
        // The receiver last: a session of rhea forgets to write the FLOW of the first of two links of the same name.
        const sender = await this.sender('/management', { ...options, source: 'me' });
        const answers = new Consumer(await this.receiver('/management', { ...options, target: 'me' }));
        answers.link.add_credit(100);
        await written(); // transfers overtake FLOWs of the same tick
        return new Management(answers, sender);
    }
}

/** A sending link whose outcomes are awaited. */
export class Sender {
    constructor(link) {
        this.link = link;
        this.waiting = new Map();
        for (const outcome of ['accepted', 'rejected', 'released']) {
            link.on(outcome, ({ delivery }) => {
                this.waiting.get(delivery)(outcome);
                this.waiting.delete(delivery);
            });
        }
    }

    send(message) {
        const delivery = this.link.send(message);
        return new Promise(resolve => this.waiting.set(delivery, resolve));
    }

    async close() {
        this.link.close();
        await event(this.link, 'sender_close');
    }
}

/** A receiving link whose credit and settlement are the check's. */
export class Consumer {
    constructor(link) {
        this.link = link;
        this.arrived = [];
        link.on('message', ({ message, delivery }) => {
            this.arrived.push({ ...message, delivery });
            link.emit('arrived');
        });
    }

    /** Receives what has been granted already. */
    async take(count) {
        while (this.arrived.length < count) await event(this.link, 'arrived');
        return this.arrived.splice(0, count);
    }

    /** What the broker has said of the link being the active one: `count` times so far. */
    async told(count) {
        while (this.link.active.length < count) await event(this.link, 'state');
        return this.link.active;
    }

    /** The synchronous get: one credit, one message. */
    async get() {
        this.link.add_credit(1);
        return (await this.take(1))[0];
    }

    /** Everything there, when the broker says that this is all. */
    async drain() {
        this.link.drain = true;
        this.link.add_credit(1000);
        await event(this.link, 'receiver_drained');
        this.link.drain = false;
        return this.arrived.splice(0);
    }

    async detach() {
        this.link.close();
        await event(this.link, 'receiver_close');
    }

    /** The condition with which the broker detaches the link. */
    async detached() {
        await event(this.link, 'receiver_close');
        return this.link.error?.condition;
    }
}

/** The link pair to the broker's management node. */
class Management {
    requests = 0;

    constructor(answers, sender) {
        this.answers = answers;
        this.sender = sender;
    }

    /** Sends one request and returns the body of the answer, whose status is to be `status`. */
    async ask(status, method, path, body = null) {
        const message_id = `request-${++this.requests}`;
        this.sender.send({ message_id, subject: method, to: path, reply_to: '$me', body });
        const [answer] = await this.answers.take(1);
        answer.delivery.accept(); // settled by the broker, but rhea keeps its place in the window until told
        assert.equal(answer.correlation_id, message_id);
        assert.equal(answer.subject, String(status), `${method} ${path}: ${JSON.stringify(answer.body)}`);
        return answer.body;
    }

    queue(name, queueArguments = {}) {
        return this.ask(201, 'PUT', `/queues/${name}`, {
            durable: true, arguments: { 'x-queue-type': QUEUE_TYPE, ...queueArguments } });
    }

    async messages(queue) {
        return (await this.ask(200, 'GET', `/queues/${queue}`)).message_count;
    }
}
