"""Examination of finalists, with its cost: seeds, rewritings of them, and kernels that only this stage catches.

    python -m benchmarks.finalists --out results
    python -m benchmarks.finalists --out results --rewrites 4 --minutes 5
    python -m benchmarks.finalists --out results --far --shapes 8    # kernels that reach indices beyond 2^31 alone
    python -m benchmarks.finalists --out results --only gluon --rewrites 0 --shapes 6

Whatever is traced is examined while others are traced. A row a kernel: outcome, every check with its words, seconds by
stage and in all. `expected` is `correct` for honest kernels, and for the others the check that has to fail.
"""

import argparse
import re
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import FigureRows, Row, TimeAllowance, device_of
from service.evaluation.finalists import INTERPRETED_SHAPES, RANDOM_SHAPES, look_far
from service.evaluation.jobs import FINAL_TRACE_S
from service.operators.shapes import far_shape, random_shapes
from tests.gpu.benches import TRACE, Served, answers, cores, measuring
from tests.gpu.contracts import operators, shapes_of
from tests.gpu.honest import honest_kernels
from workers.protocol import (
    MEASURED_DEADLINE_S,
    Answer,
    CardShare,
    Device,
    FinalJob,
    Report,
    Shape,
    TraceJob,
    TraceReport,
)

ROGUES = Path(__file__).parents[1] / "tests" / "workers" / "rogues" / "final"
SPARE_CORES = 2
"""Cores that are left to the card's processes."""
REWRITES = 10
"""Rewritings, spread evenly over all there are."""
_FIELD = re.compile(r"^(operator|caught by): (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class FinalistCase:
    """One kernel to examine; `expected` is `correct`, or the check that fails."""

    name: str
    operator: str
    source: str
    expected: str


def load_rogues() -> Iterator[FinalistCase]:
    """Kernels that pass every ordinary check."""
    for path in sorted(ROGUES.glob("*.py")):
        source = path.read_text()
        said = dict(_FIELD.findall(source))
        yield FinalistCase(f"rogue/{path.stem}", said["operator"], source, said["caught by"])


def load_honest(rewrites: int) -> Iterator[FinalistCase]:
    """Every seed, kernels in Gluon, and some of the rewritings."""
    kernels = honest_kernels()
    rewritten = [name for name in kernels if "/rewrite/" in name]
    step = max(1, len(rewritten) // max(1, rewrites))
    written = [name for name in kernels if "/seed" in name or "/hand/gluon" in name]
    for name in [*written, *rewritten[::step][:rewrites]]:
        yield FinalistCase(name, kernels[name].operator, kernels[name].source, "correct")


def trace_job(finalist: FinalistCase, device: Device, shapes: Sequence[Shape]) -> TraceJob:
    """Trace a kernel for its operator's shapes and for random ones, with the reference."""
    return TraceJob(
        id=finalist.name,
        search="finalists",
        candidate=finalist.name,
        source=finalist.source,
        operator=operators()[finalist.operator],
        shapes=shapes,
        target=device.target,
        references=True,
        deadline_s=FINAL_TRACE_S,
    )


def shapes_for(operator: str, device: Device, count: int) -> tuple[Shape, ...]:
    """An operator's shapes, and random ones from a fresh secret; on a card the one with indices beyond 2^31, too."""
    contract = operators()[operator]
    fixed = shapes_of(contract)
    far, _ = _far(operator, device)
    known = [shape.key for shape in fixed]
    drawn = random_shapes(contract, secrets.randbits(64), count, known, small=not device.measures)
    return (*fixed, *drawn, *([far] if far else []))


def final_job(finalist: FinalistCase, traced: TraceReport, device: Device) -> FinalJob | None:
    """Examine the first variant of what was traced; None if there is none."""
    bundle = traced.variants[0].bundle if traced.variants else None
    if bundle is None or not traced.graphs:
        return None
    return FinalJob(
        id=finalist.name.replace("/", "-"),
        search="finalists",
        candidate=finalist.name,
        variant=0,
        finalist=bundle.identity,
        bundle=bundle,
        operator=operators()[finalist.operator],
        graphs=traced.graphs,
        unreached=_far(finalist.operator, device)[1],
        device=device,
        source=None if device.measures else finalist.source,
        deadline_s=MEASURED_DEADLINE_S,
    )


def _far(operator: str, device: Device) -> tuple[Shape | None, str]:
    """The shape with indices beyond 2^31; None and the reason where there is none."""
    contract = operators()[operator]
    return look_far(contract, device, [shape.dims for shape in shapes_of(contract)])


def row_of(finalist: FinalistCase, traced: Answer, examined: Answer | None, wall_s: float) -> Row:
    """Return the row of one kernel."""
    row: Row = {"kernel": finalist.name, "operator": finalist.operator, "expected": finalist.expected, "wall_s": wall_s}
    trace_s = traced.stages_s if isinstance(traced, TraceReport) else {}
    if not isinstance(examined, Report):
        last = examined or traced
        outcome = last.outcome.value if isinstance(last, TraceReport) else "failure"
        reason = last.reason if isinstance(last, TraceReport) else getattr(last, "error", last.kind)
        return {**row, "outcome": outcome, "as_expected": False, "reason": reason, "trace_s": trace_s, "checks": {}}
    failed = [check.name for check in examined.checks if check.verdict == "failed"]
    right = examined.outcome == finalist.expected if finalist.expected == "correct" else finalist.expected in failed
    return {
        **row,
        "outcome": examined.outcome.value,
        "as_expected": right,
        "reason": examined.reason,
        "checks": {check.name: [check.verdict, check.detail] for check in examined.checks},
        "trace_s": trace_s,
        "stages_s": examined.stages_s,
        "versions": examined.versions,
    }


def examine(
    finalists: Sequence[FinalistCase],
    device: Device,
    card: int,
    count: int,
    figures: FigureRows,
    allowance: TimeAllowance,
) -> None:
    """Trace all, several at once, and examine one after the other as they come. `count` is of random shapes."""
    by_name = {finalist.name: finalist for finalist in finalists}
    shapes = {name: shapes_for(name, device, count) for name in {finalist.operator for finalist in finalists}}
    jobs = {finalist.name: trace_job(finalist, device, shapes[finalist.operator]) for finalist in finalists}
    tracing = answers(jobs, TRACE, max(1, cores() - SPARE_CORES))
    with Served(measuring(device, CardShare(card)), MEASURED_DEADLINE_S) as bench, closing(tracing):
        for name, traced in tracing:
            if allowance.spent:
                break
            finalist = by_name[name]
            job = final_job(finalist, traced, device) if isinstance(traced, TraceReport) else None
            started = time.perf_counter()
            examined = None if job is None else bench.ask(job)
            row = row_of(finalist, traced, examined, time.perf_counter() - started)
            figures.add(row, f"{finalist.name} {row['outcome']} {row['as_expected']} {row['reason'][:120]}")
    counts = Counter(str(row["as_expected"]) for row in figures.rows)
    figures.conclude(counts=dict(counts), left=len(finalists) - len(figures.rows))


def main() -> None:
    """Examine what is asked for and write `finalists.json`."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options.add_argument("--card", type=int, default=0)
    options.add_argument("--device", type=Device.parse, help="instead of the card's; `model:sm_90` tries the script")
    options.add_argument("--only", default="", help="only kernels with this in their names")
    options.add_argument("--far", action="store_true", help="only kernels that reach indices beyond 2^31")
    options.add_argument("--rewrites", type=int, default=REWRITES)
    options.add_argument("--shapes", type=int, help="random shapes of each")
    options.add_argument("--minutes", type=float, default=60.0, help="after which no further kernel is examined")
    chosen = options.parse_args()
    device = chosen.device or device_of(chosen.card)
    count = chosen.shapes or (RANDOM_SHAPES if device.measures else INTERPRETED_SHAPES)
    finalists = [item for item in (*load_rogues(), *load_honest(chosen.rewrites)) if chosen.only in item.name]
    if chosen.far:
        finalists = [item for item in finalists if far_shape(operators()[item.operator]) is not None]
    figures = FigureRows(chosen.out, "finalists_far" if chosen.far else "finalists", chosen.card)
    examine(finalists, device, chosen.card, count, figures, TimeAllowance(60 * chosen.minutes))


if __name__ == "__main__":
    main()
