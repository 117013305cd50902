"""The cost of definitions: declares queues, lists them, binds all of them to one exchange, and
deletes them.

It uses the management API, so that every part of the broker is included. Each binding has its
own key and leads to its own queue, which is the most expensive case.
"""
import json

from broker import Broker
from tables import cell, load, table

COUNT = 100_000
# The exchange's type, and whether to measure also the steps that do not involve the exchange.
KINDS = {"direct": True, "fanout": False}


def workloads():
    return {kind: (f"{COUNT:,} queues, bound to one {kind} exchange", cost(kind, whole)) for kind, whole in KINDS.items()}


def cost(kind, whole):
    def run(scale):
        count = max(200, int(COUNT * scale))
        steps = {}
        with Broker() as broker:
            def measure(what, work):
                before = broker.rss_mib()
                result, meter = broker.measured(work)
                steps[what] = {"cpu_s": round(meter.cpu, 2), "cpu_us_each": round(meter.cpu / count * 1e6, 1),
                               "wall_s": round(meter.wall, 2),
                               "bytes_each": round((broker.rss_mib() - before) * 2**20 / count)}
                return result

            def each(method, path, body=lambda _: None):
                requests = ((method, path.format(name), body(name)) for name in names)
                return lambda: broker.ask_all(requests)

            def listed(path):
                return lambda: json.loads(broker.ask("GET", path))

            names = [f"queue-{number:06}" for number in range(count)]
            queue, binding = "/api/queues/%2F/{}", "/api/bindings/%2F/e/all/q/{}"
            key = lambda name: {"routing_key": f"key.{name}"}  # noqa: E731
            measure("declare queues", each("PUT", queue, lambda _: {"durable": True}))
            if whole:
                measure("use each once (purge)", each("DELETE", queue + "/contents"))
                rows = measure("list all queues", listed("/api/queues"))
                page = measure("list one page of 100", listed("/api/queues?page=2&page_size=100"))
                if (len(rows), len(page["items"])) != (count, 100):
                    raise RuntimeError(f"{len(rows)} of {count} queues listed, {len(page['items'])} of 100 on a page")
                steps["idle queue"] = {"bytes_each": steps["declare queues"]["bytes_each"]
                                       + steps["use each once (purge)"]["bytes_each"]}
            broker.ask("PUT", "/api/exchanges/%2F/all", {"type": kind})
            measure("bind each to one exchange", each("POST", binding, key))
            if whole:
                measure("bind each again", each("POST", binding, key))
            measure("delete queues with their bindings", each("DELETE", queue))
        return steps
    return run


def page(results):
    rows = []
    for key in KINDS:
        where = (results, "definitions", f"definitions.{key}")
        for step in ("declare queues", "use each once (purge)", "list all queues", "list one page of 100",
                     "bind each to one exchange", "bind each again", "delete queues with their bindings"):
            figures = [cell(*where, step, figure) for figure in ("cpu_s", "cpu_us_each", "wall_s", "bytes_each")]
            # Declaring costs the same with either exchange.
            if figures[0] != "-" and (key == "direct" or step != "declare queues"):
                rows.append([step if "bind" not in step else f"{step}, {key}", *figures, load(*where)])
    return table(["step", "CPU s", "us of CPU each", "seconds", "memory each, B", "other load, cores"], rows)
