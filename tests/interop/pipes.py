"""Carries the bytes of TCP connections.

    pipes.py [--delay-ms MS] TARGETS...

Each argument is a list of targets, such as 127.0.0.1:5672,127.0.0.2:5672. For each, it listens on a port of 127.0.0.1, and prints the port. The
first connection goes to the first target, the next one to the next, and so on. Bytes take at least as many milliseconds as the option says.
"""

import argparse
import asyncio
import itertools


async def carry(reader, writer, delay_s):
    try:
        while octets := await reader.read(1 << 16):
            if delay_s:
                await asyncio.sleep(delay_s)
            writer.write(octets)
            await writer.drain()
        # The other direction goes on.
        writer.write_eof()
    except OSError:
        writer.transport.abort()


async def listen(targets, delay_s):
    turns = itertools.cycle(targets.split(","))

    async def accept(near_reader, near_writer):
        host, port = next(turns).rsplit(":", 1)
        try:
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            near_writer.transport.abort()
            return
        await asyncio.gather(carry(near_reader, far_writer, delay_s), carry(far_reader, near_writer, delay_s))
        near_writer.close()
        far_writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    return server


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--delay-ms", type=float, default=0)
    parser.add_argument("targets", nargs="+")
    arguments = parser.parse_args()
    servers = [await listen(targets, arguments.delay_ms / 1000) for targets in arguments.targets]
    await asyncio.gather(*(server.serve_forever() for server in servers))


asyncio.run(main())
