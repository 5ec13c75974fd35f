"""Nsight Compute: its location, and one run of the replay program under it, in a scratch folder."""

import os
import re
import shutil
import site
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from workers.errors import Transient
from workers.profiler.counters import CountedLaunch, UnreadablePage, parse_raw, parse_source
from workers.safe_python import PYTHON
from workers.sanitizer import tool_homes
from workers.sanitizer.messages import ReplayRequest

RUN_S = 180.0
"""Seconds until a run is stopped. The program starts in 10; every kernel is repeated some 40 times, which its restored
memory makes slow rather than its own time."""
READ_S = 60.0
"""Seconds until reading a report is stopped; it takes two."""
MOST_LAUNCHES = 8
"""Maximum number of launches that are counted."""
PAGE_BYTES = 64 * 2**20
"""Maximum length of a page; a kernel of 10,000 instructions has 5 MB."""
_NAME = "ncu"
_PROGRAM = (*PYTHON, "-m", "workers.sanitizer.replay_program")
_ERROR = re.compile(r"^==ERROR==\s*(.+)$", re.MULTILINE)
_REFUSED = "ERR_NVGPUCTRPERM"
REFUSED = f"this machine does not let Nsight Compute read the card's counters ({_REFUSED}); its administrator can"
"""Reason without counters where the driver keeps them for administrators."""
ABSENT = "no Nsight Compute (ncu) on this machine; it comes with the CUDA toolkit"
"""Reason without counters where the tool is missing."""


class NsightFailed(Transient):
    """The tool gave no counters; the message says why, in one line."""


@dataclass(frozen=True)
class NsightCompute:
    """The tool on this machine, by the path of its program."""

    path: str

    def run(self, request: ReplayRequest, launches: int, program: Sequence[str] = _PROGRAM) -> list[CountedLaunch]:
        """Replay under the profiler, with the card's clocks as they are and a cold cache for every kernel.

        Args:
            request: One plan to replay.
            launches: Number of its launches; the first `MOST_LAUNCHES` are counted.
            program: Command of the replay program; takes two files.

        Returns:
            The launches, in order.

        Raises:
            NsightFailed: If there are no counters.
        """
        with tempfile.TemporaryDirectory(prefix="reef-profile-") as folder:
            scratch = Path(folder)
            request_file, report = scratch / "request", scratch / "report.ncu-rep"
            request_file.write_text(request.model_dump_json())
            options = ("--config-file", "off", "--set", "full", "--clock-control", "none", "--cache-control", "all")
            chosen = ("--kernel-name", "kernel", "--launch-count", str(min(launches, MOST_LAUNCHES)))
            into = ("--export", str(report), "--force-overwrite")
            command = (self.path, *options, *chosen, *into, *program, str(request_file), str(scratch / "log"))
            said = self._output(command, scratch, RUN_S)
            if not report.is_file():
                raise NsightFailed(why(said))
            raw, source = (self._page(report, page, scratch) for page in ("raw", "source"))
        return joined(raw, source)

    def _page(self, report: Path, page: str, scratch: Path) -> str:
        command = (self.path, "--config-file", "off", "--import", str(report), "--page", page, "--csv")
        return self._output((*command, "--print-units", "base"), scratch, READ_S)

    def _output(self, command: Sequence[str], scratch: Path, timeout_s: float) -> str:
        """Run the tool with a home of its own. Returns its output, cut at the maximum."""
        try:
            with (scratch / "output").open("w+b") as output:
                subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=timeout_s,
                    env=scratch_environment(os.environ, scratch),
                    check=False,
                )
                output.seek(0)
                return output.read(PAGE_BYTES).decode(errors="replace")
        except subprocess.TimeoutExpired:
            raise NsightFailed(f"Nsight Compute did not finish within {timeout_s:g} s") from None
        except OSError as error:
            raise NsightFailed(f"{self.path} does not start: {error.strerror}") from error


def scratch_environment(environment: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """Return an environment whose home and temporary folder are the scratch folder; Python finds its packages still."""
    base = environment.get("PYTHONUSERBASE") or site.getuserbase()
    own = {name: str(scratch) for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")}
    return {**environment, **own, "PYTHONUSERBASE": base}


def why(output: str) -> str:
    """Return the reason in the tool's output why there is no report, in one line."""
    if _REFUSED in output:
        return REFUSED
    rows = _ERROR.findall(output) or [row for row in output.splitlines() if row.strip()] or ["it printed nothing"]
    return f"Nsight Compute failed: {rows[-1].strip()[:200]}"


def joined(raw: str, source: str) -> list[CountedLaunch]:
    """Join the pages of a report; launches have no instructions if the source page does not match.

    Raises:
        NsightFailed: If the raw page has no launch of ours.
    """
    try:
        launches = parse_raw(raw)
    except UnreadablePage as error:
        raise NsightFailed(why(raw) if "==ERROR==" in raw else str(error)) from error
    if not launches:
        raise NsightFailed("Nsight Compute saw no launch of the plan")
    try:
        instructions = parse_source(source)
    except UnreadablePage:
        return launches
    if len(instructions) != len(launches):
        return launches
    return [replace(one, instructions=tuple(rows)) for one, rows in zip(launches, instructions, strict=True)]


def find_nsight(path: str | None = None, homes: Iterable[str] | None = None) -> NsightCompute | None:
    """Find the tool on the search path or in a CUDA toolkit. Returns None if there is none.

    Args:
        path: Search path; the process's own if None.
        homes: Folders of toolkits; the usual ones if None.
    """
    places = [f"{home}/bin" for home in (tool_homes() if homes is None else homes)]
    found = shutil.which(_NAME, path=path) or shutil.which(_NAME, path=os.pathsep.join(places))
    return None if found is None else NsightCompute(found)
