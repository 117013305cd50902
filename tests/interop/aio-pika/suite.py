"""What programs with aio-pika do: robust connections, queue iterators, and the library's patterns."""

import asyncio
import contextlib
import logging
import os
import sys
import traceback

import aio_pika
from aio_pika import DeliveryMode, ExchangeType, Message
from aio_pika.exceptions import ChannelNotFoundEntity, DeliveryError, ProbableAuthenticationError
from aio_pika.patterns import RPC, Master

HOST, PORT = os.environ["SLUICE_AMQP"].split(":")
QUEUE_TYPE = os.environ["SLUICE_QUEUE_TYPE"]
PATIENCE = 30  # seconds; a guard against hanging, not a measure


def connect(port=PORT, password="guest", **options):
    return aio_pika.connect_robust(host=HOST, port=int(port), login="guest", password=password, **options)


def queue(channel, name, **more):
    return channel.declare_queue(name, durable=True, arguments={"x-queue-type": QUEUE_TYPE} | more)


def expect(found, wanted):
    assert found == wanted, f"found {found!r}, wanted {wanted!r}"


async def login():
    async with await connect():
        pass
    try:
        await aio_pika.connect(host=HOST, port=int(PORT), login="guest", password="wrong")
    except ProbableAuthenticationError as error:
        assert "ACCESS_REFUSED" in str(error), error
    else:
        raise AssertionError("was not refused")


async def an_iterator_of_a_queue():
    async with await connect() as connection, await connection.channel() as channel:
        await channel.set_qos(prefetch_count=10)
        jobs = await queue(channel, "iterated")
        sent = [Message(b"%d" % number, delivery_mode=DeliveryMode.PERSISTENT) for number in range(100)]
        await asyncio.gather(*[channel.default_exchange.publish(one, "iterated") for one in sent])
        found = set()
        async with jobs.iterator() as messages:
            async for message in messages:
                async with message.process():
                    found.add(int(message.body))
                if len(found) == 100:
                    break
        expect((found, (await queue(channel, "iterated")).declaration_result.message_count), (set(range(100)), 0))


async def a_failed_message_is_requeued():
    async with await connect() as connection, await connection.channel() as channel:
        jobs = await queue(channel, "failing")
        await channel.default_exchange.publish(Message(b"a", headers={"n": 1, "list": [1, "x"]}), "failing")
        message = await jobs.get(timeout=PATIENCE)
        try:
            async with message.process(requeue=True):
                raise RuntimeError("on purpose")
        except RuntimeError:
            pass
        message = await jobs.get(timeout=PATIENCE)
        expect((message.body, message.redelivered, message.headers["list"]), (b"a", True, [1, "x"]))
        await message.ack()


async def a_returned_message_is_an_error():
    async with await connect() as connection, await connection.channel(on_return_raises=True) as channel:
        exchange = await channel.declare_exchange("aio", ExchangeType.TOPIC, durable=True)
        try:
            await exchange.publish(Message(b"a"), "nobody", mandatory=True)
        except DeliveryError as error:
            expect(error.message.delivery.reply_code, 312)
        else:
            raise AssertionError("was not returned")


async def an_error_of_a_channel():
    async with await connect() as connection:
        channel = await connection.channel()
        try:
            await channel.declare_queue("absent", passive=True)
        except ChannelNotFoundEntity as error:
            assert "no queue 'absent' in vhost '/'" in str(error), error
        async with await connection.channel() as another:
            await queue(another, "after-an-error")


async def calls_of_procedures():
    async with await connect() as connection, await connection.channel() as channel:
        rpc = await RPC.create(channel)

        async def multiply(*, x, y):
            return x * y

        await rpc.register("multiply", multiply, auto_delete=True, durable=True)
        expect(await asyncio.gather(*[rpc.proxy.multiply(x=number, y=2) for number in range(50)]),
               [2 * number for number in range(50)])


async def a_master_and_workers():
    async with await connect() as connection, await connection.channel() as channel:
        master, done = Master(channel), asyncio.Queue()
        worker = await master.create_worker("tasks", done.put, durable=True, arguments={"x-queue-type": QUEUE_TYPE})
        for number in range(20):
            await master.create_task("tasks", {"item": number})
        found = [await asyncio.wait_for(done.get(), PATIENCE) for _ in range(20)]
        expect(found, list(range(20)))
        await worker.close()


async def a_transaction():
    async with await connect() as connection, await connection.channel(publisher_confirms=False) as channel:
        jobs = await queue(channel, "in-transaction")
        try:
            async with channel.transaction():
                await channel.default_exchange.publish(Message(b"lost"), "in-transaction")
                raise RuntimeError("on purpose")
        except RuntimeError:
            pass
        async with channel.transaction():
            await channel.default_exchange.publish(Message(b"kept"), "in-transaction")
        expect((await jobs.get(timeout=PATIENCE, no_ack=True)).body, b"kept")


async def a_broken_connection_is_restored():
    writers = set()

    async def relay(near_reader, near_writer):
        far_reader, far_writer = await asyncio.open_connection(HOST, int(PORT))
        writers.update((near_writer, far_writer))

        async def copy(reader, writer):
            while piece := await reader.read(65536):
                writer.write(piece)
                await writer.drain()

        with contextlib.suppress(asyncio.CancelledError):  # at the end of the program
            await asyncio.gather(copy(near_reader, far_writer), copy(far_reader, near_writer), return_exceptions=True)

    server = await asyncio.start_server(relay, HOST, 0)
    connection = await connect(server.sockets[0].getsockname()[1], reconnect_interval=0.1)
    restored = asyncio.Event()
    connection.reconnect_callbacks.add(lambda *_: restored.set())
    channel = await connection.channel()
    jobs = await queue(channel, "restored")
    exchange = await channel.declare_exchange("brief", ExchangeType.FANOUT, auto_delete=True, durable=True)
    await jobs.bind(exchange)
    arrived = asyncio.Queue()
    await jobs.consume(arrived.put, no_ack=True)
    for writer in list(writers):
        writer.close()
    await asyncio.wait_for(restored.wait(), PATIENCE)
    await exchange.publish(Message(b"again"), "any")
    expect((await asyncio.wait_for(arrived.get(), PATIENCE)).body, b"again")
    await connection.close()
    server.close()


CHECKS = [
    login, an_iterator_of_a_queue, a_failed_message_is_requeued, a_returned_message_is_an_error, an_error_of_a_channel,
    calls_of_procedures, a_master_and_workers, a_transaction, a_broken_connection_is_restored,
]


async def main():
    """Runs every check, or those named on the command line."""
    logging.disable()  # a check breaks a connection on purpose
    chosen = [check for check in CHECKS if check.__name__ in sys.argv[1:] or not sys.argv[1:]]
    failed = 0
    for check in chosen:
        try:
            await asyncio.wait_for(check(), 2 * PATIENCE)
            print("ok  ", check.__name__, flush=True)
        except Exception:  # any error is a failed check
            failed += 1
            print("FAIL", check.__name__, traceback.format_exc(), flush=True)
    print(f"aio-pika: {len(chosen) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


asyncio.run(main())
