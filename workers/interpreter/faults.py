"""How interpretation can stop: with the kernel's fault, with our limits, or because lanes disagree on a branch."""

from typing import Any

from numpy.typing import NDArray

from workers.protocol import Outcome

Array = NDArray[Any]
"""A numpy array of any dtype."""
FILENAME = "<candidate>"
"""Name the candidate's lines carry in tracebacks."""


class InterpreterFault(Exception):
    """The kernel cannot be executed to its end.

    Attributes:
        outcome: What that says about the candidate.
        reason: A sentence that a person or an LLM can act on.
        line: The candidate's line, once it is known.
    """

    outcome = Outcome.NOT_INTERPRETABLE

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line: int | None = None


class NotInterpretable(InterpreterFault):
    """The interpreter does not know this construct; nothing follows about the kernel."""


class OutOfBounds(InterpreterFault):
    """An active lane loads or stores outside every buffer."""

    outcome = Outcome.OUT_OF_BOUNDS


class Divergence(Exception):
    """Lanes that run together disagree on a value that decides where the kernel goes on.

    Attributes:
        values: The deciding value, (draws or 1, programs or 1).
    """

    def __init__(self, values: Array) -> None:
        super().__init__("lanes disagree")
        self.values = values


class SpinLimitReached(Exception):
    """Lanes have taken as many turns of `while` as they may: perhaps they wait for programs that have yet to run."""
