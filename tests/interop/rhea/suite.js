// The story of every suite here, told with rhea.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import rhea from 'rhea';
import { bodies, Client, GUEST, http, overTls, QUEUE_TYPE, Sender, SETTLED } from './client.js';
import * as tokens from './tokens.js';

const MESSAGES = 10_000;
const seen = ({ body, delivery_count, first_acquirer }) => [body, delivery_count, first_acquirer];

/** 12 bytes to 1 MiB, 72 MB in all. */
function sizeOf(number) {
    if (number % 200 === 0) return 1 << 20;
    if (number % 50 === 1) return 1 << 16;
    if (number % 10 === 2) return 4096;
    return 12 + number * 7 % 500;
}

const bodyOf = number => Buffer.alloc(sizeOf(number), String(number).padStart(12, '0'));

const checks = {
    async connect_with_plain() {
        const client = await Client.connect();
        assert.equal(client.connection.properties.product, 'RabbitMQ');
        await client.close();
    },

    async tls_with_a_password() {
        const client = await Client.connect({ ...GUEST, ...overTls() });
        const sizes = [10, 1000, 50_000, 300_000];
        await client.onQueue('over-tls', ...sizes.map(size => 'x'.repeat(size)));
        const got = await (await client.consumer('over-tls')).drain();
        assert.deepEqual(bodies(got).map(body => body.length), sizes);
        await client.close();
    },

    async tls_with_a_certificate() {
        const client = await Client.connect({ ...overTls('client'), enable_sasl_external: true });
        await client.onQueue('of-a-certificate', 'a');
        await client.close();
    },

    async connect_with_anonymous() {
        const client = await Client.connect({ username: 'anonymous' });
        await client.close();
    },

    async wrong_password_is_refused() {
        await assert.rejects(Client.connect({ username: 'guest', password: 'wrong' }), /[Aa]uth|disconnected/);
    },

    /** A virtual host is named in OPEN, with the prefix that RabbitMQ asks for. */
    async a_virtual_host_of_its_own() {
        await http(201, 'PUT', 'vhosts/team', {});
        await http(201, 'PUT', 'users/anna', { password: 'secret', tags: '' });
        await http(201, 'PUT', 'permissions/team/anna', { configure: '.*', write: '.*', read: '.*' });
        const anna = { username: 'anna', password: 'secret' };
        const ours = await Client.connect({ ...anna, hostname: 'vhost:team' });
        const other = await Client.connect();
        await other.onQueue('shared-name', 'elsewhere');
        await ours.onQueue('shared-name', 'a', 'b');
        assert.deepEqual(bodies(await (await ours.consumer('shared-name')).drain()), ['a', 'b']);
        assert.deepEqual(bodies(await (await other.consumer('shared-name')).drain()), ['elsewhere']);
        await Promise.all([ours.close(), other.close()]);
        // The broker answers with OPEN, and then tells why the connection ends.
        const refused = async options => (await Client.connect(options)).connection.failure;
        await assert.rejects(refused(anna), /access to vhost '\/' refused/);
    },

    /** The library connects again and again by default, but not after a CLOSE. */
    async a_missing_virtual_host_is_an_error_that_names_it() {
        const client = await Client.connect({ ...GUEST, hostname: 'vhost:absent', reconnect: true });
        await assert.rejects(client.connection.failure, /vhost 'absent' not found/);
    },

    async declare_over_management() {
        const client = await Client.connect();
        const management = await client.manage();
        const queue = await management.queue('declared');
        assert.deepEqual([queue.name, queue.type, queue.durable, queue.message_count], ['declared', QUEUE_TYPE, true, 0]);
        await management.ask(200, 'PUT', '/queues/declared', { durable: true, arguments: { 'x-queue-type': QUEUE_TYPE } });
        await management.ask(409, 'PUT', '/queues/declared', { durable: true, auto_delete: true });
        await management.ask(200, 'GET', '/queues/declared');
        await management.ask(404, 'GET', '/queues/absent');
        assert.deepEqual(await management.ask(200, 'DELETE', '/queues/declared'), { message_count: 0 });
        await client.close();
    },

    async send_and_receive_10000_of_mixed_sizes() {
        const client = await Client.connect();
        const management = await client.manage();
        await management.queue('bulk');
        const sender = new Sender(await client.sender('/queues/bulk'));
        const waiting = [];
        for (let number = 0; number < MESSAGES; number++) {
            const body = bodyOf(number);
            waiting.push(sender.send({
                durable: true, application_properties: { number, crc: crc32(body) },
                body: rhea.message.data_section(body),
            }));
            if (waiting.length > 100) assert.equal(await waiting.shift(), 'accepted');
        }
        for (const outcome of await Promise.all(waiting)) assert.equal(outcome, 'accepted');
        await sender.close();

        const consumer = await client.consumer('bulk');
        consumer.link.add_credit(200);
        for (let number = 0; number < MESSAGES; number++) {
            const [message] = await consumer.take(1);
            assert.equal(message.application_properties.number, number);
            assert.equal(message.body.content.length, sizeOf(number));
            assert.equal(crc32(message.body.content), message.application_properties.crc);
            assert.deepEqual([message.durable, message.delivery_count, message.first_acquirer], [true, 0, true]);
            message.delivery.accept();
            if (number % 100 === 99) consumer.link.add_credit(100);
        }
        await consumer.detach();
        assert.equal(await management.messages('bulk'), 0);
        await client.close();
    },

    async release_redelivers() {
        const client = await Client.connect();
        await client.onQueue('released', 'a', 'b');
        const consumer = await client.consumer('released');
        const first = await consumer.get();
        assert.deepEqual(seen(first), ['a', 0, true]);
        first.delivery.release();
        const again = await consumer.get();
        assert.deepEqual(seen(again), ['a', 0, false]);
        again.delivery.accept();
        assert.equal((await consumer.get()).body, 'b');
        await client.close();
    },

    async reject_discards() {
        const client = await Client.connect();
        await client.onQueue('rejected', 'a', 'b');
        const consumer = await client.consumer('rejected');
        const first = await consumer.get();
        assert.equal(first.body, 'a');
        first.delivery.reject();
        assert.deepEqual(bodies(await consumer.drain()), ['b']);
        await client.close();
    },

    async reject_dead_letters() {
        const client = await Client.connect();
        await client.onQueue('grave');
        const toGrave = { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': 'grave' };
        await (await client.manage()).queue('mortal', toGrave);
        await client.send('/queues/mortal', ['a', 'b']);
        const consumer = await client.consumer('mortal');
        (await consumer.get()).delivery.reject();
        assert.equal((await consumer.get()).body, 'b');
        assert.deepEqual(seen(await (await client.consumer('grave')).get()), ['a', 1, false]);
        await client.close();
    },

    async modify_counts_the_failure() {
        const client = await Client.connect();
        await client.onQueue('modified', 'a');
        const consumer = await client.consumer('modified');
        (await consumer.get()).delivery.modified({ delivery_failed: true });
        const second = await consumer.get();
        assert.deepEqual(seen(second), ['a', 1, false]);
        second.delivery.modified({ delivery_failed: false });
        const third = await consumer.get();
        assert.deepEqual(seen(third), ['a', 1, false]);
        third.delivery.modified({ delivery_failed: true, undeliverable_here: true });
        assert.deepEqual(await consumer.drain(), []);
        await client.close();
    },

    async drain_returns_what_is_there_and_tells() {
        const client = await Client.connect();
        await client.onQueue('drained', 'a', 'b', 'c');
        const consumer = await client.consumer('drained');
        assert.deepEqual(bodies(await consumer.drain()), ['a', 'b', 'c']);
        assert.equal(consumer.link.credit, 0);
        assert.deepEqual(await consumer.drain(), []);
        await client.close();
    },

    async one_credit_gets_one_message() {
        const client = await Client.connect();
        await client.onQueue('one', 'a', 'b', 'c');
        const consumer = await client.consumer('one');
        for (const body of ['a', 'b', 'c']) {
            const message = await consumer.get();
            assert.equal(message.body, body);
            assert.equal(consumer.arrived.length, 0);
            message.delivery.accept();
        }
        await client.close();
    },

    async detach_redelivers_in_order() {
        const client = await Client.connect();
        await client.onQueue('detached', 0, 1, 2, 3, 4, 5, 6, 7, 8, 9);
        const first = await client.consumer('detached');
        first.link.add_credit(6);
        const got = await first.take(6);
        assert.deepEqual(bodies(got), [0, 1, 2, 3, 4, 5]);
        got[1].delivery.accept();
        await first.detach();
        const second = await client.consumer('detached');
        second.link.add_credit(9);
        // Classic queues count a DETACH as a failed delivery, and quorum queues do not.
        const count = QUEUE_TYPE === 'quorum' ? 0 : 1;
        assert.deepEqual((await second.take(9)).map(seen), [
            ...[0, 2, 3, 4, 5].map(body => [body, count, false]), ...[6, 7, 8, 9].map(body => [body, 0, true])]);
        await client.close();
    },

    async single_active_consumers_are_told() {
        const client = await Client.connect();
        const management = await client.manage();
        await management.queue('single', { 'x-single-active-consumer': true });
        const first = await client.consumer('single');
        const second = await client.consumer('single');
        second.link.add_credit(5);
        assert.deepEqual(await second.told(1), [false]);
        assert.deepEqual(await client.send('/queues/single', ['a']), ['accepted']);
        assert.equal((await first.get()).body, 'a');
        await first.detach();
        assert.deepEqual(bodies(await second.take(1)), ['a']);
        assert.deepEqual(second.link.active, [false, true]);
        assert.equal(second.link.credit, 4);
        await client.close();
    },

    async missing_queue_is_not_found() {
        const client = await Client.connect();
        await assert.rejects(client.sender('/queues/absent'), { condition: 'amqp:not-found' });
        await assert.rejects(client.receiver('/queues/absent'), { condition: 'amqp:not-found' });
        await assert.rejects(client.receiver('/queue/old-style'), { condition: 'amqp:invalid-field' });
        await client.onQueue('after-refusals', 'a');
        await client.close();
    },

    async fanout_and_topic_route() {
        const client = await Client.connect();
        const management = await client.manage();
        await management.queue('orders');
        await management.queue('audit');
        await management.ask(204, 'PUT', '/exchanges/news', { type: 'fanout' });
        await management.ask(204, 'PUT', '/exchanges/events', { type: 'topic' });
        for (const [source, destination_queue, binding_key] of [
            ['news', 'orders', ''], ['news', 'audit', ''], ['events', 'orders', 'order.*'], ['events', 'audit', '#'],
        ]) {
            await management.ask(204, 'POST', '/bindings', { source, destination_queue, binding_key, arguments: {} });
        }
        const bindings = await management.ask(200, 'GET', '/bindings?src=events&dstq=orders&key=order.%2A');
        assert.deepEqual(bindings.map(binding => binding.binding_key), ['order.*']);

        assert.deepEqual(await client.send('/exchanges/news', ['n']), ['accepted']);
        assert.deepEqual(await client.send('/exchanges/events/order.new', ['o']), ['accepted']);
        assert.deepEqual(await client.send('/exchanges/events/user.new', ['u']), ['accepted']);
        const orders = await (await client.consumer('orders')).drain();
        assert.deepEqual(bodies(orders), ['n', 'o']);
        assert.deepEqual(orders[1].message_annotations, { 'x-exchange': 'events', 'x-routing-key': 'order.new' });
        assert.deepEqual(bodies(await (await client.consumer('audit')).drain()), ['n', 'o', 'u']);
        await client.close();
    },

    async unroutable_is_released() {
        const client = await Client.connect();
        await (await client.manage()).ask(204, 'PUT', '/exchanges/nowhere', { type: 'direct' });
        assert.deepEqual(await client.send('/exchanges/nowhere/key', ['a']), ['released']);
        await client.close();
    },

    async deleting_the_queue_detaches_its_links() {
        const client = await Client.connect();
        const management = await client.manage();
        await management.queue('doomed');
        const consumer = await client.consumer('doomed');
        consumer.link.add_credit(10);
        const detached = consumer.detached();
        await management.ask(200, 'DELETE', '/queues/doomed');
        assert.equal(await detached, 'amqp:resource-deleted');
        await client.close();
    },

    async settled_both_ways() {
        const client = await Client.connect();
        const management = await client.manage();
        await management.queue('at-most-once');
        const sender = await client.sender('/queues/at-most-once', { snd_settle_mode: SETTLED });
        const numbers = [...Array(100).keys()];
        for (const body of numbers) sender.send({ body });
        const consumer = await client.consumer('at-most-once', { snd_settle_mode: SETTLED });
        consumer.link.add_credit(100);
        const got = await consumer.take(100);
        assert.deepEqual(bodies(got), numbers);
        assert(got.every(message => message.delivery.remote_settled));
        await consumer.detach();
        assert.equal(await management.messages('at-most-once'), 0);
        await client.close();
    },

    async anonymous_terminus_routes_by_to() {
        const client = await Client.connect();
        await client.onQueue('to-one');
        await client.onQueue('to%20two');
        for (const [to, outcome] of [
            ['/queues/to-one', 'accepted'], ['/queues/to%20two', 'accepted'],
            ['/exchanges/amq.fanout/none', 'released'], ['/exchanges/absent/key', 'rejected'], ['', 'rejected'],
        ]) {
            assert.deepEqual(await client.send(undefined, [`for ${to}`], to), [outcome], to);
        }
        assert.deepEqual(bodies(await (await client.consumer('to-one')).drain()), ['for /queues/to-one']);
        assert.deepEqual(bodies(await (await client.consumer('to%20two')).drain()), ['for /queues/to%20two']);
        await client.close();
    },

    async streams_are_read_from_anywhere() {
        const client = await Client.connect();
        await (await client.manage()).queue('anywhere', { 'x-queue-type': 'stream' });
        for (const number of [0, 1, 2]) await client.send('/queues/anywhere', [number]); // a chunk each
        const from = (place, filters = {}) => client.consumer('anywhere', {
            source: {
                address: '/queues/anywhere',
                filter: { offset: rhea.types.wrap_described(place, 'rabbitmq:stream-offset-spec'), ...filters },
            },
        });
        for (const [place, found] of [['first', [0, 1, 2]], [1, [1, 2]], ['last', [2]], ['1h', [0, 1, 2]], ['next', []]]) {
            const consumer = await from(place);
            const got = await consumer.drain();
            assert.deepEqual(bodies(got), found, place);
            assert.deepEqual(got.map(message => message.message_annotations['x-stream-offset']), found, place);
            await consumer.detach();
        }
        await client.send('/queues/anywhere', [3]);
        await (await client.sender('/queues/anywhere')).send({ subject: 'tea', body: 4 });
        const sql = { 'sql-filter': rhea.types.wrap_described("properties.subject = 'tea'", 'amqp:sql-filter') };
        const consumer = await from('first', sql);
        assert.deepEqual(Object.keys(consumer.link.source.filter).sort(), ['offset', 'sql-filter']);
        assert.deepEqual(bodies([await consumer.get()]), [4]);
        assert.deepEqual(await consumer.drain(), []);
        await client.close();
    },

    async idle_connection_stays() {
        // rhea gives up after twice what it announces.
        const client = await Client.connect({ ...GUEST, idle_time_out: 1000 });
        await sleep(4000);
        await client.onQueue('after-idling', 'a');
        await client.close();
    },
};

/** Runs every check, or those named on the command line. With a provider, these are the checks of tokens. */
const chosen = Object.entries(tokens.ISSUER ? tokens.checks : checks).filter(([name]) => process.argv.length === 2 || process.argv.includes(name));
let failed = 0;
for (const [name, check] of chosen) {
    try {
        await check();
        console.log('ok  ', name);
    } catch (error) {
        failed++;
        console.log('FAIL', name, error);
    }
}
console.log(`rhea: ${chosen.length - failed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
