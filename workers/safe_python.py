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
INHERITED = (
    # Paths.
    "PATH",
    "HOME",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "LD_LIBRARY_PATH",
    "VIRTUAL_ENV",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONUSERBASE",
    "PYTHONNOUSERSITE",
    "PYTHONPYCACHEPREFIX",
    "TRITON_CACHE_DIR",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_CACHE_PATH",
    "CUDA_MPS_PIPE_DIRECTORY",
    # Our share of the machine.
    "CUDA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    # Output.
    "LANG",
    "LC_ALL",
    "TZ",
    "PYTHONUNBUFFERED",
    "PYTHONDONTWRITEBYTECODE",
    "REEF_LOG_JSON",
    "REEF_LOG_LEVEL",
)
"""Environment variables that an executor inherits, by whole names. All others are left out: it forks sandboxes, which
can read its memory, and dozens of variables change how Triton, PyTorch, CUDA and Python compile and round."""
CARDS_IN_BUS_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
"""Environment in which CUDA numbers cards as the driver's tools do; its default puts the fastest first."""


def safe_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for children: a safe path, and no relative folder in PYTHONPATH.

    `PYTHONPATH=$PYTHONPATH:/lib` with nothing in it before has an empty entry, which stands for the current folder.
    """
    found = {**environment, **SAFE}
    if "PYTHONPATH" in found:
        entries = [entry for entry in found["PYTHONPATH"].split(os.pathsep) if Path(entry).is_absolute()]
        found["PYTHONPATH"] = os.pathsep.join(entries)
    return found


def executor_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of processes that trace, compile or evaluate: no secrets, and no influence on verdicts.

    Triton and the driver read it when they are imported.
    """
    inherited = {name: environment[name] for name in INHERITED if name in environment}
    return safe_environment(inherited | CARDS_IN_BUS_ORDER)
