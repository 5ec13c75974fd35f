"""Candidates per hour under the full protocol, at five shapes: plans ready, traces alone, both on one machine.

    python -m benchmarks.throughput --out results --phases trace:2 ready:3 both:4

Every phase says how many minutes it may take, shared evenly by the operators. `trace` traces on all cores and keeps
what comes of it; `ready` measures that; `both` traces and measures at once, on all cores but two. Every verdict is a
line of `throughput.jsonl` as soon as it is known, and `throughput.json` is what follows from the lines, written every
ten seconds. Said again with the same folder it goes on: bundles that were judged are not judged again. `--device
model:sm_90` tries the script out where there is no card.

What several benches on a card gain is a ratio of one run, with one, two and four of them at work one after the other:

    python -m benchmarks.throughput --out results --benches 4 --phases trace:2 ready:0.7/1 ready:0.7/2 ready:0.7/4

Several cards of a host are measured on at once by as many processes, each with a folder, a share of the sources and
cores of its own; what follows from all their lines is per card:

    taskset -c 0-15 python -m benchmarks.throughput --out a --card 0 --share 0/2
    taskset -c 16-31 python -m benchmarks.throughput --out b --card 1 --share 1/2
    python -m benchmarks.throughput --out results --lines a/throughput.jsonl b/throughput.jsonl

How many bundles differ in several results, of other hosts for instance, follows from the files:

    python -m benchmarks.throughput --distinct throughput_h100.json throughput_h200.json
"""

import argparse
import json
import statistics
import subprocess
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from threading import Thread
from typing import Any

from benchmarks.card import over_pacer
from benchmarks.figures import FigureRows, LineLog, Row, TimeAllowance, device_of, read_lines, share_of
from benchmarks.landscape import LOOK_S, SAID_S, SPARE_CORES, TracerPool, space_of, supplied
from benchmarks.measurer import MeasurerSlot
from benchmarks.space import RenderedPoint
from service.operators.shapes import all_shapes
from tests.gpu.benches import cores
from tests.gpu.contracts import SHAPES_SEED, operators
from workers.devices.cuda import PAIRS
from workers.errors import WorkerError
from workers.protocol import (
    BenchmarkShape,
    CardShare,
    Device,
    ExecutorFailure,
    Graph,
    MeasureJob,
    Operator,
    Outcome,
    Report,
    TracedVariant,
    TraceJob,
    TraceReport,
)

SHAPES: Mapping[str, Sequence[Mapping[str, int]]] = {
    "rmsnorm": (
        {"M": 4096, "N": 4096},
        {"M": 2048, "N": 7168},
        {"M": 8192, "N": 2048},
        {"M": 3072, "N": 5120},
        {"M": 2048, "N": 8192},
    ),
    "cross_entropy": (
        {"M": 8192, "V": 32000},
        {"M": 4096, "V": 100352},
        {"M": 2048, "V": 128256},
        {"M": 8192, "V": 50304},
        {"M": 4096, "V": 65536},
    ),
}
"""Five shapes of models' layers: about 20 us a call, and about 200."""
PHASES = ("trace", "ready", "both")
GROUPED = ("phase", "operator", "benches", "processes")
"""Fields that the lines of one row of the figures share."""
BACKLOG = 3
"""Bundles that wait for the card, beyond which nothing more is traced: their waiting is part of the latency."""
EXPORT_S = 120.0
"""Seconds for the reference at all shapes; a source has what the protocol gives any trace."""
DRAIN_S = 30.0
"""Seconds at a phase's end for what is under way."""
SAMPLED_MS = 200
"""Milliseconds between two looks at how busy the card is."""
REASON_CHARS = 160
DIGITS = 12
"""Hexadecimal digits of a bundle's identity that are kept: two of 10,000 have the same with a chance of 2e-7."""
Pending = tuple[MeasureJob, TracedVariant]


def contract(name: str) -> Operator:
    """An operator of the catalogue with five benchmark shapes."""
    shapes = tuple(BenchmarkShape(dims=dict(dims)) for dims in SHAPES[name])
    return operators()[name].model_copy(update={"shapes": shapes})


@dataclass
class OperatorCase:
    """One operator: what its candidates are judged by.

    Attributes:
        operator: The contract.
        graphs: The reference at every shape.
        pacer: The first seed, traced.
    """

    operator: Operator
    graphs: tuple[Graph, ...] = ()
    pacer: TracedVariant | None = None

    def job(self, name: str, source: str | None, target: str) -> TraceJob:
        """Trace a source at all shapes, or export the reference."""
        return TraceJob(
            id=name,
            search="throughput",
            candidate=name,
            source=source,
            operator=self.operator,
            shapes=all_shapes(self.operator, SHAPES_SEED),
            target=target,
            **({} if source else {"deadline_s": EXPORT_S}),
        )

    def prepare(self, tracers: TracerPool, target: str) -> None:
        """Export the reference and trace the pacer.

        Raises:
            WorkerError: If one of them cannot be had.
        """
        asked = [
            tracers.start(self.job(name, source, target))
            for name, source in (("reference", None), ("pacer", self.operator.seeds[0]))
        ]
        for report in (future.result() for future in asked):
            if isinstance(report, ExecutorFailure) or report.outcome is not Outcome.CORRECT:
                raise WorkerError(f"{self.operator.name} cannot be judged: {report}"[:500])
            self.graphs = report.graphs or self.graphs
            self.pacer = report.variants[0] if report.variants else self.pacer


class CardUtilisation:
    """Utilisation of the card in per cent, by its own counters; none without `nvidia-smi`."""

    def __init__(self, card: int) -> None:
        self._found: deque[float] = deque()
        command = ["nvidia-smi", f"--id={card}", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
        self._process: subprocess.Popen[str] | None = None
        with suppress(OSError):
            self._process = subprocess.Popen(
                [*command, f"--loop-ms={SAMPLED_MS}"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            Thread(target=self._read, daemon=True).start()

    def taken(self) -> list[float]:
        """Return the samples since the last call."""
        return [self._found.popleft() for _ in range(len(self._found))]

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _read(self) -> None:
        if self._process is not None and self._process.stdout is not None:
            for line in self._process.stdout:
                with suppress(ValueError):
                    self._found.append(float(line))


def processor_ticks() -> tuple[int, int]:
    """Ticks of all processors so far: spent working, and in all."""
    listing = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    ticks = [int(text) for text in listing]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


@dataclass
class Phase:
    """One phase of one operator under way.

    Attributes:
        phase: Its name.
        contest: The operator.
        allowance: Its time.
        processes: Traces at once.
        benches: How many are at work on the card.
        started: When it began.
        ticks: Of the processors then.
        spent: Seconds that benches had waited for their crews then, by order.
        seen: How busy the card was.
        over: Whether its time is over: what comes now was under way, and does not count towards its rate.
    """

    phase: str
    contest: OperatorCase
    allowance: TimeAllowance
    processes: int
    benches: int = 1
    started: float = field(default_factory=time.monotonic)
    ticks: tuple[int, int] = field(default_factory=processor_ticks)
    spent: Counter[str] = field(default_factory=Counter)
    seen: list[float] = field(default_factory=list)
    over: bool = False

    @property
    def name(self) -> str:
        """The operator's."""
        return self.contest.operator.name

    def row(self) -> Row:
        """Return the row of the whole pipeline."""
        now = processor_ticks()
        worked, all_of_them = (after - before for after, before in zip(now, self.ticks, strict=True))
        return {
            **_head("run", self),
            "seconds": time.monotonic() - self.started,
            "processors_busy": worked / max(1, all_of_them),
            "card_busy": statistics.fmean(self.seen) / 100 if self.seen else None,
        }


class Pipeline:
    """Sources in, verdicts out.

    Args:
        stations: Where is measured, all on one device.
        tracers: Benches that trace.
        lines: Where everything is written.
        figures: What follows from it.
        gauge: How busy the card is.
    """

    def __init__(
        self,
        stations: Sequence[MeasurerSlot],
        tracers: TracerPool,
        lines: LineLog,
        figures: FigureRows,
        gauge: CardUtilisation,
    ) -> None:
        self._stations, self._tracers = stations, tracers
        self._device = stations[0].device
        self._lines, self._figures, self._gauge = lines, figures, gauge
        self._tracing: dict[Future[TraceReport | ExecutorFailure], tuple[RenderedPoint, float]] = {}
        self._ready: dict[str, deque[Pending]] = defaultdict(deque)
        self._begun: dict[str, float] = {}
        self._known = {row["bundle"] for row in lines.rows if row["kind"] == "verdict"}
        # What `trace` traced and nobody measured is traced again: plans are not kept from run to run.
        self._texts = {row["digest"] for row in lines.rows if row["kind"] == "trace" and row["phase"] != "trace"}

    def run(self, stretch: Phase, supply: Iterator[RenderedPoint]) -> None:
        """Do a phase until its time is over or there is nothing left; then finish what is under way."""
        self._gauge.taken()
        stretch.spent = self._spent
        if stretch.phase == "both":
            self._ready.clear()  # What was traced before any clock of theirs ran.
        fresh = (written for written in supply if written.digest not in self._texts)
        said, dry = time.monotonic(), stretch.phase == "ready"
        while not stretch.allowance.spent and not (dry and self._idle(stretch)):
            if not dry and self._wants(stretch):
                dry = not self._begin(stretch, next(fresh, None))
                continue
            self._turn(stretch, feeding=stretch.phase != "trace")
            if time.monotonic() - said > SAID_S:
                said = time.monotonic()
                self._note(stretch)
        seconds, stretch.over = self._run(stretch), True
        drain = TimeAllowance(DRAIN_S)
        while (self._tracing or self._waiting) and not drain.spent:
            self._turn(stretch, feeding=False)
        self._note(stretch, seconds)

    def warm(self, contest: OperatorCase) -> None:
        """Have every bench judge the pacer once, before any clock runs: it works out the references, which it keeps."""
        if contest.pacer is not None:
            for number, station in enumerate(self._stations):
                job = self._job(contest, contest.operator.seeds[0], contest.pacer, f"{number:016x}")
                station.send(job, contest.pacer)
        patience = TimeAllowance(DRAIN_S * len(self._stations))
        while self._waiting and not patience.spent:
            for station in self._stations:
                deque(station.collect(LOOK_S), maxlen=0)

    @property
    def _waiting(self) -> bool:
        """Return True if a job has no verdict yet."""
        return any(station.waiting for station in self._stations)

    def _wants(self, stretch: Phase) -> bool:
        full = stretch.phase == "both" and len(self._ready[stretch.name]) >= BACKLOG
        return len(self._tracing) <= stretch.processes and not full

    def _idle(self, stretch: Phase) -> bool:
        waiting = stretch.phase != "trace" and self._ready[stretch.name]
        return not self._tracing and not self._waiting and not waiting

    def _begin(self, stretch: Phase, written: RenderedPoint | None) -> bool:
        """Begin a trace; whether there was something to trace."""
        if written is None:
            return False
        self._texts.add(written.digest)
        job = stretch.contest.job(written.digest[:16], written.source, self._device.target)
        self._tracing[self._tracers.start(job)] = written, time.monotonic()
        return True

    def _turn(self, stretch: Phase, *, feeding: bool) -> None:
        ready, at_work = self._ready[stretch.name], self._stations[: stretch.benches]
        while feeding and ready and (station := min(at_work, key=lambda each: each.waiting)).has_room:
            station.send(*ready.popleft())
        if self._tracing:
            done, _ = wait(self._tracing, LOOK_S, FIRST_COMPLETED)
            for future in done:
                written, begun = self._tracing.pop(future)
                self._take(stretch, written, begun, future.result())
        for station in self._stations:
            for job, _, answer, seconds in station.collect(0.0 if self._tracing else LOOK_S / len(self._stations)):
                self._lines.add(self._verdict(stretch, job, answer, seconds))

    def _take(
        self, stretch: Phase, written: RenderedPoint, begun: float, report: TraceReport | ExecutorFailure
    ) -> None:
        row: Row = {**_head("trace", stretch), "digest": written.digest}
        if isinstance(report, ExecutorFailure):
            self._lines.add({**row, "outcome": "failure", "reason": report.error[:REASON_CHARS]})
            return
        row |= {"outcome": report.outcome.value, "seconds": sum(report.stages_s.values()), "bundles": 0}
        for variant in report.variants:
            if variant.bundle is not None and (identity := variant.bundle.identity) not in self._known:
                self._known.add(identity)
                row["bundles"] += 1
                job = self._job(stretch.contest, written.source, variant, identity)
                self._begun[job.id] = begun
                self._ready[stretch.name].append((job, variant))
        self._lines.add(row)

    def _job(self, contest: OperatorCase, source: str, variant: TracedVariant, identity: str) -> MeasureJob:
        device, pacer = self._device, contest.pacer and contest.pacer.bundle
        paced = device.measures and pacer is not None and pacer.identity != identity
        return MeasureJob(
            id=f"{contest.operator.name}-{identity[:16]}",
            search="throughput",
            candidate=identity,
            variant=variant.index,
            bundle=variant.bundle,
            operator=contest.operator,
            graphs=contest.graphs,
            device=device,
            source=None if device.measures else source,
            pacer=pacer.reduced() if paced and pacer is not None else None,
            related=False,
        )

    def _verdict(self, stretch: Phase, job: MeasureJob, answer: Report | ExecutorFailure, seconds: float | None) -> Row:
        row: Row = {**_head("verdict", stretch), "bundle": job.bundle.identity, "seconds": seconds}
        row["late"] = stretch.over
        row["latency_s"] = time.monotonic() - self._begun[job.id] if stretch.phase == "both" else None
        if isinstance(answer, ExecutorFailure):
            return {**row, "outcome": "failure", "reason": answer.error[:REASON_CHARS]}
        ratios = [over_pacer(item) for item in answer.shapes]
        return {
            **row,
            "outcome": answer.outcome.value,
            "reason": answer.reason[:REASON_CHARS],
            "stage": answer.stage,
            "pairs": [item.pairs for item in answer.shapes],
            "pacer_us": [item.pacer_us for item in answer.shapes],
            "over_pacer": [None if ratio is None else round(ratio["mid"], 5) for ratio in ratios],
            "stages_s": {name: round(spent, 5) for name, spent in answer.stages_s.items()},
        }

    @property
    def _spent(self) -> Counter[str]:
        """Seconds that benches waited for their crews so far, by order."""
        return sum((station.spent_s for station in self._stations), Counter())

    def _run(self, stretch: Phase) -> Row:
        """Run a phase and return its row."""
        return {**stretch.row(), "orders_s": dict(self._spent - stretch.spent)}

    def _note(self, stretch: Phase, row: Row | None = None) -> None:
        """Write down how far it is, and what follows from all lines."""
        stretch.seen += self._gauge.taken()
        self._lines.add(row or self._run(stretch))
        self._figures.rows[:] = summarise(self._lines.rows)
        latest = self._figures.rows[-1] if self._figures.rows else {}
        self._figures.conclude(**overall(self._lines.rows))
        print(json.dumps({name: latest.get(name) for name in ("phase", "operator", "judged", "an_hour")}), flush=True)


def _head(kind: str, stretch: Phase) -> Row:
    """Return the fields that every line begins with."""
    return {
        "kind": kind,
        "phase": stretch.phase,
        "operator": stretch.name,
        "benches": stretch.benches,
        "processes": stretch.processes,
    }


def overall(lines: Sequence[Row]) -> Row:
    """Distinct bundles that have a verdict, in all phases, by operator: how many, and the first digits of each."""
    judged: dict[str, set[str]] = defaultdict(set)
    for row in lines:
        if row["kind"] == "verdict":
            judged[row["operator"]].add(row["bundle"][:DIGITS])
    return {
        "distinct_bundles": {operator: len(found) for operator, found in judged.items()},
        "bundles": {operator: " ".join(sorted(found)) for operator, found in judged.items()},
    }


def distinct(documents: Sequence[Row]) -> Row:
    """Distinct bundles of several results, by operator.

    Raises:
        KeyError: If one does not say which they are, as those of before 2026-11-26 do not.
    """
    judged: dict[str, set[str]] = defaultdict(set)
    for document in documents:
        for operator, found in document["bundles"].items():
            judged[operator].update(found.split())
    return {operator: len(found) for operator, found in judged.items()}


def summarise(lines: Sequence[Row]) -> list[Row]:
    """Summarise the lines: a row per phase, operator, and number of executors and of tracing processes."""
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for line in lines:
        groups[tuple(line[name] for name in GROUPED)].append(line)
    return [{**dict(zip(GROUPED, group, strict=True)), **_summary(rows)} for group, rows in groups.items()]


def _summary(rows: Sequence[Row]) -> Row:
    runs = list({row["session"]: row for row in rows if row["kind"] == "run"}.values())
    traced = [row for row in rows if row["kind"] == "trace"]
    judged = [row for row in rows if row["kind"] == "verdict"]
    seconds = sum(run["seconds"] for run in runs)
    spent_s: Counter[str] = sum((Counter(run.get("orders_s", {})) for run in runs), Counter())
    in_time = sum(not row.get("late", False) for row in judged)
    spent = [row["seconds"] for row in traced if "seconds" in row]
    waited = [row["latency_s"] for row in judged if row["latency_s"] is not None]
    paces = zip(*(row["pacer_us"] for row in judged if all(row.get("pacer_us") or (None,))), strict=True)
    return {
        "seconds": seconds,
        "processors_busy": _shared(runs, "processors_busy"),
        "card_busy": _shared(runs, "card_busy"),
        "traced": len(traced),
        "bundles": sum(row.get("bundles", 0) for row in traced),
        "traces_an_hour": 3600 * len(traced) / seconds if seconds else None,
        "trace_s": _spread(spent),
        "trace_outcomes": dict(Counter(row["outcome"] for row in traced)),
        "judged": len(judged),
        "an_hour": 3600 * in_time / seconds if seconds else None,
        "reached": dict(Counter(reached(row) for row in judged)),
        "outcomes": dict(Counter(row["outcome"] for row in judged)),
        "by_reached": {name: _pace(judged, name) for name in sorted({reached(row) for row in judged})},
        "mean_by_order_s": {order: seconds / max(1, in_time) for order, seconds in spent_s.most_common()},
        "latency_s": _spread(waited),
        "pacer_us": [statistics.median(each) for each in paces],
    }


def reached(row: Mapping[str, Any]) -> str:
    """Return the progress of a candidate: the stage that refused it, or the share of its timing that was run."""
    if row["outcome"] != Outcome.CORRECT:
        return f"refused at {row['stage']}" if row.get("stage") else str(row["outcome"])
    shortened = sum(pairs < PAIRS for pairs in row["pairs"])
    return "timed in full" if not shortened else f"given up at {shortened} of {len(row['pairs'])} shapes"


def _pace(judged: Sequence[Row], name: str) -> Row:
    rows = [row for row in judged if reached(row) == name]
    stages = sorted({stage for row in rows for stage in row.get("stages_s", {})})
    return {
        "judged": len(rows),
        "seconds": _spread([row["seconds"] for row in rows if row["seconds"] is not None]),
        "median_by_stage_s": {
            stage: statistics.median(row.get("stages_s", {}).get(stage, 0.0) for row in rows) for stage in stages
        },
    }


def _shared(runs: Sequence[Row], name: str) -> float | None:
    known = [(run[name], run["seconds"]) for run in runs if run[name] is not None and run["seconds"]]
    return sum(share * seconds for share, seconds in known) / sum(seconds for _, seconds in known) if known else None


def _spread(values: Sequence[float]) -> Row:
    """The median and the 99th percentile; None of nothing."""
    ordered = sorted(values)
    return {
        f"p{per_cent}": ordered[min(len(ordered) - 1, per_cent * len(ordered) // 100)] if ordered else None
        for per_cent in (50, 99)
    }


def main() -> None:
    """Make `throughput.jsonl` and `throughput.json`."""
    options = _options()
    if options.distinct:
        print(distinct([json.loads(path.read_text()) for path in options.distinct]))
        return
    figures = FigureRows(options.out, "throughput", options.card)
    if options.lines:
        rows = [row for path in options.lines for row in read_lines(path)]
        figures.rows += summarise(rows)
        figures.conclude(**overall(rows))
        return
    device = options.device or device_of(options.card)
    names = options.operators.split(",")
    with ExitStack() as stack:
        lines = stack.enter_context(closing(LineLog(options.out / "throughput.jsonl")))
        writers = ProcessPoolExecutor(max(1, min(len(names), cores() // 4)), get_context("spawn"))
        stack.callback(writers.shutdown, cancel_futures=True)
        spaces = {name: writers.submit(space_of, name, device.target, *options.share) for name in names}
        supplies = {name: supplied({name: space}, device.target, writers) for name, space in spaces.items()}
        tracers = stack.enter_context(closing(TracerPool(options.processes or cores())))
        seat = CardShare(options.card, options.benches)
        # One takes as long as the other to import torch and open the card, and references are exported meanwhile.
        hiring = stack.enter_context(ThreadPoolExecutor(options.benches))
        hired = [
            hiring.submit(lambda: stack.enter_context(MeasurerSlot(device, seat, briefly=False)))
            for _ in range(options.benches)
        ]
        contests = [OperatorCase(contract(name)) for name in names]
        for contest in contests:
            contest.prepare(tracers, device.target)
        stations = [each.result() for each in hired]
        gauge = stack.enter_context(closing(CardUtilisation(options.card)))
        flow = Pipeline(stations, tracers, lines, figures, gauge)
        for contest in contests:
            flow.warm(contest)
        for phase, minutes, benches in options.phases:
            processes = options.processes or max(1, cores() - (SPARE_CORES if phase == "both" else 0))
            for contest in contests:
                allowance = TimeAllowance(60 * minutes / len(contests))
                flow.run(
                    Phase(phase, contest, allowance, processes, benches or options.benches),
                    supplies[contest.operator.name],
                )


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    usual = [_phase(each) for each in ("trace:2", "ready:3", "both:4")]
    options.add_argument(
        "--phases", nargs="+", type=_phase, default=usual, help="NAME:MINUTES, or NAME:MINUTES/BENCHES"
    )
    options.add_argument("--operators", default=",".join(SHAPES), help="names with commas")
    options.add_argument("--processes", type=int, help="traces at once; all cores if not given, but two beside a card")
    options.add_argument("--card", type=int, default=0)
    options.add_argument("--benches", type=int, default=1, help="that share the card and take turns on it")
    options.add_argument("--share", type=share_of, default=(0, 1), help="of the sources: 1/4 is the second fourth")
    options.add_argument("--lines", type=Path, nargs="+", help="say what follows from these files, and measure nothing")
    options.add_argument(
        "--distinct", type=Path, nargs="+", help="count the bundles of these results, and measure nothing"
    )
    options.add_argument("--device", type=Device.parse, help="instead of the card's, such as model:sm_90")
    return options.parse_args()


def _phase(text: str) -> tuple[str, float, int | None]:
    """A phase, its minutes, and how many benches are at work, None for all."""
    name, _, rest = text.partition(":")
    if name not in PHASES:
        raise argparse.ArgumentTypeError(f"'{name}' is no phase; known: {', '.join(PHASES)}")
    minutes, _, benches = rest.partition("/")
    return name, float(minutes), int(benches) if benches else None


if __name__ == "__main__":
    main()
