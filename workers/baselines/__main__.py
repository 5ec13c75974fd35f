"""`python -m workers.baselines`: one request per line on standard input, one reply per line on standard output."""

import argparse
import os
import select
import signal
import sys

from workers.baselines.messages import BaselineRequest
from workers.baselines.server import answer, warm_up
from workers.sandbox.syscalls import die_with_parent

IDLE_S = 600.0
"""Seconds without a request after which the process ends: it holds memory of the host and the card."""


def main() -> int:
    """Serve requests one at a time; output of libraries to standard output is redirected to standard error."""
    parser = argparse.ArgumentParser(prog="python -m workers.baselines", description="Measure baselines.")
    parser.add_argument("--card", type=int, default=0, help="index of the card to measure on")
    parser.add_argument("--turn", type=int, default=0, help="number of its turn; each turn has one process at a time")
    parser.add_argument("--warm-up", metavar="TARGET", help="get ready for a target, such as sm_90, before any request")
    options = parser.parse_args()
    die_with_parent(signal.SIGKILL)
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as channel:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        if options.warm_up:
            warm_up(options.warm_up)
        while select.select([sys.stdin], [], [], IDLE_S)[0]:
            line = sys.stdin.buffer.readline()
            if not line:
                break
            reply = answer(BaselineRequest.model_validate_json(line), options.card, options.turn)
            channel.write(reply.model_dump_json().encode() + b"\n")
            channel.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
