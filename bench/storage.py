"""Measures what a backlog costs in memory, disk and time, with messages of 100 bytes in durable classic
queues and in quorum queues, what idle quorum queues cost, and what it costs to read a stream of 2 GiB again. Needs about 40 GB below $BENCH_WORK."""
import os
import shutil
import signal
import subprocess
import time

from broker import Broker
from programs import WORK, built
from tables import last_good, load, table

DATA = os.path.join(WORK, "storage-data")


def workloads():
    return {function.__name__: (function.__doc__, told(function))
            for function in (backlog, straggler, backlog_quorum, straggler_quorum, idle_quorum, end, huge, many, streams)}


def told(function):
    def run(scale):
        try:
            return {"rows": function(scale)}
        finally:
            fresh()
    return run


def page(results):
    parts = []
    for key, (title, _) in workloads().items():
        where = (results, "storage", f"storage.{key}")
        found = last_good(*where)
        if found:
            rows = [[what, f"{value:,}", goal] for what, value, goal in found["rows"]]
            parts.append(f"{title} (other load: {load(*where)} cores)\n\n" + table(["what", "found", "goal"], rows))
    return "\n".join(parts) or table([], [])


# ---- tools -----------------------------------------------------------------

def send(broker, queue, count, octets=100):
    body = os.path.join(WORK, "body")
    with open(body, "w") as f:
        f.write("x" * octets)
    broker.verb("send", queue, "--file", body, "--count", count)


def drain(broker, queue, count):
    broker.verb("recv", queue, "--count", count, "--credit", 1000)


def replay(broker, stream, consumers, credit, count):
    subprocess.run([built("replay"), broker.amqp, stream, str(consumers), str(credit), str(count)], check=True)


def disk():
    """Returns the size of the data directory, in MiB."""
    total = 0
    for folder, _, names in os.walk(DATA):
        for name in names:
            try:
                total += os.stat(os.path.join(folder, name)).st_blocks * 512
            except FileNotFoundError:
                pass
    return round(total / 2**20, 1)


def settled_disk():
    """Returns the size of the data directory when it no longer changes, in MiB."""
    last, since = disk(), time.monotonic()
    while time.monotonic() - since < 3:
        time.sleep(0.2)
        now = disk()
        if now != last:
            last, since = now, time.monotonic()
    return last


def fresh():
    shutil.rmtree(DATA, ignore_errors=True)


def fill(queues, messages):
    fresh()
    subprocess.run([built("fill"), DATA, str(queues), str(messages)], check=True)
    os.sync()


def per_million(meter, count):
    return ("CPU seconds of the broker per million", round(meter.cpu / count * 1e6, 2), "")


# ---- what is measured ------------------------------------------------------

def backlog(scale, kind="classic"):
    """10 million messages are published to one queue, stored, and then consumed."""
    count = int(10_000_000 * scale)
    fresh()
    with Broker(data=DATA) as broker:
        broker.verb("declare", "queue", "q", "--type", kind)
        _, meter = broker.measured(lambda: send(broker, "q", count))
        rows = [(f"{count:,} messages into one queue: messages per second", round(count / meter.wall), ""),
                per_million(meter, count), ("memory at most, MiB", round(meter.peak_rss, 1), "below 150")]
        time.sleep(2)
        before = broker.rss_mib()
        rows += [("memory afterwards, MiB", round(before, 1), "below 150"), ("disk, MiB", disk(), "")]
        _, meter = broker.measured(lambda: drain(broker, "q", count))
        return rows + [
            ("drained by one consumer: messages per second", round(count / meter.wall), ""), per_million(meter, count),
            ("growth of memory at most, MiB", round(meter.peak_rss - before, 1), "not growing"),
            ("disk afterwards, MiB", settled_disk(), "")]


def straggler(scale, kind="classic"):
    """One message stays unsettled, while the 10 million messages after it are settled."""
    count = int(10_000_000 * scale)
    fresh()
    with Broker("heartbeat=0", data=DATA) as broker:
        broker.verb("declare", "queue", "q", "--type", kind)
        holder = broker.verb("recv", "q", "--credit", 1, wait=False)
        try:
            time.sleep(1)
            holder.send_signal(signal.SIGSTOP)
            send(broker, "q", count + 1)
            drain(broker, "q", count)
            return [(f"disk with one unsettled message before {count:,} settled ones, MiB", settled_disk(), "below 64")]
        finally:
            holder.kill()
            holder.wait()


def backlog_quorum(scale):
    """10 million messages are published to one quorum queue, stored, and then consumed."""
    return backlog(scale, "quorum")


def straggler_quorum(scale):
    """In a quorum queue, one message stays unsettled, while the 10 million messages after it are settled."""
    return straggler(scale, "quorum")


def idle_quorum(scale):
    """20,000 quorum queues are used once at three priorities, and are then idle for a minute."""
    queues = int(20_000 * scale)
    fresh()

    def rested(broker, what, empty):
        time.sleep(60)
        each = round((broker.rss_mib() - empty) * 2**20 / queues)
        _, meter = broker.measured(lambda: time.sleep(20))
        return [(f"memory per queue {what}, bytes", each, "below 3,072"),
                ("CPU of all idle queues, % of a core", round(meter.cpu / meter.wall * 100, 2), "at most 0.5")]
    with Broker(data=DATA) as broker:
        time.sleep(1)
        empty = broker.rss_mib()
        subprocess.run([built("touch"), broker.amqp, str(queues)], check=True)
        rows = rested(broker, "after a minute", empty)
    # The end of the block above has killed the broker.
    with Broker(data=DATA) as broker:
        rows += [("seconds from exec to listening after a kill", round(broker.listening_s, 2), "below 1")]
        return rows + rested(broker, "after a kill, and a minute", empty)


def end(scale):
    """A queue of 10 million messages is deleted, and another one is purged."""
    count = int(10_000_000 * scale)
    rows = []
    for what, path in ("deleted", "/api/queues/%2F/q-0"), ("purged", "/api/queues/%2F/q-0/contents"):
        fill(1, count)
        with Broker(data=DATA) as broker:
            broker.verb("recv", "q-0", "--count", 1)
            before = disk()
            _, meter = broker.measured(lambda: broker.ask("DELETE", path))
            rows += [(f"a queue of {count:,} messages is {what}: ms until the answer", round(meter.wall * 1e3, 1), ""),
                     ("CPU of the broker until the answer, ms", round(meter.cpu * 1e3), ""),
                     ("disk before, MiB", before, ""), ("disk after, MiB", settled_disk(), "")]
    return rows


def start(broker, what, queue):
    """Measures a start with existing data, and the first delivery."""
    time.sleep(1)
    rows = [(f"{what}: seconds from exec to listening", round(broker.listening_s, 2), "below 2"),
            ("memory after the start, MiB", round(broker.rss_mib(), 1), "below 200")]
    _, meter = broker.measured(lambda: broker.verb("recv", queue, "--count", 1))
    return rows + [("seconds to a queue's first delivery, the client's start included", round(meter.wall, 3), "below 1"),
                   ("memory at most until this delivery, MiB", round(meter.peak_rss, 1), "below 200")]


def huge(scale):
    """The broker starts with 100 million messages in one queue."""
    count = int(100_000_000 * scale)
    fill(1, count)
    with Broker(data=DATA) as broker:
        rows = start(broker, f"one queue with {count:,} messages", "q-0")
        some = count // 50
        _, meter = broker.measured(lambda: drain(broker, "q-0", some))
        return rows + [
            (f"memory at most during {some:,} deliveries, MiB", round(meter.peak_rss, 1), "below 200"),
            per_million(meter, some)]


def many(scale):
    """The broker starts with 10,000 queues that hold 10 million messages together."""
    queues, messages = 10_000, max(1, int(1000 * scale))
    fill(queues, messages)
    title = f"{queues:,} queues with {messages:,} messages each, "
    with Broker(data=DATA) as broker:
        rows = start(broker, title + "stopped cleanly", "q-7777")
    # The end of the block above has killed the broker.
    with Broker(data=DATA) as broker:
        return rows + start(broker, title + "killed", "q-3333")


def streams(scale):
    """A stream of 2 GiB in messages of 1,000 bytes is written, and then read from its first message on."""
    count = int((2 << 30) * scale) // 1000
    fresh()
    with Broker(data=DATA) as broker:
        broker.verb("declare", "queue", "s", "--type", "stream")
        _, meter = broker.measured(lambda: send(broker, "s", count, 1000))
        rows = [(f"{count:,} messages into the stream: messages per second", round(count / meter.wall), ""),
                per_million(meter, count), ("memory at most, MiB", round(meter.peak_rss, 1), ""), ("disk, MiB", disk(), "")]
        broker.stop()
    alone = None
    for consumers, credit in (1, 200), (5, 200), (1, 100_000), (5, 100_000):
        # Each run has a broker process of its own, because freed memory stays in the allocator and would
        # count in the next run.
        with Broker(data=DATA) as broker:
            time.sleep(1)
            before = broker.rss_mib()
            _, meter = broker.measured(lambda: replay(broker, "s", consumers, credit, count))
            broker.stop()
        read, more = consumers * count, meter.peak_rss - before
        who = f"{consumers} consumer{'s' * (consumers > 1)} with credit {credit:,}"
        rows += [(f"{who}: messages per second", round(read / meter.wall), ""),
                 per_million(meter, read), ("growth of memory at most, MiB", round(more, 1), "")]
        if consumers == 1:
            alone = more
        else:
            further = round((more - alone) / (consumers - 1), 1)
            rows += [("growth for each further consumer, MiB", further, "at most 2")]
    return rows
