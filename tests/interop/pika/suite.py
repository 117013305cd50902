"""A story of pika, the usual client of AMQP 0.9.1 in Python."""

import logging
import sys
import time
import traceback

import access
import consuming
import messages
import queues
import streams
import topology

CHECKS = [
    check for module in (access, topology, messages, consuming, queues, streams) for check in module.CHECKS]


def main():
    """Runs every check, or those named on the command line. A check that does not apply returns the reason."""
    logging.getLogger("pika").setLevel(logging.CRITICAL)  # the checks cause many errors on purpose
    chosen = [check for check in CHECKS if check.__name__ in sys.argv[1:] or not sys.argv[1:]]
    failed = skipped = 0
    for check in chosen:
        began = time.monotonic()
        try:
            reason = check()
            took = f"({time.monotonic() - began:.1f} s)" if time.monotonic() - began > 1 else ""
            print("skip" if reason else "ok  ", check.__name__, reason or took, flush=True)
            skipped += bool(reason)
        except Exception:  # any error is a failed check
            failed += 1
            print("FAIL", check.__name__, traceback.format_exc(), flush=True)
    print(f"pika: {len(chosen) - failed - skipped} passed, {failed} failed")
    sys.exit(failed > 0)


main()
