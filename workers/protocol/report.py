"""Reports: what came back from a job, with readings, verdicts and where the figures come from."""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from workers.protocol.base import PROTOCOL_VERSION, Wire
from workers.protocol.device import Device
from workers.protocol.graph import Graph
from workers.protocol.outcome import Outcome, Provenance, Stage, Trust
from workers.protocol.plan import Bundle

REASON_CHARS = 2000
"""Longest reason kept: enough for a compiler message, short enough for a prompt."""

Reason = Annotated[str, Field(max_length=REASON_CHARS)]


class Readings(Wire):
    """Raw facts of one plan, compiled or measured. None where it is unknown. DESIGN's list, with units.

    Over several launches registers, shared memory and load width are those of the launch with the most programs;
    `launches`, `programs`, spills and `instructions` are sums.
    """

    launches: int
    programs: int
    programs_per_sm: float
    num_warps: int
    registers: int | None = None
    spill_bytes: int | None = None
    shared_bytes: int | None = None
    occupancy: float | None = None
    """Share of an SM's warp slots that can be resident, 0 to 1."""
    load_width_bytes: int | None = None
    """Widest global load a thread issues, in bytes."""
    memory_path: Literal["plain", "async", "bulk"] | None = None
    tensor_core: Literal["none", "mma", "wgmma"] | None = None
    bytes_required: int | None = None
    """Inputs read once plus outputs written once, bytes."""
    bytes_moved: int | None = None
    """Bytes that launches load and store, masked lanes left out; None where unknown."""
    persistent: bool | None = None
    instructions: dict[str, int] = {}
    """Static instruction counts by class: see `workers.assembler`."""


class TracedVariant(Wire):
    """One variant out of a trace: a bundle with readings by plan, or the outcome that stopped it."""

    index: int
    outcome: Outcome
    reason: Reason = ""
    stage: Stage | None = None
    line: int | None = None
    bundle: Bundle | None = None
    readings: tuple[Readings, ...] = ()


class TraceReport(Wire):
    """What came back from a trace job: variants, or reference graphs, or one outcome for the whole candidate."""

    kind: Literal["trace"] = "trace"
    job: str
    search: str
    candidate: str | None = None
    worker: str
    protocol_version: int = PROTOCOL_VERSION
    versions: dict[str, str] = {}
    jail: str = ""
    """What the jail could provide on that machine, such as `user+mount+pid+net`."""
    outcome: Outcome
    reason: Reason = ""
    stage: Stage | None = None
    line: int | None = None
    variants: tuple[TracedVariant, ...] = ()
    graphs: tuple[Graph, ...] = ()
    stages_s: dict[str, float] = {}


class ShapeResult(Wire):
    """Times of one benchmark shape, microseconds; `low` to `high` is the interval of the candidate's time."""

    shape: str
    readings: Readings | None = None
    pacer_us: float | None = None
    baselines_us: dict[str, float] = {}
    mid_us: float | None = None
    low_us: float | None = None
    high_us: float | None = None
    pairs: int = 0
    samples_ref: str | None = None


class CheckResult(Wire):
    """One check over all shapes it saw: its verdict, and the worst case in the check's own measure."""

    name: str
    verdict: Literal["passed", "failed", "skipped"]
    worst: float | None = None
    detail: str = ""


class Report(Wire):
    """What came back from judging one variant on one device."""

    kind: Literal["measure", "confirm"] = "measure"
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
    line: int | None = None
    trust: Trust | None = None
    provenance: Provenance
    shapes: tuple[ShapeResult, ...] = ()
    checks: tuple[CheckResult, ...] = ()
    stages_s: dict[str, float] = {}
    controls: dict[str, float] = {}


AnyReport = Annotated[TraceReport | Report, Field(discriminator="kind")]
REPORT: TypeAdapter[TraceReport | Report] = TypeAdapter(AnyReport, config=Wire.model_config)
