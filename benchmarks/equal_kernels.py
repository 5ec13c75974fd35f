"""Equal kernels that contest one cell: how many hold it provisionally, and how many a confirm makes its elite.

    python -m benchmarks.equal_kernels --out results --count 1000 --operator softmax --shapes 1 --minutes 5
    python -m benchmarks.equal_kernels --out results --recorded benchmarks/results/equal_h100.json    # no card

A kernel is the operator's seed with another comment: its plans must be equal, and it is measured as a candidate of its
own. The seed itself, confirmed first, holds the cell as its elite. Each kernel goes the way of a candidate by the rules
of `service.evaluation.next_step`: its measurement may make it the provisional holder, and then its confirm the elite.
Nobody stays holder, so each meets the same cell, and executors that share the card take turns as in a search. A confirm
takes twenty times as long as a measurement, and few are due: `--confirms` has so many kernels confirmed all the same,
so that the share of false confirms has a bound of its own.
The measurements are also the judge's ceiling, without a search: `ceiling` has how many an hour its executors made while
they measured, and the seconds of each by stage.
`at_most` is the upper end of the 95 % interval (Clopper and Pearson). With `--recorded`, figures are drawn from the
confirms in a file that `benchmarks.repeatability` wrote.
"""

import argparse
import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol

from benchmarks.figures import FigureRows, Row, TimeAllowance, device_of
from benchmarks.record import RESULTS
from benchmarks.repeatability import upper_bound
from service.evaluation.next_step import CaseFacts, CellHolder, CellState, Hold, Promote, ReportFacts, next_step
from tests.gpu.benches import Team, measuring
from tests.gpu.contracts import operators
from tests.gpu.honest import Honest
from tests.gpu.judging import trace_all
from workers.options import cache_home
from workers.protocol import (
    MEASURED_DEADLINE_S,
    Bundle,
    CardShare,
    ConfirmJob,
    Device,
    Graph,
    MeasureJob,
    Outcome,
    Ratio,
    Report,
    ShapeRole,
)

ELITE = "elite"
"""Bundle of the cell's elite."""
TALLY_EVERY = 50
"""Rows between two counts: an end at any time leaves all rows and most counts."""


class ReportSource(Protocol):
    """Reports on equal kernels, by number; None if a machine failed."""

    def measure(self, number: int) -> ReportFacts | None:
        """Measure a kernel beside the pacer."""
        ...

    def confirm(self, number: int) -> ReportFacts | None:
        """Confirm a kernel against the elite."""
        ...


class CardReports:
    """Reports of executors on a card, one for each thread."""

    def __init__(self, bench: Team, operator: str, bundle: Bundle, graphs: tuple[Graph, ...], device: Device) -> None:
        self._bench, self._bundle, self._device = bench, bundle, device
        self._operator, self._graphs = operators()[operator], graphs
        self._measured: list[tuple[float, Mapping[str, float]]] = []

    def ceiling(self, executors: int) -> Row:
        """Return the rate of measurements by so many executors, and the mean seconds of one by stage."""
        return ceiling_of(self._measured, executors)

    def measure(self, number: int) -> ReportFacts | None:
        """Measure a kernel beside the pacer."""
        told = self._told(f"measure-{number}", number)
        job = MeasureJob(bundle=self._bundle, related=False, deadline_s=MEASURED_DEADLINE_S, **told)
        begun = time.perf_counter()
        answer = self._bench.ask(job)
        if isinstance(answer, Report):
            self._measured.append((time.perf_counter() - begun, answer.stages_s))
        return _facts(answer, None)

    def confirm(self, number: int) -> ReportFacts | None:
        """Confirm a kernel against the elite."""
        told = self._told(f"confirm-{number}", number)
        job = ConfirmJob(challenger=self._bundle, incumbent=self._bundle.reduced(), **told)
        return _facts(self._bench.ask(job), ELITE)

    def _told(self, job: str, number: int) -> dict[str, Any]:
        return {
            "id": job,
            "search": "equal",
            "candidate": f"kernel-{number}",
            "variant": 0,
            "operator": self._operator,
            "graphs": self._graphs,
            "device": self._device,
            "pacer": self._bundle.reduced(),
        }


class RecordedReports:
    """Reports with figures of recorded confirms, drawn with replacement."""

    def __init__(self, ratios: Sequence[Ratio]) -> None:
        self._ratios, self._rng = ratios, random.Random(1)

    def measure(self, number: int) -> ReportFacts | None:
        """Draw a measurement."""
        return ReportFacts(f"measure-{number}", True, True, self._rng.choice(self._ratios))

    def confirm(self, number: int) -> ReportFacts | None:
        """Draw a confirm."""
        speedup, rival = self._rng.choices(self._ratios, k=2)
        return ReportFacts(f"confirm-{number}", True, True, speedup, ELITE, rival)


def _facts(answer: object, incumbent: str | None) -> ReportFacts | None:
    if not isinstance(answer, Report) or answer.over_pacer is None:
        return None
    correct = answer.outcome is Outcome.CORRECT
    return ReportFacts(answer.job, correct, True, answer.over_pacer, incumbent, answer.rival, answer.reason)


def contest(
    reports: ReportSource, count: int, confirms: int, allowance: TimeAllowance, executors: int = 1
) -> Iterator[Mapping[str, Any]]:
    """Have equal kernels contest a cell. Yields a row per kernel that there was time for; the first is the elite's.

    Args:
        reports: Reports on the kernels.
        count: Number of kernels.
        confirms: Number of kernels that are confirmed even if they hold nothing.
        allowance: Time for all of it.
        executors: Number of kernels judged at once.

    Raises:
        SystemExit: If the elite cannot be confirmed.
    """
    first = reports.confirm(-1)
    if first is None or first.speedup is None:
        raise SystemExit("the elite cannot be confirmed")
    elite = CellHolder(ELITE, first.speedup.low, first.speedup.mid)
    yield {"elite": first.speedup.model_dump()}

    def judge(number: int) -> Row | None:
        return None if allowance.spent else _judged(reports, elite, number, number < confirms)

    with ThreadPoolExecutor(executors) as pool:
        for done in as_completed([pool.submit(judge, number) for number in range(count)]):
            if row := done.result():
                yield row


def _judged(reports: ReportSource, elite: CellHolder, number: int, is_confirmed: bool) -> Row:
    """Have a kernel go the way of a candidate whose cell has this elite."""
    measured = reports.measure(number)
    if measured is None:
        return {"kernel": number, "measured": None}
    name = f"kernel-{number}"
    case = CaseFacts(name, measures=True, trusted_trace=True, retraced=True, reports=(measured,), leads=True)
    held = isinstance(next_step(case, CellState(elite)), Hold)
    row: Row = {"kernel": number, "measured": _figures(measured.speedup), "held": held, "confirmed": None}
    if held or is_confirmed:
        found = reports.confirm(number)
        if found is not None:
            mine = CellHolder(name, *((measured.speedup.low, measured.speedup.mid) if measured.speedup else (0, 0)))
            facts = CaseFacts(name, True, True, True, (measured, found), leads=True)
            row["confirmed"] = isinstance(next_step(facts, CellState(elite, mine)), Promote)
            row["rival"] = _figures(found.rival)
    return row


def _figures(ratio: Ratio | None) -> dict[str, float] | None:
    return None if ratio is None else ratio.model_dump()


def tally_contest(rows: Sequence[Mapping[str, Any]]) -> Row:
    """Count the kernels that held the cell, and those that a confirm made its elite, with bounds."""
    kernels = [row for row in rows if row.get("measured")]
    confirmed = [row for row in kernels if row["confirmed"] is not None]
    held, won = sum(row["held"] for row in kernels), sum(row["confirmed"] for row in confirmed)
    return {
        "kernels": len(kernels),
        "failed": sum("measured" in row and row["measured"] is None for row in rows),
        "held": held,
        "held_at_most": upper_bound(held, len(kernels)),
        "held_and_confirmed": sum(row["held"] and row["confirmed"] for row in confirmed),
        "confirms": len(confirmed),
        "confirmed": won,
        "confirmed_at_most": upper_bound(won, len(confirmed)),
    }


def ceiling_of(measured: Sequence[tuple[float, Mapping[str, float]]], executors: int) -> Row:
    """Return how many measurements executors make an hour, and the mean seconds of one by stage.

    Args:
        measured: Seconds and seconds by stage of each measurement.
        executors: Number of executors at work.
    """
    if not measured:
        return {}
    stages = dict.fromkeys(name for _, spent in measured for name in spent)
    return {
        "executors": executors,
        "measured_per_h": round(3600 * executors / fmean(seconds for seconds, _ in measured)),
        "stages_s": {name: round(fmean(spent.get(name, 0.0) for _, spent in measured), 4) for name in stages},
    }


def equal_bundle(operator: str, shapes: int | None, target: str) -> tuple[Bundle, tuple[Graph, ...]]:
    """Trace the operator's seed under other comments. Returns its one bundle at few shapes, and the reference.

    Raises:
        SystemExit: If the traces fail or differ.
    """
    seed = operators()[operator].seeds[0]
    kernels = [Honest(f"{operator}/equal/{number}", operator, f"{seed}\n# {number}\n") for number in range(3)]
    traces = trace_all(kernels, target)
    variants = [variant for kernel in kernels for variant in traces.variants(kernel.name)]
    identities = {variant.bundle.identity for variant in variants if variant.bundle is not None}
    if not traces.knows(operator) or identities != {traces.pacers[operator].identity}:
        raise SystemExit(f"kernels that differ in a comment have other plans, or none: {traces.failures}")
    whole = traces.pacers[operator]
    checked = [plan for plan in whole.plans if plan.shape.role is not ShapeRole.BENCHMARK]
    return whole.restricted([*checked, *whole.benchmarks[:shapes]]), traces.graphs[operator]


def main() -> None:
    """Make `equal_kernels.json`."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, default=RESULTS, help="a folder")
    options.add_argument("--count", type=int, default=1000, help="equal kernels")
    options.add_argument("--confirms", type=int, default=0, help="so many are confirmed even if they hold nothing")
    options.add_argument("--operator", default="softmax")
    options.add_argument("--shapes", type=int, default=1, help="so many first benchmark shapes")
    options.add_argument("--executors", type=int, default=3, help="that share the card")
    options.add_argument("--minutes", type=float, default=9.0, help="after which nothing more is begun")
    options.add_argument("--data", type=Path, default=cache_home(), help="where baselines of confirms are kept")
    options.add_argument("--card", type=int, default=0)
    options.add_argument("--recorded", type=Path, help="a file with confirms, instead of a card")
    chosen = options.parse_args()
    allowance, figures = TimeAllowance(60 * chosen.minutes), FigureRows(chosen.out, "equal_kernels", chosen.card)
    if chosen.recorded:
        recorded = json.loads(chosen.recorded.read_text())["rows"]
        ratios = [Ratio(**row["rival"]) for row in recorded if row.get("rival")]
        conclude(figures, contest(RecordedReports(ratios), chosen.count, chosen.confirms, allowance))
        return
    device = device_of(chosen.card)
    bundle, graphs = equal_bundle(chosen.operator, chosen.shapes, device.target)
    command = measuring(device, CardShare(chosen.card, chosen.executors), chosen.data)
    with closing(Team(command, MEASURED_DEADLINE_S)) as team:
        reports = CardReports(team, chosen.operator, bundle, graphs, device)
        rows = contest(reports, chosen.count, chosen.confirms, allowance, chosen.executors)
        conclude(figures, rows, lambda: reports.ceiling(chosen.executors))


def conclude(figures: FigureRows, rows: Iterator[Mapping[str, Any]], ceiling: Callable[[], Row] = dict) -> None:
    """Write the rows, and the counts now and then, with the judge's ceiling if it was measured."""
    for number, row in enumerate(rows):
        figures.add(row, json.dumps(row))
        if number % TALLY_EVERY == 0:
            figures.conclude(equal=tally_contest(figures.rows), ceiling=ceiling())
    figures.conclude(equal=tally_contest(figures.rows), ceiling=ceiling())
    print(json.dumps(tally_contest(figures.rows) | ceiling()))


if __name__ == "__main__":
    main()
