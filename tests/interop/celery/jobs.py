"""The tasks that the workers of the suite run, and the settings of the application."""

import os
import signal
import time

from celery import Celery
from kombu import Exchange, Queue

QUORUM = os.environ["SLUICE_QUEUE_TYPE"] == "quorum"
AMQP = os.environ["SLUICE_AMQP"]


def queue(name):
    """A queue of the tested type, with an exchange that every queue of the suite is bound to."""
    exchange = Exchange("jobs", "topic")
    return Queue(name, exchange, routing_key=name, queue_arguments={"x-queue-type": "quorum"} if QUORUM else None)


app = Celery("jobs", broker=f"amqp://guest:guest@{AMQP}//", backend="rpc://")
app.conf.update(
    task_default_queue="jobs", task_queues=[queue(name) for name in ("jobs", "slow", "scaled")],
    # Celery needs a topic exchange for delays with quorum queues.
    task_default_exchange="jobs", task_default_exchange_type="topic", task_default_routing_key="jobs",
    task_acks_late=True, task_reject_on_worker_lost=True, task_track_started=False, worker_prefetch_multiplier=1,
    broker_transport_options={"confirm_publish": True}, broker_connection_retry_on_startup=True,
    worker_send_task_events=True,
    # New versions of RabbitMQ refuse queues that are neither durable nor exclusive.
    control_queue_exclusive=True, event_queue_exclusive=True, result_expires=600,
)


@app.task
def add(a, b):
    return a + b


@app.task
def now():
    return time.time()


@app.task(bind=True, max_retries=5)
def third_time_lucky(self):
    if self.request.retries < 2:
        raise self.retry(countdown=1)  # the shortest delay that quorum queues have
    return self.request.retries


@app.task(autoretry_for=(OSError,), retry_backoff=False, default_retry_delay=1, max_retries=1)
def never_lucky():
    raise OSError("never")


@app.task
def fails(text):
    raise ValueError(text)


@app.task
def sleeps(seconds):
    """Returns the process that ran it, and from when to when."""
    began = time.time()
    time.sleep(seconds)
    return os.getpid(), began, time.time()


@app.task(bind=True)
def dies_once(self):
    """Kills its process when it runs for the first time."""
    if not self.request.delivery_info["redelivered"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return "redelivered"
