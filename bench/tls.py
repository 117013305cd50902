#!/usr/bin/env python3
"""Measures what TLS costs, for the section TLS of docs/benchmarks.md. Needs two cores, openssl, and for relay haproxy.

    bench/tls.py reconnect   latency of a steady pair, alone and while 1,000 clients reconnect over TLS again and again
    bench/tls.py relay       CPU per message of 64 KiB of the broker, and of a TLS relay of one thread that the same messages pass

The program must be built: cargo build --profile dist -p sluice."""

import json
import os
import subprocess
import sys
import tempfile
import time

from broker import Broker
from programs import WORK, built

TLS_PORT = 45670
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


def start(folder):
    """Starts a broker of one shard on core 0. What starts later runs on core 1."""
    cert, key = certificate(folder)
    os.sched_setaffinity(0, {0})
    broker = Broker("shards=1", f"listeners.ssl.default=127.0.0.1:{TLS_PORT}", f"ssl_options.certfile={cert}", f"ssl_options.keyfile={key}")
    os.sched_setaffinity(0, {1})
    return broker, cert, key


def bench(url, *words, nice=0):
    """Starts a load. Its result is JSON."""
    command = ["nice", "-n", str(nice), built("sluice"), "bench", "--url", url, *words, "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def over_tls(port=TLS_PORT):
    return f"amqps://guest:guest@localhost:{port}"


def result(load):
    out = load.communicate()[0]
    if load.returncode != 0:
        sys.exit(f"the load failed: {out}")
    return json.loads(out)


def reconnect(comes_back):
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        broker, cert, _ = start(folder)
        with broker:
            pair = bench(broker.amqp, "--rate", "1000", "--duration", "20")
            time.sleep(2)
            end, opened = time.time() + 15, 0
            while comes_back and time.time() < end:
                words = ["--cacert", cert, "--pattern", "connections", "--connections", "1000", "--duration", "1"]
                result(bench(over_tls(), *words, nice=19))
                opened += 1000
            latency = result(pair)["latency_us"]
        print(f"{opened} connections meanwhile: p50 {latency['p50'] / 1000:.2f} ms, p99 {latency['p99'] / 1000:.2f} ms", flush=True)


def relay():
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        broker, cert, key = start(folder)
        with broker:
            words = ["--cacert", cert, "--size", "65536", "--rate", "2500", "--duration", "12"]
            before = cpu_s(broker.process)
            count = result(bench(over_tls(), *words))["received"]
            own = (cpu_s(broker.process) - before) / count
            pem, config = f"{folder}/both.pem", f"{folder}/haproxy.cfg"
            with open(pem, "w") as both:
                both.write(open(cert).read() + open(key).read())
            with open(config, "w") as file:
                file.write(RELAY.format(port=RELAY_PORT, pem=pem, to=TLS_PORT, cert=cert))
            between = subprocess.Popen(["haproxy", "-db", "-q", "-f", config])
            time.sleep(1)
            count = result(bench(over_tls(RELAY_PORT), *words))["received"]
            # Each message passes the relay twice, from the sender and to the receiver.
            others = cpu_s(between) / count / 2
            between.kill()
            between.wait()
        print(f"broker {own * 1e6:.0f} us per message, relay {others * 1e6:.0f} us per pass, {own / others:.2f} times", flush=True)


os.makedirs(WORK, exist_ok=True)
if sys.argv[1:] == ["reconnect"]:
    for comes_back in (False, True) * 2:
        reconnect(comes_back)
elif sys.argv[1:] == ["relay"]:
    for _ in range(2):
        relay()
else:
    sys.exit(__doc__)
