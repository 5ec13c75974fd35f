"""The runner: a disposable child that runs candidates' kernels on a card, and none of their host code.

session        `serve`: commands in, replies out; `open_card`: an opened card
loaded_plans   the bundles it holds, one per side
replay         a plan's steps on a slot; also used to time baselines
slots          checks that a slot holds what a plan needs
filling        content of a slot before a run
rounds         timing, with CUDA graphs of several calls
arena          the memory of all slots, also as the oracle sees it

A fault on the card ends it; the executor then starts another.
"""

from workers.runner.session import open_card, serve
from workers.runner.slots import CannotRun

__all__ = ["CannotRun", "open_card", "serve"]
