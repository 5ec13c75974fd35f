"""Refusal of a candidate: the outcome, the reason and the candidate's own line."""

import errno
import linecache
import re
import sys
import traceback
from types import FrameType

from workers.protocol import REASON_CHARS, Outcome, Stage, printable

SOURCE_NAME = "candidate.py"
"""File name of the candidate's source in tracebacks and compiler errors."""

_FOLDERS = re.compile(r"(?<![\w/.:)\]])/(?:[\w.+@~-]+/)+")
# Folders of absolute paths; only names of files say something to a reader.
_DESCRIBERS = ("triton.tools.tensor_descriptor", "triton.experimental.gluon.nvidia.hopper", "triton._utils")
# Modules that check the arguments of a tensor descriptor.
_BY_SYSTEM = {
    errno.EAGAIN: "it starts a process, which candidates may not; ask torch.cuda.get_device_properties about the card",
    errno.EPERM: "it asks the system for something that candidates may not have",
}
# Refusals of the sandbox, by the number of the system's error.
_EXCERPT_CHARS = 200
# Longest part of a source line that a reason quotes.


class TraceRefused(BaseException):
    """Refusal that stops a candidate. Not an `Exception`, so the candidate's own handlers do not catch it."""

    def __init__(self, outcome: Outcome, reason: str, stage: Stage = Stage.TRACE, line: int | None = None) -> None:
        """Refuse with a reason that a person or an LLM can act on; the line defaults to the one that is running."""
        super().__init__(reason)
        self.outcome = outcome
        self.reason = tidy(reason)
        self.stage = stage
        self.line = line or running_line()


class NotExportable(Exception):
    """The reference cannot become a graph.

    Attributes:
        outcome: Outcome of the export.
        reason: The fault and its remedy.
    """

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.reason = reason


def running_line() -> int | None:
    """Return the candidate's line that is being executed; None outside of the candidate."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == SOURCE_NAME:
            return frame.f_lineno
        frame = frame.f_back
    return None


def raising_line(error: BaseException) -> int | None:
    """Return the candidate's innermost line that an exception passed; None if there is none."""
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == SOURCE_NAME]
    return lines[-1] if lines else None


def tidy(text: str) -> str:
    """Cut a text to the length of a reason, and remove unprintable characters and folders of this machine."""
    return _FOLDERS.sub("", printable(text))[:REASON_CHARS].strip()


def crash(error: BaseException) -> TraceRefused:
    """Turn an exception of the candidate into a refusal; an exception without a message quotes its line."""
    line, said = raising_line(error), describe(error)
    if isinstance(error, AssertionError) and _raised_by(error) in _DESCRIBERS:
        reason = f"Triton makes no tensor descriptor of it: {said}; take another kernel at such shapes"
        return TraceRefused(Outcome.PLAN_REJECTED, reason, Stage.TRACE, line)
    text = linecache.getline(SOURCE_NAME, line).strip()[:_EXCERPT_CHARS] if line else ""
    quoted = f" in `{text}`" if text else ""
    said = _BY_SYSTEM.get(error.errno or 0, said) if isinstance(error, OSError) else said
    reason = f"{type(error).__name__}: {said}" if said.strip() else f"{type(error).__name__}{quoted}"
    return TraceRefused(Outcome.TRACE_CRASHED, reason, Stage.TRACE, line)


def _raised_by(error: BaseException) -> str:
    """Return the module that raised an exception; empty if it was never raised."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return str(frames[-1].f_globals.get("__name__", "")) if frames else ""


def describe(error: BaseException) -> str:
    """Return an exception's message, without names from Triton's launcher."""
    return str(error).replace("dynamic_func()", "the kernel")
