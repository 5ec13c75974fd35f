"""Early ends of a judgement, and seconds by stage: shared by all devices."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from workers.protocol import REASON_CHARS, Outcome, Stage, printable


class JudgementEnded(Exception):
    """The verdict is known, and it is not `correct`.

    Attributes:
        found: Fields of a report that say why.
    """

    def __init__(self, stage: Stage, outcome: Outcome, reason: str, line: int | None = None) -> None:
        """Keep the reason, in printable characters."""
        reason = printable(reason)
        super().__init__(reason)
        self.found = {"stage": stage, "outcome": outcome, "reason": reason[:REASON_CHARS], "line": line}


@contextmanager
def timed(stages_s: dict[str, float], stage: str) -> Iterator[None]:
    """Add the seconds of a block to a stage."""
    started = time.perf_counter()
    try:
        yield
    finally:
        stages_s[stage] = stages_s.get(stage, 0.0) + time.perf_counter() - started
