#!/usr/bin/env python3
"""Shows what a client puts on the wire: a proxy before the broker that prints the client's frames.

    wire.py HOST:PORT COMMAND...

Runs COMMAND with SLUICE_AMQP set to the proxy's address. `--headers` before HOST:PORT prints only the distinct
header sections of the messages sent, with their counts: `none` is a message without one, `[]` one without fields.
"""

import collections
import os
import socket
import struct
import subprocess
import sys
import threading

NAMES = {0x10: "open", 0x11: "begin", 0x12: "attach", 0x13: "flow", 0x14: "transfer", 0x15: "disposition",
         0x16: "detach", 0x17: "end", 0x18: "close", 0x41: "sasl-init"}


def read(data, at):
    """Reads one AMQP value. Returns it and the offset of its end. The value is None for null,
    and bytes for a type of variable width other than a list or a map."""
    code = data[at]
    at += 1
    if code == 0x00:
        descriptor, at = read(data, at)
        value, at = read(data, at)
        return (descriptor, value), at
    if code >> 4 == 4:
        return {0x40: None, 0x41: True, 0x42: False, 0x45: []}.get(code, 0), at
    if code in (0x56,):
        return data[at] == 1, at + 1
    if code >> 4 in (5, 6, 7, 8, 9):
        width = 1 << (code >> 4) - 5
        return int.from_bytes(data[at:at + width], "big"), at + width
    wide = code & 0x10
    size = struct.unpack_from(">I", data, at)[0] if wide else data[at]
    at += 4 if wide else 1
    end = at + size
    if code in (0xa0, 0xb0):
        return data[at:end], end
    if code >> 4 in (0xa, 0xb):
        return data[at:end].decode(), end
    count = struct.unpack_from(">I", data, at)[0] if wide else data[at]
    at += 4 if wide else 1
    if code >> 4 in (0xe, 0xf):
        return f"array of {count}", end
    items = []
    for _ in range(count):
        item, at = read(data, at)
        items.append(item)
    return items, end


class Tap:
    """Prints the frames of one direction of one connection."""

    def __init__(self, report):
        self.report, self.buffer, self.more = report, b"", set()

    def feed(self, data):
        self.buffer += data
        while len(self.buffer) >= 8:
            size = 8 if self.buffer.startswith(b"AMQP") else struct.unpack(">I", self.buffer[:4])[0]
            if len(self.buffer) < size:
                return
            frame, self.buffer = self.buffer[:size], self.buffer[size:]
            if size > 8 and not frame.startswith(b"AMQP"):
                (descriptor, fields), end = read(frame, frame[4] * 4)
                self.report(NAMES.get(descriptor, hex(descriptor)), fields, self.first(descriptor, fields, frame[end:]))

    def first(self, descriptor, fields, payload):
        """Returns the payload of a transfer that begins a message, else None."""
        if descriptor != 0x14:
            return None
        handle, continues = fields[0], fields[0] in self.more
        more = len(fields) > 5 and fields[5]
        (self.more.add if more else self.more.discard)(handle)
        return None if continues else payload


def header_of(payload):
    (descriptor, value), _ = read(payload[:512].ljust(512, b"\0"), 0) if payload[:3] == b"\0Sp" else ((None, None), 0)
    return "none" if descriptor is None else str(value)


def main(arguments):
    headers = arguments[0] == "--headers"
    broker, *command = arguments[1:] if headers else arguments
    host, port = broker.rsplit(":", 1)
    counts, lock = collections.Counter(), threading.Lock()

    def report(name, fields, payload):
        with lock:
            if payload is not None:
                counts[header_of(payload)] += 1
            if not headers:
                print("->", name, fields, "" if payload is None else payload[:80], file=sys.stderr, flush=True)

    def pump(source, sink, tap):
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
                if tap:
                    tap.feed(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    listener = socket.create_server(("127.0.0.1", 0))

    def accept():
        while True:
            client = listener.accept()[0]
            server = socket.create_connection((host, int(port)))
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=pump, args=(client, server, Tap(report)), daemon=True).start()
            threading.Thread(target=pump, args=(server, client, None), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    address = "%s:%d" % listener.getsockname()
    status = subprocess.run(command, env={**os.environ, "SLUICE_AMQP": address}).returncode
    if headers:
        for header, count in counts.most_common():
            print(count, header)
    return status


sys.exit(main(sys.argv[1:]))
