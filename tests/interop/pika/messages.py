"""Checks of what is published: properties, headers, returns, confirms, transactions."""

import datetime
import decimal

from pika import BasicProperties
from pika.exceptions import NackError, UnroutableError

from client import channel, channels, Consumer, count, declare, empty, expect, get, is_gone, put, QUORUM, refused, until

EVERY_TYPE = {
    "text": "grüße", "empty": "", "bytes": b"\x00\xff\x01", "yes": True, "no": False, "small": 1, "negative": -7,
    "int": 2_147_483_647, "long": 9_007_199_254_740_993, "lowest": -9_223_372_036_854_775_808,
    "decimal": decimal.Decimal("3.14"), "nothing": None,
    "time": datetime.datetime(2024, 2, 29, 12, 30, 15, tzinfo=datetime.timezone.utc),
    "list": [1, "two", None, [True, {"deep": [b"\x00"]}], {}],
    "table": {"a": 1, "b": {"c": {"d": "e"}}, "f": []}, "x-own": "with x", "k" * 255: "a long name"}


def properties_come_back_unchanged():
    with channel() as on:
        put(on, "properties")
        sent = BasicProperties(
            content_type="text/plain", content_encoding="utf-8", headers=EVERY_TYPE, delivery_mode=2, priority=3,
            correlation_id="c-1", reply_to="answers", expiration="600000", message_id="m-1", timestamp=1_700_000_000,
            type="order.created", user_id="guest", app_id="shop", cluster_id="ignored")
        on.basic_publish("", "properties", "body", sent)
        method, found, body = get(on, "properties")
        if QUORUM:
            found.headers.pop("x-delivery-count", None)
            found.headers.pop("x-acquired-count", None)
        expect((found.headers, found, body), (EVERY_TYPE, sent, "body"))
        expect((method.exchange, method.routing_key, method.redelivered, method.message_count),
               ("", "properties", False, 0))


def absent_properties_stay_absent():
    with channel() as on:
        put(on, "bare")
        on.basic_publish("", "bare", "")
        _, found, body = get(on, "bare")
        if QUORUM:
            found.headers = None  # it may count deliveries
        expect((found, body), (BasicProperties(), ""))
        for sent in (BasicProperties(headers={}), BasicProperties(content_type="", priority=0, expiration="60000"),
                     BasicProperties(delivery_mode=1, timestamp=0, message_id="ü" * 127)):
            on.basic_publish("", "bare", "a", sent)
            found = get(on, "bare")[1]
            if QUORUM:
                found.headers = sent.headers
            expect(found, sent)


def binary_bodies_come_back_unchanged():
    with channel() as on:
        declare(on, "binary")
        body = bytes(range(256)) * 1000
        on.basic_publish("", "binary", body)
        until(lambda: count(on, "binary"), "the message is there")
        expect(on.basic_get("binary", auto_ack=True)[2], body)


def unroutable_messages_are_returned():
    with channels(2) as [plain, confirming]:
        returned = []
        plain.add_on_return_callback(lambda _, method, properties, body: returned.append((method, properties, body)))
        plain.basic_publish("amq.direct", "nobody", "a", BasicProperties(message_id="m"), mandatory=True)
        plain.basic_publish("amq.direct", "nobody", "b")
        until(lambda: plain.connection.process_data_events(time_limit=0.1) or returned, "the message is returned")
        [(method, properties, body)] = returned
        expect((method.reply_code, method.reply_text, method.exchange, method.routing_key, properties.message_id, body),
               (312, "NO_ROUTE", "amq.direct", "nobody", "m", b"a"))
        confirming.confirm_delivery()
        confirming.basic_publish("amq.direct", "nobody", "c")  # confirmed all the same
        try:
            confirming.basic_publish("", "no-such-queue", "d", mandatory=True)
        except UnroutableError as error:
            [message] = error.messages
            expect((message.method.reply_code, message.method.routing_key, message.body), (312, "no-such-queue", b"d"))
        else:
            raise AssertionError("was not returned")


def confirms_of_many_messages():
    with channel() as on:
        put(on, "confirmed", *(str(number) for number in range(300)))
        expect(count(on, "confirmed"), 300)
        expect(Consumer(on, "confirmed", auto_ack=True).bodies(300), [str(number) for number in range(300)])


def a_full_queue_rejects_publishes():
    with channel() as on:
        put(on, "full", max_length=3, overflow="reject-publish")
        accepted = 0
        try:
            for _ in range(100):  # a quorum queue may take a few more
                on.basic_publish("", "full", "a")
                accepted += 1
        except NackError:
            pass
        assert accepted >= 3 if QUORUM else accepted == 3, accepted
        assert accepted < 100
        for _ in range(accepted):
            get(on, "full")
        until(lambda: accepts(on, "full"), "the queue takes messages again")


def accepts(on, queue):
    try:
        on.basic_publish("", queue, "b")
        return True
    except NackError:
        return False


def copies_by_header():
    with channel() as on:
        for queue in ("to", "cc-1", "cc-2", "bcc"):
            put(on, queue)
        headers = {"CC": ["cc-1", "cc-2", "to"], "BCC": ["bcc"], "other": 1}
        on.basic_publish("", "to", "a", BasicProperties(headers=headers))
        for queue in ("to", "cc-1", "cc-2", "bcc"):
            method, properties, body = get(on, queue)
            expect((queue, method.routing_key, body), (queue, "to", "a"))
            expect((properties.headers["CC"], properties.headers.get("BCC"), properties.headers["other"]),
                   (["cc-1", "cc-2", "to"], None, 1))
            empty(on, queue)
        on.basic_publish("amq.direct", "nobody", "b", BasicProperties(headers={"CC": ["to"]}))
        empty(on, "to")  # the keys are those of the exchange
        on.queue_bind("to", "amq.direct", "somebody")
        on.basic_publish("amq.direct", "nobody", "c", BasicProperties(headers={"BCC": ["somebody"]}), mandatory=True)
        expect(get(on, "to")[2], "c")
        refused(on, 406, "PRECONDITION_FAILED",
                lambda: on.basic_publish("", "to", "d", BasicProperties(headers={"CC": "cc-1"})))


def wrong_expirations_are_refused():
    with channel() as on:
        declare(on, "expiring")
        for text in ("soon", "-1", "1.5", ""):
            on = refused(on, 406, "invalid expiration",
                         lambda: on.basic_publish("", "expiring", "a", BasicProperties(expiration=text)))
        empty(on, "expiring")


def transactions():
    with channels(2) as [on, other]:
        put(other, "in-transaction", "first")
        on.tx_select()
        on.basic_publish("", "in-transaction", "second")
        method, _, body = on.basic_get("in-transaction")
        expect(body, b"first")
        on.basic_ack(method.delivery_tag)
        expect(count(other, "in-transaction"), 0)
        on.tx_rollback()  # also of the acknowledgement; the delivery stays with the channel
        on.basic_ack(method.delivery_tag)
        on.tx_commit()
        empty(other, "in-transaction")
        for body in ("third", "fourth"):
            on.basic_publish("", "in-transaction", body)
        on.tx_commit()
        expect([get(other, "in-transaction")[2] for _ in range(2)], ["third", "fourth"])
        on.basic_publish("", "in-transaction", "lost")
        on.close()  # what is not committed is gone
        empty(other, "in-transaction")


def transactions_return_what_no_queue_takes():
    with channel() as on:
        returned = []
        on.add_on_return_callback(lambda _, method, properties, body: returned.append((method.reply_code, body)))
        on.tx_select()
        on.basic_publish("amq.direct", "nobody", "a", mandatory=True)
        on.tx_commit()
        until(lambda: on.connection.process_data_events(time_limit=0.1) or returned, "the message is returned")
        expect(returned, [(312, b"a")])


def transactions_and_confirms_exclude_each_other():
    with channels(2) as [first, second]:
        first.tx_select()
        refused(first, 406, "cannot switch from tx to confirm mode", first.confirm_delivery)
        second.confirm_delivery()
        on = refused(second, 406, "cannot switch from confirm to tx mode", second.tx_select)
        refused(on, 406, "channel is not transactional", on.tx_commit)


def direct_reply_to():
    with channel() as client, channel() as server:
        put(server, "calculations")
        answers = Consumer(client, "amq.rabbitmq.reply-to", auto_ack=True)
        client.basic_publish("", "calculations", "2 + 2", BasicProperties(
            reply_to="amq.rabbitmq.reply-to", correlation_id="17"))
        _, properties, body = get(server, "calculations")
        assert properties.reply_to.startswith("amq.rabbitmq.reply-to."), properties.reply_to
        expect((body, properties.correlation_id), ("2 + 2", "17"))
        expect(server.queue_declare(properties.reply_to, passive=True).method.message_count, 0)
        server.basic_publish("", properties.reply_to, "4", BasicProperties(correlation_id="17"), mandatory=True)
        method, found, body = answers.get()
        expect((method.exchange, method.routing_key, found.correlation_id, body), ("", properties.reply_to, "17", "4"))
        client.close()
        until(lambda: is_gone(properties.reply_to), "the reply address is gone")


def direct_reply_to_has_rules():
    with channel() as on:
        on = refused(on, 406, "reply consumer cannot acknowledge",
                     lambda: on.basic_consume("amq.rabbitmq.reply-to", print))
        on = refused(on, 406, "fast reply consumer does not exist", lambda: on.basic_publish(
            "", "calculations", "a", BasicProperties(reply_to="amq.rabbitmq.reply-to")))
        Consumer(on, "amq.rabbitmq.reply-to", auto_ack=True)
        refused(on, 406, "reply consumer already set",
                lambda: on.basic_consume("amq.rabbitmq.reply-to", print, auto_ack=True))


CHECKS = [
    properties_come_back_unchanged, absent_properties_stay_absent, binary_bodies_come_back_unchanged,
    unroutable_messages_are_returned, confirms_of_many_messages, a_full_queue_rejects_publishes, copies_by_header,
    wrong_expirations_are_refused, transactions, transactions_return_what_no_queue_takes,
    transactions_and_confirms_exclude_each_other, direct_reply_to, direct_reply_to_has_rules,
]
