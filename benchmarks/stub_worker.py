"""Workers that judge nothing: the real lease loop over a bench that makes up what it says, the same for equal jobs.

A bundle follows from the source and the operator, a time and an outcome from the bundle, so that every verdict in the
archive can be told to be right. Some kernels pass their measurement and fail their confirm. Each job is noted in a
file, so that second sendings can be counted.

    python -m benchmarks.stub_worker REDIS_URL WORKER NOTES [MILLISECONDS [DEVICE]]
"""

import hashlib
import signal
import sys
import time
from pathlib import Path

from workers.main import LeaseLoop, LeasePace
from workers.protocol import (
    JOB,
    Allocate,
    AnyReport,
    Buffer,
    Bundle,
    CheckResult,
    ConfirmJob,
    ExecutorReady,
    FinalJob,
    Graph,
    InputRef,
    Job,
    Kernel,
    Launch,
    MeasureJob,
    MutationReport,
    Operator,
    Outcome,
    Plan,
    Pointer,
    Provenance,
    Ratio,
    Readings,
    Report,
    Shape,
    ShapeResult,
    TracedVariant,
    TraceJob,
    TraceReport,
    Trust,
    View,
    bundle_of,
)
from workers.queue import LeaseClient

DEVICE = "model:sm_90"
TARGET = "sm_90"
LEASE_MS = 4_000
"""Shorter than usual, so that a run with many deaths does not wait most of its time for leases to lapse."""
WRONG_SHARE = 0.2
"""Candidates, by digest, that are not correct."""
REFUTED_SHARE = 0.2
"""Candidates, by digest, that a confirm finds wrong."""
LUCKY_SHARE, LUCK = 0.2, 1.3
"""Candidates, by digest, whose first measurement finds so many times their speed."""
GRID_STEP = 4
RIGHT, WRONG, REFUTED, LUCKY = range(4)
"""Kind of a kernel, the remainder of its grid by `GRID_STEP`: a confirm finds one that is `REFUTED` wrong, and one that
is `LUCKY` slower than its first measurement did."""
BOUNDS = 0.001
"""Relative distance of a measured speedup's bounds from its middle."""
SEED = """
import torch
import triton
import triton.language as tl


@triton.jit
def double_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(y_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=mask), mask=mask)


def double(x):
    y = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256, num_warps=4, num_stages=2)
    return y
"""


def spec(name: str) -> dict[str, object]:
    """An operator of its own for each name, as a request brings it."""
    return {
        "name": name,
        "entry": "double",
        "reference": "def double(x):\n    return x * 2\n",
        "inputs": [{"name": "x", "shape": ["N"], "dtype": "float32"}],
        "outputs": [{"name": "y", "dtype": "float32"}],
        "shapes": [{"N": 1024}, {"N": 4096}],
        "ranges": {"N": [1, 8192]},
        "seeds": [SEED],
    }


def draw(*parts: str) -> float:
    """A number from 0 to 1 that follows from the parts."""
    return int.from_bytes(hashlib.sha256("\n".join(parts).encode()).digest()[:6]) / 2**48


def outcome_of(source: str) -> Outcome:
    """Choose the outcome of a candidate; the seed is correct."""
    wrong = source != SEED and "BLOCK=256, num_warps=4, num_stages=2" not in source and draw(source) < WRONG_SHARE
    return Outcome.WRONG_RESULT if wrong else Outcome.CORRECT


def time_us(bundle: str) -> float:
    """Return the time of a bundle, microseconds."""
    return 5.0 + 10.0 * draw(bundle)


def is_refuted(source: str) -> bool:
    """Return True if a confirm finds a source's bundle wrong."""
    return source != SEED and draw(source, "confirm") < REFUTED_SHARE


def is_lucky(source: str) -> bool:
    """Return True if the first measurement of a source's bundle finds it too fast."""
    return source != SEED and draw(source, "luck") < LUCKY_SHARE


def speedup(bundle: str, over: str, luck: float = 1.0) -> Ratio:
    """Return the measured speedup of a bundle over another."""
    mid = luck * time_us(over) / time_us(bundle)
    return Ratio(low=mid * (1 - BOUNDS), mid=mid, high=mid * (1 + BOUNDS))


def answer(job: Job) -> AnyReport:
    """Answer a job."""
    if isinstance(job, TraceJob):
        return _traced(job)
    return _measured(job) if job.device.measures else _told(job, outcome_of(job.source or ""))


def _measured(job: MeasureJob | ConfirmJob | FinalJob) -> Report:
    """Answer as a card does, which is never sent the source: a wrong kernel shows in its grid."""
    kind = bundle_of(job).plans[0].launches[0].grid[0] % GRID_STEP
    wrong = kind == WRONG or (kind == REFUTED and isinstance(job, ConfirmJob))
    said = _told(job, Outcome.WRONG_RESULT if wrong else Outcome.CORRECT)
    measured: dict[str, object] = {"provenance": Provenance.MEASURED, "trust": Trust.B}
    if not wrong and not isinstance(job, FinalJob):
        over = Ratio(low=1.0, mid=1.0, high=1.0)
        luck = LUCK if kind == LUCKY and isinstance(job, MeasureJob) else 1.0
        over = over if job.pacer is None else speedup(job.subject, job.pacer.identity, luck)
        # The baselines are as fast as the pacer.
        measured |= {"over_pacer": over, "pacer_speedup": Ratio(low=1.0, mid=1.0, high=1.0), "speedup": over}
    if not wrong and isinstance(job, ConfirmJob) and job.incumbent is not None:
        measured["rival"] = speedup(job.subject, job.incumbent.identity)
    return said.model_copy(update=measured)


def _told(job: MeasureJob | ConfirmJob | FinalJob, outcome: Outcome) -> Report:
    examined = isinstance(job, FinalJob)
    time = time_us(job.subject)
    shapes = tuple(
        ShapeResult(shape=plan.shape.key, mid_us=time, low_us=time, high_us=time)
        for plan in bundle_of(job).benchmarks
        if outcome is Outcome.CORRECT and not examined
    )
    return Report(
        kind=job.kind,
        job=job.id,
        search=job.search,
        candidate=job.candidate,
        variant=job.variant,
        bundle=job.subject,
        device=job.device,
        worker="",
        outcome=outcome,
        reason="" if outcome is Outcome.CORRECT else "made up",
        provenance=Provenance.PREDICTED,
        shapes=shapes,
        checks=(CheckResult(name="random_shapes", verdict="passed"),) if examined else (),
    )


def _traced(job: TraceJob) -> TraceReport:
    base = {"job": job.id, "search": job.search, "candidate": job.candidate, "worker": "", "outcome": Outcome.CORRECT}
    graphs = tuple(_graph(shape) for shape in job.shapes) if job.source is None or job.references else ()
    if job.source is None:
        gate = MutationReport(verdict="passed") if job.mutation_testing else None
        return TraceReport(graphs=graphs, gate=gate, **base)
    bundle = make_bundle(job.source, job.operator, job.shapes)
    warps = 2 ** int(6 * draw(job.source, "warps"))
    readings = tuple(_readings(warps, int(16 + 200 * draw(job.source, "registers"))) for _ in job.shapes)
    variant = TracedVariant(index=0, outcome=Outcome.CORRECT, bundle=bundle, readings=readings)
    return TraceReport(variants=(variant,), graphs=graphs, **base)


def _graph(shape: Shape) -> Graph:
    return Graph(
        shape=shape,
        nodes=(),
        outputs=(InputRef(input=0),),
        output_shapes=((shape.dims["N"],),),
        output_dtypes=("float32",),
    )


def kind_of(source: str) -> int:
    """Return the kind of a kernel."""
    if outcome_of(source) is not Outcome.CORRECT:
        return WRONG
    if is_refuted(source):
        return REFUTED
    return LUCKY if is_lucky(source) else RIGHT


def make_bundle(source: str, operator: Operator, shapes: tuple[Shape, ...]) -> Bundle:
    """A bundle of its own for each source and operator."""
    kernel = Kernel(language="ptx", assembly=".visible .entry kernel()", target=TARGET, num_warps=4)
    kind = kind_of(source)
    grid = GRID_STEP * (1 + int(draw(source, operator.digest) * 2**28)) + kind
    plans = tuple(_plan(shape, kernel.digest, grid) for shape in shapes)
    cubins = {kernel.digest: "c" * 64}
    kernels = {kernel.digest: kernel}
    return Bundle(target=TARGET, operator=operator.digest, kernels=kernels, plans=plans, cubins=cubins)


def _plan(shape: Shape, kernel: str, grid: int) -> Plan:
    size = shape.dims["N"]
    pointers = tuple(Pointer(buffer=i, offset_bytes=0, extent_bytes=4 * size, dtype="float32") for i in (0, 1))
    launch = Launch(kernel=kernel, grid=(grid, 1, 1), arguments=pointers, function="double_kernel")
    return Plan(
        shape=shape,
        buffers=(Buffer(id=0, bytes=4 * size, input=0), Buffer(id=1, bytes=4 * size)),
        steps=(Allocate(buffer=1), launch),
        outputs=(View(buffer=1, shape=(size,), strides=(1,), dtype="float32"),),
    )


def _readings(num_warps: int, registers: int) -> Readings:
    return Readings(
        launches=1,
        programs=1024,
        programs_per_sm=7.8,
        num_warps=num_warps,
        registers=registers,
        spill_bytes=0,
        shared_bytes=0,
        occupancy=1.0,
        load_width_bytes=16,
        memory_path="plain",
        tensor_core="none",
        bytes_required=8192,
        persistent=False,
    )


def bench(worker: str, notes: Path, pause_s: float) -> None:
    """Answer jobs on standard input and note each."""
    sys.stdout.write(ExecutorReady(jail="none").model_dump_json() + "\n")
    sys.stdout.flush()
    for line in sys.stdin:
        job = JOB.validate_json(line)
        time.sleep(pause_s)
        with notes.open("a") as file:
            file.write(f"{job.id}\n")
        sys.stdout.write(answer(job).model_copy(update={"worker": worker}).model_dump_json() + "\n")
        sys.stdout.flush()


def main() -> None:
    """Be a worker, or the bench of one."""
    if sys.argv[1] == "bench":
        bench(sys.argv[2], Path(sys.argv[3]), float(sys.argv[4]))
        return
    url, name, notes = sys.argv[1:4]
    device = sys.argv[5] if len(sys.argv) > 5 else DEVICE
    pause_s = str(float(sys.argv[4]) / 1000) if len(sys.argv) > 4 else "0"
    command = (sys.executable, "-m", "benchmarks.stub_worker", "bench", name, notes, pause_s)
    lessee = LeaseClient(url, name, target=TARGET, device=device, lease_ms=LEASE_MS)
    worker = LeaseLoop(lessee, {"trace": command, "measure": command}, LeasePace(pause_s=0.2))
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    worker.run()


if __name__ == "__main__":
    main()
