"""The floods of hostile or careless clients. Each flood is a generator. It prepares and yields. Then it floods, and
yields while it holds what it has. At last it releases everything.

A flood's `bound` is the allowed growth of the broker's memory in MiB during the flood.
"""
import json
import socket
import threading
import time

import wire

KB, MB = 1000, 1_000_000


def flood(bound, stops_publishers=False, declares=False, p99_ms=100):
    """Marks a flood. With `stops_publishers`, it raises an alarm, so that the well-behaved client must wait, too. Otherwise 99 of 100 of its
    round trips take less than `p99_ms`. With `declares`, it declares thousands of queues before it begins. The state of idle queues is in
    no budget and counts as part of the base."""
    def mark(function):
        function.bound, function.stops_publishers, function.declares, function.p99_ms = bound, stops_publishers, declares, p99_ms
        return function
    return mark


# ---- readers of streams ----------------------------------------------------------------------------------------------


def fill_stream(broker):
    broker.declare("stream", "stream")
    client = wire.Client(broker.amqp)
    sender = client.sender("/queues/stream")
    client.send_all(sender, 300, b"x" * 100 * KB)
    broker.wait_for_messages("stream", 300)
    client.close()


@flood(bound=150)
def stream_readers_that_read_nothing(broker, full):
    """200 links on one connection, to a stream of 300 messages of 100 kB; its socket is not read."""
    fill_stream(broker)
    yield
    yield from read_nothing([wire.Client(broker.amqp) for _ in range(2 if full else 1)])


def read_nothing(clients):
    for client in clients:
        for _ in range(200):
            client.receiver("/queues/stream", 1000, wire.FROM_THE_FIRST)
    time.sleep(5)
    yield
    for client in clients:
        client.close()


@flood(bound=250)
def stream_readers_that_read_slowly(broker, full):
    """Connections that each read a little of a stream now and then."""
    fill_stream(broker)
    yield
    clients = [wire.Client(broker.amqp, receive_buffer=4096) for _ in range(200 if full else 50)]
    for client in clients:
        client.receiver("/queues/stream", 1000, wire.FROM_THE_FIRST)
    for _ in range(50):
        for client in clients:
            client.socket.recv(4096)
        time.sleep(0.05)
    yield
    for client in clients:
        client.close()


# ---- deliveries and connections that never end -----------------------------------------------------------------------


@flood(bound=600)
def deliveries_that_never_end(broker, full):
    """Connections that each send 20 MB of a message that they never finish."""
    broker.declare("unfinished")
    yield
    clients = []
    for _ in range(100 if full else 50):
        client = wire.Client(broker.amqp)
        sender = client.sender("/queues/unfinished")
        client.wait_for(wire.FLOW)
        clients.append((client, sender))
    for at in range(0, 20 * MB, 30 * KB):
        for client, sender in clients:
            part = b"\x00\x53\x75\xb0\x7f\xff\xff\xff" if at == 0 else b"x" * 30 * KB
            try:
                client.transfer(sender, 0, part, begins=at == 0, more=True)
            except OSError:
                pass  # The broker has closed it.
    time.sleep(1)
    yield
    for client, _ in clients:
        client.close()


@flood(bound=60)
def handshakes_that_never_end(broker, full):
    """Connections that send half of the protocol header."""
    yield
    sockets = [socket.create_connection(("127.0.0.1", broker.amqp)) for _ in range(10_000 if full else 800)]
    for each in sockets:
        try:
            each.sendall(b"AMQP")
        except OSError:
            pass  # It was closed in favour of a later one.
    time.sleep(1)
    yield
    for each in sockets:
        each.close()


@flood(bound=60)
def connections_that_say_nothing(broker, full):
    yield
    sockets = [socket.create_connection(("127.0.0.1", broker.amqp)) for _ in range(8_000 if full else 800)]
    time.sleep(1)
    yield
    for each in sockets:
        each.close()


# ---- TLS -------------------------------------------------------------------------------------------------------------


def record(kind, body):
    return bytes([kind, 3, 3]) + len(body).to_bytes(2, "big") + body


@flood(bound=130)
def tls_handshakes_that_never_end(broker, full):
    """A first message of 64 KiB whose end never comes. Every second client sends as much of it as the broker keeps."""
    yield
    hello = b"\x01\x00\xff\xff" + b"x" * 65_534
    records = b"".join(record(22, hello[at:at + 4_000]) for at in range(0, len(hello), 4_000))
    sockets = [socket.create_connection(("127.0.0.1", broker.amqps)) for _ in range(8_000 if full else 800)]
    for number, each in enumerate(sockets):
        try:
            each.sendall(records if number % 2 else records[:38_000])
        except OSError:
            pass  # It was closed: the message is too large, or a later connection has taken its place.
    time.sleep(1)
    yield
    for each in sockets:
        each.close()


@flood(bound=130)
def tls_records_that_never_end(broker, full):
    """Connections that have logged in, and send all of a record but its end."""
    yield
    clients = [wire.Client(broker.amqps, over_tls=True) for _ in range(2_000 if full else 400)]
    for client in clients:
        # Past the encryption: the broker cannot see that these bytes are none of the client's.
        with socket.socket(fileno=client.socket.fileno()) as plain:
            plain.sendall(record(23, b"x" * 16_000)[:-1])
            plain.detach()
    time.sleep(1)
    yield
    for client in clients:
        client.close()


@flood(bound=150)
def tls_readers_that_read_nothing(broker, full):
    """The same as without TLS: links to a stream whose connection is not read."""
    fill_stream(broker)
    yield
    yield from read_nothing([wire.Client(broker.amqps, over_tls=True) for _ in range(2 if full else 1)])


# ---- links and messages ----------------------------------------------------------------------------------------------


@flood(bound=60)
def links_that_come_and_go(broker, full):
    """ATTACH and DETACH at once, again and again; the answers are read late."""
    broker.declare("stormed")
    yield
    client = wire.Client(broker.amqp)
    for _ in range(2_000 if full else 1_000):
        for _ in range(50):
            client.detach(client.receiver("/queues/stormed", 10))
            client.links = 0
        for _ in range(50):
            client.wait_for_any(wire.DETACH)
    yield
    client.close()


@flood(bound=60)
def links_with_long_names(broker, full):
    """4,080 links with names of 130 kB on one connection of a user without any permission. Each is refused, and the client
    does not answer."""
    broker.call("/users/nobody", "PUT", {"password": "nobody of this broker", "tags": ""})
    broker.call("/permissions/%2F/nobody", "PUT", {"configure": "^$", "write": "^$", "read": "^$"})
    yield
    client = wire.Client(broker.amqp, user="nobody", password="nobody of this broker")
    threading.Thread(target=client.read_on, daemon=True).start()
    name = "n" * 130_000
    for session in range(16 if full else 4):
        if session > 0:
            client.begin(session)
        for handle in range(255):
            client.socket.sendall(wire.attach(f"{handle}{name}", handle, "/queues/hostile", session))
    time.sleep(1)
    yield
    client.close()
    broker.call("/users/nobody", "DELETE")


@flood(bound=350)
def links_with_long_addresses(broker, full):
    """Links whose addresses have 60 kB, on connections that each stay below what a connection may keep."""
    yield
    clients = [wire.Client(broker.amqp) for _ in range(80 if full else 10)]
    for client in clients:
        threading.Thread(target=client.read_on, daemon=True).start()
        try:
            for handle in range(22):
                address = "/exchanges/amq.fanout/" + "k" * 60_000
                client.socket.sendall(wire.attach(f"link-{handle}", handle, address))
        except OSError:
            pass  # The broker has closed it.
    check_state(broker, 22 * 3 * 60_000 * (60 if full else 10))
    yield
    for client in clients:
        client.close()


@flood(bound=350)
def consumers_with_large_arguments(broker, full):
    """Consumers of AMQP 0.9.1 with arguments of 100 kB, which the broker shows to people."""
    broker.declare("argued")
    yield
    clients = [wire.Client091(broker.amqp) for _ in range(80 if full else 10)]
    for client in clients:
        client.open_channel(1)
        try:
            for _ in range(41):
                client.socket.sendall(wire.consume091(1, "argued", b"x" * 100 * KB))
                client.wait_for(60, 21)
        except (OSError, EOFError):
            pass  # The broker has closed it.
    check_state(broker, 41 * 100 * KB * (60 if full else 10))
    yield
    for client in clients:
        client.close()


@flood(bound=400)
def consumers_with_long_tags(broker, full):
    """Many consumers of AMQP 0.9.1 with tags of 250 bytes. Most of their memory is what each consumer takes itself."""
    broker.declare("tagged")
    yield
    clients = [wire.Client091(broker.amqp) for _ in range(40 if full else 4)]
    count = 10_000 if full else 4_000
    for client in clients:
        client.open_channel(1)
        try:
            for begin in range(0, count, 500):
                tags = (f"{number:0250}" for number in range(begin, begin + 500))
                client.socket.sendall(b"".join(wire.consume091(1, "tagged", tag=tag) for tag in tags))
                for _ in range(500):
                    client.wait_for(60, 21)
        except (OSError, EOFError):
            pass  # The broker has closed it.
    check_state(broker, count * 1250 * (16 if full else 4))
    yield
    for client in clients:
        client.close()


def check_state(broker, least):
    """Checks that what is kept for clients is counted, and below its limit."""
    broker.wait_for_budget("client_state", least)
    used, limit = broker.budget("client_state")
    # A shard looks at the limit when it holds 64 KiB more than before, and the first 8 KiB of each connection do not count.
    assert used <= limit + 2 * MB, f"{used} bytes are kept, of {limit}"


@flood(bound=100)
def messages_that_are_taken_and_kept(broker, full):
    """A consumer that never settles, on a queue that is being filled."""
    broker.declare("kept")
    yield
    count = 20_000 if full else 5_000
    consumer, publisher = wire.Client(broker.amqp), wire.Client(broker.amqp)
    consumer.receiver("/queues/kept", wire.MANY)
    threading.Thread(target=consumer.read_on, daemon=True).start()
    publisher.send_all(publisher.sender("/queues/kept"), count, b"x" * 10 * KB)
    broker.wait_for_messages("kept", count, "messages_unacknowledged")
    yield
    consumer.close()
    publisher.close()
    broker.delete("kept")


@flood(bound=250)
def messages_that_come_back_with_annotations(broker, full):
    """A consumer that returns all its messages, with as many annotations as it may set."""
    broker.declare("annotated")
    yield
    count = 20_000 if full else 10_000
    consumer, publisher = wire.Client(broker.amqp), wire.Client(broker.amqp)
    publisher.send_all(publisher.sender("/queues/annotated"), count, b"x")
    consumer.receiver("/queues/annotated", count)
    threading.Thread(target=consumer.read_on, daemon=True).start()
    broker.wait_for_messages("annotated", count, "messages_unacknowledged")
    consumer.annotate(0, count - 1, [("x-opt-hostile", "x" * 15_000)])
    broker.wait_for_messages("annotated", count, "messages_ready")
    yield
    consumer.close()
    publisher.close()
    broker.delete("annotated")


# ---- output that nobody reads ----------------------------------------------------------------------------------------


@flood(bound=600)
def output_that_nobody_reads(broker, full):
    """Connections of both protocols that make the broker write and do not read: returned messages, answers to `basic.get`,
    deliveries, answers to FLOW."""
    broker.declare("unread")
    publisher = wire.Client(broker.amqp)
    publisher.send_all(publisher.sender("/queues/unread"), 1_000, b"x" * 100 * KB)
    publisher.close()
    yield
    yield from leave_unread(broker, full, range(400), 4)
    broker.delete("unread")


@flood(bound=800)
def returns_that_nobody_reads(broker, full):
    """Connections that publish messages to no queue, which are returned to them, and do not read."""
    # Messages of 3 MB come and go faster than the allocator returns what is free: it waits a quarter of a second. When it did not
    # wait, 365 MiB were resident instead of 661.
    yield
    yield from leave_unread(broker, full, range(400 if full else 100), 1)


def leave_unread(broker, full, numbers, kinds):
    """Opens a connection for each number, whose kind is the number modulo `kinds`, and sends as much as the broker takes."""
    base = broker.sockets()
    returned = wire.publish091(1, "nobody", b"x" * 3 * MB, mandatory=True)
    clients = []
    for number in numbers:
        kind = number % kinds
        client = (wire.Client if kind == 3 else wire.Client091)(broker.amqp, receive_buffer=4096)
        if kind < 3:
            client.open_channel(1)
        client.socket.setblocking(False)
        part, times = ((returned, 20), (wire.get091(1, "unread") * 100, 1), (wire.consume091(1, "unread") * 5, 1),
                       (wire.ECHO * 1_000, 30))[kind]
        clients.append([client, part, times, b""])
    # As much as the broker takes: it stops reading from each of them.
    quiet = 0
    while quiet < (20 if full else 5):
        sent = sum([push_on(each) for each in clients])
        quiet = 0 if sent > MB else quiet + 1
        time.sleep(0.05)
    budgets = {row["name"]: row for row in broker.call("/nodes")[0]["budgets"]}
    used, limit = budgets["unread_output"]["used"], budgets["unread_output"]["limit"]
    # A shard counts a message when it was written, and may have to ask another shard to close a connection. A connection that was closed
    # keeps at most 128 KiB of its output until its peer has read it, or for ten seconds.
    closed = len(numbers) - len(broker.call("/connections"))
    assert 0 < used <= limit + 10 * MB + closed * 128 * 1024, f"{used} bytes are unread, of {limit}, and {closed} connections are closed"
    yield
    if full:
        # Those that were closed are gone, although their clients do not read why.
        time.sleep(20)
        left = broker.sockets() - base - len(broker.call("/connections"))
        assert left <= 0, f"{left} sockets of closed connections are left"
    for client, *_ in clients:
        client.close()


def push_on(each):
    """Writes as much as the socket takes, and remembers the rest for the next time. Returns the number of bytes."""
    client, part, times, rest = each
    sent = 0
    try:
        while rest or times > 0:
            if not rest:
                rest, times = part, times - 1
            size = client.socket.send(rest)
            rest, sent = rest[size:], sent + size
    except OSError:
        pass  # The socket is full, or the broker has closed it.
    each[2:] = times, rest
    return sent


# ---- routes that take long -------------------------------------------------------------------------------------------


def bind_many(broker, exchange, kind, bindings):
    """Declares an exchange, and queue `routed` with these bindings: a key and arguments each."""
    broker.call("/definitions/%2F", "POST", {
        "queues": [{"name": "routed", "durable": True, "auto_delete": False, "arguments": {}}],
        "exchanges": [{"name": exchange, "type": kind, "durable": True, "auto_delete": False, "internal": False, "arguments": {}}],
        "bindings": [{"source": exchange, "destination": "routed", "destination_type": "queue", "routing_key": key,
                      "arguments": arguments} for key, arguments in bindings]})


def send_for_long(broker, clients, message, full):
    """Has many connections send this message as often as the broker takes it. Yields meanwhile."""
    opened = [wire.Client091(broker.amqp) for _ in range(clients)]
    for client in opened:
        client.open_channel(1)
        client.socket.setblocking(False)
    pushed = [[client, message, 1_000_000, b""] for client in opened]
    end = time.monotonic() + (20 if full else 5)
    while time.monotonic() < end:
        for each in pushed:
            push_on(each)
        time.sleep(0.01)
    yield
    for client in opened:
        client.close()


def words(number):
    """Returns 40 words of two letters, others for each number below 2,000."""
    def word(at):
        return chr(ord("a") + at // 26 % 26) + chr(ord("a") + at % 26)
    return ".".join(word(number + at * (1 + number // 676)) for at in range(40))


@flood(bound=150, p99_ms=50)
def messages_with_expensive_keys(broker, full):
    """Messages with 50 routing keys, to a topic exchange with 2,000 binding keys that are expensive to match."""
    bind_many(broker, "expensive", "topic", [(f"#.{words(number)}.#.{words(1)}", {}) for number in range(2_000)])
    yield
    keys = [f"{words(number)}.{words(number + 2)}" for number in range(50)]
    yield from send_for_long(broker, 20 if full else 4, wire.route091(1, "expensive", "none", {"CC": keys}), full)
    broker.call("/exchanges/%2F/expensive", "DELETE")
    broker.delete("routed")


@flood(bound=150, p99_ms=50)
def messages_with_many_headers(broker, full):
    """Messages with 82 kB of headers, to a headers exchange with 200 bindings that each compare all of them."""
    wanted = {f"header-{number:05}": "no" for number in range(254)}
    bind_many(broker, "compared", "headers", [("", {"x-match": "any", **wanted, "n": str(number)}) for number in range(200)])
    yield
    headers = {f"header-{number:05}": "yes" * 4 for number in range(2_700)}
    yield from send_for_long(broker, 20, wire.route091(1, "compared", "", headers), full)
    broker.call("/exchanges/%2F/compared", "DELETE")
    broker.delete("routed")


# ---- alarms ----------------------------------------------------------------------------------------------------------


@flood(bound=60, stops_publishers=True)
def messages_during_an_alarm(broker, full):
    """Clients of both protocols that publish during an alarm as much as their sockets take, over many channels and sessions."""
    broker.declare("stopped")
    yield
    broker.set_alarm(True)
    clients = []
    for _ in range(400 if full else 100):
        client = wire.Client091(broker.amqp)
        for channel in range(1, 11):
            client.open_channel(channel)
        client.socket.setblocking(False)
        clients.append(client)
    payload = b"x" * 50 * KB
    for _ in range(20):
        for client in clients:
            for channel in range(1, 11):
                push(client.socket, wire.publish091(channel, "stopped", payload))
    for _ in range(50 if full else 10):
        client = wire.Client(broker.amqp)
        clients.append(client)
        sender = client.sender("/queues/stopped")
        client.wait_for(wire.FLOW)
        try:
            for number in range(100):
                client.send(sender, number, payload, settled=True)
        except OSError:
            pass  # The broker has ended the session, and reads nothing more of it.
    time.sleep(2)
    assert broker.call("/queues/%2F/stopped")["messages"] == 0, "messages have passed the alarm"
    yield
    for client in clients:
        client.close()
    # After the alarm, the broker reads what is left in the sockets.
    broker.delete("stopped")
    broker.set_alarm(False)


def push(opened, message):
    """Writes as much of a message as the socket takes. What follows half a message is no message, which does not matter here."""
    try:
        opened.send(message)
    except OSError:
        pass  # The socket is full, or the broker has closed it.


# ---- HTTP ------------------------------------------------------------------------------------------------------------


def request(broker, head):
    """Opens a connection to the HTTP port and sends the beginning of a request."""
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    opened.settimeout(60)
    opened.connect(("127.0.0.1", broker.http))
    try:
        opened.sendall(head)
    except OSError:
        pass  # It was closed in favour of a later one.
    return opened


@flood(bound=60, declares=True)
def answers_that_nobody_reads(broker, full):
    """Requests for the metrics of each queue and for all definitions, whose responses are never read."""
    count = 10_000 if full else 1_000
    queues = [{"name": f"queue-{number}", "vhost": "/", "durable": True, "auto_delete": False,
               "arguments": {"x-queue-type": "classic", "x-note": "n" * 620}} for number in range(count)]
    broker.call("/definitions", "POST", {"queues": queues})
    size = len(json.dumps(broker.call("/definitions"), separators=(",", ":")))
    assert size >= 750 * count, f"the definitions have {size} bytes"
    yield
    metrics = b"GET /metrics/per-object HTTP/1.1\r\nHost: localhost\r\n\r\n"
    definitions = (b"GET /api/definitions HTTP/1.1\r\nHost: localhost\r\n"
                   b"Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\r\n")
    sockets = [request(broker, head) for _ in range(100) for head in (metrics, definitions)]
    time.sleep(3)
    yield
    for each in sockets:
        each.close()


@flood(bound=60)
def bodies_that_never_end(broker, full):
    """Requests with bodies that lack their last byte."""
    yield
    head = (b"PUT /api/queues/%2F/hostile HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n"
            b"Content-Type: application/json\r\nContent-Length: 900001\r\n\r\n")
    sockets = []
    for _ in range(1_000 if full else 200):
        sockets.append(request(broker, head))
        try:
            sockets[-1].setblocking(False)
            sockets[-1].send(b"x" * 900 * KB)
        except OSError:
            pass  # It was refused, or its buffer is full.
    time.sleep(2)
    yield
    for each in sockets:
        each.close()


@flood(bound=60)
def requests_that_never_end(broker, full):
    """More connections than the HTTP port allows, each with half of a request's head."""
    yield
    sockets = [request(broker, b"GET /api/overview HTTP/1.1\r\nHo") for _ in range(1_100)]
    time.sleep(1)
    yield
    for each in sockets:
        each.close()


FLOODS = [each for each in list(globals().values()) if hasattr(each, "bound")]
