"""One broker, two protocols: what pika publishes is read with Proton, and the other way."""

import datetime
import decimal
import os
import uuid

from pika import BasicProperties
from proton import (
    Array, Data, Delivery, Message, UNDESCRIBED, byte, char, int32, short, symbol, timestamp, ubyte, uint, ulong,
    ushort)

import checks
from sides import new, old

expect, QUORUM = old.expect, old.QUORUM
BY_RABBITMQ = old.BY_RABBITMQ
ID = uuid.UUID("550e8400-e29b-41d4-a716-446655440000")
MOMENT = datetime.datetime(2024, 2, 29, 12, 30, 15, tzinfo=datetime.timezone.utc)


class Replies(new.Replies):
    """A receiver for replies, whose capabilities are an array: RabbitMQ does not accept a single symbol."""

    def apply(self, link):
        super().apply(link)
        link.source.capabilities.clear()
        link.source.capabilities.put_object(Array(UNDESCRIBED, Data.SYMBOL, symbol("rabbitmq:volatile-queue")))


class Sides:
    """A connection of each protocol, for the time of one check."""

    def __enter__(self):
        self.connection = old.connect()
        self.on = self.connection.channel()
        self.on.confirm_delivery()
        self.newer = new.connect()
        self.management = new.Management(self.newer)
        return self

    def __exit__(self, *_):
        if self.connection.is_open:
            self.connection.close()
        self.newer.close()

    def queue(self, name, **arguments):
        old.declare(self.on, name, **arguments)

    def publish(self, queue, body, exchange="", **properties):
        self.on.basic_publish(exchange, queue, body, BasicProperties(**properties), mandatory=True)

    def get(self, queue):
        """Receives one message over 0.9.1."""
        return old.get_bytes(self.on, queue)

    def send(self, address, *messages):
        expect(new.send(self.newer, address, messages), [Delivery.ACCEPTED] * len(messages))

    def receive(self, queue, outcome=Delivery.ACCEPTED, failed=False):
        """Receives one message over 1.0."""
        consumer = new.Consumer(self.newer, queue)
        message, delivery = consumer.get()
        new.settle(delivery, outcome, failed)
        consumer.close()
        return message

    def to_new(self, body=b"body", **properties):
        """Publishes over 0.9.1 and receives over 1.0."""
        self.queue("to-new")
        self.publish("to-new", body, **properties)
        return self.receive("to-new")

    def to_old(self, **of_message):
        """Sends over 1.0 and receives over 0.9.1. Returns the properties and the body."""
        self.queue("to-old")
        self.send("/queues/to-old", Message(**{"body": b"body", "inferred": True} | of_message))
        _, properties, body = self.get("to-old")
        return properties, body


def readable(value):
    """Returns a value that can be compared: Proton shows binaries as views of memory."""
    if isinstance(value, memoryview):
        return value.tobytes()
    if isinstance(value, dict):
        return {str(key): readable(each) for key, each in value.items()}
    return [readable(each) for each in value] if isinstance(value, list) else value


def properties_of_0_9_1_to_1_0():
    with Sides() as sides:
        message = sides.to_new(
            content_type="text/plain", content_encoding="gzip", delivery_mode=2, priority=7, correlation_id="c-1",
            reply_to="my answers", expiration="600000", message_id="m-1", timestamp=1_700_000_000, type="order",
            user_id="guest", app_id="shop")
        expect(
            (message.content_type, message.content_encoding, message.durable, message.priority, message.correlation_id,
             message.reply_to, message.ttl, message.id, message.creation_time, message.user_id, message.group_id),
            ("text/plain", "gzip", True, 7, "c-1", "/queues/my%20answers", 600, "m-1", 1_700_000_000, b"guest",
             "shop"))
        expect((message.subject, message.address, message.properties), (None, None, None))
        expect(readable(message.annotations), {"x-exchange": "", "x-routing-key": "to-new", "x-basic-type": "order"})
        expect((readable(message.body), message.inferred), (b"body", True))


def what_0_9_1_leaves_out():
    with Sides() as sides:
        message = sides.to_new(b"")
        expect((message.durable, message.ttl, message.id, message.user_id, message.reply_to, message.correlation_id,
                message.creation_time, message.group_id, message.properties),
               (False, 0, None, b"", None, None, 0, None, None))
        expect((readable(message.body), message.delivery_count, message.first_acquirer), (b"", 0, True))
        expect(sides.to_new(delivery_mode=1).durable, False)
        as_uuid = sides.to_new(message_id=f"urn:uuid:{ID}", correlation_id=f"urn:uuid:{ID}")
        expect((as_uuid.id, as_uuid.correlation_id), (ID, ID))


def headers_of_0_9_1_to_1_0():
    with Sides() as sides:
        message = sides.to_new(headers={
            "text": "grüße", "bytes": b"\x00\xff", "yes": True, "int": -7, "long": 2**40, "time": MOMENT, "none": None,
            "list": [1, "a"], "table": {"a": 1}, "x-text": "t", "x-int": 7, "x-none": None, "x-bytes": b"\x00\xff",
            "x-list": [1, "b", [True]], "x-table": {"a": {"b": 1}}, "x-yes": True, "x-time": MOMENT})
        milliseconds = int(MOMENT.timestamp() * 1000)
        # Application properties are simple values, so lists and tables are left out.
        expect(readable(message.properties), {
            "text": "grüße", "bytes": b"\x00\xff", "yes": True, "int": -7, "long": 2**40, "time": milliseconds,
            "none": None})
        expect((type(message.properties["int"]), type(message.properties["time"])), (int32, timestamp))
        expect(readable(message.annotations), {
            "x-exchange": "", "x-routing-key": "to-new", "x-text": "t", "x-int": 7, "x-none": None,
            "x-bytes": b"\x00\xff", "x-list": [1, "b", [True]], "x-table": {"a": {"b": 1}}, "x-yes": True,
            "x-time": milliseconds})


def copies_cross():
    with Sides() as sides:
        for queue in ("to-new", "to-old", "copy", "blind"):
            sides.queue(queue)
        sides.publish("to-new", b"a", headers={"CC": ["copy"], "BCC": ["blind"], "kept": "k"})
        for queue in ("to-new", "copy", "blind"):
            message = sides.receive(queue)
            expect((readable(message.annotations), message.properties),
                   ({"x-exchange": "", "x-routing-key": "to-new", "x-cc": ["copy"]}, {"kept": "k"}))
        sides.send("/queues/to-old", Message(body=b"b", inferred=True, annotations={symbol("x-cc"): ["copy"]}))
        for queue in ("to-old", "copy"):
            method, properties, _ = sides.get(queue)
            expect((method.routing_key, properties.headers["CC"]), ("to-old", ["copy"]))


def properties_of_1_0_to_0_9_1():
    with Sides() as sides:
        properties, body = sides.to_old(
            durable=True, priority=7, ttl=600, id="m-1", user_id=b"guest", address="/queues/elsewhere", subject="s",
            reply_to="/queues/my%20answers", correlation_id="c-1", content_type="a/b", content_encoding="gzip",
            creation_time=1_700_000_000, expiry_time=4_000_000_000, group_id="g", group_sequence=3,
            reply_to_group_id="rg", annotations={symbol("x-basic-type"): "order"})
        properties.headers = without_counts(properties.headers)
        expect((properties, body), (BasicProperties(
            delivery_mode=2, priority=7, expiration="600000", message_id="m-1", user_id="guest", reply_to="my answers",
            correlation_id="c-1", content_type="a/b", content_encoding="gzip", timestamp=1_700_000_000, app_id="g",
            type="order"), b"body"))


def without_counts(headers):
    """Returns the headers without the counts that a quorum queue may add."""
    return {name: value for name, value in (headers or {}).items()
            if name not in ("x-delivery-count", "x-acquired-count")} or None


def ids_of_1_0_to_0_9_1():
    with Sides() as sides:
        for found, sent in (("plain", "plain"), ("7", ulong(7)), (str(2**64 - 1), ulong(2**64 - 1)),
                            (f"urn:uuid:{ID}", ID), ("ü" * 127, "ü" * 127)):
            properties, _ = sides.to_old(id=sent, correlation_id=sent)
            expect((properties.message_id, properties.correlation_id), (found, found))
        for sent in (b"\x00\xff", "x" * 256):  # no short string can have these
            properties, _ = sides.to_old(id=sent, correlation_id=sent)
            expect((properties.message_id, properties.correlation_id), (None, None))
            expect(without_counts(properties.headers), {"x-message-id": sent, "x-correlation-id": sent})
        expect(sides.to_old(reply_to="elsewhere")[0].reply_to, "elsewhere")
        expect(sides.to_old(reply_to="x" * 256)[0].reply_to, None)


def maps_of_1_0_to_0_9_1():
    with Sides() as sides:
        # pika reads floating-point numbers as whole numbers, so there are none here.
        properties, _ = sides.to_old(
            properties={
                "text": "grüße", "symbol": symbol("s"), "ubyte": ubyte(200), "byte": byte(-1),
                "ushort": ushort(60_000), "short": short(-300), "uint": uint(4_000_000_000), "int": int32(-5),
                "ulong": ulong(2**63 + 5), "long": -2**40, "yes": True, "time": timestamp(1_700_000_000_999),
                "bytes": b"\x00\xff", "none": None, "x-own": "x", "k" * 256: "its name is too long"},
            annotations={
                symbol("x-opt-a"): "t", symbol("x-int"): int32(7), symbol("x-list"): [1, "b", [True]],
                symbol("x-map"): {"a": {"b": 1}}, symbol("x-none"): None})
        expect(without_counts(properties.headers), {
            "text": "grüße", "symbol": "s", "ubyte": 200, "byte": -1, "ushort": 60_000, "short": -300,
            "uint": 4_000_000_000, "int": -5, "ulong": 5 - 2**63, "long": -2**40, "yes": True,
            "time": datetime.datetime.fromtimestamp(1_700_000_000, datetime.timezone.utc), "bytes": b"\x00\xff",
            "none": None, "x-own": "x", "x-opt-a": "t", "x-int": 7, "x-list": [1, "b", [True]],
            "x-map": {"a": {"b": 1}}, "x-none": None})


def values_that_one_side_lacks():
    if BY_RABBITMQ:
        return "they end RabbitMQ's channels and connections"
    with Sides() as sides:
        properties, _ = sides.to_old(properties={"uuid": ID, "char": char("x"), "kept": "k"})
        expect(properties.headers["kept"], "k")
        number = decimal.Decimal("3.14")
        message = sides.to_new(headers={"decimal": number, "x-decimal": number, "kept": "k"})
        expect(message.properties["kept"], "k")
        expect(sides.connection.is_open, True)


def bodies_of_1_0_to_0_9_1_and_back():
    with Sides() as sides:
        for body, is_sequence in (("text", False), (5, False), ([1, "l"], False), ({"a": [True]}, False), (ID, False),
                                  ([1, "two"], True)):
            properties, encoded = sides.to_old(body=body, inferred=is_sequence)
            expect(properties.type, "amqp-1.0")
            # A program may publish again what it got, and has sent the same body.
            sides.queue("back")
            sides.on.basic_publish("", "back", encoded, BasicProperties(type="amqp-1.0"))
            message = sides.receive("back")
            expect((readable(message.body), message.inferred), (body, is_sequence))
        properties, encoded = sides.to_old(body=b"data")
        expect((properties.type, encoded), (None, b"data"))


def several_data_sections_are_one_body():
    with Sides() as sides:
        sides.queue("sections")
        sender = sides.newer.create_sender("/queues/sections")
        delivery = sender.link.delivery("several")
        for part in (b"one ", b"two ", b"three"):
            sender.link.stream(b"\x00\x53\x75\xa0" + bytes([len(part)]) + part)
        sender.link.advance()
        sides.newer.wait(lambda: delivery.settled, msg="outcome")
        expect((delivery.remote_state, sides.get("sections")[2]), (Delivery.ACCEPTED, b"one two three"))


def there_and_back_again():
    with Sides() as sides:
        sides.queue("back")
        sent = BasicProperties(
            content_type="a/b", headers={"text": "t", "int": 1, "x-list": [1, "b"], "none": None}, delivery_mode=2,
            priority=2, correlation_id="c", reply_to="my answers", expiration="60000", message_id="m",
            timestamp=1_700_000_000, type="t", user_id="guest", app_id="a")
        message = sides.to_new(**{name: value for name, value in vars(sent).items() if value is not None})
        sides.send("/queues/back", message)  # Proton sends what it received
        _, found, body = sides.get("back")
        found.headers = without_counts(found.headers)
        expect((found.headers, found, body), (sent.headers, sent, b"body"))


def a_topic_exchange_between_them():
    with Sides() as sides:
        sides.on.exchange_declare("news", "topic", durable=True)
        for queue in ("of-old", "of-new"):
            sides.queue(queue)
        sides.on.queue_bind("of-old", "news", "sport.#")
        sides.management.ask("POST", "/bindings", {
            "source": "news", "destination_queue": "of-new", "binding_key": "*.eu", "arguments": {}})
        sides.publish("sport.eu", b"a", exchange="news")
        sides.send("/exchanges/news/sport.eu", Message(body=b"b", inferred=True))
        sides.send("/exchanges/news/sport.us", Message(body=b"c", inferred=True))
        for body, key in ((b"a", "sport.eu"), (b"b", "sport.eu"), (b"c", "sport.us")):
            method, _, found = sides.get("of-old")
            expect((method.exchange, method.routing_key, found), ("news", key, body))
        for body in (b"a", b"b"):
            message = sides.receive("of-new")
            expect((readable(message.annotations), readable(message.body)),
                   ({"x-exchange": "news", "x-routing-key": "sport.eu"}, body))
        old.empty(sides.on, "of-new")


def a_headers_exchange_between_them():
    with Sides() as sides:
        sides.on.exchange_declare("sorting", "headers", durable=True)
        sides.queue("sorted")
        sides.on.queue_bind("sorted", "sorting", "", {"x-match": "all", "kind": "tea", "cups": 2})
        for cups in (2, 3):
            sides.on.basic_publish("sorting", "", b"old", BasicProperties(headers={"kind": "tea", "cups": cups}))
            new.send(sides.newer, "/exchanges/sorting", [
                Message(body=b"new", inferred=True, properties={"kind": "tea", "cups": cups})])
        expect([sides.get("sorted")[2] for _ in range(2)], [b"old", b"new"])
        old.empty(sides.on, "sorted")


def dead_letters_cross():
    with Sides() as sides:
        sides.queue("grave")
        sides.queue("mortal", dead_letter_exchange="", dead_letter_routing_key="grave")
        sides.publish("mortal", b"a", headers={"h": 1})
        sides.receive("mortal", Delivery.REJECTED)
        _, properties, body = sides.get("grave")
        death = properties.headers["x-death"][0]
        expect((body, death["reason"], death["queue"], death["exchange"], death["routing-keys"], death["count"]),
               (b"a", "rejected", "mortal", "", ["mortal"], 1))
        expect((properties.headers["x-first-death-queue"], properties.headers["x-last-death-reason"],
                properties.headers["h"]), ("mortal", "rejected", 1))

        sides.send("/queues/mortal", Message(body=b"b", inferred=True, properties={"h": 1}))
        sides.on.basic_reject(old.get(sides.on, "mortal", auto_ack=False)[0].delivery_tag, requeue=False)
        message = sides.receive("grave")
        deaths = readable(list(message.annotations["x-opt-deaths"]))
        expect((readable(message.body), message.properties, len(deaths)), (b"b", {"h": 1}, 1))
        expect({name: deaths[0][name] for name in ("reason", "queue", "exchange", "count")},
               {"reason": "rejected", "queue": "mortal", "exchange": "", "count": 1})
        expect((message.annotations["x-first-death-queue"], message.annotations["x-last-death-reason"]),
               ("mortal", "rejected"))

        sides.send("/queues/mortal", Message(body=b"c", inferred=True))
        sides.receive("mortal", Delivery.REJECTED)
        _, properties, _ = sides.get("grave")  # 1.0 throughout, and read over 0.9.1
        expect((properties.headers["x-death"][0]["reason"], "x-opt-deaths" in properties.headers), ("rejected", False))


def a_time_to_live_crosses():
    with Sides() as sides:
        sides.queue("grave")
        sides.queue("brief", dead_letter_exchange="", dead_letter_routing_key="grave")
        sides.send("/queues/brief", Message(body=b"a", inferred=True, ttl=0.02))
        _, properties, _ = sides.get("grave")
        death = properties.headers["x-death"][0]
        expect((death["reason"], death["original-expiration"], properties.expiration), ("expired", "20", None))
        sides.publish("brief", b"b", expiration="20")
        message = sides.receive("grave")
        [death] = message.annotations["x-opt-deaths"]
        expect((death["reason"], int(death["ttl"])), ("expired", 20))


def a_stream_between_them():
    with Sides() as sides:
        sides.queue("river", queue_type="stream")
        sides.publish("river", b"old", message_id="m-0", type="t", headers={"n": 0, "x-stream-filter-value": "v"})
        sides.send("/queues/river", Message(body=b"new", inferred=True, id="m-1", properties={"n": 1}))
        reader = new.reader(sides.newer, "river", credit=10, offset=symbol("first"))
        got = reader.take(2)
        expect([(readable(message.body), message.id, message.properties) for message, _ in got],
               [(b"old", "m-0", {"n": 0}), (b"new", "m-1", {"n": 1})])
        expect((new.offsets(got), got[0][0].annotations["x-basic-type"]), ([0, 1], "t"))
        reader.close()
        consumer = old.Consumer(sides.on, "river", prefetch=10, stream_offset="first")
        got = consumer.take(2)
        expect([(body, properties.message_id, properties.type, properties.headers["n"],
                 properties.headers["x-stream-offset"]) for _, properties, body in got],
               [("old", "m-0", "t", 0, 0), ("new", "m-1", None, 1, 1)])
        sides.publish("river", b"tea", headers={"cups": 2})
        sides.send("/queues/river", Message(body=b"more tea", inferred=True, properties={"cups": int32(2)}))
        reader = new.reader(sides.newer, "river", credit=10, offset=symbol("first"), application={"cups": int32(2)})
        expect([readable(message.body) for message, _ in reader.take(2)], [b"tea", b"more tea"])
        reader.close()


def outcomes_cross():
    with Sides() as sides:
        sides.queue("returned")
        sides.publish("returned", b"a")
        sides.receive("returned", Delivery.RELEASED)
        method, properties, _ = old.get(sides.on, "returned", auto_ack=False)
        expect((method.redelivered, (properties.headers or {}).get("x-delivery-count", 0)), (True, 0))
        sides.on.basic_nack(method.delivery_tag, requeue=True)
        message = sides.receive("returned", Delivery.MODIFIED, failed=True)
        expect(message.first_acquirer, False)
        if QUORUM:
            expect(message.delivery_count, 0)
            method, properties, _ = old.get(sides.on, "returned", auto_ack=False)
            expect((properties.headers["x-delivery-count"], properties.headers["x-acquired-count"]), (1, 3))
            sides.on.basic_reject(method.delivery_tag, requeue=True)
            expect(sides.receive("returned").delivery_count, 2)


def consumers_of_both_share_a_queue():
    with Sides() as sides:
        sides.queue("shared")
        of_old = old.Consumer(sides.on, "shared", prefetch=5)
        of_new = new.Consumer(sides.newer, "shared", credit=5)
        for number in range(10):
            sides.on.connection.channel().basic_publish("", "shared", b"%d" % number)
        found = of_old.bodies(5) + [readable(message.body).decode() for message, _ in of_new.take(5)]
        expect(sorted(found), [str(number) for number in range(10)])
        of_new.close()  # what it has not settled goes to the other, as soon as that has room
        for _ in range(5):
            sides.on.basic_ack(0, multiple=True)
            if len(of_old.arrived) == 5:
                break
            sides.on.connection.process_data_events(time_limit=1)
        got = of_old.take(5)
        expect([method.redelivered for method, _, _ in got], [True] * 5)


def big_messages_cross():
    with Sides() as sides:
        body = os.urandom(2_000_000)
        message = sides.to_new(body)
        expect(readable(message.body) == body, True)
        sides.queue("big")
        sides.send("/queues/big", Message(body=body, inferred=True))
        expect(sides.get("big")[2] == body, True)


def replies_cross():
    with Sides() as sides:
        sides.queue("questions")
        pseudo = "amq.rabbitmq.reply-to"
        answers = old.Consumer(sides.on, pseudo, auto_ack=True)
        sides.publish("questions", b"why", reply_to=pseudo, correlation_id="1")
        question = sides.receive("questions")
        assert question.reply_to.startswith(f"/queues/{pseudo}."), question.reply_to
        sides.send(question.reply_to, Message(body=b"because", inferred=True, correlation_id=question.correlation_id))
        _, properties, body = answers.get()
        expect((properties.correlation_id, body), ("1", "because"))

        inbox = new.Inbox()
        receiver = sides.newer.create_receiver(None, credit=1, handler=inbox, options=Replies())
        address = receiver.link.remote_source.address
        sides.send("/queues/questions", Message(body=b"how", inferred=True, reply_to=address, id="2"))
        _, question, _ = sides.get("questions")
        sides.publish(question.reply_to, b"so", correlation_id=question.message_id)
        sides.newer.wait(lambda: inbox.arrived, msg="the answer")
        message, _ = inbox.arrived.popleft()
        expect((readable(message.body), message.correlation_id), (b"so", "2"))


def queues_are_the_same_things():
    with Sides() as sides:
        sides.management.queue("of-both", {"x-max-length": 5})
        old.declare(sides.on, "of-both", max_length=5)
        found = old.http("GET", "queues/%2F/of-both")
        expect((found["type"], found["arguments"]["x-max-length"]), (old.QUEUE_TYPE, 5))
        cancelled = []
        sides.on.add_on_cancel_callback(cancelled.append)
        old.Consumer(sides.on, "of-both")
        old.http("DELETE", "queues/%2F/of-both")
        old.until(lambda: sides.connection.process_data_events(time_limit=0.1) or cancelled, "cancelled")
        sides.queue("of-both-again")
        consumer = new.Consumer(sides.newer, "of-both-again", credit=1)
        expect(sides.on.queue_declare("of-both-again", passive=True).method.consumer_count, 1)
        if BY_RABBITMQ:  # it ends the session when the client answers its DETACH
            consumer.close()
        sides.on.queue_delete("of-both-again")
        if not BY_RABBITMQ:
            sides.newer.wait(lambda: consumer.inbox.closed, msg="detach")
            expect(consumer.inbox.closed, "amqp:resource-deleted")


CHECKS = [
    properties_of_0_9_1_to_1_0, what_0_9_1_leaves_out, headers_of_0_9_1_to_1_0, copies_cross,
    properties_of_1_0_to_0_9_1, ids_of_1_0_to_0_9_1, maps_of_1_0_to_0_9_1, values_that_one_side_lacks,
    bodies_of_1_0_to_0_9_1_and_back, several_data_sections_are_one_body, there_and_back_again,
    a_topic_exchange_between_them, a_headers_exchange_between_them, dead_letters_cross, a_time_to_live_crosses,
    a_stream_between_them, outcomes_cross, consumers_of_both_share_a_queue, big_messages_cross, replies_cross,
    queues_are_the_same_things,
]


checks.run("crossing", CHECKS)
