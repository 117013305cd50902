"""A client for the checks: pika's BlockingConnection."""

import collections
import contextlib
import json
import os
import ssl
import time
import urllib.request

import pika
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

HOST, PORT = os.environ["SLUICE_AMQP"].split(":")
QUEUE_TYPE = os.environ["SLUICE_QUEUE_TYPE"]
QUORUM = QUEUE_TYPE == "quorum"
AMQPS = os.environ.get("SLUICE_AMQPS")
# RabbitMQ 4.3 has, or permits, less than Sluice in a few places.
BY_RABBITMQ = os.environ.get("SLUICE_AGAINST") == "rabbitmq"
PATIENCE = 30  # seconds; a guard against hanging, not a measure
QUIET = 0.15  # seconds in which a message that must not arrive would arrive
PERSISTENT = pika.BasicProperties(delivery_mode=2)


def connect(user="guest", password="guest", host=HOST, port=PORT, credentials=None, **options):
    return pika.BlockingConnection(pika.ConnectionParameters(
        host, int(port), credentials=credentials or pika.PlainCredentials(user, password),
        blocked_connection_timeout=PATIENCE, **options))


@contextlib.contextmanager
def channels(count, **options):
    """Opens one connection with this number of channels, and closes it in the end."""
    connection = connect(**options)
    try:
        yield [connection.channel() for _ in range(count)]
    finally:
        if connection.is_open:
            connection.close()


@contextlib.contextmanager
def channel(**options):
    with channels(1, **options) as [only]:
        yield only


def over_tls(certificate=None):
    """Returns the options of a connection with TLS, which shows a certificate if one is named."""
    folder = os.environ["SLUICE_TLS"]
    context = ssl.create_default_context(cafile=f"{folder}/ca.pem")
    if certificate:
        context.load_cert_chain(f"{folder}/{certificate}.pem", f"{folder}/{certificate}.key")
    host, port = AMQPS.split(":")
    return {"host": host, "port": port, "ssl_options": pika.SSLOptions(context, "localhost")}


def http(method, path, body=None):
    """Sends one request to the management API, as guest."""
    request = urllib.request.Request(
        f"http://{os.environ['SLUICE_HTTP']}/api/{path}", method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"authorization": "Basic Z3Vlc3Q6Z3Vlc3Q=", "content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def declare(on, queue, **arguments):
    """Declares a durable queue of the type that is tested. The arguments are written with _ for - and without x-."""
    names = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    return on.queue_declare(queue, durable=True, arguments={"x-queue-type": QUEUE_TYPE} | names)


def put(on, queue, *bodies, **arguments):
    """Declares a queue with these messages in it. The channel then confirms what is published."""
    declare(on, queue, **arguments)
    on.confirm_delivery()
    for body in bodies:
        on.basic_publish("", queue, body, PERSISTENT, mandatory=True)


def get(on, queue, auto_ack=True):
    """Waits until the queue has a message, and returns the method, the properties and the body as a text."""
    method, properties, body = get_bytes(on, queue, auto_ack)
    return method, properties, body.decode()


def get_bytes(on, queue, auto_ack=True):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        method, properties, body = on.basic_get(queue, auto_ack)
        if method:
            return method, properties, body
        time.sleep(0.005)
    raise AssertionError(f"no message in {queue}")


def empty(on, queue):
    expect(on.basic_get(queue), (None, None, None))


def count(on, queue):
    return on.queue_declare(queue, passive=True).method.message_count


def is_gone(queue):
    """Returns whether the queue does not exist, as another connection sees it."""
    with channel() as on:
        try:
            on.queue_declare(queue, passive=True)
        except ChannelClosedByBroker as error:
            return error.reply_code == 404
    return False


def until(condition, what):
    """Waits for something that the broker does after its answer."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


class Consumer:
    """A consumer that stores what arrives. Each delivery is a method, properties and a body."""

    def __init__(self, on, queue, prefetch=0, auto_ack=False, exclusive=False, **arguments):
        self.channel, self.arrived = on, collections.deque()
        if prefetch:
            on.basic_qos(prefetch_count=prefetch)
        names = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
        self.tag = on.basic_consume(
            queue, lambda _, method, properties, body: self.arrived.append((method, properties, body.decode())),
            auto_ack=auto_ack, exclusive=exclusive, arguments=names or None)

    def take(self, number):
        deadline = time.monotonic() + PATIENCE
        while len(self.arrived) < number:
            assert time.monotonic() < deadline, f"only {len(self.arrived)} of {number} messages arrived"
            self.channel.connection.process_data_events(time_limit=1)
        return [self.arrived.popleft() for _ in range(number)]

    def get(self):
        return self.take(1)[0]

    def bodies(self, number):
        return [body for _, _, body in self.take(number)]

    def nothing(self):
        """Waits a short time, and expects that nothing arrives."""
        self.channel.connection.process_data_events(time_limit=QUIET)
        expect([body for _, _, body in self.arrived], [])

    def ack(self, delivery, multiple=False):
        self.channel.basic_ack(delivery[0].delivery_tag, multiple)

    def cancel(self):
        self.channel.basic_cancel(self.tag)


def expect(found, wanted):
    assert found == wanted, f"found {found!r}, wanted {wanted!r}"


def refused(on, code, text, attempt):
    """Expects that the broker closes the channel with this code and text. Returns a new channel of the connection."""
    try:
        attempt()
        on.basic_qos()  # some methods have no answer, but this one has one if there was no error
    except ChannelClosedByBroker as error:
        assert error.reply_code == code and text in error.reply_text, error
    else:
        raise AssertionError(f"was not refused with {code} {text}")
    assert on.connection.is_open
    return on.connection.channel()


def ended(code, text, attempt):
    """Expects that the broker closes the connection with this code and text."""
    try:
        attempt()
    except ConnectionClosedByBroker as error:
        assert error.reply_code == code and text in error.reply_text, error
    else:
        raise AssertionError(f"was not ended with {code} {text}")
