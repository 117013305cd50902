"""Checks of streams."""

import datetime
import time

from pika import BasicProperties

from client import channel, Consumer, count, declare, ended, expect, put, QUORUM, refused, until

ONCE = "streams are the same with each type of queue"


def offsets(deliveries):
    return [properties.headers["x-stream-offset"] for _, properties, _ in deliveries]


def streams_are_read_from_anywhere():
    if QUORUM:
        return ONCE
    with channel() as on:
        put(on, "anywhere", *(str(number) for number in range(5)), queue_type="stream")
        time.sleep(1.1)  # timestamps have seconds
        later = datetime.datetime.now(datetime.timezone.utc)
        time.sleep(1.1)
        for number in range(5, 10):
            on.basic_publish("", "anywhere", str(number))
        every = [str(number) for number in range(10)]
        for place, found in (
                ("first", every), (7, every[7:]), ("1h", every), (later, every[5:]), ("last", every[9:])):
            reader = on.connection.channel()
            consumer = Consumer(reader, "anywhere", prefetch=100, stream_offset=place)
            if place == "last":
                # The last chunk may have more than one message.
                got = [consumer.get()]
                while got[-1][2] != "9":
                    got.append(consumer.get())
                assert len(got) <= 5, got
            else:
                got = consumer.take(len(found))
                expect((place, [body for _, _, body in got]), (place, found))
            expect(offsets(got), [int(body) for _, _, body in got])
            expect([method.redelivered for method, _, _ in got], [False] * len(got))
            reader.close()
        waiting = Consumer(on.connection.channel(), "anywhere", prefetch=10)  # what comes next
        waiting.nothing()
        on.basic_publish("", "anywhere", "new")
        expect(waiting.bodies(1), ["new"])
        until(lambda: count(on, "anywhere") == 11, "all are counted")


def streams_deliver_as_they_are_acknowledged():
    if QUORUM:
        return ONCE
    with channel() as on:
        put(on, "slowly", *(str(number) for number in range(6)), queue_type="stream")
        consumer = Consumer(on, "slowly", prefetch=2, stream_offset="first")
        got = consumer.take(2)
        consumer.nothing()
        consumer.ack(got[1], multiple=True)
        got = consumer.take(2)
        on.basic_nack(got[0][0].delivery_tag, requeue=True)  # nothing comes twice
        on.basic_reject(got[1][0].delivery_tag, requeue=False)
        expect(consumer.bodies(2), ["4", "5"])


def streams_keep_the_properties():
    if QUORUM:
        return ONCE
    with channel() as on:
        put(on, "kept-well", queue_type="stream")
        on.exchange_declare("into-stream", "topic", durable=True)
        on.queue_bind("kept-well", "into-stream", "a.*")
        sent = BasicProperties(
            content_type="text/plain", content_encoding="utf-8",
            headers={"x-own": "x", "int": 7, "text": "t", "yes": True}, delivery_mode=2, priority=3,
            correlation_id="c", message_id="m", timestamp=1_700_000_000, type="t", app_id="a", user_id="guest",
            reply_to="answers")
        on.basic_publish("into-stream", "a.b", "body", sent, mandatory=True)
        method, found, body = Consumer(on, "kept-well", prefetch=1, stream_offset="first").get()
        expect((method.exchange, method.routing_key, body), ("into-stream", "a.b", "body"))
        expect(found.headers.pop("x-stream-offset"), 0)
        expect(found.headers, sent.headers)
        for name in ("content_type", "content_encoding", "delivery_mode", "priority", "correlation_id", "message_id",
                     "timestamp", "type", "app_id", "user_id", "reply_to"):
            expect((name, getattr(found, name)), (name, getattr(sent, name)))


def streams_filter_by_value():
    if QUORUM:
        return ONCE
    with channel() as on:
        put(on, "sorted", queue_type="stream")
        for number in range(9):
            value = ["tea", "coffee", None][number % 3]
            headers = {"x-stream-filter-value": value} if value else {}
            on.basic_publish("", "sorted", f"{number} {value}", BasicProperties(headers=headers))
            time.sleep(0.01)  # so that each is in a chunk of its own
        found = Consumer(on.connection.channel(), "sorted", prefetch=100, stream_offset="first", stream_filter="tea")
        expect(found.bodies(3), ["0 tea", "3 tea", "6 tea"])
        found.nothing()
        found = Consumer(on.connection.channel(), "sorted", prefetch=100, stream_offset="first", stream_filter="tea",
                         stream_match_unfiltered=True)
        expect(found.bodies(6), ["0 tea", "2 None", "3 tea", "5 None", "6 tea", "8 None"])


def streams_have_rules():
    if QUORUM:
        return ONCE
    with channel() as on:
        put(on, "ruled", "a", queue_type="stream")
        for code, text, attempt in (
                (406, "PRECONDITION_FAILED - consumer prefetch count is not set for stream",
                 lambda on: Consumer(on, "ruled")),
                (406, "PRECONDITION_FAILED", lambda on: Consumer(on, "ruled", prefetch=1, stream_offset="soon")),
                (406, "PRECONDITION_FAILED", lambda on: declare(on, "never", queue_type="stream", message_ttl=1))):
            on = refused(on, code, text, lambda: attempt(on))
    for attempt in (
            lambda on: on.basic_get("ruled"), lambda on: on.queue_purge("ruled"),
            lambda on: Consumer(on, "ruled", prefetch=1, auto_ack=True)):
        with channel() as on:
            ended(540, "NOT_IMPLEMENTED", lambda: attempt(on))


CHECKS = [
    streams_are_read_from_anywhere, streams_deliver_as_they_are_acknowledged, streams_keep_the_properties,
    streams_filter_by_value, streams_have_rules,
]
