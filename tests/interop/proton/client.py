"""A client for the checks: Qpid Proton for Python."""

import collections
import itertools
import os

from proton import Delivery, Described, Endpoint, Link, Message, ProtonException, SSLDomain, Terminus, symbol
from proton.handlers import MessagingHandler
from proton.reactor import Filter, LinkOption
from proton.utils import BlockingConnection, LinkDetached

AMQP = os.environ["SLUICE_AMQP"]
QUEUE_TYPE = os.environ["SLUICE_QUEUE_TYPE"]
TLS = os.environ.get("SLUICE_TLS")  # a broker that was running already may have none
PATIENCE = 30  # seconds; a guard against hanging, not a measure


class Connection(BlockingConnection):
    def on_session_remote_close(self, event):
        if event.session.state & Endpoint.LOCAL_ACTIVE:
            event.session.close()
            raise ProtonException(f"session ended: {event.session.remote_condition}")


def connect(user="guest", password="guest", **options):
    return Connection(f"amqp://{AMQP}", timeout=PATIENCE, user=user, password=password, **options)


def over_tls(certificate=None, **options):
    """Connects with TLS, and shows a certificate if one is given."""
    domain = SSLDomain(SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(f"{TLS}/ca.pem")
    domain.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME)
    if certificate:
        domain.set_credentials(f"{TLS}/{certificate}.pem", f"{TLS}/{certificate}.key", None)
    address = os.environ["SLUICE_AMQPS"].replace("127.0.0.1", "localhost")
    return Connection(f"amqps://{address}", timeout=PATIENCE, ssl_domain=domain, **options)


class Inbox(MessagingHandler):
    """Stores what arrives, and the error with which the broker detached the link."""

    def __init__(self):
        super().__init__(prefetch=0, auto_accept=False)
        self.arrived = collections.deque()
        self.closed = None

    def on_message(self, event):
        self.arrived.append((event.message, event.delivery))

    def on_link_error(self, event):
        self.closed = event.link.remote_condition.name

    def on_link_closed(self, event):
        self.closed = self.closed or "no error"


class Consumer:
    """A receiver for which the check grants credit and settles."""

    def __init__(self, connection, queue, credit=0, options=None):
        self.connection, self.inbox = connection, Inbox()
        self.receiver = connection.create_receiver(
            f"/queues/{queue}", credit=credit, handler=self.inbox, options=options)  # kept, as its end drops the handler
        self.link = self.receiver.link

    def take(self, count):
        self.connection.wait(lambda: len(self.inbox.arrived) >= count or self.inbox.closed, msg=f"{count} messages")
        expect(self.inbox.closed, None)
        return [self.inbox.arrived.popleft() for _ in range(count)]

    def get(self):
        """Gets one message synchronously, with one credit."""
        self.link.flow(1)
        return self.take(1)[0]

    def drain(self):
        """Returns everything in the queue, once the broker has said that the drain is complete."""
        self.link.drain(1000)
        self.connection.wait(lambda: not self.link.draining(), msg="drained")
        arrived, self.inbox.arrived = self.inbox.arrived, collections.deque()
        return list(arrived)

    def close(self):
        self.link.close()
        self.connection.wait(lambda: self.link.state & Endpoint.REMOTE_CLOSED, msg="detach")


def settle(delivery, state, failed=False):
    delivery.local.failed = failed
    delivery.update(state)
    delivery.settle()


def send(connection, address, bodies, options=None, to=None):
    """Sends bodies, or whole messages, and returns the outcomes."""
    sender = connection.create_sender(address, options=options)
    whole = lambda body: body if isinstance(body, Message) else Message(body=body, durable=True, address=to)
    sent = [sender.link.send(whole(body)) for body in bodies]
    connection.wait(lambda: all(delivery.settled for delivery in sent), msg="outcomes")
    outcomes = [delivery.remote_state for delivery in sent]
    for delivery in sent:
        delivery.settle()
    sender.close()
    return outcomes


class Paired(LinkOption):
    """One half of the link pair to the broker's management node."""

    def apply(self, link):
        link.properties = {symbol("paired"): True}
        link.source.address = link.source.address or "me"
        link.target.address = link.target.address or "me"
        if link.is_sender:
            link.snd_settle_mode = Link.SND_SETTLED


class Replies(LinkOption):
    """A receiver for replies (direct reply-to): it needs no queue."""

    def apply(self, link):
        link.source.dynamic = True
        link.source.expiry_policy = Terminus.EXPIRE_WITH_LINK
        link.source.capabilities.put_object(symbol("rabbitmq:volatile-queue"))
        link.snd_settle_mode = Link.SND_SETTLED


class Management:
    pairs = itertools.count()

    def __init__(self, connection):
        self.connection = connection
        name = f"pair-{next(self.pairs)}"
        self.sender = connection.create_sender("/management", name=name, options=Paired())
        self.inbox = Inbox()
        self.receiver = connection.create_receiver(
            "/management", credit=100, name=name, handler=self.inbox, options=Paired())
        self.requests = 0

    def ask(self, method, path, body=None, status="204"):
        self.requests += 1
        self.sender.send(Message(id=self.requests, subject=method, address=path, reply_to="$me", body=body))
        self.connection.wait(lambda: self.inbox.arrived, msg=f"answer to {method} {path}")
        answer, delivery = self.inbox.arrived.popleft()
        settle(delivery, Delivery.ACCEPTED)
        expect(answer.correlation_id, self.requests)
        expect((method, path, answer.subject, answer.body if status[0] != answer.subject[0] else None),
               (method, path, status, None))
        return answer.body

    def queue(self, name, arguments={}):
        return self.ask("PUT", f"/queues/{name}", {
            "durable": True, "arguments": {"x-queue-type": QUEUE_TYPE} | arguments}, status="201")


def on_queue(connection, name, *bodies, arguments={}):
    """Declares a queue that contains these messages."""
    Management(connection).queue(name, arguments)
    expect(send(connection, f"/queues/{name}", bodies), [Delivery.ACCEPTED] * len(bodies))


def on_stream(connection, name, *bodies):
    on_queue(connection, name, *bodies, arguments={"x-queue-type": "stream"})


def asked(**filters):
    """Returns a source's filters: `offset`, `stream_filter`, `match_unfiltered`, `properties`, `application`, `sql`."""
    descriptors = {
        "offset": "rabbitmq:stream-offset-spec", "stream_filter": "rabbitmq:stream-filter",
        "match_unfiltered": "rabbitmq:stream-match-unfiltered", "properties": "amqp:properties-filter",
        "application": "amqp:application-properties-filter", "sql": "amqp:sql-filter"}
    names = {"sql": "sql-filter"}
    return {symbol(names.get(name, name)): Described(symbol(descriptors[name]), value)
            for name, value in filters.items()}


def reader(connection, stream, credit=0, accepted=None, **filters):
    """A consumer of a stream with these filters. The broker must accept exactly the filters named in `accepted`."""
    consumer = Consumer(connection, stream, credit, Filter(asked(**filters)))
    in_place = consumer.link.remote_source.filter
    in_place.rewind()
    found = in_place.get_dict() if in_place.next() else {}
    names = asked(**filters).keys() if accepted is None else accepted
    expect(sorted(found), sorted(names))
    return consumer


def offsets(deliveries):
    return [message.annotations["x-stream-offset"] for message, _ in deliveries]


def bodies(deliveries):
    return [message.body for message, _ in deliveries]


def expect(found, wanted):
    assert found == wanted, f"found {found!r}, wanted {wanted!r}"


def refused(condition, attempt):
    try:
        attempt()
    except LinkDetached as error:
        expect(error.condition, condition)
    else:
        raise AssertionError("was not refused")
