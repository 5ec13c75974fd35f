"""`python -m workers.baselines`: one request on standard input, one reply on standard output, then it ends."""

import argparse
import os
import signal
import sys

from workers.baselines.messages import Request
from workers.baselines.serving import answer
from workers.jail.kernel import die_with_parent


def main() -> int:
    """Serve one request; whatever libraries write to standard output goes to standard error."""
    parser = argparse.ArgumentParser(prog="python -m workers.baselines", description="Measure baselines.")
    parser.add_argument("--card", type=int, default=0, help="index of the card to measure on")
    options = parser.parse_args()
    die_with_parent(signal.SIGKILL)
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as channel:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        request = Request.model_validate_json(sys.stdin.buffer.read())
        channel.write(answer(request, options.card).model_dump_json().encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
