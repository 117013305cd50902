"""A client for the checks: RabbitMQ's own AMQP 1.0 client for Python."""

import os

from rabbitmq_amqp_python_client import (
    AddressHelper, AMQPMessagingHandler, ClassicQueueSpecification, Connection, Environment, Message, OutcomeState,
    RecoveryConfiguration, StreamSpecification)

AMQP = os.environ["SLUICE_AMQP"]
PATIENCE = 30  # seconds; a guard against hanging, not a measure


environment = Environment(
    f"amqp://guest:guest@{AMQP}/", recovery_configuration=RecoveryConfiguration(active_recovery=False))


def connect() -> Connection:
    connection = environment.connection()
    connection.dial()
    return connection


def declare(connection, name, *bodies, **properties):
    """Declares a classic queue that contains these messages, and returns its address."""
    connection.management().declare_queue(ClassicQueueSpecification(name, **properties))
    address = AddressHelper.queue_address(name)
    publish(connection, address, *bodies)
    return address


def declare_stream(connection, name, *bodies, **properties):
    connection.management().declare_queue(StreamSpecification(name, **properties))
    address = AddressHelper.queue_address(name)
    publish(connection, address, *bodies)
    return address


def whole(body):
    """The library sends only octets, so the texts of checks are encoded."""
    return body if isinstance(body, Message) else Message(body=body.encode(), inferred=True, durable=True)


def publish(connection, address, *bodies):
    """Publishes messages. Each is confirmed before the next is sent."""
    publisher = connection.publisher(address)
    for body in bodies:
        expect(publisher.publish(whole(body)).remote_state, OutcomeState.ACCEPTED)
    publisher.close()


def count(connection, name):
    return connection.management().queue_info(name).message_count


class Done(Exception):
    """Raised to leave `Consumer.run`, which otherwise never returns."""


class Inbox(AMQPMessagingHandler):
    """Handles each message with the next of `plans`, functions of the delivery context and the event. Closes the
    link after the last one."""

    def __init__(self, plans):
        super().__init__()
        self.plans, self.arrived, self.done = list(plans), [], False

    def on_amqp_message(self, event):
        if not self.plans:
            return  # there was more credit than plans
        self.arrived.append(event.message)
        self.plans.pop(0)(self.delivery_context, event)
        if not self.plans:
            event.link.close()

    def on_link_closed(self, _event):
        if not self.done:
            self.done = True
            raise Done

    def run(self, consumer):
        try:
            consumer.run()
        except Done:
            pass
        expect(len(self.plans), 0)
        return self.arrived


def accept(context, event):
    context.accept(event)


def discard(context, event):
    context.discard(event)


def requeue(context, event):
    context.requeue(event)


def keep(_context, _event):
    """Leaves the message unsettled: it is requeued when the link is closed."""


def consume(address, plans, options=None):
    """Consumes as many messages as there are plans, on a new connection, and returns them."""
    connection, inbox = connect(), Inbox(plans)
    got = inbox.run(connection.consumer(address, message_handler=inbox, consumer_options=options))
    connection.close()
    return got


def texts(messages):
    return [bytes(message.body).decode() for message in messages]


def expect(found, wanted):
    assert found == wanted, f"found {found!r}, wanted {wanted!r}"


def refused(kind, text, attempt):
    try:
        attempt()
    except kind as error:
        shown = f"{getattr(error, 'condition', None)} {error}"
        assert text in shown, f"refused with {shown!r}, wanted {text!r}"
    else:
        raise AssertionError("was not refused")
