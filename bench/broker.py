"""A fresh broker for one measurement, and what its process has used."""
import base64
import http.client
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading

LOGIN = "Basic " + base64.b64encode(b"guest:guest").decode()
# Requests under way: the log writes what comes together with one sync.
CONNECTIONS = 32


class Broker:
    """On ports of its own and an empty data directory, both gone with it."""

    def __init__(self, program, *sets):
        self.data = tempfile.mkdtemp()
        self.process = subprocess.Popen(
            [program, "serve", "--data-dir", self.data, "--set", "listeners.tcp.default=127.0.0.1:0",
             "--set", "management.tcp.ip=127.0.0.1", "--set", "management.tcp.port=0",
             "--set", "prometheus.tcp.port=none", *(word for one in sets for word in ("--set", one))],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in self.process.stdout:
            if "/api" in line:
                self.place = line.split("http://")[1].split("/api")[0]
                self.amqp = line.split("amqp://")[1].split()[0].split("@")[-1]
            if "startup complete" in line:
                break

    def cpu_s(self):
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self):
        with open(f"/proc/{self.process.pid}/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def stop(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.data)

    def ask(self, connection, method, path, body=None):
        headers = {"Authorization": LOGIN, "Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        octets = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {octets[:200]!r}")
        return octets

    def ask_all(self, requests):
        """All requests, in any order, some at a time."""
        todo, errors = queue.SimpleQueue(), []
        for request in requests:
            todo.put(request)

        def work():
            connection = http.client.HTTPConnection(self.place)
            try:
                while not errors:
                    self.ask(connection, *todo.get_nowait())
            except queue.Empty:
                pass
            except Exception as error:  # told by whoever waits for the work
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(CONNECTIONS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
