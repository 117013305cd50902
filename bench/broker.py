"""A Sluice broker for one measurement, and the resources that it used."""
import base64
import http.client
import json
import os
import queue
import resource
import signal
import subprocess
import tempfile
import threading
import time

from programs import WORK, built, harness
from slow_disk import SlowDisk

LOGIN = "Basic " + base64.b64encode(b"guest:guest").decode()
# The number of concurrent requests: the log writes requests that arrive together with one sync.
CONNECTIONS = 32


def metered(broker, work):
    """Returns the result of `work`, and the harness's meter of it. The meter has seconds
    (`wall`), the broker's CPU seconds (`cpu`) and its highest memory in MiB (`peak_rss`). Its
    `load` has the cores that the host took and those that other processes used. Others are all
    but the broker, its slow disk, this process, and its children that have ended."""
    disk = getattr(broker, "disk", None)
    own = lambda: own_cpu() + (disk.cpu() if disk else 0)  # noqa: E731
    before = own()
    with harness().Meter(broker) as meter:
        result = work()
    figures = meter.figures(0, own() - before)
    meter.load = {name: figures[name] for name in ("other_cores", "stolen_cores")}
    return result, meter


def own_cpu():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


class Broker:
    """A broker on its own ports. It uses the directory `data`, or a temporary directory that is
    deleted with it. With `sync_ms`, a slow disk is mounted at the temporary directory, and each sync takes so long."""

    def __init__(self, *sets, data=None, sync_ms=None):
        self.own = None if data else tempfile.TemporaryDirectory(dir=WORK)
        self.disk = SlowDisk(self.own.name, sync_ms).__enter__() if sync_ms else None
        sets = ("listeners.tcp.default=127.0.0.1:0", "management.tcp.ip=127.0.0.1", "management.tcp.port=0",
                "prometheus.tcp.port=none", *sets)
        before = self.disk.words if self.disk else []
        command = [*before, built("sluice"), "serve", "--data-dir", data or self.own.name]
        started = time.monotonic()
        self.process = subprocess.Popen(
            [*command, *(word for one in sets for word in ("--set", one))], text=True, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL)
        for line in self.process.stdout:
            if "amqp://" in line:
                self.amqp = "amqp://guest:guest@" + line.split("amqp://")[1].split()[0].split("@")[-1]
            if "/api" in line:
                self.place = line.split("http://")[1].split("/api")[0]
            if "/metrics" in line:
                self.metrics = line.split("/metrics")[0].split("http://")[-1]
            if "startup complete" in line:
                break
        else:
            raise RuntimeError("the broker did not start")
        self.listening_s = time.monotonic() - started

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop(signal.SIGKILL)
        if self.disk:
            self.disk.__exit__()
        if self.own:
            self.own.cleanup()

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.wait()

    def pids(self):
        """The processes that the harness measures."""
        return [self.process.pid]

    def rss_mib(self):
        return harness().rss_mib(self.pids())

    def measured(self, work):
        """See `metered`."""
        return metered(self, work)

    def verb(self, *words, wait=True):
        """Runs one verb of `sluice`."""
        env = {**os.environ, "SLUICE_URL": self.amqp, "SLUICE_HTTP_URL": f"http://guest:guest@{self.place}"}
        command = [built("sluice"), *map(str, words)]
        if not wait:
            return subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)
        return subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=True)

    def ask(self, method, path, body=None, connection=None):
        """Sends one request to the management API."""
        connection = connection or http.client.HTTPConnection(self.place)
        headers = {"Authorization": LOGIN, "Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        octets = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {octets[:200]!r}")
        return octets

    def ask_all(self, requests):
        """Sends all requests, in any order, several at a time."""
        todo, errors = queue.SimpleQueue(), []
        for request in requests:
            todo.put(request)

        def work():
            connection = http.client.HTTPConnection(self.place)
            try:
                while not errors:
                    self.ask(*todo.get_nowait(), connection=connection)
            except queue.Empty:
                pass
            except Exception as error:  # raised again after all threads have ended
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(CONNECTIONS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
