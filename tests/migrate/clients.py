"""Programs that publish and consume while their broker is replaced. They use pika, as programs do."""

import threading
import time

import pika
from pika.exceptions import AMQPError

RABBITMQ = "amqp://app:app-secret@127.0.0.1:5672/shop"
SLUICE = "amqp://app:app-secret@127.0.0.1:5673/shop"

# The most unacknowledged messages of a consumer.
PREFETCH = 50

# Seconds between two attempts to connect.
RETRY = 0.2


def properties(number):
    """Returns properties of all kinds. They depend on the number, so that the consumer can check them."""
    return pika.BasicProperties(
        content_type="text/plain", content_encoding="utf-8", delivery_mode=2, priority=3,
        correlation_id=f"c{number}", reply_to="answers", message_id=f"m{number}", timestamp=1_700_000_000 + number,
        type="kind", app_id="migrate", user_id="app",
        headers={"n": number, "text": "häder", "flag": number % 2 == 0, "none": None, "big": 1 << 40})


def differences(number, found):
    """Returns the properties that differ from those that were published. Brokers may add headers that begin with x-."""
    wanted, found = vars(properties(number)), dict(vars(found))
    found["headers"] = {key: value for key, value in found["headers"].items() if not key.startswith("x-")}
    return {name: found[name] for name in wanted if wanted[name] != found[name]}


class Program(threading.Thread):
    """A program that connects again whenever its connection breaks."""

    def __init__(self, url):
        super().__init__(daemon=True)
        self.url, self.stopping, self.error = url, threading.Event(), None
        self.start()

    def run(self):
        while not self.stopping.is_set():
            try:
                connection = pika.BlockingConnection(pika.URLParameters(self.url))
                self.work(connection)
                connection.close()
            except (AMQPError, OSError):
                time.sleep(RETRY)
            except Exception as error:  # a mistake of the test: shown at the end
                self.error = error
                return

    def stop(self):
        self.stopping.set()
        self.join()
        if self.error:
            raise self.error


class Publisher(Program):
    """Publishes numbers with confirms, and waits for each one."""

    def __init__(self, url, key, first, pause=0.0):
        self.key, self.pause = key, pause
        self.next = first
        super().__init__(url)

    def work(self, connection):
        channel = connection.channel()
        channel.confirm_delivery()
        while not self.stopping.is_set():
            channel.basic_publish("shop", f"{self.key}.new", f"{self.next}", properties(self.next), mandatory=True)
            self.next += 1
            time.sleep(self.pause)


class Consumer(Program):
    """Acknowledges every message of a queue. `seen` has their numbers in the order in which they arrived."""

    def __init__(self, url, queue=None, exchange_key=None, pause=0.0, arguments=None):
        self.queue, self.exchange_key, self.pause, self.arguments = queue, exchange_key, pause, arguments
        self.seen, self.redelivered, self.differences, self.keys = [], 0, {}, set()
        self.is_ready = threading.Event()
        super().__init__(url)

    def work(self, connection):
        channel = connection.channel()
        queue = self.queue
        if self.exchange_key:
            queue = channel.queue_declare("", exclusive=True).method.queue
            channel.queue_bind(queue, "shop", self.exchange_key)
        channel.basic_qos(prefetch_count=PREFETCH)
        for method, found, body in channel.consume(queue, arguments=self.arguments, inactivity_timeout=0.1):
            self.is_ready.set()
            if self.stopping.is_set():
                return
            if method:
                self.take(channel, method, found, body)

    def take(self, channel, method, found, body):
        number = int(body)
        self.seen.append(number)
        self.keys.add((method.exchange, method.routing_key))
        self.redelivered += method.redelivered
        self.differences.update(differences(number, found))
        channel.basic_ack(method.delivery_tag)
        time.sleep(self.pause)


def first_times(numbers):
    """Returns the numbers without those that have come before."""
    return list(dict.fromkeys(numbers))


def late(numbers):
    """Returns how many numbers come after a larger one."""
    largest, count = -1, 0
    for number in numbers:
        count += number < largest
        largest = max(largest, number)
    return count
