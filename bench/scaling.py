"""The cost of more of the same: triples of publisher, queue and consumer, and bindings of an
exchange.

Durable messages of 12 bytes, credit 200, sent by `sluice bench` on the same machine. The
bindings lead from one exchange to one queue, each with its own key. A link publishes to one of
the keys.
"""
import json
import subprocess

from broker import Broker
from programs import built
from tables import cell, load, table

COUNT = 1_000_000
TRIPLES = (1, 2, 4, 8)
BINDINGS = (1, 100, 10_000, 100_000)
KINDS = ("direct", "topic")


def workloads():
    return {
        **{f"triples-{n}": (f"publisher, queue and consumer, {n} times", triples(n)) for n in TRIPLES},
        **{f"{kind}-{n}": (f"{kind} exchange, bindings: {n:,}", bindings(kind, n)) for kind in KINDS for n in BINDINGS},
    }


def publish(broker, *words):
    command = [built("sluice"), "bench", "--json", "--url", broker.amqp, *map(str, words)]
    out, meter = broker.measured(lambda: subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    result = json.loads(out.splitlines()[-1])
    if not result["complete"]:
        raise RuntimeError(f"incomplete: {result}")
    # The load of this measurement only: binding 100,000 keys took much longer.
    return {"rate": round(result["messages_per_s"]), **meter.load,
            "broker_cpu_s_per_million": round(meter.cpu / result["received"] * 1e6, 2)}


def triples(n):
    def run(scale):
        with Broker() as broker:
            return publish(broker, "--pairs", n, "--count", int(COUNT * scale) // n)
    return run


def bindings(kind, n):
    def run(scale):
        with Broker() as broker:
            # The pattern fan-out calls its first queue so.
            broker.ask("PUT", "/api/queues/%2F/q-1", {"durable": True})
            broker.ask("PUT", "/api/exchanges/%2F/x", {"type": kind})
            broker.ask_all(("POST", "/api/bindings/%2F/e/x/q/q-1", {"routing_key": f"key.{i}"})
                           for i in range(max(1, int(n * scale))))
            return publish(broker, "--pattern", "fan-out", "--receivers", 1, "--no-declare", "--queue", "q",
                           "--exchange-address", "/exchanges/x/key.0", "--count", int(COUNT * scale))
    return run


def page(results):
    def rows(counts, *kinds):
        for n in counts:
            where = [(results, "scaling", f"scaling.{kind}-{n}") for kind in kinds]
            row = [cell(*one, figure) for one in where for figure in ("broker_cpu_s_per_million", "rate")]
            if set(row) != {"-"}:
                yield [f"{n:,}", *row, *(load(*one) for one in where)]

    return "\n".join([
        table(["triples", "CPU s per million", "msg/s", "other load, cores"], list(rows(TRIPLES, "triples"))),
        table(["bindings", "direct: CPU s per million", "msg/s", "topic: CPU s per million", "msg/s",
               "direct: other load, cores", "topic"], list(rows(BINDINGS, *KINDS)))])
