"""Nsight Compute's pages as CSV, parsed: `raw` with a row per launch, `source` with a row per instruction.

Column names differ between releases, so each figure has a list of names, the newest first. A figure under none of them
is missing, never zero.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from workers.assembler.machine import ENTRY

COUNTERS = {
    "time_us": ("gpu__time_duration.sum",),
    "dram_read_bytes": ("dram__bytes_read.sum",),
    "dram_written_bytes": ("dram__bytes_write.sum",),
    "dram_percent": (
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
        "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    ),
    "sm_percent": ("sm__throughput.avg.pct_of_peak_sustained_elapsed",),
    "l1_hit_percent": ("l1tex__t_sector_hit_rate.pct",),
    "l2_hit_percent": ("lts__t_sector_hit_rate.pct",),
    "active_warps_percent": ("sm__warps_active.avg.pct_of_peak_sustained_active",),
    "issued_per_cycle": ("smsp__issue_active.avg.per_cycle_active",),
    "eligible_warps": ("smsp__warps_eligible.avg.per_cycle_active",),
    "instructions": ("smsp__inst_executed.sum", "sm__inst_executed.sum"),
    "spill_instructions": ("sass__inst_executed_register_spilling", "smsp__inst_executed_op_local.sum"),
}
"""Counters of a launch by our names, with the vendor's names; `time_us` is in nanoseconds there."""
SAMPLES = ("Warp Stall Sampling (All Samples)", "# Samples", "Sampling Data (All)", "smsp__pcsamp_sample_count")
EXECUTED = ("Instructions Executed", "# Inst Executed", "inst_executed")
"""Columns of the source page."""
_NS = {"ns": 1e-3, "nsecond": 1e-3, "us": 1.0, "usecond": 1.0, "ms": 1e3, "msecond": 1e3, "s": 1e6, "second": 1e6}
# Microseconds of the units of a time.
_STALLED = re.compile(r"(?:smsp__pcsamp_warps_issue_stalled_|stall_)([a-z_0-9]+?)")
_AVERAGE = re.compile(r"smsp__average_warps_issue_stalled_([a-z_0-9]+?)_per_issue_active\.ratio")
_WORKING = frozenset(("selected", "not_selected"))
# Samples of warps that issued, or could have.
_LONG = {
    "long_sb": "long_scoreboard",
    "short_sb": "short_scoreboard",
    "branch_resolve": "branch_resolving",
    "dispatch": "dispatch_stall",
    "imc": "imc_miss",
    "lg": "lg_throttle",
    "math": "math_pipe_throttle",
    "mio": "mio_throttle",
    "no_inst": "no_instructions",
    "no_instruction": "no_instructions",
    "tex": "tex_throttle",
}
# The raw page's names of the source page's stalls.


class UnreadablePage(ValueError):
    """Output that has no table of the expected kind."""


@dataclass(frozen=True)
class CountedInstruction:
    """One row of the source page: the instruction with its samples, executions and most frequent stall.

    A figure that the page does not have is None; `stall` is then empty.
    """

    text: str
    samples: int | None
    executed: int | None
    stall: str = ""


@dataclass(frozen=True)
class CountedLaunch:
    """Counters of one launch by our names, shares of stalled samples by reason, and its instructions in order."""

    counters: Mapping[str, float]
    stalls: Mapping[str, float]
    instructions: Sequence[CountedInstruction] = field(default=())


def parse_raw(text: str) -> list[CountedLaunch]:
    """Parse the page `raw` of a report: the launches of kernels that are named as ours, in order.

    Raises:
        UnreadablePage: If there is no such table.
    """
    rows = [row for row in csv.reader(text.splitlines()) if len(row) > 1]
    start = next((at for at, row in enumerate(rows) if "Kernel Name" in row and "ID" in row), None)
    if start is None or len(rows) < start + 2:
        raise UnreadablePage("Nsight Compute printed no counters")
    head, units = rows[start], dict(zip(rows[start], rows[start + 1], strict=False))
    cells = [dict(zip(head, row, strict=False)) for row in rows[start + 2 :]]
    return [_launch(cell, units) for cell in cells if _is_ours(cell.get("Kernel Name", ""))]


def parse_source(text: str) -> list[list[CountedInstruction]]:
    """Parse the page `source`: for each launch in order, its instructions in order. Rows of source lines are left out.

    Raises:
        UnreadablePage: If there is no such table.
    """
    found: list[list[CountedInstruction]] = []
    head: list[str] = []
    for row in csv.reader(text.splitlines()):
        if "Source" in row and ("#" in row or "Address" in row):
            head = row
            found.append([])
        elif head and len(row) == len(head):
            found[-1] += _instruction(head, row)
    if not found:
        raise UnreadablePage("Nsight Compute printed no instructions")
    return found


def _launch(cell: Mapping[str, str], units: Mapping[str, str]) -> CountedLaunch:
    counters: dict[str, float] = {}
    for name, columns in COUNTERS.items():
        for column in columns:
            value = number(cell.get(column, ""))
            if value is not None:
                counters[name] = value * _NS.get(units.get(column, ""), 1e-3) if name == "time_us" else value
                break
    stalls = _shares(_stalls(cell.items(), _STALLED)) or _shares(_stalls(cell.items(), _AVERAGE))
    return CountedLaunch(counters, stalls)


def _instruction(head: Sequence[str], row: Sequence[str]) -> Iterator[CountedInstruction]:
    """Yield the instruction of a row, if it is one: with two columns `Source`, the second is the machine code."""
    at = len(head) - 1 - list(reversed(head)).index("Source")
    address = row[head.index("Address")].strip() if "Address" in head else "0"
    if not row[at].strip() or address in ("", "-"):
        return
    cell = dict(zip(head, row, strict=True))
    samples, executed = (_first(cell, names) for names in (SAMPLES, EXECUTED))
    waits = _stalls(cell.items(), _STALLED)
    stall = max(waits, key=lambda name: waits[name], default="")
    yield CountedInstruction(row[at].strip(), samples, executed, stall if waits.get(stall) else "")


def _first(cell: Mapping[str, str], names: Iterable[str]) -> int | None:
    values = (number(cell[name]) for name in names if name in cell)
    return next((round(value) for value in values if value is not None), None)


def _stalls(cells: Iterable[tuple[str, str]], names: re.Pattern[str]) -> dict[str, float]:
    """Return the samples or cycles by reason. Figures of samples without an issue are parts of the others."""
    found: dict[str, float] = {}
    for column, text in cells:
        told, value = names.fullmatch(column), number(text)
        if told and value is not None and not told[1].endswith("_not_issued"):
            name = _LONG.get(told[1], told[1])
            if name not in _WORKING:
                found.setdefault(name, value)
    return found


def _shares(samples: Mapping[str, float]) -> dict[str, float]:
    total = sum(samples.values())
    order = sorted(samples, key=lambda name: -samples[name])
    return {name: samples[name] / total for name in order if samples[name] > 0} if total > 0 else {}


def _is_ours(name: str) -> bool:
    return name.split("(")[0].strip() == ENTRY


def number(text: str) -> float | None:
    """Read a figure with separators of thousands; None for a missing one, such as `n/a`."""
    try:
        return float(text.replace(",", "").replace(" ", ""))
    except ValueError:
        return None
