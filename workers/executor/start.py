"""The start of an executor: import its kind, and serve until standard input ends.

Objects that libraries create at import live until the process ends. Repeated garbage collections of them, and their
deallocation at exit, would together take half as long as the import. So both are skipped.
"""

import atexit
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

from workers.executor import main, parse
from workers.sandbox.syscalls import tie_to

NICENESS = {"trace": 5}
"""Added to the niceness of an executor, by kind, before its imports: a card that waits for a core costs more than a
candidate that does."""


def run(arguments: Sequence[str]) -> NoReturn:
    """Be an executor. The arguments are its kind and its options."""
    kind, *rest = arguments
    options = parse(kind, rest)
    if options.with_parent is not None:
        tie_to(options.with_parent)
    os.nice(NICENESS.get(kind, 0))
    _end(main(options, imported(kind).open_executor))


def imported(kind: str) -> ModuleType:
    """Import the module of a kind; what that creates is hidden from the garbage collector."""
    gc.disable()
    module = importlib.import_module(f"workers.executor.{kind}")
    gc.freeze()
    gc.enable()
    return module


def _end(status: int) -> NoReturn:
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
