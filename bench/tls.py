#!/usr/bin/env python3
"""Measures what TLS costs, for the section TLS of docs/benchmarks.md. Needs two cores, openssl, and for relay haproxy.

    bench/tls.py reconnect   latency of a steady pair, alone and while 1,000 clients reconnect over TLS again and again
    bench/tls.py relay       CPU per message of 64 KiB of the broker, and of a TLS relay of one thread that the same messages pass

SLUICE_BIN names the program (default: target/release/sluice)."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
PROGRAM = os.environ.get("SLUICE_BIN", os.path.join(ROOT, "target/release/sluice"))
RELAY_PORT = 45671
RELAY = """global
    nbthread 1
    tune.bufsize 131072
defaults
    mode tcp
    timeout connect 5s
    timeout client 60s
    timeout server 60s
listen relay
    bind 127.0.0.1:{port} ssl crt {pem} ssl-min-ver TLSv1.3
    server broker 127.0.0.1:{to} ssl verify required ca-file {cert} verifyhost localhost ssl-min-ver TLSv1.3
"""


def certificate(folder):
    cert, key = f"{folder}/cert.pem", f"{folder}/key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
                    "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", key, "-out", cert],
                   check=True, capture_output=True)
    return cert, key


def cpu_s(process):
    fields = open(f"/proc/{process.pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Broker:
    """A broker of one shard, on core 0."""

    def __init__(self, folder):
        self.cert, self.key = certificate(folder)
        sets = ["shards=1", "listeners.tcp.default=0", "management.tcp.port=none", "prometheus.tcp.port=none", "listeners.ssl.default=0",
                f"ssl_options.certfile={self.cert}", f"ssl_options.keyfile={self.key}"]
        words = [word for name in sets for word in ("--set", name)]
        self.process = subprocess.Popen(["taskset", "-c", "0", PROGRAM, "serve", "--data-dir", f"{folder}/data", *words],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        self.plain = "amqp://guest:guest@" + re.search(r"amqp://\S*@(\S+)", line)[1]
        self.port = re.search(r"amqps://\S*:(\d+)", line)[1]

    def bench(self, *words, url=None, nice=0):
        """Starts a load on core 1. Its result is JSON."""
        command = ["taskset", "-c", "1", "nice", "-n", str(nice), PROGRAM, "bench", "--url", url or self.plain, *words, "--json"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def over_tls(self, port=None):
        return f"amqps://guest:guest@localhost:{port or self.port}"

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def result(load):
    out = load.communicate()[0]
    if load.returncode != 0:
        sys.exit(f"the load failed: {out}")
    return json.loads(out)


def reconnect(comes_back):
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(folder)
        pair = broker.bench("--rate", "1000", "--duration", "20")
        time.sleep(2)
        end, opened = time.time() + 15, 0
        while comes_back and time.time() < end:
            words = ["--cacert", broker.cert, "--pattern", "connections", "--connections", "1000", "--duration", "1"]
            result(broker.bench(*words, url=broker.over_tls(), nice=19))
            opened += 1000
        latency = result(pair)["latency_us"]
        broker.stop()
        print(f"{opened} connections meanwhile: p50 {latency['p50'] / 1000:.2f} ms, p99 {latency['p99'] / 1000:.2f} ms", flush=True)


def relay():
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(folder)
        words = ["--cacert", broker.cert, "--size", "65536", "--rate", "2500", "--duration", "12"]
        before = cpu_s(broker.process)
        count = result(broker.bench(*words, url=broker.over_tls()))["received"]
        own = (cpu_s(broker.process) - before) / count
        pem, config = f"{folder}/both.pem", f"{folder}/haproxy.cfg"
        with open(pem, "w") as both:
            both.write(open(broker.cert).read() + open(broker.key).read())
        with open(config, "w") as file:
            file.write(RELAY.format(port=RELAY_PORT, pem=pem, to=broker.port, cert=broker.cert))
        between = subprocess.Popen(["haproxy", "-db", "-q", "-f", config])
        time.sleep(1)
        count = result(broker.bench(*words, url=broker.over_tls(RELAY_PORT)))["received"]
        # Each message passes the relay twice, from the sender and to the receiver.
        others = cpu_s(between) / count / 2
        between.kill()
        between.wait()
        broker.stop()
        print(f"broker {own * 1e6:.0f} us per message, relay {others * 1e6:.0f} us per pass, {own / others:.2f} times", flush=True)


if sys.argv[1:] == ["reconnect"]:
    for comes_back in (False, True) * 2:
        reconnect(comes_back)
elif sys.argv[1:] == ["relay"]:
    for _ in range(2):
        relay()
else:
    sys.exit(__doc__)
