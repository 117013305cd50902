"""Checks of logins, connections, channels and errors."""

import time

import pika
from pika.exceptions import ProbableAccessDeniedError, ProbableAuthenticationError

from client import (
    AMQPS, channel, channels, Consumer, connect, count, declare, empty, ended, expect, get, http, over_tls, put,
    refused)


def login_with_plain():
    with channel() as on:
        server = on.connection._impl.server_properties
        expect((server["product"], server["platform"] != ""), ("RabbitMQ", True))
        capabilities = (
            "publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify",
            "connection.blocked", "consumer_priorities", "authentication_failure_close", "per_consumer_qos",
            "direct_reply_to")
        expect([name for name in capabilities if server["capabilities"].get(name) is not True], [])


def wrong_password_is_refused():
    for user, password in (("guest", "wrong"), ("nobody", "guest"), ("guest", "")):
        try:
            connect(user, password)
        except ProbableAuthenticationError as error:
            assert "403" in str(error) and "ACCESS_REFUSED" in str(error), error
        else:
            raise AssertionError("was not refused")


def unknown_virtual_host_is_refused():
    try:
        connect(virtual_host="nowhere")
    except ProbableAccessDeniedError as error:
        assert "530" in str(error) and "vhost nowhere not found" in str(error), error
    else:
        raise AssertionError("was not refused")


def virtual_hosts_are_apart():
    http("PUT", "vhosts/apart")
    http("PUT", "permissions/apart/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    with channel() as here, channel(virtual_host="apart") as there:
        put(here, "same-name", "here")
        put(there, "same-name", "there")
        expect((get(here, "same-name")[2], get(there, "same-name")[2]), ("here", "there"))
        refused(there, 404, "no queue 'absent' in vhost 'apart'", lambda: there.queue_declare("absent", passive=True))
    http("DELETE", "vhosts/apart")


def permissions_are_checked():
    http("PUT", "users/limited", {"password": "secret", "tags": ""})
    http("PUT", "permissions/%2F/limited", {"configure": "^own-", "write": "^own-|^amq.default", "read": "^own-"})
    with channel() as on:
        declare(on, "foreign")
    with channel(user="limited", password="secret") as on:
        put(on, "own-queue", "a")
        expect(get(on, "own-queue")[2], "a")
        for needed, attempt in (
                ("configure access to queue 'other'", lambda on: declare(on, "other")),
                ("read access to queue 'foreign'", lambda on: on.basic_get("foreign")),
                ("read access to queue 'foreign'", lambda on: on.basic_consume("foreign", print)),
                ("configure access to queue 'foreign'", lambda on: on.queue_delete("foreign")),
                ("read access to exchange 'amq.topic'", lambda on: on.queue_bind("own-queue", "amq.topic", "#"))):
            on = refused(on, 403, needed, lambda: attempt(on))
        refused(on, 403, "write access to exchange 'amq.fanout'", lambda: on.basic_publish("amq.fanout", "", "a"))
    http("DELETE", "users/limited")


def tls_with_a_password():
    if not AMQPS:
        return "the broker has no TLS"
    with channel(**over_tls()) as on:
        put(on, "over-tls", "x" * 10, "x" * 300_000)
        expect([len(get(on, "over-tls")[2]) for _ in range(2)], [10, 300_000])


def tls_with_a_certificate():
    if not AMQPS:
        return "the broker has no TLS"
    with channel(credentials=pika.credentials.ExternalCredentials(), **over_tls("client")) as on:
        put(on, "of-a-certificate", "a")
        on.basic_publish("", "of-a-certificate", "b", pika.BasicProperties(user_id="guest"))
        expect([get(on, "of-a-certificate")[2] for _ in range(2)], ["a", "b"])


def a_secret_is_updated():
    with channel() as on:
        on.connection.update_secret("guest", "it is due")
        put(on, "new-secret", "a")
        expect(get(on, "new-secret")[2], "a")


def an_error_of_a_channel_leaves_the_others():
    with channels(3) as [first, second, third]:
        put(second, "neighbour", "a", "b")
        consumer = Consumer(third, "neighbour")
        consumer.take(2)
        refused(first, 404, "NOT_FOUND - no queue 'absent' in vhost '/'", lambda: first.basic_get("absent"))
        second.basic_publish("", "neighbour", "c")
        expect(consumer.bodies(1), ["c"])


def closing_a_channel_requeues():
    with channels(2) as [first, second]:
        put(first, "left-behind", "a", "b", "c")
        consumer = Consumer(second, "left-behind")
        got = consumer.take(3)
        consumer.ack(got[1])
        second.close()
        expect([(method.redelivered, body) for method, _, body in (get(first, "left-behind") for _ in range(2))],
               [(True, "a"), (True, "c")])
        empty(first, "left-behind")


def many_channels():
    with channels(200) as all_of_them:
        declare(all_of_them[0], "many-channels")
        for number, on in enumerate(all_of_them):
            on.basic_publish("", "many-channels", str(number))
        all_of_them[7].close()  # its number is used again
        again = all_of_them[0].connection.channel()
        expect(again.channel_number, all_of_them[7].channel_number)
        got = Consumer(again, "many-channels").bodies(200)
        expect(sorted(got, key=int), [str(number) for number in range(200)])


def too_many_channels_for_what_was_agreed():
    with channels(3, channel_max=3) as all_of_them:
        try:
            all_of_them[0].connection.channel()
        except pika.exceptions.NoFreeChannels:
            pass
        else:
            raise AssertionError("a fourth channel was opened")


def big_messages_in_small_frames():
    with channel(frame_max=8192) as on:
        declare(on, "big")
        on.confirm_delivery()
        # A frame has 8 bytes besides its payload.
        sizes = [0, 1, 8183, 8184, 8185, 2 * 8184, 2 * 8184 + 1, 3_000_000]
        for size in sizes:
            on.basic_publish("", "big", b"%07d" % size * (size // 7) + b"x" * (size % 7))
        for size in sizes:
            body = get(on, "big")[2]
            expect((len(body), body), (size, "%07d" % size * (size // 7) + "x" * (size % 7)))
    with channel() as on:
        put(on, "big", "y" * 5_000_000)
        expect(get(on, "big")[2], "y" * 5_000_000)


def heartbeats_keep_a_quiet_connection():
    with channel(heartbeat=1) as on:
        put(on, "quiet", "a")
        for _ in range(3):
            on.connection.process_data_events(time_limit=1)
        expect(get(on, "quiet")[2], "a")


def reserved_names_are_refused():
    with channel() as on:
        on = refused(on, 403, "queue name 'amq.mine' contains reserved prefix 'amq.*'", lambda: declare(on, "amq.mine"))
        on = refused(on, 403, "exchange name 'amq.mine' contains reserved prefix 'amq.*'",
                     lambda: on.exchange_declare("amq.mine", "fanout"))
        default = "operation not permitted on the default exchange"
        on = refused(on, 403, default, lambda: on.exchange_declare("", "direct"))
        on = refused(on, 403, default, lambda: on.exchange_delete(""))
        refused(on, 403, "ACCESS_REFUSED", lambda: on.exchange_delete("amq.topic"))


def a_consumer_tag_is_used_once():
    with channels(1) as [on]:
        declare(on, "tagged")
        on.basic_consume("tagged", print, consumer_tag="mine")
        # pika refuses a tag that its channel knows, so it goes around the blocking channel.
        ended(530, "attempt to reuse consumer tag 'mine'",
              lambda: on._impl._send_method(pika.spec.Basic.Consume(queue="tagged", consumer_tag="mine"))
              or on.connection.process_data_events(time_limit=30))


def the_broker_names_the_user():
    with channel() as on:
        put(on, "of-guest")
        on.basic_publish("", "of-guest", "a", pika.BasicProperties(user_id="guest"))
        expect(get(on, "of-guest")[1].user_id, "guest")
        refused(on, 406, "user_id property set to 'other' but authenticated user was 'guest'",
                lambda: on.basic_publish("", "of-guest", "a", pika.BasicProperties(user_id="other")))


def an_administrator_closes_a_connection():
    with channel(client_properties={"connection_name": "to be closed"}) as on:
        declare(on, "of-a-closed-connection")
        deadline = time.monotonic() + 30
        found = []
        while not found:
            assert time.monotonic() < deadline, "the connection is not listed"
            found = [each["name"] for each in http("GET", "connections")
                     if (each.get("client_properties") or {}).get("connection_name") == "to be closed"]
            time.sleep(0.05)
        http("DELETE", "connections/" + found[0].replace(" ", "%20").replace(">", "%3E"))
        ended(320, "CONNECTION_FORCED", lambda: on.connection.process_data_events(time_limit=30))
    with channel() as on:
        expect(count(on, "of-a-closed-connection"), 0)


CHECKS = [
    login_with_plain, wrong_password_is_refused, unknown_virtual_host_is_refused, virtual_hosts_are_apart,
    permissions_are_checked, tls_with_a_password, tls_with_a_certificate, a_secret_is_updated,
    an_error_of_a_channel_leaves_the_others, closing_a_channel_requeues, many_channels,
    too_many_channels_for_what_was_agreed, big_messages_in_small_frames, heartbeats_keep_a_quiet_connection,
    reserved_names_are_refused, a_consumer_tag_is_used_once, the_broker_names_the_user,
    an_administrator_closes_a_connection,
]
