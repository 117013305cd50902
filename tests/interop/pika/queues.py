"""Checks of dead letters, time-to-live, lengths and priorities."""

import time

from pika import BasicProperties

from client import channel, Consumer, count, declare, empty, expect, get, http, is_gone, put, QUORUM, until


def with_graves(on, queue, *bodies, **arguments):
    """Declares a queue whose dead letters go to the queue 'QUEUE-grave' through an exchange."""
    on.exchange_declare(f"{queue}-deaths", "fanout", durable=True)
    declare(on, f"{queue}-grave")
    on.queue_bind(f"{queue}-grave", f"{queue}-deaths")
    put(on, queue, *bodies, dead_letter_exchange=f"{queue}-deaths", **arguments)


def death(headers, number=0):
    """Returns the reason, queue, exchange, routing keys and count of a death, the newest one by default."""
    entry = headers["x-death"][number]
    assert abs(entry["time"].timestamp() - time.time()) < 24 * 3600, entry["time"]
    return entry["reason"], entry["queue"], entry["exchange"], entry["routing-keys"], entry["count"]


def rejected_messages_are_dead_lettered():
    with channel() as on:
        with_graves(on, "rejecting", "a", "b")
        for settle in (on.basic_reject, on.basic_nack):
            settle(get(on, "rejecting", auto_ack=False)[0].delivery_tag, requeue=False)
        for wanted in "ab":
            method, properties, body = get(on, "rejecting-grave")
            expect((body, method.exchange, method.routing_key), (wanted, "rejecting-deaths", "rejecting"))
            expect(death(properties.headers), ("rejected", "rejecting", "", ["rejecting"], 1))
            expect([properties.headers[f"x-{which}-death-{what}"] for which in ("first", "last")
                    for what in ("reason", "queue", "exchange")], ["rejected", "rejecting", ""] * 2)
            expect(properties.delivery_mode, 2)


def dead_letters_may_have_another_key():
    with channel() as on:
        put(on, "rerouted-grave")
        put(on, "rerouted", dead_letter_exchange="", dead_letter_routing_key="rerouted-grave")
        on.basic_publish("", "rerouted", "a", BasicProperties(
            headers={"CC": ["elsewhere"], "BCC": ["hidden"], "mine": 1}, message_id="m", delivery_mode=2))
        on.basic_reject(get(on, "rerouted", auto_ack=False)[0].delivery_tag, requeue=False)
        method, properties, _ = get(on, "rerouted-grave")
        expect((method.exchange, method.routing_key, properties.message_id), ("", "rerouted-grave", "m"))
        expect(death(properties.headers), ("rejected", "rerouted", "", ["rerouted", "elsewhere"], 1))
        expect((properties.headers["mine"], properties.headers["CC"], properties.headers.get("BCC")),
               (1, ["elsewhere"], None))


def deaths_are_counted():
    with channel() as on:
        with_graves(on, "circle", "a")
        on.queue_bind("circle", "amq.direct", "back")
        for round_number in range(1, 4):
            on.basic_reject(get(on, "circle", auto_ack=False)[0].delivery_tag, requeue=False)
            method, properties, body = get(on, "circle-grave", auto_ack=False)
            expect(body, "a")
            on.basic_ack(method.delivery_tag)
            # What a client publishes again starts anew: the broker does not read its x-death.
            expect(death(properties.headers)[4], 1)
            on.basic_publish("amq.direct", "back", "a", properties)


def expired_messages_are_dead_lettered():
    with channel() as on:
        with_graves(on, "short", message_ttl=50)
        on.basic_publish("", "short", "a")
        on.basic_publish("", "short", "b", BasicProperties(expiration="1", headers={"h": 1}))
        on.basic_publish("", "short", "c", BasicProperties(expiration="600000"))
        found = [get(on, "short-grave") for _ in range(3)]
        expect(sorted(body for _, _, body in found), ["a", "b", "c"])
        for _, properties, body in found:
            expect(death(properties.headers), ("expired", "short", "", ["short"], 1))
            original = {"a": None, "b": "1", "c": "600000"}[body]
            expect((properties.expiration, properties.headers["x-death"][0].get("original-expiration")),
                   (None, original))
        empty(on, "short")


def messages_expire_by_themselves():
    with channel() as on:
        with_graves(on, "of-messages", "stays")
        get(on, "of-messages")
        on.basic_publish("", "of-messages", "a", BasicProperties(expiration="20"))
        on.basic_publish("", "of-messages", "b")
        _, properties, body = get(on, "of-messages-grave")
        expect((body, death(properties.headers)[0]), ("a", "expired"))
        expect(get(on, "of-messages")[2], "b")
        on.basic_publish("", "of-messages", "c", BasicProperties(expiration="0"))  # expires unless it can be delivered
        expect(get(on, "of-messages-grave")[2], "c")
        empty(on, "of-messages")


def a_retry_with_a_waiting_queue():
    with channel() as on:
        on.exchange_declare("work", "direct", durable=True)
        on.exchange_declare("wait", "direct", durable=True)
        put(on, "work", dead_letter_exchange="wait")
        put(on, "wait", dead_letter_exchange="work", message_ttl=30)
        on.queue_bind("work", "work", "job")
        on.queue_bind("wait", "wait", "job")
        on.basic_publish("work", "job", "a", BasicProperties(delivery_mode=2))
        consumer = Consumer(on, "work", prefetch=1)
        for attempt in range(3):
            method, properties, _ = consumer.get()
            if attempt:
                headers = properties.headers
                expect([death(headers, number) for number in range(2)],
                       [("expired", "wait", "wait", ["job"], attempt), ("rejected", "work", "work", ["job"], attempt)])
                expect([headers[f"x-{name}"] for name in (
                    "first-death-reason", "first-death-queue", "last-death-reason", "last-death-queue")],
                       ["rejected", "work", "expired", "wait"])
            on.basic_nack(method.delivery_tag, requeue=attempt == 3)
        on.basic_ack(consumer.get()[0].delivery_tag)
        consumer.nothing()


def circles_without_a_rejection_end():
    with channel() as on:
        put(on, "turning", dead_letter_exchange="", dead_letter_routing_key="turning", message_ttl=20)
        on.basic_publish("", "turning", "a")
        until(lambda: count(on, "turning") == 0, "the message is dropped")


def long_queues_drop_from_the_head():
    with channel() as on:
        with_graves(on, "long", *"abcde", max_length=3)
        expect([get(on, "long")[2] for _ in range(3)], ["c", "d", "e"])
        empty(on, "long")
        for wanted in "ab":
            _, properties, body = get(on, "long-grave")
            expect((body, death(properties.headers)), (wanted, ("maxlen", "long", "", ["long"], 1)))
        put(on, "heavy", "x" * 600, "y" * 600, "z" * 300, max_length_bytes=1000)
        expect([get(on, "heavy")[2][0] for _ in range(2)], ["y", "z"])


def rejected_publishes_may_be_dead_lettered():
    if QUORUM:
        return "quorum queues have no reject-publish-dlx"
    with channel() as on:
        with_graves(on, "strict", "a", max_length=1, overflow="reject-publish-dlx")
        try:
            on.basic_publish("", "strict", "b")
            raise AssertionError("was confirmed")
        except Exception as error:
            expect(type(error).__name__, "NackError")
        _, properties, body = get(on, "strict-grave")
        expect((body, death(properties.headers)[0]), ("b", "maxlen"))
        expect(get(on, "strict")[2], "a")


def the_delivery_limit():
    if not QUORUM:
        return "only quorum queues have one"
    with channel() as on:
        with_graves(on, "limited", "a", delivery_limit=2)
        consumer = Consumer(on, "limited", prefetch=1)
        for number in range(3):
            method, properties, _ = consumer.get()
            expect((properties.headers or {}).get("x-delivery-count", 0), number)
            on.basic_reject(method.delivery_tag, requeue=True)
        consumer.nothing()
        _, properties, body = get(on, "limited-grave")
        expect((body, death(properties.headers)), ("a", ("delivery_limit", "limited", "", ["limited"], 1)))


def dead_letters_at_least_once():
    if not QUORUM:
        return "only quorum queues have this strategy"
    with channel() as on:
        with_graves(on, "safe", *"abc", dead_letter_strategy="at-least-once", overflow="reject-publish")
        for _ in range(3):
            on.basic_reject(get(on, "safe", auto_ack=False)[0].delivery_tag, requeue=False)
        for wanted in "abc":
            _, properties, body = get(on, "safe-grave")
            expect((body, death(properties.headers)[0]), (wanted, "rejected"))


def a_policy_sets_what_arguments_do_not():
    http("PUT", "policies/%2F/limits", {
        "pattern": "^of-policy$", "apply-to": "queues", "definition": {
            "max-length": 2, "dead-letter-exchange": "", "dead-letter-routing-key": "policy-grave"}})
    with channel() as on:
        put(on, "policy-grave")
        put(on, "of-policy", *"abc")
        expect((get(on, "policy-grave")[2], get(on, "of-policy")[2]), ("a", "b"))
    http("DELETE", "policies/%2F/limits")


def unused_queues_expire():
    with channel() as on:
        declare(on, "unused", expires=50)
        # A passive declaration is a use of the queue too. So this asks less often than the queue expires.
        until(lambda: time.sleep(0.2) or is_gone("unused"), "the queue is gone")


def messages_have_priorities():
    with channel() as on:
        put(on, "ranks", **({} if QUORUM else {"max_priority": 10}))
        for number, priority in enumerate([1, 9, 5, 5, None, 0, 9]):
            on.basic_publish("", "ranks", str(number), BasicProperties(priority=priority))
        # Without a priority a message has 4 in a quorum queue, and 0 in a classic one.
        wanted = ["1", "6", "2", "3", "4", "0", "5"] if QUORUM else ["1", "6", "2", "3", "0", "4", "5"]
        found = [get(on, "ranks") for _ in range(7)]
        expect([body for _, _, body in found], wanted)
        expect([properties.priority for _, properties, _ in found[:3]], [9, 9, 5])


CHECKS = [
    rejected_messages_are_dead_lettered, dead_letters_may_have_another_key, deaths_are_counted,
    expired_messages_are_dead_lettered, messages_expire_by_themselves, a_retry_with_a_waiting_queue,
    circles_without_a_rejection_end, long_queues_drop_from_the_head, rejected_publishes_may_be_dead_lettered,
    the_delivery_limit, dead_letters_at_least_once, a_policy_sets_what_arguments_do_not, unused_queues_expire,
    messages_have_priorities,
]
