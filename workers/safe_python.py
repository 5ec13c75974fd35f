"""The one way to start Python: child processes never import from the current folder.

A user's `workers.py` or `secrets.py` there would otherwise run in place of ours, outside the sandbox.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

PYTHON = (sys.executable, "-P")
"""Beginning of every command line that runs Python. `-P` keeps the folder of a script or of `-m` off the path."""
SAFE = {"PYTHONSAFEPATH": "1"}
"""Environment that says the same to what children start in turn, such as the compile workers of PyTorch."""


def safe_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for children: a safe path, and no relative folder in PYTHONPATH.

    `PYTHONPATH=$PYTHONPATH:/lib` with nothing in it before has an empty entry, which stands for the current folder.
    """
    found = {**environment, **SAFE}
    if "PYTHONPATH" in found:
        entries = [entry for entry in found["PYTHONPATH"].split(os.pathsep) if Path(entry).is_absolute()]
        found["PYTHONPATH"] = os.pathsep.join(entries)
    return found
