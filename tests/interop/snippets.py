#!/usr/bin/env python3
"""Runs the programs that README.md and the pages of docs/ show for a client, against a running broker.

    snippets.py CLIENT CACHE     CACHE is the folder in which run.sh has installed the client

A program is a fenced block after the line `<!-- test: tests/interop CLIENT -->`. It runs as it is printed, except that
`localhost:5672` and `localhost:15672` are replaced by the addresses in SLUICE_AMQP and SLUICE_HTTP. The first program of Celery
is `tasks.py`, of which a worker runs beside the second. It ends with 0 and prints
`Hello, world`, or what the block of text after it shows. It leaves no message in a queue.

A section of a client may have a table with the head HEAD. The program above it runs again for each row, with the
broker in that state (see STATES). It must print what the last cell quotes, and fail. During an alarm it must wait, and succeed later.

The pages name the versions of the clients with which their programs run (see INSTALLED).
"""

import base64
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

import checks

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ("README.md", *sorted(str(file.relative_to(ROOT)) for file in (ROOT / "docs").rglob("*.md")))
HEAD = "| refusal | what happens | what the program prints |"
PATIENCE = 60  # seconds; a guard against hanging, not a measure
AMQP, HTTP = os.environ["SLUICE_AMQP"], os.environ["SLUICE_HTTP"]
LIMIT = "config/effective/vm_memory_high_watermark.absolute"
PERMISSIONS = {"configure": ".*", "write": ".*", "read": ".*"}

# A message with this text instead of the first one has no queue to go to.
UNROUTABLE = {
    "pika": ('"", "hello"', '"", "nobody"'),
    "amqp091-go": ('"", "hello"', '"", "nobody"'),
    "amqplib": ("'', 'hello'", "'', 'nobody'"),
    "amqp-java": ('"", "hello"', '"", "nobody"'),
    "spring-amqp": ('"", "hello"', '"", "nobody"'),
    "proton": ('sender("/queues/hello")', 'sender("/exchanges/amq.direct/nobody")'),
    "go-amqp": ('NewSender(ctx, "/queues/hello"', 'NewSender(ctx, "/exchanges/amq.direct/nobody"'),
    "rhea": ("open_sender('/queues/hello')", "open_sender('/exchanges/amq.direct/nobody')"),
    "rabbitmq-java": ('publisherBuilder().queue("hello")', 'publisherBuilder().exchange("amq.direct").key("nobody")'),
    "jms": ('createProducer(session.createQueue("/queues/hello"))',
            'createProducer(session.createQueue("/exchanges/amq.direct/nobody"))'),
}

# How the pages name a client, without its version.
INSTALLED = {
    "pika": "pip install pika==", "celery": "pip install celery==", "proton": "pip install python-qpid-proton==",
    "amqp091-go": "go get github.com/rabbitmq/amqp091-go@", "go-amqp": "go get github.com/Azure/go-amqp@",
    "amqplib": "npm install amqplib@", "rhea": "npm install rhea@",
    "amqp-java": "com.rabbitmq:amqp-client:", "spring-amqp": "org.springframework.amqp:spring-rabbit:",
    "rabbitmq-java": "com.rabbitmq.client:amqp-client:", "jms": "org.apache.qpid:qpid-jms-client:",
}


def http(method, path, body=None):
    request = urllib.request.Request(
        f"http://{HTTP}/api/{path}", method=method, data=None if body is None else json.dumps(body).encode(),
        headers={"authorization": "Basic " + base64.b64encode(b"guest:guest").decode(),
                 "content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            text = answer.read()
    except urllib.error.HTTPError as error:
        if (method, error.code) == ("DELETE", 404):
            return None
        raise AssertionError(f"{method} {path}: {error.code} {error.read()}") from error
    return json.loads(text) if text else None


# --- the pages ---------------------------------------------------------------------------------------------------------

class Program:
    """A program of a page, with its language, what it prints, and the rows of the table of its section."""

    def __init__(self, page, line, language, text):
        self.place = f"{page}:{line}"
        self.language, self.text = language, text
        self.prints = ["Hello, world"]
        self.rows = {}

    def located(self):
        host, port = AMQP.split(":")
        text = self.text.replace("host: 'localhost', port: 5672", f"host: '{host}', port: {port}")
        return text.replace("localhost:5672", AMQP).replace("localhost:15672", HTTP)


def programs(page, client):
    lines = iter(enumerate((ROOT / page).read_text().splitlines(), 1))
    found, before, program, in_table = [], "", None, False
    for number, line in lines:
        if line.startswith("#"):
            program = None
        if line.startswith("```"):
            body = []
            for _, inner in lines:
                if inner == "```":
                    break
                body.append(inner)
            if before == f"<!-- test: tests/interop {client} -->":
                program = Program(page, number, line[3:], "\n".join(body) + "\n")
                found.append(program)
            elif line == "```text" and program:
                program.prints = body
            before = ""
            continue
        in_table = line.startswith("|") and (in_table or line == HEAD)
        if in_table and program and line != HEAD and not line.startswith("|---"):
            name, _, prints = line.strip("| ").split(" | ")
            program.rows[name] = re.findall(r"`([^`]+)`", prints)
        before = line or before
    return found


# --- how the programs of a language run ----------------------------------------------------------------------------------

class Runner:
    def __init__(self, client, cache, folder):
        self.client, self.cache, self.folder = client, cache, folder
        self.count = 0

    def prepare(self, language, text):
        """Writes and compiles a program. Returns its command."""
        self.count += 1
        folder = self.folder / str(self.count)
        folder.mkdir()
        return getattr(self, language)(folder, text)

    def python(self, folder, text):
        return [self.cache / self.client / "bin/python", self.write(folder / "hello.py", text)]

    def js(self, folder, text):
        # Node looks for modules beside the script.
        (folder / "node_modules").symlink_to(self.cache / self.client / "node_modules")
        return ["node", self.write(folder / "hello.mjs", text)]

    def go(self, folder, text):
        source = self.write(folder / "hello.go", text)
        go = self.cache / "go"
        environment = {"GOPATH": go, "GOMODCACHE": go / "mod", "GOCACHE": go / "build", "GOFLAGS": "-modcacherw"}
        built = subprocess.run(
            ["go", "build", "-o", folder / "hello", source], cwd=ROOT / "tests/interop" / self.client,
            env={**os.environ, **{name: str(value) for name, value in environment.items()}},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert built.returncode == 0, built.stdout
        return [folder / "hello"]

    def java(self, folder, text):
        name = re.search(r"class (\w+)", text)[1]
        libraries = f"{self.cache / self.client / 'lib'}/*"
        quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        source = self.write(folder / f"{name}.java", text)
        built = subprocess.run(
            ["javac", *[f"-J{option}" for option in quick], "-cp", libraries, "-d", folder, source],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert built.returncode == 0, built.stdout
        return ["java", *quick, "-cp", f"{libraries}:{folder}", name]

    @contextlib.contextmanager
    def beside(self):
        """Runs what a program needs besides the broker."""
        yield

    @staticmethod
    def write(file, text):
        file.write_text(text)
        return file


class Celery(Runner):
    """The first program is tasks.py. A worker runs beside the others."""

    def python(self, folder, text):
        return super().python(self.folder, text)

    @contextlib.contextmanager
    def beside(self):
        log = self.folder / "worker.log"
        with open(log, "w") as output:
            worker = subprocess.Popen(
                [self.cache / self.client / "bin/python", "-m", "celery", "-A", "tasks", "worker", "--loglevel", "INFO",
                 "--concurrency", "1", "--without-gossip", "--without-mingle"], cwd=self.folder, stdout=output, stderr=output)
        try:
            deadline = time.monotonic() + PATIENCE
            while "ready." not in log.read_text():
                assert worker.poll() is None and time.monotonic() < deadline, log.read_text()
                time.sleep(0.05)
            yield
        finally:
            worker.terminate()
            try:
                worker.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()


def start(command):
    return subprocess.Popen(
        [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True)


def end(process):
    """Waits for the end of a program. Returns its exit code and its output."""
    try:
        output, _ = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        raise AssertionError(f"the program did not end: {output}") from None
    return process.returncode, output


def fresh():
    """Lets the programs begin without the queues of other programs, and with those that they do not declare."""
    for queue in http("GET", "queues/%2F"):
        if not queue.get("exclusive"):
            http("DELETE", f"queues/%2F/{urllib.parse.quote(queue['name'], safe='')}")
    http("PUT", "queues/%2F/hello", {"durable": True})
    http("PUT", "queues/%2F/readings", {"durable": True, "arguments": {"x-queue-type": "stream"}})


def succeeds(program, output):
    code, printed = output
    assert code == 0 and printed.splitlines() == program.prints, f"{program.place}: exit code {code}\n{printed}"


def left():
    """Fails if the program has left a message in a queue, for example because it ended before its acknowledgement was sent."""
    for _ in range(100):
        queues = http("GET", "queues/%2F")
        messages = {queue["name"]: queue["messages"] for queue in queues if queue["type"] != "stream" and queue["messages"]}
        if not messages:
            return
        time.sleep(0.05)
    raise AssertionError(f"the program has left messages in its queues: {messages}")


def versions(client):
    """Fails if no page names the installed version of a client, or a page names another one."""
    words = INSTALLED[client]
    patterns = [re.escape(words) + r"([\w.]+)"]
    if words.endswith(":"):
        group, artifact, _ = words.split(":")
        patterns.append(rf"<groupId>{group}</groupId>\s*<artifactId>{artifact}</artifactId>\s*<version>([\w.]+)<")
    texts = [(ROOT / page).read_text() for page in PAGES]
    named = {found for text in texts for pattern in patterns for found in re.findall(pattern, text)}
    installed = version(client, words)
    assert named == {installed}, f"the pages name {words}{named}, and the tests use {installed}"


def version(client, words):
    """Returns the version of a client in the file from which run.sh installs it."""
    name = re.split("[:= ]", words.rstrip(":=@"))[-1]
    folder = ROOT / "tests/interop" / client
    [(file, pattern)] = [(folder / file, pattern) for file, pattern in (
        ("requirements.txt", "^{}==(.+)$"), ("go.mod", "{} (v.+)$"), ("package.json", '"{}": "(.+?)"'),
        ("pom.xml", "<artifactId>{}</artifactId>\\s*<version>(.+)</version>")) if (folder / file).exists()]
    return re.search(pattern.format(re.escape(name)), file.read_text(), re.MULTILINE)[1]


# --- the refusals --------------------------------------------------------------------------------------------------------

def queue_full(command, _):
    policy = {"pattern": "^hello$", "definition": {"max-length": 0, "overflow": "reject-publish"}, "apply-to": "queues"}
    http("PUT", "policies/%2F/full", policy)
    try:
        return end(start(command))
    finally:
        http("DELETE", "policies/%2F/full")


def no_permission(command, _):
    http("PUT", "permissions/%2F/guest", {**PERMISSIONS, "write": "^$"})
    try:
        return end(start(command))
    finally:
        http("PUT", "permissions/%2F/guest", PERMISSIONS)


def unroutable(_, other):
    return end(start(other()))


# What a row of a table is called, and what runs the program then.
STATES = {"queue full": queue_full, "no permission": no_permission, "unroutable": unroutable}


def waits_for_the_alarm(program, command):
    """During an alarm the program prints nothing. Once the alarm is over, it ends as usual."""
    http("PUT", LIMIT, {"value": "1MiB"})
    try:
        process = start(command)
        deadline = time.monotonic() + PATIENCE
        while not is_held():
            assert process.poll() is None, f"{program.place}: it did not wait: {process.communicate()}"
            assert time.monotonic() < deadline, "no connection is held"
            time.sleep(0.05)
        assert process.poll() is None, f"{program.place}: it did not wait: {process.communicate()}"
    finally:
        http("DELETE", LIMIT)
    succeeds(program, end(process))


def is_held():
    """Returns whether a connection waits for the end of an alarm. With AMQP 1.0, those wait that have a session: its window is closed."""
    return any(one.get("state") == "blocked" or one.get("protocol") == "AMQP 1-0" and one.get("channels")
               for one in http("GET", "connections"))


def checks_of(client, cache, folder):
    found = [program for page in PAGES for program in programs(page, client)]
    runner = (Celery if client == "celery" else Runner)(client, cache, folder)
    if client == "celery":
        tasks = found.pop(0)
        runner.write(folder / "tasks.py", tasks.located())
    if client in INSTALLED:
        def named():
            versions(client)

        named.__name__ = "the version in the documents"
        yield named
    for program in found:
        command = []

        def runs(program=program, command=command):
            fresh()
            command += runner.prepare(program.language, program.located())
            with runner.beside():
                succeeds(program, end(start(command)))
                left()

        runs.__name__ = program.place
        yield runs
        for name, quoted in program.rows.items():
            def refused(name=name, quoted=quoted, program=program, command=command):
                fresh()
                if name == "alarm":
                    with runner.beside():
                        waits_for_the_alarm(program, command)
                    return

                def other():
                    old, new = UNROUTABLE[client]
                    assert program.text.count(old) == 1, f"{program.place} has not {old} once"
                    return runner.prepare(program.language, program.located().replace(old, new))

                code, output = STATES[name](command, other)
                if os.environ.get("SLUICE_SHOW"):
                    print(output)
                missing = [words for words in quoted if words not in output]
                assert code and quoted and not missing, f"{program.place}: {missing} not printed, exit code {code}:\n{output}"

            refused.__name__ = f"{program.place}:{name}"
            yield refused


def main():
    client, cache = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    del sys.argv[1:]
    folder = pathlib.Path(tempfile.mkdtemp())
    try:
        checks.run(f"{client} in the documents", list(checks_of(client, cache, folder)))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
