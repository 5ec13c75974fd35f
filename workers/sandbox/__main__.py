"""The fork server, `python -m workers.sandbox`: one request per line of input, one result per line of output."""

import os
import signal
import sys

from workers.sandbox.child import write
from workers.sandbox.forkserver import ForkRequest
from workers.sandbox.syscalls import die_with_parent


def main() -> int:
    """Serve until the client closes the pipe or ends."""
    die_with_parent(signal.SIGKILL)
    channel = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin.buffer:
        write(channel, ForkRequest.from_json(line).run().encode() + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
