"""A worker process around the stand-in bench, for tests that start, stop and kill it. Takes a worker's options."""

import argparse
import os
import signal
import sys
from pathlib import Path

from workers.main import LeaseLoop, LeasePace
from workers.queue import LeaseClient
from workers.sandbox.syscalls import die_with_parent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--id", default=f"stand-in-{os.getpid()}")
    parser.add_argument("--lease-ms", type=int, default=600)
    parser.add_argument("--with-parent", type=int)
    parser.add_argument("--ready-fd", type=int)
    options, _ = parser.parse_known_args()
    if options.with_parent:
        die_with_parent(signal.SIGKILL)
        assert os.getppid() == options.with_parent
    lessee = LeaseClient(os.environ["REEF_REDIS_URL"], options.id, target="sm_90", lease_ms=options.lease_ms)
    command = (sys.executable, str(Path(__file__).with_name("stand_in.py")), options.id)
    worker = LeaseLoop(
        lessee, {"trace": command}, LeasePace(block_ms=50, stop_s=1.0, pause_s=0.1), ready_fd=options.ready_fd
    )
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    worker.run()


if __name__ == "__main__":
    main()
