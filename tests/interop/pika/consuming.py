"""Checks of consumers: prefetch, settlement, cancellation, priorities."""

from client import (
    BY_RABBITMQ, channel, channels, Consumer, count, declare, empty, ended, expect, get, put, QUORUM, refused, until)


def counts(delivery):
    """Returns the counts that a quorum queue adds: of failed deliveries, and of all earlier ones."""
    headers = delivery[1].headers or {}
    return headers.get("x-delivery-count"), headers.get("x-acquired-count")


def get_and_settle():
    with channel() as on:
        put(on, "got", "a", "b", "c")
        method, _, body = get(on, "got", auto_ack=False)
        expect((body, method.redelivered, method.message_count), ("a", False, 2))
        on.basic_nack(method.delivery_tag, requeue=True)
        until(lambda: count(on, "got") == 3, "the message is back in the queue")
        method, _, body = get(on, "got", auto_ack=False)
        expect((body, method.redelivered, method.message_count), ("a", True, 2))
        on.basic_ack(method.delivery_tag)
        expect([get(on, "got")[2] for _ in range(2)], ["b", "c"])
        empty(on, "got")


def prefetch_bounds_what_is_not_acknowledged():
    with channel() as on:
        put(on, "prefetched", *"abcdefgh")
        consumer = Consumer(on, "prefetched", prefetch=3)
        got = consumer.take(3)
        consumer.nothing()
        expect(count(on, "prefetched"), 5)
        consumer.ack(got[1])
        expect(consumer.bodies(1), ["d"])
        consumer.nothing()
        consumer.ack(got[2], multiple=True)  # the first and the third
        expect(consumer.bodies(2), ["e", "f"])
        consumer.nothing()


def prefetch_is_of_each_consumer():
    with channel() as on:
        put(on, "of-each", *"abcdef")
        first, second = Consumer(on, "of-each", prefetch=2), Consumer(on, "of-each", prefetch=1)
        first.take(2)
        second.take(1)
        on.basic_qos(prefetch_count=0)
        third = Consumer(on, "of-each")  # no limit
        third.take(3)
        ended(540, "NOT_IMPLEMENTED - prefetch_size!=0 (100)", lambda: on.basic_qos(prefetch_size=100))


def prefetch_of_a_channel():
    if BY_RABBITMQ:
        return "RabbitMQ 4.3 makes it a limit of each consumer"
    with channel() as on:
        put(on, "one-limit", *"abcdef")
        on.basic_qos(prefetch_count=3, global_qos=True)
        first = Consumer(on, "one-limit")
        got = first.take(3)
        second = Consumer(on, "one-limit")
        second.nothing()
        first.nothing()
        first.ack(got[0])
        until(lambda: on.connection.process_data_events(time_limit=0.05) or first.arrived or second.arrived, "the next")
        expect(len(first.arrived) + len(second.arrived), 1)
        on.basic_qos(prefetch_count=5, global_qos=True)  # it changes for the consumers that there are
        until(lambda: on.connection.process_data_events(time_limit=0.05)
              or len(first.arrived) + len(second.arrived) == 3, "two more")


def acknowledging_all():
    with channel() as on:
        put(on, "all-of-it", *"abcd")
        consumer = Consumer(on, "all-of-it")
        consumer.take(4)
        on.basic_ack(0, multiple=True)  # tag 0 is everything so far
        on.basic_ack(0, multiple=True)  # and this is nothing
        on.queue_declare("all-of-it", passive=True)
        on.close()
        with channel() as other:
            empty(other, "all-of-it")


def nack_requeues():
    with channel() as on:
        put(on, "nacked", *"abcd")
        consumer = Consumer(on, "nacked", prefetch=4)
        got = consumer.take(4)
        expect([method.redelivered for method, _, _ in got], [False] * 4)
        on.basic_nack(got[2][0].delivery_tag, multiple=True, requeue=True)
        again = consumer.take(3)
        expect([(method.redelivered, body) for method, _, body in again], [(True, "a"), (True, "b"), (True, "c")])
        assert again[0][0].delivery_tag > got[3][0].delivery_tag
        on.basic_nack(again[0][0].delivery_tag, requeue=False)
        on.basic_nack(again[2][0].delivery_tag, multiple=True, requeue=True)
        expect(sorted(consumer.bodies(3)), ["b", "c", "d"])  # the tag of d was lower than the last one
        consumer.nothing()


def quorum_queues_count_deliveries():
    if not QUORUM:
        return "only quorum queues count"
    with channel() as on:
        put(on, "counting", "a", delivery_limit=10)
        consumer = Consumer(on, "counting", prefetch=1)
        found = [consumer.get()]
        for settle in (on.basic_nack, on.basic_reject, on.basic_reject, on.basic_nack):
            settle(found[-1][0].delivery_tag, requeue=True)
            found.append(consumer.get())
        expect([counts(delivery)[0] or 0 for delivery in found], [0, 0, 1, 2, 2])
        expect([counts(delivery)[1] or 0 for delivery in found], [0, 1, 2, 3, 4])
        expect([delivery[0].redelivered for delivery in found], [False] + [True] * 4)


def reject_requeues_or_discards():
    with channel() as on:
        put(on, "rejected", "a", "b")
        consumer = Consumer(on, "rejected", prefetch=1)
        on.basic_reject(consumer.get()[0].delivery_tag, requeue=True)
        method, _, body = consumer.get()
        expect((method.redelivered, body), (True, "a"))
        on.basic_reject(method.delivery_tag, requeue=False)
        expect(consumer.bodies(1), ["b"])


def recover_redelivers():
    with channel() as on:
        put(on, "recovered", *"abc")
        consumer = Consumer(on, "recovered")
        got = consumer.take(3)
        consumer.ack(got[1])
        on.basic_recover(requeue=True)
        again = consumer.take(2)
        expect(sorted((method.redelivered, body) for method, _, body in again), [(True, "a"), (True, "c")])
        consumer.ack(again[1], multiple=True)
        consumer.nothing()
        ended(540, "NOT_IMPLEMENTED - requeue=false", lambda: on.basic_recover(requeue=False))


def unknown_tags_are_refused():
    with channel() as on:
        put(on, "tags", "a")
        for settle in ("basic_ack", "basic_nack", "basic_reject"):
            on = refused(on, 406, "PRECONDITION_FAILED - unknown delivery tag 99",
                         lambda: getattr(on, settle)(99))
        delivery = Consumer(on, "tags").get()
        on.basic_ack(delivery[0].delivery_tag)
        refused(on, 406, "unknown delivery tag 1", lambda: on.basic_ack(delivery[0].delivery_tag))


def automatic_acknowledgement():
    with channels(2) as [on, other]:
        put(on, "automatic", *"abc")
        consumer = Consumer(other, "automatic", prefetch=1, auto_ack=True)
        got = consumer.take(3)  # the limit is not for this consumer
        refused(other, 406, "unknown delivery tag", lambda: other.basic_ack(got[0][0].delivery_tag))
        empty(on, "automatic")


def cancelling_keeps_the_deliveries():
    with channel() as on:
        put(on, "cancelled", "a", "b")
        consumer = Consumer(on, "cancelled", prefetch=1)
        delivery = consumer.get()
        consumer.cancel()
        expect(count(on, "cancelled"), 1)
        on.basic_ack(delivery[0].delivery_tag)
        expect(get(on, "cancelled")[2], "b")
        empty(on, "cancelled")


def deleting_a_queue_cancels_its_consumers():
    with channels(2) as [on, other]:
        put(on, "doomed", "a")
        cancelled = []
        on.add_on_cancel_callback(lambda method: cancelled.append(method.method.consumer_tag))
        consumer = Consumer(on, "doomed")
        delivery = consumer.get()
        other.queue_delete("doomed")
        until(lambda: on.connection.process_data_events(time_limit=0.1) or cancelled, "the consumer is cancelled")
        expect(cancelled, [consumer.tag])
        on.basic_ack(delivery[0].delivery_tag)  # settles nothing, and is no error
        declare(on, "after-doom")


def exclusive_consumers():
    if QUORUM:
        return "RabbitMQ has them on classic queues only"
    with channels(2) as [on, other]:
        put(on, "alone", "a")
        consumer = Consumer(on, "alone", exclusive=True)
        other = refused(other, 403, "queue 'alone' in vhost '/' in exclusive use",
                        lambda: other.basic_consume("alone", print))
        consumer.ack(consumer.get())
        consumer.cancel()
        second = Consumer(other, "alone")
        refused(on, 403, "in exclusive use", lambda: on.basic_consume("alone", print, exclusive=True))
        other.basic_publish("", "alone", "b")
        expect(second.bodies(1), ["b"])


def consumers_have_priorities():
    with channels(3) as [on, low, high]:
        put(on, "ranked")
        last, first = Consumer(low, "ranked", prefetch=3), Consumer(high, "ranked", prefetch=2, priority=10)
        for body in "abcd":
            on.basic_publish("", "ranked", body)
        got = first.take(2)
        expect(last.bodies(2), ["c", "d"])
        for delivery in got:
            first.ack(delivery)
        on.connection.process_data_events(time_limit=0)
        until(lambda: on.queue_declare("ranked", passive=True).method.message_count == 0, "nothing is ready")
        for body in "ef":
            on.basic_publish("", "ranked", body)
        expect(first.bodies(2), ["e", "f"])


def messages_go_round_between_consumers():
    with channels(3) as [on, one, two]:
        declare(on, "round")
        on.confirm_delivery()
        first, second = Consumer(one, "round", prefetch=10), Consumer(two, "round", prefetch=10)
        for number in range(8):
            on.basic_publish("", "round", str(number))
        expect((len(first.take(4)), len(second.take(4))), (4, 4))


def a_single_active_consumer():
    with channels(3) as [on, one, two]:
        put(on, "single", single_active_consumer=True)
        first, second = Consumer(one, "single", prefetch=1), Consumer(two, "single", prefetch=5)
        for body in "abc":
            on.basic_publish("", "single", body)
        delivery = first.get()
        second.nothing()
        if QUORUM:
            on = refused(on, 405, "RESOURCE_LOCKED", lambda: on.basic_get("single"))
        one.close()  # what it has not acknowledged goes to the next one
        expect(sorted(second.bodies(3)), ["a", "b", "c"])
        expect(delivery[2], "a")


def consumers_of_closed_connections_return_messages():
    with channel() as on:
        put(on, "returned", *"abc")
        with channel() as other:
            Consumer(other, "returned").take(3)
            expect(count(on, "returned"), 0)
        got = [get(on, "returned") for _ in range(3)]
        expect([(method.redelivered, body) for method, _, body in got], [(True, "a"), (True, "b"), (True, "c")])


CHECKS = [
    get_and_settle, prefetch_bounds_what_is_not_acknowledged, prefetch_is_of_each_consumer, prefetch_of_a_channel,
    acknowledging_all, nack_requeues, quorum_queues_count_deliveries, reject_requeues_or_discards, recover_redelivers,
    unknown_tags_are_refused, automatic_acknowledgement, cancelling_keeps_the_deliveries,
    deleting_a_queue_cancels_its_consumers, exclusive_consumers, consumers_have_priorities,
    messages_go_round_between_consumers, a_single_active_consumer, consumers_of_closed_connections_return_messages,
]
