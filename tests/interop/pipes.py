"""Carries the bytes of TCP connections.

    pipes.py [--delay-ms MS] [--cut PIPES] TARGETS...

Each argument is a list of targets, such as 127.0.0.1:5672,127.0.0.2:5672. For each, it listens on a port of 127.0.0.1, and prints the port. The
first connection goes to the first target, the next one to the next, and so on. Bytes take at least as many milliseconds as the option says. The pipes with
the numbers of `--cut`, such as 5,7, are cut and healed every two seconds, all at the same time: for a second nothing arrives.
"""

import argparse
import asyncio
import itertools
import time

PERIOD_S = 2
CUT_S = 1


async def healed():
    """Waits until the pipe is not cut."""
    while (at := time.monotonic() % PERIOD_S) < CUT_S:
        await asyncio.sleep(CUT_S - at)


async def carry(reader, writer, delay_s, is_cut):
    try:
        while octets := await reader.read(1 << 16):
            if delay_s:
                await asyncio.sleep(delay_s)
            if is_cut:
                await healed()
            writer.write(octets)
            await writer.drain()
        # The other direction goes on.
        writer.write_eof()
    except OSError:
        writer.transport.abort()


async def listen(targets, delay_s, is_cut):
    turns = itertools.cycle(targets.split(","))

    async def accept(near_reader, near_writer):
        host, port = next(turns).rsplit(":", 1)
        try:
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            near_writer.transport.abort()
            return
        await asyncio.gather(
            carry(near_reader, far_writer, delay_s, is_cut), carry(far_reader, near_writer, delay_s, is_cut)
        )
        near_writer.close()
        far_writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    return server


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--delay-ms", type=float, default=0)
    parser.add_argument("--cut", default="")
    parser.add_argument("targets", nargs="+")
    arguments = parser.parse_args()
    cut = {int(number) for number in arguments.cut.split(",") if number}
    servers = [
        await listen(targets, arguments.delay_ms / 1000, number in cut)
        for number, targets in enumerate(arguments.targets)
    ]
    await asyncio.gather(*(server.serve_forever() for server in servers))


asyncio.run(main())
