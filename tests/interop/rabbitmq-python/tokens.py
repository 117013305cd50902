"""Logins with tokens of an OpenID provider, with RabbitMQ's own AMQP 1.0 client for Python."""

import base64
import json
import os
import ssl
import urllib.parse
import urllib.request

from rabbitmq_amqp_python_client import (
    Environment, OAuth2Options, PosixSslConfigurationContext, RecoveryConfiguration)
from rabbitmq_amqp_python_client.qpid.proton import ConnectionException

from client import accept, declare, expect, Inbox, PATIENCE, refused, texts

ISSUER = os.environ.get("SLUICE_ISSUER")
AUTHORITY = os.environ["SLUICE_TLS"] + "/ca.pem"
ALL = "rabbitmq.configure:*/* rabbitmq.write:*/* rabbitmq.read:*/*"
BRIEF = 5  # seconds


def token(scope=ALL, audience="rabbitmq", seconds=3600):
    """Gets a token with the grant client_credentials."""
    form = {"grant_type": "client_credentials", "scope": scope, "resource": f"urn:interop:{audience}:{seconds}"}
    who = base64.b64encode(b"interop:secret").decode()
    request = urllib.request.Request(
        f"{ISSUER}/token", urllib.parse.urlencode(form).encode(), {"Authorization": f"Basic {who}"})
    trust = ssl.create_default_context(cafile=AUTHORITY)
    with urllib.request.urlopen(request, context=trust, timeout=PATIENCE) as answer:
        return json.load(answer)["access_token"]


def login(token):
    address = os.environ["SLUICE_AMQPS"].replace("127.0.0.1", "localhost")
    environment = Environment(
        f"amqps://{address}", ssl_context=PosixSslConfigurationContext(ca_cert=AUTHORITY),
        oauth2_options=OAuth2Options(token=token),
        recovery_configuration=RecoveryConfiguration(active_recovery=False))
    connection = environment.connection()
    connection.dial()
    return connection


def a_token_allows_what_its_scopes_say():
    connection = login(token(
        "rabbitmq.configure:*/rabbitmq-python.* rabbitmq.write:*/* rabbitmq.read:*/rabbitmq-python.*"))
    address, inbox = declare(connection, "rabbitmq-python.own", "a"), Inbox([accept])
    expect(texts(inbox.run(connection.consumer(address, message_handler=inbox))), ["a"])
    connection.close()
    # A queue of others is not tried: the broker would end the session, for which the library does not look.
    refused(ConnectionException, "access to vhost '/' refused for user 'interop'",
            lambda: declare(login(token("rabbitmq.configure:elsewhere/*")), "rabbitmq-python.other"))


def a_token_for_others_is_refused():
    refused(ConnectionException, "Authentication failed", lambda: login(token(audience="other")))


def an_expired_token_closes_the_connection_unless_it_was_renewed():
    renewed, expiring = login(token(seconds=BRIEF)), login(token(seconds=BRIEF))
    renewed.refresh_token(token())
    address = declare(expiring, "rabbitmq-python.expiring")
    refused(ConnectionException, "('amqp:unauthorized-access', 'credential expired')",
            lambda: expiring.consumer(address, message_handler=Inbox([accept])).run())
    # The first token of this connection has expired before that of the other.
    declare(renewed, "rabbitmq-python.renewed", "a")
    renewed.close()


CHECKS = [
    a_token_allows_what_its_scopes_say, a_token_for_others_is_refused,
    an_expired_token_closes_the_connection_unless_it_was_renewed,
]
