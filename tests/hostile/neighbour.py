"""A well-behaved client in the virtual host `neighbour`: sends a message and waits for it, again and again, until standard
input ends.

  neighbour.py PORT PID

Then it prints a list with three numbers for each round trip: when it began by the machine's monotonic clock, in seconds, and its
time in milliseconds, with and without the time for which a shard of the broker, the process PID, was ready to run and got no core.
"""
import glob
import json
import select
import sys
import time

import wire


class Cores:
    """How long the shards of a broker have waited for a core."""

    def __init__(self, process):
        self.files = []
        for task in glob.glob(f"/proc/{process}/task/*"):
            with open(f"{task}/comm") as name:
                if name.read().startswith("shard-"):
                    self.files.append(open(f"{task}/schedstat", "rb", buffering=0))  # noqa: SIM115
        assert self.files, "the broker has no shards"

    def waited_ms(self):
        """Returns the milliseconds of each shard since it has started."""
        return [int(file.read(100).split()[1]) / 1e6 for file in self.files if file.seek(0) == 0]


def main(port, process):
    cores = Cores(process)
    client = wire.Client(port, vhost="neighbour")
    sender = client.sender("/queues/neighbour")
    client.wait_for(wire.FLOW)
    receiver = client.receiver("/queues/neighbour", credit=1)
    client.wait_for(wire.ATTACH)
    print("ready", flush=True)
    trips = []
    while not select.select([sys.stdin], [], [], 0.01)[0]:
        number, before = len(trips), cores.waited_ms()
        began = time.monotonic()
        client.send(sender, number, b"hello")
        seen = set()
        while seen != {wire.TRANSFER, wire.DISPOSITION}:
            code, frame = client.read()
            if code in (wire.DETACH, wire.END, wire.CLOSE):
                raise ConnectionError(repr(frame))
            seen |= {code} & {wire.TRANSFER, wire.DISPOSITION}
        took = (time.monotonic() - began) * 1000
        waited = max(after - then for after, then in zip(cores.waited_ms(), before))
        trips.append((began, took, max(took - waited, 0)))
        client.accept(number, number)
        client.grant(receiver, number + 1, 1)
    print(json.dumps(trips))


main(int(sys.argv[1]), int(sys.argv[2]))
