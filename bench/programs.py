"""The programs that measure and the programs that are measured: our own, the neutral harness,
and the peers that it installs."""
import functools
import glob
import importlib.util
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
PEERS = os.environ.get("PEERS", "")
WORK = os.environ.get("BENCH_WORK") or os.path.join(ROOT, ".cache/bench")
# A copy of the harness, because it builds and writes beside its sources.
COPY = os.path.join(WORK, "peers")
PEERS_DIR = os.environ.setdefault("PEERS_DIR", os.path.join(WORK, "peers-data"))

# What is shipped is measured (docs/decisions/0050).
PROFILE = "dist"
OURS = ("sluice", "floor", "relay", "fill", "replay", "session", "touch", "false-disk")
# Target: the file that exists once it is installed, and the command that installs it.
INSTALLED = {
    "rabbitmq-4.3": ("forky/.ready", ("./setup-rabbitmq.sh", "forky")),
    "rabbitmq-4.0": ("trixie/.ready", ("./setup-rabbitmq.sh", "trixie")),
    "artemis": ("artemis/*/bin/artemis", ("./artemis.sh", "setup")),
    "lavinmq-2.8": ("forky/srv/lavinmq/bin/lavinmq", ("./lavinmq.sh", "setup", os.environ.get("MIRRORS", ""))),
}


def is_installed(target):
    return bool(glob.glob(os.path.join(PEERS_DIR, INSTALLED[target][0])))


def can_install(target):
    """Returns true if the peer is installed already, or nothing is missing for it."""
    return is_installed(target) or all(INSTALLED[target][1])


def prepare(targets):
    """Copies and builds the harness, installs the peers among `targets`, and builds our
    programs."""
    if not os.path.exists(os.path.join(PEERS, "bench.py")):
        sys.exit(f"bench/run: no harness in '{PEERS}'; set $PEERS to its folder")
    os.makedirs(WORK, exist_ok=True)
    shutil.copytree(PEERS, COPY, dirs_exist_ok=True, ignore=shutil.ignore_patterns("results", "arrow.o"))
    subprocess.run(["chmod", "-R", "u+w", COPY], check=True)
    run = lambda *command, cwd=COPY: subprocess.run(command, cwd=cwd, check=True, stdout=sys.stderr)  # noqa: E731
    run("make", "arrow/arrow", "goclients/goclients")
    for target, (_, install) in INSTALLED.items():
        if target in targets and not is_installed(target):
            run(*install)
    # As in the Makefile.
    os.environ["CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER"] = os.path.join(ROOT, "packaging/order/linker")
    run("cargo", "build", "--profile", PROFILE, *(word for name in OURS for word in ("-p", name)), cwd=ROOT)
    os.environ["SLUICE_BIN"] = built("sluice")


@functools.cache
def harness():
    """Returns the harness's module bench.py."""
    spec = importlib.util.spec_from_file_location("bench", os.path.join(COPY, "bench.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def target_directory():
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps"]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)["target_directory"]


def built(name):
    return os.path.join(target_directory(), PROFILE, name)
