"""A story of pika, the usual client of AMQP 0.9.1 in Python."""

import logging

import access
import checks
import consuming
import messages
import queues
import streams
import topology

CHECKS = [
    check for module in (access, topology, messages, consuming, queues, streams) for check in module.CHECKS]


logging.getLogger("pika").setLevel(logging.CRITICAL)  # the checks cause many errors on purpose
checks.run("pika", CHECKS)
