"""Checks of queues, exchanges and bindings."""

from pika import BasicProperties
from pika.exceptions import UnroutableError

from client import (
    channel, channels, Consumer, count, declare, empty, ended, expect, get, is_gone, put, QUEUE_TYPE, QUORUM, refused,
    until)


def declare_and_declare_again():
    with channel() as on:
        declared = declare(on, "declared", max_length=10).method
        expect((declared.queue, declared.message_count, declared.consumer_count), ("declared", 0, 0))
        expect(declare(on, "declared", max_length=10).method.queue, "declared")
        put(on, "declared", "a", "b", max_length=10)
        Consumer(on, "declared", prefetch=1).get()
        passive = on.queue_declare("declared", passive=True).method
        expect((passive.message_count, passive.consumer_count), (1, 1))
        # A passive declaration compares nothing.
        on.queue_declare("declared", passive=True, durable=False, auto_delete=True, arguments={"x-max-length": 11})


def declare_with_other_properties():
    with channel() as on:
        declare(on, "fixed", max_length=10)
        kind = {"x-queue-type": QUEUE_TYPE}
        for text, options in (
                ("inequivalent arg 'x-max-length' for queue 'fixed' in vhost '/': received '20' but "
                 "current is '10'",
                 {"durable": True, "arguments": kind | {"x-max-length": 20}}),
                ("inequivalent arg 'x-max-length' for queue 'fixed' in vhost '/': received none but current is the "
                 "value '10' of type 'signedint'", {"durable": True, "arguments": kind}),
                ("inequivalent arg 'x-expires' for queue 'fixed' in vhost '/': received the value '60000' of type "
                 "'signedint' but current is none",
                 {"durable": True, "arguments": kind | {"x-max-length": 10, "x-expires": 60000}})):
            on = refused(on, 406, text, lambda: on.queue_declare("fixed", **options))
        on.exchange_declare("fixed", "direct", durable=True)
        on.exchange_declare("fixed", "direct", durable=True)
        for text, options in (
                ("inequivalent arg 'type' for exchange 'fixed' in vhost '/': received 'topic' but current is 'direct'",
                 {"exchange_type": "topic", "durable": True}),
                ("inequivalent arg 'durable' for exchange 'fixed' in vhost '/': received 'false' but current is 'true'",
                 {"exchange_type": "direct"}),
                ("inequivalent arg 'auto_delete' for exchange 'fixed' in vhost '/': received 'true' but current is "
                 "'false'", {"exchange_type": "direct", "durable": True, "auto_delete": True}),
                ("inequivalent arg 'internal' for exchange 'fixed' in vhost '/': received 'true' but current is "
                 "'false'", {"exchange_type": "direct", "durable": True, "internal": True})):
            on = refused(on, 406, text, lambda: on.exchange_declare("fixed", **options))


def a_classic_queue_keeps_its_flags():
    with channel() as on:
        on.queue_declare("flags", durable=True)
        on = refused(on, 406, "inequivalent arg 'auto_delete' for queue 'flags' in vhost '/': received 'true' but "
                              "current is 'false'", lambda: on.queue_declare("flags", durable=True, auto_delete=True))
        on = refused(on, 406, "inequivalent arg 'x-queue-type' for queue 'flags' in vhost '/': received "
                              "'quorum' but current is 'classic'", lambda: on.queue_declare(
                                  "flags", durable=True, arguments={"x-queue-type": "quorum"}))
        on = refused(on, 406, "quorum", lambda: on.queue_declare(
            "", durable=True, arguments={"x-queue-type": "quorum"}))  # the broker names no quorum queue
        for flags in ({"auto_delete": True}, {"exclusive": True}, {}):
            on = refused(on, 406, "invalid property", lambda: on.queue_declare(
                "never", durable=flags != {}, arguments={"x-queue-type": "quorum"}, **flags))


def wrong_arguments_are_refused():
    with channel() as on:
        for text, arguments in (
                ("invalid arg 'x-message-ttl' for queue 'wrong' in vhost '/'", {"message_ttl": -1}),
                ("invalid arg 'x-message-ttl' for queue 'wrong' in vhost '/'", {"message_ttl": "soon"}),
                ("invalid arg 'x-expires' for queue 'wrong' in vhost '/'", {"expires": 0}),
                ("invalid arg 'x-overflow' for queue 'wrong' in vhost '/'", {"overflow": "explode"}),
                ("invalid arg 'x-dead-letter-routing-key' for queue 'wrong' in vhost '/'",
                 {"dead_letter_routing_key": "k"}),
                ("PRECONDITION_FAILED", {"queue_type": "fast"})):
            on = refused(on, 406, text, lambda: declare(on, "wrong", **arguments))
        refused(on, 404, "no queue 'wrong' in vhost '/'", lambda: on.queue_declare("wrong", passive=True))


def missing_things_are_not_found():
    with channel() as on:
        declare(on, "here")
        for text, attempt in (
                ("no queue 'gone' in vhost '/'", lambda on: on.queue_declare("gone", passive=True)),
                ("no queue 'gone' in vhost '/'", lambda on: on.basic_get("gone")),
                ("no queue 'gone' in vhost '/'", lambda on: on.basic_consume("gone", print)),
                ("no queue 'gone' in vhost '/'", lambda on: on.queue_purge("gone")),
                ("no queue 'gone' in vhost '/'", lambda on: on.queue_bind("gone", "amq.topic", "#")),
                ("no exchange 'gone' in vhost '/'", lambda on: on.queue_bind("here", "gone", "#")),
                ("no exchange 'gone' in vhost '/'", lambda on: on.exchange_declare("gone", passive=True)),
                ("no exchange 'gone' in vhost '/'", lambda on: on.exchange_bind("amq.topic", "gone")),
                ("no exchange 'gone' in vhost '/'", lambda on: on.basic_publish("gone", "key", "a"))):
            on = refused(on, 404, f"NOT_FOUND - {text}", lambda: attempt(on))
        on.queue_delete("gone")  # deleting what is not there succeeds
        on.exchange_delete("gone")
        on.queue_unbind("here", "amq.topic", "never-bound")


def the_broker_names_queues():
    with channel() as on:
        first, second = (on.queue_declare("", exclusive=True).method.queue for _ in range(2))
        assert first.startswith("amq.gen-") and second.startswith("amq.gen-") and first != second, (first, second)
        on.queue_bind("", "amq.direct", "named")  # the empty name is the queue that the channel declared last
        on.basic_publish("amq.direct", "named", "a")
        expect(get(on, second)[2], "a")
        empty(on, first)


def exclusive_queues_are_of_one_connection():
    with channel() as other:
        with channel() as on:
            on.queue_declare("mine", exclusive=True)
            on.basic_publish("", "mine", "a")
            locked = "cannot obtain exclusive access to locked queue 'mine' in vhost '/'"
            for attempt in (
                    lambda other: other.queue_declare("mine", passive=True),
                    lambda other: other.queue_declare("mine", exclusive=True),
                    lambda other: other.basic_get("mine"),
                    lambda other: other.basic_consume("mine", print),
                    lambda other: other.queue_delete("mine"),
                    lambda other: other.queue_purge("mine"),
                    lambda other: other.queue_bind("mine", "amq.fanout")):
                other = refused(other, 405, f"RESOURCE_LOCKED - {locked}", lambda: attempt(other))
            other.basic_publish("", "mine", "b")  # everyone may publish
            expect([get(on, "mine")[2], get(on, "mine")[2]], ["a", "b"])
    until(lambda: is_gone("mine"), "the queue is gone with its connection")


def queues_are_deleted_after_their_last_consumer():
    with channels(3) as [on, first, second]:
        on.queue_declare("brief", durable=True, auto_delete=True)
        expect(count(on, "brief"), 0)
        one, two = Consumer(first, "brief"), Consumer(second, "brief")
        one.cancel()
        expect(count(on, "brief"), 0)
        two.channel.close()
        # Nobody waits for the deletion.
        until(lambda: is_gone("brief"), "the queue is gone with its last consumer")
        refused(on, 404, "no queue 'brief'", lambda: on.queue_declare("brief", passive=True))


def exchanges_are_deleted_after_their_last_binding():
    with channel() as on:
        declare(on, "bound")
        on.exchange_declare("brief", "fanout", auto_delete=True, durable=True)
        on.queue_bind("bound", "brief")
        on.queue_unbind("bound", "brief")
        refused(on, 404, "no exchange 'brief'", lambda: on.exchange_declare("brief", passive=True))


def received(on, queue):
    """Returns the bodies in a queue. The last one must be 'end'."""
    on.basic_publish("", queue, "end")
    found = []
    while "end" not in found:
        found.append(get(on, queue)[2])
    return found[:-1]


def direct_exchanges():
    with channel() as on:
        on.exchange_declare("direct", "direct", durable=True)
        for queue, key in (("errors", "error"), ("all-logs", "error"), ("all-logs", "info")):
            declare(on, queue)
            on.queue_bind(queue, "direct", key)
            on.queue_bind(queue, "direct", key)  # twice is as once
        on.confirm_delivery()
        for key in ("error", "info", "debug", "error.more", ""):
            on.basic_publish("direct", key, key)
        expect((received(on, "errors"), received(on, "all-logs")), (["error"], ["error", "info"]))
        on.queue_unbind("all-logs", "direct", "error")
        on.basic_publish("direct", "error", "again")
        expect((received(on, "errors"), received(on, "all-logs")), (["again"], []))


def topic_exchanges():
    with channel() as on:
        on.exchange_declare("topics", "topic", durable=True)
        patterns = ["order.*", "order.#", "#", "*.new", "#.new", "order.*.eu", "", "order"]
        for number, pattern in enumerate(patterns):
            declare(on, f"topic-{number}")
            on.queue_bind(f"topic-{number}", "topics", pattern)
        on.confirm_delivery()
        keys = ["order.new", "order.new.eu", "order", "", "user.new", "new", "order."]
        for key in keys:
            on.basic_publish("topics", key, key)
        wanted = {
            "order.*": ["order.new", "order."], "order.#": ["order.new", "order.new.eu", "order", "order."],
            "#": keys, "*.new": ["order.new", "user.new"], "#.new": ["order.new", "user.new", "new"],
            "order.*.eu": ["order.new.eu"], "": [""], "order": ["order"]}
        expect({pattern: received(on, f"topic-{number}") for number, pattern in enumerate(patterns)}, wanted)


def fanout_exchanges():
    with channel() as on:
        on.exchange_declare("fan", "fanout", durable=True)
        for queue in ("fan-1", "fan-2"):
            declare(on, queue)
            on.queue_bind(queue, "fan", "ignored")
        on.queue_bind("fan-1", "fan", "a second binding")
        on.confirm_delivery()
        on.basic_publish("fan", "any", "a")
        expect((received(on, "fan-1"), received(on, "fan-2")), (["a"], ["a"]))


def headers_exchanges():
    with channel() as on:
        on.exchange_declare("by-headers", "headers", durable=True)
        bindings = {
            "all": {"x-match": "all", "kind": "pdf", "pages": 2}, "default": {"kind": "pdf", "pages": 2},
            "any": {"x-match": "any", "kind": "pdf", "pages": 2}, "there": {"kind": None},
            "all-x": {"x-match": "all-with-x", "x-kind": "pdf"}, "without-x": {"x-match": "all", "x-kind": "doc"},
            "any-x": {"x-match": "any-with-x", "x-kind": "pdf", "pages": 2}}
        for name, arguments in bindings.items():
            declare(on, f"headers-{name}")
            on.queue_bind(f"headers-{name}", "by-headers", "", arguments)
        on.confirm_delivery()
        sent = {
            "both": {"kind": "pdf", "pages": 2, "more": True}, "one": {"kind": "pdf", "pages": 3},
            "x": {"x-kind": "pdf"}, "none": {}}
        for name, headers in sent.items():
            on.basic_publish("by-headers", "", name, BasicProperties(headers=headers))
        expect({name: received(on, f"headers-{name}") for name in bindings}, {
            "all": ["both"], "default": ["both"], "any": ["both", "one"], "there": ["both", "one"],
            "all-x": ["x"], "without-x": ["both", "one", "x", "none"], "any-x": ["both", "x"]})


def exchanges_bound_to_exchanges():
    with channel() as on:
        declare(on, "end-of-the-way")
        for name in ("way-1", "way-2"):
            on.exchange_declare(name, "topic", durable=True)
        on.exchange_bind("way-2", "way-1", "a.#")
        on.exchange_bind("way-1", "way-2", "#")  # a circle, which a message passes once
        on.queue_bind("end-of-the-way", "way-2", "*.b")
        on.queue_bind("end-of-the-way", "way-1", "a.b")
        on.confirm_delivery()
        for key in ("a.b", "a.c", "b.b"):
            on.basic_publish("way-1", key, key)
        expect(received(on, "end-of-the-way"), ["a.b"])
        on.exchange_unbind("way-2", "way-1", "a.#")
        on.queue_unbind("end-of-the-way", "way-1", "a.b")
        on.basic_publish("way-1", "a.b", "again")
        expect(received(on, "end-of-the-way"), [])


def alternate_exchanges():
    with channel() as on:
        declare(on, "found")
        declare(on, "lost-and-found")
        on.exchange_declare("lost", "fanout", durable=True)
        on.exchange_declare("sorting", "direct", durable=True, arguments={"alternate-exchange": "lost"})
        on.queue_bind("found", "sorting", "known")
        on.queue_bind("lost-and-found", "lost")
        on.confirm_delivery()
        on.basic_publish("sorting", "known", "a", mandatory=True)
        on.basic_publish("sorting", "unknown", "b", mandatory=True)
        expect((received(on, "found"), received(on, "lost-and-found")), (["a"], ["b"]))
        on.queue_unbind("lost-and-found", "lost")
        try:
            on.basic_publish("sorting", "unknown", "c", mandatory=True)
        except UnroutableError as error:
            expect([message.body for message in error.messages], [b"c"])
        else:
            raise AssertionError("was not returned")


def internal_exchanges_take_no_publishes():
    with channel() as on:
        declare(on, "behind-internal")
        on.exchange_declare("internal", "fanout", durable=True, internal=True)
        on.exchange_bind("internal", "amq.fanout")
        on.queue_bind("behind-internal", "internal")
        on.basic_publish("amq.fanout", "", "a")
        expect(get(on, "behind-internal")[2], "a")
        refused(on, 403, "cannot publish to internal exchange 'internal' in vhost '/'",
                lambda: on.basic_publish("internal", "", "b"))


def transient_queues():
    with channel() as on:
        on.queue_declare("transient")
        on.basic_publish("", "transient", "a")
        expect(get(on, "transient")[2], "a")
    with channel() as on:
        expect(on.queue_declare("transient", passive=True).method.message_count, 0)
        on.queue_delete("transient")


def exchanges_are_deleted_if_unused():
    with channel() as on:
        declare(on, "user")
        on.exchange_declare("used", "direct", durable=True)
        on.queue_bind("user", "used", "k")
        on = refused(on, 406, "exchange 'used' in vhost '/' in use", lambda: on.exchange_delete("used", if_unused=True))
        on.queue_unbind("user", "used", "k")
        on.exchange_delete("used", if_unused=True)
        on = refused(on, 404, "no exchange 'used'", lambda: on.exchange_declare("used", passive=True))
        for kind in ("square", "x-delayed-message"):
            on = refused(on, 406, f"exchange type '{kind}'", lambda: on.exchange_declare("used", kind))


def queues_are_deleted_if_unused_or_empty():
    with channels(2) as [on, consuming]:
        put(on, "kept", "a")
        consumer = Consumer(consuming, "kept")
        if QUORUM:
            for option in ("if_unused", "if_empty"):
                with channel() as other:
                    ended(540, "NOT_IMPLEMENTED", lambda: other.queue_delete("kept", **{option: True}))
        else:
            on = refused(on, 406, "queue 'kept' in vhost '/' in use", lambda: on.queue_delete("kept", if_unused=True))
            consumer.cancel()
            consuming.close()
            until(lambda: count(on, "kept") == 1, "the message is back in the queue")
            on = refused(on, 406, "queue 'kept' in vhost '/' not empty",
                         lambda: on.queue_delete("kept", if_empty=True))
        on.queue_delete("kept")
        refused(on, 404, "no queue 'kept'", lambda: on.queue_declare("kept", passive=True))


def deleting_tells_how_many_messages_were_there():
    with channels(2) as [on, consuming]:
        put(on, "counted", *"abcde")
        consumer = Consumer(consuming, "counted", prefetch=1)
        consumer.get()
        expect(on.queue_purge("counted").method.message_count, 4)
        expect((count(on, "counted"), on.queue_purge("counted").method.message_count), (0, 0))
        for body in "fg":
            on.basic_publish("", "counted", body)
        expect(on.queue_delete("counted").method.message_count, 2)  # one is not acknowledged


def deleting_a_queue_deletes_its_bindings():
    with channel() as on:
        on.exchange_declare("stays", "fanout", durable=True)
        declare(on, "goes")
        on.queue_bind("goes", "stays")
        on.queue_delete("goes")
        declare(on, "goes")
        on.confirm_delivery()
        on.basic_publish("stays", "", "a")
        empty(on, "goes")


CHECKS = [
    declare_and_declare_again, declare_with_other_properties, a_classic_queue_keeps_its_flags,
    wrong_arguments_are_refused, missing_things_are_not_found, the_broker_names_queues,
    exclusive_queues_are_of_one_connection, queues_are_deleted_after_their_last_consumer,
    exchanges_are_deleted_after_their_last_binding, direct_exchanges, topic_exchanges, fanout_exchanges,
    headers_exchanges, exchanges_bound_to_exchanges, alternate_exchanges, internal_exchanges_take_no_publishes,
    transient_queues, exchanges_are_deleted_if_unused, queues_are_deleted_if_unused_or_empty,
    deleting_tells_how_many_messages_were_there, deleting_a_queue_deletes_its_bindings,
]
