"""A fast queue and a slow one on the same session: workloads f and g of the neutral harness (two
senders; one sender and one receiver). The neighbour is as fast, or it is synced (x-fsync) on a disk
whose every sync takes 5 ms longer, or it is a quorum queue on a disk whose every sync takes 5.9 ms longer.
The harness's client also measures the last case on one channel of AMQP 0.9.1."""
import json
import subprocess

from broker import Broker
from programs import built, harness
from tables import cell, load, median, table

SECONDS = 3
WORKLOADS = {"f": "two senders", "g": "receiver and sender"}
# Title, the queue that the other link uses, and the milliseconds that each sync takes longer. Without a neighbour, the
# harness's client does nothing.
NEIGHBOURS = {"none": ("none", [], 5), "alike": ("as fast", ["other"], 5), "synced": ("synced, 5 ms", ["slow"], 5),
              "quorum": ("quorum queue, 5.9 ms", ["group"], 5.9)}
CLIENTS = {"ours": ("none", "alike", "synced", "quorum"), "go": ("alike", "synced", "quorum"), "go-091": ("quorum",)}
# More than the client receives, so that its queue stays full.
PRELOAD_PER_S = {"ours": 2_000_000, "go": 200_000, "go-091": 200_000}


def workloads():
    return {f"{work}-{neighbour}-{client}": (f"{WORKLOADS[work]}; neighbour: {NEIGHBOURS[neighbour][0]}; client: {client}",
                                             beside(work, *NEIGHBOURS[neighbour][1:], client))
            for client, neighbours in CLIENTS.items() for work in WORKLOADS for neighbour in neighbours}


def beside(work, neighbour, sync_ms, client):
    def run(scale):
        bench = harness()
        seconds = max(0.5, SECONDS * min(1, scale))
        preload = int(PRELOAD_PER_S[client] * seconds)
        with Broker(sync_ms=sync_ms) as broker:
            for queue, arguments in (("fast", {}), ("other", {}), ("slow", {"x-fsync": True}),
                                     ("group", {"x-queue-type": "quorum"})):
                broker.ask("PUT", f"/api/queues/%2F/{queue}", {"durable": True, "arguments": arguments})
            if work == "g":
                subprocess.run([bench.ARROW, "send", "--url", broker.amqp, "--address", "/queues/fast", "--count",
                                str(preload), "--durable"], check=True, capture_output=True)
            if client != "ours":
                command = [bench.GO, {"f": "two-senders", "g": "one-each"}[work], "-url", broker.amqp, "-classic", "fast",
                           "-quorum", *neighbour, "-seconds", str(seconds), "-proto", "091" if client == "go-091" else "10"]
            else:
                command = [built("session"), broker.amqp, str(seconds), {"f": "senders", "g": "receiver"}[work], "fast",
                           *neighbour]
            said, meter = broker.measured(lambda: subprocess.run(command, check=True, capture_output=True).stdout)
        said = json.loads(said)
        fast = said.get("first", said.get("sent_classic", said.get("received")))
        slow = said.get("second", said.get("sent_quorum", said.get("confirmed")))
        if work == "g" and fast == preload:
            raise RuntimeError(f"the receiver has emptied its queue of {preload:,}")
        return {"fast_rate": round(fast / seconds), "neighbour_rate": round(slow / seconds) if neighbour else None,
                "broker_cpu_s_per_million": round(meter.cpu / max(1, fast + slow) * 1e6, 2),
                # The load of this measurement only: filling the queue took much longer.
                "client_cores": round(said["cpu_s"] / seconds, 2), **meter.load}
    return run


def page(results):
    rows = []
    for client, neighbours in CLIENTS.items():
        for work, title in WORKLOADS.items():
            alone = median(results, "neighbours", f"neighbours.{work}-none-{client}", "fast_rate")
            for neighbour in neighbours:
                where = (results, "neighbours", f"neighbours.{work}-{neighbour}-{client}")
                fast = median(*where, "fast_rate")
                if fast is None:
                    continue
                share = f"{fast / alone * 100:.0f} %" if alone else "-"
                rows.append([f"{work}: {title}", client, NEIGHBOURS[neighbour][0], cell(*where, "fast_rate"), share,
                             *(cell(*where, figure) for figure in
                               ("neighbour_rate", "broker_cpu_s_per_million", "client_cores")), load(*where)])
    return table(["workload", "client", "neighbour", "fast queue, msg/s", "of its rate alone", "neighbour, msg/s",
                  "broker CPU s per million", "client, cores", "other load, cores"], rows)
