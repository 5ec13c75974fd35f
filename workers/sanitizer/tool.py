"""compute-sanitizer: its location, and one run of the replay program under it."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter

from workers.protocol import CheckResult
from workers.safe_python import PYTHON
from workers.sanitizer.findings import errors, findings
from workers.sanitizer.messages import BufferAllocation, ReplayRequest, SanitizerMemoryShort

TOOLS = ("memcheck", "initcheck", "racecheck")
"""Tools of compute-sanitizer for finalists, cheapest first: accesses out of bounds, reads of uninitialised memory,
hazards in shared memory."""
RUN_S = 240.0
"""Seconds until a process is stopped. Instrumenting takes about one; racecheck slows a kernel a hundredfold."""
VERSION_S = 30.0
"""Seconds until the query for the tool's version is stopped."""
SHOWN = 3
"""Maximum number of findings in a reason; further ones are mostly the same in other threads."""
_PROGRAM = (*PYTHON, "-m", "workers.sanitizer.replay_program")
_NAME = "compute-sanitizer"
_MESSAGE: TypeAdapter[BufferAllocation | SanitizerMemoryShort] = TypeAdapter(BufferAllocation | SanitizerMemoryShort)


@dataclass(frozen=True)
class Sanitizer:
    """The tool on this machine.

    Attributes:
        path: Path of the program.
        version: Its version, as it reports it.
    """

    path: str
    version: str

    def run(self, tool: str, request: ReplayRequest, program: Sequence[str] = _PROGRAM) -> CheckResult:
        """Replay under one of the tools. When the card is full, a new process continues with the next plan.

        Args:
            tool: One of `TOOLS`.
            request: The plans to replay.
            program: Command of the replay program; takes two files.

        Returns:
            A check with the tool's name. It is `skipped`, with the reason, if the tool itself did not finish, or if a
            single plan does not fit in the card's memory.
        """
        left, seen, unfit = request.plans, set[str](), list[str]()
        while True:
            result, messages = self._replay(tool, request.model_copy(update={"plans": left}), program)
            if result.verdict != "passed":
                return result
            full = next((line for line in messages if isinstance(line, SanitizerMemoryShort)), None)
            seen.update(line.shape for line in messages if isinstance(line, BufferAllocation))
            if full is None:
                return _summed(tool, seen, unfit)
            ran = left.index(full.plan)
            if ran == 0:
                unfit.append(full.shape)
            left = left[max(1, ran) :]
            if not left:
                return _summed(tool, seen, unfit)

    def _replay(
        self, tool: str, request: ReplayRequest, program: Sequence[str]
    ) -> tuple[CheckResult, list[BufferAllocation | SanitizerMemoryShort]]:
        """Run one process. Returns its check and its messages."""
        with tempfile.TemporaryDirectory(prefix="reef-sanitizer-") as folder:
            request_file, log = Path(folder) / "request", Path(folder) / "log"
            request_file.write_text(request.model_dump_json())
            options = ("--tool", tool, "--report-api-errors", "no", "--print-limit", "20")
            command = (self.path, *options, *program, str(request_file), str(log))
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=RUN_S, errors="replace", check=False
                )
            except subprocess.TimeoutExpired:
                return CheckResult(name=tool, verdict="skipped", detail=f"it did not finish within {RUN_S:g} s"), []
            except OSError as error:
                why = f"{self.path} does not start: {error.strerror}"
                return CheckResult(name=tool, verdict="skipped", detail=why), []
            lines = _read(log)
        allocations = [line for line in lines if isinstance(line, BufferAllocation)]
        return judge(tool, done.stdout + done.stderr, done.returncode, allocations), lines


def judge(tool: str, output: str, status: int, allocations: Sequence[BufferAllocation]) -> CheckResult:
    """Return the result of a run; it passes only if the tool itself reports that it finished and counted no error."""
    found = findings(output)
    if found:
        sentences = dict.fromkeys(f"{tool}: {finding.describe(allocations)}" for finding in found)
        return CheckResult(name=tool, verdict="failed", worst=float(len(found)), detail="; ".join([*sentences][:SHOWN]))
    if status == 0 and errors(output) == 0:
        shapes = len({item.shape for item in allocations})
        return CheckResult(name=tool, verdict="passed", worst=0.0, detail=f"{shapes} shapes")
    last = next((line for line in reversed(output.splitlines()) if line.strip()), "it printed nothing")
    return CheckResult(name=tool, verdict="skipped", detail=f"the tool failed with status {status}: {last[:200]}")


def _summed(tool: str, seen: set[str], unfit: Sequence[str]) -> CheckResult:
    """Sum up processes without findings; `skipped` if a single plan did not fit in the card's memory."""
    others = seen - {*unfit}
    if not unfit:
        return CheckResult(name=tool, verdict="passed", worst=0.0, detail=f"{len(others)} shapes")
    more = f" and {len(unfit) - SHOWN} more shapes" if len(unfit) > SHOWN else ""
    where = f"the card has not enough memory for {', '.join(unfit[:SHOWN])}{more}"
    return CheckResult(name=tool, verdict="skipped", detail=f"{where}; nothing was found at {len(others)} others")


def find_sanitizer(path: str | None = None, homes: Iterable[str] | None = None) -> Sanitizer | None:
    """Find the tool on the search path or in a CUDA toolkit. Returns None if there is none that starts.

    Args:
        path: Search path; the process's own if None.
        homes: Folders of toolkits; the usual ones if None.
    """
    places = [f"{home}/{part}" for home in (tool_homes() if homes is None else homes) for part in ("bin", _NAME)]
    found = shutil.which(_NAME, path=path) or shutil.which(_NAME, path=os.pathsep.join(places))
    version = None if found is None else _version(found)
    return None if found is None or version is None else Sanitizer(found, version)


def tool_homes() -> list[str]:
    """Return folders of toolkits: those in the environment, then those that NVIDIA's packages use."""
    named = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    return [*named, "/usr/local/cuda", *sorted(map(str, Path("/usr/local").glob("cuda-*")), reverse=True)]


@cache
def _version(path: str) -> str | None:
    try:
        done = subprocess.run((path, "--version"), capture_output=True, text=True, timeout=VERSION_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return (done.stdout.strip().splitlines() or ["unknown"])[-1].removeprefix("Version ").strip()


def _read(log: Path) -> list[BufferAllocation | SanitizerMemoryShort]:
    """Read the program's messages; the last line may be cut off, and is dropped."""
    lines = log.read_text().split("\n")[:-1] if log.exists() else []
    return [_MESSAGE.validate_json(line) for line in lines]
