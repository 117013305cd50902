"""What programs with Celery do: tasks through queues, with results over rpc://."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

from celery import chain, group
from celery.exceptions import TaskRevokedError

import checks
from jobs import add, app, dies_once, fails, never_lucky, now, QUORUM, sleeps, third_time_lucky

PATIENCE = 30  # seconds; a guard against hanging, not a measure
LOGS = pathlib.Path(tempfile.mkdtemp())
# Celery has a queue for each bit of a delay in seconds.
DELAYS = [f"celery_delayed_{number}" for number in range(28)]


@contextlib.contextmanager
def worker(name, queue, *options):
    """Runs a worker of one queue, in processes of its own, until the end of the block."""
    log = open(LOGS / name, "w")
    process = subprocess.Popen(
        [sys.executable, "-m", "celery", "--app", "jobs", "worker", "--hostname", f"{name}@localhost",
         "--queues", queue, "--loglevel", "INFO", "--without-gossip", "--without-mingle", *options],
        cwd=os.path.dirname(os.path.abspath(__file__)), stdout=log, stderr=log)
    try:
        until(lambda: "ready." in (LOGS / name).read_text() or process.poll() is not None, f"{name} is ready")
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        log.close()


def until(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def expect(found, wanted):
    assert found == wanted, f"found {found!r}, wanted {wanted!r}"


def result(of):
    return of.get(timeout=PATIENCE)


def counts(queue):
    """Returns how many messages and consumers a queue has."""
    with app.connection_for_read() as connection, connection.channel() as channel:
        answer = channel.queue_declare(queue, passive=True)
        return answer.message_count, answer.consumer_count


def http(method, path):
    request = urllib.request.Request(
        f"http://{os.environ['SLUICE_HTTP']}/api/{path}", method=method,
        headers={"authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def tasks_have_results():
    expect(result(add.delay(2, 3)), 5)
    expect(result(add.delay("grü", "ße")), "grüße")


def many_tasks_at_once():
    expect(result(group(add.s(number, number) for number in range(200))()), [2 * number for number in range(200)])


def a_chain_of_tasks():
    expect(result(chain(add.s(1, 2), add.s(10), add.s(100))()), 113)


def big_arguments_and_results():
    expect(len(result(add.delay("x" * 400_000, "y" * 400_000))), 800_000)


def errors_come_back():
    try:
        result(fails.delay("on purpose"))
    except ValueError as error:
        expect(str(error), "on purpose")
    else:
        raise AssertionError("no error came back")


def tasks_are_retried():
    lucky, unlucky = third_time_lucky.delay(), never_lucky.delay()
    expect(result(lucky), 2)
    try:
        result(unlucky)
    except OSError as error:
        expect(str(error), "never")
    else:
        raise AssertionError("no error came back")


def delayed_tasks_wait():
    began = time.time()
    waiting = {seconds: now.apply_async(countdown=seconds) for seconds in (3, 1, 2)}
    ran = {seconds: result(one) for seconds, one in waiting.items()}
    assert ran[1] < ran[2] < ran[3], ran
    # Celery rounds a delay to seconds where the broker waits.
    early = [seconds for seconds, moment in ran.items() if moment < began + seconds - 1]
    expect(early, [])


def delays_are_queues_of_the_broker():
    if not QUORUM:
        return "with classic queues a worker waits"
    expect([counts(queue) for queue in DELAYS], [(0, 0)] * len(DELAYS))
    queue = http("GET", f"queues/%2F/{DELAYS[3]}")
    expect((queue["type"], queue["arguments"]["x-message-ttl"], queue["arguments"]["x-overflow"],
            queue["arguments"]["x-dead-letter-strategy"], queue["arguments"]["x-dead-letter-exchange"]),
           ("quorum", 8000, "reject-publish", "at-least-once", DELAYS[2]))
    far = now.apply_async(countdown=100_000)  # the highest bit is 16
    until(lambda: counts(DELAYS[16])[0] == 1, "the task waits in the queue of its highest bit")
    with app.connection_for_write() as connection, connection.channel() as channel:
        channel.queue_purge(DELAYS[16])
    far.forget()


def revoked_tasks_do_not_run():
    late = now.apply_async(countdown=2)
    app.control.revoke(late.id)
    try:
        result(late)
    except TaskRevokedError:
        pass
    else:
        raise AssertionError("the task ran")
    expired = now.apply_async(expires=0.5, countdown=1.5)
    try:
        result(expired)
    except TaskRevokedError:
        pass
    else:
        raise AssertionError("the expired task ran")


def workers_answer_questions():
    expect(app.control.ping(timeout=1), [{"first@localhost": {"ok": "pong"}}])
    inspect = app.control.inspect(destination=["first@localhost"], timeout=1, limit=1)
    expect([queue["name"] for queue in inspect.active_queues()["first@localhost"]], ["jobs"])
    stats = inspect.stats()["first@localhost"]
    expect(stats["pool"]["max-concurrency"], 2)


def a_worker_that_dies_gives_its_task_back():
    expect(result(dies_once.delay()), "redelivered")


def a_worker_prefetches_what_it_is_allowed():
    with worker("slow", "slow", "--concurrency", "2"):
        before = [sleeps.apply_async((0.8,), queue="slow") for _ in range(2)]
        until(lambda: len(active("slow")) == 2, "two tasks run")
        after = [sleeps.apply_async((0,), queue="slow") for _ in range(4)]
        until(lambda: counts("slow")[0] == 4, "four tasks stay in the queue, for other workers")
        ends = [result(one)[2] for one in before]
        assert min(ends) <= min(result(one)[1] for one in after)


def active(name):
    answers = app.control.inspect(destination=[f"{name}@localhost"], timeout=1, limit=1).active() or {}
    return answers.get(f"{name}@localhost", [])


def a_worker_scales_itself():
    with worker("scaled", "scaled", "--autoscale", "4,1"):
        expect(len({result(sleeps.apply_async((0,), queue="scaled"))[0] for _ in range(2)}), 1)
        found = [result(one) for one in [sleeps.apply_async((0.3,), queue="scaled") for _ in range(12)]]
        processes = {process for process, _, _ in found}
        assert 1 < len(processes) <= 4, processes


def a_worker_connects_again():
    until(lambda: len(connections()) > 1, "the broker lists connections")
    others = connections()
    with worker("again", "scaled"):
        expect(result(now.apply_async(queue="scaled")) > 0, True)
        until(lambda: len(connections() - others) > 1, "the broker lists the worker's connections")
        for name in connections() - others:
            with contextlib.suppress(urllib.error.HTTPError):  # it may have ended by itself
                http("DELETE", f"connections/{urllib.parse.quote(name)}")
        found = [result(one) for one in [add.apply_async((number, 1), queue="scaled") for number in range(5)]]
        expect(found, [1, 2, 3, 4, 5])


def connections():
    return {connection["name"] for connection in http("GET", "connections")}


CHECKS = [
    tasks_have_results, many_tasks_at_once, a_chain_of_tasks, big_arguments_and_results, errors_come_back,
    tasks_are_retried, delayed_tasks_wait, delays_are_queues_of_the_broker, revoked_tasks_do_not_run,
    workers_answer_questions, a_worker_that_dies_gives_its_task_back, a_worker_prefetches_what_it_is_allowed,
    a_worker_scales_itself, a_worker_connects_again,
]


def show_logs():
    for log in sorted(LOGS.iterdir()):
        print(f"--- last lines of the worker {log.name}", *log.read_text().splitlines()[-20:], sep="\n")


with worker("first", "jobs", "--concurrency", "2"):
    checks.run("celery", CHECKS, show_logs)
