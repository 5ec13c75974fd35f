"""Searches for functions and modules in memory: `search` and `judge`.

The function is traced in this process, to a file of plain operations. A `reef` command in a process of its own does the
rest, so no code of the caller runs beside the service.
"""

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypedDict, Unpack

from kernelreef.errors import InvalidInput, ServiceError
from kernelreef.rooms import HOME, room

Example = Sequence[object] | Mapping[str, object]
"""Arguments of one call: in order, or by keyword."""
_VALUES = ("device", "evaluations", "out")
CORRECT_NONE, NOT_CORRECT = 3, 4
"""Exit codes of commands that ended as they should: a search without a correct kernel, a kernel that is not correct."""


@dataclass(frozen=True)
class FoundKernel:
    """Result of a search.

    Attributes:
        search: Id of the search.
        kernel: File with the best kernel; None if no kernel is correct.
        speedup: Lower bound of its speedup; None if no kernel is correct.
        figures: Meaning of the speedup: measured or predicted, and relative to what.
        document: All that `reef search --json` says.
    """

    search: str
    kernel: Path | None
    speedup: float | None
    figures: str
    document: Mapping[str, Any]


@dataclass(frozen=True)
class KernelVerdict:
    """Verdict on one kernel.

    Attributes:
        outcome: Its outcome, such as `correct`.
        reason: The reason; empty if it is correct.
        document: All that `reef judge --json` says.
    """

    outcome: str
    reason: str
    document: Mapping[str, Any]


class SearchSettings(TypedDict, total=False):
    """Settings of a search for a function; each has a default.

    Attributes:
        name: Name of the operator; by default that of the function.
        vary: Names of the sizes that vary, as the operator's spec has them; by default all that may.
        device: Device to judge on, such as `cuda`; `model:sm_90` by default, which predicts times.
        evaluations: Maximum number of evaluations.
        out: Folder for the operator and the best kernel; `reef-out` by default.
        options: Further options of `reef search`, as on a command line.
    """

    name: str
    vary: Sequence[str]
    device: str
    evaluations: int
    out: str | Path
    options: Sequence[str]


def search(function: Callable[..., object], *examples: Example, **settings: Unpack[SearchSettings]) -> FoundKernel:
    """Search for a faster kernel for a PyTorch function or module, and return the best.

    Args:
        function: The function, or an `nn.Module`, whose parameters and buffers become arguments of the kernel.
        examples: Arguments of calls: a list, or a mapping of keywords. Sizes that differ between examples vary.
        settings: Settings that differ from the defaults.

    Raises:
        InvalidInput: If the function cannot become an operator.
        ServiceError: If the search failed.
    """
    given = [f"--{key}={value}" for key, value in settings.items() if key in _VALUES]
    given += [f"--vary={','.join(settings['vary']) or 'none'}"] if "vary" in settings else []
    with TemporaryDirectory() as folder:
        file = _written(Path(folder), function, examples, settings.get("name", ""))
        found = _reef(["search", file, *given, *settings.get("options", ()), "--json"], (0, CORRECT_NONE))
    kernel = Path(found["kernel"]) if found["kernel"] else None
    return FoundKernel(found["search"], kernel, found["best"], found["figures"], found)


def judge(
    function: Callable[..., object],
    *examples: Example,
    kernel: str | Path,
    name: str = "",
    device: str = "model:sm_90",
) -> KernelVerdict:
    """Judge one kernel against a PyTorch function or module.

    Args:
        function: The function, or an `nn.Module`, whose parameters and buffers become arguments of the kernel.
        examples: Arguments of calls, as for `search`.
        kernel: File with the kernel, or its source. It defines a function with the operator's name.
        name: Name of the operator; that of the function if empty.
        device: Device to judge on.

    Raises:
        InvalidInput: If the function cannot become an operator.
        ServiceError: If the judge failed.
    """
    with TemporaryDirectory() as folder:
        file = _written(Path(folder), function, examples, name)
        path = Path(folder) / "kernel.py"
        path.write_text(
            kernel if isinstance(kernel, str) and "\n" in kernel else Path(kernel).read_text("utf-8"), "utf-8"
        )
        found = _reef(["judge", file, str(path), "--device", device, "--json"], (0, NOT_CORRECT))
    return KernelVerdict(found["outcome"], found["reason"], found)


def _written(
    folder: Path,
    function: Callable[..., object],
    examples: Sequence[Sequence[object] | Mapping[str, object]],
    name: str,
) -> str:
    """Write the file of a function, and return the SPEC that names it."""
    if not examples:
        raise InvalidInput("give example arguments: search(function, [x, weight])", "examples")
    own = getattr(function, "__name__", "") or type(function).__name__
    named = name or ("function" if not own.isidentifier() else own)
    tracing = room("workers.kernelbench.traced_text")
    try:
        text = tracing.traced_text(function, examples, named)
    except tracing.NotTraceable as error:
        raise InvalidInput(f"this function cannot be traced: {error}", "function") from None
    path = folder / "function.py"
    path.write_text(text, "utf-8")
    return f"{path}:{named}"


def _reef(arguments: Sequence[str], expected: Sequence[int]) -> dict[str, Any]:
    """Run a command in a process of its own; its progress goes to this process's standard error.

    Raises:
        ServiceError: If it failed; its own message is on standard error.
    """
    code = f"import sys; sys.path.insert(0, {str(HOME)!r}); from service.cli import main; main()"
    ended = subprocess.run(
        [*room("workers.safe_python").PYTHON, "-c", code, *arguments], stdout=subprocess.PIPE, text=True, check=False
    )
    if ended.returncode not in expected:
        raise ServiceError(f"`reef {arguments[0]}` ended with status {ended.returncode}; see the messages above")
    found: dict[str, Any] = json.loads(ended.stdout)
    return found
