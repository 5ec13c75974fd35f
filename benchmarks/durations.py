"""Seconds of the tests, by file and case: `make test JUNIT=tests.xml`, then `python -m benchmarks.durations tests.xml`.

Beside seconds by the clock stand those of a processor, of the test process and of the children that it waited for: on a
machine that others use as well, only these can be compared. A bench that the warm server forked (`tests/warm`) is in
neither of the two.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.record import RESULTS, write

SLOWEST = 100
"""Cases with a row of their own."""


@dataclass(frozen=True)
class Case:
    """One case of a report. `file` is dotted, as JUnit's reports have it."""

    file: str
    name: str
    clock_s: float
    processor_s: float


def read(report: Path) -> Iterator[Case]:
    """The cases that ran."""
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        if case.find("skipped") is None:
            told = {item.get("name"): item.get("value") for item in case.iter("property")}
            seconds = float(case.get("time", 0)), float(told.get("processor_s") or 0)
            yield Case(case.get("classname", ""), case.get("name", ""), *seconds)


def summary(cases: Sequence[Case]) -> dict[str, object]:
    """Summarise the cases: number, total time, and the share of the slowest tenth."""
    by_cost = sorted((case.processor_s for case in cases), reverse=True)
    tenth = sum(by_cost[: len(by_cost) // 10])
    return {
        "cases": len(cases),
        "clock_s": round(sum(case.clock_s for case in cases), 1),
        "processor_s": round(sum(by_cost), 1),
        "share_of_slowest_tenth": round(tenth / sum(by_cost), 3) if sum(by_cost) else None,
    }


def rows(cases: Sequence[Case]) -> list[dict[str, object]]:
    """The files, then the slowest cases; what costs most first."""
    files: defaultdict[str, list[Case]] = defaultdict(list)
    for case in cases:
        files[case.file].append(case)
    found = [{"file": file, **summary(of)} for file, of in files.items()]
    found.sort(key=lambda row: -float(str(row["processor_s"])))
    slowest = sorted(cases, key=lambda case: -case.processor_s)[:SLOWEST]
    return found + [
        {"case": f"{case.file}::{case.name}", "clock_s": case.clock_s, "processor_s": case.processor_s}
        for case in slowest
    ]


def main() -> None:
    """Read a report and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", type=Path, help="what pytest wrote with --junitxml")
    parser.add_argument("--wall-s", type=float, help="seconds of the whole run, as pytest says them at its end")
    parser.add_argument("--note", default="", help="what to know about the machine during the run")
    parser.add_argument("--name", default="test_durations", help="of the file in --out")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    cases = list(read(options.report))
    more = {"wall_s": options.wall_s, "note": options.note, "total": summary(cases)}
    print(write(options.name, rows(cases), options.out, **more))


if __name__ == "__main__":
    main()
