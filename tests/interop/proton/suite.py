"""The checks that all suites share, with Qpid Proton for Python."""

import collections
import time
import zlib

from proton import ConnectionException, Delivery, Link, Message, ProtonException, Timeout, symbol, timestamp, ulong
from proton.handlers import MessagingHandler
from proton.reactor import AtMostOnce, Container, Filter, LinkOption

import checks
import tokens
from client import (
    AMQP, asked, bodies, connect, Consumer, expect, Inbox, Management, offsets, on_queue, on_stream, over_tls, QUEUE_TYPE,
    reader, refused, Replies, send, settle)

MESSAGES = 10_000


def connect_with_plain():
    connection = connect(allowed_mechs="PLAIN")
    expect(connection.conn.remote_properties["product"], "RabbitMQ")
    connection.close()


def a_missing_virtual_host_is_an_error_that_names_it():
    class Client(MessagingHandler):
        """Connects again and again by default, but not after a CLOSE."""
        error = None

        def on_start(self, event):
            event.container.connect(f"amqp://{AMQP}", user="guest", password="guest", virtual_host="vhost:absent")

        def on_connection_error(self, event):
            self.error = event.connection.remote_condition
            super().on_connection_error(event)

    client = Client()
    Container(client).run()
    expect((client.error.name, client.error.description), ("amqp:unauthorized-access", "vhost 'absent' not found"))
    try:
        connect(virtual_host="vhost:absent")
    except ConnectionException as error:
        assert "vhost 'absent' not found" in str(error), error
    else:
        raise AssertionError("was not refused")


def tls_with_a_password():
    connection = over_tls(user="guest", password="guest", allowed_mechs="PLAIN")
    sizes = [10, 1000, 50_000, 300_000]
    on_queue(connection, "over-tls", *["x" * size for size in sizes])
    got = Consumer(connection, "over-tls").drain()
    expect([len(message.body) for message, _ in got], sizes)
    connection.close()


def tls_with_a_certificate():
    connection = over_tls("client", allowed_mechs="EXTERNAL")
    on_queue(connection, "of-a-certificate", "a")
    connection.close()


def connect_with_anonymous():
    connect(user=None, password=None, allowed_mechs="ANONYMOUS").close()


def wrong_password_is_refused():
    try:
        connect(password="wrong", allowed_mechs="PLAIN")
    except ProtonException as error:
        assert "Authentication failed" in str(error), error
    else:
        raise AssertionError("was not refused")


def declare_over_management():
    connection = connect()
    management = Management(connection)
    queue = management.queue("declared")
    expect((queue["name"], queue["vhost"], queue["durable"], queue["type"], queue["message_count"]),
           ("declared", "/", True, QUEUE_TYPE, 0))
    same = {"durable": True, "arguments": {"x-queue-type": QUEUE_TYPE}}
    management.ask("PUT", "/queues/declared", same, status="200")
    management.ask("GET", "/queues/declared", status="200")
    management.ask("PUT", "/queues/declared", {"durable": True, "auto_delete": True}, status="409")
    management.ask("GET", "/queues/absent", status="404")
    expect(management.ask("DELETE", "/queues/declared", status="200"), {"message_count": 0})
    connection.close()


def size_of(number):
    """Returns a size from 12 bytes to 1 MiB. All messages together have 72 MB."""
    if number % 200 == 0:
        return 1 << 20
    if number % 50 == 1:
        return 1 << 16
    if number % 10 == 2:
        return 4096
    return 12 + number * 7 % 500


def body_of(number):
    text = b"%012d" % number
    return (text * (size_of(number) // 12 + 1))[:size_of(number)]


def send_and_receive_10000_of_mixed_sizes():
    connection = connect()
    Management(connection).queue("bulk")
    sender = connection.create_sender("/queues/bulk").link
    waiting = collections.deque()

    def reap(allowed):
        connection.wait(lambda: waiting[0].settled if len(waiting) > allowed else True, msg="outcomes")
        while waiting and waiting[0].settled:
            delivery = waiting.popleft()
            expect(delivery.remote_state, Delivery.ACCEPTED)
            delivery.settle()

    for number in range(MESSAGES):
        body = body_of(number)
        waiting.append(sender.send(Message(
            body=body, durable=True, properties={"number": number, "crc": zlib.crc32(body)})))
        while len(waiting) > 100:
            reap(100)
    while waiting:
        reap(0)
    sender.close()

    consumer = Consumer(connection, "bulk", credit=200)
    for number in range(MESSAGES):
        [(message, delivery)] = consumer.take(1)
        expect((message.properties["number"], len(message.body)), (number, size_of(number)))
        expect(zlib.crc32(message.body), message.properties["crc"])
        expect((message.durable, message.delivery_count, message.first_acquirer), (True, 0, True))
        settle(delivery, Delivery.ACCEPTED)
        if number % 100 == 99:
            consumer.link.flow(100)
    expect(consumer.drain(), [])
    consumer.close()
    expect(Management(connection).ask("GET", "/queues/bulk", status="200")["message_count"], 0)
    connection.close()


def release_redelivers():
    connection = connect()
    on_queue(connection, "released", "a", "b")
    consumer = Consumer(connection, "released")
    message, delivery = consumer.get()
    expect((message.body, message.delivery_count, message.first_acquirer), ("a", 0, True))
    settle(delivery, Delivery.RELEASED)
    message, delivery = consumer.get()
    expect((message.body, message.delivery_count, message.first_acquirer), ("a", 0, False))
    settle(delivery, Delivery.ACCEPTED)
    expect(consumer.get()[0].body, "b")
    connection.close()


def reject_discards():
    connection = connect()
    on_queue(connection, "rejected", "a", "b")
    consumer = Consumer(connection, "rejected")
    message, delivery = consumer.get()
    expect(message.body, "a")
    settle(delivery, Delivery.REJECTED)
    expect(bodies(consumer.drain()), ["b"])
    connection.close()


def reject_dead_letters():
    connection = connect()
    on_queue(connection, "grave")
    on_queue(connection, "mortal", "a", "b", arguments={
        "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave"})
    consumer = Consumer(connection, "mortal")
    settle(consumer.get()[1], Delivery.REJECTED)
    expect(consumer.get()[0].body, "b")
    message, _ = Consumer(connection, "grave").get()
    expect((message.body, message.delivery_count), ("a", 1))
    connection.close()


def modify_counts_the_failure():
    connection = connect()
    on_queue(connection, "modified", "a")
    consumer = Consumer(connection, "modified")
    settle(consumer.get()[1], Delivery.MODIFIED, failed=True)
    message, delivery = consumer.get()
    expect((message.body, message.delivery_count, message.first_acquirer), ("a", 1, False))
    settle(delivery, Delivery.MODIFIED, failed=False)
    message, delivery = consumer.get()
    expect((message.body, message.delivery_count, message.first_acquirer), ("a", 1, False))
    delivery.local.undeliverable = True
    settle(delivery, Delivery.MODIFIED, failed=True)
    expect(consumer.drain(), [])
    connection.close()


def drain_returns_what_is_there_and_tells():
    connection = connect()
    on_queue(connection, "drained", "a", "b", "c")
    consumer = Consumer(connection, "drained")
    expect(bodies(consumer.drain()), ["a", "b", "c"])
    expect(consumer.link.credit, 0)
    expect(consumer.drain(), [])
    connection.close()


def drain_of_more_than_a_round_of_credit():
    connection = connect()
    on_queue(connection, "drained-long", *range(700))
    consumer = Consumer(connection, "drained-long")
    expect(bodies(consumer.drain()), list(range(700)))
    expect(consumer.drain(), [])
    connection.close()


def one_credit_gets_one_message():
    connection = connect()
    on_queue(connection, "one", "a", "b", "c")
    consumer = Consumer(connection, "one")
    for body in ("a", "b", "c"):
        message, delivery = consumer.get()
        expect((message.body, consumer.link.credit, len(consumer.inbox.arrived)), (body, 0, 0))
        settle(delivery, Delivery.ACCEPTED)
    connection.close()


def detach_redelivers_in_order():
    connection = connect()
    on_queue(connection, "detached", *range(10))
    first = Consumer(connection, "detached", credit=6)
    got = first.take(6)
    expect(bodies(got), list(range(6)))
    settle(got[1][1], Delivery.ACCEPTED)
    first.close()
    second = Consumer(connection, "detached", credit=9)
    got = second.take(9)
    expect(bodies(got), [0, 2, 3, 4, 5, 6, 7, 8, 9])
    expect([message.first_acquirer for message, _ in got], [False] * 5 + [True] * 4)
    # Classic queues count a DETACH as a failed delivery, and quorum queues do not.
    count = 0 if QUEUE_TYPE == "quorum" else 1
    expect([message.delivery_count for message, _ in got], [count] * 5 + [0] * 4)
    connection.close()


def missing_queue_is_not_found():
    connection = connect()
    refused("amqp:not-found", lambda: connection.create_sender("/queues/absent"))
    refused("amqp:not-found", lambda: connection.create_receiver("/queues/absent"))
    refused("amqp:invalid-field", lambda: connection.create_receiver("/queue/old-style"))
    on_queue(connection, "after-refusals", "a")
    connection.close()


def fanout_and_topic_route():
    connection = connect()
    management = Management(connection)
    for name in ("orders", "audit"):
        management.queue(name)
    management.ask("PUT", "/exchanges/news", {"type": "fanout"})
    management.ask("PUT", "/exchanges/events", {"type": "topic"})
    for source, queue, key in (("news", "orders", ""), ("news", "audit", ""), ("events", "orders", "order.*"),
                               ("events", "audit", "#")):
        management.ask("POST", "/bindings", {
            "source": source, "destination_queue": queue, "binding_key": key, "arguments": {}})
    bindings = management.ask("GET", "/bindings?src=events&dstq=orders&key=order.%2A", status="200")
    expect([binding["binding_key"] for binding in bindings], ["order.*"])

    expect(send(connection, "/exchanges/news", ["n"]), [Delivery.ACCEPTED])
    expect(send(connection, "/exchanges/events/order.new", ["o"]), [Delivery.ACCEPTED])
    expect(send(connection, "/exchanges/events/user.new", ["u"]), [Delivery.ACCEPTED])
    orders = Consumer(connection, "orders").drain()
    expect(bodies(orders), ["n", "o"])
    expect([(message.annotations["x-exchange"], message.annotations["x-routing-key"]) for message, _ in orders],
           [("news", ""), ("events", "order.new")])
    expect(bodies(Consumer(connection, "audit").drain()), ["n", "o", "u"])
    connection.close()


def unroutable_is_released():
    connection = connect()
    Management(connection).ask("PUT", "/exchanges/nowhere", {"type": "direct"})
    expect(send(connection, "/exchanges/nowhere/key", ["a"]), [Delivery.RELEASED])
    connection.close()


def deleting_the_queue_detaches_its_links():
    connection = connect()
    management = Management(connection)
    management.queue("doomed")
    consumer = Consumer(connection, "doomed", credit=10)
    expect(management.ask("DELETE", "/queues/doomed", status="200"), {"message_count": 0})
    connection.wait(lambda: consumer.inbox.closed, msg="detach")
    expect(consumer.inbox.closed, "amqp:resource-deleted")
    connection.close()


def settled_both_ways():
    connection = connect()
    management = Management(connection)
    management.queue("at-most-once")
    sender = connection.create_sender("/queues/at-most-once", options=AtMostOnce())
    for number in range(100):
        sender.send(Message(body=number))
    consumer = Consumer(connection, "at-most-once", credit=100, options=AtMostOnce())
    got = consumer.take(100)
    expect(bodies(got), list(range(100)))
    expect([delivery.settled for _, delivery in got], [True] * 100)
    consumer.close()
    expect(management.ask("GET", "/queues/at-most-once", status="200")["message_count"], 0)
    connection.close()


def a_publisher_that_detaches_gets_its_outcomes():
    connection = connect()
    Management(connection).queue("left")
    sender = connection.create_sender("/queues/left")
    connection.wait(lambda: sender.link.credit >= 100, msg="credit")
    sent = [sender.link.send(Message(body=number, durable=True)) for number in range(100)]
    sender.close()
    expect([delivery.remote_state for delivery in sent], [Delivery.ACCEPTED] * 100)
    expect(len(Consumer(connection, "left").drain()), 100)
    connection.close()


class SenderSettlesFirst(LinkOption):
    """A receiver that settles a delivery only after the sender has settled it."""

    def apply(self, link):
        link.snd_settle_mode = Link.SND_UNSETTLED
        link.rcv_settle_mode = Link.RCV_SECOND


def the_sender_settles_first():
    connection = connect()
    management = Management(connection)
    management.queue("second")
    sender = connection.create_sender("/queues/second", options=SenderSettlesFirst())
    expect(sender.link.remote_rcv_settle_mode, Link.RCV_SECOND)
    sent = sender.link.send(Message(body="m"))
    connection.wait(lambda: sent.remote_state, msg="outcome")
    expect((sent.remote_state, sent.settled), (Delivery.ACCEPTED, False))
    sent.settle()
    consumer = Consumer(connection, "second", credit=1, options=SenderSettlesFirst())
    expect(consumer.link.remote_rcv_settle_mode, Link.RCV_SECOND)
    [(message, delivery)] = consumer.take(1)
    expect((message.body, delivery.settled), ("m", False))
    delivery.update(Delivery.ACCEPTED)
    connection.wait(lambda: delivery.settled, msg="settlement")
    delivery.settle()
    consumer.close()
    expect(management.ask("GET", "/queues/second", status="200")["message_count"], 0)
    connection.close()


def anonymous_terminus_routes_by_to():
    connection = connect()
    on_queue(connection, "to-one")
    on_queue(connection, "to%20two")
    expect(send(connection, None, ["a"], to="/queues/to-one"), [Delivery.ACCEPTED])
    expect(send(connection, None, ["b"], to="/queues/to%20two"), [Delivery.ACCEPTED])
    expect(send(connection, None, ["c"], to="/exchanges/amq.fanout/none"), [Delivery.RELEASED])
    expect(send(connection, None, ["d"], to="/exchanges/absent/key"), [Delivery.REJECTED])
    expect(send(connection, None, ["e"]), [Delivery.REJECTED])
    expect(bodies(Consumer(connection, "to-one").drain()), ["a"])
    expect(bodies(Consumer(connection, "to%20two").drain()), ["b"])
    connection.close()


def direct_reply_to_answers_without_a_queue():
    server, client = connect(), connect()
    on_queue(server, "requests")
    inbox = Inbox()
    receiver = client.create_receiver(None, credit=1, handler=inbox, options=Replies())
    reply_to = receiver.link.remote_source.address
    assert reply_to.startswith("/queues/amq.rabbitmq.reply-to."), reply_to
    request = Message(body="2 + 2", durable=True, reply_to=reply_to, id=17)
    client.create_sender("/queues/requests").send(request)

    [(message, delivery)] = Consumer(server, "requests", credit=1).take(1)
    settle(delivery, Delivery.ACCEPTED)
    answers = server.create_sender(None)
    answer = lambda body: answers.send(Message(body=body, address=message.reply_to, correlation_id=message.id))
    expect(answer("4").remote_state, Delivery.ACCEPTED)
    client.wait(lambda: inbox.arrived, msg="the answer")
    arrived, delivery = inbox.arrived.popleft()
    expect((arrived.body, arrived.correlation_id, delivery.settled), ("4", 17, True))
    expect(answer("5").remote_state, Delivery.ACCEPTED)  # the receiver has no credit for it
    refused("amqp:precondition-failed", lambda: server.create_receiver(reply_to))
    receiver.close()
    refused("amqp:not-found", lambda: server.create_sender(reply_to))
    server.close()
    client.close()


def streams_are_read_from_anywhere():
    connection = connect()
    on_stream(connection, "anywhere", *range(5))
    time.sleep(0.002)
    later = int(time.time() * 1000)  # after the chunks so far
    time.sleep(0.002)
    expect(send(connection, "/queues/anywhere", range(5, 10)), [Delivery.ACCEPTED] * 5)
    expect(send(connection, "/queues/anywhere", [10]), [Delivery.ACCEPTED])
    one = reader(connection, "anywhere", offset=symbol("first"))
    got = [one.get() for _ in range(11)]
    expect((bodies(got), offsets(got)), (list(range(11)), list(range(11))))
    expect(one.drain(), [])
    one.close()
    for place, found in (
            ("first", range(11)), (7, range(7, 11)), (ulong(7), range(7, 11)), (timestamp(later), range(5, 11)),
            (symbol("last"), range(10, 11)), ("1h", range(11)), (timestamp(later + 3_600_000), ()), ("next", ())):
        all_of_it = reader(connection, "anywhere", offset=place)
        got = all_of_it.drain()
        expect((place, bodies(got), offsets(got)), (place, list(found), list(found)))
        all_of_it.close()
    waiting = Consumer(connection, "anywhere", credit=100_000)
    expect(send(connection, "/queues/anywhere", range(11, 2000)), [Delivery.ACCEPTED] * 1989)
    expect(bodies(waiting.take(1989)), list(range(11, 2000)))
    waiting.close()
    many = reader(connection, "anywhere", credit=100_000, offset="first")
    expect(bodies(many.take(2000)), list(range(2000)))
    many.close()
    refused("amqp:precondition-failed", lambda: reader(connection, "anywhere", offset="soon"))
    connection.close()


def streams_filter_on_the_server():
    connection = connect()
    on_stream(connection, "filtered")
    kinds = [("a", "tea", 1), ("b", "tea", 2), (None, "coffee", 3)]
    for number in range(6):
        value, subject, cups = kinds[number % 3]
        annotations = {symbol("x-stream-filter-value"): value} if value else None
        message = Message(body=number, subject=subject, properties={"cups": cups}, annotations=annotations)
        expect(send(connection, "/queues/filtered", [message]), [Delivery.ACCEPTED])  # a chunk of its own
    expect(send(connection, "/queues/filtered", [Message(body=6)]), [Delivery.ACCEPTED])
    every = list(range(7))
    for filters, accepted, found in (
            ({"stream_filter": "a"}, None, [0, 3]),
            ({"stream_filter": ["a", "b"]}, None, [0, 1, 3, 4]),
            ({"stream_filter": "a", "match_unfiltered": True}, None, [0, 2, 3, 5, 6]),
            ({"properties": {symbol("subject"): "tea"}}, None, [0, 1, 3, 4]),
            ({"properties": {symbol("subject"): "&p:cof"}}, None, [2, 5]),
            ({"application": {"cups": 2}}, None, [1, 4]),
            ({"properties": {symbol("subject"): "tea"}, "application": {"cups": 1}}, None, [0, 3]),
            ({"sql": "properties.subject LIKE 't%' AND cups > 1"}, None, [1, 4]),
            ({"sql": "cups < 3", "stream_filter": "b"}, None, [1, 4]),
            ({"properties": {symbol("subject"): 5}}, ["offset"], every),
            ({"sql": "cups <"}, ["offset"], every)):
        accepted = accepted and [symbol(name) for name in accepted]
        consumer = reader(connection, "filtered", accepted=accepted, offset="first", **filters)
        expect((filters, bodies(consumer.drain())), (filters, found))
        consumer.close()
    connection.close()


def streams_keep_whatever_is_settled():
    connection = connect()
    on_stream(connection, "kept", *range(5))
    consumer = reader(connection, "kept", credit=5, offset="first")
    got = consumer.take(5)
    for (_, delivery), state in zip(
            got, (Delivery.ACCEPTED, Delivery.RELEASED, Delivery.REJECTED, Delivery.MODIFIED, Delivery.MODIFIED)):
        settle(delivery, state, failed=state == Delivery.MODIFIED)
    expect(consumer.drain(), [])
    consumer.close()
    at_most_once = Consumer(connection, "kept", options=[AtMostOnce(), Filter(asked(offset="first"))])
    got = at_most_once.drain()
    expect([(message.body, message.delivery_count, message.first_acquirer, delivery.settled)
            for message, delivery in got], [(number, 0, True, True) for number in range(5)])
    management = Management(connection)
    expect(management.ask("GET", "/queues/kept", status="200")["message_count"], 5)
    management.ask("DELETE", "/queues/kept/messages", status="400")
    expect(management.ask("DELETE", "/queues/kept", status="200"), {"message_count": 5})
    connection.wait(lambda: at_most_once.inbox.closed, msg="detach")
    expect(at_most_once.inbox.closed, "amqp:resource-deleted")
    connection.close()


def idle_connection_stays():
    connection = connect(heartbeat=2)  # Proton announces half of this time
    try:
        connection.wait(lambda: False, timeout=4, msg="nothing")
    except Timeout:
        pass
    on_queue(connection, "after-idling", "a")
    connection.close()


CHECKS = [
    connect_with_plain, connect_with_anonymous, wrong_password_is_refused, a_missing_virtual_host_is_an_error_that_names_it, tls_with_a_password,
    tls_with_a_certificate, declare_over_management,
    send_and_receive_10000_of_mixed_sizes, release_redelivers, reject_discards, reject_dead_letters,
    modify_counts_the_failure,
    drain_returns_what_is_there_and_tells, drain_of_more_than_a_round_of_credit, one_credit_gets_one_message,
    detach_redelivers_in_order, missing_queue_is_not_found, fanout_and_topic_route, unroutable_is_released,
    deleting_the_queue_detaches_its_links, settled_both_ways, a_publisher_that_detaches_gets_its_outcomes,
    the_sender_settles_first, anonymous_terminus_routes_by_to,
    direct_reply_to_answers_without_a_queue, streams_are_read_from_anywhere, streams_filter_on_the_server,
    streams_keep_whatever_is_settled, idle_connection_stays,
]


# With a provider, only tokens are checked.
checks.run("proton", tokens.CHECKS if tokens.ISSUER else CHECKS)
