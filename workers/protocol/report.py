"""Reports: results of jobs, with readings, verdicts and the provenance of figures."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, TypeAdapter

from workers.protocol.base import PROTOCOL_VERSION, WireModel, printable
from workers.protocol.card import CardSheet
from workers.protocol.device import Device
from workers.protocol.graph import Graph
from workers.protocol.operator import MAX_SOURCE_BYTES
from workers.protocol.outcome import Outcome, Provenance, Stage, Trust
from workers.protocol.plan import Bundle
from workers.protocol.symbolic import MAX_SYMBOLIC_PLANS, SymbolicPlan
from workers.protocol.trust import TrustGrounds

REASON_CHARS = 2000
"""Maximum length of a reason: enough for a compiler message, short enough for a prompt."""

MAX_SAMPLES = 1024
"""Maximum number of samples of one side at one shape: four times those of the longest paired timing."""

MOST_REMARKS = 8
"""Maximum number of remarks of a report."""
MOST_COUNTED = 10**60
"""Largest value of a reading: more bytes than any plan can move, and still within a float's range."""

Reason = Annotated[str, Field(max_length=REASON_CHARS), AfterValidator(printable)]
"""A reason. It may quote a candidate, and is shown in terminals, so it holds only printable text."""
Line = Annotated[int, Field(ge=1, le=10**6)]
"""Line number in a candidate's source."""
Index = Annotated[int, Field(ge=0, lt=2**31)]
"""Position of a variant among those of its candidate."""
Seconds = Annotated[float, Field(ge=0.0, le=1e6)]
"""Seconds of a stage; a million is more than any deadline."""
Count = Annotated[int, Field(ge=0, le=MOST_COUNTED)]
Rate = Annotated[float, Field(ge=0.0, le=MOST_COUNTED)]


class LaunchReadings(WireModel):
    """Raw facts of one launch of a plan, with the names and units of `Readings`; times are predicted from them."""

    programs: Count
    num_warps: Count
    occupancy: Rate | None = None
    load_width_bytes: Count | None = None
    spill_bytes: Count | None = None
    tensor_core: Literal["none", "mma", "wgmma"] | None = None
    bytes_moved: Count | None = None
    instructions: dict[str, Count] = {}
    looped: dict[str, Count] = {}
    """The instructions in the innermost loops that access global memory."""
    turn_bytes: Count = 0
    """Bytes that all programs access in one iteration of those loops; 0 without loops."""
    operations: dict[str, Count] = {}
    """Operations of all programs on single elements, as the interpreter counts them: `matrix` (in units of the matrix
    unit's bfloat16 rate), `float`, and `special` such as exponentials. Empty if unknown."""


class Readings(WireModel):
    """Raw facts of one plan, compiled or measured. None where a fact is unknown. DESIGN's list, with units.

    Over several launches registers, shared memory, load width, roles of warps, clusters and the place of sums are those
    of the launch with the most programs;
    `launches`, `programs`, spills and `instructions` are sums.
    """

    launches: Count
    programs: Count
    programs_per_sm: Rate
    num_warps: Count
    registers: Count | None = None
    spill_bytes: Count | None = None
    shared_bytes: Count | None = None
    occupancy: Rate | None = None
    """Share of an SM's warp slots that can be resident, 0 to 1."""
    load_width_bytes: Count | None = None
    """Widest global load a thread issues, in bytes."""
    memory_path: Literal["plain", "async", "bulk"] | None = None
    tensor_core: Literal["none", "mma", "wgmma"] | None = None
    warp_roles: Literal["same", "specialised"] | None = None
    """`specialised` if some warps of a program load and others compute."""
    cluster_size: Count | None = None
    """Thread blocks of a program; more than one share memory as a cluster."""
    accumulators: Literal["none", "registers", "tensor_memory"] | None = None
    """Place of the sums of matrix instructions."""
    bytes_required: Count | None = None
    """Inputs read once plus outputs written once, bytes."""
    bytes_moved: Count | None = None
    """Bytes that launches load and store, without masked lanes; None if unknown."""
    persistent: bool | None = None
    instructions: dict[str, Count] = {}
    """Static instruction counts by class: see `workers.assembler`."""
    by_launch: tuple[LaunchReadings, ...] = ()
    """The readings of each launch, in order."""
    open_barriers: Count | None = None
    """Number of shared-memory barriers that launches initialise and leave open:
    `docs/explanation/how-kernels-are-judged.md`."""


class TracedVariant(WireModel):
    """One variant from a trace: a bundle with readings by plan, or the outcome that stopped it."""

    index: Index
    outcome: Outcome
    reason: Reason = ""
    stage: Stage | None = None
    line: Line | None = None
    bundle: Bundle | None = None
    readings: tuple[Readings, ...] = ()
    predicted_us: dict[str, Annotated[float, Field(ge=0.0)]] = {}
    """Predicted times by benchmark shape, if the job asked for them; the variant was not judged."""
    unpredicted: Reason = ""
    """Reason why times are missing."""


class MutationEntry(WireModel):
    """One answer that an operator's checks were tested with before a search.

    A wrong one is `killed` or has `survived`; it is `equivalent` if it equals the reference in float64 everywhere, and
    `within_rounding` if it differs by less than the output's dtype can represent. Neither counts against the operator.
    A right one has `passed` or is `rejected`. `untried` means that there was no time left.
    """

    name: Annotated[str, Field(max_length=160)]
    kind: Literal["trivial", "mutant", "honest"]
    verdict: Literal["killed", "survived", "equivalent", "within_rounding", "passed", "rejected", "untried"]
    check: str | None = None
    """Name of the check that failed first."""
    cases: int = 0
    """Number of cases (a shape with a draw of inputs) that it was tested in. A mutant's first failure ends its test."""
    failures: int = 0
    """Number of cases in which a check failed."""
    reason: Reason = ""
    """Message of the check that failed a right answer."""


class MutationReport(WireModel):
    """The result of mutation testing: how well an operator's checks tell right answers from wrong ones.

    It is `failed` if a trivial answer survived, if a right one was rejected, or if fewer wrong ones were killed than
    `workers.mutation_testing` demands; `untried` if nothing could be tried, which `reason` explains.
    """

    verdict: Literal["passed", "failed", "untried"]
    reason: Reason = ""
    shapes: tuple[str, ...] = ()
    entries: Annotated[tuple[MutationEntry, ...], Field(max_length=4096)] = ()
    kill_rate: float | None = None
    """Killed over killed and survived, of trivial answers and mutants."""
    seconds: float = 0.0


class TraceReport(WireModel):
    """The result of a trace job: variants, reference graphs, a draft, or one outcome for the whole candidate."""

    kind: Literal["trace"] = "trace"
    job: str
    search: str
    candidate: str | None = None
    worker: str
    protocol_version: int = PROTOCOL_VERSION
    versions: dict[str, str] = {}
    jail: str = ""
    """Layers of the sandbox on that machine, such as `user+mount+pid+net`."""
    outcome: Outcome
    reason: Reason = ""
    stage: Stage | None = None
    line: Line | None = None
    variants: tuple[TracedVariant, ...] = ()
    graphs: tuple[Graph, ...] = ()
    symbolic: Annotated[tuple[SymbolicPlan, ...], Field(max_length=MAX_SYMBOLIC_PLANS)] = ()
    """Symbolic plans that equal the plans traced at the job's shapes, wherever they admit one. `reason` says why others
    are missing."""
    admitted: int = 0
    """Number of the job's shapes that a symbolic plan serves."""
    draft: Annotated[str, Field(max_length=MAX_SOURCE_BYTES)] = ""
    """A candidate that TorchInductor wrote. As untrusted as any: the reference that it comes from is untrusted."""
    gate: MutationReport | None = None
    """Mutation report of the operator; comes with its reference graphs."""
    stages_s: dict[str, Seconds] = {}


Times = Annotated[tuple[float, ...], Field(max_length=MAX_SAMPLES)]


class Samples(WireModel):
    """Samples of one paired timing, in the order of its pairs: microseconds per call."""

    candidate_us: Times
    other_us: Times
    """Times of the pacer or the incumbent."""
    calls: int
    """Number of calls in each sample."""
    clocks_mhz: Annotated[tuple[float, ...], Field(max_length=2 * MAX_SAMPLES)] = ()
    """SM clock before each sample: the candidate's in the order of its pairs, then the other's. Reports of protocol 1
    have one per round, before its last sample."""


class ShapeResult(WireModel):
    """Times of one benchmark shape, microseconds; `low` to `high` is the interval of the candidate's time."""

    shape: str
    readings: Readings | None = None
    pacer_us: float | None = None
    baselines_us: dict[str, float] = {}
    """Times of baselines by name, such as `eager` or `max_autotune`; the best baseline has the least time."""
    copy_us: float | None = None
    """Time in which our own kernel reads and writes as many bytes as a call must, beside the baselines; nothing is
    judged by it. None before the baselines are measured."""
    mid_us: float | None = None
    low_us: float | None = None
    high_us: float | None = None
    pairs: int = 0
    samples_ref: str | None = None
    """Place of another copy of the raw samples; None if they are in the report alone."""
    samples: Samples | None = None
    """Samples of the paired timing against the pacer; None if nothing was measured."""
    rival_samples: Samples | None = None
    """Samples of the paired timing against the incumbent, in a confirm against one."""


class Ratio(WireModel):
    """The speedup of one side over another: the other's time over its own, with its interval.

    Over several shapes it is their weighted geometric mean. Where it was measured, `low` to `high` is one interval of
    that mean, from the paired samples of all shapes together; it is narrower than combining each shape's worst case.
    """

    low: float
    mid: float
    high: float


class CheckResult(WireModel):
    """One check over all shapes it saw: its verdict, and the worst case in the check's own measure."""

    name: str
    verdict: Literal["passed", "failed", "skipped"]
    worst: float | None = None
    detail: str = ""


class Report(WireModel):
    """The result of evaluating one variant on one device.

    `speedup` and `rival` are given by devices that measure, for correct variants only.
    """

    kind: Literal["measure", "confirm", "final"] = "measure"
    job: str
    search: str
    candidate: str
    variant: int
    bundle: str
    device: Device
    worker: str
    protocol_version: int = PROTOCOL_VERSION
    versions: dict[str, str] = {}
    outcome: Outcome
    reason: Reason = ""
    stage: Stage | None = None
    line: Line | None = None
    trust: Trust | None = None
    remarks: Annotated[tuple[Reason, ...], Field(max_length=MOST_REMARKS)] = ()
    """Dangers that the verdict does not cover, one sentence each: on `model`, races within a program and 32-bit offsets
    at shapes that were not executed."""
    grounds: TrustGrounds | None = None
    """The grounds that `trust` follows from, by `workers.protocol.trust.label`."""
    seed: Annotated[str, Field(max_length=128)] | None = None
    """The secret that the inputs of checked runs were drawn from, hexadecimal: drawn for this job alone after the
    bundle was frozen, and useless once it is judged. None if jobs share secrets, as on cards, which compute expected
    answers once for many jobs."""
    provenance: Provenance
    shapes: tuple[ShapeResult, ...] = ()
    over_pacer: Ratio | None = None
    """Pacer's time over the candidate's, from a paired timing. The interval is joint over shapes. None in reports of
    release 0.1.0 and from devices that do not measure."""
    pacer_speedup: Ratio | None = None
    """Best baseline's time over the pacer's, over all shapes. None before the baselines are measured, or where there is
    no baseline."""
    speedup: Ratio | None = None
    """Best baseline's time over the candidate's. The interval is joint over shapes, and covers the paired timing as
    well as the baselines' own spread. None as long as `pacer_speedup` is; devices that do not measure leave it out, and
    the service holds their times against the seed's."""
    rival: Ratio | None = None
    """Incumbent's time over the challenger's, from a confirm against an incumbent: both were timed in pairs, without a
    baseline. The interval is joint over shapes."""
    checks: tuple[CheckResult, ...] = ()
    stages_s: dict[str, Seconds] = {}
    controls: dict[str, float] = {}
    card: CardSheet | None = None
    """Facts of the card that measured it, by its driver; None where nothing was measured."""


AnyReport = Annotated[TraceReport | Report, Field(discriminator="kind")]
REPORT: TypeAdapter[TraceReport | Report] = TypeAdapter(AnyReport, config=WireModel.model_config)
