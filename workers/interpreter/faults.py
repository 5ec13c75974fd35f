"""Reasons to stop interpretation: a fault of the kernel, a limit of the interpreter, or lanes that diverge."""

from typing import Any

from numpy.typing import NDArray

from workers.protocol import Outcome

Array = NDArray[Any]
"""A numpy array of any dtype."""
FILENAME = "<candidate>"
"""File name of the candidate's lines in tracebacks."""


class InterpreterFault(Exception):
    """The kernel cannot be executed to its end.

    Attributes:
        outcome: The candidate's outcome.
        reason: A sentence that a person or an LLM can act on.
        line: The candidate's line; None if unknown.
    """

    outcome = Outcome.NOT_INTERPRETABLE

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line: int | None = None


class NotInterpretable(InterpreterFault):
    """The interpreter does not know this construct; the kernel may be correct."""


class OutOfBounds(InterpreterFault):
    """An active lane loads or stores outside every buffer."""

    outcome = Outcome.OUT_OF_BOUNDS


class Divergence(Exception):
    """Lanes that run together disagree on a value that decides control flow.

    Attributes:
        values: The deciding value, (draws or 1, programs or 1).
    """

    def __init__(self, values: Array) -> None:
        super().__init__("lanes disagree")
        self.values = values


class SpinLimitReached(Exception):
    """Lanes used up their iterations of `while`: they may wait for programs that have not run yet."""
