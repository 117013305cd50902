// What programs with amqplib do, the usual client of AMQP 0.9.1 in Node.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import amqp from 'amqplib';
import {
    AMQPS, channel, closeAll, confirming, connect, Consumer, event, get, onQueue, overTls, QUORUM, refused, soon, text,
    url,
} from './client.js';

const deepValues = {
    string: 'grüße', yes: true, no: false, nothing: null, list: [1, 'two', null, [true], { deep: 'x' }],
    table: { a: { b: {} } }, buffer: Buffer.from([0, 255, 1]), byte: -1, short: -300, int: 70_000, long: 2 ** 40,
    negative: -(2 ** 40), half: 0.5,
};

const checks = {
    async connect_with_a_url() {
        const connection = await connect(url('/?heartbeat=5&channelMax=10&frameMax=16384'));
        const { product, capabilities } = connection.connection.serverProperties;
        assert.equal(product, 'RabbitMQ');
        assert.equal(capabilities['connection.blocked'], true);
        const first = await channel(connection);
        await onQueue(first, 'of-a-url', ['a']);
        assert.equal(text(await get(first, 'of-a-url')), 'a');
    },

    async connect_refused() {
        await assert.rejects(amqp.connect(url('', 'guest:wrong')), /403 \(ACCESS-REFUSED\)/);
        await assert.rejects(amqp.connect(url('/nowhere')), /got <ConnectionClose/);
        const connection = await connect(url('/%2F'));
        await onQueue(await channel(connection), 'of-the-root');
    },

    async frames_of_4096_bytes() {
        if (process.env.SLUICE_AGAINST === 'rabbitmq') return 'RabbitMQ wants at least 8,192 bytes';
        // Versions of amqplib before 0.10.7 ask for this size by themselves.
        const on = await confirming(await connect(url('/?frameMax=4096')));
        const sizes = [0, 1, 4087, 4088, 4089, 8176, 8177, 1_000_000];
        await onQueue(on, 'small-frames', sizes.map(size => 'x'.repeat(size)));
        for (const size of sizes) assert.equal(text(await get(on, 'small-frames')), 'x'.repeat(size));
    },

    async tls_with_a_password() {
        if (!AMQPS) return 'the broker has no TLS';
        const address = AMQPS.replace('127.0.0.1', 'localhost');
        const on = await confirming(await connect(`amqps://guest:guest@${address}`, overTls()));
        await onQueue(on, 'over-tls', ['x'.repeat(300_000)]);
        assert.equal(text(await get(on, 'over-tls')).length, 300_000);
    },

    async tls_with_a_certificate() {
        if (!AMQPS) return 'the broker has no TLS';
        const options = { ...overTls('client'), credentials: amqp.credentials.external() };
        const on = await confirming(await connect(`amqps://${AMQPS.replace('127.0.0.1', 'localhost')}`, options));
        await onQueue(on, 'of-a-certificate');
        on.sendToQueue('of-a-certificate', Buffer.from('a'), { userId: 'guest' });
        await on.waitForConfirms();
        assert.equal((await get(on, 'of-a-certificate')).properties.userId, 'guest');
    },

    async queues_are_declared_with_options() {
        const on = await channel();
        const options = {
            messageTtl: 60_000, expires: 600_000, deadLetterExchange: 'amq.fanout', deadLetterRoutingKey: 'dead',
            maxLength: 100 };
        const declared = await onQueue(on, 'optional', [], options);
        assert.deepEqual(declared, { queue: 'optional', messageCount: 0, consumerCount: 0 });
        await onQueue(on, 'optional', [], options);
        const { queue } = await on.assertQueue('', { exclusive: true });
        assert.match(queue, /^amq\.gen-/);
        assert.deepEqual(await on.purgeQueue(queue), { messageCount: 0 });
        await refused(on, 406, "inequivalent arg 'durable' for queue 'optional'",
            () => onQueue(on, 'optional', [], { durable: false, arguments: { 'x-queue-type': 'classic' } }));
    },

    async an_error_ends_only_the_channel() {
        const connection = await connect();
        const [first, second] = [await channel(connection), await confirming(connection)];
        await refused(first, 404, "no queue 'absent' in vhost '/'", () => first.checkQueue('absent'));
        await onQueue(second, 'after-an-error', ['a']);
        assert.equal(text(await get(second, 'after-an-error')), 'a');
    },

    async headers_of_every_type() {
        const on = await confirming();
        await onQueue(on, 'typed');
        const as = (type, value) => ({ '!': type, value });
        const tagged = {
            i8: as('int8', -5), i16: as('int16', -500), i32: as('int32', 5), i64: as('int64', 7),
            u8: as('uint8', 200), u16: as('uint16', 60_000), u32: as('uint32', 4_000_000_000),
            float: as('float', 0.25), double: as('double', 0.1),
            time: as('timestamp', 1_700_000_000), decimal: as('decimal', { places: 2, digits: 314 }),
        };
        on.sendToQueue('typed', Buffer.from('a'), { headers: { ...deepValues, ...tagged }, timestamp: 1_700_000_000 });
        await on.waitForConfirms();
        const { headers, timestamp } = (await get(on, 'typed')).properties;
        const plain = Object.fromEntries(Object.entries(tagged).map(([name, { value }]) => [name, value]));
        delete headers['x-delivery-count'];
        delete headers['x-acquired-count'];
        const { time, decimal, ...found } = headers;
        const { time: wantedTime, decimal: wantedDecimal, ...wanted } = { ...deepValues, ...plain };
        assert.deepEqual({ ...found }, wanted);
        assert.deepEqual([time.value ?? time, decimal.value ?? decimal, timestamp],
            [wantedTime, wantedDecimal, 1_700_000_000]);
    },

    async options_become_properties() {
        const on = await confirming();
        for (const queue of ['optioned', 'copy', 'blind']) await onQueue(on, queue);
        const options = {
            contentType: 'a/b', contentEncoding: 'gzip', persistent: true, priority: 3, correlationId: 'c', replyTo: 'r',
            expiration: 60_000, messageId: 'm', timestamp: 7, type: 't', userId: 'guest', appId: 'a', headers: { h: 1 },
            CC: 'copy', BCC: ['blind'],
        };
        on.publish('', 'optioned', Buffer.from('body'), options);
        await on.waitForConfirms();
        for (const queue of ['optioned', 'copy', 'blind']) {
            const { properties, fields } = await get(on, queue);
            const { CC, BCC, h } = properties.headers;
            assert.deepEqual([CC, BCC, h, fields.routingKey], [['copy'], undefined, 1, 'optioned']);
            const { headers, deliveryMode, clusterId, expiration, ...rest } = properties;
            const { persistent, headers: sent, CC: cc, BCC: bcc, expiration: sentExpiration, ...wanted } = options;
            assert.deepEqual([deliveryMode, expiration, rest], [2, '60000', wanted]);
        }
    },

    async confirms_in_callbacks() {
        const on = await confirming();
        await onQueue(on, 'called-back', [], { maxLength: 5, arguments: { 'x-overflow': 'reject-publish' } });
        const outcomes = [];
        for (let number = 0; number < 200; number++) {
            const told = new Promise(resolve => on.sendToQueue('called-back', Buffer.from(`${number}`), {}, resolve));
            outcomes.push(told.then(error => error === null));
            if (QUORUM && number % 10 === 0) await told.then(() => {}); // its limit is soft
        }
        const accepted = (await Promise.all(outcomes)).filter(Boolean).length;
        assert.ok(QUORUM ? accepted >= 5 && accepted < 200 : accepted === 5, `${accepted} accepted`);
        assert.equal(text(await get(on, 'called-back')), '0');
    },

    async returns_come_before_the_confirm() {
        const on = await confirming();
        const order = [];
        on.on('return', message => {
            const { replyCode, routingKey } = message.fields;
            order.push(`returned ${text(message)} ${replyCode} ${routingKey}`);
        });
        for (const body of ['a', 'b']) {
            on.publish('amq.direct', 'nobody', Buffer.from(body), { mandatory: true },
                () => order.push(`confirmed ${body}`));
        }
        await on.waitForConfirms();
        const of = body => order.filter(line => line.split(' ')[1] === body);
        for (const body of ['a', 'b']) assert.deepEqual(of(body), [`returned ${body} 312 nobody`, `confirmed ${body}`]);
    },

    async a_full_buffer_is_drained() {
        const on = await confirming();
        await onQueue(on, 'drained');
        const body = Buffer.alloc(1000, 'x');
        let drained = 0;
        for (let number = 0; number < 5000; number++) {
            if (!on.sendToQueue('drained', body)) {
                await event(on, 'drain');
                drained++;
            }
        }
        assert.ok(drained > 0);
        await soon(on.waitForConfirms(), 'confirms');
        await on.prefetch(100);
        const consumer = await Consumer.on(on, 'drained');
        for (let number = 0; number < 5000; number += 50) {
            const got = await consumer.take(50);
            on.ack(got.at(-1), true);
        }
        await consumer.nothing();
    },

    async prefetch_and_settlement() {
        const on = await confirming();
        await onQueue(on, 'settled', ['a', 'b', 'c', 'd']);
        await on.prefetch(2);
        const consumer = await Consumer.on(on, 'settled');
        let got = await consumer.take(2);
        await consumer.nothing();
        on.nack(got[0], false, false);
        assert.deepEqual(await consumer.texts(1), ['c']);
        on.nackAll();
        got = await consumer.take(2);
        assert.deepEqual(got.map(message => [text(message), message.fields.redelivered]), [['b', true], ['c', true]]);
        on.ackAll();
        assert.deepEqual(await consumer.texts(1), ['d']);
        await on.recover();
        const [again] = await consumer.take(1);
        assert.deepEqual([text(again), again.fields.redelivered], ['d', true]);
        on.reject(again, false);
        await consumer.nothing();
        assert.equal(await on.get('settled'), false);
        await refused(on, 406, 'unknown delivery tag', () => on.ack(again));
    },

    async a_deleted_queue_sends_null() {
        const on = await confirming();
        await onQueue(on, 'doomed', ['a']);
        const consumer = await Consumer.on(on, 'doomed', { noAck: true });
        assert.deepEqual(await consumer.texts(1), ['a']);
        await (await channel()).deleteQueue('doomed');
        assert.deepEqual(await consumer.take(1), [null]);
    },

    async consumers_with_options() {
        const connection = await connect();
        const [on, other] = [await confirming(connection), await channel(connection)];
        await onQueue(on, 'ranked');
        await on.prefetch(1);
        const low = await Consumer.on(on, 'ranked', { priority: 1, consumerTag: 'low' });
        await other.prefetch(10);
        const high = await Consumer.on(other, 'ranked', { priority: 9 });
        assert.equal(low.tag, 'low');
        assert.match(high.tag, /^amq\.ctag-/);
        for (const body of ['a', 'b', 'c']) on.sendToQueue('ranked', Buffer.from(body));
        assert.deepEqual(await high.texts(3), ['a', 'b', 'c']);
        await other.cancel(high.tag);
        on.sendToQueue('ranked', Buffer.from('d'));
        assert.deepEqual(await low.texts(1), ['d']);
    },

    async exchanges_of_every_kind() {
        const on = await confirming();
        await onQueue(on, 'routed');
        await on.assertExchange('lost', 'fanout');
        await on.assertExchange('first', 'topic', { alternateExchange: 'lost' });
        await on.assertExchange('second', 'headers');
        await on.bindExchange('second', 'first', 'to.#');
        await on.bindQueue('routed', 'second', '', { 'x-match': 'any', colour: 'red', size: 5 });
        await on.bindQueue('routed', 'lost', '');
        const sent = [['to.a', { colour: 'red' }], ['to.b', { colour: 'blue' }], ['x', {}], ['to', { size: 5 }]];
        for (const [key, headers] of sent) {
            on.publish('first', key, Buffer.from(key), { headers });
        }
        await on.waitForConfirms();
        const found = [];
        for (let number = 0; number < 3; number++) found.push(text(await get(on, 'routed')));
        assert.deepEqual(found, ['to.a', 'x', 'to']);
        await on.unbindExchange('second', 'first', 'to.#');
        await on.checkExchange('second');
        await on.deleteExchange('second', { ifUnused: false });
        await refused(on, 404, "no exchange 'second'", () => on.checkExchange('second'));
    },

    async requests_and_replies() {
        const [client, server] = [await channel(), await confirming()];
        await onQueue(server, 'additions');
        await server.consume('additions', message => {
            const sum = text(message).split('+').map(Number).reduce((a, b) => a + b);
            const { replyTo, correlationId } = message.properties;
            server.sendToQueue(replyTo, Buffer.from(`${sum}`), { correlationId });
            server.ack(message);
        });
        const replies = await Consumer.on(client, 'amq.rabbitmq.reply-to', { noAck: true });
        for (let number = 0; number < 50; number++) {
            const options = { replyTo: 'amq.rabbitmq.reply-to', correlationId: `${number}` };
            client.sendToQueue('additions', Buffer.from(`${number}+1`), options);
        }
        const got = await replies.take(50);
        assert.deepEqual(got.map(message => [message.properties.correlationId, text(message)]),
            Array.from({ length: 50 }, (_, number) => [`${number}`, `${number + 1}`]));
    },

    async streams() {
        const on = await confirming();
        await onQueue(on, 'stream', ['a', 'b', 'c'], { arguments: { 'x-queue-type': 'stream' } });
        await on.prefetch(10);
        const consumer = await Consumer.on(on, 'stream', { arguments: { 'x-stream-offset': 1 } });
        const got = await consumer.take(2);
        const offsets = got.map(message => [text(message), message.properties.headers['x-stream-offset']]);
        assert.deepEqual(offsets, [['b', 1], ['c', 2]]);
        got.forEach(message => on.ack(message));
    },

    async a_new_secret() {
        const connection = await connect();
        await connection.updateSecret(Buffer.from('guest'), 'it is due');
        await onQueue(await channel(connection), 'after-the-secret');
    },

    async quiet_connections_stay() {
        const connection = await connect(url('/?heartbeat=1'));
        let blocked = 0;
        connection.on('blocked', () => blocked++);
        await sleep(3500);
        assert.deepEqual([connection.failure, blocked], [undefined, 0]);
        await onQueue(await channel(connection), 'after-the-quiet');
    },

    async a_long_header_goes_to_a_consumer_with_larger_frames() {
        if (process.env.SLUICE_AGAINST === 'rabbitmq') return 'RabbitMQ wants at least 8,192 bytes';
        const on = await confirming();
        await onQueue(on, 'long-headed');
        const connection = await connect(url('/?frameMax=4096'));
        const small = await Consumer.on(await channel(connection), 'long-headed', { noAck: true });
        on.sendToQueue('long-headed', Buffer.from('long'), { headers: { h: 'x'.repeat(5000) } });
        on.sendToQueue('long-headed', Buffer.from('after'));
        await on.waitForConfirms();
        await small.nothing();
        const other = await channel();
        await other.prefetch(1);
        const large = await Consumer.on(other, 'long-headed');
        const [message] = await large.take(1);
        assert.deepEqual([text(message), message.properties.headers.h.length], ['long', 5000]);
        assert.equal(message.fields.redelivered, false);
        assert.deepEqual(await small.texts(1), ['after']);
        other.nack(message);
        assert.equal((await large.take(1))[0].fields.redelivered, true);
        const getting = await channel(connection);
        await onQueue(on, 'long-headed-too');
        on.sendToQueue('long-headed-too', Buffer.from('long'), { headers: { h: 'x'.repeat(5000) } });
        await on.waitForConfirms();
        await refused(getting, 406, 'negotiated frame_max = 4096', () => getting.get('long-headed-too'));
        assert.equal(text(await get(on, 'long-headed-too')), 'long');
        on.sendToQueue('long-headed', Buffer.from('last'));
        assert.deepEqual(await small.texts(1), ['last']);
        assert.equal(connection.failure, undefined);
    },

    async many_channels_at_once() {
        const connection = await connect();
        const all = await Promise.all(Array.from({ length: 100 }, () => confirming(connection)));
        await onQueue(all[0], 'crowded');
        const consumers = await Promise.all(all.slice(0, 10).map(on => Consumer.on(on, 'crowded', { noAck: true })));
        await Promise.all(all.map(async (on, number) => {
            on.sendToQueue('crowded', Buffer.from(`${number}`));
            await on.waitForConfirms();
        }));
        const total = () => consumers.reduce((sum, consumer) => sum + consumer.arrived.length, 0);
        const deadline = Date.now() + 30_000;
        while (total() < 100) {
            assert.ok(Date.now() < deadline, `${total()} of 100 messages`);
            await sleep(5);
        }
        const found = consumers.flatMap(consumer => consumer.arrived.map(text)).map(Number).sort((a, b) => a - b);
        assert.deepEqual(found, Array.from({ length: 100 }, (_, number) => number));
        await Promise.all(all.map(on => on.close()));
    },
};

/** Runs every check, or those named on the command line. A check that does not apply returns the reason. */
const chosen = Object.entries(checks).filter(([name]) => process.argv.length === 2 || process.argv.includes(name));
let failed = 0, skipped = 0;
for (const [name, check] of chosen) {
    try {
        const reason = await check();
        await closeAll();
        skipped += reason ? 1 : 0;
        console.log(reason ? 'skip' : 'ok  ', name, reason ?? '');
    } catch (error) {
        failed++;
        console.log('FAIL', name, error);
    }
}
console.log(`amqplib: ${chosen.length - failed - skipped} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
