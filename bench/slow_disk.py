"""A disk whose every sync takes longer: the file system of crates/false-disk, mounted for one measurement."""
import os
import shlex
import signal
import subprocess
import tempfile

from programs import built


class SlowDisk:
    """A disk at an existing directory, until the end of the `with`. `sync_ms` is the time of each sync.

    `words` stand before the command of a broker. Without them, a write to a file waits while the same file is synced, unlike on ext4.
    A broker that never does both at once does not need them."""

    def __init__(self, directory, sync_ms, words=True):
        self.directory = directory
        # The path of a socket has at most 107 bytes.
        self.sockets = tempfile.TemporaryDirectory()
        socket = os.path.join(self.sockets.name, "socket")
        self.words = [built("false-disk"), "--on", socket] if words else []
        self.command = [built("false-disk"), "--mount", directory, "--sync-ms", str(sync_ms),
                        *(("--socket", socket) if words else ())]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        if not self.process.stdout.readline():
            self.process.wait()
            raise RuntimeError("the slow disk cannot be mounted: be root, or run this command in `unshare -rm`")
        return self

    def program(self, program):
        """Writes a program that runs `program` on this disk, until the end of the `with`. Returns its path."""
        path = os.path.join(self.sockets.name, os.path.basename(program))
        with open(path, "w") as f:
            f.write(f'#!/bin/sh\nexec {shlex.join([*self.words, program])} "$@"\n')
        os.chmod(path, 0o755)
        return path

    def cpu(self):
        """Returns the CPU seconds of the disk itself. They are not the load of others."""
        with open(f"/proc/{self.process.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self.process.stdout.close()
        self.sockets.cleanup()
