"""Record landscapes: enumerate kernels of some operators, trace them on all cores, measure them on the card meanwhile.

    python -m benchmarks.landscape --out DIR --operators rmsnorm,softmax --count 2000 --minutes 8

One file an operator, `<out>/<operator>.jsonl`, written line by line, and compressed at the end (`.jsonl.gz`) instead.
Said again with the same folder it goes on where it ended. All cards of the first one's class are measured on at once.
Sources with equal plans are measured once. Every benchmark shape is timed with the fewest pairs that have an interval,
beside the first seed; what a kernel puts out is looked at after every timed run, and at one boundary shape.
`--device model:sm_90` tries the script out where there is no card.
"""

import argparse
import gzip
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path

from benchmarks.figures import TimeAllowance
from benchmarks.measurer import MeasurerSlot
from benchmarks.record import machine, versions
from benchmarks.space import ParameterPoint, RenderedPoint, points, written
from service.operators.shapes import boundary_shapes
from tests.gpu.benches import TRACE, Team, cores
from tests.gpu.contracts import operators
from tests.gpu.judging import cards
from workers.errors import WorkerError
from workers.landscape import (
    REASON_CHARS,
    Landscape,
    Line,
    RecordedBundle,
    RecordedSource,
    RecordedTemplate,
    RecordedTime,
    RecordedVariant,
    RecordingSession,
    contract_digest,
    pack,
    read,
    write_line,
)
from workers.protocol import (
    PROTOCOL_VERSION,
    Bundle,
    CardShare,
    Device,
    ExecutorFailure,
    Graph,
    MeasureJob,
    Outcome,
    Readings,
    Report,
    Shape,
    TracedVariant,
    TraceJob,
    TraceReport,
)

OPERATORS = "rmsnorm,softmax,layernorm,swiglu,gelu,matmul"
BACKLOG = 96
"""Bundles that wait for the card, beyond which nothing more is traced: the card comes first."""
DEADLINE_S = 15.0
"""Seconds for one trace; what the compiler takes longer over is no kernel that anybody would search through."""
SPARE_CORES = 2
"""Cores that are left to the card's processes."""
LOOK_S = 0.01
SAID_S = 10.0
"""Seconds between two words on how it goes."""


def shapes_for(name: str) -> tuple[Shape, ...]:
    """Return the shapes to trace: the boundary shape of middle size, with odd extents, and the benchmark shapes."""
    operator = operators()[name]
    boundary = boundary_shapes(operator)
    timed = tuple(Shape(dims=item.dims, weight=item.weight) for item in operator.shapes)
    return (*boundary[(len(boundary) - 1) // 2 :][:1], *timed)


@dataclass
class OperatorRecording:
    """One operator's recording: what is in its file, and what its kernels are judged by.

    Attributes:
        operator: Its name.
        path: The file.
        known: What it holds.
        graphs: The reference at every shape.
        pacer: The first seed's bundle.
        underway: Identities of bundles that wait for their verdict.
    """

    operator: str
    path: Path
    known: Landscape = field(default_factory=Landscape)
    graphs: tuple[Graph, ...] = ()
    pacer: Bundle | None = None
    underway: set[str] = field(default_factory=set)

    def open(self, device: Device, told: dict[str, str]) -> None:
        """Read what is there, mend a line that was cut short, and begin a session; packed files are unpacked.

        Raises:
            ToolMissing: If the file holds something else.
        """
        if not self.path.exists() and (packed := self.path.with_name(f"{self.path.name}.gz")).exists():
            self.path.write_bytes(gzip.decompress(packed.read_bytes()))
        if self.path.exists():
            text = self.path.read_text()
            self.path.write_text(text[: text.rfind("\n") + 1])
            self.known = read(self.path)
        session = RecordingSession(
            operator=self.operator,
            contract=contract_digest(operators()[self.operator]),
            device=device,
            shapes=shapes_for(self.operator),
            protocol_version=PROTOCOL_VERSION,
            versions={**versions(), **told},
            machine=machine(),
            date=datetime.now(UTC).date().isoformat(),
            command=" ".join(["python -m benchmarks.landscape", *sys.argv[1:]]),
        )
        self.add(session)

    def add(self, line: Line) -> None:
        """Write a line."""
        self.known.add(line)
        with self.path.open("a") as file:
            file.write(write_line(line))


def trace_job(id: str, operator: str, source: str | None, target: str) -> TraceJob:
    """Trace a source at the shapes that are recorded, or export the reference."""
    return TraceJob(
        id=id,
        search="landscape",
        candidate=id,
        source=source,
        operator=operators()[operator],
        shapes=shapes_for(operator),
        target=target,
        deadline_s=DEADLINE_S if source else 120.0,
    )


class TracerPool:
    """Benches that trace, as many as there are threads; each thread has its own."""

    def __init__(self, processes: int) -> None:
        self._team = Team(TRACE)
        self._pool = ThreadPoolExecutor(processes)

    def start(self, job: TraceJob) -> "Future[TraceReport | ExecutorFailure]":
        """Begin a trace."""
        return self._pool.submit(self._trace, job)

    def close(self) -> None:
        """End all of them."""
        self._pool.shutdown(cancel_futures=True)
        self._team.close()

    def _trace(self, job: TraceJob) -> TraceReport | ExecutorFailure:
        answer = self._team.ask(job)
        if isinstance(answer, TraceReport | ExecutorFailure):
            return answer
        return ExecutorFailure(error=f"a trace was answered by '{answer.kind}'", transient=True)


class LandscapeRecording:
    """All operators' recordings under way.

    Args:
        files: One an operator, opened.
        stations: Where is measured, all on one device.
        tracers: Benches that trace.
        count: Bundles wanted of each operator.
    """

    def __init__(
        self, files: Sequence[OperatorRecording], stations: Sequence[MeasurerSlot], tracers: TracerPool, count: int
    ) -> None:
        self._files = {file.operator: file for file in files}
        self._stations = stations
        self._device = stations[0].device
        self._tracers = tracers
        self._count = count
        self._tracing: dict[Future[TraceReport | ExecutorFailure], RenderedPoint] = {}
        self._ready: deque[tuple[MeasureJob, TracedVariant]] = deque()
        self.counts: Counter[str] = Counter()
        for file in files:
            file.open(self._device, stations[0].versions)

    def prepare(self) -> None:
        """Export the references and trace the pacers.

        Raises:
            WorkerError: If one of them cannot be had.
        """
        target = self._device.target
        jobs = {
            (name, kind): self._tracers.start(trace_job(f"{kind} of {name}", name, source, target))
            for name in self._files
            for kind, source in (("reference", None), ("pacer", operators()[name].seeds[0]))
        }
        for (name, kind), future in jobs.items():
            report = future.result()
            if isinstance(report, ExecutorFailure) or report.outcome is not Outcome.CORRECT:
                raise WorkerError(f"the {kind} of {name} cannot be had: {report}"[:500])
            if kind == "reference":
                self._files[name].graphs = report.graphs
            else:
                self._files[name].pacer = report.variants[0].bundle

    def run(self, supply: Iterator[RenderedPoint], processes: int, allowance: TimeAllowance) -> None:
        """Record until there is nothing left or the time is over."""
        said_at = time.monotonic()
        dry = False
        while not allowance.spent and not (dry and not self._tracing and not self._ready and not self._measuring):
            while not dry and len(self._tracing) < 2 * processes and len(self._ready) < BACKLOG:
                point = next(supply, None)
                dry = point is None
                if point is not None:
                    self._trace(point)
            self._feed()
            done, _ = wait(self._tracing, LOOK_S, FIRST_COMPLETED)
            for future in done:
                self._take_trace(self._tracing.pop(future), future.result())
            self._collect()
            if time.monotonic() - said_at > SAID_S:
                said_at = time.monotonic()
                print(self._progress(), flush=True)
        print(self._progress(), flush=True)

    @property
    def _measuring(self) -> int:
        """Bundles that the stations know of."""
        return sum(station.waiting for station in self._stations)

    def wanted(self, written: RenderedPoint) -> bool:
        """Return True if a source has to be recorded; also if its verdict was lost."""
        file = self._files[written.point.operator]
        known, found = file.known, file.known.sources.get(written.digest)
        if found is None:
            return len(known.bundles) + len(file.underway) < self._count
        return any(variant.bundle and variant.bundle not in known.bundles for variant in found.variants)

    def _trace(self, written: RenderedPoint) -> None:
        self.counts["begun"] += 1
        name = written.point.operator
        job = trace_job(f"{name}/{written.digest[:16]}", name, written.source, self._device.target)
        self._tracing[self._tracers.start(job)] = written

    def _take_trace(self, written: RenderedPoint, report: TraceReport | ExecutorFailure) -> None:
        file, template = self._files[written.point.operator], written.point.template
        if isinstance(report, ExecutorFailure):
            self.counts["machine failed"] += 1
            return
        if template.id not in file.known.templates:
            file.add(RecordedTemplate(id=template.id, path=template.path, source=template.source))
        self.counts["traced"] += 1
        self.counts[f"traced {report.outcome}"] += 1
        file.add(
            RecordedSource(
                digest=written.digest,
                template=template.id,
                parameters=dict(written.parameters),
                outcome=report.outcome,
                reason=report.reason[:REASON_CHARS],
                stage=report.stage,
                line=report.line,
                variants=tuple(_variant(variant) for variant in report.variants),
                seconds=round(sum(report.stages_s.values()), 3),
            )
        )
        for variant in report.variants:
            self._order(file, written, variant)

    def _order(self, file: OperatorRecording, written: RenderedPoint, variant: TracedVariant) -> None:
        if variant.bundle is None or file.pacer is None:
            return
        identity = variant.bundle.identity
        if identity in file.known.bundles or identity in file.underway:
            self.counts["equal plans"] += 1
            return
        file.underway.add(identity)
        paced = self._device.measures and identity != file.pacer.identity
        job = MeasureJob(
            id=f"{file.operator}-{identity[:16]}",
            search="landscape",
            candidate=written.digest,
            variant=variant.index,
            bundle=variant.bundle,
            operator=operators()[file.operator],
            graphs=file.graphs,
            device=self._device,
            source=None if self._device.measures else written.source,
            pacer=file.pacer.reduced() if paced else None,
            related=False,
        )
        self._ready.append((job, variant))

    def _feed(self) -> None:
        """Tell stations of more, as far as they have room; operators in stretches, as their answers are kept."""
        for station in self._stations:
            while self._ready and station.has_room:
                same = (place for place, item in enumerate(self._ready) if item[0].operator.name == station.latest)
                place = next(same, 0)
                station.send(*self._ready[place])
                del self._ready[place]

    def _collect(self) -> None:
        """Take in what was measured."""
        for station in self._stations:
            for job, variant, answer, seconds in station.collect(0.0 if self._tracing else LOOK_S):
                file = self._files[job.operator.name]
                file.underway.discard(job.bundle.identity)
                if isinstance(answer, ExecutorFailure):
                    self.counts["machine failed"] += 1
                    print(f"{job.id}: {answer.error}", flush=True)
                else:
                    file.add(bundle_line(job, variant, answer, seconds or 0.0))
                    self.counts["judged"] += 1
                    self.counts[f"judged {answer.outcome}"] += 1

    def _progress(self) -> str:
        files = {
            name: f"{len(file.known.sources)} sources {len(file.known.bundles)} bundles"
            for name, file in self._files.items()
        }
        waiting = {"ready": len(self._ready), "sent": self._measuring, "tracing": len(self._tracing)}
        return f"{datetime.now(UTC):%H:%M:%S} {dict(self.counts)} {waiting} {files}"


def _variant(variant: TracedVariant) -> RecordedVariant:
    bundle = variant.bundle
    return RecordedVariant(
        index=variant.index,
        configuration={} if bundle is None else bundle.configuration,
        bundle=None if bundle is None else bundle.identity,
        outcome=variant.outcome,
        reason=variant.reason[:REASON_CHARS],
    )


def bundle_line(job: MeasureJob, variant: TracedVariant, report: Report, seconds: float) -> RecordedBundle:
    """Convert a measurement to its stored form."""
    pairs = zip(job.bundle.plans, variant.readings, strict=True)
    timed_keys = {plan.shape.key for plan in job.bundle.benchmarks}
    return RecordedBundle(
        identity=job.bundle.identity,
        readings={plan.shape.key: _brief(readings) for plan, readings in pairs if plan.shape.key in timed_keys},
        outcome=report.outcome,
        reason=report.reason[:REASON_CHARS],
        stage=report.stage,
        times={
            item.shape: RecordedTime(
                pacer_us=round(base, 4),
                low=round(item.low_us / base, 5),
                mid=round(item.mid_us / base, 5),
                high=round(item.high_us / base, 5),
                pairs=item.pairs,
            )
            for item in report.shapes
            if item.low_us and item.mid_us and item.high_us and (base := item.pacer_us or 1.0)
        },
        seconds=round(seconds, 3),
    )


def _brief(readings: Readings) -> Readings:
    """Rounded where a quotient has many digits."""
    occupancy = None if readings.occupancy is None else round(readings.occupancy, 5)
    return readings.model_copy(update={"programs_per_sm": round(readings.programs_per_sm, 5), "occupancy": occupancy})


def supplied(
    spaces: dict[str, "Future[list[ParameterPoint]]"], target: str, pool: ProcessPoolExecutor
) -> Iterator[RenderedPoint]:
    """Sources to record, one of each operator in turn, written by other processes a little ahead; empties `spaces`."""
    queues: dict[str, deque[ParameterPoint]] = {}
    ahead: deque[Future[RenderedPoint]] = deque()
    while spaces or queues or ahead:
        for name in [name for name, space in spaces.items() if space.done() or not queues]:
            queues[name] = deque(spaces.pop(name).result())
        for name in list(queues) if len(ahead) < BACKLOG else []:
            ahead.append(pool.submit(written, queues[name].popleft(), target))
            if not queues[name]:
                del queues[name]
        if ahead:
            yield ahead.popleft().result()


def space_of(name: str, target: str) -> list[ParameterPoint]:
    """All points of an operator's space; takes seconds."""
    return list(points(operators()[name], target))


def surveyed() -> tuple[Device, list[int]]:
    """The hardware class of this machine's first card, and the numbers of all cards of that class.

    Raises:
        SystemExit: If there is none that is measured on.
    """
    found = [(card.number, str(card.device)) for card in cards() if card.device is not None]
    if not found:
        raise SystemExit("this machine has no card that is measured on")
    return Device.parse(found[0][1]), [number for number, name in found if name == found[0][1]]


def main() -> None:
    """Record, and compress what was recorded."""
    options = _options()
    allowance = TimeAllowance(60 * options.minutes)
    names = options.operators.split(",")
    unknown = set(names) - operators().keys()
    if unknown:
        raise SystemExit(f"there is no operator {', '.join(unknown)}; known: {', '.join(operators())}")
    device, numbers = (options.device, [0]) if options.device else surveyed()
    processes = options.processes or max(1, cores() - SPARE_CORES * len(numbers))
    options.out.mkdir(parents=True, exist_ok=True)
    files = [OperatorRecording(name, options.out / f"{name}.jsonl") for name in names]
    with ExitStack() as stack:
        writers = ProcessPoolExecutor(max(1, min(6, cores() // 2)), get_context("spawn"))
        stack.callback(writers.shutdown, cancel_futures=True)
        spaces = {name: writers.submit(space_of, name, device.target) for name in names}
        tracers = TracerPool(processes)
        stack.callback(tracers.close)
        stations = [stack.enter_context(MeasurerSlot(device, CardShare(number))) for number in numbers]
        recording = LandscapeRecording(files, stations, tracers, options.count)
        recording.prepare()
        supply = supplied(spaces, device.target, writers)
        recording.run(filter(recording.wanted, supply), processes, allowance)
        for file in files:
            print(pack(file.path), flush=True)
            file.path.unlink()


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--operators", default=OPERATORS, help="names with commas")
    options.add_argument("--count", type=int, default=2000, help="bundles of each operator")
    options.add_argument("--minutes", type=float, default=8.0, help="with all preparing")
    options.add_argument("--processes", type=int, help="traces at once; all cores but two a card if not given")
    options.add_argument("--device", type=Device.parse, help="instead of the card's, such as model:sm_90")
    return options.parse_args()


if __name__ == "__main__":
    main()
