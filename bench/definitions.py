"""The cost of definitions: declares queues, lists them, binds all of them to one exchange, and
deletes them. Also, the time that the metrics of many queues take.

It uses the management API, so that every part of the broker is included. Each binding has its
own key and leads to its own queue, which is the most expensive case.
"""
import http.client
import json
import statistics
import time

from broker import Broker
from tables import cell, load, table

COUNT = 100_000
# The exchange's type, and whether to measure also the steps that do not involve the exchange.
KINDS = {"direct": True, "fanout": False}
# The number of queues whose metrics are read, and how often.
SCRAPED, SCRAPES = 10_000, 10


def workloads():
    costs = {kind: (f"{COUNT:,} queues, bound to one {kind} exchange", cost(kind, whole)) for kind, whole in KINDS.items()}
    return {**costs, "scrape": (f"the metrics of {SCRAPED:,} queues", scrape)}


def scrape(scale):
    """Reads `/metrics/per-object` of a broker whose queues have all been used."""
    count = max(200, int(SCRAPED * scale))
    queue = "/api/queues/%2F/queue-{:06}"
    with Broker("prometheus.tcp.port=0") as broker:
        broker.ask_all(("PUT", queue.format(number), {"durable": True}) for number in range(count))
        broker.ask_all(("DELETE", queue.format(number) + "/contents") for number in range(count))
        connection, took = http.client.HTTPConnection(broker.metrics), []

        def read():
            for _ in range(SCRAPES):
                began = time.monotonic()
                page = broker.ask("GET", "/metrics/per-object", connection=connection)
                took.append((time.monotonic() - began) * 1e3)
            return page

        page, meter = broker.measured(read)
    if (rows := page.count(b"\nrabbitmq_queue_messages_ready{")) != count:
        raise RuntimeError(f"{rows} of {count} queues are on the page")
    return {"median_ms": round(statistics.median(took), 1), "most_ms": round(max(took), 1),
            "cpu_ms": round(meter.cpu / SCRAPES * 1e3, 1), "lines": page.count(b"\n"), "mib": round(len(page) / 2**20, 1)}


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
    steps = table(["step", "CPU s", "us of CPU each", "seconds", "memory each, B", "other load, cores"], rows)
    where = (results, "definitions", "definitions.scrape")
    figures = [cell(*where, figure) for figure in ("median_ms", "most_ms", "cpu_ms", "lines", "mib")]
    scrapes = [[f"{SCRAPED:,}", *figures, load(*where)]] if figures[0] != "-" else []
    return steps + "\n" + table(["queues", f"ms for `/metrics/per-object`, median of {SCRAPES}", "the slowest", "CPU ms of the broker",
                                 "lines", "MiB", "other load, cores"], scrapes)
