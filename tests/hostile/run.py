#!/usr/bin/env python3
"""Floods the broker as hostile clients do, while a well-behaved client continues. Then checks what is left of the flood.

    tests/hostile/run.py [NAME]...        all floods, or the named ones, in a small form
    tests/hostile/run.py --full           all floods, as large as clients could make them

During a flood, memory must stay below a bound, the other client's messages must arrive, and the health check must answer
within 1 s. Afterwards, memory must be within 32 MiB of its earlier value, and no socket and no alarm may be left.

In the full form, 99 % of the other client's messages must arrive within 100 ms. The flooding clients run on the same cores as
the broker, so the time for which a shard is ready and gets no core does not count. A third client of another broker, which is
idle, does the same meanwhile: what its messages take is the machine's part.

The broker's `budgets` must account for its memory. They and a fixed base, which is what a new broker uses besides, are
compared with resident memory: during the flood it is at most 1.5 times as much, or 32 MiB more. After 5 s in which nothing
happens, while the flood still holds what it has, both differ by at most 32 MiB or 15 %, and within 5 s after all is released.

SLUICE_BIN names the broker (default: the newest build of the profiles ci and release). Prints `hostile: N passed, M failed`.
"""
import argparse
import glob
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

sys.dont_write_bytecode = True
import floods  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MIB = 1 << 20
LEFT = 32 * MIB
# A key of nobody, and a certificate for it.
KEY = os.path.join(ROOT, "crates/tls/testdata/plain.pem")
CERTIFICATE = os.path.join(HERE, "server.pem")
# Seconds until nothing may be left of a flood. The limit of the full form is five. A machine that is
# busy otherwise gets more.
GONE_AFTER = {True: 5, False: 30}
HEALTH_S = 1
# How much resident memory may be of what the budgets and the base account for: during a flood, and how far they may be
# apart after a rest. A small difference is no fault during a flood either: half of the base is less than what is read and
# released between two samples.
DURING, APART, APART_PART, REST_S = 1.5, 32 * MIB, 0.15, 5
# Seconds between two looks at memory, the fewest samples of a flood, and the seconds in which they must be there when it has ended.
LOOK_S, SAMPLES_MIN, SAMPLES_WAIT_S = 0.02, 5, 5
# Seconds within which the allocator has returned freed memory to the system. It counts as in use until then.
RETURNED_AFTER = 1


def find_program():
    named = os.environ.get("SLUICE_BIN")
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    places = (f"{target}/{at}/sluice" for at in ("ci", "release", "*/ci", "*/release"))
    built = sorted((path for place in places for path in glob.glob(place)), key=os.path.getmtime)
    if not named and not built:
        sys.exit("no broker found: cargo build --profile ci -p sluice, or set SLUICE_BIN")
    return named or built[-1]


class Broker:
    def __init__(self, program):
        self.directory = tempfile.mkdtemp(prefix="sluice-hostile-")
        self.log = open(os.path.join(self.directory, "log"), "w")
        sets = ["listeners.tcp.default=0", "listeners.ssl.default=0", f"ssl_options.certfile={CERTIFICATE}",
                f"ssl_options.keyfile={KEY}", "management.tcp.port=0", "prometheus.tcp.port=none"]
        words = [word for each in sets for word in ("--set", each)]
        self.configuration = os.path.join(self.directory, "sluice.conf")
        open(self.configuration, "w").close()
        words += ["--config", self.configuration]
        self.process = subprocess.Popen([program, "serve", "--data-dir", os.path.join(self.directory, "data"), *words],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.process.stdout.readline()
        self.process.stdout.readline()
        ports = (int(re.search(rf"{kind}://[^ ]*?:(\d+)", line)[1]) for kind in ("amqp", "amqps", "http"))
        self.amqp, self.amqps, self.http = ports

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.directory)

    def resident(self):
        with open(f"/proc/{self.process.pid}/statm") as statm:
            return int(statm.read().split()[1]) * resource.getpagesize()

    def accounted(self):
        """Returns the bytes of resident memory, and those that the budgets account for, both by the broker's own answer."""
        node = self.call("/nodes?disable_stats=true")[0]
        return node["mem_used"], {row["name"]: row["used"] for row in node["budgets"]}

    def sockets(self):
        """The number of open sockets. Files are not counted: the log and streams keep some open
        for later."""
        opened = f"/proc/{self.process.pid}/fd"
        found = 0
        for number in os.listdir(opened):
            try:
                found += os.readlink(f"{opened}/{number}").startswith("socket:")
            except FileNotFoundError:
                pass  # It was closed meanwhile.
        return found

    def call(self, path, method="GET", body=None):
        headers = {"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q=", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(f"http://127.0.0.1:{self.http}/api{path}", data, headers, method=method)
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return json.loads(answer.read() or "null")

    def neighbour(self):
        """Starts a well-behaved client, in a virtual host of its own."""
        self.call("/vhosts/neighbour", "PUT")
        self.call("/queues/neighbour/neighbour", "PUT", {"durable": True})
        words = [sys.executable, os.path.join(HERE, "neighbour.py"), str(self.amqp), str(self.process.pid)]
        client = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert client.stdout.readline() == "ready\n", "the well-behaved client could not begin"
        return client

    def declare(self, queue, kind="classic"):
        self.call(f"/queues/%2F/{queue}", "PUT", {"arguments": {"x-queue-type": kind}, "durable": True})

    def delete(self, queue):
        self.call(f"/queues/%2F/{queue}", "DELETE")

    def wait_for_messages(self, queue, count, key="messages"):
        until(lambda: self.call(f"/queues/%2F/{queue}")[key] >= count, 60, lambda: f"{queue} has too few {key}")

    def budget(self, name):
        """Returns the bytes that are in use of a budget, and its limit."""
        row = {row["name"]: row for row in self.call("/nodes")[0]["budgets"]}[name]
        return row["used"], row["limit"]

    def wait_for_budget(self, name, least):
        until(lambda: self.budget(name)[0] >= least, 30, lambda: f"{self.budget(name)[0]} bytes of {name}, not {least}")

    def set_alarm(self, on):
        """Raises the alarm of the disk, or clears it."""
        with open(self.configuration, "w") as configuration:
            configuration.write("disk_free_limit.absolute = 1000TB\n" if on else "")
        self.process.send_signal(signal.SIGHUP)
        until(lambda: self.is_healthy() != on, 30, lambda: "the alarm has not changed")

    def is_healthy(self):
        try:
            return self.call("/health/checks/alarms")["status"] == "ok"
        except urllib.error.HTTPError:
            return False


def until(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"after {seconds} s {what()}")
        time.sleep(0.05)


class Account:
    """Compares resident memory with what the broker's budgets account for."""

    def __init__(self, broker):
        self.broker = broker
        # The fixed base is measured when the broker has started and does nothing. The first login hashes the password.
        broker.accounted()
        time.sleep(2)
        self.measure_base()
        # When a sample was taken, and what the budgets and the base were.
        self.samples, self.ratio = [], 0.0
        # The most bytes above what is allowed, and the figures of that sample.
        self.worst = None
        # How many samples were taken during the flood, and how often the broker has refused to answer.
        self.taken = self.refused = 0

    def measure_base(self):
        resident, used = self.broker.accounted()
        self.base = resident - sum(used.values())

    def look(self):
        """Takes a sample during the flood."""
        try:
            resident, used = self.broker.accounted()
        except urllib.error.HTTPError:
            # The broker has too much to do for others.
            self.refused += 1
            return
        self.taken += 1
        now, known = time.monotonic(), self.base + sum(used.values())
        self.samples = [each for each in self.samples if now - each[0] <= RETURNED_AFTER] + [(now, known)]
        most = max(known for _, known in self.samples)
        self.ratio = max(self.ratio, resident / most)
        above = resident - max(DURING * most, most + APART)
        if self.worst is None or above > self.worst[0]:
            self.worst = above, f"{resident / most:.2f} times: {self.words(resident, used)}"

    def words(self, resident, used):
        parts = ", ".join(f"{name} {bytes / MIB:.1f}" for name, bytes in used.items() if bytes > 0.05 * MIB)
        known = self.base + sum(used.values())
        return f"{resident / MIB:.0f} MiB resident, {known / MIB:.0f} accounted for: base {self.base / MIB:.0f}" + \
            (f", {parts}" if parts else "")

    def check_flood(self):
        """Returns how resident memory compared with the account at the worst moment."""
        assert self.taken >= SAMPLES_MIN, f"only {self.taken} samples of memory, {self.refused} were refused"
        above, words = self.worst
        assert above <= 0, f"{above / MIB:.0f} MiB more than the budgets account for ({words})"
        return f"at most {self.ratio:.2f} times what is accounted for in {self.taken} samples"

    def apart(self):
        """Returns how far memory is apart from the account, whether that is too much, and the figures."""
        resident, used = self.broker.accounted()
        apart = resident - self.base - sum(used.values())
        return apart, abs(apart) > max(APART, APART_PART * resident), self.words(resident, used)

    def check_rest(self, when):
        """Waits until the broker has rested, and returns how far memory is apart from the account."""
        time.sleep(REST_S)
        apart, is_too_much, words = self.apart()
        assert not is_too_much, f"{when}: memory and budgets are {apart / MIB:+.0f} MiB apart ({words})"
        return f"{apart / MIB:+.0f} MiB {when}"

    def check_end(self):
        """Does the same when all is released. The rest may be shorter: nothing happens any more."""
        until(lambda: not self.apart()[1], REST_S, lambda: f"memory and budgets are apart: {self.apart()[2]}")
        return f"{self.apart()[0] / MIB:+.0f} MiB at last"


class Watch(threading.Thread):
    """Watches memory and the health check during a flood."""

    def __init__(self, broker, account):
        super().__init__()
        self.broker, self.peak, self.slowest, self.failed, self.over = broker, 0, 0.0, None, False
        self.account = account

    def run(self):
        asked = looked = 0.0
        # A flood may be short. It still holds what it has, so that its memory can be seen.
        more = SAMPLES_WAIT_S / LOOK_S
        while not self.over or self.account.taken < SAMPLES_MIN and more > 0:
            more -= self.over
            # Whatever goes wrong must end the test, not only this thread.
            try:
                self.peak = max(self.peak, self.broker.resident())
                if time.monotonic() - looked > 0.05:
                    looked = time.monotonic()
                    self.account.look()
            except Exception as error:  # noqa: BLE001
                self.failed = self.failed or f"budgets: {error!r}"
            if time.monotonic() - asked > 0.5:
                asked = time.monotonic()
                try:
                    self.broker.call("/health/checks/alarms")
                except urllib.error.HTTPError:
                    pass  # It has answered: an alarm is raised.
                except Exception as error:  # noqa: BLE001
                    self.failed = self.failed or f"health check: {error!r}"
                self.slowest = max(self.slowest, time.monotonic() - asked)
            time.sleep(LOOK_S)


def check(program, flood, full):
    """Runs one flood. Returns a line with the figures. Raises an error that says what is wrong."""
    broker = Broker(program)
    idle = Broker(program) if full else None
    clients = []
    try:
        account = Account(broker)
        clients = [each.neighbour() for each in (broker, idle) if each]
        steps = flood(broker, full)
        next(steps)
        time.sleep(2)
        if flood.declares:
            account.measure_base()
        before, sockets = broker.resident(), broker.sockets()
        watch = Watch(broker, account)
        watch.start()
        flood_began = time.monotonic()
        try:
            next(steps)
        finally:
            flood_ended = time.monotonic()
            watch.over = True
            watch.join()
        kept = [account.check_flood(), account.check_rest("while it lasts")]
        for _ in steps:
            pass
        left = lambda: broker.resident() - before  # noqa: E731
        began = time.monotonic()
        until(lambda: broker.sockets() <= sockets, GONE_AFTER[full], lambda: f"{broker.sockets() - sockets} sockets are left")
        until(lambda: left() <= LEFT, GONE_AFTER[full], lambda: f"{left() / MIB:.0f} MiB are left")
        gone = time.monotonic() - began
        kept.append(account.check_end())
        assert broker.is_healthy(), "an alarm is left"
        trips, *others = [Trips(client, flood_began, flood_ended) for client in clients]
        assert trips.count > 0, "the well-behaved client was not served"
        grown = watch.peak - before
        seen = (f"memory +{grown / MIB:.0f} MiB, {left() / MIB:+.0f} after {gone:.1f} s; {trips}"
                f"{''.join(f' (idle broker: {each})' for each in others)}; health within {watch.slowest:.2f} s; "
                f"budgets: {', '.join(kept)}")
        assert not watch.failed, f"{watch.failed} ({seen})"
        assert grown <= flood.bound * MIB, f"more than {flood.bound} MiB ({seen})"
        served = not full or flood.stops_publishers or p99(trips.served) < flood.p99_ms
        assert served, f"messages took too long ({seen})"
        assert not full or watch.slowest < HEALTH_S, f"the health check took too long ({seen})"
        return seen
    except BaseException:
        broker.log.flush()
        with open(broker.log.name) as log:
            print("".join(log.readlines()[-20:]), file=sys.stderr)
        raise
    finally:
        for client in clients:
            client.kill()
            client.wait()
        broker.stop()
        if idle:
            idle.stop()


class Trips:
    """The round trips of a well-behaved client during a flood."""

    def __init__(self, client, begin, end):
        trips = json.loads(client.communicate("", timeout=60)[0] or "[]")
        assert client.returncode == 0, "the well-behaved client was not served"
        trips = [(took, served) for began, took, served in trips if begin <= began <= end]
        self.count, self.took, self.served = len(trips), *(sorted(times) for times in zip(*trips or [(0, 0)]))

    def __str__(self):
        return (f"{self.count} round trips, p99 {p99(self.took):.1f} ms, without waits for a core {p99(self.served):.1f} ms, "
                f"worst {self.took[-1]:.1f} ms")


def p99(times):
    return times[int(0.99 * (len(times) - 1))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="run the floods as large as clients could make them")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    known = {each.__name__: each for each in floods.FLOODS}
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"no flood {unknown[0]}; there are {', '.join(known)}")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    program, failed = find_program(), 0
    chosen = options.names or list(known)
    for name in chosen:
        try:
            print(f"ok      {name}: {check(program, known[name], options.full)}", flush=True)
        except (AssertionError, OSError, EOFError) as error:
            failed += 1
            print(f"FAILED  {name}: {error!r}", flush=True)
    print(f"hostile: {len(chosen) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
