"""What people do with rabbitmqadmin v2, RabbitMQ's command line for the management API. Its first argument is the program."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import checks
import recorder

PROGRAM = sys.argv.pop(1)
HOST, PORT = os.environ["SLUICE_HTTP"].rsplit(":", 1)
AMQP_PORT = os.environ["SLUICE_AMQP"].rsplit(":", 1)[1]
QUEUE_TYPE = os.environ["SLUICE_QUEUE_TYPE"]
# RabbitMQ needs plugins for some of what is tried here.
IS_RABBITMQ = os.environ.get("SLUICE_AGAINST") == "rabbitmq"
PATIENCE = 30  # seconds; a guard against hanging, not a measure
# Notes the requests, see recorder.py. Nothing else in the suite depends on it.
RECORDER = None
if os.environ.get("SLUICE_RECORD"):
    RECORDER = recorder.Recorder(HOST, PORT, AMQP_PORT)
    PORT = RECORDER.port


def call(*words, user="guest", password="guest", given=None):
    """Runs the program. Returns its exit code, its standard output and its standard error."""
    if RECORDER:
        RECORDER.command(words)
    command = [PROGRAM, "--host", HOST, "--port", PORT, "--username", user, "--password", password, "--table-style", "psql"]
    # No configuration file of the caller may change anything.
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=PATIENCE, input=given or "",
                              env={"HOME": home, "PATH": os.environ["PATH"]})
    return done.returncode, done.stdout, done.stderr


def admin(*words, **options):
    """Runs the program, which must succeed. Returns its standard output."""
    code, out, error = call(*words, **options)
    assert code == 0, f"{' '.join(words)}: exit code {code}\n{out}{error}"
    return out


def refused(*words, because="", **options):
    """Runs the program, which must fail with these words."""
    code, out, error = call(*words, **options)
    assert code != 0, f"{' '.join(words)} succeeded: {out}"
    assert because in out + error, f"{' '.join(words)}: {out}{error}"
    if RECORDER:
        RECORDER.refused(because)


def has(wanted):
    """Says what is in the last answer, for the recorded page: objects have these members, arrays contain these elements."""
    if RECORDER:
        RECORDER.note("has", wanted)


def answers(wanted):
    """Says what the last answer is. Its arrays have these elements only, in this order."""
    if RECORDER:
        RECORDER.note("is", wanted)


def rows(*words, **options):
    """Runs the program. Returns the rows of its table as maps."""
    lines = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in admin(*words, **options).splitlines()
             if "|" in line]
    # Values of several lines continue in rows without a name.
    return [dict(zip(lines[0], line)) for line in lines[1:] if line[0]]


def column(name, *words):
    return [row[name] for row in rows(*words)]


def expect(found, wanted):
    assert found == wanted, f"found {found!r}, wanted {wanted!r}"


def until(what, test):
    """Waits until a question is answered with yes: RabbitMQ shows statistics some seconds later."""
    end = time.monotonic() + PATIENCE
    mark = RECORDER and RECORDER.mark()
    while not test():
        assert time.monotonic() < end, f"{what}: not in time"
        time.sleep(0.2)
        if RECORDER:
            RECORDER.asked_in_vain(mark)
    if RECORDER:
        RECORDER.repeated()


def declare(name):
    admin("declare", "queue", "--name", name, "--type", QUEUE_TYPE)


def node():
    return column("name", "nodes", "list")[0]


def the_node_and_the_overview():
    facts = {row["key"]: row["value"] for row in rows("show", "overview") if "value" in row} or admin("show", "overview")
    assert "4.3.6" in str(facts), facts
    has({"rabbitmq_version": "4.3.6"})
    admin("show", "churn")
    assert PORT in admin("show", "endpoint")
    expect(column("being_drained", "list", "nodes"), ["false"])
    answers([{"being_drained": False}])
    admin("plugins", "list_all")
    admin("plugins", "list_on_node", "--node", node())
    assert "http" in column("Protocol", "auth_attempts", "stats", "--node", node())
    has([{"protocol": "http"}])
    refused("list", "users", password="wrong", because="Not_Authorized")


def features():
    admin("feature_flags", "list")
    admin("feature_flags", "enable_all")
    assert "global_qos" in column("name", "deprecated_features", "list")
    has([{"name": "global_qos"}])
    first = rows("list", "deprecated_features")[0]
    expect(first["state"] in ("permitted", "denied"), True)
    has([{"name": first["name"], "state": first["state"]}])
    admin("deprecated_features", "list_used")


def exchanges_queues_and_bindings():
    admin("declare", "exchange", "--name", "shop", "--type", "topic")
    admin("exchanges", "declare", "--name", "billing", "--type", "headers", "--durable", "true")
    admin("queues", "declare", "--name", "orders ä/1", "--type", QUEUE_TYPE, "--arguments", '{"x-max-length": 7}')
    admin("declare", "binding", "--source", "shop", "--destination-type", "queue", "--destination", "orders ä/1",
          "--routing-key", "new.*")
    admin("exchanges", "bind", "--source", "shop", "--destination-type", "exchange", "--destination", "billing",
          "--routing-key", "paid", "--arguments", '{"country": "DE"}')
    bound = [(row["source"], row["destination"], row["routing_key"]) for row in rows("bindings", "list")
             if "shop" in row.values()]
    # The first column of a binding is its virtual host, and an argument has a line of its own.
    expect(sorted(bound), [("shop", "billing", "paid"), ("shop", "orders ä/1", "new.*")])
    has([{"source": "shop", "destination": "billing", "routing_key": "paid", "arguments": {"country": "DE"}},
         {"source": "shop", "destination": "orders ä/1", "routing_key": "new.*"}])
    found = rows("queues", "show", "--name", "orders ä/1")[0]
    expect((found["queue_type"], found["durable"], found["arguments"], found["state"]),
           (QUEUE_TYPE, "true", "x-max-length: 7", "running"))
    has({"type": QUEUE_TYPE, "durable": True, "arguments": {"x-max-length": 7}, "state": "running"})
    expect(list(rows("queues", "list", "--columns", "name,queue_type")[0]), ["name", "queue_type"])
    refused("declare", "queue", "--name", "odd", "--arguments", '{"x-max-length": "many"}', because="x-max-length")
    refused("declare", "exchange", "--name", "odd", "--type", "no-such-type")
    admin("delete", "binding", "--source", "shop", "--destination-type", "queue", "--destination", "orders ä/1",
          "--routing-key", "new.*")
    admin("exchanges", "unbind", "--source", "shop", "--destination-type", "exchange", "--destination", "billing",
          "--routing-key", "paid", "--arguments", '{"country": "DE"}')
    for kind, name in (("exchange", "shop"), ("exchange", "billing"), ("queue", "orders ä/1")):
        admin("delete", kind, "--name", name)
        refused("delete", kind, "--name", name, because="404")
        admin("delete", kind, "--name", name, "--idempotently")


def queues_are_listed_by_page_and_deleted_by_pattern():
    for number in range(5):
        declare(f"page.{number}")
    expect(len(rows("queues", "list", "--page", "1", "--page-size", "2")), 2)
    answers({"items": [{"name": "page.0"}, {"name": "page.1"}]})
    admin("queues", "delete_multiple", "--name-pattern", "^page", "--dry-run")
    expect(len(column("name", "list", "queues")), 5)
    answers([{"name": f"page.{number}"} for number in range(5)])
    admin("queues", "delete_multiple", "--name-pattern", "^page", "--approve")
    expect(column("name", "list", "queues"), [])
    answers([])


def streams():
    admin("streams", "declare", "--name", "log", "--expiration", "1D", "--max-length-bytes", "1000000")
    found = rows("streams", "show", "--name", "log")[0]
    has({"type": "stream"})
    expect((found["queue_type"], found["leader"]), ("stream", node()))
    assert "log" in column("name", "streams", "list")
    has([{"name": "log"}])
    refused("get", "messages", "--queue", "log")
    admin("delete", "stream", "--name", "log")


def messages():
    declare("box")
    for payload in ("one", "two"):
        admin("publish", "message", "--exchange", "", "--routing-key", "box", "--payload", payload, "--properties",
              '{"content_type": "text/plain", "headers": {"n": 1}}')
        has({"routed": True})
    assert "NOT routed" in admin("publish", "message", "--exchange", "amq.topic", "--routing-key", "nowhere", "--payload", "x")
    has({"routed": False})
    take = ("get", "messages", "--queue", "box", "--count", "5", "--ack-mode")
    expect(column("payload", *take, "ack_requeue_true"), ["one", "two"])
    answers([{"payload": "one"}, {"payload": "two"}])
    until("two messages", lambda: rows("queues", "show", "--name", "box")[0]["message_count"] == "2")
    has({"messages": 2})
    expect(column("payload", *take, "ack_requeue_false"), ["one", "two"])
    answers([{"payload": "one", "redelivered": True}, {"payload": "two", "redelivered": True}])
    admin("publish", "message", "--exchange", "", "--routing-key", "box", "--payload", "three")
    admin("purge", "queue", "--name", "box")
    expect(column("payload", *take, "ack_requeue_false"), [])
    answers([])
    admin("delete", "queue", "--name", "box")


def policies():
    declare("p")
    set_policy = ("declare", "policy", "--pattern", "^p$", "--apply-to", "queues")
    admin(*set_policy, "--name", "short", "--priority", "3", "--definition", '{"max-length": 100}')
    admin(*set_policy, "--name", "twin", "--priority", "3", "--definition", '{"max-length": 10}')
    refused(*set_policy, "--name", "bad", "--priority", "3", "--definition", '{"no-such-key": 1}')
    assert {"short", "twin"} <= set(sum((list(row.values()) for row in rows("policies", "list_conflicting")), []))
    has([{"name": "short", "priority": 3}, {"name": "twin", "priority": 3}])
    admin("policies", "patch", "--name", "short", "--definition", '{"max-length": 99, "message-ttl": 1000000}')
    admin("policies", "update_definition", "--name", "short", "--definition-key", "max-length", "--new-value", "98")
    admin("policies", "delete_definition_keys", "--name", "short", "--definition-keys", "message-ttl")
    admin("policies", "declare_override", "--name", "short", "--override-name", "shorter", "--definition",
          '{"max-length": 7}')
    admin("policies", "declare_blanket", "--name", "blanket", "--apply-to", "all", "--definition",
          '{"message-ttl": 5000000}')
    found = {row["name"]: row for row in rows("policies", "list")}
    expect((found["short"]["definition"], found["shorter"]["definition"]), ("max-length: 98", "max-length: 7"))
    has([{"name": "short", "definition": {"max-length": 98}}, {"name": "shorter", "definition": {"max-length": 7}}])
    expect(sorted(column("name", "policies", "list_matching_object", "--name", "p", "--type", "queues")),
           ["blanket", "short", "shorter", "twin"])
    has([{"name": name, "vhost": "/"} for name in ("blanket", "short", "shorter", "twin")])
    until("a policy", lambda: rows("queues", "show", "--name", "p")[0]["policy"] == "shorter")
    has({"policy": "shorter"})
    admin("declare", "operator_policy", "--name", "ceiling", "--pattern", ".*", "--apply-to", "queues", "--definition",
          '{"max-length": 1000}', "--priority", "1")
    admin("operator_policies", "patch", "--name", "ceiling", "--definition", '{"max-length": 999}')
    expect(column("definition", "operator_policies", "list"), ["max-length: 999"])
    answers([{"name": "ceiling", "definition": {"max-length": 999}}])
    for name in ("short", "twin", "shorter", "blanket"):
        admin("delete", "policy", "--name", name)
    admin("delete", "operator_policy", "--name", "ceiling")
    admin("delete", "queue", "--name", "p")


def virtual_hosts_users_and_permissions():
    admin("declare", "vhost", "--name", "team", "--description", "ours", "--default-queue-type", "quorum")
    found = next(row for row in rows("list", "vhosts") if row["name"] == "team")
    expect((found["description"], found["default_queue_type"]), ("ours", "quorum"))
    has([{"name": "team", "description": "ours", "default_queue_type": "quorum"}])
    admin("vhosts", "enable_deletion_protection", "--name", "team")
    refused("delete", "vhost", "--name", "team", because="protected")
    admin("vhosts", "disable_deletion_protection", "--name", "team")

    admin("declare", "user", "--name", "ann", "--password", "secret", "--tags", "management")
    hashed = next(word for word in admin("passwords", "salt_and_hash", "secret").split() if len(word) == 48)
    admin("users", "declare", "--name", "bob", "--password-hash", hashed, "--tags", "monitoring")
    # A user for monitoring sees all virtual hosts.
    assert {"/", "team"} <= {row["name"] for row in rows("list", "vhosts", user="bob", password="secret")}
    has([{"name": "/"}, {"name": "team"}])
    admin("--vhost", "team", "declare", "permissions", "--username", "ann", "--configure", "^x", "--read", ".*",
          "--write", ".*")
    expect([row["configure"] for row in rows("permissions", "list") if row["user"] == "ann"], ["^x"])
    has([{"user": "ann", "vhost": "team", "configure": "^x"}])
    ann = {"user": "ann", "password": "secret"}
    admin("--vhost", "team", "declare", "queue", "--name", "x", "--type", "quorum", **ann)
    refused("--vhost", "team", "declare", "queue", "--name", "y", "--type", "quorum", **ann)
    refused("list", "users", **ann)
    admin("--vhost", "team", "delete", "permissions", "--username", "ann")
    admin("delete", "user", "--name", "ann")
    admin("delete", "user", "--name", "bob")
    admin("delete", "vhost", "--name", "team")
    refused("delete", "vhost", "--name", "team", because="404")


def limits():
    admin("declare", "vhost_limit", "--name", "max-queues", "--value", "100")
    assert "100" in admin("vhost_limits", "list")
    has([{"value": {"max-queues": 100}}])
    admin("delete", "vhost_limit", "--name", "max-queues")
    admin("declare", "user_limit", "--username", "guest", "--name", "max-connections", "--value", "500")
    assert "500" in admin("list", "user_limits")
    has([{"value": {"max-connections": 500}}])
    admin("delete", "user_limit", "--username", "guest", "--name", "max-connections")


def parameters():
    admin("global_parameters", "set", "--name", "motto", "--value", '{"a":1}')
    assert "motto" in column("name", "global_parameters", "list")
    has([{"name": "motto", "value": {"a": 1}}])
    admin("global_parameters", "clear", "--name", "motto")
    if IS_RABBITMQ:
        return
    admin("declare", "parameter", "--component", "federation-upstream", "--name", "up", "--value", '{"uri":"amqp://h"}')
    expect(column("name", "federation", "list_all_upstreams"), ["up"])
    answers([{"name": "up"}])
    admin("delete", "parameter", "--component", "federation-upstream", "--name", "up")
    for words in (("shovels", "list_all"), ("federation", "list_all_links")):
        expect(rows(*words), [])
        answers([])


def definitions_go_out_and_in():
    declare("kept")
    with tempfile.TemporaryDirectory() as folder:
        whole, one = pathlib.Path(folder, "all.json"), pathlib.Path(folder, "one.json")
        admin("definitions", "export", "--file", str(whole))
        has({"queues": [{"name": "kept"}]})
        admin("definitions", "export_from_vhost", "--file", str(one))
        assert "kept" in [queue["name"] for queue in json.loads(whole.read_text())["queues"]]
        without_users = json.loads(admin("definitions", "export", "--stdout", "--transformations", "exclude_users"))
        expect(without_users["users"], [])
        for restore in (("definitions", "import", "--file", str(whole)), ("definitions", "import_into_vhost", "--file", str(one))):
            admin("delete", "queue", "--name", "kept")
            admin(*restore)
            assert "kept" in column("name", "list", "queues")
            has([{"name": "kept"}])
        refused("definitions", "import", "--stdin", given='{"queues": [{"name": "odd"}]}')
    admin("delete", "queue", "--name", "kept")


def connections_and_their_end():
    for words in (("connections",), ("channels",), ("user_connections", "--username", "guest"), ("consumers",)):
        expect(rows("list", *words), [])
        answers([])
    refused("close", "connection", "--name", "no such connection", because="404")
    admin("close", "connection", "--name", "no such connection", "--idempotently")
    admin("close", "user_connections", "--username", "guest")


def health_checks():
    for check in ("local_alarms", "cluster_wide_alarms", "node_is_quorum_critical"):
        admin("health_check", check)
    admin("health_check", "port_listener", "--port", AMQP_PORT)
    refused("health_check", "port_listener", "--port", "1")
    admin("health_check", "protocol_listener", "--protocol", "amqp")
    refused("health_check", "protocol_listener", "--protocol", "mqtt")
    admin("rebalance", "queues")
    admin("queues", "rebalance")


def recorded(check):
    """Returns a check that is recorded with both types of queues. The second time shows what changes from run to run."""
    def run():
        global QUEUE_TYPE
        name = node()
        for QUEUE_TYPE in ("classic", "quorum") * 2:
            RECORDER.begin(QUEUE_TYPE, name)
            check()
            RECORDER.end(check.__name__)
    run.__name__ = check.__name__
    return run


CHECKS = [
    the_node_and_the_overview, features, exchanges_queues_and_bindings, queues_are_listed_by_page_and_deleted_by_pattern,
    streams, messages, policies, virtual_hosts_users_and_permissions, limits, parameters, definitions_go_out_and_in,
    connections_and_their_end, health_checks,
]


checks.run("rabbitmqadmin", [recorded(check) for check in CHECKS] if RECORDER else CHECKS)
