"""Logins with tokens of an OpenID provider, with Qpid Proton for Python."""

import base64
import json
import os
import ssl
import urllib.parse
import urllib.request

from proton import ConnectionException, ProtonException

from client import bodies, Consumer, expect, Management, on_queue, over_tls, PATIENCE, TLS

ISSUER = os.environ.get("SLUICE_ISSUER")
ALL = "rabbitmq.configure:*/* rabbitmq.write:*/* rabbitmq.read:*/*"
BRIEF = 5  # seconds


def token(scope=ALL, audience="rabbitmq", seconds=3600):
    """Gets a token with the grant client_credentials."""
    form = {"grant_type": "client_credentials", "scope": scope, "resource": f"urn:interop:{audience}:{seconds}"}
    who = base64.b64encode(b"interop:secret").decode()
    request = urllib.request.Request(
        f"{ISSUER}/token", urllib.parse.urlencode(form).encode(), {"Authorization": f"Basic {who}"})
    return json.loads(ask_provider(request))["access_token"]


def ask_provider(request):
    trust = ssl.create_default_context(cafile=f"{TLS}/ca.pem")
    with urllib.request.urlopen(request, context=trust, timeout=PATIENCE) as answer:
        return answer.read()


def key_of(token):
    """Returns the name of the key that has signed a token."""
    header = token.split(".")[0]
    return json.loads(base64.urlsafe_b64decode(header + "=" * (-len(header) % 4)))["kid"]


def login(password):
    """Connects with a token as the password. The name of the user is in the token."""
    return over_tls(user="anybody", password=password, allowed_mechs="PLAIN")


def fails(kind, text, attempt):
    try:
        attempt()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError("did not fail")


def a_token_allows_what_its_scopes_say():
    connection = login(token("rabbitmq.configure:*/proton.* rabbitmq.write:*/* rabbitmq.read:*/proton.*"))
    on_queue(connection, "proton.own", "a")
    expect(bodies(Consumer(connection, "proton.own").drain()), ["a"])
    fails(ProtonException, "configure access to queue 'orders' in vhost '/' refused for user 'interop'",
          lambda: Management(connection).queue("orders"))


def a_token_for_others_is_refused():
    fails(ProtonException, "Authentication failed", lambda: login(token(audience="other")))


def an_expired_token_closes_the_connection_unless_it_was_renewed():
    renewed, expiring = login(token(seconds=BRIEF)), login(token(seconds=BRIEF))
    Management(renewed).ask("PUT", "/auth/tokens", token().encode())
    fails(ConnectionException, "('amqp:unauthorized-access', 'credential expired')",
          lambda: expiring.wait(lambda: False, msg="the end"))
    # The first token of this connection has expired before that of the other.
    on_queue(renewed, "proton.renewed", "a")
    renewed.close()


def a_new_key_of_the_provider_counts_and_old_connections_stay():
    old = token()
    connection = login(old)
    on_queue(connection, "proton.rotated", "a")
    ask_provider(f"{ISSUER}/rotate")
    new = token()
    assert key_of(new) != key_of(old), "the provider still signs with the old key"
    second = login(new)
    expect(bodies(Consumer(second, "proton.rotated").drain()), ["a"])
    # The connection with the old token is open, and may go on with a new one.
    Management(connection).ask("PUT", "/auth/tokens", new.encode())
    on_queue(connection, "proton.still", "b")
    login(old).close()
    connection.close()


CHECKS = [
    a_token_allows_what_its_scopes_say, a_token_for_others_is_refused,
    an_expired_token_closes_the_connection_unless_it_was_renewed,
    a_new_key_of_the_provider_counts_and_old_connections_stay,
]
