"""Runs the checks of a suite that is written in Python."""

import sys
import time
import traceback


def run(name, checks, on_failure=lambda: None):
    """Runs every check, or those named on the command line, and ends the program. A check that does not apply returns the
    reason. `on_failure` is called before the totals if a check failed."""
    chosen = [check for check in checks if check.__name__ in sys.argv[1:] or not sys.argv[1:]]
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
    if failed:
        on_failure()
    print(f"{name}: {len(chosen) - failed - skipped} passed, {failed} failed")
    sys.exit(failed > 0)
