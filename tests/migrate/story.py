"""Runs the commands of docs/migrate.md in their order, does between them what the page asks of people, and counts messages.

A block that is fenced with `sh` is run, and the block `text` after it is its output, in which `...` stands for any text. A line
`<!-- test: do NAME -->` calls the method NAME of `Story`, and `<!-- test: broker -->` says that the next block starts Sluice.
"""

import re
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

from clients import PREFETCH, RABBITMQ, SLUICE, Consumer, Publisher, first_times, late

# The messages that are in each queue before anything moves.
BACKLOG = 3000

# The shovels' prefetch: they keep RabbitMQ's default.
SHOVEL_PREFETCH = 1000

# Seconds after which something that must happen counts as failed. A guard against hanging, not a measure.
PATIENCE = 600

# Seconds for which programs work in a state before the next step.
WHILE = 3

QUEUES = {"orders": "order", "invoices": "invoice"}


def shell(script, **options):
    return subprocess.run(["bash", "-euo", "pipefail", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, timeout=PATIENCE, **options)


def wait_until(what, happened):
    deadline = time.monotonic() + PATIENCE
    while not happened():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain: {what}")
        time.sleep(0.1)


def parts(page):
    """Yields what to do: ("do", name), or (how, line, script, output) for a block."""
    lines, how, at = page.splitlines(), "run", 0
    while at < len(lines):
        if marked := re.fullmatch(r"<!-- test: (do )?(\w+) -->", lines[at]):
            if marked[1]:
                yield "do", marked[2]
            else:
                how = marked[2]
        elif lines[at] == "```sh":
            end = lines.index("```", at)
            script, first = "\n".join(lines[at + 1:end]), at + 1
            at, output = end, None
            if lines[end + 1:end + 3] == ["", "```text"]:
                close = lines.index("```", end + 3)
                output, at = "\n".join(lines[end + 3:close]), close
            yield how, first, script, output
            how = "run"
        at += 1


def check_output(line, wanted, found):
    pattern = ".*".join(re.escape(part) for part in wanted.split("..."))
    if not re.fullmatch(pattern, found.rstrip("\n"), re.DOTALL):
        raise AssertionError(f"line {line} of the page shows\n{wanted}\nbut the output is\n{found}")


class Story:
    def __init__(self):
        self.passed = 0
        self.exports = ""
        self.serve = self.sluice = None
        self.publishers, self.consumers, self.at_rabbitmq = {}, {}, {}

    def check(self, what, holds, found=""):
        print("ok  " if holds else "FAIL", what, found, flush=True)
        if not holds:
            raise AssertionError(f"{what} {found}")
        self.passed += 1

    # ---- the world before the move ----------------------------------------------------------------------------

    def prepare(self):
        done = shell("""
            api=http://127.0.0.1:15672/api
            put() { curl -sf -u guest:guest -X "$1" "$api/$2" -d "$3"; }
            put PUT vhosts/shop '{}'
            put PUT users/app '{"password": "app-secret", "tags": ""}'
            put PUT permissions/shop/app '{"configure": ".*", "write": ".*", "read": ".*"}'
            put PUT policies/shop/limits '{"pattern": "^orders$", "apply-to": "queues", "definition": {"max-length": 1000000}}'
            put PUT permissions/shop/guest '{"configure": ".*", "write": ".*", "read": ".*"}'
            put PUT queues/shop/orders '{"durable": true, "arguments": {"x-queue-type": "classic"}}'
            put PUT queues/shop/invoices '{"durable": true, "arguments": {"x-queue-type": "quorum"}}'
            put PUT queues/shop/events '{"durable": true, "arguments": {"x-queue-type": "stream"}}'
            put PUT exchanges/shop/shop '{"type": "topic", "durable": true}'
            put POST bindings/shop/e/shop/q/orders '{"routing_key": "order.#"}'
            put POST bindings/shop/e/shop/q/invoices '{"routing_key": "invoice.#"}'
            put POST bindings/shop/e/shop/q/events '{"routing_key": "event.#"}'""")
        if done.returncode:
            raise AssertionError(done.stdout)
        for queue, key in QUEUES.items():
            self.publishers[queue] = Publisher(RABBITMQ, key, 0)
        wait_until("the backlog is published", lambda: all(p.next >= BACKLOG for p in self.publishers.values()))
        # Consumers that are slower than their publishers keep the backlog.
        for queue in QUEUES:
            self.publishers[queue].pause = 0.004
            self.at_rabbitmq[queue] = Consumer(RABBITMQ, queue, pause=0.006)
        time.sleep(WHILE)

    # ---- what the page asks of people ---------------------------------------------------------------------------

    def move_the_consumers(self):
        for queue in QUEUES:
            self.at_rabbitmq[queue].stop()
            self.consumers[queue] = Consumer(SLUICE, queue)
        time.sleep(1)
        self.check("consumers log in to Sluice with the old password", all(c.is_ready.is_set() for c in self.consumers.values()))

    def survive_a_failure(self):
        wait_until("both shovels move messages", lambda: all(len(c.seen) > 100 for c in self.consumers.values()))
        self.sluice.send_signal(signal.SIGKILL)
        self.sluice.wait()
        time.sleep(1)
        self.start_sluice()
        before = {queue: len(consumer.seen) for queue, consumer in self.consumers.items()}
        wait_until("both shovels move messages again",
                   lambda: all(len(c.seen) > before[queue] + 100 for queue, c in self.consumers.items()))

    def stop_the_publishers(self):
        self.moved_up_to = {}
        for queue, publisher in self.publishers.items():
            publisher.stop()
            self.moved_up_to[queue] = publisher.next

    def start_the_publishers(self):
        for queue, key in QUEUES.items():
            self.publishers[queue] = Publisher(SLUICE, key, self.moved_up_to[queue], pause=0.004)
        time.sleep(WHILE)
        for queue, publisher in self.publishers.items():
            publisher.stop()
            self.wait_for_all(queue)
            all_seen = self.at_rabbitmq[queue].seen + self.consumers[queue].seen
            numbers = first_times(all_seen)
            doubles = len(all_seen) - len(numbers)
            self.check(f"{queue}: every confirmed message arrives", sorted(numbers) == list(range(publisher.next)),
                       f"({publisher.next} messages, {doubles} of them twice)")
            # A consumer has moved, and Sluice was killed, with a consumer and a shovel.
            requeued = SHOVEL_PREFETCH + 2 * PREFETCH
            self.check(f"{queue}: the breaks explain the doubles", doubles <= requeued)
            if queue == "orders":
                self.check(f"{queue}: in order", numbers == sorted(numbers))
            else:
                # RabbitMQ's quorum queues change the order of what returns to them.
                self.check(f"{queue}: in order, except what returned", late(numbers) <= requeued,
                           f"({late(numbers)} messages were late)")
            self.check(f"{queue}: the properties stay the same", not self.consumers[queue].differences,
                       self.consumers[queue].differences or "")

    def wait_for_all(self, queue, more=lambda: ()):
        wanted = self.publishers[queue].next
        seen = lambda: {*self.at_rabbitmq[queue].seen, *self.consumers[queue].seen, *more()}
        wait_until(f"{queue}: {wanted} messages arrive", lambda: len(seen()) >= wanted)

    def publish_events(self):
        self.publishers["events"] = Publisher(RABBITMQ, "event", 0)
        wait_until("the stream has messages", lambda: self.publishers["events"].next >= BACKLOG)
        self.publishers["events"].pause = 0.004

    def copied(self):
        """Returns the number of messages in the copy of the stream."""
        listed = shell("sluice list queues -p shop", env=self.env()).stdout
        found = re.search(r"^events .* (\d+) +\d+$", listed, re.MULTILINE)
        return int(found[1]) if found else 0

    def break_the_shovel_of_events(self):
        wait_until("the shovel copies the stream", lambda: self.copied() > BACKLOG)
        self.sluice.send_signal(signal.SIGKILL)
        self.sluice.wait()
        self.start_sluice()
        wait_until("the shovel has ended", lambda: "terminated" in shell("rabbitmqctl -q shovel_status").stdout)
        self.check("a shovel that broke does not start again", self.copied() < self.publishers["events"].next)

    def stop_the_events(self):
        events = self.publishers["events"]
        events.stop()
        wait_until("all events are copied", lambda: self.copied() >= events.next)

    def read_the_events(self):
        first = self.publishers["events"].next
        publisher = self.publishers["events"] = Publisher(SLUICE, "event", first)
        wait_until("further events", lambda: publisher.next >= first + 100)
        publisher.stop()
        reader = Consumer(SLUICE, "events", arguments={"x-stream-offset": "first"})
        wait_until("the reader has all events", lambda: len(reader.seen) >= publisher.next)
        reader.stop()
        self.check("events: every message once, in order", reader.seen == list(range(publisher.next)),
                   f"({publisher.next} messages, {first} of them copied)")
        self.check("events: the properties stay the same", not reader.differences, reader.differences or "")

    def serve_those_who_stay(self):
        # The consumer in Sluice goes, so that RabbitMQ fetches for its own.
        self.consumers["invoices"].stop()
        staying = Consumer(RABBITMQ, "invoices")
        copies = Consumer(RABBITMQ, exchange_key="order.#")
        wait_until("a program binds its queue", copies.is_ready.is_set)
        wait_until("RabbitMQ makes the binding in Sluice",
                   lambda: re.search(r"shop +federation: .*order", shell("sluice list bindings -p shop", env=self.env()).stdout))
        first = self.publishers["orders"].next
        for queue, key in QUEUES.items():
            self.publishers[queue] = Publisher(SLUICE, key, self.publishers[queue].next, pause=0.004)
        time.sleep(WHILE)
        for publisher in self.publishers.values():
            publisher.stop()
        self.wait_for_all("orders")
        self.wait_for_all("invoices", lambda: staying.seen)
        self.check("a consumer that stays gets the messages from Sluice", len(staying.seen) > 100, f"({len(staying.seen)} messages)")
        self.check("none of them twice", len(staying.seen) == len(set(staying.seen)))
        copied = range(first, self.publishers["orders"].next)
        wait_until("all copies arrive", lambda: set(copied) <= set(copies.seen))
        self.check("a queue that stays gets a copy of each message, in order", first_times(copies.seen) == list(copied),
                   f"({len(copied)} messages)")
        self.staying, self.copies = staying, copies

    def move_those_who_stayed(self):
        self.copies.stop()
        self.staying.stop()
        # What it had not acknowledged stays in RabbitMQ until somebody takes it. Here nothing is left.
        self.at_rabbitmq["invoices"].seen += self.staying.seen
        # RabbitMQ counts the messages of a quorum queue only now and then.
        wait_until("RabbitMQ counts no message any more", lambda: re.search(
            r"^invoices\s0$", shell("rabbitmqctl -q -p shop list_queues name messages").stdout, re.MULTILINE))
        self.consumers["invoices"] = Consumer(SLUICE, "invoices")

    def lose_the_user(self):
        """Makes RabbitMQ forget the user of all programs, so that only Sluice's export can bring it back."""
        done = shell("rabbitmqctl delete_user app && ! rabbitmqctl authenticate_user app app-secret")
        self.check("RabbitMQ has lost the user", done.returncode == 0, "" if done.returncode == 0 else done.stdout)

    def go_back(self):
        for queue in QUEUES:
            self.consumers[queue].stop()
            self.at_rabbitmq[queue] = Consumer(RABBITMQ, queue)
            first = self.publishers[queue].next
            publisher = self.publishers[queue] = Publisher(SLUICE, QUEUES[queue], first)
            wait_until("some messages", lambda: publisher.next >= first + 500)
            publisher.stop()
            wait_until(f"{queue}: the messages are back", lambda: len(set(self.at_rabbitmq[queue].seen)) >= publisher.next - first)
            self.check(f"{queue}: the messages come back, in order",
                       self.at_rabbitmq[queue].seen == list(range(first, publisher.next)))

    # ---- the commands of the page -------------------------------------------------------------------------------

    def env(self):
        found = shell(self.exports + "env -0").stdout
        return dict(line.split("=", 1) for line in found.split("\0") if "=" in line)

    def start_sluice(self):
        out = open("sluice.out", "w+", encoding="utf-8")
        self.sluice = subprocess.Popen(["bash", "-c", f"exec {self.serve}"], stdout=out, stderr=open("sluice.log", "ab"))
        wait_until("Sluice starts", lambda: "Server startup complete" in Path("sluice.out").read_text(encoding="utf-8"))
        return Path("sluice.out").read_text(encoding="utf-8")

    def run_block(self, how, line, script, output):
        print(f"--- line {line} of the page", flush=True)
        if how == "broker":
            self.serve = script
            found = self.start_sluice()
        else:
            done = shell(self.exports + script)
            found = done.stdout
            if done.returncode:
                raise AssertionError(f"line {line} of the page ended with {done.returncode}:\n{found}")
            self.exports += "".join(f"{line}\n" for line in script.splitlines() if line.startswith("export "))
        if output is not None:
            check_output(line, output, found)
        self.passed += 1

    def run(self, page):
        self.prepare()
        for how, *rest in parts(page):
            if how == "do":
                print(f"--- {rest[0]}", flush=True)
                getattr(self, rest[0])()
            else:
                self.run_block(how, *rest)


def main():
    story, failed = Story(), 0
    try:
        story.run(Path(sys.argv[1]).read_text(encoding="utf-8"))
    except Exception:  # any error is a failed step, after which no further step makes sense
        failed = 1
        traceback.print_exc()
    print(f"migrate: {story.passed} passed, {failed} failed")
    sys.exit(failed)


main()
