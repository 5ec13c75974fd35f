"""The runner: a disposable child that holds the card on which candidates' kernels run. Host code of ours only.

session   `serve`: orders in, replies out; `open_card`: a card, opened
roster    the bundles it holds, one a side
replay    a plan's steps on a slot; also used to time baselines
slots     whether a slot holds what a plan needs
filling   what a slot holds before a run
rounds    timing
graphs    CUDA graphs of several calls
arena     the memory that slots lie in; also how the checker looks at it
packing   arguments of a launch as bits

A fault on the card ends it; the bench then starts another.
"""

from workers.runner.errors import CannotRun
from workers.runner.session import open_card, serve

__all__ = ["CannotRun", "open_card", "serve"]
