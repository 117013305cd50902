"""Records the requests of rabbitmqadmin, so that they can be played without it.

`tests/interop/run.sh --record rabbitmqadmin` runs the suite through this proxy, twice with each type of queues. It writes
`pages/CHECK.md` for each check, and `answers.md`. `crates/sluice/tests/rabbitmqadmin.rs` plays them. Record again when a
check of the suite or the version of rabbitmqadmin changes.

A page has the requests of one check, in the order in which they were sent:

| line | meaning |
|---|---|
| `$ rabbitmqadmin ...` | the command whose requests follow; for the reader |
| `> PUT /api/...` | a request |
| `as ann:secret` | the user and password of the request, if not guest:guest |
| `with NAME: VALUE` | a header of the request |
| `body {...}` | the body of the request |
| `body from GET /api/...` | the body of the request is the last answer to this request |
| `< 204` | the status of the answer. `< 200 until` repeats the request until the answer is as the next lines say |
| `has JSON` | the answer contains this: objects have these members, and arrays contain these elements |
| `is JSON` | the same, but arrays have these elements only, in this order |
| `says "TEXT"` | the answer contains this text |

`{type}` is the type of the queues, `{node}` the name of the broker's node, and `{amqp port}` its port.

`answers.md` has the shape of the answers of each route: the type of each member, with `?` after members that some answers
lack, and `-` for the elements of arrays.
"""

import base64
import http.client
import http.server
import json
import pathlib
import re
import shlex
import threading
import urllib.parse

HERE = pathlib.Path(__file__).parent
PAGES = HERE / "pages"
ANSWERS = HERE / "answers.md"
ROUTES = HERE / "../../../docs/routes.md"
# Headers that depend on the machine or the library, or that say nothing.
UNRECORDED = ("accept", "accept-encoding", "authorization", "connection", "content-length", "host", "user-agent")
GUEST = "guest:guest"
# The type of the queues of the first run.
FIRST_TYPE = "classic"
# The hash of a password, as definitions have it.
HASH = re.compile(r"\b[A-Za-z0-9+/]{48}(?![A-Za-z0-9+/])")


class Exchange:
    """A request and its answer."""

    def __init__(self, method, path, headers, body, status, answer):
        self.method, self.path, self.status = method, path, status
        self.user = base64.b64decode(headers["authorization"].removeprefix("Basic ")).decode()
        self.headers = {name.lower(): value for name, value in headers.items() if name.lower() not in UNRECORDED}
        self.body = json.loads(body) if body else None
        self.text = answer.decode()
        self.answer = json.loads(answer) if answer else None
        self.is_repeated = False
        self.notes = []


class Recorder:
    """A proxy before the management API, and the notes of what passed through it."""

    def __init__(self, host, port, amqp_port):
        self.amqp_port = amqp_port
        self.host, self.broker_port = host, int(port)
        self.steps, self.answers, self.recorded = [], {}, {}
        self.routes = re.findall(r"^\| ([A-Z]+) (/[^ ]*) \|", ROUTES.read_text(), re.MULTILINE)
        server = http.server.ThreadingHTTPServer((host, 0), self._handler())
        self.port = str(server.server_port)
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def _handler(recorder):
        class Handler(http.server.BaseHTTPRequestHandler):
            def handle_any(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                connection = http.client.HTTPConnection(recorder.host, recorder.broker_port)
                # The answer must be readable.
                headers = {name: value for name, value in self.headers.items() if name.lower() != "accept-encoding"}
                connection.request(self.command, self.path, body or None, headers)
                answer = connection.getresponse()
                text = answer.read()
                recorder.steps.append(Exchange(self.command, self.path, self.headers, body, answer.status, text))
                self.send_response_only(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("connection", "content-length", "transfer-encoding"):
                        self.send_header(name, value)
                if answer.status != 204:
                    self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any

            def log_message(self, *_):
                pass

        return Handler

    # --- what the suite calls -------------------------------------------------------------------------------------------

    def begin(self, queue_type, node):
        """Called before each run of a check."""
        self.queue_type, self.node = queue_type, node
        self.steps = []

    def command(self, words):
        self.steps.append(words)

    def note(self, kind, wanted):
        """Notes what the last answer contains, and checks that it does."""
        last = self._last()
        ok = wanted in last.text if kind == "says" else matches(wanted, last.answer, kind == "is")
        assert ok, f"{last.method} {last.path}: the answer has not {wanted!r}: {last.text}"
        last.notes.append((kind, wanted))

    def refused(self, because):
        """Notes the words of a refusal, unless they are those of the tool."""
        last = self._last()
        if because and because in last.text:
            self.note("says", because)

    def mark(self):
        """Called before a question that may be asked again."""
        return len(self.steps)

    def asked_in_vain(self, mark):
        del self.steps[mark:]

    def repeated(self):
        self._last().is_repeated = True

    def end(self, name):
        """Writes the page of a check, or compares it with the page of the earlier runs."""
        for step in self.steps:
            if isinstance(step, Exchange) and step.answer is not None:
                self._shape(step).see(step.answer)
        PAGES.mkdir(exist_ok=True)
        page = self._page()
        known = self.recorded.get(name, page)
        assert len(known) == len(page), f"a run has sent {len(known) - len(page)} lines more than another"
        self.recorded[name] = [self._merged(*pair) for pair in zip(known, page)]
        head = [f"# {name}", "", "What rabbitmqadmin sends in this check of `suite.py`. `recorder.py` explains the lines.", ""]
        text = "\n".join([*head, "```", *self.recorded[name], "```", ""])
        (PAGES / f"{name}.md").write_text(text)
        ANSWERS.write_text(self._answers())

    # --- the pages ------------------------------------------------------------------------------------------------------

    def _last(self):
        return next(step for step in reversed(self.steps) if isinstance(step, Exchange))

    def _merged(self, known, found):
        """Returns a line of the page, with `{type}` if this is the difference between the lines of two runs."""
        for line in (known, known.replace(FIRST_TYPE, "{type}")):
            # The hash of a password has random salt.
            if HASH.sub("", line.replace("{type}", self.queue_type)) == HASH.sub("", found):
                return line
        raise AssertionError(f"the runs differ: {known!r} and {found!r}")

    def _page(self):
        lines, sent = [], {}
        for step in self.steps:
            if not isinstance(step, Exchange):
                words = shlex.join(self._masked(word) for word in step)
                lines += [""] * bool(lines) + ["$ rabbitmqadmin " + re.sub(r"'(\{[a-z ]+\})'", r"\1", words)]
                continue
            lines.append(f"> {step.method} {self._masked_path(step.path)}")
            if step.user != GUEST:
                lines.append(f"as {step.user}")
            lines += [f"with {name}: {value}" for name, value in sorted(step.headers.items())]
            if step.body is not None:
                source = next((request for request, answer in sent.items() if answer == step.body), None)
                lines.append(f"body from {source}" if source else f"body {self._json(step.body)}")
            lines.append(f"< {step.status}" + (" until" if step.is_repeated else ""))
            lines += [f"{kind} {self._json(wanted)}" for kind, wanted in step.notes]
            if step.method == "GET" and step.status == 200:
                sent[f"{step.method} {self._masked_path(step.path)}"] = step.answer
        return lines

    def _masked(self, word):
        if word == self.amqp_port:
            return "{amqp port}"
        if word.startswith("/"):  # a file
            return pathlib.Path(word).name or word
        return word.replace(self.node, "{node}")

    def _masked_path(self, path):
        return "/".join("{node}" if urllib.parse.unquote(part) == self.node else
                        "{amqp port}" if part == self.amqp_port else part for part in path.split("/"))

    def _json(self, value):
        # The tool sends the members of some objects in any order.
        return json.dumps(self._masked_value(value), ensure_ascii=False, sort_keys=True)

    def _masked_value(self, value):
        if isinstance(value, dict):
            return {name: self._masked_value(member) for name, member in value.items()}
        if isinstance(value, list):
            return [self._masked_value(element) for element in value]
        return self._masked(value) if value == self.node else value

    def _shape(self, step):
        path, _, query = step.path.partition("?")
        names = "?" * bool(query) + "&".join(re.findall(r"(\w+)=", query))
        path = path.split("/")
        for method, route in self.routes:
            parts = route.split("/")
            if method == step.method and len(parts) == len(path) and all(
                    part.startswith("{") or part == found for part, found in zip(parts, path)):
                return self.answers.setdefault((method, route + names, step.status), Shape())
        raise AssertionError(f"no route for {step.method} {step.path}")

    def _answers(self):
        lines = ["# The answers that rabbitmqadmin reads", "",
                 "By method, route, the parameters of the query, and status. `recorder.py` explains the lines."]
        for (method, route, status), shape in sorted(self.answers.items(), key=lambda row: (row[0][1], row[0])):
            lines += ["", f"## {method} {route} {status}", "", "```", *shape.lines("answer"), "```"]
        return "\n".join([*lines, ""])


class Shape:
    """The types of the values at one place of the answers, and the shapes of their members and elements."""

    def __init__(self):
        self.types, self.seen, self.objects = set(), 0, 0
        self.members, self.elements = {}, None

    def see(self, value):
        self.seen += 1
        self.types.add(kind(value))
        if isinstance(value, dict):
            self.objects += 1
            for name, member in value.items():
                self.members.setdefault(name, Shape()).see(member)
        if isinstance(value, list):
            self.elements = self.elements or (Shape() if value else None)
            for element in value:
                self.elements.see(element)

    def lines(self, name, depth=0):
        yield "  " * depth + f"{name}: {' or '.join(sorted(self.types))}"
        for member, shape in sorted(self.members.items()):
            yield from shape.lines(member + "?" * (shape.seen < self.objects), depth + 1)
        if self.elements:
            yield from self.elements.lines("-", depth + 1)


def kind(value):
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
    return names.get(type(value), "null")


def matches(wanted, found, whole):
    """Returns true if a value has what is wanted, as `is` and `has` of a page mean it."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            name in found and matches(member, found[name], whole) for name, member in wanted.items())
    if isinstance(wanted, list):
        if not isinstance(found, list):
            return False
        if whole:
            return len(wanted) == len(found) and all(matches(*pair, whole) for pair in zip(wanted, found))
        return all(any(matches(element, one, whole) for one in found) for element in wanted)
    return wanted == found
