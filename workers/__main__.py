"""`python -m workers`."""

import sys

from workers.main import main

if __name__ == "__main__":
    sys.exit(main())
