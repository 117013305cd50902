"""A well-behaved client: sends a message and waits for it, again and again, until standard input
ends.

  neighbour.py PORT

Then it prints the number of round trips and their times: {"round_trips": N, "worst_ms": MS,
"median_ms": MS}.
"""
import json
import select
import statistics
import sys
import time

import wire


def main(port):
    client = wire.Client(port)
    sender = client.sender("/queues/neighbour")
    client.wait_for(wire.FLOW)
    receiver = client.receiver("/queues/neighbour", credit=1)
    client.wait_for(wire.ATTACH)
    print("ready", flush=True)
    took = []
    while not select.select([sys.stdin], [], [], 0.01)[0]:
        began, number = time.monotonic(), len(took)
        client.send(sender, number, b"hello")
        seen = set()
        while seen != {wire.TRANSFER, wire.DISPOSITION}:
            code, frame = client.read()
            if code in (wire.DETACH, wire.END, wire.CLOSE):
                raise ConnectionError(repr(frame))
            seen |= {code} & {wire.TRANSFER, wire.DISPOSITION}
        took.append((time.monotonic() - began) * 1000)
        client.accept(number, number)
        client.grant(receiver, number + 1, 1)
    print(json.dumps({"round_trips": len(took), "worst_ms": round(max(took, default=0), 1),
                      "median_ms": round(statistics.median(took or [0]), 1)}))


main(int(sys.argv[1]))
