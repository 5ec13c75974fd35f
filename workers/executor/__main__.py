"""Start an executor: `python -m workers.executor KIND …`, in the environment that a worker gives it."""

import sys

from workers.executor.start import run

if __name__ == "__main__":
    run(sys.argv[1:])
