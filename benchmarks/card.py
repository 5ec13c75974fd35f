"""Verdicts of a card on rogues and honest kernels, with times beside the seed and seconds by stage.

python -m benchmarks.card --out results
python -m benchmarks.card --out results --operators rmsnorm,softmax
python -m benchmarks.card --out a --card 0 --share 0/2     a card of several, beside others
python -m benchmarks.card --out results --rows a/card_judgements.json b/card_judgements.json
python -m benchmarks.card --only gluon --device model:sm_90 --keep traces.json.gz    traces, to be judged elsewhere
python -m benchmarks.card --only gluon --traces traces.json.gz    with plans of another Triton
"""

import argparse
import gzip
import json
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.figures import FigureRows, Row, TimeAllowance, device_of, share_of
from tests.gpu.benches import Team, measuring
from tests.gpu.contracts import operators
from tests.gpu.honest import honest_kernels
from tests.gpu.judging import Kernel, Traces, measure_job, trace_all, trace_by_operator
from tests.gpu.rogues import Rogue, load_rogues
from workers.protocol import (
    MEASURED_DEADLINE_S,
    Answer,
    CardShare,
    Device,
    Outcome,
    Report,
    ShapeResult,
    TracedVariant,
    TraceReport,
)

REASON_CHARS = 300
NO_KERNEL = frozenset({Outcome.COMPILE_ERROR, Outcome.TRACE_TIMEOUT})
"""Outcomes of honest texts that say nothing of the judge: tunings may ask for more than a card has."""


@dataclass(frozen=True)
class MeasurementSetup:
    """Card to measure on, and its settings.

    Attributes:
        device: The device.
        command: What starts a bench of it.
        benches: That share the card.
        processes: Traces at once; None for one a core.
        repeat: Times that everything is judged.
        related: Whether judgements relate times to those of the baselines.
        carried: Traces of kernels that were made elsewhere, by name.
    """

    device: Device
    command: Sequence[str]
    benches: int
    processes: int | None
    repeat: int = 1
    related: bool = False
    carried: Mapping[str, TraceReport] = field(default_factory=dict)


def judge(kernels: Sequence[Kernel], place: MeasurementSetup, figures: FigureRows, limit_s: float) -> None:
    """Judge kernels, an operator's one after the other; a row a variant, also where we failed or time was over.

    While some are judged others are traced, as where a search works.
    """
    traces, allowance, told = Traces(), TimeAllowance(limit_s), threading.Lock()
    team = Team(place.command, MEASURED_DEADLINE_S)

    def work(group: Sequence[Kernel]) -> None:
        for kernel in group:
            for row in _rows(kernel, traces, place, team, allowance):
                said = f"{kernel.name} {row['outcome']} {row['reason'][:80]} {row.get('wall_s', 0.0):.2f} s"
                with told:
                    figures.add(row, said)

    with closing(team), ThreadPoolExecutor(place.benches) as pool:
        groups = trace_by_operator(kernels, traces, place.device.target, place.processes, place.carried)
        for work_done in [pool.submit(work, group) for group in groups for _ in range(place.repeat)]:
            work_done.result()
    figures.conclude(counts=_counts(figures.rows), benches=place.benches)


def _rows(
    kernel: Kernel, traces: Traces, place: MeasurementSetup, team: Team, allowance: TimeAllowance
) -> Iterator[Row]:
    variants = list(traces.variants(kernel.name))
    if allowance.spent or not variants or not traces.knows(kernel.operator):
        yield {**_start(kernel), **_unjudged(kernel, traces, allowance.spent)}
        return
    for variant in variants:
        started = time.perf_counter()
        answer = team.ask(measure_job(kernel, variant, traces, place.device, related=place.related))
        yield {**_start(kernel), **_judged(kernel, variant, answer), "wall_s": time.perf_counter() - started}


def _start(kernel: Kernel) -> Row:
    kind = "rogue" if isinstance(kernel, Rogue) else "honest"
    return {"kind": kind, "kernel": kernel.name, "operator": kernel.operator, "expected": sorted(_expected(kernel))}


def _expected(kernel: Kernel) -> frozenset[Outcome]:
    return kernel.outcomes if isinstance(kernel, Rogue) else frozenset({Outcome.CORRECT})


def _unjudged(kernel: Kernel, traces: Traces, spent: bool) -> Row:
    """Return the reason why there was nothing to judge."""
    report = traces.reports.get(kernel.name)
    if report is not None and report.outcome is not Outcome.CORRECT:
        return _verdict(kernel, report.outcome, report.reason, report.stage)
    said = [traces.failures[name] for name in _needed(kernel) if name in traces.failures]
    reason = "no time was left" if spent else "; ".join(said) or "nothing came of its trace"
    return {"outcome": "not_judged", "as_expected": None, "stage": None, "reason": reason}


def _needed(kernel: Kernel) -> tuple[str, ...]:
    """List the traces that judging a kernel needs, as `trace_all` names them."""
    return kernel.name, f"reference of {kernel.operator}", f"pacer of {kernel.operator}"


def _judged(kernel: Kernel, variant: TracedVariant, answer: Answer) -> Row:
    start: Row = {"variant": variant.index}
    if not isinstance(answer, Report):
        reason = getattr(answer, "error", answer.kind)
        return {**start, "outcome": "failure", "as_expected": False, "stage": None, "reason": reason}
    return {
        **start,
        **_verdict(kernel, answer.outcome, answer.reason, answer.stage),
        "speedup": None if answer.speedup is None else answer.speedup.model_dump(),
        "shapes": [_shape(item) for item in answer.shapes],
        "checks": {check.name: check.worst for check in answer.checks},
        "stages_s": answer.stages_s,
    }


def _verdict(kernel: Kernel, outcome: Outcome, reason: str, stage: str | None) -> Row:
    is_kernel = isinstance(kernel, Rogue) or outcome not in NO_KERNEL
    expected = outcome in _expected(kernel) if is_kernel else None
    return {"outcome": outcome.value, "as_expected": expected, "stage": stage, "reason": reason[:REASON_CHARS]}


def _shape(item: ShapeResult) -> Row:
    """Times of a shape, and how they compare with the seed's."""
    names = ("shape", "mid_us", "low_us", "high_us", "pacer_us", "baselines_us", "copy_us", "pairs")
    return {**{name: getattr(item, name) for name in names}, "over_pacer": over_pacer(item)}


def over_pacer(item: ShapeResult) -> Row | None:
    """Time over the seed's, which ran beside it; None where nothing was raced."""
    if not item.pacer_us or not item.mid_us or not item.low_us or not item.high_us:
        return None
    return {
        "low": item.low_us / item.pacer_us,
        "mid": item.mid_us / item.pacer_us,
        "high": item.high_us / item.pacer_us,
    }


def join(figures: FigureRows, paths: Iterable[Path], kinds: Sequence[str]) -> None:
    """Join the judgements in files; of a kernel that was judged again the last ones count."""
    for path in paths:
        rows = [row for row in figures.adopt(path)["rows"] if row["kind"] in kinds]
        again = {row["kernel"] for row in rows}
        figures.rows[:] = [row for row in figures.rows if row["kernel"] not in again] + rows
    figures.conclude(counts=_counts(figures.rows))


def _counts(rows: Iterable[Mapping[str, Any]]) -> Row:
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        counts[row["kind"]]["rows"] += 1
        counts[row["kind"]]["as_expected"] += row["as_expected"] is True
        counts[row["kind"]]["not_judged"] += row["as_expected"] is None
    return {kind: dict(found) for kind, found in counts.items()}


def main() -> None:
    """Judge, or join judgements."""
    options = _options()
    if options.rows:
        join(FigureRows(options.out, "card_judgements"), options.rows, options.kinds)
        return
    seat = CardShare(options.card, options.benches)
    command = measuring(options.device, seat, options.data)
    place = MeasurementSetup(
        options.device, command, options.benches, options.processes, options.repeat, options.related, options.traces
    )
    first, step = options.share
    names = set(sorted(options.operators.split(",") if options.operators else operators())[first::step])
    if options.keep:
        keep(_kernels(names, options.kinds, options.only), place, options.keep)
        return
    figures = FigureRows(options.out, "card_judgements", options.card)
    judge(_kernels(names, options.kinds, options.only), place, figures, options.judgements_s)


def keep(kernels: Sequence[Kernel], place: MeasurementSetup, path: Path) -> None:
    """Write the traces of kernels to a file, for a host with another toolchain."""
    found = trace_all(kernels, place.device.target, place.processes)
    said = {name: report.model_dump(mode="json") for name, report in found.reports.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(json.dumps(said).encode()))
    for name in sorted({kernel.name for kernel in kernels} - found.reports.keys()):
        print(f"{name} was not traced: {found.failures.get(name, 'no answer')}", flush=True)


def _carried(path: str) -> Mapping[str, TraceReport]:
    said = json.loads(gzip.decompress(Path(path).read_bytes()))
    return {name: TraceReport.model_validate_json(json.dumps(report)) for name, report in said.items()}


def _kernels(names: set[str], kinds: Sequence[str], only: Sequence[str]) -> list[Kernel]:
    """List the kernels to judge by operator: the seed, which paces all others, then rogues first."""
    found: list[Kernel] = []
    for name in sorted(names):
        mine: list[Kernel] = []
        mine += [item for item in load_rogues().values() if item.operator == name and "rogue" in kinds]
        mine += [item for item in honest_kernels().values() if item.operator == name and "honest" in kinds]
        found += sorted(mine, key=lambda kernel: not kernel.name.endswith("/seed"))
    return [kernel for kernel in found if not only or any(part in kernel.name for part in only)]


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options.add_argument("--kinds", nargs="+", choices=("rogue", "honest"), default=("rogue", "honest"))
    options.add_argument("--operators", help="names with commas; all of the catalogue if not given")
    options.add_argument("--only", nargs="+", default=(), help="judge only kernels with one of these in their names")
    options.add_argument("--keep", type=Path, help="write the kernels' traces to this file; judge nothing")
    options.add_argument("--traces", type=_carried, default={}, help="take the kernels' traces from this file")
    options.add_argument("--repeat", type=int, default=1, help="times that every kernel is judged")
    options.add_argument("--judgements-s", type=float, default=1200.0, help="seconds of judging")
    options.add_argument("--processes", type=int, help="traces at once; one a core if not given")
    options.add_argument("--card", type=int, default=0)
    options.add_argument("--benches", type=int, default=1, help="that share the card and take turns on it")
    options.add_argument("--share", type=share_of, default=(0, 1), help="of the operators: 1/4 is every fourth")
    options.add_argument("--rows", type=Path, nargs="+", help="join judgements, later ones first; judge nothing")
    options.add_argument("--related", action="store_true", help="relate times to baselines: half a minute an operator")
    options.add_argument("--data", type=Path, help="where baselines are kept")
    options.add_argument(
        "--device", type=Device.parse, help="instead of the card's; `model:sm_90` tries the script out"
    )
    chosen = options.parse_args()
    chosen.device = chosen.device or (None if chosen.rows else device_of(chosen.card))
    return chosen


if __name__ == "__main__":
    main()
